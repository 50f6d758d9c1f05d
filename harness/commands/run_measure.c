/* A run on a GPU: for each problem check, verify and screen candidates, then hand the best to the finals.
 * Every trial is journalled before the worker is asked, so that a kill or a crash leaves its culprit in the database. */
#include "commands/run_internal.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/str.h"
#include "measure/stats.h"
#include "worker/interrupt.h"
#include "worker/reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BUDGET_S 300.0
#define SCREEN_SHARE     0.6 /* of a problem's share of the budget; the rest is for finals, baselines, preparation */
#define SCREEN_MIN       6   /* candidates tried whatever the budget says */
#define SCREEN_MAX       48  /* candidates a problem has compiled at most */
#define NEIGHBOUR_BEST   6   /* best of the neighbouring problem that go first */
#define HOPELESS_AFTER   6   /* candidates of a template that ran right, */
#define HOPELESS         1.5 /* all slower than this many times the best: the template gets no more time */

/* Defaults first: they take part in every final. */
static void defaults_first(const struct run *run, struct run_problem *p) {
    size_t at = 0;
    for (size_t i = 0; i < p->entry_count; i++)
        if (tern_candidate_is_default(&run->builds[p->entries[i].build].candidate)) {
            struct run_entry e = p->entries[i];
            memmove(&p->entries[at + 1], &p->entries[at], (i - at) * sizeof e);
            p->entries[at++] = e;
        }
}

/* Every template's best prediction, then every second best, and so on: the cost model is good at ranking the candidates of
 * one template and poor at comparing templates. Stable in the order of predictions. */
static void templates_in_turn(const struct run *run, struct run_problem *p) {
    struct run_entry *sorted = tern_alloc((p->entry_count + 1) * sizeof *sorted);
    bool *taken = tern_alloc_zero(p->entry_count + 1, sizeof *taken);
    size_t count = 0;
    while (count < p->entry_count) {
        size_t round = count;
        for (size_t i = 0; i < p->entry_count; i++) {
            const struct tern_template *t = run->builds[p->entries[i].build].candidate.tmpl;
            bool seen = taken[i];
            for (size_t j = round; j < count; j++)
                seen = seen || run->builds[sorted[j].build].candidate.tmpl == t;
            if (!seen) {
                taken[i] = true;
                sorted[count++] = p->entries[i];
            }
        }
    }
    memcpy(p->entries, sorted, p->entry_count * sizeof *sorted);
    free(sorted);
    free(taken);
}

/* Moves the best screened candidates of a finished neighbour in front of the untried ones. */
static void neighbour_first(const struct run *run, struct run_problem *p, const struct run_problem *neighbour) {
    size_t at = 0;
    while (at < p->entry_count && tern_candidate_is_default(&run->builds[p->entries[at].build].candidate))
        at++;
    double above = 0;
    for (int rank = 0; rank < NEIGHBOUR_BEST; rank++) {
        const struct run_entry *best = NULL;
        for (size_t i = 0; i < neighbour->entry_count; i++) {
            const struct run_entry *e = &neighbour->entries[i];
            if (e->outcome == TERN_OUTCOME_OK && e->screen_us > above && (!best || e->screen_us < best->screen_us))
                best = e;
        }
        if (!best)
            return;
        above = best->screen_us;
        for (size_t i = at; i < p->entry_count; i++)
            if (p->entries[i].build == best->build) {
                struct run_entry e = p->entries[i];
                memmove(&p->entries[at + 1], &p->entries[at], (i - at) * sizeof e);
                p->entries[at++] = e;
                break;
            }
    }
}

static enum tern_status compile_needed(struct run *run, struct tern_error *err) {
    bool *wanted = tern_alloc_zero(run->build_count + 1, sizeof *wanted);
    size_t *list = tern_alloc((run->build_count + 1) * sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < run->problem_count; i++)
        for (size_t e = 0; !run->problems[i].done && e < run->problems[i].entry_count && e < SCREEN_MAX; e++)
            wanted[run->problems[i].entries[e].build] = true;
    for (size_t b = 0; b < run->build_count; b++)
        if (wanted[b])
            list[count++] = b;
    enum tern_status status = tern_run_compile(run, list, count, 0, err);
    free(wanted);
    free(list);
    return status;
}

