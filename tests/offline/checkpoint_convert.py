"""`tune convert`: what it writes is compared byte for byte with files that the packers of this folder write from the same weights; then
what it must refuse, and that nothing is left of an output that failed. Where the safetensors package is installed, it reads every
output. usage: checkpoint_convert.py FOLDER"""
import json, os, resource, signal, struct, subprocess, sys
import checkpoint_files
from checkpoint_files import *
from ternary_files import *

work = sys.argv[1]
official_reads = 0


def convert(path, to, *options, limit=None):
    """Runs the command on a new output name; (run, output folder)."""
    checkpoint_files.made += 1
    out = os.path.join(work, f"out{checkpoint_files.made}")
    run = subprocess.run([TUNE, "convert", path, out, "--to", to, *options], capture_output=True, text=True, timeout=60,
                         preexec_fn=None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    return run, out


def load(path):
    """name -> (dtype, shape, bytes) of a safetensors file."""
    raw = open(path, "rb").read()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    meta = header.pop("__metadata__", None)
    return {name: (e["dtype"], e["shape"], raw[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]])
            for name, e in header.items()}, meta


def official(path, want):
    """The reference package reads the same; counted."""
    global official_reads
    try:
        from safetensors import safe_open
    except ImportError:
        return True
    with safe_open(path, "np") as file:
        names = set(file.keys())
        for name, (dtype, shape, raw) in want.items():
            if dtype != "BF16" and (name not in names or file.get_tensor(name).tobytes() != raw or
                                    list(file.get_slice(name).get_shape()) != shape):
                return False
    official_reads += 1
    return names == set(want)


def compare(run, out, want):
    """None, or what is wrong with the output. `want` holds every tensor."""
    if run.returncode != 0:
        return f"exit {run.returncode}: {run.stderr}"
    got, meta = load(os.path.join(out, "model.safetensors"))
    for name in sorted(set(want) | set(got)):
        if want.get(name) != got.get(name):
            return f"{name}: {want.get(name, 'nothing')} expected, got {got.get(name, 'nothing')}"
    if not meta or meta.get("format") != "pt":
        return f"metadata {meta}"
    return None if official(os.path.join(out, "model.safetensors"), want) else "the safetensors package reads it otherwise"


def is_clean(name, run, out, code, fact):
    """It failed with this code and fact in one line, and left nothing."""
    left = [e for e in os.listdir(work) if e.startswith(os.path.basename(out))]
    check(name, run.returncode == code and fact in run.stderr.splitlines()[0] and not left, (run.returncode, run.stderr, left))


EXTRA = {"model.embed_tokens.weight": ("BF16", [3, 5], bytes(range(30))), "model.norm.weight": ("F32", [0], b""),
         "lm_head.weight": ("F16", [2, 3], b"\0\x7E" * 6), "model.layers.0.x.bias": ("F16", [], b"\1\2")}


def with_index(layer, tensors, name):
    return {**tensors, name + ".g_idx": ("I32", [layer.k], words(layer.index))}


