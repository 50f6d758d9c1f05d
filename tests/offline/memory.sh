#!/bin/bash
# A few layers as large as those of a 70B model, in a sparse file: no command may hold more than 300 MB beyond the page cache.
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "needs python3" && exit 77; }
make build/tests/offline/peak_memory >/dev/null || exit 1
tune=${TUNE:-$PWD/build/tune}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for format in ternary gptq; do
    PYTHONDONTWRITEBYTECODE=1 python3 tests/offline/sparse_model.py "$work/s.safetensors" 1 $format
    for command in "inspect" "reconcile --tp 8"; do
        # shellcheck disable=SC2086  # words
        said=$(build/tests/offline/peak_memory "$tune" $command "$work/s.safetensors" 2>&1 >/dev/null | grep 'page cache')
        mb=$(sed -n 's/.* \([0-9]*\) MB beyond the page cache.*/\1/p' <<<"$said")
        if [ "${mb:-999}" -lt 300 ] && grep -q 'exit 0$' <<<"$said"; then
            echo "ok memory: $command, $format: $said"
        else
            echo "not ok memory: $command, $format: $said"
            status=1
        fi
    done
done
exit $status
