/* wgmma-turn: y[M,N] = x[M,K] * W[N,K]^T for M = 16 to 64 and large N on Hopper: quantised W, fp32 accumulation.
 *
 * W is the 64-row operand of wgmma, dequantised into registers (swap-AB; four stacked 16-row tiles of layout frag16x128, one
 * a warp), x the shared-memory operand with BLOCK_M columns. WARPS_N * WARPS_K warpgroups multiply and one copies.
 *
 * A ring of STAGES k tiles holds x and the weights of all row blocks of the CTA, which the copy engine brings, the first ones the consumers (tern/first_copy.cuh).
 * Two warps turn x to the layout's order of k where it lies (tern/slice_turn.cuh), so that a lane's codes are plain 16-byte loads. While one half of
 * a k tile multiplies, the next is dequantised into a second set of registers.
 *
 * Parameters, constexpr ints in front of this file (space.lua has values and limits):
 *   BLOCK_M         rows of x of a CTA, columns of the wgmma
 *   WARPS_N         warpgroups side by side along N
 *   WARPS_K         as many times so many take k tiles in turn, and divide the row blocks when their sums have met
 *   ROW_BLOCKS      64-row blocks of W that a warpgroup has at once: each slice of x serves all of them
 *   CLUSTER_K       CTAs of a cluster that split K; their sums meet in shared memory
 *   PAIR            1: two CTAs of a cluster share an odd row block, half of K each, and multiply that first; 0: whole row blocks
 *   STAGES          k tiles in the ring
 *   SCALE_WEIGHTS   1: group scale times (q - z) in the type of x before the multiply; 0: fp32 scale on the sums of each group
 *   ROUND_WEIGHTS   says that SCALE_WEIGHTS rounds (it does not for ternary in binary16); not used here
 *   BITS, ZERO, HAS_ZEROS, GROUP    the format; GROUP 0 is one scale a row, applied in the epilogue
 * Tails: any M, N a multiple of 8, K a multiple of 32, short last group. x outside is read as zero. Sums are added in a fixed
 * order: results do not depend on timing.
 * Bound by the issue of instructions up to M = 32, by that and the tensor cores at 64; expected 0.4 to 0.6 of the limit. */
#include "tern/abi.h"
#include "tern/first_copy.cuh"
#include "tern/pair_sum.cuh"
#include "tern/short_scale.cuh"
#include "tern/slice_ring.cuh"
#include "tern/slice_turn.cuh"
#include "tern/sweep.cuh"
#include "tern/weight_box.cuh"
#include "tern/wgmma_slice.cuh"
#include "tern/wgmma_store.cuh"

constexpr int WARPGROUPS = WARPS_N * WARPS_K, CONSUMERS = TERN_WARPGROUP * WARPGROUPS, THREADS = CONSUMERS + TERN_WARPGROUP;
constexpr int BLOCKS = WARPS_N * ROW_BLOCKS, CTA_TILES = 4 * BLOCKS; /* row blocks, 16-row tiles of a CTA at most */
typedef struct tern_share<PAIR, WARPS_N, ROW_BLOCKS> share;
constexpr int CLUSTER = PAIR ? 2 : CLUSTER_K, TILE_BLOCKS = share::tile_blocks; /* of a tile of the sweep */
constexpr bool GROUPED = GROUP > 0;
typedef struct tern_groups<GROUP> groups;
constexpr bool SCALE_SUMS = GROUPED && !SCALE_WEIGHTS;
/* k-steps of 16 that are dequantised and committed together; sums of a group want whole ones. As many sets of A registers as
 * a k tile has chunks. */
constexpr int CHUNK = SCALE_SUMS && groups::scale_k == 32 ? 2 : 4, CHUNKS = TERN_TILE_STEPS / CHUNK;

/* Shared memory: [x ring][code ring][ring of scales and zeros][output slots][sums from the other CTA][barriers: ring, sums][words of stages];
 * bytes of one stage. Tensor maps are made in the output slots. */
