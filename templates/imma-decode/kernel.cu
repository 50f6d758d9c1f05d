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
#include "tern/cluster.cuh"
#include "tern/mma.cuh"
#include "tern/stream.cuh"

typedef struct tern_codes<BITS> tern_width;
constexpr int DIGITS = 6;                                  // of 8 bits
constexpr int PAIRS = DIGITS / 2;                          // a lane of the result has two columns: a pair of digits
constexpr int COLUMN_TILES = (DIGITS * M_TILE + 7) / 8;    // fragments of 8 columns
constexpr int SUM_PITCH = 4 * COLUMN_TILES;                // sums of x of a span, a pair each
constexpr int SLOT_PITCH = 24;                             // floats from pair to pair of a slot: 16 rows, no bank conflicts
constexpr int MOST = tern_width::pitch * (tern_width::places - 1); // bits that the last place shifts
static_assert(M_TILE <= 4, "more columns cost more than binary16");

// Shared memory of a block; all 16-byte aligned.
struct tern_places {
    unsigned char *digits;   // [rows of x * DIGITS][pitch]: a K tile takes 128 bytes, [half][lane t][piece of the half] of 8 k
    int pitch;               // 64 more than a multiple of 128: no bank conflicts
    int *sums;               // [K tile][span][SUM_PITCH]: sums of x
    float *slots;            // [WARPS][slots_per_warp][rows of x * PAIRS][SLOT_PITCH]
    int slots_per_warp;
    unsigned *specials;      // [WARPS]: rows of x with Inf or NaN, a bit each
    float *incoming;         // CLUSTER_K > 1: [rank][own outputs][16]
    unsigned char *barriers; // [WARPS][STAGES] of 8 bytes
    unsigned char *rings;    // [WARPS][STAGES][STAGE_BYTES]
};

__device__ __forceinline__ struct tern_places tern_places_make(const struct tern_share &s, unsigned char *shared, int rows) {
    struct tern_places p;
    p.rings = shared;
    p.barriers = p.rings + WARPS * STAGES * STAGE_BYTES;
    p.specials = (unsigned *)(p.barriers + BULK * WARPS * STAGES * 8);
    p.sums = (int *)(p.specials + WARPS);
    p.incoming = (float *)(p.sums + s.most_tiles * SPANS * SUM_PITCH);
    p.slots = p.incoming + (CLUSTER_K > 1 ? (s.most_rows * M_TILE + CLUSTER_K - 1) / CLUSTER_K * CLUSTER_K * 16 : 0);
    p.slots_per_warp = (int)((unsigned)(s.most_rows + WARPS - 1) / WARPS) + 1;
    p.digits = (unsigned char *)(p.slots + WARPS * p.slots_per_warp * rows * PAIRS * SLOT_PITCH);
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
        *reinterpret_cast<uint2 *>(to + d * pitch) = make_uint2(first[d], second[d]);
}

// Where the lane finds its column of each fragment. Columns that do not exist read the last one.
struct tern_columns {
    int at[COLUMN_TILES];
};
__device__ __forceinline__ struct tern_columns tern_columns_make(const struct tern_places &p, int rows, int lane) {
    struct tern_columns c;
#pragma unroll
    for (int m = 0; m < COLUMN_TILES; m++)
        c.at[m] = tern_smaller(8 * m + lane / 4, rows * DIGITS - 1) * p.pitch + lane % 4 * 16;
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
                p.sums[(k * SPANS + piece * SPANS / 4) * SUM_PITCH + 4 * m + lane] = tern_pair(d[0], d[1]);
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
        p.specials[warp] = specials;
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
#pragma unroll
    for (int i = 0; i < TILE_CHUNKS; i++) {
        const uint4 four = tern_shared_load_16(slot + j * TILE_BYTES + i * 512 + lane * 16);
        words[4 * i + 0] = four.x;
        words[4 * i + 1] = four.y;
        words[4 * i + 2] = four.z;
        words[4 * i + 3] = four.w;
    }
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
            const float2 scale = tern_slot_scale(slot, entry, lane);
            const uint2 zeros = HAS_ZEROS ? tern_slot_zeros(slot, entry, lane) : make_uint2(ZERO, ZERO);
            const int sum = p.sums[(k * SPANS + span) * SUM_PITCH + 4 * m + lane % 4];
            int low = tern_pair(d[0][0], d[0][1]) - (int)zeros.x * sum;
            int high = tern_pair(d[0][2], d[0][3]) - (int)zeros.y * sum;
            if (CHAINS == 2) {
                low += tern_pair(d[CHAINS - 1][0], d[CHAINS - 1][1]);
                high += tern_pair(d[CHAINS - 1][2], d[CHAINS - 1][3]);
            }
            sums.at[m][0] = fmaf(scale.x, (float)low, sums.at[m][0]);
            sums.at[m][1] = fmaf(scale.y, (float)high, sums.at[m][1]);
        }
    }
}

// The warp's slot for a row tile, [rows of x * PAIRS][SLOT_PITCH]. A warp's slots begin with the row tile of its piece's begin.
__device__ __forceinline__ float *tern_slot(const struct tern_places &p, const struct tern_share &s, int rows, int warp,
                                            int row) {
    return p.slots + (warp * p.slots_per_warp + row - tern_piece_row(s, warp)) * (rows * PAIRS * SLOT_PITCH);
}

