#!/bin/bash
# Fuzzes containers, configs, decoders and conversion under ASan and UBSan from valid seeds (targets: tests/fuzz/*.c).
# usage: fuzz.sh [SECONDS [TARGET...]]: seconds for each target, 6 if not given
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "needs python3" && exit 77; }
seconds=${1:-6}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- checkpoint container config convert decode lua
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
memory=$work/files # folders that the targets write to: in memory where that is possible
[ -w /dev/shm ] && memory=$(mktemp -d /dev/shm/tern-fuzz.XXXXXX) && trap 'rm -rf "$work" "$memory"' EXIT
lua=$(pkg-config --cflags lua5.4 2>/dev/null || echo -I/usr/include/lua5.4)
flags="-O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -D_GNU_SOURCE -std=c17 -Iharness -Itests/fuzz $lua"
echo 'int LLVMFuzzerTestOneInput(const char *d, long n); int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }' >"$work/t.c"
# shellcheck disable=SC2086  # flags are words
clang $flags -fsanitize=fuzzer "$work/t.c" -o "$work/t" 2>/dev/null || { echo "needs clang with libFuzzer" && exit 77; }

# What the targets are made of, compiled once.
mkdir "$work/seeds" "$work/obj" || exit 1
export flags work
printf '%s\n' harness/core/*.c harness/formats/*.c harness/config/*.c |
    xargs -P "$(nproc)" -I F sh -c 'clang $flags -c F -o "$work/obj/$(echo F | tr / _).o"' || exit 1
ar rcs "$work/libtern.a" "$work"/obj/*.o || exit 1
PYTHONDONTWRITEBYTECODE=1 python3 tests/fuzz/seeds.py "$work/seeds" || exit 1

failures=0
for target; do
    mkdir -p "$work/$target" "$memory/$target"
    # shellcheck disable=SC2086
    clang $flags -fsanitize=fuzzer "tests/fuzz/$target.c" "$work/libtern.a" -llua5.4 -ljansson -lxxhash -lm -lpthread -o "$work/fuzz-$target" || exit 1
    FUZZ_DIR=$memory/$target "$work/fuzz-$target" -max_total_time="$seconds" -max_len=8192 -timeout=20 -rss_limit_mb=1536 \
        -artifact_prefix="build/fuzz-$target-" -print_final_stats=1 "$work/$target" "$work/seeds/$target" >"$work/log" 2>&1
    status=$?
    runs=$(awk '/stat::number_of_executed_units/ { print $2 }' "$work/log")
    if [ "$status" = 0 ] && [ "${runs:-0}" -gt 50 ]; then
        echo "ok fuzz: $target"
        echo "# $target: $runs executions in $seconds s, $(awk '/ cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") c = $(i + 1) } END { print c }' "$work/log") edges"
    else
        echo "not ok fuzz: $target: exit $status after ${runs:-0} executions; the input is build/fuzz-$target-*"
        tail -40 "$work/log"
        failures=$((failures + 1))
    fi
done
exit $((failures > 0))