/* One journalled request about a build: `running` is committed, the worker asked, the outcome committed. */
static enum tern_status journalled(struct run_gpu *gpu, const struct run_problem *p, struct tern_store_trial *trial,
                                   const json_t *request, double **samples, size_t *count, struct tern_error *err) {
    struct run *run = gpu->run;
    json_t *reply = NULL;
    *samples = NULL;
    *count = 0;
    trial->us = trial->us_lo = trial->us_hi = (double)NAN;
    enum tern_status status = tern_run_gpu_ready(gpu, p, err);
    if (status == TERN_OK)
        status = tern_store_trial_begin(run->store, trial, err);
    if (status != TERN_OK)
        return status;
    int64_t start_ns = tern_clock_now_ns();
    enum tern_call call = tern_run_gpu_call(gpu, p, request, tern_run_timeout_s(run, RUN_TRIAL_TIMEOUT_S), &reply,
                                            trial->detail, sizeof trial->detail, &status, err);
    if (status != TERN_OK) {
        json_decref(reply);
        return status;
    }
    if (call != TERN_CALL_OK) {
        trial->outcome = call == TERN_CALL_TIMEOUT ? TERN_OUTCOME_TIMEOUT : TERN_OUTCOME_CRASH;
        if (!run->options.replay) /* it had the device until its end; a replay has none */
            trial->gpu_seconds = (double)(tern_clock_now_ns() - start_ns) * 1e-9;
    } else {
        trial->outcome = tern_reply_outcome_of(reply);
        tern_str_copy(trial->detail, sizeof trial->detail, tern_message_text(reply, "detail"));
        if (json_is_true(json_object_get(reply, "disturbed")) && !trial->detail[0])
            tern_str_copy(trial->detail, sizeof trial->detail, "the GPU was throttled or disturbed");
        trial->sm_mhz = (int)tern_message_int(reply, "sm_mhz", 0);
        trial->gpu_seconds = tern_message_real(reply, "gpu_seconds", (double)NAN);
        *samples = tern_message_samples(reply, "samples", count);
        struct tern_stats stats;
        tern_stats_compute(*samples, *count, &stats);
        trial->us = stats.median;
        trial->us_lo = stats.lo;
        trial->us_hi = stats.hi;
    }
    run->outcomes[trial->outcome]++;
    json_decref(reply);
    return tern_store_trial_finish(run->store, trial, *samples, *count, err);
}

static json_t *candidate_request(const char *what, const struct run *run, const struct run_problem *p,
                                 const struct run_build *build, double best_us) {
    struct tern_problem_shape shape = tern_run_shape(run, p);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:f}", "do", what, "template", build->row.template_name, "params",
                     build->row.params, "format", shape.format->name, "cubin", build->row.cubin_hash, "m",
                     (json_int_t)shape.m, "k", (json_int_t)shape.k, "best_us",
                     isfinite(best_us) ? best_us : 0.0); /* JSON has no infinity */
}

/* Small odd shapes, once for each build, whichever device needs it first: a candidate that fails there never meets a real
 * problem. */
static enum tern_status check_build(struct run *run, const struct run_problem *p, struct run_build *build,
                                    struct tern_error *err) {
    struct tern_store_trial trial = {.run = run->run_id,
                                     .device = p->gpu->id,
                                     .problem = p->id,
                                     .build = build->row.id,
                                     .stage = "verify",
                                     .predicted_us = (double)NAN};
    double *samples = NULL;
    size_t count = 0;
    bool found = false;
    while (build->checking)
        pthread_cond_wait(&run->changed, &run->lock);
    if (build->checked)
        return TERN_OK;
    build->checking = true;
    tern_str_copy(trial.policy, sizeof trial.policy, run->check_policy);
    enum tern_status status = tern_store_trial_find(run->store, run->device_id, p->id, build->row.id, trial.policy,
                                                    trial.stage, &trial, &found, err);
    json_t *request = candidate_request("check", run, p, build, 0);
    if (status == TERN_OK && !found)
        status = journalled(p->gpu, NULL, &trial, request, &samples, &count, err);
    build->checking = false;
    build->checked = status == TERN_OK; /* a device that was lost over it has said nothing of the candidate */
    build->check = trial.outcome;
    tern_str_copy(build->check_detail, sizeof build->check_detail, trial.detail);
    pthread_cond_broadcast(&run->changed);
    free(samples);
    json_decref(request);
    return status;
}

/* Tries one candidate on a problem; *tried tells whether the GPU was used. */
static enum tern_status screen(struct run *run, struct run_problem *p, struct run_entry *e, double best_us, bool *tried,
                               struct tern_error *err) {
    struct run_build *build = &run->builds[e->build];
    struct tern_store_trial trial = {.run = run->run_id,
                                     .device = p->gpu->id,
                                     .problem = p->id,
                                     .build = build->row.id,
                                     .stage = "screen",
                                     .predicted_us = e->predicted_us};
    bool found = false, quarantined = false;
    tern_str_copy(trial.policy, sizeof trial.policy, run->policy);
    *tried = false;
    if (!build->built || build->row.outcome != TERN_OUTCOME_OK) {
        e->outcome = build->built ? build->row.outcome : TERN_OUTCOME_RUNNING;
        return TERN_OK;
    }
    enum tern_status status =
        tern_store_trial_find(run->store, run->device_id, p->id, build->row.id, run->policy, "screen", &trial, &found, err);
    if (status == TERN_OK && !found)
        status = tern_store_quarantined(run->store, run->device_id, p->id, build->row.id, &quarantined, err);
    if (status == TERN_OK && !found && !quarantined && !build->checked)
        status = check_build(run, p, build, err);
    if (status != TERN_OK)
        return status;
    if (quarantined || (!found && build->check != TERN_OUTCOME_OK)) {
        e->outcome = quarantined ? TERN_OUTCOME_CRASH : build->check;
        return TERN_OK;
    }
    if (!found) {
        double *samples = NULL;
        size_t count = 0;
        json_t *request = candidate_request("trial", run, p, build, best_us);
        status = journalled(p->gpu, p, &trial, request, &samples, &count, err);
        json_decref(request);
        free(samples);
        *tried = true;
    }
    e->outcome = trial.outcome;
    e->screen_us = trial.us;
    e->trial_id = trial.id;
    return status;
}

