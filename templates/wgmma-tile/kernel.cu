/* wgmma-tile: y[M,N] = x[M,K] * W[N,K]^T for M = 65 up to prefill on Hopper: quantised W, fp32 accumulation.
 *
 * Warp-specialised and persistent. One warpgroup produces a ring of STAGES slices of 128 k: x in swizzled tiles; code words, scales and
 * zero points by cp.async. CONSUMERS warpgroups multiply: W is the 64-row operand of wgmma, dequantised into registers (swap-AB; four
 * stacked 16-row tiles of layout frag16x128, one a warp), x the shared-memory operand with BLOCK_M columns. While one chunk of k-steps
 * multiplies, the next is dequantised into a second set of registers. tern/wgmma_codes.cuh undoes the k order of the layout.
 *
 * Parameters, constexpr ints in front of this file (space.lua has values and limits):
 *   BLOCK_M         rows of x of a CTA, columns of the wgmma
 *   CONSUMERS       warpgroups that multiply
 *   K_PARTS         of them that share rows and take slices in turn; their sums meet in shared memory
 *   ROW_BLOCKS      64-row blocks of W of each; a tile has up to 64 * CONSUMERS / K_PARTS * ROW_BLOCKS rows
 *   STAGES          slices of 128 k in the ring, 3 or more
 *   CHUNK           k-steps of 16 dequantised and committed together: 1, 2 or 4
 *   CLUSTER_K       blocks of a cluster that split K; their fp32 sums meet in shared memory
 *   PAIR            two blocks share an odd row block: 1: half of K each, at last; 2: the same beside the others, by one more
 *                   warpgroup; 3: by such a one half of the columns each; 4: by it all blocks an eighth of the columns of those that are left
 *                   over (tern/spread.cuh); 0: whole row blocks
 *   X_COPY          how x comes: 0 by cp.async of two warps, 1 by the copy engine, 2 so for two blocks of a cluster, half a slice by each
 *   STREAM_K        0: whole tiles; 1: cut along K, equally much for all blocks (tern/stream_k.cuh); 2: blocks without one in the last turn help
 *   GROUP_M         BLOCK_M tiles that neighbouring CTAs sweep together, so that x and W are shared in L2
 *   SCALE_WEIGHTS   1: group scale times (q - z) in the type of x before the multiply; 0: fp32 scale on the sums of each group
 *   ROUND_WEIGHTS   says that SCALE_WEIGHTS rounds (it does not for ternary in binary16); not used here
 *   BITS, ZERO, HAS_ZEROS, GROUP    the format; GROUP 0 is one scale a row, applied in the epilogue
 * Tails: any M, N a multiple of 8, K a multiple of 32, short last group. Sums have a fixed order. Bound by tensor cores, or by power. */
#include "tern/cluster_sum.cuh"
#include "tern/half_sum.cuh"
#include "tern/part_sum.cuh"
#include "tern/stream_sum.cuh"
#include "tern/tile_shape.cuh"
#include "tern/wgmma_store.cuh"

/* The tensor map leaves ahead of the block's first barrier; with PAIR 3 not, where ptxas then puts the upper half of a descriptor together for
 * each product of the third warpgroup, 8 instructions a slice. Producers find their first tile ahead of that barrier, and consumers theirs behind
 * it: all wait for the first copies, and instructions are cold, so that who fetches many keeps others from theirs. Not with PAIR 2 and 3, whose
 * registers are all taken. Then a warp that would only wait makes the map, as the one that copies has a plan to make. */
constexpr bool MAP_AHEAD = PAIR != 3, PLAN_AHEAD = PAIR % 4 == 0;
constexpr int MAP_WARP = 4 * (CONSUMERS + ODD) + (PLAN_AHEAD ? -1 : 1);

constexpr int RING_FREE = 1; /* a named barrier; those of warpgroups that store are 2 and up */

typedef struct tern_plan<BLOCKS, BLOCK_M, GROUP_M, CLUSTER_K, STREAM_K, PAIR, SHARERS, 2> plan;

__device__ __forceinline__ void *barrier_of(unsigned char *shared, int stage, tern_slice_barrier which) {
    return tern_slice_barrier_of(shared + BARRIERS_AT, stage, which);
}

