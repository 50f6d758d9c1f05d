/* wgmma-a8: y[M,N] = x8[M,K] * W[N,K]^T for prefill on Hopper, op linear-a8: quantised W, x quantised to int8 with one scale a row
 * (tern/quantise_x.cuh, the prologue), exact s32 sums, binary16 y.
 *
 * Warp-specialised and persistent. One warpgroup produces a ring of STAGES slices of 128 k: x, that the prologue has left in
 * the swizzle of the tensor cores, by one bulk copy; code words, scales and zero points by cp.async. CONSUMERS warpgroups multiply: W is the 64-row
 * operand of wgmma, decoded to bytes q - z in registers (four stacked 16-row tiles of layout frag16x128, one a warp), x the
 * shared-memory operand with BLOCK_M columns. While one chunk of steps multiplies, the next is decoded.
 *
 * Scales of W. One a row: s32 sums over all of K, scaled in the epilogue. Groups, exact: the s32 sums of a group times its
 * scale are added to fp32 sums. Groups with ROUND_SCALES: scales are rounded to 7 bits of the largest of the row, that is to
 * integers of -127 .. 127, the decoded bytes are 0 or plus or minus that integer, and sums go over all of K as with one scale a
 * row; each weight is off by up to 1/254 of the row's largest scale.
 *
 * Parameters, constexpr ints in front of this file (space.lua has values and limits):
 *   BLOCK_M         rows of x of a CTA, columns of the wgmma
 *   CONSUMERS       warpgroups that multiply
 *   ROW_BLOCKS      64-row blocks of W of each; a tile has up to 64 * CONSUMERS * ROW_BLOCKS rows
 *   STAGES          slices of 128 k in the ring, 3 or more
 *   CHUNK           steps of 32 k decoded and committed together: 1 or 2
 *   CLUSTER_K       blocks of a cluster that split K; their fp32 sums meet in shared memory
 *   STREAM_K        1: tiles are cut along K so that all blocks have equally much to do (tern/stream_k.cuh); 0: whole tiles
 *   GROUP_M         BLOCK_M tiles that neighbouring CTAs sweep together, so that x and W are shared in L2
 *   ROUND_SCALES    1: see above, ternary weights in groups of a multiple of 128
 *   BY_ADDING       1: sums of groups become floats by two additions, 0: by the conversion instruction
 *   BITS, ZERO, HAS_ZEROS, GROUP    the format; GROUP 0 is one scale a row
 * Tails: any M, N a multiple of 8, K a multiple of 32, short last group. Results do not depend on timing.
 * Bound by the s8 tensor cores; with exact groups by the conversion of their sums. */
#include "tern/abi.h"
#include "tern/byte_kinds.cuh"
#include "tern/cluster_sum.cuh"
#include "tern/groups.cuh"
#include "tern/memory.cuh"
#include "tern/quantise_x.cuh"
#include "tern/row_scales.cuh"
#include "tern/s8_slice.cuh"
#include "tern/slice_ring.cuh"
#include "tern/stream_sum.cuh"
#include "tern/tile_copy.cuh"
#include "tern/tile_plan.cuh"
#include "tern/wgmma_store.cuh"

constexpr int THREADS = TERN_WARPGROUP * (CONSUMERS + 1);
constexpr int BLOCKS = CONSUMERS * ROW_BLOCKS; /* 64-row blocks of W that a tile has at most, */
constexpr int CTA_TILES = 4 * BLOCKS;          /* in 16-row tiles */
constexpr bool GROUPED = GROUP > 0;
constexpr bool MIXED = tern_s8_mixed<BITS, GROUP>;
typedef struct tern_groups<GROUP> groups;
typedef struct tern_slice_bytes<BITS, GROUP, HAS_ZEROS, CTA_TILES> slice;
typedef struct tern_bytes<E4M3, BITS, MIXED> bytes;
constexpr int SUM_K = GROUPED ? groups::scale_k : TERN_TILE_K; /* of a part */
constexpr bool PARTS = E4M3 || (GROUPED && !ROUND_SCALES); /* parts are added up, with their scales if there are groups */
constexpr int CHUNKS = TERN_S8_STEPS / CHUNK;