constexpr int X_BYTES = 2 * BLOCK_M * TERN_TILE_K; /* two halves of 64 k, rows of 128 bytes, swizzled */
typedef struct tern_weight_boxes<BITS, groups, GROUPED, HAS_ZEROS, CTA_TILES> boxes;
constexpr int TILE_BYTES = boxes::tile_bytes, CODE_BYTES = boxes::code_bytes, SIDE_BYTES = boxes::side_bytes;
constexpr int CODES_AT = STAGES * X_BYTES, SIDE_AT = CODES_AT + STAGES * CODE_BYTES;
constexpr int OUTPUT_AT = SIDE_AT + STAGES * SIDE_BYTES, SUMS_AT = OUTPUT_AT + 4 * WARPGROUPS * TERN_STORE_SLOT;
/* fp32 sums of a warpgroup that come from the other CTA, bytes: of half a row block, or the part of each that this CTA stores. */
constexpr int SUM_BYTES = CLUSTER == 1 ? 0 : 4 * TERN_WARPGROUP * BLOCK_M / 2 / CLUSTER_K;
constexpr int BARRIERS_AT = SUMS_AT + SUM_BYTES * (PAIR ? share::places : BLOCKS);
constexpr int SUM_BARRIERS_AT = BARRIERS_AT + STAGES * TERN_SLICE_BARRIERS; /* one a warpgroup */
constexpr int LARGE_AT = SUM_BARRIERS_AT + 8 * WARPGROUPS; /* of a stage: whether scales are too large for the short way */

constexpr int PRODUCER_REGISTERS = 56, CONSUMER_REGISTERS = tern_consumer_registers(WARPGROUPS, PRODUCER_REGISTERS);

static_assert(!PAIR || (CLUSTER_K == 1 && WARPS_K == 1), "a pair splits K of one row block only");
static_assert(CLUSTER <= 2 && BLOCK_M % (16 * CLUSTER_K) == 0, "two blocks of a cluster own equally many 16 rows of x");
static_assert(STAGES % WARPS_K == 0 && STAGES >= 2 * WARPS_K, "each part has two stages of its own or more");
static_assert(((WARPS_K - 1) * BLOCKS + WARPS_N - 1) * 256 * BLOCK_M <= SIDE_AT, "sums fit in the rings of x and codes");

constexpr int FIRST = 2;                         /* k tiles that come before there are tensor maps */
enum { ALL_THREADS = 1, PARTS = 2, OUTPUT = 3 }; /* named barriers; OUTPUT one for each warpgroup */

/* ---- who works on what ---- */

/* What a warp is and which k tiles its CTA has; the same for all tiles. */
struct worker {
    int lane, warp;         /* within its warpgroup */
    int warpgroup, n, part; /* place of that along N, and in the turn of k tiles */
    int row_tiles, k_tiles; /* of W */
    int k_begin, k_end;     /* k tiles of the CTA */
    int first_tiles;        /* of these, that consumers copy */
    int rank;               /* of the CTA in its cluster */
};

__device__ __forceinline__ worker find_worker(const tern_args &args) {
    worker self;
    self.lane = (int)threadIdx.x % 32;
    self.warp = (int)threadIdx.x / 32 % 4;
    self.warpgroup = (int)tern_uniform(threadIdx.x / TERN_WARPGROUP);
    self.n = WARPS_K > 1 ? self.warpgroup % WARPS_N : self.warpgroup;
    self.part = WARPS_K > 1 ? self.warpgroup / WARPS_N : 0;
    self.row_tiles = (int)((args.n + 15) / 16);
    self.k_tiles = (int)((args.k + TERN_TILE_K - 1) / TERN_TILE_K);
    self.rank = CLUSTER > 1 ? (int)(blockIdx.x % CLUSTER) : 0;
    self.k_begin = PAIR ? 0 : self.rank * self.k_tiles / CLUSTER_K;
    self.k_end = PAIR ? self.k_tiles : (self.rank + 1) * self.k_tiles / CLUSTER_K;
    self.first_tiles = args.m > BLOCK_M ? 0 : self.k_end - self.k_begin < FIRST ? self.k_end - self.k_begin : FIRST;
    return self;
}

