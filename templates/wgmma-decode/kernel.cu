/* wgmma-decode: y[M,N] = x[M,K] * W[N,K]^T for M = 16 to 64 on Hopper: quantised W, fp32 accumulation.
 *
 * W is the 64-row operand of wgmma, dequantised into registers (swap-AB; four stacked 16-row tiles of layout frag16x128, one
 * a warp), x the shared-memory operand with BLOCK_M columns. A CTA has WARPS_N * WARPS_K warpgroups that multiply, those of
 * equal k side by side along N, and four warps beside: three that copy x, and one that makes it known to the tensor cores.
 *
 * Weights belong to one warp each, so each warp streams its own by cp.async into a ring of SLOTS k tiles, and no other warp
 * waits for them (tern/warp_weights.cuh). x is shared: a ring of STAGES slices of 128 k for each of the WARPS_K parts of K, copied
 * by cp.async into swizzled tiles (tern/slice_deal.cuh). While one half of a slice multiplies, the next is dequantised into a second set of registers.
 *
 * Parameters, constexpr ints in front of this file (space.lua has values and limits):
 *   BLOCK_M         rows of x of a CTA, columns of the wgmma
 *   WARPS_N         warpgroups side by side along N
 *   WARPS_K         warpgroups that split the CTA's part of K; their sums meet in shared memory
 *   ROW_BLOCKS      64-row blocks of W that a warpgroup has at once: each slice of x serves all of them
 *   CLUSTER_K       CTAs of a cluster that split K; their sums meet in shared memory
 *   STAGES          slices of x in its ring, 3 or more
 *   SLOTS           k tiles of weights in the ring of a warp
 *   SCALE_WEIGHTS   1: group scale times (q - z) in the type of x before the multiply; 0: fp32 scale on the sums of each group
 *   ROUND_WEIGHTS   says that SCALE_WEIGHTS rounds (it does not for ternary in binary16); not used here
 *   BITS, ZERO, HAS_ZEROS, GROUP    the format; GROUP 0 is one scale a row, applied in the epilogue
 * Tails: any M, N a multiple of 8, K a multiple of 32, short last group. Out-of-range x is read as zero. Sums are added in
 * a fixed order: results do not depend on timing.
 * Bound by the instructions of dequantisation up to M = 32, by the tensor cores from 64 on. */
#include "tern/abi.h"
#include "tern/cluster_sum.cuh"
#include "tern/groups.cuh"
#include "tern/memory.cuh"
#include "tern/part_sum.cuh"
#include "tern/slice_deal.cuh"
#include "tern/sweep.cuh"
#include "tern/warp_weights.cuh"
#include "tern/wgmma.cuh"
#include "tern/wgmma_codes.cuh"
#include "tern/wgmma_store.cuh"

constexpr int WARPGROUPS = WARPS_N * WARPS_K, CONSUMERS = TERN_WARPGROUP * WARPGROUPS; /* CONSUMERS in threads */
constexpr int THREADS = CONSUMERS + TERN_WARPGROUP;
constexpr int BLOCKS = WARPS_N * ROW_BLOCKS; /* 64-row blocks of W that a tile has at most */
constexpr int PARTS = CLUSTER_K * WARPS_K;   /* of K */
constexpr bool GROUPED = GROUP > 0;
typedef struct tern_groups<GROUP> groups;
constexpr bool SCALE_SUMS = GROUPED && !SCALE_WEIGHTS;
/* k-steps of 16 that are dequantised and committed together; sums of a group want whole ones. As many sets of A registers as
 * a k tile has chunks. */
constexpr int CHUNK = SCALE_SUMS && groups::scale_k == 32 ? 2 : 4, CHUNKS = TERN_TILE_STEPS / CHUNK;

