// Activations to int8 or e4m3, one scale a row (token): the prologue of templates with op linear-a8 or linear-e4m3. Owns
// nothing.
//
//   int8: scale = max|x| / 127, q = round(x * (127 / max|x|)), both quotients in binary32; the product is rounded once, to the
//   nearest integer, ties to even. q lies in -127 .. 127.
//   e4m3: the same with 448, but the product is rounded to binary32 and then to the nearest e4m3 number, ties to even.
//   A row of zeros has scale 0 and q 0. A row with Inf or NaN has scale NaN: all of its y become NaN; q means nothing then.
//
// Layout, TERN_X8_BYTES of the workspace, 1024-byte aligned: [k tile of 128][row, M rounded up to 8][128] bytes, in the order of
// k that s8_codes.cuh wants, 16-byte chunk c of row r at chunk c ^ (r % 8): a slice of rows is one piece of memory that the
// tensor cores can read as it is (wgmma.cuh). Behind it the scales, binary32, a row each. Rows past M hold anything, k past K
// zero.
#ifndef TERN_QUANTISE_X_CUH
#define TERN_QUANTISE_X_CUH

#include "tern/abi.h"
#include "tern/e4m3.cuh"
#include "tern/magnitude.cuh"
#include "tern/memory.cuh"
#include "tern/s8_codes.cuh"

struct tern_x8 {
    unsigned char *codes;
    float *scales;   // readable up to 256 rows past M
    long long pitch; // rows of a k tile
};

__device__ __forceinline__ tern_x8 tern_x8_of(const tern_args &args) {
    const long long pitch = (args.m + 7) / 8 * 8, tiles = (args.k + TERN_TILE_K - 1) / TERN_TILE_K;
    unsigned char *codes = static_cast<unsigned char *>(args.workspace);
    return {codes, reinterpret_cast<float *>(codes + tiles * pitch * TERN_TILE_K), pitch};
}

// What follows the quantised activations in the workspace.
__device__ __forceinline__ unsigned char *tern_x8_end(const tern_args &args) {
    return reinterpret_cast<unsigned char *>(tern_x8_of(args).scales) + ((args.m + 255) / 256 + 1) * 1024;
}

// The low bytes of four numbers.
__device__ __forceinline__ unsigned tern_low_bytes(const float (&v)[4]) {
    return tern_permute_bytes(tern_permute_bytes(__float_as_uint(v[0]), __float_as_uint(v[1]), 0x0040u),
                              tern_permute_bytes(__float_as_uint(v[2]), __float_as_uint(v[3]), 0x0040u), 0x5410u);
}

// Word i of lane j of a quad becomes word j of lane i. All lanes of the warp call.
__device__ __forceinline__ void tern_transpose_quad(unsigned (&w)[4], int lane) {
    const bool odd = lane & 1, high = lane & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const unsigned other = __shfl_xor_sync(0xFFFFFFFFu, odd ? w[i] : w[i + 1], 1);
        w[i] = odd ? other : w[i];
        w[i + 1] = odd ? w[i + 1] : other;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const unsigned other = __shfl_xor_sync(0xFFFFFFFFu, high ? w[i] : w[i + 2], 2);
        w[i] = high ? other : w[i];
        w[i + 2] = high ? w[i + 2] : other;
    }
}

// Two pieces of 8 k of a row: unit `unit` of k tile `tile`, lane t of the quad. Zero past K.
__device__ __forceinline__ void tern_load_unit(unsigned (&x)[8], const __half *row, long long k, long long tile, int unit,
                                               int t) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const long long at = tile * TERN_TILE_K + 32 * (unit + 2 * i) + 8 * t;
        uint4 piece = {0, 0, 0, 0};
        if (at < k)
            piece = *reinterpret_cast<const uint4 *>(row + at);
        x[4 * i] = piece.x;
        x[4 * i + 1] = piece.y;
        x[4 * i + 2] = piece.z;
        x[4 * i + 3] = piece.w;
    }
}

// Largest of the magnitudes and of those of a unit, two at a time.
__device__ __forceinline__ unsigned tern_unit_magnitudes(const unsigned (&x)[8], unsigned most) {
#pragma unroll
    for (int i = 0; i < 8; i++)
        most = tern_max_magnitudes(most, x[i] & 0x7FFF7FFFu);
    return most;
}

// Largest of all threads' magnitudes, as bits of binary16, in all threads of the block.
template <int THREADS> __device__ __forceinline__ unsigned tern_block_magnitude(unsigned most, int thread) {
    __shared__ unsigned found[THREADS / 32];
    most = tern_max_magnitudes(most, most >> 16) & 0xFFFF;
#pragma unroll
    for (int other = 16; other > 0; other /= 2) {
        const unsigned its = __shfl_xor_sync(0xFFFFFFFFu, most, other);
        most = its > most ? its : most;
    }
    if (thread % 32 == 0)
        found[thread / 32] = most;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < THREADS / 32; i++)
        most = found[i] > most ? found[i] : most;
    return most;
}

