// imma-decode: y[M,N] = x[M,K] * W[N,K]^T for M = 1..4 on integer tensor cores, sums of a group exact, fp32 beyond it.
//
// Shapes: M up to M_TILE, N a multiple of 8, K a multiple of 32, any group that is a multiple of 32, or one scale a row; the
// last group may be short. 2 and 4 bits. Layout frag16x128 (harness/formats/layout.h).
//
// How: a finite binary16 is an integer of 41 bits times 2^-24: six signed digits of 7 bits, so six columns of the 8-column
// operand of mma.m16n8k32 (8 bits, s32 sums) hold one row of x, exactly. The codes' bytes are the other operand: a shift brings a
// field to the top of its byte, an AND leaves it alone there, and for symmetric formats the exclusive-or in the same instruction
// makes code minus zero point of it, in two's complement (ternary: the negative of it). Where rows have zero points, the codes
// are unsigned, and zero times the integer sum of x over the span is taken off: exact again. tern/stream.cuh has the stream of
// weights.
//
// Specials: Inf or NaN in a row of x makes its row of y NaN.
//
// Parameters: M_TILE rows of x; WARPS warps a block, one block an SM; CLUSTER_K blocks of a cluster that split K; TILES K tiles
// of 128 a stage, STAGES of each warp's ring; BULK how it is filled (0 cp.async, 1 bulk copies).
//
// Bound by: memory; on small layers by fixed costs. Expected of the limit: 0.5 (4 MB) to 0.85.
constexpr int ROW_TILES = 1;               // more would save little: x is two loads a tile
constexpr int VALUES = 3, SLOT_PITCH = 24; // an output's sums: pairs of digits; floats apart: 16 rows, no bank conflicts
#include "tern/mma.cuh"
#include "tern/stream_finish.cuh"

typedef struct tern_codes<BITS> tern_width;
constexpr int DIGITS = 6, DIGIT_BITS = 7;               // of x
constexpr int PAIRS = DIGITS / 2;                       // a lane of the result has two columns: a pair of digits
constexpr int COLUMN_TILES = (DIGITS * M_TILE + 7) / 8; // fragments of 8 columns
constexpr int SUM_PITCH = 4 * COLUMN_TILES;             // sums of x of a span, a pair each
constexpr bool SIGNED = !HAS_ZEROS;
// What makes a field at the top of a byte code - ZERO, times 2^(8 - BITS) times SIGN.
constexpr unsigned FLIP = !SIGNED ? 0 : BITS == 2 && ZERO == 1 ? 0x40404040u : 0x80808080u;
constexpr float SIGN = SIGNED && BITS == 2 && ZERO == 1 ? -1.0f : 1.0f;
static_assert(VALUES == PAIRS, "what a slot holds");
static_assert(M_TILE <= 4, "more columns cost more than binary16");
static_assert(HAS_ZEROS || ZERO == 1 << (BITS - 1) || (BITS == 2 && ZERO == 1), "a zero point that one bit flips");

// Shared memory of a block behind the rings; all 16-byte aligned.
struct tern_places {
    unsigned char *x;      // [rows of x][K tiles] of 256 bytes
    unsigned char *digits; // [rows of x * DIGITS][pitch]: a K tile takes 128 bytes, [half][lane t][piece of the half] of 8 k
    int pitch;             // 64 more than a multiple of 128: no bank conflicts
    int *sums;             // HAS_ZEROS: [K tile][span][SUM_PITCH], sums of x
    unsigned *specials;    // [WARPS]: rows of x with Inf or NaN, a bit each
    struct tern_slots slots;
};

__device__ __forceinline__ struct tern_places tern_places_make(const struct tern_share &s, unsigned char *shared, int rows) {
    struct tern_places p;
    p.specials = (unsigned *)shared;
    shared += WARPS * 4;
    p.sums = (int *)shared;
    shared += HAS_ZEROS * s.most_tiles * (SPANS * SUM_PITCH * 4);
    p.slots = tern_slots_make(s, rows, shared);
    p.x = shared;
    p.digits = shared + rows * s.most_tiles * 256;
    p.pitch = s.most_tiles * 128 + 64;
    return p;
}

