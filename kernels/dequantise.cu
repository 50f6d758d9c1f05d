// Dequantise: packed weights in the layout frag16x128 (formats/layout.h) -> W[N][K] binary16 or bfloat16, for the dequantise + cuBLASLt
// baseline, (q - z) * scale rounded once. Or, where a scale spans 128 k or more, q - z as e4m3 (exact up to 4
// bits), and behind it the scales in binary32, [ceil(K/128)][N]. One warp a tile of 16 x 128: 16-byte loads of codes,
// stores of 8 weights a lane, in which 4 lanes cover 32 consecutive weights of a row. Bounded by memory: writes 2 bytes a weight, or 1.
// Built per format: TERN_BITS (2, 3, 4, 8), TERN_ASYM, TERN_ZERO; TERN_BF16, TERN_E4M3 (0, 1). Written from the layout's
// description, not from the templates.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels.h"
#include "tern/abi.h"

constexpr int TILE_BYTES = TERN_BITS * 256;
constexpr int LOW_BITS = TERN_BITS == 3 ? 2 : TERN_BITS; // 3-bit codes are a plane of 2 bits and one of 1 bit
constexpr int LOW_WORDS = 2 * LOW_BITS;                  // 32-bit words a lane

// Codes of (step, p), elements 0 and 1 in the halves of a word, from a plane of BITS bits: where formats/layout.h says that their word
// and slot are.
template <int BITS> static __device__ unsigned int fields(const unsigned int *words, int step, int p) {
    const int piece = step / 2, odd = step % 2;
    const int word = BITS == 8 ? 2 * step + p / 2 : BITS == 4 ? 4 * (piece / 2) + p : BITS == 2 ? p : p / 2;
    const int slot = BITS == 8   ? p % 2
                     : BITS == 4 ? piece % 2 + 2 * odd
                     : BITS == 2 ? piece + 4 * odd
                                 : p % 2 + 2 * piece + 8 * odd;
    return words[word] >> BITS * slot & ((1u << BITS) - 1u) * 0x00010001u;
}

struct lane_codes {
    unsigned int low[LOW_WORDS], high[2]; // high: the 1-bit plane of 3-bit codes
};

// Of row g (half_row 0) or g + 8: columns 8*t + 2*i and the next of piece j, whose columns are 8*t + 4*(step % 2) + 2*(p / 2) + e.
static __device__ unsigned int two_codes(const lane_codes &c, int j, int i, int half_row) {
    const int step = 2 * j + i / 2, p = i % 2 * 2 + half_row;
    const unsigned int low = fields<LOW_BITS>(c.low, step, p);
    return TERN_BITS == 3 ? low | fields<1>(c.high, step, p) << 2 : low;
}

#if TERN_E4M3
typedef unsigned char weight;

// q - z as e4m3, a byte each, of integers from -16 to 16: below 8 looked up by magnitude, from there on 0x48 and the magnitude.
static __device__ unsigned int four_e4m3(unsigned int q, int zero) {
    const unsigned int v = ((q | 0x80808080u) - (unsigned int)zero * 0x01010101u) ^ 0x80808080u;
    const unsigned int minus = v >> 7 & 0x01010101u, magnitude = (v ^ minus * 0xFFu) + minus;
    const unsigned int low = magnitude & 0x07070707u, pairs = low | low >> 4; // two selectors in bytes 0 and 2
    const unsigned int small = __byte_perm(0x44403800u, 0x4E4C4A48u, (pairs & 0x77u) | (pairs >> 8 & 0x7700u));
    const unsigned int large = ((magnitude >> 3 | magnitude >> 4) & 0x01010101u) * 0xFFu;
    return (small & ~large) | ((magnitude + 0x48484848u) & large) | minus << 7;
}

static __device__ void store_eight(weight *to, const lane_codes &c, int j, int half_row, int zero, float) {
    unsigned int w[2];
#pragma unroll
    for (int i = 0; i < 2; i++)
        w[i] = four_e4m3(
            __byte_perm(two_codes(c, j, 2 * i, half_row), two_codes(c, j, 2 * i + 1, half_row), 0x6420), zero);
    *reinterpret_cast<uint2 *>(to) = make_uint2(w[0], w[1]);
}
#else
typedef unsigned short weight;

