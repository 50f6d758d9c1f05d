/* Trials out of a database, for the problems of given winners. See show_trials.h. */
#include "commands/show_trials.h"

#include "core/str.h"

#include <math.h>
#include <string.h>

struct reading {
    struct tern_trials *out;
    const struct tern_result *problem;
};

static int add_trial(void *user, const struct tern_store_trial *t, const struct tern_store_build *b) {
    const struct reading *r = user;
    struct tern_trial trial = {.problem = r->problem,
                               .id = t->id,
                               .outcome = t->outcome,
                               .us = t->us,
                               .us_lo = t->us_lo,
                               .us_hi = t->us_hi,
                               .predicted_us = t->predicted_us,
                               .gpu_seconds = t->gpu_seconds,
                               .samples = t->sample_count,
                               .registers = b->registers,
                               .static_smem_bytes = b->static_smem_bytes,
                               .spill_bytes = b->spill_bytes,
                               .sm_mhz = t->sm_mhz};
    tern_str_copy(trial.stage, sizeof trial.stage, t->stage);
    tern_str_copy(trial.policy, sizeof trial.policy, t->policy);
    tern_str_copy(trial.detail, sizeof trial.detail, t->detail);
    tern_str_copy(trial.template_name, sizeof trial.template_name, b->template_name);
    tern_str_copy(trial.params, sizeof trial.params, b->params);
    tern_trials_add(r->out, &trial);
    return 0;
}

enum tern_status tern_show_read_trials(struct tern_store *store, const struct tern_results *rows, struct tern_trials *out,
                                       struct tern_error *err) {
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < rows->count && !status; i++) {
        const struct tern_result *row = &rows->rows[i];
        struct reading reading = {out, row};
        struct tern_store_problem p = {.m = row->m, .n = row->n, .k = row->k};
        tern_str_copy(p.format, sizeof p.format, row->format);
        tern_str_copy(p.op, sizeof p.op, row->op);
        status = tern_store_trials_each(store, row->gpu, &p, add_trial, &reading, err);
    }
    tern_trials_sort(out);
    return status;
}

static void add_refused(void *user, const struct tern_store_build *b) {
    struct tern_trial trial = {.outcome = b->outcome,
                               .us = (double)NAN,
                               .us_lo = (double)NAN,
                               .us_hi = (double)NAN,
                               .predicted_us = (double)NAN,
                               .gpu_seconds = (double)NAN,
                               .registers = b->registers,
                               .spill_bytes = b->spill_bytes};
    tern_str_copy(trial.stage, sizeof trial.stage, "build");
    tern_str_copy(trial.template_name, sizeof trial.template_name, b->template_name);
    tern_str_copy(trial.params, sizeof trial.params, b->params);
    tern_str_format(trial.detail, sizeof trial.detail, "%.*s", (int)strcspn(b->log, "\n"), b->log);
    tern_trials_add(user, &trial);
}

/* Refused builds of every format and op that the rows have, behind all trials. */
static enum tern_status read_refused(struct tern_store *store, const struct tern_results *rows, struct tern_trials *out,
                                     struct tern_error *err) {
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < rows->count && !status; i++)
        if (!i || strcmp(rows->rows[i].format, rows->rows[i - 1].format) != 0 ||
            strcmp(rows->rows[i].op, rows->rows[i - 1].op) != 0)
            status = tern_store_refused_each(store, rows->rows[i].gpu, rows->rows[i].format, rows->rows[i].op, add_refused,
                                             out, err);
    return status;
}

enum tern_status tern_show_trials(const char *db, const struct tern_results *rows, enum show_what what, enum show_form form,
                                  struct tern_error *err) {
    struct tern_trials trials = {0};
    struct tern_store *store = NULL;
    enum tern_status status = tern_store_open(db, TERN_STORE_READ, &store, err);
    if (!status)
        status = tern_show_read_trials(store, rows, &trials, err);
    if (!status && !trials.count) {
        status = tern_error_set(err, TERN_USAGE, "%s: nothing was tried on a GPU for this selection", db);
        tern_error_hint(err, "planned rows have no trials; `tune show` lists what there is");
    }
    if (!status && what == SHOW_OUTCOMES)
        status = read_refused(store, rows, &trials, err);
    if (!status && what == SHOW_OUTCOMES && form == SHOW_JSON)
        tern_trials_outcomes_json(stdout, rows->rows[0].gpu, db, &trials);
    else if (!status && what == SHOW_OUTCOMES)
        tern_trials_outcomes(stdout, &trials);
    else if (!status && form == SHOW_JSON)
        tern_trials_json(stdout, rows->rows[0].gpu, db, &trials);
    else if (!status && form == SHOW_CSV)
        tern_trials_csv(stdout, &trials);
    else if (!status)
        tern_trials_table(stdout, &trials);
    tern_store_close(store);
    tern_trials_free(&trials);
    return status;
}
