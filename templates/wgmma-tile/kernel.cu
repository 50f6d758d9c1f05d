/* wgmma-tile: y[M,N] = x[M,K] * W[N,K]^T for M = 16 up to prefill on Hopper, quantised W, binary16 x and y, fp32 sums.
 *
 * Warp-specialised and persistent. One warpgroup produces: x by cp.async into swizzled tiles, code words by bulk copies,
 * scales and zero points by cp.async, STAGES slices of 128 k in a ring. CONSUMERS warpgroups multiply: W is the 64-row
 * operand of wgmma, dequantised into registers (swap-AB; four stacked 16-row tiles of layout frag16x128, one a warp), x the
 * shared-memory operand with BLOCK_M columns. While one chunk of k-steps multiplies, the next is dequantised into a second
 * set of registers. The layout is that of the decode templates; tern/wgmma_codes.cuh says how its k order is undone.
 *
 * Parameters, constexpr ints in front of this file (space.lua has values and limits):
 *   BLOCK_M         rows of x of a CTA, columns of the wgmma
 *   CONSUMERS       warpgroups that multiply
 *   ROW_BLOCKS      64-row blocks of W of each; a CTA owns 64 * CONSUMERS * ROW_BLOCKS rows
 *   STAGES          slices of 128 k in the ring, 3 or more
 *   CHUNK           k-steps of 16 dequantised and committed together, 1 or 2
 *   CLUSTER_K       blocks of a cluster that split K of the tiles left over by full waves
 *   CLUSTER_N       2: pairs of blocks share x: each loads half of its rows and sends them to the other
 *   COPY_ARRIVES    1: copies of x arrive at their barrier themselves, consumers fence; 0: producers wait and arrive
 *   GROUP_M         BLOCK_M tiles that neighbouring CTAs sweep together, so that x and W are shared in L2
 *   MIN_BLOCKS      CTAs a multiprocessor that registers are budgeted for
 *   SCALE_WEIGHTS   1: group scale times (q - z) in binary16 before the multiply; 0: fp32 scale on sums of a group
 *   ROUND_WEIGHTS   says that SCALE_WEIGHTS rounds (it does not for ternary); not used here
 *   BITS, ZERO, HAS_ZEROS, GROUP    the format; GROUP 0 is one scale a row, applied in the epilogue
 * Tails: any M, N a multiple of 8, K a multiple of 32, short last group. Out-of-range x is read as zero. Sums are added in
 * a fixed order: results do not depend on timing.
 * Bound by the f16 tensor cores; expected 85-100 % of what cuBLAS reaches at M >= 1024. */
#include "tern/abi.h"
#include "tern/cluster.cuh"
#include "tern/memory.cuh"
#include "tern/pipeline.cuh"
#include "tern/wgmma.cuh"
#include "tern/wgmma_codes.cuh"

constexpr int THREADS = TERN_WARPGROUP * (CONSUMERS + 1);
constexpr int CTA_TILES = 4 * CONSUMERS * ROW_BLOCKS; /* 16-row tiles of W */
constexpr int BLOCK_N = TERN_TILE_ROWS * CTA_TILES;
constexpr bool GROUPED = GROUP > 0;
using groups = tern_tile_groups<GROUP>;
constexpr bool SCALE_SUMS = GROUPED && !SCALE_WEIGHTS;

/* Shared memory: [x ring][code ring][scale ring][zero ring][output slots][barriers]; bytes of one ring entry. */
constexpr int X_BYTES = 2 * BLOCK_M * TERN_TILE_K; /* two halves of 64 k, rows of 128 bytes, swizzled */
constexpr int CODE_BYTES = CTA_TILES * tern_codes<BITS>::tile_bytes;
constexpr int SCALE_BYTES = GROUPED ? CTA_TILES * groups::count * 32 : 0;
constexpr int ZERO_BYTES = GROUPED && HAS_ZEROS ? CTA_TILES * groups::count * 16 : 0;
constexpr int OWN_ROWS = BLOCK_M / CLUSTER_N; /* rows of x that this block loads itself */
constexpr int CODES_AT = STAGES * X_BYTES;
constexpr int SCALES_AT = CODES_AT + STAGES * CODE_BYTES;
constexpr int ZEROS_AT = SCALES_AT + STAGES * SCALE_BYTES;
constexpr int OUTPUT_AT = ZEROS_AT + STAGES * ZERO_BYTES;
constexpr int OUTPUT_BYTES = 4 * TERN_TURN_SLOT; /* of a consumer warp */
constexpr int BARRIERS_AT = OUTPUT_AT + 4 * CONSUMERS * OUTPUT_BYTES;

