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
constexpr int BULK = 1;
constexpr int TILES = WARPS_K * K_TILES; // K tiles of a stage at most: a round
#include "tern/mma.cuh"
#include "tern/pipeline.cuh"
#include "tern/stream.cuh"

#include "tern/cluster.cuh"

typedef struct tern_codes<BITS> tern_width;
constexpr int PLACES = tern_width::places, PITCH = tern_width::pitch;
constexpr int SLOT_BYTES = ROW_TILES * FRAGMENTS * 512; // sums of a row block from one warp
constexpr int UNITS = ROW_TILES * FRAGMENTS;            // of 16 rows and 8 columns: four floats of a lane
constexpr int READY = 2, PHASE_END = 1;                 // named barriers
constexpr int PHASE_ROWS = PHASE * WARPS_R;             // row blocks
static_assert(STAGES % WARPS_R == 0, "a stage has its warps: others might wait for it two laps ahead, which parity cannot tell");

// What the block owns: row blocks (ROW_TILES tiles) cluster, cluster + clusters, ... of W, so that nothing is divided ahead of the first copy, and
// K tiles k_begin .. k_begin + tiles - 1. Uniform.
struct tern_part {
    int cluster, clusters, row_blocks;
    int rank, k_begin, tiles, most_tiles; // most_tiles: of any block
    int k_tiles;                          // of the whole of W
};

__device__ __forceinline__ struct tern_part tern_part_make(const struct tern_args &args) {
    struct tern_part s;
    s.cluster = (int)(blockIdx.x / CLUSTER_K);
    s.clusters = (int)(gridDim.x / CLUSTER_K);
    s.row_blocks = (int)(((unsigned)args.n + 16 * ROW_TILES - 1) / (16 * ROW_TILES));
    s.rank = (int)(blockIdx.x % CLUSTER_K);
    s.k_tiles = (int)(((unsigned)args.k + 127) / 128);
    s.k_begin = (int)((unsigned)(s.rank * s.k_tiles) / CLUSTER_K);
    s.tiles = (int)((unsigned)((s.rank + 1) * s.k_tiles) / CLUSTER_K) - s.k_begin;
    s.most_tiles = (int)((unsigned)(s.k_tiles + CLUSTER_K - 1) / CLUSTER_K);
    return s;
}

// Row blocks of the block.
__device__ __forceinline__ int tern_part_rows(const struct tern_part &s) {
    return (int)((unsigned)(s.row_blocks - s.cluster + s.clusters - 1) / (unsigned)s.clusters);
}

// Shared memory of a block; all 16-byte aligned.
struct tern_places {
    unsigned char *ring;     // [STAGES][STAGE_BYTES]
    unsigned char *barriers; // [STAGES] full, [STAGES] empty, x
    unsigned char *x;        // [row of x][x_pitch], until all warps have taken theirs; from then on
    unsigned char *slots;    // [1 or 2][row block of a phase][WARPS_K][SLOT_BYTES]
    unsigned char *incoming; // CLUSTER_K > 1: [own row block][rank][SLOT_BYTES]
    int x_pitch;             // 64 more than a multiple of 128: no bank conflicts
    int other_slots;         // bytes from one set of slots to the other; 0 if there is one
};

__device__ __forceinline__ struct tern_places tern_places_make(const struct tern_part &s, const struct tern_args &args,
                                                               unsigned char *shared) {
    constexpr int SET = PHASE_ROWS * WARPS_K * SLOT_BYTES;
    struct tern_places p;
    p.ring = shared;
    p.barriers = p.ring + STAGES * STAGE_BYTES;
    p.slots = p.x = p.barriers + STAGES * 16 + 16;
    p.x_pitch = s.most_tiles * 256 + 64;
    p.other_slots = s.row_blocks > PHASE_ROWS * s.clusters ? SET : 0;
    const int x_bytes = (int)args.m * p.x_pitch, slot_bytes = SET + p.other_slots;
    p.incoming = p.slots + (x_bytes > slot_bytes ? x_bytes : slot_bytes);
    return p;
}