/* Shared memory: [x ring][code ring][scale ring][zero ring][output slots][scales of tokens][barriers]; bytes of one ring entry. */
constexpr int X_BYTES = BLOCK_M * TERN_TILE_K;
constexpr int TILE_BYTES = tern_codes<BITS>::tile_bytes;
constexpr int CODES_AT = STAGES * X_BYTES;
constexpr int SCALES_AT = CODES_AT + STAGES * slice::codes;
constexpr int ZEROS_AT = SCALES_AT + STAGES * slice::scales;
constexpr int OUTPUT_AT = ZEROS_AT + STAGES * slice::zeros;
constexpr int TOKENS_AT = OUTPUT_AT + 4 * CONSUMERS * TERN_STORE_SLOT; /* binary32, for each warpgroup */
constexpr int TOKEN_BYTES = 4 * BLOCK_M;
constexpr int BARRIERS_AT = TOKENS_AT + CONSUMERS * TOKEN_BYTES;
constexpr int SUM_BARRIER_AT = BARRIERS_AT + STAGES * TERN_SLICE_BARRIERS; /* CLUSTER_K: of sums from other CTAs */

/* Workspace: [quantised x][largest scales of rows: ROUND_SCALES][counters][slots of sums: STREAM_K], as in wgmma-tile. */
constexpr long long SLOT_BYTES = 4LL * 64 * BLOCKS * BLOCK_M;

/* Registers a thread: launched with ENTRY each; consumers take what producers give. */
constexpr int ENTRY_REGISTERS = 65536 / THREADS / 8 * 8;
constexpr bool MOVE_REGISTERS = ENTRY_REGISTERS < 240;
constexpr int PRODUCER_REGISTERS = 56;
constexpr int OFFERED_REGISTERS = (ENTRY_REGISTERS * (CONSUMERS + 1) - PRODUCER_REGISTERS) / CONSUMERS / 8 * 8;
constexpr int CONSUMER_REGISTERS = OFFERED_REGISTERS < 240 ? OFFERED_REGISTERS : 240;
static_assert(CONSUMER_REGISTERS * CONSUMERS + PRODUCER_REGISTERS <= ENTRY_REGISTERS * (CONSUMERS + 1),
              "registers taken by setmaxnreg must have been given, or the kernel hangs");
static_assert(STAGES >= 3, "a slice is released while the next one is used and one is on its way");
static_assert(ROW_BLOCKS <= 2, "consume has a form for one and for all row blocks");
static_assert(CHUNKS % 2 == 0, "two sets of A registers take turns");
static_assert(!PARTS || SUM_K % (32 * CHUNK) == 0, "a chunk lies inside a scale group");
static_assert(BLOCK_M % (16 * CLUSTER_K) == 0, "blocks of a cluster own equally many 16 rows of x");
static_assert(CLUSTER_K == 1 || !STREAM_K, "sums of whole blocks only go through global memory");
static_assert((CLUSTER_K - 1) * (BLOCK_M / CLUSTER_K) * BLOCKS * 256 <= OUTPUT_AT, "sums of a cluster fit in the ring");
static_assert(!ROUND_SCALES || (MIXED && GROUPED && ZERO == 1 && !HAS_ZEROS && !E4M3),
              "rounded scales are for int8 and ternary groups of a tile or more");
static_assert(BITS < 8 || (!HAS_ZEROS && !E4M3), "q - z has nine bits, in e4m3 it has five");

typedef struct tern_plan<BLOCKS, BLOCK_M, GROUP_M, CLUSTER_K, STREAM_K> plan;

__device__ __forceinline__ void *barrier_of(unsigned char *shared, int stage, tern_slice_barrier which) {
    return tern_slice_barrier_of(shared + BARRIERS_AT, stage, which);
}

/* ---- prologue ---- */

constexpr int QUANTISE_THREADS = 256;

/* A block quantises a row of x; those behind find the largest scales of 128 rows of W. */
extern "C" __global__ void __launch_bounds__(QUANTISE_THREADS) tern_wgmma_a8_quantise(const struct tern_args args) {
    if (blockIdx.x < args.m)
        tern_quantise_row<E4M3, BITS, GROUP, QUANTISE_THREADS>(args, blockIdx.x);
    else if (ROUND_SCALES)
        tern_largest_scales(args, reinterpret_cast<float *>(tern_x8_end(args)),
                            (blockIdx.x - args.m) * (QUANTISE_THREADS / 32) + threadIdx.x / 32, (int)threadIdx.x % 32);
}

