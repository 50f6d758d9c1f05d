/* Export: the C header with the dispatch tables. Text out of rows, in one fixed order; no clock, no environment. The tables
 * themselves are written by export_table.c. */
#include "output/export.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void tern_export_launch_free(struct tern_export_launch *launch) {
    for (int i = 0; i < 3; i++)
        tern_str_free(&launch->grid[i]);
    tern_str_free(&launch->block);
    tern_str_free(&launch->smem);
    tern_str_free(&launch->workspace);
    tern_str_free(&launch->cluster);
    tern_str_free(&launch->prologue_grid);
    tern_str_free(&launch->prologue_block);
}

enum tern_status tern_export_check(const struct tern_results *results, bool allow_planned, struct tern_error *err) {
    size_t planned = 0, winners = 0;
    for (size_t i = 0; i < results->count; i++) {
        const struct tern_result *row = &results->rows[i];
        if (strcmp(row->gpu, results->rows[0].gpu)) {
            tern_error_set(err, TERN_USAGE, "the selection holds rows of %s and of %s", results->rows[0].gpu, row->gpu);
            tern_error_hint(err, "a table serves one GPU: choose it with --gpu %s", results->rows[0].gpu);
            return TERN_USAGE;
        }
        winners += row->template_name[0] != 0;
        planned += row->template_name[0] && row->planned;
    }
    if (!winners) {
        tern_error_set(err, TERN_USAGE, "no winner matches the selection; nothing to export");
        tern_error_hint(err, "`tune show` lists what the database holds; `tune --gpu G --shapes S` fills it");
        return TERN_USAGE;
    }
    if (planned && !allow_planned) {
        tern_error_set(err, TERN_FAILED, "%zu of %zu winners are planned: predicted, never measured", planned, winners);
        tern_error_hint(err, "run the same tune command on a machine with a %s, or export anyway with --allow-planned",
                        results->rows[0].gpu);
        return TERN_FAILED;
    }
    return TERN_OK;
}

/* Anything but plain ASCII is written as octal; '?' too, so that no trigraph can arise. */
void tern_export_literal(struct tern_str *out, const char *text) {
    tern_str_append(out, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c < 32 || *c > 126 || *c == '"' || *c == '\\' || *c == '?')
            tern_str_printf(out, "\\%03o", *c);
        else
            tern_str_append_bytes(out, (const char *)c, 1);
    }
    tern_str_append(out, "\"");
}

void tern_export_comment(struct tern_str *out, const char *text) {
    for (const char *c = text; *c; c++) {
        bool plain = *c >= 32 && *c < 127 && *c != '*' && *c != '\\' && *c != '?' && !(*c == '/' && c[1] == '*');
        tern_str_append_bytes(out, plain ? c : "_", 1);
    }
}

const struct tern_result *tern_export_kernel(const struct tern_export_gpu *gpu, const struct tern_result *row,
                                             double *slowdown) {
    const struct tern_export_stand_in *other = gpu->stand_ins ? &gpu->stand_ins[row - gpu->results->rows] : NULL;
    *slowdown = other && other->kernel ? other->slowdown : 1.0;
    return other && other->kernel ? other->kernel : row;
}

bool tern_export_planned(const struct tern_export_gpu *gpu) {
    for (size_t i = 0; i < gpu->results->count; i++)
        if (gpu->results->rows[i].template_name[0] && gpu->results->rows[i].planned)
            return true;
    return false;
}

static void add_kernel(struct tern_export_kernels *out, const struct tern_result *row) {
    out->rows = tern_realloc(out->rows, (out->count + 1) * sizeof *out->rows);
    out->rows[out->count++] = row;
}

static void add_step_kernels(struct tern_export_kernels *out, const struct tern_selection_steps *steps) {
    for (size_t i = 0; i < steps->count; i++)
        add_kernel(out, steps->items[i].kernel);
}

void tern_export_kernels(const struct tern_export_gpu *gpu, const struct tern_selection_table *table,
                         struct tern_export_kernels *out) {
    for (size_t g = 0; g < table->count; g++)
        for (size_t r = 0; r < table->groups[g].count; r++) {
            double slowdown;
            add_kernel(out, tern_export_kernel(gpu, table->groups[g].rows[r], &slowdown));
        }
    for (size_t g = 0; g < table->count && gpu->stairs; g++)
        for (size_t r = 0; r < table->groups[g].count; r++) {
            const struct tern_selection_stairs *stairs = &gpu->stairs[table->groups[g].rows[r] - gpu->results->rows];
            add_step_kernels(out, &stairs->between);
            for (size_t b = 0; b < stairs->band_count; b++)
                add_step_kernels(out, &stairs->bands[b].steps);
        }
}

