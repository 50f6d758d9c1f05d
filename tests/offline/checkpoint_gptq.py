"""GPTQ checkpoints: every layout bit by bit, and the public failures that concern them. usage: checkpoint_gptq.py FOLDER"""
import json, os
from checkpoint_files import *

def matrix():
    """bits x group x sym x version, each with and without g_idx, shuffled and reversed, in several shapes and scale types."""
    shapes = [(32, 96), (48, 64), (8, 160), (96, 32), (64, 192), (32, 704)]
    orders, dtypes = ["none", "plain", "shuffled", "reversed"], ["F16", "BF16", "F32"]
    cases = official = 0
    for bits in (2, 3, 4, 8):
        for group in (-1, 16, 32, 64, 128, 48):
            for sym in (True, False):
                bad = None
                for form, offset, planar in (("gptq", 1, False), ("gptq_v2", 0, False), ("gptq_p", 0, True)):
                    tensors, want = {}, []
                    for i, order in enumerate(orders):
                        n, k = shapes[(cases + i) % len(shapes)]
                        if planar and bits == 3:
                            n = -(-n // 32) * 32
                        layer = Layer(cases * 8 + i, n, k, bits, min(group, k), sym, order, dtypes[cases % 3])
                        if group > k:
                            continue
                        name = f"model.layers.{i}.q_proj"
                        tensors.update(layer.gptq(name, offset, planar))
                        want += layer.expected(name, form)
                    cases += 1
                    if not tensors:
                        continue
                    config = {"bits": bits, "group_size": group, "sym": sym, "quant_method": "gptq", "checkpoint_format": form}
                    path = model(tensors, config)
                    got = decode(path)
                    if got == want and save_official(os.path.join(path, "model.safetensors"), tensors):
                        official += 1
                        got = decode(path)
                    if got != want and not bad:
                        bad = f"{form}: " + first_difference(want, got)
                check(f"gptq {bits} bits, group {group}, {'sym' if sym else 'asym'}", bad is None, bad)
    print(f"# {cases} files" + (f", {official} also written by the safetensors package" if official else ""))


def worked_words():
    """The words of docs/formats.md and of the reports, spelled out."""
    eight = [j % 8 for j in range(32)]
    check("3-bit words", stream(eight, 3) == [0x88FAC688, 0xC688FAC6, 0xFAC688FA])
    check("planar 3-bit words", planes(eight, 3) == [0xE4E4E4E4, 0xE4E4E4E4, 0xF0F0F0F0])
    for form, row, zeros in (("gptq", [0x88FAC688, 0xC688FAC6, 0xFAC688FA], [0xDB6DB6DB, 0xB6DB6DB6, 0x6DB6DB6D]),
                             ("gptq_p", [0xE4E4E4E4, 0xE4E4E4E4, 0xF0F0F0F0], [0, 0, 0xFFFFFFFF])):
        path = model({"a.qweight": ("I32", [3, 32], words(flat(transpose([row] * 32)))),
                      "a.qzeros": ("I32", [1, 3], words(zeros)), "a.scales": ("F32", [1, 32], words([0x3F800000] * 32))},
                     {"bits": 3, "group_size": -1, "checkpoint_format": form, "sym": True})
        got = decode(path)
        check(f"3-bit words of {form}", got[-1] == f"row 31 {bytes(eight).hex()} 04 3f800000", got[:1] + got[-1:])
    for bits, one, two in ((2, 0x55555555, 0xAAAAAAAA), (4, 0x77777777, 0x88888888), (8, 0x7F7F7F7F, 0x80808080)):
        for form, word in (("gptq", one), ("gptq_v2", two)):
            n = 32 // bits
            path = model({"a.qweight": ("I32", [bits, n], words([0] * bits * n)), "a.qzeros": ("I32", [1, 1], words([word])),
                          "a.scales": ("F16", [1, n], b"\0\x3c" * n)},
                         {"bits": bits, "group_size": -1, "checkpoint_format": form, "sym": True})
            got = decode(path)
            check(f"sym zero point, {bits} bits, {form}", got[0].split()[2:] == [form, str(n), "32", str(bits), "32", "1", "1", "0"]
                  and got[2].split()[3] == "%02x" % (1 << (bits - 1)), got[:3])


def zero_file(zero_words, config, n=8, k=128, bits=4, groups=1):
    """A layer of zero codes with the given words of zero points."""
    return model({"a.qweight": ("I32", [k * bits // 32, n], words([0] * (k * bits // 32 * n))),
                  "a.qzeros": ("I32", [groups, len(zero_words) // groups], words(zero_words)),
                  "a.scales": ("F16", [groups, n], b"\0\x3c" * (n * groups))}, config)


def zeros_of(lines):
    return [line.split()[3] for line in lines if line.startswith("row ")]


def zero_points():
    v1 = {"bits": 4, "group_size": 128, "checkpoint_format": "gptq"}
    got = decode(zero_file([0x88888888], {**v1, "sym": True}))
    check("case 1: labelled gptq, symmetric lanes hold 8", zeros_of(got) == ["08"] * 8 and " gptq_v2 " in got[0] and
          any(line.startswith("warning gptq is declared, but symmetric zero points hold 8") for line in got), got[:3])
    got = decode(zero_file([0x77777777], {**v1, "checkpoint_format": "gptq_v2", "sym": True}))
    check("case 1 reversed: labelled gptq_v2, lanes hold 7", zeros_of(got) == ["08"] * 8 and "warning" in got[1], got[:3])
    got = decode(zero_file([0x55555555] * 2, {"bits": 2, "group_size": 128, "sym": True}, n=32, bits=2))
    check("case 3: 2-bit symmetric", zeros_of(got) == ["02"] * 32 and not any("warning" in g for g in got), got[:3])
    want = ["00"] + ["08"] * 7
    got = decode(zero_file([0x7777777F], {**v1, "sym": False}))
    check("case 4: z = 0 in version 1 stays in its lane", zeros_of(got) == want and "warning" not in got[1], got[:3])
    got = decode(zero_file([0x88888880], {**v1, "checkpoint_format": "gptq_v2", "sym": False}))
    check("case 5: two named formats", zeros_of(got) == want, got[:3])
    got = decode(zero_file([0x777777F7], {**v1, "sym": False}))
    check("masked z = 0 in lane 1 is no flood", zeros_of(got)[:2] == ["08", "00"] and "warning" not in got[1], got[:3])
    got = decode(zero_file([0xFFFFFFF7], {**v1, "sym": False}))
    check("case 13: unmasked subtraction floods a word", any("suspect qzeros: 1 words" in line for line in got), got[:3])
    lanes = stream([3] * 5 + [7] + [3] * 26, 3)  # z = 4 but in lane 5, where it is 0; then the writer's flood of that word
    three = {"bits": 3, "group_size": 128, "sym": False}
    got = decode(zero_file(lanes, three, n=32, bits=3))
    check("3 bits: masked z = 0 is no flood", zeros_of(got)[4:7] == ["04", "00", "04"] and "warning" not in got[1], got[:2])
    got = decode(zero_file([lanes[0] | 0xFFFFFFFF << 15 & 0xFFFFFFFF] + lanes[1:], three, n=32, bits=3))
    check("case 13 in 3 bits", "suspect qzeros: 1 words" in got[1], got[:2])
    got = decode(zero_file([0x77777787], {"bits": 4, "group_size": 128, "quant_method": "auto-round", "sym": False}))
    check("asymmetric, and no version that says how", "method 'auto-round' declares no checkpoint_format" in got[0], got[:1])
    got = decode(zero_file([0x77777787], {**v1, "sym": True}))
    check("sym=true, zero points vary", got[0].startswith("error a ") and "zero points vary" in got[0], got[:1])
    got = decode(zero_file([0x55555555], {**v1, "sym": True}))
    check("sym=true, constant at another value", "every lane holds 5, not 7" in got[0], got[:1])
    for bits in (2, 3, 4):
        for sym in (True, False):
            layer = Layer(20 + bits, 32, 64, bits, 32, sym)
            got = decode(model(layer.gptq("a", 0), {"bits": bits, "group_size": 32, "checkpoint_format": "gptq_v2", "sym": sym}))
            check(f"case 2: gptq_v2, {bits} bits, {'sym' if sym else 'asym'}: the lane is the zero point", got == layer.expected("a", "gptq_v2"), got[:3])
    got = decode(zero_file([0x77777777] * 4, {**v1, "group_size": 32, "sym": True}, groups=4))
    check("case 12: symmetric zero points are 8 in every group", zeros_of(got) == ["08080808"] * 8, got[:3])
    got = decode(zero_file([0] * 8, {**v1, "sym": True}))
    check("case 8: unpacked zero points", "shape [1, 8], expected [1, 1]" in got[0], got[:1])


def broken():
    good = Layer(1, 32, 128, 4, 32, True, "plain").gptq("a")
    config = {"bits": 4, "group_size": 32, "sym": True, "desc_act": False}

    def refused(name, change, fact, settings=None, drop=None):
        tensors = {**good, **change}
        if drop:
            del tensors[drop]
        got = decode(model(tensors, settings or config))
        check(name, got[0].startswith("error ") and fact in got[0], got[:1])

    refused("no qzeros", {}, "there is no qzeros beside it", drop="a.qzeros")
    refused("no scales", {}, "there is no scales beside it", drop="a.scales")
    refused("g_idx above G", {"a.g_idx": ("I32", [128], words([0] * 127 + [4]))}, "group 4 at k = 127, expected 0 to 3")
    refused("case 57: g_idx negative", {"a.g_idx": ("I32", [128], words([0xFFFFFFFF] * 128))}, "group -1 at k = 0")
    refused("g_idx of another length", {"a.g_idx": ("I32", [96], words([0] * 96))}, "16 rows of words; K = 96")
    refused("g_idx of another type", {"a.g_idx": ("I64", [128], bytes(1024))}, "is I64, expected I32")
    refused("declared bits against shape", {}, "16 rows of words; K = 128 of 3 bits takes 12", {**config, "bits": 3})
    refused("bits out of range", {}, "5 bits, expected 2, 3, 4 or 8", {**config, "bits": 5})
    refused("case 44: groups are ceil(K/group)", {}, "4 groups; K = 128 in groups of 48 takes ceil(K/group) = 3",
            {**config, "group_size": 48})
    refused("unknown checkpoint format", {}, "checkpoint format 'marlin' is not read", {**config, "is_marlin_format": True})
    refused("scales of integers", {"a.scales": ("I32", [4, 32], bytes(512))}, "is I32, expected F16, BF16 or F32")
    refused("qweight of 3 dimensions", {"a.qweight": ("I32", [16, 32, 1], bytes(2048))}, "expected two dimensions")
    refused("act-order without its index", {}, "there is no g_idx beside it", {**config, "desc_act": True}, "a.g_idx")
    refused("case 16: 3-bit sized ceil(K/10)", {"a.qweight": ("I32", [77, 32], bytes(77 * 128)),
            "a.g_idx": ("I32", [768], words([0] * 768))}, "77 rows of words; K = 768 of 3 bits takes 72",
            {"bits": 3, "group_size": -1})
    wide = Layer(15, 32, 768, 3, 128, False)
    got = decode(model(wide.gptq("a"), {"bits": 3, "group_size": 128, "sym": False}))
    check("cases 15, 18: 3 bits, K = 768, three words for 32 codes", wide.gptq("a")["a.qweight"][1] == [72, 32] and
          got == wide.expected("a", "gptq"), got[:1])
    got = decode(model(Layer(9, 8, 64, 3, 64, True).gptq("a"), {"bits": 3, "group_size": 64, "checkpoint_format": "gptq_p"}))
    check("planar codes cut inside 32", "planes hold 32 codes; N = 8 and K = 64 must be multiples" in got[0], got[:1])
    one = Layer(2, 32, 64, 4, -1, True)
    got = decode(model(one.gptq("a"), {"bits": 4, "group_size": -1, "desc_act": True}))
    check("cases 36, 37: group -1, act-order, no g_idx", got == one.expected("a", "gptq"), got[:1])
    shuffled = Layer(3, 32, 128, 4, 32, True, "shuffled")
    got = decode(model(shuffled.gptq("a"), config))
    check("act-order against desc_act=false", "warning desc_act=false is declared" in got[1], got[:2])
    got = decode(model({**good, "a.g_idx": ("I32", [128], words([0] * 128))}, {"bits": 4, "group_size": 32}))
    check("a group with too many members", "warning g_idx gives group 0 128 k, expected 32" in got[1], got[:2])
    for n, k, group in ((48, 64, 16), (64, 768, 512), (32, 704, 128), (48, 192, -1), (16, 576, 64)):
        layer = Layer(n, n, k, 4, group, False)
        got = decode(model(layer.gptq("a"), {"bits": 4, "group_size": group, "sym": False}))
        check(f"cases 34-55: N={n} K={k} group {group}", got == layer.expected("a", "gptq"),
              first_difference(layer.expected("a", "gptq"), got))


def configs():
    """Spellings, dynamic rules, fused names: which bits a module gets shows in what is accepted."""
    four, eight = Layer(4, 32, 64, 4, 32, True), Layer(5, 32, 64, 8, 64, True)

    def accepted(name, config, *layers, fact=None):
        tensors, want = {}, []
        for module, layer in layers:
            tensors.update(layer.gptq(module))
            want += layer.expected(module, "gptq")
        got = decode(model(tensors, config))
        check(name, any(fact in line for line in got) if fact else got == want, got[:2] if fact else first_difference(want, got))

    base = {"bits": 4, "group_size": 32, "sym": True}
    accepted("nothing declared", None, ("a", four))
    accepted("w_bit, q_group_size", {"w_bit": 4, "q_group_size": 32}, ("a", four))
    accepted("wbits, method, format", {"wbits": 4, "group_size": 32, "method": "gptq", "format": "gptq"}, ("a", four))
    accepted("two spellings that disagree", {**base, "wbits": 8}, ("a", four), fact="another spelling of it says otherwise")
    accepted("group_size 0", {**base, "group_size": 0}, ("a", four), fact="'group_size' of 0")
    accepted("group_size 2^63 - 1", {**base, "group_size": 2**63 - 1}, ("a", four), fact="'group_size' of 9223372036854775807")
    accepted("bits as text", {**base, "bits": "4"}, ("a", four), fact="'bits' of \"4\"")
    accepted("pack_dtype", {**base, "pack_dtype": "int16"}, ("a", four), fact="'pack_dtype' of \"int16\"")
    dynamic = {**base, "dynamic": {"+:.*\\.1\\..*": {"bits": 8, "group_size": 64}, ".*1.*": {"bits": 2}}}
    accepted("cases 7, 65: dynamic, first match wins", dynamic, ("m.0.q_proj", four), ("m.1.q_proj", eight))
    accepted("dynamic is anchored at the start", {**base, "dynamic": {"q_proj": {"bits": 8}}}, ("m.q_proj", four))
    accepted("dynamic, lazy and classes", {**base, "dynamic": {"m\\.(?:\\d+)\\..*?proj$": {"bits": 8, "group_size": 64}}},
             ("m.12.q_proj", eight))
    accepted("dynamic, negative goes first", {**base, "dynamic": {".*": {"bits": 4}, "-:.*q_proj": {}}}, ("m.q_proj", four),
             fact="warning declared as not quantised")
    accepted("dynamic, look-ahead", {**base, "dynamic": {"(?!x).*": {}}}, ("a", four), fact="cannot read the name rule '(?!x).*'")
    parts = {"dynamic": {".*\\.[qkv]_proj": {"bits": 8, "group_size": 64}}}
    accepted("case 65: fused name by its parts", {**base, **parts}, ("m.qkv_proj", eight))
    accepted("case 65: parts differ", {**base, "dynamic": {".*q_proj": {"bits": 8}}}, ("m.qkv_proj", four),
             fact="rules give the parts q_proj and k_proj of m.qkv_proj different settings")
    path = model(four.gptq("a"))
    json.dump({"quantization_config": {"bits": 8}}, open(os.path.join(path, "config.json"), "w"))
    check("config.json", "shape [2, 4], expected [2, 8]" in decode(path)[0], decode(path)[:1])
    json.dump(base, open(os.path.join(path, "quantize_config.json"), "w"))
    check("quantize_config.json goes before config.json", decode(path) == four.expected("a", "gptq"))
    open(os.path.join(path, "quantize_config.json"), "w").write('{"bits": 4, "bits": 8}')
    check("duplicate key of a configuration", "duplicate object key" in decode(path)[0], decode(path)[:1])


matrix()
worked_words()
zero_points()
broken()
configs()
finish()
