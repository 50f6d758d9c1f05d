"""`tune shapes`: the shapes file of a model, against the hand-written one and against config.json. usage: checkpoint_shapes.py FOLDER"""
import json, os, re, struct, subprocess, sys
from checkpoint_files import *
from ternary_files import *

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
QWEN = {"_name_or_path": "Qwen/Qwen2.5-7B", "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4,
        "intermediate_size": 18944, "num_hidden_layers": 28, "model_type": "qwen2"}
BLOCK = {"self_attn.q_proj": (3584, 3584), "self_attn.k_proj": (512, 3584), "self_attn.v_proj": (512, 3584),
         "self_attn.o_proj": (3584, 3584), "mlp.gate_proj": (18944, 3584), "mlp.up_proj": (18944, 3584), "mlp.down_proj": (3584, 18944)}


def sparse(path, shapes):
    """A file with these tensors, all zero, that takes no room on the disk."""
    header, at = {}, 0
    for name, (dtype, shape) in shapes.items():
        size = SIZES[dtype]
        for dim in shape:
            size *= dim
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    return at


def ternary(modules):
    out = {}
    for name, (n, k) in modules.items():
        out[name + ".packed_ternary_weight"] = ("U8", [n, k // 4])
        out[name + ".scales"] = ("F16", [n, -(-k // 128)])
    return out


def folder(name, shapes, config=None):
    path = os.path.join(work, name)
    os.mkdir(path)
    sparse(os.path.join(path, "model.safetensors"), shapes)
    if config is not None:
        json.dump(config, open(os.path.join(path, "config.json"), "w"))
    return path


def shapes(path, *options):
    return subprocess.run([TUNE, "shapes", path, *options], capture_output=True, text=True, timeout=60)


def layers(text):
    return re.findall(r'\{ name = "([^"]*)", n = (\d+), k = (\d+), count = (\d+) \}', text)


def formats(text):
    return re.search(r"formats = \{ (.*) \}", text).group(1)


def loads(path):
    """The file is read, and only the layer that is asked for is not there."""
    run = subprocess.run([TUNE, "--gpu", "h200", "--shapes", path, "--layers", "no-such-layer"], capture_output=True, text=True, cwd=work)
    return run.returncode == 2 and "no-such-layer" in run.stderr, run


def qwen():
    model_shapes = {"model.embed_tokens.weight": ("BF16", [152064, 3584]), "model.norm.weight": ("BF16", [3584])}
    for i in range(28):
        model_shapes.update(ternary({f"model.layers.{i}.{m}": nk for m, nk in BLOCK.items()}))
        model_shapes[f"model.layers.{i}.input_layernorm.weight"] = ("BF16", [3584])
    path = folder("qwen", model_shapes, QWEN)
    out = os.path.join(work, "qwen.lua")
    run = shapes(path, "-o", out)
    got, want = open(out).read() if run.returncode == 0 else "", open(os.path.join(ROOT, "configs/shapes/qwen7b.lua")).read()
    check("Qwen2.5-7B: layers, counts and batch sizes of configs/shapes/qwen7b.lua", layers(got) == layers(want) and len(layers(got)) == 4 and
          re.findall(r"(?:decode|prefill) = .*", got) == re.findall(r"(?:decode|prefill) = .*", want), run.stderr or got)
    check("Qwen2.5-7B: title, formats, nothing to warn of", 'title = "Qwen2.5-7B"' in got and formats(got) == '"ternary-g128"' and not run.stderr, (got, run.stderr))
    good, run = loads(out)
    check("what is written is loaded by --shapes", good, run)
    for key, value, fact in (("hidden_size", 4096, "sizes give layer qkv N = 5256, K = 4096; its tensors ('model.layers.0.self_attn.q_proj', ...) have N = 4608, K = 3584"),
                             ("num_key_value_heads", 28, "sizes give layer qkv N = 10752"), ("intermediate_size", 18945, "sizes give layer gate_up N = 37890"),
                             ("hidden_size", "3584", "'hidden_size' of \"3584\" is no size"), ("head_dim", -1, "'head_dim' of -1 is no size")):
        json.dump({**QWEN, key: value}, open(os.path.join(path, "config.json"), "w"))
        other = os.path.join(work, "other.lua")
        run = shapes(path, "-o", other)
        check(f"{key} of {value!r} contradicts the tensors", run.returncode == 1 and fact in run.stderr and not os.path.exists(other), run)
    json.dump({**QWEN, "hidden_size": 4096}, open(os.path.join(path, "config.json"), "w"))
    run = shapes(path, "--accept-suspect")
    check("--accept-suspect: the tensors count, and it is said", run.returncode == 0 and layers(run.stdout) == layers(want) and "sizes give layer qkv" in run.stderr, run)
    json.dump({**QWEN, "num_hidden_layers": 32}, open(os.path.join(path, "config.json"), "w"))
    run = shapes(path)
    check("another number of layers is a warning", run.returncode == 0 and "num_hidden_layers is 32, and 28 layers are qkv" in run.stderr, run)
    open(os.path.join(path, "config.json"), "w").write("{")
    run = shapes(path)
    check("config.json that is no JSON", run.returncode == 1 and "config.json: line 1" in run.stderr, run)


def names():
    """Other names of the same layers, other layers, and layers of which a part is missing."""
    def listed(name, modules, want, extra=None):
        run = shapes(folder(name, {**ternary(modules), **(extra or {})}))
        got = [(l[0], int(l[1]), int(l[2]), int(l[3])) for l in layers(run.stdout)]
        check(f"names: {name}", run.returncode == 0 and got == want, run.stderr or got)
    listed("fused", {"h.0.attn.qkv_proj": (96, 64), "h.0.mlp.gate_up_proj": (128, 64), "h.1.attn.qkv_proj": (96, 64), "h.1.mlp.gate_up_proj": (64, 64)},
           [("qkv", 96, 64, 2), ("gate_up", 128, 64, 1), ("gate_up-2", 64, 64, 1)])
    listed("microsoft", {"l.wqkv": (96, 64), "l.wo": (64, 64), "l.w13": (128, 64), "l.w2": (64, 64)},
           [("qkv", 96, 64, 1), ("o", 64, 64, 1), ("gate_up", 128, 64, 1), ("down", 64, 64, 1)])
    listed("experts", {f"m.0.experts.{e}.{w}": (64, 64) for e in range(3) for w in ("gate_proj", "up_proj")}, [("gate_up", 128, 64, 3)])
    listed("part", {"m.0.q_proj": (64, 64), "m.0.v_proj": (32, 64), "m.0.up_proj": (64, 64)},
           [("q_proj", 64, 64, 1), ("up_proj", 64, 64, 1), ("v_proj", 32, 64, 1)])
    listed("quotes", {'m.a"b\\n]]': (64, 64)}, [])  # the name is text in the Lua file, whatever it holds
    run = shapes(os.path.join(work, "quotes"))
    check("a name cannot leave its string", run.returncode == 0 and r'{ name = "a\"b\\n]]", n = 64' in run.stdout, run)
    path = os.path.join(work, "evil.lua")
    open(path, "w").write(run.stdout)
    good, run = loads(path)
    check("and the file loads", good, run)
    path = os.path.join(work, "g.gguf")
    raw = lambda n: ("TQ2_0", [n, 256], bytes(66 * n))
    open(path, "wb").write(gguf({"blk.0.attn_q.weight": raw(64), "blk.0.attn_k.weight": raw(32), "blk.0.attn_v.weight": raw(32),
                                 "blk.0.attn_output.weight": raw(64), "blk.0.ffn_gate.weight": raw(8), "blk.0.ffn_up.weight": raw(8)}))
    run = shapes(path)
    check("names: gguf", layers(run.stdout) == [("qkv", "128", "256", "1"), ("o", "64", "256", "1"), ("gate_up", "16", "256", "1")] and
          formats(run.stdout) == '"ternary-channel"', run)


def formats_found():
    def one(name, layer, config, fact, code=0):
        run = shapes(model(layer.gptq("m.0.o_proj"), config))
        check(f"formats: {name}", run.returncode == code and fact in run.stdout + run.stderr, run)
    sym = {"bits": 4, "group_size": 32, "sym": True}
    one("gptq4-g32", Layer(1, 32, 128, 4, 32, True), sym, '"gptq4-g32"')
    one("gptq3-channel-asym", Layer(1, 32, 128, 3, -1, False), {"bits": 3, "group_size": -1, "sym": False}, '"gptq3-channel-asym"')
    one("act-order is named", Layer(1, 32, 128, 4, 32, True, "shuffled"), {**sym, "desc_act": True}, "gptq4-g32-actorder: no kernel serves act-order", 1)
    one("a group that no kernel has", Layer(1, 32, 128, 4, 16, True), {**sym, "group_size": 16}, "o in gptq4-g16", 1)
    one("N that no kernel has", Layer(1, 12, 128, 4, 32, True), sym, "none of its layers can be served", 1)
    mixed = {**Layer(1, 32, 128, 4, 32, True).gptq("m.0.q_proj"), **Layer(2, 32, 128, 4, 64, True).gptq("m.0.k_proj"), **Layer(3, 32, 128, 4, 32, True).gptq("m.0.v_proj")}
    run = shapes(model(mixed, {"bits": 4, "sym": True, "dynamic": {"m.0.k.*": {"group_size": 64}, ".*": {"group_size": 32}}}))
    check("case 65: parts with different groups", run.returncode == 1 and "'m.0.q_proj' and 'm.0.k_proj' are multiplied at once, but one is gptq4-g32" in run.stderr, run)
    run = shapes(model({"a.packed_ternary_weight": ("F32", [1, 1], bytes(4))}))
    check("a broken layer", run.returncode == 1 and "tensor 'a.packed_ternary_weight': is F32" in run.stderr, run)
    for args, fact in (((os.path.join(work, "nowhere"),), "nowhere"), ((), "shapes needs the folder"), (("a", "b"), "unexpected argument 'b'")):
        run = subprocess.run([TUNE, "shapes", *args], capture_output=True, text=True)
        check(f"wrong arguments: {fact}", run.returncode == 2 and fact in run.stderr, run)
    run = shapes(os.path.join(work, "qwen"), "-o", os.path.join(work, "no/such/x.lua"), "--accept-suspect")
    check("output that cannot be written", run.returncode != 0 and run.stdout == "", run)


qwen()
names()
formats_found()
finish()
