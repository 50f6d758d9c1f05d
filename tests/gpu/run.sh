#!/bin/bash
# The main job on a real GPU: tune, resume, kill -9 and go on, export, report; and every template against FP64 on the device.
# Needs python3 only; TERN_GPU names the description in configs/gpus (default h200).
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
gpu=${TERN_GPU:-h200}
export TERN_HOME=${TERN_HOME:-$PWD}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh
twice="SELECT count(*) FROM (SELECT 1 FROM trial WHERE outcome != 'crash' GROUP BY device, problem, build, policy, stage HAVING count(*) > 1)"

[ -z "${TERN_CEILINGS:-}" ] || cp "$TERN_CEILINGS" "$work/t.db"
job=("$tune" --gpu "$gpu" --db "$work/t.db" --cache "$work/cache" --require-gpu)
check "smoke shapes end well" exits 0 "trials in" "${job[@]}" --shapes smoke --budget 12s
"${job[@]}" --shapes smoke --budget 12s --json >"$work/run.json" 2>"$work/run.err"
check "a second run finds everything done" grep -q "12 of 12 problems are done already" "$work/run.err"
check "measured rows are plausible" python3 - "$work/run.json" <<'P'
import json, sys
run = json.load(open(sys.argv[1]))
assert run["mode"] == "measured" and len(run["problems"]) == 12
for p in run["problems"]:
    w, b = p["winner"], p["baseline"]
    assert p["status"] == "measured" and 0 < w["us_lo"] <= w["us"] <= w["us_hi"], p
    assert w["us"] >= 0.97 * p["limit_us"] and 0 < w["p_best"] <= 1 and b["us"] > 0, p
    assert 0 < p["speedup_lo"] <= p["speedup"] and abs(p["speedup"] * w["us"] / b["us"] - 1) < 0.1, p
P

# kill -9 once trials are done: they are not repeated, the end result is complete.
slow=("${job[@]}" --shapes qwen7b --layers o --m "1,8,64" --formats ternary-g128 --budget 20s)
setsid "${slow[@]}" >/dev/null 2>&1 &
victim=$!
for _ in $(seq 1200); do
    sleep 0.1
    [ "$(query "$work/t.db" "SELECT count(*) FROM trial t JOIN problem p ON p.id = t.problem WHERE t.stage = 'screen' AND p.n = 3584" 2>/dev/null || echo 0)" -ge 20 ] && break
done
kill -9 $victim
wait $victim 2>/dev/null
screened=$(query "$work/t.db" "SELECT count(*) FROM trial WHERE stage = 'screen' AND outcome = 'ok'")
check "trials were finished before the kill" at_least "$screened" 20
check "no winner of the killed layer is complete yet" at_least 2 "$(query "$work/t.db" "SELECT count(*) FROM winner w JOIN problem p ON p.id = w.problem WHERE p.n = 3584" 2>/dev/null || echo 0)"
# The kill may have met a trial (in the finals several are journalled at once) or the moment between two.
cut=$(query "$work/t.db" "SELECT count(*) FROM trial WHERE outcome = 'running'")
notice=""
[ "$cut" -eq 0 ] || notice="an earlier run was killed; $cut of its trials are marked and run again"
check "the same command goes on" exits 0 "" "${slow[@]}"
check "and says how many trials the kill met ($cut)" same "$(grep "an earlier run was killed" "$work/said")" "$notice"
check "none of them is left running" same "$(query "$work/t.db" "SELECT count(*) FROM trial WHERE outcome = 'running'")" 0
check "no finished trial was repeated" same "$(query "$work/t.db" "$twice")" 0
check "the database is whole" same "$(query "$work/t.db" "PRAGMA integrity_check")" ok
wrong="SELECT c.template, c.params, p.format, p.m, p.n, p.k, t.outcome, t.detail FROM trial t JOIN problem p ON p.id = t.problem
    JOIN build b ON b.id = t.build JOIN candidate c ON c.id = b.candidate WHERE t.outcome IN ('wrong', 'nondet', 'fault')"
check "nothing computes wrong" same "$(query "$work/t.db" "$wrong")" ""

check "export" exits 0 tern_dispatch.h "$tune" export --gpu "$gpu" --shapes qwen7b --db "$work/t.db" --cache "$work/cache" -o "$work/x"
check "select" exits 0 exact "$tune" select --gpu "$gpu" --db "$work/t.db" --format ternary-g128 --m 8 --n 3584 --k 3584
check "another GPU than the named one is not measured" exits 3 "not NVIDIA" "$tune" --gpu t4 --shapes smoke --db "$work/o.db" --cache "$work/cache" --require-gpu
check "bfloat16: smoke shapes end well" exits 0 "linear-bf16: x and y in bfloat16" "${job[@]}" --shapes smoke --activations bf16 --budget 12s
check "every template is right on the device in bfloat16" exits 0 "activations: bf16" "$tune" verify --backend cuda --gpu "$gpu" --activations bf16 --per-template 0 --formats ternary-g128,gptq3-g32-asym,gptq4-g128-asym,gptq8-channel
if [ "$gpu" = h200 ]; then # templates for sm_90a only
    check "int8: a smoke shape ends well" exits 0 "linear-a8: activations are quantised" "${job[@]}" --shapes smoke --layers wide --m 128 --formats ternary-g128 --activations int8 --budget 12s
    check "its template is right on the device" exits 0 "activations: int8" "$tune" verify --backend cuda --gpu "$gpu" --activations int8 --per-template 4 --formats ternary-g128,ternary-tensor,gptq4-g32,gptq4-g128-asym,gptq8-channel
    check "e4m3: a smoke shape ends well" exits 0 "linear-e4m3: activations are quantised" "${job[@]}" --shapes smoke --layers wide --m 128 --formats ternary-g128 --activations e4m3 --budget 12s
    check "dequantise to e4m3 + cuBLASLt FP8 took part" same "$(query "$work/t.db" "SELECT count(*) FROM baseline WHERE kind = 'dequant-e4m3-cublaslt' AND detail LIKE 'algorithm % bytes'")" 1
    check "its template is right on the device" exits 0 "activations: e4m3" "$tune" verify --backend cuda --gpu "$gpu" --activations e4m3 --per-template 4 --formats ternary-g128,ternary-tensor,gptq4-g32,gptq4-g128-asym
fi
check "every template is right on the device" exits 0 "" "$tune" verify --backend cuda --gpu "$gpu" --per-template 0 --formats ternary-g128,ternary-tensor,gptq2-g64,gptq3-g32-asym,gptq4-g128-asym,gptq8-channel