/* Shared memory: [x ring][weight rings of the warps][output slots][barriers]. */
constexpr int X_BYTES = 2 * BLOCK_M * TERN_TILE_K; /* two halves of 64 k, rows of 128 bytes, swizzled; of one part of K */
typedef struct tern_warp_weights<BITS, groups, GROUPED, (HAS_ZEROS != 0), ROW_BLOCKS, 4 * WARPS_N, SLOTS> weights;
constexpr int WEIGHTS_AT = STAGES * WARPS_K * X_BYTES;
constexpr int OUTPUT_AT = WEIGHTS_AT + 4 * WARPGROUPS * weights::ring_bytes;
constexpr int BARRIERS_AT = OUTPUT_AT + 4 * WARPS_N * TERN_STORE_SLOT;
constexpr int SUM_BARRIERS_AT =
    BARRIERS_AT + STAGES * TERN_SLICE_BARRIERS; /* of sums from other CTAs, one for each WARPS_N */
/* fp32 sums meet in the ring of x, which is idle then: those of the other parts of K, and behind them those of the other CTAs. */
constexpr int PART_SUMS = TERN_PART_SUM_BYTES(WARPS_K, BLOCKS, BLOCK_M / 2);
typedef struct tern_units<CLUSTER_K, ROW_BLOCKS, BLOCK_M / 16> units;
constexpr int CLUSTER_SUMS = TERN_PART_SUM_BYTES(CLUSTER_K, WARPS_N, 8 * units::most);

constexpr int PRODUCER_REGISTERS = WARPGROUPS > 3 ? 32 : 56,
              CONSUMER_REGISTERS = tern_consumer_registers(WARPGROUPS, PRODUCER_REGISTERS);

static_assert(STAGES >= 3 && STAGES < 32, "a slice is released while the next one is used and one is on its way");
static_assert(SLOTS >= 2, "a slot to use and one to fill");
static_assert(PART_SUMS + CLUSTER_SUMS <= WEIGHTS_AT, "sums fit in the ring of x");

enum { ALL_THREADS = 1, ALL_CONSUMERS = 2, OUTPUT = 3 }; /* named barriers; OUTPUT one for each WARPS_N */

/* ---- who works on what ---- */

/* What a warp is and which part of K is its own; the same for all tiles. */
struct worker {
    int lane, warp, n, part; /* warp within its warpgroup; place of that along N and along K */
    int row_tiles, k_tiles;  /* of W */
    int k_begin, k_end;      /* its k tiles */
    int steps;               /* slices that the ring of x brings a tile: those of the longest part */
    int rank;                /* of the CTA in its cluster */
    int ring;                /* byte of shared memory where the warp's ring of weights begins */
};

__device__ __forceinline__ int part_begin(int part, int k_tiles) {
    return (int)((unsigned)part * (unsigned)k_tiles / PARTS);
}

__device__ __forceinline__ worker find_worker(const tern_args &args) {
    worker self;
    const int warpgroup = (int)tern_uniform(threadIdx.x / TERN_WARPGROUP);
    self.lane = (int)threadIdx.x % 32;
    self.warp = (int)threadIdx.x / 32 % 4;
    self.n = warpgroup % WARPS_N;
    self.part = warpgroup / WARPS_N;
    self.row_tiles = (int)(((unsigned)args.n + 15) / 16); /* N and K below 2^31: the shortest code, which is cold */
    self.k_tiles = (int)(((unsigned)args.k + TERN_TILE_K - 1) / TERN_TILE_K);
    self.rank = CLUSTER_K > 1 ? (int)(blockIdx.x % CLUSTER_K) : 0;
    const int first = self.rank * WARPS_K;
    self.k_begin = part_begin(first + self.part, self.k_tiles);
    self.k_end = part_begin(first + self.part + 1, self.k_tiles);
    self.ring = WEIGHTS_AT + (int)tern_uniform(threadIdx.x / 32) * weights::ring_bytes;
    self.steps = (self.k_tiles + PARTS - 1) / PARTS;
    return self;
}

