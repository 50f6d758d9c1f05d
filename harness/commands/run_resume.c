/* What earlier runs answered and what of it still holds: winners by build key, else by machine code compiled anew.
 * Must not measure: what does not hold is left open for run_measure.c. */
#include "commands/run_internal.h"

#include "core/log.h"
#include "core/str.h"

#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

/* Why winners stayed or did not; told in a line each, since no row of another identity is used silently. */
struct resume {
    struct tern_results rows; /* stored winners */
    const struct tern_result **winner;
    size_t *build; /* by problem: index in run->builds of the winner's candidate; NONE: nothing to take over */
    size_t recompiled, other_code, other_driver, edited;
    char nvrtc[32], driver[64]; /* of the rows, where they differ from this run's */
};

static const struct tern_result *stored_winner(const struct run *run, const struct run_problem *p,
                                               const struct tern_results *rows) {
    struct tern_problem_shape shape = tern_run_shape(run, p);
    for (size_t i = 0; i < rows->count; i++) {
        const struct tern_result *row = &rows->rows[i];
        if (!row->planned && row->m == shape.m && row->n == shape.n && row->k == shape.k &&
            strcmp(row->op, tern_activation_op(shape.type)) == 0 && strcmp(row->format, shape.format->name) == 0 &&
            strcmp(row->layer, run->shapes.layers[p->layer].name) == 0)
            return row;
    }
    return NULL;
}

/* Today's build of the row's candidate: the very same one, or one of the same template text that another compiler or changed
 * includes give another key. */
static size_t find_build(const struct run *run, const struct run_problem *p, const struct tern_result *row) {
    size_t other_key = NONE;
    for (size_t e = 0; e < p->entry_count; e++) {
        const struct tern_store_build *b = &run->builds[p->entries[e].build].row;
        if (strcmp(b->key, row->build_key) == 0)
            return p->entries[e].build;
        if (strcmp(b->template_name, row->template_name) == 0 && strcmp(b->template_hash, row->template_hash) == 0 &&
            strcmp(b->params, row->params) == 0)
            other_key = p->entries[e].build;
    }
    return other_key;
}

/* Today's build of the candidate that won last, whatever has changed since: it takes part in the next final. */
static size_t incumbent_build(const struct run *run, const struct run_problem *p, const struct tern_result *row) {
    for (size_t e = 0; e < p->entry_count; e++) {
        const struct tern_store_build *b = &run->builds[p->entries[e].build].row;
        if (strcmp(b->template_name, row->template_name) == 0 && strcmp(b->params, row->params) == 0)
            return p->entries[e].build;
    }
    return NONE;
}

/* True if a template that was tried on the problem has been edited since: its new version may be the better one. */
static enum tern_status edited(const struct run *run, const struct run_problem *p, bool *result, struct tern_error *err) {
    bool *serves = tern_alloc_zero(run->template_count + 1, sizeof *serves);
    enum tern_status status = TERN_OK;
    *result = false;
    for (size_t e = 0; e < p->entry_count; e++)
        serves[run->builds[p->entries[e].build].candidate.tmpl - run->templates] = true;
    for (size_t t = 0; t < run->template_count && status == TERN_OK && !*result; t++)
        if (serves[t])
            status = tern_store_template_outdated(run->store, run->device_id, p->id, run->templates[t].name,
                                                  run->templates[t].hash, result, err);
    free(serves);
    return status;
}

static enum tern_status find_candidates(struct run *run, struct resume *r, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < run->problem_count && status == TERN_OK; i++) {
        bool open = false;
        r->build[i] = NONE;
        if (run->problems[i].done || run->problems[i].left_out)
            continue;
        r->winner[i] = stored_winner(run, &run->problems[i], &r->rows);
        r->build[i] = r->winner[i] ? find_build(run, &run->problems[i], r->winner[i]) : NONE;
        if (r->winner[i])
            run->problems[i].incumbent = incumbent_build(run, &run->problems[i], r->winner[i]) + 1; /* NONE + 1 is 0 */
        if (r->build[i] != NONE)
            status = edited(run, &run->problems[i], &open, err);
        else
            open = run->problems[i].incumbent > 0; /* the winner's own template */
        if (open)
            r->build[i] = NONE;
        r->edited += open;
    }
    return status;
}

static bool same_key(const struct run *run, const struct resume *r, size_t problem) {
    return strcmp(run->builds[r->build[problem]].row.key, r->winner[problem]->build_key) == 0;
}

/* Compiles the winners whose key has changed: only then is their machine code known. */
static enum tern_status recompile(struct run *run, struct resume *r, struct tern_error *err) {
    bool *wanted = tern_alloc_zero(run->build_count + 1, sizeof *wanted);
    size_t *list = tern_alloc((run->build_count + 1) * sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < run->problem_count; i++)
        if (r->build[i] != NONE && !same_key(run, r, i) && !wanted[r->build[i]]) {
            wanted[r->build[i]] = true;
            list[count++] = r->build[i];
        }
    enum tern_status status = count > 0 ? tern_run_compile(run, list, count, 0, err) : TERN_OK;
    free(wanted);
    free(list);
    return status;
}

