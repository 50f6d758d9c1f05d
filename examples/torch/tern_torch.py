"""Quantised linear layers in PyTorch by an exported table: an operator over tern_rt, and two modules.

    runtime = tern_torch.Runtime("dispatch", device=0)      # a folder of `tune export`, its header compiled (README.md there)
    layer = tern_torch.TernaryLinear(runtime, weights, scales)
    y = layer(x)                                            # x: float16, any shape [..., K]; on torch's current stream

Inference only. bfloat16: TernaryLinear(..., dtype=torch.bfloat16), with a table that holds it. The modules keep packed weights and scales, nothing else. Launches neither
wait nor compile; workspace comes from torch's allocator, so that CUDA graphs can capture them and torch.compile sees one operator."""

import ctypes
import os
import threading

import torch


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("text", ctypes.c_char * 512)]


class _Layer(ctypes.Structure):
    _fields_ = (
        [("format", ctypes.c_char * 40), ("op", ctypes.c_char * 16)]
        + [(name, ctypes.c_int64) for name in ("n", "k", "groups", "group_size", "code_bytes", "scale_bytes", "zero_bytes")]
        + [("layout", ctypes.c_char * 32)]
        + [(name, ctypes.c_void_p) for name in ("codes", "scales", "zeros", "bias")]
    )


class _Weights(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("codes", "scales", "zeros")] + [
        (name, ctypes.c_int64) for name in ("code_bytes", "scale_bytes", "zero_bytes")
    ]


class _Packed(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("codes", "scales", "zeros", "wrong")]


class _Call(ctypes.Structure):
    _fields_ = [
        ("x", ctypes.c_void_p),
        ("y", ctypes.c_void_p),
        ("m", ctypes.c_int64),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
        ("dependent", ctypes.c_int),
    ]


class _Choice(ctypes.Structure):
    _fields_ = [
        ("kernel", ctypes.c_void_p),
        ("grid", ctypes.c_int64 * 3),
        ("block", ctypes.c_int64),
        ("cluster", ctypes.c_int64),
        ("smem_bytes", ctypes.c_int64),
        ("workspace_bytes", ctypes.c_int64),
        ("prologue_grid", ctypes.c_int64),
        ("prologue_block", ctypes.c_int64),
        ("use_cublas", ctypes.c_int),
        ("use_dequant", ctypes.c_int),
        ("match", ctypes.c_int),
        ("tuned_m", ctypes.c_int64),
        ("tuned_n", ctypes.c_int64),
        ("tuned_k", ctypes.c_int64),
        ("tuned_us", ctypes.c_double),
    ]


class TernError(RuntimeError):
    """A call of tern_rt failed; `status` is its name: ARGUMENT, OTHER_GPU, NO_KERNEL, ..."""

    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status = status


_MATCHES = ("none", "exact", "between", "near", "default")
_runtimes = {}  # torch.device to Runtime: operators take tensors only, so that graphs of torch.compile can be kept
_ALIGNMENT = 256
_OPS = {torch.float16: b"linear-a16", torch.bfloat16: b"linear-bf16"}


class Runtime:
    """The table and kernels of one device. worst: "exact", "near" or "default", the worst match of GPU and table to accept."""

    def __init__(self, folder, device=0, worst="default", library=None, opener="tern_rt_open_folder"):
        self.lib = ctypes.CDLL(library or os.environ.get("TERN_RT_LIBRARY", "libtern_rt.so"))
        self.lib.tern_rt_choice.restype = _Choice
        self.lib.tern_rt_status_name.restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p()
        self.device = torch.device(device if isinstance(device, str) else f"cuda:{device}")
        self._layers = {}
        self._lock = threading.Lock()
        error = _Error()
        ordinal = self.device.index or 0
        self.check(
            getattr(self.lib, opener)(
                os.fsencode(folder), ctypes.c_int(ordinal), _MATCHES.index(worst), ctypes.byref(self.handle), ctypes.byref(error)
            ),
            error,
        )
        _runtimes[self.device] = self

    def check(self, status, error):
        if status:
            raise TernError(self.lib.tern_rt_status_name(status).decode(), error.text.decode())

    def layer(self, format, n, k, dtype=torch.float16):
        """Sizes of a layer, kept: looked up once for each (format, n, k) and type of activations."""
        found = self._layers.get((format, n, k, dtype))
        if found is None:
            with self._lock:
                found, error = _Layer(), _Error()
                args = (self.handle, format.encode(), _OPS[dtype], ctypes.c_int64(n), ctypes.c_int64(k))
                self.check(self.lib.tern_rt_layer(*args, ctypes.byref(found), ctypes.byref(error)), error)
                self._layers[(format, n, k, dtype)] = found
        return found

    def choice(self, format, n, k, m, dtype=torch.float16):
        """What a call with m rows would do: .use_cublas tells where cuBLASLt in that type was measured to be faster."""
        return self.lib.tern_rt_choice(self.handle, ctypes.byref(self.layer(format, n, k, dtype)), ctypes.c_int64(m))


