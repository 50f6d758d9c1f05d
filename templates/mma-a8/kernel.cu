/* mma-a8: y[M,N] = x8[M,K] * W[N,K]^T for M = 16 up to prefill, op linear-a8: quantised W, x quantised to int8 with one scale a
 * row (tern/quantise_x.cuh, the prologue), exact s32 sums, binary16 y. For Ampere and Ada, where there is no wgmma.
 *
 * A CTA owns BLOCK_N rows of W by BLOCK_M rows of x, a warp WARP_N by WARP_M of them. W is the 16-row operand of
 * mma.m16n8k32, decoded to bytes q - z in registers, x the 8-column operand. Slices of 128 k of both stream through a ring of
 * shared memory by cp.async. The prologue leaves x in the swizzle of wgmma-a8: a slice is one piece of memory, and ldmatrix
 * reads its 8 rows of 16 bytes without bank conflicts, so one order of x serves both templates.
 *
 * Scales of W. One a row: s32 sums over all of K, scaled in the epilogue. Groups, exact: sums of up to 128 k of a group start
 * from the bits of 1.5 * 2^23, to which an integer below 2^22 is added as to a float, so that they are floats without a conversion
 * and are added to fp32 sums times their scale.
 *
 * Parameters, constexpr ints in front of this file (space.lua has values and limits):
 *   BLOCK_M, BLOCK_N, WARP_M, WARP_N   tiling, all powers of two
 *   STAGES                             slices of 128 k in the ring
 *   BITS, ZERO, HAS_ZEROS, GROUP       the format; GROUP 0 is one scale a row
 * Tails: any M, N a multiple of 8, K a multiple of 32, short last group. Results do not depend on timing.
 * Bound by the s8 tensor cores (mma.sync) at large M, by decoding at small M. */
#include "tern/abi.h"
#include "tern/bias.cuh"
#include "tern/groups.cuh"
#include "tern/memory.cuh"
#include "tern/mma.cuh"
#include "tern/quantise_x.cuh"
#include "tern/s8_codes.cuh"
#include "tern/s8_slice.cuh"
#include "tern/sweep.cuh"
#include "tern/tile_copy.cuh"

constexpr int WARPS_N = BLOCK_N / WARP_N, WARPS = WARPS_N * (BLOCK_M / WARP_M), THREADS = 32 * WARPS;
constexpr int ROW_TILES = WARP_N / TERN_TILE_ROWS; /* A fragments of a warp */
constexpr int COL_TILES = WARP_M / 8;              /* B fragments of a warp, loaded two at a time */
constexpr int BLOCKS = BLOCK_N / 64;               /* 64-row blocks of W, as sweep.cuh and tile_copy.cuh count */
constexpr int CTA_TILES = BLOCK_N / TERN_TILE_ROWS;
constexpr int GROUP_M = 8; /* BLOCK_M tiles that neighbouring CTAs sweep together, so that x stays in L2 */
constexpr bool GROUPED = GROUP > 0;
constexpr bool MIXED = tern_s8_mixed<BITS, GROUP>;
typedef struct tern_groups<GROUP> groups;
typedef struct tern_slice_bytes<BITS, GROUP, HAS_ZEROS, CTA_TILES> slice;
constexpr int PIECE = GROUPED ? groups::scale_k / 32 : 2; /* steps of 32 k decoded together: no scale changes between them */

/* Shared memory: [x ring][code ring][scale ring][zero ring], in the end the output tile. Bytes of one ring entry. */
constexpr int X_BYTES = BLOCK_M * TERN_TILE_K;
constexpr int TILE_BYTES = tern_codes<BITS>::tile_bytes;
constexpr int CODES_AT = STAGES * X_BYTES;
constexpr int SCALES_AT = CODES_AT + STAGES * slice::codes;
constexpr int ZEROS_AT = SCALES_AT + STAGES * slice::scales;
constexpr int OUT_PITCH = 2 * BLOCK_N + 16; /* bytes of a row of the output tile; the 16 spread the rows over the banks */

static_assert(BLOCK_N % 64 == 0 && BLOCK_N % WARP_N == 0 && BLOCK_M % WARP_M == 0 && WARP_N % 16 == 0 && WARP_M % 16 == 0,
              "warp tiles fill the CTA tile");
static_assert(WARPS >= 4, "four warps copy codes");
static_assert(STAGES >= 2, "one slice to fill and one to use");
static_assert(BITS < 8 || !HAS_ZEROS, "q - z has nine bits");

constexpr int QUANTISE_THREADS = 256;

