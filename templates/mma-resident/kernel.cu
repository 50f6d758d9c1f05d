// mma-resident: y[M,N] = x[M,K] * W[N,K]^T for M = 1..16 on tensor cores, x in registers, fp32 accumulation.
//
// Shapes: M up to 8 * FRAGMENTS, N a multiple of 8, K a multiple of 32, any group that is a multiple of 32, or one scale a
// row; the last group may be short. 2 and 4 bits. Layout frag16x128 (harness/formats/layout.h). Compute capability 9.0.
//
// How: a warp owns K_TILES tiles of 128 k and keeps their x in registers, as the 8-column operand of mma.m16n8k16, loaded
// straight from global memory; rows of W pass by it. So x needs no shared memory, no barrier and no load for each tile.
// One more warp streams W by bulk copies, a row tile of all the block's K at a time. Sums of a row tile go to one slot a warp
// and are added over the warps a phase of row tiles later.
//
// Codes are multiplied raw, as subnormal binary16 (docs/kernels/decode.md). The pieces of a tile stand at places of different
// powers of two; x is multiplied by the complement, so one accumulator serves. That is exact while |x| < 1023 in the warp's
// tiles of a row of x. Rows beyond (found by their sums, which overflow) are scaled down instead: multiples of 2^-18 of 4 and
// less are what they may lose, 2^-28 of their largest value. Zero point times sum of x is taken off each span's sum; those
// sums are made by the same products in the same order, so weights of value 0 alone give exactly 0. Inf in a row of x, like NaN,
// makes its row of y NaN (Inf - Inf).
//
// Parameters: FRAGMENTS of 8 rows of x; CLUSTER_K blocks of a cluster that split K; WARPS_K warps of a block that split its
// K, with K_TILES tiles each, in rounds if that is not all; WARPS_R warps that take row tiles in turn; STAGES row tiles in
// flight; PHASE row tiles of a warp between two sums over the warps.
//
// Bound by: memory, and on small layers fixed costs. Expected of the limit: 0.6 to 0.8.
constexpr int WARPS = WARPS_K * WARPS_R; // that multiply; one more copies
constexpr int ROW_TILES = 1, BULK = 1;
constexpr int TILES = WARPS_K * K_TILES; // K tiles of a stage at most: a round
#include "tern/mma.cuh"
#include "tern/pipeline.cuh"
#include "tern/stream.cuh"

#include "tern/cluster.cuh"

typedef struct tern_codes<BITS> tern_width;
constexpr int PLACES = tern_width::places, PITCH = tern_width::pitch;
constexpr int SLOT_BYTES = FRAGMENTS * 512; // sums of a row tile from one warp
constexpr int PHASE_ROWS = PHASE * WARPS_R;
static_assert(WARPS_R <= STAGES && STAGES <= 32, "a step of the ring wraps once; a lane prepares a stage");

// What the block owns: row tiles cluster, cluster + clusters, ... of W, so that nothing is divided ahead of the first copy, and
// K tiles k_begin .. k_begin + tiles - 1. Uniform.
struct tern_part {
    int cluster, clusters, row_tiles;
    int rank, k_begin, tiles, most_tiles; // most_tiles: of any block
    int k_tiles;                          // of the whole of W
};

__device__ __forceinline__ struct tern_part tern_part_make(const struct tern_args &args) {
    struct tern_part s;
    s.cluster = (int)(blockIdx.x / CLUSTER_K);
    s.clusters = (int)(gridDim.x / CLUSTER_K);
    s.row_tiles = (int)(((unsigned)args.n + 15) / 16);
    s.rank = (int)(blockIdx.x % CLUSTER_K);
    s.k_tiles = (int)(((unsigned)args.k + 127) / 128);
    s.k_begin = (int)((unsigned)(s.rank * s.k_tiles) / CLUSTER_K);
    s.tiles = (int)((unsigned)((s.rank + 1) * s.k_tiles) / CLUSTER_K) - s.k_begin;
    s.most_tiles = (int)((unsigned)(s.k_tiles + CLUSTER_K - 1) / CLUSTER_K);
    return s;
}

// Row tiles of the block.
__device__ __forceinline__ int tern_part_rows(const struct tern_part &s) {
    return (int)((unsigned)(s.row_tiles - s.cluster + s.clusters - 1) / (unsigned)s.clusters);
}

