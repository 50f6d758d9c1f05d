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

// What a lane does in the two rounds; the same all along.
struct tern_turn {
    unsigned send, low, high; // byte selectors of the round between lanes t and t ^ 2
    bool upper, odd;          // bits of t
};

__device__ __forceinline__ tern_turn tern_turn_start(int lane) {
    const bool upper = lane & 2;
    tern_turn turn = {upper ? 0x6420u : 0x7531u, upper ? 0x3514u : 0x5240u, upper ? 0x3716u : 0x7260u, upper,
                      (lane & 1) != 0};
#ifndef TERN_EMULATOR
    asm volatile("" : "+r"(turn.send), "+r"(turn.low), "+r"(turn.high)); // else they are computed again and again
#endif
    return turn;
}

// A lane with its bit of t clear (not `set`) keeps what has the column bit clear and gets the partner's part with it clear
// in place of what it sends. The forms differ in where the column bit shows: as the word (a: clear, b: set) or as odd bytes.
__device__ __forceinline__ void tern_swap_words(unsigned &a, unsigned &b, bool set, int partner) {
    const unsigned got = __shfl_xor_sync(0xFFFFFFFFu, set ? a : b, partner);
    a = set ? got : a;
    b = set ? b : got;
}

__device__ __forceinline__ void tern_swap_bytes(unsigned &a, unsigned &b, const tern_turn &turn) {
    const unsigned got = __shfl_xor_sync(0xFFFFFFFFu, tern_permute_bytes(a, b, turn.send), 2);
    a = tern_permute_bytes(a, got, turn.low);
    b = tern_permute_bytes(b, got, turn.high);
}

// Words that come with the 16-byte chunk `chunk` of a lane (for 3 bits with its 8 bytes of the upper plane too): see
// tern_codes. All lanes of the warp call.
template <int BITS> __device__ __forceinline__ void tern_natural_columns(unsigned *words, int chunk, const tern_turn &turn) {
    unsigned *w = words + 4 * chunk;
    if (BITS == 8) {
        tern_swap_words(w[0], w[2], turn.upper, 2);
        tern_swap_words(w[1], w[3], turn.upper, 2);
        tern_swap_words(w[0], w[1], turn.odd, 1);
        tern_swap_words(w[2], w[3], turn.odd, 1);
    } else {
        tern_swap_bytes(w[0], w[1], turn);
        tern_swap_bytes(w[2], w[3], turn);
        tern_swap_words(w[0], w[2], turn.odd, 1);
        tern_swap_words(w[1], w[3], turn.odd, 1);
    }
    if (BITS == 3) {
        tern_swap_bytes(words[4], words[BITS == 3 ? 5 : 4], turn);
        tern_swap_words(words[4], words[BITS == 3 ? 5 : 4], turn.odd, 1);
    }
}

// Loads 16-byte chunk `chunk` of the lane's codes from a tile in shared memory (for 3 bits its 8 bytes of the upper plane
// too), in natural columns.
template <int BITS>
__device__ __forceinline__ void tern_load_natural(unsigned *words, const unsigned char *tile, int chunk, int lane,
                                                  const tern_turn &turn) {
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
    tern_natural_columns<BITS>(words, chunk, turn);
}

#endif
