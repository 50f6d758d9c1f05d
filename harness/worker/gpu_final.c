/* Finals on the prepared layer: finalists and cuBLASLt baselines in interleaved rounds A B C A B C, one graph replay each a
 * round, submitted together; a finalist that is surely slower than the leader leaves. Whatever drifts (clocks, heat) drifts for all; ratios are paired by round. */
#include "worker/gpu_session.h"

#include "core/clock.h"
#include "core/str.h"
#include "measure/stats.h"
#include "worker/reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ENTRIES       16
#define MAX_ALGORITHMS    16
#define ALGORITHM_SAMPLES 5 /* to find the best heuristic; its reported time comes from the rounds */
#define ROUNDS_MIN        20
#define ROUNDS_MAX        200
#define NOISE             0.005
#define RACE_ROUNDS       10   /* before a finalist may be out, */
#define RACE_MARGIN       0.01 /* which is surely slower than the leader by this */

enum baseline { DEFAULT, BEST, DEQUANT, BASELINES };
static const char *const baseline_names[BASELINES] = {"cublaslt-default", "cublaslt-best16", "dequant-cublaslt"};

struct entrant { /* a finalist or a baseline: a graph and its samples */
    struct tern_graph *graph;
    bool out;     /* surely slower than the leader: no more rounds */
    size_t count; /* rounds */
    double samples[ROUNDS_MAX];
};

struct final {
    struct gpu_session *s;
    int64_t m;
    struct gpu_kernel kernels[MAX_ENTRIES];
    struct entrant entries[MAX_ENTRIES], baselines[BASELINES];
    struct gpu_verdict verdicts[MAX_ENTRIES];
    size_t count, rounds;
    double gpu_seconds; /* rounds and the verification behind them */
    struct tern_gemm *gemm;
    int algorithms, best;
    void *scratch; /* dense weights of one copy, written by the dequantise baseline */
};

static enum tern_status capture_entry(struct final *f, size_t i, double screen_us, struct tern_error *err) {
    struct tern_launch launches[TERN_MAX_COPIES];
    const struct gpu_pack *pack = f->kernels[i].pack;
    size_t copies = pack->copies, count = gpu_graph_launches(f->s, pack->stride, copies, f->m, screen_us);
    for (size_t j = 0; j < count; j++)
        launches[j] = gpu_kernel_launch(f->s, &f->kernels[i], f->m, j % copies);
    return tern_graph_capture(f->s->context, launches, count, &f->entries[i].graph, err);
}

static enum tern_status load_entries(struct final *f, const json_t *list, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    f->count = json_array_size(list) < MAX_ENTRIES ? json_array_size(list) : MAX_ENTRIES;
    /* All are loaded before any is captured: a later one may enlarge the workspace that the launches point to. */
    for (size_t i = 0; i < f->count && status == TERN_OK; i++)
        status = gpu_kernel_load(f->s, json_array_get(list, i), f->m, &f->kernels[i], err);
    for (size_t i = 0; i < f->count && status == TERN_OK; i++)
        status = capture_entry(f, i, tern_message_real(json_array_get(list, i), "screen_us", 10.0), err);
    return status;
}

static size_t dense_bytes(const struct gpu_layer *l) {
    return (size_t)l->weights.n * (size_t)l->weights.k * 2;
}

static enum tern_status capture_gemm(struct final *f, int algorithm, struct tern_graph **graph, struct tern_error *err) {
    const struct gpu_layer *l = &f->s->layer;
    const void *weights[TERN_MAX_COPIES];
    size_t count = gpu_graph_launches(f->s, (int64_t)dense_bytes(l), l->dense_copies, f->m, f->m <= 256 ? 10.0 : 100.0);
    for (size_t i = 0; i < count; i++)
        weights[i] = (const char *)l->dense + dense_bytes(l) * (i % l->dense_copies);
    return tern_gemm_capture(f->s->context, f->gemm, algorithm, l->inputs[0].x, weights, l->y.at, count, graph, err);
}

