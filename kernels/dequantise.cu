// Dequantise: packed weights in the layout frag16x128 (formats/layout.h) -> W[N][K] binary16 or bfloat16, for the dequantise + cuBLASLt
// baseline. (q - z) * scale is exact in binary32 and rounded once. One warp a tile of 16 x 128: 16-byte loads of codes,
// 16-byte stores of 8 weights a lane, in which 4 lanes cover 64 consecutive bytes of a row. Bounded by memory: writes 2
// bytes a weight. Built per format: TERN_BITS (2, 3, 4, 8), TERN_ASYM, TERN_ZERO; TERN_BF16 (0, 1). Written from the layout's description, not
// from the templates.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels.h"
#include "tern/abi.h"

constexpr int TILE_BYTES = TERN_BITS * 256;
constexpr int LOW_BITS = TERN_BITS == 3 ? 2 : TERN_BITS; // 3-bit codes are a plane of 2 bits and one of 1 bit
constexpr int LOW_WORDS = 2 * LOW_BITS;                  // 32-bit words a lane

// Code of (step, p), element e, from a plane of BITS bits: where formats/layout.h says that its word and slot are.
template <int BITS> static __device__ int field(const unsigned int *words, int step, int p, int e) {
    const int piece = step / 2, odd = step % 2;
    const int word = BITS == 8 ? 2 * step + p / 2 : BITS == 4 ? 4 * (piece / 2) + p : BITS == 2 ? p : p / 2;
    const int slot = BITS == 8   ? p % 2
                     : BITS == 4 ? piece % 2 + 2 * odd
                     : BITS == 2 ? piece + 4 * odd
                                 : p % 2 + 2 * piece + 8 * odd;
    return (int)(words[word] >> (16 * e + BITS * slot) & ((1u << BITS) - 1u));
}

static __device__ unsigned short rounded(float value) {
    return TERN_BF16 ? __bfloat16_as_ushort(__float2bfloat16_rn(value)) : __half_as_ushort(__float2half_rn(value));
}

struct lane_codes {
    unsigned int low[LOW_WORDS], high[2]; // high: the 1-bit plane of 3-bit codes
};

static __device__ int code(const lane_codes &c, int step, int p, int e) {
    int q = field<LOW_BITS>(c.low, step, p, e);
    if (TERN_BITS == 3)
        q |= field<1>(c.high, step, p, e) << 2;
    return q;
}

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
    const __half *scales = static_cast<const __half *>(a.scales);
    lane_codes c = load_codes(static_cast<const unsigned char *>(a.codes) + tile * TILE_BYTES, lane);
#pragma unroll
    for (int half_row = 0; half_row < 2; half_row++) {
        long long n = 16 * n_tile + g + 8 * half_row;
        if (n >= a.n)
            continue;
#pragma unroll
        for (int j = 0; j < 4; j++) { // 32 columns each, of one group: group sizes are multiples of 32
            long long k = k0 + 32 * j;
            if (k >= a.k)
                break;
            long long entry = ((n_tile * a.groups + k / a.group_size) * 8 + g) * 2 + half_row;
            float scale = __half2float(scales[entry]);
            int zero = TERN_ASYM ? (int)static_cast<const unsigned char *>(a.zeros)[entry] : TERN_ZERO;
            __align__(16) unsigned short w[8];
#pragma unroll
            for (int i = 0; i < 8; i++) { // column 8*t + i = 8*t + 4*(step % 2) + 2*(p / 2) + e
                int step = 2 * j + i / 4, p = i % 4 / 2 * 2 + half_row;
                w[i] = rounded((float)(code(c, step, p, i % 2) - zero) * scale);
            }
            *reinterpret_cast<uint4 *>(static_cast<unsigned short *>(a.y) + n * a.k + k + 8 * t) =
                *reinterpret_cast<uint4 *>(w);
        }
    }
}
