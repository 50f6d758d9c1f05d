// mma-stream: y[M,N] = x[M,K] * W[N,K]^T for M = 1..8 on tensor cores, weights exact, fp32 accumulation.
//
// Shapes: M up to 8, N a multiple of 8, K a multiple of 32, any group that is a multiple of 32, or one scale a row; the
// last group may be short. 2 and 4 bits. Layout frag16x128 (harness/formats/layout.h).
//
// How: weights are the 16-row operand of mma.m16n8k16, x the 8-column operand, staged once in shared memory, where 16 bytes of a
// lane serve two k-steps. Codes minus zero points are exact in binary16; the scale meets the fp32 sums of its group.
// tern/stream.cuh has the stream of weights; mma-decode serves what this one does not (more of M, other code widths, GPUs).
//
// RAW_CODES: a field alone is a subnormal binary16, which tensor cores multiply exactly; no conversion. The pieces (32 k) of a
// tile stand at PLACES places, so their sums carry PLACES powers of two and stay apart in as many accumulators until the span
// ends. Zero point times sum of x is taken off the span's sum; those sums are made once, by the same products in the same
// order, so weights of value 0 alone give exactly 0. Then Inf in a row of x, like NaN, makes its row of y NaN (Inf - Inf).
//
// Parameters: RAW_CODES; ROW_TILES tiles of 16 rows that share a load of x; WARPS warps a block, one block an SM; CLUSTER_K
// blocks of a cluster that split K; TILES K tiles of 128 a stage, STAGES of each warp's ring; BULK how it is filled (0 cp.async,
// 1 bulk copies).
//
// Bound by: fixed costs on small layers, then memory and issue slots. Expected of the limit: 0.45 to 0.7.
constexpr int M_TILE = 8;                                  // columns of a fragment
constexpr int VALUES = 1, SLOT_PITCH = 16 * ROW_TILES + 4; // an output's sums; floats apart: no bank conflicts
#include "tern/mma.cuh"
#include "tern/stream_finish.cuh"

typedef struct tern_codes<BITS> tern_width;
static_assert(!BF16 || !RAW_CODES, "subnormal codes are of binary16");
constexpr int PLACES = RAW_CODES ? tern_width::places : 1;
// Fragments of sums that a row tile has open in a span: one for each place, else two chains of products (half the latency)
// where nothing else overlaps.
constexpr int ACCUMULATORS = RAW_CODES ? PLACES : ROW_TILES == 1 && SPANS == 1 ? 2 : 1;

// Shared memory of a block; all 16-byte aligned.
struct tern_places {
    unsigned char *x; // [rows of x][pitch]
    int pitch;        // 64 more than a multiple of 128: no bank conflicts
    float *sums;      // RAW_CODES: [K tile][span][8], sums of x times the zero point (1 where rows have their own)
    struct tern_slots slots;
    unsigned char *rings; // [WARPS][STAGES][STAGE_BYTES], and behind them the barriers
};

__device__ __forceinline__ struct tern_places tern_places_make(const struct tern_share &s, unsigned char *shared, int rows) {
    struct tern_places p;
    p.x = shared;
    p.pitch = s.most_tiles * 256 + 64;
    p.rings = shared + rows * p.pitch;
    shared = p.rings + WARPS * STAGES * (STAGE_BYTES + BULK * 8);
    p.sums = (float *)shared;
    shared += RAW_CODES * s.most_tiles * (SPANS * 32);
    p.slots = tern_slots_make(s, rows, shared);
    return p;
}

// Sums of a row block: [row tile][fragment register].
struct tern_sums {
    float at[ROW_TILES][4];
};

// What the lane needs of a row tile in a slot: codes, scales and zero points of rows g and g + 8.
struct tern_tile {
    unsigned words[tern_width::words];
    float scale[SPANS][2];
    unsigned zeros[SPANS]; // two bytes
};

__device__ __forceinline__ void tern_tile_take(struct tern_tile &tile, const unsigned char *slot, int r, int j, int k,
                                               int first_k, const struct tern_share &s, int groups, int lane) {
    tern_slot_words(slot, r, j, lane, tile.words);
#pragma unroll
    for (int span = 0; span < SPANS; span++) {
        const int entry = tern_slot_entry(s, j, k, first_k, span, groups);
        const float2 pair = __half22float2(tern_as_half2(tern_slot_scales(slot, r, entry, lane)));
        tile.scale[span][0] = pair.x;
        tile.scale[span][1] = pair.y;
        tile.zeros[span] = HAS_ZEROS ? tern_slot_zeros(slot, r, entry, lane) : ZERO * 257u;
    }
}

