/* Screening of one problem on a GPU: candidates are checked on small odd shapes, verified, and timed with few samples, in the
 * order that the search asks for them. Every trial is journalled before the worker is asked, so that a kill or a crash leaves its
 * culprit in the database. While the GPU is at one candidate, the next is chosen, journalled and loaded. */
#include "commands/run_internal.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/str.h"
#include "measure/stats.h"
#include "output/progress.h"
#include "worker/interrupt.h"
#include "worker/reply.h"

#include <math.h>
#include <stdlib.h>

/* Predicted: above, a trial takes so much longer than the pause behind it that the next candidate is better chosen with its
 * result. */
#define AHEAD_US 200
/* Candidates tried whatever the time says. */
#define SCREEN_MIN 6
/* Problems of the same format that the search hears of: this layer at lower M, other layers at this M. */
#define NEIGHBOURS 4

struct screening {
    struct run *run;
    struct run_problem *p;
    struct tern_search *search;
    enum tern_strategy strategy;
    bool offered_only;    /* candidates that were offered, and no others */
    size_t *entry, count; /* entry of each point of the search: those that are built, or were not asked for */
    bool *owed;           /* of each point: it is asked in the end, whatever the search says, and was not yet */
    size_t tried, ok;
    int64_t start_ns;
    double share_s, spent_s; /* spent: GPU seconds by the workers' word, the clock of a replay */
};

/* A candidate on its way through the device. */
struct attempt {
    size_t point; /* of the search */
    struct run_entry *entry;
    struct tern_store_trial trial, check; /* check: on small odd shapes; its run stays 0 when none was made */
    double *samples;
    size_t sample_count;
    int64_t start_ns;
    bool due; /* it has a result that is not committed */
};

static void hear_neighbour(struct screening *s, size_t number, const struct run_problem *other) {
    const struct run_entry *best = NULL;
    for (size_t i = 0; i < other->entry_count; i++) {
        const struct run_entry *e = &other->entries[i];
        if (e->outcome != TERN_OUTCOME_OK || !(e->screen_us > 0))
            continue;
        if (!best || e->screen_us < best->screen_us)
            best = e;
        const struct tern_candidate *c = &s->run->builds[e->build].candidate;
        for (size_t j = 0; j < s->count; j++)
            if (tern_candidate_equal(&s->run->builds[s->p->entries[s->entry[j]].build].candidate, c))
                tern_search_neighbour(s->search, number, j, e->screen_us, e->predicted_us);
    }
    if (best) {
        const struct tern_candidate *c = &s->run->builds[best->build].candidate;
        tern_search_twin(s->search, (size_t)(c->tmpl - s->run->templates), c->values);
    }
}

/* Lower M of this layer, nearest first, and the next larger one, then this M of the layers before it, then of this layer in other
 * formats. What is not done yet tells nothing. */
static void hear_neighbours(struct screening *s) {
    const struct run *run = s->run;
    const size_t ms = run->shapes.m_count, of_format = run->shapes.layer_count * ms;
    const struct run_problem *p = s->p, *next = p + 1;
    size_t number = 0;
    for (size_t m = 1; m <= p->m && number < NEIGHBOURS / 2; m++)
        if (!(p - m)->left_out)
            hear_neighbour(s, number++, p - m);
    while (next < p + ms - p->m && next->left_out)
        next++;
    if (next < p + ms - p->m)
        hear_neighbour(s, number++, next);
    for (size_t layer = 1; layer <= p->layer && number < NEIGHBOURS; layer++)
        hear_neighbour(s, number++, p - layer * ms);
    for (size_t i = (size_t)(p - run->problems) % of_format; i < run->problem_count; i += of_format)
        if (&run->problems[i] != p)
            hear_neighbour(s, number++, &run->problems[i]);
}

static void open_search(struct screening *s) {
    struct run *run = s->run;
    struct tern_search_point *points = tern_alloc((s->p->entry_count + 1) * sizeof *points);
    s->entry = tern_alloc((s->p->entry_count + 1) * sizeof *s->entry);
    s->owed = tern_alloc((s->p->entry_count + 1) * sizeof *s->owed);
    for (size_t i = 0; i < s->p->entry_count; i++) {
        struct run_entry *e = &s->p->entries[i];
        const struct run_build *build = &run->builds[e->build];
        const struct tern_candidate *c = &build->candidate;
        if (s->offered_only && !e->offered)
            continue;
        if (build->built)
            e->outcome = build->row.outcome == TERN_OUTCOME_OK ? TERN_OUTCOME_RUNNING : build->row.outcome;
        if (build->built && build->row.outcome != TERN_OUTCOME_OK)
            continue;
        if (!isfinite(e->predicted_us)) { /* the cost model says that no block of it fits on a multiprocessor */
            e->outcome = TERN_OUTCOME_RESOURCES;
            continue;
        }
        const bool owed = e->offered || e->build + 1 == s->p->incumbent;
        points[s->count] = (struct tern_search_point){.family = (size_t)(c->tmpl - run->templates),
                                                      .values = c->values,
                                                      .value_count = c->tmpl->param_count,
                                                      .predicted_us = e->predicted_us,
                                                      .must_ask = tern_candidate_is_default(c) || owed,
                                                      .closed = !build->built};
        s->owed[s->count] = owed && build->built;
        s->entry[s->count++] = i;
    }
    s->search = tern_search_open(s->strategy, points, s->count, s->p->limit_us, (uint64_t)run->options.seed);
    free(points);
    hear_neighbours(s);
}

