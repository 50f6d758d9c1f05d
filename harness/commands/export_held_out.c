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
    struct tern_export_regret
        *by_match[TERN_SELECTION_DEFAULT + 1]; /* where an answer counts; NULL: not a question of this kind */
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
    struct tern_export_regret *r = t->by_match[answer.match];
    if (!r)
        return;
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

/* A row that answers a problem. */
static bool asked(const struct tern_result *row) {
    return row->template_name[0] && !row->runner_up;
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
    struct tern_selection_stairs *stairs = tern_times_stairs(t->times, &table, NULL, t->limits);
    table.stairs = stairs;
    for (size_t i = 0; i < t->rows->count; i++)
        if (out[i] && asked(&t->rows->rows[i]))
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

/* Every row alone, and what was tried for its problem. */
static void leave_out_each_m(struct trial *t, bool *out) {
    for (size_t i = 0; i < t->rows->count; i++) {
        const struct tern_result *a = &t->rows->rows[i];
        for (size_t j = 0; j < t->rows->count; j++) {
            const struct tern_result *b = &t->rows->rows[j];
            out[j] = i == j || (b->runner_up && b->m == a->m && b->n == a->n && b->k == a->k && !strcmp(a->op, b->op) &&
                                !strcmp(a->format, b->format));
        }
        if (asked(a))
            leave_out(t, out);
    }
}

/* Each (format, N, K) in turn, all of its M. */
static void leave_out_each_shape(struct trial *t, bool *out) {
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

/* One word of the list: marks the rows of a batch size in by_m, those of a model in by_model. */
static enum tern_status mark(const struct tern_results *rows, const char *word, bool *by_m, bool *by_model,
                             struct tern_error *err) {
    int64_t m;
    bool known = false;
    const bool number = tern_str_parse_int(word, 1, INT32_MAX, &m);
    for (size_t i = 0; i < rows->count; i++)
        if (number ? rows->rows[i].m == m : !strcmp(rows->rows[i].shapes, word)) {
            (number ? by_m : by_model)[i] = true;
            known = true;
        }
    if (!number && !known)
        return tern_error_set(err, TERN_USAGE, "--held-out: '%s' is no batch size and no model of the table", word);
    return TERN_OK;
}

/* How many questions are marked; *rest: and how many are not. */
static size_t count_marked(const struct tern_results *rows, const bool *marked, size_t *rest) {
    size_t count = 0;
    *rest = 0;
    for (size_t i = 0; i < rows->count; i++) {
        count += asked(&rows->rows[i]) && marked[i];
        *rest += asked(&rows->rows[i]) && !marked[i];
    }
    return count;
}

/* The words of the list that are batch sizes, or those that are models, as the manifest says it. */
static void name_left_out(const struct tern_strs *words, bool numbers, char *out, size_t size) {
    struct tern_str text = {0};
    for (size_t i = 0; i < words->count; i++) {
        int64_t m;
        if (tern_str_parse_int(words->items[i], 1, INT32_MAX, &m) == numbers)
            tern_str_printf(&text, "%s%s", text.length ? "," : "", words->items[i]);
    }
    tern_str_copy(out, size, tern_str_text(&text));
    tern_str_free(&text);
}

/* What the list names, if anything: else each in turn where *in_turn. */
static enum tern_status leave_out_listed(struct trial *m, struct trial *shape, const struct tern_strs *words,
                                         struct tern_export_regret *regrets, bool *in_turn, struct tern_error *err) {
    const struct tern_results *rows = m->rows;
    bool *by_m = tern_alloc_zero(rows->count + 1, sizeof *by_m),
         *by_model = tern_alloc_zero(rows->count + 1, sizeof *by_model);
    size_t rest_m, rest_model;
    enum tern_status status = words->count ? TERN_OK : tern_error_set(err, TERN_USAGE, "--held-out names nothing");
    for (size_t w = 0; w < words->count && !status; w++)
        status = mark(rows, words->items[w], by_m, by_model, err);
    const size_t ms = count_marked(rows, by_m, &rest_m), models = count_marked(rows, by_model, &rest_model);
    if (!status && (ms + models == 0 || rest_m == 0 || rest_model == 0))
        status = tern_error_set(err, TERN_USAGE, "--held-out leaves out %zu of %zu problems: some, not all",
                                rest_m == 0 ? ms : models, ms + rest_m);
    if (!status && ms > 0)
        leave_out(m, by_m);
    if (!status && models > 0)
        leave_out(shape, by_model);
    *in_turn = models == 0;
    name_left_out(words, true, regrets[0].left_out, sizeof regrets[0].left_out);
    for (size_t i = 1; i < TERN_EXPORT_REGRETS && models > 0; i++)
        name_left_out(words, false, regrets[i].left_out, sizeof regrets[i].left_out);
    free(by_m);
    free(by_model);
    return status;
}

enum tern_status tern_times_held_out(const struct tern_times *times, const struct tern_results *rows, const char *list,
                                     struct tern_dispatch_limits *limits,
                                     struct tern_export_regret regrets[TERN_EXPORT_REGRETS], struct tern_error *err) {
    static const char *const kinds[] = {"m", "shape-near", "shape-default"};
    struct tern_strs words = {0};
    bool *out = tern_alloc_zero(rows->count + 1, sizeof *out), in_turn = true;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < TERN_EXPORT_REGRETS; i++) {
        regrets[i] = (struct tern_export_regret){.kind = kinds[i]};
        tern_str_copy(regrets[i].left_out, sizeof regrets[i].left_out, i ? "each (N, K) in turn" : "each M in turn");
    }
    struct trial m = {times, rows, limits, {&regrets[0], &regrets[0], &regrets[0], &regrets[0], &regrets[0]}};
    struct trial shape = {times, rows, limits, {&regrets[1], NULL, NULL, &regrets[1], &regrets[2]}};
    if (!strcmp(list, "all")) {
        leave_out_each_m(&m, out);
    } else {
        tern_strs_split(&words, list, ',');
        status = leave_out_listed(&m, &shape, &words, regrets, &in_turn, err);
    }
    if (!status && in_turn)
        leave_out_each_shape(&shape, out);
    for (size_t i = 0; i < TERN_EXPORT_REGRETS; i++)
        finish(&regrets[i]);
    tern_strs_free(&words);
    free(out);
    return status;
}
