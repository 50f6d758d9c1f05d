/* What other problems' winners have to do with a problem that is not tuned yet. The kernel that an exported table would answer is tried, so
 * that a tuned problem never loses to what the table gave before, and so that `export --held-out` knows the time of the kernel it judges. At
 * the sizes of --between all kernels of the table are: their times there tell which of them serves the sizes between. With --elsewhere kernels
 * that won or nearly won at another layer are tried as well: their times tell which of them serves layers that nobody tuned. */
#include "commands/run_internal.h"

#include "commands/dispatch.h"
#include "commands/export_times.h"

#include <stdlib.h>
#include <string.h>

/* Measured rows on random weights and of plain launches, of all models: what an export without --shapes holds. */
static enum tern_status load_rows(const struct run *run, struct tern_results *rows, struct tern_error *err) {
    struct tern_results all = {0};
    enum tern_status status = tern_store_winners(run->store, run->gpu.name, NULL, &all, err);
    for (size_t i = 0; i < all.count && status == TERN_OK; i++)
        if (!all.rows[i].planned && !*tern_conditions(all.rows[i].shapes))
            tern_results_add(rows, &all.rows[i]);
    tern_results_sort(rows);
    tern_results_free(&all);
    return status;
}

/* Has the kernel of the row tried whatever the search thinks of it, also where its template calls it senseless for the problem. *build:
 * 1 + its index in run.builds; 0 where that is not among --templates. */
static enum tern_status offer(struct run *run, struct run_problem *p, const struct tern_result *row, size_t *build,
                              struct tern_error *err) {
    enum tern_status status = TERN_OK;
    *build = 0;
    for (size_t e = 0; e < p->entry_count && *build == 0; e++) {
        const struct tern_store_build *b = &run->builds[p->entries[e].build].row;
        if (strcmp(b->template_name, row->template_name) == 0 && strcmp(b->params, row->params) == 0)
            *build = p->entries[e].build + 1;
    }
    for (size_t t = 0; t < run->template_count && *build == 0 && status == TERN_OK; t++)
        if (strcmp(run->templates[t].name, row->template_name) == 0)
            status = tern_run_add_candidate(run, p, &run->templates[t], row->params, build, err);
    for (size_t e = 0; e < p->entry_count; e++)
        p->entries[e].offered = p->entries[e].offered || p->entries[e].build + 1 == *build;
    return status;
}

static bool can_serve(const struct run *run, const struct run_problem *p, const struct tern_result *row) {
    const struct tern_problem_shape shape = tern_run_shape(run, p);
    const struct tern_selection_problem problem = {tern_activation_op(shape.type), shape.format->name, shape.m, shape.n,
                                                   shape.k};
    struct tern_dispatch_limits limits = {run->gpu.sms, run->gpu.smem_block_bytes};
    return row->template_name[0] && strcmp(row->op, problem.op) == 0 && strcmp(row->format, problem.format) == 0 &&
           row->min_m <= shape.m && shape.m <= row->max_m && tern_dispatch_fits(&limits, row, &problem);
}

enum tern_status tern_run_offer_winners(struct run *run, struct run_problem *p, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    size_t build;
    for (size_t i = 0; i < run->problem_count && status == TERN_OK; i++)
        if (run->problems[i].done && can_serve(run, p, &run->problems[i].result))
            status = offer(run, p, &run->problems[i].result, &build, err);
    return status;
}

enum tern_status tern_run_offer_elsewhere(struct run *run, struct tern_error *err) {
    struct tern_results rows = {0};
    struct tern_times *times = NULL;
    size_t build;
    enum tern_status status = load_rows(run, &rows, err);
    if (status == TERN_OK && rows.count > 0)
        status = tern_times_load(run->options.db, &run->gpu, &rows, &times, err);
    if (status == TERN_OK && rows.count > 0)
        tern_times_runners_up(times, &rows);
    for (size_t i = 0; i < run->problem_count && status == TERN_OK; i++) {
        struct run_problem *p = &run->problems[i];
        for (size_t r = 0; r < rows.count && p->done && status == TERN_OK; r++)
            if (rows.rows[r].m == run->shapes.m[p->m] && strcmp(rows.rows[r].layout, p->result.layout) == 0 &&
                can_serve(run, p, &rows.rows[r]))
                status = offer(run, p, &rows.rows[r], &build, err);
    }
    tern_times_free(times);
    tern_results_free(&rows);
    return status;
}

enum tern_status tern_run_answers(struct run *run, struct tern_error *err) {
    struct tern_results rows = {0};
    struct tern_times *times = NULL;
    struct tern_dispatch_limits limits = {run->gpu.sms, run->gpu.smem_block_bytes};
    enum tern_status status = load_rows(run, &rows, err);
    if (status == TERN_OK && rows.count > 0)
        status = tern_times_load(run->options.db, &run->gpu, &rows, &times, err);
    if (status == TERN_OK && rows.count > 0) {
        tern_times_runners_up(times, &rows);
        struct tern_selection_table table = tern_selection_build(&rows);
        struct tern_selection_stairs *stairs = tern_times_stairs(times, &table, NULL, &limits);
        table.stairs = stairs;
        for (size_t i = 0; i < run->problem_count && status == TERN_OK; i++) {
            struct run_problem *p = &run->problems[i];
            const struct tern_problem_shape shape = tern_run_shape(run, p);
            const struct tern_selection_problem problem = {tern_activation_op(shape.type), shape.format->name, shape.m,
                                                           shape.n, shape.k};
            if (p->incumbent || p->done || p->left_out)
                continue;
            const struct tern_selection_answer answer = tern_selection_ask(&table, &problem, tern_dispatch_fits, &limits);
            if (answer.row)
                status = offer(run, p, answer.kernel, &p->incumbent, err);
        }
        tern_times_stairs_free(stairs, rows.count);
        tern_selection_free(&table);
    }
    tern_times_free(times);
    tern_results_free(&rows);
    return status;
}
