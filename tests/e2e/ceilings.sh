#!/bin/bash
# Stored ceilings where there is no GPU: planning takes its limits from those of a measured device of the GPU's name, and the
# report its roofline. The rows are written as a calibration would write them.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
export TERN_HOME=$PWD CUDA_VISIBLE_DEVICES=
command -v python3 >/dev/null || { echo "needs python3" && exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh
# The ratio of the limits of two runs' only row must be $3.
ratio() {
    python3 - "$@" <<'P'
import json, sys
a, b = (json.load(open(path))["problems"][0]["limit_us"] for path in sys.argv[1:3])
assert abs(b / a - float(sys.argv[3])) < 1e-4, (a, b)
P
}
plan() { # database, output
    "$tune" --gpu h200 --shapes qwen7b --layers o --formats ternary-g128 --m 4096 --templates simt-decode,mma-tile --budget 4s \
        --db "$1" --cache "$work/cache" --json >"$2" 2>"$work/said"
}

plan "$work/a.db" "$work/before.json"
check "plan" test -s "$work/before.json"
check "a device that is not there is not calibrated" test "$(grep -c "measuring them" "$work/said")" -eq 0
check "ceilings of a measured device are stored" python3 - "$work/a.db" <<'P'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
device = db.execute("INSERT INTO device (gpu, name, uuid, arch, driver, sms, l2_bytes, memory_bytes, real)"
                    " VALUES ('h200', 'NVIDIA H200', 'GPU-1', 'sm_90a', '580.1', 132, 1, 1, 1)").lastrowid
run = db.execute("INSERT INTO run (device, command_line, tern_version, seed, started) VALUES (?, 'tune calibrate', '0', 0, '')",
                 (device,)).lastrowid
for kind, argument, value, unit in (("read", 2**20, 2.0, "us"), ("read", 2**30, 250.0, "us"), ("wgmma-f16/cool", 1, 494.5, "TFLOPS")):
    db.execute("INSERT INTO ceiling (run, device, real, kind, argument, value, unit, sample_count, sm_mhz, finished)"
               " VALUES (?, ?, 1, ?, ?, ?, ?, 0, 0, '')", (run, device, kind, argument, value, unit))
db.commit()
P
plan "$work/a.db" "$work/after.json"
# The data sheet's 989 TFLOPS bound this problem before, 494.5 do now.
check "planning takes its limits from them" ratio "$work/before.json" "$work/after.json" 2
check "the report ends well" "$tune" report --gpu h200 --db "$work/a.db" -o "$work/report"
if command -v gnuplot >/dev/null; then
    check "its roofline has the measured rates" test "$(cat "$work"/report/*roofline*.svg | grep -cE 'ceiling, measured|memory: 4295 GB/s|FP16: 494 TFLOP/s')" -ge 3
fi
plan "$work/b.db" "$work/other.json"
check "another database has no part in it" ratio "$work/before.json" "$work/other.json" 1