/* Registers a thread: launched with ENTRY each; consumers take what producers give. */
constexpr int ENTRY_REGISTERS = 65536 / MIN_BLOCKS / THREADS / 8 * 8;
constexpr bool MOVE_REGISTERS = ENTRY_REGISTERS < 240;
constexpr int PRODUCER_REGISTERS = 56;
constexpr int CONSUMER_REGISTERS = (ENTRY_REGISTERS * (CONSUMERS + 1) - PRODUCER_REGISTERS) / CONSUMERS / 8 * 8 < 240
                                       ? (ENTRY_REGISTERS * (CONSUMERS + 1) - PRODUCER_REGISTERS) / CONSUMERS / 8 * 8
                                       : 240;
static_assert(CONSUMER_REGISTERS * CONSUMERS + PRODUCER_REGISTERS <= ENTRY_REGISTERS * (CONSUMERS + 1),
              "registers taken by setmaxnreg must have been given, or the kernel hangs");
static_assert(CLUSTER_N == 1 || (CLUSTER_N == 2 && CLUSTER_K == 1 && !COPY_ARRIVES),
              "a pair that shares x does not split K, and its producers wait for their copies before they send");
static_assert(STAGES >= 3, "a slice is released while the next one is used and one is on its way");
static_assert(CHUNK == 1 || CHUNK == 2, "a chunk lies inside 32 k");
static_assert(BLOCK_M % (16 * CLUSTER_K) == 0 && CTA_TILES <= 32,
              "blocks of a cluster own equally many 16 rows of x; a lane copies a tile of codes");
static_assert((CLUSTER_K - 1) * (BLOCK_M / CLUSTER_K) * BLOCK_N * 4 <= OUTPUT_AT, "sums of a cluster fit in the ring");

/* One output tile of the sweep: strips of GROUP_M tiles of x; inside a strip x is the fast direction. */
struct place {
    int row_tile;       /* first 16-row tile of W */
    int row_tiles;      /* of W */
    int k_tiles;        /* of W */
    int k_begin, k_end; /* k tiles of this block: a part of them if `split`, */
    int rank;           /* by its number in the cluster */
    bool split;
    long long x_row; /* first row of x */
};

__device__ __forceinline__ unsigned count_tiles(const tern_args &args) {
    return (unsigned)((args.n + CLUSTER_N * BLOCK_N - 1) / (CLUSTER_N * BLOCK_N)) *
           (unsigned)((args.m + BLOCK_M - 1) / BLOCK_M);
}

__device__ __forceinline__ place find_place(const tern_args &args, const tern_sweep &sweep) {
    place at;
    at.row_tiles = (int)((args.n + 15) / 16);
    at.k_tiles = (int)((args.k + TERN_TILE_K - 1) / TERN_TILE_K);
    at.split = CLUSTER_K > 1 && sweep.tile >= sweep.full;
    at.rank = (int)(blockIdx.x % (CLUSTER_K * CLUSTER_N));
    at.k_begin = at.split ? (int)((long long)at.rank * at.k_tiles / CLUSTER_K) : 0;
    at.k_end = at.split ? (int)((at.rank + 1LL) * at.k_tiles / CLUSTER_K) : at.k_tiles;
    const unsigned tiles_n = (unsigned)((args.n + CLUSTER_N * BLOCK_N - 1) / (CLUSTER_N * BLOCK_N)),
                   tiles_m = (unsigned)((args.m + BLOCK_M - 1) / BLOCK_M);
    const unsigned strip = sweep.tile / (GROUP_M * tiles_n), rest = sweep.tile - strip * (GROUP_M * tiles_n);
    const unsigned left = tiles_m - strip * GROUP_M, height = left < GROUP_M ? left : GROUP_M;
    at.row_tile = ((int)(rest / height) * CLUSTER_N + (CLUSTER_N > 1 ? at.rank : 0)) * CTA_TILES;
    at.x_row = (long long)(strip * GROUP_M + rest % height) * BLOCK_M;
    return at;
}

