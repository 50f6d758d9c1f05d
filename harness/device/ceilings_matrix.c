/* Ceilings of the matrix units: short bursts on a cool device, and the same under load. See ceilings.h.
 * Which instructions a device has is a table here; each burst proves by its step count that it ran. */
#include "device/ceilings.h"

#include "core/clock.h"
#include "core/str.h"
#include "measure/stats.h"

#include <time.h>

#define BURST_US       400.0 /* too short for the power management to react, long enough to hide start and end */
#define IDLE_MS        40    /* before each cool burst */
#define PROBE_STEPS    2000  /* of the first try, which gives the steps of a burst */
#define SEARCH_SAMPLES 3
#define COOL_SAMPLES   9
#define LOAD_NODES     16 /* bursts in one replay of the sustained load */

/* Control times: the same burst on every device. */
#define CONTROL_KIND     0 /* mma-f16 */
#define CONTROL_GEOMETRY 2
#define CONTROL_STEPS    4000 /* about BURST_US on an H200 */

/* mma.sync on e4m3 is an instruction of 8.9 and 12.x. Elsewhere the compiler turns it into f16 products, with conversions
 * that a loop over constant operands does not pay for: such a rate would be no ceiling of anything. */
struct matrix_kind {
    const char *name, *unit;
    int probes[2]; /* variants; -1: none */
    bool wgmma;
    int type, k, min_cc, max_cc;
};
#define MMA(name, unit, type, k, min_cc, max_cc)                                                                            \
    { name, unit, {TERN_FIXED_MMA + (type), -1}, false, type, k, min_cc, max_cc }
#define WGMMA(name, unit, type, k)                                                                                          \
    { name, unit, {TERN_FIXED_WGMMA + (type), TERN_FIXED_WGMMA_SHARED + (type)}, true, type, k, 90, 90 }
static const struct matrix_kind kinds[] = {
    MMA("mma-f16", "TFLOPS", TERN_PROBE_F16, 16, 80, 999),    MMA("mma-bf16", "TFLOPS", TERN_PROBE_BF16, 16, 80, 999),
    MMA("mma-s8", "TOPS", TERN_PROBE_S8, 32, 80, 999),        MMA("mma-e4m3", "TFLOPS", TERN_PROBE_E4M3, 32, 89, 89),
    MMA("mma-e4m3", "TFLOPS", TERN_PROBE_E4M3, 32, 120, 129), WGMMA("wgmma-f16", "TFLOPS", TERN_PROBE_F16, 16),
    WGMMA("wgmma-bf16", "TFLOPS", TERN_PROBE_BF16, 16),       WGMMA("wgmma-s8", "TOPS", TERN_PROBE_S8, 32),
    WGMMA("wgmma-e4m3", "TFLOPS", TERN_PROBE_E4M3, 32),
};
#define KIND_COUNT (sizeof kinds / sizeof *kinds)

/* Threads of a block and blocks a multiprocessor: one full wave each. */
#define GEOMETRIES 4
static const struct matrix_geometry {
    int64_t block, blocks_sm;
} mma_geometries[GEOMETRIES] = {{128, 2}, {256, 1}, {256, 2}, {512, 2}},
  wgmma_geometries[GEOMETRIES] = {{128, 1}, {128, 2}, {256, 1}, {128, 3}};

/* Best way to run one kind. */
struct matrix_burst {
    struct tern_ceiling_nodes nodes;
    double ops; /* of one burst */
    double us;
};

static void idle(void) {
    const struct timespec pause = {0, IDLE_MS * 1000000L};
    (void)nanosleep(&pause, NULL);
}

/* One node of `steps`; sets its operations, and checks once that the device did them. */
static enum tern_status make_burst(struct tern_ceiling_run *r, const struct matrix_kind *kind, int probe, size_t geometry,
                                   int64_t steps, struct matrix_burst *burst, struct tern_error *err) {
    const struct matrix_geometry *g = kind->wgmma ? &wgmma_geometries[geometry] : &mma_geometries[geometry];
    int64_t block = g->block, blocks = r->info.sms * g->blocks_sm;
    int64_t groups = blocks * (kind->wgmma ? block / 128 : block / 32);
    double step_ops = kind->wgmma ? TERN_PROBE_WGMMA_STEP_OPS(kind->k) : TERN_PROBE_MMA_STEP_OPS(kind->k);
    unsigned int result[2];
    *burst = (struct matrix_burst){
        .nodes = {.launch = {.grid = {blocks, 1, 1}, .block = block}, .args = {.result = r->result, .count = steps}},
        .ops = step_ops * (double)groups * (double)steps};
    enum tern_status status = tern_fixed_probe(r->fixed, probe, &burst->nodes.launch.function, err);
    if (status == TERN_OK)
        status = tern_ceiling_once(r, &burst->nodes, result, err);
    if (status == TERN_OK && result[1] != (unsigned int)(blocks * steps))
        status = tern_error_set(err, TERN_FAILED, "probe %s did %u of %lld steps", kind->name, result[1],
                                (long long)(blocks * steps));
    return status;
}

