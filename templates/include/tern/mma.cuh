// Matrix instructions of one warp: mma.sync for f16, bf16 and s8, and ldmatrix, each with a PTX body and an emulator body.
//
// Fragments (lane = 4*g + t, g in 0..7, t in 0..3), as in the PTX manual, "Matrix fragments for mma.m16n8k16":
//   A (16 x 16 of 16 bits): a[0] row g, k 2t..2t+1; a[1] row g+8, same k; a[2] row g, k 2t+8..; a[3] row g+8, k 2t+8..
//   B (16 x 8 of 16 bits):  b0 k 2t..2t+1, column g; b1 k 2t+8..2t+9, column g
//   C, D (16 x 8):   d[0], d[1] row g, columns 2t, 2t+1; d[2], d[3] row g+8
//   A (16 x 32 8-bit): a[0] row g, k 4t..4t+3; a[1] row g+8; a[2] row g, k 4t+16..; a[3] row g+8, k 4t+16..; B alike.
// All 32 lanes must call. Compute capability 7.5 has no k16 instruction: two k8 ones take its place.
#ifndef TERN_MMA_CUH
#define TERN_MMA_CUH

#include "tern/activation.cuh"

#ifdef TERN_EMULATOR
#include "emulator/tern_emu.h"
#include <string.h>

// What a lane brings to a product of 16 bits, as binary32: a[2*register + element], b likewise. Converted before the exchange,
// once.
struct tern_emu_mma_halves {
    float a[8], b[4];
};
template <int BF16> static inline float tern_emu_half_of(unsigned word, int element) {
    return tern_emu_16_to_float<BF16>((unsigned short)(word >> 16 * element));
}
// Row times column; products are exact in binary32, the sum is taken in binary64.
static inline float tern_emu_dot_16(const struct tern_emu_mma_halves *all, int row, int column, float c) {
    const struct tern_emu_mma_halves *a = all + 4 * (row & 7), *b = all + 4 * column;
    double sum = c;
    for (int half = 0; half < 2; half++)
        for (int t = 0; t < 4; t++)
            for (int e = 0; e < 2; e++)
                sum += (double)(a[t].a[2 * ((row >> 3) + 2 * half) + e] * b[t].b[2 * half + e]);
    return (float)sum;
}

struct tern_emu_mma_lane {
    unsigned a[4], b[2];
};

// Element (row, k) of A and (k, column) of B of an 8-bit fragment set.
template <bool SIGNED> static inline int tern_emu_a_8(const struct tern_emu_mma_lane *all, int row, int k) {
    const struct tern_emu_mma_lane *lane = all + 4 * (row & 7) + (k & 15) / 4;
    const unsigned byte = lane->a[(row >> 3) + 2 * (k >> 4)] >> 8 * (k & 3) & 0xFFu;
    return SIGNED ? (int)(signed char)byte : (int)byte;
}
static inline int tern_emu_b_s8(const struct tern_emu_mma_lane *all, int k, int column) {
    const struct tern_emu_mma_lane *lane = all + 4 * column + (k & 15) / 4;
    return (int)(signed char)(lane->b[k >> 4] >> 8 * (k & 3) & 0xFFu);
}
#endif

#define TERN_MMA_16(type)                                                                                                   \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "         \
                 "{%8, %9}, {%10, %11, %12, %13};"                                                                          \
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]),           \
                   "f"(c[3]))

