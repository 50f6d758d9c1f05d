// The largest scale of each row of W, for kernels that count the row's group scales in units of it. Owns nothing.
#ifndef TERN_ROW_SCALES_CUH
#define TERN_ROW_SCALES_CUH

#include "tern/abi.h"
#include "tern/dequant.cuh"

// Bytes of the result for N rows, a multiple of 256: binary32 in the order of a group of scales, tile by tile.
__device__ __forceinline__ long long tern_largest_bytes(long long n) {
    return (n + 63) / 64 * 256;
}

// Largest magnitudes of the 16 rows of tile `tile`; a warp calls, tiles past the end are passed over. Scales lie in layout
// frag16x128: [tile][group][8 pairs (row g, row g + 8)].
__device__ __forceinline__ void tern_largest_scales(const tern_args &args, float *largest, long long tile, int lane) {
    const __half2 *scales = static_cast<const __half2 *>(args.scales) + tile * args.groups * 8;
    float2 most = {0.0f, 0.0f};
    if (tile >= (args.n + 15) / 16)
        return;
    for (long long i = lane; i < 8 * args.groups; i += 32) {
        const float2 pair = __half22float2(scales[i]);
        most = {fmaxf(most.x, fabsf(pair.x)), fmaxf(most.y, fabsf(pair.y))};
    }
#pragma unroll
    for (int other = 8; other < 32; other *= 2) { // lanes of one pair of rows
        most.x = fmaxf(most.x, __shfl_xor_sync(0xFFFFFFFFu, most.x, other));
        most.y = fmaxf(most.y, __shfl_xor_sync(0xFFFFFFFFu, most.y, other));
    }
    if (lane < 8)
        reinterpret_cast<float2 *>(largest)[8 * tile + lane] = most;
}

#endif