/* What screening one problem has shown of each template so far. */
struct screening {
    double best_us, *template_us; /* best time, overall and by template */
    size_t tried, ok, *template_ok;
};

/* A template whose first candidates are all far behind the best gets no more of the problem's time. */
static bool hopeless(const struct screening *s, size_t t) {
    return s->template_ok[t] >= HOPELESS_AFTER && s->template_us[t] > HOPELESS * s->best_us;
}

static void note_result(struct screening *s, size_t t, const struct run_entry *e) {
    if (e->outcome != TERN_OUTCOME_OK || !(e->screen_us > 0))
        return;
    s->ok++;
    s->template_ok[t]++;
    if (e->screen_us < s->template_us[t])
        s->template_us[t] = e->screen_us;
    if (e->screen_us < s->best_us)
        s->best_us = e->screen_us;
}

static enum tern_status screen_entries(struct run *run, struct run_problem *p, double share_s, struct screening *s,
                                       struct tern_error *err) {
    int64_t deadline_ns = tern_clock_now_ns() + (int64_t)(share_s * 1e9);
    const char *format = run->shapes.formats[p->format].name, *layer = run->shapes.layers[p->layer].name;
    for (size_t i = 0; i < p->entry_count && !tern_interrupted(); i++) {
        size_t t = (size_t)(run->builds[p->entries[i].build].candidate.tmpl - run->templates);
        bool tried = false;
        if (s->ok >= 1 && s->tried >= SCREEN_MIN && tern_clock_now_ns() > deadline_ns)
            break;
        if (hopeless(s, t))
            continue;
        enum tern_status status = screen(run, p, &p->entries[i], s->best_us, &tried, err);
        if (status != TERN_OK)
            return status;
        s->tried += tried;
        note_result(s, t, &p->entries[i]);
        tern_log_progress("%s %s M=%lld: %zu tried, best %.2f us", format, layer, (long long)run->shapes.m[p->m], s->tried,
                          s->best_us);
    }
    return TERN_OK;
}

static enum tern_status screen_problem(struct run *run, struct run_problem *p, double share_s, struct tern_error *err) {
    struct screening s = {.best_us = (double)INFINITY};
    s.template_us = tern_alloc((run->template_count + 1) * sizeof *s.template_us);
    s.template_ok = tern_alloc_zero(run->template_count + 1, sizeof *s.template_ok);
    for (size_t t = 0; t < run->template_count; t++)
        s.template_us[t] = (double)INFINITY;
    enum tern_status status = screen_entries(run, p, share_s, &s, err);
    free(s.template_us);
    free(s.template_ok);
    return status;
}

static enum tern_status tune_problem(struct run *run, struct run_problem *p, double share_s, struct tern_error *err) {
    size_t index = (size_t)(p - run->problems);
    if (p->m > 0)
        neighbour_first(run, p, p - 1);
    else if (p->layer > 0)
        neighbour_first(run, p, &run->problems[index - run->shapes.m_count]);
    enum tern_status status = screen_problem(run, p, SCREEN_SHARE * share_s, err);
    return status == TERN_OK && !tern_interrupted() ? tern_run_final(run, p, err) : status;
}

enum tern_status tern_run_measure(struct run *run, struct tern_error *err) {
    size_t resumed = 0, left = 0;
    enum tern_status status = tern_run_resume(run, &resumed, err);
    for (size_t i = 0; i < run->problem_count; i++) {
        templates_in_turn(run, &run->problems[i]);
        defaults_first(run, &run->problems[i]);
        left += !run->problems[i].done;
    }
    if (resumed > 0)
        tern_log_note("%zu of %zu problems are done already", resumed, run->problem_count);
    if (status == TERN_OK)
        status = compile_needed(run, err);
    int64_t start_ns = tern_clock_now_ns();
    run->busy_s = 0; /* of calibrating */
    double budget_s = run->options.budget_s > 0 ? run->options.budget_s : DEFAULT_BUDGET_S;
    if (status == TERN_OK && left > 0)
        status = tern_run_share(run, tune_problem, budget_s, err);
    run->gpu_s = (double)(tern_clock_now_ns() - start_ns) * 1e-9;
    return status;
}