/* ---- producers: warp 0 copies what belongs to W; warp 1 has x brought, or makes what warps 2 and 3 have copied known ---- */

/* Warp 0: what belongs to W, of the shared row block last. */
__device__ __forceinline__ void produce_weights(const tern_args &args, const tern_place &at, unsigned char *shared,
                                                tern_ring &fill, int lane) {
    const tern_place odd = tern_odd_place<PAIR>(at);
    const copies own = copies::find(args, at, lane);
    for (int k_tile = at.k_begin; k_tile < at.k_end; k_tile++) {
        unsigned char *codes = shared + CODES_AT + fill.stage * CODE_BYTES,
                      *sides = shared + SIDES_AT + fill.stage * SIDE_BYTES;
        tern_barrier_wait(barrier_of(shared, fill.stage, TERN_EMPTY), fill.parity);
        if (ODD)
            copies::copy_unrolled(args, at, codes, sides, k_tile, lane);
        else
            own.copy(args, codes, sides, k_tile, lane);
        if (ODD && k_tile >= odd.k_begin && k_tile < odd.k_end)
            odd_copies::copy_unrolled(args, odd, codes + 4 * BLOCKS * copies::tile_bytes,
                                      sides + 4 * BLOCKS * copies::side_bytes, k_tile, lane);
        tern_cp_async_arrive(barrier_of(shared, fill.stage, TERN_FULL));
        tern_ring_advance<STAGES>(fill);
    }
}

__device__ __forceinline__ void send_map(const tern_args &args, unsigned char *shared, unsigned char *map) {
    tern_tensor_map_send<2>(map, shared + MAP_AT, {args.x, args.k, args.m, 64, BLOCK_M}, (int)threadIdx.x % 32);
}

__device__ __forceinline__ void produce(const tern_args &args, unsigned char *shared, unsigned char *map) {
    const int thread = (int)threadIdx.x % TERN_WARPGROUP, lane = thread % 32;
    const int warp = (int)tern_uniform((unsigned)thread / 32);
    tern_ring fill = {0, 1};
    if (X_COPY > 0 && !MAP_AHEAD && warp == 1) {
        send_map(args, shared, map);
        tern_tensor_map_acquire(map);
    }
    tern_place at;
    plan tiles(args, at);
    if (PLAN_AHEAD)
        tern_block_meet();
    if (X_COPY > 0 && MAP_AHEAD && warp == 1) /* behind the plan, which takes as long as the map's way */
        tern_tensor_map_acquire(map);
    if (PAIR == 2 || SHARERS > 1)
        tern_cluster_wait();
    while (tiles.next(at)) {
        if (warp == 0)
            produce_weights(args, at, shared, fill, lane);
        else if (X_COPY > 0) {
            if (HALVES && warp == 1)
                tern_halves_box<HALF_RING, X_BYTES / 2>(shared, shared + HALVES_AT, map, (int)at.x_row, at.k_begin, at.k_end,
                                                        fill, lane);
            else if (warp == 1)
                tern_slices_box<STAGES, X_BYTES, SHARERS>(shared, shared + BARRIERS_AT, map, (int)at.x_row, at.k_begin,
                                                          at.k_end, fill, lane, at.rank);
        } else if (warp == 1)
            tern_slices_publish<STAGES>(shared + BARRIERS_AT, fill, at.k_end - at.k_begin, lane);
        else
            tern_slices_copy<STAGES, BLOCK_M>(shared, shared + BARRIERS_AT, args, at.x_row, at.k_begin, at.k_end, fill,
                                              thread - 64);
        __syncwarp();
        if (CLUSTER_K > 1 && !at.alone) { /* the barrier of tern_cluster_sum, those of tern_half_sum, */
            tern_cluster_pass();
        } else if (PAIR == 1 && at.half) {
            tern_cluster_sync();
            tern_cluster_sync();
        }
        if (K_PARTS > 1 || (CLUSTER_K > 1 && !at.alone)) { /* and the one behind the sums */
            tern_block_sync(RING_FREE, THREADS);
            tern_fence_async(); /* the copy engine follows where ordinary stores were */
        }
    }
    if (PAIR == 2 && warp == 1 && at.half && at.rank == 1) /* what would be filled next takes the sums of block 0 */
        tern_half_offer(shared + SENT_AT, barrier_of(shared, fill.stage, TERN_EMPTY), fill, lane);
}

