// mma-decode: y[M,N] = x[M,K] * W[N,K]^T for M = 1..64 on tensor cores, weights exact, fp32 accumulation.
//
// Shapes: any M >= 1 (M_TILE rows of x a pass), N a multiple of 8, K a multiple of 32, any group that is a multiple of 32,
// or one scale a row; the last group may be short. Layout frag16x128 (harness/formats/layout.h).
//
// How: weights are the 16-row operand of mma.m16n8k16, straight from global memory in fragment order through a ring of
// registers; x is the 8-column operand, staged once in shared memory, where 16 bytes of a lane serve two k-steps. Codes
// minus zero points are exact in binary16; the scale meets the fp32 sums of its group. tern/decode.cuh has the sharing of
// the work and the reduction.
//
// Parameters: WARPS warps a block; ROW_TILES tiles of 16 rows that share a load of x; PREFETCH ring depth in K tiles of 128;
// M_TILE columns; CTAS blocks an SM at a time (launch bounds); WAVES times as many in the grid (in launch expressions
// only); CLUSTER_K blocks of a cluster that split K; X_CHUNK K tiles of x in shared memory at a time (0: all of the block's
// K); X_BULK copy x by bulk copies instead of cp.async; SCALE_WEIGHTS multiply the weights by their scale in binary16, which
// is exact for ternary only, and save the group sums' registers; RING weights in flight in registers (0) or in shared
// memory (1); RAW_CODES multiply the codes themselves, as subnormals, and take zero point times sum of x off the group sums.
// Then Inf in a row of x, like NaN, makes its row of y NaN (Inf - Inf), and weights of value 0 alone still give exactly 0.
//
// Bound by: issue and fixed costs at M = 1 of 2 bits, memory for more bits, then by shared-memory reads of x and by
// mma.sync. Expected of the limit: 0.5 to 0.8.
#include "tern/decode.cuh"
#include "tern/mma.cuh"

constexpr int COLUMN_TILES = (M_TILE + 7) / 8;
constexpr bool GROUP_SUMS = RAW_CODES || (GROUP != 0 && SCALE_WEIGHTS == 0); // scales meet the fp32 sums of a group
static_assert(!RAW_CODES || (SCALE_WEIGHTS == 0 && X_CHUNK == 0 && BITS <= 4), "what raw codes do not go with");
static_assert(!BF16 || (!RAW_CODES && !SCALE_WEIGHTS), "binary16 only: subnormal codes, exact products with a scale");
static_assert(M_TILE >= 8 || RAW_CODES, "fewer columns than a fragment has: for raw codes");

// Raw codes. The pieces (32 k) of a tile stand at PLACES places, hence carry PLACES powers of 2^PITCH. Sums of different
// powers stay apart: in FOLD sets of columns of the same fragment where M_TILE leaves columns free (a piece's x is zero in
// the other sets), and in ACCUMULATORS fragments. Fewer places cost shifts, more accumulators cost sums.
typedef struct tern_codes<BITS> tern_width;
constexpr int PLACES = !RAW_CODES ? 1 : M_TILE <= 8 ? tern_width::places : M_TILE == 16 ? 2 : 1;
constexpr int FOLD = !RAW_CODES || M_TILE >= 8 ? 1 : tern_smaller(8 / M_TILE, PLACES);
constexpr int ACCUMULATORS = PLACES / FOLD;

__host__ __device__ constexpr int tern_set_of(int piece) {
    return piece % PLACES % FOLD;
}
__host__ __device__ constexpr int tern_accumulator_of(int piece) {
    return piece % PLACES / FOLD;
}
// Whether a piece of the span comes to the accumulator ahead of this one.
__host__ __device__ constexpr bool tern_is_first(int piece, int span_begin) {
    for (int before = span_begin; before < piece; before++)
        if (tern_accumulator_of(before) == tern_accumulator_of(piece))
            return false;
    return true;
}
// 2^exponent, for normal results.
__device__ __forceinline__ float tern_power(int exponent) {
    return __uint_as_float((unsigned)(127 + exponent) << 23);
}

// Sums of a row block: [row tile][column tile][fragment register].
struct tern_sums {
    float at[ROW_TILES][COLUMN_TILES][4];
};
struct tern_group_sums {
    float at[ROW_TILES][COLUMN_TILES][ACCUMULATORS][4];
};

// Where a lane finds x and its sums; byte offsets from the block's x.
struct tern_columns {
    int at[COLUMN_TILES]; // first 16 bytes of the lane's column in each fragment, FOLD 1
    // FOLD > 1: for a piece of each set of columns, offset at tile 0 and step from tile to tile. The lane's own set has its
    // column of x, the others 256 bytes of zeros (step 0).
    int base[FOLD], pitch[FOLD];
    int group_x;     // lane t's first pair of sums (tern_group_x_make)
    unsigned two_24; // 2^24, unknown to the compiler
};

// The lane's 16 bytes of x for a piece of a tile, `x` the offset of the tile's columns: two steps of its column.
__device__ __forceinline__ uint4 tern_x_load(const struct tern_share &s, const struct tern_columns &c, int x, int tile,
                                             int m, int piece) {
    const int set = tern_set_of(piece);
    const int at = FOLD > 1 ? tile * c.pitch[set] + c.base[set] : c.at[m] + x;
    return tern_shared_load_16(s.x + at + piece * 64);
}