def _aligned_empty(shape, dtype, device):
    """Device memory at a multiple of 256 bytes; CUDA tensors are there anyway."""
    count, size = 1, torch.empty((), dtype=dtype).element_size()
    for length in shape:
        count *= length
    raw = torch.empty(count * size + _ALIGNMENT, dtype=torch.uint8, device=device)
    start = -raw.data_ptr() % _ALIGNMENT
    return raw[start : start + count * size].view(dtype).view(shape)


def _aligned(tensor):
    """The same values, contiguous and aligned; a copy only where they are not."""
    tensor = tensor.contiguous()
    if tensor.data_ptr() % _ALIGNMENT == 0:
        return tensor
    return _aligned_empty(tensor.shape, tensor.dtype, tensor.device).copy_(tensor)


@torch.library.custom_op("tern::linear", mutates_args=())
def linear(
    x: torch.Tensor,
    codes: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    bias: torch.Tensor | None,
    format: str,
    n: int,
    k: int,
) -> torch.Tensor:
    """y[..., n] = x[..., k] * W[n, k]^T + bias; codes, scales and zeros as Packed keeps them."""
    if x.dtype not in _OPS or (bias is not None and bias.dtype != x.dtype):
        raise TypeError(f"tern::linear takes float16 or bfloat16 activations, and a bias of that type; not {x.dtype}")
    if x.shape[-1] != k:
        raise ValueError(f"activations [..., {x.shape[-1]}] for a layer with K = {k}")
    y = torch.empty((*x.shape[:-1], n), dtype=x.dtype, device=x.device)
    m = x.numel() // k
    if m == 0:
        return y
    runtime = _runtimes[x.device]
    layer = _Layer.from_buffer_copy(runtime.layer(format, n, k, x.dtype))
    # Copies only of tensors that lost their alignment, as a clone on the CPU does; none of what CUDA allocates.
    x, codes, scales = _aligned(x), _aligned(codes), _aligned(scales)
    zeros = _aligned(zeros) if zeros is not None else None
    layer.codes, layer.scales = codes.data_ptr(), scales.data_ptr()
    layer.zeros = zeros.data_ptr() if zeros is not None else None
    layer.bias = bias.data_ptr() if bias is not None else None
    need = runtime.choice(format, n, k, m, x.dtype).workspace_bytes
    workspace = _aligned_empty((need,), torch.uint8, x.device) if need else None
    stream = torch.cuda.current_stream(x.device).cuda_stream if x.is_cuda else None
    call = _Call(x.data_ptr(), y.data_ptr(), m, workspace.data_ptr() if need else None, need, stream)
    error = _Error()
    runtime.check(
        runtime.lib.tern_rt_launch(runtime.handle, ctypes.byref(layer), ctypes.byref(call), ctypes.byref(error)), error
    )
    return y


@linear.register_fake
def _(x, codes, scales, zeros, bias, format, n, k):
    return x.new_empty((*x.shape[:-1], n))


