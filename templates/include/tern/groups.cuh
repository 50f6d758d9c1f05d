// Scale groups along K and the 128-k tiles of the layout: which groups a tile touches. Owns nothing.
#ifndef TERN_GROUPS_CUH
#define TERN_GROUPS_CUH

#include "tern/dequant.cuh"

// GROUP: k per scale, a multiple of 32; 0: one scale a row.
template <int GROUP> struct tern_groups {
    static constexpr int k = GROUP > 0 ? GROUP : 1;
    // k after which zeros and scales are looked up anew: the largest power of two up to 128 that divides the group.
    static constexpr int scale_k = k % 128 == 0 ? 128 : k % 64 == 0 ? 64 : 32;
    // Groups that a tile may touch; the general case starts 32 before the end of a group at worst.
    static constexpr int in_tile = GROUP == 0 || k % TERN_TILE_K == 0 ? 1
                                   : TERN_TILE_K % k == 0             ? TERN_TILE_K / k
                                                                      : 1 + (TERN_TILE_K - 32 + k - 1) / k;

    // First group of a k tile.
    static __device__ __forceinline__ int first(int k_tile) {
        return GROUP > 0 ? (int)((unsigned)k_tile * TERN_TILE_K / (unsigned)k) : 0;
    }
    // Group of 32-k block `block` of the tile, counted from the tile's first one.
    static __device__ __forceinline__ int slot(int k_tile, int block) {
        return in_tile == 1 ? 0
               : TERN_TILE_K % k == 0
                   ? 32 * block / k
                   : (int)(((unsigned)k_tile * TERN_TILE_K + 32u * (unsigned)block) / (unsigned)k) - first(k_tile);
    }
};

#endif
