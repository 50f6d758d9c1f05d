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

/* Two-bit codes times scale in two operations a register instead of three, exact, in binary16 and for one zero point, 1 (ternary: no code 3)
 * or 2: a code at bit p of its half, above zeros, is q * 2^(p - 24), and one fma takes it times scale * 2^(24 - p) and takes zero * scale off.
 * q * 2^(p - 24) leaves the subnormals where it reaches bit 10, but up to 2^11 in the exponent's place counts on. Codes are moved to
 * places p and p + 2 of a half; scale * 2^(24 - p) must not overflow. */
template <int ZERO> struct tern_short_scale {
    static_assert(ZERO == 1 || ZERO == 2, "its product with a scale is exact");
    static constexpr int place = ZERO == 1 ? 8 : 7;
    static constexpr unsigned limit = (7u + place) << 10; /* binary16 of 2^(place - 8): scales must be less */
    unsigned at[2], zero; /* of a pair (row g, row g + 8): times 2^(24 - place), and a quarter of that; times -ZERO */

    static __device__ __forceinline__ tern_short_scale of(unsigned pair) {
        const unsigned quarter = tern_pair_mul<0>(pair, (15u + 22 - place) * 0x04000400u);
        return {{tern_pair_mul<0>(quarter, 0x44004400u), quarter},
                tern_pair_mul<0>(pair, ZERO == 1 ? 0xBC00BC00u : 0xC000C000u)};
    }
    /* 0 if both scales of a pair are small enough, which one that is no number is not. */
    static __device__ __forceinline__ unsigned too_large(unsigned pair) {
        return ((pair & 0x7FFF7FFFu) + (0x8000u - limit) * 0x00010001u) & 0x80008000u;
    }
    /* The same of this lane's part of `bytes` (a multiple of 16) of scales in shared memory. A warp calls. */
    static __device__ __forceinline__ unsigned too_large(const unsigned char *pairs, int bytes, int lane) {
        unsigned large = 0;
        for (int at = 16 * lane; at < bytes; at += 512) {
            const uint4 four = tern_shared_load_16(pairs + at);
            large |= too_large(four.x) | too_large(four.y) | too_large(four.z) | too_large(four.w);
        }
        return large;
    }
    /* A fragment a[4] = (q - ZERO) * scale of one k-step, from the words of a whole tile. */
    __device__ __forceinline__ void fragment(const unsigned *words, int step, unsigned a[4]) const {
        const int bit = 2 * (step / 2) + 8 * (step & 1), kept = step / 2 % 2; /* the code's in its half; which place */
#pragma unroll
        for (int p = 0; p < 4; p++) {
            const unsigned code = tern_shifted(words[p], bit - 2 * kept - place) & 0x00030003u << (place + 2 * kept);
            a[p] = tern_pair_fma<0>(code, tern_half_twice(at[kept], p & 1), tern_half_twice(zero, p & 1));
        }
    }
};

#endif