// Shared memory of a block; all 16-byte aligned.
struct tern_places {
    unsigned char *ring;     // [STAGES][STAGE_BYTES]
    unsigned char *barriers; // [STAGES] full, [STAGES] empty
    unsigned char *slots;    // [1 or 2][row tile of a phase][WARPS_K][SLOT_BYTES]
    unsigned char *incoming; // CLUSTER_K > 1: [own row tile][rank][SLOT_BYTES]
    int rounds;              // of TILES K tiles
    int other_slots;         // bytes from one set of slots to the other; 0 if there is one
};

__device__ __forceinline__ struct tern_places tern_places_make(const struct tern_part &s, unsigned char *shared) {
    struct tern_places p;
    p.rounds = (int)((unsigned)(s.most_tiles + TILES - 1) / TILES);
    p.ring = shared;
    p.barriers = p.ring + STAGES * STAGE_BYTES;
    p.slots = p.barriers + STAGES * 16;
    p.other_slots = s.row_tiles > PHASE_ROWS * s.clusters ? PHASE_ROWS * WARPS_K * SLOT_BYTES : 0;
    p.incoming = p.slots + p.other_slots + PHASE_ROWS * WARPS_K * SLOT_BYTES;
    return p;
}

// Stage of item `item` of the ring; items are (phase, round, row tile of the phase), in this order.
struct tern_turn {
    int stage, parity;
};
__device__ __forceinline__ struct tern_turn tern_turn_of(int item) {
    const int lap = (int)((unsigned)item / STAGES);
    return {item - lap * STAGES, lap & 1};
}
__device__ __forceinline__ void tern_turn_step(struct tern_turn &turn, int step) {
    turn.stage += step;
    if (turn.stage >= STAGES) {
        turn.stage -= STAGES;
        turn.parity ^= 1;
    }
}

// Calls each(first row tile, row tiles, round, item) for the phases and rounds of the block's `rows` row tiles.
template <class EACH>
__device__ __forceinline__ void tern_sweeps_each(const struct tern_places &p, int rows, EACH each) {
    int item = 0;
#pragma unroll 1
    for (int row = 0; row < rows; row += PHASE_ROWS)
#pragma unroll 1
        for (int round = 0; round < p.rounds; round++) {
            const int count = tern_smaller(PHASE_ROWS, rows - row);
            each(row, count, round, item);
            item += count;
        }
}

// Starts the copies of the block's row tile `row`, K tiles of a round, into a stage.
__device__ __forceinline__ void tern_item_copy(const struct tern_warp_ring &ring, int stage, int row, int round,
                                               const struct tern_part &s, const struct tern_args &args) {
    const int k = s.k_begin + round * TILES, groups = (int)args.groups, tiles = tern_smaller(TILES, s.tiles - round * TILES);
    const unsigned row_tile = (unsigned)(s.cluster + row * s.clusters);
    if (tiles <= 0) { // ranks of a cluster may differ by a tile, hence by a round
        tern_barrier_arrive(ring.barriers + stage * 8);
        return;
    }
    const int first = ENTRY_A_TILE ? k : tern_span_group(k, 0, groups);
    const int entries = ENTRY_A_TILE ? tiles : tern_span_group(k + tiles - 1, SPANS - 1, groups) - first + 1;
    const unsigned long long tile = (unsigned long long)row_tile * (unsigned)s.k_tiles + (unsigned)k;
    const unsigned long long entry = (unsigned long long)row_tile * (unsigned)groups + (unsigned)first;
    tern_barrier_arrive_expect(ring.barriers + stage * 8, tiles * TILE_BYTES + entries * (32 + 16 * HAS_ZEROS));
    tern_run_copy(ring, stage, 0, tiles, entries, (const unsigned char *)args.codes + tile * TILE_BYTES,
                  (const unsigned char *)args.scales + entry * 32, (const unsigned char *)args.zeros + entry * 16, 0);
}

