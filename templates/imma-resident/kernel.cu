// imma-resident: y[M,N] = x[M,K] * W[N,K]^T for M = 1 to 4 on integer tensor cores, x in registers, sums of a group exact, fp32
// beyond it.
//
// Shapes: M up to 2 * FRAGMENTS, N a multiple of 8, K a multiple of 32 up to 128 * WARPS_K * K_TILES * CLUSTER_K, any group that is
// a multiple of 32, or one scale a row; the last group may be short. 2, 3 and 4 bits; binary16 and bfloat16. Layout frag16x128
// (harness/formats/layout.h). Compute capability 9.0.
//
// How: the frame of tern/resident.cuh, in which rows of W pass by x, and integers instead of floating point. The fields of a code word
// are not shifted, only masked: piece p of a tile is 2^place too large, so its x is multiplied by the complement of that power, and
// one accumulator serves. x is an integer of four signed digits, in units that a row's largest |x| in the warp's own K tiles
// decides; two rows fill the eight columns of mma.m16n8k32 (8 bits, s32 sums). Codes are unsigned; the accumulator begins with what
// the zero point makes of x, or, where rows have their own, zero times the integer sum of x over the span is taken off. Sums of
// a span are exact, converted to fp32 once and scaled.
//
// Rounding of x: 2^e is the power of two below the largest |x| of a row in the warp's K tiles (above it from 2 - 2^-7 times the lower
// one on). x of the pieces at the top place, with 2 bits one in four, is rounded to nearest in units of 2^(e - 29 + place), of 2^(e - 23)
// there, x of lower places more finely. So what is within 2^12 of the largest is exact, in bfloat16 within 2^15, and no value errs by
// more than 2^(e - 24): less than an fp32 sum into which the largest goes. Where that one meets a weight of 0 the bound of
// harness/verify/reference.h still holds while it is a thousand times as large as the others (docs/kernels/stream.md,
// tests/unit/test_decode_values.c). Bfloat16 below 2^-120 becomes 0.
//
// Specials: Inf or NaN in a row of x makes its row of y NaN.
//
// Parameters: FRAGMENTS of two rows of x; WARPS_K and K_TILES; ROW_TILES that a warp multiplies side by side; STAGES row blocks of W in
// flight; CLUSTER_K blocks of a cluster that split K.
//
// Bound by: memory up to M = 2, then products and masks; on small layers by fixed costs. Expected of the limit: 0.6 (4 MB) to 0.9.
constexpr int WARPS = WARPS_K, BULK = 1, TILES = WARPS_K * K_TILES;   // what stream.cuh asks for
constexpr int UNITS = ROW_TILES, UNIT_FLOATS = 2 * FRAGMENTS;         // rows g and g + 8 of the lane's pair of digits
constexpr int ADDERS = CLUSTER_K * ROW_TILES * FRAGMENTS > 1 ? 2 : 1; // the warps that add up
constexpr int SLOTS = ROW_TILES * FRAGMENTS == 1 ? 4 : 3, TOGETHER = 0;
constexpr bool WEIGHTS_FIRST = DEPENDENT || FRAGMENTS == 1;
constexpr int FIRST = WEIGHTS_FIRST ? STAGES : 2; // x of four rows is not small: two row blocks ahead of it
#include "tern/dependent.cuh"
#include "tern/fields.cuh"
#include "tern/magnitude.cuh"
#include "tern/mma.cuh"
#include "tern/resident.cuh"

typedef struct tern_fields<BITS> tern_width;
constexpr int COPIER =
    WARPS_K % 4 == 0 ? WARPS_K : WARPS_K + ADDERS;   // adding warps go where multiplying ones have less to do
constexpr int DIGITS = 4, DIGIT_BITS = 8;            // of x
constexpr int PART_BITS = 15;                        // from the lower two digits to the upper two
constexpr unsigned SPECIAL = BF16 ? 0x7F80 : 0x7C00; // the least magnitude that is no number
constexpr int SCRATCH_HALF = 8 * 64; // bytes of pieces 0 and 1, of 2 and 3: a column's four lanes, 16 bytes each
static_assert(WARP_BYTES >= 2 * SCRATCH_HALF, "digits change lanes where the warp's slots will be");