/* Median of a few samples of one heuristic; INFINITY if it cannot run. */
static double algorithm_us(struct final *f, int algorithm) {
    struct tern_graph *graph = NULL, *graphs[ALGORITHM_SAMPLES];
    struct tern_error err;
    struct tern_stats stats = {.median = (double)INFINITY};
    double samples[ALGORITHM_SAMPLES];
    enum tern_status status = capture_gemm(f, algorithm, &graph, &err);
    for (size_t i = 0; i < ALGORITHM_SAMPLES; i++)
        graphs[i] = graph;
    if (status == TERN_OK && tern_graph_times(f->s->context, graphs, ALGORITHM_SAMPLES, samples, &err) == TERN_OK)
        tern_stats_compute(samples, ALGORITHM_SAMPLES, &stats);
    tern_graph_free(f->s->context, graph);
    return stats.median;
}

static enum tern_status capture_dequant(struct final *f, struct tern_error *err) {
    struct gpu_layer *l = &f->s->layer;
    struct tern_launch before[TERN_MAX_COPIES];
    const struct gpu_pack *pack;
    size_t count = 0;
    enum tern_status status = gpu_pack(f->s, TERN_DEQUANTISE_LAYOUT, &pack, err);
    if (status == TERN_OK)
        status = f->s->backend->alloc(f->s->context, dense_bytes(l), &f->scratch, err);
    for (; status == TERN_OK && count < gpu_graph_launches(f->s, pack->stride, pack->copies, f->m, 100.0); count++) {
        struct tern_args args = gpu_layer_args(f->s, pack, f->m, count % pack->copies);
        args.y = f->scratch;
        status = tern_fixed_dequantise(f->s->fixed, &l->weights.format, &args, &before[count], err);
    }
    if (status == TERN_OK)
        status = tern_gemm_capture_after(f->s->context, f->gemm, f->best, before, count, l->inputs[0].x, f->scratch, l->y.at,
                                         &f->baselines[DEQUANT].graph, err);
    return status;
}

static enum tern_status load_baselines(struct final *f, struct tern_error *err) {
    double best_us = (double)INFINITY;
    enum tern_status status =
        tern_gemm_open(f->s->context, f->m, f->s->layer.weights.n, f->s->layer.weights.k, &f->gemm, &f->algorithms, err);
    for (int i = 0; i < f->algorithms && i < MAX_ALGORITHMS && status == TERN_OK; i++) {
        double us = algorithm_us(f, i);
        if (us < best_us) {
            best_us = us;
            f->best = i;
        }
    }
    if (status == TERN_OK)
        status = capture_gemm(f, 0, &f->baselines[DEFAULT].graph, err);
    if (status == TERN_OK)
        status = capture_gemm(f, f->best, &f->baselines[BEST].graph, err);
    return status == TERN_OK ? capture_dequant(f, err) : status;
}

/* Finalists that are still in, then the baselines. */
static size_t in_the_race(struct final *f, struct entrant **in) {
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++)
        if (!f->entries[i].out)
            in[n++] = &f->entries[i];
    for (int b = 0; b < BASELINES; b++)
        in[n++] = &f->baselines[b];
    return n;
}

/* True when the median of all that are in is known well enough. */
static bool settled(struct final *f) {
    struct entrant *in[MAX_ENTRIES + BASELINES];
    size_t n = in_the_race(f, in);
    for (size_t i = 0; i < n; i++) {
        struct tern_stats stats;
        tern_stats_compute(in[i]->samples, in[i]->count, &stats);
        if (!tern_stats_settled(&stats, ROUNDS_MIN, NOISE))
            return false;
    }
    return true;
}

static enum tern_status one_round(struct final *f, size_t round, struct tern_error *err) {
    struct entrant *in[MAX_ENTRIES + BASELINES];
    struct tern_graph *graphs[MAX_ENTRIES + BASELINES] = {NULL};
    double us[MAX_ENTRIES + BASELINES];
    size_t n = in_the_race(f, in);
    for (size_t i = 0; i < n; i++)
        graphs[i] = in[i]->graph;
    enum tern_status status = tern_graph_times(f->s->context, graphs, n, us, err);
    for (size_t i = 0; i < n && status == TERN_OK; i++) {
        in[i]->samples[round] = us[i];
        in[i]->count = round + 1;
    }
    return status;
}

