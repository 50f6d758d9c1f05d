/* One candidate on the prepared layer: verify, time, verify again. */
#include "worker/gpu_session.h"

#include "core/clock.h"
#include "core/str.h"
#include "measure/stats.h"
#include "verify/guard.h"
#include "worker/reply.h"

#include <math.h>
#include <string.h>

#define SCREEN_FIRST   3  /* samples: enough to see that a candidate is hopeless */
#define SCREEN_MIN     5  /* whatever the time says */
#define SCREEN_STEP    5  /* at once, beyond */
#define SCREEN_SETTLED 10 /* at least, to be settled before the time is up */
#define SCREEN_MAX     25 /* a minimum and whole steps */
#define SCREEN_SECONDS 0.15
#define SCREEN_NOISE   0.005 /* half width of the interval of the median */
#define HOPELESS       1.5   /* times the best so far */

enum tern_status gpu_verify(struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, enum tern_outcome *outcome,
                            char *detail, size_t size, struct tern_error *err) {
    struct gpu_layer *l = &s->layer;
    const int64_t n = l->weights.n;
    struct tern_mismatch miss;
    struct tern_launch launch = gpu_kernel_launch(s, kernel, m, 0);
    bool y_intact = true, workspace_intact = true;
    int64_t poisoned = 0;
    enum tern_status status = s->backend->fill(s->context, l->y.at, TERN_POISON_WORD, (size_t)l->y.bytes, err);
    if (status == TERN_OK && l->workspace.bytes > 0)
        status = s->backend->fill(s->context, l->workspace.at, TERN_POISON_WORD, (size_t)l->workspace.bytes, err);
    if (status == TERN_OK)
        status = s->backend->synchronize(s->context, err);
    if (status != TERN_OK)
        return status;
    *outcome = TERN_OUTCOME_FAULT;
    status = s->backend->launch(s->context, &launch, err);
    if (status != TERN_OK) {
        *outcome = TERN_OUTCOME_RESOURCES; /* refused at launch; the context still stands */
        tern_str_copy(detail, size, err->text);
        return TERN_OK;
    }
    status = s->backend->synchronize(s->context, err);
    if (status != TERN_OK) {
        s->sticky = true;
        tern_str_copy(detail, size, err->text);
        return TERN_OK;
    }
    status = tern_fixed_compare(s->fixed, l->y.at, l->y_ref, l->bound_scale, m, n, l->weights.k,
                                kernel->rounded ? TERN_ROUNDED_WEIGHTS : TERN_EXACT_WEIGHTS, &miss, &poisoned, err);
    if (status == TERN_OK)
        status = gpu_guarded_check(s, &l->y, &y_intact, err);
    if (status == TERN_OK)
        status = gpu_guarded_check(s, &l->workspace, &workspace_intact, err);
    if (status != TERN_OK)
        return status;
    bool right = miss.checked == m * n && miss.count == 0 && y_intact && workspace_intact;
    *outcome = right ? TERN_OUTCOME_OK : TERN_OUTCOME_WRONG;
    if (!right && (!y_intact || !workspace_intact))
        tern_str_format(detail, size, "wrote outside %s", y_intact ? "the workspace" : "y");
    else if (!right)
        tern_str_format(detail, size,
                        "%lld of %lld differ (%lld unwritten), first at row %lld column %lld: got %g, expected %g +- %g",
                        (long long)miss.count, (long long)(m * n), (long long)poisoned, (long long)miss.row,
                        (long long)miss.col, miss.got, miss.expected, miss.tolerance);
    return TERN_OK;
}

static enum tern_status capture(struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, double expected_us,
                                struct tern_graph **graph, struct tern_error *err) {
    struct tern_launch launches[TERN_MAX_COPIES];
    size_t copies = kernel->pack->copies, count = gpu_graph_launches(s, kernel->pack->stride, copies, m, expected_us);
    for (size_t i = 0; i < count; i++)
        launches[i] = gpu_kernel_launch(s, kernel, m, i % copies);
    return tern_graph_capture(s->context, launches, count, graph, err);
}

/* `more` replays at once, appended to the samples. */
static enum tern_status replay(struct gpu_session *s, struct tern_graph *graph, size_t more, double *samples, size_t *count,
                               struct tern_error *err) {
    struct tern_graph *graphs[SCREEN_MAX];
    for (size_t i = 0; i < more; i++)
        graphs[i] = graph;
    enum tern_status status = tern_graph_times(s->context, graphs, more, samples + *count, err);
    *count += status == TERN_OK ? more : 0;
    return status;
}

