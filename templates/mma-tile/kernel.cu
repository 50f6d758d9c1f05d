/* mma-tile: y[M,N] = x[M,K] * W[N,K]^T for M = 16 up to prefill, quantised W, fp32 accumulation.
 *
 * A CTA owns BLOCK_N rows of W by BLOCK_M rows of x, a warp WARP_N by WARP_M of them. W is the 16-row operand of
 * mma.m16n8k16 (swap-AB), x the 8-column operand. Weights (layout frag16x128) and x stream through rings of shared memory by
 * cp.async; code words become A fragments in registers. WARPS_K groups of warps take every WARPS_K-th 128-k tile and are
 * added at the end, so do the CTAs of a cluster, in a fixed order: results do not depend on timing.
 *
 * Parameters, constexpr ints in front of this file (space.lua has values and limits):
 *   BLOCK_N, BLOCK_M, WARP_N, WARP_M, WARPS_K   tiling, all powers of two
 *   CLUSTER_K       CTAs of a cluster that split K; above 1 it needs compute capability 9.0
 *   BLOCK_K         k of one slice of x in the ring, 64 or 128; weights come in tiles of 128
 *   STAGES          slices of x in flight
 *   GROUP_M         BLOCK_M tiles that neighbouring CTAs sweep together, so that x stays in L2
 *   SM_WARPS        warps a multiprocessor that registers are budgeted for (launch bounds)
 *   SCALE_WEIGHTS   1: group scale times (q - z) in the type of x before the mma; 0: fp32 scale on the accumulators of each group
 *   ROUND_WEIGHTS   says that SCALE_WEIGHTS rounds (it does not for ternary in binary16); not used here
 *   BITS, ZERO, HAS_ZEROS, GROUP                the format; GROUP 0 is one scale a row, applied in the epilogue
 * Tails: any M, N a multiple of 8, K a multiple of 32, short last group. Out-of-range x is read as zero.
 * Bound by the f16 tensor cores (mma.sync: 63 % of the dense rate on Hopper); expected 60-75 % of that at M >= 512. */
#include "tern/bias.cuh"
#include "tern/abi.h"
#include "tern/cluster.cuh"
#include "tern/dependent.cuh"
#include "tern/memory.cuh"
#include "tern/mma.cuh"
#include "tern/dequant.cuh"

constexpr int WARPS_N = BLOCK_N / WARP_N, WARPS_M = BLOCK_M / WARP_M;
constexpr int THREADS = 32 * WARPS_N * WARPS_M * WARPS_K;
constexpr int ROW_TILES = WARP_N / TERN_TILE_ROWS; /* A fragments of a warp */
constexpr int COL_TILES = WARP_M / 8;              /* B fragments of a warp */
constexpr int CTA_TILES = BLOCK_N / TERN_TILE_ROWS;
constexpr int K_GROUPS = WARPS_K * CLUSTER_K; /* that take turns at the 128-k tiles */
constexpr int SLICES = TERN_TILE_K / BLOCK_K;
constexpr int TILE_STAGES = STAGES * BLOCK_K / TERN_TILE_K + SLICES - 1; /* weight tiles that STAGES slices may touch */
constexpr bool GROUPED = GROUP > 0;
/* Groups that a 128-k tile may touch; the general case starts 32 before the end of a group at worst. */
constexpr int TILE_GROUPS = !GROUPED                   ? 1
                            : GROUP % TERN_TILE_K == 0 ? 1
                            : TERN_TILE_K % (GROUPED ? GROUP : 1) == 0
                                ? TERN_TILE_K / (GROUPED ? GROUP : 1)
                                : 1 + (TERN_TILE_K - 32 + GROUP - 1) / (GROUPED ? GROUP : 1);
/* k after which zeros and scales are looked up anew: the largest power of two up to 128 that divides the group. */
constexpr int SCALE_K = GROUP % 128 == 0 ? 128 : GROUP % 64 == 0 ? 64 : 32;
constexpr bool SCALE_SUMS = GROUPED && !SCALE_WEIGHTS;

