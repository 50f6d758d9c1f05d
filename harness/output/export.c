/* Export: writes the C header with the dispatch table. Text out of rows, in one fixed order; no clock, no environment. */
#include "output/export.h"

#include "core/file.h"
#include "output/select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_NS (INT64_MAX / 4) /* what tern_selection_ns answers for unknown */

struct kernel { /* a distinct kernel of the table */
    const struct tern_result *row;
    const struct tern_export_launch *launch;
};

struct writer {
    const struct tern_export *input;
    struct tern_selection_table table;
    struct kernel *kernels;
    size_t kernel_count;
    struct tern_str *out;
};

void tern_export_launch_free(struct tern_export_launch *launch) {
    for (int i = 0; i < 3; i++)
        tern_str_free(&launch->grid[i]);
    tern_str_free(&launch->block);
    tern_str_free(&launch->smem);
    tern_str_free(&launch->workspace);
    tern_str_free(&launch->cluster);
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

/* A C string literal. Anything but plain ASCII is written as octal; '?' too, so that no trigraph can arise. */
static void add_literal(struct tern_str *out, const char *text) {
    tern_str_append(out, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c < 32 || *c > 126 || *c == '"' || *c == '\\' || *c == '?')
            tern_str_printf(out, "\\%03o", *c);
        else
            tern_str_append_bytes(out, (const char *)c, 1);
    }
    tern_str_append(out, "\"");
}

/* Text inside a comment: nothing that could end it. */
static void add_comment_text(struct tern_str *out, const char *text) {
    for (const char *c = text; *c; c++) {
        bool plain = *c >= 32 && *c < 127 && *c != '*' && *c != '\\' && *c != '?' && !(*c == '/' && c[1] == '*');
        tern_str_append_bytes(out, plain ? c : "_", 1);
    }
}

static void add_lines(struct tern_str *out, const char *const *lines) {
    for (; *lines; lines++)
        tern_str_printf(out, "%s\n", *lines);
}

static bool same_kernel(const struct tern_result *a, const struct tern_result *b) {
    return !strcmp(a->op, b->op) && !strcmp(a->format, b->format) && !strcmp(a->template_name, b->template_name) &&
           !strcmp(a->params, b->params) && !strcmp(a->build_key, b->build_key) && a->min_m == b->min_m &&
           a->max_m == b->max_m;
}

static size_t find_kernel(const struct writer *w, const struct tern_result *row) {
    size_t i = 0;
    while (i < w->kernel_count && !same_kernel(w->kernels[i].row, row))
        i++;
    return i;
}

/* Distinct kernels in the order of the table, which does not depend on the order of the rows. */
static void collect_kernels(struct writer *w) {
    for (size_t g = 0; g < w->table.count; g++) {
        for (size_t i = 0; i < w->table.groups[g].count; i++) {
            const struct tern_result *row = w->table.groups[g].rows[i];
            if (find_kernel(w, row) == w->kernel_count) {
                size_t index = (size_t)(row - w->input->results->rows);
                w->kernels[w->kernel_count++] = (struct kernel){row, &w->input->launches[index]};
            }
        }
    }
}

static bool any_planned(const struct writer *w) {
    for (size_t g = 0; g < w->table.count; g++)
        for (size_t i = 0; i < w->table.groups[g].count; i++)
            if (w->table.groups[g].rows[i]->planned)
                return true;
    return false;
}

/* Model names, sorted, each once. */
static void add_models(const struct writer *w) {
    struct tern_strs names = {0};
    for (size_t i = 0; i < w->input->results->count; i++)
        tern_strs_add(&names, w->input->results->rows[i].shapes);
    tern_strs_sort(&names);
    for (size_t i = 0; i < names.count; i++) {
        if (i && !strcmp(names.items[i], names.items[i - 1]))
            continue;
        tern_str_append(w->out, i ? ", " : "");
        add_comment_text(w->out, names.items[i]);
    }
    tern_strs_free(&names);
}