__device__ __forceinline__ void *full_barrier(unsigned char *shared, int stage) {
    return shared + BARRIERS_AT + 16 * stage;
}
__device__ __forceinline__ void *empty_barrier(unsigned char *shared, int stage) {
    return shared + BARRIERS_AT + 16 * stage + 8;
}

/* ---- producer ---- */

/* Scales and zeros of the slice: 16-byte pieces, two a group and tile of scales, then one of zeros. */
__device__ __forceinline__ void copy_side(const tern_args &args, const place &at, unsigned char *shared, int stage,
                                          int k_tile, int thread) {
    constexpr int SCALE_PIECES = CTA_TILES * groups::count * 2, PIECES = SCALE_PIECES + (HAS_ZEROS ? SCALE_PIECES / 2 : 0);
    if (!GROUPED)
        return;
#pragma unroll
    for (int first = 0; first < PIECES; first += TERN_WARPGROUP) {
        const int id = first + thread;
        if (id >= PIECES)
            break;
        const bool zero = id >= SCALE_PIECES;
        const int entry = zero ? id - SCALE_PIECES : id / 2, tile = entry / groups::count;
        const long long group = (long long)groups::first((unsigned)k_tile) + entry % groups::count;
        const long long index = (long long)(at.row_tile + tile) * args.groups + group;
        const bool inside = at.row_tile + tile < at.row_tiles && group < args.groups;
        const unsigned char *from = zero ? static_cast<const unsigned char *>(args.zeros) + 16 * index
                                         : static_cast<const unsigned char *>(args.scales) + 32 * index + 16 * (id % 2);
        unsigned char *to =
            zero ? shared + ZEROS_AT + stage * ZERO_BYTES + 16 * entry : shared + SCALES_AT + stage * SCALE_BYTES + 16 * id;
        tern_cp_async<16>(to, from, inside);
    }
}

/* Codes: lane l of the warp copies tile l; the barrier counts the bytes. Tiles outside W are left as they are. */
__device__ __forceinline__ void copy_codes(const tern_args &args, const place &at, unsigned char *shared, int stage,
                                           int k_tile, int lane) {
    constexpr int BYTES = tern_codes<BITS>::tile_bytes;
    const int left = at.row_tiles - at.row_tile, some = left < CTA_TILES ? left : CTA_TILES, inside = some > 0 ? some : 0;
    if (lane == 0)
        tern_barrier_arrive_expect(full_barrier(shared, stage), inside * BYTES + (X_BYTES - X_BYTES / CLUSTER_N));
    __syncwarp();
    if (lane < inside)
        tern_bulk_copy(shared + CODES_AT + stage * CODE_BYTES + lane * BYTES,
                       static_cast<const unsigned char *>(args.codes) +
                           ((long long)(at.row_tile + lane) * at.k_tiles + k_tile) * BYTES,
                       BYTES, full_barrier(shared, stage));
}

/* Makes the oldest slice on its way known: its copies by cp.async are complete but for the newest LEFT slices. A pair sends its
 * rows of x on; they count at the other's barrier. */
template <int LEFT> __device__ __forceinline__ void publish(unsigned char *shared, int &stage, int thread) {
    tern_cp_async_wait<LEFT>();
    tern_fence_async();
    if (CLUSTER_N > 1) {
        const int rank = (int)(blockIdx.x % CLUSTER_N);
        tern_block_sync(2, TERN_WARPGROUP);
        if (thread < 2)
            tern_bulk_share(shared + stage * X_BYTES + thread * (BLOCK_M * 128) + rank * (OWN_ROWS * 128), OWN_ROWS * 128,
                            full_barrier(shared, stage), rank ^ 1);
    }
    __syncwarp();
    if (thread % 32 == 0)
        tern_barrier_arrive(full_barrier(shared, stage));
    stage = stage + 1 == STAGES ? 0 : stage + 1;
}

/* The producer's part in adding up over a cluster: the barriers of add_over_cluster. */
__device__ __forceinline__ void meet_cluster() {
    tern_cluster_sync();
    tern_cluster_sync();
    tern_block_sync(1, THREADS);
    tern_fence_async(); /* bulk copies follow where ordinary stores were */
}

