"""A whole decoder with ternary layers, four ways: python3 end_to_end.py FOLDER [--model 0.5b|7b|tiny] [--json FILE] [--cpu]

A Qwen2 decoder of transformers with random ternary weights (no download), its linear layers kept and run as
  fp16        binary16 weights (multiplied by cuBLAS)
  at-load     packed in the file, expanded to binary16 when the model is loaded: no memory saved
  each-time   2 bits a weight, expanded before each product by one compiled kernel, then cuBLAS
  tern        the kernels of an exported table (FOLDER)
q, k and v are one layer, gate and up another, in all four. What lies between the linear layers (norms, rotation, cache, attention,
activation) is four functions under torch.compile, compiled once and the same objects in all four, as an engine fuses them; a reason is
printed where they cannot be compiled, and then they run as they are, in all four. Embedding, last norm and head are those of transformers.
Prints bytes of the linear layers, seconds to get from host memory to a model that answers, milliseconds a token
(batch 1, 8 and 16, a CUDA graph of one step, and how much of it the linear layers take alone in a graph) and of a prefill of
1024, and the logits of 1,000 positions against an FP32 run by the unchanged modules of transformers. Exit 1 if those of tern are no good.
--cpu: on the emulator's library, without times (tests)."""

import argparse
import functools
import json
import statistics
import sys
import time

import torch
import transformers

import tern_torch

GROUP = 128
SIZES = {
    "tiny": dict(hidden_size=256, intermediate_size=384, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, vocab_size=512),
    "0.5b": dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
                 vocab_size=151936, tie_word_embeddings=True),
    "7b": dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4,
               vocab_size=152064, tie_word_embeddings=False),
}
WAYS = ("fp16", "at-load", "each-time", "tern")
T_95 = {6: 2.571, 20: 2.093}  # 97.5 % quantile of Student's t for a mean of so many