/* The stored row as a row of today's build: the same machine code under another key. *same false: it is other code. */
static enum tern_status renew(const struct run *run, struct resume *r, size_t problem, struct tern_result *row, bool *same,
                              struct tern_error *err) {
    const struct run_build *build = &run->builds[r->build[problem]];
    struct tern_store_build old;
    bool found = false;
    *same = true;
    if (same_key(run, r, problem))
        return TERN_OK;
    *same = build->built && build->row.outcome == TERN_OUTCOME_OK && strcmp(build->row.cubin_hash, row->cubin_hash) == 0;
    r->other_code += !*same;
    r->recompiled += *same;
    tern_str_copy(row->build_key, sizeof row->build_key, build->row.key);
    enum tern_status status = tern_store_build_find(run->store, r->winner[problem]->build_key, &old, &found, err);
    if (status == TERN_OK && found && strcmp(old.nvrtc, run->nvrtc) != 0)
        tern_str_copy(r->nvrtc, sizeof r->nvrtc, old.nvrtc);
    return status;
}

struct recall {
    const struct run *run;
    struct run_problem *p;
};

/* A candidate's time of an earlier run: the searches of neighbouring problems hear of it. */
static int recall_screen(void *user, const struct tern_store_trial *t, const struct tern_store_build *b) {
    const struct recall *r = user;
    if (t->outcome != TERN_OUTCOME_OK || strcmp(t->stage, "screen") != 0 ||
        strcmp(t->policy, tern_run_policy(r->run, r->p)) != 0)
        return 0;
    for (size_t e = 0; e < r->p->entry_count; e++) {
        struct run_entry *entry = &r->p->entries[e];
        const struct tern_store_build *own = &r->run->builds[entry->build].row;
        if (strcmp(own->template_name, b->template_name) == 0 && strcmp(own->template_hash, b->template_hash) == 0 &&
            strcmp(own->params, b->params) == 0) {
            entry->outcome = TERN_OUTCOME_OK;
            entry->screen_us = t->us;
        }
    }
    return 0;
}

static enum tern_status recall_screens(const struct run *run, struct run_problem *p, struct tern_error *err) {
    const struct tern_problem_shape shape = tern_run_shape(run, p);
    struct tern_store_problem problem = {.m = shape.m, .n = shape.n, .k = shape.k};
    struct recall recall = {run, p};
    tern_str_copy(problem.format, sizeof problem.format, shape.format->name);
    tern_str_copy(problem.op, sizeof problem.op, tern_activation_op(run->type));
    return tern_store_trials_each(run->store, run->gpu.name, &problem, recall_screen, &recall, err);
}

/* Takes over a stored winner if its final ran on such a device under this policy. */
static enum tern_status take_over(struct run *run, struct resume *r, size_t problem, struct tern_error *err) {
    struct run_problem *p = &run->problems[problem];
    struct tern_result row = *r->winner[problem];
    struct tern_store_build build;
    struct tern_store_trial trial = {0};
    struct tern_store_device device;
    bool same = false, found = false;
    enum tern_status status = renew(run, r, problem, &row, &same, err);
    if (status != TERN_OK || !same)
        return status;
    status = tern_store_build_find(run->store, row.build_key, &build, &found, err);
    if (status == TERN_OK && found)
        status = tern_store_trial_find(run->store, run->device_id, p->id, build.id, tern_run_policy(run, p), "final", &trial,
                                       &found, err);
    if (status == TERN_OK && found)
        status = tern_store_device_get(run->store, trial.device, &device, err);
    if (status != TERN_OK || !found)
        return status;
    if (strcmp(device.driver, run->gpus[0].info.driver_name) != 0) {
        r->other_driver++;
        tern_str_copy(r->driver, sizeof r->driver, device.driver);
        trial.device = run->device_id; /* the winner moves to today's class */
    }
    p->done = true;
    p->device_id = trial.device;
    p->result = row;
    p->per_layout = tern_alloc(sizeof *p->per_layout);
    p->per_layout[0] = row;
    p->per_layout_count = 1;
    return recall_screens(run, p, err);
}

static void tell(const struct run *run, const struct resume *r) {
    char cause[96] = "an include of the templates has changed";
    if (r->nvrtc[0])
        tern_str_format(cause, sizeof cause, "NVRTC %s, before %s", run->nvrtc, r->nvrtc);
    if (r->recompiled + r->other_code > 0)
        tern_log_note("%s: the machine code of %zu of %zu winners is the same, and their rows stay%s", cause, r->recompiled,
                      r->recompiled + r->other_code, r->other_code > 0 ? "; the others are measured again" : "");
    if (r->other_driver > 0)
        tern_log_note("driver %s, before %s: %zu winners run the same machine code, and their rows stay",
                      run->gpus[0].info.driver_name, r->driver, r->other_driver);
    if (r->edited > 0)
        tern_log_note(
            "%zu problems are open again: a template that was tried there has been edited; rows of the others stay",
            r->edited);
}

enum tern_status tern_run_resume(struct run *run, size_t *resumed, struct tern_error *err) {
    struct resume r = {0};
    r.winner = tern_alloc_zero(run->problem_count + 1, sizeof(const struct tern_result *));
    r.build = tern_alloc((run->problem_count + 1) * sizeof *r.build);
    *resumed = 0;
    enum tern_status status = tern_store_winners(run->store, run->gpu.name, run->shapes.name, &r.rows, err);
    if (status == TERN_OK)
        status = find_candidates(run, &r, err);
    if (status == TERN_OK)
        status = recompile(run, &r, err);
    if (status == TERN_OK)
        status = tern_run_answers(run, err);
    for (size_t i = 0; i < run->problem_count && status == TERN_OK; i++) {
        if (r.build[i] != NONE)
            status = take_over(run, &r, i, err);
        *resumed += run->problems[i].done;
    }
    if (status == TERN_OK)
        tell(run, &r);
    tern_results_free(&r.rows);
    free(r.winner);
    free(r.build);
    return status;
}