/* The producer warpgroup. It publishes a slice LAG slices after starting it. Consumers give a slice back when they are in
 * the next one, so LAG <= STAGES - 2, or both would wait. */
__device__ __forceinline__ void produce(const tern_args &args, unsigned char *shared) {
    constexpr int LAG = STAGES - 2;
    const int thread = (int)threadIdx.x % TERN_WARPGROUP, lane = thread % 32;
    tern_sweep sweep = tern_sweep_start<CLUSTER_K, CLUSTER_N>(count_tiles(args));
    tern_ring fill = {0, 1};
    int started = 0, ready = 0;
    for (; sweep.tile < sweep.tiles; tern_sweep_next<CLUSTER_K, CLUSTER_N>(sweep)) {
        const place at = find_place(args, sweep);
        const int own = CLUSTER_N > 1 ? at.rank * OWN_ROWS : 0; /* first row of x of the tile that this block loads */
        const long long row = at.x_row + own + thread / 16, left = args.m - row;
        const int rows = (int)(left < BLOCK_M ? left : BLOCK_M);
        const __half *x = static_cast<const __half *>(args.x) + row * args.k + 8 * (thread % 16);
        for (int k_tile = at.k_begin; k_tile < at.k_end; k_tile++) {
            tern_barrier_wait(empty_barrier(shared, fill.stage), fill.parity);
            if (thread < 32)
                copy_codes(args, at, shared, fill.stage, k_tile, lane);
            const bool inside = k_tile * TERN_TILE_K + 8 * (thread % 16) < args.k;
            tern_copy_rows<OWN_ROWS, BLOCK_M * 128>(shared + fill.stage * X_BYTES + own * 128, x + k_tile * TERN_TILE_K,
                                                    args.k, inside ? rows : 0, thread);
            copy_side(args, at, shared, fill.stage, k_tile, thread);
            if (COPY_ARRIVES)
                tern_cp_async_arrive(full_barrier(shared, fill.stage));
            else
                tern_cp_async_commit();
            tern_ring_advance<STAGES>(fill);
            if (COPY_ARRIVES)
                continue;
            if (started < LAG)
                started++;
            else
                publish<LAG>(shared, ready, thread);
        }
        for (; at.split && started > 0; started--)
            publish<0>(shared, ready, thread);
        if (at.split)
            meet_cluster();
    }
    for (; started > 0; started--)
        publish<0>(shared, ready, thread);
}

/* ---- consumers ---- */

/* Registers of a consumer thread. */
struct consumer {
    float sum[ROW_BLOCKS][BLOCK_M / 2];                   /* fp32 result */
    float part[SCALE_SUMS ? ROW_BLOCKS : 1][BLOCK_M / 2]; /* sum of one scale group, not yet scaled */
    unsigned words[ROW_BLOCKS][tern_codes<BITS>::words];  /* codes of the 128-k tile, loaded as needed */
    tern_zero_bias zero[ROW_BLOCKS];
    unsigned scale[ROW_BLOCKS]; /* (row g, row g + 8) in binary16 */
    int warpgroup, warp, lane;  /* warp within the warpgroup */
};

/* The warp's 16-row tile in row block b, counted from the first of the CTA. */
__device__ __forceinline__ int own_tile(const consumer &state, int b) {
    return (state.warpgroup * ROW_BLOCKS + b) * 4 + state.warp;
}

/* Loads the 16-byte chunk of codes whose first use is the 32-k block `block` of the tile. */
__device__ __forceinline__ void load_words(consumer &state, const unsigned char *codes, int block) {
    constexpr int BLOCKS_A_CHUNK = BITS == 8 ? 1 : BITS == 4 ? 2 : 4;
    if (block % BLOCKS_A_CHUNK != 0)
        return;
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        const unsigned char *tile = codes + own_tile(state, b) * tern_codes<BITS>::tile_bytes;
        tern_load_natural<BITS>(state.words[b], tile, block / BLOCKS_A_CHUNK, state.lane);
    }
}

