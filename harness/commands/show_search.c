/* Searches out of a database: the trials of each problem that has a winner. See show_search.h. */
#include "commands/show_search.h"

#include "core/log.h"
#include "core/str.h"
#include "store/store.h"

#include <string.h>

/* A search is under one set of conditions, which policies and models name alike but for the first character. */
static bool same_conditions(const char *policy, const char *shapes) {
    const char *of_trial = tern_conditions(policy), *of_row = tern_conditions(shapes);
    return *of_trial && *of_row ? strcmp(of_trial + 1, of_row + 1) == 0 : !*of_trial && !*of_row;
}

static int add_trial(void *user, const struct tern_store_trial *t, const struct tern_store_build *b) {
    const struct tern_curve *curve = user;
    if (!same_conditions(t->policy, curve->problem.shapes))
        return 0;
    if (strcmp(t->stage, "sustained") == 0)
        return 0; /* no part of the search; its seconds are those of the final */
    struct tern_curve_trial trial = {.build = t->build,
                                     .ok = t->outcome == TERN_OUTCOME_OK,
                                     .final = strcmp(t->stage, "final") == 0,
                                     .us = t->us,
                                     .gpu_seconds = t->gpu_seconds};
    tern_str_copy(trial.template_name, sizeof trial.template_name, b->template_name);
    tern_str_copy(trial.params, sizeof trial.params, b->params);
    tern_curve_add(user, &trial);
    return 0;
}

static enum tern_status read_curve(struct tern_store *store, const struct tern_result *row, struct tern_curve *s,
                                   struct tern_error *err) {
    struct tern_store_problem p = {.m = row->m, .n = row->n, .k = row->k};
    tern_str_copy(p.format, sizeof p.format, row->format);
    tern_str_copy(p.op, sizeof p.op, row->op);
    s->problem = *row;
    enum tern_status status = tern_store_trials_each(store, row->gpu, &p, add_trial, s, err);
    tern_curve_finish(s);
    return status;
}

static void tell_unknown(const struct tern_curves *all) {
    size_t unknown = 0, trials = 0;
    for (size_t i = 0; i < all->count; i++) {
        unknown += all->list[i].unknown;
        trials += all->list[i].trial_count;
    }
    if (unknown > 0)
        tern_log_note("%zu of %zu trials do not know their GPU seconds and count as none", unknown, trials);
}

enum tern_status tern_show_search(const char *db, const struct tern_results *rows, struct tern_curves *all,
                                  struct tern_error *err) {
    struct tern_store *store = NULL;
    enum tern_status status = tern_store_open(db, TERN_STORE_READ, &store, err);
    all->list = tern_alloc_zero(rows->count + 1, sizeof *all->list);
    for (size_t i = 0; i < rows->count && !status; i++)
        if (!rows->rows[i].planned)
            status = read_curve(store, &rows->rows[i], &all->list[all->count++], err);
    tern_store_close(store);
    if (!status && all->count == 0) {
        tern_error_set(err, TERN_USAGE, "%s: nothing was measured for this selection, so nothing was searched", db);
        tern_error_hint(err, "planned rows have no trials; `tune show` lists what there is");
        status = TERN_USAGE;
    }
    if (!status)
        tell_unknown(all);
    return status;
}
