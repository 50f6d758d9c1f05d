#!/bin/bash
# tune compare: the same data twice, a planted slow-down, missing rows, other policies and devices, older files, the committed
# releases, pictures. The database is of invented rows.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
writer=build/tests/test_output_export
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh
edit() { python3 -Ic 'import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.executescript(sys.argv[2]); db.commit()' "$work/$1" "$2"; }

[ -x "$writer" ] || make "$writer" >/dev/null || exit 1
"$writer" --write-database "$work/a.db" || exit 1
"$writer" --write-database "$work/planned.db" planned || exit 1
for name in slow lost device; do cp "$work/a.db" "$work/$name.db"; done
edit slow.db "UPDATE winner SET us = us * 1.05, us_lo = us_lo * 1.05, us_hi = us_hi * 1.05 WHERE layer = 'down' AND problem =
    (SELECT id FROM problem WHERE format = 'gptq4-g128' AND m = 16 AND k = 18944)"
edit lost.db "DELETE FROM winner WHERE layer = 'o' AND problem IN (SELECT id FROM problem WHERE m = 1)"
edit device.db "UPDATE device SET name = 'another card'"

check "the same database" exits 0 "112 problems: 112 same" "$tune" compare "$work/a.db" "$work/a.db"
check "a planted slow-down of 5 %" exits 1 "1 slower, 111 same" "$tune" compare "$work/a.db" "$work/slow.db"
check "is named with its size" grep -qE '^  down +16 .* \+5\.0 % .* slower$' "$work/said"
check "the table has at most 80 columns" sh -c "[ \$(wc -L <'$work/said') -le 85 ] && ! grep -v '^ *hint' '$work/said' | grep -q '.\{81\}'"
check "alone with --changed" sh -c "'$tune' compare '$work/a.db' '$work/slow.db' --changed 2>/dev/null | grep -cE '^  (qkv|o|gate_up|down) ' | grep -qx 1"
check "a threshold lets it pass" exits 0 "112 same" "$tune" compare "$work/a.db" "$work/slow.db" --threshold 8%
check "the other way round nothing fails" exits 0 "1 faster" "$tune" compare "$work/slow.db" "$work/a.db"
check "missing rows fail" exits 1 "2 missing" "$tune" compare "$work/a.db" "$work/lost.db"
check "new rows do not" exits 0 "2 new" "$tune" compare "$work/lost.db" "$work/a.db"
check "planned rows are no times" exits 1 "112 missing" "$tune" compare "$work/a.db" "$work/planned.db"
check "other devices are not compared, and said" exits 2 "Not compared: rows of fake device in A and of another card in B" "$tune" compare "$work/a.db" "$work/device.db"
check "JSON" sh -c "'$tune' compare '$work/a.db' '$work/slow.db' --json 2>/dev/null | python3 -c 'import json, sys
c = json.load(sys.stdin)
slow = [p for p in c[\"problems\"] if p[\"verdict\"] == \"slower\"]
assert len(c[\"problems\"]) == 112 and c[\"passed\"] is False and c[\"counts\"][\"slower\"] == 1, c
assert slow[0][\"layer\"] == \"down\" and abs(slow[0][\"ratio\"] - 1.05) < 1e-6 and slow[0][\"ratio_lo\"] > 1.02, slow'"

mkdir -p "$work/rel/h200"
"$tune" show --db "$work/a.db" --csv >"$work/rel/h200/winners.csv"
check "a database against a release" exits 0 "112 same" "$tune" compare "$work/a.db" "$work/rel"
sed 's/$/graph\/cold/; 1s/graph.cold$//' "$work/rel/h200/winners.csv" >"$work/hot.csv"
sed 's/$/graph\/cold\/cool/; 1s/graph.cold.cool$//' "$work/rel/h200/winners.csv" >"$work/cool.csv"
check "other policies are not compared, and said" exits 2 "policy graph/cold in A and graph/cold/cool in B" "$tune" compare "$work/hot.csv" "$work/cool.csv"
sed '2,57s/.cool$//' "$work/cool.csv" >"$work/half.csv"
check "half of them" exits 0 "56 same, 56 other policy" "$tune" compare "$work/hot.csv" "$work/half.csv"
echo '{"device": {"gpu": "h200", "name": "NVIDIA H200", "driver": "1"}, "policies": ["small", "graph/cold"]}' >"$work/rel/h200/environment.json"
cut -d, -f1-18 "$work/rel/h200/winners.csv" >"$work/old.csv" && mv "$work/old.csv" "$work/rel/h200/winners.csv"
check "an older release says what it lacks, its environment the policy" exits 2 "policy graph/cold in A and graph/cold/cool in B" "$tune" compare "$work/rel" "$work/cool.csv"
check "and lists the columns" grep -q "older version" "$work/said"
check "committed releases" exits 0 "112 problems:" "$tune" compare v0.1 v0.2
check "a release of each GPU" exits 0 "on h200" "$tune" compare v0.1/h200 v0.2/h200 --gpu h200
check "unknown release" exits 2 "did you mean 'v0.1'" "$tune" compare v0.11 v0.2
check "one side" exits 2 "two sets" "$tune" compare v0.1
check "a threshold that is none" exits 2 "--threshold" "$tune" compare v0.1 v0.2 --threshold many
check "another GPU" exits 2 "a100" "$tune" compare v0.1 v0.2 --gpu a100
check "not a winners.csv" exits 4 "no column" "$tune" compare v0.1 README.md

if command -v gnuplot >/dev/null; then
    check "files" exits 1 "1 slower" "$tune" compare "$work/a.db" "$work/slow.db" -o "$work/o"
    check "SVG" python3 -c "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])" "$work/o/compare-h200-qwen7b.svg"
    check "PNG" at_least "$(stat -c %s "$work/o/compare-h200-qwen7b.png")" 20000
    check "Markdown has the one row" same "$(grep -c '^| gptq4-g128 | down | 16 |.*slower |$' "$work/o/compare.md")" 1
    check "data" same "$(wc -l <"$work/o/data/compare.tsv")" 113
fi
mkdir "$work/bin" # a PATH without gnuplot
check "without gnuplot: exit 3 and the remedy" exits 3 "gnuplot-nox" env PATH="$work/bin" "$tune" compare "$work/a.db" "$work/a.db" -o "$work/n"
check "the data is there" same "$(wc -l <"$work/n/data/compare.tsv")" 113
check "a regression comes first" exits 1 "slower" env PATH="$work/bin" "$tune" compare "$work/a.db" "$work/slow.db" -o "$work/n"
