// Checksum of device memory: a sum over 8-byte words of a mix of value and place, so that equal sums mean equal bytes but for one
// chance in 2^64, in whatever order threads add. Tells whether two results are bitwise the same and whether inputs were changed.
#include "kernels.h"

// The finaliser of SplitMix64 on word and index: each bit of either reaches every bit of the result.
static __device__ unsigned long long mix(unsigned long long word, unsigned long long index) {
    unsigned long long z = word + (index + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

extern "C" __global__ void __launch_bounds__(256) tern_checksum(tern_checksum_args a) {
    __shared__ unsigned long long block;
    if (threadIdx.x == 0)
        block = 0;
    __syncthreads();
    unsigned long long sum = 0;
    const long long stride = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += stride)
        sum += mix(a.data[i], (unsigned long long)i);
    atomicAdd(&block, sum);
    __syncthreads();
    if (threadIdx.x == 0)
        atomicAdd(a.sum, block);
}
