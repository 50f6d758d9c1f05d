/* wgmma-turn: y[M,N] = x[M,K] * W[N,K]^T for M = 16 to 64 and large N on Hopper: quantised W, fp32 accumulation.
 *
 * W is the 64-row operand of wgmma, dequantised into registers (swap-AB; four stacked 16-row tiles of layout frag16x128, one
 * a warp), x the shared-memory operand with BLOCK_M columns. WARPS_N * WARPS_K warpgroups multiply and one copies.
 *
 * A ring of STAGES k tiles holds x and the weights of all row blocks of the CTA. Two warps bring weights by cp.async, one of
 * them x by tensor copies, and two turn x to the layout's order of k where it lies (tern/slice_turn.cuh), so that a lane's codes are plain
 * 16-byte loads. While one half of a k tile multiplies, the next is dequantised into a second set of registers.
 *
 * Parameters, constexpr ints in front of this file (space.lua has values and limits):
 *   BLOCK_M         rows of x of a CTA, columns of the wgmma
 *   WARPS_N         warpgroups side by side along N
 *   WARPS_K         as many times so many take k tiles in turn, and divide the row blocks when their sums have met
 *   ROW_BLOCKS      64-row blocks of W that a warpgroup has at once: each slice of x serves all of them
 *   CLUSTER_K       CTAs of a cluster that split K; their sums meet in shared memory
 *   PAIR            1: two CTAs of a cluster share an odd row block, half of K each; 0: whole row blocks
 *   STAGES          k tiles in the ring
 *   SCALE_WEIGHTS   1: group scale times (q - z) in the type of x before the multiply; 0: fp32 scale on the sums of each group
 *   ROUND_WEIGHTS   says that SCALE_WEIGHTS rounds (it does not for ternary in binary16); not used here
 *   BITS, ZERO, HAS_ZEROS, GROUP    the format; GROUP 0 is one scale a row, applied in the epilogue
 * Tails: any M, N a multiple of 8, K a multiple of 32, short last group. x outside is read as zero. Sums are added in a fixed
 * order: results do not depend on timing.
 * Bound by the issue of instructions up to M = 32, by that and the tensor cores at 64; expected 0.4 to 0.6 of the limit. */
#include "tern/abi.h"
#include "tern/groups.cuh"
#include "tern/memory.cuh"
#include "tern/pair_share.cuh"
#include "tern/slice_ring.cuh"
#include "tern/slice_turn.cuh"
#include "tern/sum_share.cuh"
#include "tern/sweep.cuh"
#include "tern/weight_copy.cuh"
#include "tern/wgmma.cuh"
#include "tern/wgmma_store.cuh"

constexpr int WARPGROUPS = WARPS_N * WARPS_K, CONSUMERS = TERN_WARPGROUP * WARPGROUPS, THREADS = CONSUMERS + TERN_WARPGROUP;
constexpr int BLOCKS = WARPS_N * ROW_BLOCKS; /* 64-row blocks of W that a CTA has at most, */
constexpr int CTA_TILES = 4 * BLOCKS;        /* in 16-row tiles */
constexpr int CLUSTER = PAIR ? 2 : CLUSTER_K, TILE_BLOCKS = PAIR ? 2 * BLOCKS - 1 : BLOCKS; /* of a tile of the sweep */
constexpr bool GROUPED = GROUP > 0;
typedef struct tern_groups<GROUP> groups;
constexpr bool SCALE_SUMS = GROUPED && !SCALE_WEIGHTS;
/* k-steps of 16 that are dequantised and committed together; sums of a group want whole ones. As many sets of A registers as
 * a k tile has chunks. */
constexpr int CHUNK = SCALE_SUMS && groups::scale_k == 32 ? 2 : 4, CHUNKS = TERN_TILE_STEPS / CHUNK;

/* Shared memory: [x ring][code ring][ring of scales and zeros][output slots][sums from the other CTA][barriers: ring, sums]
 * [tensor map]; bytes of one stage. */
constexpr int X_BYTES = 2 * BLOCK_M * TERN_TILE_K; /* two halves of 64 k, rows of 128 bytes, swizzled */
constexpr int TILE_BYTES = tern_codes<BITS>::tile_bytes, CODE_BYTES = CTA_TILES * TILE_BYTES;
constexpr int TILE_SIDE = tern_side_copies<groups, HAS_ZEROS, CTA_TILES>::tile_bytes,
              SIDE_BYTES = GROUPED ? CTA_TILES * TILE_SIDE : 0;
