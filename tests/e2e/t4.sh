#!/bin/bash
# T4 auto-tuning results: a database written as T4, held against the rules of the published schemas (1.0.0 and 1.1.0, in our words),
# and replayed. The database is a replay whose rows are made to look measured; nothing here is a measurement.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
recording=$PWD/tests/fixtures/h200-qwen7b.jsonl.zst
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ -f "$recording" ] || { echo "no recording $recording" && exit 77; }

. tests/lib.sh

job=("$tune" --gpu h200 --shapes qwen7b --layers qkv --m "1,16" --formats ternary-g128 --strategy exhaustive --cache "$work/cache")
record() { "$tune" record --gpu h200 --db "$work/h200.db" "$@"; }
winners="SELECT p.n, p.m, c.template, c.params, round(w.us, 5), round(w.speedup, 5) FROM winner w JOIN problem p ON p.id = w.problem
    JOIN build b ON b.id = w.build JOIN candidate c ON c.id = b.candidate ORDER BY 1, 2"
trials="SELECT t.stage, p.m, c.template, c.params, t.outcome, t.detail, round(t.us, 5), t.sample_count, round(t.gpu_seconds, 6) FROM trial t
    JOIN problem p ON p.id = t.problem JOIN build b ON b.id = t.build JOIN candidate c ON c.id = b.candidate WHERE t.outcome != 'invalid' ORDER BY 1, 2, 3, 4"
outcomes="wrong nondet fault crash timeout resources noisy invalid"

"${job[@]}" --replay "$recording" --db "$work/h200.db" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
# Screens of every outcome, a build that the compiler refused, GPU seconds; the worst screened ones, so that no winner changes.
python3 - "$work/h200.db" $outcomes <<'P'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
slow = [r[0] for r in db.execute("SELECT id FROM trial WHERE stage = 'screen' AND outcome = 'ok' AND build NOT IN"
                                 " (SELECT build FROM trial WHERE stage = 'final') ORDER BY us DESC")]
for outcome, id in zip(sys.argv[2:], slow):
    db.execute("UPDATE trial SET outcome = ?, detail = ?, us = NULL, us_lo = NULL, us_hi = NULL, samples = NULL, sample_count = 0"
               " WHERE id = ?", (outcome, "invented: " + outcome, id))
db.execute("UPDATE trial SET gpu_seconds = 0.001 * id WHERE outcome != 'invalid'")
db.execute("UPDATE device SET gpu = 'h200', name = 'NVIDIA H200'")
db.execute("INSERT INTO candidate (template, template_hash, params) SELECT template, template_hash, 'NEVER=1' FROM candidate LIMIT 1")
db.execute("INSERT INTO build (key, candidate, toolchain, format, arch, outcome, cubin_hash, cubin_bytes, registers, static_smem_bytes,"
           " spill_bytes, seconds, log) SELECT '%032d', (SELECT max(id) FROM candidate), toolchain, format, arch, 'compile', '', 0, 0, 0, 0, 1.5,"
           " 'kernel.cu(3): error' FROM build LIMIT 1" % 0)
db.commit()
P

check "written as T4" exits 0 "1 refused builds" record --shapes qwen7b --t4 -o "$work/all.json"
check "same rows, same bytes" sh -c "'$tune' record --gpu h200 --db '$work/h200.db' --t4 -o '$work/again.json' 2>/dev/null && cmp '$work/all.json' '$work/again.json'"
check "it holds to the schema" python3 - "$work/all.json" <<'P'
import json, re, sys
text, number = str, (int, float)
classes = {"timeout", "compile", "runtime", "correctness", "constraints", "correct"}
def is_a(value, kind): return isinstance(value, kind) and not isinstance(value, bool)
def holds(condition, *what): assert condition, what
def typed(thing, **kinds):  # properties that the schema types; any may be missing and others may be there
    for key, kind in kinds.items(): holds(key not in thing or is_a(thing[key], kind), key, thing.get(key))
