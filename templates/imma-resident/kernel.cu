// imma-resident: y[M,N] = x[M,K] * W[N,K]^T for M = 1, 2 on integer tensor cores, x in registers, sums of a group exact, fp32
// beyond it.
//
// Shapes: M up to M_TILE, N a multiple of 8, K a multiple of 32 up to 128 * WARPS_K * K_TILES * CLUSTER_K, any group that is a
// multiple of 32, or one scale a row; the last group may be short. 2, 3 and 4 bits. Layout frag16x128 (harness/formats/layout.h).
// Compute capability 9.0.
//
// How: the frame of tern/resident.cuh, in which rows of W pass by x, and integers instead of binary16. A finite binary16 is an
// integer of 41 bits times 2^-24. The fields of a code word are not shifted, only masked: piece p of a tile is 2^place too
// large, so its x is multiplied by the complement of that power, 47 bits at most, and one accumulator serves. Seven signed digits
// of 7 bits hold that exactly, in seven of the eight columns of mma.m16n8k32 (8 bits, s32 sums), a fragment of columns for each row of
// x. Codes are unsigned; the accumulator begins with what the zero point makes of x, or, where rows have their own, zero times the
// integer sum of x over the span is taken off: exact either way. Sums of a span are converted to fp32 once and scaled.
//
// Specials: Inf or NaN in a row of x makes its row of y NaN.
//
// Parameters: M_TILE rows of x; WARPS_K and K_TILES; ROW_TILES that a warp multiplies side by side; STAGES row blocks of W in flight;
// CLUSTER_K blocks of a cluster that split K.
//
// Bound by: memory; on small layers by fixed costs. Expected of the limit: 0.6 (4 MB) to 0.9.
constexpr int WARPS = WARPS_K, BULK = 1, TILES = WARPS_K * K_TILES; // what stream.cuh asks for
constexpr int UNITS = ROW_TILES * M_TILE, UNIT_FLOATS = 2;          // rows g and g + 8 of the lane's pair of digits
constexpr int ADDERS = CLUSTER_K > 1 || UNITS > 1 ? 2 : 1;          // the warps that add up
constexpr int SLOTS = UNITS == 1 ? 4 : 3, FIRST = STAGES;           // x is small: no row block waits for it
#include "tern/fields.cuh"
#include "tern/mma.cuh"
#include "tern/resident.cuh"

typedef struct tern_fields<BITS> tern_width;
constexpr int DIGITS = 7, DIGIT_BITS = 7;                  // of x
constexpr int SCRATCH_HALF = DIGITS * 64;                  // bytes of pieces 0 and 1, of 2 and 3: 16 bytes a lane
constexpr int TOP_SHIFT = tern_width::top; // of x for place 0
static_assert(WARP_BYTES >= 2 * SCRATCH_HALF, "digits change lanes where the warp's slots will be");

// Factors that take the digits from two values of x in the lane's piece, x shifted left by TOP_SHIFT - the place.
struct tern_factors {
    unsigned up[3], down[2]; // 1 over the place of digit 6, 5, 4; minus the place of 5, 4
    unsigned top, minus_top; // digit 6 in units of 2^15, from 1536 + digit
    unsigned rest;           // brings what is left behind digit 4 to 2^-15, for digit 0
};

__device__ __forceinline__ struct tern_factors tern_factors_make(int piece) {
    const unsigned step = (unsigned)(TOP_SHIFT - tern_width::shift(piece)) * 0x04000400u;
    struct tern_factors f;
    f.up[1] = 0x10001000u + step;                     // 2^(shift - 11)
    f.up[0] = tern_pair_mul<0>(f.up[1], 0x20002000u); // 2^-7 of that
    f.up[2] = 0x2C002C00u + step;                     // 2^(shift - 4)
    f.down[0] = 0xE800E800u - step;
    f.down[1] = 0xCC00CC00u - step;
    f.top = 0x48004800u - step;       // 2^(3 - shift)
    f.minus_top = 0xF200F200u - step; // -1536 of that
    f.rest = 0x60006000u + step;      // 2^(shift + 9)
    return f;
}