/* The prologue: a block quantises a row of x. */
extern "C" __global__ void __launch_bounds__(QUANTISE_THREADS) tern_mma_a8_quantise(const struct tern_args args) {
    tern_quantise_row<0, BITS, GROUP, QUANTISE_THREADS>(args, blockIdx.x);
}

/* ---- copies ---- */

/* A thread's part in the copies of the next slice. */
struct copier {
    const unsigned char *x;  /* its first 16 bytes */
    long long x_pitch;       /* bytes from a slice to the next */
    int x_pieces;            /* of the tile's, 16 bytes each, that exist */
    tern_tile_source source; /* of warps 0 to 3 */
    int k_tile, stage;
};

__device__ __forceinline__ copier start_copier(const tern_args &args, const tern_place &at, int warp, int lane) {
    const tern_x8 x8 = tern_x8_of(args);
    const long long left = x8.pitch - at.x_row;
    copier mine;
    mine.x = x8.codes + at.x_row * TERN_TILE_K + 16 * threadIdx.x;
    mine.x_pitch = x8.pitch * TERN_TILE_K;
    mine.x_pieces = 8 * (int)(left < BLOCK_M ? left : BLOCK_M);
    mine.source = tern_tile_source_of<TILE_BYTES>(args, at, warp % 4, lane);
    mine.k_tile = mine.stage = 0;
    return mine;
}

/* Starts the copies of the next slice, if there is one, as one group of copies in any case. Rows of x past the end become
 * zeros; rows of W there and groups behind K stay what they are: their sums are not stored, their scales are taken as 0. */
__device__ __forceinline__ void copy_slice(const tern_args &args, const tern_place &at, copier &mine, unsigned char *shared,
                                           int warp, int lane) {
    if (mine.k_tile < at.k_tiles) {
#pragma unroll
        for (int first = 0; first < 8 * BLOCK_M; first += THREADS) {
            const int piece = first + (int)threadIdx.x;
            tern_cp_async_if<16>(shared + mine.stage * X_BYTES + 16 * piece, mine.x + 16 * first, piece < mine.x_pieces,
                                 piece < 8 * BLOCK_M);
        }
        if (warp < 4) {
            tern_copy_codes<BLOCKS, TILE_BYTES>(shared + CODES_AT + mine.stage * slice::codes, mine.source, warp, lane);
            tern_copy_groups<BLOCKS, GROUP, HAS_ZEROS>(args, mine.source, mine.k_tile,
                                                       shared + SCALES_AT + mine.stage * slice::scales,
                                                       shared + ZEROS_AT + mine.stage * slice::zeros, warp, lane);
        }
        mine.x += mine.x_pitch;
        mine.source.codes += TILE_BYTES;
        mine.k_tile++;
        mine.stage = mine.stage + 1 < STAGES ? mine.stage + 1 : 0;
    }
    tern_cp_async_commit();
}

/* ---- products ---- */

/* Registers of a warp. */
struct warp_state {
    float sum[ROW_TILES][COL_TILES][4]; /* result; of exact groups while they are added up, else at the end */
    int whole[ROW_TILES][COL_TILES][4]; /* one scale a row: sums over all of K */
    unsigned words[ROW_TILES][tern_codes<BITS>::words]; /* codes of the slice, loaded as needed */
    tern_s8_rows rows[ROW_TILES];
    float2 scale[ROW_TILES]; /* of rows g and g + 8 */
    int warp_n, warp_m, lane;
    int groups; /* of W along K */
};

/* Scales and zero points that hold from step `step` of k tile `k_tile` on. */
__device__ __forceinline__ void load_group(warp_state &state, const unsigned char *scales, const unsigned char *zeros,
                                           int k_tile, int step) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        const int tile = state.warp_n * ROW_TILES + r;
        state.scale[r] =
            __half22float2(tern_as_half2(tern_group_scales<GROUP>(scales, tile, k_tile, step, state.groups, state.lane)));
        if (HAS_ZEROS) {
            const unsigned pair = tern_group_zeros<GROUP>(zeros, tile, k_tile, step, state.lane);
            state.rows[r] = tern_s8_zeros<MIXED>(pair & 0xFF, pair >> 8);
        }
    }
}

typedef unsigned fragments[PIECE][ROW_TILES][4]; /* A of the steps of a piece */