/* Scales and zero points that hold from 32-k block `block` of k tile `k_tile` on. */
__device__ __forceinline__ void load_group(consumer &state, const unsigned char *scales, const unsigned char *zeros,
                                           unsigned k_tile, int block) {
    if (!GROUPED || block * 32 % groups::step != 0)
        return;
    const int slot = groups::slot(k_tile, block);
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        const int entry = (own_tile(state, b) * groups::count + slot) * 8 + state.lane / 4;
        state.scale[b] = *reinterpret_cast<const unsigned *>(scales + 4 * entry);
        if (HAS_ZEROS) {
            const unsigned pair = *reinterpret_cast<const unsigned short *>(zeros + 2 * entry);
            state.zero[b] = tern_zero_biases<BITS>(pair & 0xff, pair >> 8);
        }
    }
}

/* Adds the finished group, scaled in fp32. */
__device__ __forceinline__ void flush_group(consumer &state) {
#pragma unroll
    for (int b = 0; b < (SCALE_SUMS ? ROW_BLOCKS : 0); b++) {
        const float2 scale = __half22float2(tern_as_half2(state.scale[b]));
        tern_wgmma_pin(state.part[SCALE_SUMS ? b : 0]);
#pragma unroll
        for (int i = 0; i < BLOCK_M / 2; i++)
            state.sum[b][i] += (i & 2 ? scale.y : scale.x) * state.part[SCALE_SUMS ? b : 0][i];
    }
}

/* A fragments of k-steps step .. step + CHUNK - 1. */
__device__ __forceinline__ void decode_chunk(const consumer &state, int step, unsigned (&a)[CHUNK][ROW_BLOCKS][4]) {
#pragma unroll
    for (int u = 0; u < CHUNK; u++)
#pragma unroll
        for (int b = 0; b < ROW_BLOCKS; b++) {
            tern_dequant_tile<BITS>(state.words[b], step + u, state.zero[b], a[u][b]);
            if (GROUPED && SCALE_WEIGHTS) {
                unsigned rows[2];
                tern_scale_rows(state.scale[b], rows);
                tern_scale_fragment(rows, a[u][b]);
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
                tern_wgmma_pin(a[u][b][i]);
        }
}

/* Starts the products of a chunk. `x` is the start address of the slice; 64 k further is the other half of it. */
__device__ __forceinline__ void issue_chunk(consumer &state, unsigned x, int step,
                                            const unsigned (&a)[CHUNK][ROW_BLOCKS][4]) {
    tern_wgmma_fence();
#pragma unroll
    for (int u = 0; u < CHUNK; u++) {
        const int s = step + u;
        const unsigned long long b_tile = tern_wgmma_descriptor(x + (unsigned)(s / 4 * (BLOCK_M * 8) + s % 4 * 2));
#pragma unroll
        for (int b = 0; b < ROW_BLOCKS; b++) {
            if (SCALE_SUMS)
                tern_wgmma<BLOCK_M>::multiply(state.part[SCALE_SUMS ? b : 0], a[u][b], b_tile, s * 16 % groups::step != 0);
            else
                tern_wgmma<BLOCK_M>::multiply(state.sum[b], a[u][b], b_tile, true);
        }
    }
    tern_wgmma_commit();
}

/* Gives a stage back: to the own producer, and to the other of a pair, which sends half of x. */
__device__ __forceinline__ void release(unsigned char *shared, int stage, int lane) {
    if (stage >= 0 && lane == 0) {
        tern_barrier_arrive(empty_barrier(shared, stage));
        if (CLUSTER_N > 1)
            tern_cluster_barrier_arrive(empty_barrier(shared, stage), (int)(blockIdx.x % CLUSTER_N) ^ 1);
    }
}

/* One 128-k slice. `released` is the stage to give back once its last products are done, or -1. */
__device__ __forceinline__ void multiply_slice(consumer &state, unsigned char *shared, int stage, unsigned k_tile,
                                               int released, unsigned (&a)[2][CHUNK][ROW_BLOCKS][4]) {
    const unsigned char *codes = shared + CODES_AT + stage * CODE_BYTES;
    const unsigned char *scales = shared + SCALES_AT + stage * SCALE_BYTES, *zeros = shared + ZEROS_AT + stage * ZERO_BYTES;
    const unsigned x = tern_uniform(tern_wgmma_start_address(shared + stage * X_BYTES));
#pragma unroll
    for (int step = 0; step < TERN_TILE_STEPS; step += CHUNK) {
        if (step % 2 == 0) {
            load_words(state, codes, step / 2);
            load_group(state, scales, zeros, k_tile, step / 2);
        }
        decode_chunk(state, step, a[step / CHUNK % 2]);
        issue_chunk(state, x, step, a[step / CHUNK % 2]);
        if (SCALE_SUMS && (step + CHUNK) * 16 % groups::step == 0) {
            tern_wgmma_wait<0>();
            flush_group(state);
        } else
            tern_wgmma_wait<1>();
        if (step == 0)
            release(shared, released, state.lane);
    }
}

/* Zero sums; zero points that do not change along K. */
__device__ __forceinline__ void start_sums(const tern_args &args, const place &at, consumer &state) {
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        state.zero[b] = tern_zero_biases<BITS>(ZERO, ZERO);
        state.scale[b] = 0;
        if (!GROUPED && HAS_ZEROS) { /* one zero point a row; rows past the end are never stored */
            const int tile = at.row_tile + own_tile(state, b), inside = tile < at.row_tiles ? tile : at.row_tiles - 1;
            const unsigned char *zeros =
                static_cast<const unsigned char *>(args.zeros) + 16LL * inside + 2 * (state.lane / 4);
            state.zero[b] = tern_zero_biases<BITS>(zeros[0], zeros[1]);
        }
#pragma unroll
        for (int i = 0; i < BLOCK_M / 2; i++)
            state.sum[b][i] = 0.0f;
    }
}

