# shellcheck shell=bash disable=SC2034,SC2154
# A recording with invented numbers, $work/r.jsonl, and the job that replays it: 2 formats of one layer at 2 batch sizes, every
# candidate, so that the order of devices and interruptions changes nothing. For test scripts that have sourced tests/lib.sh.

job=("$tune" --gpu h200 --shapes smoke --layers wide --m "1,3" --templates simt-decode --strategy exhaustive
    --cache "$work/cache")
replay() { # database, recording, options...
    local db=$1 recording=$2
    shift 2
    "${job[@]}" --db "$work/$db" --replay "$work/$recording" "$@"
}
winners="SELECT p.format, p.m, c.params, w.us, w.us_lo, w.us_hi, w.p_best, w.speedup, w.baseline_us FROM winner w
    JOIN problem p ON p.id = w.problem JOIN build b ON b.id = w.build JOIN candidate c ON c.id = b.candidate ORDER BY 1, 2"
repeated="SELECT count(*) FROM (SELECT 1 FROM trial WHERE outcome NOT IN ('crash', 'fault')
    GROUP BY problem, build, policy, stage HAVING count(*) > 1)"
running="SELECT count(*) FROM trial WHERE outcome = 'running'"

# True if database $1 is whole, repeated no trial and holds exactly the winners of an uninterrupted run.
as_reference() {
    same "$(query "$work/$1" "PRAGMA integrity_check" "$running" "$repeated" "$winners")" "$(printf '%s\n' ok 0 0 "$reference")"
}

# A recording of nothing but a device: every candidate is "not recorded", and the database then names all of them.
cat >"$work/device.jsonl" <<'L'
{"what":"device","version":1,"gpu":"h200","name":"NVIDIA H200","driver":"invented","arch":"sm_90a","cc":90,"sms":132,"l2_bytes":62914560,"memory_bytes":150000000000}
{"what":"end","lines":1}
L
replay none.db device.jsonl >/dev/null 2>&1
python3 - "$work" <<'P' || exit 1
import hashlib, json, sqlite3, sys
work = sys.argv[1]
db = sqlite3.connect(work + "/none.db")
lines = open(work + "/device.jsonl").read().splitlines()[:1]
def number(*parts):  # in [0, 1), from its name alone
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:8], 16) / 2**32
def samples(us, count, *parts):
    return [round(us * (1 + 0.004 * number(i, *parts)), 4) for i in range(count)]
builds = db.execute("SELECT c.template, c.params, b.format FROM build b JOIN candidate c ON c.id = b.candidate").fetchall()
problems = db.execute("SELECT format, op, n, k, m FROM problem").fetchall()
for template, params, format in builds:
    who = {"template": template, "params": params}
    lines.append(json.dumps({"what": "check", "format": format, **who, "outcome": "ok"}))
    for f, op, n, k, m in problems:
        if f != format: continue
        p = {"format": f, "op": op, "n": n, "k": k, "m": m, **who, "sm_mhz": 1000}
        key = (template, params, f, n, k, m)
        us = 100 + 100 * number(*key)
        if number("wrong", *key) < 0.1 and "CTAS=2 " in params:
            lines.append(json.dumps({"what": "screen", **p, "outcome": "wrong", "detail": "invented", "samples": []}))
            continue
        for what, count in ("screen", 10), ("final", 20), ("sustained", 16):
            lines.append(json.dumps({"what": what, **p, "outcome": "ok", "samples": samples(us, count, what, *key)}))
for f, op, n, k, m in problems:
    for kind, us in ("cublaslt-default", 210), ("cublaslt-best16", 205), ("dequant-cublaslt", 300), ("cublaslt-best16/sustained", 250):
        lines.append(json.dumps({"what": "baseline", "format": f, "op": op, "n": n, "k": k, "m": m, "kind": kind, "sm_mhz": 1000,
                                 "best_algorithm": 0, "algorithms": 2, "samples": samples(us, 20, kind, f, m)}))
lines.append(json.dumps({"what": "end", "lines": len(lines)}))
open(work + "/r.jsonl", "w").write("\n".join(lines) + "\n")
P
