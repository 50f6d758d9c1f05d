/* bfloat16 for the emulator: __nv_bfloat16, __nv_bfloat162 and their intrinsics, each rounded once to nearest even.
 * Sums and products are taken in binary32 or binary64 with round-to-odd before the one rounding to 8 bits. */
#ifndef TERN_EMULATOR_CUDA_BF16_H
#define TERN_EMULATOR_CUDA_BF16_H

#include "cuda_fp16.h"

static inline float tern_emu_bf16_to_float(unsigned short b) {
    return __uint_as_float((unsigned)b << 16);
}
static inline unsigned short tern_emu_bf16_from_float(float value) {
    unsigned bits = __float_as_uint(value);
    if (value != value) {
        return 0x7FFFu;
    }
    return (unsigned short)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

struct alignas(2) __nv_bfloat16 {
    unsigned short __x;
    __nv_bfloat16() = default;
    __nv_bfloat16(float v) : __x(tern_emu_bf16_from_float(v)) {}
    operator float() const { return tern_emu_bf16_to_float(__x); }
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
    __nv_bfloat162() = default;
    __nv_bfloat162(const __nv_bfloat16 &a, const __nv_bfloat16 &b) : x(a), y(b) {}
};

static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short v) {
    __nv_bfloat16 r;
    r.__x = v;
    return r;
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) {
    return v.__x;
}
static inline float __bfloat162float(__nv_bfloat16 v) {
    return tern_emu_bf16_to_float(v.__x);
}
static inline __nv_bfloat16 __float2bfloat16(float v) {
    return __nv_bfloat16(v);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float v) {
    return __nv_bfloat16(v);
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
    return __nv_bfloat162(__nv_bfloat16(a), __nv_bfloat16(b));
}
static inline __nv_bfloat162 __float2bfloat162_rn(float a) {
    return __floats2bfloat162_rn(a, a);
}
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat162(a, b);
}
static inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) {
    return __nv_bfloat162(a, a);
}
static inline float2 __bfloat1622float2(__nv_bfloat162 a) {
    return float2{(float)a.x, (float)a.y};
}
static inline float __low2float(__nv_bfloat162 a) {
    return (float)a.x;
}
static inline float __high2float(__nv_bfloat162 a) {
    return (float)a.y;
}

/* A sum of two bf16 may need more bits than binary32 has; binary64 and round-to-odd give one rounding. */
static inline __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat16(tern_emu_odd(tern_emu_fma_odd((float)a, 1.0f, (float)b)));
}
static inline __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat16(tern_emu_odd(tern_emu_fma_odd((float)b, -1.0f, (float)a)));
}
static inline __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat16((float)a * (float)b);
}
static inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return __nv_bfloat16(tern_emu_odd(tern_emu_fma_odd((float)a, (float)b, (float)c)));
}
#define TERN_EMU_BF162(name, scalar)                                                                                        \
    static inline __nv_bfloat162 name(__nv_bfloat162 a, __nv_bfloat162 b) {                                                 \
        return __nv_bfloat162(scalar(a.x, b.x), scalar(a.y, b.y));                                                          \
    }
TERN_EMU_BF162(__hadd2, __hadd)
TERN_EMU_BF162(__hsub2, __hsub)
TERN_EMU_BF162(__hmul2, __hmul)
static inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
    return __nv_bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}

#endif
