// Magnitudes of binary16 as integers: bits without signs are in the order of their values, Inf and NaN last. Owns nothing.
#ifndef TERN_MAGNITUDE_CUH
#define TERN_MAGNITUDE_CUH

// The larger of two pairs of magnitudes.
__device__ __forceinline__ unsigned tern_max_magnitudes(unsigned a, unsigned b) {
#ifdef TERN_EMULATOR
    const unsigned low = (a & 0xFFFF) > (b & 0xFFFF) ? a & 0xFFFF : b & 0xFFFF;
    return (a >> 16 > b >> 16 ? a >> 16 : b >> 16) << 16 | low;
#else
    return __vmaxu2(a, b);
#endif
}

#endif
