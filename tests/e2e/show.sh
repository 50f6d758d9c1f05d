#!/bin/bash
# tune show --trials, --outcomes, --why on a replay, whose database is then altered: tables of 80 columns, JSON, CSV, and what
# cannot be shown.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
recording=$PWD/tests/fixtures/h200-qwen7b.jsonl.zst
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -f "$recording" ] || { echo "no recording $recording" && exit 77; }

. tests/lib.sh
edit() { python3 -Ic 'import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.executescript(sys.argv[2]); db.commit()' "$work/t.db" "$1"; }
show() { "$tune" show --db "$work/t.db" "$@"; }
narrow() { [ "$(wc -L <"$work/said")" -le 80 ] || { grep '.\{81\}' "$work/said" && return 1; }; }
"$tune" --gpu h200 --shapes qwen7b --layers qkv,o --m "1,16" --cache "$work/cache" --replay "$recording" --db "$work/t.db" >"$work/out" 2>&1 ||
    { cat "$work/out"; exit 1; }
# What a recording of a clean run lacks: a candidate that failed, builds that were refused, the compiler's words.
edit "UPDATE trial SET outcome = 'wrong', detail = 'element 17: got 1, expected 2', us = NULL, us_lo = NULL, us_hi = NULL, samples = NULL,
    sample_count = 0 WHERE id = (SELECT max(id) FROM trial WHERE stage = 'screen' AND problem = (SELECT id FROM problem WHERE format = 'ternary-g128' AND n = 4608 AND m = 16));
  UPDATE build SET outcome = 'compile', log = 'kernel.cu(3): error: planted' || char(10) || 'more', cubin_hash = '' WHERE id = (SELECT min(id) FROM build WHERE format = 'ternary-g128'
    AND id NOT IN (SELECT build FROM winner));
  UPDATE build SET registers = 96, spill_bytes = 8, log = 'ptxas info    : Used 96 registers, used 1 barriers' WHERE id IN (SELECT build FROM winner)"

check "why a winner won" exits 0 "finalists, in rounds with the baselines" show --shapes qwen7b --formats ternary-g128 --why qkv 16
check "in 80 columns" narrow
for text in "95 % within" "cublaslt-best16" "element 17: got 1, expected 2" "error: planted" "is for M = 1 to 8" "96 registers, 8 bytes spilled" "used 1 barriers"; do
    check "it says: $text" grep -qF "$text" "$work/said"
done
check "of both formats" same "$(show --why qkv 16 2>/dev/null | grep -c '^qwen7b ')" 2
check "JSON of why" sh -c "'$tune' show --db '$work/t.db' --why o 1 --json | python3 -c 'import json, sys
for p in json.load(sys.stdin)[\"problems\"]:
    assert p[\"finalists\"] and p[\"baselines\"] and p[\"rules\"] and p[\"outcomes\"] and p[\"candidates\"] > 0, p
    best = min(f[\"us\"] for f in p[\"finalists\"] if f[\"outcome\"] == \"ok\")
    assert p[\"layer\"] == \"o\" and p[\"m\"] == 1 and p[\"winner\"][\"us\"] >= best > 0, p'"
check "trials" exits 0 "parameters, or why not" show --trials
check "in 80 columns" narrow
check "one line a trial" same "$(grep -cE '^  (final|screen|verify|sustained) ' "$work/said")" "$(query "$work/t.db" "SELECT count(*) FROM trial")"
check "CSV of trials" sh -c "'$tune' show --db '$work/t.db' --trials --csv | python3 -c 'import csv, sys
rows = list(csv.DictReader(sys.stdin))
assert len(rows) > 100 and {\"ok\", \"wrong\"} <= {r[\"outcome\"] for r in rows} and all(None not in r for r in rows)'"
check "JSON of trials" sh -c "'$tune' show --db '$work/t.db' --trials --json | python3 -c 'import json, sys; assert len(json.load(sys.stdin)[\"trials\"]) > 100'"
check "outcomes" exits 0 "1 wrong     element 17" show --outcomes
check "in 80 columns" narrow
check "with what the compiler refused" grep -q "1 compile *kernel.cu(3): error: planted" "$work/said"
check "JSON of outcomes" sh -c "'$tune' show --db '$work/t.db' --outcomes --json | python3 -c 'import json, sys
o = json.load(sys.stdin)[\"outcomes\"]
assert sum(x[\"count\"] for x in o if x[\"outcome\"] == \"wrong\") == 1 and sum(x[\"count\"] for x in o if x[\"outcome\"] == \"compile\") == 1, o'"
check "one thing at a time" exits 2 "exclude each other" show --trials --why qkv 1
check "why of what" exits 2 "needs a layer and a batch size" show --why qkv
check "a layer that is not there" exits 2 "did you mean qkv?" show --why qvk 16
check "a size that is not there" exits 2 "no winner of qkv M=3" show --why qkv 3
check "no CSV of why" exits 2 "--csv is of" show --why qkv 16 --csv
check "planned rows have no trials" sh -c "build/tests/test_output_export --write-database '$work/p.db' planned && '$tune' show --db '$work/p.db' --trials 2>&1 | grep -q 'nothing was tried'"
check "but a why" sh -c "'$tune' show --db '$work/p.db' --why qkv 1 --formats ternary-g128 --shapes qwen7b 2>&1 | grep -q 'PLANNED: '"
