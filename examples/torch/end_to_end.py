"""A whole decoder with ternary layers, four ways: python3 end_to_end.py FOLDER [--model 0.5b|7b|tiny] [--json FILE] [--cpu]

A Qwen2 decoder of transformers with random ternary weights (no download), its linear layers kept and run as
  fp16        binary16 weights (multiplied by cuBLAS)
  at-load     packed in the file, expanded to binary16 when the model is loaded: no memory saved
  each-time   2 bits a weight, expanded before each product by one compiled kernel, then cuBLAS
  tern        the kernels of an exported table (FOLDER)
q, k and v are one layer, gate and up another, in all four. Everything else is the same module in all four; so is what torch
does with it. Prints bytes of the linear layers, seconds to get from host memory to a model that answers, milliseconds a token
(batch 1, 8 and 16, a CUDA graph of one step, and how much of it the linear layers take alone in a graph) and of a prefill of
1024, and the logits of 1,000 positions against an FP32 run of the same weights. Exit 1 if those of tern are no good.
--cpu: on the emulator's library, without times (tests)."""

import argparse
import concurrent.futures
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


class Checkpoint:
    """Random ternary layers as a file has them, in host memory: 4 codes (weight + 1) a byte, a binary16 scale per 128."""

    def __init__(self, config, device):
        hidden, inner = config.hidden_size, config.intermediate_size
        heads = hidden // config.num_attention_heads
        self.parts = {"qkv": (hidden, heads * config.num_key_value_heads, heads * config.num_key_value_heads), "gate_up": (inner, inner)}
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


class Part(torch.nn.Module):
    """One of the outputs of a fused layer, which its first part computes for all."""

    def __init__(self, fused, first, start, size):
        super().__init__()
        self.shared = first.shared if first else [fused, None]
        self.fused = None if first else fused  # once among the modules
        self.start, self.size = start, size

    def forward(self, x):
        if self.fused is not None:
            self.shared[1] = self.fused(x)
        return self.shared[1][..., self.start : self.start + self.size]


def parts_of(fused, sizes):
    parts, start = [], 0
    for size in sizes:
        parts.append(Part(fused, parts[0] if parts else None, start, size))
        start += size
    return parts


def place(model, checkpoint, linears):
    for (block, name, *_), linear in zip(checkpoint.layers, linears):
        layer = model.model.layers[block]
        if name == "qkv":
            layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj = parts_of(linear, checkpoint.parts[name])
        elif name == "o":
            layer.self_attn.o_proj = linear
        elif name == "gate_up":
            layer.mlp.gate_proj, layer.mlp.up_proj = parts_of(linear, checkpoint.parts[name])
        else:
            layer.mlp.down_proj = linear
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
        one = lambda layer: tern_torch.Packed(runtime, "ternary-g128", codes_of(layer[2]), layer[3].t(), bias=layer[4])
        with concurrent.futures.ThreadPoolExecutor(8) as pool:  # packing is on the host and leaves Python alone
            linears = list(pool.map(one, checkpoint.layers))
    if device.type == "cuda":
        torch.cuda.synchronize()
    return linears, time.perf_counter() - start


def bytes_of(linears):
    return sum(t.numel() * t.element_size() for linear in linears for t in linear.buffers())


def graph_ms(step, again=lambda: None, replays=30):
    """Median milliseconds of one replay of a captured call; `again` is called, untimed, ahead of each."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            again()
            step()
        again()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(replays + 5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        again()
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[5:])


def step_of(model, config, device, batch, tokens, context):
    """A call of `tokens` new tokens behind `context` old ones, and what makes the cache forget them again."""
    cache = transformers.StaticCache(config=config, max_cache_len=context + tokens)
    ids = torch.randint(0, config.vocab_size, (batch, tokens), device=device)
    position = torch.arange(context, context + tokens, device=device).unsqueeze(0)
    model(torch.randint(0, config.vocab_size, (batch, max(context, 1)), device=device), past_key_values=cache, logits_to_keep=1)

    def again():
        for layer in cache.layers:
            layer.cumulative_length.fill_(context)

    again()
    return lambda: model(ids, past_key_values=cache, position_ids=position, logits_to_keep=1), again


def times_of(model, config, linears, checkpoint, device):
    steps, result = functools.partial(step_of, model, config, device), {}
    for batch in (1, 8, 16):
        result[f"decode_ms_batch_{batch}"] = graph_ms(*steps(batch, 1, 255))
        inputs = {k: torch.randn(batch, 1, k, dtype=torch.float16, device=device) for k in {4 * p.shape[1] for _, _, p, _, _ in checkpoint.layers}}
        alone = lambda: [linear(inputs[4 * p.shape[1]]) for linear, (_, _, p, _, _) in zip(linears, checkpoint.layers)]
        result[f"linear_ms_batch_{batch}"] = graph_ms(alone)
    result["prefill_1024_ms"] = graph_ms(*steps(1, 1024, 0))
    return result


def judge(got, exact, fp16):
    """Against the FP32 run: errors, and whether the first choice holds where FP16's margin exceeds its error."""
    error, own = (got - exact).abs(), (fp16 - exact).abs()
    top = fp16.topk(2).values
    sure = (top[:, 0] - top[:, 1]) > 2 * own.amax(1)
    return {
        "rms_error": error.square().mean().sqrt().item(),
        "largest_error": error.max().item(),
        "fp16_rms_error": own.square().mean().sqrt().item(),
        "fp16_largest_error": own.max().item(),
        "sure_positions": int(sure.sum()),
        "first_choice_differs": int((sure & (got.argmax(1) != fp16.argmax(1))).sum()),
        "positions": got.shape[0],
    }


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
    ids = torch.randint(0, config.vocab_size, (1, 24 if args.cpu else 1000), device=device)

    exact = place(skeleton(config, device, torch.float32), checkpoint,
                  [Dense(expand(p.to(device), s.to(device), torch.float32), None if b is None else b.float()) for _, _, p, s, b in checkpoint.layers])
    for name, tensor in skeleton(config, device, torch.float16).state_dict().items():  # the same rounded parameters
        if "_proj" not in name:
            exact.state_dict()[name].copy_(tensor)
    exact_logits, fp16_logits = exact(ids).logits[0].float(), None
    del exact

    report = {"model": args.model, "torch": torch.__version__, "transformers": transformers.__version__, "linear_weights": checkpoint.weights,
              "device": "emulator" if args.cpu else torch.cuda.get_device_name(), "ways": {}}
    for way in ("fp16", "tern") if args.cpu else WAYS:
        linears, seconds = build(way, checkpoint, runtime, device)
        model = place(skeleton(config, device, torch.float16), checkpoint, linears)
        logits = model(ids).logits[0].float()
        fp16_logits = logits if fp16_logits is None else fp16_logits
        row = {"linear_bytes": bytes_of(linears), "start_s": seconds, "logits": judge(logits, exact_logits, fp16_logits)}
        if not args.cpu:
            row.update(times_of(model, config, linears, checkpoint, device))
        report["ways"][way] = row
        print(f"{way:10}", json.dumps(row), flush=True)
        del model, linears
    if args.json:
        with open(args.json, "w") as file:
            json.dump(report, file, indent=1)
    verdict = report["ways"]["tern"]["logits"]
    # Two runs of equally many roundings: their errors agree to a few per cent, not to the last digit.
    good = verdict["rms_error"] <= 1.05 * verdict["fp16_rms_error"] and verdict["first_choice_differs"] == 0
    print("ok" if good else "not ok", "logits of tern", verdict)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
