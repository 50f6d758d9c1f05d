/* Dequantise: code words of layout frag16x128 (harness/formats/layout.h) to A fragments of mma.m16n8k16, in registers.
 * Every value q - z is exact in binary16: a field of the word becomes the mantissa of 1024 + q * 4^p (one lop3), and one
 * half2 operation takes the 1024 and the zero point off again. The scale, where wanted on the weights, is one more multiply:
 * folding it into the same fma would round (1024 / 4^p + z) * scale and lose bits of the small difference.
 *
 * Cost in instructions for the four registers (8 weights a lane) of a k-step: 2 bit 8.5, 3 bit 15, 4 bit 8.5, 8 bit 8; +4
 * with scale. Register p of the fragment holds row g + 8 * (p & 1) of the tile, so zeros and scales come as (row g, row g +
 * 8). */
#ifndef TERN_DEQUANT_CUH
#define TERN_DEQUANT_CUH

#ifndef TERN_EMULATOR
#include <cuda_fp16.h>
#endif

#define TERN_TILE_ROWS  16
#define TERN_TILE_K     128
#define TERN_TILE_STEPS 8 /* mma k-steps of a tile */

/* (a & b) | c in one instruction: the compiler splits it in two when b and c are both immediates. */
__device__ __forceinline__ unsigned tern_and_or(unsigned a, unsigned b, unsigned c) {
#ifdef TERN_EMULATOR
    return (a & b) | c;
#else
    unsigned d;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
#endif
}

/* Byte i of the result is the byte of (a: 0..3, b: 4..7) that nibble i of the selector names. */
__device__ __forceinline__ unsigned tern_permute_bytes(unsigned a, unsigned b, unsigned selector) {
#ifdef TERN_EMULATOR
    unsigned long long pool = ((unsigned long long)b << 32) | a;
    unsigned d = 0;
    for (int i = 0; i < 4; i++)
        d |= (unsigned)((pool >> (8 * ((selector >> (4 * i)) & 7))) & 0xff) << (8 * i);
    return d;
#else
    unsigned d;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
    return d;
#endif
}

/* half2 arithmetic on fragment registers. */
__device__ __forceinline__ __half2 tern_as_half2(unsigned bits) {
    return *reinterpret_cast<__half2 *>(&bits);
}
__device__ __forceinline__ unsigned tern_half2_bits(__half2 value) {
    return *reinterpret_cast<unsigned *>(&value);
}
__device__ __forceinline__ unsigned tern_add2(unsigned a, unsigned b) {
    return tern_half2_bits(__hadd2(tern_as_half2(a), tern_as_half2(b)));
}
__device__ __forceinline__ unsigned tern_mul2(unsigned a, unsigned b) {
    return tern_half2_bits(__hmul2(tern_as_half2(a), tern_as_half2(b)));
}
__device__ __forceinline__ unsigned tern_fma2(unsigned a, unsigned b, unsigned c) {
    return tern_half2_bits(__hfma2(tern_as_half2(a), tern_as_half2(b), tern_as_half2(c)));
}

/* Words that a lane owns in one 16x128 tile, and which of them hold a k-step. The words of a lane are numbered plane by
 * plane: 3 bit has words 0..3 of the 2-bit plane and 4..5 of the 1-bit plane. */
template <int BITS> struct tern_codes {
    static_assert(BITS == 2 || BITS == 3 || BITS == 4 || BITS == 8, "no decoder for this code width");
    static constexpr int words = 2 * BITS;
    static constexpr int tile_bytes = 256 * BITS;
    /* First and second word of a step; a width whose step needs one word has both equal. */
    static constexpr __host__ __device__ int word0(int step) { return BITS == 8 ? 2 * step : BITS == 4 ? step : step / 2; }
    static constexpr __host__ __device__ int word1(int step) {
        return BITS == 8 ? 2 * step + 1 : BITS == 3 ? 4 + step / 4 : word0(step);
    }
    /* Power of two by which register p's field is scaled inside its half: 1024 + q * 2^shift. */
    static constexpr __host__ __device__ int shift(int p) { return BITS == 8 ? 0 : BITS == 4 ? 4 * (p & 1) : 2 * p; }
};