// The digits of two values: the low byte of each half of digit[i]. Every step is exact: a digit is the nearest multiple of its
// place, so the rest has no more bits than the value had. `rest` is in units of 1, from digit 1 on of 2^-13, which
// keeps the factors in binary16's range.
__device__ __forceinline__ void tern_digits_of(unsigned rest, unsigned (&digit)[DIGITS]) {
    constexpr unsigned MAGIC = 0x66006600u, MINUS_MAGIC = 0xE600E600u; // 1536: the digit is the low bits of the sum
    // 1 over the place, and minus the place, of digit 5, 4, 3, 2 and 1.
    constexpr unsigned up[5] = {0x10001000u, 0x2C002C00u, 0x48004800u, 0x64006400u, 0x4C004C00u};
    constexpr unsigned down[5] = {0xE800E800u, 0xCC00CC00u, 0xB000B000u, 0x94009400u, 0xAC00AC00u};
#pragma unroll
    for (int i = 0; i < 5; i++) {
        if (i == 4)
            rest = tern_pair_mul<0>(rest, 0x70007000u); // 2^13
        digit[5 - i] = tern_pair_fma<0>(rest, up[i], MAGIC);
        rest = tern_pair_fma<0>(tern_pair_add<0>(digit[5 - i], MINUS_MAGIC), down[i], rest);
    }
    digit[0] = tern_pair_fma<0>(rest, 0x68006800u, MAGIC); // 2^11
}

// Stores the digits of eight values at `to` (column 0 of the row of x). Bytes of code words are element e of the even step,
// of the odd step, e = 0, 1 (harness/formats/layout.h): values 0, 4, 1, 5 and 2, 6, 3, 7.
__device__ __forceinline__ void tern_chunk_store(unsigned char *to, int pitch, const uint4 &x) {
    unsigned digit[4][DIGITS];
    tern_digits_of(x.x, digit[0]);
    tern_digits_of(x.y, digit[1]);
    tern_digits_of(x.z, digit[2]);
    tern_digits_of(x.w, digit[3]);
#pragma unroll
    for (int d = 0; d < DIGITS; d++)
        tern_shared_store_8(to + d * pitch, make_uint2(tern_permute_bytes(digit[0][d], digit[2][d], 0x6240u),
                                                       tern_permute_bytes(digit[1][d], digit[3][d], 0x6240u)));
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
        tern_mma_s8_first<SIGNED>(d, a, b0, b1);
    else
        tern_mma_s8<SIGNED>(d, a, b0, b1);
}

// The value of a lane's pair of columns: low digit in the first.
__device__ __forceinline__ int tern_pair(int low, int high) {
    return low + high * (1 << DIGIT_BITS);
}

// Sums of x over the spans of K tile k: the same products with codes of 1.
__device__ __forceinline__ void tern_sums_make(const struct tern_places &p, const struct tern_columns &c, int k, int lane) {
    constexpr unsigned ONE = 0x01010101u << (8 - BITS);
    const unsigned a[4] = {ONE, ONE, ONE, ONE};
#pragma unroll
    for (int m = 0; m < COLUMN_TILES; m++) {
        uint4 x[2];
        int d[4];
        tern_x_load(p, c, k, m, x);
#pragma unroll
        for (int piece = 0; piece < 4; piece++) {
            tern_piece_multiply(d, a, x, piece, piece * SPANS % 4 == 0);
            if ((piece + 1) * SPANS % 4 == 0 && lane < 4)
                tern_shared_store_4(p.sums + (k * SPANS + piece * SPANS / 4) * SUM_PITCH + 4 * m + lane,
                                    (unsigned)tern_pair(d[0], d[1]));
        }
    }
}

// Whether one of eight values is Inf or NaN: an exponent of all ones carries into the sign.
__device__ __forceinline__ bool tern_has_special(const uint4 &x) {
    const unsigned words[4] = {x.x, x.y, x.z, x.w};
    unsigned carry = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        carry |= (words[i] & 0x7C007C00u) + 0x04000400u;
    return (carry & 0x80008000u) != 0;
}