/* B of a step and two column tiles: registers b0, b1 of the first, then of the second. `x` is the slice's first row of the two. */
__device__ __forceinline__ void load_columns(unsigned (&b)[4], const unsigned char *x, int step, int lane) {
    const int row = lane / 16 * 8 + lane % 8, chunk = lane / 8 % 2; /* of the 16 bytes whose address the lane gives */
    tern_ldmatrix_x4(b, x + ((row * TERN_TILE_K + 16 * (chunk ^ (row % 8))) ^ 32 * step));
}

/* The products of a piece of a group with two column tiles, c and c + 1; added to the sums with the group's scale. */
__device__ __forceinline__ void multiply_scaled(warp_state &state, const fragments &a, const unsigned (&b)[PIECE][4],
                                                int c) {
    const int start[4] = {0x4B400000, 0x4B400000, 0x4B400000, 0x4B400000}; /* 1.5 * 2^23 */
    int part[ROW_TILES][2][4];
#pragma unroll
    for (int s = 0; s < PIECE; s++)
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (s == 0)
                    tern_mma_s8_into<true>(part[r][h], a[s][r], b[s][2 * h], b[s][2 * h + 1], start);
                else
                    tern_mma_s8<true>(part[r][h], a[s][r], b[s][2 * h], b[s][2 * h + 1]);
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float &sum = state.sum[r][c + i / 4][i % 4];
            sum =
                fmaf(i & 2 ? state.scale[r].y : state.scale[r].x, __int_as_float(part[r][i / 4][i % 4]) - 12582912.0f, sum);
        }
}

/* The same, added to the sums over all of K. */
__device__ __forceinline__ void multiply_whole(warp_state &state, const fragments &a, const unsigned (&b)[PIECE][4], int c) {
#pragma unroll
    for (int s = 0; s < PIECE; s++)
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                tern_mma_s8<true>(state.whole[r][c + h], a[s][r], b[s][2 * h], b[s][2 * h + 1]);
}

/* A slice: k tile `k_tile` in ring entry `stage`. */
__device__ __forceinline__ void multiply_slice(warp_state &state, const unsigned char *shared, int stage, int k_tile) {
    const unsigned char *x = shared + stage * X_BYTES + state.warp_m * WARP_M * TERN_TILE_K;
#pragma unroll
    for (int step = 0; step < TERN_S8_STEPS; step += PIECE) {
        fragments a;
        if (GROUPED)
            load_group(state, shared + SCALES_AT + stage * slice::scales, shared + ZEROS_AT + stage * slice::zeros, k_tile,
                       step);
#pragma unroll
        for (int s = 0; s < PIECE; s++) {
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++)
                tern_load_words<BITS>(state.words[r], shared + CODES_AT + stage * slice::codes,
                                      state.warp_n * ROW_TILES + r, step + s, state.lane);
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++)
                tern_s8_fragment<BITS, MIXED>(state.words[r], step + s, state.rows[r], a[s][r]);
        }
#pragma unroll
        for (int c = 0; c < COL_TILES; c += 2) {
            unsigned b[PIECE][4];
#pragma unroll
            for (int s = 0; s < PIECE; s++)
                load_columns(b[s], x + 8 * c * TERN_TILE_K, step + s, state.lane);
            if (GROUPED)
                multiply_scaled(state, a, b, c);
            else
                multiply_whole(state, a, b, c);
        }
    }
}

/* The tile of y that this CTA computes: strips of GROUP_M tiles of x, inside a strip x is the fast direction. */
__device__ __forceinline__ tern_place find_place(const tern_args &args) {
    tern_sweep sweep = tern_sweep_start<BLOCKS>(args.n, (unsigned)((args.m + BLOCK_M - 1) / BLOCK_M), 0, 1);
    tern_sweep_go<BLOCKS, GROUP_M>(sweep, blockIdx.x);
    tern_place at = {};
    at.row_tile = (int)sweep.row_block * 4;
    at.blocks = (int)sweep.blocks;
    at.row_tiles = (int)((args.n + 15) / 16);
    at.k_tiles = (int)((args.k + TERN_TILE_K - 1) / TERN_TILE_K);
    at.x_row = (long long)sweep.tile_m * BLOCK_M;
    return at;
}

/* The warp's r-th row tile, or the last one of W: rows past the end are never stored. */
__device__ __forceinline__ long long inside_tile(const tern_place &at, const warp_state &state, int r) {
    const int tile = at.row_tile + state.warp_n * ROW_TILES + r;
    return tile < at.row_tiles ? tile : at.row_tiles - 1;
}

