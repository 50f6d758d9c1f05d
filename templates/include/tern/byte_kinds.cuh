// The two kinds of bytes that a wgmma kernel may multiply, int8 and e4m3, under the same names: what decodes W to them, the type of
// their sums, the product. Owns nothing.
#ifndef TERN_BYTE_KINDS_CUH
#define TERN_BYTE_KINDS_CUH

#include "tern/e4m3_codes.cuh"
#include "tern/s8_codes.cuh"
#include "tern/wgmma_e4m3.cuh"
#include "tern/wgmma_s8.cuh"

template <int E4M3, int BITS, bool MIXED> struct tern_bytes;

template <int BITS, bool MIXED> struct tern_bytes<0, BITS, MIXED> {
    typedef int sum;
    static constexpr float unit = 1.0f; // what 1 in a sum stands for
    static __device__ __forceinline__ tern_s8_rows zeros(unsigned low, unsigned high) {
        return tern_s8_zeros<MIXED>(low, high);
    }
    static __device__ __forceinline__ void fragment(const unsigned *words, int step, const tern_s8_rows &rows,
                                                    unsigned a[4]) {
        tern_s8_fragment<BITS, MIXED>(words, step, rows, a);
    }
    template <int COUNT>
    static __device__ __forceinline__ void multiply(int (&d)[COUNT], const unsigned (&a)[4], unsigned long long b,
                                                    bool accumulate) {
        tern_wgmma_s8<2 * COUNT>::multiply(d, a, b, accumulate);
    }
    template <int BY_ADDING, int COUNT>
    static __device__ __forceinline__ void add_scaled(float (&to)[COUNT], int (&part)[COUNT], float2 scale) {
        tern_wgmma_add_scaled<BY_ADDING>(to, part, scale);
    }
};

template <int BITS, bool MIXED> struct tern_bytes<1, BITS, MIXED> {
    typedef float sum;
    static constexpr float unit = tern_e4m3_unit<BITS>;
    static __device__ __forceinline__ tern_s8_rows zeros(unsigned low, unsigned high) {
        return tern_e4m3_zeros<BITS>(low, high);
    }
    static __device__ __forceinline__ void fragment(const unsigned *words, int step, const tern_s8_rows &rows,
                                                    unsigned a[4]) {
        tern_e4m3_fragment<BITS, MIXED>(words, step, rows, a);
    }
    template <int COUNT>
    static __device__ __forceinline__ void multiply(float (&d)[COUNT], const unsigned (&a)[4], unsigned long long b,
                                                    bool accumulate) {
        tern_wgmma_e4m3<2 * COUNT>::multiply(d, a, b, accumulate);
    }
    template <int BY_ADDING, int COUNT>
    static __device__ __forceinline__ void add_scaled(float (&to)[COUNT], float (&part)[COUNT], float2 scale) {
        tern_wgmma_add_scaled(to, part, scale);
    }
};

#endif