/* ---- before the device ---- */

static bool in_time(const struct screening *s) {
    double elapsed_s = s->run->options.replay ? s->spent_s : (double)(tern_clock_now_ns() - s->start_ns) * 1e-9;
    return s->strategy == TERN_STRATEGY_EXHAUSTIVE || elapsed_s < s->share_s || s->ok == 0 || s->tried < SCREEN_MIN;
}

static void note_check(struct run_build *build, const struct tern_store_trial *check) {
    build->checked = true;
    build->check = check->outcome;
    tern_str_copy(build->check_detail, sizeof build->check_detail, check->detail);
}

/* The check of an earlier run, on whatever problem: it is about the build. */
static enum tern_status recall_check(const struct run *run, struct run_build *build, struct tern_error *err) {
    struct tern_store_trial check;
    bool found = false;
    enum tern_status status = tern_store_trial_find(run->store, run->device_id, TERN_STORE_ANY_PROBLEM, build->row.id,
                                                    tern_run_check_policy(run), "verify", &check, &found, err);
    if (status != TERN_OK || !found)
        return status;
    note_check(build, &check);
    return TERN_OK;
}

/* Trial of an earlier run, quarantine, or a check that failed before: an outcome without the device. */
static enum tern_status known_already(struct screening *s, struct attempt *a, bool *known, struct tern_error *err) {
    struct run *run = s->run;
    struct run_build *build = &run->builds[a->entry->build];
    bool quarantined = false;
    enum tern_status status = tern_store_trial_find(run->store, run->device_id, s->p->id, build->row.id,
                                                    tern_run_policy(run, s->p), "screen", &a->trial, known, err);
    if (status != TERN_OK || *known)
        return status;
    status = tern_store_quarantined(run->store, run->device_id, s->p->id, build->row.id, &quarantined, err);
    if (status == TERN_OK && !build->checked)
        status = recall_check(run, build, err);
    *known = quarantined || (build->checked && build->check != TERN_OUTCOME_OK);
    a->trial.outcome = quarantined ? TERN_OUTCOME_CRASH : build->check;
    return status;
}

/* What the search, the entry and later questions learn of a result. */
static void absorb(struct screening *s, const struct attempt *a) {
    struct run_entry *e = a->entry;
    e->outcome = a->trial.outcome;
    e->screen_us = a->trial.us;
    e->trial_id = a->trial.id;
    s->ok += e->outcome == TERN_OUTCOME_OK;
    tern_search_tell(s->search, a->point, e->outcome == TERN_OUTCOME_OK ? e->screen_us : (double)NAN);
}

/* What the search asks for; in the end what was offered, even where it is surely slower: its time is what the others are worth, and what
 * tables foretell from. */
static bool next_point(struct screening *s, size_t *point) {
    bool more = tern_search_next(s->search, point);
    for (size_t i = 0; i < s->count && !more; i++)
        if (s->owed[i]) {
            *point = i;
            more = true;
        }
    if (more)
        s->owed[*point] = false;
    return more;
}

/* The next candidate that the device must answer for, journalled. *have false: there is none. */
static enum tern_status begin_next(struct screening *s, struct attempt *a, bool *have, struct tern_error *err) {
    struct run *run = s->run;
    enum tern_status status = TERN_OK;
    size_t point;
    *have = false;
    while (status == TERN_OK && !tern_interrupted() && in_time(s) && next_point(s, &point)) {
        bool known = false;
        *a = (struct attempt){.point = point, .entry = &s->p->entries[s->entry[point]]};
        status = known_already(s, a, &known, err);
        if (status != TERN_OK)
            return status;
        if (known) {
            absorb(s, a);
            continue;
        }
        a->trial = (struct tern_store_trial){.run = run->run_id,
                                             .device = s->p->gpu->id,
                                             .problem = s->p->id,
                                             .build = run->builds[a->entry->build].row.id,
                                             .stage = "screen",
                                             .predicted_us = a->entry->predicted_us,
                                             .us = (double)NAN,
                                             .us_lo = (double)NAN,
                                             .us_hi = (double)NAN};
        tern_str_copy(a->trial.policy, sizeof a->trial.policy, tern_run_policy(run, s->p));
        *have = true;
        return tern_store_trial_begin(run->store, &a->trial, err);
    }
    return status;
}