class Packed(torch.nn.Module):
    """A linear layer of packed weights: W[n, k] = scale[group, n] * (code[n, k] - zero[group, n]). dtype: of x, y and bias."""

    def __init__(self, runtime, format, codes, scales, zeros=None, bias=None, dtype=torch.float16):
        super().__init__()
        self.runtime, self.format, self.dtype = runtime, format, dtype
        self.n, self.k = codes.shape
        layer = runtime.layer(format, self.n, self.k, dtype)
        sizes = (layer.code_bytes, layer.scale_bytes, layer.zero_bytes)
        packed = [_aligned_empty((size,), torch.uint8, runtime.device) if size else None for size in sizes]
        self._convert("tern_rt_pack_on", packed, self._canonical(codes, scales, zeros))
        for name, tensor in zip(("codes", "scales", "zeros"), packed):
            self.register_buffer(name, tensor)
        self.register_buffer("bias", None if bias is None else bias.to(dtype).to(runtime.device))

    def _canonical(self, codes, scales, zeros):
        device = self.runtime.device
        kept = [codes.to(device, torch.uint8).contiguous(), scales.to(device, torch.float16).contiguous()]
        return kept + [None if zeros is None else zeros.to(device, torch.uint8).contiguous()]

    def _convert(self, name, packed, canonical):
        """Packs or unpacks on the device, on torch's current stream, and waits for what the kernels found wrong."""
        layer, error = self.runtime.layer(self.format, self.n, self.k, self.dtype), _Error()
        pointers = lambda tensors: [None if t is None else t.data_ptr() for t in tensors]
        wrong = torch.zeros(1, dtype=torch.int64, device=self.runtime.device)
        weights = _Weights(*pointers(canonical), *(0 if t is None else t.numel() * t.element_size() for t in canonical))
        arrays = _Packed(*pointers(packed), wrong.data_ptr())
        order = (weights, arrays) if name == "tern_rt_pack_on" else (arrays, weights)
        stream = torch.cuda.current_stream(wrong.device).cuda_stream if wrong.is_cuda else None
        call = getattr(self.runtime.lib, name)
        status = call(self.runtime.handle, ctypes.byref(layer), *map(ctypes.byref, order), ctypes.c_void_p(stream), ctypes.byref(error))
        self.runtime.check(status, error)
        if wrong.item():
            raise TernError("ARGUMENT", f"{wrong.item()} codes, zero points or scales that {self.format} does not have")

    def unpack(self):
        """Codes, scales and zeros again, bit for bit."""
        layer, device = self.runtime.layer(self.format, self.n, self.k, self.dtype), self.runtime.device
        out = [torch.empty((self.n, self.k), dtype=torch.uint8, device=device), torch.empty((layer.groups, self.n), dtype=torch.float16, device=device)]
        out.append(torch.empty((layer.groups, self.n), dtype=torch.uint8, device=device) if layer.zero_bytes else None)
        self._convert("tern_rt_unpack_on", [None if t is None else _aligned(t) for t in (self.codes, self.scales, self.zeros)], out)
        return out

    def forward(self, x):
        if x.dtype != self.dtype:
            raise TypeError(f"a layer of {self.dtype} activations, not {x.dtype}")
        return linear(x, self.codes, self.scales, self.zeros, self.bias, self.format, self.n, self.k)

    def extra_repr(self):
        return f"in_features={self.k}, out_features={self.n}, format={self.format}, bias={self.bias is not None}, {self.dtype}"


class TernaryLinear(Packed):
    """weights [N, K] of -1, 0 and 1; scales [groups, N], a group of 128 along K, or [1, N], one a row."""

    def __init__(self, runtime, weights, scales, bias=None, dtype=torch.float16):
        group = "channel" if scales.shape[0] == 1 else "g128"
        super().__init__(runtime, f"ternary-{group}", weights.to(torch.int16) + 1, scales, bias=bias, dtype=dtype)


class GPTQLinear(Packed):
    """codes [N, K] of `bits` bits, scales [groups, N], zeros [groups, N] or None for 2^(bits-1); the group from the shapes."""

    def __init__(self, runtime, bits, codes, scales, zeros=None, bias=None, dtype=torch.float16):
        groups = scales.shape[0]
        group = "channel" if groups == 1 else f"g{codes.shape[1] // groups}"
        super().__init__(runtime, f"gptq{bits}-{group}{'' if zeros is None else '-asym'}", codes, scales, zeros, bias, dtype)

    @classmethod
    def from_checkpoint(cls, runtime, bits, qweight, qzeros, scales, bias=None, zero_offset=1, dtype=torch.float16):
        """AutoGPTQ's tensors without act-order, 2, 4 or 8 bits: qweight [K*bits/32, N], qzeros [groups, N*bits/32] int32.
        zero_offset: 1 for the first version of the format, 0 for gptq_v2."""
        shifts = torch.arange(0, 32, bits, dtype=torch.int32)
        fields = lambda t: (t.cpu().unsqueeze(-1) >> shifts) & ((1 << bits) - 1)
        codes = fields(qweight.t()).reshape(qweight.shape[1], -1)
        zeros = (fields(qzeros).reshape(qzeros.shape[0], -1) + zero_offset) & ((1 << bits) - 1)
        return cls(runtime, bits, codes, scales, zeros, bias, dtype)