// Sums of a row tile in the span at hand.
struct tern_group {
    float at[ACCUMULATORS][4];
};

// Adds piece PIECE, two steps: a times b.
template <int PIECE>
__device__ __forceinline__ void tern_piece_multiply(struct tern_group &group, const unsigned (&a)[2][4], const uint4 &b) {
    constexpr int BEGIN = PIECE * SPANS / 4 * 4 / SPANS; // of the span
    constexpr int EVEN = RAW_CODES ? PIECE % PLACES : 0, ODD = RAW_CODES ? EVEN : ACCUMULATORS - 1;
    constexpr bool FIRST = PIECE - BEGIN < PLACES;
    if (FIRST)
        tern_mma_16_first<BF16>(group.at[EVEN], a[0], b.x, b.y);
    else
        tern_mma_16<BF16>(group.at[EVEN], a[0], b.x, b.y);
    if (FIRST && ODD != EVEN)
        tern_mma_16_first<BF16>(group.at[ODD], a[1], b.z, b.w);
    else
        tern_mma_16<BF16>(group.at[ODD], a[1], b.z, b.w);
}

// The span's sums in one. Raw codes: at 2^24 times less, each accumulator at its power.
__device__ __forceinline__ void tern_group_join(const struct tern_group &group, int span, float (&sum)[4]) {
    const int begin = RAW_CODES ? span * 4 / SPANS % PLACES : 0;
    const int count = RAW_CODES ? tern_smaller(PLACES, 4 / SPANS) : ACCUMULATORS;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = begin; j < begin + count; j++) {
            const float power = RAW_CODES ? __uint_as_float((unsigned)(127 - tern_width::pitch * j) << 23) : 1.0f;
            sum[i] = j == begin ? group.at[j][i] * power : fmaf(group.at[j][i], power, sum[i]);
        }
}

// Adds the span's sums to the row tile's: scale times sum, for raw codes less zero point times sum of x (x_sums: those of the
// lane's two columns).
__device__ __forceinline__ void tern_group_add(const struct tern_group &group, const struct tern_tile &tile, int span,
                                               const float *x_sums, float (&sums)[4]) {
    float sum[4], of_x[2] = {};
    tern_group_join(group, span, sum);
    if (RAW_CODES)
        tern_shared_load_pair(of_x, x_sums + span * 8);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned zero = i / 2 ? tile.zeros[span] >> 8 : tile.zeros[span] & 0xFFu;
        if (RAW_CODES)
            sum[i] = HAS_ZEROS ? fmaf(-(float)zero, of_x[i % 2], sum[i]) : sum[i] - of_x[i % 2];
        sums[i] = fmaf(tile.scale[span][i / 2], sum[i], sums[i]);
    }
}

// Adds piece PIECE of a K tile to all row tiles, and the span that it ends; x is the lane's column there.
template <int PIECE>
__device__ __forceinline__ void tern_piece_add(const struct tern_tile (&tiles)[ROW_TILES],
                                               struct tern_group (&groups)[ROW_TILES], const unsigned char *x,
                                               const float *x_sums, unsigned two_24, struct tern_sums &sums) {
    constexpr int SPAN = PIECE * SPANS / 4;
    constexpr bool LAST = (PIECE + 1) * SPANS % 4 == 0;
    const uint4 b = tern_shared_load_16(x + PIECE * 64);
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        const unsigned zeros = tiles[r].zeros[SPAN];
        unsigned a[2][4];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (RAW_CODES)
                tern_raw_fragment<BITS, PLACES>(tiles[r].words, 2 * PIECE + h, two_24, a[h]);
            else
                tern_dequant_tile<BITS, BF16>(tiles[r].words, 2 * PIECE + h,
                                              tern_zero_biases<BITS>(zeros & 0xFFu, zeros >> 8), a[h]);
        }
        tern_piece_multiply<PIECE>(groups[r], a, b);
        if (LAST)
            tern_group_add(groups[r], tiles[r], SPAN, x_sums, sums.at[r]);
    }
}

// Adds one K tile: row tiles x 128 k x columns.
__device__ __forceinline__ void tern_tile_multiply(const struct tern_tile (&tiles)[ROW_TILES], const unsigned char *x,
                                                   const float *x_sums, unsigned two_24, struct tern_sums &sums) {
    struct tern_group groups[ROW_TILES];
    tern_piece_add<0>(tiles, groups, x, x_sums, two_24, sums);
    tern_piece_add<1>(tiles, groups, x, x_sums, two_24, sums);
    tern_piece_add<2>(tiles, groups, x, x_sums, two_24, sums);
    tern_piece_add<3>(tiles, groups, x, x_sums, two_24, sums);
}

