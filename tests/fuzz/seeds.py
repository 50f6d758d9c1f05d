"""Writes small valid inputs for each target of tests/fuzz into a folder of its name. usage: seeds.py FOLDER"""
import json, os, struct, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../offline"))
from checkpoint_files import *
from ternary_files import *


def write(target, name, content):
    os.makedirs(os.path.join(work, target), exist_ok=True)
    with open(os.path.join(work, target, name), "wb") as file:
        file.write(content)


def seed_file(name, content, config=None):
    """A file of weights and its declaration, for the targets that read either or both."""
    declared = json.dumps(config).encode() if config else b""
    for target in ("checkpoint", "convert"):
        write(target, name, struct.pack("<H", len(declared)) + declared + content)
    write("container", name, content)
    if config:
        write("config", name, struct.pack("<H", 3) + b"m.a" + declared)


def seed(name, tensors, config):
    path = os.path.join(work, "seed.safetensors")
    save(path, tensors)
    seed_file(name, open(path, "rb").read(), config)
    os.remove(path)


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

for family in range(8):
    for settings in (0, 1, 2, 3, 4, 6, 16, 32, 50, 66, 82, 98, 114):
        write("decode", f"{family}-{settings}", bytes([family, settings, 31, 127, 31]) + bytes(random.Random(family).randrange(256) for _ in range(4000)))
write("config", "model", struct.pack("<H", 9) + b"m.qkv_proj" + json.dumps({
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128, "num_hidden_layers": 2,
    "_name_or_path": "a/b", "text_config": {"hidden_size": 64}, "quantization_config": {"bits": 4}}).encode())
for name in ("qwen7b", "smoke"):
    write("lua", name, open(os.path.join(os.path.dirname(__file__), f"../../configs/shapes/{name}.lua"), "rb").read())
