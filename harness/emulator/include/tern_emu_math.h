/* Integer and binary32 intrinsics of CUDA: bit counts, byte permutes, dot products, rounded arithmetic, cached loads and
 * stores. Compiled with -ffp-contract=off, so that a fused multiply-add happens only where one is written. */
#ifndef TERN_EMULATOR_MATH_H
#define TERN_EMULATOR_MATH_H

extern "C" {
float fmaf(float, float, float) noexcept;
double fma(double, double, double) noexcept;
float fmaxf(float, float) noexcept;
float fminf(float, float) noexcept;
float fabsf(float) noexcept;
float expf(float) noexcept;
float exp2f(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float powf(float, float) noexcept;
float ldexpf(float, int) noexcept;
float sqrtf(float) noexcept;
float rintf(float) noexcept;
float roundf(float) noexcept;
float truncf(float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
void *memcpy(void *__restrict, const void *__restrict, size_t) noexcept;
void *memset(void *, int, size_t) noexcept;
int printf(const char *__restrict, ...);
}

#define TERN_EMU_MIN_MAX(type)                                                                                              \
    static constexpr inline type min(type a, type b) {                                                                      \
        return b < a ? b : a;                                                                                               \
    }                                                                                                                       \
    static constexpr inline type max(type a, type b) {                                                                      \
        return a < b ? b : a;                                                                                               \
    }
TERN_EMU_MIN_MAX(int)
TERN_EMU_MIN_MAX(unsigned)
TERN_EMU_MIN_MAX(long)
TERN_EMU_MIN_MAX(unsigned long)
TERN_EMU_MIN_MAX(long long)
TERN_EMU_MIN_MAX(unsigned long long)
static inline float min(float a, float b) {
    return fminf(a, b);
}
static inline float max(float a, float b) {
    return fmaxf(a, b);
}

template <typename To, typename From> static inline To tern_emu_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
static inline unsigned __float_as_uint(float v) {
    return tern_emu_bits<unsigned>(v);
}
static inline int __float_as_int(float v) {
    return tern_emu_bits<int>(v);
}
static inline float __uint_as_float(unsigned v) {
    return tern_emu_bits<float>(v);
}
static inline float __int_as_float(int v) {
    return tern_emu_bits<float>(v);
}
static inline long long __double_as_longlong(double v) {
    return tern_emu_bits<long long>(v);
}
static inline double __longlong_as_double(long long v) {
    return tern_emu_bits<double>(v);
}

/* ---- bits
 * --------------------------------------------------------------------------------------------------------------------- */
static inline int __popc(unsigned v) {
    return __builtin_popcount(v);
}
static inline int __popcll(unsigned long long v) {
    return __builtin_popcountll(v);
}
static inline int __ffs(int v) {
    return __builtin_ffs(v);
}
static inline int __ffsll(long long v) {
    return __builtin_ffsll(v);
}
static inline int __clz(int v) {
    return v == 0 ? 32 : __builtin_clz((unsigned)v);
}
static inline int __clzll(long long v) {
    return v == 0 ? 64 : __builtin_clzll((unsigned long long)v);
}
static inline unsigned __brev(unsigned v) {
    unsigned r = 0;
    for (int i = 0; i < 32; ++i) {
        r |= (v >> i & 1u) << (31 - i);
    }
    return r;
}
/* Each nibble of `selector` picks one of eight bytes (b:a); its bit 3 replicates the byte's sign instead, as PRMT does. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; ++i) {
        unsigned pick = selector >> (4 * i) & 15u, byte = (unsigned)(bytes >> (8 * (pick & 7u))) & 255u;
        r |= (pick & 8u ? (byte & 128u ? 255u : 0u) : byte) << (8 * i);
    }
    return r;
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    return (unsigned)(((uint64_t)hi << 32 | lo) >> (shift & 31u));
}
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    return (unsigned)((((uint64_t)hi << 32 | lo) << (shift & 31u)) >> 32);
}
static inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned shift) {
    return (unsigned)(((uint64_t)hi << 32 | lo) >> (shift > 32u ? 32u : shift));
}
static inline unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned shift) {
    return shift >= 32u ? lo : __funnelshift_l(lo, hi, shift);
}
static inline int __mulhi(int a, int b) {
    return (int)(((int64_t)a * b) >> 32);
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)(((uint64_t)a * b) >> 32);
}
static inline int __dp4a(int a, int b, int c) {
    unsigned sum = (unsigned)c;
    for (int i = 0; i < 4; ++i) {
        sum += (unsigned)((int8_t)((unsigned)a >> (8 * i)) * (int8_t)((unsigned)b >> (8 * i)));
    }
    return (int)sum;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; ++i) {
        c += (a >> (8 * i) & 255u) * (b >> (8 * i) & 255u);
    }
    return c;
}

/* ---- binary32
 * ----------------------------------------------------------------------------------------------------------------- */
static inline float __fmaf_rn(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
static inline float __fadd_rn(float a, float b) {
    return a + b;
}
static inline float __fsub_rn(float a, float b) {
    return a - b;
}
static inline float __fmul_rn(float a, float b) {
    return a * b;
}
static inline float __fdiv_rn(float a, float b) {
    return a / b;
}
static inline float __fdividef(float a, float b) {
    return a / b;
}
static inline float __frcp_rn(float a) {
    return 1.0f / a;
}
static inline float __expf(float a) {
    return expf(a);
}
static inline float rsqrtf(float a) {
    return 1.0f / sqrtf(a);
}
static inline float __saturatef(float a) {
    return fminf(fmaxf(a, 0.0f), 1.0f);
}
static inline float __int2float_rn(int v) {
    return (float)v;
}
static inline float __uint2float_rn(unsigned v) {
    return (float)v;
}
static inline int __float2int_rz(float v) {
    return v != v ? 0 : v >= 2147483648.0f ? 2147483647 : v < -2147483648.0f ? -2147483647 - 1 : (int)v;
}
static inline int __float2int_rn(float v) {
    return __float2int_rz(rintf(v));
}
static inline unsigned __float2uint_rn(float v) {
    float r = rintf(v);
    return !(r > 0.0f) ? 0u : r >= 4294967296.0f ? 4294967295u : (unsigned)r;
}

/* ---- loads and stores with cache hints: plain ones here
 * ------------------------------------------------------------------------- */
template <typename T> static inline T __ldg(const T *p) {
    return *p;
}
template <typename T> static inline T __ldcs(const T *p) {
    return *p;
}
template <typename T> static inline T __ldcg(const T *p) {
    return *p;
}
template <typename T> static inline T __ldca(const T *p) {
    return *p;
}
template <typename T> static inline T __ldlu(const T *p) {
    return *p;
}
template <typename T> static inline T __ldcv(const T *p) {
    return *p;
}
template <typename T> static inline void __stcs(T *p, T v) {
    *p = v;
}
template <typename T> static inline void __stcg(T *p, T v) {
    *p = v;
}
template <typename T> static inline void __stwb(T *p, T v) {
    *p = v;
}
template <typename T> static inline void __stwt(T *p, T v) {
    *p = v;
}

#endif
