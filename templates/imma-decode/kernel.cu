// imma-decode: y[M,N] = x[M,K] * W[N,K]^T for M = 1..4 on integer tensor cores, sums of a group exact, fp32 beyond it.
//
// Shapes: M up to M_TILE, N a multiple of 8, K a multiple of 32, any group that is a multiple of 32, or one scale a row; the
// last group may be short. 2 and 4 bits. Layout frag16x128 (harness/formats/layout.h).
//
// How: a finite binary16 is an integer of 41 bits times 2^-24: six signed digits of 8 bits, so six columns of the 8-column
// operand of mma.m16n8k32 (u8 x s8, s32) hold one row of x, exactly. The codes' bytes are the other operand, masked and not
// shifted: a field at bit p carries 2^p, and x is stored times 2^(most - p), which the spare bits of the top digit take. So a
// weight costs a quarter of an AND and no conversion. Zero points: the integer sum of x over the span, times zero, is taken
// off: exact again. tern/stream.cuh has the stream of weights.
//
// Specials: Inf or NaN in a row of x makes its row of y NaN.
//
// Parameters: M_TILE rows of x; WARPS warps a block; CTAS blocks an SM (launch bounds and grid); CLUSTER_K blocks of a cluster
// that split K; TILES K tiles of 128 a stage, STAGES of each warp's ring; BULK how it is filled (0 cp.async, 1 bulk copies).
//
// Bound by: memory; on small layers by fixed costs. Expected of the limit: 0.5 (4 MB) to 0.85.
constexpr int ROW_TILES = 1; // more would save little: x is two loads a tile
constexpr int VALUES = 3, SLOT_PITCH = 24; // an output's sums: pairs of digits; floats apart: 16 rows, no bank conflicts
#include "tern/mma.cuh"
#include "tern/stream_finish.cuh"

typedef struct tern_codes<BITS> tern_width;
constexpr int DIGITS = 6;                                  // of 8 bits
constexpr int PAIRS = DIGITS / 2;                          // a lane of the result has two columns: a pair of digits
static_assert(VALUES == PAIRS, "what a slot holds");
constexpr int COLUMN_TILES = (DIGITS * M_TILE + 7) / 8;    // fragments of 8 columns
constexpr int SUM_PITCH = 4 * COLUMN_TILES;                // sums of x of a span, a pair each
constexpr int MOST = tern_width::pitch * (tern_width::places - 1); // bits that the last place shifts
static_assert(M_TILE <= 4, "more columns cost more than binary16");

// Shared memory of a block behind the rings; all 16-byte aligned.
struct tern_places {
    unsigned char *digits; // [rows of x * DIGITS][pitch]: a K tile takes 128 bytes, [half][lane t][piece of the half] of 8 k
    int pitch;             // 64 more than a multiple of 128: no bank conflicts
    int *sums;             // [K tile][span][SUM_PITCH]: sums of x
    unsigned *specials;    // [WARPS]: rows of x with Inf or NaN, a bit each
    struct tern_slots slots;
};

__device__ __forceinline__ struct tern_places tern_places_make(const struct tern_share &s, unsigned char *shared, int rows) {
    struct tern_places p;
    p.specials = (unsigned *)shared;
    shared += WARPS * 4;
    p.sums = (int *)shared;
    shared += s.most_tiles * (SPANS * SUM_PITCH * 4);
    p.slots = tern_slots_make(s, rows, shared);
    p.digits = shared;
    p.pitch = s.most_tiles * 128 + 64;
    return p;
}

// Eight k of a row of x at a time: chunk q * 32 + lane of the block's K is tile 2 * q + lane / 16, piece lane / 4 % 4, lane
// t = lane % 4 of the fragment. Chunks behind K and rows that do not exist are zeros.
struct tern_chunks {
    uint4 row[M_TILE];
};
__device__ __forceinline__ void tern_chunks_load(struct tern_chunks &x, const struct tern_share &s,
                                                 const struct tern_args &args, int q, int lane) {
    const int k = s.k_begin * 128 + (q * 32 + lane) * 8;
    const bool inside = q * 32 + lane < s.tiles * 16 && k < (int)args.k;
#pragma unroll
    for (int m = 0; m < M_TILE; m++) {
        x.row[m] = make_uint4(0, 0, 0, 0);
        if (inside && m < (int)args.m)
            x.row[m] = *reinterpret_cast<const uint4 *>((const __half *)args.x + m * args.k + k);
    }
}

