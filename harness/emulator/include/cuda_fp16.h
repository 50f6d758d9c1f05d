/* binary16 for the emulator: __half, __half2 and their intrinsics, each rounded once to nearest even.
 * Sums and products of two halves are exact enough in binary32 for one later rounding to be right (24 >= 2*11 + 2); the
 * fused multiply-add goes through binary64 with round-to-odd. The toolkit's header gives host code only part of these. */
#ifndef TERN_EMULATOR_CUDA_FP16_H
#define TERN_EMULATOR_CUDA_FP16_H

struct __half_raw {
    unsigned short x;
};
struct __half2_raw {
    unsigned short x, y;
};

/* Exact. */
static inline float tern_emu_half_to_float(unsigned short h) {
    unsigned sign = (unsigned)(h & 0x8000u) << 16, rest = h & 0x7FFFu;
    if (rest >= 0x7C00u) { /* Inf and NaN */
        return __uint_as_float(sign | 0x7F800000u | rest << 13);
    }
    return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest << 13) * 0x1p112f));
}
/* One rounding, to nearest even. */
static inline unsigned short tern_emu_half_from_float(float value) {
    unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
    if (rest > 0x7F800000u) {
        return 0x7FFFu; /* the device's canonical NaN */
    }
    if (rest >= 0x477FF000u) { /* rounds to 65536 or more */
        return (unsigned short)(sign | 0x7C00u);
    }
    if (rest < 0x38800000u) { /* below 2^-14: the sum's last bit weighs 2^-24 */
        unsigned sum = __float_as_uint(__uint_as_float(rest) + 0.5f);
        return (unsigned short)(sign | (sum - 0x3F000000u));
    }
    rest += 0xFFFu + (rest >> 13 & 1u);
    return (unsigned short)(sign | ((rest - 0x38000000u) >> 13));
}
/* From a binary64: round to odd into binary32 first, so that the second rounding is the only one that counts. */
static inline float tern_emu_odd(double value) {
    float near = (float)value;
    if (value != value || near - near != 0.0f || (double)near == value) {
        return near;
    }
    unsigned bits = __float_as_uint(near);
    bool too_far = __builtin_fabs((double)near) > __builtin_fabs(value); /* then near is not zero */
    bits = (too_far ? bits - 1u : bits) | 1u;
    return __uint_as_float(bits);
}
/* a*b + c rounded once to odd in binary64; the product is exact there. */
static inline double tern_emu_fma_odd(float a, float b, float c) {
    double p = (double)a * (double)b, s = p + (double)c;
    double back = s - p, error = (p - (s - back)) + ((double)c - back); /* TwoSum, Knuth */
    if (!(error != 0.0) || s - s != 0.0) {
        return s;
    }
    uint64_t bits = tern_emu_bits<uint64_t>(s);
    if (!(bits & 1u)) {
        bits += (error > 0.0) == (s > 0.0) ? 1u : (uint64_t)-1;
    }
    return tern_emu_bits<double>(bits);
}

struct alignas(2) __half {
    unsigned short __x;
    __half() = default;
    __half(const __half_raw &raw) : __x(raw.x) {}
    __half(float v) : __x(tern_emu_half_from_float(v)) {}
    __half(double v) : __x(tern_emu_half_from_float(tern_emu_odd(v))) {}
    __half(int v) : __x(tern_emu_half_from_float(tern_emu_odd(v))) {}
    __half(unsigned v) : __x(tern_emu_half_from_float(tern_emu_odd(v))) {}
    operator float() const { return tern_emu_half_to_float(__x); }
    operator __half_raw() const { return __half_raw{__x}; }
};
struct alignas(4) __half2 {
    __half x, y;
    __half2() = default;
    __half2(const __half &a, const __half &b) : x(a), y(b) {}
    __half2(const __half2_raw &raw) : x(__half_raw{raw.x}), y(__half_raw{raw.y}) {}
};
typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

/* ---- conversions
 * -------------------------------------------------------------------------------------------------------------- */