// The copying warp, its first lane: prepares the barriers and keeps the ring full. The warp passes one __syncthreads.
__device__ __forceinline__ void tern_produce(const struct tern_part &s, const struct tern_places &p,
                                             const struct tern_args &args, int lane) {
    struct tern_warp_ring ring;
    ring.slots = p.ring;
    ring.barriers = p.barriers;
    constexpr int EARLY = STAGES < PHASE_ROWS ? STAGES : PHASE_ROWS; // items ahead of the __syncthreads, at most
    if (lane == 0) {
        tern_barriers_init(p.barriers, STAGES, 1);
#pragma unroll 1
        for (int row = 0; row < EARLY && s.cluster + row * s.clusters < s.row_tiles; row++)
            tern_item_copy(ring, row, row, 0, s, args);
        tern_barriers_init(p.barriers + STAGES * 8, STAGES, WARPS_K);
    }
    __syncthreads();
    if (lane == 0)
        tern_sweeps_each(p, tern_part_rows(s), [&](int row, int rows, int round, int item) {
            const int skipped = item == 0 ? EARLY : 0;
            struct tern_turn turn = tern_turn_of(item + skipped);
#pragma unroll 1
            for (int i = skipped; i < rows; i++) {
                if (item + i >= STAGES)
                    tern_barrier_wait(p.barriers + (STAGES + turn.stage) * 8, turn.parity ^ 1);
                tern_item_copy(ring, turn.stage, row + i, round, s, args);
                tern_turn_step(turn, 1);
            }
        });
}

// x of a warp's K tiles of a round, and what goes with it.
struct tern_held {
    uint4 b[K_TILES][FRAGMENTS][4];             // [piece]: two steps, times the complement of the piece's power
    float power[FRAGMENTS][2];                  // that makes sums of products of them whole, for the lane's two columns
    float of_x[K_TILES][FRAGMENTS][SPANS][2];   // zero point (1 where rows have their own) times sum of x
    int entry[K_TILES][SPANS];                  // offset of the lane's scales in a stage, from SCALES_AT
    int tiles;                                  // that exist
};

// Sums over span SPAN of one K tile: fragments a(step) of 16 rows times x.
template <int SPAN, class A>
__device__ __forceinline__ void tern_span_multiply(float (&sums)[FRAGMENTS][4], const uint4 (&b)[FRAGMENTS][4], A a) {
    constexpr int BEGIN = SPAN * 4 / SPANS, END = (SPAN + 1) * 4 / SPANS;
#pragma unroll
    for (int piece = BEGIN; piece < END; piece++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            unsigned fragment[4];
            a(2 * piece + h, fragment);
#pragma unroll
            for (int f = 0; f < FRAGMENTS; f++) {
                const unsigned b0 = h ? b[f][piece].z : b[f][piece].x, b1 = h ? b[f][piece].w : b[f][piece].y;
                if (piece == BEGIN && h == 0)
                    tern_mma_f16_first(sums[f], fragment, b0, b1);
                else
                    tern_mma_f16(sums[f], fragment, b0, b1);
            }
        }
}

__device__ __forceinline__ void tern_halves_multiply(uint4 &eight, unsigned factor) {
    eight.x = tern_mul2(eight.x, factor);
    eight.y = tern_mul2(eight.y, factor);
    eight.z = tern_mul2(eight.z, factor);
    eight.w = tern_mul2(eight.w, factor);
}

// Sums of x over span SPAN; false if one of the lane's is not finite.
template <int SPAN> __device__ __forceinline__ bool tern_held_sums(struct tern_held &x) {
    bool finite = true;
#pragma unroll
    for (int j = 0; j < K_TILES; j++) {
        float sums[FRAGMENTS][4];
        tern_span_multiply<SPAN>(sums, x.b[j], [&](int step, unsigned(&a)[4]) {
            a[0] = a[1] = a[2] = a[3] = (HAS_ZEROS ? 1u : (unsigned)ZERO) * 0x00010001u << tern_width::shift(step);
        });
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                x.of_x[j][f][SPAN][i] = sums[f][i];
                finite = finite && fabsf(sums[f][i]) <= 3.0e38f;
            }
    }
    return finite;
}

// Loads x of the lane's columns in the warp's K tiles, from tile `first_tile` of the block on. Columns behind M read the last row
// and are not stored; k behind K become zeros.
__device__ __forceinline__ void tern_held_load(struct tern_held &x, const struct tern_part &s, const struct tern_args &args,
                                               int first_tile, int lane) {
    constexpr int LAST = (K_TILES - 1) * WARPS_K; // K tile of the warp, from its first
    const int begin = (s.k_begin + first_tile) * 128, k = begin + lane % 4 * 8, m = (int)args.m;
    const bool whole = x.tiles == K_TILES && begin + (LAST + 1) * 128 <= (int)args.k;
    const __half *from[FRAGMENTS];
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++)
        from[f] = (const __half *)args.x + (tern_smaller(8 * f + lane / 4, m - 1) * args.k + k);
