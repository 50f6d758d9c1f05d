/* Two-bit codes and their scale in two operations a register, where scales are small enough. Owns nothing. */
#ifndef TERN_SHORT_SCALE_CUH
#define TERN_SHORT_SCALE_CUH

#include "tern/dequant.cuh"
#include "tern/memory.cuh"

/* Of a pair, its lower (upper) half in both halves; unlike a permutation of bytes it melts into the operation that uses it. */
__device__ __forceinline__ unsigned tern_half_twice(unsigned pair, int upper) {
    const __half2 both = tern_as_half2(pair);
    return tern_half2_bits(upper ? __high2half2(both) : __low2half2(both));
}

/* Both with the other sign; like the function above. */
__device__ __forceinline__ unsigned tern_pair_negated(unsigned pair) {
    return tern_half2_bits(__hneg2(tern_as_half2(pair)));
}

/* The larger of each half as an integer. */
__device__ __forceinline__ unsigned tern_pair_larger(unsigned a, unsigned b) {
#ifdef TERN_EMULATOR
    return (a >> 16 > b >> 16 ? a : b) & 0xFFFF0000u | ((a & 0xFFFFu) > (b & 0xFFFFu) ? a : b) & 0xFFFFu;
#else
    return __vmaxu2(a, b);
#endif
}

/* Two-bit codes times scale in two operations a register instead of three, exact, in binary16 and for one zero point, 1 (ternary: no code 3)
 * or 2: a code at bit p of its half, above zeros, is q * 2^(p - 24), and one fma takes it times scale * 2^(24 - p) and takes zero * scale off.
 * q * 2^(p - 24) leaves the subnormals where it reaches bit 10, but up to 2^11 in the exponent's place counts on. Codes count at places 4, 6, 8 and
 * 10, where half of them lie; the other half lies there when the bytes of each half have changed places.
 * scale * 2^(24 - p) must not overflow. */
template <int ZERO> struct tern_short_scale {
    static_assert(ZERO == 1 || ZERO == 2, "its product with a scale is exact");
    static constexpr unsigned limit = 11u << 10;       /* binary16 of 2^-4: scales must be less */
    static constexpr int highest = ZERO == 1 ? 10 : 8; /* place where all codes count */
    unsigned at[4], zero; /* of a pair (row g, row g + 8): times 2^(24 - place) of places 4, 6, 8, 10; times ZERO */

    static __device__ __forceinline__ tern_short_scale of(unsigned pair) {
        const unsigned last = tern_pair_mul<0>(pair, (15u + 14) * 0x04000400u);
        return {{tern_pair_mul<0>(last, 0x54005400u), tern_pair_mul<0>(last, 0x4C004C00u),
                 tern_pair_mul<0>(last, 0x44004400u), last},
                ZERO == 1 ? pair : tern_pair_mul<0>(pair, 0x40004000u)};
    }
    /* False if no scale in this lane's part of `bytes` (a multiple of 16) of scales in shared memory is too large, which one that is no number is. A warp calls. */
    static __device__ __forceinline__ bool too_large(const unsigned char *pairs, int bytes, int lane) {
        unsigned most = 0;
        for (int at = 16 * lane; at < bytes; at += 512) {
            const uint4 four = tern_shared_load_16(pairs + at);
            const unsigned words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
                most = tern_pair_larger(most, words[i] & 0x7FFF7FFFu);
        }
        return most >> 16 >= limit || (most & 0xFFFFu) >= limit;
    }
    static __device__ __forceinline__ void swap_bytes(const unsigned *words, unsigned (&swapped)[4]) {
#pragma unroll
        for (int p = 0; p < 4; p++)
            swapped[p] = tern_permute_bytes(words[p], 0, 0x2301);
    }
    /* A fragment a[4] = (q - ZERO) * scale of one k-step, from the words of a whole tile as they are and with bytes swapped. */
    __device__ __forceinline__ void fragment(const unsigned *words, const unsigned (&swapped)[4], int step,
                                             unsigned a[4]) const {
        const int bit = 2 * (step / 2) + 8 * (step & 1); /* the code's in its half */
        const bool swap = bit < 4 || bit > 10;
        const int lies = swap ? bit ^ 8 : bit, place = lies > highest ? lies - 4 : lies, i = place / 2 - 2;
#pragma unroll
        for (int p = 0; p < 4; p++) {
            const unsigned code = tern_shifted(swap ? swapped[p] : words[p], lies - place) & 0x00030003u << place;
            a[p] = tern_pair_fma<0>(code, tern_half_twice(at[i], p & 1), tern_pair_negated(tern_half_twice(zero, p & 1)));
        }
    }
};

/* What a thread keeps to dequantise chunks of CHUNK k-steps so, with SCALE_K k a scale. */
template <int ZERO, int CHUNK, int SCALE_K> struct tern_short_chunks {
    static constexpr int spans = CHUNK * 16 > SCALE_K ? CHUNK * 16 / SCALE_K : 1; /* of a scale, in a chunk */
    typedef struct tern_short_scale<ZERO> scale;
    unsigned swapped[4];
    scale scales[spans];

    /* A fragments of k-steps step .. step + CHUNK - 1, from the words of a whole tile and pairs of scales that are small enough. */
    __device__ __forceinline__ void decode(const unsigned *words, const unsigned (&pairs)[spans], int step,
                                           unsigned (&a)[CHUNK][4]) {
        if (step == 0)
            scale::swap_bytes(words, swapped);
#pragma unroll
        for (int u = 0; u < CHUNK; u++) {
            const int span = u * 16 / SCALE_K;
            if ((step + u) * 16 % SCALE_K == 0) /* a new scale */
                scales[span] = scale::of(pairs[span]);
            scales[span].fragment(words, swapped, step + u, a[u]);
        }
    }
};

#endif