// d = a * b + c, m16n8k16, operands of binary16 (BF16 1: bfloat16), f32 accumulators. d may be c.
template <int BF16>
__device__ __forceinline__ void tern_mma_16_into(float (&d)[4], const unsigned *a, unsigned b0, unsigned b1,
                                                 const float (&c)[4]) {
#ifdef TERN_EMULATOR
    struct tern_emu_mma_halves mine, all[32];
    for (int i = 0; i < 8; i++)
        mine.a[i] = tern_emu_half_of<BF16>(a[i / 2], i % 2);
    for (int i = 0; i < 4; i++)
        mine.b[i] = tern_emu_half_of<BF16>(i < 2 ? b0 : b1, i % 2);
    tern_emu_exchange(&mine, sizeof mine, all);
    int lane = tern_emu_lane();
    for (int i = 0; i < 4; i++)
        d[i] = tern_emu_dot_16(all, lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2, c[i]);
#elif __CUDA_ARCH__ >= 800
    if constexpr (BF16)
        TERN_MMA_16("bf16");
    else
        TERN_MMA_16("f16");
#else
    static_assert(!BF16, "bfloat16 needs compute capability 8.0");
    asm volatile("{\n.reg .f32 h<4>;\n"
                 "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {h0, h1, h2, h3}, {%4, %5}, {%8}, {%10, %11, %12, %13};\n"
                 "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%6, %7}, {%9}, {h0, h1, h2, h3};\n}"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#endif
}

// c += a * b.
template <int BF16> __device__ __forceinline__ void tern_mma_16(float (&c)[4], const unsigned *a, unsigned b0, unsigned b1) {
    tern_mma_16_into<BF16>(c, a, b0, b1, c);
}

// d = a * b: saves clearing the accumulators at the start of a group.
template <int BF16>
__device__ __forceinline__ void tern_mma_16_first(float (&d)[4], const unsigned *a, unsigned b0, unsigned b1) {
    const float zero[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    tern_mma_16_into<BF16>(d, a, b0, b1, zero);
}

// d = a * b + c, m16n8k32, A of u8 or (SIGNED) s8, B of s8, s32 accumulators (wrapping). d may be c. Compute capability 8.0 and
// later.
template <bool SIGNED>
__device__ __forceinline__ void tern_mma_s8_into(int (&d)[4], const unsigned *a, unsigned b0, unsigned b1,
                                                 const int (&c)[4]) {
#ifdef TERN_EMULATOR
    struct tern_emu_mma_lane mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}}, all[32];
    tern_emu_exchange(&mine, sizeof mine, all);
    int lane = tern_emu_lane();
    for (int i = 0; i < 4; i++) {
        int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
        d[i] = c[i];
        for (int k = 0; k < 32; k++)
            d[i] += tern_emu_a_8<SIGNED>(all, row, k) * tern_emu_b_s8(all, k, column);
    }
#else
    if constexpr (SIGNED)
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%10, %11, %12, %13};"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]),
                       "r"(c[3]));
    else
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%10, %11, %12, %13};"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]),
                       "r"(c[3]));
#endif
}

// c += a * b.
template <bool SIGNED>
__device__ __forceinline__ void tern_mma_s8(int (&c)[4], const unsigned *a, unsigned b0, unsigned b1) {
    tern_mma_s8_into<SIGNED>(c, a, b0, b1, c);
}

// d = a * b.
template <bool SIGNED>
__device__ __forceinline__ void tern_mma_s8_first(int (&d)[4], const unsigned *a, unsigned b0, unsigned b1) {
    const int zero[4] = {0, 0, 0, 0};
    tern_mma_s8_into<SIGNED>(d, a, b0, b1, zero);
}

#ifdef TERN_EMULATOR
// Matrices of 8 x 8 16-bit elements; lane 8*j + r names the 16-byte row r of matrix j.
static inline void tern_emu_ldmatrix(unsigned *out, int matrices, const void *row, bool transpose) {
    const void *rows[32];
    tern_emu_exchange(&row, sizeof row, rows);
    int lane = tern_emu_lane();
    for (int j = 0; j < matrices; j++) {
        out[j] = 0;
        for (int e = 0; e < 2; e++) {
            int r = transpose ? 2 * (lane % 4) + e : lane / 4, c = transpose ? lane / 4 : 2 * (lane % 4) + e;
            const unsigned char *at = (const unsigned char *)rows[8 * j + r];
            if ((size_t)at % 16 != 0)
                tern_emu_fault("ldmatrix: row address is not a multiple of 16");
            unsigned short element;
            memcpy(&element, at + 2 * c, 2);
            out[j] |= (unsigned)element << 16 * e;
        }
    }
}
#endif

// Loads four 8 x 8 matrices: out[j] of lane l holds elements 2*(l%4), 2*(l%4)+1 of row l/4 of matrix j; lane 8*j + r gives
// the shared-memory address of row r of matrix j.
__device__ __forceinline__ void tern_ldmatrix_x4(unsigned (&out)[4], const void *row) {
#ifdef TERN_EMULATOR
    tern_emu_ldmatrix(out, 4, row, false);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
#endif
}

// The same, each matrix transposed.
__device__ __forceinline__ void tern_ldmatrix_x4_trans(unsigned (&out)[4], const void *row) {
#ifdef TERN_EMULATOR
    tern_emu_ldmatrix(out, 4, row, true);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
#endif
}

// Two matrices; lanes 0..15 give the row addresses (the others' are ignored but must be valid numbers).
__device__ __forceinline__ void tern_ldmatrix_x2(unsigned (&out)[2], const void *row) {
#ifdef TERN_EMULATOR
    tern_emu_ldmatrix(out, 2, row, false);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(out[0]), "=r"(out[1])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
#endif
}

__device__ __forceinline__ void tern_ldmatrix_x2_trans(unsigned (&out)[2], const void *row) {
#ifdef TERN_EMULATOR
    tern_emu_ldmatrix(out, 2, row, true);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(out[0]), "=r"(out[1])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
#endif
}

#endif