/* The tiles of this CTA, or cluster: all its blocks work on the same ones. */
__device__ __forceinline__ tern_sweep start_sweep(const tern_args &args) {
    return tern_sweep_start<BLOCKS, true>(args.n, (unsigned)((args.m + BLOCK_M - 1) / BLOCK_M), blockIdx.x / CLUSTER_K,
                                          gridDim.x / CLUSTER_K);
}
__device__ __forceinline__ bool next_tile(tern_sweep &sweep) {
    return tern_sweep_next<BLOCKS, 0>(sweep);
}

/* Row blocks of the tile that the warpgroup has: blocks go round them, so that a low tile occupies all. */
__device__ __forceinline__ int own_blocks(const tern_sweep &sweep, const worker &self) {
    return ((int)sweep.blocks - self.n + WARPS_N - 1) / WARPS_N;
}
/* Which of W's row block b of those is; the warp's 16-row tile there. */
__device__ __forceinline__ int own_block(const tern_sweep &sweep, const worker &self, int b) {
    return (int)sweep.row_block + b * WARPS_N + self.n;
}
__device__ __forceinline__ int own_tile(const tern_sweep &sweep, const worker &self, int b) {
    return 4 * own_block(sweep, self, b) + self.warp;
}

/* ---- x: four warps ---- */

/* Meets the block, once. */
__device__ __forceinline__ void meet(int &started) {
    if (!started)
        tern_block_meet();
    started = 1;
    tern_hide(started); /* or the first turn of a loop becomes code of its own, which is cold once more */
}

/* A step brings a slice to each part of K, where it still has one. Slices are dealt to three warps in turn, part by part; `turn` is the warp's first. STAGES
 * is 3 or more: no warp is so far ahead of the one that had its stage before that the parity of a phase could mislead it. A warp's first one
 * is on its way before the block has met: then `started` is 0, and becomes 1. */
__device__ __forceinline__ void copy_x(const tern_args &args, const worker &self, long long x_row, unsigned char *shared,
                                       const tern_ring &fill, int turn, int &started) {
    const unsigned short *x = static_cast<const unsigned short *>(args.x) + x_row * args.k;
    const int rows = (int)(args.m - x_row);
    for (unsigned slice = (unsigned)turn; slice < (unsigned)self.steps * WARPS_K; slice += TERN_DEAL_WARPS) {
        const int part = (int)(slice % WARPS_K), step = (int)(slice / WARPS_K);
        const int k_tile = part_begin(self.rank * WARPS_K + part, self.k_tiles) + step;
        tern_ring at = fill;
        tern_ring_skip<STAGES>(at, step);
        if (started)
            tern_barrier_wait(tern_slice_barrier_of(shared + BARRIERS_AT, at.stage, TERN_EMPTY), at.parity);
        if (k_tile < part_begin(self.rank * WARPS_K + part + 1, self.k_tiles))
            tern_copy_slice<BLOCK_M>(shared + (at.stage * WARPS_K + part) * X_BYTES, x + k_tile * TERN_TILE_K, 2 * args.k,
                                     rows, (int)args.k - k_tile * TERN_TILE_K, self.lane);
        meet(started);
        tern_cp_async_arrive(tern_slice_barrier_of(shared + BARRIERS_AT, at.stage, TERN_LANDED));
    }
}