// Turns x into digits and, where rows have zero points, sums it. A lane takes the chunks that it copied: piece lane / 4 % 4,
// lane t = lane % 4 of the fragment.
__device__ __forceinline__ void tern_x_stage(const struct tern_places &p, const struct tern_columns &c,
                                             const struct tern_share &s, int rows, int warp, int lane) {
    const int piece = lane / 4 % 4;
    unsigned char *to = p.digits + lane / 16 * 128 + piece / 2 * 64 + lane % 4 * 16 + piece % 2 * 8;
    unsigned specials = 0, of_warp = 0;
    tern_cp_async_wait<BEHIND_X>();
    tern_x_each(s, rows, warp, [&](int row, int q) {
        if (2 * q + lane / 16 >= s.tiles)
            return;
        const uint4 x = tern_shared_load_16(p.x + row * s.most_tiles * 256 + (q * 32 + lane) * 16);
        specials |= tern_has_special(x) ? 1u << row : 0;
        tern_chunk_store(to + row * DIGITS * p.pitch + q * 256, p.pitch, x);
    });
#pragma unroll
    for (int m = 0; m < M_TILE; m++)
        of_warp |= __any_sync(0xFFFFFFFFu, specials >> m & 1) ? 1u << m : 0;
    if (lane == 0)
        tern_shared_store_4(p.specials + warp, of_warp);
    if (HAS_ZEROS) {
        __syncthreads();
        for (int k = warp; k < s.tiles; k += WARPS)
            tern_sums_make(p, c, k, lane);
    }
    __syncthreads();
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
            const int shift = 8 - BITS - tern_width::shift(2 * piece);
            constexpr unsigned MASK = (BITS == 2 ? 0xC0C0C0C0u : 0xF0F0F0F0u);
            a[piece][i] = tern_and_xor(words[tern_width::word(2 * piece, i)] << shift, MASK, FLIP);
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
            const int entry = tern_slot_entry(s, j, k, first_k, span, groups);
            const float2 scale = __half22float2(tern_as_half2(tern_slot_scales(slot, 0, entry, lane)));
            int low = tern_pair(d[0][0], d[0][1]), high = tern_pair(d[0][2], d[0][3]);
            if (CHAINS == 2) {
                low += tern_pair(d[CHAINS - 1][0], d[CHAINS - 1][1]);
                high += tern_pair(d[CHAINS - 1][2], d[CHAINS - 1][3]);
            }
            if (HAS_ZEROS) {
                const unsigned zeros = tern_slot_zeros(slot, 0, entry, lane);
                const int sum = (int)tern_shared_load_4(p.sums + (k * SPANS + span) * SUM_PITCH + 4 * m + lane % 4);
                low -= (int)(zeros & 0xFFu) * sum;
                high -= (int)(zeros >> 8) * sum;
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
    constexpr float PAIR = 1 << 2 * DIGIT_BITS;
    constexpr float UNIT = SIGN / (1 << 24) / (1 << (8 - BITS)); // of a product of the lowest digit
    const float sum = fmaf(fmaf(sums[2], PAIR, sums[1]), PAIR, sums[0]);
    const bool special = __any_sync(0xFFFFFFFFu, specials >> m & 1);
    return sum * (special ? __int_as_float(0x7FFFFFFF) : UNIT);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) tern_imma_decode(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(dynamic);
    unsigned char *shared = tern_shared_kept(dynamic);
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const int rows = (int)args.m;
    const struct tern_share s = tern_share_make(args);
    unsigned char *rings_end = shared + WARPS * STAGES * (STAGE_BYTES + BULK * 8);
    const struct tern_places p = tern_places_make(s, rings_end, rows);
    // Ahead of the weights: loads return in order, and behind the weights x would wait for memory.
    if (!DEPENDENT)
        tern_x_copy_async(p.x, s.most_tiles * 256, s, args, rows, warp, lane);
    struct tern_warp_ring ring;
    tern_ring_start(ring, shared + warp * (STAGES * STAGE_BYTES),
                    shared + WARPS * STAGES * STAGE_BYTES + warp * (STAGES * 8), s, args, warp, lane);
    tern_dependency_wait();
    if (DEPENDENT)
        tern_x_copy_async(p.x, s.most_tiles * 256, s, args, rows, warp, lane);
    if (CLUSTER_K > 1)
        tern_cluster_arrive();
    const struct tern_columns columns = tern_columns_make(p, rows, lane);
    tern_x_stage(p, columns, s, rows, warp, lane);
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