constexpr int CODES_AT = STAGES * X_BYTES;
constexpr int SIDE_AT = CODES_AT + STAGES * CODE_BYTES;
constexpr int OUTPUT_AT = SIDE_AT + STAGES * SIDE_BYTES;
constexpr int SUMS_AT = OUTPUT_AT + 4 * WARPGROUPS * TERN_STORE_SLOT;
/* fp32 sums of a thread that come from the other CTA: of half a row block, or the part of each that this CTA stores. */
constexpr int SUMS = CLUSTER == 1 ? 0 : BLOCK_M / 2 / CLUSTER_K;
constexpr int SUMS_BYTES = 4 * TERN_WARPGROUP * SUMS * (PAIR ? 1 : BLOCKS);
constexpr int BARRIERS_AT = SUMS_AT + SUMS_BYTES;
constexpr int SUM_BARRIERS_AT = BARRIERS_AT + STAGES * TERN_SLICE_BARRIERS; /* one a warpgroup */
constexpr int MAP_AT = (SUM_BARRIERS_AT + 8 * WARPGROUPS + TERN_TENSOR_MAP - 1) / TERN_TENSOR_MAP * TERN_TENSOR_MAP;

constexpr int PRODUCER_REGISTERS = 72, CONSUMER_REGISTERS = tern_consumer_registers(WARPGROUPS, PRODUCER_REGISTERS);

static_assert(!PAIR || (CLUSTER_K == 1 && WARPS_K == 1), "a pair splits K of one row block only");
static_assert(CLUSTER <= 2 && BLOCK_M % (16 * CLUSTER_K) == 0, "two blocks of a cluster own equally many 16 rows of x");
static_assert(STAGES % WARPS_K == 0 && STAGES >= 2 * WARPS_K,
              "each part has stages of its own: one to use, one to wait for");
static_assert((WARPS_K - 1) * BLOCKS * 256 * BLOCK_M <= SIDE_AT, "sums of parts fit in the rings of x and codes");

enum { ALL_THREADS = 1, PARTS = 2, OUTPUT = 3 }; /* named barriers; OUTPUT one for each warpgroup */

/* ---- who works on what ---- */

/* What a warp is and which k tiles its CTA has; the same for all tiles. */
struct worker {
    int lane, warp, n, part; /* warp within its warpgroup, and place of that along N, and in the turn of k tiles */
    int row_tiles, k_tiles;  /* of W */
    int k_begin, k_end;      /* k tiles of the CTA */
    int rank;                /* of the CTA in its cluster */
};

__device__ __forceinline__ worker find_worker(const tern_args &args) {
    worker self;
    self.lane = (int)threadIdx.x % 32;
    self.warp = (int)threadIdx.x / 32 % 4;
    const int warpgroup = (int)tern_uniform(threadIdx.x / TERN_WARPGROUP);
    self.n = WARPS_K > 1 ? warpgroup % WARPS_N : warpgroup;
    self.part = WARPS_K > 1 ? warpgroup / WARPS_N : 0;
    self.row_tiles = (int)((args.n + 15) / 16);
    self.k_tiles = (int)((args.k + TERN_TILE_K - 1) / TERN_TILE_K);
    self.rank = CLUSTER > 1 ? (int)(blockIdx.x % CLUSTER) : 0;
    self.k_begin = PAIR ? 0 : self.rank * self.k_tiles / CLUSTER_K;
    self.k_end = PAIR ? self.k_tiles : (self.rank + 1) * self.k_tiles / CLUSTER_K;
    return self;
}

/* The tiles of this CTA, or cluster: all its blocks work on the same ones. */
__device__ __forceinline__ tern_sweep start_sweep(const tern_args &args) {
    return tern_sweep_start<TILE_BLOCKS, true>(args.n, (unsigned)((args.m + BLOCK_M - 1) / BLOCK_M), blockIdx.x / CLUSTER,
                                               gridDim.x / CLUSTER);
}
__device__ __forceinline__ bool next_tile(tern_sweep &sweep) {
    return tern_sweep_next<TILE_BLOCKS, 0>(sweep);
}