static enum tern_status time_burst(struct tern_ceiling_run *r, struct matrix_burst *burst, bool cool, size_t count,
                                   double *samples, struct tern_error *err) {
    struct tern_graph *graph = NULL;
    struct tern_stats stats;
    double warm_up_us;
    enum tern_status status = tern_ceiling_capture(r, &burst->nodes, 1, &graph, err);
    if (status == TERN_OK)
        status = tern_graph_time(r->context, graph, &warm_up_us, err);
    for (size_t i = 0; i < count && status == TERN_OK; i++) {
        if (cool)
            idle();
        status = tern_graph_time(r->context, graph, &samples[i], err);
    }
    tern_graph_free(r->context, graph);
    if (status == TERN_OK) {
        tern_stats_compute(samples, count, &stats);
        burst->us = stats.median;
    }
    return status;
}

/* Tries one variant and geometry with the number of steps that makes a burst; keeps it if it is the fastest. */
static enum tern_status try_burst(struct tern_ceiling_run *r, const struct matrix_kind *kind, int probe, size_t geometry,
                                  struct matrix_burst *best, struct tern_error *err) {
    struct matrix_burst burst;
    double samples[SEARCH_SAMPLES];
    enum tern_status status = make_burst(r, kind, probe, geometry, PROBE_STEPS, &burst, err);
    if (status == TERN_OK)
        status = time_burst(r, &burst, false, SEARCH_SAMPLES, samples, err);
    if (status == TERN_OK) {
        double steps = PROBE_STEPS * BURST_US / burst.us;
        status = make_burst(r, kind, probe, geometry, steps < 100 ? 100 : (int64_t)steps, &burst, err);
    }
    if (status == TERN_OK)
        status = time_burst(r, &burst, false, SEARCH_SAMPLES, samples, err);
    if (status == TERN_OK && !(best->us > 0 && best->ops / best->us >= burst.ops / burst.us))
        *best = burst;
    return status;
}

static enum tern_status measure_cool(struct tern_ceiling_run *r, const struct matrix_kind *kind, struct matrix_burst *best,
                                     struct tern_error *err) {
    char name[24];
    double samples[COOL_SAMPLES];
    enum tern_status status = TERN_OK;
    *best = (struct matrix_burst){0};
    for (size_t v = 0; v < 2 && kind->probes[v] >= 0; v++)
        for (size_t g = 0; g < GEOMETRIES && status == TERN_OK; g++)
            status = try_burst(r, kind, kind->probes[v], g, best, err);
    if (status == TERN_OK)
        status = time_burst(r, best, true, COOL_SAMPLES, samples, err);
    tern_str_format(name, sizeof name, "%s/cool", kind->name);
    return status == TERN_OK ? tern_ceiling_add(r, name, best->us * 1e-6, best->ops / best->us * 1e-6, kind->unit, samples,
                                                COOL_SAMPLES, err)
                             : status;
}

/* The same bursts one behind the other; the first half of the time only heats. */
static enum tern_status measure_sustained(struct tern_ceiling_run *r, const struct matrix_kind *kind,
                                          struct matrix_burst *best, double seconds, struct tern_error *err) {
    struct tern_graph *graph = NULL;
    struct tern_stats stats;
    char name[24];
    double samples[TERN_MAX_CEILING_SAMPLES], us = 0;
    size_t count = 0;
    enum tern_status status = tern_ceiling_capture(r, &best->nodes, LOAD_NODES, &graph, err);
    int64_t start_ns = tern_clock_now_ns(), half_ns = (int64_t)(seconds * 0.5e9);
    while (status == TERN_OK && (count == 0 || tern_clock_now_ns() - start_ns < 2 * half_ns)) {
        status = tern_graph_time(r->context, graph, &us, err);
        if (status == TERN_OK && tern_clock_now_ns() - start_ns >= half_ns)
            samples[count++ % TERN_MAX_CEILING_SAMPLES] = us; /* the latest ones stay */
    }
    tern_graph_free(r->context, graph);
    if (status != TERN_OK)
        return status;
    count = count < TERN_MAX_CEILING_SAMPLES ? count : TERN_MAX_CEILING_SAMPLES;
    tern_stats_compute(samples, count, &stats);
    tern_str_format(name, sizeof name, "%s/sustained", kind->name);
    return tern_ceiling_add(r, name, seconds, best->ops / stats.median * 1e-6, kind->unit, samples, count, err);
}

enum tern_status tern_ceiling_control_burst(struct tern_ceiling_run *r, double *us, struct tern_error *err) {
    struct matrix_burst burst;
    double samples[COOL_SAMPLES];
    *us = 0;
    if (r->info.cc < kinds[CONTROL_KIND].min_cc)
        return TERN_OK;
    enum tern_status status =
        make_burst(r, &kinds[CONTROL_KIND], kinds[CONTROL_KIND].probes[0], CONTROL_GEOMETRY, CONTROL_STEPS, &burst, err);
    if (status == TERN_OK)
        status = time_burst(r, &burst, true, COOL_SAMPLES, samples, err);
    *us = status == TERN_OK ? burst.us : 0;
    return status;
}

/* All cool bursts first: the load heats the device. */
enum tern_status tern_ceilings_matrix(struct tern_ceiling_run *r, double sustained_s, struct tern_error *err) {
    struct matrix_burst best[KIND_COUNT];
    enum tern_status status = TERN_OK;
    for (int sustained = 0; sustained < 2; sustained++)
        for (size_t i = 0; i < KIND_COUNT && status == TERN_OK; i++) {
            if (r->info.cc < kinds[i].min_cc || r->info.cc > kinds[i].max_cc)
                continue;
            if (!sustained)
                status = measure_cool(r, &kinds[i], &best[i], err);
            else if (sustained_s > 0)
                status = measure_sustained(r, &kinds[i], &best[i], sustained_s, err);
        }
    return status;
}
