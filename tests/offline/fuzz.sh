#!/bin/bash
# Fuzzes the readers of checkpoints under ASan and UBSan from valid seeds. usage: fuzz.sh [SECONDS], 10 if not given
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "needs python3" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags="-O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -D_GNU_SOURCE -std=c17 -Iharness"
echo 'int LLVMFuzzerTestOneInput(const char *d, long n); int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }' >"$work/t.c"
# shellcheck disable=SC2086  # flags are words
clang $flags "$work/t.c" -o "$work/t" 2>/dev/null || { echo "needs clang with libFuzzer" && exit 77; }
# shellcheck disable=SC2086
clang $flags tests/fuzz/checkpoint.c harness/formats/*.c harness/core/*.c -ljansson -lxxhash -lm -lpthread -o "$work/fuzz" || exit 1
mkdir "$work/seeds" "$work/corpus" "$work/files"
PYTHONDONTWRITEBYTECODE=1 python3 tests/fuzz/seeds.py "$work/seeds" || exit 1
FUZZ_DIR=$work/files "$work/fuzz" -max_total_time="${1:-10}" -max_len=8192 -timeout=10 -rss_limit_mb=1024 \
    -artifact_prefix=build/fuzz- -print_final_stats=1 "$work/corpus" "$work/seeds" >"$work/log" 2>&1
status=$?
runs=$(awk '/stat::number_of_executed_units/ { print $2 }' "$work/log")
if [ "$status" = 0 ] && [ "${runs:-0}" -gt 100 ]; then
    echo "ok fuzz: checkpoints"
    echo "# $runs executions in ${1:-10} s, $(awk '/ cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") c = $(i + 1) } END { print c }' "$work/log") edges"
else
    echo "not ok fuzz: checkpoints: exit $status after ${runs:-0} executions; the input is build/fuzz-*"
    tail -40 "$work/log"
    exit 1
fi