// Sums of x over the spans of K tile k, at the powers and with the roundings of the main loop; x is the lane's column there.
template <int PIECE>
__device__ __forceinline__ void tern_x_sums_piece(struct tern_group &group, const unsigned char *x, float *to, int lane) {
    const unsigned one = (HAS_ZEROS ? 1u : ZERO) * 0x00010001u << tern_width::shift(2 * PIECE);
    const unsigned a[2][4] = {{one, one, one, one}, {one, one, one, one}};
    tern_piece_multiply<PIECE>(group, a, tern_shared_load_16(x + PIECE * 64));
    if ((PIECE + 1) * SPANS % 4 != 0)
        return;
    float sum[4];
    tern_group_join(group, PIECE * SPANS / 4, sum);
    if (lane < 4)
        tern_shared_store_8(to + PIECE * SPANS / 4 * 8 + 2 * lane,
                            make_uint2(__float_as_uint(sum[0]), __float_as_uint(sum[1])));
}
__device__ __forceinline__ void tern_x_sums_make(const struct tern_places &p, const struct tern_share &s,
                                                 const unsigned char *x, int warp, int lane) {
    for (int k = warp; k < s.tiles; k += WARPS) {
        struct tern_group group;
        float *to = p.sums + k * (SPANS * 8);
        tern_x_sums_piece<0>(group, x + k * 256, to, lane);
        tern_x_sums_piece<1>(group, x + k * 256, to, lane);
        tern_x_sums_piece<2>(group, x + k * 256, to, lane);
        tern_x_sums_piece<3>(group, x + k * 256, to, lane);
    }
    __syncthreads();
}

// Moves the sums to the warp's slot.
__device__ __forceinline__ void tern_sums_flush(float *slot, int rows, int lane, struct tern_sums &sums) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int column = 2 * (lane % 4) + i % 2;
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++) {
            if (column < rows)
                tern_shared_store_4(slot + column * SLOT_PITCH + 16 * r + lane / 4 + 8 * (i / 2),
                                    __float_as_uint(sums.at[r][i]));
            sums.at[r][i] = 0.0f;
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) tern_mma_stream(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(dynamic);
    unsigned char *shared = tern_shared_kept(dynamic);
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const int rows = (int)args.m;
    const struct tern_share s = tern_share_make(args);
    const struct tern_places p = tern_places_make(s, shared, rows);
    if (!DEPENDENT)
        tern_x_copy_async(p.x, p.pitch, s, args, rows, warp, lane); // ahead of the weights: loads return in order
    struct tern_warp_ring ring;
    tern_ring_start(ring, p.rings + warp * (STAGES * STAGE_BYTES),
                    p.rings + WARPS * STAGES * STAGE_BYTES + warp * (STAGES * 8), s, args, warp, lane);
    tern_dependency_wait();
    if (DEPENDENT)
        tern_x_copy_async(p.x, p.pitch, s, args, rows, warp, lane);
    if (CLUSTER_K > 1)
        tern_cluster_arrive();
    // The lane's column of x. Columns that do not exist read the last one; they are not stored.
    const unsigned char *x = p.x + tern_kept(tern_smaller(lane / 4, rows - 1) * p.pitch + lane % 4 * 16);
    tern_cp_async_wait<BEHIND_X>();
    __syncthreads();
    if (RAW_CODES)
        tern_x_sums_make(p, s, x, warp, lane);
    const unsigned two_24 = (unsigned)tern_kept((int)(gridDim.z << 24)); // unknown to the compiler; a grid has one layer
    const float *x_sums = p.sums + lane % 4 * 2;                         // of the lane's two columns
    struct tern_sums sums = {};
    tern_ring_walk(
        ring, s, args, warp, lane,
        [&](const unsigned char *slot, int j, int k, int first_k) {
            struct tern_tile tiles[ROW_TILES];
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++)
                tern_tile_take(tiles[r], slot, r, j, k, first_k, s, (int)args.groups, lane);
            tern_tile_multiply(tiles, x + k * 256, x_sums + k * (SPANS * 8), two_24, sums);
        },
        [&](int row) { tern_sums_flush(tern_slot(p.slots, s, warp, row), rows, lane, sums); });
    tern_finish(p.slots, s, args, warp, lane, [](const float(&values)[VALUES], int) {
        return RAW_CODES ? values[0] * 16777216.0f : values[0]; // 2^24
    });
}
