"""AWQ and compressed-tensors checkpoints, bit by bit, and the public failures that concern them. usage: checkpoint_awq.py FOLDER"""
from checkpoint_files import *


def awq():
    seed = 0
    for group in (-1, 16, 32, 64, 128):
        for sym in (True, False):
            for n, k in ((8, 128), (48, 256), (1440, 128)):
                seed += 1
                layer = Layer(seed, n, k, 4, group, sym, dtype=("F16", "BF16", "F32")[seed % 3])
                config = {"w_bit": 4, "q_group_size": group, "zero_point": not sym, "quant_method": "awq", "version": "gemm"}
                got, want = decode(model(layer.awq("m.0.q_proj"), config)), layer.expected("m.0.q_proj", "awq")
                check(f"awq N={n} K={k} group {group}, {'sym' if sym else 'asym'}", got == want, first_difference(want, got))
    layer = Layer(99, 16, 64, 4, 32, False)
    check("awq is recognised by its shape", decode(model(layer.awq("a"))) == layer.expected("a", "awq"))
    check("awq is recognised under another writer's method",
          decode(model(layer.awq("a"), {"quant_method": "auto-round", "bits": 4})) == layer.expected("a", "awq"))
    columns = {"a.qweight": ("I32", [8, 1], words([0x75316420] * 8)), "a.qzeros": ("I32", [1, 1], words([0x88888888])),
               "a.scales": ("F16", [1, 8], b"\0\x3c" * 8)}
    got = decode(model(columns, {"quant_method": "awq"}))
    check("awq word 0x75316420 is columns 0 to 7", [g.split()[2] for g in got[2:]] == ["%02x" % n * 8 for n in range(8)], got)

    def refused(name, config, fact, change=None):
        got = decode(model({**layer.awq("a"), **(change or {})}, {"quant_method": "awq", **config}))
        check("awq: " + name, got[0].startswith("error a ") and fact in got[0], got[:1])
    refused("case 40: K % group", {"group_size": 48}, "K = 64 is no multiple of the group, 48")
    refused("version gemv", {"version": "gemv"}, "AWQ version 'gemv' is not read")
    refused("8 bits", {"bits": 8}, "8 bits are declared, AWQ has 4")
    refused("zero points vary", {"zero_point": False}, "zero points are not all 8")
    refused("zero points unpacked", {}, "shape [2, 16], expected [2, 2]", {"a.qzeros": ("I32", [2, 16], bytes(128))})
    gptq = Layer(98, 64, 64, 4, 32, False)
    refused("case 5: a GPTQ file", {}, "shape [2, 64], expected [2, 512]", {**gptq.gptq("a"), "a.bias": ("F16", [64], bytes(128))})


def scheme(bits, group, sym, actorder=None, **more):
    weights = {"num_bits": bits, "type": "int", "symmetric": sym, "strategy": "channel" if group == -1 else "group",
               "group_size": None if group == -1 else group, "actorder": actorder, "dynamic": False}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "version": "0.11.0", "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}, **more}


def one_scheme(bits, group, sym, dense):
    tensors, want = {}, []
    seed = bits * 1000 + group * 4 + sym * 2 + dense
    for i, order in enumerate(("none", "plain", "shuffled")):
        n, k = ((5, 160), (48, 192), (33, 128))[(seed + i) % 3]
        layer = Layer(seed + i, n, k, bits, group, sym, order, ("BF16", "F16", "F32")[(seed + i) % 3])
        tensors.update(layer.compressed(f"m.{i}.x", ("I64", "I32")[(seed + i) % 2], dense))
        want += layer.expected(f"m.{i}.x", "pack-quantized")
    # One declaration for the three: act-order "group" would need an index everywhere.
    got = [g for g in decode(model(tensors, scheme(bits, group, sym))) if not g.startswith("warning no actorder")]
    check(f"pack-quantized {bits} bits{' dense' if dense else ''}, group {group}, {'sym' if sym else 'asym'} (cases 9, 19, 46)",
          got == want, first_difference(want, got))