// Moves the sums to the warp's slot.
__device__ __forceinline__ void tern_sums_flush(float *slot, int rows, int lane, struct tern_sums &sums) {
#pragma unroll
    for (int m = 0; m < COLUMN_TILES; m++) {
        const int pair = 4 * m + lane % 4;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (pair < rows * PAIRS)
                slot[pair * SLOT_PITCH + lane / 4 + 8 * i] = sums.at[m][i];
            sums.at[m][i] = 0.0f;
        }
    }
}

// Calls use(row tile, row of x, row of the tile, value) for the block's outputs, summed over its warps. Lanes 0..15 of a warp have
// a row each; the others help.
template <class USE>
__device__ __forceinline__ void tern_outputs_each(const struct tern_places &p, const struct tern_share &s, int rows,
                                                  int warp, int lane, USE use) {
    const int begin = tern_piece_begin(s, tern_smaller(lane, WARPS)), end = tern_piece_begin(s, tern_smaller(lane + 1, WARPS));
    const unsigned specials = p.specials[lane % WARPS];
#pragma unroll 1
    for (int item = warp; item < s.rows * M_TILE; item += WARPS) {
        const int row = item / M_TILE, m = item % M_TILE;
        if (m >= rows)
            continue;
        const bool touches = begin < tern_smaller(end, (row + 1) * s.tiles) && end > row * s.tiles;
        const unsigned mask = __ballot_sync(0xFFFFFFFFu, touches);
        const bool special = __any_sync(0xFFFFFFFFu, specials >> m & 1);
        const int last = 31 - __clz((int)mask);
        float sums[PAIRS] = {};
#pragma unroll 2
        for (int w = __ffs((int)mask) - 1 + lane / 16; w <= last; w += 2) {
            const float *slot = tern_slot(p, s, rows, w, row) + m * PAIRS * SLOT_PITCH + lane % 16;
#pragma unroll
            for (int i = 0; i < PAIRS; i++)
                if (mask >> w & 1) // short pieces may be empty
                    sums[i] += slot[i * SLOT_PITCH];
        }
        float sum = fmaf(fmaf(sums[2], 65536.0f, sums[1]), 65536.0f, sums[0]);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 16);
        sum *= special ? __int_as_float(0x7FFFFFFF) : __int_as_float((127 - 24 - MOST) << 23);
        if (lane < 16)
            use(row, m, lane, sum);
    }
}

__device__ __forceinline__ void tern_store_y(const struct tern_share &s, const struct tern_args &args, int row, int m, int r,
                                             float value) {
    const long long n = (long long)(s.first_row + row) * 16 + r;
    if (n < args.n) // the last row tile is half empty where N is not a multiple of 16
        ((__half *)args.y)[m * args.n + n] = __float2half_rn(value);
}

// Sums the slots over the warps, and over the blocks of the cluster, and writes y. Output i of a cluster (row tile, row of x)
// is summed by rank i % CLUSTER_K, to which the others send theirs.
__device__ __forceinline__ void tern_finish(const struct tern_places &p, const struct tern_share &s,
                                            const struct tern_args &args, int warp, int lane) {
    const int rows = (int)args.m, own = (s.most_rows * M_TILE + CLUSTER_K - 1) / CLUSTER_K;
    const int rank = (int)(blockIdx.x % CLUSTER_K);
    __syncthreads();
    if (CLUSTER_K > 1)
        tern_cluster_wait(); // all blocks run
    tern_outputs_each(p, s, rows, warp, lane, [&](int row, int m, int r, float value) {
        const int item = row * M_TILE + m;
        if (CLUSTER_K == 1)
            tern_store_y(s, args, row, m, r, value);
        else
            tern_cluster_store_float(p.incoming + (rank * own + item / CLUSTER_K) * 16 + r, item % CLUSTER_K, value);
    });
    if (CLUSTER_K == 1)
        return;
    tern_cluster_sync();
    for (int i = (int)threadIdx.x; i < own * 16; i += WARPS * 32) {
        const int item = i / 16 * CLUSTER_K + rank, row = item / M_TILE, m = item % M_TILE;
        float sum = 0.0f;
#pragma unroll
        for (int from = 0; from < CLUSTER_K; from++)
            sum += p.incoming[from * own * 16 + i];
        if (row < s.rows && m < rows)
            tern_store_y(s, args, row, m, i % 16, sum);
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, CTAS)
    tern_imma_decode(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const int rows = (int)args.m;
    const struct tern_share s = tern_share_make(args);
    struct tern_chunks x;
    tern_chunks_load(x, s, args, warp, lane);
    struct tern_ring ring;
    tern_ring_start(ring, shared + warp * (STAGES * STAGE_BYTES),
                    shared + WARPS * STAGES * STAGE_BYTES + warp * (STAGES * 8), s, args, warp, lane);
    if (CLUSTER_K > 1)
        tern_cluster_arrive();
    const struct tern_places p = tern_places_make(s, shared, rows);
    const struct tern_columns columns = tern_columns_make(p, rows, lane);
    tern_x_stage(p, columns, s, args, x, warp, lane);
    __syncthreads();
    struct tern_sums sums = {};
    tern_ring_walk(
        ring, s, args, warp, lane,
        [&](const unsigned char *slot, int j, int k, int first_k) {
            tern_tile_multiply(slot, j, k, first_k, p, columns, s, (int)args.groups, lane, sums);
        },
        [&](int row) { tern_sums_flush(tern_slot(p, s, rows, warp, row), rows, lane, sums); });
    tern_finish(p, s, args, warp, lane);
}
