/* Cost model: least bytes, limits, occupancy, and a predicted time that orders candidates before anything is measured.
 * A prior, not a claim: knows launch geometry, compiler resources and a few well-known parameter names, nothing of a
 * kernel's inside. */
#include "space/cost.h"

#include "core/result.h"

#include <math.h>
#include <string.h>

/* Constants of the prior. Sources: measured on an H200 (empty graph nodes of 1 and 1056 blocks, cold reads of 1 to 128 MB);
 * they only order candidates, so other GPUs use the same. */
#define MEMORY_LATENCY_US    0.8   /* loaded DRAM latency: bytes in flight needed = bandwidth * latency */
#define DISPATCH_US          0.07  /* starting one block on a multiprocessor */
#define FILL_US              0.7   /* first tile of a block, nothing to overlap with */
#define L2_OVER_DRAM         2.5   /* L2 bandwidth in units of DRAM bandwidth */
#define EXCHANGE_OVER_DRAM   0.35  /* bandwidth at which blocks of a cluster exchange fp32 sums, in units of DRAM's */
#define REDUCE_US            1.0   /* second phase of a kernel that goes through a workspace, or exchange in a cluster */
#define LOAD_BYTES           32.0  /* in flight per thread of a kernel that stages nothing: two 16-byte loads */
#define STAGED_SHARE         0.75  /* of dynamic shared memory that is in flight in a multi-stage pipeline */
#define SPILL_BYTES_DOUBLING 128.0 /* spilled bytes per thread that double the time */
#define DEFAULT_EFFICIENCY   0.5
#define LANES_SM             128.0 /* CUDA cores of a multiprocessor */
#define DECODE_INSTRUCTIONS  2.5   /* a weight: 1.3 to 2.0 are counted in our main loops, and slots are not all filled */

static double positive(double value, double otherwise) {
    return value > 0 && isfinite(value) ? value : otherwise;
}

double tern_cost_bytes(const struct tern_format *format, int64_t m, int64_t n, int64_t k) {
    double weights = (double)n * (double)k;
    double scales = format->group == TERN_GROUP_TENSOR ? 1 : (double)n * (double)tern_format_groups(format, k);
    double codes = weights * format->bits / 8, zeros = format->sym ? 0 : scales;
    return codes + 2 * scales + zeros + 2 * (double)m * ((double)k + (double)n);
}

bool tern_cost_compute_bound(double balance, const struct tern_format *format, int64_t m, int64_t n, int64_t k) {
    return 2.0 * (double)m * (double)n * (double)k > balance * tern_cost_bytes(format, m, n, k);
}

double tern_cost_balance(const struct tern_gpu *gpu) {
    return gpu->f16_tflops * 1e3 / gpu->memory_gbs;
}

double tern_cost_limit_us(const struct tern_gpu *gpu, enum tern_activation type, const struct tern_format *format, int64_t m,
                          int64_t n, int64_t k) {
    double peak_tops = type == TERN_INT8 || type == TERN_E4M3 ? gpu->s8_tops : gpu->f16_tflops;
    /* Weights only: x and y of the launch before may still lie in the L2, and a limit must not be passed. */
    double read_us = tern_gpu_read_us(gpu, tern_cost_bytes(format, 0, n, k));
    double flops = 2 * (double)m * (double)n * (double)k;
    double math_us = peak_tops > 0 ? flops / (peak_tops * 1e6) : 0;
    return fmax(fmax(read_us, math_us), gpu->launch_us);
}

/* ---- occupancy: the allocation rules of CUDA's occupancy calculator ---- */

#define WARP                 32
#define SUB_PARTITIONS       4   /* schedulers of a multiprocessor, each with a quarter of the registers */
#define REGISTER_UNIT        256 /* registers are given to a warp in this unit */
#define MAX_REGISTERS_THREAD 255

static int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

static int64_t blocks_by_registers(const struct tern_gpu *gpu, int64_t warps, int64_t registers) {
    if (registers <= 0) /* not built yet */
        return INT64_MAX;
    if (registers > MAX_REGISTERS_THREAD)
        return 0;
    int64_t per_warp = round_up(registers * WARP, REGISTER_UNIT);
    int64_t resident_warps = gpu->regs_sm / SUB_PARTITIONS / per_warp * SUB_PARTITIONS;
    return resident_warps / warps;
}