// The six digits of value * scale, each plus 128, scale a power of two and the product an integer: low four, high two.
__device__ __forceinline__ uint2 tern_digits_of(float value, double scale) {
    const double magic = 6755399441055744.0 + 141289400074368.0; // 1.5 * 2^52 + 0x808080808080
    const unsigned long long bits = (unsigned long long)__double_as_longlong(fma((double)value, scale, magic));
    return make_uint2((unsigned)bits, (unsigned)(bits >> 32));
}

// Four of the eight values, in the order of bytes of a code word, to a word of each digit.
__device__ __forceinline__ void tern_digits_turn(const uint2 (&v)[4], unsigned (&digit)[DIGITS]) {
    unsigned first[3], second[3];
#pragma unroll
    for (int i = 0; i < 3; i++) { // digits 2 * i and 2 * i + 1
        const unsigned selector = i == 1 ? 0x7362u : 0x5140u;
        first[i] = i < 2 ? tern_permute_bytes(v[0].x, v[1].x, selector) : tern_permute_bytes(v[0].y, v[1].y, selector);
        second[i] = i < 2 ? tern_permute_bytes(v[2].x, v[3].x, selector) : tern_permute_bytes(v[2].y, v[3].y, selector);
        digit[2 * i] = tern_permute_bytes(first[i], second[i], 0x5410u) ^ 0x80808080u;
        digit[2 * i + 1] = tern_permute_bytes(first[i], second[i], 0x7632u) ^ 0x80808080u;
    }
}

// Stores the digits of eight values at `to` (column 0 of the row of x).
__device__ __forceinline__ void tern_chunk_store(unsigned char *to, int pitch, const uint4 &x, double scale) {
    const unsigned words[4] = {x.x, x.y, x.z, x.w};
    uint2 v[8];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 pair = __half22float2(tern_as_half2(words[i]));
        v[2 * i] = tern_digits_of(pair.x, scale);
        v[2 * i + 1] = tern_digits_of(pair.y, scale);
    }
    // Bytes of code words: element e of the even step, of the odd step, e = 0, 1 (harness/formats/layout.h).
    const uint2 even[4] = {v[0], v[4], v[1], v[5]}, odd[4] = {v[2], v[6], v[3], v[7]};
    unsigned first[DIGITS], second[DIGITS];
    tern_digits_turn(even, first);
    tern_digits_turn(odd, second);
#pragma unroll
    for (int d = 0; d < DIGITS; d++)
        tern_shared_store_8(to + d * pitch, make_uint2(first[d], second[d]));
}

// Where the lane finds its column of each fragment. Columns that do not exist read the last one.
struct tern_columns {
    int at[COLUMN_TILES];
};
__device__ __forceinline__ struct tern_columns tern_columns_make(const struct tern_places &p, int rows, int lane) {
    struct tern_columns c;
#pragma unroll
    for (int m = 0; m < COLUMN_TILES; m++)
        c.at[m] = tern_kept(tern_smaller(8 * m + lane / 4, rows * DIGITS - 1) * p.pitch + lane % 4 * 16);
    return c;
}

// The lane's part of x for one K tile and column tile: [half] 16 bytes, two pieces each.
__device__ __forceinline__ void tern_x_load(const struct tern_places &p, const struct tern_columns &c, int k, int m,
                                            uint4 (&x)[2]) {
    x[0] = tern_shared_load_16(p.digits + c.at[m] + k * 128);
    x[1] = tern_shared_load_16(p.digits + c.at[m] + k * 128 + 64);
}

// d (+)= a * the piece's x.
__device__ __forceinline__ void tern_piece_multiply(int (&d)[4], const unsigned *a, const uint4 (&x)[2], int piece,
                                                    bool first) {
    const uint4 &half = x[piece / 2];
    const unsigned b0 = piece % 2 ? half.z : half.x, b1 = piece % 2 ? half.w : half.y;
    if (first)
        tern_mma_u8s8_first(d, a, b0, b1);
    else
        tern_mma_u8s8(d, a, b0, b1);
}