/* Who is surely slower than the leader is out: the rounds go to those between whom it is not decided. */
static void eliminate(struct final *f) {
    const struct entrant *leader = NULL;
    struct tern_stats stats;
    double best = (double)INFINITY;
    for (size_t i = 0; i < f->count; i++) {
        tern_stats_compute(f->entries[i].samples, f->entries[i].count, &stats);
        if (!f->entries[i].out && stats.median < best) {
            leader = &f->entries[i];
            best = stats.median;
        }
    }
    for (size_t i = 0; i < f->count && leader; i++)
        f->entries[i].out =
            f->entries[i].out || tern_stats_slower(f->entries[i].samples, leader->samples, f->rounds, RACE_MARGIN);
}

static enum tern_status run_rounds(struct final *f, double seconds, struct tern_error *err) {
    enum tern_status status = one_round(f, 0, err); /* warm-up; its samples are written over */
    int64_t end_ns = tern_clock_now_ns() + (int64_t)(seconds * 1e9);
    while (f->rounds < ROUNDS_MAX && status == TERN_OK) {
        if (f->rounds >= ROUNDS_MIN && (tern_clock_now_ns() > end_ns || settled(f)))
            break;
        status = one_round(f, f->rounds, err);
        f->rounds += status == TERN_OK;
        if (f->rounds >= RACE_ROUNDS)
            eliminate(f);
    }
    return status;
}

/* Results again, behind the timing. Entrants with more workspace than others have overwritten guards, and rightly. */
static enum tern_status verify_entries(struct final *f, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    f->s->layer.workspace.used = -1;
    for (size_t i = 0; i < f->count && status == TERN_OK; i++)
        status = gpu_verify_after(f->s, &f->kernels[i], f->m, false, &f->verdicts[i], err);
    return status;
}

static json_t *final_reply(const struct final *f) {
    struct tern_clocks clocks;
    json_t *entries = json_array(), *baselines = json_object();
    tern_cuda_watch(f->s->context, &clocks);
    for (size_t i = 0; i < f->count; i++) {
        json_t *entry = tern_reply_outcome(f->verdicts[i].outcome, f->verdicts[i].detail);
        json_object_set_new(entry, "samples", tern_message_from_samples(f->entries[i].samples, f->entries[i].count));
        json_array_append_new(entries, entry);
    }
    for (int b = 0; b < BASELINES; b++)
        json_object_set_new(baselines, baseline_names[b], tern_message_from_samples(f->baselines[b].samples, f->rounds));
    return json_pack("{s:o, s:o, s:i, s:i, s:i, s:I, s:i, s:f}", "entries", entries, "baselines", baselines,
                     "best_algorithm", f->best, "algorithms", f->algorithms, "sm_mhz", clocks.sm_mhz, "throttle",
                     (json_int_t)clocks.throttle_reasons, "others", clocks.other_processes, "gpu_seconds", f->gpu_seconds);
}

static void final_free(struct final *f) {
    void *context = f->s->context;
    for (size_t i = 0; i < f->count; i++) {
        tern_graph_free(context, f->entries[i].graph);
        gpu_kernel_unload(f->s, &f->kernels[i]);
    }
    for (int b = 0; b < BASELINES; b++)
        tern_graph_free(context, f->baselines[b].graph);
    if (f->gemm)
        tern_gemm_close(context, f->gemm);
    if (f->scratch)
        f->s->backend->release(context, f->scratch);
}

json_t *gpu_final(struct gpu_session *s, const json_t *request) {
    struct tern_error err;
    struct final *f = tern_alloc_zero(1, sizeof *f);
    f->s = s;
    f->m = tern_message_int(request, "m", 0);
    enum tern_status status = load_entries(f, json_object_get(request, "entries"), &err);
    if (status == TERN_OK && f->count == 0)
        status = tern_error_set(&err, TERN_INTERNAL, "finals without finalists");
    if (status == TERN_OK)
        status = load_baselines(f, &err);
    int64_t start_ns = tern_clock_now_ns();
    if (status == TERN_OK)
        status = run_rounds(f, tern_message_real(request, "seconds", 0.4), &err);
    if (status == TERN_OK)
        status = verify_entries(f, &err);
    f->gpu_seconds = (double)(tern_clock_now_ns() - start_ns) * 1e-9;
    json_t *reply = status == TERN_OK ? final_reply(f) : tern_reply_error(&err);
    if (!s->sticky)
        final_free(f);
    free(f);
    return reply;
}