static __device__ unsigned int rounded(unsigned int q, int zero, float scale) {
    return __bfloat16_as_ushort(__float2bfloat16_rn((float)((int)q - zero) * scale)); // the product is exact in binary32
}

// Two of them. In binary16 1024 and q have the bits 0x6400 | q; less 1024 + z that is q - z, exactly.
static __device__ unsigned int two_weights(unsigned int q, int zero, float scale) {
    if (TERN_BF16)
        return rounded(q & 0xFFFFu, zero, scale) | rounded(q >> 16, zero, scale) << 16;
    const unsigned int sum = q | 0x64006400u, less = 0x64006400u + (unsigned int)zero * 0x00010001u;
    const __half2 w = __hmul2(__hsub2(*reinterpret_cast<const __half2 *>(&sum), *reinterpret_cast<const __half2 *>(&less)),
                              __half2half2(__float2half_rn(scale)));
    return *reinterpret_cast<const unsigned int *>(&w);
}

// Streaming stores: on an H200 37888 x 3584 takes 85 us with them and 133 without.
static __device__ void store_eight(weight *to, const lane_codes &c, int j, int half_row, int zero, float scale) {
    unsigned int w[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        w[i] = two_weights(two_codes(c, j, i, half_row), zero, scale);
    __stcs(reinterpret_cast<uint4 *>(to), make_uint4(w[0], w[1], w[2], w[3]));
}
#endif

static __device__ lane_codes load_codes(const unsigned char *tile, int lane) {
    lane_codes c = {};
#pragma unroll
    for (int chunk = 0; chunk < LOW_WORDS / 4; chunk++) {
        uint4 v = *reinterpret_cast<const uint4 *>(tile + chunk * 512 + lane * 16);
        c.low[4 * chunk] = v.x;
        c.low[4 * chunk + 1] = v.y;
        c.low[4 * chunk + 2] = v.z;
        c.low[4 * chunk + 3] = v.w;
    }
    if (TERN_BITS == 3) {
        uint2 v = *reinterpret_cast<const uint2 *>(tile + LOW_WORDS / 4 * 512 + lane * 8);
        c.high[0] = v.x;
        c.high[1] = v.y;
    }
    return c;
}

extern "C" __global__ void __launch_bounds__(32 * TERN_DEQUANTISE_WARPS) tern_dequantise(tern_args a) {
    long long k_tiles = (a.k + 127) / 128, tiles = (a.n + 15) / 16 * k_tiles;
    long long tile = (long long)blockIdx.x * TERN_DEQUANTISE_WARPS + threadIdx.x / 32;
    if (tile >= tiles)
        return;
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    long long n_tile = tile / k_tiles, k0 = tile % k_tiles * 128;
    float *scales_out = reinterpret_cast<float *>(static_cast<unsigned char *>(a.y) + TERN_E4M3_SCALES_AT(a.n, a.k));
    lane_codes c = load_codes(static_cast<const unsigned char *>(a.codes) + tile * TILE_BYTES, lane);
    float2 scales[4]; // of rows g and g + 8, for 32 columns each: group sizes are multiples of 32
    unsigned int zeros[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const unsigned int k = (unsigned int)k0 + 32 * j, inside = k < a.k ? k : (unsigned int)k0;
        const long long pair = (n_tile * a.groups + inside / (unsigned int)a.group_size) * 8 + g;
        scales[j] = __half22float2(static_cast<const __half2 *>(a.scales)[pair]);
        zeros[j] = TERN_ASYM ? static_cast<const unsigned short *>(a.zeros)[pair] : TERN_ZERO * 0x0101;
    }
#pragma unroll
    for (int half_row = 0; half_row < 2; half_row++) { // a row's 128 columns one after the other
        const long long n = 16 * n_tile + g + 8 * half_row;
        weight *to = static_cast<weight *>(a.y) + n * a.k + k0 + 8 * t;
        if (n >= a.n)
            break;
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (k0 + 32 * j < a.k)
                store_eight(to + 32 * j, c, j, half_row, (int)(zeros[j] >> 8 * half_row & 0xFFu),
                            half_row ? scales[j].y : scales[j].x);
        if (TERN_E4M3 && t == 0)
            scales_out[k0 / 128 * a.n + n] = half_row ? scales[0].y : scales[0].x;
    }
}
