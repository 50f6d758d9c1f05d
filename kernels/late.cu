// The kernel ahead of a dependent launch that is checked: lets it start at once and writes what it reads at the very end.
#include "kernels.h"

extern "C" __global__ void __launch_bounds__(256) tern_late(const tern_late_args a) {
#if !defined(TERN_EMULATOR) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while ((long long)(now - start) < a.wait_ns);
#endif
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x, stride = (long long)gridDim.x * blockDim.x;
    for (int r = 0; r < TERN_LATE_RANGES; r++)
        for (long long i = first; i < a.ranges[r].words; i += stride)
            a.ranges[r].to[i] = a.ranges[r].from ? a.ranges[r].from[i] : a.ranges[r].word;
}
