// Bench, not a template: y[N] = x[K] * W[N,K]^T, ternary, a scale each 128 k, by int8 tensor cores as imma-decode does it, with the
// weights in one of three forms. FORM 2: 2 bits a weight. 85: 5 trits a byte (1.6 bit). 53: 3 trits in 5 bits (1.67 bit).
//
// The trits of a byte, or of five bits, belong to 5 or 3 row tiles of 16, at the same k: a unit of R row tiles x 128 k. Memory:
// [unit of rows][k tile] of ENTRY bytes, codes and then scales, so a warp's piece is one run. Blocks have whole units of rows.
//
// In front: FORM, R, WARPS, TILES (k tiles a stage), STAGES, BULK, DEPENDENT. K a multiple of 128.
#include "tern/abi.h"
#include "tern/activation.cuh"
#include "tern/bulk.cuh"
#include "tern/dependent.cuh"
#include "tern/memory.cuh"
#include "tern/mma.cuh"
#include "tern/dequant.cuh"

constexpr int CODES = FORM == 2 ? 512 * R : FORM == 53 ? 1280 : 2048;
constexpr int ENTRY = CODES + 32 * R; // codes of a k tile, then scales [R][row g, row g + 8]
constexpr int DIGITS = 6, PAIRS = 3, SLOT_PITCH = 20, THREADS = 32 * WARPS;
constexpr int SLOT_FLOATS = R * PAIRS * SLOT_PITCH;
static_assert(FORM == 2 || (FORM == 53 && R == 3) || (FORM == 85 && R == 5), "row tiles of a unit");

// The same as in imma-decode: low bytes of the halves are the digits.
__device__ __forceinline__ void digits_of(unsigned rest, unsigned (&digit)[DIGITS]) {
    constexpr unsigned MAGIC = 0x66006600u, MINUS_MAGIC = 0xE600E600u;
    constexpr unsigned up[5] = {0x10001000u, 0x2C002C00u, 0x48004800u, 0x64006400u, 0x4C004C00u};
    constexpr unsigned down[5] = {0xE800E800u, 0xCC00CC00u, 0xB000B000u, 0x94009400u, 0xAC00AC00u};
#pragma unroll
    for (int i = 0; i < 5; i++) {
        if (i == 4)
            rest = tern_pair_mul<0>(rest, 0x70007000u);
        digit[5 - i] = tern_pair_fma<0>(rest, up[i], MAGIC);
        rest = tern_pair_fma<0>(tern_pair_add<0>(digit[5 - i], MINUS_MAGIC), down[i], rest);
    }
    digit[0] = tern_pair_fma<0>(rest, 0x68006800u, MAGIC);
}

struct places {
    unsigned char *ring, *barriers, *x, *digits;
    int *sums; // FORM 85: [k tile][4], sums of x, a pair of digits each
    float *slots;
    int pitch;
};

__device__ __forceinline__ int piece_begin(int w, int line) {
    return (int)((unsigned)(w * line) / WARPS);
}

// Sums of the unit's row tiles for the lane's pair of digits: rows g and g + 8.
struct unit_sums {
    float at[R][2];
};

__device__ __forceinline__ int pair_of(int low, int high) {
    return low + high * 128;
}

// a * x over the four pieces in two chains; the pairs of rows g and g + 8.
template <bool SIGNED>
__device__ __forceinline__ void multiply(const unsigned (&a)[4][4], const unsigned (&x)[4][2], int (&pairs)[2]) {
    int d[2][4];
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int chain = 0; chain < 2; chain++) {
            const int p = 2 * chain + i;
            if (i == 0)
                tern_mma_s8_first<SIGNED>(d[chain], a[p], x[p][0], x[p][1]);
            else
                tern_mma_s8<SIGNED>(d[chain], a[p], x[p][0], x[p][1]);
        }
    pairs[0] = pair_of(d[0][0], d[0][1]) + pair_of(d[1][0], d[1][1]);
    pairs[1] = pair_of(d[0][2], d[0][3]) + pair_of(d[1][2], d[1][3]);
}

__device__ __forceinline__ void add(unit_sums &sums, int r, int low, int high, const unsigned char *scales, int lane) {
    const float2 scale = __half22float2(tern_as_half2(tern_shared_load_4(scales + r * 32 + lane / 4 * 4)));
    sums.at[r][0] = fmaf(scale.x, (float)low, sums.at[r][0]);
    sums.at[r][1] = fmaf(scale.y, (float)high, sums.at[r][1]);
}

