// Code words of layout frag16x128 to A fragments of e4m3 numbers (q - z), in the order of k of s8_codes.cuh. All are exact: 2-bit
// codes are looked up, those of 4 bits become integers of up to 16 in units of 2^-9, which e4m3 counts in a row from 0 on
// (subnormal ones first). Owns nothing.
#ifndef TERN_E4M3_CODES_CUH
#define TERN_E4M3_CODES_CUH

#include "tern/s8_codes.cuh"

// What 1 in a fragment stands for.
template <int BITS> constexpr float tern_e4m3_unit = BITS == 4 ? 512.0f : 1.0f;

// What decodes row g and row g + 8: the values of the four codes (2 bits, zero point up to 4), or the zero point in each byte.
template <int BITS> __device__ __forceinline__ tern_s8_rows tern_e4m3_zeros(unsigned zero_low, unsigned zero_high) {
    if (BITS == 2) // four in a row of -4 .. 3
        return {{tern_permute_bytes(0xB8C0C4C8u, 0x44403800u, 0x7654u - 0x1111u * zero_low),
                 tern_permute_bytes(0xB8C0C4C8u, 0x44403800u, 0x7654u - 0x1111u * zero_high)}};
    return tern_s8_zeros<false>(zero_low, zero_high);
}

// Integers of -16 .. 15 in each byte to numbers of as many 2^-9: two's complement to sign and magnitude.
__device__ __forceinline__ unsigned tern_e4m3_of_s8(unsigned v) {
    const unsigned minus = v >> 7 & 0x01010101u;
    return (v ^ minus * 0x7Fu) + minus;
}

// A fragment of step `step` (a constant after unrolling) from the words of a tile.
template <int BITS, bool MIXED>
__device__ __forceinline__ void tern_e4m3_fragment(const unsigned *words, int step, const tern_s8_rows &rows,
                                                   unsigned a[4]) {
    static_assert(BITS == 2 || BITS == 4, "no decoder to e4m3 for this code width");
    if (MIXED || BITS == 4) // what is looked up, or subtracted
        tern_s8_fragment<BITS, MIXED>(words, step, rows, a);
#pragma unroll
    for (int p = 0; p < 4; p++) {
        if (BITS == 4)
            a[p] = tern_e4m3_of_s8(a[p]);
        else if (!MIXED) { // nibbles hold two pieces of k; one of them is kept
            const unsigned pairs = tern_shifted(words[p], step % 2 * 2) & 0x33333333u;
            a[p] = tern_permute_bytes(tern_permute_bytes(rows.row[p & 1], 0, pairs),
                                      tern_permute_bytes(rows.row[p & 1], 0, pairs >> 16), step / 2 ? 0x7531u : 0x6420u);
        }
    }
}

#endif
