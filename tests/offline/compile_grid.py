#!/usr/bin/env python3
"""Compiles decode candidates for every architecture with nvcc (no GPU needed) and reports registers and spills.

usage: compile_grid.py [--all | --sample COUNT] [--template NAME] [--arch sm_90a,...]
By default a handful of parameter sets a template; --all takes the whole grid of register-relevant parameters for sm_90a,
--sample COUNT of it (always the same ones).
Exit 1 if a candidate does not compile, uses local memory beyond the limit, or nothing was compiled."""
import argparse, concurrent.futures, itertools, os, random, re, shutil, subprocess, sys, tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FORMATS = [  # BITS, ZERO, HAS_ZEROS, GROUP
    (2, 1, 0, 128), (2, 1, 0, 0), (2, 2, 1, 64), (3, 4, 0, 128), (3, 4, 1, 96), (4, 8, 0, 128), (4, 8, 1, 32),
    (8, 128, 0, 0), (8, 128, 1, 128),
]
ARCHS = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"]
SPILL_LIMIT = 64  # bytes; what valid() cannot foresee exactly
NAMES = {
    "mma-decode": ["WARPS", "ROW_TILES", "PREFETCH", "M_TILE", "CTAS", "CLUSTER_K", "X_CHUNK", "X_BULK", "SCALE_WEIGHTS"],
    "simt-decode": ["WARPS", "ROW_TILES", "PREFETCH", "M_TILE", "CTAS", "CLUSTER_K", "X_CHUNK"],
}
FEW = {
    "mma-decode": [(8, 1, 2, 8, 2, 1, 0, 0, 0), (4, 2, 2, 16, 2, 2, 0, 1, 0), (8, 1, 2, 32, 1, 1, 16, 0, 0)],
    "simt-decode": [(8, 1, 2, 1, 2, 1, 0), (4, 2, 1, 4, 2, 2, 0), (8, 1, 2, 8, 1, 1, 16)],
}


def registers_wanted(template, p, fmt):
    """The estimate of valid() in space.lua."""
    bits, _, has_zeros, group = fmt
    warps, row_tiles, prefetch, m_tile = p[:4]
    spans = 1 if group % 128 == 0 else 2 if group % 64 == 0 else 4
    ring = prefetch * row_tiles * (2 * bits + spans * (1 + has_zeros))
    sums = row_tiles * m_tile * (0.5 if template == "mma-decode" else 2) * (1 if group == 0 else 2)
    return ring + sums + (8 * row_tiles + m_tile // 4 + 3 * spans + 39 if template == "mma-decode" else 8 * m_tile + 52)


def candidates(template, every):
    if not every:
        return FEW[template]
    m_tiles = (8, 16, 32, 64) if template == "mma-decode" else (1, 2, 4, 8)
    prefetch = (2, 3, 4, 6) if template == "mma-decode" else (1, 2, 3, 4)
    others = [(0,)] * (len(NAMES[template]) - 6)
    return list(itertools.product((4, 8, 16), (1, 2, 4), prefetch, m_tiles, (1, 2, 4), (1,), *others))


def compile_one(nvcc, template, arch, p, fmt, folder):
    text = "".join(f"constexpr int {n} = {v};\n" for n, v in zip(NAMES[template], p))
    text += "constexpr int BITS = {}, ZERO = {}, HAS_ZEROS = {}, GROUP = {};\n".format(*fmt)
    text += f'#include "{ROOT}/templates/{template}/kernel.cu"\n'
    source = os.path.join(folder, f"{template}_{arch}_{'_'.join(map(str, p + fmt))}.cu")
    with open(source, "w") as f:
        f.write(text)
    command = [nvcc, "-std=c++17", "-O3", f"-I{ROOT}/templates/include", f"-arch={arch}", "-cubin", "-Xptxas", "-v"]
    run = subprocess.run(command + ["-o", source + ".cubin", source], capture_output=True, text=True)
    regs = re.search(r"Used (\d+) registers", run.stderr)
    spill = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill", run.stderr)
    if run.returncode or not regs or not spill:
        return None, None, run.stderr
    return int(regs.group(1)), max(int(spill.group(1)), int(spill.group(2))), ""


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--all", action="store_true")
    options.add_argument("--sample", type=int, default=0)
    options.add_argument("--template", action="append")
    options.add_argument("--arch", default=None)
    args = options.parse_args()
    args.all = args.all or args.sample > 0
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        print("SKIPPED: no nvcc found")
        return 77
    archs = args.arch.split(",") if args.arch else ["sm_90a"] if args.all else ARCHS
    jobs = []
    for template in args.template or sorted(FEW):
        for arch, p, fmt in itertools.product(archs, candidates(template, args.all), FORMATS):
            cap = min(255, 65536 // (32 * p[0] * p[4]))
            old = int(arch[3:5] if arch[3:] not in ("100", "120") else arch[3:]) < 90
            if not 8 <= p[0] * p[4] <= 32 or registers_wanted(template, p, fmt) > cap:
                continue
            if old and (p[5] > 1 or sum(p[7:8])):
                continue
            jobs.append((template, arch, p, fmt))
    if args.sample:
        jobs = random.Random(1).sample(jobs, min(args.sample, len(jobs)))
    bad = spilled = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for job, (regs, spill, log) in zip(jobs, pool.map(lambda j: compile_one(nvcc, *j, folder), jobs)):
            values = " ".join(f"{n}={v}" for n, v in zip(NAMES[job[0]], job[2]))
            name = f"{job[0]} {job[1]} {values} format {'/'.join(map(str, job[3]))}"
            if regs is None:
                print(f"FAILED {name}\n{log}")
            elif spill > 0:
                print(f"spills {spill} bytes, {regs} registers: {name}")
            bad += regs is None or spill > SPILL_LIMIT
            spilled += regs is not None and spill > 0
    print(f"{len(jobs)} compiled, {spilled} spill, {bad} failed or spill more than {SPILL_LIMIT} bytes")
    return 0 if jobs and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
