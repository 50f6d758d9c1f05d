// Reference GEMM: y[M,N] = x[M,K] * W[N,K]^T in FP64 from canonical weights, with sum |x*w| for the error bound.
// W[n][k] = scale[k / group_size][n] * (q[n][k] - z). A product of 16-bit numbers and an integer of 9 bits is exact in binary64.
// Integers in the place of x and of scales have their units, which y gets.
// Tile 64 x 64 outputs, 16 along k, in shared memory as doubles and as floats (for the bound); 4 x 4 outputs a thread.
// Bounded by the FP64 pipe: M = 8192 of gate_up (1.1e12 products) should take a few tenths of a second on an H200.
// Independent of templates/ and of the packed layouts.
#include <cuda_fp16.h>

#include "kernels.h"

constexpr int TILE = 64, STEP = 16, THREADS = 256, PER_THREAD = 4;

__shared__ double xs[STEP][TILE + 1], ws[STEP][TILE + 1];
__shared__ float xs_abs[STEP][TILE + 1], ws_abs[STEP][TILE + 1];

// Each thread brings 4 neighbours along k of one row; what lies outside counts as zero.
static __device__ void load_x(const tern_reference_args &a, long long row0, long long k0) {
    const unsigned short *x = static_cast<const unsigned short *>(a.x);
    int row = threadIdx.x / 4, first = threadIdx.x % 4 * 4;
    for (int i = 0; i < 4; i++) {
        long long m = row0 + row, k = k0 + first + i;
        unsigned short bits = m < a.m && k < a.k ? x[m * a.k + k] : 0;
        double value =
            a.bf16 ? (double)__uint_as_float((unsigned int)bits << 16) : (double)__half2float(__ushort_as_half(bits));
        xs[first + i][row] = value;
        xs_abs[first + i][row] = fabsf((float)value);
    }
}

// The 16 columns lie in one group: group sizes are multiples of 16.
static __device__ void load_w(const tern_reference_args &a, long long row0, long long k0) {
    const __half *scales = static_cast<const __half *>(a.scales);
    int row = threadIdx.x / 4, first = threadIdx.x % 4 * 4, zero = a.zero;
    long long n = row0 + row, entry = k0 / a.group_size * a.n + n;
    double scale = n < a.n ? (double)__half2float(scales[entry]) : 0.0;
    if (a.zeros && n < a.n)
        zero = a.zeros[entry];
    for (int i = 0; i < 4; i++) {
        long long k = k0 + first + i;
        double value = n < a.n && k < a.k ? scale * (double)((int)a.codes[n * a.k + k] - zero) : 0.0;
        ws[first + i][row] = value;
        ws_abs[first + i][row] = fabsf((float)value);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) tern_reference(tern_reference_args a) {
    long long n0 = (long long)blockIdx.x * TILE, m0 = (long long)blockIdx.y * TILE;
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    double sum[PER_THREAD][PER_THREAD] = {};
    float bound[PER_THREAD][PER_THREAD] = {};
    for (long long k0 = 0; k0 < a.k; k0 += STEP) {
        load_x(a, m0, k0);
        load_w(a, n0, k0);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < STEP; k++) {
#pragma unroll
            for (int i = 0; i < PER_THREAD; i++) {
                double x = xs[k][ty + 16 * i];
                float x_abs = xs_abs[k][ty + 16 * i];
#pragma unroll
                for (int j = 0; j < PER_THREAD; j++) {
                    sum[i][j] = fma(x, ws[k][tx + 16 * j], sum[i][j]);
                    bound[i][j] = fmaf(x_abs, ws_abs[k][tx + 16 * j], bound[i][j]);
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < PER_THREAD; i++)
        for (int j = 0; j < PER_THREAD; j++) {
            long long m = m0 + ty + 16 * i, n = n0 + tx + 16 * j;
            if (m < a.m && n < a.n) {
                double unit = (a.x_units ? (double)a.x_units[m] : 1.0) * (a.w_units ? (double)a.w_units[n] : 1.0);
                a.y_ref[m * a.n + n] = sum[i][j] * unit;
                a.bound_scale[m * a.n + n] = (float)(bound[i][j] * unit);
            }
        }
}