/* Shared memory: [x ring][code ring][scale ring][zero ring]. Sizes in bytes of one ring entry. */
constexpr int X_BYTES = 2 * BLOCK_M * BLOCK_K; /* of one k-warp group */
constexpr int CODE_BYTES = CTA_TILES * tern_codes<BITS>::tile_bytes;
constexpr int SCALE_BYTES = GROUPED ? CTA_TILES * TILE_GROUPS * 32 : 0;
constexpr int ZERO_BYTES = GROUPED && HAS_ZEROS ? CTA_TILES * TILE_GROUPS * 16 : 0;
constexpr int CODES_AT = STAGES * WARPS_K * X_BYTES;
constexpr int SCALES_AT = CODES_AT + TILE_STAGES * WARPS_K * CODE_BYTES;
constexpr int ZEROS_AT = SCALES_AT + TILE_STAGES * WARPS_K * SCALE_BYTES;
constexpr int OUT_BYTES = CLUSTER_K > 1 ? 4 : 2;    /* of an element of the output tile: fp32 while CTAs have parts of it */
constexpr int OUT_PITCH = OUT_BYTES * BLOCK_N + 16; /* bytes of a row of it; the 16 spread the rows over the banks */
constexpr int SUM_COUNT = ROW_TILES * COL_TILES * 4;

static_assert(BLOCK_N % WARP_N == 0 && BLOCK_M % WARP_M == 0 && BLOCK_M % CLUSTER_K == 0 && WARP_N % 16 == 0 &&
                  WARP_M % 8 == 0,
              "warp tiles fill the CTA tile");
static_assert(BLOCK_K == 64 || BLOCK_K == 128, "a slice is half a weight tile or a whole one");
static_assert(THREADS % (BLOCK_K / 8) == 0, "a thread keeps its column while copying x");
static_assert(STAGES >= 2 && (!ROUND_WEIGHTS || SCALE_WEIGHTS),
              "one slice to fill and one to use; only scaled weights round");

/* Where this CTA and warp work; all row numbers are of the whole problem. */
struct place {
    int row_tile;    /* first 16-row tile of W of the CTA */
    long long x_row; /* first row of x of the CTA */
    int row_tiles;   /* of W */
    int k_tiles;     /* of W */
    int warp_n, warp_m, warp_k, lane;
    int rank;    /* of the CTA in its cluster */
    int first_k; /* k tile of its k-warp group 0 in step 0 */
};

__device__ __forceinline__ place find_place(const tern_args &args) {
    place at;
    at.row_tiles = (int)((args.n + 15) / 16);
    at.k_tiles = (int)((args.k + TERN_TILE_K - 1) / TERN_TILE_K);
    /* Strips of GROUP_M tiles of x; inside a strip x is the fast direction. */
    const unsigned tiles_n = (unsigned)((args.n + BLOCK_N - 1) / BLOCK_N),
                   tiles_m = (unsigned)((args.m + BLOCK_M - 1) / BLOCK_M);
    const unsigned tile = blockIdx.x / CLUSTER_K, strip = tile / (GROUP_M * tiles_n),
                   rest = tile - strip * (GROUP_M * tiles_n);
    const unsigned left = tiles_m - strip * GROUP_M, height = left < GROUP_M ? left : GROUP_M;
    at.row_tile = (int)(rest / height) * CTA_TILES;
    at.x_row = (long long)(strip * GROUP_M + rest % height) * BLOCK_M;
    const int warp = (int)threadIdx.x / 32;
    at.lane = (int)threadIdx.x % 32;
    at.warp_n = warp % WARPS_N;
    at.warp_m = warp / WARPS_N % WARPS_M;
    at.warp_k = warp / (WARPS_N * WARPS_M);
    at.rank = (int)(blockIdx.x % CLUSTER_K);
    at.first_k = at.rank * WARPS_K;
    return at;
}

/* Byte of the 16-byte chunk (8 activations) `chunk` of a row in a slice. Two rows meet in a phase of an LDS.128 (lanes 4*g +
 * t read chunk t of row g), so odd rows swap the halves of each 128 bytes. */
__device__ __forceinline__ int x_offset(int row, int chunk) {
    return row * (2 * BLOCK_K) + 16 * (chunk ^ ((row & 1) << 2));
}

/* How the threads share out a slice of x: each keeps one chunk of 8 columns and takes every ROWS_STEP-th row of the stack of
 * k-warp groups' tiles, that is X_ROWS rows apart in one tile, and every GROUP_STEP-th tile. */
constexpr int X_CHUNKS = BLOCK_K / 8, ROWS_STEP = THREADS / X_CHUNKS;
constexpr int X_ROWS = ROWS_STEP < BLOCK_M ? ROWS_STEP : BLOCK_M, GROUP_STEP = ROWS_STEP / X_ROWS;
constexpr int WARPS = THREADS / 32;