__device__ __forceinline__ void produce(const tern_args &args, unsigned char *shared) {
    const int thread = (int)threadIdx.x - CONSUMERS, warp = (int)tern_uniform((unsigned)thread / 32);
    if (thread == 0) { /* one lane: others would take turns */
#pragma unroll
        for (int stage = 0; stage < STAGES; stage++)
            tern_slice_prepare(shared + BARRIERS_AT, stage, 1, 4 * WARPGROUPS, 32 * WARPS_K);
        for (int n = 0; CLUSTER_K > 1 && n < WARPS_N; n++)
            tern_barriers_init(shared + SUM_BARRIERS_AT + 8 * n, 1, 1);
        tern_barriers_publish();
    }
    const worker self = find_worker(args);
    tern_ring fill = {0, 1};
    tern_sweep sweep = start_sweep(args);
    int started = 0, turn = warp - 1;
    while (next_tile(sweep)) {
        if (warp == 0) {
            meet(started);
            tern_slices_publish<STAGES>(shared + BARRIERS_AT, fill, self.steps, self.lane);
        } else {
            copy_x(args, self, (long long)sweep.tile_m * BLOCK_M, shared, fill, turn, started);
            turn = tern_deal_turn(turn, self.steps * WARPS_K);
            tern_ring_skip<STAGES>(fill, self.steps);
        }
        meet(started); /* where there were no k tiles */
        __syncwarp();
        if (CLUSTER_K > 1) /* that of add_up */
            tern_cluster_pass();
        if (PARTS > 1)
            tern_block_sync(ALL_THREADS, THREADS); /* the ring is free again */
    }
}

/* ---- weights: every warp streams its own ---- */

/* What a warp copies next, ahead of what it multiplies, on its own walk through the sweep. */
struct stream {
    tern_sweep sweep;
    weights next;
};

/* Goes to the next tile in which this warp has rows. */
__device__ __forceinline__ void stream_tile(const tern_args &args, const worker &self, stream &ahead) {
    int own = 0;
    while (self.k_begin < self.k_end && own == 0 && next_tile(ahead.sweep))
        own = own_blocks(ahead.sweep, self);
    const int tile = own_tile(ahead.sweep, self, 0), in_w = self.row_tiles - tile;
    ahead.next.go(args, tile, 4 * WARPS_N * own < in_w ? 4 * WARPS_N * own : in_w, self.k_tiles, self.k_begin, self.lane);
    if (own == 0)
        ahead.next.k_tile = self.k_end; /* which it has passed then for good */
}

/* Starts the copies of the next k tile into its slot, which all lanes are done with. */
__device__ __forceinline__ void copy_weights(const tern_args &args, const worker &self, stream &ahead,
                                             unsigned char *shared) {
    ahead.next.copy(args, shared, self.ring, self.lane);
    if (ahead.next.k_tile == self.k_end)
        stream_tile(args, self, ahead);
}

/* The first k tiles. The block meets behind the first one of each warp and x's first slices, which are on their way then; the others
 * would come before x, for which all wait. */
__device__ __forceinline__ stream start_stream(const tern_args &args, const worker &self, unsigned char *shared) {
    stream ahead = {};
    ahead.next.slot = self.ring;
    ahead.sweep = start_sweep(args);
    stream_tile(args, self, ahead);
#pragma unroll 1 /* code that is not in the instruction cache yet costs more than the loop */
    for (int i = 0; i < SLOTS; i++) {
        copy_weights(args, self, ahead, shared);
        if (i == 0)
            tern_block_meet();
    }
    return ahead;
}

/* ---- consumers ---- */

/* Registers of a consumer thread. */
struct consumer {
    float sum[ROW_BLOCKS][BLOCK_M / 2];      /* fp32 result */
    float part[BLOCK_M / 2];                 /* sum of one scale group, not yet scaled */
    unsigned words[tern_codes<BITS>::words]; /* codes of a tile, loaded as needed */
    tern_zero_bias zero[GROUPED ? 1 : ROW_BLOCKS];
    unsigned scale; /* (row g, row g + 8) in binary16 */
    tern_gather gather;
    int pair;                     /* byte of the lane's two scales in a group */
    tern_ring x;                  /* slice that comes next */
    unsigned x_start;             /* start address of the warpgroup's slice in stage 0 */
    const unsigned char *weights; /* slot at hand */
    int sums_parity;              /* of the barrier of sums from other CTAs */
};

typedef unsigned fragments[CHUNK][4]; /* A of the k-steps of a chunk */

