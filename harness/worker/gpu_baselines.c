/* The baselines of a final. See gpu_baselines.h. */
#include "worker/gpu_baselines.h"

#include "core/str.h"
#include "measure/stats.h"

#include <math.h>
#include <string.h>

#define MAX_ALGORITHMS    16
#define ALGORITHM_SAMPLES 5 /* to find the fastest; its reported time comes from the rounds */
#define ALGORITHM_COOL    3 /* the same on a cool device */

static const char *const names[GPU_BASELINES] = {"cublaslt-default", "cublaslt-best16", "dequant-cublaslt",
                                                 "dequant-e4m3-cublaslt"};

const char *gpu_baseline_name(enum gpu_baseline which) {
    return names[which];
}

static int64_t dense_bytes(const struct gpu_layer *l) {
    return l->weights.n * l->weights.k * 2;
}

/* Beside the weights, x and y: what the composites write between their launches, and what cuBLASLt may use. */
static int64_t workspace_bytes(const struct gpu_baselines *b, enum gpu_baseline which) {
    const struct tern_weights *w = &b->s->layer.weights;
    int64_t bytes = TERN_GEMM_WORKSPACE_BYTES;
    if (which == GPU_BASELINE_DEQUANT)
        bytes += dense_bytes(&b->s->layer);
    if (which == GPU_BASELINE_DEQUANT_E4M3)
        bytes += TERN_E4M3_MATRIX_BYTES(w->n, w->k) + TERN_E4M3_MATRIX_BYTES(b->m, w->k);
    return bytes;
}

void gpu_baseline_detail(const struct gpu_baselines *b, enum gpu_baseline which, char *text, size_t size) {
    const struct gpu_gemm *g = which == GPU_BASELINE_DEQUANT_E4M3 ? &b->e4m3 : &b->dense;
    tern_str_format(text, size, "algorithm %d of %d, workspace %lld bytes", which == GPU_BASELINE_DEFAULT ? 0 : g->best,
                    g->algorithms, (long long)workspace_bytes(b, which));
}

/* ---- the fastest algorithm ---- */

/* How many products of one kind a graph holds, and the weights of each. */
struct operands {
    const void *x, *weights[TERN_MAX_COPIES];
    size_t count;
};

/* Median of a few samples; INFINITY if the algorithm cannot run. */
static double algorithm_us(const struct gpu_baselines *b, const struct gpu_gemm *g, const struct operands *o,
                           int algorithm) {
    struct gpu_session *s = b->s;
    struct tern_graph *graph = NULL, *graphs[ALGORITHM_SAMPLES];
    struct tern_error err;
    struct tern_stats stats = {.median = (double)INFINITY};
    double samples[ALGORITHM_SAMPLES];
    enum tern_status status =
        tern_gemm_capture(s->context, g->gemm, algorithm, o->x, o->weights, s->layer.y.at, o->count, &graph, &err);
    const size_t count = s->cool ? ALGORITHM_COOL : ALGORITHM_SAMPLES;
    for (size_t i = 0; i < count; i++)
        graphs[i] = graph;
    if (status == TERN_OK && gpu_times(s, graphs, count, samples, &err) == TERN_OK)
        tern_stats_compute(samples, count, &stats);
    tern_graph_free(s->context, graph);
    return stats.median;
}

static void find_best(const struct gpu_baselines *b, const struct operands *o, struct gpu_gemm *g) {
    double best_us = (double)INFINITY;
    for (int i = 0; i < g->algorithms && i < MAX_ALGORITHMS; i++) {
        double us = algorithm_us(b, g, o, i);
        if (us < best_us) {
            best_us = us;
            g->best = i;
        }
    }
}

/* ---- binary16, bfloat16 ---- */

