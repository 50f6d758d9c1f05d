// A slice of 128 k of W in shared memory, as the kernels that multiply bytes have it: codes of row tiles one behind the other, then scales
// and zero points of the groups that the slice touches. Copies it there, and reads what a warp needs of it. Owns nothing.
#ifndef TERN_S8_SLICE_CUH
#define TERN_S8_SLICE_CUH

#include "tern/abi.h"
#include "tern/groups.cuh"
#include "tern/tile_copy.cuh"

// Bytes of a slice of TILES row tiles.
template <int BITS, int GROUP, int HAS_ZEROS, int TILES> struct tern_slice_bytes {
    static constexpr int codes = TILES * tern_codes<BITS>::tile_bytes;
    static constexpr int scales = GROUP > 0 ? TILES * tern_groups<GROUP>::in_tile * 32 : 0;
    static constexpr int zeros = GROUP > 0 && HAS_ZEROS ? TILES * tern_groups<GROUP>::in_tile * 16 : 0;
};

// Scales and zero points of k tile `k_tile` of the warp's row tiles (tile_copy.cuh); nothing where there is one scale a row. Groups behind K
// stay what they are.
template <int BLOCKS, int GROUP, int HAS_ZEROS>
__device__ __forceinline__ void tern_copy_groups(const tern_args &args, const tern_tile_source &source, int k_tile,
                                                 unsigned char *scales, unsigned char *zeros, int warp, int lane) {
    typedef struct tern_groups<GROUP> groups;
    if (GROUP == 0)
        return;
    const int group = groups::first(k_tile);
    const long long entry = source.entry + group, left = args.groups - group;
    const int count = (int)(left < groups::in_tile ? left : groups::in_tile);
    tern_copy_sides<BLOCKS, 2 * groups::in_tile>(scales, static_cast<const unsigned char *>(args.scales) + 32 * entry,
                                                 128 * args.groups, 2 * count, source, warp, lane);
    if (HAS_ZEROS)
        tern_copy_sides<BLOCKS, groups::in_tile>(zeros, static_cast<const unsigned char *>(args.zeros) + 16 * entry,
                                                 64 * args.groups, count, source, warp, lane);
}

// Loads the 16 bytes of codes whose first use is step `step`, of row tile `tile`.
template <int BITS>
__device__ __forceinline__ void tern_load_words(unsigned *words, const unsigned char *codes, int tile, int step, int lane) {
    constexpr int STEPS_A_PIECE = BITS == 8 ? 1 : BITS == 4 ? 2 : 4;
    if (step % STEPS_A_PIECE != 0)
        return;
    const int piece = step / STEPS_A_PIECE;
    const uint4 four = tern_shared_load_16(codes + tile * tern_codes<BITS>::tile_bytes + piece * 512 + 16 * lane);
    words[4 * piece] = four.x;
    words[4 * piece + 1] = four.y;
    words[4 * piece + 2] = four.z;
    words[4 * piece + 3] = four.w;
}

// The group of step `step` of k tile `k_tile` in row tile `tile` of a slice: scales of row g and of row g + 8, binary16, 0 behind the
// last group of K; zero points of both, in the low bytes.
template <int GROUP>
__device__ __forceinline__ unsigned tern_group_scales(const unsigned char *scales, int tile, int k_tile, int step, int all,
                                                      int lane) {
    typedef struct tern_groups<GROUP> groups;
    const int slot = groups::slot(k_tile, step);
    const unsigned pair = *reinterpret_cast<const unsigned *>(scales + 4 * ((tile * groups::in_tile + slot) * 8 + lane / 4));
    return groups::in_tile > 1 && groups::first(k_tile) + slot >= all ? 0 : pair; // nothing was copied there
}
template <int GROUP>
__device__ __forceinline__ unsigned tern_group_zeros(const unsigned char *zeros, int tile, int k_tile, int step, int lane) {
    typedef struct tern_groups<GROUP> groups;
    const int entry = (tile * groups::in_tile + groups::slot(k_tile, step)) * 8 + lane / 4;
    return *reinterpret_cast<const unsigned short *>(zeros + 2 * entry);
}

// The zero points of rows g and g + 8 of row tile `tile` of W, where there is one a row.
__device__ __forceinline__ unsigned tern_row_zeros(const tern_args &args, long long tile, int lane) {
    return *reinterpret_cast<const unsigned short *>(static_cast<const unsigned char *>(args.zeros) + 16 * tile +
                                                     2 * (lane / 4));
}

#endif