/* Scales and zero points of row block b that hold from 32-k block `block` of the tile on. */
__device__ __forceinline__ void load_group(consumer &state, int k_tile, int b, int block) {
    if (!GROUPED || block * 32 % groups::scale_k != 0)
        return;
    const int slot = groups::slot(k_tile, block);
    const unsigned char *scales = state.weights + b * weights::entry_bytes + weights::tile_bytes;
    state.scale = tern_shared_load_4(scales + 32 * slot + state.pair);
    if (HAS_ZEROS) {
        const unsigned pair =
            *reinterpret_cast<const unsigned short *>(scales + weights::scale_bytes + 16 * slot + state.pair / 2);
        state.zero[0] = tern_zero_biases<BITS>(pair & 0xff, pair >> 8);
    }
}

/* A fragments of k-steps step .. step + CHUNK - 1 of row block b; codes, scales and zeros are loaded as they come. */
__device__ __forceinline__ void decode_chunk(consumer &state, int k_tile, int b, int step, fragments &a) {
    constexpr int STEPS_A_LOAD = BITS == 8 ? 2 : BITS == 4 ? 4 : 8;
#pragma unroll
    for (int u = 0; u < CHUNK; u++) {
        if ((step + u) % 2 == 0)
            load_group(state, k_tile, b, (step + u) / 2);
        if ((step + u) % STEPS_A_LOAD == 0)
            tern_gather_codes<BITS>(state.words, state.weights + b * weights::entry_bytes, (step + u) / STEPS_A_LOAD,
                                    state.gather);
        tern_dequant_tile<BITS, BF16>(state.words, step + u, state.zero[GROUPED ? 0 : b], a[u]);
        if constexpr (GROUPED && SCALE_WEIGHTS)
            tern_scale_fragment<BITS, HAS_ZEROS>(tern_scale_rows<BF16>(state.scale), a[u]);
#pragma unroll
        for (int i = 0; i < 4; i++)
            tern_wgmma_pin(a[u][i]);
    }
}

/* Starts the products of a chunk. `x` is the start address of the slice; 64 k further is the other half of it. */
template <int COUNT>
__device__ __forceinline__ void issue_chunk(float (&sum)[COUNT], unsigned x, int step, const fragments &a) {
    tern_wgmma_fence();
#pragma unroll
    for (int u = 0; u < CHUNK; u++) {
        const int s = step + u;
        tern_wgmma<BLOCK_M, BF16>::multiply(sum, a[u],
                                            tern_wgmma_descriptor(x + (unsigned)(s / 4 * (BLOCK_M * 8) + s % 4 * 2)),
                                            !SCALE_SUMS || s * 16 % groups::scale_k != 0);
    }
    tern_wgmma_commit();
}

/* Gives back the slice at hand, or the one before it. */
__device__ __forceinline__ void release(const consumer &state, unsigned char *shared, int lane, bool before) {
    const int stage = before ? (state.x.stage == 0 ? STAGES : state.x.stage) - 1 : state.x.stage;
    if (lane == 0)
        tern_barrier_arrive(tern_slice_barrier_of(shared + BARRIERS_AT, stage, TERN_EMPTY));
}

/* Waits for the oldest copies of weights; they are for the slot that comes next. */
__device__ __forceinline__ void await_weights() {
    tern_cp_async_wait<SLOTS - 1>();
    __syncwarp();
}

/* After the last use of a slot: copies into it, goes on to the next. */
__device__ __forceinline__ void next_weights(const tern_args &args, const worker &self, consumer &state, stream &ahead,
                                             unsigned char *shared) {
    __syncwarp();
    copy_weights(args, self, ahead, shared);
    state.weights = shared + ahead.next.slot; /* the oldest one is the next to be filled */
    await_weights();
}

/* The warp's k tiles of a tile of y, in which it has ACTIVE row blocks. While chunks multiply, the next one is dequantised,
 * which may be that of the next row block or k tile. */
