// Code words of layout frag16x128 to A fragments of bytes (q - z), and the order of k that follows from it. A product of 32 k
// wants four k of a lane in each register (wgmma_s8.cuh, mma.m16n8k32). Activations are quantised by our own kernel
// (quantise_x.cuh), which can write them in any order, so codes stay where they are: whatever four k the bytes of a word
// hold, x has at the same place. Owns nothing.
//
// Lane t of a quad has k 8t .. 8t+7 of each 32; register p holds row g + 8 * (p % 2), and its bytes the columns that
// tern_s8_source says, of two pieces of 8 k. Where a scale spans a whole tile of 128 k, 2-bit codes are looked up in pairs of
// nibbles, and a step holds halves of two pieces ("mixed"): 9 instructions for 16 weights a lane. Else pieces stay apart, and
// a register costs 4 (2 and 4 bits) or 2 (8 bits).
#ifndef TERN_S8_CODES_CUH
#define TERN_S8_CODES_CUH

#include "tern/dequant.cuh"

#define TERN_S8_STEPS 4 /* of 32 k in a tile */

// Whether steps are mixed, for formats of BITS with a scale for GROUP k (0: a row).
template <int BITS, int GROUP> constexpr bool tern_s8_mixed = BITS == 2 && GROUP % TERN_TILE_K == 0;

// A tile has two units of two pieces, unit u: 32-k pieces u and u + 2. They are four words a lane of the order of x, word w
// being that of registers 2h, 2h + 1 (h = w % 2) of step tern_s8_step(u, w). Byte b of it is this one of the unit's 16 columns of
// the lane, 8 * piece + column.
template <bool MIXED> constexpr __host__ __device__ int tern_s8_step(int unit, int w) {
    return MIXED ? 2 * unit + w / 2 : unit + 2 * (w / 2);
}
template <int BITS, bool MIXED> constexpr __host__ __device__ int tern_s8_source(int w, int b) {
    return MIXED       ? 8 * (b % 2) + 4 * (b / 2) + 2 * (w % 2) + w / 2
           : BITS == 8 ? 8 * (w / 2) + 4 * (w % 2) + b
                       : 8 * (w / 2) + 4 * (b % 2) + 2 * (w % 2) + b / 2;
}

// v - z in each byte, for bytes v up to 127 and z (in each byte) up to 128.
__device__ __forceinline__ unsigned tern_s8_subtract(unsigned v, unsigned z) {
    return ((v | 0x80808080u) - z) ^ 0x80808080u;
}

// What decodes row g and row g + 8: the values of the four codes (mixed), or the zero point in each byte.
struct tern_s8_rows {
    unsigned row[2];
};
template <bool MIXED> __device__ __forceinline__ tern_s8_rows tern_s8_zeros(unsigned zero_low, unsigned zero_high) {
    const unsigned z[2] = {zero_low * 0x01010101u, zero_high * 0x01010101u};
    if (MIXED)
        return {{tern_s8_subtract(0x03020100u, z[0]), tern_s8_subtract(0x03020100u, z[1])}};
    return {{z[0], z[1]}};
}

// A fragment of step `step` (a constant after unrolling) from the words of a tile. 8 bits: symmetric, zero point 128.
template <int BITS, bool MIXED>
__device__ __forceinline__ void tern_s8_fragment(const unsigned *words, int step, const tern_s8_rows &rows, unsigned a[4]) {
    static_assert(BITS == 2 || BITS == 4 || BITS == 8, "no decoder to bytes for this code width");
#pragma unroll
    for (int p = 0; p < 4; p++) {
        if (MIXED) {
            const unsigned pairs = tern_shifted(words[p], step / 2 * 2) & 0x33333333u;
            a[p] = tern_permute_bytes(rows.row[p & 1], 0, step % 2 ? pairs >> 16 : pairs);
        } else if (BITS == 8) {
            const int first = 4 * step + p / 2 * 2;
            a[p] = tern_permute_bytes(words[first], words[first + 1], p & 1 ? 0x7531u : 0x6420u) ^ 0x80808080u;
        } else {
            const unsigned word = words[BITS == 4 ? step / 2 * 4 + p : p];
            const int right = BITS == 4 ? step % 2 * 4 : step * 2;
            a[p] = tern_s8_subtract(tern_shifted(word, right) & (BITS == 4 ? 0x0F0F0F0Fu : 0x03030303u), rows.row[p & 1]);
        }
    }
}

#endif