static int64_t blocks_by_shared_memory(const struct tern_gpu *gpu, int64_t bytes) {
    if (bytes < 0 || bytes > gpu->smem_block_bytes)
        return 0;
    int64_t reserve = gpu->cc >= 80 ? 1024 : 0, unit = gpu->cc >= 80 ? 128 : 256;
    int64_t taken = round_up(bytes + reserve, unit);
    return taken > 0 ? gpu->smem_sm_bytes / taken : INT64_MAX;
}

int64_t tern_cost_occupancy(const struct tern_gpu *gpu, const struct tern_geometry *geometry,
                            const struct tern_resources *resources) {
    if (geometry->block < 1 || geometry->block > 1024)
        return 0;
    int64_t warps = (geometry->block + WARP - 1) / WARP;
    const int64_t limits[] = {
        gpu->threads_sm / (warps * WARP),
        blocks_by_registers(gpu, warps, resources->registers),
        blocks_by_shared_memory(gpu, geometry->smem_bytes + resources->static_smem_bytes),
    };
    int64_t blocks = gpu->blocks_sm;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        blocks = limits[i] < blocks ? limits[i] : blocks;
    return blocks > 0 ? blocks : 0;
}

/* ---- prediction ---- */

/* Everything the terms share. */
struct outlook {
    const struct tern_gpu *gpu;
    double m, n, k;
    double bytes;        /* least traffic of the problem */
    double weight_bytes; /* of one weight */
    double blocks, per_sm, sms, slots;
    double block_m, block_n; /* tile of y that one block computes at a time */
    double dram_bytes_us;
};

static double parameter(const struct tern_candidate *c, const char *name, double otherwise) {
    for (size_t i = 0; i < c->tmpl->param_count; i++)
        if (strcmp(c->tmpl->params[i].name, name) == 0 && c->values[i] > 0)
            return (double)c->values[i];
    return otherwise;
}

/* Tile sizes: by name if the template has such parameters, else the area of y per block, as square as M allows. */
static void guess_tile(struct outlook *o, const struct tern_candidate *c) {
    double split = parameter(c, "SPLIT_K", 1) * parameter(c, "CLUSTER_K", 1);
    double area = o->m * o->n * split / o->blocks;
    o->block_m = fmin(parameter(c, "BLOCK_M", fmax(sqrt(area), 1)), o->m);
    o->block_n = fmin(parameter(c, "BLOCK_N", fmax(area / o->block_m, 1)), o->n);
}

/* Approaches 1 when `x` (what there is over what is needed) passes 1, is x below. */
static double saturation(double x) {
    return x / pow(1 + x * x * x * x, 0.25);
}

/* Work of the busiest multiprocessor over the average one: blocks come in whole numbers and waves. */
static double imbalance(const struct outlook *o) {
    if (o->blocks <= o->slots)
        return ceil(o->blocks / o->sms) * o->sms / o->blocks;
    return ceil(o->blocks / o->slots) * o->slots / o->blocks;
}

/* Cold read of the least bytes, stretched when too few bytes are in flight; uneven blocks cost half, as bandwidth is shared.
 */
static double memory_us(const struct outlook *o, const struct tern_geometry *g) {
    double block_bytes = fmax((double)g->block * LOAD_BYTES, STAGED_SHARE * (double)g->smem_bytes);
    double flying = fmin(o->blocks, o->slots) * block_bytes;
    double needed = fmin(o->dram_bytes_us * MEMORY_LATENCY_US, o->bytes);
    double stretch = 1 + 0.5 * (fmin(imbalance(o), 2) - 1);
    return tern_gpu_read_us(o->gpu, o->bytes) * stretch / saturation(flying / needed);
}

/* Operations over the peak of the unit that bounds the template; padded tiles count, the multiprocessor with the most is waited
 * for, and few warps do not hide latency. */
static double math_us(const struct outlook *o, const struct tern_candidate *c, const struct tern_geometry *g) {
    const struct {
        const char *unit;
        double peak_tops, warps; /* resident warps that saturate the unit */
    } units[] = {{"f32", o->gpu->f32_tflops, 16},
                 {"mma-f16", o->gpu->f16_tflops, 4},
                 {"mma-s8", o->gpu->s8_tops, 4},
                 {"wgmma-s8", o->gpu->s8_tops, 4}};
    double peak = o->gpu->f16_tflops, needed = 4;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(units[i].unit, c->tmpl->unit) == 0) {
            peak = units[i].peak_tops;
            needed = units[i].warps;
        }
    }
    double tile_m = parameter(c, "BLOCK_M", 1), tile_n = parameter(c, "BLOCK_N", 1);
    double padded = ceil(o->m / tile_m) * tile_m * ceil(o->n / tile_n) * tile_n; /* elements of y */
    double flops = 2 * o->k * (g->busiest > 0 ? (double)g->busiest * o->sms : padded * imbalance(o));
    double resident = fmin(o->per_sm, ceil(o->blocks / o->sms)) * ceil((double)g->block / WARP);
    return flops / (positive(peak, 1) * 1e6) / saturation(resident / needed);
}

