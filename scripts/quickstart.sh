#!/bin/bash
# The main job on Qwen2.5-7B with the program $1: on this machine's GPU if there is one, else planned for an A100.
# Results: results/tern.db, and header, plots and a page in results/quickstart/GPU.
set -u
cd "$(dirname "$0")/.." || exit 3
tune=${1:-build/tune}
shapes=qwen7b
gpu=
planned=()

# A GPU that configs/gpus describes: its name as the driver reports it stands there in quotes. A100 cards of 40 and 80 GB
# have names of their own, so the first match is the right one.
if name=$(timeout 30 nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1) && [ -n "$name" ]; then
    for config in configs/gpus/*.lua; do
        if grep -qF "\"$name\"" "$config"; then
            gpu=$(basename "$config" .lua)
            break
        fi
    done
    [ -n "$gpu" ] || echo "quickstart: configs/gpus describes no '$name': planning for an A100 instead" >&2
fi
if [ -z "$gpu" ]; then
    gpu=a100
    planned=(--allow-planned)
fi
output=results/quickstart/$gpu

"$tune" --gpu "$gpu" --shapes "$shapes"
code=$?
[ "$code" -le 1 ] || exit "$code" # 1: some problem is without a winner; the others are still worth a table and plots
"$tune" export --gpu "$gpu" --shapes "$shapes" "${planned[@]}" -o "$output" || exit $?
"$tune" report --gpu "$gpu" --shapes "$shapes" -o "$output" || exit $?
echo
echo "table:  $tune show --gpu $gpu --shapes $shapes"
echo "header: $output/tern_dispatch.h"
echo "plots:  $output/index.html"
exit "$code"