// (1 - code) * 64 of the fields of 2 bits at place p of each byte.
__device__ __forceinline__ void fields_of(const unsigned (&words)[4], unsigned (&a)[4][4]) {
#pragma unroll
    for (int p = 0; p < 4; p++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[p][i] = tern_and_xor(words[i] << (6 - 2 * p), 0xC0C0C0C0u, 0x40404040u);
}

__device__ __forceinline__ void add_tile(unit_sums &sums, const unsigned (&words)[4], const unsigned (&x)[4][2], int r,
                                         const unsigned char *scales, int lane) {
    unsigned a[4][4];
    int pairs[2];
    fields_of(words, a);
    multiply<true>(a, x, pairs);
    add(sums, r, pairs[0], pairs[1], scales, lane);
}

__device__ __forceinline__ void words_load(unsigned (&words)[4], const unsigned char *from) {
    const uint4 four = tern_shared_load_16(from);
    words[0] = four.x;
    words[1] = four.y;
    words[2] = four.z;
    words[3] = four.w;
}

__device__ __forceinline__ void unit_2(const unsigned char *entry, const unsigned (&x)[4][2], int lane, unit_sums &sums) {
#pragma unroll
    for (int r = 0; r < R; r++) {
        unsigned words[4];
        words_load(words, entry + r * 512 + lane * 16);
        add_tile(sums, words, x, r, entry + CODES, lane);
    }
}

// 1 where mask is 1: then a, else b.
__device__ __forceinline__ unsigned choose(unsigned mask, unsigned a, unsigned b) {
    return (mask & a) | (~mask & b);
}
// Both bits of the fields of 2 bits that are 3.
__device__ __forceinline__ unsigned threes(unsigned word) {
    return (word & word >> 1 & 0x55555555u) * 3u;
}

// Fields A and B, bit C: A < 3: a = A; B < 3: b = B, c = C; B = 3: b = C, c = 2. A = 3: a = B, b = 2, c = 2.
__device__ __forceinline__ void unit_53(const unsigned char *entry, const unsigned (&x)[4][2], int lane, unit_sums &sums) {
    unsigned first[4], second[4], a[4], b[4], c[4];
    words_load(first, entry + lane * 16);
    words_load(second, entry + 512 + lane * 16);
    const uint2 bits = *reinterpret_cast<const uint2 *>(entry + 1024 + lane * 8);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned bit = (i / 2 ? bits.y : bits.x) >> (i % 2) & 0x55555555u;
        const unsigned of_a = threes(first[i]), of_b = threes(second[i]);
        a[i] = choose(of_a, second[i], first[i]);
        b[i] = choose(of_a, 0xAAAAAAAAu, choose(of_b, bit, second[i]));
        c[i] = choose(of_a | of_b, 0xAAAAAAAAu, bit);
    }
    add_tile(sums, a, x, 0, entry + CODES, lane);
    add_tile(sums, b, x, 1, entry + CODES, lane);
    add_tile(sums, c, x, 2, entry + CODES, lane);
}

// The high byte of each of four 16-bit products.
__device__ __forceinline__ unsigned high_bytes(unsigned even, unsigned odd) {
    return tern_permute_bytes(even, odd, 0x7351u);
}

// Byte n = 81 t0 + 27 t1 + 9 t2 + 3 t3 + t4. With q_i = n / 3^(4 - i), all of them bytes, t_i = q_i - 3 q_(i - 1): the products
// are made with the q, and the differences taken of their sums. q_4 is the byte itself, q_3 = (85 n + 83) / 256; the
// others are the high bits of a product, which leaves them times 8, 16, 64.
__device__ __forceinline__ void unit_85(const unsigned char *entry, const unsigned (&x)[4][2], int x_sum, int lane,
                                        unit_sums &sums) {
    int of[5][2];
    unsigned even[4][4], odd[4][4], q[4][4];
#pragma unroll
    for (int p = 0; p < 4; p++) {
        words_load(q[p], entry + p * 512 + lane * 16);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            even[p][i] = q[p][i] & 0x00FF00FFu;
            odd[p][i] = tern_permute_bytes(q[p][i], 0, 0x4341u);
        }
    }
    multiply<false>(q, x, of[4]);
    constexpr unsigned factor[4] = {203, 152, 228, 85}, more[4] = {0, 0, 0, 0x00530053u};
    constexpr unsigned mask[4] = {0xC0C0C0C0u, 0xF0F0F0F0u, 0xF8F8F8F8u, 0xFFFFFFFFu};