typedef struct tern_share<PAIR, WARPS_N> share;
__device__ __forceinline__ share find_share(const tern_sweep &sweep, const worker &self) {
    return share::find(sweep, self.rank, self.k_tiles);
}
/* The warp's 16-row tile in row block b of its warpgroup. */
__device__ __forceinline__ int own_tile(const share &mine, const worker &self, int b) {
    return (mine.first + mine.place(self.n, b)) * 4 + self.warp;
}

__device__ __forceinline__ void *barrier_of(unsigned char *shared, int stage, tern_slice_barrier which) {
    return tern_slice_barrier_of(shared + BARRIERS_AT, stage, which);
}

/* ---- producers: two warps copy, two turn x ---- */
typedef struct tern_side_copies<groups, HAS_ZEROS, CTA_TILES> side_copies;

/* The k tiles of a tile, of each the row tiles that lie in W and are this CTA's there: half of their codes, and beside them either
 * the slice of x or scales and zeros. The CTA's first codes are on their way before anything else, the barriers too, is ready: then
 * `started` is false, and becomes true. */
template <bool X>
__device__ __forceinline__ void copy_stages(const tern_args &args, const worker &self, const tern_sweep &sweep,
                                            const unsigned char *map, unsigned char *shared, tern_ring &fill,
                                            bool &started) {
    const share mine = find_share(sweep, self);
    const int first = 4 * mine.first, in_w = self.row_tiles - first, tiles = 4 * mine.blocks < in_w ? 4 * mine.blocks : in_w;
    const unsigned row_bytes = (unsigned)self.k_tiles * TILE_BYTES;
    const unsigned char *codes =
        static_cast<const unsigned char *>(args.codes) + (unsigned long long)row_bytes * (unsigned)first;
    const side_copies side = side_copies::find(args, first, self.lane);
#pragma unroll 1
    for (int k_tile = self.k_begin; k_tile < self.k_end; k_tile++) {
        const int begin = mine.begin(k_tile), end = mine.end(k_tile, tiles);
        if (started)
            tern_barrier_wait(barrier_of(shared, fill.stage, TERN_EMPTY), fill.parity);
        tern_copy_codes<TILE_BYTES>(shared + CODES_AT + fill.stage * CODE_BYTES, codes + k_tile * TILE_BYTES, row_bytes,
                                    begin, end, X ? 2 : 0, self.lane);
        if (GROUPED && !X)
            side.copy(args, shared + SIDE_AT + fill.stage * SIDE_BYTES, k_tile, begin, end);
        if (!started) {
            __syncthreads();
            if (X)
                tern_tensor_map_acquire(map);
        }
        started = true;
        if (X)
            tern_slice_box<X_BYTES, TERN_LANDED>(shared, shared + BARRIERS_AT, map, (int)sweep.tile_m * BLOCK_M, k_tile,
                                                 fill, self.lane);
        tern_cp_async_arrive(barrier_of(shared, fill.stage, TERN_FULL));
        tern_ring_advance<STAGES>(fill);
    }
}

/* What a producing warp does. Each has the loop for itself, so that it keeps in its few registers what it needs. */
enum role { SIDES, X, TURN };
template <role ROLE>
__device__ __forceinline__ void produce(const tern_args &args, const worker &self, const unsigned char *map,
                                        unsigned char *shared, bool started) {
    tern_ring fill = {0, 1};
    tern_sweep sweep = start_sweep(args);
    while (next_tile(sweep)) {
        if (CLUSTER > 1)
            tern_cluster_arrive();
        if (ROLE == TURN)
            tern_slices_turn<STAGES, BLOCK_M>(shared, shared + BARRIERS_AT, self.warp - 2, self.k_end - self.k_begin, fill,
                                              self.lane);
        else
            copy_stages<ROLE == X>(args, self, sweep, map, shared, fill, started);
        if (!started) /* no k tiles */
            __syncthreads();
        started = true;
        __syncwarp();
        if (WARPS_K > 1 || (share::divides && find_share(sweep, self).divided()))
            tern_block_sync(ALL_THREADS, THREADS); /* the ring is free again */
        if (CLUSTER > 1)
            tern_cluster_wait();
    }
}

/* ---- consumers ---- */

