#!/bin/bash
# Ceilings on a real GPU: their size against the data sheet, their order, that they repeat, and that a run uses them.
# Needs python3, and nvcc for the comparison with a straight measurement; TERN_GPU names the description in configs/gpus
# (default h200). The table, both JSON files and the straight figures go to $TERN_CALIBRATE_OUT, if it is set.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
gpu=${TERN_GPU:-h200}
export TERN_HOME=${TERN_HOME:-$PWD}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh

start=$(date +%s)
"$tune" calibrate --gpu "$gpu" --db "$work/a.db" --cache "$work/cache" --json >"$work/a.json" 2>"$work/a.err"
code=$?
seconds=$(($(date +%s) - start))
sed 's/^/# /' "$work/a.err"
check "calibrate ends well" same "$code" 0
check "it takes less than 20 s, took $seconds s" [ "$seconds" -lt 20 ]
"$tune" calibrate --gpu "$gpu" --db "$work/b.db" --cache "$work/cache" >"$work/table.txt" 2>"$work/b.err"
check "calibrate again, as a table" same $? 0
sed 's/^/# /' "$work/table.txt"
"$tune" calibrate --gpu "$gpu" --db "$work/b.db" --cache "$work/cache" --json >"$work/b.json" 2>"$work/b.err"

# One check a line: python prints the measured figures and fails the line that does not hold.
# Against a separate measurement that shares nothing with the harness, where there is an nvcc to build it.
if command -v nvcc >/dev/null; then
    arch=sm_$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d .)
    check "the straight measurement is built" nvcc -O3 "-arch=${arch/%90/90a}" -o "$work/straight" tests/gpu/straight.cu
    "$work/straight" >"$work/straight.txt" 2>&1 || echo "not ok the straight measurement ran: $(tail -1 "$work/straight.txt")"
fi
python3 - "$work/a.json" "$work/b.json" "configs/gpus/$gpu.lua" "$work/straight.txt" <<'P' || echo "not ok the ceilings could be judged"
import json, os, re, sys
a, b = (json.load(open(path))["ceilings"] for path in sys.argv[1:3])
sheet = open(sys.argv[3]).read()
fact = lambda name: float(re.search(rf"^\s*{name} = ([0-9.]+),", sheet, re.M).group(1))
reads = lambda rows: {r["argument"] / 2**20: r["value"] for r in rows if r["kind"] == "read"}
value = {r["kind"]: r["value"] for r in reversed(a)}  # the first of a kind stays
def check(right, what):
    print(("ok " if right else "not ok ") + what)
def between(low, x, high, what, of=1.0):
    check(low <= x / of <= high, f"{what}: {x:.4g}, {100 * x / of:.1f} % of {of:.4g}" if of != 1 else f"{what}: {x:.4g}")
us, again = reads(a), reads(b)
check(sorted(us) == [2.0**i for i in range(11)], f"reads of 1 to 1024 MiB: {sorted(us)}")
gbs = {mib: mib * 2**20 / t * 1e-3 for mib, t in us.items()}
between(0.60, gbs[128], 1.00, "cold read of 128 MiB, GB/s", fact("memory_gbs"))
between(0.75, gbs[1024], 1.00, "cold read of 1 GiB, GB/s", fact("memory_gbs"))
between(0.75, value["copy"], 1.00, "copy, GB/s", fact("memory_gbs"))
sizes = sorted(us)
check(all(us[y] > us[x] for x, y in zip(sizes, sizes[1:])), "a larger read takes longer: " + " ".join(f"{us[s]:.2f}" for s in sizes))
worst = max(abs(again[s] / us[s] - 1) for s in sizes)
check(worst < 0.05, f"reads repeat within 5 %: {100 * worst:.1f} %")
large = max(abs(again[s] / us[s] - 1) for s in sizes if s >= 8)
check(large < 0.03, f"reads of 8 MiB and more repeat within 3 %: {100 * large:.1f} %")
launches = [r["value"] for r in a if r["kind"] == "launch"]
check(0.2 < launches[0] < 3 and launches[0] <= launches[1] < 10, f"empty kernel, us: {launches}")
between(0.50, value["mma-f16/cool"], 1.05, "mma f16, TFLOPS", fact("f16_tflops"))
between(0.95, value["mma-bf16/cool"], 1.05, "mma bf16 as f16", value["mma-f16/cool"])
between(1.5, value["mma-s8/cool"], 2.2, "mma s8 over f16", value["mma-f16/cool"])
if "wgmma-f16/cool" in value:
    # The data sheet's rate is at less than the highest clock: a cool burst may pass it by their ratio.
    between(0.70, value["wgmma-f16/cool"], 1.15, "wgmma f16, TFLOPS", fact("f16_tflops"))
    between(1.0, value["wgmma-f16/cool"], 2.0, "wgmma f16 over mma f16", value["mma-f16/cool"])
    between(1.5, value["wgmma-s8/cool"], 2.2, "wgmma s8 over f16", value["wgmma-f16/cool"])
    between(1.5, value["wgmma-e4m3/cool"], 2.2, "wgmma e4m3 over f16", value["wgmma-f16/cool"])
if os.path.exists(sys.argv[4]):
    mine = {"copy": value["copy"], "mma-f16": value["mma-f16/cool"], "wgmma-f16": value.get("wgmma-f16/cool")}
    mine |= {f"read/{int(m)}": g for m, g in gbs.items()}
    for name, straight in (line.split() for line in open(sys.argv[4])):
        ratio = mine[name] / float(straight)
        check(0.97 <= ratio <= 1.03,
              f"{name} within 3 % of a straight measurement: {mine[name]:.5g} against {straight}, {100 * ratio - 100:+.1f} %")
cool = [k for k in value if k.endswith("/cool")]
check(all(0.3 < value[k.replace("cool", "sustained")] / value[k] < 1.03 for k in cool), "sustained rates are no higher than cool ones: "
      + " ".join(f"{k[:-5]} {value[k.replace('cool', 'sustained')] / value[k]:.2f}" for k in cool))
P

job=("$tune" --gpu "$gpu" --shapes smoke --budget 20s --db "$work/t.db" --cache "$work/cache" --require-gpu)
check "a run without ceilings measures them and ends well" exits 0 "" "${job[@]}"
check "and says so" grep -q "no ceilings of .* are stored" "$work/said"
check "it stored them" same "$(query "$work/t.db" "SELECT count(DISTINCT run) FROM ceiling")" 1
check "no honest kernel is faster than the limit" same "$(query "$work/t.db" "SELECT count(*) FROM trial WHERE detail LIKE 'implausible%'")" 0
check "the next run uses what is stored" exits 0 "" "${job[@]}"
check "and measures no ceilings" same "$(grep -c "no ceilings of" "$work/said")" 0
[ -z "${TERN_CALIBRATE_OUT:-}" ] || cp "$work/table.txt" "$work/a.json" "$work/b.json" "$work/straight.txt" "$TERN_CALIBRATE_OUT"/
