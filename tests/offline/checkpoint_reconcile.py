"""`tune reconcile` on every format, on the public failures about tensor parallelism, act-order and groups, and on wrong files.
GPU_LOAD runs on the emulator where there is a C++ compiler; with TERN_BACKEND=cuda on the GPU, and then only what concerns it.
usage: checkpoint_reconcile.py FOLDER"""
import json, os, shutil
from checkpoint_files import *
from ternary_files import *

BACKEND = os.environ.get("TERN_BACKEND", "emu")
LOADS = BACKEND == "cuda" or any(shutil.which(name) for name in ("g++", "clang++", "c++"))


def reconcile(path, *options):
    return subprocess.run([TUNE, "reconcile", path, "--backend", BACKEND, "--cache", os.path.join(work, "cache"), *options],
                          capture_output=True, text=True, timeout=300)


def lines_of(run):
    return {line.split(":")[0]: line.split(": ", 1)[1] for line in run.stdout.splitlines()}


def proven(name, path, *options, splits=None, extra=None):
    """All three lines say OK; `splits`: how many of them TP_SHARD proves; `extra`: a text of its line."""
    run = reconcile(path, *options)
    got = lines_of(run)
    load = got.get("GPU_LOAD", "")
    good = (run.returncode == 0 and list(got) == ["CPU_UNPACK", "GPU_LOAD", "TP_SHARD"] and got["CPU_UNPACK"].startswith("OK ")
            and (load.startswith("OK ") if LOADS else load.startswith("SKIPPED ")) and got["TP_SHARD"].startswith("OK ")
            and (splits is None or got["TP_SHARD"].startswith(f"OK {splits} split"))
            and ((extra in got["TP_SHARD"]) if extra else "refused" not in got["TP_SHARD"]))
    check("reconcile: " + name, good, run.stdout + run.stderr)
    return load


def failed(name, path, line, fact, *options):
    run = reconcile(path, *options)
    got = lines_of(run)
    check("reconcile: " + name, run.returncode == 1 and got.get(line, "").startswith("FAIL ") and fact in got[line],
          run.stdout + run.stderr)


def digests(path):
    run = reconcile(path, "--digests", "--tp", "1")
    return [line.split()[0] for line in run.stdout.splitlines() if not line.split(":")[0].isupper()]


def gptq(layers, sym, form="gptq", **config):
    first = layers[0][1]
    settings = {"bits": first.bits, "group_size": first.group, "sym": sym, "quant_method": "gptq", "checkpoint_format": form,
                **config}
    tensors = {}
    for name, layer in layers:
        tensors.update(layer.gptq(name, 1 if form == "gptq" else 0, form == "gptq_p"))
    return model(tensors, settings)


def compressed(layer, name="m.a", dense=False):
    order = {"actorder": "group"} if layer.order != "none" else {}
    weights_ = {"num_bits": layer.bits, "group_size": layer.group, "symmetric": layer.sym, **order}
    return model(layer.compressed(name, dense=dense),
                 {"format": "pack-quantized", "config_groups": {"g": {"targets": ["Linear"], "weights": weights_}}})


