#!/bin/bash
# tern_rt on a GPU: the example and the PyTorch operator compute right, a launch costs less than 0.3 us over the driver's, and a
# captured layer takes what the tuner said within 3 %.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
gpu=${TERN_GPU:-h200}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh

[ -z "${TERN_CEILINGS:-}" ] || cp "$TERN_CEILINGS" "$work/t.db"
job=("$tune" --gpu "$gpu" --shapes qwen7b --db "$work/t.db" --cache "$work/cache" --require-gpu)
check "two layers are tuned" exits 0 "" "${job[@]}" --layers qkv,o --m 1,16,64,128 --formats ternary-g128,gptq4-g128 --budget 60s
check "and one in e4m3" exits 0 "linear-e4m3: " "${job[@]}" --layers qkv --m 128 --formats ternary-g128 --activations e4m3 --budget 20s
check "exported" exits 0 tern_dispatch.h "$tune" export --gpu "$gpu" --db "$work/t.db" --cache "$work/cache" -o "$work/x"
common=(-O2 -g -Wall -Wextra -Iexamples/c -Iharness/runtime -Itemplates/include "-I$work/x")
runtime=(build/libtern_rt.a -lxxhash -lzstd -ldl -lpthread -lm)
check "the example is built" gcc -std=gnu11 "${common[@]}" examples/c/layer.c examples/c/device_cuda.c "${runtime[@]}" -o "$work/layer"
for problem in "ternary-g128 1 3584 3584" "ternary-g128 16 4608 3584" "gptq4-g128 64 3584 3584" "gptq4-g128 5 4608 3584" "ternary-g128 33 1024 2048"; do
    check "right: $problem" exits 0 " 0 of " sh -c "'$work/layer' '$work/x' $problem"
done
check "right: linear-e4m3" exits 0 " 0 of " "$work/layer" "$work/x" ternary-g128 128 512 1024 linear-e4m3
check "m beyond all tuned ones" exits 0 " 0 of " "$work/layer" "$work/x" ternary-g128 300 3584 3584

cuda=$(scripts/find-cuda.sh include | cut -d' ' -f1)
check "the benchmark is built" gcc -std=gnu11 "${common[@]}" -Iharness -isystem "$cuda" tests/gpu/launch_cost.c examples/c/device_cuda.c "${runtime[@]}" -o "$work/cost"
for problem in "ternary-g128 1 3584 3584" "gptq4-g128 16 4608 3584"; do
    read -r format m n k <<<"$problem"
    "$work/cost" "$work/x" "$format" "$m" "$n" "$k" >"$work/cost.txt" 2>&1 || { cat "$work/cost.txt" && echo "not ok cost of $problem"; }
    us=$(query "$work/t.db" "SELECT w.us FROM winner w JOIN problem p ON p.id = w.problem WHERE p.format = '$format' AND p.m = $m AND p.n = $n AND p.k = $k")
    awk -v us="$us" -v what="$problem" '{ v[$1] = $2 }
        END {
            printf "%s %.0f ns of tern_rt over a bare launch of %.0f ns: %s\n", (v["overhead_ns"] <= 300 && v["bare_ns"] > 0 ? "ok" : "not ok"), v["overhead_ns"], v["bare_ns"], what
            ratio = us > 0 ? v["graph_us"] / us : 0
            printf "%s %.2f us captured, the tuner said %.2f: %s\n", (ratio >= 0.97 && ratio <= 1.03 ? "ok" : "not ok"), v["graph_us"], us, what
        }' "$work/cost.txt"
done

python=
for candidate in "${TERN_PYTHON:-}" python3 .deps/torch/bin/python; do
    [ -n "$candidate" ] && "$candidate" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null && python=$candidate && break
done
if [ -n "$python" ]; then
    check "a small shape for PyTorch" exits 0 "" "$tune" --gpu "$gpu" --shapes smoke --layers wide --m 1,3,17 --formats ternary-g128,gptq4-g32-asym --budget 30s --db "$work/s.db" --cache "$work/cache" --require-gpu
    check "and in bfloat16" exits 0 "" "$tune" --gpu "$gpu" --shapes smoke --layers wide --m 1,3 --formats ternary-g128 --activations bf16 --budget 30s --db "$work/s.db" --cache "$work/cache" --require-gpu
    check "exported for PyTorch" exits 0 "" "$tune" export --gpu "$gpu" --db "$work/s.db" --cache "$work/cache" -o "$work/s"
    gcc -O2 -shared -fPIC -x c -DTERN_DISPATCH_IMPLEMENTATION "$work/s/tern_dispatch.h" -o "$work/s/libtern_dispatch.so"
    TERN_RT_LIBRARY=$PWD/build/libtern_rt.so "$python" examples/torch/check.py "$work/s" || echo "not ok examples/torch"
else
    echo "# examples/torch is skipped: no python3 here has torch with CUDA (name one with TERN_PYTHON)"
fi
exit 0
