// Which row blocks of a tile of the sweep a block works on, where two blocks of a cluster (PAIR) divide the tile between them and,
// if it has an odd number, the middle one: half of K each. Owns nothing.
#ifndef TERN_PAIR_SHARE_CUH
#define TERN_PAIR_SHARE_CUH

#include "tern/sweep.cuh"

// Row blocks first .. first + blocks - 1. The shared one is the last of rank 0, which has its k tiles 0 .. half - 1, and the first
// of rank 1, which has the rest. Inside the block, row blocks go round WARPS_N warpgroups n, so that a low tile occupies all;
// rank 1 counts from behind, so that the shared one is the last in both.
template <bool PAIR, int WARPS_N> struct tern_share {
    int first, blocks, half, rank; // half: 0 where nothing is shared

    static __device__ __forceinline__ tern_share find(const tern_sweep &sweep, int rank, int k_tiles) {
        const int first = (int)sweep.row_block, blocks = (int)sweep.blocks;
        if (!PAIR)
            return {first, blocks, 0, 0};
        return {first + rank * (blocks / 2), (blocks + 1) / 2, blocks % 2 * (k_tiles / 2), rank};
    }
    // Row blocks that the warpgroup has, and the place of its b-th in the block's.
    __device__ __forceinline__ int own(int n) const { return (blocks - n + WARPS_N - 1) / WARPS_N; }
    __device__ __forceinline__ int place(int n, int b) const {
        return PAIR && rank == 1 ? blocks - 1 - (b * WARPS_N + n) : b * WARPS_N + n;
    }
    // The warpgroup has the shared one.
    __device__ __forceinline__ bool has_half(int n) const { return PAIR && half > 0 && (blocks - 1) % WARPS_N == n; }
    // Row tiles of 16 of the block that it multiplies at k tile `k_tile`: begin .. end - 1 of `tiles`.
    __device__ __forceinline__ int begin(int k_tile) const { return PAIR && rank == 1 && k_tile < half ? 4 : 0; }
    __device__ __forceinline__ int end(int k_tile, int tiles) const {
        const bool without = PAIR && rank == 0 && half > 0 && k_tile >= half;
        return without && tiles > 4 * blocks - 4 ? 4 * blocks - 4 : tiles;
    }
};

#endif
