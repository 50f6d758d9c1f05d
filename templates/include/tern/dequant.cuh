/* Dequantise: code words of layout frag16x128 (harness/formats/layout.h) to A fragments of mma.m16n8k16, in registers.
 * Two ways. Exact halves: every value q - z is exact in binary16; a field of the word becomes the mantissa of 1024 + q * 2^s
 * (one lop3), and one half2 operation takes the 1024 and the zero point off again. The scale, where wanted on the weights,
 * is one more multiply: folding it into the same fma would round (1024 / 2^s + z) * scale and lose bits of the small
 * difference. In bfloat16 (BF16) the same with 128 + q * 2^s: seven bits of mantissa, so that fewer places do without a shift;
 * 8-bit codes go through binary32. Raw codes (binary16 only): a field alone is a subnormal binary16, q * 2^(s - 24); the kernel takes the zero point off its
 * sums.
 *
 * Cost in instructions for the four registers (8 weights a lane) of a k-step: exact 2 bit 8.5, 3 bit 13, 4 bit 9, 8 bit 8;
 * +4 with scale; bfloat16 2 bit 9.5, 3 bit 13.5, 4 bit 10, 8 bit 20; raw 2 bit 4.5, 3 bit 9, 4 bit 5. Register p of the fragment holds row g + 8 * (p & 1) of the tile, so zeros
 * and scales come as (row g, row g + 8). */
#ifndef TERN_DEQUANT_CUH
#define TERN_DEQUANT_CUH

#include "tern/activation.cuh"

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

/* A type's magic number in both halves, and how it is made: 2^fraction_bits, exponent field exponent_bias + fraction_bits. */
template <int BF16> struct tern_magic {
    static constexpr unsigned fraction_bits = BF16 ? 7 : 10, exponent_bias = BF16 ? 127 : 15;
    static constexpr unsigned exponent = exponent_bias + fraction_bits;
    static constexpr unsigned both = (exponent << fraction_bits) * 0x00010001u;
};

/* What is added to take the magic number and the zero point off: -(1024 / 2^shift + z), bfloat16 -(128 / 2^shift + z), in both
 * halves. Integer arithmetic on the pattern: the exponent field less s, and mantissa z << s, which may carry (3 bits, z = 8:
 * 128 / 2^4 + 8 is the next power of two). */
