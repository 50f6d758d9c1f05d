/* early: appended to examples/templates/naive/kernel.cu, whose decoder it uses. A right kernel, a thread for one column of y, with
 * one FAULT of a kernel that is launched before the one ahead has ended; launched plainly all of them are right. */
#include "tern/dependent.cuh"

enum fault {
    NONE,
    NEVER_WAITS,
    READS_BEFORE,  /* one value of x */
    CLEARS_BEFORE, /* its word of the workspace, to which it adds later */
    ONE_WAITS      /* and no barrier keeps the others back */
};

extern "C" __global__ void __launch_bounds__(THREADS) tern_early(const struct tern_args args) {
    const long long n = (long long)blockIdx.x * THREADS + threadIdx.x;
    const __half *x = static_cast<const __half *>(args.x);
    volatile float *word = static_cast<volatile float *>(args.workspace) + (n < args.n ? n : 0);
    const unsigned short first = FAULT == READS_BEFORE ? *static_cast<const volatile unsigned short *>(args.x) : 0;
    if (FAULT == CLEARS_BEFORE && n < args.n)
        *word = 0.0f;
    if (FAULT != NEVER_WAITS && (FAULT != ONE_WAITS || threadIdx.x == 0))
        tern_dependency_wait();
    if (n >= args.n)
        return;
    if (FAULT != CLEARS_BEFORE)
        *word = 0.0f;
    for (long long m = 0; m < args.m; m++) {
        float sum = *word;
        for (long long k = 0; k < args.k; k++) {
            const long long side = side_index(args, n, k / args.group_size);
            const int zero = HAS_ZEROS ? static_cast<const unsigned char *>(args.zeros)[side] : ZERO;
            const float scale = __half2float(static_cast<const __half *>(args.scales)[side]);
            const __half value = FAULT == READS_BEFORE && m == 0 && k == 0 ? __ushort_as_half(first) : x[m * args.k + k];
            sum = __fmaf_rn((float)((int)code_of(args, n, k) - zero) * scale, __half2float(value), sum);
        }
        if (args.bias)
            sum += __half2float(static_cast<const __half *>(args.bias)[n]);
        static_cast<__half *>(args.y)[m * args.n + n] = __float2half_rn(sum);
    }
}
