#!/bin/bash
# tune release: the same bytes twice, what is in it, what is refused; --verify on a recording, whose answers stand for a GPU.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
writer=build/tests/test_output_export
recording=$PWD/tests/fixtures/h200-qwen7b.jsonl.zst
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh

[ -x "$writer" ] || make "$writer" >/dev/null || exit 1
"$writer" --write-database "$work/measured.db" || exit 1
"$writer" --write-database "$work/planned.db" planned || exit 1

release() { "$tune" release "$@"; }
parts="winners.csv ceilings.csv environment.json tern_dispatch.h index.html data/qwen7b.tsv"
has() { # folder, files...
    local dir=$1 file
    shift
    for file; do [ -s "$dir/$file" ] || { echo "no $dir/$file" && return 1; }; done
}
if command -v gnuplot >/dev/null; then
    check "freeze" exits 0 "h200: 112 winners" release v9 --gpu h200 --shapes qwen7b --db "$work/measured.db" --commit 1a2b3c4 -o "$work/one"
    check "all parts" has "$work/one/v9/h200" $parts qwen7b-roofline.png
    check "once more" exits 0 "112 winners" release v9 --gpu h200 --shapes qwen7b --db "$work/measured.db" --commit 1a2b3c4 -o "$work/two"
    check "the same bytes" diff -r "$work/one" "$work/two"
    check "the release is its database" exits 0 "112 same" "$tune" compare "$work/one/v9" "$work/measured.db"
fi
mkdir "$work/bin" # a PATH without gnuplot
check "without gnuplot: exit 3" exits 3 "gnuplot-nox" env PATH="$work/bin" "$tune" release v9 --gpu h200 --db "$work/measured.db" -o "$work/plain"
check "but all that is text" has "$work/plain/v9/h200" $parts
check "the environment" python3 - "$work/plain/v9/h200/environment.json" <<'P'
import json, sys
e = json.load(open(sys.argv[1]))
assert e["device"]["gpu"] == "h200" and e["device"]["name"] == "fake device" and e["nvrtc"] == ["fake"], e
assert set(e["templates"]) == {"fake_decode", "fake_mma"} and all(len(h) == 32 for h in e["templates"].values()), e
assert e["runs"][0]["command_line"] == "fixture" and e["builds"]["ok"] > 0, e
P
check "planned rows are refused" exits 1 "planned" release v9 --gpu h200 --db "$work/planned.db" -o "$work/p"
check "and nothing is written" test ! -e "$work/p"
check "no winners of a GPU" exits 2 "it holds" release v9 --gpu a100 --db "$work/measured.db" -o "$work/p"
check "a name" exits 2 "needs a name" release --gpu h200
check "a GPU" exits 2 "needs --gpu" release v9
check "no path for a name" exits 2 "no name for a release" release ../v9 --gpu h200
check "verify options need --verify" exits 2 "need --verify" release v9 --gpu h200 --json

[ -f "$recording" ] || exit 0
verify() { (cd "$work" && TERN_HOME=${TERN_HOME:-$OLDPWD} "$tune" release "$@" --gpu h200 --verify --cache "$work/cache"); }
mkdir -p "$work/results/v8/h200" "$work/results/bad/h200"
"$tune" --gpu h200 --shapes qwen7b --layers qkv,o --m "1,16" --cache "$work/cache" --replay "$recording" --db "$work/r.db" >"$work/out" 2>&1 ||
    { cat "$work/out"; exit 1; }
