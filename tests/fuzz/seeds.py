"""Writes one small valid input for each format as a seed of tests/fuzz/checkpoint.c. usage: seeds.py FOLDER"""
import json, os, struct, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../offline"))
from checkpoint_files import *
from ternary_files import *


def seed_file(name, content, config=None):
    declared = json.dumps(config).encode() if config else b""
    with open(os.path.join(work, name), "wb") as file:
        file.write(struct.pack("<H", len(declared)) + declared + content)


def seed(name, tensors, config):
    path = os.path.join(work, name)
    save(path, tensors)
    seed_file(name, open(path, "rb").read(), config)


for bits in (2, 3, 4, 8):
    for sym, order in ((True, "none"), (False, "shuffled")):
        layer = Layer(bits, 32, 64, bits, 32, sym, order)
        config = {"bits": bits, "group_size": 32, "sym": sym, "dynamic": {".*\\.a": {"bits": bits}, "-:x[ab]+?": {}}}
        seed(f"gptq{bits}{order}", layer.gptq("m.a"), config)
        seed(f"ct{bits}{order}", layer.compressed("m.a"),
             {"format": "pack-quantized", "config_groups": {"g": {"targets": ["Linear"], "weights": {
                 "num_bits": bits, "group_size": 32, "symmetric": sym}}}, "ignore": ["lm_head", "re:x.*"]})
seed("planar", Layer(9, 32, 64, 3, 64, False).gptq("a", 0, True), {"bits": 3, "group_size": -1, "checkpoint_format": "gptq_p"})
seed("awq", Layer(8, 8, 64, 4, 32, False).awq("m.qkv_proj"), {"quant_method": "awq", "w_bit": 4, "version": "gemm"})
seed("plain", Layer(7, 8, 32, 4, 32, True).gptq("a"), None)

for version, kind in ((2, "TQ1_0"), (3, "TQ2_0"), (3, "Q2_0")):
    tensors = {"a.weight": (kind, [2, 256], blocks(kind, 1, 2, 256)[1]), "b": ("F32", [3], bytes(12))}
    tokens = ("tokens", ARRAY, struct.pack("<IQ", STRING, 2) + text("<s>") + text("x"))
    seed_file(kind, gguf(tensors, [tokens], version, 64))
w, one = weights(1, 16, 32), scales(1, 16, 1)[0]
seed("ternary-i", {"a.packed_ternary_weight": ("U8", [16, 8], fields(w)), "a.scales": ("F16", [16, 1], one)}, None)
seed("ternary-ii", {"a.packed_ternary_weight": ("I8", [16, 8], fields(w)), "a.scales": ("F16", [16], one)}, None)
seed("ternary-iii", {"a.ternary_weight": ("I8", [16, 32], int8(w)), "a.scales": ("F16", [16], one)}, None)
seed("bitnet", {"a.weight": ("U8", [4, 32], strided(w)), "a.weight_scale": ("BF16", [1], bf16(2))},
     {"quant_method": "bitnet", "linear_class": "autobitlinear"})
seed("bitnet-gpu", {"a.weight": ("I8", [16, 8], tiles(w)), "a.weight_scale": four(1, 0, 0, 0)}, None)