/* A first few samples tell whether the candidate is hopeless against `best_us`; if not, more until the median is settled or
 * time is up. */
static enum tern_status sample(struct gpu_session *s, struct tern_graph *graph, double best_us, double *samples,
                               size_t *count, struct tern_error *err) {
    struct tern_stats stats;
    int64_t end_ns = tern_clock_now_ns() + (int64_t)(SCREEN_SECONDS * 1e9);
    *count = 0;
    enum tern_status status = replay(s, graph, SCREEN_FIRST, samples, count, err);
    while (status == TERN_OK && *count < SCREEN_MAX) {
        tern_stats_compute(samples, *count, &stats);
        if (stats.median > HOPELESS * best_us || (*count >= SCREEN_MIN && tern_clock_now_ns() > end_ns) ||
            tern_stats_settled(&stats, SCREEN_SETTLED, SCREEN_NOISE))
            break;
        size_t more = *count < SCREEN_MIN ? SCREEN_MIN - *count : SCREEN_STEP;
        status = replay(s, graph, more, samples, count, err);
    }
    return status;
}

static json_t *trial_reply(enum tern_outcome outcome, const char *detail, const double *samples, size_t count, int sm_mhz) {
    json_t *reply = tern_reply_outcome(outcome, detail);
    json_object_set_new(reply, "samples", tern_message_from_samples(samples, count));
    json_object_set_new(reply, "sm_mhz", json_integer(sm_mhz));
    return reply;
}

/* Time after a first verification, and a second verification behind it: a race shows as a changing result. */
static enum tern_status time_verified(struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, double best_us,
                                      double *samples, size_t *count, enum tern_outcome *outcome, char *detail, size_t size,
                                      struct tern_error *err) {
    struct tern_graph *graph = NULL;
    double expected_us = isfinite(best_us) && best_us > 0 ? best_us : 10.0;
    enum tern_status status = capture(s, kernel, m, expected_us, &graph, err);
    if (status == TERN_OK)
        status = sample(s, graph, best_us > 0 ? best_us : (double)INFINITY, samples, count, err);
    if (!s->sticky)
        tern_graph_free(s->context, graph);
    if (status != TERN_OK) { /* it ran once and failed under repetition: a fault of the candidate */
        s->sticky = true;
        *outcome = TERN_OUTCOME_FAULT;
        tern_str_copy(detail, size, err->text);
        return TERN_OK;
    }
    return gpu_verify(s, kernel, m, outcome, detail, size, err);
}

json_t *gpu_trial(struct gpu_session *s, const json_t *request) {
    struct tern_error err;
    struct gpu_kernel kernel;
    struct tern_clocks clocks;
    char detail[400] = "";
    double samples[SCREEN_MAX];
    size_t count = 0;
    int64_t m = tern_message_int(request, "m", 0), start_ns;
    enum tern_outcome outcome = TERN_OUTCOME_FAULT;
    if (m < 1 || m > s->layer.m_max) {
        tern_error_set(&err, TERN_INTERNAL, "M=%lld was not prepared (largest is %lld)", (long long)m,
                       (long long)s->layer.m_max);
        return tern_reply_error(&err);
    }
    enum tern_status status = gpu_kernel_load(s, request, m, &kernel, &err);
    if (status == TERN_FAILED ||
        status == TERN_MISSING) { /* the driver refused it, or memory is short: the candidate's fault */
        gpu_kernel_unload(s, &kernel);
        return trial_reply(TERN_OUTCOME_RESOURCES, err.text, NULL, 0, 0);
    }
    start_ns = tern_clock_now_ns();
    if (status == TERN_OK)
        status = gpu_verify(s, &kernel, m, &outcome, detail, sizeof detail, &err);
    if (status == TERN_OK && outcome == TERN_OUTCOME_OK)
        status = time_verified(s, &kernel, m, tern_message_real(request, "best_us", 0), samples, &count, &outcome, detail,
                               sizeof detail, &err);
    double gpu_seconds = (double)(tern_clock_now_ns() - start_ns) * 1e-9;
    gpu_kernel_unload(s, &kernel);
    if (status != TERN_OK)
        return tern_reply_error(&err);
    tern_cuda_watch(s->context, &clocks);
    json_t *reply = trial_reply(outcome, detail, samples, outcome == TERN_OUTCOME_OK ? count : 0, clocks.sm_mhz);
    json_object_set_new(reply, "gpu_seconds", json_real(gpu_seconds));
    return reply;
}
