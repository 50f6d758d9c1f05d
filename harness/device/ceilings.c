/* Ceilings of memory and launches, and the frame of a calibration and of control times. See ceilings.h.
 * A read is timed as kernels are: nodes of a captured graph over rotated buffers that are cold when their turn comes. */
#include "device/ceilings.h"

#include "core/random.h"
#include "core/str.h"
#include "device/cuda_context.h"
#include "measure/stats.h"

#include <math.h>
#include <stdlib.h>

#define MEBIBYTE       ((size_t)1 << 20)
#define LARGEST_READ   (1024 * MEBIBYTE)
#define SMALLEST_READ  MEBIBYTE
#define COLD_FACTOR    2.5 /* all buffers of a rotation together, in units of the L2 */
#define MAX_NODES      512
#define SEARCH_SAMPLES 5 /* to find the best geometry; the reported time is sampled anew */
#define FINAL_SAMPLES  21
#define COPY_BLOCK     256 /* threads */
#define SHORT_NODES    20  /* at least, so that what a sample holds beside its nodes is a small part of it */
#define LONG_NODES     6   /* the same for reads above LONG_READ */
#define LONG_READ      (128 * MEBIBYTE)
#define EMPTY_NODES    200
#define SETTLE_S       0.3 /* wakes the clocks; longer would heat the device before the cool bursts */
#define SEED           1

/* Control times: the same on every device, whatever is its fastest way. */
#define CONTROL_READ     (32 * MEBIBYTE)
#define CONTROL_POOL     (512 * MEBIBYTE) /* cold up to an L2 of 190 MiB */
#define CONTROL_GEOMETRY 0

/* Launch geometries of the read probes. blocks_sm 0: as many blocks as give every thread one round. */
static const struct {
    int probe, unroll, min_cc;
    int64_t block, blocks_sm;
} geometries[] = {
    {TERN_FIXED_READ_4, 4, 0, 256, 0},  {TERN_FIXED_READ_4, 4, 0, 512, 4}, {TERN_FIXED_READ_4, 4, 0, 1024, 1},
    {TERN_FIXED_READ_4, 4, 0, 1024, 2}, {TERN_FIXED_READ_8, 8, 0, 128, 0}, {TERN_FIXED_READ_8, 8, 0, 256, 4},
    {TERN_FIXED_READ_8, 8, 0, 512, 1},  {TERN_FIXED_READ_8, 8, 0, 512, 2}, {TERN_FIXED_BULK, 0, 90, 128, 1},
    {TERN_FIXED_BULK, 0, 90, 128, 2},   {TERN_FIXED_BULK, 0, 90, 128, 4},
};
#define GEOMETRY_COUNT (sizeof geometries / sizeof *geometries)

/* ---- what all probes share ---- */

static enum tern_status enqueue(struct tern_cuda *cuda, void *user, size_t count, struct tern_error *err) {
    const struct tern_ceiling_nodes *nodes = user;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < count && status == TERN_OK; i++) {
        struct tern_probe_args args = nodes->args;
        if (nodes->copies > 0)
            args.data = (const char *)args.data + i % nodes->copies * nodes->stride;
        status = tern_cuda_launch_raw(cuda, &nodes->launch, &args, err);
    }
    return status;
}

enum tern_status tern_ceiling_capture(struct tern_ceiling_run *r, struct tern_ceiling_nodes *nodes, size_t count,
                                      struct tern_graph **graph, struct tern_error *err) {
    return tern_cuda_capture(r->context, enqueue, nodes, count, graph, err);
}

enum tern_status tern_ceiling_samples(struct tern_ceiling_run *r, struct tern_graph *graph, size_t count, double *samples,
                                      double *median, struct tern_error *err) {
    struct tern_stats stats;
    struct tern_graph *replays[TERN_MAX_REPLAYS];
    for (size_t i = 0; i < count && i < TERN_MAX_REPLAYS; i++)
        replays[i] = graph;
    enum tern_status status = tern_graph_times(r->context, replays, count, samples, err);
    if (status == TERN_OK) {
        tern_stats_compute(samples, count, &stats);
        *median = stats.median;
    }
    return status;
}

