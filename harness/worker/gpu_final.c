/* Finals on the prepared layer: finalists and cuBLASLt baselines in interleaved rounds (gpu_rounds.h), and a verification of
 * every finalist behind them. Large products are then timed under load as well. */
#include "worker/gpu_rounds.h"
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
#define ALGORITHM_COOL    3 /* the same on a cool device */
#define LOADED_VISITS     2 /* to each entrant that is timed under load, in opposite orders */
#define LOADED_FINALISTS  2
#define LOADED_ENTRANTS   (LOADED_FINALISTS + 1) /* and the best heuristic */

enum baseline { DEFAULT, BEST, DEQUANT, BASELINES };
static const char *const baseline_names[BASELINES] = {"cublaslt-default", "cublaslt-best16", "dequant-cublaslt"};

struct final {
    struct gpu_session *s;
    int64_t m;
    struct gpu_kernel kernels[MAX_ENTRIES];
    struct gpu_verdict verdicts[MAX_ENTRIES];
    size_t count;             /* finalists */
    struct gpu_rounds rounds; /* its entrants: the finalists, then the baselines */
    double gpu_seconds;       /* rounds, load and the verification behind them */
    double loaded[MAX_ENTRIES + BASELINES][LOADED_VISITS * GPU_LOADED_SAMPLES]; /* by entrant */
    size_t loaded_count[MAX_ENTRIES + BASELINES];
    struct tern_clocks loaded_clocks;
    struct tern_gemm *gemm;
    int algorithms, best;
};

static enum tern_status capture_entry(struct final *f, size_t i, double screen_us, struct tern_error *err) {
    struct tern_launch launches[TERN_MAX_COPIES];
    const struct gpu_pack *pack = f->kernels[i].pack;
    size_t copies = pack->copies, count = gpu_graph_launches(f->s, pack->stride, copies, f->m, screen_us);
    for (size_t j = 0; j < count; j++)
        launches[j] = gpu_kernel_launch(f->s, &f->kernels[i], f->m, j % copies);
    return tern_graph_capture(f->s->context, launches, count, &f->rounds.entrants[i].graph, err);
}

static struct gpu_entrant *baseline(struct final *f, enum baseline b) {
    return &f->rounds.entrants[f->count + b];
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
    const size_t count = f->s->cool ? ALGORITHM_COOL : ALGORITHM_SAMPLES;
    for (size_t i = 0; i < count; i++)
        graphs[i] = graph;
    if (status == TERN_OK && gpu_times(f->s, graphs, count, samples, &err) == TERN_OK)
        tern_stats_compute(samples, count, &stats);
    tern_graph_free(f->s->context, graph);
    return stats.median;
}

static enum tern_status capture_dequant(struct final *f, struct tern_error *err) {
    struct gpu_layer *l = &f->s->layer;
    struct tern_launch before[TERN_MAX_COPIES];
    const struct gpu_pack *pack;
    size_t count = 0;
    enum tern_status status = gpu_pack(f->s, TERN_DEQUANTISE_LAYOUT, &pack, err);
    if (status == TERN_OK && !l->scratch)
        status = f->s->backend->alloc(f->s->context, dense_bytes(l), &l->scratch, err);
    for (; status == TERN_OK && count < gpu_graph_launches(f->s, pack->stride, pack->copies, f->m, 100.0); count++) {
        struct tern_args args = gpu_layer_args(f->s, pack, f->m, count % pack->copies);
        args.y = l->scratch;
        status = tern_fixed_dequantise(f->s->fixed, &l->weights.format, l->type, &args, &before[count], err);
    }
    if (status == TERN_OK)
        status = tern_gemm_capture_after(f->s->context, f->gemm, f->best, before, count, l->inputs[0].x, l->scratch, l->y.at,
                                         &baseline(f, DEQUANT)->graph, err);
    return status;
}

static enum tern_status load_baselines(struct final *f, struct tern_error *err) {
    double best_us = (double)INFINITY;
    const struct tern_weights *w = &f->s->layer.weights;
    enum tern_status status =
        tern_gemm_open(f->s->context, f->s->layer.type, f->m, w->n, w->k, &f->gemm, &f->algorithms, err);
    for (int i = 0; i < f->algorithms && i < MAX_ALGORITHMS && status == TERN_OK; i++) {
        double us = algorithm_us(f, i);
        if (us < best_us) {
            best_us = us;
            f->best = i;
        }
    }
    if (status == TERN_OK)
        status = capture_gemm(f, 0, &baseline(f, DEFAULT)->graph, err);
    if (status == TERN_OK)
        status = capture_gemm(f, f->best, &baseline(f, BEST)->graph, err);
    return status == TERN_OK ? capture_dequant(f, err) : status;
}

static double median_us(const struct gpu_entrant *e) {
    struct tern_stats stats;
    tern_stats_compute(e->samples, e->count, &stats);
    return e->out ? (double)INFINITY : stats.median;
}