/* ---- consumers: registers of a thread ---- */
struct consumer {
    float sum[ROW_BLOCKS][SUMS];                         /* fp32 result */
    float part[SCALE_SUMS ? ROW_BLOCKS : 1][SUMS];       /* sum of one scale group, not yet scaled */
    unsigned words[ROW_BLOCKS][tern_codes<BITS>::words]; /* codes of the 128-k tile, loaded as needed */
    tern_zero_bias zero[ROW_BLOCKS];
    unsigned scale[ROW_BLOCKS];    /* (row g, row g + 8) in binary16 */
    int warpgroup, n, turn, place; /* which one; its place along N and turn in K; of its first row block in the tile */
    int column;                    /* its first row of x in a slice */
    tern_ring half;                /* HALVES: the next half of x */
    int warp, lane;                /* warp within the warpgroup */
    int sums_parity;               /* of the barrier of a cluster's sums */
    reader weights;
};

/* The warp's 16-row tile in its row block b, counted from the CTA's first. Blocks go round the warpgroups: a low tile occupies all. */
__device__ __forceinline__ int own_tile(const consumer &state, int b) {
    return (b * WARPS_N + state.place) * 4 + state.warp;
}

/* Loads what is wanted from 32-k block `block` of the slice in `stage` on. */
template <int ACTIVE>
__device__ __forceinline__ void load_weights(consumer &state, const unsigned char *shared, int stage, unsigned k_tile,
                                             int block) {
#pragma unroll
    for (int b = 0; b < ACTIVE; b++) {
        state.weights.load_codes(state.words[b], shared + CODES_AT + stage * CODE_BYTES, b, block);
        state.weights.load_sides(state.scale[b], state.zero[b], shared + SIDES_AT + stage * SIDE_BYTES, b, (int)k_tile,
                                 block);
    }
}

typedef unsigned fragments[CHUNK][ROW_BLOCKS][4]; /* A of the k-steps of a chunk */

/* A of k-steps step .. step + CHUNK - 1 of the slice in `stage`; loads what they want, but of the first step if that was done ahead. */
template <int ACTIVE>
__device__ __forceinline__ void decode_chunk(consumer &state, unsigned char *shared, int stage, unsigned k_tile, int step,
                                             fragments &a) {
#pragma unroll
    for (int u = 0; u < CHUNK; u++) {
        if ((step + u) % 2 == 0 && (step + u > 0 || !LOAD_AHEAD))
            load_weights<ACTIVE>(state, shared, stage, k_tile, (step + u) / 2);
#pragma unroll
        for (int b = 0; b < ACTIVE; b++)
            tern_weight_fragment<BITS, HAS_ZEROS, GROUPED && SCALE_WEIGHTS>(state.words[b], step + u, state.zero[b],
                                                                            state.scale[b], a[u][b]);
    }
}

/* Starts the products of a chunk. `x` is the start address of the slice; 64 k further is the other half of it. */
template <int ACTIVE, int COLUMNS>
__device__ __forceinline__ void issue_chunk(consumer &state, unsigned x, int step, const fragments &a) {
    tern_wgmma_fence();
#pragma unroll
    for (int u = 0; u < CHUNK; u++) {
        const int s = step + u;
        const unsigned long long b_tile =
            tern_wgmma_descriptor(x + (unsigned)((HALVES ? 0 : s / 4 * (BLOCK_M * 8)) + s % 4 * 2));
#pragma unroll
        for (int b = 0; b < ACTIVE; b++)
            tern_wgmma_multiply<COLUMNS, BF16, COLUMNS <= WIDEST ? 1 : 2>(
                SCALE_SUMS ? state.part[SCALE_SUMS ? b : 0] : state.sum[b], a[u][b], b_tile,
                !SCALE_SUMS || s * 16 % groups::scale_k != 0);
    }
    tern_wgmma_commit();
}

/* The warp has read a stage. */
__device__ __forceinline__ void release(const consumer &state, unsigned char *shared, int stage) {
    tern_warp_arrive(barrier_of(shared, stage, TERN_EMPTY), state.lane, stage >= 0);
}