#pragma unroll
    for (int i = 0; i < K_TILES * FRAGMENTS * 4; i++)
        x.b[i / 4 / FRAGMENTS][i / 4 % FRAGMENTS][i % 4] = make_uint4(0, 0, 0, 0);
    if (whole)
#pragma unroll
        for (int i = 0; i < K_TILES * FRAGMENTS * 4; i++) {
            const int j = i / 4 / FRAGMENTS, f = i / 4 % FRAGMENTS;
            x.b[j][f][i % 4] = tern_load_stream_16(from[f] + (j * WARPS_K * 128 + i % 4 * 32));
        }
    else
#pragma unroll
        for (int i = 0; i < K_TILES * FRAGMENTS * 4; i++) {
            const int j = i / 4 / FRAGMENTS, f = i / 4 % FRAGMENTS, at = j * WARPS_K * 128 + i % 4 * 32;
            if (j < x.tiles && k + at < (int)args.k)
                x.b[j][f][i % 4] = tern_load_stream_16(from[f] + at);
        }
}

// Multiplies x by the complements of the places and by 2^-1 (shrunk: bit f says so of the lane's column of fragment f) or what
// makes the last place's factor 1.
__device__ __forceinline__ void tern_held_scale(struct tern_held &x, unsigned shrunk) {
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const unsigned top = (shrunk >> f & 1 ? 14u : 15u + PITCH * (PLACES - 1)) * 0x04000400u; // binary16 of that power
#pragma unroll
        for (int j = 0; j < K_TILES; j++)
#pragma unroll
            for (int piece = 0; piece < 4; piece++)
                tern_halves_multiply(x.b[j][f][piece], top - PITCH * (piece % PLACES) * 0x04000400u);
    }
}

// Sums of x over the spans; false if one of the lane's is not finite.
__device__ __forceinline__ bool tern_held_sum(struct tern_held &x) {
    bool finite = tern_held_sums<0>(x);
    if constexpr (SPANS > 1)
        finite = tern_held_sums<1>(x) && finite;
    if constexpr (SPANS > 2) {
        finite = tern_held_sums<2>(x) && finite;
        finite = tern_held_sums<3>(x) && finite;
    }
    return finite;
}

// Bit f: column i of the lane's two in fragment f has a sum that is not finite.
__device__ __forceinline__ unsigned tern_held_beyond(const struct tern_held &x, int i) {
    unsigned beyond = 0;
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++)
#pragma unroll
        for (int j = 0; j < K_TILES; j++)
#pragma unroll
            for (int span = 0; span < SPANS; span++)
                beyond |= fabsf(x.of_x[j][f][span][i]) <= 3.0e38f ? 0u : 1u << f;
    return beyond;
}

// Starts the loads of x of the warp's K tiles of a round.
__device__ __forceinline__ void tern_held_start(struct tern_held &x, const struct tern_part &s, const struct tern_args &args,
                                                int round, int warp_k, int lane) {
    x.tiles = 0;
#pragma unroll
    for (int j = 0; j < K_TILES; j++)
        x.tiles += round * TILES + warp_k + j * WARPS_K < s.tiles;
    tern_held_load(x, s, args, round * TILES + warp_k, lane);
}

