// Magnitudes of binary16 and bfloat16 as integers: bits without signs are in the order of their values, Inf and NaN last. Owns nothing.
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

// The same of two pairs with signs: one instruction for three where this is done in turn. Compute capability 8.0.
template <int BF16> __device__ __forceinline__ unsigned tern_max_absolute(unsigned a, unsigned b) {
#ifdef TERN_EMULATOR
    return tern_max_magnitudes(a & 0x7FFF7FFFu, b & 0x7FFF7FFFu);
#else
    unsigned most;
    if constexpr (BF16)
        asm("{\n.reg .b32 p, q;\nabs.bf16x2 p, %1;\nabs.bf16x2 q, %2;\nmax.NaN.bf16x2 %0, p, q;\n}"
            : "=r"(most)
            : "r"(a), "r"(b));
    else
        asm("{\n.reg .b32 p, q;\nabs.f16x2 p, %1;\nabs.f16x2 q, %2;\nmax.NaN.f16x2 %0, p, q;\n}"
            : "=r"(most)
            : "r"(a), "r"(b));
    return most;
#endif
}

#endif