/* The warpgroup's slices of a tile, of which it has ACTIVE row blocks and COLUMNS rows of x; `use` is the place of the first in the ring.
 * While a chunk multiplies, the next one is dequantised, which at the end of a slice is the first of the next slice. */
template <int ACTIVE, int COLUMNS = BLOCK_M>
__device__ __forceinline__ void multiply_tile(const tern_place &at, consumer &state, unsigned char *shared, tern_ring use) {
    fragments a[SETS];
    const int k_begin = at.k_begin + state.turn;
    int released = -1, half = -1, half_released = -1; /* stages to give back when their last products are done */
    tern_barrier_wait(barrier_of(shared, use.stage, TERN_FULL), use.parity);
    if (LOAD_AHEAD)
        load_weights<ACTIVE>(state, shared, use.stage, (unsigned)k_begin, 0);
    decode_chunk<ACTIVE>(state, shared, use.stage, (unsigned)k_begin, 0, a[0]);
    for (int k_tile = k_begin; k_tile < at.k_end; k_tile += K_PARTS) {
        const int stage = use.stage;
        unsigned x = HALVES ? 0 : tern_uniform(tern_wgmma_start_address(shared + stage * X_BYTES + 128 * state.column));
        tern_ring_advance<STAGES, K_PARTS>(use);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            fragments &next = a[(c + 1) % SETS];
            if (HALVES && c % (CHUNKS / 2) == 0) {
                half_released = half;
                half = tern_half_slice_await<HALF_RING>(shared + HALVES_AT, state.half);
                x = tern_uniform(tern_wgmma_start_address(shared + half * (X_BYTES / 2) + 128 * state.column));
            }
            issue_chunk<ACTIVE, COLUMNS>(state, x, c * CHUNK, a[c % SETS]);
            if (SETS == 2)
                tern_wgmma_wait<1>();
            unsigned scale[ROW_BLOCKS];
#pragma unroll
            for (int b = 0; b < ROW_BLOCKS; b++)
                scale[b] = state.scale[b];
            if (c + 1 < CHUNKS)
                decode_chunk<ACTIVE>(state, shared, stage, (unsigned)k_tile, (c + 1) * CHUNK, next);
            if (c == CHUNKS - (LOAD_AHEAD ? 2 : 1) && k_tile + K_PARTS < at.k_end) {
                tern_barrier_wait(barrier_of(shared, use.stage, TERN_FULL), use.parity);
                if (LOAD_AHEAD)
                    load_weights<ACTIVE>(state, shared, use.stage, (unsigned)k_tile + K_PARTS, 0);
            }
            if (c + 1 == CHUNKS && k_tile + K_PARTS < at.k_end)
                decode_chunk<ACTIVE>(state, shared, use.stage, (unsigned)k_tile + K_PARTS, 0, next);
            if (SETS > 2)
                tern_wgmma_wait<1>();
            if (c == 0)
                release(state, shared, released);
            if (HALVES && c % (CHUNKS / 2) == 0)
                tern_half_slice_release(shared + HALVES_AT, half_released, state.lane);
            if (SCALE_SUMS && (c + 1) * CHUNK * 16 % groups::scale_k == 0) {
                tern_wgmma_wait<0>();
#pragma unroll
                for (int b = 0; b < ACTIVE; b++)
                    tern_wgmma_add_scaled(state.sum[b], state.part[SCALE_SUMS ? b : 0],
                                          __half22float2(tern_as_half2(scale[b])));
            }
        }
        released = stage;
    }
    tern_wgmma_wait<0>();
#pragma unroll
    for (int b = 0; b < ACTIVE; b++)
        tern_wgmma_pin<COLUMNS / 2>(state.sum[b]);
    release(state, shared, released);
    if (HALVES)
        tern_half_slice_release(shared + HALVES_AT, half, state.lane);
}

/* Gives back the warpgroup's slices k_begin .. k_end - 1, which it does not multiply. */
__device__ __forceinline__ void skip_slices(consumer &state, unsigned char *shared, tern_ring &use, int k_begin, int k_end) {
    for (int k_tile = k_begin; k_tile < k_end; k_tile += K_PARTS) {
        tern_barrier_wait(barrier_of(shared, use.stage, TERN_FULL), use.parity);
        release(state, shared, use.stage);
        tern_ring_advance<STAGES, K_PARTS>(use);
        for (int i = 0; HALVES && i < 2; i++)
            tern_half_slice_skip<HALF_RING>(shared + HALVES_AT, state.half, state.lane);
    }
}