/* The tiles of this CTA, or cluster: all its blocks work on the same ones. */
__device__ __forceinline__ tern_sweep start_sweep(const tern_args &args) {
    return tern_sweep_start<TILE_BLOCKS, true>(args.n, (unsigned)((args.m + BLOCK_M - 1) / BLOCK_M), blockIdx.x / CLUSTER,
                                               gridDim.x / CLUSTER);
}
__device__ __forceinline__ share find_share(const tern_sweep &sweep, const worker &self) {
    return share::find(sweep, self.rank, self.k_tiles);
}
/* Which of W's row blocks is in slot b of the warpgroup; one outside W where that is empty. */
__device__ __forceinline__ int own_block(const share &mine, const worker &self, int b) {
    return mine.empty(self.n, b) ? (self.row_tiles + 3) / 4 : mine.first + mine.place(self.n, b);
}
__device__ __forceinline__ void *barrier_of(unsigned char *shared, int stage, tern_slice_barrier which) {
    return tern_slice_barrier_of(shared + BARRIERS_AT, stage, which);
}

/* While the producers make tensor maps, the consumers, who have nothing to do yet, copy the first k tiles of the block's first tile of y. */
__device__ __forceinline__ void copy_first(const tern_args &args, unsigned char *shared) {
    tern_args known = args; /* and not known: else ptxas keeps what is found out here for later, in registers */
    known.n += threadIdx.x >> 10, known.k += threadIdx.x >> 10;
    const worker self = find_worker(known);
    tern_sweep sweep = start_sweep(known);
    const int tiles = share::highest(sweep);
    tern_sweep_next<TILE_BLOCKS, 0>(sweep);
    const share mine = find_share(sweep, self);
    const tern_first_tiles of = {self.k_begin + mine.k_tile(0, self.k_tiles), self.first_tiles, 4 * mine.first,
                                 4 * mine.blocks, tiles};
    tern_first_start<FIRST, BLOCK_M, CTA_TILES, groups, boxes, CONSUMERS>(known, of, shared, shared + CODES_AT,
                                                                          shared + SIDE_AT, (int)threadIdx.x);
}

/* ---- producers: one warp has weights and x copied, two turn x ---- */

enum { X_MAP = boxes::MAPS, MAPS }; /* tensor maps of a CTA, in its part of the workspace */

/* Scaled weights may take the short way of short_scale.cuh. It must know how large the scales of a k tile are: a warp looks at each that has landed, and
 * leaves a word beside the stage. */
constexpr bool SHORT_WAY = SCALE_WEIGHTS && GROUPED && BITS == 2 && !HAS_ZEROS && !BF16;
constexpr bool APART = SHORT_WAY && WARPS_K == 1 && ROW_BLOCKS * BLOCK_M + 24 <= CONSUMER_REGISTERS; /* see k_loop */
constexpr int SHORT_ZERO = SHORT_WAY ? ZERO : 1;
typedef struct tern_short_scale<SHORT_ZERO> short_scale;

/* Has the copy engine bring the k tiles of a tile of y but the first `ready`: x, and the weights of all its row blocks. Landed is what other producers work
 * on; they do not wait for codes. */
__device__ __forceinline__ void copy_stages(const worker &self, const tern_sweep &sweep, const unsigned char *maps,
                                            unsigned char *shared, int tiles, int box, int ready, tern_ring &fill) {
    const share mine = find_share(sweep, self);
    const int first = 4 * mine.first, row = (int)sweep.tile_m * BLOCK_M;
    const int codes = 4 * mine.blocks * TILE_BYTES, side = tiles * (boxes::scale_bytes + boxes::zero_bytes);
    tern_ring_skip<STAGES>(fill, ready);
    int k_tile = self.k_begin + mine.k_tile(ready, self.k_end - self.k_begin);
#pragma unroll 1
    for (int i = self.k_begin + ready; i < self.k_end; i++, k_tile++) {
        k_tile = PAIR && k_tile == self.k_end ? self.k_begin : k_tile;
        tern_barrier_wait(barrier_of(shared, fill.stage, TERN_EMPTY), fill.parity);
        if (self.lane == 0) {
            void *landed = barrier_of(shared, fill.stage, TERN_LANDED), *full = barrier_of(shared, fill.stage, TERN_FULL);
            tern_barrier_arrive_expect(landed, X_BYTES + (SHORT_WAY ? side : 0));
            tern_barrier_arrive_expect(full, codes + (SHORT_WAY ? 0 : side));
            tern_slice_boxes<X_BYTES>(shared + fill.stage * X_BYTES, maps + X_MAP * TERN_TENSOR_MAP, row, k_tile, landed);
            boxes::copy_side(maps, shared + SIDE_AT + fill.stage * SIDE_BYTES, first, k_tile, SHORT_WAY ? landed : full);
            boxes::copy_codes(maps, shared + CODES_AT + fill.stage * CODE_BYTES, first, k_tile, 4 * mine.blocks, box, full);
        }
        tern_ring_advance<STAGES>(fill);
    }
}

