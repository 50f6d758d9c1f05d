/* Export: one GPU's table as C arrays and functions: launches, kernels, entries with their evidence, groups, families. */
#include "output/export.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_NS (INT64_MAX / 4) /* what tern_selection_ns answers for unknown; the same in tern/dispatch_select.h */

struct writer {
    const struct tern_export_gpu *gpu;
    const struct tern_selection_table *table;
    size_t index;                       /* of the table in the header: part of every name */
    const struct tern_result **kernels; /* distinct ones, in the order of the table */
    size_t kernel_count;
    struct tern_str *out;
};

static bool same_kernel(const struct tern_result *a, const struct tern_result *b) {
    return !strcmp(a->op, b->op) && !strcmp(a->format, b->format) && !strcmp(a->template_name, b->template_name) &&
           !strcmp(a->params, b->params) && !strcmp(a->build_key, b->build_key) && a->min_m == b->min_m &&
           a->max_m == b->max_m;
}

static size_t find_kernel(const struct writer *w, const struct tern_result *row) {
    size_t i = 0;
    while (i < w->kernel_count && !same_kernel(w->kernels[i], row))
        i++;
    return i;
}

/* Distinct kernels in the order of the table, which does not depend on the order of the rows. */
static void collect_kernels(struct writer *w) {
    struct tern_export_kernels all = {0};
    tern_export_kernels(w->gpu, w->table, &all);
    w->kernels = tern_alloc((all.count + 1) * sizeof *w->kernels);
    for (size_t i = 0; i < all.count; i++)
        if (find_kernel(w, all.rows[i]) == w->kernel_count)
            w->kernels[w->kernel_count++] = all.rows[i];
    free(all.rows);
}

static void add_assignment(struct tern_str *out, const char *field, const struct tern_str *expr, const char *absent) {
    tern_str_printf(out, "    c->%s = %s;\n", field, expr->length ? expr->data : absent);
}

/* The launch of one kernel as a function of the problem. */
static void add_launch(const struct writer *w, size_t index) {
    static const char *const grid[] = {"grid[0]", "grid[1]", "grid[2]"};
    const struct tern_export_launch *launch = &w->gpu->launches[w->kernels[index] - w->gpu->results->rows];
    struct tern_str *out = w->out;
    tern_str_printf(out,
                    "static inline void tern_launch_%zu_%zu_(struct tern_choice *c, int64_t m, int64_t n, int64_t k) {\n",
                    w->index, index);
    if (launch->group_size > 0)
        tern_str_printf(out, "    const int64_t group_size = %lld, groups = tern_ceil_div_(k, group_size);\n",
                        (long long)launch->group_size);
    else
        tern_str_append(out, "    const int64_t group_size = k, groups = 1;\n");
    tern_str_printf(out,
                    "    const int64_t sms = %lld;\n"
                    "    (void)m, (void)n, (void)k, (void)groups, (void)group_size, (void)sms;\n",
                    (long long)w->gpu->sms);
    for (int i = 0; i < 3; i++)
        add_assignment(out, grid[i], &launch->grid[i], "1");
    add_assignment(out, "block", &launch->block, "1");
    add_assignment(out, "cluster", &launch->cluster, "1");
    add_assignment(out, "smem_bytes", &launch->smem, "0");
    add_assignment(out, "workspace_bytes", &launch->workspace, "0");
    add_assignment(out, "prologue_grid", &launch->prologue_grid, "0");
    add_assignment(out, "prologue_block", &launch->prologue_block, "0");
    tern_str_append(out, "}\n\n");
}