constexpr int SPANS = CHUNK * 16 > groups::scale_k ? CHUNK * 16 / groups::scale_k : 1; /* of a scale, in a chunk */

/* Registers of a consumer thread. */
struct consumer {
    float sum[ROW_BLOCKS][BLOCK_M / 2];      /* fp32 result */
    float part[BLOCK_M / 2];                 /* sum of one scale group, not yet scaled */
    unsigned words[tern_codes<BITS>::words]; /* codes of a tile, loaded a chunk ahead of their use */
    unsigned scales[SPANS], zeros[SPANS];    /* (row g, row g + 8) of the chunk; binary16, bytes */
    tern_zero_bias zero[GROUPED ? 1 : ROW_BLOCKS];
    tern_ring ring;            /* stage that comes next */
    int sums_parity;           /* of the barrier of sums */
    int codes_at, side_at;     /* bytes of this lane's codes and scales in stage 0, row block 0, */
    int codes_step, side_step; /* and from one row block to the next */
    int codes_last, side_last; /* and further to the last one, where that is another warpgroup's too */
};

typedef unsigned fragments[CHUNK][4]; /* A of the k-steps of a chunk */

constexpr int BLOCK_CODES = WARPS_N * 4 * TILE_BYTES, BLOCK_SIDE = WARPS_N * 4 * TILE_SIDE;

/* Loads what the decoding of the chunk of row block b from k-step `step` on needs. */
__device__ __forceinline__ void load_chunk(consumer &state, const unsigned char *shared, int lane, int k_tile, int b,
                                           bool last, int step) {
    constexpr int STEPS_A_LOAD = BITS == 8 ? 2 : BITS == 4 ? 4 : 8; /* k-steps that 16 bytes of a lane last for */
    const unsigned char *codes =
        shared + state.codes_at + state.ring.stage * CODE_BYTES + b * state.codes_step + (last ? state.codes_last : 0);
#pragma unroll
    for (int s = step; s < step + CHUNK; s++) {
        if (s % STEPS_A_LOAD != 0)
            continue;
        const int load = s / STEPS_A_LOAD;
        const uint4 words = tern_shared_load_16(codes + 512 * load);
        state.words[4 * load] = words.x, state.words[4 * load + 1] = words.y;
        state.words[4 * load + 2] = words.z, state.words[4 * load + 3] = words.w;
        if (BITS == 3) {
            const uint2 high = tern_shared_load_8(codes + 512 - 8 * lane);
            state.words[BITS == 3 ? 4 : 0] = high.x, state.words[BITS == 3 ? 5 : 0] = high.y;
        }
    }
    if (!GROUPED || step * 16 % groups::scale_k != 0)
        return;
    const unsigned char *side =
        shared + state.side_at + state.ring.stage * SIDE_BYTES + b * state.side_step + (last ? state.side_last : 0);
#pragma unroll
    for (int span = 0; span < SPANS; span++) {
        const int slot = groups::slot(k_tile, step / 2 + span * groups::scale_k / 32);
        if (SCALE_WEIGHTS)
            state.scales[span] = tern_shared_load_4(side + 32 * slot);
        if (HAS_ZEROS)
            state.zeros[span] = tern_shared_load_2(side + 32 * groups::in_tile + 16 * slot - 2 * (lane / 4));
    }
}

