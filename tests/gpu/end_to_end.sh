#!/bin/bash
# A whole decoder of transformers on a GPU (examples/torch/end_to_end.py): tuned, exported, and right. TERN_MODEL is 0.5b (default)
# or 7b; TERN_END_TO_END_OUT a folder that keeps what was printed. Skipped where no python3 has torch with CUDA and transformers.
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
gpu=${TERN_GPU:-h200}
model=${TERN_MODEL:-0.5b}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. tests/lib.sh

python=
for candidate in "${TERN_PYTHON:-}" python3 .deps/torch/bin/python; do
    [ -n "$candidate" ] && "$candidate" -c 'import torch, transformers; assert torch.cuda.is_available()' 2>/dev/null && python=$candidate && break
done
[ -n "$python" ] || { echo "# skipped: no python3 here has torch with CUDA and transformers (name one with TERN_PYTHON)" && exit 77; }
[ -z "${TERN_CEILINGS:-}" ] || cp "$TERN_CEILINGS" "$work/t.db"
check "the layers of $model are tuned" exits 0 "trials in" "$tune" --gpu "$gpu" --shapes "qwen$model" --formats ternary-g128 --m 1,8,16,1024 \
    --db "$work/t.db" --cache "$work/cache" --require-gpu
check "exported" exits 0 tern_dispatch.h "$tune" export --gpu "$gpu" --db "$work/t.db" --cache "$work/cache" -o "$work/x"
check "the table is a library" gcc -O2 -shared -fPIC -x c -DTERN_DISPATCH_IMPLEMENTATION "$work/x/tern_dispatch.h" -o "$work/x/libtern_dispatch.so"
TERN_RT_LIBRARY=${TERN_RT_LIBRARY:-$PWD/build/libtern_rt.so} PYTHONDONTWRITEBYTECODE=1 "$python" examples/torch/end_to_end.py "$work/x" --model "$model" --json "$work/report.json" >"$work/report.txt" 2>&1 ||
    tail -5 "$work/report.txt"
grep -E '^(not )?ok ' "$work/report.txt" || echo "not ok end_to_end.py ended without a verdict"
grep -vE '^(not )?ok ' "$work/report.txt" | sed 's/^/# /'
[ -z "${TERN_END_TO_END_OUT:-}" ] || cp "$work/report.json" "$work/report.txt" "$TERN_END_TO_END_OUT"/
exit 0