enum tern_status tern_ceiling_once(struct tern_ceiling_run *r, const struct tern_ceiling_nodes *nodes,
                                   unsigned int result[2], struct tern_error *err) {
    const struct tern_backend *b = &tern_backend_cuda;
    struct tern_probe_args args = nodes->args;
    args.check = 1;
    enum tern_status status = b->fill(r->context, r->result, 0, 2 * sizeof *result, err);
    if (status == TERN_OK)
        status = tern_cuda_launch_raw(r->context, &nodes->launch, &args, err);
    return status == TERN_OK ? b->download(r->context, result, r->result, 2 * sizeof *result, err) : status;
}

enum tern_status tern_ceiling_add(struct tern_ceiling_run *r, const char *kind, double argument, double value,
                                  const char *unit, const double *samples, size_t count, struct tern_error *err) {
    struct tern_clocks clocks;
    if (!(value > 0) || !isfinite(value))
        return tern_error_set(err, TERN_FAILED, "ceiling %s was measured as %g %s", kind, value, unit);
    struct tern_ceiling *row = tern_ceilings_add(r->out, kind, argument, unit);
    if (!row)
        return tern_error_set(err, TERN_INTERNAL, "no room for ceiling '%s'", kind);
    tern_cuda_clocks(r->context, &clocks);
    row->value = value;
    row->sm_mhz = clocks.sm_mhz > 0 ? clocks.sm_mhz : 0;
    for (; row->sample_count < count && row->sample_count < TERN_MAX_CEILING_SAMPLES; row->sample_count++)
        row->samples_us[row->sample_count] = samples[row->sample_count];
    return TERN_OK;
}

/* ---- reads ---- */

/* One MiB of random words, then copies on the device. */
static enum tern_status fill_pool(struct tern_ceiling_run *r, struct tern_error *err) {
    const struct tern_backend *b = &tern_backend_cuda;
    struct tern_random random;
    uint64_t *block = tern_alloc(MEBIBYTE);
    unsigned int sum = 0;
    tern_random_init(&random, SEED, "ceiling");
    for (size_t i = 0; i < MEBIBYTE / sizeof *block; i++) {
        block[i] = tern_random_u64(&random);
        sum += (unsigned int)block[i] + (unsigned int)(block[i] >> 32);
    }
    block[0] += 1 - sum % 2; /* odd, unless the low word wraps: then no whole number of MiB below 2^32 sums up to nothing */
    r->mebibyte_sum = sum + 1 - sum % 2;
    enum tern_status status = b->upload(r->context, r->pool, block, MEBIBYTE, err);
    for (size_t have = MEBIBYTE; have < r->pool_bytes && status == TERN_OK; have *= 2)
        status =
            b->copy(r->context, r->pool + have, r->pool, r->pool_bytes - have < have ? r->pool_bytes - have : have, err);
    free(block);
    return status == TERN_OK ? b->synchronize(r->context, err) : status;
}

/* Buffers of a rotation, enough to be cold. 0: the pool does not hold them. */
static size_t read_copies(const struct tern_ceiling_run *r, size_t bytes) {
    double copies = COLD_FACTOR * (double)r->info.l2_bytes / (double)bytes + 1;
    size_t count = copies < 2 ? 2 : copies > MAX_NODES ? MAX_NODES : (size_t)copies;
    return count * bytes <= r->pool_bytes ? count : 0;
}

static enum tern_status read_nodes(struct tern_ceiling_run *r, size_t geometry, size_t bytes,
                                   struct tern_ceiling_nodes *nodes, struct tern_error *err) {
    int64_t words = (int64_t)bytes / 16, round = geometries[geometry].block * geometries[geometry].unroll;
    int64_t blocks = geometries[geometry].blocks_sm * r->info.sms;
    if (blocks == 0)
        blocks = (words + round - 1) / round;
    *nodes = (struct tern_ceiling_nodes){.launch = {.grid = {blocks, 1, 1}, .block = geometries[geometry].block},
                                         .args = {.data = r->pool, .result = r->result, .count = words},
                                         .copies = read_copies(r, bytes),
                                         .stride = bytes};
    return tern_fixed_probe(r->fixed, geometries[geometry].probe, &nodes->launch.function, err);
}

