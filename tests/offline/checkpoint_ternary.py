"""Ternary layers in safetensors: the project's three layouts and both BitNet packings, each packed here by the formula of its
description, one weight at a time. usage: checkpoint_ternary.py FOLDER"""
import json, os, struct, sys
import checkpoint_files
from checkpoint_files import *
from ternary_files import *

work = sys.argv[1]
made = 0


def model(tensors, quantization=None):
    """A new model folder; `quantization` becomes quantization_config of its config.json."""
    global made
    made += 1
    path = os.path.join(work, f"m{made}")
    os.mkdir(path)
    if quantization is not None:
        json.dump({"quantization_config": quantization}, open(os.path.join(path, "config.json"), "w"))
    save(os.path.join(path, "model.safetensors"), tensors)
    return path


def expected(name, form, w, group, scale_bits):
    """What the decoder must print; codes are w + 1 and zero points 1."""
    n, k, groups = len(w), len(w[0]), len(scale_bits[0])
    lines = [f"layer {name} {form} {n} {k} 2 {group} {groups} 1 0", "index " + " ".join(str(i // group) for i in range(k))]
    for row, values, bits in zip(range(n), w, scale_bits):
        lines.append(f"row {row} {bytes(v + 1 for v in values).hex()} {'01' * groups} " + "".join("%08x" % b for b in bits))
    return lines


def same(name, path, want):
    got = decode(path)
    check(name, got == want, first_difference(want, got))


def refused(name, path, fact):
    got = decode(path)
    check(name, got and got[0].startswith("error ") and fact in got[0], got[:1])


def project_layouts():
    check("worked bytes of layout (i)", fields([[1, -1, 0, 1], [-1] * 4, [0, 0, 0, -1]]) == bytes([0x49, 0xAA, 0x80]))
    bad = {}
    for i, (n, k) in enumerate([(8, 128), (16, 132), (7, 260), (48, 704), (3, 4), (8, 1024), (192, 96), (5, 2880)]):
        w, groups, dtype = weights(i, n, k), -(-k // 128), ("F16", "BF16", "F32")[i % 3]
        by_group, by_row = scales(i, n, groups, dtype), scales(99 + i, n, 1, dtype)
        packed, raw = fields(w), int8(w)
        cases = [("i", "packed_ternary_weight", "U8", [n, k // 4], packed, [n, groups], by_group, 128),
                 ("ii", "packed_ternary_weight", "I8", [n, k // 4], packed, [n], by_row, k),
                 ("ii", "packed_ternary_weight", "I8", [n, k // 4], packed, [n, 1], by_row, k),
                 ("iii", "ternary_weight", "I8", [n, k], raw, [n], by_row, k)]
        if groups > 1:
            cases.append(("iii", "ternary_weight", "I8", [n, k], raw, [n, groups], by_group, 128))
        for form, suffix, type_, shape, data, scale_shape, (scale_raw, bits), group in cases:
            # An odd tensor before it: nothing is aligned.
            path = model({"odd": ("U8", [3], b"abc"), "m.up." + suffix: (type_, shape, data),
                          "m.up.scales": (dtype, scale_shape, scale_raw)})
            want, got = expected("m.up", "ternary-" + form, w, group, bits), decode(path)
            if got != want:
                bad.setdefault(form, first_difference(want, got))
    for form in ("i", "ii", "iii"):
        check(f"layout ({form}), short groups and odd addresses", form not in bad, bad.get(form))


def broken_layouts():
    one, two = ("F16", [2, 1], bytes(4)), ("F16", [2], bytes(4))
    w = ("U8", [2, 32], bytes(64))
    refused("layout (i) without scales", model({"a.packed_ternary_weight": w}), "there is no scales beside it")
    refused("layout (i), groups rounded down", model({"a.packed_ternary_weight": ("U8", [2, 33], bytes(66)), "a.scales": one}),
            "shape [2, 1], expected [2, 2]")
    refused("layout (i), a scale a row in one dimension", model({"a.packed_ternary_weight": w, "a.scales": two}),
            "shape [2], expected [2, 1]")
    refused("layout (ii) with scales of groups", model({"a.packed_ternary_weight": ("I8", [2, 64], bytes(128)),
            "a.scales": ("F16", [2, 2], bytes(8))}), "shape [2, 2], expected [2, 1]")
    refused("layout (iii) with scales of other rows", model({"a.ternary_weight": ("I8", [2, 64], bytes(128)),
            "a.scales": ("F16", [3], bytes(6))}), "shape [3], expected [2]")
    refused("layout (iii) in U8", model({"a.ternary_weight": ("U8", [2, 64], bytes(128)), "a.scales": two}), "is U8, expected I8")
    refused("packed in I32", model({"a.packed_ternary_weight": ("I32", [2, 8], bytes(64)), "a.scales": two}), "is I32, expected I8")
    refused("scales of integers", model({"a.packed_ternary_weight": w, "a.scales": ("I32", [2, 1], bytes(8))}),
            "is I32, expected F16, BF16 or F32")
    refused("no rows", model({"a.packed_ternary_weight": ("U8", [0, 32], b""), "a.scales": ("F16", [0, 1], b"")}),
            "expected two dimensions from 1")


def bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


MULTIPLY, DIVIDE = {"quant_method": "bitnet", "linear_class": "autobitlinear"}, {"quant_method": "bitnet", "linear_class": "bitlinear"}


def hugging_face():
    column = [[v] for v in (1, -1, 0, 1, -1, 0, 1, -1)]
    check("worked bytes of strided rows", strided(column) == bytes([0x86, 0x18]))
    exact = struct.unpack("<f", b"\0\0" + bf16(1.555))[0]
    for i, (n, k) in enumerate([(8, 1), (32, 64), (12, 33), (192, 704)]):
        w = weights(i, n, k)
        data = {"m.o.weight": ("U8", [n // 4, k], strided(w)), "m.o.weight_scale": ("BF16", [1], bf16(1.555)),
                "m.o.bias": ("F16", [n], bytes(2 * n))}
        for form, declared, value in (("bitnet-multiply", MULTIPLY, exact), ("bitnet-divide", DIVIDE, 1 / exact),
                                      ("bitnet-divide", {"quant_method": "bitnet"}, 1 / exact)):
            same(f"cases 25, 27: {form}, {len(declared)} keys, {n} x {k}", model(data, declared),
                 expected("m.o", form, w, k, [[bits(value)]] * n))
    w = weights(7, 8, 16)
    for dtype, shape, raw, value in (("F32", [1], struct.pack("<f", 1e5), 1e5), ("F16", [1], struct.pack("<e", 0.25), 0.25),
                                     ("BF16", [], bf16(2.0), 2.0), ("F32", [1, 1], struct.pack("<f", 3.0), 3.0)):
        data = {"m.o.weight": ("U8", [2, 16], strided(w)), "m.o.weight_scale": (dtype, shape, raw)}
        same(f"case 28: scale {dtype} {shape}", model(data, DIVIDE), expected("m.o", "bitnet-divide", w, 16, [[bits(1 / value)]] * 8))
    refused("scale direction not declared", model(data), "quant_method bitnet is not declared, so whether weight_scale multiplies")
    refused("unknown linear_class", model(data, {"quant_method": "bitnet", "linear_class": "bitnetlinear"}),
            "linear_class 'bitnetlinear' is declared")
    refused("N padded to a multiple of 4", model({**data, "m.o.bias": ("F16", [7], bytes(14))}, DIVIDE), "shape [7], expected [8]")
    refused("scale of integers", model({**data, "m.o.weight_scale": ("I32", [1], bytes(4))}, DIVIDE), "is I32, expected F16")


def bitnet_gpu():
    for first, word in (([0] * 16, 0xAAAAAAAA), ([0, 1] + [0] * 14, 0xAAAAABAA), ([0] * 4 + [1] + [0] * 11, 0xAAAAAAAE),
                        ([-1, 0, 1, 0] * 4, 0xAAFFAA55)):
        rows = [first + [0] * 16] + [[0] * 32] * 15
        check("worked word of a tile %08X" % word, tiles(rows)[:4] == struct.pack("<I", word))
    for n, k in ((16, 32), (48, 96), (32, 256)):
        w = weights(n, n, k)
        same(f"tiles, {n} x {k}", model({"l.wo.weight": ("I8", [n, k // 4], tiles(w)), "l.wo.weight_scale": four(0.5, 0, 0, 0)}),
             expected("l.wo", "bitnet-gpu", w, k, [[bits(0.5)]] * n))
    for name, n, k, values, parts in (("wqkv", 128, 64, (1, 2, 4, 0), (64, 32, 32)), ("w13", 96, 64, (1, 2, 0, 0), (48, 48, 0)),
                                      ("wqkv", 3840, 2560, (1, 2, 4, 0), (2560, 640, 640))):
        path = model({f"l.{name}.weight": ("I8", [n, k // 4], b"\xAA" * (n * k // 4)), f"l.{name}.weight_scale": four(*values)})
        got = [line.split()[-1] for line in decode(path) if line.startswith("row ")]
        want = ["%08x" % bits(v) for v, count in zip(values, parts) for _ in range(count)]
        check(f"case 33: scales of {name} by the rows of its parts, {n} x {k}", got == want)
    gpu = lambda name, n, k, *values: model({name + ".weight": ("I8", [n, k // 4], b"\xAA" * (n * k // 4)),
                                             name + ".weight_scale": four(*values)})
    refused("tiles cut", gpu("l.wo", 24, 32, 1, 0, 0, 0), "N = 24, K = 32: no whole number of tiles of 16 x 32")
    refused("more scales than parts", gpu("l.wo", 16, 32, 1, 2, 0, 0), "scale 1 is 2, expected 0 in a layer of 1 part")
    refused("NaN in an unused scale", gpu("l.wo", 16, 32, 1, 0, 0, float("nan")), "scale 3 is nan, expected 0")
    refused("wqkv without k and v", gpu("l.wqkv", 32, 32, 1, 2, 4, 0), "N = 32 rows, expected K = 32 of q")


def illegal():
    """What the bits hold beyond three values: code, count and place."""
    one = ("F16", [2], struct.pack("<2e", 1, 1))
    path = model({"a.packed_ternary_weight": ("I8", [2, 8], bytes(13) + b"\xC0\xFF\0"), "a.scales": one})
    inspected("code 3 in layout (ii)", path, "error", "5 codes that no ternary weight has, the first is 3 at n = 1, k = 23")
    path = model({"a.ternary_weight": ("I8", [2, 8], bytes(3) + b"\x02" + bytes(10) + b"\x80\xFE"), "a.scales": one})
    inspected("values outside -1, 0, 1 in layout (iii)", path, "error", "3 codes that no ternary weight has, the first is 3 at n = 0, k = 3")
    path = model({"a.packed_ternary_weight": ("U8", [2, 1], b"\x00\xC9"), "a.scales": ("F16", [2, 1], one[2])})
    got = inspected("field 3 in layout (i) is reserved", path, "suspect", "1 fields of value 3, which is reserved; read as weight 0")
    check("reserved fields read as weight 0", got and got["codes"] == [1, 6, 1, 0] and got["format"] == "ternary-channel", got)
    path = model({"a.weight": ("U8", [1, 8], b"\x55" * 7 + b"\x75"), "a.weight_scale": ("F32", [1], struct.pack("<f", 2))}, DIVIDE)
    got = inspected("code 3 in strided rows", path, "error", "1 codes that no ternary weight has, the first is 3 at n = 2, k = 7")
    check("one scale for W", got and got["format"] == "ternary-tensor", got)
    path = model({"a.weight": ("U8", [1, 8], b"\x55" * 8), "a.weight_scale": ("F32", [1], struct.pack("<f", 0))}, DIVIDE)
    inspected("divisor 0", path, "error", "4 Inf")
    path = model({"a.weight": ("I8", [16, 8], b"\xAA" * 127 + b"\x2A"), "a.weight_scale": four(1, 0, 0, 0)})
    got = inspected("code 0 in tiles", path, "error", "1 codes that no ternary weight has, the first is 255 at n = 15, k = 31")
    check("case 21: the map of codes is printed", got and "fields 1 2 3 are -1 0 +1" in got["why"], got)
    path = model({"a.packed_ternary_weight": ("U8", [2, 1], b"\0\0"), "a.scales": ("F16", [2, 1], b"\0\x7E\0\0")})
    got = inspected("case 87: NaN scale", path, "error", "1 NaN")
    check("case 87: scale 0 is counted", got and got["scales"]["zero"] == 1, got)


project_layouts()
broken_layouts()
hugging_face()
bitnet_gpu()
illegal()
sys.exit(checkpoint_files.failures > 0)