void tern_export_cubins(const struct tern_export *input, struct tern_strs *hashes) {
    struct tern_strs all = {0};
    for (size_t g = 0; g < input->gpu_count; g++) {
        const struct tern_export_gpu *gpu = &input->gpus[g];
        struct tern_selection_table table = tern_selection_build(gpu->results);
        struct tern_export_kernels kernels = {0};
        tern_export_kernels(gpu, &table, &kernels);
        for (size_t i = 0; i < kernels.count; i++)
            tern_strs_add(&all, kernels.rows[i]->cubin_hash);
        free(kernels.rows);
        tern_selection_free(&table);
    }
    tern_strs_sort(&all);
    for (size_t i = 0; i < all.count; i++)
        if (!i || strcmp(all.items[i], all.items[i - 1]))
            tern_strs_add(hashes, all.items[i]);
    tern_strs_free(&all);
}

/* Model names, sorted, each once. */
static void add_models(const struct tern_export *input, struct tern_str *out) {
    struct tern_strs names = {0};
    for (size_t g = 0; g < input->gpu_count; g++)
        for (size_t i = 0; i < input->gpus[g].results->count; i++)
            tern_strs_add(&names, input->gpus[g].results->rows[i].shapes);
    tern_strs_sort(&names);
    for (size_t i = 0; i < names.count; i++) {
        if (i && !strcmp(names.items[i], names.items[i - 1]))
            continue;
        tern_str_append(out, i ? ", " : "");
        tern_export_comment(out, names.items[i]);
    }
    tern_strs_free(&names);
}

/* First lines: for which GPUs and models, and what must not be overlooked. */
static bool add_title(const struct tern_export *input, struct tern_str *out) {
    bool planned = false;
    tern_str_append(out, "/* Which kernel to launch for a quantised linear layer, on ");
    for (size_t g = 0; g < input->gpu_count; g++) {
        tern_str_append(out, g ? ", " : "");
        tern_export_comment(out, input->gpus[g].title);
        planned = planned || tern_export_planned(&input->gpus[g]);
    }
    tern_str_append(out, ".\n * Generated by `tune export`; do not edit. Tuned for: ");
    add_models(input, out);
    tern_str_append(out, ".\n");
    if (input->max_slowdown > 1.0)
        tern_str_printf(out, " * Fewer kernels than winners: a choice takes up to %.4g times as long as the winner did.\n",
                        input->max_slowdown);
    if (planned)
        tern_str_append(
            out, " *\n"
                 " * PLANNED: this table holds choices that were compiled and ranked by a cost model only. NOT MEASURED.\n"
                 " * Run `tune` on the GPU itself and export again before you rely on it.\n");
    return planned;
}

static void add_macros(const struct tern_export_gpu *gpu, bool planned, struct tern_str *out) {
    tern_str_append(out, "#define TERN_DISPATCH_GPU ");
    tern_export_literal(out, gpu->results->rows[0].gpu);
    tern_str_append(out, "\n#define TERN_DISPATCH_ARCH ");
    tern_export_literal(out, gpu->results->rows[0].arch);
    tern_str_printf(out, "\n#define TERN_DISPATCH_SMS %lld /* multiprocessors, for args.multiprocessors */\n",
                    (long long)gpu->sms);
    tern_str_printf(out, "#define TERN_DISPATCH_SMEM %lld /* most bytes of shared memory of one block */\n",
                    (long long)gpu->smem_bytes);
    tern_str_printf(out, "#define TERN_DISPATCH_PLANNED %d /* 1: at least one choice was never measured */\n\n", planned);
}

static const char DECLARATIONS[] =
    "/* The choice for y[m,n] = x[m,k] * W[n,k]^T by the first table, of the GPU in TERN_DISPATCH_GPU. op NULL: "
    "\"linear-a16\"\n"
    " * (x and y binary16; \"linear-bf16\": bfloat16). Pure: no allocation, no lock, any thread. n is a multiple of 8 and k "
    "of 32; "
    "sizes\n"
    " * of 2^24 and more are not served. All m of one (format, n, k) read the layout of one tuned shape. */\n"
    "struct tern_choice tern_select(const char *format, const char *op, int64_t m, int64_t n, int64_t k);\n"
    "/* The same by any table. */\n"
    "struct tern_choice tern_select_on(const struct tern_table *table, const char *format, const char *op, int64_t m, "
    "int64_t n,\n"
    "                                  int64_t k);\n"
    "/* The table for a GPU as its driver describes it (name, 10 * major + minor, multiprocessors), once at start: exact "
    "for\n"
    " * the model that was tuned, near for another of the same compute capability, default where the kernels can be "
    "loaded.\n"
    " * NULL and none where they cannot. */\n"
    "const struct tern_table *tern_table_for(const char *device, int cc, int64_t sms, enum tern_match *match);\n"
    "/* All tables, one a GPU model; *count of them. */\n"
    "const struct tern_table *tern_tables(int *count);\n"
    "/* TERN_ABI_VERSION of this file, for a runtime that loads it. */\n"
    "int tern_abi_version(void);\n"
    "/* \"none\", \"exact\", \"between\", \"near\", \"default\". */\n"
    "const char *tern_match_name(enum tern_match match);\n"
    "/* Kernels of the first table, for loading them all at start: index 0 to tern_kernel_count() - 1. */\n"
    "int tern_kernel_count(void);\n"
    "const struct tern_kernel *tern_kernel_at(int index);\n";

