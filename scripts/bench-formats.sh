#!/bin/bash
# Measures how fast weights are read, and how much memory that takes; results/formats/README.md is the output.
#   one core: tests/offline/decode_speed.c. The whole command: a sparse file as large as a 70B model, with its peak memory.
# usage: scripts/bench-formats.sh [FOLDER for files, default a new one in /tmp]
set -eu
cd "$(dirname "$0")/.."
make -s all build/tests/offline/decode_speed build/tests/offline/peak_memory >&2
work=$(mktemp -d "${1:-/tmp}/tern-bench-XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "# Reading weights: speed and memory"
echo
echo "\`scripts/bench-formats.sh\` on $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -1), $(nproc) cores, shared with other work; $(gcc --version | head -1)."
echo
echo "Processor time of one core, files in the page cache, K = 8192, groups of 128, GB = 1e9 bytes of packed weights, zero points and scales. digest: decode"
echo "and XXH3-128. inspect: decode and count. unpack: decode, digest, count, and compare with the second decode. shard: cut, decode and"
echo "compare at 2 ranks, along both axes. The first two: median of 5."
echo
echo '```'
build/tests/offline/decode_speed "$work" 64
echo '```'
echo
echo "Sparse files with the layers of a Llama 70B (q, k, v, o, gate, up, down of each block), on $(nproc) cores: 80 blocks in layout (i), 2 blocks"
echo "of GPTQ with 4 bits. Beyond the page cache: anonymous pages of the process. Resident in all: with the file's pages that are mapped."
rm -f "$work"/quantize_config.json
for model in "80 ternary" "2 gptq"; do
    # shellcheck disable=SC2086  # words
    python3 tests/offline/sparse_model.py "$work/sparse.safetensors" $model
    echo
    echo '```'
    ls -ls --block-size=1 "$work/sparse.safetensors" | awk -v m="$model" '{ printf "%s: %.2f GB, %.3f GB on disk\n", m, $6 / 1e9, $1 / 1e9 }'
    for command in "inspect" "reconcile --tp 2"; do
        # shellcheck disable=SC2086  # words
        build/tests/offline/peak_memory build/tune $command --quiet "$work/sparse.safetensors" 2>&1 >"$work/out" | sed "s/^/$command: /"
        grep -E '^[A-Z_]*: (OK|FAIL|SKIPPED)|^safetensors' "$work/out" | cut -c1-150 | sed 's/^/    /'
    done
    echo '```'
done
