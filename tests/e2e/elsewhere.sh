#!/bin/bash
# `tune --elsewhere`: what won or came close at one layer is timed at the others, and an export answers layers that nobody tuned by it, on a
# recording with invented numbers: each candidate's times differ from layer to layer as if drawn by lot.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh

cat >"$work/device.jsonl" <<'L'
{"what":"device","version":1,"gpu":"h200","name":"NVIDIA H200","driver":"invented","arch":"sm_90a","cc":90,"sms":132,"l2_bytes":62914560,"memory_bytes":150000000000}
{"what":"end","lines":1}
L
job=("$tune" --gpu h200 --formats ternary-channel --templates wgmma-tile --m "128,256" --cache "$work/cache")
qwen=("${job[@]}" --shapes qwen7b --layers "qkv,o")
llama=("${job[@]}" --shapes llama3-8b --layers "qkv,o")
for model in qwen llama; do
    declare -n asked=$model
    "${asked[@]}" --strategy exhaustive --db "$work/all.db" --replay "$work/device.jsonl" >/dev/null 2>&1
done
python3 - "$work" <<'P' || exit 1
import hashlib, json, sqlite3, sys
work = sys.argv[1]
db = sqlite3.connect(work + "/all.db")
lines = open(work + "/device.jsonl").read().splitlines()[:1]
for params, in db.execute("SELECT DISTINCT params FROM candidate"):
    who = {"template": "wgmma-tile", "params": params, "format": "ternary-channel"}
    lines.append(json.dumps({"what": "check", **who, "outcome": "ok"}))
    for op, n, k, m in db.execute("SELECT op, n, k, m FROM problem"):
        lot = int(hashlib.md5(f"{params} {n} {m}".encode()).hexdigest()[:8], 16) / 2**32
        for what, count in ("screen", 10), ("final", 20), ("sustained", 16):
            samples = [round((20 + 10 * lot) * (1 + 0.001 * i / count), 4) for i in range(count)]
            lines.append(json.dumps({"what": what, **who, "op": op, "n": n, "k": k, "m": m, "sm_mhz": 1000, "outcome": "ok", "samples": samples}))
lines.append(json.dumps({"what": "end", "lines": len(lines)}))
open(work + "/lots.jsonl", "w").write("\n".join(lines) + "\n")
P

# Kernels of one problem of the database that are not tried at another layer of the model with the same M: of winners, and within 4 % in a final.
untried="NOT EXISTS (SELECT 1 FROM trial t WHERE t.problem = b.problem AND t.build = a.build AND t.stage = 'screen')"
places="JOIN problem p ON p.id = a.problem JOIN winner b ON b.build != a.build JOIN problem q ON q.id = b.problem AND q.m = p.m AND q.n != p.n"
winners="SELECT count(*) FROM winner a $places WHERE $untried"
close="SELECT count(*) FROM (SELECT DISTINCT f.problem, f.build FROM trial f JOIN winner w ON w.problem = f.problem AND f.stage = 'final' AND f.us <= 1.04 * w.us) a $places WHERE $untried"
answers="SELECT w.layer, p.m, w.build, w.us FROM winner w JOIN problem p ON p.id = w.problem WHERE w.shapes LIKE 'qwen7b%' ORDER BY 1, 2"

check "a race without it" exits 0 "on h200-replay" "${qwen[@]}" --db "$work/plain.db" --replay "$work/lots.jsonl"
check "leaves kernels untried at the other layer" at_least "$(query "$work/plain.db" "$close")" 4
check "with it" exits 0 "trials of the table's kernels where they did not take part" "${qwen[@]}" --elsewhere --db "$work/e.db" --replay "$work/lots.jsonl"
check "winners are tried there" same "$(query "$work/e.db" "$winners")" 0
check "and what came close" same "$(query "$work/e.db" "$close")" 0
check "the winners are the same" same "$(query "$work/e.db" "$answers")" "$(query "$work/plain.db" "$answers")"
before=$(query "$work/e.db" "SELECT count(*) FROM trial")
check "the same command again finds all done" exits 0 "4 of 4 problems are done already" "${qwen[@]}" --elsewhere --db "$work/e.db" --replay "$work/lots.jsonl"
check "and tries nothing" same "$(query "$work/e.db" "SELECT count(*) FROM trial")" "$before"
check "an earlier run without it is continued" exits 0 "did not take part" "${qwen[@]}" --elsewhere --db "$work/plain.db" --replay "$work/lots.jsonl"
check "to the same" same "$(query "$work/plain.db" "$close")" 0
check "two devices share the work" exits 0 "did not take part" "${qwen[@]}" --elsewhere --device 0,1 --db "$work/two.db" --replay "$work/lots.jsonl"
check "and leave nothing out" same "$(query "$work/two.db" "$close")" 0
check "another model" exits 0 "did not take part" "${llama[@]}" --elsewhere --db "$work/e.db" --replay "$work/lots.jsonl"
check "tries what won at the first" same "$(query "$work/e.db" "$winners AND a.shapes LIKE 'qwen7b%' AND b.shapes LIKE 'llama3-8b%'")" 0

# ---- the export: replayed rows are no export, so they get the name of the GPU here ----
python3 -Ic 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute("UPDATE device SET gpu = \"h200\""); d.commit()' "$work/e.db"
export_to() { # folder, options...
    local folder=$1
    shift
    "$tune" export --gpu h200 --db "$work/e.db" -o "$work/$folder" "$@"
}
shapes=$(query "$work/e.db" "SELECT DISTINCT shapes FROM winner WHERE shapes LIKE 'llama3-8b%'")
check "a model is left out" exits 0 tern_dispatch.h export_to x --held-out "$shapes"
check "every question is judged" same "$(python3 -Ic '
import json, sys
for r in json.load(open(sys.argv[1]))["held_out"]:
    print(r["kind"], r["left_out"], r["problems"], r["unknown"], r["regret_worst"] is None)' "$work/x/manifest.json")" "m  0 0 True
shape-near $shapes 4 0 False
shape-default $shapes 0 0 True"
check "sizes and a model" exits 0 tern_dispatch.h export_to y --held-out "128,$shapes"
check "are two questions" same "$(python3 -Ic '
import json, sys
for r in json.load(open(sys.argv[1]))["held_out"]:
    print(r["kind"], r["left_out"], r["problems"] + r["unknown"])' "$work/y/manifest.json")" "m 128 4
shape-near $shapes 4
shape-default $shapes 0"
check "a model that is not there" exits 2 "no batch size and no model" export_to bad --held-out qwen8b
check "no other model is left" exits 2 "leaves out 4 of 4" export_to bad --shapes "$shapes" --held-out "$shapes"
check "the table names more kernels than its winners" at_least "$(python3 -Ic '
import json, sys
print(len(json.load(open(sys.argv[1]))["kernels"]["cubins"]))' "$work/x/manifest.json")" "$(($(query "$work/e.db" "SELECT count(DISTINCT build) FROM winner") + 1))"
check "the fewest kernels are winners" exits 0 tern_dispatch.h export_to few --max-slowdown 1.0001
check "and no others" same "$(python3 -Ic '
import json, sqlite3, sys
named = set(json.load(open(sys.argv[1]))["kernels"]["cubins"])
winners = {h for (h,) in sqlite3.connect(sys.argv[2]).execute("SELECT b.cubin_hash FROM winner w JOIN build b ON b.id = w.build")}
print(len(named) > 0, sorted(named - winners))' "$work/few/manifest.json" "$work/e.db")" "True []"
