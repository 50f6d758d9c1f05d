// Quantise: x [M][K] binary16 -> e4m3, and a scale for each row, for the dequantise + cuBLASLt FP8 baseline of op linear-e4m3. scale =
// max|x| / 448, code = x * (448 / max|x|), rounded to binary32 and then to the nearest e4m3 number, ties to even; a row with Inf or
// NaN has scale NaN (verify/quantise.h). Both go to the workspace: [M][K] codes, then the scales, [ceil(K/128)][M], equal all along a row of
// x. One block a row, which it reads twice. Bounded by memory. K a multiple of 32. Written from the definition, not from the
// templates.
#include <cuda_fp16.h>

#include "kernels.h"
#include "tern/abi.h"
#include "tern/e4m3.cuh"

static __device__ unsigned int larger(unsigned int a, unsigned int b) {
    return a > b ? a : b;
}

// The larger of two magnitudes of binary16, which are in the order of their bits, NaN last.
static __device__ unsigned int largest_of(uint4 x, unsigned int most) {
    const unsigned int words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        most = larger(larger(words[i] & 0x7FFFu, words[i] >> 16 & 0x7FFFu), most);
    return most;
}

// Two numbers times the inverse of the scale.
static __device__ unsigned int pair(unsigned int x, float inverse) {
    const float low = __half2float(__ushort_as_half((unsigned short)(x & 0xFFFFu)));
    const float high = __half2float(__ushort_as_half((unsigned short)(x >> 16)));
    return tern_e4m3_pair(__fmul_rn(low, inverse), __fmul_rn(high, inverse));
}

extern "C" __global__ void __launch_bounds__(TERN_QUANTISE_THREADS) tern_quantise(tern_args a) {
    __shared__ unsigned int found[TERN_QUANTISE_THREADS / 32];
    const long long m = blockIdx.x, eights = a.k / 8;
    const uint4 *x = reinterpret_cast<const uint4 *>(static_cast<const unsigned char *>(a.x) + 2 * m * a.k);
    uint2 *codes = reinterpret_cast<uint2 *>(static_cast<unsigned char *>(a.workspace) + m * a.k);
    float *scales = reinterpret_cast<float *>(static_cast<unsigned char *>(a.workspace) + TERN_E4M3_SCALES_AT(a.m, a.k));
    unsigned int most = 0;
    for (long long i = threadIdx.x; i < eights; i += TERN_QUANTISE_THREADS)
        most = largest_of(x[i], most);
    for (int other = 16; other > 0; other /= 2)
        most = larger(most, __shfl_xor_sync(0xFFFFFFFFu, most, other));
    if (threadIdx.x % 32 == 0)
        found[threadIdx.x / 32] = most;
    __syncthreads();
    for (int i = 0; i < TERN_QUANTISE_THREADS / 32; i++)
        most = larger(most, found[i]);
    const float largest = __half2float(__ushort_as_half((unsigned short)most));
    const float inverse = most > 0 ? __fdiv_rn(448.0f, largest) : 0.0f;
    const float scale = most < 0x7C00u ? __fdiv_rn(largest, 448.0f) : __uint_as_float(0x7FFFFFFFu);
    for (long long i = threadIdx.x; i < (a.k + 127) / 128; i += TERN_QUANTISE_THREADS)
        scales[i * a.m + m] = scale;
    for (long long i = threadIdx.x; i < eights; i += TERN_QUANTISE_THREADS) {
        const uint4 v = x[i];
        codes[i] = make_uint2(pair(v.x, inverse) | pair(v.y, inverse) << 16, pair(v.z, inverse) | pair(v.w, inverse) << 16);
    }
}