/* Of warpgroup `warpgroup`; CONSUMERS is that of ODD. */
__device__ __forceinline__ consumer start_consumer(int warpgroup) {
    consumer state;
    state.warpgroup = warpgroup;
    state.n = warpgroup % WARPS_N;
    state.turn = K_PARTS > 1 ? warpgroup / WARPS_N : 0;
    state.place = warpgroup == CONSUMERS ? BLOCKS : state.n;
    state.warp = (int)threadIdx.x / 32 % 4;
    state.lane = (int)threadIdx.x % 32;
    state.sums_parity = state.column = 0;
    state.half = {0, 0};
    state.weights = reader::find(own_tile(state, 0), state.lane);
    return state;
}

/* Zero sums; zero points that do not change along K. */
__device__ __forceinline__ void start_sums(const tern_args &args, const tern_place &at, consumer &state) {
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        state.zero[b] = tern_zero_biases<BITS>(ZERO, ZERO);
        state.scale[b] = 0;
        if (!GROUPED && HAS_ZEROS)
            state.zero[b] = tern_row_zeros<BITS>(args, at.row_tile + own_tile(state, b), at.row_tiles, state.lane);
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            state.sum[b][i] = 0.0f;
    }
}

/* ---- sums to y ---- */

/* Of the shares of a tile's columns that blocks of a cluster have, that of this one. */
__device__ __forceinline__ int share_of(const tern_place &at) {
    return CLUSTER_K > 1 ? at.rank : 0;
}

/* A warpgroup's part of a cut tile, of which a block that helps has all shares of a cluster's blocks: those at which it is the last one, as
 * bits; of them it then has the sums of all. */
__device__ __forceinline__ unsigned join_parts(const tern_args &args, const tern_place &at, consumer &state,
                                               unsigned char *shared, int active) {
    unsigned char *counters = static_cast<unsigned char *>(args.workspace) + TERN_TENSOR_MAP * (unsigned long long)gridDim.x;
    tern_join join = tern_join_make<CONSUMERS, SLOT_BYTES, CLUSTER_K>(counters, at.part, state.warpgroup);
    join.answer = reinterpret_cast<unsigned *>(shared + OUTPUT_AT + state.warpgroup * OUTPUT_BYTES);
    join.barrier = 2 + state.warpgroup;
    return tern_stream_join<CLUSTER_K>(join, state.sum, active, at.alone ? (1u << CLUSTER_K) - 1 : 1u << share_of(at));
}

/* Rounds and stores share `share`, of SHARES, of COLUMNS rows of y. Warpgroups have barriers 2 and up. */
template <int COLUMNS = BLOCK_M, int SHARES = CLUSTER_K>
__device__ __forceinline__ void store_sums(const tern_args &args, const tern_place &at, consumer &state,
                                           unsigned char *shared, int active, int share) {
    unsigned char *slots = shared + OUTPUT_AT + state.warpgroup * OUTPUT_BYTES;
    const tern_store to = {slots, 2 + state.warpgroup, state.warp, state.lane, at.x_row, share};
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        if (b >= active)
            break;
        const int tile = at.row_tile + own_tile(state, b);
        const float2 scale = GROUPED ? float2{1.0f, 1.0f} : tern_row_scales(args, tile, at.row_tiles, state.lane);
        tern_store_sums<SHARES, STORE_UNITS, COLUMNS>(
            args, to, tile, scale, *reinterpret_cast<const float(*)[(COLUMNS + 15) / 16 * 8]>(&state.sum[b]));
    }
}

