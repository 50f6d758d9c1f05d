"""Writes one small valid input for each format as a seed of tests/fuzz/checkpoint.c. usage: seeds.py FOLDER"""
import json, os, struct, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../offline"))
from checkpoint_files import *


def seed(name, tensors, config):
    path = os.path.join(work, name)
    save(path, tensors)
    weights, declared = open(path, "rb").read(), json.dumps(config).encode() if config else b""
    with open(path, "wb") as file:
        file.write(struct.pack("<H", len(declared)) + declared + weights)


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