/* Time of one geometry; with samples NULL a few that decide whether it is the best. */
static enum tern_status time_read(struct tern_ceiling_run *r, size_t geometry, size_t bytes, double *samples, double *us,
                                  struct tern_error *err) {
    struct tern_ceiling_nodes nodes;
    struct tern_graph *graph = NULL;
    double few[SEARCH_SAMPLES];
    size_t least = bytes > LONG_READ ? LONG_NODES : SHORT_NODES;
    enum tern_status status = read_nodes(r, geometry, bytes, &nodes, err);
    if (status == TERN_OK)
        status = tern_ceiling_capture(r, &nodes, nodes.copies < least ? least : nodes.copies, &graph, err);
    if (status == TERN_OK)
        status = tern_ceiling_samples(r, graph, samples ? FINAL_SAMPLES : SEARCH_SAMPLES, samples ? samples : few, us, err);
    tern_graph_free(r->context, graph);
    return status;
}

/* A geometry must have read every byte of an odd number of MiB. */
static enum tern_status check_read(struct tern_ceiling_run *r, size_t geometry, struct tern_error *err) {
    struct tern_ceiling_nodes nodes;
    unsigned int result[2];
    enum tern_status status = read_nodes(r, geometry, 3 * MEBIBYTE, &nodes, err);
    if (status == TERN_OK)
        status = tern_ceiling_once(r, &nodes, result, err);
    if (status == TERN_OK && result[0] != 3 * r->mebibyte_sum)
        status = tern_error_set(err, TERN_FAILED, "read probe %zu read something else than its 3 MiB", geometry);
    return status;
}

static enum tern_status measure_reads(struct tern_ceiling_run *r, struct tern_error *err) {
    double samples[FINAL_SAMPLES], us = 0;
    enum tern_status status = TERN_OK;
    for (size_t g = 0; g < GEOMETRY_COUNT && status == TERN_OK; g++)
        if (r->info.cc >= geometries[g].min_cc)
            status = check_read(r, g, err);
    for (size_t bytes = SMALLEST_READ; bytes <= LARGEST_READ && status == TERN_OK; bytes *= 2) {
        size_t best = 0;
        double best_us = 0;
        if (read_copies(r, bytes) == 0)
            continue;
        for (size_t g = 0; g < GEOMETRY_COUNT && status == TERN_OK; g++) {
            if (r->info.cc < geometries[g].min_cc)
                continue;
            status = time_read(r, g, bytes, NULL, &us, err);
            if (status == TERN_OK && (g == 0 || us < best_us)) {
                best = g;
                best_us = us;
            }
        }
        if (status == TERN_OK)
            status = time_read(r, best, bytes, samples, &us, err);
        if (status == TERN_OK)
            status = tern_ceiling_add(r, "read", (double)bytes, us, "us", samples, FINAL_SAMPLES, err);
    }
    return status;
}

/* ---- copies and launches ---- */

/* Half the pool onto the other half and back, in turn. function NULL: the driver's copy. */
struct copies {
    struct tern_ceiling_run *r;
    void *function;
};

static enum tern_status enqueue_copies(struct tern_cuda *cuda, void *user, size_t count, struct tern_error *err) {
    const struct copies *c = user;
    enum tern_status status = TERN_OK;
    const size_t half = c->r->pool_bytes / 2;
    const int64_t words = (int64_t)half / 16, round = COPY_BLOCK * 4;
    for (size_t i = 0; i < count && status == TERN_OK; i++) {
        char *from = c->r->pool + (i % 2 ? half : 0), *to = c->r->pool + (i % 2 ? 0 : half);
        struct tern_probe_args args = {.data = from, .to = to, .result = c->r->result, .count = words};
        struct tern_launch launch = {
            .function = c->function, .grid = {(words + round - 1) / round, 1, 1}, .block = COPY_BLOCK};
        status = c->function ? tern_cuda_launch_raw(cuda, &launch, &args, err)
                             : tern_backend_cuda.copy(cuda, to, from, half, err);
    }
    return status;
}

