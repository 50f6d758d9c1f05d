#!/bin/bash
# `tune --between`: sizes between those asked for are tuned where an answer would be poor, layer by layer, on a recording with invented
# numbers: layer wide takes m + 36 us, so that nobody answers for 64 in the place of 256, layer tail hardly longer for more rows.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh

job=("$tune" --gpu h200 --shapes smoke --formats ternary-channel --templates mma-tile --strategy exhaustive --cache "$work/cache")
cat >"$work/device.jsonl" <<'L'
{"what":"device","version":1,"gpu":"h200","name":"NVIDIA H200","driver":"invented","arch":"sm_90a","cc":90,"sms":132,"l2_bytes":62914560,"memory_bytes":150000000000}
{"what":"end","lines":1}
L
"${job[@]}" --m "$(seq -s , 64 16 256)" --db "$work/none.db" --replay "$work/device.jsonl" >/dev/null 2>&1
python3 - "$work" <<'P' || exit 1
import json, sqlite3, sys
work = sys.argv[1]
db = sqlite3.connect(work + "/none.db")
lines = open(work + "/device.jsonl").read().splitlines()[:1]
def spread(us, count): return [round(us * (1 + 0.001 * i / count), 4) for i in range(count)]
for template, params, format in db.execute("SELECT c.template, c.params, b.format FROM build b JOIN candidate c ON c.id = b.candidate"):
    who = {"template": template, "params": params}
    lines.append(json.dumps({"what": "check", "format": format, **who, "outcome": "ok"}))
    tile = int(dict(p.split("=") for p in params.split())["BLOCK_M"])
    for f, op, n, k, m in db.execute("SELECT format, op, n, k, m FROM problem"):
        us = (36 + m if n == 384 else 100 + m / 32) * (1 if tile == 64 else 1.5)
        for what, count in ("screen", 10), ("final", 20), ("sustained", 16):
            lines.append(json.dumps({"what": what, "format": f, "op": op, "n": n, "k": k, "m": m, **who, "sm_mhz": 1000, "outcome": "ok", "samples": spread(us, count)}))
for f, op, n, k, m in db.execute("SELECT format, op, n, k, m FROM problem"):
    for kind in "cublaslt-default", "cublaslt-best16", "dequant-cublaslt", "cublaslt-best16/sustained":
        lines.append(json.dumps({"what": "baseline", "format": f, "op": op, "n": n, "k": k, "m": m, "kind": kind, "sm_mhz": 1000,
                                 "best_algorithm": 0, "algorithms": 2, "samples": spread(500, 20)}))
lines.append(json.dumps({"what": "end", "lines": len(lines)}))
open(work + "/r.jsonl", "w").write("\n".join(lines) + "\n")
P
winners="SELECT w.layer, p.m FROM winner w JOIN problem p ON p.id = w.problem ORDER BY 1, 2"
sizes() { query "$work/$1" "SELECT layer, group_concat(m, ' ') FROM ($winners) GROUP BY 1"; }


check "without it the sizes asked for are tuned" exits 0 "4 trials possible" "${job[@]}" --m 64,256 --db "$work/plain.db" --replay "$work/r.jsonl"
check "they are its winners" same "$(sizes plain.db)" "tail|64 256
wide|64 256"

check "with it sizes between are tuned" exits 0 "7 sizes between them" "${job[@]}" --m 64,256 --between 1.1 --db "$work/b.db" --replay "$work/r.jsonl"
dense="tail|64 256
wide|64 80 96 112 144 176 208 240 256"
check "of the layer that needs them" same "$(sizes b.db)" "$dense"
check "with their own times" same "$(query "$work/b.db" "SELECT count(*) FROM winner w JOIN problem p ON p.id = w.problem WHERE w.layer = 'wide' AND abs(w.us - 36 - p.m) > 1")" 0
before=$(query "$work/b.db" "SELECT count(*) FROM trial")
check "the same command again finds all done" exits 0 "4 of 4 problems are done already" "${job[@]}" --m 64,256 --between 1.1 --db "$work/b.db" --replay "$work/r.jsonl"
check "and prints all" same "$(grep -c mma-tile "$work/said")" 11
check "and tries nothing" same "$(query "$work/b.db" "SELECT count(*) FROM trial")|$(sizes b.db)" "$before|$dense"
check "an earlier run without it is continued" exits 0 "7 sizes between them" "${job[@]}" --m 64,256 --between 1.1 --db "$work/plain.db" --replay "$work/r.jsonl"
check "to the same table" same "$(sizes plain.db)" "$dense"
check "two devices share them" exits 0 "7 sizes between them" "${job[@]}" --m 64,256 --between 1.1 --device 0,1 --db "$work/two.db" --replay "$work/r.jsonl"
check "and find the same" same "$(sizes two.db)" "$dense"
check "a wider bound needs fewer" exits 0 "1 sizes between them" "${job[@]}" --m 64,256 --between 1.6 --db "$work/w.db" --replay "$work/r.jsonl"
check "the widest bound needs none" exits 0 "on h200-replay" "${job[@]}" --m 64,256 --between 10 --db "$work/n.db" --replay "$work/r.jsonl"
check "and leaves the sizes asked for" same "$(sizes n.db)" "tail|64 256
wide|64 256"

