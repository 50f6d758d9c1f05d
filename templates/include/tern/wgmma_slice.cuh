// Descriptors of a slice of x (128 k, ROWS rows) for the products of all row blocks of a warpgroup: they are kept, and move from stage to stage
// of a ring in place. Owns nothing.
#ifndef TERN_WGMMA_SLICE_CUH
#define TERN_WGMMA_SLICE_CUH

#include "tern/pipeline.cuh"
#include "tern/wgmma.cuh"

template <int ROWS> struct tern_wgmma_slice {
    unsigned low[TERN_TILE_STEPS]; // words of the descriptors of its k-steps; 64 k further is the other half of the slice

    // Of the slice at `shared`, known to be uniform. The last term is 0, which the compiler does not know: else it drops the broadcast and
    // moves each descriptor alone.
    static __device__ __forceinline__ tern_wgmma_slice at(const void *shared) {
        const unsigned start = tern_uniform(tern_wgmma_start_address(shared) + (threadIdx.x >> 10));
        tern_wgmma_slice x;
#pragma unroll
        for (int s = 0; s < TERN_TILE_STEPS; s++)
            x.low[s] = tern_wgmma_descriptor_low(start + (unsigned)(s / 4 * (ROWS * 8) + s % 4 * 2));
        return x;
    }
    // By `stages`, of slices that follow each other.
    __device__ __forceinline__ void move(int stages) {
#pragma unroll
        for (int s = 0; s < TERN_TILE_STEPS; s++)
            low[s] += (unsigned)(stages * (ROWS * TERN_TILE_K / 8));
    }
};

#endif