static void add_kernels(const struct writer *w) {
    struct tern_str *out = w->out;
    for (size_t i = 0; i < w->kernel_count; i++)
        add_launch(w, i);
    tern_str_printf(out, "static const struct tern_kernel_ tern_kernels_%zu_[] = {\n", w->index);
    for (size_t i = 0; i < w->kernel_count; i++) {
        const struct tern_result *row = w->kernels[i];
        const char *const texts[] = {row->template_name,
                                     row->params,
                                     row->op,
                                     row->format,
                                     row->layout,
                                     row->entry,
                                     row->prologue[0] ? row->prologue : NULL,
                                     row->cubin_hash,
                                     row->build_key};
        tern_str_append(out, "    {{");
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
            if (texts[t])
                tern_export_literal(out, texts[t]);
            else
                tern_str_append(out, "NULL");
            tern_str_append(out, t == 1 || t == 6 ? ",\n      " : ", ");
        }
        tern_str_printf(out, "%lld, %lld, %lld, %lld, %d, %d},\n     tern_launch_%zu_%zu_},\n", (long long)row->min_m,
                        (long long)row->max_m, (long long)row->registers, (long long)row->static_smem_bytes,
                        tern_is_dependent(row->params), tern_rounds_scales(row->params), w->index, i);
    }
    tern_str_append(out, "};\n\n");
}

/* Why an entry is what it is: times, interval, baseline, limit, certainty. */
static void add_evidence(struct tern_str *out, const struct tern_result *row, double slowdown, bool rounded) {
    tern_str_append(out, " /* ");
    tern_export_comment(out, row->layer);
    tern_str_printf(out, " M=%lld: ", (long long)row->m);
    if (row->planned) {
        tern_str_printf(out, "predicted %.2f us, not measured", row->predicted_us);
    } else {
        tern_str_printf(out, "%.2f us [%.2f, %.2f]", row->us, row->us_lo, row->us_hi);
        if (isfinite(row->baseline_us)) {
            tern_str_append(out, ", ");
            tern_export_comment(out, row->baseline);
            tern_str_printf(out, " %.2f us", row->baseline_us);
        }
        if (isfinite(row->p_best))
            tern_str_printf(out, ", p_best %.3f", row->p_best);
    }
    if (isfinite(row->limit_us))
        tern_str_printf(out, ", limit %.2f us", row->limit_us);
    if (rounded)
        tern_str_append(out, "; group scales are rounded");
    if (slowdown != 1.0)
        tern_str_printf(out, "; another kernel stands in, %.3f times that time", slowdown);
    tern_str_append(out, " */\n");
}

static const struct tern_selection_stairs *stairs_of(const struct writer *w, const struct tern_result *row) {
    static const struct tern_selection_stairs none = {{NULL, 0}, NULL, 0};
    return w->gpu->stairs ? &w->gpu->stairs[row - w->gpu->results->rows] : &none;
}

static void add_steps(const struct writer *w, const struct tern_selection_steps *steps) {
    for (size_t i = 0; i < steps->count; i++)
        tern_str_printf(w->out, "    {%lld, %zu},\n", (long long)steps->items[i].size,
                        find_kernel(w, steps->items[i].kernel));
}

/* Steps of the bands, up to and with this one. */
static size_t band_end(const struct tern_selection_stairs *stairs, size_t band) {
    size_t end = 0;
    for (size_t b = 0; b <= band; b++)
        end += stairs->bands[b].steps.count;
    return end;
}

static size_t stairs_length(const struct tern_selection_stairs *stairs) {
    const size_t bands = stairs->band_count;
    return stairs->between.count + bands + (bands ? band_end(stairs, bands - 1) : 0);
}

/* Steps of all entries, in their order: tern/dispatch.h says how they lie. */
static void add_stairs(const struct writer *w) {
    struct tern_str *out = w->out;
    size_t count = 0;
    tern_str_printf(out, "static const struct tern_step_ tern_steps_%zu_[] = {\n", w->index);
    for (size_t g = 0; g < w->table->count; g++)
        for (size_t i = 0; i < w->table->groups[g].count; i++) {
            const struct tern_selection_stairs *stairs = stairs_of(w, w->table->groups[g].rows[i]);
            count += stairs_length(stairs);
            add_steps(w, &stairs->between);
            for (size_t b = 0; b < stairs->band_count; b++)
                tern_str_printf(out, "    {%lld, %zu},\n", (long long)stairs->bands[b].k, band_end(stairs, b));
            for (size_t b = 0; b < stairs->band_count; b++)
                add_steps(w, &stairs->bands[b].steps);
        }
    if (!count)
        tern_str_append(out, "    {0, 0}, /* none */\n"); /* C has no empty arrays */
    tern_str_append(out, "};\n\n");
}