static void add_opening(const struct writer *w) {
    const struct tern_result *row = w->table.groups[0].rows[0];
    struct tern_str *out = w->out;
    bool planned = any_planned(w);
    tern_str_append(out, "/* Which kernel to launch for a quantised linear layer, on ");
    add_comment_text(out, w->input->gpu_title);
    tern_str_append(out, ".\n * Generated by `tune export`; do not edit. Tuned for: ");
    add_models(w);
    tern_str_append(out, ".\n");
    if (planned)
        tern_str_append(
            out, " *\n"
                 " * PLANNED: this table holds choices that were compiled and ranked by a cost model only. NOT MEASURED.\n"
                 " * Run `tune` on the GPU itself and export again before you rely on it.\n");
    tern_str_append(out,
                    " *\n"
                    " * One C99 or C++11 header. In exactly one source file:\n"
                    " *     #define TERN_DISPATCH_IMPLEMENTATION\n"
                    " *     #include \"tern_dispatch.h\"\n"
                    " * and include it plainly elsewhere. How to launch a choice: docs/dispatch.md of Tern. */\n"
                    "#ifndef TERN_DISPATCH_H\n#define TERN_DISPATCH_H\n\n#include <stdint.h>\n\n#define TERN_DISPATCH_GPU ");
    add_literal(out, row->gpu);
    tern_str_append(out, "\n#define TERN_DISPATCH_ARCH ");
    add_literal(out, row->arch);
    tern_str_printf(out, "\n#define TERN_DISPATCH_SMS %lld /* multiprocessors, for args.multiprocessors */\n",
                    (long long)w->input->sms);
    tern_str_printf(out, "#define TERN_DISPATCH_SMEM %lld /* most bytes of shared memory of one block */\n",
                    (long long)w->input->smem_bytes);
    tern_str_printf(out, "#define TERN_DISPATCH_PLANNED %d /* 1: at least one choice was never measured */\n\n", planned);
    tern_str_append(out, w->input->abi);
    tern_str_append(out, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    add_lines(out, tern_export_declarations);
    tern_str_append(out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif /* TERN_DISPATCH_H */\n\n");
}

static void add_assignment(struct tern_str *out, const char *field, const struct tern_str *expr, const char *absent) {
    tern_str_printf(out, "    c->%s = %s;\n", field, expr->length ? expr->data : absent);
}

/* The launch of one kernel as a function of the problem. */
static void add_launch(const struct writer *w, size_t index) {
    static const char *const grid[] = {"grid[0]", "grid[1]", "grid[2]"};
    const struct tern_export_launch *launch = w->kernels[index].launch;
    struct tern_str *out = w->out;
    tern_str_printf(out, "static inline void tern_launch_%zu_(struct tern_choice *c, int64_t m, int64_t n, int64_t k) {\n",
                    index);
    if (launch->group_size > 0)
        tern_str_printf(out, "    const int64_t group_size = %lld, groups = tern_ceil_div_(k, group_size);\n",
                        (long long)launch->group_size);
    else
        tern_str_append(out, "    const int64_t group_size = k, groups = 1;\n");
    tern_str_append(out, "    const int64_t sms = TERN_DISPATCH_SMS;\n"
                         "    (void)m, (void)n, (void)k, (void)groups, (void)group_size, (void)sms;\n");
    for (int i = 0; i < 3; i++)
        add_assignment(out, grid[i], &launch->grid[i], "1");
    add_assignment(out, "block", &launch->block, "1");
    add_assignment(out, "cluster", &launch->cluster, "1");
    add_assignment(out, "smem_bytes", &launch->smem, "0");
    add_assignment(out, "workspace_bytes", &launch->workspace, "0");
    tern_str_append(out, "}\n\n");
}

static void add_kernels(const struct writer *w) {
    struct tern_str *out = w->out;
    for (size_t i = 0; i < w->kernel_count; i++)
        add_launch(w, i);
    tern_str_append(out, "struct tern_kernel_ {\n    struct tern_kernel kernel;\n"
                         "    void (*launch)(struct tern_choice *c, int64_t m, int64_t n, int64_t k);\n};\n\n");
    tern_str_printf(out, "#define TERN_KERNEL_COUNT_ %zu\nstatic const struct tern_kernel_ tern_kernels_[] = {\n",
                    w->kernel_count);
    for (size_t i = 0; i < w->kernel_count; i++) {
        const struct tern_result *row = w->kernels[i].row;
        const char *const texts[] = {row->template_name, row->params, row->op,         row->format,
                                     row->layout,        row->entry,  row->cubin_hash, row->build_key};
        tern_str_append(out, "    {{");
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
            add_literal(out, texts[t]);
            tern_str_append(out, t == 1 || t == 5 ? ",\n      " : ", ");
        }
        tern_str_printf(out, "%lld, %lld, %lld, %lld},\n     tern_launch_%zu_},\n", (long long)row->min_m,
                        (long long)row->max_m, (long long)row->registers, (long long)row->static_smem_bytes, i);
    }
    tern_str_append(out, "};\n\n");
}

/* Why an entry is what it is: times, interval, baseline, limit, certainty. */
static void add_evidence(struct tern_str *out, const struct tern_result *row) {
    tern_str_append(out, " /* ");
    add_comment_text(out, row->layer);
    tern_str_printf(out, " M=%lld: ", (long long)row->m);
    if (row->planned) {
        tern_str_printf(out, "predicted %.2f us, not measured", row->predicted_us);
    } else {
        tern_str_printf(out, "%.2f us [%.2f, %.2f]", row->us, row->us_lo, row->us_hi);
        if (isfinite(row->baseline_us)) {
            tern_str_append(out, ", ");
            add_comment_text(out, row->baseline);
            tern_str_printf(out, " %.2f us", row->baseline_us);
        }
        if (isfinite(row->p_best))
            tern_str_printf(out, ", p_best %.3f", row->p_best);
    }
    if (isfinite(row->limit_us))
        tern_str_printf(out, ", limit %.2f us", row->limit_us);
    tern_str_append(out, " */\n");
}

static void add_table(const struct writer *w) {
    struct tern_str *out = w->out;
    size_t first = 0;
    tern_str_printf(out, "#define TERN_UNKNOWN_NS_ %lld\n\n", (long long)UNKNOWN_NS);
    tern_str_append(out, "struct tern_entry_ {\n    int64_t m, ns;\n    int kernel, use_cublas;\n};\n\n"
                         "static const struct tern_entry_ tern_entries_[] = {\n");
    for (size_t g = 0; g < w->table.count; g++) {
        const struct tern_selection_group *group = &w->table.groups[g];
        tern_str_append(out, "    /* ");
        add_comment_text(out, group->format);
        tern_str_printf(out, ", N=%lld K=%lld */\n", (long long)group->n, (long long)group->k);
        for (size_t i = 0; i < group->count; i++) {
            const struct tern_result *row = group->rows[i];
            tern_str_printf(out, "    {%lld, %lld, %zu, %d},", (long long)row->m, (long long)tern_selection_ns(row),
                            find_kernel(w, row), tern_selection_use_cublas(row));
            add_evidence(out, row);
        }
    }
    tern_str_append(
        out, "};\n\nstruct tern_group_ {\n    const char *op, *format;\n    int64_t n, k;\n    int first, count;\n};\n\n");
    tern_str_printf(out, "#define TERN_GROUP_COUNT_ %zu\nstatic const struct tern_group_ tern_groups_[] = {\n",
                    w->table.count);
    for (size_t g = 0; g < w->table.count; g++) {
        const struct tern_selection_group *group = &w->table.groups[g];
        tern_str_append(out, "    {");
        add_literal(out, group->op);
        tern_str_append(out, ", ");
        add_literal(out, group->format);
        tern_str_printf(out, ", %lld, %lld, %zu, %zu},\n", (long long)group->n, (long long)group->k, first, group->count);
        first += group->count;
    }
    tern_str_append(out, "};\n\n");
}

enum tern_status tern_export_text(const struct tern_export *input, struct tern_str *out, struct tern_error *err) {
    enum tern_status status = tern_export_check(input->results, input->allow_planned, err);
    if (status)
        return status;
    struct writer w = {input, tern_selection_build(input->results), NULL, 0, out};
    w.kernels = tern_alloc(input->results->count * sizeof *w.kernels);
    collect_kernels(&w);
    add_opening(&w);
    tern_str_append(out, "#if defined(TERN_DISPATCH_IMPLEMENTATION) && !defined(TERN_DISPATCH_IMPLEMENTED)\n"
                         "#define TERN_DISPATCH_IMPLEMENTED\n\n#include <string.h>\n\n"
                         "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
                         "static inline int64_t tern_min_(int64_t a, int64_t b) { return a < b ? a : b; }\n"
                         "static inline int64_t tern_max_(int64_t a, int64_t b) { return a > b ? a : b; }\n"
                         "static inline int64_t tern_ceil_div_(int64_t a, int64_t b) { return a / b + (a % b > 0); }\n\n");
    add_kernels(&w);
    add_table(&w);
    add_lines(out, tern_export_algorithm);
    tern_str_append(out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif /* TERN_DISPATCH_IMPLEMENTATION */\n");
    free(w.kernels);
    tern_selection_free(&w.table);
    return TERN_OK;
}

enum tern_status tern_export_header(const char *dir, const struct tern_export *input, struct tern_error *err) {
    struct tern_str text = {0}, path = {0};
    enum tern_status status = tern_export_text(input, &text, err);
    if (status)
        goto out;
    status = tern_file_make_dirs(dir, err);
    if (status)
        goto out;
    tern_str_printf(&path, "%s/tern_dispatch.h", dir);
    status = tern_file_write(path.data, text.data, text.length, err);
out:
    tern_str_free(&text);
    tern_str_free(&path);
    return status;
}