# ---- kernels that won elsewhere are tried at the sizes between, also where the race thinks little of them ----
job=("$tune" --gpu h200 --shapes qwen7b --layers o --formats ternary-channel --templates wgmma-tile --cache "$work/cache")
"${job[@]}" --strategy exhaustive --m "$(seq -s , 128 16 512)" --db "$work/tiles.db" --replay "$work/device.jsonl" >/dev/null 2>&1
python3 - "$work" <<'P' || exit 1
import json, sqlite3, sys
work = sys.argv[1]
db = sqlite3.connect(work + "/tiles.db")
lines = open(work + "/device.jsonl").read().splitlines()[:1]
for params, in db.execute("SELECT DISTINCT params FROM candidate"):
    who = {"template": "wgmma-tile", "params": params, "format": "ternary-channel"}
    lines.append(json.dumps({"what": "check", **who, "outcome": "ok"}))
    p = {k: int(v) for k, v in (p.split("=") for p in params.split())}
    for op, n, k, m in db.execute("SELECT op, n, k, m FROM problem"):
        tiles = -(-m // p["BLOCK_M"]) # few rows like CLUSTER_K, many do not
        us = 10 + tiles * p["BLOCK_M"] * 0.1 * (0.5 + 0.5 * p["CLUSTER_K"] * tiles) + 0.1 * sum(p.values()) / 100
        for what, count in ("screen", 10), ("final", 20), ("sustained", 16):
            samples = [round(us * (1 + 0.001 * i / count), 4) for i in range(count)]
            lines.append(json.dumps({"what": what, **who, "op": op, "n": n, "k": k, "m": m, "sm_mhz": 1000, "outcome": "ok", "samples": samples}))
lines.append(json.dumps({"what": "end", "lines": len(lines)}))
open(work + "/tiles.jsonl", "w").write("\n".join(lines) + "\n")
P
check "a race adds sizes" exits 0 "sizes between them" "${job[@]}" --m 128,512 --between 1.1 --db "$work/race.db" --replay "$work/tiles.jsonl"
pairs="FROM winner a JOIN winner b ON a.build != b.build"
check "other kernels win there" at_least "$(query "$work/race.db" "SELECT count(*) $pairs")" 10
untried="$pairs AND NOT EXISTS (SELECT 1 FROM trial t WHERE t.problem = b.problem AND t.build = a.build AND t.stage = 'screen')"
check "each kernel was tried at all sizes" same "$(query "$work/race.db" "SELECT count(*) $untried")" 0
before=$(query "$work/race.db" "SELECT count(*) FROM trial")
check "and is not again" exits 0 "2 of 2 problems are done already" "${job[@]}" --m 128,512 --between 1.1 --db "$work/race.db" --replay "$work/tiles.jsonl"
check "by the same command" same "$(query "$work/race.db" "SELECT count(*) FROM trial")" "$before"
check "two devices do the same" exits 0 "sizes between them" "${job[@]}" --m 128,512 --between 1.1 --device 0,1 --db "$work/race2.db" --replay "$work/tiles.jsonl"
check "and leave nothing out" same "$(query "$work/race2.db" "SELECT count(*) $untried")" 0

# ---- a run that goes on from an earlier one hears of its trials: it asks much the same as one run over all sizes ----
recording=$PWD/tests/fixtures/h200-qwen7b.jsonl.zst
race=("$tune" --gpu h200 --shapes qwen7b --formats ternary-g128 --layers qkv --templates "imma-decode,mma-decode,mma-stream,mma-tile,simt-decode,wgmma-decode"
    --cache "$work/cache" --replay "$recording")
check "a race over three sizes" exits 0 "on h200-replay" "${race[@]}" --m 8,16,32 --db "$work/one.db"
check "and over two" exits 0 "on h200-replay" "${race[@]}" --m 8,16 --db "$work/on.db"
check "then the third" exits 0 "2 of 3 problems are done already" "${race[@]}" --m 8,16,32 --db "$work/on.db"
for db in one on; do
    query "$work/$db.db" "SELECT DISTINCT c.template, c.params FROM trial t JOIN problem p ON p.id = t.problem JOIN build b ON b.id = t.build
        JOIN candidate c ON c.id = b.candidate WHERE p.m = 32 AND t.stage = 'screen'" | sort >"$work/$db.asked"
done
check "three of four questions are the same" at_least "$(($(comm -12 "$work/one.asked" "$work/on.asked" | wc -l) * 4))" "$(($(wc -l <"$work/one.asked") * 3))"