// The bytes of a unit's 16 numbers, as words in the order of s8_codes.cuh.
template <int E4M3, int BITS, bool MIXED>
__device__ __forceinline__ void tern_quantise_unit(const unsigned (&x)[8], float inverse, unsigned (&w)[4]) {
    float q[16];
#pragma unroll
    for (int i = 0; i < 16; i++) { // 1.5 * 2^23: what is added to it is rounded to an integer, its low byte is q
        const float2 pair = __half22float2(tern_as_half2(x[i / 2]));
        const float value = i % 2 ? pair.y : pair.x;
        q[i] = E4M3 ? __fmul_rn(value, inverse) : __fmaf_rn(value, inverse, 12582912.0f);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float of[4] = {q[tern_s8_source<BITS, MIXED>(i, 0)], q[tern_s8_source<BITS, MIXED>(i, 1)],
                             q[tern_s8_source<BITS, MIXED>(i, 2)], q[tern_s8_source<BITS, MIXED>(i, 3)]};
        w[i] = E4M3 ? tern_e4m3_pair(of[0], of[1]) | tern_e4m3_pair(of[2], of[3]) << 16 : tern_low_bytes(of);
    }
}

// A unit to bytes and to its place in row `m`. All lanes of the warp call.
template <int E4M3, int BITS, bool MIXED>
__device__ __forceinline__ void tern_store_unit(const unsigned (&x)[8], float inverse, const tern_x8 &to, long long m,
                                                long long tile, bool inside, int lane) {
    const int t = lane % 4, unit = lane / 4 % 2;
    unsigned w[4];
    tern_quantise_unit<E4M3, BITS, MIXED>(x, inverse, w);
    tern_transpose_quad(w, lane);
    const int chunk = 2 * tern_s8_step<MIXED>(unit, t) + t % 2; // of word t of the unit
    if (inside)
        *reinterpret_cast<uint4 *>(to.codes + (tile * to.pitch + m) * TERN_TILE_K + 16 * (chunk ^ (int)(m % 8))) =
            uint4{w[0], w[1], w[2], w[3]};
}

// Quantises row `m` of x, by all THREADS of a block. BITS, GROUP: of the weights that it will meet. A lane has one unit of every
// THREADS / 8 k tiles; the first of them stays in registers between the search for the largest magnitude and the conversion,
// which up to K = 16 * THREADS is the whole row.
template <int E4M3, int BITS, int GROUP, int THREADS>
__device__ __forceinline__ void tern_quantise_row(const tern_args &args, long long m) {
    constexpr bool MIXED = tern_s8_mixed<BITS, GROUP>;
    constexpr float MOST = E4M3 ? 448.0f : 127.0f; // the largest code
    const int thread = (int)threadIdx.x, lane = thread % 32, t = lane % 4, unit = lane / 4 % 2;
    const __half *row = static_cast<const __half *>(args.x) + m * args.k;
    const tern_x8 to = tern_x8_of(args);
    const long long tiles = (args.k + TERN_TILE_K - 1) / TERN_TILE_K;
    const long long own = 4 * (thread / 32) + lane / 8; // four tiles a warp
    unsigned first[8], x[8];
    tern_load_unit(first, row, args.k, own, unit, t);
    unsigned most = tern_unit_magnitudes(first, 0);
#pragma unroll 4
    for (long long tile = own + THREADS / 8; tile < tiles; tile += THREADS / 8) {
        tern_load_unit(x, row, args.k, tile, unit, t);
        most = tern_unit_magnitudes(x, most);
    }
    most = tern_block_magnitude<THREADS>(most, thread);
    const float largest = __half2float(__ushort_as_half((unsigned short)most));
    const float inverse = most > 0 ? __fdiv_rn(MOST, largest) : 0.0f;
    if (thread == 0)
        to.scales[m] = most < 0x7C00u ? __fdiv_rn(largest, MOST) : __uint_as_float(0x7FFFFFFFu);
    tern_store_unit<E4M3, BITS, MIXED>(first, inverse, to, m, own, own < tiles, lane);
#pragma unroll 2
    for (long long tile = own + THREADS / 8; tile - lane / 8 < tiles; tile += THREADS / 8) { // whole warps
        tern_load_unit(x, row, args.k, tile, unit, t);
        tern_store_unit<E4M3, BITS, MIXED>(x, inverse, to, m, tile, tile < tiles, lane);
    }
}

#endif
