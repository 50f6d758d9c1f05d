#!/bin/bash
# `tune --weights` without a GPU: rows of real weights have an identity of their own, act-order is refused by name.
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "needs python3" && exit 77; }
tune=${TUNE:-$PWD/build/tune}
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. tests/lib.sh
export CUDA_VISIBLE_DEVICES= # a machine with a GPU plans too

PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/tests/offline python3 - "$work" <<'PY' || exit 1
import json, os, sys
from checkpoint_files import *
def write(name, seed, group=64, order="none", dtype="F16", config=None):
    path, tensors = os.path.join(sys.argv[1], name), {}
    os.mkdir(path)
    for part, n in (("q_proj", 64), ("k_proj", 32), ("v_proj", 32)):
        tensors.update(Layer(seed + n, n, 128, 4, group, True, order, dtype).gptq("model.layers.0.self_attn." + part))
    save(os.path.join(path, "model.safetensors"), tensors)
    json.dump({"bits": 4, "group_size": group, "sym": True, "desc_act": order != "none"}, open(os.path.join(path, "quantize_config.json"), "w"))
    json.dump(config or {"_name_or_path": "org/Tiny"}, open(os.path.join(path, "config.json"), "w"))
write("one", 1)
write("two", 2)
write("act", 1, order="shuffled")
write("g16", 1, group=16)
write("f32", 1, dtype="F32")
write("lies", 1, config={"hidden_size": 256, "num_attention_heads": 4})

# Every way to store layers: one layer "o" of N = 64, K = 256.
from ternary_files import *
N, K = 64, 256
def folder(name, tensors, config=None):
    path = os.path.join(sys.argv[1], name)
    os.mkdir(path)
    save(os.path.join(path, "model.safetensors"), tensors)
    if config:
        json.dump(config, open(os.path.join(path, "quantize_config.json"), "w"))
def layer(bits, sym, dtype="F16", group=128):
    drawn = Layer(bits, N, K, bits, group, sym, "none", dtype)
    if dtype == "BF16": # powers of two: every one is a binary16 as well
        drawn.scale_bytes = struct.pack("<H", 0x3C80) * (N * drawn.groups)
    return drawn
for bits in (2, 3, 4, 8):
    folder(f"f-gptq-{bits}", layer(bits, True).gptq("m.o_proj"), {"bits": bits, "group_size": 128, "sym": True})
