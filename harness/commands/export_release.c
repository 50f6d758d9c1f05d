/* `tune export --release`: the rows of a release, which are text, with what a table needs besides: launches from today's templates, which
 * must be those that were measured, and cubins, compiled into the cache. No database, no GPU. */
#include "commands/export_parts.h"

#include "commands/dispatch.h"
#include "commands/release_parts.h"
#include "commands/release_runs.h"

#include <string.h>

static const struct tern_result *find_row(const struct tern_results *part, const struct tern_result *made) {
    for (size_t i = 0; i < part->count; i++) {
        const struct tern_result *row = &part->rows[i];
        if (row->m == made->m && row->n == made->n && row->k == made->k && !strcmp(row->format, made->format) &&
            !strcmp(row->op, made->op) && !strcmp(row->layer, made->layer))
            return row;
    }
    return NULL;
}

/* Of a row that was just built: who measured it and what came out. */
static void take_measurement(struct tern_result *to, const struct tern_result *from) {
    struct tern_result row = *from;
    memcpy(row.arch, to->arch, sizeof row.arch);
    memcpy(row.layout, to->layout, sizeof row.layout);
    memcpy(row.entry, to->entry, sizeof row.entry);
    memcpy(row.grid, to->grid, sizeof row.grid);
    memcpy(row.block, to->block, sizeof row.block);
    memcpy(row.smem, to->smem, sizeof row.smem);
    memcpy(row.workspace, to->workspace, sizeof row.workspace);
    memcpy(row.cluster, to->cluster, sizeof row.cluster);
    memcpy(row.prologue, to->prologue, sizeof row.prologue);
    memcpy(row.prologue_grid, to->prologue_grid, sizeof row.prologue_grid);
    memcpy(row.prologue_block, to->prologue_block, sizeof row.prologue_block);
    memcpy(row.build_key, to->build_key, sizeof row.build_key);
    memcpy(row.cubin_hash, to->cubin_hash, sizeof row.cubin_hash);
    row.registers = to->registers, row.static_smem_bytes = to->static_smem_bytes, row.spill_bytes = to->spill_bytes;
    row.min_m = to->min_m, row.max_m = to->max_m;
    *to = row;
}

static enum tern_status build(struct run *run, const struct tern_results *part, struct tern_results *out,
                              struct tern_error *err) {
    const size_t before = out->count;
    size_t *all = tern_alloc((run->build_count + 1) * sizeof *all);
    for (size_t i = 0; i < run->build_count; i++)
        all[i] = i;
    enum tern_status status = tern_run_compile(run, all, run->build_count, 0, err);
    free(all);
    for (size_t i = 0; i < run->problem_count && status == TERN_OK; i++) {
        const struct run_problem *p = &run->problems[i];
        const struct run_build *b = p->entry_count ? &run->builds[p->entries[0].build] : NULL;
        struct tern_result made;
        if (!b)
            continue;
        if (!b->built || b->row.outcome != TERN_OUTCOME_OK)
            return tern_error_set(err, TERN_FAILED, "%s %s of the release does not compile here", b->row.template_name,
                                  b->row.params);
        tern_run_result(run, p, b, &made);
        const struct tern_result *row = find_row(part, &made);
        if (!row)
            return tern_error_set(err, TERN_INTERNAL, "a row of %s M=%lld that was not asked for", made.layer,
                                  (long long)made.m);
        take_measurement(&made, row);
        tern_results_add(out, &made);
    }
    if (status == TERN_OK && out->count - before != part->count)
        status = tern_error_set(err, TERN_FAILED, "today's templates do not have the candidates of %zu of %zu rows",
                                part->count - (out->count - before), part->count);
    return status;
}

enum tern_status tern_export_release_rows(const struct tern_export_options *o, const struct tern_gpu *gpu, const char *cache,
                                          struct tern_results *rows, struct tern_error *err) {
    struct tern_results frozen = {0};
    struct tern_release_runs runs = {
        .dir = o->release,
        .options = {.gpu = o->gpu, .shapes = o->shapes, .cache = cache, .device = "0", .no_device = true},
        .work = build};
    enum tern_status status = tern_release_rows(o->release, gpu->name, o->shapes, &frozen, err);
    if (!status)
        tern_dispatch_leave_out_others(&frozen);
    for (size_t i = 0; i < frozen.count && !status; i++)
        if (*tern_conditions(frozen.rows[i].shapes))
            status = tern_error_set(
                err, TERN_USAGE,
                "rows of %s are on a checkpoint's weights, or of dependent launches: export them from a database",
                frozen.rows[i].shapes);
    if (!status)
        status = tern_export_check(&frozen, false, err);
    if (!status)
        status = tern_export_check_fresh(&frozen, err);
    tern_str_format(runs.options.command_line, sizeof runs.options.command_line, "tune export --release %s", o->release);
    runs.options.gpu = gpu->name;
    if (!status)
        status = tern_release_run(&runs, &frozen, rows, err);
    tern_results_sort(rows);
    tern_results_free(&frozen);
    return status;
}
