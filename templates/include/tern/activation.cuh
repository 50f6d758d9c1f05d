// The type of x and y: binary16, or bfloat16 where the template argument BF16 is 1. Conversions and arithmetic on pairs of them
// in a register, low half first; each result is rounded once, to nearest even. Those of bfloat16 need compute capability 8.0.
// Plain PTX: the toolkit's bfloat16 header would cost every compile. Owns nothing.
#ifndef TERN_ACTIVATION_CUH
#define TERN_ACTIVATION_CUH

#ifdef TERN_EMULATOR
#include <cuda_bf16.h>
#endif
#include <cuda_fp16.h>

__device__ __forceinline__ __half2 tern_as_half2(unsigned bits) {
    return *reinterpret_cast<__half2 *>(&bits);
}
__device__ __forceinline__ unsigned tern_half2_bits(__half2 value) {
    return *reinterpret_cast<unsigned *>(&value);
}

#ifdef TERN_EMULATOR
static inline __nv_bfloat162 tern_emu_bf16_pair(unsigned bits) {
    return __nv_bfloat162(__ushort_as_bfloat16((unsigned short)bits), __ushort_as_bfloat16((unsigned short)(bits >> 16)));
}
static inline unsigned tern_emu_bf16_bits(__nv_bfloat162 value) {
    return (unsigned)value.y.__x << 16 | value.x.__x;
}
// One element as binary32, exact.
template <int BF16> static inline float tern_emu_16_to_float(unsigned short bits) {
    return BF16 ? tern_emu_bf16_to_float(bits) : tern_emu_half_to_float(bits);
}
#endif

template <int BF16> __device__ __forceinline__ unsigned tern_pair_round(float low, float high) {
    if constexpr (!BF16)
        return tern_half2_bits(__floats2half2_rn(low, high));
#ifdef TERN_EMULATOR
    return tern_emu_bf16_bits(__floats2bfloat162_rn(low, high));
#else
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#endif
}
template <int BF16> __device__ __forceinline__ unsigned short tern_value_round(float value) {
    if constexpr (!BF16)
        return __half_as_ushort(__float2half_rn(value));
    return (unsigned short)tern_pair_round<BF16>(value, 0.0f);
}

// Exact.
template <int BF16> __device__ __forceinline__ float2 tern_pair_floats(unsigned pair) {
    if constexpr (!BF16)
        return __half22float2(tern_as_half2(pair));
    return float2{__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u)};
}

// a * b + c.
template <int BF16> __device__ __forceinline__ unsigned tern_pair_fma(unsigned a, unsigned b, unsigned c) {
    if constexpr (!BF16)
        return tern_half2_bits(__hfma2(tern_as_half2(a), tern_as_half2(b), tern_as_half2(c)));
#ifdef TERN_EMULATOR
    return tern_emu_bf16_bits(__hfma2(tern_emu_bf16_pair(a), tern_emu_bf16_pair(b), tern_emu_bf16_pair(c)));
#else
    unsigned d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
#endif
}
template <int BF16> __device__ __forceinline__ unsigned tern_pair_mul(unsigned a, unsigned b) {
    if constexpr (!BF16)
        return tern_half2_bits(__hmul2(tern_as_half2(a), tern_as_half2(b)));
    return tern_pair_fma<BF16>(a, b, 0x80008000u); // -0: the product keeps its sign
}
template <int BF16> __device__ __forceinline__ unsigned tern_pair_add(unsigned a, unsigned b) {
    if constexpr (!BF16)
        return tern_half2_bits(__hadd2(tern_as_half2(a), tern_as_half2(b)));
    return tern_pair_fma<BF16>(a, 0x3F803F80u, b); // times 1
}

#endif