// The value of a lane's pair of columns: low digit in the first.
__device__ __forceinline__ int tern_pair(int low, int high) {
    return low + high * 256;
}

// Sums of x over the spans of K tile k: the same products with codes of 1.
__device__ __forceinline__ void tern_sums_make(const struct tern_places &p, const struct tern_columns &c, int k, int lane) {
#pragma unroll
    for (int m = 0; m < COLUMN_TILES; m++) {
        uint4 x[2];
        int d[4];
        tern_x_load(p, c, k, m, x);
#pragma unroll
        for (int piece = 0; piece < 4; piece++) {
            const unsigned one = 0x01010101u << tern_width::shift(2 * piece);
            const unsigned a[4] = {one, one, one, one};
            tern_piece_multiply(d, a, x, piece, piece * SPANS % 4 == 0);
            if ((piece + 1) * SPANS % 4 == 0 && lane < 4)
                tern_shared_store_4(p.sums + (k * SPANS + piece * SPANS / 4) * SUM_PITCH + 4 * m + lane,
                                    (unsigned)tern_pair(d[0], d[1]));
        }
    }
}

// Brings the block's x into shared memory, as digits, and its sums; `x` holds the warp's first chunks. Each warp stages
// pairs of tiles and sums what it staged itself.
__device__ __forceinline__ void tern_x_stage(const struct tern_places &p, const struct tern_columns &c,
                                             const struct tern_share &s, const struct tern_args &args, struct tern_chunks x,
                                             int warp, int lane) {
    const int piece = lane / 4 % 4;
    const int exponent = 24 + MOST - tern_width::pitch * (piece % tern_width::places);
    const double scale = __longlong_as_double((long long)(1023 + exponent) << 52);
    unsigned char *to = p.digits + lane / 16 * 128 + piece / 2 * 64 + lane % 4 * 16 + piece % 2 * 8;
    unsigned specials = 0;
#pragma unroll 1
    for (int q = warp; 2 * q < s.tiles; q += WARPS) {
        struct tern_chunks next;
        tern_chunks_load(next, s, args, q + WARPS, lane);
#pragma unroll
        for (int m = 0; m < M_TILE; m++) {
            if (m >= (int)args.m)
                break;
            const unsigned words[4] = {x.row[m].x, x.row[m].y, x.row[m].z, x.row[m].w};
            unsigned carry = 0; // out of an exponent of all ones
#pragma unroll
            for (int i = 0; i < 4; i++)
                carry |= (words[i] & 0x7C007C00u) + 0x04000400u;
            specials |= __any_sync(0xFFFFFFFFu, (carry & 0x80008000u) != 0) ? 1u << m : 0;
            if (2 * q + lane / 16 < s.tiles)
                tern_chunk_store(to + m * DIGITS * p.pitch + q * 256, p.pitch, x.row[m], scale);
        }
        x = next;
        __syncwarp();
        tern_sums_make(p, c, 2 * q, lane);
        if (2 * q + 1 < s.tiles)
            tern_sums_make(p, c, 2 * q + 1, lane);
    }
    if (lane == 0)
        tern_shared_store_4(p.specials + warp, specials);
}

// Sums of a row tile: [column tile][row g or g + 8] of the lane's pair of columns.
struct tern_sums {
    float at[COLUMN_TILES][2];
};