static enum tern_status open_dense(struct gpu_baselines *b, struct tern_error *err) {
    const struct gpu_layer *l = &b->s->layer;
    void *context = b->s->context;
    struct operands o = {.x = l->inputs[0].x};
    o.count = gpu_graph_launches(b->s, dense_bytes(l), l->dense_copies, b->m, b->m <= 256 ? 10.0 : 100.0);
    for (size_t i = 0; i < o.count; i++)
        o.weights[i] = (const char *)l->dense + (size_t)dense_bytes(l) * (i % l->dense_copies);
    enum tern_status status =
        tern_gemm_open(context, l->type, b->m, l->weights.n, l->weights.k, &b->dense.gemm, &b->dense.algorithms, err);
    if (status != TERN_OK)
        return status;
    find_best(b, &o, &b->dense);
    status = tern_gemm_capture(context, b->dense.gemm, 0, o.x, o.weights, l->y.at, o.count, &b->graphs[GPU_BASELINE_DEFAULT],
                               err);
    return status == TERN_OK ? tern_gemm_capture(context, b->dense.gemm, b->dense.best, o.x, o.weights, l->y.at, o.count,
                                                 &b->graphs[GPU_BASELINE_BEST], err)
                             : status;
}

/* Dequantising launches on cold packed weights, one for each item of a graph. */
struct dequantising {
    struct tern_launch launches[TERN_MAX_COPIES];
    size_t count;
};

static enum tern_status make_launches(struct gpu_baselines *b, bool e4m3, struct dequantising *d, struct tern_error *err) {
    struct gpu_layer *l = &b->s->layer;
    const struct gpu_pack *pack;
    enum tern_status status = gpu_pack(b->s, TERN_DEQUANTISE_LAYOUT, &pack, err);
    if (status == TERN_OK && !l->scratch)
        status = b->s->backend->alloc(b->s->context, (size_t)dense_bytes(l), &l->scratch, err);
    d->count = 0;
    for (; status == TERN_OK && d->count < gpu_graph_launches(b->s, pack->stride, pack->copies, b->m, 100.0); d->count++) {
        struct tern_args args = gpu_layer_args(b->s, pack, b->m, d->count % pack->copies);
        args.y = l->scratch;
        args.workspace = l->e4m3_x;
        status = e4m3 ? tern_fixed_to_e4m3(b->s->fixed, &l->weights.format, &args, &d->launches[d->count], err)
                      : tern_fixed_dequantise(b->s->fixed, &l->weights.format, l->type, &args, &d->launches[d->count], err);
    }
    return status;
}

static enum tern_status capture_dequant(struct gpu_baselines *b, struct tern_error *err) {
    const struct gpu_layer *l = &b->s->layer;
    struct dequantising d;
    enum tern_status status = make_launches(b, false, &d, err);
    return status == TERN_OK
               ? tern_gemm_capture_after(b->s->context, b->dense.gemm, b->dense.best, d.launches, d.count, l->inputs[0].x,
                                         l->scratch, l->y.at, &b->graphs[GPU_BASELINE_DEQUANT], err)
               : status;
}

/* ---- e4m3 ---- */

/* Finds the fastest algorithm on numbers that the launches have left, and captures. TERN_USAGE or TERN_FAILED: not here. */
static enum tern_status capture_e4m3(struct gpu_baselines *b, struct tern_error *err) {
    struct gpu_session *s = b->s;
    struct gpu_layer *l = &s->layer;
    const int64_t n = l->weights.n, k = l->weights.k;
    struct operands o = {.count = gpu_graph_launches(s, n * k, 1, b->m, 100.0)};
    struct dequantising d;
    enum tern_status status = TERN_OK;
    if (!l->e4m3_x)
        status = s->backend->alloc(s->context, (size_t)TERN_E4M3_MATRIX_BYTES(l->m_max, k), &l->e4m3_x, err);
    if (status == TERN_OK)
        status = make_launches(b, true, &d, err);
    if (status == TERN_OK)
        status = s->backend->launch(s->context, &d.launches[0], err);
    if (status == TERN_OK) {
        const struct tern_gemm_scales scales = {(char *)l->e4m3_x + TERN_E4M3_SCALES_AT(b->m, k),
                                                (char *)l->scratch + TERN_E4M3_SCALES_AT(n, k), l->weights.groups == 1};
        status = tern_gemm_open_e4m3(s->context, b->m, n, k, &scales, &b->e4m3.gemm, &b->e4m3.algorithms, err);
    }
    if (status != TERN_OK)
        return status;
    o.x = l->e4m3_x;
    for (size_t i = 0; i < o.count; i++)
        o.weights[i] = l->scratch;
    find_best(b, &o, &b->e4m3);
    return tern_gemm_capture_after(s->context, b->e4m3.gemm, b->e4m3.best, d.launches, d.count, l->e4m3_x, l->scratch,
                                   l->y.at, &b->graphs[GPU_BASELINE_DEQUANT_E4M3], err);
}

