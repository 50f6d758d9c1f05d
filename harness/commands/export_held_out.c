/* Held-out evaluation of the selection: rows are left out, the rest answers for them, and the recorded times of the candidates
 * tell what the answer costs. See export_times.h. */
#include "commands/export_times.h"

#include "core/log.h"
#include "core/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct trial {
    const struct tern_times *times;
    const struct tern_results *rows;
    struct tern_dispatch_limits *limits;
    struct tern_export_regret *near, *far; /* judged by the match of the answer: default is far, all else near */
};

/* One question: rows[index] by a table of `kept`. An answer of which nothing is known there is counted, not judged. */
static void ask(struct trial *t, const struct tern_selection_table *table, size_t index) {
    const struct tern_result *row = &t->rows->rows[index];
    const struct tern_selection_problem problem = {row->op, row->format, row->m, row->n, row->k};
    bool bounded = false;
    const struct tern_selection_answer answer = tern_selection_ask(table, &problem, tern_dispatch_fits, t->limits);
    double regret =
        answer.row ? tern_times_regret(t->times, t->rows, index, (size_t)(answer.kernel - table->results->rows), &bounded)
                   : NAN;
    struct tern_export_regret *r = answer.match == TERN_SELECTION_DEFAULT ? t->far : t->near;
    if (!(regret > -1.0)) {
        r->unknown++;
        return;
    }
    tern_log_debug("held out: %s %s M=%" PRId64 " N=%" PRId64 " K=%" PRId64 ": %s %s, %.1f %% over the best%s", row->format,
                   row->layer, row->m, row->n, row->k, answer.kernel->template_name, answer.kernel->params, 100 * regret,
                   bounded ? " at most" : "");
    r->bounded += bounded;
    if (!bounded) {
        r->measured_geomean += log1p(regret);
        r->measured_worst = fmax(r->measured_worst, regret);
    }
    r->geomean += log1p(regret); /* a sum until finish() */
    if (!r->count++ || regret > r->worst) {
        r->worst = regret;
        tern_str_format(r->worst_problem, sizeof r->worst_problem, "%s %s M=%" PRId64 " N=%" PRId64 " K=%" PRId64,
                        row->format, row->layer, row->m, row->n, row->k);
    }
}

/* Leaves out the marked rows together and asks for each of them. In the copy they have no kernel; the places stay. */
static void leave_out(struct trial *t, const bool *out) {
    struct tern_results kept = {0};
    for (size_t i = 0; i < t->rows->count; i++) {
        tern_results_add(&kept, &t->rows->rows[i]);
        if (out[i])
            kept.rows[i].template_name[0] = 0;
    }
    struct tern_selection_table table = tern_selection_build(&kept);
    struct tern_selection_stairs *stairs = tern_times_stairs(t->times, &table, NULL, t->limits->sms);
    table.stairs = stairs;
    for (size_t i = 0; i < t->rows->count; i++)
        if (out[i] && t->rows->rows[i].template_name[0])
            ask(t, &table, i);
    tern_times_stairs_free(stairs, kept.count);
    tern_selection_free(&table);
    tern_results_free(&kept);
}

static void finish(struct tern_export_regret *r) {
    const size_t measured = r->count - r->bounded;
    r->geomean = r->count ? expm1(r->geomean / (double)r->count) : NAN;
    r->measured_geomean = measured ? expm1(r->measured_geomean / (double)measured) : NAN;
    if (!r->count)
        r->worst = NAN;
    if (!measured)
        r->measured_worst = NAN;
}

/* "all": every row alone; else the rows whose M is in the list, together. */
static enum tern_status leave_out_m(struct trial *t, const char *list, bool *out, struct tern_error *err) {
    const size_t count = t->rows->count;
    struct tern_strs words = {0};
    size_t marked = 0;
    enum tern_status status = TERN_OK;
    if (!strcmp(list, "all")) {
        for (size_t i = 0; i < count; i++) {
            memset(out, 0, count);
            out[i] = true;
            leave_out(t, out);
        }
        return TERN_OK;
    }
    tern_strs_split(&words, list, ',');
    for (size_t w = 0; w < words.count && !status; w++) {
        int64_t m;
        if (!tern_str_parse_int(words.items[w], 1, INT32_MAX, &m))
            status = tern_error_set(err, TERN_USAGE, "--held-out: '%s' is no batch size", words.items[w]);
        for (size_t i = 0; i < count && !status; i++)
            if (t->rows->rows[i].m == m && !out[i])
                out[i] = ++marked;
    }
    if (!status && (!marked || marked == count))
        status = tern_error_set(err, TERN_USAGE, "--held-out %s leaves out %zu of %zu problems: some, not all", list, marked,
                                count);
    if (!status)
        leave_out(t, out);
    tern_strs_free(&words);
    return status;
}

/* Each (format, N, K) in turn, all of its M. */
static void leave_out_shapes(struct trial *t, bool *out) {
    const size_t count = t->rows->count;
    bool *done = tern_alloc_zero(count, sizeof *done);
    for (size_t i = 0; i < count; i++) {
        const struct tern_result *a = &t->rows->rows[i];
        for (size_t j = 0; j < count; j++) {
            const struct tern_result *b = &t->rows->rows[j];
            out[j] = !strcmp(a->op, b->op) && !strcmp(a->format, b->format) && a->n == b->n && a->k == b->k;
        }
        if (!done[i])
            leave_out(t, out);
        for (size_t j = 0; j < count; j++)
            done[j] = done[j] || out[j];
    }
    free(done);
}

enum tern_status tern_times_held_out(const struct tern_times *times, const struct tern_results *rows, const char *list,
                                     struct tern_dispatch_limits *limits,
                                     struct tern_export_regret regrets[TERN_EXPORT_REGRETS], struct tern_error *err) {
    static const char *const kinds[] = {"m", "shape-near", "shape-default"};
    bool *out = tern_alloc_zero(rows->count, sizeof *out);
    for (size_t i = 0; i < TERN_EXPORT_REGRETS; i++) {
        regrets[i] = (struct tern_export_regret){.kind = kinds[i]};
        tern_str_copy(regrets[i].left_out, sizeof regrets[i].left_out,
                      i                     ? "each (N, K) in turn"
                      : strcmp(list, "all") ? list
                                            : "each M in turn");
    }
    struct trial m = {times, rows, limits, &regrets[0], &regrets[0]};
    struct trial shape = {times, rows, limits, &regrets[1], &regrets[2]};
    enum tern_status status = leave_out_m(&m, list, out, err);
    if (!status)
        leave_out_shapes(&shape, out);
    for (size_t i = 0; i < TERN_EXPORT_REGRETS; i++)
        finish(&regrets[i]);
    free(out);
    return status;
}
