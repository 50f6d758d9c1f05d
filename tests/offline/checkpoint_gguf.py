"""GGUF files with TQ1_0, TQ2_0 and Q2_0 tensors, written here from the public description of container and blocks; where the gguf
package is installed, it writes and quantises them a second time. usage: checkpoint_gguf.py FOLDER"""
import os, struct, sys
import checkpoint_files
from checkpoint_files import *
from ternary_files import *

work = sys.argv[1]
made = 0


def write(content):
    global made
    made += 1
    path = os.path.join(work, f"m{made}.gguf")
    with open(path, "wb") as file:
        file.write(content)
    return path


def expected(name, kind, codes, scales, sym=1):
    n, k, group = len(codes), len(codes[0]), TYPES[kind][1]
    lines = [f"layer {name} gguf-{kind.lower()} {n} {k} 2 {group} {k // group} {sym} 0",
             "index " + " ".join(str(i // group) for i in range(k))]
    return lines + [f"row {i} {bytes(row).hex()} {'01' * (k // group)} " + "".join("%08x" % s for s in values)
                    for i, (row, values) in enumerate(zip(codes, scales))]


def same(name, path, want):
    got = decode(path)
    check(name, got == want, first_difference(want, got))


def matrix():
    for kind, top in (("TQ1_0", 2), ("TQ2_0", 2), ("Q2_0", 3)):
        bad = None
        for version in (2, 3):
            for alignment in (None, 8, 64, 4096):
                tensors, want = {"blk.0.norm.weight": ("F32", [3], bytes(12))}, []
                for i, (n, k) in enumerate([(1, 256), (7, 512), (48, 768), (8, 2816)]):
                    codes, raw, scales = blocks(kind, 10 * i + version, n, k, top)
                    tensors[f"blk.{i}.ffn_up.weight"] = (kind, [n, k], raw)
                    want += expected(f"blk.{i}.ffn_up", kind, codes, scales, int(kind != "Q2_0"))
                order = sorted(tensors, reverse=version == 2)
                tokens = ("tokenizer.ggml.tokens", ARRAY, struct.pack("<IQ", STRING, 3) + text("<s>") + text("") + text("x"))
                got = decode(write(gguf(tensors, [tokens], version, alignment, order)))
                bad = bad or (got != want and first_difference(want, got))
        check(f"gguf {kind}: versions 2 and 3, four alignments, data in another order", not bad, bad)
    codes, raw, scales = blocks("TQ2_0", 77, 6, 256)
    same("gguf tensor of experts", write(gguf({"e.weight": ("TQ2_0", [2, 3, 256], raw)})), expected("e", "TQ2_0", codes, scales))
    codes, raw, scales = blocks("Q2_0", 78, 2, 192)
    same("case 53: K = 192 in blocks of 64", write(gguf({"w": ("Q2_0", [2, 192], raw)})), expected("w", "Q2_0", codes, scales, 0))
    codes, raw, scales = blocks("Q2_0", 79, 2, 576)
    same("case 55: K = 576 in blocks of 64", write(gguf({"w": ("Q2_0", [2, 576], raw)})), expected("w", "Q2_0", codes, scales, 0))


def worked_bytes():
    one = struct.pack("<e", 1)
    check("TQ1_0 bytes", [five([1] * 5), five([1] * 4), five([0] * 5), five([2] * 5), five([2, 0, 0, 0, 0]), five([0, 1, 2, 0, 1])] ==
          [0x80, 0x7F, 0, 0xFF, 0xAB, 0x31])
    codes = [2 if e == 1 else 1 for e in range(256)]
    block = b"\x55\x56" + b"\x55" * 62 + one
    check("case 23: TQ2_0, +1 at e = 1 is byte 1, shift 0", tq2_0(codes, one) == block)
    same("case 23: read back", write(gguf({"a.weight": ("TQ2_0", [1, 256], block)})), expected("a", "TQ2_0", [codes], [[0x3F800000]]))
    for kind, zero in (("TQ1_0", b"\x80" * 48 + b"\x7F" * 4 + b"\0\0"), ("TQ2_0", b"\x55" * 64 + b"\0\0"), ("Q2_0", b"\0\0" + b"\x55" * 16)):
        width = TYPES[kind][1]
        path = write(gguf({"a.weight": (kind, [1, width], zero)}))
        same(f"case 88: an all-zero block of {kind}", path, expected("a", kind, [[1] * width], [[0]], int(kind != "Q2_0")))
        got = inspected(f"case 88: {kind} with scale 0", path, "ok", "")
        check(f"case 88: {kind} has one scale of 0 and no NaN", got and got["scales"]["zero"] == 1 and got["scales"]["nan"] == 0, got)


def bits_that_no_writer_makes():
    one = struct.pack("<e", 1)
    got = inspected("code 3 in TQ2_0", write(gguf({"a.weight": ("TQ2_0", [1, 512], b"\x55" * 33 + b"\xD5" + b"\x55" * 30 + one + b"\x55" * 64 + one)})), "error",
                    "1 codes that no ternary weight has, the first is 3 at n = 0, k = 225")
    check("TQ2_0 is ternary-g256", got and got["format"] == "ternary-g256", got)
    got = inspected("a byte that no writer of TQ1_0 makes", write(gguf({"a.weight": ("TQ1_0", [1, 256], b"\x01" * 1 + b"\x80" * 47 + b"\x7F" * 4 + one)})),
                    "suspect", "1 bytes that no writer of TQ1_0 makes; read all the same")
    got = inspected("weight +2 in Q2_0 is legal", write(gguf({"a.weight": ("Q2_0", [1, 64], one + b"\x55" * 15 + b"\xD5")})), "ok", "")
    check("Q2_0 with +2 is not ternary", got and got["ternary"] is False and got["codes"] == [0, 63, 0, 1], got)
    got = inspected("Q2_0 of three values", write(gguf({"a.weight": ("Q2_0", [1, 64], one + b"\x55" * 16)})), "ok", "")
    check("Q2_0 without +2 is ternary", got and got["ternary"] is True, got)
    inspected("scale Inf", write(gguf({"a.weight": ("Q2_0", [1, 64], b"\0\x7C" + b"\x55" * 16)})), "error", "1 Inf")


def broken():
    good = gguf({"a.weight": ("TQ2_0", [1, 256], bytes(66))})
    at = good.index(b"a.weight") + 8  # dims, ne[2], type, offset

    def refused(name, content, fact):
        path = write(content)
        run = inspect(path)
        lines = run.stderr.splitlines()
        check(name, run.returncode == 1 and path in lines[0] and fact in lines[0] and run.stdout == "", run)

    def patched(offset, raw):
        return good[:offset] + raw + good[offset + len(raw):]

    refused("gguf version 1", patched(4, struct.pack("<I", 1)), "GGUF version 1")
    refused("gguf of another byte order", patched(4, struct.pack(">I", 3)), "big-endian")
    refused("gguf cut in its data", good[:-32], "tensor 'a.weight': 66 bytes at offset 0 of the data, but the file has 64")
    refused("case 31: K = 3200 in blocks of 256", patched(at + 4, struct.pack("<Q", 3200)), "rows of 3200 are no whole number of TQ2_0 blocks")
    refused("cases 22, 30: unknown type 36", patched(at + 20, struct.pack("<I", 36)), "tensor 'a.weight': unknown ggml type 36 (I2_S of bitnet.cpp?")
    refused("2^42 rows", patched(at + 12, struct.pack("<Q", 1 << 42)), "tensor 'a.weight': 290271069732864 bytes")
    refused("alignment 0", gguf({}, [("general.alignment", U32, struct.pack("<I", 0))]), "general.alignment is 0")
    refused("case 119: offset is no multiple of the alignment", patched(at + 24, struct.pack("<Q", 8)), "offset 8 is no multiple of the alignment 32")
    refused("case 119: another file behind it", good + good, "bytes of no tensor behind the last one")
    refused("two tensors of one name", gguf({"a": ("F32", [1], bytes(4)), "b": ("F32", [1], bytes(4))}).replace(text("b"), text("a")), "duplicate tensor 'a'")
    refused("gguf of four bytes", b"GGUF", "header 0: the version needs 4 bytes at offset 4")
    k = (1 << 32) + 64
    path = write(gguf({"a.weight": ("Q2_0", [1, k], b"")}))
    os.truncate(path, os.path.getsize(path) + k // 64 * 18)  # a hole in the file system: takes no room
    got = decode(path)
    check("case 70: K = 2^32 + 64 is not 64", "N = 1, K = 4294967360, each at most 2^31 - 1" in got[0], got[:1])
    got = decode(write(gguf({"a.weight": ("Q2_0", [64], bytes(18))})))
    check("a layer of one dimension", got[0].startswith("error a ") and "1 dimensions, expected [N, K]" in got[0], got[:1])
    refused("no ternary tensor", gguf({"a": ("F32", [1], bytes(4))}), "is a quantised layer")


def official():
    """The same by the reference package: its writer and its quantisers against this file's, and read back by Tern."""
    try:
        import gguf as package, numpy
    except ImportError:
        return
    for kind in ("TQ1_0", "TQ2_0"):
        codes, raw, scales = blocks(kind, 5, 16, 768)
        # Quantisers take d = max |x|, so each block gets a +-1 and a positive scale.
        for row in codes:
            row[0::256] = [2] * 3
        steps = [[abs(struct.unpack("<f", struct.pack("<I", s))[0]) for s in row] for row in scales]
        values = numpy.array([[s * (q - 1) for q, s in zip(row, [s for s in srow for _ in range(256)])] for row, srow in zip(codes, steps)],
                             dtype=numpy.float32)
        path = os.path.join(work, f"official-{kind}.gguf")
        writer = package.GGUFWriter(path, "llama")
        writer.add_custom_alignment(64)
        writer.add_array("tokenizer.ggml.tokens", ["<s>", "", "x"])
        quantised = package.quants.quantize(values, package.GGMLQuantizationType[kind])
        writer.add_tensor("a.weight", quantised, raw_dtype=package.GGMLQuantizationType[kind])
        writer.add_tensor("b.weight", numpy.ones(3, dtype=numpy.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        want = expected("a", kind, codes, [[struct.unpack("<I", struct.pack("<f", s))[0] for s in row] for row in steps])
        same(f"{kind} by the gguf package", path, want)
        mine = package.GGUFReader(write(gguf({"a.weight": (kind, [16, 768], raw), "n": ("F32", [3], bytes(12))}, alignment=64)))
        back = {t.name: t for t in mine.tensors}
        check(f"{kind} of this file read by the gguf package", back["a.weight"].data.tobytes() == raw and list(back["a.weight"].shape) == [768, 16])


matrix()
worked_bytes()
bits_that_no_writer_makes()
broken()
official()
sys.exit(checkpoint_files.failures > 0)
