/* End of a run: one copy of the weights, promotion, result rows. */
#include "commands/run_internal.h"

#include "core/log.h"
#include "core/str.h"
#include "space/one_copy.h"

#include <math.h>
#include <string.h>

void tern_run_result(const struct run *run, const struct run_problem *p, const struct run_build *build,
                     struct tern_result *row) {
    const struct tern_template *t = build->candidate.tmpl;
    const struct tern_layer *layer = &run->shapes.layers[p->layer];
    memset(row, 0, sizeof *row);
    row->us = row->us_lo = row->us_hi = row->p_best = row->regret = row->baseline_us = row->dequant_us =
        row->dequant_e4m3_us = (double)NAN;
    row->sustained_us = row->sustained_speedup = row->default_us = (double)NAN;
    row->speedup = row->speedup_lo = row->speedup_hi = row->pct_of_limit = (double)NAN;
    row->planned = !run->measured;
    tern_str_copy(row->gpu, sizeof row->gpu, run->gpu.name);
    tern_str_copy(row->arch, sizeof row->arch, run->gpu.arch);
    tern_str_copy(row->format, sizeof row->format, run->shapes.formats[p->format].name);
    tern_str_copy(row->op, sizeof row->op, tern_activation_op(run->type));
    tern_str_copy(row->shapes, sizeof row->shapes, run->shapes.name);
    tern_str_copy(row->layer, sizeof row->layer, layer->name);
    row->m = run->shapes.m[p->m];
    row->n = layer->n;
    row->k = layer->k;
    row->layer_count = layer->count;
    tern_template_fill(t, row);
    tern_str_copy(row->params, sizeof row->params, build->row.params);
    tern_str_copy(row->build_key, sizeof row->build_key, build->row.key);
    tern_str_copy(row->cubin_hash, sizeof row->cubin_hash, build->row.cubin_hash);
    row->registers = build->row.registers;
    row->static_smem_bytes = build->row.static_smem_bytes;
    row->spill_bytes = build->row.spill_bytes;
    row->limit_us = p->limit_us;
}

/* Time that ranks a row: measured, or predicted when nothing was measured. */
static double row_us(const struct tern_result *row) {
    return row->planned ? row->predicted_us : row->us;
}

/* Names of the layouts that have results at any M of the layer; returns how many. */
static size_t collect_layouts(const struct run *run, size_t first, const char **names) {
    size_t count = 0;
    for (size_t m = 0; m < run->shapes.m_count; m++) {
        const struct run_problem *p = &run->problems[first + m];
        for (size_t i = 0; i < p->per_layout_count; i++) {
            size_t known = 0;
            while (known < count && strcmp(names[known], p->per_layout[i].layout) != 0)
                known++;
            if (known == count && count < TERN_MAX_LAYOUTS)
                names[count++] = p->per_layout[i].layout;
        }
    }
    return count;
}

static const struct tern_result *find_layout(const struct run_problem *p, const char *layout) {
    for (size_t i = 0; i < p->per_layout_count; i++)
        if (strcmp(p->per_layout[i].layout, layout) == 0)
            return &p->per_layout[i];
    return NULL;
}

/* Chooses the layouts of one (format, layer) and sets each problem's result to its best kernel among them. */
static void choose_layouts(struct run *run, size_t first) {
    const char *names[TERN_MAX_LAYOUTS];
    double us[TERN_MAX_LAYOUTS * TERN_MAX_M];
    bool chosen[TERN_MAX_LAYOUTS];
    size_t layouts = collect_layouts(run, first, names), ms = run->shapes.m_count;
    if (layouts == 0)
        return;
    for (size_t l = 0; l < layouts; l++)
        for (size_t m = 0; m < ms; m++) {
            const struct tern_result *row = find_layout(&run->problems[first + m], names[l]);
            us[l * ms + m] = row ? row_us(row) : (double)INFINITY;
        }
    tern_one_copy_choose(us, layouts, ms, run->shapes.weight, (int)run->options.copies, chosen);
    for (size_t m = 0; m < ms; m++) {
        struct run_problem *p = &run->problems[first + m];
        const struct tern_result *best = NULL;
        for (size_t l = 0; l < layouts; l++) {
            const struct tern_result *row = chosen[l] ? find_layout(p, names[l]) : NULL;
            if (row && (!best || row_us(row) < row_us(best)))
                best = row;
        }
        p->done = best != NULL;
        if (best)
            p->result = *best;
    }
}

enum tern_status tern_run_promote_layer(struct run *run, size_t first, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    choose_layouts(run, first);
    for (size_t m = 0; m < run->shapes.m_count && status == TERN_OK; m++) {
        const struct run_problem *p = &run->problems[first + m];
        if (p->done)
            status = tern_store_promote(run->store, run->run_id, p->device_id, &p->result, 1, err);
    }
    return status;
}

enum tern_status tern_run_promote(struct run *run, struct tern_error *err) {
    enum tern_status status = tern_store_batch_begin(run->store, err);
    for (size_t first = 0; first < run->problem_count && status == TERN_OK; first += run->shapes.m_count)
        status = tern_run_promote_layer(run, first, err);
    return tern_store_batch_end(run->store, status, err);
}

void tern_run_results(const struct run *run, struct tern_results *out) {
    for (size_t i = 0; i < run->problem_count; i++)
        if (run->problems[i].done)
            tern_results_add(out, &run->problems[i].result);
    tern_results_sort(out);
}