template <int BF16> __device__ __forceinline__ unsigned tern_zero_offset(unsigned zero, int shift) {
    return (zero << shift) +
           (0x8000u + ((tern_magic<BF16>::exponent - (unsigned)shift) << tern_magic<BF16>::fraction_bits)) * 0x00010001u;
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
 * places to be told apart: pieces take place (piece % PLACES). A base of 1024 (bfloat16: 128) makes a normal number of it; base 0
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

/* Two 8-bit codes less zero point in bfloat16, through binary32: 2^23 + q less 2^23 + z. Eight bits of significand hold it. */
__device__ __forceinline__ unsigned tern_bytes_to_bf16(unsigned word, int p, unsigned zero) {
    const float off = __uint_as_float(0x4B000000u + (zero & 0xFFFFu));
    const float low = __uint_as_float(tern_permute_bytes(word, 0x4B000000u, p & 1 ? 0x7441u : 0x7440u)) - off;
    const float high = __uint_as_float(tern_permute_bytes(word, 0x4B000000u, p & 1 ? 0x7443u : 0x7442u)) - off;
    return tern_pair_round<1>(low, high);
}

/* A fragment a[4] = q - z of one k-step, from the words of a whole tile. Exact. */
template <int BITS, int BF16>
__device__ __forceinline__ void tern_dequant_tile(const unsigned *words, int step, const tern_zero_bias &zero,
                                                  unsigned a[4]) {
    /* bfloat16: codes of 2 and 3 bits fit below 128 in three of their places, of 4 bits in one */
    constexpr int PLACES = !BF16 || BITS == 8 ? tern_codes<BITS>::places : BITS == 4 ? 1 : 3;
    const int shift = tern_codes<BITS>::pitch * (step / 2 % tern_codes<BITS>::places % PLACES);
    const unsigned unscale = ((tern_magic<BF16>::exponent_bias - (unsigned)shift) << tern_magic<BF16>::fraction_bits) *
                             0x00010001u; /* 2^-shift */
#pragma unroll
    for (int p = 0; p < 4; p++) {
        if constexpr (BF16 && BITS == 8) {
            a[p] = tern_bytes_to_bf16(words[tern_codes<BITS>::word(step, p)], p, zero.zero[p & 1]);
        } else {
            const unsigned field = tern_field<BITS, PLACES>(words, step, p, tern_magic<BF16>::both);
            const unsigned offset = tern_zero_offset<BF16>(zero.zero[p & 1], shift);
            a[p] = shift == 0 ? tern_pair_add<BF16>(field, offset) : tern_pair_fma<BF16>(field, unscale, offset);
        }
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

/* Scales of row g and g + 8, each in both halves. In bfloat16 a binary16 scale is a sum: its eight upper bits, and the rest. */
template <int BF16> struct tern_scale_pairs { unsigned at[2], rest[2]; };

/* From the pair as the layout stores it: row g in the low half, row g + 8 in the high half. */
template <int BF16> __device__ __forceinline__ tern_scale_pairs<BF16> tern_scale_rows(unsigned pair) {
    if constexpr (!BF16)
        return {{tern_permute_bytes(pair, 0, 0x1010u), tern_permute_bytes(pair, 0, 0x3232u)}, {0, 0}};
    const float2 scale = tern_pair_floats<0>(pair);
    const unsigned low = tern_pair_round<BF16>(scale.x, scale.x), high = tern_pair_round<BF16>(scale.y, scale.y);
    const float low_rest = scale.x - tern_pair_floats<BF16>(low).x, high_rest = scale.y - tern_pair_floats<BF16>(high).x;
    return {{low, high}, {tern_pair_round<BF16>(low_rest, low_rest), tern_pair_round<BF16>(high_rest, high_rest)}};
}

/* a *= scale, rounded once; in binary16 exact for ternary (q - z is -1, 0 or 1). In bfloat16 (q - z) times the rest of the scale
 * is exact up to 4 bits, and is not wanted where |q - z| is a power of two: 2 bits without zero points. */
template <int BITS, int ZEROS, int BF16>
__device__ __forceinline__ void tern_scale_fragment(const tern_scale_pairs<BF16> &rows, unsigned a[4]) {
    static_assert(!BF16 || BITS <= 4, "products of 8-bit codes and the rest of a scale are not exact");
#pragma unroll
    for (int p = 0; p < 4; p++) {
        if constexpr (!BF16 || (BITS == 2 && !ZEROS))
            a[p] = tern_pair_mul<BF16>(a[p], rows.at[p & 1]);
        else
            a[p] = tern_pair_fma<BF16>(a[p], rows.at[p & 1], tern_pair_mul<BF16>(a[p], rows.rest[p & 1]));
    }
}

/* A fragments of k-steps step .. step + CHUNK - 1 of a tile, exact but where a scale rounds. With ZEROS, zero points of (row g, row g + 8), each for SCALE_K k,
 * become `zero` first; with SCALES it is times such pairs of scales. */
template <int BITS, int BF16, int SCALE_K, bool ZEROS, bool SCALES, int SPANS, int CHUNK>
__device__ __forceinline__ void tern_exact_chunk(const unsigned *words, const unsigned (&scales)[SPANS],
                                                 const unsigned (&zeros)[SPANS], tern_zero_bias &zero, int step,
                                                 unsigned (&a)[CHUNK][4]) {
#pragma unroll
    for (int u = 0; u < CHUNK; u++) {
        const int span = u * 16 / SCALE_K;
        if (ZEROS && (step + u) * 16 % SCALE_K == 0)
            zero = tern_zero_biases<BITS>(zeros[span] & 0xff, zeros[span] >> 8);
        tern_dequant_tile<BITS, BF16>(words, step + u, zero, a[u]);
        if constexpr (SCALES)
            tern_scale_fragment<BITS, ZEROS>(tern_scale_rows<BF16>(scales[span]), a[u]);
    }
}

#endif