/* A thread's part in the copies: everything that does not depend on k. */
struct copier {
    const unsigned short *x;    /* its first row and chunk, k = 0 of its first k-warp group */
    int x_rows;                 /* rows of x from there to the end, at most BLOCK_M; 0 or less: none */
    int x_to;                   /* byte in a ring entry */
    unsigned x_k;               /* its k for slice 0 */
    const unsigned char *codes; /* its 16 bytes of k tile 0 of the warp's first row tile */
    const unsigned char *side;  /* its 16 bytes of scales or zeros of group 0 of that row tile; */
    int side_bytes, side_to;    /* bytes a group there, and where in shared memory; side_bytes 0: this lane copies none */
};

/* The side arrays of a tile are 16-byte chunks in lanes: two a group of scales, then one a group of zeros. */
__device__ __forceinline__ void start_side(const tern_args &args, long long first_tile, int lane, copier &mine) {
    mine.side_bytes = 0;
    mine.side = static_cast<const unsigned char *>(args.scales);
    mine.side_to = 0;
    if (lane < 2 * TILE_GROUPS) {
        mine.side_bytes = 32;
        mine.side_to = SCALES_AT + 16 * lane;
    } else if (HAS_ZEROS && lane < 3 * TILE_GROUPS) {
        mine.side_bytes = 16;
        mine.side = static_cast<const unsigned char *>(args.zeros);
        mine.side_to = ZEROS_AT + 16 * (lane - 2 * TILE_GROUPS);
    }
    mine.side += first_tile * args.groups * mine.side_bytes + (mine.side_bytes == 32 ? 16 * (lane % 2) : 0);
}

__device__ __forceinline__ copier start_copier(const tern_args &args, const place &at) {
    copier mine;
    const int chunk = (int)threadIdx.x % X_CHUNKS, first = (int)threadIdx.x / X_CHUNKS;
    const int row = first % X_ROWS, group = GROUP_STEP == 1 ? 0 : first / X_ROWS;
    const long long left = args.m - at.x_row - row;
    mine.x_k = (unsigned)((at.first_k + group) * TERN_TILE_K + 8 * chunk);
    mine.x = static_cast<const unsigned short *>(args.x) + (at.x_row + row) * args.k + mine.x_k;
    mine.x_rows = (int)(left < BLOCK_M ? left : BLOCK_M);
    mine.x_to = group * X_BYTES + x_offset(row, chunk);
    /* Warp w copies tiles w, w + WARPS, ... of the stack [WARPS_K][CTA_TILES]; tiles of one k-warp group stand side by side
     * in it. */
    const int warp = (int)threadIdx.x / 32;
    const long long tile = at.row_tile + warp % CTA_TILES;
    mine.codes = static_cast<const unsigned char *>(args.codes) +
                 (tile * at.k_tiles + at.first_k + warp / CTA_TILES) * tern_codes<BITS>::tile_bytes + 16 * at.lane;
    start_side(args, tile, at.lane, mine);
    return mine;
}

/* Starts the copy of slice `slice` of x for all k-warp groups. Rows and columns outside x become zeros: a copy that is not
 * wanted reads nothing, so its address may lie anywhere. */
__device__ __forceinline__ void copy_x(const tern_args &args, const copier &mine, unsigned char *ring, int slice) {
    const unsigned k = (unsigned)(slice / SLICES) * (K_GROUPS * TERN_TILE_K) + (unsigned)(slice % SLICES * BLOCK_K);
    unsigned char *to = ring + slice % STAGES * (WARPS_K * X_BYTES) + mine.x_to;
    const unsigned short *from = mine.x + k;
#pragma unroll
    for (int g = 0; g < (WARPS_K + GROUP_STEP - 1) / GROUP_STEP; g++) {
        if (WARPS_K % GROUP_STEP != 0 && (int)threadIdx.x / X_CHUNKS / X_ROWS >= WARPS_K)
            break;
        const int rows = k + mine.x_k + g * GROUP_STEP * TERN_TILE_K < (unsigned)args.k ? mine.x_rows : 0;
        const unsigned short *source = from + g * GROUP_STEP * TERN_TILE_K;
#pragma unroll
        for (int v = 0; v < BLOCK_M / X_ROWS; v++) {
            tern_cp_async<16>(to + g * GROUP_STEP * X_BYTES + v * X_ROWS * (2 * BLOCK_K), source, v * X_ROWS < rows);
            source += X_ROWS * args.k;
        }
    }
}

