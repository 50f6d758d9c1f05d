// Which row blocks of a tile of the sweep a block and its WARPS_N warpgroups work on, where two blocks of a cluster (PAIR) divide the tile
// between them and, if it has an odd number, the middle one: half of K each. Owns nothing.
//
// A warpgroup has ROW_BLOCKS slots. Row blocks go round the warpgroups as often as all get one. What is left, fewer than there are warpgroups, and half of
// the middle one, are items: each is in the last slot of one warpgroup or more, which divide K between them, so that all are as busy as can be.
// So a slot has something to do in all k tiles, or in none, but for the last.
#ifndef TERN_PAIR_SHARE_CUH
#define TERN_PAIR_SHARE_CUH

#include "tern/sweep.cuh"

// Row blocks first .. first + blocks - 1. The shared one is the last of rank 0, which has its k tiles 0 .. half - 1, and the first
// of rank 1, which has the rest.
template <bool PAIR, int WARPS_N, int ROW_BLOCKS> struct tern_share {
    int first, blocks, half, rank; // half: 0 where nothing is shared
    int each, items;               // row blocks that each warpgroup n has whole; what is left, the half one last

    static __device__ __forceinline__ tern_share find(const tern_sweep &sweep, int rank, int k_tiles) {
        const int first = (int)sweep.row_block, all = (int)sweep.blocks;
        tern_share s = {first, all, 0, 0, 0, 0};
        if (PAIR)
            s = {first + rank * (all / 2), (all + 1) / 2, all % 2 * (k_tiles / 2), rank, 0, 0};
        const int whole = s.blocks - (s.half > 0 ? 1 : 0);
        s.each = whole / WARPS_N, s.items = s.blocks - s.each * WARPS_N;
        return s;
    }
    // The item of warpgroup n, if there is any, the first warpgroup that has it, and behind the last.
    __device__ __forceinline__ int item(int n) const { return n * items / WARPS_N; }
    __device__ __forceinline__ int owner(int n) const { return (item(n) * WARPS_N + items - 1) / (items > 0 ? items : 1); }
    __device__ __forceinline__ int behind(int n) const {
        return ((item(n) + 1) * WARPS_N + items - 1) / (items > 0 ? items : 1);
    }
    // Some item is divided between warpgroups, which give their sums of it to its owner.
    __device__ __forceinline__ bool divided() const { return WARPS_N > 1 && items > 0 && items < WARPS_N; }
    __device__ __forceinline__ bool gives(int n) const { return items > 0 && owner(n) != n; }
    // It has half a row block of two blocks, or part of that.
    __device__ __forceinline__ bool has_half(int n) const { return PAIR && half > 0 && item(n) == items - 1; }
    // Slots up to the last of which it has sums in the end.
    __device__ __forceinline__ int slots(int n) const { return items > 0 && owner(n) == n ? ROW_BLOCKS : each; }
    __device__ __forceinline__ bool empty(int n, int b) const { return b >= each && !(b == ROW_BLOCKS - 1 && items > 0); }
    // The place of slot b in the block's row blocks: slots of whole ones follow each other from usual(n, 0) on, WARPS_N apart.
    __device__ __forceinline__ int usual(int n, int b) const {
        return (PAIR && rank == 1 && half > 0 ? 1 : 0) + b * WARPS_N + n;
    }
    __device__ __forceinline__ int place(int n, int b) const {
        if (b < ROW_BLOCKS - 1 || items == 0)
            return usual(n, b);
        return has_half(n) ? rank == 1 ? 0 : blocks - 1 : usual(item(n), each);
    }
    // The k tiles, of `count`, in which its last slot has something to do: begin .. end - 1.
    struct range {
        int begin, end;
    };
    __device__ __forceinline__ range last(int n, int count) const {
        if (items == 0)
            return {0, each == ROW_BLOCKS ? count : 0};
        const int from = has_half(n) && rank == 1 ? half : 0, all = (has_half(n) && rank == 0 ? half : count) - from;
        const int part = n - owner(n), parts = behind(n) - owner(n);
        return {from + part * all / parts, from + (part + 1) * all / parts};
    }
};

#endif