/* ---- producers ---- */

/* The warp's share of a slice; warp 0 has the copy engine bring x as well. */
__device__ __forceinline__ void copy_slice(const tern_args &args, const tern_x8 &x8, const tern_place &at,
                                           const tern_tile_source &source, unsigned char *shared, int stage, int k_tile,
                                           int warp, int lane) {
    void *full = barrier_of(shared, stage, TERN_FULL);
    if (warp == 0 && lane == 0) {
        const long long x_left = x8.pitch - at.x_row;
        const int x_bytes = (int)(x_left < BLOCK_M ? x_left : BLOCK_M) * TERN_TILE_K;
        tern_barrier_arrive_expect(full, x_bytes);
        tern_bulk_copy(shared + stage * X_BYTES, x8.codes + (k_tile * x8.pitch + at.x_row) * TERN_TILE_K, x_bytes, full);
    }
    __syncwarp();
    tern_copy_codes<BLOCKS, TILE_BYTES>(shared + CODES_AT + stage * slice::codes, source, warp, lane);
    tern_copy_groups<BLOCKS, GROUP, HAS_ZEROS>(args, source, k_tile, shared + SCALES_AT + stage * slice::scales,
                                               shared + ZEROS_AT + stage * slice::zeros, warp, lane);
    tern_cp_async_arrive(full);
}

__device__ __forceinline__ void produce(const tern_args &args, unsigned char *shared) {
    const int lane = (int)threadIdx.x % 32, warp = (int)tern_uniform(threadIdx.x % TERN_WARPGROUP / 32);
    const tern_x8 x8 = tern_x8_of(args);
    tern_ring fill = {0, 1};
    tern_place at;
    plan tiles(args, at);
    while (tiles.next(at)) {
        tern_tile_source source = tern_tile_source_of<TILE_BYTES>(args, at, warp, lane);
        for (int k_tile = at.k_begin; k_tile < at.k_end; k_tile++) {
            tern_barrier_wait(barrier_of(shared, fill.stage, TERN_EMPTY), fill.parity);
            copy_slice(args, x8, at, source, shared, fill.stage, k_tile, warp, lane);
            source.codes += TILE_BYTES;
            tern_ring_advance<STAGES>(fill);
        }
        __syncwarp();
        if (CLUSTER_K > 1) { /* the barrier of tern_cluster_sum, and the one behind the sums */
            tern_cluster_pass();
            tern_block_sync(1, THREADS);
            tern_fence_async(); /* bulk copies follow where ordinary stores were */
        }
    }
}

/* ---- consumers ---- */

/* Registers of a consumer thread. */
struct consumer {
    float sum[ROW_BLOCKS][BLOCK_M / 2];                  /* result; of parts while they are added up, else at the end */
    bytes::sum part[ROW_BLOCKS][BLOCK_M / 2];            /* of SUM_K, else of all K */
    unsigned words[ROW_BLOCKS][tern_codes<BITS>::words]; /* codes of the slice, loaded as needed */
    tern_s8_rows rows[ROW_BLOCKS];
    unsigned scale[ROW_BLOCKS]; /* (row g, row g + 8) in binary16 */
    float2 unit[ROW_BLOCKS];    /* ROUND_SCALES: 1 / 127 of the row's largest scale, */
    float2 inverse[ROW_BLOCKS]; /* and one over that */
    float2 token;               /* scales of two rows of x, of those that the warpgroup keeps for its epilogue */
    int groups;                 /* of W along K */
    int warpgroup, warp, lane;  /* warp within the warpgroup */
    int sums_parity;            /* of the barrier of sums from other CTAs */
};

/* The warp's 16-row tile in row block b of its warpgroup, counted from the first of the CTA's tile. Blocks go round the
 * warpgroups, so that a low tile occupies all of them. */
__device__ __forceinline__ int own_tile(const consumer &state, int b) {
    return (b * CONSUMERS + state.warpgroup) * 4 + state.warp;
}

/* Bytes for ternary codes 0, 1, 2: minus r, 0, r, where r is the scale in units of 1 / 127 of the largest. */
__device__ __forceinline__ unsigned rounded_values(float scale, float inverse) {
    const unsigned r = __float_as_uint(__fmaf_rn(scale, inverse, 12582912.0f));
    return (r & 0xFF) << 16 | (0u - r & 0xFF);
}