/* First scale group of a k tile. */
__device__ __forceinline__ unsigned first_group(unsigned k_tile) {
    return GROUPED ? k_tile * TERN_TILE_K / (unsigned)(GROUPED ? GROUP : 1) : 0;
}

/* Starts the copies of tile step `step`: codes, scales and zeros of all k-warp groups. Tiles and groups outside W become
 * zeros. */
__device__ __forceinline__ void copy_tiles(const tern_args &args, const place &at, const copier &mine, unsigned char *shared,
                                           int step) {
    constexpr int ALL = WARPS_K * CTA_TILES, CODE_CHUNKS = tern_codes<BITS>::tile_bytes / 16;
    const int warp = (int)threadIdx.x / 32, entry = step % TILE_STAGES * ALL;
#pragma unroll
    for (int u = 0; u < (ALL + WARPS - 1) / WARPS; u++) {
        const int stacked = warp + u * WARPS;
        if (ALL % WARPS != 0 && stacked >= ALL)
            break;
        /* tiles and k tiles from the thread's first ones: CTA_TILES and WARPS are powers of two */
        const int rows_on = WARPS < CTA_TILES ? u * WARPS % CTA_TILES : 0, k_on = u * WARPS / CTA_TILES;
        const int row_tile = at.row_tile + warp % CTA_TILES + rows_on,
                  k_tile = at.first_k + step * K_GROUPS + warp / CTA_TILES + k_on;
        const bool inside = row_tile < at.row_tiles && k_tile < at.k_tiles;
        const unsigned char *from =
            mine.codes + ((long long)rows_on * at.k_tiles + step * K_GROUPS + k_on) * tern_codes<BITS>::tile_bytes;
        unsigned char *to = shared + CODES_AT + (entry + stacked) * tern_codes<BITS>::tile_bytes + 16 * at.lane;
#pragma unroll
        for (int c = 0; c < (CODE_CHUNKS + 31) / 32; c++)
            if (CODE_CHUNKS % 32 == 0 || c * 32 + at.lane < CODE_CHUNKS)
                tern_cp_async<16>(to + 512 * c, from + 512 * c, inside);
        if (GROUPED && mine.side_bytes > 0) {
            const int ahead = at.lane < 2 * TILE_GROUPS ? at.lane / 2 : at.lane - 2 * TILE_GROUPS;
            const long long group = (long long)first_group((unsigned)k_tile) + ahead;
            tern_cp_async<16>(shared + mine.side_to + (entry + stacked) * TILE_GROUPS * mine.side_bytes,
                              mine.side + (rows_on * args.groups + group) * mine.side_bytes, inside && group < args.groups);
        }
    }
}

/* The first slice of a 128-k tile brings the weights of that tile. */
__device__ __forceinline__ void copy_weights(const tern_args &args, const place &at, const copier &mine,
                                             unsigned char *shared, int slice) {
    if (slice % SLICES == 0)
        copy_tiles(args, at, mine, shared, slice / SLICES);
}

/* Registers of a warp between slices. */
struct warp_state {
    float sum[ROW_TILES][COL_TILES][4];                                    /* fp32 result */
    float part[SCALE_SUMS ? ROW_TILES : 1][SCALE_SUMS ? COL_TILES : 1][4]; /* sum of one scale group, not yet scaled */
    unsigned words[ROW_TILES][tern_codes<BITS>::words];                    /* codes of the 128-k tile, loaded as needed */
    tern_zero_bias zero[ROW_TILES];
    unsigned scale[ROW_TILES]; /* (row g, row g + 8) in binary16 */
};

/* Loads the 16-byte chunks of codes whose first use is the 32-k block `block` of the tile. */
__device__ __forceinline__ void load_words(warp_state &state, const unsigned char *codes, int lane, int block) {
    constexpr int BLOCKS_A_CHUNK = BITS == 8 ? 1 : BITS == 4 ? 2 : 4;
    if (block % BLOCKS_A_CHUNK != 0)
        return;
    const int chunk = block / BLOCKS_A_CHUNK;
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        const unsigned char *tile = codes + r * tern_codes<BITS>::tile_bytes;
        const uint4 four = tern_shared_load_16(tile + chunk * 512 + lane * 16);
        state.words[r][4 * chunk + 0] = four.x;
        state.words[r][4 * chunk + 1] = four.y;
        state.words[r][4 * chunk + 2] = four.z;
        state.words[r][4 * chunk + 3] = four.w;
        if (BITS == 3) {
            const uint2 two = *reinterpret_cast<const uint2 *>(tile + 512 + lane * 8);
            state.words[r][tern_codes<BITS>::words - 2] = two.x;
            state.words[r][tern_codes<BITS>::words - 1] = two.y;
        }
    }
}