/* ---- on the device ---- */

static json_t *candidate_message(const char *what, const struct screening *s, const struct attempt *a) {
    const struct run_build *build = &s->run->builds[a->entry->build];
    struct tern_problem_shape shape = tern_run_shape(s->run, s->p);
    double best_us = tern_search_best(s->search);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:b, s:b}", "do", what, "template", build->row.template_name,
        "params", build->row.params, "format", shape.format->name, "cubin", build->row.cubin_hash, "m", (json_int_t)shape.m,
        "n", (json_int_t)shape.n, "k", (json_int_t)shape.k, "expected_us", a->entry->predicted_us, "best_us",
        isfinite(best_us) ? best_us : 0.0 /* JSON has no infinity */, "check", !build->checked, "cool", s->p->compute_bound);
}

static enum tern_status send(struct screening *s, struct attempt *a, struct tern_error *err) {
    json_t *request = candidate_message("trial", s, a);
    a->start_ns = tern_clock_now_ns();
    enum tern_status status =
        tern_run_gpu_send(s->p->gpu, s->p, request, tern_run_timeout_s(s->run, RUN_TRIAL_TIMEOUT_S), err);
    json_decref(request);
    s->tried++;
    return status;
}

static void hint(const struct screening *s, const struct attempt *a) {
    json_t *message = candidate_message("ahead", s, a);
    tern_run_gpu_hint(s->p->gpu, message);
    json_decref(message);
}

static void read_result(const json_t *reply, struct tern_store_trial *trial) {
    trial->outcome = tern_reply_outcome_of(reply);
    tern_str_copy(trial->detail, sizeof trial->detail, tern_message_text(reply, "detail"));
    trial->gpu_seconds = tern_message_real(reply, "gpu_seconds", (double)NAN);
}

/* A row for the check on small odd shapes that went before the trial; a candidate that fails there never meets another problem. */
static void take_check(struct screening *s, struct attempt *a) {
    note_check(&s->run->builds[a->entry->build], &a->check);
    tern_str_copy(a->check.stage, sizeof a->check.stage, "verify");
    tern_str_copy(a->check.policy, sizeof a->check.policy, tern_run_check_policy(s->run));
    a->check.predicted_us = (double)NAN;
}

/* The reply to a trial; ahead of it comes what the check said, if there was one. */
static enum tern_call await_reply(struct screening *s, struct attempt *a, json_t **reply, enum tern_status *status,
                                  struct tern_error *err) {
    struct tern_store_trial *trial = &a->trial;
    for (;;) {
        enum tern_call call = tern_run_gpu_receive(s->p->gpu, reply, trial->detail, sizeof trial->detail, status, err);
        const json_t *check = call == TERN_CALL_OK && *status == TERN_OK ? json_object_get(*reply, "check") : NULL;
        if (!check)
            return call;
        a->check = *trial;
        read_result(check, &a->check);
        take_check(s, a);
        json_decref(*reply);
    }
}

static enum tern_status receive(struct screening *s, struct attempt *a, struct tern_error *err) {
    struct tern_store_trial *trial = &a->trial;
    struct tern_stats stats;
    json_t *reply = NULL;
    enum tern_status status = TERN_OK;
    enum tern_call call = await_reply(s, a, &reply, &status, err);
    if (status != TERN_OK)
        return status;
    if (call != TERN_CALL_OK) {
        trial->outcome = call == TERN_CALL_TIMEOUT ? TERN_OUTCOME_TIMEOUT : TERN_OUTCOME_CRASH;
        if (s->run->options.replay) /* it has no device, and checks nothing */
            return TERN_OK;
        trial->gpu_seconds = (double)(tern_clock_now_ns() - a->start_ns) * 1e-9;
        if (!s->run->builds[a->entry->build].checked) {
            a->check = *trial;
            take_check(s, a);
        }
        return TERN_OK;
    }
    read_result(reply, trial);
    if (json_is_true(json_object_get(reply, "disturbed")) && !trial->detail[0])
        tern_str_copy(trial->detail, sizeof trial->detail, "the GPU was throttled or disturbed");
    trial->sm_mhz = (int)tern_message_int(reply, "sm_mhz", 0);
    a->samples = tern_message_samples(reply, "samples", &a->sample_count);
    tern_stats_compute(a->samples, a->sample_count, &stats);
    trial->us = stats.median;
    trial->us_lo = stats.lo;
    trial->us_hi = stats.hi;
    json_decref(reply);
    return TERN_OK;
}