"$tune" show --db "$work/r.db" --csv >"$work/results/v8/h200/winners.csv"
mkdir "$work/tmp" && export TMPDIR=$work/tmp
check "a release that holds" exits 0 "5 problems: 5 same" verify v8 --sample 5 --replay "$recording"
check "each of its rows" exits 0 "8 problems: 8 same" verify v8 --sample 100 --replay "$recording"
check "another seed, other rows" sh -c "cd '$work' && for s in 1 2 3 4; do '$tune' release v8 --gpu h200 --verify --sample 2 --seed \$s --replay '$recording' --cache '$work/cache' 2>/dev/null | grep same; done | sort -u | wc -l | grep -qv '^2$'"
# The released time of one row was 10 % shorter, another's candidate does not exist.
awk -F, -v OFS=, 'NR == 2 { $9 *= 0.9; $10 *= 0.9; $11 *= 0.9 } NR == 3 { $8 = "NONE=1" } { print }' "$work/results/v8/h200/winners.csv" >"$work/results/bad/h200/winners.csv"
check "a release that does not" exits 1 "release bad does not hold: 1 of 8 problems are slower, 1 missing" verify bad --sample 8 --replay "$recording"
check "JSON" sh -c "cd '$work' && '$tune' release bad --gpu h200 --verify --sample 8 --json --replay '$recording' --cache '$work/cache' 2>/dev/null | python3 -c 'import json, sys; assert json.load(sys.stdin)[\"counts\"][\"missing\"] == 1'"
check "no GPU: exit 3 and the remedy" exits 3 "run this on a machine with the GPU" env CUDA_VISIBLE_DEVICES= "$tune" release v0.2 --gpu h200 --shapes qwen7b --verify
check "a release that is not there" exits 2 "no-such" verify no-such
check "no model" exits 2 "name it with --shapes" "$tune" release v0.2 --gpu h200 --verify --replay "$recording"
check "nothing is left behind" same "$(ls "$work/tmp")" ""

# ---- export from the text alone: the environment says which templates were measured ----
python3 - "$work" <<'P'
import json, sqlite3, sys
work = sys.argv[1]
templates = dict(sqlite3.connect(work + "/r.db").execute("SELECT template, template_hash FROM candidate"))
environment = {"device": {"gpu": "h200", "name": "NVIDIA H200", "driver": "recorded"}, "templates": templates}
json.dump(environment, open(work + "/results/v8/h200/environment.json", "w"))
json.dump({**environment, "templates": {name: "f" * 32 for name in templates}}, open(work + "/results/bad/h200/environment.json", "w"))
P
export_release() { (cd "$work" && TERN_HOME=${TERN_HOME:-$OLDPWD} "$tune" export --gpu h200 --cache "$work/cache" --release "$@"); }
if "$tune" doctor 2>/dev/null | grep -qi "nvrtc.*not found"; then
    echo "# export --release compiles: there is no NVRTC"
else
    check "a release is exported" exits 0 tern_dispatch.h export_release v8 -o "$work/x"
    check "with its kernels" grep -q '"missing": 0' "$work/x/manifest.json"
    check "the same bytes again" exits 0 tern_dispatch.h export_release v8 --check "$work/x"
    check "its header answers" sh -c "cd '$work' && gcc -std=c99 -Wall -Wextra -Wpedantic -Werror x/example.c -o example && ./example ternary-g128 16 3584 3584 | grep -q 'exact match'"
    check "by the released times" python3 - "$work" <<'P'
import csv, json, sys
rows = {(r["format"], r["layer"], r["m"]): r for r in csv.DictReader(open(sys.argv[1] + "/results/v8/h200/winners.csv"))}
table = json.load(open(sys.argv[1] + "/x/manifest.json"))["tables"][0]
assert table["status"] == "measured" and table["device"] == {"name": "NVIDIA H200", "driver": "recorded"}, table["device"]
assert len(rows) == len(table["entries"]) == 8
for e in table["entries"]:
    r = rows[e["format"], e["layer"], str(e["m"])]
    assert (e["template"], e["params"]) == (r["template"], r["params"]) and abs(e["us"] / float(r["us"]) - 1) < 1e-5, (e, r)
P
fi
check "changed templates are refused" exits 1 "8 of 8 winners are stale" export_release bad -o "$work/none"
rm "$work/results/bad/h200/environment.json"
check "templates of which nothing is said as well" exits 1 "stale" export_release bad -o "$work/none"
check "what needs the trials" exits 2 "times of winners only" export_release v8 --held-out all -o "$work/none"
check "no such release" exits 2 "no-such" export_release no-such -o "$work/none"
check "nothing was written" test ! -e "$work/none"