/* Scales and zero points that hold from 32-k block `block` of k tile `k_tile` on. */
__device__ __forceinline__ void load_group(warp_state &state, const unsigned char *scales, const unsigned char *zeros,
                                           int lane, unsigned k_tile, int block) {
    if (!GROUPED)
        return;
    const unsigned divisor = GROUPED ? GROUP : 1;
    const int slot = TILE_GROUPS == 1 ? 0
                     : TERN_TILE_K % divisor == 0
                         ? (int)(32u * (unsigned)block / divisor)
                         : (int)((k_tile * TERN_TILE_K + 32u * (unsigned)block) / divisor - first_group(k_tile));
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        const int entry = (r * TILE_GROUPS + slot) * 8 + lane / 4;
        state.scale[r] = *reinterpret_cast<const unsigned *>(scales + 4 * entry);
        if (HAS_ZEROS) {
            const unsigned pair = *reinterpret_cast<const unsigned short *>(zeros + 2 * entry);
            state.zero[r] = tern_zero_biases<BITS>(pair & 0xff, pair >> 8);
        }
    }
}

/* Adds the finished group, scaled in fp32, and clears it. */
__device__ __forceinline__ void flush_group(warp_state &state) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        const float2 scale = __half22float2(tern_as_half2(state.scale[r]));
#pragma unroll
        for (int c = 0; c < COL_TILES; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                state.sum[r][c][i] += (i < 2 ? scale.x : scale.y) * state.part[SCALE_SUMS ? r : 0][SCALE_SUMS ? c : 0][i];
                state.part[SCALE_SUMS ? r : 0][SCALE_SUMS ? c : 0][i] = 0.0f;
            }
    }
}

/* Two k-steps: 32-k block `block` (0..3) of the weight tile against block `block` % (BLOCK_K / 32) of the slice of x at `x`.
 */
__device__ __forceinline__ void multiply_block(warp_state &state, const unsigned char *x, int lane, int block) {
    uint4 b[COL_TILES];
    const int in_slice = block % (BLOCK_K / 32), lane_offset = x_offset(lane / 4, 4 * (block & 1) + lane % 4);
#pragma unroll
    for (int c = 0; c < COL_TILES; c++) /* x_offset(8 * c + lane / 4, 4 * in_slice + lane % 4), constants apart */
        b[c] = tern_shared_load_16(x + lane_offset + 16 * c * BLOCK_K + 128 * (in_slice / 2));
#pragma unroll
    for (int odd = 0; odd < 2; odd++) {
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++) {
            unsigned a[4];
            tern_dequant_tile<BITS, BF16>(state.words[r], 2 * block + odd, state.zero[r], a);
            if constexpr (GROUPED && SCALE_WEIGHTS)
                tern_scale_fragment<BITS, HAS_ZEROS>(tern_scale_rows<BF16>(state.scale[r]), a);
#pragma unroll
            for (int c = 0; c < COL_TILES; c++) {
                const unsigned b0 = odd ? b[c].z : b[c].x, b1 = odd ? b[c].w : b[c].y;
                if (SCALE_SUMS)
                    tern_mma_16<BF16>(state.part[SCALE_SUMS ? r : 0][SCALE_SUMS ? c : 0], a, b0, b1);
                else
                    tern_mma_16<BF16>(state.sum[r][c], a, b0, b1);
            }
        }
    }
}