__device__ __forceinline__ void check_stages(const worker &self, unsigned char *shared, int tiles, tern_ring &fill) {
#pragma unroll 1
    for (int k_tile = self.k_begin; k_tile < self.k_end; k_tile++) {
        tern_barrier_wait(barrier_of(shared, fill.stage, TERN_LANDED), fill.parity ^ 1);
        const unsigned char *scales = shared + SIDE_AT + fill.stage * SIDE_BYTES;
        const bool large = short_scale::too_large(scales, tiles * boxes::scale_bytes, self.lane);
        tern_shared_store_4(shared + LARGE_AT + 4 * fill.stage, __any_sync(0xFFFFFFFFu, large));
        tern_warp_arrive(barrier_of(shared, fill.stage, TERN_FULL), self.lane);
        tern_ring_advance<STAGES>(fill);
    }
}

/* What a producing warp does. Each has the loop for itself, so that it keeps in its few registers what it needs. */
enum role { COPY, CHECK, TURN };
template <role ROLE>
__device__ __forceinline__ void produce(const tern_args &args, const worker &self, const unsigned char *maps,
                                        unsigned char *shared, int tiles) {
    tern_ring fill = {0, 1};
    shared = tern_shared_kept(shared);
    if (ROLE == COPY)
        tern_tensor_map_acquire(maps + X_MAP * TERN_TENSOR_MAP), boxes::acquire_maps(maps);
    tern_sweep sweep = start_sweep(args);
    int ready = self.first_tiles;
    while (tern_sweep_next<TILE_BLOCKS, 0>(sweep)) {
        const int count = self.k_end - self.k_begin;
        if (CLUSTER > 1)
            tern_cluster_arrive();
        if (ROLE == TURN)
            tern_slices_turn<STAGES, BLOCK_M>(shared, shared + BARRIERS_AT, self.warp - 2, ready, count, fill, self.lane);
        if (ROLE == CHECK && SHORT_WAY)
            check_stages(self, shared, tiles, fill);
        if (ROLE == COPY)
            copy_stages(self, sweep, maps, shared, tiles, share::step(start_sweep(args)), ready, fill);
        ready = 0;
        __syncwarp();
        if (WARPS_K > 1)
            tern_block_sync(ALL_THREADS, THREADS); /* the ring is free again */
        if (CLUSTER > 1)
            tern_cluster_wait();
    }
}

/* ---- consumers ---- */

constexpr int SPANS = CHUNK * 16 > groups::scale_k ? CHUNK * 16 / groups::scale_k : 1; /* of a scale, in a chunk */
typedef unsigned fragments[CHUNK][4];                                                  /* A of the k-steps of a chunk */

/* Registers of a consumer thread. */
struct consumer {
    float sum[ROW_BLOCKS][BLOCK_M / 2];      /* fp32 result */
    float part[BLOCK_M / 2];                 /* sum of one scale group, not yet scaled */
    unsigned words[tern_codes<BITS>::words]; /* codes of a tile, loaded a chunk ahead of their use */
    unsigned scales[SPANS], zeros[SPANS];    /* (row g, row g + 8) of the chunk; binary16, bytes */
    tern_short_chunks<SHORT_ZERO, CHUNK, groups::scale_k> short_chunks;
    unsigned large; /* 0: the scales of the stage allow the short way */
    tern_zero_bias zero[GROUPED ? 1 : ROW_BLOCKS];
    tern_ring ring;  /* stage that comes next */
    int sums_parity; /* of the barrier of sums */
    int first, last; /* row tile of the first slot in a stage; way of the last one from its usual place, in tiles */
};