// The digits of two values: the low byte of each half of digit[i]. Every step is exact: a digit is the nearest multiple of its
// place, so the rest has no more bits than the value had.
__device__ __forceinline__ void tern_digits_of(unsigned rest, const struct tern_factors &f, unsigned (&digit)[DIGITS]) {
    constexpr unsigned MAGIC = 0x66006600u, MINUS_MAGIC = 0xE600E600u; // 1536: the digit is the low bits of the sum
    constexpr unsigned up[4] = {0x78007800u, 0x5C005C00u, 0x40004000u, 0x24002400u}; // 2^15, 2^8, 2, 2^-6
    constexpr unsigned down[4] = {0, 0x9C009C00u, 0xB800B800u, 0xD400D400u};         // minus 1 over that
    digit[6] = tern_pair_fma<0>(rest, f.up[0], MAGIC);
    rest = tern_pair_fma<0>(tern_pair_fma<0>(digit[6], f.top, f.minus_top), 0xF800F800u, rest); // -2^15
#pragma unroll
    for (int i = 5; i > 0; i--) {
        digit[i] = tern_pair_fma<0>(rest, i > 3 ? f.up[6 - i] : up[i], MAGIC);
        rest = tern_pair_fma<0>(tern_pair_add<0>(digit[i], MINUS_MAGIC), i > 3 ? f.down[5 - i] : down[i], rest);
        if (i == 4)
            rest = tern_pair_mul<0>(rest, f.rest);
    }
    digit[0] = tern_pair_fma<0>(rest, up[0], MAGIC);
}

// x of a warp's K tiles, and what goes with it.
struct tern_held {
    unsigned b[K_TILES][M_TILE][4][2];   // [piece][register]: the lane's column is digit lane / 4
    int of_x[K_TILES][M_TILE][SPANS][4]; // HAS_ZEROS: [0], sum of x, of the lane's two digits. Else where accumulators begin
    float start[M_TILE];                 // of sums: NaN where x has specials
};

// Loads four values of x of each of the warp's tiles: k 0, 1 and 4, 5 of a lane's eight in a piece, or 2, 3 and 6, 7. Lane 8 * piece
// + 2 * t + half. k behind K or the block's tiles become zeros.
__device__ __forceinline__ void tern_x_load(unsigned (&x)[K_TILES][M_TILE][2], const struct tern_tiles &s,
                                            const struct tern_args &args, int warp, int lane) {
    const int first = (s.first + warp) * 128, end = tern_smaller((int)args.k, (s.first + s.count) * 128) - lane / 8 * 32;
#pragma unroll
    for (int m = 0; m < M_TILE; m++) {
        const __half *from =
            (const __half *)args.x + (tern_smaller(m, (int)args.m - 1) * args.k + first + lane / 2 * 8 + lane % 2 * 2);
#pragma unroll
        for (int j = 0; j < K_TILES; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                x[j][m][i] = 0;
                tern_load_stream_4_if(&x[j][m][i], from + (j * WARPS_K * 128 + i * 4), first + j * WARPS_K * 128 < end);
            }
    }
}

// Whether one of two values is Inf or NaN: an exponent of all ones carries into the sign.
__device__ __forceinline__ unsigned tern_has_special(unsigned two) {
    return ((two & 0x7C007C00u) + 0x04000400u) & 0x80008000u;
}

// Turns four values of x of each lane into digits and gives each lane its column, by way of `scratch`, the warp's own; there is no
// eighth digit. Bytes of code words are element e of the even step, of the odd step, e = 0, 1 (harness/formats/layout.h).
__device__ __forceinline__ void tern_column_make(unsigned (&b)[4][2], const unsigned (&x)[2],
                                                 const struct tern_factors &factors, unsigned char *scratch, int lane) {
    unsigned digit[2][DIGITS];
    unsigned char *to = scratch + lane / 16 * SCRATCH_HALF + lane % 8 / 2 * 16 + lane / 8 % 2 * 8 + lane % 2 * 4;
    tern_digits_of(x[0], factors, digit[0]);
    tern_digits_of(x[1], factors, digit[1]);
    __syncwarp(); // all have read the tile before
#pragma unroll
    for (int d = 0; d < DIGITS; d++)
        tern_shared_store_4(to + d * 64, tern_permute_bytes(digit[0][d], digit[1][d], 0x6240u));
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint4 column = {0, 0, 0, 0};
        if (lane / 4 < DIGITS)
            column = tern_shared_load_16(scratch + half * SCRATCH_HALF + lane * 16);
        b[2 * half][0] = column.x;
        b[2 * half][1] = column.y;
        b[2 * half + 1][0] = column.z;
        b[2 * half + 1][1] = column.w;
    }
}