/* Its y by the reference and the bound that kernels of the op must keep. TERN_FAILED: it does not. */
static enum tern_status verify_e4m3(struct gpu_baselines *b, struct tern_error *err) {
    struct gpu_session *s = b->s;
    struct gpu_layer *l = &s->layer;
    const int64_t n = l->weights.n;
    const struct tern_precision precision = {l->weights.k, TERN_E4M3, TERN_E4M3_SUMS};
    struct tern_mismatch miss;
    double us;
    enum tern_status status = gpu_references(s, TERN_ARITHMETIC_E4M3, err);
    if (status == TERN_OK)
        status = gpu_guarded_poison(s, &l->y, b->m * n * 2, err);
    if (status == TERN_OK)
        status = tern_graph_time(s->context, b->graphs[GPU_BASELINE_DEQUANT_E4M3], &us, err);
    if (status == TERN_OK)
        status = tern_fixed_compare(s->fixed, l->y.at, l->inputs[0].y_ref[TERN_ARITHMETIC_E4M3],
                                    l->inputs[0].bound_scale[TERN_ARITHMETIC_E4M3], b->m, n, &precision, &miss, NULL, err);
    if (status == TERN_OK && !(miss.checked == b->m * n && miss.count == 0))
        status = tern_error_set(err, TERN_FAILED, "%lld of %lld differ, by up to %.3g times what is allowed",
                                (long long)miss.count, (long long)(b->m * n), miss.worst);
    return status;
}

/* Not being there is no error: the others are. */
static enum tern_status open_e4m3(struct gpu_baselines *b, struct tern_error *err) {
    struct tern_error why;
    enum tern_status status = capture_e4m3(b, &why);
    if (status == TERN_OK)
        status = verify_e4m3(b, &why);
    if (status == TERN_OK)
        return TERN_OK;
    tern_graph_free(b->s->context, b->graphs[GPU_BASELINE_DEQUANT_E4M3]);
    b->graphs[GPU_BASELINE_DEQUANT_E4M3] = NULL;
    tern_str_copy(b->why_not, sizeof b->why_not, why.text);
    /* A device that was lost says so once more. */
    return status == TERN_USAGE || status == TERN_FAILED ? b->s->backend->synchronize(b->s->context, err)
                                                         : tern_error_set(err, status, "%s", why.text);
}

enum tern_status gpu_baselines_open(struct gpu_session *s, int64_t m, struct gpu_baselines *b, struct tern_error *err) {
    *b = (struct gpu_baselines){.s = s, .m = m};
    enum tern_status status = open_dense(b, err);
    if (status == TERN_OK)
        status = capture_dequant(b, err);
    return status == TERN_OK && s->layer.type == TERN_E4M3 ? open_e4m3(b, err) : status;
}

void gpu_baselines_close(struct gpu_baselines *b) {
    if (!b->s)
        return;
    for (int i = 0; i < GPU_BASELINES; i++)
        tern_graph_free(b->s->context, b->graphs[i]);
    tern_gemm_close(b->s->context, b->dense.gemm);
    tern_gemm_close(b->s->context, b->e4m3.gemm);
}