constexpr int BLOCK_SIDE = WARPS_N * 4 * boxes::scale_bytes;             /* from slot to slot */
typedef struct tern_box_places<BITS, groups, boxes, 4 * WARPS_N> places; /* of a lane, in a stage */
__device__ __forceinline__ places find_places(const consumer &state, int lane) {
    return places::find(CODES_AT + state.ring.stage * CODE_BYTES, SIDE_AT + state.ring.stage * SIDE_BYTES, state.first,
                        state.last, lane);
}
__device__ __forceinline__ void load_chunk(consumer &state, const unsigned char *shared, const places &at, int lane,
                                           int k_tile, int b, int step) {
    at.template load<CHUNK, GROUPED && SCALE_WEIGHTS, GROUPED && HAS_ZEROS>(
        state.words, state.scales, state.zeros, shared, lane, k_tile, b, WARPS_N > 1 && b == ROW_BLOCKS - 1, step);
}

/* A fragments of k-steps step .. step + CHUNK - 1 of slot b, from what load_chunk has loaded: the short way where scales are small, or may be (ASK) and are. */
enum way { SMALL, ANY, ASK };
template <way WAY> __device__ __forceinline__ void decode_chunk(consumer &state, int b, int step, fragments &a) {
    if (SHORT_WAY && (WAY == SMALL || (WAY == ASK && state.large == 0)))
        state.short_chunks.decode(state.words, state.scales, step, a);
    else
        tern_exact_chunk<BITS, BF16, groups::scale_k, GROUPED && HAS_ZEROS, GROUPED && SCALE_WEIGHTS>(
            state.words, state.scales, state.zeros, state.zero[GROUPED ? 0 : b], step, a);
    tern_wgmma_pin(a);
}

/* Starts the products of a chunk. */
template <int COUNT>
__device__ __forceinline__ void issue_chunk(float (&sum)[COUNT], const tern_wgmma_slice<BLOCK_M> &x, int step,
                                            const fragments &a) {
    tern_wgmma_fence();
#pragma unroll
    for (int u = 0; u < CHUNK; u++) {
        const int s = step + u;
        tern_wgmma<BLOCK_M, BF16>::multiply(sum, a[u], tern_wgmma_descriptor_of(x.low[s]),
                                            !SCALE_SUMS || s * 16 % groups::scale_k != 0);
    }
    tern_wgmma_commit();
}

__device__ __forceinline__ void await_stage(consumer &state, unsigned char *shared) {
    tern_barrier_wait(barrier_of(shared, state.ring.stage, TERN_FULL), state.ring.parity);
    if (SHORT_WAY)
        state.large = tern_uniform(tern_shared_load_4(shared + LARGE_AT + 4 * state.ring.stage));
}

/* K tiles from k_tile on, for the first ACTIVE slots. While a chunk multiplies, the next one is dequantised and the one after it loaded, which
 * may be of the next slot or k tile. There are two such forms, ROW_BLOCKS and one less: among more ptxas does not keep sums in place. */