static const char DEFINITIONS[] =
    "int tern_abi_version(void) { return TERN_ABI_VERSION; }\n\n"
    "const struct tern_table *tern_tables(int *count) {\n"
    "    *count = (int)(sizeof tern_tables_ / sizeof tern_tables_[0]);\n"
    "    return tern_tables_;\n"
    "}\n\n"
    "const struct tern_table *tern_table_for(const char *device, int cc, int64_t sms, enum tern_match *match) {\n"
    "    int count = 0;\n"
    "    const struct tern_table *tables = tern_tables(&count);\n"
    "    return tern_choose_table_(tables, count, device, cc, sms, match);\n"
    "}\n\n"
    "struct tern_choice tern_select_on(const struct tern_table *table, const char *format, const char *op, int64_t m, "
    "int64_t n,\n"
    "                                  int64_t k) {\n"
    "    return tern_choose_(table, format, op, m, n, k);\n"
    "}\n\n"
    "struct tern_choice tern_select(const char *format, const char *op, int64_t m, int64_t n, int64_t k) {\n"
    "    return tern_choose_(tern_tables_, format, op, m, n, k);\n"
    "}\n\n"
    "const char *tern_match_name(enum tern_match match) { return tern_match_text_(match); }\n\n"
    "int tern_kernel_count(void) { return tern_tables_[0].kernel_count; }\n\n"
    "const struct tern_kernel *tern_kernel_at(int index) {\n"
    "    return index >= 0 && index < tern_tables_[0].kernel_count ? &tern_tables_[0].kernels[index].kernel : NULL;\n"
    "}\n";

static void add_opening(const struct tern_export *input, struct tern_str *out) {
    bool planned = add_title(input, out);
    tern_str_append(out, " *\n"
                         " * One C99 or C++11 header. In exactly one source file:\n"
                         " *     #define TERN_DISPATCH_IMPLEMENTATION\n"
                         " *     #include \"tern_dispatch.h\"\n"
                         " * and include it plainly elsewhere. How to launch a choice: README.md beside it. */\n"
                         "#ifndef TERN_DISPATCH_H\n#define TERN_DISPATCH_H\n\n");
    add_macros(&input->gpus[0], planned, out);
    tern_str_printf(out, "%s\n%s", input->abi, input->types);
    tern_str_printf(out, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n%s", DECLARATIONS);
    tern_str_append(out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif /* TERN_DISPATCH_H */\n\n");
}

/* The array of all tables. */
static void add_tables(const struct tern_export *input, struct tern_str *out) {
    tern_str_append(out, "static const struct tern_table tern_tables_[] = {\n");
    for (size_t g = 0; g < input->gpu_count; g++) {
        const struct tern_export_gpu *gpu = &input->gpus[g];
        const char *const texts[] = {gpu->results->rows[0].gpu, gpu->devices, gpu->results->rows[0].arch};
        tern_str_append(out, "    {");
        for (size_t t = 0; t < 3; t++) {
            tern_export_literal(out, texts[t]);
            tern_str_append(out, ", ");
        }
        tern_str_printf(out, "%d, %lld, %lld, %d,\n", gpu->cc, (long long)gpu->sms, (long long)gpu->smem_bytes,
                        tern_export_planned(gpu));
        tern_str_printf(out,
                        "     tern_families_%zu_, tern_groups_%zu_, tern_entries_%zu_, tern_steps_%zu_, tern_kernels_%zu_,\n"
                        "     (int)(sizeof tern_families_%zu_ / sizeof tern_families_%zu_[0]),\n"
                        "     (int)(sizeof tern_kernels_%zu_ / sizeof tern_kernels_%zu_[0])},\n",
                        g, g, g, g, g, g, g, g, g);
    }
    tern_str_append(out, "};\n\n");
}

void tern_export_header(const struct tern_export *input, struct tern_str *out) {
    add_opening(input, out);
    tern_str_append(out, "#if defined(TERN_DISPATCH_IMPLEMENTATION) && !defined(TERN_DISPATCH_IMPLEMENTED)\n"
                         "#define TERN_DISPATCH_IMPLEMENTED\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    tern_str_append(out, input->select);
    tern_str_append(out, "\n");
    for (size_t g = 0; g < input->gpu_count; g++) {
        struct tern_selection_table table = tern_selection_build(input->gpus[g].results);
        tern_export_table(&input->gpus[g], &table, g, out);
        tern_selection_free(&table);
    }
    add_tables(input, out);
    tern_str_append(out, DEFINITIONS);
    tern_str_append(out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif /* TERN_DISPATCH_IMPLEMENTATION */\n");
}
