// mma-resident: y[M,N] = x[M,K] * W[N,K]^T for M = 1..16 on tensor cores, x in registers, fp32 accumulation.
//
// Shapes: M up to 8 * FRAGMENTS, N a multiple of 8, K a multiple of 32 up to 128 * WARPS_K * K_TILES (6144), any group that is a
// multiple of 32, or one scale a row; the last group may be short. 2 and 4 bits. Layout frag16x128 (harness/formats/layout.h).
// Compute capability 9.0.
//
// How: each of WARPS_K warps owns K_TILES tiles of 128 k and keeps their x in registers, as the 8-column operand of
// mma.m16n8k16, loaded straight from global memory; the block's rows of W pass by. So x needs no shared memory, no barrier and
// no load for each tile. One more warp streams W by bulk copies, all of K of a row block (ROW_TILES tiles of 16 rows) at a time.
// Sums of a row block go to a slot for each warp; a third kind of warp adds them up, in warp order, and writes y. Barriers of
// copies (mbarrier) are all that ties the three kinds together.
//
// Codes are multiplied raw, as subnormal binary16 (docs/kernels/decode.md). The pieces of a tile stand at places of different
// powers of two; x is multiplied by the complement, so one accumulator serves. That is exact while |x| < 1023 (4 bits: 4095) in
// the warp's tiles of a row of x. Rows beyond (found by their sums, which overflow) are scaled down instead: of what is below
// 2^-7 they keep multiples of 2^-18. Zero point times sum of x is taken off each span's sum; those sums are made by the same
// products in the same order, so weights of value 0 alone give exactly 0. Inf in a row of x, like NaN, makes its row of y NaN
// (Inf - Inf).
//
// Parameters: FRAGMENTS of 8 rows of x; WARPS_K and K_TILES; ROW_TILES that a warp multiplies side by side; STAGES row blocks of W
// in flight; ADDERS, the warps that add up.
//
// Bound by: memory and issue slots, small layers by the delivery of x from the L2. Expected of the limit: 0.5 to 0.8.
constexpr int WARPS = WARPS_K, CLUSTER_K = 1, BULK = 1, TILES = WARPS_K * K_TILES; // what stream.cuh asks for
#include "tern/bias.cuh"
#include "tern/dependent.cuh"
#include "tern/mma.cuh"
#include "tern/pipeline.cuh"
#include "tern/stream.cuh"

typedef struct tern_codes<BITS> tern_width;
constexpr int PLACES = tern_width::places, PITCH = tern_width::pitch;
// Row blocks asked for ahead of x: more would stand in its way, but for a dependent launch, where x comes long after.
constexpr int FIRST = DEPENDENT ? STAGES : 1;
constexpr int SLOTS = 3;                     // row blocks whose sums wait to be added up
constexpr int UNITS = ROW_TILES * FRAGMENTS; // of a row block: 16 rows and 8 columns, four floats of a lane
constexpr int SLOT_BYTES = UNITS * 512;      // sums of a row block from one warp
constexpr int THREADS = 32 * (WARPS_K + 1 + ADDERS), READY = 1, X_HERE = 2; // of the block; named barriers

static_assert(ADDERS <= UNITS * SLOTS, "an adder two laps ahead: parity cannot tell");

// The block's row blocks are block, block + blocks, ... of W: nothing is divided ahead of the first copy. Uniform.
struct tern_part {
    int block, blocks, row_blocks; // row_blocks: of W
    int k_tiles;
};

__device__ __forceinline__ struct tern_part tern_part_make(const struct tern_args &args) {
    return {(int)blockIdx.x, (int)gridDim.x, (int)(((unsigned)args.n + 16 * ROW_TILES - 1) / (16 * ROW_TILES)),
            (int)(((unsigned)args.k + 127) / 128)};
}

// Shared memory of a block; all 16-byte aligned.
struct tern_places {
    unsigned char *ring;  // [STAGES][STAGE_BYTES]
    unsigned char *slots; // [SLOTS][WARPS_K][SLOT_BYTES]
    unsigned char *barriers;
};
// Barriers: of a stage full and empty, of a slot full and empty.
constexpr int STAGE_EMPTY = STAGES * 8, SLOT_FULL = STAGES * 16, SLOT_EMPTY = SLOT_FULL + SLOTS * 8;