// The value of a lane's pair of columns: low digit in the first.
__device__ __forceinline__ int tern_pair(int low, int high) {
    return low + high * (1 << DIGIT_BITS);
}

// The same code everywhere in a piece, at its place.
__device__ __forceinline__ constexpr unsigned tern_code_at(unsigned code, int piece) {
    return (code << tern_width::shift(piece) & 0xFFu) * 0x01010101u;
}

// Sums of x over the spans of a tile: the same products with codes of 1, or with minus the zero point.
__device__ __forceinline__ void tern_sums_make(int (&of_x)[SPANS][4], const unsigned (&b)[4][2]) {
#pragma unroll
    for (int span = 0; span < SPANS; span++) {
        int(&d)[4] = of_x[span];
#pragma unroll
        for (int piece = span * 4 / SPANS; piece < (span + 1) * 4 / SPANS; piece++) {
            const unsigned code = tern_code_at(HAS_ZEROS ? 1u : 0u - ZERO, piece), a[4] = {code, code, code, code};
            if (piece == span * 4 / SPANS)
                tern_mma_s8_first<true>(d, a, b[piece][0], b[piece][1]);
            else
                tern_mma_s8<true>(d, a, b[piece][0], b[piece][1]);
        }
        if (HAS_ZEROS)
            d[0] = tern_pair(d[0], d[1]);
    }
}

__device__ __forceinline__ void tern_held_make(struct tern_held &held, const unsigned (&x)[K_TILES][M_TILE][2],
                                               const struct tern_tiles &s, unsigned char *scratch, int warp, int lane) {
    const struct tern_factors factors = tern_factors_make(lane / 8);
#pragma unroll
    for (int m = 0; m < M_TILE; m++) {
        unsigned special = 0;
#pragma unroll
        for (int j = 0; j < K_TILES; j++) {
            special |= tern_has_special(x[j][m][0]) | tern_has_special(x[j][m][1]);
            tern_column_make(held.b[j][m], x[j][m], factors, scratch, lane);
        }
        held.start[m] = __any_sync(0xFFFFFFFFu, special != 0) ? __int_as_float(0x7FFFFFFF) : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < K_TILES; j++)
#pragma unroll
        for (int m = 0; m < M_TILE; m++)
            tern_sums_make(held.of_x[j][m], held.b[j][m]);
}

// Adds a span's scaled sum to the sums of a row tile and a row of x.
__device__ __forceinline__ void tern_span_add(float (&sums)[UNIT_FLOATS], const int (&d)[4], const int (&of_x)[4],
                                              unsigned scales, unsigned zeros) {
    const float2 scale = __half22float2(tern_as_half2(scales));
    int low = tern_pair(d[0], d[1]), high = tern_pair(d[2], d[3]);
    if (HAS_ZEROS) {
        low -= (int)(zeros & 0xFFu) * of_x[0];
        high -= (int)(zeros >> 8) * of_x[0];
    }
    sums[0] = fmaf(scale.x, (float)low, sums[0]);
    sums[1] = fmaf(scale.y, (float)high, sums[1]);
}

