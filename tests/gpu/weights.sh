#!/bin/bash
# `tune --weights` on a real GPU: layers of a checkpoint in three formats are tuned on their own bits, and their rows say so.
# Needs python3 only; TERN_GPU names the description in configs/gpus (default h200).
set -u
cd "$(dirname "$0")/../.." || exit 1
tune=${TUNE:-$PWD/build/tune}
gpu=${TERN_GPU:-h200}
export TERN_HOME=${TERN_HOME:-$PWD}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

. tests/lib.sh

# One decoder layer of a 0.5B model's attention: hidden 896, 14 heads, 2 key-value heads of 64.
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tests/offline python3 - "$work" <<'P' || exit 1
import json, os, sys
from checkpoint_files import *
from ternary_files import *
K, parts = 896, (("q_proj", 896), ("k_proj", 128), ("v_proj", 128), ("o_proj", 896))
def folder(name, tensors, config):
    path = os.path.join(sys.argv[1], name)
    os.mkdir(path)
    save(os.path.join(path, "model.safetensors"), tensors)
    json.dump(config, open(os.path.join(path, "quantize_config.json"), "w"))
    json.dump({"_name_or_path": "org/" + name}, open(os.path.join(path, "config.json"), "w"))
for name, seed, sym in (("sym", 1, True), ("other", 2, True), ("asym", 3, False)):
    tensors = {}
    for part, n in parts:
        tensors.update(Layer(seed + n, n, K, 4, 128, sym, "none", "F16").gptq("model.layers.0.self_attn." + part))
    folder(name, tensors, {"bits": 4, "group_size": 128, "sym": sym})
tensors = {}
for part, n in parts:
    prefix = "model.layers.0.self_attn." + part
    tensors[prefix + ".packed_ternary_weight"] = ("U8", [n, K // 4], fields(weights(n, n, K)))
    tensors[prefix + ".scales"] = ("F16", [n, K // 128], scales(n, n, K // 128)[0])
folder("ternary", tensors, {})
P
[ -z "${TERN_CEILINGS:-}" ] || cp "$TERN_CEILINGS" "$work/t.db"
job=("$tune" --gpu "$gpu" --db "$work/t.db" --cache "$work/cache" --require-gpu --m "1,16" --budget 20s)
for model in sym asym ternary; do
    check "weights: $model is tuned" exits 0 "trials in" "${job[@]}" --weights "$work/$model"
    tail -1 "$work/said" | sed 's/^/# /'
done
check "weights: the same weights again are done" exits 0 "4 of 4 problems are done already" "${job[@]}" --weights "$work/sym"
check "weights: other weights of the same shapes are not" exits 0 "trials in" "${job[@]}" --weights "$work/other"
check "weights: four models of two layers at two M" same "$(query "$work/t.db" "SELECT count(*), count(DISTINCT shapes) FROM winner")" "16|4"
check "weights: every winner was measured" same "$(query "$work/t.db" "SELECT count(*) FROM winner WHERE us > 0 AND planned = 0")" 16
check "weights: nothing computes wrong" same "$(query "$work/t.db" "SELECT count(*) FROM trial WHERE outcome IN ('wrong', 'nondet', 'fault', 'crash')")" 0
