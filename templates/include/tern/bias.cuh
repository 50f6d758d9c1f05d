// The bias of a layer, added to the fp32 sum ahead of its one rounding. Owns nothing.
#ifndef TERN_BIAS_CUH
#define TERN_BIAS_CUH

#include "tern/abi.h"
#include "tern/activation.cuh"

// Of row n of W, n < N; 0 in a layer without one.
template <int BF16> __device__ __forceinline__ float tern_bias_of(const tern_args &args, long long n) {
    return args.bias ? tern_pair_floats<BF16>(static_cast<const unsigned short *>(args.bias)[n]).x : 0.0f;
}
// Of rows n and n + 8, the two of a lane in a 16-row fragment; 0 for rows that do not exist.
template <int BF16> __device__ __forceinline__ float2 tern_bias_of_rows(const tern_args &args, long long n) {
    return {n < args.n ? tern_bias_of<BF16>(args, n) : 0.0f, n + 8 < args.n ? tern_bias_of<BF16>(args, n + 8) : 0.0f};
}

#endif
