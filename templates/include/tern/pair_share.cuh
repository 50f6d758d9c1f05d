// Which row blocks of a tile of the sweep a block and its WARPS_N warpgroups work on, where two blocks of a cluster (PAIR) divide the tile
// between them and, if it has an odd number, the middle one: half of K each. Owns nothing.
//
// Of three warpgroups, a row block that is left when all have equally many is divided along K too: between those that have no half of the
// pair's. So each is as busy as the others. The helpers' sums of it go to warpgroup 0.
#ifndef TERN_PAIR_SHARE_CUH
#define TERN_PAIR_SHARE_CUH

#include "tern/sweep.cuh"

// Row blocks first .. first + blocks - 1. The shared one is the last of rank 0, which has its k tiles 0 .. half - 1, and the first
// of rank 1, which has the rest. Inside the block, row blocks go round WARPS_N warpgroups n, so that a low tile occupies all;
// rank 1 counts from behind, so that the shared one is the last in both.
template <bool PAIR, int WARPS_N> struct tern_share {
    static constexpr bool divides = WARPS_N == 3; // it may: see divided()
    int first, blocks, half, rank;                // half: 0 where nothing is shared

    static __device__ __forceinline__ tern_share find(const tern_sweep &sweep, int rank, int k_tiles) {
        const int first = (int)sweep.row_block, blocks = (int)sweep.blocks;
        if (!PAIR)
            return {first, blocks, 0, 0};
        return {first + rank * (blocks / 2), (blocks + 1) / 2, blocks % 2 * (k_tiles / 2), rank};
    }
    // The warpgroup has the shared one.
    __device__ __forceinline__ bool has_half(int n) const { return PAIR && half > 0 && (blocks - 1) % WARPS_N == n; }
    // One row block is left and divided between warpgroups; `n` has part of it, but not its sums.
    __device__ __forceinline__ bool divided() const {
        return divides && (blocks - (PAIR && half > 0 ? 1 : 0)) % WARPS_N == 1;
    }
    __device__ __forceinline__ bool helps(int n) const { return divided() && n != 0 && !has_half(n); }
    // Row blocks that the warpgroup has, the place of its b-th in the block's, and how many it has the sums of.
    __device__ __forceinline__ int own(int n) const { return (blocks - n + WARPS_N - 1) / WARPS_N + (helps(n) ? 1 : 0); }
    __device__ __forceinline__ int place(int n, int b) const {
        const int at = b * WARPS_N + (helps(n) && b == own(n) - 1 ? 0 : n);
        return PAIR && rank == 1 ? blocks - 1 - at : at;
    }
    __device__ __forceinline__ int summed(int n) const { return own(n) - (helps(n) ? 1 : 0); }
    // The k tiles, of `count`, in which it has its last one: begin .. end - 1.
    struct range {
        int begin, end;
    };
    __device__ __forceinline__ range last(int n, int count) const {
        if (has_half(n))
            return {rank == 0 ? 0 : half, rank == 0 ? half : count};
        if (!divided())
            return {0, count};
        const int parts = PAIR && half > 0 ? 2 : 3, part = n * parts / 3; // 0 and 2 of two, or all
        return {part * count / parts, (part + 1) * count / parts};
    }
    // Row tiles of 16 of the block that it multiplies at k tile `k_tile`: begin .. end - 1 of `tiles`.
    __device__ __forceinline__ int begin(int k_tile) const { return PAIR && rank == 1 && k_tile < half ? 4 : 0; }
    __device__ __forceinline__ int end(int k_tile, int tiles) const {
        const bool without = PAIR && rank == 0 && half > 0 && k_tile >= half;
        return without && tiles > 4 * blocks - 4 ? 4 * blocks - 4 : tiles;
    }
};

#endif