/* A fragments of k-steps step .. step + CHUNK - 1 of row block b, from what load_chunk has loaded. */
__device__ __forceinline__ void decode_chunk(consumer &state, int b, int step, fragments &a) {
#pragma unroll
    for (int u = 0; u < CHUNK; u++) {
        const int span = u * 16 / groups::scale_k;
        if (GROUPED && HAS_ZEROS && (step + u) * 16 % groups::scale_k == 0)
            state.zero[0] = tern_zero_biases<BITS>(state.zeros[span] & 0xff, state.zeros[span] >> 8);
        tern_dequant_tile<BITS, BF16>(state.words, step + u, state.zero[GROUPED ? 0 : b], a[u]);
        if constexpr (GROUPED && SCALE_WEIGHTS)
            tern_scale_fragment<BITS, HAS_ZEROS>(tern_scale_rows<BF16>(state.scales[span]), a[u]);
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

/* The warp has read a stage. */
__device__ __forceinline__ void release(unsigned char *shared, int stage, int lane) {
    tern_warp_arrive(barrier_of(shared, stage, TERN_EMPTY), lane, stage >= 0);
}

__device__ __forceinline__ void await_stage(const consumer &state, unsigned char *shared) {
    tern_barrier_wait(barrier_of(shared, state.ring.stage, TERN_FULL), state.ring.parity);
}

/* Start address of the slice in `stage`, known to be uniform. The last term is 0, which the compiler does not know: else it
 * drops the broadcast and moves each descriptor alone. */
__device__ __forceinline__ unsigned slice_start(const unsigned char *shared, int stage) {
    return tern_uniform(tern_wgmma_start_address(shared + stage * X_BYTES) + (threadIdx.x >> 10));
}

/* `count` k tiles from k_tile on, of a tile of y in which the warpgroup has ACTIVE row blocks. While a chunk multiplies, the next
 * one is dequantised and the one after it loaded, which may be of the next row block or k tile. */
template <int ACTIVE>
__device__ __forceinline__ void multiply_tile(const worker &self, consumer &state, unsigned char *shared, int k_tile,
                                              int count) {
    constexpr int UNITS = ACTIVE * CHUNKS;
    fragments a[CHUNKS];
    int released = -1; /* stage to give back when its last products are done */
    await_stage(state, shared);
    load_chunk(state, shared, self.lane, k_tile, 0, ACTIVE == 1, 0);
    decode_chunk(state, 0, 0, a[0]);
    load_chunk(state, shared, self.lane, k_tile, 0, ACTIVE == 1, CHUNK);
    unsigned x = slice_start(shared, state.ring.stage), x_next = 0;
    for (int i = 0; i < count; i++) {
        const bool more = i + 1 < count;
        const int stage = state.ring.stage;
        const unsigned char *side = shared + state.side_at + stage * SIDE_BYTES;
        unsigned scale = 0;
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
            const int b = u / CHUNKS, step = u % CHUNKS * CHUNK, next = u + 1, after = u + 2;
            issue_chunk(SCALE_SUMS ? state.part : state.sum[b], x, step, a[u % CHUNKS]);
            tern_wgmma_wait<CHUNKS - 1>(); /* the registers of the next chunk are free */
            if (u == CHUNKS - 2)           /* and so is the stage before */
                release(shared, released, self.lane);
            if (SCALE_SUMS && step * 16 % groups::scale_k == 0)
                scale = tern_shared_load_4(side + b * state.side_step + (b + 1 == ACTIVE ? state.side_last : 0) +
                                           32 * groups::slot(k_tile, step / 2));
            if (next < UNITS || more)
                decode_chunk(state, next / CHUNKS % ACTIVE, next % CHUNKS * CHUNK, a[next % CHUNKS]);
            if (after == UNITS && more) {
                tern_ring_advance<STAGES, WARPS_K>(state.ring);
                x_next = slice_start(shared, state.ring.stage); /* while the barrier is waited for */
                await_stage(state, shared);
            }
            if (after < UNITS || more)
                load_chunk(state, shared, self.lane, k_tile + after / UNITS * WARPS_K, after / CHUNKS % ACTIVE,
                           after / CHUNKS % ACTIVE + 1 == ACTIVE, after % CHUNKS * CHUNK);
            if (SCALE_SUMS && next % CHUNKS * CHUNK * 16 % groups::scale_k == 0) {
                tern_wgmma_wait<0>();
                tern_wgmma_add_scaled(state.sum[b], state.part, __half22float2(tern_as_half2(scale)));
            }
        }
        released = stage;
        x = x_next;
        k_tile += WARPS_K;
    }
    tern_wgmma_wait<0>();
#pragma unroll
    for (int b = 0; b < ACTIVE; b++)
        tern_wgmma_pin(state.sum[b]);
    release(shared, released, self.lane);
    tern_ring_advance<STAGES, WARPS_K>(state.ring);
}

/* The form of multiply_tile for `active` row blocks, which may be none: then the stages are given back. */
template <int ACTIVE>
__device__ __forceinline__ void multiply_active(const worker &self, consumer &state, unsigned char *shared, int k_tile,
                                                int count, int active) {
    if constexpr (ACTIVE > 0) {
        if (active == ACTIVE)
            return multiply_tile<ACTIVE>(self, state, shared, k_tile, count);
        return multiply_active<ACTIVE - 1>(self, state, shared, k_tile, count, active);
    }
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        await_stage(state, shared);
        release(shared, state.ring.stage, self.lane);
        tern_ring_advance<STAGES, WARPS_K>(state.ring);
    }
}