/* Who is timed under load: the fastest finalists and the best heuristic. Returns how many. */
static size_t pick_loaded(struct final *f, size_t *list) {
    size_t count = 0;
    while (count < LOADED_FINALISTS && count < f->count) {
        size_t best = f->count;
        for (size_t i = 0; i < f->count; i++) {
            bool taken = count > 0 && list[0] == i;
            if (!taken && (best == f->count || median_us(&f->rounds.entrants[i]) < median_us(&f->rounds.entrants[best])))
                best = i;
        }
        if (f->rounds.entrants[best].out)
            break;
        list[count++] = best;
    }
    list[count++] = f->count + BEST;
    return count;
}

/* What large products take back to back, at the power cap: each alone. */
static enum tern_status time_loaded(struct final *f, struct tern_error *err) {
    size_t list[LOADED_ENTRANTS], count = pick_loaded(f, list);
    enum tern_status status = TERN_OK;
    tern_cuda_watch(f->s->context, &f->loaded_clocks); /* what was seen before is not of the load */
    for (size_t i = 0; i < LOADED_VISITS * count && status == TERN_OK; i++) {
        size_t e = list[i < count ? i : 2 * count - 1 - i];
        status = gpu_times_loaded(f->s, f->rounds.entrants[e].graph, f->loaded[e] + f->loaded_count[e], err);
        f->loaded_count[e] += GPU_LOADED_SAMPLES;
    }
    tern_cuda_watch(f->s->context, &f->loaded_clocks);
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

static json_t *final_reply(struct final *f) {
    const struct gpu_rounds *r = &f->rounds;
    json_t *entries = json_array(), *baselines = json_object();
    for (size_t i = 0; i < f->count; i++) {
        json_t *entry = tern_reply_outcome(f->verdicts[i].outcome, f->verdicts[i].detail);
        json_object_set_new(entry, "samples", tern_message_from_samples(r->entrants[i].samples, r->entrants[i].count));
        json_object_set_new(entry, "loaded", tern_message_from_samples(f->loaded[i], f->loaded_count[i]));
        json_array_append_new(entries, entry);
    }
    for (enum baseline b = 0; b < BASELINES; b++)
        json_object_set_new(baselines, baseline_names[b],
                            tern_message_from_samples(baseline(f, b)->samples, baseline(f, b)->count));
    json_object_set_new(baselines, "cublaslt-best16/sustained",
                        tern_message_from_samples(f->loaded[f->count + BEST], f->loaded_count[f->count + BEST]));
    return json_pack("{s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:i, s:b, s:i, s:i, s:f}", "entries", entries,
                     "baselines", baselines, "loaded_mhz", f->loaded_clocks.sm_mhz, "best_algorithm", f->best, "algorithms",
                     f->algorithms, "sm_mhz", r->clocks.sm_mhz, "temperature_c", r->clocks.temperature_c, "power_w",
                     r->clocks.power_w, "throttle", (json_int_t)r->clocks.throttle_reasons, "others",
                     r->clocks.other_processes, "settled", r->settled, "left_out", (int)r->left_out, "disturbed",
                     (int)r->disturbed, "gpu_seconds", f->gpu_seconds);
}

static void final_free(struct final *f) {
    void *context = f->s->context;
    for (size_t i = 0; i < f->count; i++)
        tern_graph_free(context, f->rounds.entrants[i].graph);
    for (enum baseline b = 0; b < BASELINES; b++)
        tern_graph_free(context, baseline(f, b)->graph);
    if (f->gemm)
        tern_gemm_close(context, f->gemm);
}

json_t *gpu_final(struct gpu_session *s, const json_t *request) {
    struct tern_error err;
    struct final *f = tern_alloc_zero(1, sizeof *f);
    f->s = s;
    f->m = tern_message_int(request, "m", 0);
    enum tern_status status = gpu_regime_enter(s, request, &err);
    if (status == TERN_OK)
        status = load_entries(f, json_object_get(request, "entries"), &err);
    if (status == TERN_OK && f->count == 0)
        status = tern_error_set(&err, TERN_INTERNAL, "finals without finalists");
    if (status == TERN_OK)
        status = load_baselines(f, &err);
    f->rounds.entrant_count = f->count + BASELINES;
    for (enum baseline b = 0; b < BASELINES; b++)
        baseline(f, b)->stays = true;
    int64_t start_ns = tern_clock_now_ns();
    if (status == TERN_OK)
        status = gpu_rounds_run(s, &f->rounds, tern_message_real(request, "seconds", 0.4), &err);
    if (status == TERN_OK && s->cool)
        status = time_loaded(f, &err);
    if (status == TERN_OK)
        status = verify_entries(f, &err);
    f->gpu_seconds = (double)(tern_clock_now_ns() - start_ns) * 1e-9;
    json_t *reply = status == TERN_OK ? final_reply(f) : tern_reply_error(&err);
    if (!s->sticky)
        final_free(f);
    free(f);
    return reply;
}