/* ---- sums to y ---- */

/* Output goes in units of 16 rows of x. With K split over a cluster each block owns UNITS / CLUSTER_K of them: it gets the
 * other blocks' sums of those units into its ring, which is idle then, [sender][row block][unit][half][thread] of 16 bytes.
 */
constexpr int UNITS = BLOCK_M / 16, OWN_UNITS = UNITS / CLUSTER_K;
constexpr int CONSUMER_THREADS = TERN_WARPGROUP * CONSUMERS;

__device__ __forceinline__ unsigned char *sum_slot(unsigned char *shared, int sender, int b, int unit, int half) {
    const int index = ((sender * ROW_BLOCKS + b) * OWN_UNITS + unit % OWN_UNITS) * 2 + half;
    return shared + 16 * (index * CONSUMER_THREADS + (int)threadIdx.x);
}

/* Adds up over the cluster, in the order own, then the others by rank. All threads of the block take part in the barriers;
 * the producer calls meet_cluster for its share. Every block is past its ring before the first store into it. */
__device__ __forceinline__ void add_over_cluster(consumer &state, unsigned char *shared, int rank) {
    tern_cluster_sync();
#pragma unroll
    for (int unit = 0; unit < UNITS; unit++) {
        const int owner = unit / OWN_UNITS, sender = rank < owner ? rank : rank - 1;
#pragma unroll
        for (int i = 0; i < 2 * ROW_BLOCKS; i++)
            if (owner != rank)
                tern_cluster_store_16(sum_slot(shared, sender, i / 2, unit, i % 2), owner,
                                      &state.sum[i / 2][8 * unit + 4 * (i % 2)]);
    }
    tern_cluster_sync();
#pragma unroll
    for (int unit = 0; unit < UNITS; unit++)
#pragma unroll
        for (int i = 0; i < 2 * ROW_BLOCKS; i++)
            if (unit / OWN_UNITS == rank)
#pragma unroll
                for (int sender = 0; sender < CLUSTER_K - 1; sender++) {
                    const float4 more = *reinterpret_cast<const float4 *>(sum_slot(shared, sender, i / 2, unit, i % 2));
                    float *d = &state.sum[i / 2][8 * unit + 4 * (i % 2)];
                    d[0] += more.x;
                    d[1] += more.y;
                    d[2] += more.z;
                    d[3] += more.w;
                }
    tern_block_sync(1, THREADS); /* the ring is the producer's again */
}

/* Rounds to binary16 and stores y: PASS units at a time through the warp's slots of shared memory, so that the 32 bytes that
 * a row of y has of the warp's 16 rows of W go out in two neighbouring lanes. N is a multiple of 8: a chunk is inside or
 * outside. */