template <int ACTIVE> struct k_loop {
    static constexpr int UNITS = ACTIVE * CHUNKS;
    const worker &self;
    consumer &state;
    unsigned char *shared;
    int k_tile, released; /* stage to give back when its last products are done */
    bool more;            /* k tiles behind this one */
    places at, here;      /* of what is loaded, and multiplied */
    tern_wgmma_slice<BLOCK_M> x;
    unsigned scale; /* of sums */
    fragments a[CHUNKS];

    __device__ __forceinline__ int following() const {
        return PAIR && k_tile + 1 == self.k_end ? self.k_begin : k_tile + WARPS_K;
    }
    __device__ __forceinline__ void multiply(int u) {
        const int b = u / CHUNKS, step = u % CHUNKS * CHUNK;
        issue_chunk(SCALE_SUMS ? state.part : state.sum[b], x, step, a[u % CHUNKS]);
        tern_wgmma_wait<CHUNKS - 1>(); /* the registers of the next chunk are free */
        if (u == CHUNKS - 2)           /* and so is the stage before */
            tern_warp_arrive(barrier_of(shared, released, TERN_EMPTY), self.lane, released >= 0);
        if (SCALE_SUMS && step * 16 % groups::scale_k == 0)
            scale = tern_shared_load_4(shared + here.scales[WARPS_N > 1 && b == ROW_BLOCKS - 1] + b * BLOCK_SIDE +
                                       32 * groups::slot(k_tile, step / 2));
    }
    template <way WAY> __device__ __forceinline__ void prepare(int u) {
        const int b = u / CHUNKS, next = u + 1, after = u + 2;
        if (next < UNITS || more)
            decode_chunk<WAY>(state, next / CHUNKS % ACTIVE, next % CHUNKS * CHUNK, a[next % CHUNKS]);
        if (after == UNITS && more) {
            tern_ring_advance<STAGES, WARPS_K>(state.ring);
            await_stage(state, shared);
            at = find_places(state, self.lane);
        }
        if (after < UNITS || more)
            load_chunk(state, shared, at, self.lane, after < UNITS ? k_tile : following(), after / CHUNKS % ACTIVE,
                       after % CHUNKS * CHUNK);
        if (SCALE_SUMS && next % CHUNKS * CHUNK * 16 % groups::scale_k == 0) {
            tern_wgmma_wait<0>();
            tern_wgmma_add_scaled(state.sum[b], state.part, __half22float2(tern_as_half2(scale)));
        }
    }
    /* All chunks of a k tile, of which the first is prepared. Large scales have code of their own, not branches between the products: a scheduler that must fetch
     * what is not executed, or find its way around it, waits for instructions. Where registers allow it (APART): else ptxas serialises products, C7512. */
    template <way WAY> __device__ __forceinline__ void multiply_all() {
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
            multiply(u);
            if (u + 1 < UNITS)
                prepare<WAY>(u);
        }
    }
};

template <int ACTIVE>
__device__ __forceinline__ void multiply_tiles(const worker &self, consumer &state, unsigned char *shared, int k_tile,
                                               int count) {
    k_loop<ACTIVE> loop = {self, state, shared, k_tile, -1};
    await_stage(state, shared);
    loop.at = find_places(state, self.lane);
    load_chunk(state, shared, loop.at, self.lane, k_tile, 0, 0);
    decode_chunk<ASK>(state, 0, 0, loop.a[0]);
    load_chunk(state, shared, loop.at, self.lane, k_tile, 0, CHUNK);
    loop.x = tern_wgmma_slice<BLOCK_M>::at(shared + state.ring.stage * X_BYTES);
    for (int i = 0; i < count; i++) {
        const int stage = state.ring.stage;
        loop.more = i + 1 < count, loop.here = loop.at;
        if (APART && state.large == 0)
            loop.template multiply_all<SMALL>();
        else
            loop.template multiply_all<APART ? ANY : ASK>();
        loop.template prepare<ASK>(loop.UNITS - 1);
        loop.released = stage;
        loop.x.move(state.ring.stage - stage);
        loop.k_tile = loop.following();
    }
    tern_wgmma_wait<0>();
#pragma unroll
    for (int b = 0; b < ACTIVE; b++)
        tern_wgmma_pin(state.sum[b]);
    tern_warp_arrive(barrier_of(shared, loop.released, TERN_EMPTY), self.lane);
    tern_ring_advance<STAGES, WARPS_K>(state.ring);
}

/* Zero sums; zero points that do not change along K. */
__device__ __forceinline__ void start_sums(const tern_args &args, const share &mine, const worker &self, consumer &state) {
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        if (!GROUPED || b == 0)
            state.zero[GROUPED ? 0 : b] = tern_zero_biases<BITS>(ZERO, ZERO);
        if (!GROUPED && HAS_ZEROS)
            state.zero[b] = tern_row_zeros<BITS>(args, 4 * own_block(mine, self, b) + self.warp, self.row_tiles, self.lane);
#pragma unroll
        for (int i = 0; i < BLOCK_M / 2; i++)
            state.sum[b][i] = 0.0f;
    }
    state.first = tern_kept(mine.usual(self.n, 0) * 4 + self.warp);
    state.last = 4 * (mine.place(self.n, ROW_BLOCKS - 1) - mine.usual(self.n, ROW_BLOCKS - 1));
}