// Multiplies K tile j, all row tiles and rows of x side by side: independent chains of products.
__device__ __forceinline__ void tern_tile_multiply(struct tern_sums &sums, const struct tern_tile (&tiles)[ROW_TILES],
                                                   const struct tern_held &x, int j) {
    int d[ROW_TILES][M_TILE][4];
    tern_width fields[ROW_TILES];
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        fields[r] = tern_fields_make<BITS>(tiles[r].words);
    if (j == 0)
#pragma unroll
        for (int u = 0; u < UNITS; u++)
            sums.at[u][0] = sums.at[u][1] = x.start[u % M_TILE];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int piece = tern_width::piece(i, SPANS), span = i * SPANS / 4;
        const bool first = i * SPANS % 4 == 0, last = (i + 1) * SPANS % 4 == 0;
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++) {
            unsigned a[4];
            tern_fields_bytes(fields[r], piece, a);
#pragma unroll
            for (int m = 0; m < M_TILE; m++) {
                int(&sum)[4] = d[r][m];
                if (!first)
                    tern_mma_s8<false>(sum, a, x.b[j][m][piece][0], x.b[j][m][piece][1]);
                else if (HAS_ZEROS)
                    tern_mma_s8_first<false>(sum, a, x.b[j][m][piece][0], x.b[j][m][piece][1]);
                else
                    tern_mma_s8_into<false>(sum, a, x.b[j][m][piece][0], x.b[j][m][piece][1], x.of_x[j][m][span]);
            }
        }
        if (last)
#pragma unroll
            for (int u = 0; u < UNITS; u++)
                tern_span_add(sums.at[u], d[u / M_TILE][u % M_TILE], x.of_x[j][u % M_TILE][span],
                              tiles[u / M_TILE].scales[span], tiles[u / M_TILE].zeros[span]);
    }
}

// A multiplying warp: takes its x and walks the row blocks.
__device__ __forceinline__ void tern_consume(const struct tern_part &s, const struct tern_places &p,
                                             const struct tern_args &args, int warp, int lane) {
    unsigned loaded[K_TILES][M_TILE][2];
    struct tern_held x;
    tern_x_load(loaded, s.k, args, warp, lane);
    tern_held_make(x, loaded, s.k, p.slots + warp * WARP_BYTES, warp, lane);
    tern_block_arrive(X_HERE, 32 * (WARPS_K + 1));
    tern_block_sync(READY, THREADS); // barriers are prepared
    if (CLUSTER_K > 1)
        tern_cluster_wait();
    tern_rows_walk(s, p, args, warp, lane, [&](struct tern_sums &sums, const struct tern_tile(&tiles)[ROW_TILES], int j) {
        tern_tile_multiply(sums, tiles, x, j);
    });
}

// Joins the pairs of digits of the four lanes of a row and stores it: row n by lane t = 0, row n + 8 by t = 1.
__device__ __forceinline__ void tern_y_store(const struct tern_args &args, int n, int m, const float (&sum)[UNIT_FLOATS],
                                             const float2 &bias, float power, int lane) {
    const bool odd = lane % 2 != 0;
    float mine = (odd ? sum[1] : sum[0]) * power;
    const float other = (odd ? sum[0] : sum[1]) * power;
    mine += __shfl_xor_sync(0xFFFFFFFFu, other, 1);
    mine += __shfl_xor_sync(0xFFFFFFFFu, mine, 2);
    n += odd ? 8 : 0;
    const bool there =
        n < (int)args.n && m < (int)args.m; // half of the last row tile is not where N is an odd multiple of 8
    if (lane % 4 < 2 && there)
        ((__half *)args.y)[m * args.n + n] = __float2half_rn(mine + (odd ? bias.y : bias.x));
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) tern_imma_resident(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(dynamic);
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const struct tern_part s = tern_part_make(args);
    if (CLUSTER_K > 1 && warp != WARPS_K)
        tern_cluster_arrive(); // the copying warp: once its barriers are prepared
    if (warp < WARPS_K) {
        tern_consume(s, tern_places_make(tern_shared_kept(dynamic)), args, warp, lane);
    } else if (warp == WARPS_K) {
        tern_produce(s, tern_places_make(dynamic), args, lane); // not the kept pointer, which is not known to be uniform
    } else {
        // 1 over the power of the lane's pair, of the lowest place and of the unit of x: 2^-24.
        const float power = __int_as_float((127 + lane % 4 * 2 * DIGIT_BITS - 24 - TOP_SHIFT) << 23);
        tern_add_up(s, tern_places_make(tern_shared_kept(dynamic)), args, warp - WARPS_K - 1, lane,
                    [&](int n, int m, const float(&sum)[UNIT_FLOATS], const float2 &bias) {
                        tern_y_store(args, n, m, sum, bias, power, lane);
                    });
    }
}
