// Which row blocks of a tile of the sweep a block and its WARPS_N warpgroups work on, where two blocks of a cluster (PAIR) divide the tile
// between them and, if it has an odd number, the middle one: half of K each. Owns nothing.
//
// A warpgroup has ROW_BLOCKS slots. Row blocks go round the warpgroups as often as all get one. What is left, fewer than there are warpgroups, and half of
// the middle one, are items: each is in the last slot of a warpgroup, or of several that divide K between them, where that makes the busiest less busy.
// So a slot has something to do in all k tiles, or in none, but for the last.
#ifndef TERN_PAIR_SHARE_CUH
#define TERN_PAIR_SHARE_CUH

#include "tern/sweep.cuh"

// Row blocks first .. first + blocks - 1. The shared one is the last of rank 0, which has its k tiles 0 .. half - 1, and the first
// of rank 1, which has the rest. Each has them first of all its k tiles: rank 1 begins with `half` and comes to those before it in the end, so that it can
// give its sums of the shared row block away while it multiplies what is its own.
template <bool PAIR, int WARPS_N, int ROW_BLOCKS> struct tern_share {
    static_assert(WARPS_N <= 4, "of items that are divided there are two at most");
    static constexpr int split = (WARPS_N + 1) / 2; // warpgroups that divide the first of two items
    static constexpr int tile_blocks = WARPS_N * ROW_BLOCKS * (PAIR ? 2 : 1) - (PAIR ? 1 : 0); // of both blocks, at most
    static constexpr int places =
        2 - WARPS_N % 2; // warpgroups at most that divide the half row block, each with sums of its own for the other block
    int first, blocks, half, rank; // half: 0 where nothing is shared
    int each, items;               // row blocks that each warpgroup n has whole; what is left, the half one last
    // Items are divided between warpgroups, which give their sums of one to its owner. That empties the ring, so it is done in the last tile only, and
    // where each whole item gets two warpgroups or more, and the half one one: else some warpgroup has a whole one, whatever the others have.
    bool divided;

    static __device__ __forceinline__ tern_share find(const tern_sweep &sweep, int rank, int k_tiles) {
        const int first = (int)sweep.row_block, all = (int)sweep.blocks;
        tern_share s = {first, all, 0, 0, 0, 0, false};
        if (PAIR)
            s = {first + rank * (all / 2), (all + 1) / 2, k_tiles > 2 ? all % 2 * (k_tiles / 2) : 0, rank, 0, 0, false};
        const int halves = s.half > 0 ? 1 : 0, whole = s.blocks - halves;
        s.each = whole / WARPS_N, s.items = s.blocks - s.each * WARPS_N;
        s.divided = WARPS_N > 1 && sweep.next >= sweep.end && s.items > 0 && 2 * (s.items - halves) + halves <= WARPS_N &&
                    (halves == 0 || s.items > 1 || WARPS_N <= places);
        return s;
    }
    // Row tiles (16 rows) that no tile of a sweep that has not begun has more of in a block, and as many as all tiles are multiples of.
    static __device__ __forceinline__ int highest(const tern_sweep &sweep) {
        const int whole = (int)tern_sweep_largest<tile_blocks>(sweep);
        return 4 * (PAIR ? (whole + 1) / 2 : whole);
    }
    static __device__ __forceinline__ int step(const tern_sweep &sweep) {
        return sweep.tiles_m > 1 || sweep.end - sweep.next > tile_blocks ? 4 : highest(sweep);
    }
    // The item of warpgroup n, if it has one, the first warpgroup that has it, and behind the last. Divided are one item or two: all n, or those below
    // `split`, have the first one. This is asked at the end too, where code is cold: no divisions.
    __device__ __forceinline__ bool has_item(int n) const { return divided || n < items; }
    __device__ __forceinline__ int item(int n) const { return divided ? (items > 1 && n >= split ? 1 : 0) : n; }
    __device__ __forceinline__ int owner(int n) const { return divided ? (items > 1 && n >= split ? split : 0) : n; }
    __device__ __forceinline__ int behind(int n) const {
        return divided ? (items > 1 && n < split ? split : WARPS_N) : n + 1;
    }
    __device__ __forceinline__ bool gives(int n) const { return owner(n) != n; }
    // It has half a row block of two blocks, or part of that.
    __device__ __forceinline__ bool has_half(int n) const { return PAIR && half > 0 && item(n) == items - 1; }
    // Rank 0 has all sums of it in the end.
    __device__ __forceinline__ bool gets_half(int n) const { return rank == 0 && has_half(n); }
    // Slots up to the last of which it has sums in the end.
    __device__ __forceinline__ int slots(int n) const {
        return has_item(n) && owner(n) == n && !(rank == 1 && has_half(n)) ? ROW_BLOCKS : each;
    }
    // Warpgroups of this block have sums for each other.
    __device__ __forceinline__ bool exchanges() const { return divided && !(PAIR && rank == 1 && half > 0 && items == 1); }
    // The i-th k tile in the block's order, of `count`: behind the last one of all follows the first.
    __device__ __forceinline__ int k_tile(int i, int count) const {
        const int k = PAIR && rank == 1 ? half + i : i;
        return PAIR && k >= count ? k - count : k;
    }
    __device__ __forceinline__ bool empty(int n, int b) const { return b >= each && !(b == ROW_BLOCKS - 1 && has_item(n)); }
    // The place of slot b in the block's row blocks: slots of whole ones follow each other from usual(n, 0) on, WARPS_N apart.
    __device__ __forceinline__ int usual(int n, int b) const {
        return (PAIR && rank == 1 && half > 0 ? 1 : 0) + b * WARPS_N + n;
    }
    __device__ __forceinline__ int place(int n, int b) const {
        if (b < ROW_BLOCKS - 1 || !has_item(n))
            return usual(n, b);
        return has_half(n) ? rank == 1 ? 0 : blocks - 1 : usual(item(n), each);
    }
    // The k tiles, of `count` in the block's order, in which its last slot has something to do: begin .. end - 1.
    struct range {
        int begin, end;
    };
    __device__ __forceinline__ range last(int n, int count) const {
        if (!has_item(n))
            return {0, each == ROW_BLOCKS ? count : 0};
        const int all = !has_half(n) ? count : rank == 0 ? half : count - half;
        const int part = n - owner(n), parts = behind(n) - owner(n); // without signs ptxas is short of registers (C7512)
        return {part * all / parts, (part + 1) * all / parts};
    }
};

#endif