/* One slice for this warp; `part` (0..SLICES-1) says which part of the weight tile it meets. */
__device__ __forceinline__ void multiply_slice(warp_state &state, const place &at, const unsigned char *shared, int slice,
                                               int part) {
    const int step = slice / SLICES, entry = step % TILE_STAGES * WARPS_K + at.warp_k, first_tile = at.warp_n * ROW_TILES;
    const unsigned char *x = shared + (slice % STAGES * WARPS_K + at.warp_k) * X_BYTES + at.warp_m * WARP_M * 2 * BLOCK_K;
    const unsigned char *codes = shared + CODES_AT + entry * CODE_BYTES + first_tile * tern_codes<BITS>::tile_bytes;
    const unsigned char *scales = shared + SCALES_AT + entry * SCALE_BYTES + first_tile * TILE_GROUPS * 32;
    const unsigned char *zeros = shared + ZEROS_AT + entry * ZERO_BYTES + first_tile * TILE_GROUPS * 16;
    const unsigned k_tile = (unsigned)(at.first_k + step * K_GROUPS + at.warp_k);
#pragma unroll
    for (int i = 0; i < BLOCK_K / 32; i++) {
        const int block = part * (BLOCK_K / 32) + i;
        load_words(state, codes, at.lane, block);
        if (block * 32 % SCALE_K == 0)
            load_group(state, scales, zeros, at.lane, k_tile, block);
        multiply_block(state, x, at.lane, block);
        if (SCALE_SUMS && (block + 1) * 32 % SCALE_K == 0)
            flush_group(state);
    }
}

/* Zero sums; zero points that do not change along K. */
__device__ __forceinline__ void start_state(const tern_args &args, const place &at, warp_state &state) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        state.zero[r] = tern_zero_biases<BITS>(ZERO, ZERO);
        state.scale[r] = 0;
        if (!GROUPED && HAS_ZEROS) { /* one zero point a row; rows past the end are never stored */
            const int tile = at.row_tile + at.warp_n * ROW_TILES + r, inside = tile < at.row_tiles ? tile : at.row_tiles - 1;
            const unsigned char *zeros = static_cast<const unsigned char *>(args.zeros) + 16LL * inside + 2 * (at.lane / 4);
            state.zero[r] = tern_zero_biases<BITS>(zeros[0], zeros[1]);
        }
#pragma unroll
        for (int c = 0; c < COL_TILES; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                state.sum[r][c][i] = 0.0f;
                state.part[SCALE_SUMS ? r : 0][SCALE_SUMS ? c : 0][i] = 0.0f;
            }
    }
}

/* The ring: STAGES - 1 slices in flight while one is used. One barrier a slice both publishes it and frees the one before.
 */
__device__ __forceinline__ void multiply_all(const tern_args &args, const place &at, unsigned char *shared,
                                             warp_state &state) {
    const copier mine = start_copier(args, at);
    const int slices = (at.k_tiles + K_GROUPS - 1) / K_GROUPS * SLICES;
    const int first_slices = slices < STAGES - 1 ? slices : STAGES - 1;
    for (int slice = 0; slice < first_slices && DEPENDENT; slice++) /* all in the first group, which comes first anyway */
        copy_weights(args, at, mine, shared, slice);
    tern_dependency_wait();
    for (int slice = 0; slice < STAGES - 1; slice++) {
        if (slice < slices) {
            copy_x(args, mine, shared, slice);
            if (!DEPENDENT)
                copy_weights(args, at, mine, shared, slice);
        }
        tern_cp_async_commit();
    }
    for (int first = 0; first < slices; first += SLICES) {
#pragma unroll
        for (int part = 0; part < SLICES; part++) {
            tern_cp_async_wait<STAGES - 2>();
            __syncthreads();
            if (first + part + STAGES - 1 < slices) {
                copy_x(args, mine, shared, first + part + STAGES - 1);
                copy_weights(args, at, mine, shared, first + part + STAGES - 1);
            }
            tern_cp_async_commit();
            multiply_slice(state, at, shared, first + part, part);
        }
    }
    tern_cp_async_wait<0>();
    __syncthreads(); /* the ring is free from here */
}

/* Adds the sums of the k-warp groups 1, 2, ... into those of group 0, in this order. */
__device__ __forceinline__ void add_k_groups(const place &at, unsigned char *shared, warp_state &state) {
    if (WARPS_K == 1)
        return;
    float *sums = reinterpret_cast<float *>(shared);
    const int warp = at.warp_m * WARPS_N + at.warp_n;
    if (at.warp_k > 0) {
#pragma unroll
        for (int i = 0; i < SUM_COUNT; i++)
            sums[(((at.warp_k - 1) * WARPS_N * WARPS_M + warp) * SUM_COUNT + i) * 32 + at.lane] =
                state.sum[i / 4 / COL_TILES][i / 4 % COL_TILES][i % 4];
    }
    __syncthreads();
    if (at.warp_k == 0) {
        for (int k = 0; k < WARPS_K - 1; k++)
#pragma unroll
            for (int i = 0; i < SUM_COUNT; i++)
                state.sum[i / 4 / COL_TILES][i / 4 % COL_TILES][i % 4] +=
                    sums[((k * WARPS_N * WARPS_M + warp) * SUM_COUNT + i) * 32 + at.lane];
    }
    __syncthreads();
}