/* Traffic between L2 and multiprocessors: each block reads its rows of x and of W. Larger tiles read less. */
static double l2_us(const struct outlook *o) {
    double work = o->m * o->n * o->k;
    return work * (2 / o->block_n + o->weight_bytes / o->block_m) / (L2_OVER_DRAM * o->dram_bytes_us);
}

/* Decoding of codes on the CUDA cores: once for every pass over the weights, that is for every tile of M. */
static double decode_us(const struct outlook *o, const struct tern_candidate *c, const struct tern_geometry *g) {
    double tile_m = parameter(c, "BLOCK_M", parameter(c, "M_TILE", o->m));
    double rows = g->busiest > 0 ? (double)g->busiest / tile_m * o->sms : ceil(o->m / tile_m) * o->n; /* of W */
    double lanes = o->sms * LANES_SM * positive(o->gpu->clock_mhz, 1); /* lane instructions a microsecond */
    return rows * o->k * DECODE_INSTRUCTIONS / lanes;
}

/* What does not overlap: starting blocks, filling their pipelines wave by wave, and a reduction through the workspace. */
static double overhead_us(const struct outlook *o, const struct tern_candidate *c, const struct tern_geometry *g) {
    double waves = ceil(o->blocks / o->slots);
    double start = DISPATCH_US * o->blocks / o->sms + FILL_US * (1 + (waves - 1) / o->per_sm);
    double workspace = (double)g->workspace_bytes;
    start += g->cluster > 1 ? REDUCE_US : 0; /* blocks of a cluster wait for each other, at the start and for their sums */
    start += 4 * o->m * o->n * (parameter(c, "CLUSTER_K", 1) - 1) / (EXCHANGE_OVER_DRAM * o->dram_bytes_us);
    return start + (workspace > 0 ? REDUCE_US + 2 * workspace / (L2_OVER_DRAM * o->dram_bytes_us) : 0);
}

double tern_cost_predict_us(const struct tern_gpu *gpu, const struct tern_candidate *c,
                            const struct tern_problem_shape *problem, const struct tern_geometry *geometry,
                            const struct tern_resources *resources) {
    double limit = tern_cost_limit_us(gpu, problem->type, problem->format, problem->m, problem->n, problem->k);
    int64_t per_sm = tern_cost_occupancy(gpu, geometry, resources);
    struct outlook o = {.gpu = gpu, .m = (double)problem->m, .n = (double)problem->n, .k = (double)problem->k};
    o.blocks = (double)geometry->grid[0] * (double)geometry->grid[1] * (double)geometry->grid[2];
    if (problem->m == 0)
        return limit;
    if (per_sm == 0 || !(o.blocks > 0))
        return INFINITY;
    o.bytes = tern_cost_bytes(problem->format, problem->m, problem->n, problem->k);
    o.weight_bytes = problem->format->bits / 8.0;
    o.per_sm = (double)per_sm;
    o.sms = positive((double)gpu->sms, 1);
    o.slots = o.per_sm * o.sms;
    o.dram_bytes_us = positive(gpu->memory_gbs, 1) * 1e3;
    guess_tile(&o, c);
    double terms[] = {memory_us(&o, geometry), math_us(&o, c, geometry) + decode_us(&o, c, geometry), l2_us(&o)}, sum = 0;
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++)
        sum += pow(terms[i], 4); /* a smooth maximum: near a crossing both cost */
    double spill = 1 + (double)resources->spill_bytes / SPILL_BYTES_DOUBLING;
    double efficiency = fmin(positive(c->tmpl->efficiency, DEFAULT_EFFICIENCY), 1);
    double us = pow(sum, 0.25) / efficiency * spill + overhead_us(&o, c, geometry);
    return isfinite(us) ? fmax(us, limit) : INFINITY;
}