__device__ __forceinline__ struct tern_places tern_places_make(unsigned char *shared) {
    unsigned char *slots = shared + STAGES * STAGE_BYTES;
    return {shared, slots, slots + SLOTS * WARPS_K * SLOT_BYTES};
}

// A place in a ring, and the parity of its barriers' phase.
template <int LENGTH> struct tern_turn {
    int at, parity;
    __device__ __forceinline__ void step() {
        if (++at == LENGTH) {
            at = 0;
            parity ^= 1;
        }
    }
};

// What the copying lane starts for a row block: a run of K tiles of each row tile.
struct tern_run {
    int tiles, entries;
    const unsigned char *codes, *scales, *zeros; // of row tile 0
    long long codes_pitch, scales_pitch;         // from a row tile to the next; of zero points: half that of scales
};

__device__ __forceinline__ struct tern_run tern_run_make(const struct tern_part &s, const struct tern_args &args) {
    struct tern_run run;
    run.tiles = s.k_tiles;
    run.entries = GROUP == 0 ? 1 : (int)args.groups;
    run.codes_pitch = (long long)s.k_tiles * TILE_BYTES;
    run.scales_pitch = args.groups * 32;
    run.codes = (const unsigned char *)args.codes + s.block * ROW_TILES * run.codes_pitch;
    run.scales = (const unsigned char *)args.scales + s.block * ROW_TILES * run.scales_pitch;
    run.zeros = (const unsigned char *)args.zeros + s.block * ROW_TILES * run.scales_pitch / 2;
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

// The copying warp: prepares the barriers and keeps the ring full. All lanes walk, so that the compiler knows the walk to be
// uniform: copies take their addresses from uniform registers.
__device__ __forceinline__ void tern_produce(const struct tern_part &s, const struct tern_places &p,
                                             const struct tern_args &args, int lane) {
    const int row_tiles = (int)(((unsigned)args.n + 15) / 16);
    struct tern_run run = tern_run_make(s, args);
    tern_turn<STAGES> turn = {0, 0};
    int present = row_tiles - s.block * ROW_TILES;
    if (lane == 0) {
        tern_barriers_init(p.barriers, STAGES, 1);
        tern_barriers_init(p.barriers + STAGE_EMPTY, STAGES, WARPS_K);
        tern_barriers_init(p.barriers + SLOT_FULL, SLOTS, WARPS_K);
        tern_barriers_init(p.barriers + SLOT_EMPTY, SLOTS, UNITS);
        tern_barriers_publish();
    }
    __syncwarp();
    tern_block_arrive(READY, THREADS);
#pragma unroll 1
    for (int item = 0; present > 0; item++) {
        if (item == FIRST)
            tern_block_sync(X_HERE, 32 * (WARPS_K + 1));
        if (item >= STAGES)
            tern_barrier_wait(p.barriers + STAGE_EMPTY + turn.at * 8, turn.parity ^ 1);
        if (lane == 0)
            tern_run_start(run, p.ring + turn.at * STAGE_BYTES, p.barriers + turn.at * 8, tern_smaller(ROW_TILES, present));
        present -= s.blocks * ROW_TILES;
        run.codes += s.blocks * ROW_TILES * run.codes_pitch;
        run.scales += s.blocks * ROW_TILES * run.scales_pitch;
        run.zeros += s.blocks * ROW_TILES * run.scales_pitch / 2;
        turn.step();
    }
    if (s.block + FIRST * s.blocks >= s.row_blocks)
        tern_block_sync(X_HERE, 32 * (WARPS_K + 1)); // not passed above
}

// x of a warp's K tiles, and what goes with it.
struct tern_held {
    uint4 b[K_TILES][FRAGMENTS][4];           // [piece]: two steps, times the complement of the piece's power
    float power[FRAGMENTS][2];                // that makes sums of products of them whole, for the lane's two columns
    float of_x[K_TILES][FRAGMENTS][SPANS][2]; // zero point (1 where rows have their own) times sum of x
    int entry[K_TILES][SPANS];                // offset of the lane's scales in a stage, from SCALES_AT
    int tiles;                                // that exist
};

// Adds step h of a piece to all fragments; first: sets them.
__device__ __forceinline__ void tern_step_multiply(float (&products)[FRAGMENTS][4], const unsigned (&a)[4],
                                                   const uint4 (&b)[FRAGMENTS][4], int piece, int h, bool first) {
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const unsigned b0 = h ? b[f][piece].z : b[f][piece].x, b1 = h ? b[f][piece].w : b[f][piece].y;
        if (first)
            tern_mma_16_first<0>(products[f], a, b0, b1);
        else
            tern_mma_16<0>(products[f], a, b0, b1);
    }
}