template <int ACTIVE>
__device__ __forceinline__ void multiply_tile(const tern_args &args, const worker &self, consumer &state, stream &ahead,
                                              unsigned char *shared) {
    fragments a[CHUNKS];
    decode_chunk(state, self.k_begin, 0, 0, a[0]);
    for (int k_tile = self.k_begin; k_tile < self.k_end; k_tile++) {
        tern_barrier_wait(tern_slice_barrier_of(shared + BARRIERS_AT, state.x.stage, TERN_FULL), state.x.parity);
        const unsigned x = state.x_start + (unsigned)(state.x.stage * (WARPS_K * X_BYTES / 16));
#pragma unroll
        for (int u = 0; u < ACTIVE * CHUNKS; u++) {
            const int b = u / CHUNKS, c = u % CHUNKS, next = u + 1;
            issue_chunk(SCALE_SUMS ? state.part : state.sum[b], x, c * CHUNK, a[c]);
            tern_wgmma_wait<CHUNKS - 1>();                               /* the registers of the next chunk are free */
            if (!SCALE_SUMS && u == CHUNKS - 2 && k_tile > self.k_begin) /* and so is the slice before */
                release(state, shared, self.lane, true);
            const float2 scale = __half22float2(tern_as_half2(state.scale));
            if (next == ACTIVE * CHUNKS)
                next_weights(args, self, state, ahead, shared);
            if (next < ACTIVE * CHUNKS || k_tile + 1 < self.k_end)
                decode_chunk(state, k_tile + next / (ACTIVE * CHUNKS), next / CHUNKS % ACTIVE, next % CHUNKS * CHUNK,
                             a[next % CHUNKS]);
            if (SCALE_SUMS && next % CHUNKS * CHUNK * 16 % groups::scale_k == 0) {
                tern_wgmma_wait<0>();
                tern_wgmma_add_scaled(state.sum[b], state.part, scale);
            }
        }
        if (SCALE_SUMS) /* whose groups have all been waited for */
            release(state, shared, self.lane, false);
        tern_ring_advance<STAGES>(state.x);
    }
    tern_wgmma_wait<0>();
#pragma unroll
    for (int b = 0; b < ACTIVE; b++)
        tern_wgmma_pin(state.sum[b]);
    if (!SCALE_SUMS)
        release(state, shared, self.lane, true);
}

/* The form of multiply_tile for `active` row blocks. */
template <int ACTIVE>
__device__ __forceinline__ void multiply_active(const tern_args &args, const worker &self, consumer &state, stream &ahead,
                                                unsigned char *shared, int active) {
    if constexpr (ACTIVE > 0) {
        if (active == ACTIVE)
            multiply_tile<ACTIVE>(args, self, state, ahead, shared);
        else
            multiply_active<ACTIVE - 1>(args, self, state, ahead, shared, active);
    }
}

/* Gives back slices that are not this warp's: those of a tile without rows for it, or of longer parts of K. */
__device__ __forceinline__ void skip_slices(const worker &self, consumer &state, unsigned char *shared, int count) {
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        tern_barrier_wait(tern_slice_barrier_of(shared + BARRIERS_AT, state.x.stage, TERN_FULL), state.x.parity);
        release(state, shared, self.lane, false);
        tern_ring_advance<STAGES>(state.x);
    }
}

/* Zero sums; zero points that do not change along K. */
__device__ __forceinline__ void start_sums(const tern_args &args, const tern_sweep &sweep, const worker &self,
                                           consumer &state) {
    state.scale = 0;
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        if (!GROUPED || b == 0)
            state.zero[GROUPED ? 0 : b] = tern_zero_biases<BITS>(ZERO, ZERO);
        if (!GROUPED && HAS_ZEROS)
            state.zero[b] = tern_row_zeros<BITS>(args, own_tile(sweep, self, b), self.row_tiles, self.lane);
#pragma unroll
        for (int i = 0; i < BLOCK_M / 2; i++)
            state.sum[b][i] = 0.0f;
    }
}

/* ---- sums to y ---- */