def compressed():
    for bits in (2, 3, 4, 8):
        for group in (-1, 16, 32, 128, 48):
            for sym in (True, False):
                for dense in (False, True) if bits == 3 else (False,):
                    one_scheme(bits, group, sym, dense)
    for k, sure in ((10, False), (11, False), (20, False), (21, True), (30, False), (31, True), (64, True)):
        for dense in (False, True):
            layer = Layer(400 + k, 3, k, 3, k, False)
            got = decode(model(layer.compressed("a", "I64", dense), scheme(3, -1, False)))
            good = got == layer.expected("a", "pack-quantized") if sure else "nothing tells which" in got[0]
            check(f"case 19: 3 bits, K={k}, {'dense' if dense else 'padded'}: {'read' if sure else 'refused'}", good, got[:2])
    shapes = {"a.weight_shape": ("I64", [2], struct.pack("<qq", 1, 8)), "a.weight_scale": ("F16", [1, 1], b"\0\x3c")}
    for word, codes in ((0x76543210, range(8)), (0xFEDCBA98, range(8, 16))):
        got = decode(model({**shapes, "a.weight_packed": ("I32", [1, 1], words([word]))}, scheme(4, -1, True)))
        check("case 20: codes are offset, not two's complement: word %08X" % word, got[-1] == f"row 0 {bytes(codes).hex()} 08 3f800000", got)
    layer = Layer(300, 32, 128, 4, 32, False, "plain")
    good = layer.compressed("a")
    unset = {**good, "a.weight_g_idx": ("I32", [128], b"\xff" * 512)}
    check("an index that was never set", decode(model(unset, scheme(4, 32, False))) == layer.expected("a", "pack-quantized"))
    got = decode(model(Layer(301, 8, 128, 4, 32, True).compressed("lm_head"), scheme(4, 32, True)))
    check("a packed layer on the ignore list", "warning declared as not quantised" in got[1], got[:2])

    def refused(name, config, fact, drop=None, change=None):
        tensors = {**good, **(change or {})}
        tensors.pop(drop, None)
        got = decode(model(tensors, config))
        check("pack-quantized: " + name, got[0].startswith("error a ") and fact in got[0], got[:1])
    asym = scheme(4, 32, False)
    refused("case 11: zero points missing", asym, "there is no weight_zero_point beside it", "a.weight_zero_point")
    refused("no shape", asym, "there is no weight_shape beside it", "a.weight_shape")
    refused("zero points in a symmetric layer", scheme(4, 32, True), "zero points are not all 0")
    refused("case 19: width of other bits", scheme(3, 32, False), "16 words a row; K = 128 of 3 bits does not take that")
    refused("case 46: group that does not fit", scheme(4, 512, False), "4 groups; K = 128 in groups of 512")
    refused("index out of range", asym, "group 9 at k = 0", change={"a.weight_g_idx": ("I32", [128], words([9] * 128))})
    refused("act-order without index", scheme(4, 32, False, "group"), "there is no weight_g_idx", "a.weight_g_idx")
    refused("another format", {**asym, "format": "marlin-24"}, "format 'marlin-24' is declared")
    refused("shape against rows", asym, "is {31, 128} beside 32 packed rows",
            change={"a.weight_shape": ("I64", [2], struct.pack("<qq", 31, 128))})
    refused("K = 2^32 + 64 (case 70)", asym, "is {32, 4294967360}",
            change={"a.weight_shape": ("I64", [2], struct.pack("<qq", 32, 2**32 + 64))})
    both = scheme(4, 32, False)
    both["config_groups"]["group_1"] = {"targets": ["re:.*down_proj"], "weights": {"num_bits": 8, "strategy": "channel", "symmetric": True}}
    both["format"] = "mixed-precision"
    for group in both["config_groups"].values():
        group["format"] = "pack-quantized"
    both["config_groups"]["group_0"]["targets"] = ["Embedding", "Linear"]
    down, up = Layer(302, 8, 64, 8, -1, True), Layer(303, 8, 64, 4, 32, False)
    got = decode(model({**down.compressed("m.down_proj"), **up.compressed("m.up_proj")}, both))
    check("a group that names modules goes before the one for all",
          got == down.expected("m.down_proj", "pack-quantized") + up.expected("m.up_proj", "pack-quantized"), got[:2])


awq()
compressed()
finish()