/* Scales and zero points that hold from step `step` of k tile `k_tile` on. */
template <int ACTIVE>
__device__ __forceinline__ void load_group(consumer &state, const unsigned char *scales, const unsigned char *zeros,
                                           int k_tile, int step) {
    if (!GROUPED || step * 32 % groups::scale_k != 0)
        return;
#pragma unroll
    for (int b = 0; b < ACTIVE; b++) {
        state.scale[b] = tern_group_scales<GROUP>(scales, own_tile(state, b), k_tile, step, state.groups, state.lane);
        if (HAS_ZEROS) {
            const unsigned pair = tern_group_zeros<GROUP>(zeros, own_tile(state, b), k_tile, step, state.lane);
            state.rows[b] = bytes::zeros(pair & 0xFF, pair >> 8);
        }
        if (ROUND_SCALES) {
            const float2 pair = __half22float2(tern_as_half2(state.scale[b]));
            state.rows[b] = {{rounded_values(pair.x, state.inverse[b].x), rounded_values(pair.y, state.inverse[b].y)}};
        }
    }
}

typedef unsigned fragments[CHUNK][ROW_BLOCKS][4]; /* A of the steps of a chunk */

/* A fragments of steps step .. step + CHUNK - 1 of the slice in `stage`. */
template <int ACTIVE>
__device__ __forceinline__ void decode_chunk(consumer &state, unsigned char *shared, int stage, int k_tile, int step,
                                             fragments &a) {
#pragma unroll
    for (int u = 0; u < CHUNK; u++) {
        const unsigned char *codes = shared + CODES_AT + stage * slice::codes;
#pragma unroll
        for (int b = 0; b < ACTIVE; b++)
            tern_load_words<BITS>(state.words[b], codes, own_tile(state, b), step + u, state.lane);
        load_group<ACTIVE>(state, shared + SCALES_AT + stage * slice::scales, shared + ZEROS_AT + stage * slice::zeros,
                           k_tile, step + u);
#pragma unroll
        for (int b = 0; b < ACTIVE; b++) {
            bytes::fragment(state.words[b], step + u, state.rows[b], a[u][b]);
#pragma unroll
            for (int i = 0; i < 4; i++)
                tern_wgmma_pin(a[u][b][i]);
        }
    }
}

/* Starts the products of a chunk; `x` is the start address of the slice. */
template <int ACTIVE>
__device__ __forceinline__ void issue_chunk(consumer &state, unsigned x, int step, const fragments &a) {
    tern_wgmma_fence();
#pragma unroll
    for (int u = 0; u < CHUNK; u++) {
        const unsigned long long b_tile = tern_wgmma_descriptor(x + (unsigned)(step + u) * 2);
#pragma unroll
        for (int b = 0; b < ACTIVE; b++)
            bytes::multiply(state.part[b], a[u][b], b_tile, !PARTS || (step + u) * 32 % SUM_K != 0);
    }
    tern_wgmma_commit();
}

/* The warp has read a stage. */
__device__ __forceinline__ void release(const consumer &state, unsigned char *shared, int stage) {
    tern_warp_arrive(barrier_of(shared, stage, TERN_EMPTY), state.lane, stage >= 0);
}

/* The warpgroup's slices of a tile, of which it has ACTIVE row blocks; `use` is the place of the first in the ring. While a
 * chunk multiplies, the next one is decoded, which at the end of a slice is the first of the next slice. */