// Adds one 16 x 128 tile.
__device__ __forceinline__ void tern_tile_multiply(const unsigned char *slot, int j, int k, int first_k,
                                                   const struct tern_places &p, const struct tern_columns &c,
                                                   const struct tern_share &s, int groups, int lane,
                                                   struct tern_sums &sums) {
    unsigned words[tern_width::words];
    tern_slot_words(slot, 0, j, lane, words);
    unsigned a[4][4];
#pragma unroll
    for (int piece = 0; piece < 4; piece++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const unsigned mask = (BITS == 2 ? 0x03030303u : 0x0F0F0F0Fu) << tern_width::shift(2 * piece);
            a[piece][i] = words[tern_width::word(2 * piece, i)] & mask;
        }
#pragma unroll
    for (int m = 0; m < COLUMN_TILES; m++) {
        uint4 x[2];
        tern_x_load(p, c, k, m, x);
#pragma unroll
        for (int span = 0; span < SPANS; span++) {
            // Two chains of products where the span is a whole tile: half the latency.
            constexpr int CHAINS = SPANS == 1 ? 2 : 1, LENGTH = 4 / SPANS / CHAINS;
            int d[CHAINS][4];
#pragma unroll
            for (int i = 0; i < LENGTH; i++)
#pragma unroll
                for (int chain = 0; chain < CHAINS; chain++) {
                    const int piece = span * 4 / SPANS + chain * LENGTH + i;
                    tern_piece_multiply(d[chain], a[piece], x, piece, i == 0);
                }
            const int entry = tern_slot_entry(s, k, first_k, span, groups);
            const float2 scale = __half22float2(tern_as_half2(tern_slot_scales(slot, 0, entry, lane)));
            const unsigned zeros = HAS_ZEROS ? tern_slot_zeros(slot, 0, entry, lane) : ZERO * 257u;
            const int sum = (int)tern_shared_load_4(p.sums + (k * SPANS + span) * SUM_PITCH + 4 * m + lane % 4);
            int low = tern_pair(d[0][0], d[0][1]) - (int)(zeros & 0xFFu) * sum;
            int high = tern_pair(d[0][2], d[0][3]) - (int)(zeros >> 8) * sum;
            if (CHAINS == 2) {
                low += tern_pair(d[CHAINS - 1][0], d[CHAINS - 1][1]);
                high += tern_pair(d[CHAINS - 1][2], d[CHAINS - 1][3]);
            }
            sums.at[m][0] = fmaf(scale.x, (float)low, sums.at[m][0]);
            sums.at[m][1] = fmaf(scale.y, (float)high, sums.at[m][1]);
        }
    }
}

// Moves the sums to the warp's slot.
__device__ __forceinline__ void tern_sums_flush(float *slot, int rows, int lane, struct tern_sums &sums) {
#pragma unroll
    for (int m = 0; m < COLUMN_TILES; m++) {
        const int pair = 4 * m + lane % 4;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (pair < rows * PAIRS)
                tern_shared_store_4(slot + pair * SLOT_PITCH + lane / 4 + 8 * i, __float_as_uint(sums.at[m][i]));
            sums.at[m][i] = 0.0f;
        }
    }
}

// The output that the sums of its pairs of digits make; all lanes call.
__device__ __forceinline__ float tern_pairs_join(const float (&sums)[PAIRS], unsigned specials, int m) {
    const float sum = fmaf(fmaf(sums[2], 65536.0f, sums[1]), 65536.0f, sums[0]);
    const bool special = __any_sync(0xFFFFFFFFu, specials >> m & 1);
    return sum * (special ? __int_as_float(0x7FFFFFFF) : __int_as_float((127 - 24 - MOST) << 23));
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, CTAS)
    tern_imma_decode(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(dynamic);
    unsigned char *shared = tern_shared_kept(dynamic);
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const int rows = (int)args.m;
    const struct tern_share s = tern_share_make(args);
    struct tern_chunks x;
    tern_chunks_load(x, s, args, warp, lane);
    struct tern_ring ring;
    unsigned char *rings_end = shared + WARPS * STAGES * (STAGE_BYTES + BULK * 8);
    tern_ring_start(ring, shared + warp * (STAGES * STAGE_BYTES),
                    shared + WARPS * STAGES * STAGE_BYTES + warp * (STAGES * 8), s, args, warp, lane);
    if (CLUSTER_K > 1)
        tern_cluster_arrive();
    const struct tern_places p = tern_places_make(s, rings_end, rows);
    const struct tern_columns columns = tern_columns_make(p, rows, lane);
    tern_x_stage(p, columns, s, args, x, warp, lane);
    __syncthreads();
    struct tern_sums sums = {};
    tern_ring_walk(
        ring, s, args, warp, lane,
        [&](const unsigned char *slot, int j, int k, int first_k) {
            tern_tile_multiply(slot, j, k, first_k, p, columns, s, (int)args.groups, lane, sums);
        },
        [&](int row) { tern_sums_flush(tern_slot(p.slots, s, warp, row), rows, lane, sums); });
    const unsigned specials = tern_shared_load_4(p.specials + lane % WARPS);
    tern_finish(p.slots, s, args, warp, lane,
                [&](const float(&values)[VALUES], int m) { return tern_pairs_join(values, specials, m); });
}
