// Code words of layout frag16x128 as fields that one mask takes out where they stand, for kernels that multiply x by the complement of
// a field's place, once, instead of shifting codes (templates/mma-resident, templates/imma-resident). Owns nothing.
//
// A field of piece `piece` (32 k of a tile) stands shift(piece) bits up in its byte. In 2 and 4 bits words are fields already. In 3 bits
// the third bit of a code lies in a plane of its own: two shifts and one choice by mask join both planes to nibbles of a code and a bit of
// something else, for two pieces at a time: words 0..3 have pieces 0 and 2, words 4..7 pieces 1 and 3, these one bit higher, as the
// third bit of piece 3 would not fit into its byte otherwise. 16 instructions a tile, as one shift of the third bits serves two words.
#ifndef TERN_FIELDS_CUH
#define TERN_FIELDS_CUH

#include "tern/dequant.cuh"

// Bits of a where mask has ones, of b elsewhere, in one instruction: the compiler makes two of the expression.
__device__ __forceinline__ unsigned tern_choose(unsigned mask, unsigned a, unsigned b) {
#ifdef TERN_EMULATOR
    return (a & mask) | (b & ~mask);
#else
    unsigned d;
    asm("lop3.b32 %0, %1, %2, %3, 0xE2;" : "=r"(d) : "r"(a), "r"(mask), "r"(b));
    return d;
#endif
}

template <int BITS> struct tern_fields {
    static constexpr int words = BITS == 3 ? 8 : tern_codes<BITS>::words;
    static constexpr int top = BITS == 3 ? 5 : tern_codes<BITS>::pitch * (tern_codes<BITS>::places - 1); // the largest shift
    static constexpr __host__ __device__ int shift(int piece) {
        return BITS == 3 ? 4 * (piece / 2) + piece % 2 : tern_codes<BITS>::shift(2 * piece);
    }
    // The word of register p: row g + 8 * (p % 2).
    static constexpr __host__ __device__ int word(int piece, int p) {
        return BITS == 3 ? 4 * (piece % 2) + p : tern_codes<BITS>::word(2 * piece, p);
    }
    // The i-th piece of a tile to be multiplied, spans in order: pieces of the same words together where that is allowed, so that four
    // words are alive at a time.
    static constexpr __host__ __device__ int piece(int i, int spans) { return BITS == 3 && spans == 1 ? i % 2 * 2 + i / 2 : i; }
    unsigned at[words];
};

// Fields of a lane's code words.
template <int BITS>
__device__ __forceinline__ struct tern_fields<BITS> tern_fields_make(const unsigned (&codes)[tern_codes<BITS>::words]) {
    struct tern_fields<BITS> f;
#pragma unroll
    for (int i = 0; i < tern_fields<BITS>::words; i++) {
        if (BITS != 3) {
            f.at[i] = codes[i];
            continue;
        }
        const int set = i / 4, p = i % 4;
        f.at[i] = tern_choose(0x33333333u << set, codes[p] >> set,
                              codes[tern_codes<BITS>::high_word(p)] << (2 - set - p % 2));
    }
    return f;
}

// A fragment of binary16 of step h of a piece: raw codes, q * 2^(shift - 24). two_24: see tern_right_8.
template <int BITS>
__device__ __forceinline__ void tern_fields_halves(const struct tern_fields<BITS> &f, int piece, int h, unsigned two_24,
                                                   unsigned (&a)[4]) {
    const unsigned mask = ((1u << BITS) - 1) * 0x00010001u << tern_fields<BITS>::shift(piece);
#pragma unroll
    for (int p = 0; p < 4; p++) {
        const unsigned word = f.at[tern_fields<BITS>::word(piece, p)];
        a[p] = (h ? tern_right_8(word, two_24) : word) & mask;
    }
}

// The same of bytes, both steps: q * 2^shift.
template <int BITS>
__device__ __forceinline__ void tern_fields_bytes(const struct tern_fields<BITS> &f, int piece, unsigned (&a)[4]) {
    const unsigned mask = ((1u << BITS) - 1) * 0x01010101u << tern_fields<BITS>::shift(piece);
#pragma unroll
    for (int p = 0; p < 4; p++)
        a[p] = f.at[tern_fields<BITS>::word(piece, p)] & mask;
}

#endif
