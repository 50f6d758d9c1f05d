"""Writes a sparse safetensors file with the layers of a Llama 70B, in layout (i) or GPTQ of 4 bits: every byte is a hole.
usage: sparse_model.py FILE LAYERS [ternary|gptq]"""
import json, struct, sys

path, layers = sys.argv[1], int(sys.argv[2])
gptq = sys.argv[3:] == ["gptq"]
shapes = {"self_attn.q_proj": (8192, 8192), "self_attn.k_proj": (1024, 8192), "self_attn.v_proj": (1024, 8192),
          "self_attn.o_proj": (8192, 8192), "mlp.gate_proj": (28672, 8192), "mlp.up_proj": (28672, 8192), "mlp.down_proj": (8192, 28672)}
header, at = {}, 0
for i in range(layers):
    for name, (n, k) in shapes.items():
        tensors = (("packed_ternary_weight", "U8", [n, k // 4], 1), ("scales", "F16", [n, k // 128], 2))
        if gptq:
            tensors = (("qweight", "I32", [k // 8, n], 4), ("qzeros", "I32", [k // 128, n // 8], 4), ("scales", "F16", [k // 128, n], 2))
        for suffix, dtype, shape, size in tensors:
            count = shape[0] * shape[1] * size
            header[f"model.layers.{i}.{name}.{suffix}"] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + count]}
            at += count
text = json.dumps(header).encode()
with open(path, "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text)
    file.truncate(8 + len(text) + at)
