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
                         preexec_fn=limit and (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))))
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


integer_formats()
print(f"# {official_reads} outputs read by the safetensors package" if official_reads else "# skipped the safetensors package: not installed")
finish()
