"""Writes checkpoints for tests with the standard library alone: codes go into the file as one long integer per row or column,
which shares nothing with how Tern reads them. `decode` runs Tern's decoder on a file or folder."""
import ctypes, json, os, random, struct, subprocess, sys

TUNE = os.environ.get("TUNE") or os.path.join(os.path.dirname(__file__), "../../build/tune")
DECODER = os.path.join(os.path.dirname(__file__), "../../build/tests/offline/decode_checkpoint")
SIZES = {"I32": 4, "I64": 8, "F16": 2, "BF16": 2, "F32": 4, "U8": 1, "I8": 1}
OFFICIAL = {"I32": "int32", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "U8": "uint8", "I8": "int8"}


def save(path, tensors):
    """tensors: name -> (dtype, shape, bytes)."""
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        count = 1
        for dim in shape:
            count *= dim
        assert len(raw) == count * SIZES[dtype], name
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def save_official(path, tensors):
    """The same by the reference package; False where it is not installed."""
    try:
        from safetensors import TensorSpec, serialize_file
    except ImportError:
        return False
    buffers = {name: ctypes.create_string_buffer(raw, len(raw)) for name, (_, _, raw) in tensors.items()}
    serialize_file({name: TensorSpec(dtype=OFFICIAL[dtype], shape=shape, data_ptr=ctypes.addressof(buffers[name]),
                                     data_len=len(raw)) for name, (dtype, shape, raw) in tensors.items()}, path)
    return True


def words(values):
    return b"".join(struct.pack("<I", v) for v in values)