/* Zero sums; zero points that do not change along K. */
__device__ __forceinline__ void start_sums(const tern_args &args, const share &mine, const worker &self, consumer &state) {
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        if (!GROUPED || b == 0)
            state.zero[GROUPED ? 0 : b] = tern_zero_biases<BITS>(ZERO, ZERO);
        if (!GROUPED && HAS_ZEROS && b < mine.own(self.n))
            state.zero[b] = tern_row_zeros<BITS>(args, own_tile(mine, self, b), self.row_tiles, self.lane);
#pragma unroll
        for (int i = 0; i < BLOCK_M / 2; i++)
            state.sum[b][i] = 0.0f;
    }
    const int back = PAIR && self.rank == 1 ? -1 : 1;
    const int tile = (back < 0 ? mine.blocks - 1 - self.n : self.n) * 4 + self.warp; /* may lie outside, if it only helps */
    state.codes_at = tern_kept(CODES_AT + tile * TILE_BYTES + 16 * self.lane);
    state.side_at = tern_kept(SIDE_AT + tile * TILE_SIDE + 4 * (self.lane / 4));
    state.codes_step = back * BLOCK_CODES, state.side_step = back * BLOCK_SIDE;
}

/* ---- sums to y ---- */

/* Row blocks of the warpgroup that it stores: those that take k tiles in turn divide theirs. */
constexpr int STORED = (ROW_BLOCKS + WARPS_K - 1) / WARPS_K;
__device__ __forceinline__ int stored_blocks(const share &mine, const worker &self) {
    return tern_parts_share<WARPS_K>(mine.summed(self.n), self.part);
}

/* Adds up; then the warpgroup has the sums that it stores. Those of warpgroups that took k tiles in turn, or helped, meet in the ring, which is idle.
 * Of a pair, rank 0 gets the shared row block, the warpgroup's last. */
__device__ __forceinline__ void add_up(const share &mine, const worker &self, consumer &state, unsigned char *shared) {
    if (WARPS_K > 1) {
        tern_parts_sum<WARPS_K, CONSUMERS>(state.sum, shared + self.n * ((WARPS_K - 1) * ROW_BLOCKS * 256 * BLOCK_M),
                                           self.part, mine.own(self.n), PARTS);
        tern_fence_async();
        tern_block_arrive(ALL_THREADS, THREADS); /* the ring is free again */
    }
    if (share::divides && mine.divided()) {
        tern_helpers_sum<CONSUMERS>(state.sum, shared, mine.own(self.n) - 1, self.n, mine.helps(self.n), mine.helps(1),
                                    PARTS);
        tern_fence_async();
        tern_block_arrive(ALL_THREADS, THREADS);
    }
    if (CLUSTER > 1) {
        const int blocks = stored_blocks(mine, self), first = !PAIR ? 0 : mine.has_half(self.n) ? blocks - 1 : blocks;
        const int group = self.part * WARPS_N + self.n;
        if (tern_pair_sum<PAIR, STORED>(state.sum, shared + SUMS_AT, self.n * ROW_BLOCKS + self.part, WARPS_K, first, blocks,
                                        shared + SUM_BARRIERS_AT + 8 * group, state.sums_parity, self.rank))
            state.sums_parity ^= 1;
    }
}

/* Rounds and stores y. */
__device__ __forceinline__ void store_sums(const tern_args &args, long long x_row, const share &mine, const worker &self,
                                           consumer &state, unsigned char *shared) {
    const int warpgroup = self.part * WARPS_N + self.n;
    unsigned char *slots = shared + OUTPUT_AT + warpgroup * 4 * TERN_STORE_SLOT;
    const tern_store to = {slots, OUTPUT + warpgroup, self.warp, self.lane, x_row, PAIR ? 0 : self.rank};
    const int given = self.rank == 1 && mine.has_half(self.n) ? 1 : 0;
    tern_store_blocks<CLUSTER_K, STORED, !GROUPED>(
        args, to, stored_blocks(mine, self) - given, [&](int i) { return own_tile(mine, self, i * WARPS_K + self.part); },
        self.row_tiles, state.sum);
}