// Brings x into the form in which it is multiplied, once it is there.
__device__ __forceinline__ void tern_held_make(struct tern_held &x, const struct tern_part &s, const struct tern_args &args,
                                               int round, int warp_k, int lane) {
    const int groups = (int)args.groups, first_k = s.k_begin + round * TILES;
    unsigned down[2] = {0, 0}; // bit f: the lane's two columns of the sums are scaled down
    tern_held_scale(x, 0);
    if (!__all_sync(0xFFFFFFFFu, tern_held_sum(x))) {
        unsigned shrunk = 0; // of the lane's column of the operand
#pragma unroll
        for (int i = 0; i < 2; i++) {
            down[i] = tern_held_beyond(x, i);
            const unsigned of_column = __shfl_sync(0xFFFFFFFFu, down[i], lane / 8); // 2 * (lane / 8) + i
            shrunk |= lane / 4 % 2 == i ? of_column : 0;
        }
        tern_held_load(x, s, args, round * TILES + warp_k, lane);
        tern_held_scale(x, shrunk);
        tern_held_sum(x);
    }
#pragma unroll
    for (int j = 0; j < K_TILES; j++)
#pragma unroll
        for (int span = 0; span < SPANS; span++) {
            const int place = warp_k + j * WARPS_K;
            const int entry = GROUP == 0     ? 0
                              : ENTRY_A_TILE ? place
                                             : tern_span_group(first_k + place, span, groups) - tern_span_group(first_k, 0, groups);
            x.entry[j][span] = entry * 32 + lane / 4 * 4;
        }
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            x.power[f][i] = down[i] >> f & 1 ? 33554432.0f : (float)(1 << (24 - PITCH * (PLACES - 1))); // 2^25
#pragma unroll
            for (int j = 0; j < K_TILES; j++)
#pragma unroll
                for (int span = 0; span < SPANS; span++)
                    x.of_x[j][f][span][i] *= x.power[f][i];
        }
}

// What the lane needs of a tile: codes, scales and zero points of rows g and g + 8.
struct tern_tile {
    unsigned words[tern_width::words], scales[SPANS], zeros[SPANS];
};

// Adds span SPAN of K tile j to the sums of the row tile.
template <int SPAN>
__device__ __forceinline__ void tern_span_add(float (&sums)[FRAGMENTS][4], const struct tern_tile &tile,
                                              const struct tern_held &x, int j, unsigned two_24) {
    float products[FRAGMENTS][4];
    tern_span_multiply<SPAN>(products, x.b[j], [&](int step, unsigned(&a)[4]) {
        tern_raw_fragment<BITS, PLACES>(tile.words, step, two_24, a);
    });
    const float2 scale = __half22float2(tern_as_half2(tile.scales[SPAN]));
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float of_x = x.of_x[j][f][SPAN][i % 2];
            if (HAS_ZEROS)
                of_x *= (float)(i / 2 ? tile.zeros[SPAN] >> 8 : tile.zeros[SPAN] & 0xFFu);
            const float value = fmaf(products[f][i], x.power[f][i % 2], -of_x);
            sums[f][i] = fmaf(i / 2 ? scale.y : scale.x, value, sums[f][i]);
        }
}

// Sums of a row tile, of the warp's K tiles; frees the stage. words: the lane's in the stage's first K tile of the warp; stage:
// offset of the stage from p.ring.
__device__ __forceinline__ void tern_row_multiply(float (&sums)[FRAGMENTS][4], const struct tern_held &x,
                                                  const unsigned char *words, const unsigned char *stage, void *empty,
                                                  unsigned two_24, int lane) {
    struct tern_tile tiles[K_TILES];
#pragma unroll
    for (int j = 0; j < K_TILES; j++)
        if (j == 0 || j < x.tiles) {
            tern_slot_words(words, 0, j * WARPS_K, 0, tiles[j].words);
#pragma unroll
            for (int span = 0; span < SPANS; span++) {
                tiles[j].scales[span] = tern_shared_load_4(stage + (SCALES_AT + x.entry[j][span]));
                tiles[j].zeros[span] = HAS_ZEROS ? tern_shared_load_2(stage + (ZEROS_AT + x.entry[j][span] / 2)) : 0;
            }
        }
    __syncwarp(); // all have read
    if (lane == 0)
        tern_barrier_arrive(empty);
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[f][i] = 0.0f;
#pragma unroll
    for (int j = 0; j < K_TILES; j++)
        if (j == 0 || j < x.tiles) {
            tern_span_add<0>(sums, tiles[j], x, j, two_24);
            if constexpr (SPANS > 1)
                tern_span_add<1>(sums, tiles[j], x, j, two_24);
            if constexpr (SPANS > 2) {
                tern_span_add<2>(sums, tiles[j], x, j, two_24);
                tern_span_add<3>(sums, tiles[j], x, j, two_24);
            }
        }
}