static inline __half __ushort_as_half(unsigned short v) {
    return __half(__half_raw{v});
}
static inline __half __short_as_half(short v) {
    return __half(__half_raw{(unsigned short)v});
}
static inline unsigned short __half_as_ushort(__half v) {
    return v.__x;
}
static inline short __half_as_short(__half v) {
    return (short)v.__x;
}
static inline float __half2float(__half v) {
    return tern_emu_half_to_float(v.__x);
}
static inline __half __float2half_rn(float v) {
    return __half(v);
}
static inline __half __float2half(float v) {
    return __half(v);
}
static inline __half __double2half(double v) {
    return __half(v);
}
static inline __half __int2half_rn(int v) {
    return __half(v);
}
static inline __half __uint2half_rn(unsigned v) {
    return __half(v);
}
static inline __half __short2half_rn(short v) {
    return __half((int)v);
}
static inline __half __ushort2half_rn(unsigned short v) {
    return __half((int)v);
}
static inline int __half2int_rn(__half v) {
    return __float2int_rn(__half2float(v));
}
static inline int __half2int_rz(__half v) {
    return __float2int_rz(__half2float(v));
}
static inline __half2 __halves2half2(__half a, __half b) {
    return __half2(a, b);
}
static inline __half2 make_half2(__half a, __half b) {
    return __half2(a, b);
}
static inline __half2 __half2half2(__half a) {
    return __half2(a, a);
}
static inline __half2 __float2half2_rn(float a) {
    return __half2(__half(a), __half(a));
}
static inline __half2 __floats2half2_rn(float a, float b) {
    return __half2(__half(a), __half(b));
}
static inline __half2 __float22half2_rn(float2 a) {
    return __half2(__half(a.x), __half(a.y));
}
static inline float2 __half22float2(__half2 a) {
    return float2{__half2float(a.x), __half2float(a.y)};
}
static inline float __low2float(__half2 a) {
    return __half2float(a.x);
}
static inline float __high2float(__half2 a) {
    return __half2float(a.y);
}
static inline __half __low2half(__half2 a) {
    return a.x;
}
static inline __half __high2half(__half2 a) {
    return a.y;
}
static inline __half2 __low2half2(__half2 a) {
    return __half2(a.x, a.x);
}
static inline __half2 __high2half2(__half2 a) {
    return __half2(a.y, a.y);
}
static inline __half2 __lows2half2(__half2 a, __half2 b) {
    return __half2(a.x, b.x);
}
static inline __half2 __highs2half2(__half2 a, __half2 b) {
    return __half2(a.y, b.y);
}
static inline __half2 __lowhigh2highlow(__half2 a) {
    return __half2(a.y, a.x);
}

/* ---- arithmetic
 * --------------------------------------------------------------------------------------------------------------- */
static inline __half __hadd(__half a, __half b) {
    return __half(__half2float(a) + __half2float(b));
}
static inline __half __hsub(__half a, __half b) {
    return __half(__half2float(a) - __half2float(b));
}
static inline __half __hmul(__half a, __half b) {
    return __half(__half2float(a) * __half2float(b));
}
static inline __half __hdiv(__half a, __half b) {
    return __half(__half2float(a) / __half2float(b));
}
static inline __half __hfma(__half a, __half b, __half c) {
    return __half(tern_emu_odd(tern_emu_fma_odd(__half2float(a), __half2float(b), __half2float(c))));
}
static inline __half __hneg(__half a) {
    return __ushort_as_half((unsigned short)(a.__x ^ 0x8000u));
}
static inline __half __habs(__half a) {
    return __ushort_as_half((unsigned short)(a.__x & 0x7FFFu));
}
static inline __half __hmax(__half a, __half b) {
    return __half(fmaxf(__half2float(a), __half2float(b)));
}
static inline __half __hmin(__half a, __half b) {
    return __half(fminf(__half2float(a), __half2float(b)));
}
static inline bool __heq(__half a, __half b) {
    return __half2float(a) == __half2float(b);
}
static inline bool __hne(__half a, __half b) {
    return __half2float(a) != __half2float(b);
}
static inline bool __hlt(__half a, __half b) {
    return __half2float(a) < __half2float(b);
}
static inline bool __hle(__half a, __half b) {
    return __half2float(a) <= __half2float(b);
}
static inline bool __hgt(__half a, __half b) {
    return __half2float(a) > __half2float(b);
}
static inline bool __hge(__half a, __half b) {
    return __half2float(a) >= __half2float(b);
}
static inline bool __hisnan(__half a) {
    return (a.__x & 0x7FFFu) > 0x7C00u;
}

#define TERN_EMU_HALF2(name, scalar)                                                                                        \
    static inline __half2 name(__half2 a, __half2 b) {                                                                      \
        return __half2(scalar(a.x, b.x), scalar(a.y, b.y));                                                                 \
    }
TERN_EMU_HALF2(__hadd2, __hadd)
TERN_EMU_HALF2(__hsub2, __hsub)
TERN_EMU_HALF2(__hmul2, __hmul)
TERN_EMU_HALF2(__h2div, __hdiv)
TERN_EMU_HALF2(__hmax2, __hmax)
TERN_EMU_HALF2(__hmin2, __hmin)
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
static inline __half2 __hneg2(__half2 a) {
    return __half2(__hneg(a.x), __hneg(a.y));
}
static inline __half2 __habs2(__half2 a) {
    return __half2(__habs(a.x), __habs(a.y));
}

static inline __half operator+(__half a, __half b) {
    return __hadd(a, b);
}
static inline __half operator-(__half a, __half b) {
    return __hsub(a, b);
}
static inline __half operator*(__half a, __half b) {
    return __hmul(a, b);
}
static inline __half operator/(__half a, __half b) {
    return __hdiv(a, b);
}
static inline __half operator-(__half a) {
    return __hneg(a);
}
static inline __half2 operator+(__half2 a, __half2 b) {
    return __hadd2(a, b);
}
static inline __half2 operator-(__half2 a, __half2 b) {
    return __hsub2(a, b);
}
static inline __half2 operator*(__half2 a, __half2 b) {
    return __hmul2(a, b);
}
static inline __half2 operator-(__half2 a) {
    return __hneg2(a);
}

static inline __half2 atomicAdd(__half2 *address, __half2 value) {
    tern_emu_yield();
    __half2 old = *address;
    *address = __hadd2(old, value);
    return old;
}
static inline __half atomicAdd(__half *address, __half value) {
    tern_emu_yield();
    __half old = *address;
    *address = __hadd(old, value);
    return old;
}

#endif