__device__ __forceinline__ void store_sums(const tern_args &args, const place &at, consumer &state, unsigned char *shared) {
    constexpr int PASS = OWN_UNITS % 4 == 0 ? 4 : OWN_UNITS % 2 == 0 ? 2 : 1;
    unsigned char *slots = shared + OUTPUT_AT + (state.warpgroup * 4 + state.warp) * OUTPUT_BYTES;
    const long long left = args.m - at.x_row;
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        const int tile = at.row_tile + own_tile(state, b);
        const long long n = 16LL * tile + 8 * (state.lane % 2);
        const int rows = n < args.n ? (int)(left < BLOCK_M ? left : BLOCK_M) - state.lane / 2 : 0;
        float2 scale = {1.0f, 1.0f};
        if (!GROUPED) {
            const int inside = tile < at.row_tiles ? tile : at.row_tiles - 1;
            scale = __half22float2(static_cast<const __half2 *>(args.scales)[8LL * inside + state.lane / 4]);
        }
        __half *y = static_cast<__half *>(args.y) + (at.x_row + state.lane / 2) * args.n + n;
#pragma unroll
        for (int first = 0; first < UNITS; first += PASS) {
            if (at.split && first / OWN_UNITS != at.rank)
                continue;
#pragma unroll
            for (int i = 0; i < PASS; i++)
                tern_turn_put(slots + i * TERN_TURN_SLOT, &state.sum[b][8 * (first + i)], scale, state.lane);
            __syncwarp();
#pragma unroll
            for (int i = 0; i < PASS; i++)
                if (16 * (first + i) < rows)
                    tern_store_stream_16(y + 16 * (first + i) * args.n,
                                         tern_turn_get(slots + i * TERN_TURN_SLOT, state.lane));
            __syncwarp();
        }
    }
}

__device__ __forceinline__ void consume(const tern_args &args, unsigned char *shared, int warpgroup) {
    consumer state;
    state.warpgroup = warpgroup;
    state.warp = (int)threadIdx.x / 32 % 4;
    state.lane = (int)threadIdx.x % 32;
    tern_sweep sweep = tern_sweep_start<CLUSTER_K, CLUSTER_N>(count_tiles(args));
    tern_ring use = {0, 0};
    for (; sweep.tile < sweep.tiles; tern_sweep_next<CLUSTER_K, CLUSTER_N>(sweep)) {
        const place at = find_place(args, sweep);
        unsigned a[2][CHUNK][ROW_BLOCKS][4];
        int released = -1;
        start_sums(args, at, state);
        for (int k_tile = at.k_begin; k_tile < at.k_end; k_tile++) {
            tern_barrier_wait(full_barrier(shared, use.stage), use.parity);
            if (COPY_ARRIVES)
                tern_fence_async();
            multiply_slice(state, shared, use.stage, (unsigned)k_tile, released, a);
            released = use.stage;
            tern_ring_advance<STAGES>(use);
        }
        tern_wgmma_wait<0>();
#pragma unroll
        for (int b = 0; b < ROW_BLOCKS; b++)
            tern_wgmma_pin(state.sum[b]);
        release(shared, released, state.lane);
        if (at.split)
            add_over_cluster(state, shared, at.rank);
        store_sums(args, at, state, shared);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) tern_wgmma_tile(const struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    const int warpgroup = (int)tern_uniform(threadIdx.x / TERN_WARPGROUP);
    tern_wgmma_start();
    /* Full: the announcement of the codes' bytes, and the producer's threads or warps. */
    if (threadIdx.x < STAGES)
        tern_barrier_init(full_barrier(shared, (int)threadIdx.x), 1 + (COPY_ARRIVES ? TERN_WARPGROUP : 4));
    else if (threadIdx.x < 2 * STAGES)
        tern_barrier_init(empty_barrier(shared, (int)threadIdx.x - STAGES), 4 * CONSUMERS * CLUSTER_N);
    __syncthreads();
    if (CLUSTER_N > 1)
        tern_cluster_sync();
    if (warpgroup == CONSUMERS) {
        if (MOVE_REGISTERS)
            tern_registers_lower<PRODUCER_REGISTERS>();
        produce(args, shared);
    } else {
        if (MOVE_REGISTERS)
            tern_registers_raise<CONSUMER_REGISTERS>();
        consume(args, shared, warpgroup);
    }
    if (CLUSTER_N > 1) /* the other block may still arrive here */
        tern_cluster_sync();
}
