// Comparison of 16-bit results with FP64 references under the bound of verify/reference.h, elementwise.
// Same rules as the host: tolerance = (rounding + of_ref) |ref| + subnormal + of_scale * scale; NaN fails; infinity is right
// only where the sum may overflow the type of y, with the sign of ref. Grid-stride, any grid; counts are joined a block at a
// time.
#include <cuda_fp16.h>

#include "kernels.h"

constexpr unsigned int INFINITE_BITS = 0x7f800000u;

// True if right; *ratio gets error / tolerance as binary32 bits, which order like the numbers since none is negative.
static __device__ bool element_is_right(const tern_compare_args &a, double got, double ref, double scale,
                                        unsigned int *ratio) {
    double slack = a.of_ref * fabs(ref) + a.of_scale * scale;
    *ratio = INFINITE_BITS;
    if (isinf(got)) {
        bool right = signbit(got) == signbit(ref) && fabs(ref) + slack >= a.overflow;
        if (right)
            *ratio = 0;
        return right;
    }
    double tolerance = a.rounding * fabs(ref) + a.subnormal + slack, error = fabs(got - ref);
    float quotient = (float)(error / tolerance);
    if (quotient >= 0.0f) // false for NaN, which stays infinite
        *ratio = __float_as_uint(quotient);
    return error <= tolerance && fabs(ref) - slack < a.overflow;
}

extern "C" __global__ void __launch_bounds__(256) tern_compare(tern_compare_args a) {
    __shared__ tern_compare_result block;
    if (threadIdx.x == 0)
        block = tern_compare_result{0, 0, ~0ull, 0, 0, 0};
    __syncthreads();
    unsigned long long mismatches = 0, checked = 0, poisoned = 0, first = ~0ull;
    unsigned int worst = 0;
    long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += stride) {
        unsigned int ratio;
        unsigned short bits = a.y[i];
        double got = (double)(a.bf16 ? __uint_as_float((unsigned int)bits << 16) : __half2float(__ushort_as_half(bits)));
        bool right = element_is_right(a, got, a.y_ref[i], (double)a.bound_scale[i], &ratio);
        checked++;
        poisoned += bits == 0xFFFF;
        worst = ratio > worst ? ratio : worst;
        if (right)
            continue;
        mismatches++;
        if (first == ~0ull)
            first = (unsigned long long)i;
    }
    atomicAdd(&block.mismatches, mismatches);
    atomicAdd(&block.checked, checked);
    atomicAdd(&block.poisoned, poisoned);
    atomicMin(&block.first, first);
    atomicMax(&block.worst_bits, worst);
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    atomicAdd(&a.result->mismatches, block.mismatches);
    atomicAdd(&a.result->checked, block.checked);
    atomicAdd(&a.result->poisoned, block.poisoned);
    atomicMin(&a.result->first, block.first);
    atomicMax(&a.result->worst_bits, block.worst_bits);
}
