/* Dequantise: code words of layout frag16x128 (harness/formats/layout.h) to A fragments of mma.m16n8k16, in registers.
 * Two ways. Exact halves: every value q - z is exact in binary16; a field of the word becomes the mantissa of 1024 + q * 2^s
 * (one lop3), and one half2 operation takes the 1024 and the zero point off again. The scale, where wanted on the weights,
 * is one more multiply: folding it into the same fma would round (1024 / 2^s + z) * scale and lose bits of the small
 * difference. Raw codes: a field alone is a subnormal binary16, q * 2^(s - 24); the kernel takes the zero point off its
 * sums.
 *
 * Cost in instructions for the four registers (8 weights a lane) of a k-step: exact 2 bit 8.5, 3 bit 13, 4 bit 9, 8 bit 8;
 * +4 with scale; raw 2 bit 4.5, 3 bit 9, 4 bit 5. Register p of the fragment holds row g + 8 * (p & 1) of the tile, so zeros
 * and scales come as (row g, row g + 8). */
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

/* (a & b) ^ c in one instruction. */
__device__ __forceinline__ unsigned tern_and_xor(unsigned a, unsigned b, unsigned c) {
#ifdef TERN_EMULATOR
    return (a & b) ^ c;
#else
    unsigned d;
    asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
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

/* Words that a lane owns in one 16x128 tile, and where a step's registers are in them. The words of a lane are numbered
 * plane by plane: 3 bit has words 0..3 of the 2-bit plane and 4..5 of the 1-bit plane. Steps 2*piece and 2*piece + 1 of 2, 3
 * and 4 bit lie in the same words and, after a shift of the second one by 8, in the same bits. */
template <int BITS> struct tern_codes {
    static_assert(BITS == 2 || BITS == 3 || BITS == 4 || BITS == 8, "no decoder for this code width");
    static constexpr int words = 2 * BITS;
    static constexpr int tile_bytes = 256 * BITS;
    /* Places in the low byte of a half that pieces take in turn, and the bits from one to the next. */
    static constexpr int places = BITS == 8 ? 1 : BITS == 4 ? 2 : 4;
    static constexpr int pitch = BITS == 4 ? 4 : 2;
    /* Word of register p of a step (3 bit: the two low bits), and of the third bit. */
    static constexpr __host__ __device__ int word(int step, int p) {
        return BITS == 8 ? 2 * step + p / 2 : BITS == 4 ? step / 4 * 4 + p : p;
    }
    static constexpr __host__ __device__ int high_word(int p) { return BITS == 3 ? 4 + p / 2 : 0; }
    /* Power of two by which a step's fields are scaled inside their halves: 1024 + q * 2^shift. */
    static constexpr __host__ __device__ int shift(int step) { return pitch * (step / 2 % places); }
};

/* Zero points of row g and row g + 8, in both halves. */
struct tern_zero_bias {
    unsigned zero[2];
};

/* zero_low is the zero point of row g, zero_high that of row g + 8. */
template <int BITS> __device__ __forceinline__ tern_zero_bias tern_zero_biases(unsigned zero_low, unsigned zero_high) {
    return {{zero_low * 0x00010001u, zero_high * 0x00010001u}};
}

/* What is added to take the magic number and the zero point off: -(1024 / 2^shift + z), in both halves. Integer arithmetic
 * on the binary16 pattern: 2^(10-s) + z has exponent field 25 - s and mantissa z << s. */
__device__ __forceinline__ unsigned tern_zero_offset(unsigned zero, int shift) {
    return (zero << shift) + (0x8000u + ((25u - (unsigned)shift) << 10)) * 0x00010001u;
}

/* Shifted right; left where `right` is negative. */
__device__ __forceinline__ unsigned tern_shifted(unsigned word, int right) {
    return right >= 0 ? word >> (right & 31) : word << (-right & 31);
}

/* word >> 8 as the upper half of a product with 2^24, for kernels whose integer pipe (logic, shifts) is busier than the one
 * that multiplies. The compiler must not know the factor: it would make a shift of it. */
__device__ __forceinline__ unsigned tern_right_8(unsigned word, unsigned two_24) {
    return __umulhi(word, two_24);
}

/* The code of register p as base + q * 2^(pitch * place) in both halves' bits, where PLACES <= places is the number of
 * places to be told apart: pieces take place (piece % PLACES). base 0x6400 (1024.0) makes a normal number of it; base 0
 * leaves a subnormal one, q * 2^(pitch * place - 24), which tensor cores multiply exactly. step is a constant after
 * unrolling. */
template <int BITS, int PLACES>
__device__ __forceinline__ unsigned tern_field(const unsigned *words, int step, int p, unsigned base) {
    typedef struct tern_codes<BITS> codes;
    const unsigned word = words[codes::word(step, p)];
    if (BITS == 8)
        return tern_permute_bytes(word, base, p & 1 ? 0x5351u : 0x5250u); /* byte 5 is the base's upper one */
    const int place = step / 2 % codes::places, kept = place % PLACES;
    const int right = 8 * (step & 1) + codes::pitch * (place - kept);
    const unsigned mask = (BITS == 4 ? 0x000f000fu : 0x00030003u) << (codes::pitch * kept);
    unsigned high = base;
    if (BITS ==
        3) /* the third bit sits at p % 2 + 2 * place + 8 * (step % 2) of the 1-bit plane and belongs above the two */
        high = tern_and_or(tern_shifted(words[codes::high_word(p)], right + p % 2 - 2), 0x00040004u << (2 * kept), base);
    return BITS != 3 && base == 0 ? tern_shifted(word, right) & mask : tern_and_or(tern_shifted(word, right), mask, high);
}

/* A fragment a[4] = q - z of one k-step, from the words of a whole tile. */
template <int BITS>
__device__ __forceinline__ void tern_dequant_tile(const unsigned *words, int step, const tern_zero_bias &zero,
                                                  unsigned a[4]) {
    const int shift = tern_codes<BITS>::shift(step);
    const unsigned unscale = ((15u - (unsigned)shift) << 10) * 0x00010001u; /* 2^-shift */
#pragma unroll
    for (int p = 0; p < 4; p++) {
        const unsigned field = tern_field<BITS, tern_codes<BITS>::places>(words, step, p, 0x64006400u);
        const unsigned offset = tern_zero_offset(zero.zero[p & 1], shift);
        a[p] = shift == 0 ? tern_add2(field, offset) : tern_fma2(field, unscale, offset);
    }
}

/* A fragment of raw codes: q * 2^(pitch * place - 24), place = piece % PLACES. No floating-point instruction. */
template <int BITS, int PLACES>
__device__ __forceinline__ void tern_raw_fragment(const unsigned *words, int step, unsigned two_24, unsigned a[4]) {
    const int shift = tern_codes<BITS>::pitch * (step / 2 % PLACES);
    const bool by_8 = BITS != 3 && step % 2 == 1 && PLACES == tern_codes<BITS>::places;
#pragma unroll
    for (int p = 0; p < 4; p++) {
        if (by_8)
            a[p] = tern_right_8(words[tern_codes<BITS>::word(step, p)], two_24) & (BITS == 4 ? 0x000f000fu : 0x00030003u)
                                                                                      << shift;
        else
            a[p] = tern_field<BITS, PLACES>(words, step, p, 0);
    }
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
