/* Export: README.md and example.c of the folder, for people who have nothing else of Tern. */
#include "output/export.h"

static const char README[] =
    "## Use\n\n"
    "In exactly one source file define `TERN_DISPATCH_IMPLEMENTATION` before including `tern_dispatch.h` (C99 or C++11);\n"
    "`example.c` is a whole program: `cc -o example example.c && ./example`.\n\n"
    "```c\n"
    "struct tern_choice c = tern_select(\"ternary-g128\", \"linear-a16\", m, n, k); /* y[m,n] = x[m,k] * W[n,k]^T in "
    "binary16;\n"
    "                                                   \"linear-bf16\": in bfloat16; \"linear-a8\", \"linear-e4m3\": x "
    "rounded to 8 bits first */\n"
    "if (c.use_cublas)\n"
    "    ... /* cuBLASLt in the type of x was measured to be faster, or no kernel serves the problem */\n"
    "else if (c.kernel)\n"
    "    ... /* launch c.kernel with c.grid, c.block, c.smem_bytes, c.workspace_bytes */\n"
    "```\n\n"
    "`tern_rt` (installed with Tern, `pkg-config tern_rt`) loads `tern_kernels.bin`, packs weights and launches. By hand: "
    "unpack\n"
    "the cubin named `c.kernel->cubin_hash`, find `c.kernel->entry`, and\n\n"
    "```c\n"
    "struct tern_args args = {x, codes, scales, zeros, bias, y, workspace, m, n, k, groups, group_size, table->sms};\n"
    "void *params[] = {&args};\n"
    "cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)c.smem_bytes); /* once */\n"
    "cuLaunchKernel(function, (unsigned)c.grid[0], (unsigned)c.grid[1], (unsigned)c.grid[2], (unsigned)c.block, 1, 1,\n"
    "               (unsigned)c.smem_bytes, stream, params, NULL); /* c.cluster > 1: cuLaunchKernelEx with a cluster */\n"
    "```\n\n"
    "Where `c.kernel->prologue` is not NULL, launch that symbol of the cubin right before, with the same `params`: grid\n"
    "`c.prologue_grid`, block `c.prologue_block`, no dynamic shared memory. `c.kernel->rounds_scales` is 1 where scales of "
    "W\n"
    "are rounded to 7 bits of the largest of their row.\n\n"
    "## Files\n\n"
    "| file | what |\n|---|---|\n"
    "| `tern_dispatch.h` | which kernel, with which launch, for which problem; the evidence stands beside each entry |\n"
    "| `tern_kernels.bin` | the cubins: `TERNKRN1`, u64 count, then per image name[32], XXH3-128[32], u64 offset, u64 "
    "packed\n"
    "bytes, u64 bytes; zstd frames behind them (absent if no cubin was at hand) |\n"
    "| `manifest.json` | device, toolchain, and the same evidence for machines |\n";

/* Which GPUs, and how far the answers are measured. */
void tern_export_readme(const struct tern_export *input, struct tern_str *out) {
    tern_str_append(out, "# Kernels for quantised linear layers\n\nWritten by `tune export`; do not edit.\n\n"
                         "| GPU | architecture | choices |\n|---|---|---|\n");
    for (size_t g = 0; g < input->gpu_count; g++)
        tern_str_printf(out, "| %s | %s | %s |\n", input->gpus[g].title, input->gpus[g].results->rows[0].arch,
                        tern_export_planned(&input->gpus[g]) ? "PLANNED: predicted, not measured" : "measured");
    if (input->max_slowdown > 1.0)
        tern_str_printf(out, "\nFewer kernels than winners: a choice takes up to %.4g times as long as the winner did.\n",
                        input->max_slowdown);
    tern_str_append(out, "\n");
    tern_str_append(out, README);
}

const char *const tern_export_example =
    "/* Prints what the table answers: example [FORMAT M N K]. Build: cc -o example example.c */\n"
    "#define TERN_DISPATCH_IMPLEMENTATION\n"
    "#include \"tern_dispatch.h\"\n"
    "\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "\n"
    "static int print_choice(const char *format, int64_t m, int64_t n, int64_t k) {\n"
    "    const struct tern_choice c = tern_select(format, NULL, m, n, k);\n"
    "    printf(\"%s M=%ld N=%ld K=%ld: %s match%s\\n\", format, (long)m, (long)n, (long)k, tern_match_name(c.match),\n"
    "           c.use_cublas ? \", use cuBLAS\" : \"\");\n"
    "    if (c.kernel)\n"
    "        printf(\"  %s %s\\n  grid %ld %ld %ld, block %ld, %ld bytes of shared memory, %ld of workspace\\n\",\n"
    "               c.kernel->entry, c.kernel->params, (long)c.grid[0], (long)c.grid[1], (long)c.grid[2], (long)c.block,\n"
    "               (long)c.smem_bytes, (long)c.workspace_bytes);\n"
    "    return c.kernel != NULL;\n"
    "}\n"
    "\n"
    "int main(int argc, char **argv) {\n"
    "    int count = 0;\n"
    "    const struct tern_table *table = tern_tables(&count);\n"
    "    const struct tern_group_ *first = &table->groups[table->families[0].first];\n"
    "    if (argc == 5)\n"
    "        return !print_choice(argv[1], atoll(argv[2]), atoll(argv[3]), atoll(argv[4]));\n"
    "    printf(\"%d kernels for %s (%s)\\n\", tern_kernel_count(), table->gpu, table->arch);\n"
    "    return !print_choice(table->families[0].format, 1, first->n, first->k);\n"
    "}\n";