def integer_formats():
    """GPTQ v1, v2 and planar, AWQ and compressed-tensors into each other."""
    shapes = [(32, 96), (48, 64), (8, 160), (96, 32), (64, 704)]
    count = 0
    for bits in (2, 3, 4, 8):
        for sym in (True, False):
            bad = None
            for group in (-1, 32, 48, 128):
                for order in ("none", "plain", "shuffled"):
                    n, k = shapes[count % len(shapes)]
                    n = -(-n // 32) * 32 if bits == 3 else n
                    layer = Layer(count, n, k, bits, min(group, k), sym, order, ["F16", "BF16", "F32"][count % 3])
                    count += 1
                    name = "model.layers.0.x"
                    act = layer.index != [i // layer.group for i in range(k)]
                    ct_config = {"format": "pack-quantized", "quant_method": "compressed-tensors", "config_groups": {
                        "g": {"targets": ["Linear"], "weights": {"num_bits": bits, "group_size": layer.group, "symmetric": sym,
                                                                 "actorder": "group" if act else None}}}}
                    forms = {"gptq": (layer.gptq(name, 1), {"bits": bits, "group_size": group if group < k else -1, "sym": sym}),
                             "gptq_v2": (layer.gptq(name, 0), {"bits": bits, "checkpoint_format": "gptq_v2", "sym": sym,
                                                               "group_size": group if group < k else -1}),
                             "gptq_p": (layer.gptq(name, 0, True), {"bits": bits, "checkpoint_format": "gptq_p", "sym": sym,
                                                                    "group_size": group if group < k else -1}),
                             "pack-quantized": (layer.compressed(name), ct_config)}
                    if bits == 4 and not act:
                        forms["awq"] = (layer.awq(name), {"quant_method": "awq", "version": "gemm", "w_bit": 4, "zero_point": not sym,
                                                          "q_group_size": layer.group})
                    for source, (tensors, config) in forms.items():
                        path = model({**tensors, **EXTRA}, config)
                        for target in ("gptq", "gptq_v2", "gptq_p", "pack-quantized"):
                            if target == "pack-quantized" and bits == 3 or source == "awq" and layer.n % 8:
                                continue
                            if source == "awq" and k % layer.group:
                                continue
                            run, out = convert(path, target, *(["--accept-suspect"] if not sym else []))
                            want = dict(forms[target][0])
                            if target == "pack-quantized" and not act:
                                want.pop(name + ".weight_g_idx", None)
                            if target != "pack-quantized":
                                want = with_index(layer, want, name)
                            bad = bad or (lambda b: b and f"{source} -> {target}, group {group}, {order}, {n} x {k}: {b}")(compare(run, out, {**want, **EXTRA}))
            check(f"convert {bits} bits {'sym' if sym else 'asym'}: gptq, gptq_v2, gptq_p, pack-quantized, awq", not bad, bad)
    print(f"# {count} layers")



def ternary_files_of(w, group_scales, dtype="F16"):
    """The same ternary weights [N][K] with one scale for 128 k, as each format would hold them."""
    n, k, groups = len(w), len(w[0]), -(-len(w[0]) // 128)
    raw = b"".join(s for row in group_scales for s in row)
    return {"ternary-i": {"a.packed_ternary_weight": ("U8", [n, k // 4], fields(w)), "a.scales": (dtype, [n, groups], raw)},
            "ternary-iii": {"a.ternary_weight": ("I8", [n, k], int8(w)), "a.scales": (dtype, [n, groups], raw)}}


def gptq_ternary(w, group_scales, group, bits=2, zero=2, dtype="F16", version=1):
    """Ternary hidden in GPTQ: codes z - 1, z, z + 1."""
    n, k = len(w), len(w[0])
    groups = -(-k // group)
    layer = Layer(0, n, k, bits, group, True, "plain", dtype)
    layer.codes = [[v + zero for v in row] for row in w]
    layer.zeros = [[zero] * n for _ in range(groups)]
    layer.scale_bytes = b"".join(group_scales[i][g] for g in range(groups) for i in range(n))
    return layer.gptq("a", version)


def drawn_scales(seed, n, groups, dtype="F16"):
    rng = random.Random(seed)
    return [[scale(rng, dtype)[0] for _ in range(groups)] for _ in range(n)]


def ternary_formats():
    bad = None
    for n, k in ((32, 256), (8, 128), (40, 160), (33, 1024)):
        for dtype in ("F16", "BF16", "F32"):
            w = weights(n + k, n, k)
            forms = ternary_files_of(w, drawn_scales(k, n, -(-k // 128), dtype), dtype)
            for source in forms:
                for target in forms:
                    run, out = convert(model({**forms[source], **EXTRA}), target)
                    bad = bad or (lambda b: b and f"{source} -> {target}, {n} x {k} {dtype}: {b}")(compare(run, out, {**forms[target], **EXTRA}))
    check("convert ternary-i and ternary-iii into each other", not bad, bad)
    bad = None
    for bits, zero, sym in ((2, 2, True), (2, 1, False), (4, 8, True), (8, 128, True), (3, 4, True)):
        n, k = 32, 384
        w, scales_of = weights(bits, n, k), drawn_scales(bits, n, 3)
        path = model(gptq_ternary(w, scales_of, 128, bits, zero), {"bits": bits, "group_size": 128, "sym": sym})
        for target, want in ternary_files_of(w, scales_of).items():
            run, out = convert(path, target)
            bad = bad or (lambda b: b and f"{bits} bits -> {target}: {b}")(compare(run, out, want))
    check("ternary hidden in GPTQ of 2, 3, 4, 8 bits", not bad, bad)
    n, k = 16, 256
    w = weights(5, n, k)
    one = drawn_scales(6, n, 1)
    ii = {"a.packed_ternary_weight": ("I8", [n, k // 4], fields(w)), "a.scales": ("F16", [n], b"".join(s for s, in one))}
    same_scale = [[s, s] for s, in one]
    for name, tensors, config in (
            ("ternary-i of equal scales", ternary_files_of(w, same_scale)["ternary-i"], None),
            ("GPTQ of one group", gptq_ternary(w, one, 256), {"bits": 2, "group_size": -1, "sym": True}),
            ("GPTQ of equal groups of 32", gptq_ternary(w, [[s] * 8 for s, in one], 32), {"bits": 2, "group_size": 32, "sym": True})):
        run, out = convert(model(tensors, config), "ternary-ii")
        bad = compare(run, out, ii)
        check(f"{name} -> ternary-ii", not bad, bad)
    run, out = convert(model(ii), "ternary-i")
    bad = compare(run, out, ternary_files_of(w, same_scale)["ternary-i"])
    check("ternary-ii -> ternary-i: a scale for every group", not bad, bad)
    run, out = convert(model(ii), "gptq")
    shifted = gptq_ternary(w, one, 256)
    bad = compare(run, out, shifted)
    check("ternary-ii -> gptq of 2 bits, symmetric", not bad, bad)
    run, again = convert(out, "ternary-ii")
    check("and back, bit by bit", not compare(run, again, ii), compare(run, again, ii))
    data = bytes(16 * 8 - 1) + b"\x03"
    run, out = convert(model({"a.packed_ternary_weight": ("U8", [4, 32], data), "a.scales": ("F16", [4, 1], bytes(8))}), "ternary-i")
    want = {"a.packed_ternary_weight": ("U8", [4, 32], bytes(128)), "a.scales": ("F16", [4, 1], bytes(8))}
    check("reserved fields are written as 0", not compare(run, out, want) and "1 fields of value 3" in run.stderr, (compare(run, out, want), run.stderr))


def bitnet_formats():
    n, k = 16, 64
    w = weights(9, n, k)
    tensors = lambda dtype, raw: {"a.weight": ("U8", [n // 4, k], strided(w)), "a.weight_scale": (dtype, [1], raw)}
    ii = lambda dtype, raw: {"a.packed_ternary_weight": ("I8", [n, k // 4], fields(w)), "a.scales": (dtype, [n], raw * n)}
    config = lambda name: {"quant_method": "bitnet", "linear_class": name}
    run, out = convert(model(tensors("BF16", bf16(1.5546875)), config("autobitlinear")), "ternary-ii")
    bad = compare(run, out, ii("BF16", bf16(1.5546875)))
    check("case 29: bitnet that multiplies -> ternary-ii, end to end", not bad, bad)
    for dtype, raw, value in (("BF16", bf16(1.5546875), 1.5546875), ("F16", struct.pack("<e", 0.7998046875), 0.7998046875)):
        run, out = convert(model(tensors(dtype, raw), config("bitlinear")), "ternary-ii")
        bad = compare(run, out, ii("F32", struct.pack("<f", 1 / value)))
        check(f"bitnet that divides by {dtype} -> ternary-ii in F32", not bad, bad)
    exact = lambda f: struct.unpack("<f", struct.pack("<f", f))[0]
    lost = next(d for d in (exact(1 + i / 1048576) for i in range(500000, 1048576)) if exact(1 / exact(1 / d)) != d)
    run, out = convert(model(tensors("F32", struct.pack("<f", lost)), config("bitlinear")), "ternary-ii")
    is_clean("a divisor that no factor gives back", run, out, 1, "which no F32 factor gives back exactly")
    rows = 48
    w = weights(11, rows, 64)
    run, out = convert(model({"l.w13.weight": ("I8", [rows, 16], tiles(w)), "l.w13.weight_scale": four(1, 2, 0, 0)}), "ternary-ii")
    want = {"l.w13.packed_ternary_weight": ("I8", [rows, 16], fields(w)), "l.w13.scales": ("BF16", [rows], bf16(1) * 24 + bf16(2) * 24)}
    bad = compare(run, out, want)
    check("bitnet-gpu w13 -> ternary-ii, scales by rows", not bad, bad)


def gguf_formats():
    for kind in ("TQ1_0", "TQ2_0"):
        codes, raw, _ = blocks(kind, 3, 4, 512)
        path = os.path.join(work, f"{kind}.gguf")
        open(path, "wb").write(gguf({"b.0.up.weight": (kind, [4, 512], raw), "norm": ("F32", [3], b"abcdefghijkl")}))
        run, out = convert(path, "ternary-i")
        size = len(raw) // 8
        halves = b"".join(raw[i * size + size - 2:i * size + size] * 2 for i in range(8))
        want = {"b.0.up.packed_ternary_weight": ("U8", [4, 128], fields([[q - 1 for q in row] for row in codes])),
                "b.0.up.scales": ("F16", [4, 4], halves), "norm": ("F32", [3], b"abcdefghijkl")}
        bad = compare(run, out, want)
        check(f"gguf {kind} -> ternary-i", not bad and "keys of the GGUF file" in run.stderr, bad or run.stderr)
    codes, raw, _ = blocks("Q2_0", 3, 4, 128, 3)
    path = os.path.join(work, "q2.gguf")
    open(path, "wb").write(gguf({"b.up.weight": ("Q2_0", [4, 128], raw)}))
    run, out = convert(path, "ternary-i")
    is_clean("gguf Q2_0 with weights of +2", run, out, 1, "is 2 times its scale: not ternary")
    run, out = convert(path, "gptq_v2")
    check("gguf Q2_0 -> gptq_v2", run.returncode == 0 and decode(out)[0] == "layer b.up gptq_v2 4 128 2 64 2 0 0", run)


def refusals():
    four_bits = Layer(3, 32, 256, 4, 128, True, "plain")
    config = {"bits": 4, "group_size": 128, "sym": True}
    good = model(four_bits.gptq("a"), config)
    run, out = convert(good, "ternary-i")
    is_clean("4-bit codes that are not ternary", run, out, 1, "layer 'a': weight n = 0, k = ")
    w = weights(4, 8, 256)
    run, out = convert(model(ternary_files_of(w, drawn_scales(1, 8, 2))["ternary-i"]), "ternary-ii")
    is_clean("groups of different scales in one row", run, out, 1, "in groups 0 and 1; ternary-ii holds one for k = 0 to 255")
    shuffled = model(gptq_ternary(w, drawn_scales(1, 8, 2), 128) | {"a.g_idx": ("I32", [256], words([1] * 128 + [0] * 128))},
                     {"bits": 2, "group_size": 128, "sym": True})
    run, out = convert(shuffled, "ternary-i")
    is_clean("act-order into a ternary layout", run, out, 1, "act-order: its groups are not runs along K")
    run, out = convert(model(Layer(1, 32, 96, 3, 32, True).gptq("a"), {"bits": 3, "group_size": 32, "sym": True}), "pack-quantized")
    is_clean("3 bits into pack-quantized", run, out, 1, "loaders of pack-quantized disagree")
    run, out = convert(model({"a.ternary_weight": ("I8", [2, 6], bytes(12)), "a.scales": ("F16", [2], bytes(4))}), "ternary-ii")
    is_clean("K that fills no byte", run, out, 1, "K = 6 is no multiple of 4")
    run, out = convert(model(Layer(1, 8, 64, 3, 64, True).gptq("a"), {"bits": 3, "group_size": 64, "sym": True}), "gptq_p")
    is_clean("planes cut inside 32", run, out, 1, "planes hold 32 codes; N = 8")
    taken = {**ternary_files_of(w, drawn_scales(1, 8, 2))["ternary-i"], "a.qzeros": ("F32", [1], bytes(4))}
    run, out = convert(model(taken), "gptq")
    is_clean("a new name that is taken", run, out, 1, "two tensors would be called 'a.qzeros'")
    lies = model(four_bits.gptq("a", 0), {**config, "checkpoint_format": "gptq"})
    run, out = convert(lies, "gptq")
    is_clean("case 1: a declaration that lies", run, out, 1, "layer 'a': gptq is declared, but symmetric zero points hold 8")
    run, out = convert(lies, "gptq", "--accept-suspect")
    bad = compare(run, out, four_bits.gptq("a", 1))
    check("case 1: and what its bits say", not bad, bad)
    path = os.path.join(work, "vocab.gguf")
    open(path, "wb").write(gguf({"e": ("TQ2_0", [1, 256], blocks("TQ2_0", 1, 1, 256)[1]), "f.weight": (14, [1, 256], bytes(210))}))
    run, out = convert(path, "ternary-iii")
    is_clean("a type that the container lacks", run, out, 1, "which safetensors cannot hold")
    broken = {"code 3 in layout (ii)": ({"a.packed_ternary_weight": ("I8", [2, 8], bytes(15) + b"\xC0"), "a.scales": ("F16", [2], bytes(4))},
                                        "layer 'a': 1 codes that no ternary weight has"),
              "values outside -1, 0, 1": ({"a.ternary_weight": ("I8", [1, 8], b"\2" * 8), "a.scales": ("F16", [1], bytes(2))},
                                          "layer 'a': 8 codes that no ternary weight has"),
              "NaN scale": ({"a.ternary_weight": ("I8", [1, 8], bytes(8)), "a.scales": ("F16", [1], b"\0\x7E")}, "layer 'a': scales: 1 NaN"),
              "sym=true, zero points vary": ({**four_bits.gptq("a"), "a.qzeros": ("I32", [2, 4], words([0x77777787] * 8))},
                                             "tensor 'a.qzeros': sym=true is declared, but zero points vary"),
              "g_idx out of range": ({**four_bits.gptq("a"), "a.g_idx": ("I32", [256], words([2] * 256))}, "tensor 'a.g_idx': group 2 at k = 0"),
              "unmasked zero points": ({**four_bits.gptq("a"), "a.qzeros": ("I32", [2, 4], words([0xFFFFFFF7] * 8))}, "suspect qzeros: 8 words")}
    for name, (tensors, fact) in broken.items():
        run, out = convert(model(tensors, {**config, "sym": False} if name.startswith("unmasked") else config), "gptq")
        is_clean(name, run, out, 1, fact)
    for name, content, code, fact in (("git-lfs pointer", b"version https://git-lfs.github.com/spec/v1\noid", 1, "a git-lfs pointer"),
                                      ("truncated", open(os.path.join(good, "model.safetensors"), "rb").read()[:-1], 1, "truncated"),
                                      ("no layer", struct.pack("<Q", 2) + b"{}", 1, "none of its 0 tensors")):
        path = os.path.join(work, name.replace(" ", "-") + ".safetensors")
        open(path, "wb").write(content)
        run, out = convert(path, "gptq")
        is_clean(name, run, out, code, fact)
    run, out = convert(os.path.join(work, "nowhere"), "gptq")
    is_clean("no such path", run, out, 2, "nowhere")
    before = sorted(os.listdir(good))
    run = subprocess.run([TUNE, "convert", good, good, "--to", "gptq_v2"], capture_output=True, text=True)
    check("never in place", run.returncode == 2 and "exists: convert writes a new folder" in run.stderr and sorted(os.listdir(good)) == before, run)
    run = subprocess.run([TUNE, "convert", good, os.path.join(work, "no/folder"), "--to", "gptq_v2"], capture_output=True, text=True)
    check("output in a folder that is not there", run.returncode == 2 and "cannot make the folder" in run.stderr, run)


def no_room():
    """A file that may not grow stands for a full disk: the same path of errors."""
    layer = Layer(3, 32, 512, 4, 128, True, "plain")
    good = model({**layer.gptq("a"), "z": ("I8", [20000], bytes(20000))}, {"bits": 4, "group_size": 128, "sym": True})
    for limit in (0, 1024, 20000):
        run, out = convert(good, "gptq_v2", limit=limit)
        is_clean(f"no more than {limit} bytes a file", run, out, 4, "File too large")
    for to in ("/dev/full", "/dev/full/x"):
        run = subprocess.run([TUNE, "convert", good, to, "--to", "gptq_v2"], capture_output=True, text=True)
        check(f"output {to}", run.returncode in (2, 4) and run.stderr.startswith("tune: "), run)
    if os.geteuid() != 0:
        os.mkdir(os.path.join(work, "closed"), 0o500)
        run = subprocess.run([TUNE, "convert", good, os.path.join(work, "closed/x"), "--to", "gptq_v2"], capture_output=True, text=True)
        check("a folder that may not be written", run.returncode == 4 and not os.listdir(os.path.join(work, "closed")), run)


def folders():
    """Shards, declarations and the other files of a model folder."""
    a, b = Layer(1, 32, 128, 4, 64, True, "plain"), Layer(2, 32, 128, 8, 128, False, "plain")
    shards = {"m-1.safetensors": {**a.gptq("m.0.q_proj"), "m.embed_tokens.weight": EXTRA["model.embed_tokens.weight"]},
              "m-2.safetensors": {**b.gptq("m.1.q_proj"), "lm_head.weight": ("F16", [2, 2], bytes(8)), "m.1.gate.weight": ("F16", [2, 2], bytes(8))}}
    first = next(iter(shards["m-1.safetensors"]))
    shards["m-2.safetensors"]["m.0.q_proj.scales"] = shards["m-1.safetensors"].pop("m.0.q_proj.scales")  # a layer in two shards
    path = os.path.join(work, "sharded")
    os.mkdir(path)
    for name, tensors in shards.items():
        save(os.path.join(path, name), tensors)
    json.dump({"metadata": {}, "weight_map": {t: f for f, tensors in shards.items() for t in tensors}},
              open(os.path.join(path, "model.safetensors.index.json"), "w"))
    json.dump({"model_type": "llama", "rms_norm_eps": 1e-06, "n": 2**53 + 1, "quantization_config": {"bits": 4}}, open(os.path.join(path, "config.json"), "w"))
    json.dump({"bits": 4, "group_size": 64, "sym": True, "dynamic": {"m.1.*": {"bits": 8, "group_size": 128, "sym": False}}},
              open(os.path.join(path, "quantize_config.json"), "w"))
    for name in ("tokenizer.json", "pytorch_model.bin", ".hidden"):
        open(os.path.join(path, name), "w").write(name)
    run, out = convert(path, "gptq_v2")
    check("shards keep their names, other files are carried", run.returncode == 0 and sorted(os.listdir(out)) == sorted(
        [*shards, "config.json", "quantize_config.json", "model.safetensors.index.json", "tokenizer.json"]), run.stderr or os.listdir(out))
    config = json.load(open(os.path.join(out, "config.json")))
    check("config.json keeps its keys and numbers", config["rms_norm_eps"] == 1e-06 and config["n"] == 2**53 + 1 and config["model_type"] == "llama", config)
    declared = config["quantization_config"]
    check("declared: the most, then rules for the rest", declared == json.load(open(os.path.join(out, "quantize_config.json"))) and
          {k: declared[k] for k in ("bits", "group_size", "sym", "desc_act", "quant_method", "checkpoint_format", "lm_head")} ==
          {"bits": 4, "group_size": 64, "sym": True, "desc_act": False, "quant_method": "gptq", "checkpoint_format": "gptq_v2", "lm_head": False}
          and declared["dynamic"] == {"-:m\\.1\\.gate$": {}, "+:m\\.1\\.q_proj$": {"bits": 8, "group_size": -1, "sym": False, "desc_act": False}}, declared)
    want = a.expected("m.0.q_proj", "gptq_v2") + b.expected("m.1.q_proj", "gptq_v2")
    check("the output reads as the input", decode(out) == want, first_difference(want, decode(out)))
    run, ct = convert(out, "pack-quantized")
    groups = json.load(open(os.path.join(ct, "config.json")))["quantization_config"]
    check("compressed-tensors: a group of layers each, what is left out", [g["targets"] for g in groups["config_groups"].values()] ==
          [["m.0.q_proj"], ["m.1.q_proj"]] and groups["ignore"] == ["lm_head", "m.1.gate"] and "quantize_config.json" not in os.listdir(ct), groups)
    run, back = convert(ct, "gptq")
    want = a.expected("m.0.q_proj", "gptq") + b.expected("m.1.q_proj", "gptq")
    check("and back by way of compressed-tensors", decode(back) == want, run.stderr or first_difference(want, decode(back)))
    os.remove(os.path.join(path, "m-2.safetensors"))
    run, out = convert(path, "gptq_v2")
    is_clean("a shard is missing", run, out, 1, "shard m-2.safetensors is missing")


def zero_of_version_1():
    layer = Layer(8, 32, 64, 4, 64, False)
    layer.zeros = [[0] + [8] * 31]
    run, out = convert(model(layer.gptq("a", 0), {"bits": 4, "group_size": 64, "sym": False, "checkpoint_format": "gptq_v2"}), "gptq")
    got = load(os.path.join(out, "model.safetensors"))[0]["a.qzeros"][2][:4]
    check("case 4: zero point 0 goes to version 1 in its lane, and is named", got == words([0x7777777F]) and "1 zero points are 0" in run.stderr, (got, run.stderr))
    run, back = convert(out, "gptq_v2")
    check("case 4: v2 -> v1 -> v2 is the identity", load(os.path.join(back, "model.safetensors"))[0]["a.qzeros"][2] == layer.gptq("a", 0)["a.qzeros"][2], run)


def other_readers():
    """From the gguf package's writer through Tern to the safetensors package's reader: the values of the gguf package's own decoder."""
    try:
        import gguf as package, numpy
        from safetensors.numpy import load_file
    except ImportError:
        print("# skipped gguf package -> Tern -> safetensors package: not installed")
        return
    rng = numpy.random.default_rng(7)
    for kind in ("TQ1_0", "TQ2_0"):
        for target in ("ternary-i", "ternary-iii"):
            step = rng.uniform(0.01, 2, (24, 3)).astype(numpy.float16).astype(numpy.float32).repeat(256, 1)
            values = (rng.integers(-1, 2, (24, 768)) * step).astype(numpy.float32)
            raw = package.quants.quantize(values, package.GGMLQuantizationType[kind])
            path = os.path.join(work, f"by-package-{kind}-{target}.gguf")
            writer = package.GGUFWriter(path, "llama")
            writer.add_tensor("blk.0.ffn_up.weight", raw, raw_dtype=package.GGMLQuantizationType[kind])
            writer.add_tensor("output_norm.weight", values[0, :5].copy())
            writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()
            run, out = convert(path, target)
            got = load_file(os.path.join(out, "model.safetensors"))
            if target == "ternary-iii":
                w = got["blk.0.ffn_up.ternary_weight"].astype(numpy.float32)
            else:
                packed = got["blk.0.ffn_up.packed_ternary_weight"]
                w = numpy.array([0, 1, -1, 0], numpy.float32)[(packed[:, :, None] >> numpy.array([0, 2, 4, 6], numpy.uint8)) & 3].reshape(24, 768)
            w = w * got["blk.0.ffn_up.scales"].astype(numpy.float32).repeat(128, 1)
            same = numpy.array_equal(w, package.quants.dequantize(raw, package.GGMLQuantizationType[kind])) and numpy.array_equal(w, values)
            check(f"gguf package's {kind} -> {target} -> safetensors package: every value", same and
                  numpy.array_equal(got["output_norm.weight"], values[0, :5]), run)


def compressed_tensors_package():
    """Packs of the compressed-tensors package read by Tern; weights and declarations that Tern writes read by it."""
    try:
        import torch
        from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
        from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
        from compressed_tensors.quantization import QuantizationConfig
    except ImportError as error:
        print(f"# skipped the compressed-tensors package: {error}")
        return
    types = {"I32": torch.int32, "I64": torch.int64, "F32": torch.float32}
    for bits, sym, group in ((2, True, 32), (4, True, 32), (8, True, -1), (4, False, 32), (8, False, -1), (2, False, 48)):
        layer = Layer(bits, 32, 96, bits, group, sym, "none", "F32")
        name, middle = f"{bits} bits, group {group}, {'sym' if sym else 'asym'}", 1 << bits - 1
        signed = torch.tensor(layer.codes, dtype=torch.int16) - middle
        theirs, ours = pack_to_int32(signed.to(torch.int8), bits), layer.compressed("a")
        config = {"format": "pack-quantized", "config_groups": {"g": {"targets": ["Linear"], "weights": {
            "num_bits": bits, "group_size": layer.group, "symmetric": sym}}}}
        tensors = {**ours, "a.weight_packed": ("I32", list(theirs.shape), theirs.numpy().tobytes())}
        if not sym:
            zeros = pack_to_int32((torch.tensor(transpose(layer.zeros), dtype=torch.int16) - middle).to(torch.int8), bits, packed_dim=0)
            tensors["a.weight_zero_point"] = ("I32", list(zeros.shape), zeros.numpy().tobytes())
        run, out = convert(model(tensors, config), "gptq_v2")
        bad = compare(run, out, with_index(layer, layer.gptq("a", 0), "a"))
        check(f"compressed-tensors package -> gptq_v2, {name}", not bad, bad)
        run, out = convert(model(layer.gptq("a"), {"bits": bits, "group_size": group, "sym": sym}), "pack-quantized", "--accept-suspect")
        scheme = QuantizationConfig.model_validate(json.load(open(os.path.join(out, "config.json")))["quantization_config"]).config_groups["group_0"]
        got = {n[2:]: torch.frombuffer(bytearray(raw), dtype=types[dtype]).reshape(shape)
               for n, (dtype, shape, raw) in load(os.path.join(out, "model.safetensors"))[0].items()}
        back = PackedQuantizationCompressor.decompress(got, scheme)["weight"]
        want = torch.tensor([[struct.unpack("<f", struct.pack("<I", layer.scale_bits[k // layer.group][n]))[0] * (q - layer.zeros[k // layer.group][n])
                              for k, q in enumerate(row)] for n, row in enumerate(layer.codes)], dtype=torch.float32)
        check(f"gptq -> pack-quantized, weights and declaration read by the compressed-tensors package, {name}", torch.equal(back, want), (back, want))


def transformers_package():
    """Hugging Face BitNet: rows packed by transformers, read by Tern."""
    try:
        import torch
        from transformers.integrations.bitnet import pack_weights
    except ImportError as error:
        print(f"# skipped the transformers package: {error}")
        return
    n, k = 48, 64
    w = weights(21, n, k)
    packed = pack_weights(torch.tensor(w, dtype=torch.float32))
    raw = packed.numpy().tobytes()
    check("transformers packs BitNet rows as this folder does", raw == strided(w) and list(packed.shape) == [n // 4, k])
    run, out = convert(model({"a.weight": ("U8", [n // 4, k], raw), "a.weight_scale": ("BF16", [1], bf16(1.5546875))},
                             {"quant_method": "bitnet", "linear_class": "autobitlinear"}), "ternary-ii")
    bad = compare(run, out, {"a.packed_ternary_weight": ("I8", [n, k // 4], fields(w)), "a.scales": ("BF16", [n], bf16(1.5546875) * n)})
    check("BitNet of the transformers package -> ternary-ii", not bad, bad)


def gptqmodel_package():
    """Layers packed by GPTQModel read by Tern, and Tern's read and dequantised by it: 2, 3, 4 and 8 bits, act-order."""
    try:
        import torch
        from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    except ImportError as error:
        print(f"# skipped the gptqmodel package: {error}")
        return

    def empty(layer, act):
        return TorchLinear(bits=layer.bits, group_size=layer.group, sym=layer.sym, desc_act=act, in_features=layer.k,
                           out_features=layer.n, bias=False, register_buffers=True)
    for bits in (2, 3, 4, 8):
        for sym in (True, False):
            layer = Layer(bits, 32, 128, bits, 32, sym, "shuffled")
            codes, index = torch.tensor(layer.codes, dtype=torch.float32), torch.tensor(layer.index)
            steps = torch.tensor([[struct.unpack("<f", struct.pack("<I", b))[0] for b in row] for row in layer.scale_bits]).T.contiguous()
            zeros = torch.tensor(layer.zeros, dtype=torch.float32).T.contiguous()
            linear = torch.nn.Linear(layer.k, layer.n, bias=False)
            linear.weight.data = (codes - zeros[:, index]) * steps[:, index]
            theirs = empty(layer, True)
            theirs.pack_original(linear, steps, zeros, index.to(torch.int32))
            tensors = {"a." + name: (dtype, list(getattr(theirs, name).shape), getattr(theirs, name).contiguous().numpy().tobytes())
                       for name, dtype in (("qweight", "I32"), ("qzeros", "I32"), ("scales", "F16"), ("g_idx", "I32"))}
            run, out = convert(model(tensors, {"bits": bits, "group_size": 32, "sym": sym, "desc_act": True, "checkpoint_format": "gptq_v2"}), "gptq", "--accept-suspect")
            bad = compare(run, out, layer.gptq("a", 1))
            check(f"gptqmodel package -> gptq, {bits} bits, {'sym' if sym else 'asym'}, act-order", not bad, bad)
            if bits == 3:
                continue  # not written as pack-quantized, which is the way that the next one goes
            config = {"format": "pack-quantized", "config_groups": {"g": {"targets": ["Linear"], "weights": {
                "num_bits": bits, "group_size": 32, "symmetric": sym, "actorder": "group"}}}}
            run, out = convert(model(layer.compressed("a"), config), "gptq_v2")
            back = empty(layer, True)
            for name, (dtype, shape, raw) in load(os.path.join(out, "model.safetensors"))[0].items():
                setattr(back, name[2:], torch.frombuffer(bytearray(raw), dtype=torch.int32 if dtype == "I32" else torch.float16).reshape(shape))
            back.post_init()
            want = (steps.T.half()[index] * (codes - zeros[:, index]).T).half()
            check(f"pack-quantized -> gptq_v2 dequantised by the gptqmodel package, {bits} bits, {'sym' if sym else 'asym'}, act-order",
                  torch.equal(back.dequantize_weight().half(), want), run)


other_readers()
compressed_tensors_package()
transformers_package()
gptqmodel_package()
ternary_formats()
bitnet_formats()
gguf_formats()
refusals()
no_room()
folders()
zero_of_version_1()
integer_formats()
print(f"# {official_reads} outputs read by the safetensors package" if official_reads else "# skipped the safetensors package: not installed")
finish()