class Checkpoint:
    """Random ternary layers as a file has them, in host memory: 4 codes (weight + 1) a byte, a binary16 scale per 128."""

    def __init__(self, config, device):
        hidden, inner = config.hidden_size, config.intermediate_size
        heads = hidden // config.num_attention_heads
        self.parts = {"qkv": (hidden, heads * config.num_key_value_heads, heads * config.num_key_value_heads), "gate_up": (inner, inner)}
        self.names = {"qkv": ("q_proj", "k_proj", "v_proj"), "o": ("o_proj",), "gate_up": ("gate_proj", "up_proj"), "down": ("down_proj",)}
        shapes = {"qkv": (sum(self.parts["qkv"]), hidden), "o": (hidden, hidden), "gate_up": (2 * inner, hidden), "down": (hidden, inner)}
        self.layers = []
        for block in range(config.num_hidden_layers):
            for name, (n, k) in shapes.items():
                codes = torch.randint(0, 3, (n, k // 4, 4), dtype=torch.uint8, device=device)
                packed = codes[..., 0] | codes[..., 1] << 2 | codes[..., 2] << 4 | codes[..., 3] << 6
                # Variance of a product sum near 1: two thirds of the weights are not 0.
                scales = ((torch.rand(n, k // GROUP, device=device) + 0.5) * (1.5 / k) ** 0.5).half()
                bias = 0.1 * torch.randn(n, device=device).half() if name == "qkv" else None
                self.layers.append((block, name, packed.cpu(), scales.cpu(), bias))
        self.weights = sum(4 * packed.numel() for _, _, packed, _, _ in self.layers)


def codes_of(packed):
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8, device=packed.device)
    return (packed.unsqueeze(-1) >> shifts & 3).flatten(1)


def expand(packed, scales, dtype=torch.float16):
    """[N, K] weights, exact in binary16 and wider."""
    signs = codes_of(packed).to(dtype) - 1
    return (signs.unflatten(1, (-1, GROUP)) * scales.to(dtype).unsqueeze(-1)).flatten(1)


class Dense(torch.nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight, self.bias)


class EachTime(torch.nn.Module):
    expand = staticmethod(torch.compile(expand, dynamic=False))

    def __init__(self, packed, scales, bias):
        super().__init__()
        self.register_buffer("packed", packed)
        self.register_buffer("scales", scales)
        self.register_buffer("bias", bias)

    def forward(self, x):
        return torch.nn.functional.linear(x, EachTime.expand(self.packed, self.scales), self.bias)


def normalise(x, weight, eps):
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


def add_and_normalise(x, more, weight, eps):
    total = x + more
    return total, normalise(total, weight, eps)


def gate(both):
    gates, ups = both.chunk(2, -1)
    return torch.nn.functional.silu(gates) * ups


def attend(qkv, cos, sin, mask, cache, position, heads, key_heads):
    """[batch, tokens, (heads + 2 * key_heads) * size] -> [batch, tokens, heads * size]; new keys and values go to `position` of the cache, if
    there is one. The heads that share keys are rows of one product: mask is [heads / key_heads * tokens, keys]."""
    size, group = cos.shape[-1], heads // key_heads
    q, k, v = (t.unflatten(-1, (-1, size)).transpose(1, 2) for t in qkv.split((heads * size, key_heads * size, key_heads * size), -1))
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    rotate = lambda t: t * cos + torch.cat((-t[..., size // 2 :], t[..., : size // 2]), -1) * sin
    q, k = rotate(q), rotate(k)
    if cache is not None:
        keys, values = cache
        k, v = keys.index_copy_(2, position, k), values.index_copy_(2, position, v)
    q = q.unflatten(1, (key_heads, group)).flatten(2, 3)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return y.unflatten(2, (group, -1)).permute(0, 3, 1, 2, 4).flatten(2)


class Between:
    """What lies between linear layers, compiled; as it is, with the reason printed, where that fails."""

    def __init__(self):
        self.plain = {f.__name__: f for f in (normalise, add_and_normalise, gate, attend)}
        # fullgraph: a failure is an exception, never a silent return to eager code.
        self.run = {name: torch.compile(f, dynamic=False, fullgraph=True) for name, f in self.plain.items()}
        self.compiled = True

    def __getattr__(self, name):
        return functools.partial(self.call, name)

    def call(self, name, *args):
        try:
            return self.run[name](*args)
        except Exception as error:  # torch raises many kinds
            if not self.compiled:
                raise
            print(f"# nothing between the linear layers is compiled, {name} failed: {str(error).strip().splitlines()[0][:300]}", flush=True)
            self.run, self.compiled = self.plain, False
            return self.run[name](*args)


class Layer(torch.nn.Module):
    """A decoder layer of transformers with fused linear layers: {"qkv", "o", "gate_up", "down"}."""

    def __init__(self, layer, linears, config, between):
        super().__init__()
        self.linears = torch.nn.ModuleDict(linears)
        self.norms = torch.nn.ModuleList([layer.input_layernorm, layer.post_attention_layernorm])
        self.config, self.between, self.cache = config, between, None

    def forward(self, x, attention_mask, position_embeddings, position_ids, **_):
        first, second = (norm.weight for norm in self.norms)
        c, eps = self.config, self.config.rms_norm_eps
        qkv = self.linears["qkv"](self.between.normalise(x, first, eps))
        y = self.between.attend(qkv, *position_embeddings, attention_mask, self.cache, position_ids[0], c.num_attention_heads, c.num_key_value_heads)
        x, y = self.between.add_and_normalise(x, self.linears["o"](y), second, eps)
        return x + self.linears["down"](self.between.gate(self.linears["gate_up"](y)))


def place(model, checkpoint, linears, between):
    """The model with these linear layers and what is between them."""
    blocks = {}
    for (block, name, *_), linear in zip(checkpoint.layers, linears):
        blocks.setdefault(block, {})[name] = linear
    model.model.layers = torch.nn.ModuleList(Layer(model.model.layers[b], some, model.config, between) for b, some in sorted(blocks.items()))
    return model


def place_exact(model, checkpoint, device):
    """The model as transformers has it, with the same weights in FP32."""
    for block, name, packed, scales, bias in checkpoint.layers:
        layer, sizes = model.model.layers[block], checkpoint.parts.get(name)
        weight = expand(packed.to(device), scales.to(device), torch.float32)
        weights = weight.split(sizes) if sizes else [weight]
        biases = [None] * len(weights) if bias is None else bias.float().split(sizes)
        parent = layer.self_attn if name in ("qkv", "o") else layer.mlp
        for part, w, b in zip(checkpoint.names[name], weights, biases):
            setattr(parent, part, Dense(w, b))
    return model


def skeleton(config, device, dtype):
    """The model without its linear layers, the same for all ways."""
    torch.manual_seed(7)
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = transformers.Qwen2ForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    return model


def build(way, checkpoint, runtime, device):
    """The linear layers, and seconds that it took from host memory."""
    to = lambda t: None if t is None else t.to(device)
    host = [expand(to(p), to(s)).cpu() for _, _, p, s, _ in checkpoint.layers] if way == "fp16" else None
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    if way == "fp16":
        linears = [Dense(to(w), to(b)) for w, (*_, b) in zip(host, checkpoint.layers)]
    elif way == "at-load":
        linears = [Dense(expand(to(p), to(s)), to(b)) for _, _, p, s, b in checkpoint.layers]
    elif way == "each-time":
        linears = [EachTime(to(p), to(s), to(b)) for _, _, p, s, b in checkpoint.layers]
    else:
        linears = [tern_torch.Packed(runtime, "ternary-g128", codes_of(to(p)), to(s).t(), bias=b) for _, _, p, s, b in checkpoint.layers]
    if device.type == "cuda":
        torch.cuda.synchronize()
    return linears, time.perf_counter() - start


def bytes_of(linears):
    return sum(t.numel() * t.element_size() for linear in linears for t in linear.buffers())


def graph_ms(step, replays=30):
    """Median milliseconds of one replay of a captured call."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(replays + 5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[5:])


def causal(config, tokens, keys, first, dtype, device):
    """0 where a row may look, -inf elsewhere: [heads that share keys * tokens, keys]."""
    ahead = torch.arange(keys, device=device) > torch.arange(first, first + tokens, device=device).unsqueeze(1)
    mask = torch.zeros(tokens, keys, dtype=dtype, device=device).masked_fill_(ahead, -torch.inf)
    return mask.repeat(config.num_attention_heads // config.num_key_value_heads, 1)


def step_of(model, config, device, batch, tokens, context):
    """A call of `tokens` new tokens behind `context` old ones of a preallocated cache. Calls leave the cache as they find it."""
    size = config.hidden_size // config.num_attention_heads
    for layer in model.model.layers:
        layer.cache = tuple(torch.randn(batch, config.num_key_value_heads, context + tokens, size, dtype=torch.float16, device=device) for _ in "kv")
    ids = torch.randint(0, config.vocab_size, (batch, tokens), device=device)
    position = torch.arange(context, context + tokens, device=device).unsqueeze(0)

    def step():
        mask = causal(config, tokens, context + tokens, context, torch.float16, device)
        return model(ids, attention_mask={"full_attention": mask}, position_ids=position, use_cache=False, logits_to_keep=1)

    return step


def times_of(model, config, linears, checkpoint, device):
    steps, result = functools.partial(step_of, model, config, device), {}
    for batch in (1, 8, 16):
        result[f"decode_ms_batch_{batch}"] = graph_ms(steps(batch, 1, 255))
        inputs = {k: torch.randn(batch, 1, k, dtype=torch.float16, device=device) for k in {4 * p.shape[1] for _, _, p, _, _ in checkpoint.layers}}
        alone = lambda: [linear(inputs[4 * p.shape[1]]) for linear, (_, _, p, _, _) in zip(linears, checkpoint.layers)]
        result[f"linear_ms_batch_{batch}"] = graph_ms(alone)
    result["prefill_1024_ms"] = graph_ms(steps(1, 1024, 0))
    return result


def logits_of(model, ids, exact=False):
    """Of every position of independent sequences, [sequences, tokens, vocabulary] in FP32."""
    if exact:
        return model(ids, use_cache=False).logits.float()
    for layer in model.model.layers:
        layer.cache = None
    mask = causal(model.config, ids.shape[1], ids.shape[1], 0, torch.float16, ids.device)
    return model(ids, attention_mask={"full_attention": mask}, use_cache=False).logits.float()


def compare(error, own):
    """How many times FP16's own error: the ratio of the rms of each sequence, its geometric mean over the sequences with the 95 % interval of
    Student's t. Sequences are independent; positions of one are not."""
    rms = lambda e: e.square().mean((1, 2)).sqrt()
    ratios = (rms(error) / rms(own)).log().double()
    half = T_95[len(ratios)] * ratios.std() / len(ratios) ** 0.5
    return [(ratios.mean() + x).exp().item() for x in (0, -half, half)]


def judge(got, exact, fp16):
    """Against the FP32 run: errors, and whether the first choice holds where FP16's margin exceeds its error."""
    error, own = (got - exact).abs(), (fp16 - exact).abs()
    top = fp16.topk(2).values
    sure = (top[..., 0] - top[..., 1]) > 2 * own.amax(-1)
    ratio, low, high = compare(error, own)
    return {
        "rms_error": error.square().mean().sqrt().item(),
        "largest_error": error.max().item(),
        "fp16_rms_error": own.square().mean().sqrt().item(),
        "fp16_largest_error": own.max().item(),
        "ratio": ratio,
        "ratio_low": low,
        "ratio_high": high,
        "sure_positions": int(sure.sum()),
        "first_choice_differs": int((sure & (got.argmax(-1) != fp16.argmax(-1))).sum()),
        "positions": got.shape[0] * got.shape[1],
    }


def verdict_of(logits, widest):
    """No larger than FP16's own: 1 must lie in or above the interval of the ratio, which must end below `widest`, or the sample was too small to tell."""
    return logits["ratio_low"] <= 1 and logits["ratio_high"] <= widest and logits["sure_positions"] > 0 and logits["first_choice_differs"] == 0


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--model", choices=SIZES, default="7b")
    parser.add_argument("--json")
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    device = torch.device("cpu" if args.cpu else "cuda")
    runtime = tern_torch.Runtime(args.folder, "cpu", opener="tern_rt_open_emulated") if args.cpu else tern_torch.Runtime(args.folder, 0)
    config = transformers.Qwen2Config(**SIZES[args.model], attn_implementation="sdpa")
    torch.manual_seed(1)
    checkpoint = Checkpoint(config, device)
    sequences, tokens = (6, 4) if args.cpu else (20, 50)
    ids = torch.randint(0, config.vocab_size, (sequences, tokens), device=device)

    exact = place_exact(skeleton(config, device, torch.float32), checkpoint, device)
    for name, tensor in skeleton(config, device, torch.float16).state_dict().items():  # the same rounded parameters
        if "_proj" not in name:
            exact.state_dict()[name].copy_(tensor)
    exact_logits, fp16_logits = logits_of(exact, ids, exact=True), None
    del exact

    between = Between()
    report = {"model": args.model, "torch": torch.__version__, "transformers": transformers.__version__, "linear_weights": checkpoint.weights,
              "device": "emulator" if args.cpu else torch.cuda.get_device_name(), "ways": {}}
    for way in ("fp16", "tern") if args.cpu else WAYS:
        linears, seconds = build(way, checkpoint, runtime, device)
        model = place(skeleton(config, device, torch.float16), checkpoint, linears, between)
        logits = logits_of(model, ids)
        fp16_logits = logits if fp16_logits is None else fp16_logits
        row = {"linear_bytes": bytes_of(linears), "start_s": seconds, "logits": judge(logits, exact_logits, fp16_logits)}
        if not args.cpu:
            row.update(times_of(model, config, linears, checkpoint, device))
        report["ways"][way] = row
        print(f"{way:10}", json.dumps(row), flush=True)
        del model, linears
    report["compiled"] = between.compiled
    if args.json:
        with open(args.json, "w") as file:
            json.dump(report, file, indent=1)
    logits = report["ways"]["tern"]["logits"]
    good = verdict_of(logits, 1.2 if args.cpu else 1.01)
    print("ok" if good else "not ok", f"logits of tern: error {logits['ratio']:.4f} times FP16's own ({logits['ratio_low']:.4f} to {logits['ratio_high']:.4f}),",
          f"first choice differs at {logits['first_choice_differs']} of {logits['sure_positions']} sure positions of {logits['positions']}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