// Adds accumulators of a span, each at its power: the sum at 2^24 times less.
__device__ __forceinline__ void tern_join(const float (&group)[ACCUMULATORS][4], int span_begin, int span_end,
                                          float (&sum)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++)
        sum[i] = 0.0f;
#pragma unroll
    for (int piece = span_begin; piece < span_end; piece++) {
        if (!tern_is_first(piece, span_begin))
            continue;
        const int accumulator = tern_accumulator_of(piece);
        const float power = tern_power(-tern_width::pitch * FOLD * accumulator);
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[i] = piece == span_begin ? group[accumulator][i] * power : fmaf(group[accumulator][i], power, sum[i]);
    }
}

// What a span's sums add to the row block's: scale * (sum of q * x - z * sum of x).
__device__ __forceinline__ void tern_span_add(const struct tern_tile &tile, int span, const float (&group)[ACCUMULATORS][4],
                                              const float *group_x, float (&sums)[4]) {
    float sum[4];
    tern_join(group, span * 4 / SPANS, (span + 1) * 4 / SPANS, sum);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned zero = HAS_ZEROS ? i / 2 ? tile.zeros[span] >> 8 : tile.zeros[span] & 0xFFu : 1u;
        if (RAW_CODES)
            sum[i] = HAS_ZEROS ? fmaf(-(float)zero, group_x[i % 2], sum[i]) : sum[i] - group_x[i % 2];
        sums[i] = GROUP == 0 ? sums[i] + sum[i] : fmaf(tern_tile_scale(tile, span, i / 2), sum[i], sums[i]);
    }
}

// The fragment of one step.
__device__ __forceinline__ void tern_fragment(const struct tern_tile &tile, int step, unsigned two_24, unsigned a[4]) {
    const int span = step * SPANS / 8;
    if (RAW_CODES)
        tern_raw_fragment<BITS, PLACES>(tile.words, step, two_24, a);
    else
        tern_dequant_tile<BITS, BF16>(tile.words, step, tern_tile_zero(tile, span), a);
    if constexpr (SCALE_WEIGHTS && GROUP != 0)
        tern_scale_fragment<BITS, HAS_ZEROS>(tern_scale_rows<BF16>(tile.scales[span]), a);
}

// Adds one K tile: row tiles x 128 k x columns.
__device__ __forceinline__ void tern_tile_multiply(const struct tern_tile (&tiles)[ROW_TILES], int x, int tile,
                                                   const struct tern_share &s, const struct tern_columns &c,
                                                   struct tern_sums &sums) {
    struct tern_group_sums group;
    const bool ahead = COLUMN_TILES == 1; // all of the tile's x first: its latency shows once
    uint4 b[4];
#pragma unroll
    for (int piece = 0; piece < 4; piece++)
        if (ahead)
            b[piece] = tern_x_load(s, c, x, tile, 0, piece);
#pragma unroll
    for (int piece = 0; piece < 4; piece++) { // 32 k: two steps
        const int span = piece * SPANS / 4, span_begin = span * 4 / SPANS, accumulator = tern_accumulator_of(piece);
        const bool first = tern_is_first(piece, span_begin), last = (piece + 1) * SPANS / 4 > span;
        unsigned a[ROW_TILES][2][4];
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                tern_fragment(tiles[r], 2 * piece + h, c.two_24, a[r][h]);
#pragma unroll
        for (int m = 0; m < COLUMN_TILES; m++) {
            if (!ahead)
                b[piece] = tern_x_load(s, c, x, tile, m, piece);
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++) {
                if (!GROUP_SUMS)
                    tern_mma_16<BF16>(sums.at[r][m], a[r][0], b[piece].x, b[piece].y);
                else if (first)
                    tern_mma_16_first<BF16>(group.at[r][m][accumulator], a[r][0], b[piece].x, b[piece].y);
                else
                    tern_mma_16<BF16>(group.at[r][m][accumulator], a[r][0], b[piece].x, b[piece].y);
            }
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++)
                tern_mma_16<BF16>(!GROUP_SUMS ? sums.at[r][m] : group.at[r][m][accumulator], a[r][1], b[piece].z,
                                  b[piece].w);
        }
        if (!GROUP_SUMS || !last)
            continue;
#pragma unroll
        for (int m = 0; m < COLUMN_TILES; m++) {
            float pair[2] = {};
            if (RAW_CODES)
                tern_shared_load_pair(pair, s.x + c.group_x + ((tile * SPANS + span) * COLUMN_TILES + m) * 32);
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++)
                tern_span_add(tiles[r], span, group.at[r][m], pair, sums.at[r][m]);
        }
    }
}