template <int ACTIVE>
__device__ __forceinline__ void multiply_tile(const tern_place &at, consumer &state, unsigned char *shared, tern_ring use) {
    fragments a[2];
    int released = -1; /* stage to give back when its last products are done */
    tern_barrier_wait(barrier_of(shared, use.stage, TERN_FULL), use.parity);
    decode_chunk<ACTIVE>(state, shared, use.stage, at.k_begin, 0, a[0]);
    for (int k_tile = at.k_begin; k_tile < at.k_end; k_tile++) {
        const int stage = use.stage;
        const unsigned x = tern_uniform(tern_wgmma_start_address(shared + stage * X_BYTES));
        tern_ring_advance<STAGES>(use);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            fragments &next = a[(c + 1) % 2];
            issue_chunk<ACTIVE>(state, x, c * CHUNK, a[c % 2]);
            tern_wgmma_wait<1>();
            if (c == 0)
                release(state, shared, released);
            float2 scale[ROW_BLOCKS];
#pragma unroll
            for (int b = 0; b < ROW_BLOCKS; b++)
                scale[b] = GROUPED ? __half22float2(tern_as_half2(state.scale[b])) : float2{1.0f, 1.0f};
            if (c + 1 < CHUNKS)
                decode_chunk<ACTIVE>(state, shared, stage, k_tile, (c + 1) * CHUNK, next);
            else if (k_tile + 1 < at.k_end) {
                tern_barrier_wait(barrier_of(shared, use.stage, TERN_FULL), use.parity);
                decode_chunk<ACTIVE>(state, shared, use.stage, k_tile + 1, 0, next);
            }
            if (PARTS && (c + 1) * CHUNK * 32 % SUM_K == 0) {
                tern_wgmma_wait<0>();
#pragma unroll
                for (int b = 0; b < ACTIVE; b++)
                    bytes::add_scaled<BY_ADDING>(state.sum[b], state.part[b], scale[b]);
            }
        }
        released = stage;
    }
    tern_wgmma_wait<0>();
#pragma unroll
    for (int b = 0; b < ACTIVE; b++)
        tern_wgmma_pin(state.part[b]);
    release(state, shared, released);
}

/* The same for a warpgroup without rows in the tile. */
__device__ __forceinline__ void skip_tile(const tern_place &at, const consumer &state, unsigned char *shared,
                                          tern_ring use) {
    for (int k_tile = at.k_begin; k_tile < at.k_end; k_tile++) {
        tern_barrier_wait(barrier_of(shared, use.stage, TERN_FULL), use.parity);
        release(state, shared, use.stage);
        tern_ring_advance<STAGES>(use);
    }
}

/* Zero sums; what does not change along K. Rows past the end are never stored. */
__device__ __forceinline__ void start_sums(const tern_args &args, const tern_place &at, consumer &state) {
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        const int tile = at.row_tile + own_tile(state, b), inside = tile < at.row_tiles ? tile : at.row_tiles - 1;
        state.rows[b] = bytes::zeros(ZERO, ZERO);
        state.scale[b] = 0;
        if (!GROUPED && HAS_ZEROS) { /* one zero point a row */
            const unsigned pair = tern_row_zeros(args, inside, state.lane);
            state.rows[b] = bytes::zeros(pair & 0xFF, pair >> 8);
        }
        if (ROUND_SCALES) {
            const float2 largest = reinterpret_cast<const float2 *>(tern_x8_end(args))[8LL * inside + state.lane / 4];
            state.unit[b] = float2{largest.x / 127.0f, largest.y / 127.0f};
            state.inverse[b] =
                float2{largest.x > 0.0f ? 127.0f / largest.x : 0.0f, largest.y > 0.0f ? 127.0f / largest.y : 0.0f};
        }
#pragma unroll
        for (int i = 0; i < BLOCK_M / 2; i++) {
            state.sum[b][i] = 0.0f;
            state.part[b][i] = 0;
        }
    }
    if (2 * (int)(threadIdx.x % TERN_WARPGROUP) < BLOCK_M)
        state.token = reinterpret_cast<const float2 *>(tern_x8_of(args).scales + at.x_row)[threadIdx.x % TERN_WARPGROUP];
}

/* ---- sums to y ---- */

/* A warpgroup's part of a cut tile: true if it is the last one there; then it has the sums of all. */
__device__ __forceinline__ bool join_parts(const tern_args &args, const tern_place &at, consumer &state,
                                           unsigned char *shared, int active) {
    unsigned char *counters = tern_x8_end(args) + (ROUND_SCALES ? tern_largest_bytes(args.n) : 0);
    tern_join join = tern_join_make<CONSUMERS, SLOT_BYTES>(counters, at.part, state.warpgroup);
    join.answer = reinterpret_cast<unsigned *>(shared + OUTPUT_AT + state.warpgroup * 4 * TERN_STORE_SLOT);
    join.barrier = 2 + state.warpgroup;
    return tern_stream_join(join, state.sum, active) != 0;
}

