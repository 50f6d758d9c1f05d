// Sums of the items of tern_share (pair_share.cuh): what two blocks of a cluster, and warpgroups of one, have of row blocks whose K they divide, added up by
// one of them. A warpgroup n has an item in its last slot, COUNT sums a thread; a place for those of a warpgroup has COUNT * 512 bytes. Owns nothing.
#ifndef TERN_PAIR_SUM_CUH
#define TERN_PAIR_SUM_CUH

#include "tern/pair_share.cuh"
#include "tern/sum_share.cuh"

// Rank 1 gives its sums of the shared row block to the owner in rank 0: to SHARE::places `places` there, whose barrier (one arrival) in `barriers` counts them.
// Behind a tern_cluster_wait of all, which sees to it that those of the tile before have been read. `sum` may still be in use by products, but not this slot's.
template <typename SHARE, int COUNT>
__device__ __forceinline__ void tern_shared_give(const SHARE &mine, int n, const float (&sum)[COUNT], unsigned char *places,
                                                 unsigned char *barriers) {
    constexpr int PLACE = 4 * TERN_WARPGROUP * COUNT;
    float half[COUNT];
    tern_sums_move(half, sum);
    const int owner = mine.owner(n);
    if (mine.rank == 1 && mine.has_half(n))
        tern_sums_give<COUNT>(half, places + PLACE * (n - owner), barriers + 8 * owner, 0);
}

// In the end: the owner adds to its own what rank 1 gave, and what other warpgroups leave in the ring. That is idle then, as a tile with items that are divided
// is the last one; named barrier `barrier` of the THREADS of all warpgroups is passed twice. `parity` of the owner's barrier changes when it was waited for.
template <int THREADS, typename SHARE, int COUNT>
__device__ __forceinline__ void tern_items_sum(const SHARE &mine, int n, float (&sum)[COUNT], unsigned char *ring,
                                               unsigned char *places, unsigned char *barriers, int &parity, int barrier) {
    constexpr int PLACE = 4 * TERN_WARPGROUP * COUNT;
    const int owner = mine.owner(n), parts = mine.behind(n) - owner, given = mine.gets_half(n) ? parts : 0;
    const bool exchanges = mine.exchanges();
    float all[COUNT];
    tern_sums_move(all, sum);
    if (exchanges) {
        tern_block_sync(barrier, THREADS);
        if (n != owner)
            tern_sums_leave(all, ring + PLACE * (n - 1));
        tern_block_sync(barrier, THREADS);
    }
    if (n == owner) {
        if (given > 0) {
            tern_sums_await(barriers + 8 * owner, parity, given * PLACE);
            parity ^= 1;
        }
        tern_sums_collect(all, places, given, ring + PLACE * owner, given + (exchanges ? parts - 1 : 0));
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        sum[i] = all[i];
}

#endif