/* The copy probe must have written every byte of an odd number of MiB over zeros. */
static enum tern_status check_copy(struct tern_ceiling_run *r, void *function, struct tern_error *err) {
    struct tern_ceiling_nodes read;
    unsigned int result[2];
    char *to = r->pool + r->pool_bytes / 2;
    struct tern_ceiling_nodes copy = {.launch = {.function = function, .grid = {r->info.sms, 1, 1}, .block = COPY_BLOCK},
                                      .args = {.data = r->pool, .to = to, .result = r->result, .count = 3 * MEBIBYTE / 16}};
    enum tern_status status = tern_backend_cuda.fill(r->context, to, 0, 3 * MEBIBYTE, err);
    if (status == TERN_OK)
        status = tern_ceiling_once(r, &copy, result, err);
    if (status == TERN_OK)
        status = read_nodes(r, 0, 3 * MEBIBYTE, &read, err);
    read.args.data = to;
    if (status == TERN_OK)
        status = tern_ceiling_once(r, &read, result, err);
    if (status == TERN_OK && result[0] != 3 * r->mebibyte_sum)
        status = tern_error_set(err, TERN_FAILED, "the copy probe wrote something else than its 3 MiB");
    return status;
}

/* The better of the driver's copy and our own: as nodes of a graph the driver's copies of 1 GiB reached two thirds of the
 * H200's bandwidth only. */
static enum tern_status measure_copy(struct tern_ceiling_run *r, struct tern_error *err) {
    struct copies ways[2] = {{.r = r}, {.r = r}};
    double samples[2][FINAL_SAMPLES], us[2] = {0};
    const double bytes = (double)(r->pool_bytes / 2);
    enum tern_status status = tern_fixed_probe(r->fixed, TERN_FIXED_COPY, &ways[1].function, err);
    if (status == TERN_OK)
        status = check_copy(r, ways[1].function, err);
    for (size_t i = 0; i < 2 && status == TERN_OK; i++) {
        struct tern_graph *graph = NULL;
        status = tern_cuda_capture(r->context, enqueue_copies, &ways[i], 4, &graph, err);
        if (status == TERN_OK)
            status = tern_ceiling_samples(r, graph, FINAL_SAMPLES, samples[i], &us[i], err);
        tern_graph_free(r->context, graph);
    }
    const size_t best = us[1] < us[0];
    return status == TERN_OK
               ? tern_ceiling_add(r, "copy", bytes, 2e-3 * bytes / us[best], "GB/s", samples[best], FINAL_SAMPLES, err)
               : status;
}

static enum tern_status time_empty(struct tern_ceiling_run *r, int64_t blocks, int64_t block, size_t count, double *samples,
                                   double *us, struct tern_error *err) {
    struct tern_graph *graph = NULL;
    struct tern_ceiling_nodes nodes = {.launch = {.grid = {blocks, 1, 1}, .block = block}};
    enum tern_status status = tern_fixed_probe(r->fixed, TERN_FIXED_EMPTY, &nodes.launch.function, err);
    if (status == TERN_OK)
        status = tern_ceiling_capture(r, &nodes, count, &graph, err);
    if (status == TERN_OK)
        status = tern_ceiling_samples(r, graph, FINAL_SAMPLES, samples, us, err);
    tern_graph_free(r->context, graph);
    return status;
}

/* An empty kernel of one warp, and of as many blocks of 256 threads as are resident at once; and what a sample of one node
 * takes longer than a node among many does. */