def formats():
    """Every format, with a number of ranks that it can be cut for."""
    for bits in (2, 3, 4, 8):
        for sym, order in ((True, "none"), (False, "plain"), (False, "shuffled"), (True, "reversed")):
            layer = Layer(10 * bits + sym, 256, 512, bits, 64, sym, order)
            same = []
            for form in ("gptq", "gptq_v2", "gptq_p"):
                path = gptq([("m.a", layer)], sym, form, desc_act=order in ("shuffled", "reversed"))
                load = proven(f"{form} {bits} bits, {'sym' if sym else 'asym'}, order {order}", path, splits=8)
                packed = "131072 of them packed for kernels too" in load
                check(f"reconcile: {form} {bits} bits, order {order}: packed unless act-order",
                      packed == (LOADS and order in ("none", "plain")), load)
                same += digests(path)
            path = compressed(layer)
            if bits != 3:
                proven(f"pack-quantized {bits} bits, {'sym' if sym else 'asym'}, order {order}", path, splits=8)
            same += digests(path)
            check(f"reconcile: one digest in every packing of {bits} bits, order {order}", len(same) == 4 and len(set(same)) == 1,
                  same)
    for dense, unit in ((True, 32), (False, 10)):
        path = compressed(Layer(5, 320, 1280, 3, -1, False), dense=dense)
        proven(f"pack-quantized 3 bits, {unit} codes together", path, splits=8)
    proven("awq", model(Layer(8, 64, 256, 4, 32, False).awq("m.o_proj"), {"quant_method": "awq", "w_bit": 4}), splits=8)
    w = weights(1, 64, 1024)
    grouped, channel = scales(1, 64, 8)[0], scales(2, 64, 1, "BF16")[0]
    proven("ternary-i", model({"a.packed_ternary_weight": ("U8", [64, 256], fields(w)), "a.scales": ("F16", [64, 8], grouped)}), splits=8)
    proven("ternary-ii", model({"a.packed_ternary_weight": ("I8", [64, 256], fields(w)), "a.scales": ("BF16", [64, 1], channel)}), splits=8)
    proven("ternary-iii", model({"a.ternary_weight": ("I8", [64, 1024], int8(w)), "a.scales": ("F16", [64, 8], grouped)}), splits=8)
    for linear_class in ("bitlinear", "autobitlinear"):
        proven(f"bitnet, {linear_class}", model({"a.weight": ("U8", [16, 1024], strided(w)), "a.weight_scale": ("BF16", [1], bf16(2.3))},
                                                {"quant_method": "bitnet", "linear_class": linear_class}), splits=8)
    for name in ("m.wo", "m.w13"):
        proven(f"bitnet-gpu, {name}", model({name + ".weight": ("I8", [256, 256], tiles(weights(3, 256, 1024))),
                                             name + ".weight_scale": four(3, 5 if "13" in name else 0, 0, 0)}), splits=8)
    for kind, k in (("TQ1_0", 2048), ("TQ2_0", 2048), ("Q2_0", 512)):
        path = os.path.join(work, kind + ".gguf")
        open(path, "wb").write(gguf({"a.weight": (kind, [16, k], blocks(kind, 1, 16, k)[1])}))
        proven(f"gguf {kind}", path, splits=8)


