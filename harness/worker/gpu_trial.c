/* One candidate on the prepared layer: verify, time, verify again (gpu_verify.c). */
#include "worker/gpu_session.h"

#include "core/clock.h"
#include "core/str.h"
#include "measure/stats.h"
#include "worker/reply.h"

#include <math.h>
#include <string.h>

#define SCREEN_FIRST   3  /* samples: enough to see that a candidate is hopeless */
#define SCREEN_MIN     5  /* whatever the time says */
#define SCREEN_STEP    5  /* at once, beyond */
#define SCREEN_SETTLED 10 /* at least, to be settled before the time is up */
#define SCREEN_COOL    5  /* the same on a cool device, where nothing drifts */
#define SCREEN_MAX     25 /* a minimum and whole steps */
#define SCREEN_SECONDS 0.03
#define SCREEN_NOISE   0.005 /* half width of the interval of the median */
#define HOPELESS       1.15  /* times the best so far: no noise that samples show makes up for that */

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
    enum tern_status status = gpu_times(s, graphs, more, samples + *count, err);
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
            tern_stats_settled(&stats, s->cool ? SCREEN_COOL : SCREEN_SETTLED, SCREEN_NOISE))
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

/* Time between two verifications: a race shows as a changing result. */
static enum tern_status time_verified(struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m,
                                      const json_t *request, double *samples, size_t *count, struct gpu_verdict *v,
                                      struct tern_error *err) {
    struct tern_graph *graph = NULL;
    double best_us = tern_message_real(request, "best_us", 0);
    enum tern_status status = capture(s, kernel, m, tern_message_real(request, "expected_us", 10.0), &graph, err);
    if (status == TERN_OK)
        status = sample(s, graph, best_us > 0 ? best_us : (double)INFINITY, samples, count, err);
    if (!s->sticky)
        tern_graph_free(s->context, graph);
    if (status != TERN_OK) { /* it ran once and failed under repetition: a fault of the candidate */
        s->sticky = true;
        v->outcome = TERN_OUTCOME_FAULT;
        tern_str_copy(v->detail, sizeof v->detail, err->text);
        return TERN_OK;
    }
    return gpu_verify_after(s, kernel, m, true, v, err);
}

/* Load, verify, time, verify again. Fills the reply; an error is one of the machine. */
static enum tern_status try_candidate(struct gpu_session *s, const json_t *request, int64_t m, json_t **reply,
                                      struct tern_error *err) {
    struct gpu_kernel kernel;
    struct tern_clocks clocks;
    struct gpu_verdict v = {.outcome = TERN_OUTCOME_FAULT};
    double samples[SCREEN_MAX];
    size_t count = 0;
    enum tern_status status = gpu_kernel_load(s, request, m, &kernel, err);
    if (status == TERN_FAILED ||
        status == TERN_MISSING) { /* the driver refused it, or memory is short: the candidate's fault */
        *reply = trial_reply(TERN_OUTCOME_RESOURCES, err->text, NULL, 0, 0);
        return TERN_OK;
    }
    int64_t start_ns = tern_clock_now_ns();
    if (status == TERN_OK)
        status = gpu_verify_before(s, &kernel, m, &v, err);
    if (status == TERN_OK && v.outcome == TERN_OUTCOME_OK)
        status = time_verified(s, &kernel, m, request, samples, &count, &v, err);
    double gpu_seconds = (double)(tern_clock_now_ns() - start_ns) * 1e-9;
    if (status != TERN_OK)
        return status;
    tern_cuda_watch(s->context, &clocks);
    *reply = trial_reply(v.outcome, v.detail, samples, v.outcome == TERN_OUTCOME_OK ? count : 0, clocks.sm_mhz);
    json_object_set_new(*reply, "gpu_seconds", json_real(gpu_seconds));
    json_object_set_new(*reply, "disturbed", json_boolean(tern_clocks_disturbed(&clocks)));
    return TERN_OK;
}

static void tell_check(const struct tern_check_result *check) {
    json_t *told = tern_reply_outcome(check->outcome, check->detail);
    json_object_set_new(told, "gpu_seconds", json_real(check->device_seconds));
    tern_reply_check(told);
}

json_t *gpu_trial(struct gpu_session *s, const json_t *request) {
    struct tern_error err;
    struct tern_check_result check = {.outcome = TERN_OUTCOME_OK};
    int64_t m = tern_message_int(request, "m", 0);
    bool checked = json_is_true(json_object_get(request, "check"));
    json_t *reply = NULL;
    enum tern_status status = TERN_OK;
    if (m < 1 || m > s->layer.m_max)
        status = tern_error_set(&err, TERN_INTERNAL, "M=%lld was not prepared (largest is %lld)", (long long)m,
                                (long long)s->layer.m_max);
    if (status == TERN_OK)
        status = gpu_regime_enter(s, request, &err);
    int64_t start_ns = tern_clock_now_ns();
    if (status == TERN_OK && checked)
        status = gpu_check(s, request, &check, &err);
    gpu_spent(s, TERN_GPU_VERIFICATION, start_ns);
    if (status == TERN_OK && checked)
        tell_check(&check);
    if (status == TERN_OK && check.outcome == TERN_OUTCOME_OK)
        status = try_candidate(s, request, m, &reply, &err);
    else if (status == TERN_OK)
        reply = trial_reply(check.outcome, check.detail, NULL, 0, 0);
    return status == TERN_OK ? reply : tern_reply_error(&err);
}
