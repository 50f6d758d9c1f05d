#!/bin/bash
# linear-a8 without a GPU: planned beside linear-a16 in one database, named wherever a row is shown, in no exported table, never
# the answer to a question about the other op.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export CUDA_VISIBLE_DEVICES= # a machine with a GPU plans too

. tests/lib.sh

plan=("$tune" --gpu h200 --shapes smoke --layers wide --formats ternary-g128 --m 128 --db "$work/a.db" --cache "$work/cache")
select=("$tune" select --gpu h200 --db "$work/a.db" --format ternary-g128 --m 128 --n 384 --k 256)

check "a8 is planned" exits 0 "linear-a8: activations are quantised to 8 bits first" "${plan[@]}" --activations int8 --budget 15
check "the way on names the type" grep -qF -- "--activations int8" "$work/said"
check "export has nothing then" exits 2 "1 of 1 winners are left out of the table" "$tune" export --gpu h200 --db "$work/a.db" --allow-planned -o "$work/none"
check "nothing is written" test ! -e "$work/none"
check "select of the other op finds none" exits 1 "" "${select[@]}"
check "a16 joins the database" exits 0 "wgmma-tile" "${plan[@]}" --templates wgmma-tile --budget 15
check "a table names the op of one of two" exits 0 "linear-a8: " "$tune" show --db "$work/a.db"
check "one heading is of a8" same "$(grep -c '^linear-a8: ' "$work/said")" 1
check "both ops are rows of the CSV" same "$("$tune" show --db "$work/a.db" --csv | cut -d, -f2 | sort | tr '\n' ' ')" "linear-a16 linear-a8 op "
check "JSON names the op" same "$("$tune" show --db "$work/a.db" --json | grep -c '"op": "linear-a8"')" 1
check "select answers a8 when asked" exits 0 "linear-a8: the template's prologue is launched first" "${select[@]}" --activations int8
check "with its kernel" grep -q "^template *wgmma-a8" "$work/said"
check "and in JSON" sh -c "${select[*]} --activations int8 --json | grep -q '\"op\": \"linear-a8\"'"
check "without being asked it answers a16" exits 0 "wgmma-tile" "${select[@]}"
check "export leaves a8 out" exits 0 "1 of 2 winners are left out of the table" "$tune" export --gpu h200 --db "$work/a.db" --allow-planned -o "$work/out"
check "the header has a16" grep -q '"linear-a16"' "$work/out/tern_dispatch.h"
check "and no a8" sh -c "! grep -q 'linear-a8\"\|wgmma_a8' '$work/out/tern_dispatch.h' '$work/out/manifest.json'"
check "report names the op" exits 0 "" "$tune" report --gpu h200 --db "$work/a.db" -o "$work/report"
check "in its page" grep -q "linear-a8" "$work/report/index.html"