def references():
    """Values are compared whatever the formats; the first difference is named."""
    w = weights(7, 32, 256)
    raw = scales(7, 32, 2)[0]
    one = model({"a.packed_ternary_weight": ("U8", [32, 64], fields(w)), "a.scales": ("F16", [32, 2], raw)})
    three = model({"a.ternary_weight": ("I8", [32, 256], int8(w)), "a.scales": ("F16", [32, 2], raw)})
    check("reconcile: layouts (i) and (iii) have one digest", digests(one) == digests(three) and len(digests(one)) == 1)
    halves = [struct.unpack_from("<e", raw, 2 * i)[0] for i in range(64)]
    value = lambda n, k: w[n][k] * halves[2 * n + k // 128]
    plain = lambda name, kind, pack: model({name: (kind, [32, 256], b"".join(pack(value(n, k)) for n in range(32) for k in range(256)))})
    dense = plain("a.weight", "F16", lambda v: struct.pack("<e", v))
    two = Layer(1, 32, 256, 2, 128, True)  # the same weights as 2-bit GPTQ: z = 2, codes 1 2 3
    two.codes = [[v + 2 for v in row] for row in w]
    two.scale_bytes = b"".join(raw[4 * n + 2 * g:4 * n + 2 * g + 2] for g in range(2) for n in range(32))
    hidden = gptq([("a", two)], True)
    for name, other in (("layout (iii)", three), ("ternary in 2-bit GPTQ", hidden), ("binary16 weights", dense)):
        proven(f"layout (i) against {name}", one, "--tp", "2", "--reference", other)
        if other != dense:
            proven(f"{name} against layout (i)", other, "--tp", "2", "--reference", one)
    wrong = [row[:] for row in w]
    wrong[3][77] = {1: 0, 0: -1, -1: 1}[w[3][77]]
    other = model({"a.ternary_weight": ("I8", [32, 256], int8(wrong)), "a.scales": ("F16", [32, 2], raw)})
    at = 2 * 3
    want, have = wrong[3][77] * halves[at], w[3][77] * halves[at]
    failed("one weight differs from the reference", one, "CPU_UNPACK",
           f"1 value differ; the first: tensor 'a.packed_ternary_weight', row 3, k 77: expected value {want + 0:.10g}, got {have + 0:.10g} "
           "(against the reference)", "--reference", other)
    found = json.loads(reconcile(one, "--reference", other, "--json").stdout)
    check("reconcile: JSON names the first difference", found["CPU_UNPACK"]["status"] == "FAIL" and
          [found["tensors"][0]["first"][key] for key in ("tensor", "row", "k")] == ["a.packed_ternary_weight", 3, 77], found)
    renamed = model({"b.ternary_weight": ("I8", [32, 256], int8(w)), "b.scales": ("F16", [32, 2], raw)})
    failed("a layer that the reference lacks", one, "CPU_UNPACK", "a: the reference has no layer of this name", "--reference", renamed)
    cut = model({"a.ternary_weight": ("I8", [16, 256], int8(w[:16])), "a.scales": ("F16", [16, 2], raw[:64])})
    failed("a reference of another shape", one, "CPU_UNPACK", "the reference has N = 16, K = 256, not 32, 256", "--reference", cut)


def cases():
    """Rows of the list of public failures that speak of tensor parallelism, act-order or groups."""
    for order in ("shuffled", "reversed"):
        path = gptq([("m.o_proj", Layer(56, 64, 256, 4, 128, False, order))], False, desc_act=True)
        proven(f"case 56: act-order {order}, K = 256, g = 128: rows keep the whole index and all scales", path, "--tp", "2,4", splits=4)
    path = gptq([("m.down_proj", Layer(57, 64, 512, 4, 32, True, "shuffled"))], True, desc_act=True)
    proven("cases 57, 58: g = 32, act-order, 4 ranks: no group out of range", path, "--tp", "4", splits=2)
    path = compressed(Layer(58, 64, 256, 4, 64, False, "shuffled", "BF16"), "m.w2")
    proven("case 58: BF16 scales, act-order, replicated in full", path, "--tp", "2,4", splits=4)
    path = compressed(Layer(59, 64, 1024, 4, 128, True), "m.down_proj")
    proven("case 59: scales are cut with K, group stays 128", path, "--tp", "2,4,8", splits=6)
    path = gptq([("m.o_proj", Layer(60, 64, 896, 4, 128, True))], True)
    proven("case 60: K = 896 is 7 groups: 4 + 3 at 2 ranks, none cut", path, "--tp", "2", splits=2,
           extra="1 uneven (m.o_proj, rows at 2 ranks)")
    failed("case 60: 8 ranks have fewer groups than ranks", path, "TP_SHARD", "K = 896 is 7 units of 128 (groups of scales), fewer "
           "than 8 ranks", "--tp", "8")
    proven("case 60: and without a wish for 8 it is counted", path, splits=7, extra="1 refused (m.o_proj, rows at 8 ranks")
    path = gptq([("m.down_proj", Layer(63, 64, 2752, 4, 128, False))], False)
    proven("case 63: K = 2752, g = 128: 22 groups among 4 ranks, 6 6 5 5", path, "--tp", "4", extra="1 uneven")
    awq = Layer(64, 32, 11008, 4, 128, False)
    proven("case 63: AWQ, K = 11008 is 86 groups among 4 ranks", model(awq.awq("m.down_proj"), {"quant_method": "awq", "w_bit": 4}),
           "--tp", "4", extra="1 uneven")
    path = gptq([("m.down_proj", Layer(51, 8, 29568, 4, 128, True))], True)
    proven("case 51: K = 29568 is 231 groups, which no rank cuts", path, splits=5, extra="3 uneven (m.down_proj, rows at 2 ranks)")
    for bits in (4, 8):
        path = gptq([("m.down_proj", Layer(38 + bits, 64, 8192 // bits, bits, -1, True))], True, group_size=-1)
        proven(f"cases 37, 38: one group, {bits} bits: every rank keeps the one row of scales", path, "--tp", "2,4,8", splits=6)
    path = model({"a.weight": ("U8", [16, 64], strided(weights(66, 64, 64))), "a.weight_scale": ("F32", [1], struct.pack("<f", 0.5))},
                 {"quant_method": "bitnet"})
    proven("case 66: strided rows are cut after unpacking", path, "--tp", "2,4", splits=4)
    path = gptq([("m.a", Layer(34, 64, 64, 4, 16, False))], False)
    proven("case 34: groups of 16", path, "--tp", "2,4", splits=4)
    path = gptq([("m.a", Layer(44, 64, 704, 4, 128, True))], True)
    proven("cases 44, 45: 704 / 128 is 6 groups, the last one short", path, "--tp", "1,2,3", splits=6, extra="uneven")
    path = gptq([("m.a", Layer(48, 48, 192, 4, 64, False))], False)
    proven("cases 48, 53, 55: N = 48, K = 192", path, "--tp", "2,3", splits=4, extra="uneven (m.a, rows at 2 ranks)")
    path = gptq([("m.a", Layer(39, 64, 256, 4, -1, False, "none"))], False, group_size=-1, desc_act=True)
    proven("cases 36, 39: one group, act-order declared, no index", path, "--tp", "2,4", splits=4)
    one = {"quant_method": "awq", "w_bit": 4, "q_group_size": -1}
    proven("case 40: AWQ, one group, N = 1440", model(Layer(40, 1440, 64, 4, -1, False).awq("m.a"), one), "--tp", "2,4", splits=4)
    failed("case 40: AWQ, a group that does not divide K", model(Layer(40, 64, 192, 4, 64, False).awq("m.a"), {**one, "q_group_size": 128}),
           "CPU_UNPACK", "K = 192 is no multiple of the group, 128")
    wide = Layer(46, 32, 768, 4, 512, True)
    proven("case 46: g = 512, K = 768: two groups, the last one short, 1 + 1", compressed(wide), "--tp", "2", extra="1 uneven")
    floored = Layer(46, 32, 768, 4, -1, True)
    floored.group = 512
    failed("case 46: one group where ceil(768 / 512) is two", compressed(floored), "CPU_UNPACK",
           "1 groups; K = 768 in groups of 512 takes another number")
    proven("case 50: K = 64 times an odd number", gptq([("m.a", Layer(50, 40, 320, 4, 64, True))], True), "--tp", "5", splits=2)
    mixed = {"dynamic": {".*k_proj": {"bits": 8, "group_size": 32}}}
    path = gptq([("m.q_proj", Layer(65, 64, 128, 4, 64, True)), ("m.k_proj", Layer(66, 32, 128, 8, 32, True))], True, **mixed)
    proven("case 65: layers with settings of their own", path, "--tp", "2", splits=4)
    lie = gptq([("m.a", Layer(1, 32, 128, 4, 64, True))], True, "gptq_v2", checkpoint_format="gptq")
    failed("case 1: symmetric zero points against the declared version", lie, "CPU_UNPACK", "gptq is declared, but symmetric zero points hold 8")


def with_config(path, **keys):
    json.dump(keys, open(os.path.join(path, "config.json"), "w"))
    return path


def fused():
    """q, k and v, or gate and up, are each split by their own size."""
    llama = {"num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 256}
    qkv = Layer(70, 384, 256, 4, 64, False)  # 8 heads of q, 2 each of k and v, of 32 rows
    path = with_config(gptq([("m.qkv_proj", qkv)], False), **llama)
    proven("fused qkv of 8 and 2 heads, 2 ranks", path, "--tp", "2", splits=2)
    proven("fused qkv: heads of k and v on two ranks each at 4", path, "--tp", "4", extra="1 with heads on several ranks")
    failed("fused qkv: 8 heads do not divide among 3 ranks", path, "TP_SHARD", "8 heads of 32 rows do not divide among 3 ranks", "--tp", "3")
    failed("fused qkv: sizes are not guessed", gptq([("m.qkv_proj", qkv)], False), "TP_SHARD",
           "the sizes of q, k and v are unknown: no config.json with num_attention_heads", "--tp", "2")
    path = with_config(gptq([("m.qkv_proj", qkv)], False), **{**llama, "num_key_value_heads": 4})
    failed("fused qkv: heads that do not give N", path, "TP_SHARD", "config.json makes q 256 rows, k and v 128 each, but N = 384", "--tp", "2")
    path = with_config(model({"m.qkv_proj.weight": ("U8", [96, 256], strided(weights(71, 384, 256))), "m.qkv_proj.weight_scale":
                              ("F32", [1], struct.pack("<f", 0.5))}, {"quant_method": "bitnet"}), **llama)
    proven("fused qkv, strided rows: parts are unpacked, cut, packed", path, "--tp", "2,4,8", extra="2 with heads on several ranks")
    proven("fused gate_up", gptq([("m.gate_up_proj", Layer(72, 256, 128, 3, 32, False))], False), "--tp", "2,4", splits=4)
    failed("gate_up: a border of the parts inside packed words", gptq([("m.gate_up_proj", Layer(73, 112, 128, 3, 32, False))], False),
           "TP_SHARD", "rows 56 to 88 of rank 0 cut a unit of 32 packed rows", "--tp", "2")
    path = model({"m.wqkv.weight": ("I8", [384, 64], tiles(weights(33, 384, 256))), "m.wqkv.weight_scale": four(1, 2, 4, 0)})
    proven("case 33: wqkv keeps the scales of q, k and v by rows, at 2 and 4 ranks", path, "--tp", "2,4", splits=4)
    failed("rows of query_key_value: nothing tells their order", gptq([("m.query_key_value", qkv)], False), "TP_SHARD",
           "rows of query_key_value may lie head by head or part by part", "--tp", "2")


def wrong_files():
    good = Layer(80, 32, 128, 4, 32, True, "plain")
    config = {"bits": 4, "group_size": 32, "sym": True}
    nan = dict(good.gptq("a"))
    nan["a.scales"] = ("F16", [4, 32], b"\0\x7e" + nan["a.scales"][2][2:])
    failed("a scale that is NaN", model(nan, config), "CPU_UNPACK", "a: scales: 1 NaN, 0 Inf")
    packed = bytearray(fields(weights(81, 16, 64)))
    packed[37] |= 0xC0
    failed("code 3 in layout (ii)", model({"a.packed_ternary_weight": ("I8", [16, 16], bytes(packed)), "a.scales": ("F16", [16], b"\0\x3c" * 16)}),
           "CPU_UNPACK", "the first is 3 at n = 2, k = 23")
    three = bytearray(int8(weights(82, 16, 64)))
    three[70] = 5
    failed("a byte of 5 in layout (iii)", model({"a.ternary_weight": ("I8", [16, 64], bytes(three)), "a.scales": ("F16", [16], b"\0\x3c" * 16)}),
           "CPU_UNPACK", "the first is 6 at n = 1, k = 6")
    index = dict(good.gptq("a"))
    index["a.g_idx"] = ("I32", [128], words([0] * 127 + [4]))
    failed("g_idx out of range", model(index, config), "CPU_UNPACK", "tensor 'a.g_idx': group 4 at k = 127, expected 0 to 3")
    flood = dict(good.gptq("a"))
    flood["a.qzeros"] = ("I32", [4, 4], words([0xFFFFFFF7] + [0x77777777] * 15))
    failed("a flood of zero points", model(flood, {**config, "sym": False}), "CPU_UNPACK", "suspect qzeros: 1 words saturated")
    vary = dict(good.gptq("a"))
    vary["a.qzeros"] = ("I32", [4, 4], words([0x77777787] + [0x77777777] * 15))
    failed("sym=true and zero points that vary", model(vary, config), "CPU_UNPACK", "sym=true is declared, but zero points vary")
    typed = dict(good.gptq("a"))
    typed["a.qweight"] = ("F32",) + typed["a.qweight"][1:]
    failed("words of another type, so that K is unknown", model(typed, config), "CPU_UNPACK", "tensor 'a.qweight': is F32, expected I32")
    path = model(good.gptq("a"), config)
    whole = open(os.path.join(path, "model.safetensors"), "rb").read()
    for name, change, fact in (("truncated", whole[:-7], "model.safetensors: "), ("a byte too many", whole + b"\0", "model.safetensors: "),
                               ("a git-lfs pointer", b"version https://git-lfs.github.com/spec/v1\noid x\n", "a git-lfs pointer"),
                               ("empty", b"", "model.safetensors: ")):
        open(os.path.join(path, "model.safetensors"), "wb").write(change)
        run = reconcile(path)
        check(f"reconcile: {name}", run.returncode == 1 and run.stdout == "" and fact in run.stderr and run.stderr.count("\n") <= 2,
              run.stdout + run.stderr)


def wrong_device():
    """A kernel that decodes wrongly, and one that does nothing, are found: a home with kernels of its own."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    path = gptq([("m.a", Layer(90, 32, 128, 4, 32, False))], False)
    for name, file, old, new, fact in (
            ("zero points", "literal.h", "(stored + l->zero_offset) % codes", "stored", "expected zero point"),
            ("codes", "literal.h", "+ at / 32 * stride, (int)(at % 32)) << b", "+ at / 32 * stride, (int)(at % 32)) << (b ^ 1)", "expected code"),
            ("nothing", "unpack.cu", "u.codes[i] = (unsigned char)tern_literal_code(", "int unused = tern_literal_code(", "expected code"),
            ("packed codes", "unpack.cu", "p = r / 8 + c % 4 / 2 * 2", "p = c % 4 / 2 + r / 8 * 2", "expected packed code"),
            ("packed scales", "unpack.cu", "* 8 + n % 8) * 2 + n % 16 / 8", "* 8 + n % 8) * 2 + n % 2", "expected packed zero point")):
        home = os.path.join(work, "home-" + name.replace(" ", "-"))
        os.mkdir(home)
        for entry in ("templates", "configs", "scripts", "harness"):
            os.symlink(os.path.join(root, entry), os.path.join(home, entry))
        shutil.copytree(os.path.join(root, "kernels"), os.path.join(home, "kernels"))
        text = open(os.path.join(home, "kernels", file)).read()
        assert text.count(old) == 1, old
        open(os.path.join(home, "kernels", file), "w").write(text.replace(old, new))
        os.environ["TERN_HOME"] = home
        failed(f"a device that decodes {name} wrongly", path, "GPU_LOAD", fact)
        del os.environ["TERN_HOME"]


formats()
if BACKEND == "emu":
    references()
    cases()
    fused()
    wrong_files()
if LOADS:
    wrong_device()
finish()