/* ---- sums to y ---- */

constexpr int STORED =
    (ROW_BLOCKS + WARPS_K - 1) / WARPS_K; /* row blocks: warpgroups that take turns at k tiles divide theirs */

/* Rounds and stores y: the sums of `blocks` row blocks, from row x_row of x on. */
template <int SLOTS, int COUNT>
__device__ __forceinline__ void store_sums(const tern_args &args, long long x_row, const share &mine, const worker &self,
                                           int blocks, float (&sum)[SLOTS][COUNT], unsigned char *shared) {
    unsigned char *slots = shared + OUTPUT_AT + self.warpgroup * 4 * TERN_STORE_SLOT;
    const tern_store to = {slots, OUTPUT + self.warpgroup, self.warp, self.lane, x_row, 0};
    const auto place = [&](int i) { return own_block(mine, self, i * WARPS_K + self.part); };
    tern_store_blocks<!GROUPED, STORED>(args, to, blocks, place, self.row_tiles, sum);
}

/* Adds up, then stores what the warpgroup has. Sums of warpgroups that took k tiles in turn meet in the ring, which is idle; of two blocks that split K each
 * adds up and stores half of the rows of x. */
__device__ __forceinline__ void finish(const tern_args &args, long long x_row, const share &mine, const worker &self,
                                       consumer &state, unsigned char *shared) {
    const int slots = mine.slots(self.n), blocks = tern_parts_share<WARPS_K>(slots, self.part);
    unsigned char *places = shared + SUMS_AT, *barriers = shared + SUM_BARRIERS_AT;
    if (WARPS_K > 1) {
        tern_parts_sum<WARPS_K, CONSUMERS>(state.sum, shared + self.n * ((WARPS_K - 1) * ROW_BLOCKS * 256 * BLOCK_M),
                                           self.part, slots, PARTS);
        tern_fence_async();
        tern_block_arrive(ALL_THREADS, THREADS); /* the ring is free again */
    } else if (WARPS_N > 1 || PAIR)
        tern_items_sum<CONSUMERS>(mine, self.n, state.sum[ROW_BLOCKS - 1], shared, places, barriers, state.sums_parity,
                                  PARTS);
    if constexpr (CLUSTER_K > 1) {
        float own[STORED][BLOCK_M / 4];
        tern_pair_sum<WARPS_K>(state.sum, own, places + SUM_BYTES * (self.n * ROW_BLOCKS + self.part), blocks,
                               barriers + 8 * self.warpgroup, state.sums_parity, self.rank);
        store_sums(args, x_row + self.rank * (BLOCK_M / 2), mine, self, blocks, own, shared);
    } else
        store_sums(args, x_row, mine, self, blocks, state.sum, shared);
}

/* All k tiles that are the warpgroup's. Its last slot may have something to do in some of them only. Those that take k tiles in turn all have
 * the same row blocks: they spare themselves the other form, and an empty slot costs a block that has less to do than others. */