/* One entry: the time is that of the kernel that serves it. */
static void add_entry(const struct writer *w, const struct tern_result *row, size_t first_step) {
    double slowdown;
    const struct tern_selection_stairs *stairs = stairs_of(w, row);
    const struct tern_result *kernel = tern_export_kernel(w->gpu, row, &slowdown);
    struct tern_result served = *row;
    served.us *= slowdown;
    served.predicted_us *= slowdown;
    tern_str_printf(w->out, "    {%lld, %lld, %zu, %d, %d, %zu, %zu, %zu},", (long long)row->m,
                    (long long)tern_selection_ns(&served), find_kernel(w, kernel), tern_selection_use_cublas(&served),
                    tern_selection_use_dequant(&served), first_step, stairs->between.count, stairs->band_count);
    add_evidence(w->out, row, slowdown, tern_rounds_scales(kernel->params));
}

static void add_groups(const struct writer *w) {
    struct tern_str *out = w->out;
    size_t first = 0, step = 0;
    tern_str_printf(out, "static const struct tern_entry_ tern_entries_%zu_[] = {\n", w->index);
    for (size_t g = 0; g < w->table->count; g++) {
        const struct tern_selection_group *group = &w->table->groups[g];
        tern_str_append(out, "    /* ");
        tern_export_comment(out, group->format);
        tern_str_printf(out, ", N=%lld K=%lld */\n", (long long)group->n, (long long)group->k);
        for (size_t i = 0; i < group->count; i++) {
            add_entry(w, group->rows[i], step);
            step += stairs_length(stairs_of(w, group->rows[i]));
        }
    }
    tern_str_printf(out, "};\n\nstatic const struct tern_group_ tern_groups_%zu_[] = {\n", w->index);
    for (size_t g = 0; g < w->table->count; g++) {
        const struct tern_selection_group *group = &w->table->groups[g];
        tern_str_printf(out, "    {%lld, %lld, %zu, %zu},\n", (long long)group->n, (long long)group->k, first, group->count);
        first += group->count;
    }
    tern_str_append(out, "};\n\n");
}

/* Runs of groups with one op and format: the table is sorted by them. */
static void add_families(const struct writer *w) {
    const struct tern_selection_group *groups = w->table->groups;
    tern_str_printf(w->out, "static const struct tern_family_ tern_families_%zu_[] = {\n", w->index);
    for (size_t first = 0, end; first < w->table->count; first = end) {
        for (end = first + 1; end < w->table->count; end++)
            if (strcmp(groups[end].op, groups[first].op) || strcmp(groups[end].format, groups[first].format))
                break;
        tern_str_append(w->out, "    {");
        tern_export_literal(w->out, groups[first].op);
        tern_str_append(w->out, ", ");
        tern_export_literal(w->out, groups[first].format);
        tern_str_printf(w->out, ", %zu, %zu},\n", first, end - first);
    }
    tern_str_append(w->out, "};\n\n");
}

void tern_export_table(const struct tern_export_gpu *gpu, const struct tern_selection_table *table, size_t index,
                       struct tern_str *out) {
    struct writer w = {gpu, table, index, NULL, 0, out};
    collect_kernels(&w);
    tern_str_append(out, "/* ---- ");
    tern_export_comment(out, gpu->title);
    tern_str_append(out, " ---- */\n\n");
    add_kernels(&w);
    add_stairs(&w);
    add_groups(&w);
    add_families(&w);
    free(w.kernels);
}
