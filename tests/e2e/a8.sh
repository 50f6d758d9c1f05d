#!/bin/bash
# linear-a8 and linear-e4m3 without a GPU: planned beside linear-a16 in one database, named wherever a row is shown, never the answer to a
# question about another op; exported with their two launches, which tern_rt makes on the emulator.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export CUDA_VISIBLE_DEVICES= # a machine with a GPU plans too

. tests/lib.sh

plan=("$tune" --gpu h200 --shapes smoke --layers wide --formats "ternary-g128,gptq4-g32-asym" --m 128 --db "$work/a.db" --cache "$work/cache")
allow=(--gpu h200 --allow-planned --cache "$work/cache")
own=(-std=c17 -g -O1 -Wall -Wextra -Wshadow -Werror -D_GNU_SOURCE -Iharness -Iharness/runtime -Itemplates/include -Itests/runtime)
libraries=(build/libtern.a -llua5.4 -lsqlite3 -ljansson -lxxhash -lzstd -ldl -lpthread -lm)
select=("$tune" select --gpu h200 --db "$work/a.db" --format ternary-g128 --m 128 --n 384 --k 256)

check "a8 is planned" exits 0 "linear-a8: activations are quantised to 8 bits first" "${plan[@]}" --activations int8 --budget 5
check "the way on names the type" grep -qF -- "--activations int8" "$work/said"
check "its kernels are packed" exits 0 "" "$tune" export "${allow[@]}" --db "$work/a.db" -o "$work/x"
check "all of them" grep -q '"missing": 0' "$work/x/manifest.json"

# ---- both launches on the emulator: of the answers with exact scales, of that for ternary weights with rounded ones, and of e4m3 ----
change() { python3 -Ic 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.executescript(sys.argv[2])' "$1" "$2"; }
answers="id IN (SELECT candidate FROM build WHERE id IN (SELECT build FROM winner))"
for kind in exact rounded; do
    cp "$work/a.db" "$work/$kind.db"
done
change "$work/exact.db" "UPDATE OR REPLACE candidate SET params = replace(params, 'ROUND_SCALES=1', 'ROUND_SCALES=0') WHERE $answers"
change "$work/rounded.db" "DELETE FROM winner WHERE problem IN (SELECT id FROM problem WHERE format LIKE 'gptq%');
    UPDATE OR REPLACE candidate SET params = replace(params, 'ROUND_SCALES=0', 'ROUND_SCALES=1') WHERE $answers"
e4m3=("${plan[@]/%a.db/e4m3.db}" --activations e4m3)
check "e4m3 is planned" exits 0 "linear-e4m3: activations are quantised to 8 bits first" "${e4m3[@]}" --budget 5
for kind in exact rounded e4m3; do
    folder=$work/$kind
    op=$([ "$kind" = e4m3 ] && echo linear-e4m3 || echo linear-a8)
    check "$kind: it is exported" exits 0 "" "$tune" export "${allow[@]}" --db "$work/$kind.db" -o "$folder"
    check "$kind: the kernels' stand-ins are built" gcc "${own[@]}" -I"$folder" tests/runtime/emulate_kernels.c "${libraries[@]}" -o "$folder/emulate_kernels"
    mkdir -p "$folder/e"
    check "$kind: and packed" env TERN_HOME="$PWD" "$folder/emulate_kernels" "$folder/e/tern_kernels.bin" "$folder/e"
    check "$kind: the test is built" gcc "${own[@]}" -I"$folder" tests/runtime/test_a8.c tests/runtime/emulated.c "${libraries[@]}" -o "$folder/test_a8"
    "$folder/test_a8" "$folder/e" "$kind"
    check "$kind: the example is built" gcc "${own[@]}" -I"$folder" examples/c/layer.c tests/runtime/device_emulated.c tests/runtime/emulated.c "${libraries[@]}" -o "$folder/layer"
    check "$kind: examples/c is right" exits 0 " 0 of " "$folder/layer" "$folder/e" ternary-g128 100 264 384 "$op"
done
check "e4m3: with zero points too" exits 0 " 0 of " "$work/e4m3/layer" "$work/e4m3/e" gptq4-g32-asym 128 136 256 linear-e4m3
check "e4m3 is no answer for another op" exits 1 "holds no linear-a8" "$work/e4m3/layer" "$work/e4m3/e" ternary-g128 100 264 384 linear-a8
check "the manifest says which rounds" grep -q '"rounds_scales": true' "$work/rounded/manifest.json"
check "and which does not" sh -c "! grep -q '\"rounds_scales\": true' '$work/exact/manifest.json'"

# ---- beside the other op ----
check "select of the other op finds none" exits 1 "" "${select[@]}"
check "a16 joins the database" exits 0 "wgmma-tile" "${plan[@]}" --templates wgmma-tile --budget 5
check "a table names the op of one of two" exits 0 "linear-a8: " "$tune" show --db "$work/a.db"
check "one heading a format is of a8" same "$(grep -c '^linear-a8: ' "$work/said")" 2
check "both ops are rows of the CSV" same "$("$tune" show --db "$work/a.db" --csv | cut -d, -f2 | sort | uniq | tr '\n' ' ')" "linear-a16 linear-a8 op "
check "JSON names the op" same "$("$tune" show --db "$work/a.db" --json | grep -c '"op": "linear-a8"')" 2
check "select answers a8 when asked" exits 0 "prologue   tern_wgmma_a8_quantise, grid 128, block 256: launched first" "${select[@]}" --activations int8
check "with its kernel" grep -q "^template *wgmma-a8" "$work/said"
check "and in JSON" sh -c "${select[*]} --activations int8 --json | grep -q '\"entry\": \"tern_wgmma_a8_quantise\"'"
check "without being asked it answers a16" exits 0 "wgmma-tile" "${select[@]}"
check "one table holds both ops" exits 0 "" "$tune" export "${allow[@]}" --db "$work/a.db" -o "$work/out"
check "as families of their own" same "$(grep -oE '^    \{"linear-a(8|16)"' "$work/out/tern_dispatch.h" | tr -dc '0-9\n' | sort -n | tr '\n' ' ')" "8 8 16 16 "
check "report names the op" exits 0 "" "$tune" report --gpu h200 --db "$work/a.db" -o "$work/report"
check "in its page" grep -q "linear-a8" "$work/report/index.html"
exit 0