// Stage of item `item` of the ring; items are row blocks.
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

// What the copying lane starts for a row block: a run of K tiles of each row tile.
struct tern_run {
    int tiles, entries;
    const unsigned char *codes, *scales, *zeros; // of row tile 0
    long long codes_pitch, scales_pitch;         // from a row tile to the next; of zero points: half that of scales
};

__device__ __forceinline__ struct tern_run tern_run_make(const struct tern_part &s, const struct tern_args &args) {
    struct tern_run run;
    const int groups = (int)args.groups, first = ENTRY_A_TILE ? s.k_begin : tern_span_group(s.k_begin, 0, groups);
    run.tiles = s.tiles;
    run.entries = ENTRY_A_TILE ? s.tiles : tern_span_group(s.k_begin + s.tiles - 1, SPANS - 1, groups) - first + 1;
    run.codes_pitch = (long long)s.k_tiles * TILE_BYTES;
    run.scales_pitch = (long long)groups * 32;
    run.codes = (const unsigned char *)args.codes + (s.cluster * ROW_TILES * run.codes_pitch + s.k_begin * TILE_BYTES);
    run.scales = (const unsigned char *)args.scales + (s.cluster * ROW_TILES * run.scales_pitch + first * 32);
    run.zeros = (const unsigned char *)args.zeros + (s.cluster * ROW_TILES * run.scales_pitch / 2 + first * 16);
    return run;
}

// Starts the copies of `present` row tiles into a stage. One lane.
__device__ __forceinline__ void tern_run_start(const struct tern_run &run, unsigned char *stage, void *full, int present) {
    tern_barrier_arrive_expect(full, present * (run.tiles * TILE_BYTES + run.entries * (32 + 16 * HAS_ZEROS)));
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        if (ROW_TILES == 1 || r < present) {
            tern_bulk_copy(stage + r * RUN_BYTES, run.codes + r * run.codes_pitch, run.tiles * TILE_BYTES, full);
            tern_bulk_copy(stage + SCALES_AT + r * ENTRIES * 32, run.scales + r * run.scales_pitch, run.entries * 32, full);
            if (HAS_ZEROS)
                tern_bulk_copy(stage + ZEROS_AT + r * ENTRIES * 16, run.zeros + r * run.scales_pitch / 2, run.entries * 16,
                               full);
        }
}

// The copying warp: prepares the barriers, has x copied, a row by a lane, and keeps the ring full. x goes first: copies of a
// multiprocessor return in order. All lanes walk, so that the compiler knows the walk to be uniform: copies take their
// addresses from uniform registers.
__device__ __forceinline__ void tern_produce(const struct tern_part &s, const struct tern_places &p,
                                             const struct tern_args &args, int lane) {
    const int row_tiles = (int)(((unsigned)args.n + 15) / 16), m = (int)args.m;
    const int x_bytes = 2 * tern_smaller(s.tiles * 128, (int)args.k - s.k_begin * 128);
    unsigned char *x_full = p.barriers + STAGES * 16;
    if (lane == 0) {
        tern_barriers_init(x_full, 1, 1);
        tern_barrier_arrive_expect(x_full, m * x_bytes);
    }
    __syncwarp();
    if (lane < m)
        tern_bulk_copy(p.x + lane * p.x_pitch, (const __half *)args.x + (lane * args.k + s.k_begin * 128), x_bytes, x_full);
    if (lane == 0) {
        tern_barriers_init(p.barriers, STAGES, 1);
        tern_barriers_init(p.barriers + STAGES * 8, STAGES, WARPS_K);
    }
    __syncwarp();
    tern_block_arrive(READY, 32 * (WARPS + 1));
    struct tern_run run = tern_run_make(s, args);
    struct tern_turn turn = {0, 0};
    int present = row_tiles - s.cluster * ROW_TILES;
#pragma unroll 1
    for (int item = 0; present > 0; item++) {
        if (item >= STAGES)
            tern_barrier_wait(p.barriers + (STAGES + turn.stage) * 8, turn.parity ^ 1);
        if (lane == 0)
            tern_run_start(run, p.ring + turn.stage * STAGE_BYTES, p.barriers + turn.stage * 8,
                           tern_smaller(ROW_TILES, present));
        present -= s.clusters * ROW_TILES;
        run.codes += s.clusters * ROW_TILES * run.codes_pitch;
        run.scales += s.clusters * ROW_TILES * run.scales_pitch;
        run.zeros += s.clusters * ROW_TILES * run.scales_pitch / 2;
        tern_turn_step(turn, 1);
    }
}