#pragma unroll
    for (int r = 0; r < 4; r++) {
#pragma unroll
        for (int p = 0; p < 4; p++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                q[p][i] = high_bytes(even[p][i] * factor[r] + more[r], odd[p][i] * factor[r] + more[r]) & mask[r];
        multiply<false>(q, x, of[r]);
    }
    const unsigned char *scales = entry + CODES;
    int y[5][2];
#pragma unroll
    for (int h = 0; h < 2; h++) { // times 64, 64, 16, 8, 1
        y[0][h] = of[0][h] - 64 * x_sum;
        y[1][h] = 4 * of[1][h] - 3 * of[0][h] - 64 * x_sum;
        y[2][h] = 2 * of[2][h] - 3 * of[1][h] - 16 * x_sum;
        y[3][h] = 8 * of[3][h] - 3 * of[2][h] - 8 * x_sum;
        y[4][h] = of[4][h] - 3 * of[3][h] - x_sum;
    }
#pragma unroll
    for (int r = 0; r < 5; r++)
        add(sums, r, y[r][0], y[r][1], scales, lane);
}

// Turns x into digits: [digit][pitch], a k tile 128 bytes, [lane t][piece][half] of 4 k.
__device__ __forceinline__ void stage_x(const places &p, int k, int warp, int lane) {
    for (int q = (int)threadIdx.x; q < k / 4; q += THREADS) {
        uint2 x;
        const unsigned char *from = p.x + q * 8;
        x = *reinterpret_cast<const uint2 *>(from);
        unsigned digit[2][DIGITS];
        digits_of(x.x, digit[0]);
        digits_of(x.y, digit[1]);
        const int in = q % 32, to = q / 32 * 128 + (in % 4 * 8 + in / 8 * 2 + in / 4 % 2) * 4;
#pragma unroll
        for (int d = 0; d < DIGITS; d++)
            tern_shared_store_4(p.digits + d * p.pitch + to, tern_permute_bytes(digit[0][d], digit[1][d], 0x6420u));
    }
    __syncthreads();
    if (FORM != 85)
        return;
    for (int tile = warp; tile < k / 128; tile += WARPS) { // sums of the pair lane / 8 < 3, by 8 lanes of 16 bytes
        const unsigned char *low = p.digits + (lane / 8 < 3 ? lane / 8 : 2) * 2 * p.pitch + tile * 128 + lane % 8 * 16;
        const uint4 a = tern_shared_load_16(low), b = tern_shared_load_16(low + p.pitch);
        const unsigned words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        int sum[2] = {0, 0};
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[i / 4] += (int)(words[i] << (24 - 8 * e)) >> 24;
        int both = pair_of(sum[0], sum[1]);
#pragma unroll
        for (int away = 1; away < 8; away *= 2)
            both += __shfl_xor_sync(0xFFFFFFFFu, both, away);
        if (lane % 8 == 0)
            tern_shared_store_4(p.sums + tile * 4 + lane / 8, (unsigned)both);
    }
    __syncthreads();
}

__device__ __forceinline__ void copy_x(const tern_args &args, const places &p) {
    for (int i = (int)threadIdx.x; i < (int)args.k / 8; i += THREADS)
        tern_cp_async<16>(p.x + i * 16, (const unsigned char *)args.x + i * 16, true);
    tern_cp_async_commit();
}

__device__ __forceinline__ void fill(const places &p, const unsigned char *&from, int stage, int tiles, int warp, int lane) {
    unsigned char *to = p.ring + (warp * STAGES + stage) * (TILES * ENTRY);
    if (BULK) {
        void *barrier = p.barriers + (warp * STAGES + stage) * 8;
        if (lane == 0 && tiles > 0) {
            tern_barrier_arrive_expect(barrier, tiles * ENTRY);
            tern_bulk_copy(to, from, tiles * ENTRY, barrier);
        }
    } else {
#pragma unroll
        for (int i = 0; i < (TILES * ENTRY + 511) / 512; i++)
            tern_cp_async_if<16>(to + i * 512 + lane * 16, from + i * 512 + lane * 16, true,
                                 i * 512 + lane * 16 < tiles * ENTRY);
        tern_cp_async_commit();
    }
    from += tiles * ENTRY;
}