folder("f-gptq_v2-asym", layer(4, False).gptq("m.o_proj", 0), {"bits": 4, "group_size": 128, "sym": False, "checkpoint_format": "gptq_v2"})
folder("f-gptq_p-3", layer(3, True).gptq("m.o_proj", 0, True), {"bits": 3, "group_size": 128, "sym": True, "checkpoint_format": "gptq_p"})
folder("f-awq", layer(4, False).awq("m.o_proj"), {"quant_method": "awq", "version": "gemm", "w_bit": 4, "q_group_size": 128, "zero_point": True})
folder("f-pack-quantized", layer(4, True, "BF16").compressed("m.o_proj"), {"quant_method": "compressed-tensors", "format": "pack-quantized",
       "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 4, "group_size": 128, "symmetric": True}}}})
w, row = weights(1, N, K), scales(1, N, 1)[0]
folder("f-ternary-i", {"m.o_proj.packed_ternary_weight": ("U8", [N, K // 4], fields(w)), "m.o_proj.scales": ("F16", [N, 2], scales(2, N, 2)[0])})
folder("f-ternary-ii", {"m.o_proj.packed_ternary_weight": ("I8", [N, K // 4], fields(w)), "m.o_proj.scales": ("F16", [N], row)})
folder("f-ternary-iii", {"m.o_proj.ternary_weight": ("I8", [N, K], int8(w)), "m.o_proj.scales": ("F16", [N], row)})
for name in ("autobitlinear", "bitlinear"):
    folder("f-bitnet-" + name, {"m.o_proj.weight": ("U8", [N // 4, K], strided(w)), "m.o_proj.weight_scale": ("BF16", [1], bf16(2))},
           {"quant_method": "bitnet", "linear_class": name})
folder("f-bitnet-gpu", {"m.wo.weight": ("I8", [N, K // 4], tiles(w)), "m.wo.weight_scale": four(0.5, 0, 0, 0)})
for kind in ("TQ1_0", "TQ2_0", "Q2_0"):
    open(os.path.join(sys.argv[1], f"f-{kind}.gguf"), "wb").write(gguf({"blk.0.attn_output.weight": (kind, [N, K], blocks(kind, 1, N, K)[1])}))
PY
cd "$work" || exit 1
plan() { # checkpoint, more options
    local model=$1 kernel=(--templates mma-stream) # has few candidates, for codes of 2 and 4 bits
    shift
    case $model in *-[38]) kernel=(--templates mma-decode --budget 4) ;; esac
    "$tune" --gpu a100 --weights "$model" "${kernel[@]}" --m 1 --db t.db --cache cache "$@"
}
names() { query t.db "SELECT group_concat(n) FROM (SELECT DISTINCT $1 AS n FROM $2 ORDER BY 1)"; }

check "weights: a planned run" plan one
check "weights: the row says so" exits 0 "tiny@" "$tune" show --db t.db
check "weights: policies end in the identity" sh -c 'echo "$1" | grep -qE "^emu@[0-9a-f]{8},planned@[0-9a-f]{8}$"' _ "$(names policy trial)"
trials=$(query t.db "SELECT count(*) FROM trial WHERE policy LIKE 'emu%'")
check "weights: the same weights again: no check is repeated" sh -c '"$@" >/dev/null 2>&1' _ "$tune" --gpu a100 --weights one --templates mma-stream --m 1 --db t.db --cache cache
check "weights: ... none" same "$(query t.db "SELECT count(*) FROM trial WHERE policy LIKE 'emu%'")" "$trials"
check "weights: other weights" plan two
check "weights: ... have another identity" same "$(query t.db 'SELECT count(DISTINCT shapes) FROM winner')" 2
check "weights: ... and are checked anew" same "$(query t.db "SELECT count(DISTINCT policy) FROM trial WHERE policy LIKE 'emu%'")" 2
check "weights: tune shapes gives a file for random weights" sh -c '"$1" shapes one -o tiny.lua && "$1" --gpu a100 --shapes tiny.lua --templates mma-stream --m 1 --db t.db --cache cache' _ "$tune"
check "weights: ... whose rows are others" same "$(query t.db "SELECT count(*) FROM winner WHERE shapes = 'tiny'")" 1
check "weights: select without a model takes the random ones" exits 0 "" "$tune" select --gpu a100 --format gptq4-g64 --m 1 --n 128 --k 128 --db t.db
check "weights: --shapes that fits" plan one --shapes tiny.lua
sed -i 's/n = 128/n = 256/' tiny.lua
check "weights: --shapes that does not" exits 1 "layer qkv of tiny has N = 256, K = 128; the checkpoint's has N = 128" plan one --shapes tiny.lua
check "weights: act-order is refused by name" exits 1 "qkv in gptq4-g64-actorder: no kernel serves act-order" plan act
check "weights: case 42: a group that no kernel has is not launched" exits 1 "qkv in gptq4-g16" plan g16
check "weights: scales that no kernel reads" exits 1 "layer 'model.layers.0.self_attn.q_proj': scale" plan f32
check "weights: config.json that contradicts" exits 1 "sizes give layer qkv N = 768" plan lies
check "weights: a format that is not there" exits 2 "no layer is in gptq4-g128; there is gptq4-g64" plan one --formats gptq4-g128
check "weights: nothing there" exits 2 "nowhere" plan nowhere
check "weights: a layer that is not there" exits 2 "has no layer 'down'" plan one --layers down
check "weights: a recording has none" exits 2 "--replay and --weights exclude each other" plan one --replay x.jsonl
for model in f-*; do
    check "weights: ${model#f-}" exits 0 PLANNED plan "$model"
done