/* Commits what came back: the check, if there was one, and the trial. */
static enum tern_status finish(struct screening *s, struct attempt *a, struct tern_error *err) {
    struct run *run = s->run;
    enum tern_status status;
    run->outcomes[a->trial.outcome]++;
    if (a->check.run != 0) {
        run->outcomes[a->check.outcome]++;
        status = tern_store_trial_finish_checked(run->store, &a->check, &a->trial, a->samples, a->sample_count, err);
    } else {
        status = tern_store_trial_finish(run->store, &a->trial, a->samples, a->sample_count, err);
    }
    if (a->trial.gpu_seconds > 0)
        s->spent_s += a->trial.gpu_seconds;
    a->due = false;
    free(a->samples);
    a->samples = NULL;
    return status;
}

/* ---- one after the other ---- */

static void tell_progress(const struct screening *s, const struct attempt *last) {
    const struct run *run = s->run;
    char what[96], line[TERN_PROGRESS_SIZE];
    tern_str_format(what, sizeof what, "%s %s M=%lld", run->shapes.formats[s->p->format].name,
                    run->shapes.layers[s->p->layer].name, (long long)run->shapes.m[s->p->m]);
    struct tern_progress progress = {.what = what,
                                     .before = run->resumed,
                                     .elapsed_s = (double)(tern_clock_now_ns() - run->tune_ns) * 1e-9,
                                     .outcomes = run->outcomes,
                                     .best_us = tern_search_best(s->search),
                                     .sm_mhz = last->trial.sm_mhz};
    for (size_t i = 0; i < run->problem_count; i++) {
        progress.total += !run->problems[i].left_out;
        progress.done += run->problems[i].done;
    }
    tern_progress_line(&progress, line);
    tern_log_progress("%s", line);
}

/* A begun attempt that will not be sent; an error before it stays the first. */
static enum tern_status take_back(struct screening *s, const struct attempt *a, enum tern_status status,
                                  struct tern_error *err) {
    enum tern_status back = tern_store_trial_withdraw(s->run->store, &a->trial, status == TERN_OK ? err : NULL);
    return status == TERN_OK ? back : status;
}

/* Commits what an attempt has brought, if it has not been done; an error before it stays the first. */
static enum tern_status commit(struct screening *s, struct attempt *a, enum tern_status status, struct tern_error *err) {
    if (!a || !a->due)
        return status;
    enum tern_status finished = finish(s, a, status == TERN_OK ? err : NULL);
    return status == TERN_OK ? finished : status;
}

/* Sends `now`; while the device is at it, commits and learns from `previous` and chooses, journals and has loaded what comes
 * next, if that pays; then takes in the result. */
static enum tern_status run_attempt(struct screening *s, struct attempt *now, struct attempt *previous, struct attempt *next,
                                    bool *have_next, struct tern_error *err) {
    enum tern_status status = commit(s, previous, send(s, now, err), err);
    *have_next = false;
    if (status != TERN_OK)
        return take_back(s, now, status, err);
    if (previous)
        absorb(s, previous);
    if (now->entry->predicted_us < AHEAD_US)
        status = begin_next(s, next, have_next, err);
    if (status == TERN_OK && *have_next)
        hint(s, next);
    if (status == TERN_OK)
        status = receive(s, now, err);
    now->due = status == TERN_OK;
    tell_progress(s, now);
    if (!*have_next || (status == TERN_OK && !tern_interrupted()))
        return status;
    *have_next = false;
    return take_back(s, next, status, err);
}

/* The device waits only until the next request is sent: `next` is chosen without the result of `now`, which is not there yet and
 * is committed behind it. Where that does not pay, `next` is chosen with the result. */
static enum tern_status run_attempts(struct screening *s, struct tern_error *err) {
    struct attempt slots[3], *now = &slots[0], *next = &slots[1], *previous = NULL;
    bool have = false;
    enum tern_status status = begin_next(s, now, &have, err);
    while (have && status == TERN_OK) {
        status = run_attempt(s, now, previous, next, &have, err);
        previous = now;
        if (!have || status != TERN_OK) {
            status = commit(s, now, status, err);
            previous = NULL;
            if (status != TERN_OK)
                break;
            absorb(s, now);
            status = begin_next(s, next, &have, err);
        }
        now = next;
        next = &slots[(size_t)(now - slots + 1) % 3];
    }
    return status;
}

enum tern_status tern_run_screen(struct run *run, struct run_problem *p, double share_s, bool offered_only,
                                 struct tern_error *err) {
    struct screening s = {.run = run,
                          .p = p,
                          .strategy = offered_only ? TERN_STRATEGY_EXHAUSTIVE : run->strategy,
                          .offered_only = offered_only,
                          .start_ns = tern_clock_now_ns(),
                          .share_s = share_s};
    open_search(&s);
    enum tern_status status = run_attempts(&s, err);
    if (!offered_only)
        p->search_gap = tern_search_gap(s.search);
    tern_search_close(s.search);
    free(s.entry);
    free(s.owed);
    return status;
}