// x of a warp's K tiles, and what goes with it.
struct tern_held {
    uint4 b[K_TILES][FRAGMENTS][4];             // [piece]: two steps, times the complement of the piece's power
    float power[FRAGMENTS][2];                  // that makes sums of products of them whole, for the lane's two columns
    float of_x[K_TILES][FRAGMENTS][SPANS][2];   // zero point (1 where rows have their own) times sum of x
    int entry[K_TILES][SPANS];                  // offset of the lane's scales in a stage, from SCALES_AT
    int tiles;                                  // that exist
};

// Adds step h of a piece to all fragments; first: sets them.
__device__ __forceinline__ void tern_step_multiply(float (&products)[FRAGMENTS][4], const unsigned (&a)[4],
                                                   const uint4 (&b)[FRAGMENTS][4], int piece, int h, bool first) {
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const unsigned b0 = h ? b[f][piece].z : b[f][piece].x, b1 = h ? b[f][piece].w : b[f][piece].y;
        if (first)
            tern_mma_f16_first(products[f], a, b0, b1);
        else
            tern_mma_f16(products[f], a, b0, b1);
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
#pragma unroll
        for (int step = SPAN * 8 / SPANS; step < (SPAN + 1) * 8 / SPANS; step++) {
            const unsigned one = (HAS_ZEROS ? 1u : (unsigned)ZERO) * 0x00010001u << tern_width::shift(step);
            const unsigned a[4] = {one, one, one, one};
            tern_step_multiply(sums, a, x.b[j], step / 2, step % 2, step == SPAN * 8 / SPANS);
        }
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

// Takes x of the lane's columns in the warp's K tiles. Columns behind M read the last row and are not stored; k behind K
// become zeros.
__device__ __forceinline__ void tern_held_take(struct tern_held &x, const struct tern_part &s, const struct tern_places &p,
                                               const struct tern_args &args, int warp_k, int lane) {
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const int row = tern_smaller(8 * f + lane / 4, (int)args.m - 1);
        const unsigned char *from = p.x + (row * p.x_pitch + warp_k * 256 + lane % 4 * 16);
#pragma unroll
        for (int i = 0; i < K_TILES * 4; i++) {
            const int j = i / 4, tile = warp_k + j * WARPS_K;
            x.b[j][f][i % 4] = make_uint4(0, 0, 0, 0);
            if (tile < s.tiles && (s.k_begin + tile) * 128 + i % 4 * 32 < (int)args.k) // uniform
                x.b[j][f][i % 4] = tern_shared_load_16(from + (j * WARPS_K * 256 + i % 4 * 64));
        }
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

// Brings x of the warp's K tiles into the form in which it is multiplied.
__device__ __forceinline__ void tern_held_make(struct tern_held &x, const struct tern_part &s, const struct tern_places &p,
                                               const struct tern_args &args, int warp_k, int lane) {
    const int groups = (int)args.groups;
    unsigned down[2] = {0, 0}; // bit f: the lane's two columns of the sums are scaled down
    x.tiles = 0;
#pragma unroll
    for (int j = 0; j < K_TILES; j++)
        x.tiles += warp_k + j * WARPS_K < s.tiles;
    tern_held_take(x, s, p, args, warp_k, lane);
    tern_held_scale(x, 0);
    if (!__all_sync(0xFFFFFFFFu, tern_held_sum(x))) {
        unsigned shrunk = 0; // of the lane's column of the operand
#pragma unroll
        for (int i = 0; i < 2; i++) {
            down[i] = tern_held_beyond(x, i);
            const unsigned of_column = __shfl_sync(0xFFFFFFFFu, down[i], lane / 8); // 2 * (lane / 8) + i
            shrunk |= lane / 4 % 2 == i ? of_column : 0;
        }
        tern_held_take(x, s, p, args, warp_k, lane);
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
                                             : tern_span_group(s.k_begin + place, span, groups) -
                                                   tern_span_group(s.k_begin, 0, groups);
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

// Sums of a row block: [row tile][fragment][fragment register].
struct tern_sums {
    float at[ROW_TILES][FRAGMENTS][4];
};

// Adds span SPAN of K tile j of a row tile.
template <int SPAN>
__device__ __forceinline__ void tern_span_add(float (&sums)[FRAGMENTS][4], const float (&products)[FRAGMENTS][4],
                                              const struct tern_tile &tile, const struct tern_held &x, int j) {
    const float2 scale = __half22float2(tern_as_half2(tile.scales[SPAN]));
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float of_x = x.of_x[j][f][SPAN][i % 2];
            if (HAS_ZEROS)
                of_x *= (float)(i / 2 ? tile.zeros[SPAN] >> 8 : tile.zeros[SPAN] & 0xFFu);
            const float value = fmaf(products[f][i], x.power[f][i % 2], -of_x);
            const float scaled = i / 2 ? scale.y : scale.x;
            sums[f][i] = j == 0 && SPAN == 0 ? scaled * value : fmaf(scaled, value, sums[f][i]);
        }
}

// Multiplies span SPAN of K tile j, all row tiles side by side: independent chains of products.
template <int SPAN>
__device__ __forceinline__ void tern_span_step(struct tern_sums &sums, const struct tern_tile (&tiles)[ROW_TILES],
                                               const struct tern_held &x, int j, unsigned two_24) {
    constexpr int BEGIN = SPAN * 4 / SPANS, END = (SPAN + 1) * 4 / SPANS;
    float products[ROW_TILES][FRAGMENTS][4];
#pragma unroll
    for (int piece = BEGIN; piece < END; piece++)
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++) {
                unsigned a[4];
                tern_raw_fragment<BITS, PLACES>(tiles[r].words, 2 * piece + h, two_24, a);
                tern_step_multiply(products[r], a, x.b[j], piece, h, piece == BEGIN && h == 0);
            }
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        tern_span_add<SPAN>(sums.at[r], products[r], tiles[r], x, j);
}

// Sums of a row block, of the warp's K tiles; frees the stage. words: the lane's in the stage's first K tile of the warp.
__device__ __forceinline__ void tern_row_multiply(struct tern_sums &sums, const struct tern_held &x,
                                                  const unsigned char *words, const unsigned char *stage, void *empty,
                                                  unsigned two_24, int lane) {
    struct tern_tile tiles[K_TILES][ROW_TILES];
#pragma unroll
    for (int j = 0; j < K_TILES; j++)
        if (j == 0 || j < x.tiles)
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++) {
                tern_slot_words(words, r, j * WARPS_K, 0, tiles[j][r].words);
#pragma unroll
                for (int span = 0; span < SPANS; span++) {
                    const int entry = r * ENTRIES * 32 + x.entry[j][span];
                    tiles[j][r].scales[span] = tern_shared_load_4(stage + (SCALES_AT + entry));
                    tiles[j][r].zeros[span] = HAS_ZEROS ? tern_shared_load_2(stage + (ZEROS_AT + entry / 2)) : 0;
                }
            }
    __syncwarp(); // all have read
    if (lane == 0)
        tern_barrier_arrive(empty);
#pragma unroll
    for (int j = 0; j < K_TILES; j++)
        if (j == 0 || j < x.tiles) {
            tern_span_step<0>(sums, tiles[j], x, j, two_24);
            if constexpr (SPANS > 1)
                tern_span_step<1>(sums, tiles[j], x, j, two_24);
            if constexpr (SPANS > 2) {
                tern_span_step<2>(sums, tiles[j], x, j, two_24);
                tern_span_step<3>(sums, tiles[j], x, j, two_24);
            }
        }
}

// Where the lane's four floats of a fragment lie in a slot: 16 bytes at a place that spares banks.
__device__ __forceinline__ int tern_slot_place(int lane) {
    return (lane % 4 * 8 + (lane / 4 ^ lane % 4 * 2)) * 16;
}

// Moves a row block's sums to the lane's place in the warp's slot.
__device__ __forceinline__ void tern_slot_put(unsigned char *to, const struct tern_sums &sums) {
#pragma unroll
    for (int i = 0; i < UNITS; i++) {
        const float(&at)[4] = sums.at[i / FRAGMENTS][i % FRAGMENTS];
        tern_shared_store_16(to + i * 512, make_uint4(__float_as_uint(at[0]), __float_as_uint(at[1]), __float_as_uint(at[2]),
                                                      __float_as_uint(at[3])));
    }
}

// Adds the lane's four floats at `from` to sum.
__device__ __forceinline__ void tern_slot_add(float (&sum)[4], const unsigned char *from) {
    const uint4 more = tern_shared_load_16(from);
    sum[0] += __uint_as_float(more.x);
    sum[1] += __uint_as_float(more.y);
    sum[2] += __uint_as_float(more.z);
    sum[3] += __uint_as_float(more.w);
}

// Stores the lane's four outputs of a unit of row block `row`.
__device__ __forceinline__ void tern_y_store(const struct tern_part &s, const struct tern_args &args, int row, int unit,
                                             const float (&sum)[4], int lane) {
    const int n = ((s.cluster + row * s.clusters) * ROW_TILES + unit / FRAGMENTS) * 16 + lane / 4;
    const int m = unit % FRAGMENTS * 8 + lane % 4 * 2;
    __half *y = (__half *)args.y + (m * args.n + n);
#pragma unroll
    for (int i = 0; i < 4; i++) // the last row tile is half empty where N is not a multiple of 16
        if (n + i / 2 * 8 < (int)args.n && m + i % 2 < (int)args.m)
            y[i % 2 * args.n + i / 2 * 8] = __float2half_rn(sum[i]);
}

// Adds up the slots of a phase's row blocks. Sums go to y or, in a cluster, to the rank that owns the row block.
__device__ __forceinline__ void tern_phase_sum(const struct tern_part &s, const struct tern_places &p,
                                               const struct tern_args &args, const unsigned char *slots, int first_row,
                                               int rows, int warp, int lane) {
#pragma unroll 1
    for (int index = warp; index < rows * UNITS; index += WARPS) {
        const int row = first_row + index / UNITS, unit = index % UNITS;
        const unsigned char *from = slots + index / UNITS * (WARPS_K * SLOT_BYTES) + unit * 512 + tern_slot_place(lane);
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int w = 0; w < WARPS_K; w++)
            tern_slot_add(sum, from + w * SLOT_BYTES);
        if (CLUSTER_K == 1)
            tern_y_store(s, args, row, unit, sum, lane);
        else
            tern_cluster_store_16(p.incoming + (row / CLUSTER_K * CLUSTER_K + s.rank) * SLOT_BYTES + unit * 512 + lane * 16,
                                  row % CLUSTER_K, sum);
    }
}

