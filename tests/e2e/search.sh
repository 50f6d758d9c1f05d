#!/bin/bash
# tune show --search on a replay whose GPU seconds this script invents: table, JSON, data file, pictures; what cannot be shown.
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
"$tune" --gpu h200 --shapes qwen7b --layers qkv,o --m "1,16" --cache "$work/cache" --replay "$recording" --db "$work/t.db" >"$work/out" 2>&1 ||
    { cat "$work/out"; exit 1; }

edit "UPDATE trial SET gpu_seconds = NULL"
check "unknown seconds are told" exits 0 "do not know their GPU seconds and count as none" show --search
check "and unknown in the table" grep -qE '^  qkv +1 .* - +[0-9.]+ +- +- +- +-$' "$work/said"
check "and in the JSON" sh -c "'$tune' show --db '$work/t.db' --search --json 2>/dev/null | python3 -c 'import json, sys
for s in json.load(sys.stdin)[\"searches\"]:
    assert s[\"gpu_seconds\"] is None and s[\"gpu_seconds_until\"][\"best\"] is None and s[\"best_us\"] > 0, s'"
edit "UPDATE trial SET gpu_seconds = 0.001 * (1 + id % 7)"
check "a table" exits 0 "GPU s until within ... of the best" show --search
check "of at most 80 columns" sh -c "[ \$(wc -L <'$work/said') -le 80 ]"
check "with a line a problem and a sum a format" same "$(grep -cE '^  (qkv|o|sum) ' "$work/said")" 10
check "a selection" exits 0 "qkv" show --shapes qwen7b --layers qkv --m 16 --formats ternary-g128 --search
check "has one problem" same "$(grep -cE '^  (qkv|o|sum) ' "$work/said")" 1
check "the JSON agrees with the database" python3 - "$tune" "$work/t.db" <<'P'
import json, sqlite3, subprocess, sys
tune, path = sys.argv[1:]
searches = json.loads(subprocess.run([tune, "show", "--db", path, "--search", "--json"], check=True, stdout=subprocess.PIPE).stdout)["searches"]
db = sqlite3.connect(path)
assert len(searches) == 8
for s in searches:
    where = ("FROM trial t JOIN problem p ON p.id = t.problem WHERE p.format = ? AND p.m = ? AND p.n = ?", (s["format"], s["m"], s["n"]))
    trials, seconds, best = db.execute("SELECT count(*), sum(gpu_seconds), min(CASE WHEN stage = 'final' AND outcome = 'ok' THEN us END) " + where[0], where[1]).fetchone()
    tried, = db.execute("SELECT count(DISTINCT build) " + where[0], where[1]).fetchone()
    curve, until = s["best_so_far"], s["gpu_seconds_until"]
    assert (s["trials"], s["tried"]) == (trials, tried) and abs(s["gpu_seconds"] - seconds) < 1e-6 and abs(s["best_us"] - best) < 1e-5 * best, s
    assert all(a["us"] > b["us"] and a["gpu_seconds"] < b["gpu_seconds"] for a, b in zip(curve, curve[1:])), curve
    assert curve[-1]["us"] == s["best_us"] and curve[-1]["gpu_seconds"] == until["best"] and curve[-1]["template"] and curve[-1]["params"], curve
    assert 0 < until["within_10"] <= until["within_5"] <= until["within_2"] <= until["best"] <= s["gpu_seconds"], until
P
if command -v gnuplot >/dev/null; then
    check "curves and pictures" exits 0 "on h200-replay" show --search -o "$work/o"
    for format in ternary-g128 gptq4-g128; do
        check "$format: SVG" python3 -c "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])" "$work/o/qwen7b-search-$format.svg"
        check "$format: it names the GPU" grep -q "h200-replay, qwen7b" "$work/o/qwen7b-search-$format.svg"
        check "$format: PNG" at_least "$(stat -c %s "$work/o/qwen7b-search-$format.png")" 20000
    done
fi
mkdir "$work/bin" # a PATH without gnuplot
check "without gnuplot: exit 3 and the remedy" exits 3 "gnuplot-nox" env PATH="$work/bin" "$tune" show --db "$work/t.db" --search -o "$work/n"
check "the data is there" python3 - "$work/n/data/qwen7b-search.tsv" <<'P'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1]), delimiter="\t"))
problems = {(r["series"], r["layer"], r["m"]) for r in rows}
assert len(problems) == 8, problems
for p in problems:
    curve = [r for r in rows if (r["series"], r["layer"], r["m"]) == p]
    assert float(curve[-1]["over_best"]) == float(curve[-2]["over_best"]) == 1 and float(curve[-1]["gpu_seconds"]) >= float(curve[-2]["gpu_seconds"]), curve
P
check "CSV is of winners" exits 2 "exclude each other" show --search --csv
check "a folder needs a search" exits 2 "-o needs --search" show -o "$work/x"
check "lists need a model" exits 2 "need --shapes" show --m 1
check "a selection that is not there" exits 2 "no winner for this selection" show --shapes qwen7b --m 3
edit "DELETE FROM winner; DELETE FROM trial; UPDATE device SET real = 0"
check "no winners" exits 2 "no winner" show --search