/* Adds over the warpgroups that took turns and over the cluster; the last of them then has the sums that it stores. */
__device__ __forceinline__ void add_up(const tern_place &at, consumer &state, unsigned char *shared, int stage) {
    if constexpr (K_PARTS > 1)
        tern_turn_sum<STAGES, X_BYTES>(state.sum, shared, stage, state.turn, 2 + state.warpgroup, 2 + CONSUMERS);
    if (CLUSTER_K > 1 && !at.alone) {
        if (state.turn == K_PARTS - 1)
            tern_cluster_sum<CLUSTER_K, TERN_WARPGROUP * WARPS_N>(state.sum, shared, shared + SENT_AT, state.sums_parity,
                                                                  at.rank, TERN_WARPGROUP * (K_PARTS - 1));
        else
            tern_cluster_pass();
        state.sums_parity ^= 1;
    }
    if (K_PARTS > 1 || (CLUSTER_K > 1 && !at.alone))
        tern_block_sync(RING_FREE, THREADS); /* the ring is the producers' again */
}

__device__ __forceinline__ void consume(const tern_args &args, unsigned char *shared, int warpgroup) {
    consumer state = start_consumer(warpgroup);
    tern_ring use = {0, 0};
    tern_place at;
    plan tiles(args, at);
    if (PAIR == 2 || SHARERS > 1)
        tern_cluster_wait();
    while (tiles.next(at)) {
        const int active = at.blocks > state.n ? (at.blocks - state.n + WARPS_N - 1) / WARPS_N : 0;
        const int stage = use.stage;
        tern_ring own = use; /* its first slice, if K reaches there */
        tern_ring_skip<STAGES>(own, state.turn);
        tern_ring_skip<STAGES>(use, at.k_end - at.k_begin);
        start_sums(args, at, state);
        if (active == 0 || at.k_begin + state.turn >= at.k_end)
            skip_slices(state, shared, own, at.k_begin + state.turn, at.k_end);
        else if (ROW_BLOCKS == 1 || active == ROW_BLOCKS)
            multiply_tile<ROW_BLOCKS>(at, state, shared, own);
        else
            multiply_tile<1>(at, state, shared, own);
        __syncwarp();
        add_up(at, state, shared, stage);
        if (state.turn < K_PARTS - 1 || (PAIR == 1 && at.half && !tern_half_sum(state.sum[0], shared, at.rank, active > 0)))
            continue;
        unsigned shares = STREAM_K == 2 ? 1u << share_of(at) : 1; /* that it stores; its own, where it cannot help */
        if (STREAM_K && at.part.all > 1)
            shares = active == 0 ? 0 : join_parts(args, at, state, shared, active);
        if (ODD && ROW_BLOCKS * BLOCK_M > 224)
            tern_hide(state.lane); /* or addresses of stores take registers all through the loop; costs it 2 % elsewhere */
#pragma unroll 1
        for (int share = 0; share < (STREAM_K == 2 ? CLUSTER_K : 1); share++)
            if (shares >> share & 1)
                store_sums(args, at, state, shared, active, STREAM_K == 2 ? share : share_of(at));
    }
}

/* CLUSTER_K 2: adds what the warpgroup of ODD and that of the other block have of their row block; true where the sums of both are then.
 * `any`: there is such a row block beside this place. As in add_up, all have used their slices first, and want the ring no more at last. */
__device__ __forceinline__ bool add_odd(const tern_place &at, consumer &state, unsigned char *shared, bool any) {
    unsigned char *barrier = shared + SENT_AT + 8; /* add_up has the one before */
    tern_cluster_pass();
    if (any && at.rank == 0) {
        tern_sums_give<ODD_COLUMNS / 2>(state.sum[0], shared + ODD_SUMS_AT, barrier, 1);
    } else if (any) {
        tern_sums_take<ODD_COLUMNS / 2>(state.sum[0], shared + ODD_SUMS_AT, barrier, state.sums_parity);
        state.sums_parity ^= 1;
    }
    tern_block_arrive(RING_FREE, THREADS);
    return any && at.rank == 1;
}

/* The shared row block of ODD, which lies beside the last place. PAIR 2: block 0 sends its sums of the first half of K to block 1, which
 * adds and stores. PAIR 3: each stores its columns, those of both twice the same. PAIR 4: beside any place. */