// x of a warp's K tiles, and what goes with it. The lane's column of the operand is digit lane / 4 % 4 of row lane / 16 of the
// fragment, its columns of the sums are two digits of row lane % 4 / 2.
struct tern_held {
    unsigned b[K_TILES][FRAGMENTS][4][2];   // [piece][register]
    int of_x[K_TILES][FRAGMENTS][SPANS][4]; // where accumulators begin; HAS_ZEROS: [0], sum of x, of the lane's two digits
    float power[FRAGMENTS];                 // that makes the lane's sums whole: NaN where x has specials
};

// Loads eight values of x of each of the warp's tiles: lane 16 * row + 4 * piece + t. Rows behind M are the last one again and not
// stored; k behind K or the block's tiles become zeros.
__device__ __forceinline__ void tern_x_load(unsigned (&x)[K_TILES][FRAGMENTS][4], const struct tern_tiles &s,
                                            const struct tern_args &args, int warp, int lane) {
    const int first = (s.first + warp) * 128 + lane % 16 * 8, end = tern_smaller((int)args.k, (s.first + s.count) * 128);
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const unsigned short *from =
            (const unsigned short *)args.x + (tern_smaller(2 * f + lane / 16, (int)args.m - 1) * args.k + first);
#pragma unroll
        for (int j = 0; j < K_TILES; j++) {
            x[j][f][0] = x[j][f][1] = x[j][f][2] = x[j][f][3] = 0;
            tern_load_dependent_16_if(x[j][f], from + j * WARPS_K * 128, first + j * WARPS_K * 128 < end);
        }
    }
}

// The largest |x| of the lane's row of a fragment in the warp's K tiles, as bits.
__device__ __forceinline__ unsigned tern_magnitude(const unsigned (&x)[K_TILES][FRAGMENTS][4], int f) {
    unsigned most = x[0][f][0];
#pragma unroll
    for (int i = 1; i < K_TILES * 4; i++)
        most = tern_max_absolute<BF16>(most, x[i / 4][f][i % 4]);
    most = tern_max_magnitudes(most, most >> 16) & 0xFFFFu;
#pragma unroll
    for (int other = 8; other > 0; other /= 2)
        most = tern_max_magnitudes(most, __shfl_xor_sync(0xFFFFFFFFu, most, other));
    return most;
}

// n of the least 2^n that a row of x of this magnitude is less than 2 - 2^-7 times.
__device__ __forceinline__ int tern_exponent(unsigned magnitude) {
    constexpr int FRACTION = BF16 ? 7 : 10, BIAS = BF16 ? 127 : 15,
                  LEAST = BF16 ? 30 : 0; // a smaller one: no fp32 brings x up
    const int field = (int)((magnitude + (1u << (FRACTION - 7))) >> FRACTION);
    return (field > LEAST ? field : LEAST) - BIAS;
}

// 2^n
__device__ __forceinline__ float tern_power(int n) {
    return __int_as_float((127 + n) << 23);
}

// The digits of a lane's four values of a row, least first, a value a byte. High parts are the integers next to x * unit, low parts
// those next to what is left, in units of 2^-PART_BITS: nothing else is rounded. A sum with MAGIC has a part's two digits in its low
// bytes; 128 in it makes the lower one signed, too: a carry to the other, and its first bit flipped.
__device__ __forceinline__ void tern_digits_of(unsigned (&digit)[DIGITS], unsigned even, unsigned odd, float unit) {
    constexpr float MAGIC = 12582912.0f + 128.0f, PART = 1 << PART_BITS; // 1.5 * 2^23
    const float2 a = tern_pair_floats<BF16>(even), b = tern_pair_floats<BF16>(odd);
    const float value[4] = {a.x, b.x, a.y, b.y};
    unsigned part[2][4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float high = fmaf(value[i], unit, MAGIC);
        part[1][i] = __float_as_uint(high);
        part[0][i] = __float_as_uint(fmaf(value[i], unit * PART, fmaf(high - MAGIC, -PART, MAGIC)));
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const unsigned front = tern_permute_bytes(part[i][0], part[i][1], 0x5140u);
        const unsigned back = tern_permute_bytes(part[i][2], part[i][3], 0x5140u);
        digit[2 * i] = tern_permute_bytes(front, back, 0x5410u) ^ 0x80808080u;
        digit[2 * i + 1] = tern_permute_bytes(front, back, 0x7632u);
    }
}