def check(file):
    holds(is_a(file, dict), "an object"); typed(file, schema_version=text, results=list, metadata=dict)
    holds(re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", file["schema_version"]), "major.minor.patch")
    about = file["metadata"]
    typed(about, compute_api=text, platform=text, device=text, autotuner=text, autotuner_version=text, timestamp=text, timeunit=text,
          hardware=dict, environment=dict)
    holds(about["compute_api"] in {"OpenCL", "CUDA", "Vulkan"}, about); typed(about["environment"], device_query=dict)
    holds(about["timeunit"] in {"nanoseconds", "microseconds", "milliseconds", "seconds"}, about)
    for r in file["results"]:
        holds(is_a(r, dict), r)
        for key in "configuration", "times", "invalidity", "correctness": holds(key in r, key, "is required")
        typed(r, timestamp=text, configuration=dict, objectives=list, times=dict, correctness=number, measurements=list)
        holds(all(is_a(o, text) for o in r.get("objectives", [])), r)
        typed(r["times"], compilation_time=number, runtimes=list, framework=number, search_algorithm=number, validation=number)
        holds(all(is_a(t, number) for t in r["times"].get("runtimes", [])), r)
        holds(r["invalidity"] in classes and r["correctness"] in (0, 1), r)
        for m in r.get("measurements", []): typed(m, name=text, value=number, unit=text)
file = json.load(open(sys.argv[1]))
check(file)
for break_it in (lambda f: f["results"][0].pop("times"), lambda f: f["results"][0].update(invalidity="wrong"),  # the checker checks
                 lambda f: f["results"][0]["times"].update(runtimes=3), lambda f: f.update(schema_version="1.0")):
    broken = json.loads(json.dumps(file)); break_it(broken)
    try: check(broken)
    except AssertionError: continue
    sys.exit("a broken file passes")
P
check "every outcome is in its class" python3 - "$work/all.json" $outcomes <<'P'
import json, sys
expected = {"ok": ("correct", 1), "wrong": ("correctness", 0), "nondet": ("correctness", 0), "fault": ("runtime", 0), "crash": ("runtime", 0),
            "timeout": ("timeout", 0), "resources": ("constraints", 0), "noisy": ("runtime", 1), "compile": ("compile", 0),
            "invalid": ("constraints", 0)}
seen = set()
for r in json.load(open(sys.argv[1]))["results"]:
    outcome = r["tern"]["outcome"]; seen.add(outcome)
    assert (r["invalidity"], r["correctness"]) == expected[outcome], r
    assert any(m["name"] == "time" for m in r["measurements"]) == (outcome == "ok") == (r["invalidity"] == "correct"), r
    if outcome == "ok" and r["tern"]["stage"] == "screen":
        assert r["objectives"] == ["time"] and r["timestamp"].endswith("Z") and {"M", "N", "K", "template"} <= r["configuration"].keys(), r
assert seen == set(expected), set(expected) - seen
P
check "a selection" sh -c "'$tune' record --gpu h200 --db '$work/h200.db' --shapes qwen7b --m 16 --t4 -o '$work/16.json' 2>/dev/null &&
    python3 -c 'import json, sys; sys.exit({r[\"configuration\"].get(\"M\", 16) for r in json.load(open(sys.argv[1]))[\"results\"]} != {16})' '$work/16.json'"
check "an empty selection" exits 2 "nothing was measured on h200" record --shapes qwen7b --m 3 --t4 -o "$work/none.json"
check "lists without a model" exits 2 "need --shapes" record --m 3 --t4 -o "$work/none.json"

check "T4 results are replayed" exits 0 "on h200-replay" "${job[@]}" --replay "$work/all.json" --db "$work/t4.db"
check "with the recorded winners" same "$(query "$work/t4.db" "$winners")" "$(query "$work/h200.db" "$winners")"
record -o "$work/plain.zst" 2>/dev/null && "${job[@]}" --replay "$work/plain.zst" --db "$work/plain.db" >/dev/null 2>&1
check "and the outcomes, times and GPU seconds that a recording of the same database gives" same "$(query "$work/t4.db" "$trials")" "$(query "$work/plain.db" "$trials")"
check "their rows are a replay's and nothing else's" same \
    "$(query "$work/t4.db" "SELECT DISTINCT d.gpu, d.name, t.policy FROM trial t JOIN device d ON d.id = t.device")" "h200-replay|NVIDIA H200 (replay)|replay"
check "a database with measurements takes them beside those" exits 0 "on h200-replay" "${job[@]}" --replay "$work/all.json" --db "$work/h200.db"
check "and keeps both apart" same "$(query "$work/h200.db" "SELECT d.gpu, count(*) FROM winner w JOIN device d ON d.id = w.device GROUP BY 1 ORDER BY 1")" "h200|2
h200-replay|2"
printf '{"schema_version": "1.0.0", "metadata": {"autotuner": "KTT"}, "results": [{"configuration": {"TILE": 8}, "times": {}, "invalidity": "correct", "correctness": 1}]}' >"$work/ktt.json"
check "results of another tuner: what is missing" exits 4 "1 of 1 name no candidate of Tern; the configuration of result 1 has no usable op, format, M, N, K, template" \
    "${job[@]}" --replay "$work/ktt.json" --db "$work/ktt.db"
