// Code words of layout frag16x128 in the order that wgmma wants. Inside 32 k, lane t of a quad (4 lanes of the same g) owns
// the 8 columns k = 8*t + 2*c + e, c = 0..3, while the A fragment wants k = 8*c + 2*t + e of it when B keeps the order of
// memory. mma.sync templates permute B instead, for nothing, as they load it; here B goes from global to shared memory in
// pieces of 16 bytes and the tensor cores read it there. So the codes move, which are the smaller operand: a transposition
// of columns c against lanes t, two rounds of exchange by shuffle, each with one bit of c against the same bit of t. After
// it, tern_dequant_tile gives step s the k 16*s + 2*t, +1 in a[0], a[1] and 16*s + 8 + 2*t, +1 in a[2], a[3].
#ifndef TERN_WGMMA_CODES_CUH
#define TERN_WGMMA_CODES_CUH

#include "tern/dequant.cuh"
#include "tern/memory.cuh"

// A lane with `high` clear keeps what has the column bit clear and gets the partner's part with it clear in place of what it
// sends. The forms differ in where the column bit shows: as the word (a: clear, b: set) or as odd bytes.
__device__ __forceinline__ void tern_swap_words(unsigned &a, unsigned &b, bool high, int partner) {
    const unsigned got = __shfl_xor_sync(0xFFFFFFFFu, high ? a : b, partner);
    a = high ? got : a;
    b = high ? b : got;
}

__device__ __forceinline__ void tern_swap_bytes(unsigned &a, unsigned &b, bool high, int partner) {
    const unsigned got = __shfl_xor_sync(0xFFFFFFFFu, tern_permute_bytes(a, b, high ? 0x6420u : 0x7531u), partner);
    a = tern_permute_bytes(a, got, high ? 0x3514u : 0x5240u);
    b = tern_permute_bytes(b, got, high ? 0x3716u : 0x7260u);
}

// Words that come with the 16-byte chunk `chunk` of a lane (for 3 bits with its 8 bytes of the upper plane too): see
// tern_codes. All lanes of the warp call.
template <int BITS> __device__ __forceinline__ void tern_natural_columns(unsigned *words, int chunk, int lane) {
    const bool high = lane & 2, odd = lane & 1;
    unsigned *w = words + 4 * chunk;
    if (BITS == 8) {
        tern_swap_words(w[0], w[2], high, 2);
        tern_swap_words(w[1], w[3], high, 2);
        tern_swap_words(w[0], w[1], odd, 1);
        tern_swap_words(w[2], w[3], odd, 1);
    } else {
        tern_swap_bytes(w[0], w[1], high, 2);
        tern_swap_bytes(w[2], w[3], high, 2);
        tern_swap_words(w[0], w[2], odd, 1);
        tern_swap_words(w[1], w[3], odd, 1);
    }
    if (BITS == 3) {
        tern_swap_bytes(words[4], words[BITS == 3 ? 5 : 4], high, 2);
        tern_swap_words(words[4], words[BITS == 3 ? 5 : 4], odd, 1);
    }
}

// Scale groups and 128-k tiles. GROUP 0: one scale a row, which no tile brings.
template <int GROUP> struct tern_tile_groups {
    static constexpr int k = GROUP > 0 ? GROUP : 1;
    // Groups that a tile may touch; the general case starts 32 before the end of a group at worst.
    static constexpr int count = GROUP == 0 || k % TERN_TILE_K == 0 ? 1
                                 : TERN_TILE_K % k == 0             ? TERN_TILE_K / k
                                                                    : 1 + (TERN_TILE_K - 32 + k - 1) / k;
    // k after which zeros and scales are looked up anew: the largest power of two up to 128 that divides the group.
    static constexpr int step = k % 128 == 0 ? 128 : k % 64 == 0 ? 64 : 32;

    // First group of a tile, and the place behind it of the group that 32-k block `block` of the tile is in.
    static __device__ __forceinline__ unsigned first(unsigned k_tile) {
        return GROUP > 0 ? k_tile * TERN_TILE_K / (unsigned)k : 0;
    }
    static __device__ __forceinline__ int slot(unsigned k_tile, int block) {
        return count == 1             ? 0
               : TERN_TILE_K % k == 0 ? 32 * block / k
                                      : (int)((k_tile * TERN_TILE_K + 32u * (unsigned)block) / (unsigned)k - first(k_tile));
    }
};

// Loads 16-byte chunk `chunk` of the lane's codes from a tile in shared memory (for 3 bits its 8 bytes of the upper plane
// too), in natural columns.
template <int BITS>
__device__ __forceinline__ void tern_load_natural(unsigned *words, const unsigned char *tile, int chunk, int lane) {
    const uint4 four = tern_shared_load_16(tile + chunk * 512 + lane * 16);
    words[4 * chunk + 0] = four.x;
    words[4 * chunk + 1] = four.y;
    words[4 * chunk + 2] = four.z;
    words[4 * chunk + 3] = four.w;
    if (BITS == 3) {
        const uint2 two = *reinterpret_cast<const uint2 *>(tile + 512 + lane * 8);
        words[tern_codes<BITS>::words - 2] = two.x;
        words[tern_codes<BITS>::words - 1] = two.y;
    }
    tern_natural_columns<BITS>(words, chunk, lane);
}

#endif