// Turns eight values of each lane into digits and gives each lane its column, by way of `scratch`, the warp's own. Bytes of code
// words are element e of the even step, of the odd step, e = 0, 1 (harness/formats/layout.h).
__device__ __forceinline__ void tern_column_make(unsigned (&b)[4][2], const unsigned (&x)[4], float unit,
                                                 unsigned char *scratch, int lane) {
    const int half = lane / 8 % 2; // its columns trade places by twos: other banks
    unsigned char *to = scratch + half * SCRATCH_HALF + lane % 4 * 16 + lane / 4 % 2 * 8;
    unsigned low[DIGITS], high[DIGITS];
    tern_digits_of(low, x[0], x[2], unit);
    tern_digits_of(high, x[1], x[3], unit);
    __syncwarp(); // all have read the tile before
#pragma unroll
    for (int d = 0; d < DIGITS; d++)
        tern_shared_store_8(to + ((lane / 16 * DIGITS + d) ^ half) * 64, make_uint2(low[d], high[d]));
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint4 column = tern_shared_load_16(scratch + i * SCRATCH_HALF + (lane ^ 4 * i) * 16);
        b[2 * i][0] = column.x;
        b[2 * i][1] = column.y;
        b[2 * i + 1][0] = column.z;
        b[2 * i + 1][1] = column.w;
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

__device__ __forceinline__ void tern_held_make(struct tern_held &held, const unsigned (&x)[K_TILES][FRAGMENTS][4],
                                               unsigned char *scratch, int lane) {
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const unsigned most = tern_magnitude(x, f), most_of_sums = __shfl_sync(0xFFFFFFFFu, most, lane % 4 / 2 * 16);
        const float unit =
            tern_power(14 - tern_exponent(most) - tern_width::shift(lane / 4 % 4)); // high parts: below 2^15 - 2^7
        const float power = tern_power(tern_exponent(most_of_sums) - 14 - (lane % 2 == 0 ? PART_BITS : 0));
        held.power[f] = most_of_sums < SPECIAL ? power : __int_as_float(0x7FFFFFFF);
#pragma unroll
        for (int j = 0; j < K_TILES; j++) {
            tern_column_make(held.b[j][f], x[j][f], unit, scratch, lane);
            tern_sums_make(held.of_x[j][f], held.b[j][f]);
        }
    }
}

// Adds a span's scaled sum to the sums of a row tile and a row of x.
__device__ __forceinline__ void tern_span_add(float *sums, const int (&d)[4], const int (&of_x)[4], unsigned scales,
                                              unsigned zeros) {
    const float2 scale = __half22float2(tern_as_half2(scales));
    int low = tern_pair(d[0], d[1]), high = tern_pair(d[2], d[3]);
    if (HAS_ZEROS) {
        low -= (int)(zeros & 0xFFu) * of_x[0];
        high -= (int)(zeros >> 8) * of_x[0];
    }
    sums[0] = fmaf(scale.x, (float)low, sums[0]);
    sums[1] = fmaf(scale.y, (float)high, sums[1]);
}

// Multiplies K tile j, all row tiles and fragments side by side: independent chains of products.
__device__ __forceinline__ void tern_tile_multiply(struct tern_sums &sums, const struct tern_tile (&tiles)[ROW_TILES],
                                                   const struct tern_held &x, int j) {
    int d[ROW_TILES][FRAGMENTS][4];
    tern_width fields[ROW_TILES];
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        fields[r] = tern_fields_make<BITS>(tiles[r].words);
    if (j == 0)
#pragma unroll
        for (int i = 0; i < UNITS * UNIT_FLOATS; i++)
            sums.at[i / UNIT_FLOATS][i % UNIT_FLOATS] = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int piece = tern_width::piece(i, SPANS), span = i * SPANS / 4;
        const bool first = i * SPANS % 4 == 0, last = (i + 1) * SPANS % 4 == 0;
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++) {
            unsigned a[4];
            tern_fields_bytes(fields[r], piece, a);
#pragma unroll
            for (int f = 0; f < FRAGMENTS; f++) {
                int(&sum)[4] = d[r][f];
                if (!first)
                    tern_mma_s8<false>(sum, a, x.b[j][f][piece][0], x.b[j][f][piece][1]);
                else if (HAS_ZEROS)
                    tern_mma_s8_first<false>(sum, a, x.b[j][f][piece][0], x.b[j][f][piece][1]);
                else
                    tern_mma_s8_into<false>(sum, a, x.b[j][f][piece][0], x.b[j][f][piece][1], x.of_x[j][f][span]);
            }
        }
        if (last)