__device__ __forceinline__ void tern_halves_multiply(uint4 &eight, unsigned factor) {
    eight.x = tern_pair_mul<0>(eight.x, factor);
    eight.y = tern_pair_mul<0>(eight.y, factor);
    eight.z = tern_pair_mul<0>(eight.z, factor);
    eight.w = tern_pair_mul<0>(eight.w, factor);
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

// Loads x of the lane's columns in the warp's K tiles. Columns behind M read the last row and are not stored; k behind K become
// zeros.
__device__ __forceinline__ void tern_held_load(struct tern_held &x, const struct tern_args &args, int warp, int lane) {
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const int row = tern_smaller(8 * f + lane / 4, (int)args.m - 1);
        const __half *from = (const __half *)args.x + (row * args.k + warp * 128 + lane % 4 * 8);
#pragma unroll
        for (int i = 0; i < K_TILES * 4; i++) {
            const int j = i / 4, at = j * WARPS_K * 128 + i % 4 * 32;
            x.b[j][f][i % 4] = make_uint4(0, 0, 0, 0);
            if (warp * 128 + at < (int)args.k) // uniform
                x.b[j][f][i % 4] = tern_load_dependent_16(from + at);
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

// Brings x, once loaded, into the form in which it is multiplied.
__device__ __forceinline__ void tern_held_make(struct tern_held &x, const struct tern_part &s, const struct tern_args &args,
                                               int warp, int lane) {
    const int groups = (int)args.groups;
    unsigned down[2] = {0, 0}; // bit f: the lane's two columns of the sums are scaled down
    x.tiles = 0;
#pragma unroll
    for (int j = 0; j < K_TILES; j++)
        x.tiles += warp + j * WARPS_K < s.k_tiles;
    tern_held_scale(x, 0);
    if (!__all_sync(0xFFFFFFFFu, tern_held_sum(x))) {
        unsigned shrunk = 0; // of the lane's column of the operand
#pragma unroll
        for (int i = 0; i < 2; i++) {
            down[i] = tern_held_beyond(x, i);
            const unsigned of_column = __shfl_sync(0xFFFFFFFFu, down[i], lane / 8); // 2 * (lane / 8) + i
            shrunk |= lane / 4 % 2 == i ? of_column : 0;
        }
        tern_held_load(x, args, warp, lane);
        tern_held_scale(x, shrunk);
        tern_held_sum(x);
    }
#pragma unroll
    for (int j = 0; j < K_TILES; j++)
#pragma unroll
        for (int span = 0; span < SPANS; span++) {
            const int tile = warp + j * WARPS_K;
            const int entry = GROUP == 0 ? 0 : ENTRY_A_TILE ? tile : tern_span_group(tile, span, groups);
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

// Stores the lane's four outputs of a unit of the row block that begins with row `first` of W.
__device__ __forceinline__ void tern_y_store(const struct tern_args &args, int first, int unit, const float (&sum)[4],
                                             int lane) {
    const int n = first + unit / FRAGMENTS * 16 + lane / 4, m = unit % FRAGMENTS * 8 + lane % 4 * 2;
    __half *y = (__half *)args.y + (m * args.n + n);
    const float2 bias = tern_bias_of_rows<0>(args, n);
#pragma unroll
    for (int i = 0; i < 4; i++) // the last row tile is half empty where N is not a multiple of 16
        if (n + i / 2 * 8 < (int)args.n && m + i % 2 < (int)args.m)
            y[i % 2 * args.n + i / 2 * 8] = __float2half_rn(sum[i] + (i < 2 ? bias.x : bias.y));
}

// An adding warp: takes units in turn, sums their slots in warp order, and writes y.
__device__ __forceinline__ void tern_add_up(const struct tern_part &s, const struct tern_places &p,
                                            const struct tern_args &args, int adder, int lane) {
    const int place = tern_slot_place(lane);
    tern_turn<SLOTS> turn = {0, 0};
    int unit = adder; // of the row block at hand
    tern_dependency_wait();
    tern_block_sync(READY, THREADS);
#pragma unroll 1
    for (int row = s.block; row < s.row_blocks; row += s.blocks) {
        for (; unit < UNITS; unit += ADDERS) {
            const unsigned char *from = p.slots + turn.at * (WARPS_K * SLOT_BYTES) + unit * 512 + place;
            float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            tern_barrier_wait(p.barriers + SLOT_FULL + turn.at * 8, turn.parity);
#pragma unroll
            for (int w = 0; w < WARPS_K; w++)
                tern_slot_add(sum, from + w * SLOT_BYTES);
            __syncwarp(); // all have read
            if (lane == 0)
                tern_barrier_arrive(p.barriers + SLOT_EMPTY + turn.at * 8);
            tern_y_store(args, row * (16 * ROW_TILES), unit, sum, lane);
        }
        unit -= UNITS;
        turn.step();
    }
}

// A multiplying warp: takes its x and walks the row blocks.
__device__ __forceinline__ void tern_consume(const struct tern_part &s, const struct tern_places &p,
                                             const struct tern_args &args, int warp, int lane) {
    const unsigned two_24 = (unsigned)tern_kept((int)(gridDim.z << 24)); // unknown to the compiler; a grid has one layer
    const int words = tern_kept(warp * TILE_BYTES + lane * 16), place = warp * SLOT_BYTES + tern_slot_place(lane);
    struct tern_held x;
    tern_dependency_wait();
    tern_held_load(x, args, warp, lane);
    tern_block_sync(READY, THREADS); // barriers are prepared
    tern_held_make(x, s, args, warp, lane);
    tern_block_arrive(X_HERE, 32 * (WARPS_K + 1));
    tern_turn<STAGES> turn = {0, 0};
    tern_turn<SLOTS> slot = {0, 1};
    struct tern_sums sums = {};
#pragma unroll 1
    for (int row = s.block; row < s.row_blocks; row += s.blocks) {
        const unsigned char *stage = p.ring + turn.at * STAGE_BYTES;
        unsigned char *barrier = p.barriers + turn.at * 8;
        tern_barrier_wait(barrier, turn.parity);
        if (x.tiles > 0)
            tern_row_multiply(sums, x, stage + words, stage, barrier + STAGE_EMPTY, two_24, lane);
        else if (lane == 0)
            tern_barrier_arrive(barrier + STAGE_EMPTY);
        tern_barrier_wait(p.barriers + SLOT_EMPTY + slot.at * 8, slot.parity); // the first time round at once
        tern_slot_put(p.slots + slot.at * (WARPS_K * SLOT_BYTES) + place, sums);
        __syncwarp(); // all have written
        if (lane == 0)
            tern_barrier_arrive(p.barriers + SLOT_FULL + slot.at * 8);
        turn.step();
        slot.step();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) tern_mma_resident(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(dynamic);
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const struct tern_part s = tern_part_make(args);
    if (warp < WARPS_K)
        tern_consume(s, tern_places_make(tern_shared_kept(dynamic)), args, warp, lane);
    else if (warp == WARPS_K)
        tern_produce(s, tern_places_make(dynamic), args, lane); // not the kept pointer, which is not known to be uniform
    else
        tern_add_up(s, tern_places_make(tern_shared_kept(dynamic)), args, warp - WARPS_K - 1, lane);
}