__device__ __forceinline__ void flush(float *slot, unit_sums &sums, int lane) {
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (lane % 4 < PAIRS)
                tern_shared_store_4(slot + (r * PAIRS + lane % 4) * SLOT_PITCH + lane / 4 + 8 * h,
                                    __float_as_uint(sums.at[r][h]));
            sums.at[r][h] = 0.0f;
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) base3_unit(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(dynamic);
    unsigned char *shared = tern_shared_kept(dynamic);
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const int k_tiles = (int)args.k / 128, all = ((int)args.n + 16 * R - 1) / (16 * R);
    const int even = all / (int)gridDim.x, rest = all % (int)gridDim.x, b = (int)blockIdx.x;
    const int first = b * even + (b < rest ? b : rest), units = even + (b < rest), most = even + (rest > 0);
    const int per_warp = (most + WARPS - 1) / WARPS + 1, line = units * k_tiles;
    places p;
    p.ring = shared;
    p.barriers = p.ring + WARPS * STAGES * TILES * ENTRY;
    p.x = p.barriers + WARPS * STAGES * 8;
    p.digits = p.x + (int)args.k * 2;
    p.pitch = (int)args.k + 16;
    p.sums = (int *)(p.digits + DIGITS * p.pitch);
    p.slots = (float *)(p.sums + 4 * k_tiles);
    if (!DEPENDENT)
        copy_x(args, p);
    const int begin = piece_begin(warp, line);
    int ahead = piece_begin(warp + 1, line) - begin, left = ahead;
    const unsigned char *from = (const unsigned char *)args.codes + ((long long)first * k_tiles + begin) * ENTRY;
    if (BULK && lane == 0)
        for (int i = 0; i < STAGES; i++)
            tern_barrier_init(p.barriers + (warp * STAGES + i) * 8, 1);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < STAGES; i++) {
        const int tiles = ahead < TILES ? ahead : TILES;
        fill(p, from, i, tiles, warp, lane);
        ahead -= tiles;
    }
    tern_dependency_wait();
    if (DEPENDENT)
        copy_x(args, p);
    tern_cp_async_wait<BULK || DEPENDENT ? 0 : STAGES>();
    __syncthreads();
    stage_x(p, (int)args.k, warp, lane);
    const int column = lane / 4 < DIGITS ? lane / 4 : DIGITS - 1;
    const unsigned char *x_at = p.digits + tern_kept(column * p.pitch + lane % 4 * 32);
    const int *sum_at = p.sums + (lane % 4 < PAIRS ? lane % 4 : PAIRS - 1);
    int unit = begin / k_tiles, k = begin - unit * k_tiles, stage = 0, parity = 0;
    float *slot = p.slots + warp * per_warp * SLOT_FLOATS;
    unit_sums sums = {};
#pragma unroll 1
    while (left > 0) {
        const unsigned char *entry = p.ring + (warp * STAGES + stage) * (TILES * ENTRY);
        const int tiles = left < TILES ? left : TILES;
        if (BULK)
            tern_barrier_wait(p.barriers + (warp * STAGES + stage) * 8, parity);
        else {
            tern_cp_async_wait<STAGES - 1>();
            __syncwarp();
        }
        left -= tiles;
#pragma unroll 1
        for (int j = 0; j < tiles; j++) {
            const uint4 low = tern_shared_load_16(x_at + k * 128), high = tern_shared_load_16(x_at + k * 128 + 16);
            const unsigned x[4][2] = {{low.x, low.y}, {low.z, low.w}, {high.x, high.y}, {high.z, high.w}};
            if (FORM == 2)
                unit_2(entry, x, lane, sums);
            else if constexpr (FORM == 53)
                unit_53(entry, x, lane, sums);
            else if constexpr (FORM == 85)
                unit_85(entry, x, (int)tern_shared_load_4(sum_at + k * 4), lane, sums);
            entry += ENTRY;
            if (++k == k_tiles) {
                flush(slot, sums, lane);
                slot += SLOT_FLOATS;
                k = 0;
            }
        }
        __syncwarp();
        const int next = ahead < TILES ? ahead : TILES;
        fill(p, from, stage, next, warp, lane);
        ahead -= next;
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
    if (k > 0 && piece_begin(warp + 1, line) > begin)
        flush(slot, sums, lane);
    __syncthreads();
    for (int row = (int)threadIdx.x; row < units * 16 * R; row += THREADS) {
        const int u = row / (16 * R), r = row / 16 % R, in = row % 16;
        float pairs[PAIRS] = {};
        for (int w = (int)((unsigned)(u * k_tiles * WARPS) / (unsigned)line); w < WARPS; w++) {
            const int w_begin = piece_begin(w, line), w_end = piece_begin(w + 1, line);
            if (w_begin >= (u + 1) * k_tiles)
                break;
            if (w_end <= u * k_tiles || w_end == w_begin)
                continue;
            const float *s = p.slots + (w * per_warp + u - w_begin / k_tiles) * SLOT_FLOATS + r * PAIRS * SLOT_PITCH + in;
#pragma unroll
            for (int i = 0; i < PAIRS; i++)
                pairs[i] += s[i * SLOT_PITCH];
        }
        constexpr float PAIR = 16384.0f;
        const float places_of[5] = {64.0f, 64.0f, 16.0f, 8.0f, 1.0f};
        const float unit_of = (FORM == 85 ? 1.0f / places_of[FORM == 85 ? r : 0] : -1.0f / 64.0f) / 16777216.0f;
        const long long n = (long long)(first + u) * (16 * R) + r * 16 + in;
        if (n < args.n)
            ((__half *)args.y)[n] = __float2half_rn(fmaf(fmaf(pairs[2], PAIR, pairs[1]), PAIR, pairs[0]) * unit_of);
    }
}
