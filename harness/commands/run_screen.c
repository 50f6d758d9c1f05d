/* Screening of one problem on a GPU: candidates are checked on small odd shapes, verified, and timed with few samples, in the
 * order that the search asks for them. Every trial is journalled before the worker is asked, so that a kill or a crash leaves its
 * culprit in the database. */
#include "commands/run_internal.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/str.h"
#include "measure/stats.h"
#include "worker/interrupt.h"
#include "worker/reply.h"

#include <math.h>
#include <stdlib.h>

#define SCREEN_MIN 6 /* candidates tried whatever the time says */
#define NEIGHBOURS 4 /* problems that the search hears of: the same layer at lower M, then other layers at this M */

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

/* Tries one candidate on a problem; *tried tells whether the GPU was used, and *seconds how long by the worker's word. */
static enum tern_status screen(struct run *run, struct run_problem *p, struct run_entry *e, double best_us, bool *tried,
                               double *seconds, struct tern_error *err) {
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
        *seconds = trial.gpu_seconds > 0 ? trial.gpu_seconds : 0;
    }
    e->outcome = trial.outcome;
    e->screen_us = trial.us;
    e->trial_id = trial.id;
    return status;
}

/* ---- the search over a problem's candidates ---- */

struct screening {
    struct run *run;
    struct run_problem *p;
    struct tern_search *search;
    size_t *entry, count; /* entry of each point of the search: those that are built */
    size_t tried, ok;
    double spent_s; /* of the GPU: by the clock, or in a replay by the recording */
};

static double elapsed_s(const struct screening *s, int64_t start_ns) {
    return s->run->options.replay ? s->spent_s : (double)(tern_clock_now_ns() - start_ns) * 1e-9;
}

static void hear_neighbour(struct screening *s, size_t number, const struct run_problem *other) {
    for (size_t i = 0; i < other->entry_count; i++) {
        const struct run_entry *e = &other->entries[i];
        if (e->outcome != TERN_OUTCOME_OK || !(e->screen_us > 0))
            continue;
        for (size_t j = 0; j < s->count; j++)
            if (s->p->entries[s->entry[j]].build == e->build)
                tern_search_neighbour(s->search, number, j, e->screen_us, e->predicted_us);
    }
}

/* Lower M of this layer, nearest first, then this M of the layers before it. What is not done yet tells nothing. */
static void hear_neighbours(struct screening *s) {
    const size_t ms = s->run->shapes.m_count;
    const struct run_problem *p = s->p;
    size_t number = 0;
    for (size_t m = 1; m <= p->m && m <= NEIGHBOURS / 2; m++)
        hear_neighbour(s, number++, p - m);
    for (size_t layer = 1; layer <= p->layer && number < NEIGHBOURS; layer++)
        hear_neighbour(s, number++, p - layer * ms);
}

static void open_search(struct screening *s) {
    struct run *run = s->run;
    struct tern_search_point *points = tern_alloc((s->p->entry_count + 1) * sizeof *points);
    s->entry = tern_alloc((s->p->entry_count + 1) * sizeof *s->entry);
    for (size_t i = 0; i < s->p->entry_count; i++) {
        struct run_entry *e = &s->p->entries[i];
        const struct run_build *build = &run->builds[e->build];
        const struct tern_candidate *c = &build->candidate;
        if (build->built)
            e->outcome = build->row.outcome == TERN_OUTCOME_OK ? TERN_OUTCOME_RUNNING : build->row.outcome;
        if (!build->built || build->row.outcome != TERN_OUTCOME_OK)
            continue;
        points[s->count] = (struct tern_search_point){.family = (size_t)(c->tmpl - run->templates),
                                                      .values = c->values,
                                                      .value_count = c->tmpl->param_count,
                                                      .predicted_us = e->predicted_us,
                                                      .is_default = tern_candidate_is_default(c)};
        s->entry[s->count++] = i;
    }
    s->search = tern_search_open(run->strategy, points, s->count, s->p->limit_us, (uint64_t)run->options.seed);
    free(points);
    hear_neighbours(s);
}

static enum tern_status ask(struct screening *s, size_t index, struct tern_error *err) {
    struct run_entry *e = &s->p->entries[s->entry[index]];
    bool tried = false;
    double seconds = 0;
    enum tern_status status = screen(s->run, s->p, e, tern_search_best(s->search), &tried, &seconds, err);
    s->tried += tried;
    s->spent_s += seconds;
    s->ok += e->outcome == TERN_OUTCOME_OK;
    tern_search_tell(s->search, index, e->outcome == TERN_OUTCOME_OK ? e->screen_us : (double)NAN);
    return status;
}

enum tern_status tern_run_screen(struct run *run, struct run_problem *p, double share_s, struct tern_error *err) {
    struct screening s = {.run = run, .p = p};
    const char *format = run->shapes.formats[p->format].name, *layer = run->shapes.layers[p->layer].name;
    int64_t start_ns = tern_clock_now_ns();
    enum tern_status status = TERN_OK;
    size_t index;
    open_search(&s);
    while (status == TERN_OK && !tern_interrupted()) {
        bool in_time = run->strategy == TERN_STRATEGY_EXHAUSTIVE || elapsed_s(&s, start_ns) < share_s;
        if ((s.ok >= 1 && s.tried >= SCREEN_MIN && !in_time) || !tern_search_next(s.search, &index))
            break;
        status = ask(&s, index, err);
        tern_log_progress("%s %s M=%lld: %zu tried, best %.2f us", format, layer, (long long)run->shapes.m[p->m], s.tried,
                          tern_search_best(s.search));
    }
    p->search_gap = tern_search_gap(s.search);
    tern_search_close(s.search);
    free(s.entry);
    return status;
}