// Adds up what the ranks of the cluster sent, in their order.
__device__ __forceinline__ void tern_cluster_finish(const struct tern_part &s, const struct tern_places &p,
                                                    const struct tern_args &args, int warp, int lane) {
    const int rows = tern_part_rows(s);
    tern_cluster_sync();
#pragma unroll 1
    for (int index = warp;; index += WARPS + 1) {
        const int own = index / UNITS, unit = index % UNITS, row = own * CLUSTER_K + s.rank;
        if (row >= rows)
            break;
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int rank = 0; rank < CLUSTER_K; rank++)
            tern_slot_add(sum, p.incoming + (own * CLUSTER_K + rank) * SLOT_BYTES + unit * 512 + lane * 16);
        tern_y_store(s, args, row, unit, sum, lane);
    }
}

// A multiplying warp: takes its x, walks its row blocks, and adds up sums phase by phase.
__device__ __forceinline__ void tern_consume(const struct tern_part &s, const struct tern_places &p,
                                             const struct tern_args &args, int warp, int lane) {
    const int warp_k = WARPS_R == 1 ? warp : warp % WARPS_K, warp_r = WARPS_R == 1 ? 0 : warp / WARPS_K;
    const unsigned two_24 = (unsigned)tern_kept((int)(gridDim.z << 24)); // unknown to the compiler; a grid has one layer
    const int rows = tern_part_rows(s), words = tern_kept(warp_k * TILE_BYTES + lane * 16);
    struct tern_held x;
    struct tern_turn turn = {warp_r, 0};
    struct tern_sums sums = {};
    tern_block_sync(READY, 32 * (WARPS + 1)); // barriers are prepared
    tern_barrier_wait(p.barriers + STAGES * 16, 0);
    tern_held_make(x, s, p, args, warp_k, lane);
    tern_block_sync(PHASE_END, 32 * WARPS); // slots may take the place of x
    int other = 0;                          // which set of slots
#pragma unroll 1
    for (int first_row = 0; first_row < rows; first_row += PHASE_ROWS) {
        const int count = tern_smaller(PHASE_ROWS, rows - first_row);
        int slot = other + warp * SLOT_BYTES + tern_slot_place(lane);
#pragma unroll 1
        for (int left = count - warp_r; left > 0; left -= WARPS_R) {
            const unsigned char *stage = p.ring + turn.stage * STAGE_BYTES;
            unsigned char *empty = p.barriers + (STAGES + turn.stage) * 8;
            tern_barrier_wait(p.barriers + turn.stage * 8, turn.parity);
            if (x.tiles > 0)
                tern_row_multiply(sums, x, stage + words, stage, empty, two_24, lane);
            else if (lane == 0)
                tern_barrier_arrive(empty);
            tern_slot_put(p.slots + slot, sums);
            slot += WARPS_R * WARPS_K * SLOT_BYTES;
            tern_turn_step(turn, WARPS_R);
        }
        if (CLUSTER_K > 1 && first_row == 0)
            tern_cluster_wait(); // all blocks run
        tern_block_sync(PHASE_END, 32 * WARPS);
        tern_phase_sum(s, p, args, p.slots + other, first_row, count, warp, lane);
        other = p.other_slots - other;
    }
}

extern "C" __global__ void __launch_bounds__(32 * (WARPS + 1), 1)
    tern_mma_resident(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(dynamic);
    unsigned char *shared = tern_shared_kept(dynamic);
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const struct tern_part s = tern_part_make(args);
    const struct tern_places p = tern_places_make(s, args, shared);
    if (CLUSTER_K > 1)
        tern_cluster_arrive();
    if (warp == WARPS) {
        tern_produce(s, tern_places_make(s, args, dynamic), args, lane); // not the kept pointer: it is not known to be uniform
        if (CLUSTER_K > 1)
            tern_cluster_wait();
    } else {
        tern_consume(s, p, args, warp, lane);
    }
    if (CLUSTER_K > 1)
        tern_cluster_finish(s, p, args, warp, lane);
}