/* Zero sums; zero points that do not change along K. */
__device__ __forceinline__ void start_state(const tern_args &args, const tern_place &at, warp_state &state) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        state.rows[r] = tern_s8_zeros<MIXED>(ZERO, ZERO);
        if (!GROUPED && HAS_ZEROS) { /* one zero point a row */
            const unsigned pair = tern_row_zeros(args, inside_tile(at, state, r), state.lane);
            state.rows[r] = tern_s8_zeros<MIXED>(pair & 0xFF, pair >> 8);
        }
#pragma unroll
        for (int c = 0; c < COL_TILES; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                state.sum[r][c][i] = 0.0f;
                state.whole[r][c][i] = 0;
            }
    }
}

/* The ring: STAGES - 1 slices in flight while one is used. One barrier a slice both publishes it and frees the one before. */
__device__ __forceinline__ void multiply_all(const tern_args &args, const tern_place &at, unsigned char *shared, int warp,
                                             warp_state &state) {
    copier next = start_copier(args, at, warp, state.lane);
    int stage = 0;
    for (int i = 0; i < STAGES - 1; i++)
        copy_slice(args, at, next, shared, warp, state.lane);
    for (int k_tile = 0; k_tile < at.k_tiles; k_tile++) {
        tern_cp_async_wait<STAGES - 2>();
        __syncthreads();
        copy_slice(args, at, next, shared, warp, state.lane);
        multiply_slice(state, shared, stage, k_tile);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
    tern_cp_async_wait<0>();
    __syncthreads(); /* the ring is free from here */
}

/* ---- sums to y ---- */

/* Puts the sums, times the scales of the tokens and, where they are one a row, of W, plus the bias, into the output tile
 * [BLOCK_M][BLOCK_N] in shared memory: the fragments have n along lanes / 4, y has n contiguous. */
__device__ __forceinline__ void stage_output(const tern_args &args, const tern_place &at, unsigned char *shared,
                                             const warp_state &state) {
    const int t = state.lane % 4, g = state.lane / 4;
    const float *tokens = tern_x8_of(args).scales + at.x_row + state.warp_m * WARP_M; /* those past M can be read */
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        float2 scale = {1.0f, 1.0f};
        if (!GROUPED)
            scale = __half22float2(static_cast<const __half2 *>(args.scales)[8 * inside_tile(at, state, r) + g]);
        const int n = state.warp_n * WARP_N + 16 * r + g;
        const float2 bias = tern_bias_of_rows<BF16>(args, 16LL * at.row_tile + n);
#pragma unroll
        for (int c = 0; c < COL_TILES; c++) {
            const float2 token = *reinterpret_cast<const float2 *>(tokens + 8 * c + 2 * t);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float sum = GROUPED ? state.sum[r][c][i] : (float)state.whole[r][c][i]; /* exact below 2^24 */
                const float value =
                    fmaf(sum * (i % 2 ? token.y : token.x), i < 2 ? scale.x : scale.y, i < 2 ? bias.x : bias.y);
                const int m = state.warp_m * WARP_M + 8 * c + 2 * t + i % 2;
                *reinterpret_cast<unsigned short *>(shared + m * OUT_PITCH + 2 * (n + 8 * (i / 2))) =
                    tern_value_round<BF16>(value);
            }
        }
    }
}

/* Writes the output tile, 16 bytes a thread; N is a multiple of 8, so a chunk is inside or outside as a whole. */
__device__ __forceinline__ void store_output(const tern_args &args, const tern_place &at, const unsigned char *shared) {
    constexpr int CHUNKS = BLOCK_N / 8;
    unsigned short *y = static_cast<unsigned short *>(args.y);
    for (int id = (int)threadIdx.x; id < BLOCK_M * CHUNKS; id += THREADS) {
        const int row = id / CHUNKS, chunk = id % CHUNKS;
        const long long m = at.x_row + row, n = 16LL * at.row_tile + 8 * chunk;
        if (m < args.m && n < args.n)
            *reinterpret_cast<uint4 *>(y + m * args.n + n) = tern_shared_load_16(shared + row * OUT_PITCH + 16 * chunk);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 8 / WARPS) tern_mma_a8(const struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    const tern_place at = find_place(args);
    const int warp = (int)threadIdx.x / 32;
    warp_state state;
    state.warp_n = warp % WARPS_N;
    state.warp_m = warp / WARPS_N;
    state.lane = (int)threadIdx.x % 32;
    state.groups = (int)args.groups;
    start_state(args, at, state);
    multiply_all(args, at, shared, warp, state);
    stage_output(args, at, shared, state);
    __syncthreads();
    store_output(args, at, shared);
}