/* What is added to take the magic number and the zero point off: -(1024 / 2^shift(p) + z), in both halves, for each register
 * p. */
struct tern_zero_bias {
    unsigned bias[4];
};

/* zero_low is the zero point of row g, zero_high that of row g + 8. Integer arithmetic on the binary16 pattern: 2^(10-s) + z
 * has exponent field 25 - s and mantissa z << s. */
template <int BITS> __device__ __forceinline__ tern_zero_bias tern_zero_biases(unsigned zero_low, unsigned zero_high) {
    tern_zero_bias out;
#pragma unroll
    for (int p = 0; p < 4; p++) {
        const int shift = tern_codes<BITS>::shift(p);
        const unsigned zero = p & 1 ? zero_high : zero_low;
        out.bias[p] = (0x8000u + ((25u - (unsigned)shift) << 10) + (zero << shift)) * 0x00010001u;
    }
    return out;
}

/* The code's field of register p as 1024 + q * 2^shift(p) in both halves. word0 and word1 as named by tern_codes; step is
 * 0..7 and a constant after unrolling. */
template <int BITS> __device__ __forceinline__ unsigned tern_magic_field(unsigned word0, unsigned word1, int step, int p) {
    if (BITS == 8) {
        const unsigned word = p & 2 ? word1 : word0;
        return tern_permute_bytes(word, 0x64646464u, p & 1 ? 0x4341u : 0x4240u);
    }
    if (BITS == 4)
        return tern_and_or(p & 2 ? word0 >> 8 : word0, 0x000f000fu << (4 * (p & 1)), 0x64006400u);
    const unsigned low = step & 1 ? word0 >> 8 : word0;
    unsigned high = 0x64006400u;
    if (BITS == 3) { /* the third bit sits at 4 * (step % 4) + p of the 1-bit plane and belongs above the two low ones */
        const int right = 4 * (step % 4) - p - 2;
        high = tern_and_or(right >= 0 ? word1 >> (right & 31) : word1 << (-right & 31), 0x00040004u << (2 * p), high);
    }
    return tern_and_or(low, 0x00030003u << (2 * p), high);
}

/* A fragment a[4] = q - z of one k-step. */
template <int BITS>
__device__ __forceinline__ void tern_dequant(unsigned word0, unsigned word1, int step, const tern_zero_bias &zero,
                                             unsigned a[4]) {
#pragma unroll
    for (int p = 0; p < 4; p++) {
        const unsigned field = tern_magic_field<BITS>(word0, word1, step, p);
        const int shift = tern_codes<BITS>::shift(p);
        const unsigned unscale = ((15u - (unsigned)shift) << 10) * 0x00010001u; /* 2^-shift */
        a[p] = shift == 0 ? tern_add2(field, zero.bias[p]) : tern_fma2(field, unscale, zero.bias[p]);
    }
}

/* The same from the words of a whole tile. */
template <int BITS>
__device__ __forceinline__ void tern_dequant_tile(const unsigned *words, int step, const tern_zero_bias &zero,
                                                  unsigned a[4]) {
    tern_dequant<BITS>(words[tern_codes<BITS>::word0(step)], words[tern_codes<BITS>::word1(step)], step, zero, a);
}

/* Scales (row g in the low half, row g + 8 in the high half, as the layout stores them) to one half2 a row. */
__device__ __forceinline__ void tern_scale_rows(unsigned pair, unsigned rows[2]) {
    rows[0] = tern_permute_bytes(pair, 0, 0x1010u);
    rows[1] = tern_permute_bytes(pair, 0, 0x3232u);
}

/* a *= scale: exact for ternary (q - z is -1, 0 or 1), rounded once to binary16 otherwise. */
__device__ __forceinline__ void tern_scale_fragment(const unsigned rows[2], unsigned a[4]) {
#pragma unroll
    for (int p = 0; p < 4; p++)
        a[p] = tern_mul2(a[p], rows[p & 1]);
}

#endif