/* Times the scales of the tokens and, where they are one a row, of W. */
__device__ __forceinline__ void store_sums(const tern_args &args, const tern_place &at, consumer &state,
                                           unsigned char *shared, int active) {
    const tern_store to = {shared + OUTPUT_AT + state.warpgroup * 4 * TERN_STORE_SLOT,
                           2 + state.warpgroup,
                           state.warp,
                           state.lane,
                           at.x_row,
                           at.rank};
    float2 *tokens = reinterpret_cast<float2 *>(shared + TOKENS_AT + state.warpgroup * TOKEN_BYTES);
    if (2 * (int)(threadIdx.x % TERN_WARPGROUP) < BLOCK_M)
        tokens[threadIdx.x % TERN_WARPGROUP] = float2{bytes::unit * state.token.x, bytes::unit * state.token.y};
    tern_block_sync(2 + state.warpgroup, TERN_WARPGROUP);
#pragma unroll
    for (int i = 0; i < BLOCK_M / 8; i++) {
        const float2 token = tokens[4 * i + state.lane % 4];
#pragma unroll
        for (int b = 0; b < ROW_BLOCKS; b++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                state.sum[b][4 * i + j] *= j % 2 ? token.y : token.x;
    }
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        if (b >= active)
            break;
        const int tile = at.row_tile + own_tile(state, b);
        const float2 scale = ROUND_SCALES ? state.unit[b]
                             : GROUPED    ? float2{1.0f, 1.0f}
                                          : tern_row_scales(args, tile, at.row_tiles, state.lane);
        tern_store_sums<CLUSTER_K>(args, to, tile, scale, state.sum[b]);
    }
}

/* Sums over all of K as floats: exact below 2^24. */
__device__ __forceinline__ void finish_sums(consumer &state) {
    if (PARTS)
        return;
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < BLOCK_M / 2; i++)
            state.sum[b][i] = (float)state.part[b][i];
}

__device__ __forceinline__ void consume(const tern_args &args, unsigned char *shared, int warpgroup) {
    consumer state;
    state.groups = (int)args.groups;
    state.warpgroup = warpgroup;
    state.warp = (int)threadIdx.x / 32 % 4;
    state.lane = (int)threadIdx.x % 32;
    state.sums_parity = 0;
    tern_ring use = {0, 0};
    tern_place at;
    plan tiles(args, at);
    while (tiles.next(at)) {
        const int active = at.blocks > warpgroup ? (at.blocks - warpgroup + CONSUMERS - 1) / CONSUMERS : 0;
        tern_ring first = use;
        tern_ring_skip<STAGES>(use, at.k_end - at.k_begin);
        start_sums(args, at, state);
        if (active == 0 || at.k_begin >= at.k_end)
            skip_tile(at, state, shared, first);
        else if (active == ROW_BLOCKS)
            multiply_tile<ROW_BLOCKS>(at, state, shared, first);
        else
            multiply_tile<1>(at, state, shared, first);
        __syncwarp();
        finish_sums(state);
        if (CLUSTER_K > 1) {
            tern_cluster_sum<CLUSTER_K, TERN_WARPGROUP * CONSUMERS>(state.sum, shared, shared + SUM_BARRIER_AT,
                                                                    state.sums_parity, at.rank);
            state.sums_parity ^= 1;
            tern_block_sync(1, THREADS); /* the ring is the producers' again */
        }
        if (STREAM_K && at.part.all > 1 && (active == 0 || !join_parts(args, at, state, shared, active)))
            continue;
        store_sums(args, at, state, shared, active);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) tern_wgmma_a8(const struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    const int warpgroup = (int)tern_uniform(threadIdx.x / TERN_WARPGROUP);
    tern_wgmma_start();
    if (threadIdx.x < STAGES)
        tern_slice_init(shared + BARRIERS_AT, (int)threadIdx.x, 1 + TERN_WARPGROUP, 4 * CONSUMERS * TERN_WARP_ARRIVALS);
    if (CLUSTER_K > 1 && threadIdx.x == STAGES)
        tern_barrier_init(shared + SUM_BARRIER_AT, 1);
    __syncthreads();
    if (warpgroup == CONSUMERS) {
        if (MOVE_REGISTERS)
            tern_registers_lower<PRODUCER_REGISTERS>();
        produce(args, shared);
    } else {
        if (MOVE_REGISTERS)
            tern_registers_raise<CONSUMER_REGISTERS>();
        consume(args, shared, warpgroup);
    }
}