/* Of the row blocks of a warpgroup, units of 16 rows of x: those that this CTA stores, from its first one on (unit_owner.cuh). */
typedef float own_units[units::most][8];

/* Adds over the parts of K in the CTA and in the cluster; then the first part of each has the sums that it stores. That the ring is idle, blocks of a cluster
 * tell each other while they add up their own parts. */
__device__ __forceinline__ void add_up(const tern_sweep &sweep, const worker &self, int rank, consumer &state,
                                       own_units &own, unsigned char *shared) {
    if (CLUSTER_K > 1)
        tern_cluster_arrive();
    if (WARPS_K > 1)
        tern_part_sum<WARPS_K, WARPS_N, CONSUMERS>(state.sum, shared, self.part, self.n, ALL_CONSUMERS,
                                                   own_blocks(sweep, self));
    if (CLUSTER_K > 1)
        tern_cluster_wait();
    if (self.part == 0)
        tern_cluster_sum_units<CLUSTER_K, WARPS_N>(state.sum, own, shared + PART_SUMS, shared + SUM_BARRIERS_AT + 8 * self.n,
                                                   state.sums_parity, rank, self.n, (int)sweep.blocks);
    if (PARTS > 1)
        tern_block_arrive(ALL_THREADS, THREADS); /* the ring is free again */
}

/* Rounds and stores y. */
__device__ __forceinline__ void store_sums(const tern_args &args, const tern_sweep &sweep, const worker &self, int rank,
                                           own_units &own, unsigned char *shared, int active) {
    unsigned char *slots = shared + OUTPUT_AT + self.n * 4 * TERN_STORE_SLOT;
    const long long x_row = (long long)sweep.tile_m * BLOCK_M;
    const tern_store to = {slots, OUTPUT + self.n, self.warp, self.lane, x_row, 0};
    const auto place = [&](int i) -> tern_unit {
        return {own_block(sweep, self, units::block_of(i, rank)), units::unit_of(i, rank)};
    };
    tern_store_units<!GROUPED>(args, to, units::count(active, rank), place, self.row_tiles, own);
}

__device__ __forceinline__ void consume(const tern_args &args, const worker &self, stream &ahead, unsigned char *shared) {
    consumer state;
    state.gather = tern_gather_start(self.lane);
    state.pair = self.lane / 4 * 4;
    tern_hide(state.pair);
    state.x = {0, 0};
    state.x_start = tern_uniform(tern_wgmma_start_address(shared + self.part * X_BYTES) + (threadIdx.x >> 10));
    state.weights = shared + ahead.next.slot;
    await_weights();
    state.sums_parity = 0;
    tern_sweep sweep = start_sweep(args);
    while (next_tile(sweep)) {
        const int length = self.k_end - self.k_begin, active = own_blocks(sweep, self);
        start_sums(args, sweep, self, state);
        if (length > 0)
            multiply_active<ROW_BLOCKS>(args, self, state, ahead, shared, active);
        skip_slices(self, state, shared, active > 0 ? self.steps - length : self.steps);
        __syncwarp();
        const int rank = (self.rank - units::first(self.n) + CLUSTER_K) % CLUSTER_K; /* from the first owner on */
        own_units own;
        add_up(sweep, self, rank, state, own, shared);
        if (self.part == 0)
            store_sums(args, sweep, self, rank, own, shared, active);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) tern_wgmma_decode(const struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    tern_wgmma_start();
    if (threadIdx.x >= CONSUMERS) {
        tern_registers_lower<PRODUCER_REGISTERS>();
        produce(args, shared);
    } else {
        tern_registers_raise<CONSUMER_REGISTERS>();
        const worker self = find_worker(args);
        unsigned char *base = shared;
        if (ROW_BLOCKS == 1)
            tern_hide(base); /* or its address is put together in each k tile, where that of more row blocks is not */
        stream ahead = start_stream(args, self, base);
        consume(args, self, ahead, base);
    }
}
