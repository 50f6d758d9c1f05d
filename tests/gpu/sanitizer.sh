#!/bin/bash
# `tune verify --backend cuda --sanitize` on a real GPU: memcheck, racecheck and synccheck find what is planted, even where every result is
# right, and winners are clean. TERN_GPU names the description in configs/gpus (default h200).
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
gpu=${TERN_GPU:-h200}
export TERN_HOME=${TERN_HOME:-$PWD}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh

plant "$work/home" tests/gpu/planted
planted() { # values of FAULT: all of them under the tools, on one shape
    sed "s/values = { 0, 1, .* }, default = 0, doc = \"which/values = { $1 }, default = 0, doc = \"which/; s/values = { 0, 1 }, default = 0, doc = \"0: every/values = { 0 }, default = 0, doc = \"0: every/" \
        tests/gpu/planted/space.lua >"$work/home/templates/planted/space.lua"
    TERN_HOME=$work/home "$tune" verify --backend cuda --gpu "$gpu" --sanitize --templates planted --formats ternary-g128 --all --shapes 1
}
found() { # FAULT, text
    awk -v fault="FAULT=$1 " '/^FAILED/ { mine = index($0, fault) } mine' "$work/report" | grep -q "$2"
}
check "planted errors: exit 1" exits 1 "4 of 5 candidates failed" planted "0, 5, 14, 15, 16"
cp "$work/said" "$work/report"
sed 's/^/# /' "$work/report"
check "memcheck names the write behind y" found 5 "memcheck: Invalid __global__ write of size 2"
check "memcheck names a read that harms no result" found 15 "memcheck: Invalid __global__ read of size 2"
check "racecheck names a race that harms no result" found 14 "racecheck: .*[Rr]ace"
check "synccheck names a barrier that harms no result" found 16 "synccheck: Barrier error"
check "and the kernel" found 14 "tern_planted"
check "the right one is clean" same "$(grep -c "^FAILED.*FAULT=0 " "$work/report")" 0

[ -z "${TERN_CEILINGS:-}" ] || cp "$TERN_CEILINGS" "$work/t.db"
"$tune" --gpu "$gpu" --shapes smoke --layers wide --m "1,17" --budget 10s --db "$work/t.db" --cache "$work/cache" --require-gpu >/dev/null 2>&1
check "a run has winners" same $? 0
check "the winners are clean under all three" exits 0 "compute-sanitizer synccheck: " "$tune" verify --backend cuda --gpu "$gpu" --db "$work/t.db" --sanitize --shapes 3
sed 's/^/# /' "$work/said"
check "the default of every template is clean" exits 0 "compute-sanitizer synccheck: " "$tune" verify --backend cuda --gpu "$gpu" --sanitize --per-template 0 \
    --formats "ternary-g128,gptq4-g128" --shapes 4
sed 's/^/# /' "$work/said"