// Where the lane's four floats of a fragment lie in a slot: 16 bytes at a place that spares banks, here and in tern_slot_float.
__device__ __forceinline__ int tern_slot_place(int lane) {
    return (lane % 4 * 8 + (lane / 4 ^ lane % 4 * 2)) * 16;
}

// Moves a row tile's sums to the lane's place in the warp's slot; ADD: adds them to what is there.
template <bool ADD> __device__ __forceinline__ void tern_slot_put(unsigned char *to, float (&sums)[FRAGMENTS][4]) {
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        if (ADD) {
            const uint4 old = tern_shared_load_16(to + f * 512);
            sums[f][0] += __uint_as_float(old.x);
            sums[f][1] += __uint_as_float(old.y);
            sums[f][2] += __uint_as_float(old.z);
            sums[f][3] += __uint_as_float(old.w);
        }
        tern_shared_store_16(to + f * 512, make_uint4(__float_as_uint(sums[f][0]), __float_as_uint(sums[f][1]),
                                                      __float_as_uint(sums[f][2]), __float_as_uint(sums[f][3])));
    }
}

// Outputs are summed 32 at a time: unit (row tile, fragment, pair of columns), lane: row lane % 16, column lane / 16 of the pair.
// Its float in a slot, fragment and pair given:
__device__ __forceinline__ int tern_slot_float(int pair, int lane) {
    const int row = lane % 16;
    return (pair % 4 * 8 + (row % 8 ^ pair % 4 * 2)) * 4 + row / 8 * 2 + lane / 16 + pair / 4 * 128;
}

__device__ __forceinline__ void tern_y_store(const struct tern_part &s, const struct tern_args &args, int row, int pair,
                                             float value, int lane) {
    const int n = (s.cluster + row * s.clusters) * 16 + lane % 16, m = 2 * pair + lane / 16;
    if (n < (int)args.n && m < (int)args.m) // the last row tile is half empty where N is not a multiple of 16
        ((__half *)args.y)[m * args.n + n] = __float2half_rn(value);
}

// Adds up the slots of a phase's row tiles. Sums go to y or, in a cluster, to the rank that owns the row tile.
__device__ __forceinline__ void tern_phase_sum(const struct tern_part &s, const struct tern_places &p,
                                               const struct tern_args &args, const unsigned char *slots, int first_row,
                                               int rows, int warp, int lane) {
    const int used = tern_smaller(WARPS_K, s.tiles);
#pragma unroll 1
    for (int unit = warp; unit < rows * (FRAGMENTS * 4); unit += WARPS) {
        const int row = unit / (FRAGMENTS * 4), pair = unit % (FRAGMENTS * 4), block_row = first_row + row;
        const unsigned char *from = slots + row * (WARPS_K * SLOT_BYTES) + tern_slot_float(pair, lane) * 4;
        float sum = 0.0f;
        if (2 * pair >= (int)args.m)
            continue;
#pragma unroll
        for (int w = 0; w < WARPS_K; w++)
            if (w < used)
                sum += __uint_as_float(tern_shared_load_4(from + w * SLOT_BYTES));
        if (CLUSTER_K == 1)
            tern_y_store(s, args, block_row, pair, sum, lane);
        else
            tern_cluster_store_float(p.incoming + (block_row / CLUSTER_K * CLUSTER_K + s.rank) * SLOT_BYTES + pair * 128 +
                                         lane * 4,
                                     block_row % CLUSTER_K, sum);
    }
}

// Adds up what the ranks of the cluster sent, in their order.
__device__ __forceinline__ void tern_cluster_finish(const struct tern_part &s, const struct tern_places &p,
                                                    const struct tern_args &args, int rows, int warp, int lane) {
    tern_cluster_sync();
#pragma unroll 1
    for (int unit = warp;; unit += WARPS + 1) {
        const int own = unit / (FRAGMENTS * 4), pair = unit % (FRAGMENTS * 4), row = own * CLUSTER_K + s.rank;
        if (row >= rows)
            break;
        const unsigned char *from = p.incoming + own * (CLUSTER_K * SLOT_BYTES) + pair * 128 + lane * 4;
        float sum = 0.0f;
#pragma unroll
        for (int rank = 0; rank < CLUSTER_K; rank++)
            sum += __uint_as_float(tern_shared_load_4(from + rank * SLOT_BYTES));
        tern_y_store(s, args, row, pair, sum, lane);
    }
}