// Sums of x over the spans of the block's K, times the zero point (1 where rows have their own), in the order and with the
// roundings of the main loop: a span whose weights are all 0 gives exactly 0. [K tile][span][column tile][8 columns].
__device__ __forceinline__ void tern_group_x_make(const struct tern_share &s, const struct tern_columns &c, int warp,
                                                  int lane) {
    for (int tile = warp; tile < s.k_end - s.k_begin; tile += WARPS)
#pragma unroll
        for (int m = 0; m < COLUMN_TILES; m++) {
            float group[ACCUMULATORS][4], sum[4];
#pragma unroll
            for (int piece = 0; piece < 4; piece++) {
                const int span = piece * SPANS / 4, accumulator = tern_accumulator_of(piece);
                const unsigned one = (HAS_ZEROS ? 1u : ZERO) * 0x00010001u << (tern_width::pitch * (piece % PLACES));
                const unsigned a[4] = {one, one, one, one};
                const uint4 b = tern_x_load(s, c, tile * 256, tile, m, piece);
                if (tern_is_first(piece, span * 4 / SPANS))
                    tern_mma_16_first<BF16>(group[accumulator], a, b.x, b.y);
                else
                    tern_mma_16<BF16>(group[accumulator], a, b.x, b.y);
                tern_mma_16<BF16>(group[accumulator], a, b.z, b.w);
                if ((piece + 1) * SPANS / 4 == span)
                    continue;
                tern_join(group, span * 4 / SPANS, (span + 1) * 4 / SPANS, sum);
                float *to = (float *)(s.x + c.group_x + ((tile * SPANS + span) * COLUMN_TILES + m) * 32);
                if (lane < 4) {
                    to[0] = sum[0];
                    to[1] = sum[1];
                }
            }
        }
    __syncthreads();
}

// Adds the sums to the warp's slot of the row block and clears them. With one scale a row, it is applied here, as are the
// powers of two of raw codes; sets of columns are added up.
__device__ __forceinline__ void tern_sums_flush(const struct tern_tile (&tiles)[ROW_TILES], const struct tern_share &s,
                                                int lane, float *slot, struct tern_sums &sums) {
    const int g = lane / 4, t = lane % 4;
    const int set = FOLD == 1 ? 0 : 2 * t / M_TILE % FOLD;
    const float power = RAW_CODES ? tern_power(24 - tern_width::pitch * set) : 1.0f;
#pragma unroll
    for (int m = 0; m < COLUMN_TILES; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int column = 8 * m + 2 * t + i % 2;
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++) {
                float sum = sums.at[r][m][i] * power;
#pragma unroll
                for (int away = M_TILE / 2; away < M_TILE / 2 * FOLD; away *= 2)
                    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, away);
                if (GROUP == 0)
                    sum *= tern_tile_scale(tiles[r], 0, i / 2);
                if (column < tern_smaller(s.columns, M_TILE))
                    slot[column * SLOT_PITCH + 16 * r + g + 8 * (i / 2)] += sum;
                sums.at[r][m][i] = 0.0f;
            }
        }
}

// Columns that do not exist read the last one; their results are not stored.
__device__ __forceinline__ struct tern_columns tern_columns_make(const struct tern_share &s, int lane) {
    const int g = (int)((unsigned)lane / 4), t = lane & 3;
    struct tern_columns c;
#pragma unroll
    for (int m = 0; m < COLUMN_TILES; m++)
        c.at[m] = tern_smaller(8 * m + g % M_TILE, s.columns - 1) * s.x_pitch + t * 16;
    const int zeros = (int)(s.extra - s.x) + t * 16;
#pragma unroll
    for (int set = 0; set < FOLD; set++) {
        const bool own = g / M_TILE % FOLD == set;
        c.base[set] = own ? c.at[0] : zeros;
        c.pitch[set] = own ? 256 : 0;
    }
    c.group_x = (int)(s.extra - s.x) + 256 + t * 8;
    c.two_24 = gridDim.z << 24; // a grid has one layer
#ifndef TERN_EMULATOR
    // Keeps the values in registers: the compiler would compute them anew for every tile.
#pragma unroll
    for (int set = 0; set < FOLD; set++)
        asm("" : "+r"(c.base[set]), "+r"(c.pitch[set]));
    asm("" : "+r"(c.at[0]), "+r"(c.group_x), "+r"(c.two_24));
#endif
    return c;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, CTAS)
    tern_mma_decode(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    if (blockIdx.y * M_TILE >= (unsigned)args.m)
        return;
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const struct tern_share s = tern_share_make(args, shared);
    const struct tern_columns columns = tern_columns_make(s, lane);
    if (FOLD > 1 && threadIdx.x < 16)
        tern_shared_store_16(s.extra + threadIdx.x * 16, make_uint4(0, 0, 0, 0));
    struct tern_sums sums = {};
    tern_decode_walk(
        s, args, warp, lane,
        [&]() {
            if (RAW_CODES)
                tern_group_x_make(s, columns, warp, lane);
        },
        [&](const struct tern_tile(&tiles)[ROW_TILES], int x, int tile) {
            tern_tile_multiply(tiles, x, tile, s, columns, sums);
        },
        [&](const struct tern_tile(&tiles)[ROW_TILES], float *slot) { tern_sums_flush(tiles, s, lane, slot, sums); });
    tern_finish(s, args, warp, lane);
}