def stream(codes, bits):
    """Codes one after the other from bit 0, cut into 32-bit words; the last one padded with zeros."""
    number = 0
    for i, code in enumerate(codes):
        number |= code << (bits * i)
    return [number >> (32 * i) & 0xFFFFFFFF for i in range((len(codes) * bits + 31) // 32)]


def planes(codes, bits):
    """Bit planes for each 32 codes, low plane first."""
    out = []
    for start in range(0, len(codes), 32):
        at = 0
        for width in {2: (2,), 3: (2, 1), 4: (4,), 8: (8,)}[bits]:
            out += stream([code >> at & ((1 << width) - 1) for code in codes[start:start + 32]], width)
            at += width
    return out


def transpose(rows):
    return [list(column) for column in zip(*rows)]


def flat(rows):
    return [value for row in rows for value in row]


def scale(rng, dtype):
    """Bytes of a scale in the file and bits of the binary32 that it is."""
    value = rng.uniform(-0.1, 1.0) * 2.0 ** rng.randint(-12, 3)
    if dtype == "F16":
        raw = struct.pack("<e", value)
        return raw, struct.unpack("<I", struct.pack("<f", struct.unpack("<e", raw)[0]))[0]
    raw = struct.pack("<f", value)
    if dtype == "BF16":
        return raw[2:], struct.unpack("<I", b"\0\0" + raw[2:])[0]
    return raw, struct.unpack("<I", raw)[0]


class Layer:
    """Random codes [N][K], zeros and scales [G][N], an order of groups [K]."""

    def __init__(self, seed, n, k, bits, group, sym, order="none", dtype="F16"):
        rng = random.Random(seed)
        self.n, self.k, self.bits, self.sym, self.order, self.dtype = n, k, bits, sym, order, dtype
        self.group = k if group == -1 else group
        self.groups = -(-k // self.group)
        self.codes = [[rng.randrange(1 << bits) for _ in range(k)] for _ in range(n)]
        middle, top = 1 << (bits - 1), (1 << bits) - 1
        pick = (lambda: middle) if sym else (lambda: rng.choice([0, 1, middle, top, rng.randint(0, top)]))
        self.zeros = [[pick() for _ in range(n)] for _ in range(self.groups)]
        self.zeros[0][0] = middle if sym else 0
        drawn = [[scale(rng, dtype) for _ in range(n)] for _ in range(self.groups)]
        self.scale_bytes = b"".join(raw for row in drawn for raw, _ in row)
        self.scale_bits = [[value for _, value in row] for row in drawn]
        self.index = [i // self.group for i in range(k)]
        if order == "shuffled":
            rng.shuffle(self.index)
        elif order == "reversed":
            self.index.reverse()

    def gptq(self, name, offset=1, planar=False):
        pack = planes if planar else stream
        mask = (1 << self.bits) - 1
        columns = [pack(row, self.bits) for row in self.codes]
        zeros = [pack([(z - offset) & mask for z in row], self.bits) for row in self.zeros]
        tensors = {name + ".qweight": ("I32", [len(columns[0]), self.n], words(flat(transpose(columns)))),
                   name + ".qzeros": ("I32", [self.groups, len(zeros[0])], words(flat(zeros))),
                   name + ".scales": (self.dtype, [self.groups, self.n], self.scale_bytes)}
        if self.order != "none":
            tensors[name + ".g_idx"] = ("I32", [self.k], words(self.index))
        return tensors

    def awq(self, name):
        """Eight columns a word, nibble i is column 0 2 4 6 1 3 5 7 [i]."""
        order = [0, 2, 4, 6, 1, 3, 5, 7]

        def pack(row):
            return flat(stream([row[c + o] for o in order], 4) for c in range(0, self.n, 8))
        return {name + ".qweight": ("I32", [self.k, self.n // 8], words(flat(map(pack, transpose(self.codes))))),
                name + ".qzeros": ("I32", [self.groups, self.n // 8], words(flat(map(pack, self.zeros)))),
                name + ".scales": (self.dtype, [self.groups, self.n], self.scale_bytes)}

    def compressed(self, name, shape_dtype="I64", dense=False):
        """Words of floor(32/bits) codes, padded at the end of each row, or codes across words; zero points packed along N."""
        size = SIZES[self.dtype]

        def pack(codes):
            in_word = 32 // self.bits
            return stream(codes, self.bits) if dense else flat(stream(codes[i:i + in_word], self.bits)[:1] for i in range(0, len(codes), in_word))
        rows = [pack(row) for row in self.codes]
        scales = b"".join(self.scale_bytes[(g * self.n + n) * size:][:size] for n in range(self.n) for g in range(self.groups))
        tensors = {name + ".weight_packed": ("I32", [self.n, len(rows[0])], words(flat(rows))),
                   name + ".weight_scale": (self.dtype, [self.n, self.groups], scales),
                   name + ".weight_shape": (shape_dtype, [2], struct.pack("<qq" if shape_dtype == "I64" else "<ii", self.n, self.k))}
        if not self.sym:
            zeros = transpose([pack(row) for row in self.zeros])
            tensors[name + ".weight_zero_point"] = ("I32", [len(zeros), self.groups], words(flat(zeros)))
        if self.order != "none":
            tensors[name + ".weight_g_idx"] = ("I32", [self.k], words(self.index))
        return tensors

    def expected(self, name, form):
        """What the decoder must print."""
        act = self.index != [i // self.group for i in range(self.k)]
        lines = [f"layer {name} {form} {self.n} {self.k} {self.bits} {self.group} {self.groups} {int(self.sym)} {int(act)}",
                 "index " + " ".join(map(str, self.index))]
        for n in range(self.n):
            lines.append(f"row {n} {bytes(self.codes[n]).hex()} {bytes(z[n] for z in self.zeros).hex()} "
                         + "".join("%08x" % s[n] for s in self.scale_bits))
        return lines


work = sys.argv[1]
made = 0


def model(tensors, config=None):
    """A new model folder; `config` becomes its quantize_config.json."""
    global made
    made += 1
    path = os.path.join(work, f"m{made}")
    os.mkdir(path)
    if config is not None:
        json.dump(config, open(os.path.join(path, "quantize_config.json"), "w"))
    save(os.path.join(path, "model.safetensors"), tensors)
    return path


def decode(path):
    run = subprocess.run([DECODER, path], capture_output=True, text=True, timeout=60)
    assert run.returncode in (0, 1, 2), f"{path}: exit {run.returncode}: {run.stderr[-2000:]}"
    return run.stdout.splitlines()


def inspect(path, *options):
    return subprocess.run([TUNE, "inspect", path, *options], capture_output=True, text=True, timeout=60)


def inspected(name, path, status, detail):
    """What `tune inspect --json` says of the only layer, which must have this status and detail."""
    run = inspect(path, "--json")
    layer = json.loads(run.stdout)["tensors"][0] if run.stdout else None
    check(name, layer and layer["status"] == status and detail in layer["detail"] and run.returncode == int(status != "ok"), run)
    return layer


failures = 0


def check(name, good, note=""):
    global failures
    print(f"{'ok' if good else 'not ok'} checkpoints: {name}")
    if not good:
        failures += 1
        print("    " + str(note)[:600])


def finish():
    sys.exit(failures > 0)


def first_difference(want, got):
    for i, (a, b) in enumerate(zip(want, got)):
        if a != b:
            return f"line {i}: expected {a[:200]}, got {b[:200]}"
    return f"{len(want)} lines expected, {len(got)} printed: {got[-1:]}"