__device__ __forceinline__ void consume_odd(const tern_args &args, unsigned char *shared) {
    consumer state = start_consumer(CONSUMERS);
    tern_ring use = {0, 0};
    tern_place at;
    plan tiles(args, at);
    if (PAIR == 2)
        tern_cluster_wait();
    while (tiles.next(at)) {
        if (!at.half) {
            skip_slices(state, shared, use, at.k_begin, at.k_end);
            if (CLUSTER_K > 1)
                add_odd(at, state, shared, false);
            continue;
        }
        tern_place odd = tern_odd_place<PAIR>(at);
        odd.row_tile -= 4 * BLOCKS; /* of the tile that own_tile counts from */
        state.column = PAIR == 4 ? at.odd_part * ODD_COLUMNS : PAIR == 3 ? at.rank * (BLOCK_M - ODD_COLUMNS) : 0;
        odd.x_row += state.column;
        start_sums(args, odd, state);
        skip_slices(state, shared, use, at.k_begin, odd.k_begin);
        if (odd.k_begin < odd.k_end)
            multiply_tile<1, ODD_COLUMNS>(odd, state, shared, use);
        tern_ring_skip<STAGES>(use, odd.k_end - odd.k_begin);
        if (PAIR == 2 && at.rank == 0) {
            skip_slices(state, shared, use, odd.k_end, at.k_end - STAGES); /* for the last ones nobody waits */
            tern_half_send<BLOCK_M / 2>(state.sum[0], shared, X_BYTES, shared + SENT_AT);
            return;
        }
        if (PAIR == 2)
            tern_half_receive<BLOCK_M / 2>(state.sum[0], shared + use.stage * X_BYTES, shared + SENT_AT);
        if (CLUSTER_K > 1 && !add_odd(at, state, shared, true))
            continue;
        tern_hide(state.lane); /* or addresses of stores take registers all through the loop */
        store_sums<ODD_COLUMNS, 1>(args, odd, state, shared, 1, 0);
        if (PAIR < 4)
            return;
    }
}

/* One thread of each warp, its barriers: those of lanes of one warp are set up one after the other, while all wait. */
__device__ __forceinline__ void init_barriers(unsigned char *shared, int warp) {
    constexpr int READERS = 4 * (WARPS_N + ODD) * TERN_WARP_ARRIVALS;
    if (warp < STAGES) /* full: x or its announcement, and the lanes that copy codes and scales */
        tern_slice_init(shared + BARRIERS_AT, warp, (HALVES ? 0 : 1) + 32, READERS, SHARERS > 1 ? 1 : TERN_X_THREADS);
    if (HALVES && warp < HALVES)
        tern_half_slice_init(shared + HALVES_AT, warp, READERS);
    if (PAIR == 2 && warp == STAGES)
        tern_half_init(shared + SENT_AT, TERN_HALF_BYTES(BLOCK_M / 2));
    if (CLUSTER_K > 1 && (warp == STAGES || (PAIR == 4 && warp == STAGES + 1)))
        tern_barrier_init(shared + SENT_AT + 8 * (warp - STAGES), 1);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) tern_wgmma_tile(const struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    const int warp = (int)tern_uniform(threadIdx.x / 32), warpgroup = warp / 4;
    unsigned char *map = static_cast<unsigned char *>(args.workspace) + TERN_TENSOR_MAP * (unsigned long long)blockIdx.x;
    tern_wgmma_start();
    if (X_COPY > 0 && MAP_AHEAD && warp == MAP_WARP) {
        send_map(args, shared, map);
        if (PLAN_AHEAD) /* it is another warp that copies */
            tern_tensor_map_acquire(map);
    }
    if (threadIdx.x % 32 == 0)
        init_barriers(shared, warp);
    if (!PLAN_AHEAD || warpgroup < CONSUMERS + ODD)
        tern_block_meet();
    if (PAIR == 2 || SHARERS > 1)
        tern_cluster_arrive();
    if (warpgroup == CONSUMERS + ODD) {
        tern_registers_lower<PRODUCER_REGISTERS>();
        produce(args, shared, map);
    } else if (ODD && warpgroup == CONSUMERS) {
        tern_registers_set<ODD_REGISTERS, ENTRY_REGISTERS>();
        consume_odd(args, shared);
    } else {
        tern_registers_raise<CONSUMER_REGISTERS>();
        consume(args, shared, warpgroup);
    }
    if (SHARERS > 1) /* the other block may still copy here */
        tern_cluster_pass();
}