/* All k tiles that are the warpgroup's. It may have its last row block in some of them only. */
__device__ __forceinline__ void multiply(const share &mine, const worker &self, consumer &state, unsigned char *shared) {
    const int own = mine.own(self.n), count = self.k_end - self.k_begin;
    const typename share::range last = mine.last(self.n, count);
    const int off = mine.helps(self.n) ? self.n * (PAIR && self.rank == 1 ? 4 : -4) : 0; /* tiles */
    const tern_ring first = state.ring;
    if (WARPS_K > 1)
        tern_ring_skip<STAGES>(state.ring, self.part);
#pragma unroll 1
    for (int segment = WARPS_K > 1 ? 1 : 0; segment < (WARPS_K > 1 ? 2 : 3); segment++) {
        const int begin = (segment == 0 ? 0 : segment == 1 ? last.begin : last.end) + self.part;
        const int end = segment == 0 ? last.begin : segment == 1 ? last.end : count;
        state.codes_last = segment == 1 ? off * TILE_BYTES : 0, state.side_last = segment == 1 ? off * TILE_SIDE : 0;
        if (begin < end)
            multiply_active<ROW_BLOCKS>(self, state, shared, self.k_begin + begin, (end - begin + WARPS_K - 1) / WARPS_K,
                                        segment == 1 || own == 0 ? own : own - 1);
    }
    if (WARPS_K > 1) {
        state.ring = first;
        tern_ring_skip<STAGES>(state.ring, count);
    }
}

__device__ __forceinline__ void consume(const tern_args &args, unsigned char *shared) {
    const worker self = find_worker(args);
    consumer state;
    state.ring = {0, 0}, state.sums_parity = 0;
    shared = tern_shared_kept(shared);
    tern_sweep sweep = start_sweep(args);
    while (next_tile(sweep)) {
        if (CLUSTER > 1)
            tern_cluster_arrive(); /* sums of the tile before have been read */
        const share mine = find_share(sweep, self);
        start_sums(args, mine, self, state);
        multiply(mine, self, state, shared);
        add_up(mine, self, state, shared);
        store_sums(args, (long long)sweep.tile_m * BLOCK_M, mine, self, state, shared);
    }
}

/* A lane of one warp for each stage: prepares its barriers. */
__device__ __forceinline__ void start_barriers(const worker &self, unsigned char *shared) {
    static_assert(STAGES <= 32, "a lane each");
    if (self.lane < STAGES) {
        unsigned char *barriers = shared + BARRIERS_AT + self.lane * TERN_SLICE_BARRIERS;
        tern_barriers_init(barriers + TERN_FULL, 1, 64 + TERN_WARP_ARRIVALS);           /* weights by each lane, x */
        tern_barriers_init(barriers + TERN_EMPTY, 1, 4 * WARPS_N * TERN_WARP_ARRIVALS); /* of one part */
        tern_barriers_init(barriers + TERN_LANDED, 1, 1);
    }
    if (CLUSTER > 1 && self.lane < WARPGROUPS)
        tern_barriers_init(shared + SUM_BARRIERS_AT + 8 * self.lane, 1, 1);
    tern_barriers_publish();
}

/* Up to the first barrier each producing warp does something else. */
extern "C" __global__ void __launch_bounds__(THREADS, 1) tern_wgmma_turn(const struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    tern_wgmma_start();
    if (threadIdx.x >= CONSUMERS) {
        tern_registers_lower<PRODUCER_REGISTERS>();
        const worker self = find_worker(args);
        unsigned char *map = static_cast<unsigned char *>(args.workspace) + TERN_TENSOR_MAP * (unsigned long long)blockIdx.x;
        if (self.warp == 0)
            produce<SIDES>(args, self, map, shared, false);
        else if (self.warp == 1)
            produce<X>(args, self, map, shared, false);
        else {
            if (self.warp == 2)
                start_barriers(self, shared);
            else
                tern_tensor_map_make(map, shared + MAP_AT, args.x, args.k, args.m, BLOCK_M, self.lane);
            __syncthreads();
            produce<TURN>(args, self, map, shared, true);
        }
    } else {
        __syncthreads();
        tern_registers_raise<CONSUMER_REGISTERS>();
        consume(args, shared);
    }
}