#pragma unroll
            for (int i = 0; i < ROW_TILES * FRAGMENTS; i++) {
                const int r = i / FRAGMENTS, f = i % FRAGMENTS;
                tern_span_add(&sums.at[r][2 * f], d[r][f], x.of_x[j][f][span], tiles[r].scales[span], tiles[r].zeros[span]);
            }
    }
}

// The sums of a row block from the warp, no longer in units of its own.
__device__ __forceinline__ struct tern_sums tern_sums_scale(const struct tern_sums &sums, const struct tern_held &x) {
    struct tern_sums scaled;
#pragma unroll
    for (int u = 0; u < UNITS; u++)
#pragma unroll
        for (int i = 0; i < UNIT_FLOATS; i++)
            scaled.at[u][i] = sums.at[u][i] * x.power[i / 2];
    return scaled;
}

// A multiplying warp: takes its x and walks the row blocks.
__device__ __forceinline__ void tern_consume(const struct tern_part &s, const struct tern_places &p,
                                             const struct tern_args &args, int warp, int lane) {
    unsigned loaded[K_TILES][FRAGMENTS][4];
    struct tern_held x;
    tern_dependency_wait();
    tern_x_load(loaded, s.k, args, warp, lane);
    tern_held_make(x, loaded, p.slots + warp * WARP_BYTES, lane);
    tern_block_arrive(X_HERE, 32 * (WARPS_K + 1));
    tern_block_sync(READY, THREADS); // barriers are prepared
    if (CLUSTER_K > 1)
        tern_cluster_wait();
    tern_rows_walk(
        s, p, args, warp, lane,
        [&](struct tern_sums &sums, const struct tern_tile(&tiles)[ROW_TILES], int j) {
            tern_tile_multiply(sums, tiles, x, j);
        },
        [&](const struct tern_sums &sums) { return tern_sums_scale(sums, x); });
}

// Joins the two pairs of digits of each row of x and stores: lanes t = 0, 1 of a fragment's first, 2, 3 of its second row; row n of W
// by t = 0, 2, row n + 8 by t = 1, 3.
__device__ __forceinline__ void tern_y_store(const struct tern_args &args, int n, const float (&sum)[UNIT_FLOATS],
                                             const float2 &bias, int lane) {
    const bool odd = lane % 2 != 0;
    n += odd ? 8 : 0;
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const int m = 2 * f + lane % 4 / 2;
        const float low = sum[2 * f], high = sum[2 * f + 1];
        const float joined = (odd ? high : low) + __shfl_xor_sync(0xFFFFFFFFu, odd ? low : high, 1);
        if (n < (int)args.n && m < (int)args.m) // half of the last row tile is not where N is an odd multiple of 8
            ((unsigned short *)args.y)[m * args.n + n] = tern_value_round<BF16>(joined + (odd ? bias.y : bias.x));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) tern_imma_resident(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(dynamic);
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const struct tern_part s = tern_part_make(args);
    if (CLUSTER_K > 1 && warp != COPIER)
        tern_cluster_arrive(); // the copying warp: once its barriers are prepared
    if (warp < WARPS_K) {
        tern_consume(s, tern_places_make(tern_shared_kept(dynamic)), args, warp, lane);
    } else if (warp == COPIER) {
        const struct tern_places p = tern_places_make(dynamic); // not the kept pointer, which is not known to be uniform
        struct tern_supply w = tern_supply_make(s, p, args, lane);
        tern_produce(w, s, p, s.row_blocks, lane);
    } else {
        tern_dependency_wait(); // ahead of y
        tern_add_up(
            s, tern_places_make(tern_shared_kept(dynamic)), args, warp - WARPS_K - (COPIER == WARPS_K), lane,
            [&](int n, int, const float(&sum)[UNIT_FLOATS], const float2 &bias) { tern_y_store(args, n, sum, bias, lane); });
    }
}