// Walks a warp's row tiles of a phase and round, `rows` of the block. slot: the lane's place in the warp's first slot.
template <bool ADD>
__device__ __forceinline__ void tern_rows_walk(const struct tern_held &x, const struct tern_places &p, unsigned char *slots,
                                               int slot, int item, int rows, int warp_k, int warp_r, unsigned two_24,
                                               int lane) {
    struct tern_turn turn = tern_turn_of(item + warp_r);
    const int words = tern_kept(warp_k * TILE_BYTES + lane * 16);
#pragma unroll 1
    for (int left = rows - warp_r; left > 0; left -= WARPS_R) {
        const unsigned char *stage = p.ring + turn.stage * STAGE_BYTES;
        float sums[FRAGMENTS][4];
        tern_barrier_wait(p.barriers + turn.stage * 8, turn.parity);
        tern_row_multiply(sums, x, stage + words, stage, p.barriers + (STAGES + turn.stage) * 8, two_24, lane);
        tern_slot_put<ADD>(slots + slot, sums);
        slot += WARPS_R * WARPS_K * SLOT_BYTES;
        tern_turn_step(turn, WARPS_R);
    }
}

// The same for a warp without K tiles in the round: frees the stages.
__device__ __forceinline__ void tern_rows_skip(const struct tern_places &p, int item, int rows, int warp_r, int lane) {
    struct tern_turn turn = tern_turn_of(item + warp_r);
#pragma unroll 1
    for (int left = rows - warp_r; left > 0; left -= WARPS_R) {
        tern_barrier_wait(p.barriers + turn.stage * 8, turn.parity);
        if (lane == 0)
            tern_barrier_arrive(p.barriers + (STAGES + turn.stage) * 8);
        tern_turn_step(turn, WARPS_R);
    }
}

// A multiplying warp. Passes one __syncthreads.
__device__ __forceinline__ void tern_consume(const struct tern_part &s, const struct tern_places &p,
                                             const struct tern_args &args, int warp, int lane) {
    const int warp_k = WARPS_R == 1 ? warp : warp % WARPS_K, warp_r = WARPS_R == 1 ? 0 : warp / WARPS_K;
    const unsigned two_24 = (unsigned)tern_kept((int)(gridDim.z << 24)); // unknown to the compiler; a grid has one layer
    struct tern_held x;
    tern_held_start(x, s, args, 0, warp_k, lane);
    __syncthreads(); // barriers are ready
    int other = 0;   // which set of slots
    tern_sweeps_each(p, tern_part_rows(s), [&](int first_row, int rows, int round, int item) {
        if (item > 0 && p.rounds > 1)
            tern_held_start(x, s, args, round, warp_k, lane);
        if (item == 0 || p.rounds > 1)
            tern_held_make(x, s, args, round, warp_k, lane);
        const int slot = other + warp * SLOT_BYTES + tern_slot_place(lane);
        if (x.tiles == 0)
            tern_rows_skip(p, item, rows, warp_r, lane);
        else if (round == 0)
            tern_rows_walk<false>(x, p, p.slots, slot, item, rows, warp_k, warp_r, two_24, lane);
        else
            tern_rows_walk<true>(x, p, p.slots, slot, item, rows, warp_k, warp_r, two_24, lane);
        if (round < p.rounds - 1)
            return;
        if (CLUSTER_K > 1 && first_row == 0)
            tern_cluster_wait(); // all blocks run
        tern_block_sync(1, WARPS * 32);
        tern_phase_sum(s, p, args, p.slots + other, first_row, rows, warp, lane);
        other = p.other_slots - other;
    });
}

extern "C" __global__ void __launch_bounds__(32 * (WARPS + 1), 1)
    tern_mma_resident(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(dynamic);
    unsigned char *shared = tern_shared_kept(dynamic);
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const struct tern_part s = tern_part_make(args);
    const struct tern_places p = tern_places_make(s, shared);
    if (CLUSTER_K > 1)
        tern_cluster_arrive();
    if (warp == WARPS) {
        tern_produce(s, p, args, lane);
        if (CLUSTER_K > 1)
            tern_cluster_wait();
    } else {
        tern_consume(s, p, args, warp, lane);
    }
    if (CLUSTER_K > 1)
        tern_cluster_finish(s, p, args, tern_part_rows(s), warp, lane);
}