static enum tern_status measure_launches(struct tern_ceiling_run *r, struct tern_error *err) {
    double samples[FINAL_SAMPLES], node_us = 0, us = 0;
    int64_t wave = r->info.sms * (r->info.threads_sm / 256);
    enum tern_status status = time_empty(r, 1, 32, EMPTY_NODES, samples, &node_us, err);
    if (status == TERN_OK)
        status = tern_ceiling_add(r, "launch", 1, node_us, "us", samples, FINAL_SAMPLES, err);
    if (status == TERN_OK)
        status = time_empty(r, wave, 256, EMPTY_NODES, samples, &us, err);
    if (status == TERN_OK)
        status = tern_ceiling_add(r, "launch", (double)wave, us, "us", samples, FINAL_SAMPLES, err);
    if (status == TERN_OK)
        status = time_empty(r, 1, 32, 1, samples, &us, err);
    if (status == TERN_OK && us > node_us)
        status = tern_ceiling_add(r, "sample", 0, us - node_us, "us", samples, FINAL_SAMPLES, err);
    return status;
}

/* ---- the whole ---- */

/* Up to `pool_bytes`, less on small cards. */
static enum tern_status allocate(struct tern_ceiling_run *r, size_t pool_bytes, struct tern_error *err) {
    void *pool = NULL, *result = NULL;
    enum tern_status status = tern_backend_cuda.alloc(r->context, 2 * sizeof *r->result, &result, err);
    r->result = result;
    for (r->pool_bytes = pool_bytes; status == TERN_OK && !pool; r->pool_bytes /= 2) {
        enum tern_status got = tern_backend_cuda.alloc(r->context, r->pool_bytes, &pool, err);
        if (got == TERN_OK)
            break;
        if (got != TERN_MISSING || r->pool_bytes <= 128 * MEBIBYTE)
            status = got;
    }
    r->pool = pool;
    return status;
}

/* Memory of the probes, filled, and clocks that are awake. */
static enum tern_status start(struct tern_ceiling_run *r, size_t pool_bytes, struct tern_error *err) {
    enum tern_status status = tern_backend_cuda.info(r->context, &r->info, err);
    if (status == TERN_OK)
        status = allocate(r, pool_bytes, err);
    if (status == TERN_OK)
        status = fill_pool(r, err);
    return status == TERN_OK ? tern_cuda_settle(r->context, SETTLE_S, err) : status;
}

static void stop(struct tern_ceiling_run *r) {
    tern_backend_cuda.release(r->context, r->pool);
    tern_backend_cuda.release(r->context, r->result);
}

enum tern_status tern_ceilings_measure(void *context, struct tern_fixed *fixed, double sustained_s,
                                       struct tern_ceilings *out, struct tern_error *err) {
    struct tern_ceiling_run r = {.context = context, .fixed = fixed, .out = out};
    out->count = 0;
    enum tern_status status = start(&r, 2 * LARGEST_READ, err);
    if (status == TERN_OK)
        status = measure_launches(&r, err);
    if (status == TERN_OK)
        status = measure_reads(&r, err);
    if (status == TERN_OK)
        status = measure_copy(&r, err);
    if (status == TERN_OK)
        status = tern_ceilings_matrix(&r, sustained_s, err);
    stop(&r);
    return status;
}

/* The burst first: it wants a cool device. */
enum tern_status tern_control_measure(void *context, struct tern_fixed *fixed, struct tern_control *out,
                                      struct tern_error *err) {
    struct tern_ceiling_run r = {.context = context, .fixed = fixed};
    double samples[FINAL_SAMPLES];
    *out = (struct tern_control){0};
    enum tern_status status = start(&r, CONTROL_POOL, err);
    if (status == TERN_OK)
        status = tern_ceiling_control_burst(&r, &out->burst_us, err);
    if (status == TERN_OK)
        status = check_read(&r, CONTROL_GEOMETRY, err);
    if (status == TERN_OK && read_copies(&r, CONTROL_READ) == 0)
        status = tern_error_set(err, TERN_MISSING, "too little device memory for the control read");
    if (status == TERN_OK)
        status = time_read(&r, CONTROL_GEOMETRY, CONTROL_READ, samples, &out->read_us, err);
    stop(&r);
    return status;
}