/* Puts the sums into the output tile [BLOCK_M][BLOCK_N] in shared memory, rounded, or as fp32 if a cluster still has to
 * add: the fragments have n along lanes / 4, y has n contiguous. */
__device__ __forceinline__ void stage_output(const tern_args &args, const place &at, unsigned char *shared,
                                             const warp_state &state) {
    if (at.warp_k > 0)
        return;
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        float2 scale = {1.0f, 1.0f}, bias = {0.0f, 0.0f};
        if (!GROUPED) {
            const int tile = at.row_tile + at.warp_n * ROW_TILES + r, inside = tile < at.row_tiles ? tile : at.row_tiles - 1;
            scale = __half22float2(static_cast<const __half2 *>(args.scales)[8LL * inside + at.lane / 4]);
        }
        if (CLUSTER_K == 1 || at.rank == 0)
            bias = tern_bias_of_rows<BF16>(args, 16LL * at.row_tile + at.warp_n * WARP_N + 16 * r + at.lane / 4);
#pragma unroll
        for (int c = 0; c < COL_TILES; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int m = at.warp_m * WARP_M + 8 * c + 2 * (at.lane % 4) + i % 2;
                const int n = at.warp_n * WARP_N + 16 * r + 8 * (i / 2) + at.lane / 4;
                const float value = fmaf(state.sum[r][c][i], i < 2 ? scale.x : scale.y, i < 2 ? bias.x : bias.y);
                unsigned char *to = shared + m * OUT_PITCH + OUT_BYTES * n;
                if (CLUSTER_K > 1)
                    *reinterpret_cast<float *>(to) = value;
                else
                    *reinterpret_cast<unsigned short *>(to) = tern_value_round<BF16>(value);
            }
    }
}

/* Eight outputs from the byte `at` of the output tile: as they are, or added over the cluster in the order of its ranks. */
__device__ __forceinline__ uint4 load_output(const unsigned char *at) {
    if (CLUSTER_K == 1)
        return tern_shared_load_16(at);
    float sum[8] = {};
#pragma unroll
    for (int rank = 0; rank < CLUSTER_K; rank++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum[i] += tern_cluster_load_float(at + 4 * i, rank);
    unsigned pairs[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        pairs[i] = tern_pair_round<BF16>(sum[2 * i], sum[2 * i + 1]);
    return uint4{pairs[0], pairs[1], pairs[2], pairs[3]};
}

/* Writes this CTA's rows of the output tile, 16 bytes a thread; N is a multiple of 8, so a chunk is inside or outside as a
 * whole. */
__device__ __forceinline__ void store_output(const tern_args &args, const place &at, const unsigned char *shared) {
    constexpr int CHUNKS = BLOCK_N / 8, ROWS = BLOCK_M / CLUSTER_K;
    unsigned short *y = static_cast<unsigned short *>(args.y);
    for (int id = (int)threadIdx.x; id < ROWS * CHUNKS; id += THREADS) {
        const int row = at.rank * ROWS + id / CHUNKS, chunk = id % CHUNKS;
        const long long m = at.x_row + row, n = 16LL * at.row_tile + 8 * chunk;
        if (m < args.m && n < args.n)
            *reinterpret_cast<uint4 *>(y + m * args.n + n) = load_output(shared + row * OUT_PITCH + OUT_BYTES * 8 * chunk);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, SM_WARPS / WARPS) tern_mma_tile(const struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    const place at = find_place(args);
    warp_state state;
    start_state(args, at, state);
    multiply_all(args, at, shared, state);
    add_k_groups(at, shared, state);
    stage_output(args, at, shared, state);
    if (CLUSTER_K == 1)
        __syncthreads();
    else
        tern_cluster_sync();
    store_output(args, at, shared);
    if (CLUSTER_K > 1)
        tern_cluster_sync(); /* nobody leaves while another CTA may still read its tile */
}
