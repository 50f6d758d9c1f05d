"""Checks of tern_torch: python3 check.py FOLDER [cpu]. With "cpu" the library named by TERN_RT_LIBRARY is the emulator's (tests).
Prints "ok" or "not ok" a line; on CUDA also captures a graph. Exit 1 if a check failed."""

import sys

import torch

import tern_torch

failures = 0


def check(ok, what):
    global failures
    failures += not ok
    print("ok" if ok else "not ok", what, flush=True)


def refused(kind, call):
    try:
        call()
    except kind as error:
        print("#", error)
        return True
    return False


def close(y, x, weight, bias=None):
    """Elementwise, against FP64: one rounding to the type of y and FP32 sums or weights of that type."""
    unit = 2**-8 if y.dtype == torch.bfloat16 else 2**-11
    x, weight = x.cpu().double(), weight.double()
    want, size = x @ weight.t(), x.abs() @ weight.abs().t()
    total = want if bias is None else want + bias.cpu().double()
    bound = unit * total.abs() + 2**-25 + size * (4 * unit / weight.shape[1] ** 0.5 + 2**-20)
    return bool(((y.cpu().double() - total).abs() <= bound).all())  # NaN fails


def dense(codes, scales, zeros):
    spread = lambda t: t.double().repeat_interleave(codes.shape[1] // t.shape[0], dim=0).t()
    return spread(scales) * (codes.double() - (spread(zeros) if torch.is_tensor(zeros) else zeros))


def main(folder, device):
    torch.manual_seed(1)
    emulated = device == "cpu"
    runtime = tern_torch.Runtime(folder, "cpu", opener="tern_rt_open_emulated") if emulated else tern_torch.Runtime(folder, 0)
    device = runtime.device
    n, k = 384, 256
    weights, scales = torch.randint(-1, 2, (n, k)), (torch.rand(k // 128, n) + 0.5).half()
    bias = torch.randn(n).half()
    layer = tern_torch.TernaryLinear(runtime, weights, scales, bias)
    weight = dense(weights + 1, scales, 1)
    x = torch.randn(3, k, dtype=torch.float16, device=device)
    check(close(layer(x), x, weight, bias), "TernaryLinear with a bias")
    three = torch.randn(2, 3, k, dtype=torch.float16, device=device)
    check(layer(three).shape == (2, 3, n) and close(layer(three), three, weight, bias), "3-D activations")
    wide = torch.randn(k, 5, dtype=torch.float16, device=device).t()
    check(not wide.is_contiguous() and close(layer(wide), wide, weight, bias), "activations that are not contiguous")
    odd = torch.randn(4 * k + 3, dtype=torch.float16, device=device)[3:].view(4, k)
    check(odd.data_ptr() % 256 != 0 and close(layer(odd), odd, weight, bias), "misaligned activations")
    check(layer(x[:0]).shape == (0, n), "no rows")
    one = x[0]
    check(layer(one).shape == (n,) and close(layer(one), one, weight, bias), "a vector")
    kept = layer.unpack()
    check(torch.equal(kept[0].cpu(), (weights + 1).to(torch.uint8)) and torch.equal(kept[1].cpu(), scales), "unpack is the exact inverse")
    check({name for name, _ in layer.named_buffers()} == {"codes", "scales", "bias"} and not list(layer.parameters()), "only packed tensors are kept")
    bits_per_weight = 8 * (layer.codes.numel() + layer.scales.numel()) / (n * k)
    check(bits_per_weight < 2.2, f"{bits_per_weight} bits a weight")

    codes, zeros = torch.randint(0, 16, (n, k)), torch.randint(0, 16, (k // 32, n))
    scales4 = (torch.rand(k // 32, n) / 8).half()
    gptq = tern_torch.GPTQLinear(runtime, 4, codes, scales4, zeros)
    check(close(gptq(x), x, dense(codes, scales4, zeros)), "GPTQLinear with zero points")
    shifts = torch.arange(0, 32, 4)
    word = lambda fields: (fields.long() << shifts).sum(-1).where((fields.long() << shifts).sum(-1) < 2**31, (fields.long() << shifts).sum(-1) - 2**32).to(torch.int32)
    qweight = word(codes.reshape(n, k // 8, 8)).t().contiguous()
    qzeros = word(((zeros - 1) & 15).reshape(k // 32, n // 8, 8))
    loaded = tern_torch.GPTQLinear.from_checkpoint(runtime, 4, qweight, qzeros, scales4)
    check(torch.equal(loaded.codes, gptq.codes) and torch.equal(loaded.zeros, gptq.zeros), "the same from a checkpoint's tensors")

    wide_range = tern_torch.TernaryLinear(runtime, weights, scales, bias, dtype=torch.bfloat16)
    large = 1e6 * x.bfloat16()
    check(close(wide_range(large), large, weight, bias.bfloat16()), "bfloat16, beyond the range of float16")
    check(torch.equal(wide_range.codes, layer.codes) and torch.equal(wide_range.scales, layer.scales), "of the same packed weights")
    check(refused(TypeError, lambda: layer(x.bfloat16())), "bfloat16 into a layer of float16 is refused")
    check(refused(TypeError, lambda: tern_torch.linear(x.bfloat16(), layer.codes, layer.scales, None, layer.bias, layer.format, n, k)), "a bias of another type is refused")
    check(refused(ValueError, lambda: layer(x[:, :128])), "another K is refused")
    check(refused(tern_torch.TernError, lambda: tern_torch.TernaryLinear(runtime, weights, scales[:1])), "a format that the table lacks")
    check(refused(tern_torch.TernError, lambda: tern_torch.TernaryLinear(runtime, weights, torch.ones(3, n))), "scales of another group")
    check(refused(tern_torch.TernError, lambda: tern_torch.TernaryLinear(runtime, 2 * weights, scales)), "weights that are not ternary")

    args = (x, layer.codes, layer.scales, None, layer.bias, layer.format, n, k)
    torch.library.opcheck(tern_torch.linear, args, test_utils=("test_schema", "test_faketensor"))
    check(True, "the operator's schema and fake kernel agree with it")
    model = torch.nn.Sequential(layer, torch.nn.ReLU())
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        check(torch.equal(compiled(three), model(three)), "torch.compile, one graph")
    if not emulated:
        graph, out = torch.cuda.CUDAGraph(), layer(x)
        with torch.cuda.graph(graph):
            out = layer(x)
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.cuda.synchronize()
        check(torch.equal(out, layer(x)), "a CUDA graph")
    return failures


sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cuda") != 0)
