"""Writes ternary layers for tests and fuzz seeds, each weight by the public formula of its format: GGUF with its blocks, the project's
layouts, both BitNet packings."""
import random, struct
from checkpoint_files import scale

TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "TQ1_0": (34, 256, 54), "TQ2_0": (35, 256, 66), "Q2_0": (42, 64, 18)}
U32, STRING, ARRAY = 4, 8, 9


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf(tensors, keys=(), version=3, alignment=None, order=None):
    """tensors: name -> (type, shape with K last, bytes). Returns the file; data lie in `order`, if it is given."""
    step = alignment or 32
    keys = [("general.architecture", STRING, text("llama")), *keys]
    if alignment:
        keys.append(("general.alignment", U32, struct.pack("<I", alignment)))
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, kind, value in keys:
        out += text(name) + struct.pack("<I", kind) + value
    offsets, data = {}, b""
    for name in order or tensors:
        offsets[name] = len(data)
        data += tensors[name][2] + bytes(-len(tensors[name][2]) % step)
    for name, (kind, shape, _) in tensors.items():
        out += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in reversed(shape))
        out += struct.pack("<IQ", TYPES[kind][0] if kind in TYPES else kind, offsets[name])
    return out + bytes(-len(out) % step) + data


def five(trits):
    """Five (or four) base-3 digits as a fraction of 256, rounded up."""
    q = 0
    for t in trits + [0] * (5 - len(trits)):
        q = 3 * q + t
    return (256 * q + 242) // 243


def tq1_0(codes, d):
    qs = [five([codes[32 * t + i] for t in range(5)]) for i in range(32)]
    qs += [five([codes[160 + 16 * t + i] for t in range(5)]) for i in range(16)]
    qh = [five([codes[240 + 4 * t + i] for t in range(4)]) for i in range(4)]
    return bytes(qs + qh) + d


def tq2_0(codes, d):
    return bytes(sum(codes[128 * h + 32 * j + i] << 2 * j for j in range(4)) for h in range(2) for i in range(32)) + d


def q2_0(codes, d):
    return d + bytes(sum(codes[4 * i + j] << 2 * j for j in range(4)) for i in range(16))


PACK = {"TQ1_0": tq1_0, "TQ2_0": tq2_0, "Q2_0": q2_0}


def blocks(kind, seed, n, k, top=2):
    """Codes [N][K], bytes, and binary32 bits of the scales."""
    rng = random.Random(seed)
    width = TYPES[kind][1]
    codes = [[rng.randint(0, top) for _ in range(k)] for _ in range(n)]
    drawn = [[scale(rng, "F16") for _ in range(k // width)] for _ in range(n)]
    raw = b"".join(PACK[kind](row[width * b:width * b + width], d[b][0]) for row, d in zip(codes, drawn) for b in range(k // width))
    return codes, raw, [[value for _, value in row] for row in drawn]


def weights(seed, n, k):
    rng = random.Random(seed)
    return [[rng.choice((-1, 0, 1)) for _ in range(k)] for _ in range(n)]


def scales(seed, n, groups, dtype="F16"):
    """Bytes of [N][G] scales, and their binary32 bits by row."""
    rng = random.Random(seed)
    drawn = [[scale(rng, dtype) for _ in range(groups)] for _ in range(n)]
    return b"".join(raw for row in drawn for raw, _ in row), [[bits for _, bits in row] for row in drawn]


FIELD = {0: 0, 1: 1, -1: 2}


def fields(w):
    """Layouts (i) and (ii): byte k / 4 of a row, field k % 4 from the low bits up."""
    return b"".join(bytes(sum(FIELD[row[k + j]] << 2 * j for j in range(4)) for k in range(0, len(row), 4)) for row in w)


def int8(w):
    return b"".join(struct.pack("b", v) for row in w for v in row)


def strided(w):
    """Hugging Face: field i of byte [r][k] is row i * R + r, plus 1."""
    rows = len(w) // 4
    return b"".join(bytes(sum(w[i * rows + r][k] + 1 << 2 * i for i in range(4)) for k in range(len(w[0]))) for r in range(rows))


def bf16(value):
    return struct.pack("<f", value)[2:]


def tiles(w):
    """microsoft/BitNet gpu: element (n, k) is 2 bits of byte tile * 128 + 4 t + e % 4 at 2 (e / 4), plus 2."""
    n_all, k_all = len(w), len(w[0])
    out = bytearray(n_all * k_all // 4)
    for n in range(n_all):
        for k in range(k_all):
            tile, e = n // 16 * (k_all // 32) + k // 32, k % 16
            t = n % 16 // 8 * 16 + k % 32 // 16 * 8 + n % 8
            out[tile * 128 + 4 * t + e % 4] |= w[n][k] + 2 << 2 * (e // 4)
    return bytes(out)


def four(*values):
    return ("BF16", [4], b"".join(map(bf16, values)))
