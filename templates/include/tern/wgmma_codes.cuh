// Code words of layout frag16x128 in the order that wgmma wants. Inside 32 k, lane t of a quad (4 lanes of the same g) owns
// the 8 columns k = 8*t + 4*odd + 2*h + e, while the A fragment of k-step s wants k = 16*s + 8*h + 2*t + e of it when B keeps
// the order of memory. mma.sync templates permute B instead, for nothing, as they load it; here B goes from global to shared
// memory in pieces of 16 bytes and the tensor cores read it there. So the codes move: a tile lies in shared memory as it lay
// in global memory, and a lane gathers from the pieces of the lanes 2*s + h of its quad what belongs to its own t. After it,
// tern_dequant_tile gives step s the k 16*s + 2*t, +1 in a[0], a[1] and 16*s + 8 + 2*t, +1 in a[2], a[3].
#ifndef TERN_WGMMA_CODES_CUH
#define TERN_WGMMA_CODES_CUH

#include "tern/dequant.cuh"
#include "tern/memory.cuh"

// Where a lane gathers; the same all along. In 2, 3 and 4 bits, s shows as odd bytes of a word: a word is joined from the
// bytes t / 2 of two others. Half of the lanes load the two in the other order, which spreads the loads over the banks.
struct tern_gather {
    unsigned quad;         // byte of the quad's first piece in a tile
    unsigned first, other; // bytes in a tile: pieces that lie 32 bytes apart
    unsigned join;         // byte selector
};

// `tile`: bytes that all tiles it gathers from lie further on; not for 3 bits.
__device__ __forceinline__ tern_gather tern_gather_start(int lane, unsigned tile = 0) {
    const unsigned quad = 64 * ((unsigned)lane / 4), t = (unsigned)lane % 4, swapped = (unsigned)lane >> 3 & 1;
    const unsigned first = quad + 8 * (t & 1) + 32 * swapped;
    tern_gather gather = {tile + quad + 4 * t, tile + first, tile + (first ^ 32),
                          (swapped ? 0x2604u : 0x6240u) + 0x1111u * (t >> 1)};
#ifndef TERN_EMULATOR
    asm volatile("" : "+r"(gather.first), "+r"(gather.other), "+r"(gather.join)); // else they are computed again and again
#endif
    return gather;
}

// Loads the words that come with 16-byte chunk `chunk` of the lane's codes (for 3 bits with its 8 bytes of the upper plane
// too; see tern_codes) from a tile in shared memory, in natural columns.
template <int BITS>
__device__ __forceinline__ void tern_gather_codes(unsigned *words, const unsigned char *tile, int chunk,
                                                  const tern_gather &gather) {
    const unsigned char *at = tile + 512 * chunk;
    unsigned *w = words + 4 * chunk;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (BITS == 8) { // s and h show as words
            w[h] = tern_shared_load_4(at + gather.quad + 16 * h);
            w[2 + h] = tern_shared_load_4(at + gather.quad + 16 * h + 32);
        } else {
            const uint2 a = tern_shared_load_8(at + gather.first + 16 * h),
                        b = tern_shared_load_8(at + gather.other + 16 * h);
            w[2 * h] = tern_permute_bytes(a.x, b.x, gather.join);
            w[2 * h + 1] = tern_permute_bytes(a.y, b.y, gather.join);
        }
        if (BITS == 3)
            words[BITS == 3 ? 4 + h : 0] =
                tern_permute_bytes(tern_shared_load_4(tile + 512 + gather.first / 2 + 8 * h),
                                   tern_shared_load_4(tile + 512 + gather.other / 2 + 8 * h), gather.join);
    }
}

#endif