__device__ __forceinline__ void multiply(const share &mine, const worker &self, consumer &state, unsigned char *shared) {
    const int count = self.k_end - self.k_begin;
    if constexpr (WARPS_K > 1) {
        const tern_ring first = state.ring;
        tern_ring_skip<STAGES>(state.ring, self.part);
        if (self.part < count)
            multiply_tiles<ROW_BLOCKS>(self, state, shared, self.k_begin + self.part,
                                       (count - self.part + WARPS_K - 1) / WARPS_K);
        state.ring = first;
        tern_ring_skip<STAGES>(state.ring, count);
        return;
    }
    const typename share::range last = mine.last(self.n, count);
#pragma unroll 1
    for (int segment = 0; segment < 3; segment++) {
        const int begin = segment == 0 ? 0 : segment == 1 ? last.begin : last.end;
        const int end = segment == 0 ? last.begin : segment == 1 ? last.end : count;
        const int k_tile = self.k_begin + mine.k_tile(begin, count);
        if (begin < end) {
            if (segment == 1)
                multiply_tiles<ROW_BLOCKS>(self, state, shared, k_tile, end - begin);
            else if constexpr (ROW_BLOCKS > 1)
                multiply_tiles<ROW_BLOCKS - 1>(self, state, shared, k_tile, end - begin);
            else
                tern_slices_pass<STAGES, 1>(shared + BARRIERS_AT, state.ring, end - begin, self.lane);
        }
        if (PAIR && segment == 1) { /* while products go on with what is not shared */
            tern_cluster_wait();
            tern_shared_give(mine, self.n, state.sum[ROW_BLOCKS - 1], shared + SUMS_AT, shared + SUM_BARRIERS_AT);
        }
    }
}

__device__ __forceinline__ void consume(const tern_args &args, unsigned char *shared) {
    const worker self = find_worker(args);
    consumer state;
    state.ring = {0, 0}, state.sums_parity = 0;
    shared = tern_shared_kept(shared);
    tern_sweep sweep = start_sweep(args);
    while (tern_sweep_next<TILE_BLOCKS, 0>(sweep)) {
        if (CLUSTER > 1)
            tern_cluster_arrive(); /* sums of the tile before have been read */
        const share mine = find_share(sweep, self);
        start_sums(args, mine, self, state);
        multiply(mine, self, state, shared);
        finish(args, (long long)sweep.tile_m * BLOCK_M, mine, self, state, shared);
    }
}

/* One warp prepares the barriers: a stage is full when codes are there, x is turned and scales are looked at, and empty when all warps of one part have read it. */
__device__ __forceinline__ void start_barriers(unsigned char *shared, int lane) {
    tern_slices_init<STAGES>(shared + BARRIERS_AT, lane, 1 + (SHORT_WAY ? 2 : 1) * TERN_WARP_ARRIVALS,
                             4 * WARPS_N * TERN_WARP_ARRIVALS);
    if (CLUSTER > 1 && lane < WARPGROUPS)
        tern_barriers_init(shared + SUM_BARRIERS_AT + 8 * lane, 1, 1);
    tern_barriers_publish();
}

/* What each of the producing warps does: up to the first barrier something else. */
__device__ __forceinline__ void produce_all(const tern_args &args, unsigned char *shared) {
    const worker self = find_worker(args);
    const int tiles = share::highest(start_sweep(args));
    unsigned char *maps = static_cast<unsigned char *>(args.workspace) + MAPS * TERN_TENSOR_MAP * blockIdx.x;
    unsigned char *scratch = shared + OUTPUT_AT + TERN_TENSOR_MAP * self.warp;
    if (self.warp == 2) /* which has a map to make only where there are zero points */
        start_barriers(shared, self.lane);
    if (self.warp < boxes::MAPS)
        boxes::make_map(self.warp, args, maps, scratch, self.warp == boxes::CODES ? share::step(start_sweep(args)) : tiles,
                        self.lane);
    else
        tern_tensor_map_make<2>(maps + X_MAP * TERN_TENSOR_MAP, scratch, {args.x, args.k, args.m, 64, BLOCK_M}, self.lane);
    tern_block_meet();
    if (self.warp >= 2)
        return produce<TURN>(args, self, maps, shared, tiles);
    self.warp == 0 ? produce<COPY>(args, self, maps, shared, tiles) : produce<CHECK>(args, self, maps, shared, tiles);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) tern_wgmma_turn(const struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    tern_wgmma_start();
    if (threadIdx.x >= CONSUMERS) {
        tern_registers_lower<PRODUCER_REGISTERS>();
        produce_all(args, shared);
    } else {
        copy_first(args, shared);
        tern_block_meet();
        tern_first_expect<FIRST, CONSUMERS>(shared + BARRIERS_AT, find_worker(args).first_tiles, PARTS);
        tern_registers_raise<CONSUMER_REGISTERS>();
        consume(args, shared);
    }
}
