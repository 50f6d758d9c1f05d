// The tiles of y that a block of a persistent grid works on, whole (sweep.cuh) or cut along K (stream_k.cuh, or over the blocks
// of a cluster). Owns nothing.
#ifndef TERN_TILE_PLAN_CUH
#define TERN_TILE_PLAN_CUH

#include "tern/abi.h"
#include "tern/dequant.cuh"
#include "tern/spread.cuh"
#include "tern/stream_k.cuh"
#include "tern/sweep.cuh"

// One output tile, or part of one: row blocks of 64 rows of W, a tile's rows of x.
struct tern_place {
    int row_tile;             // first 16-row tile of W
    int blocks;               // row blocks, from 1 on; PAIR 2 to 4 and SHARERS 2: from 0 on
    int row_tiles, k_tiles;   // of W
    int k_begin, k_end, rank; // k tiles of this block, which is number `rank` of its cluster
    long long x_row;          // first row of x
    bool half;                // PAIR 1: the last one, of which the other block of the cluster has the rest of K;
    int odd_tile;   // PAIR 2, 3: beside the last one such a row block, and its first 16-row tile; PAIR 4: beside any,
    int odd_part;   // of whose columns this is the part
    bool alone;     // STREAM_K 2: the block has it for itself, not together with its cluster
    tern_part part; // STREAM_K: of a cut tile
};

// PAIR 2 to 4: the block's part of the shared row block beside `at`; no k tiles if it has none.
template <int PAIR> __device__ __forceinline__ tern_place tern_odd_place(const tern_place &at) {
    tern_place odd = at;
    odd.row_tile = at.odd_tile;
    odd.blocks = 1;
    odd.k_begin = !at.half ? at.k_end : PAIR >= 3 ? at.k_begin : at.rank == 0 ? 0 : at.k_tiles / 2;
    odd.k_end = PAIR == 2 && at.half && at.rank == 0 ? at.k_tiles / 2 : at.k_end;
    return odd;
}

// BLOCKS row blocks times BLOCK_M rows of x a tile. All blocks of a cluster of CLUSTER_K work on the same tiles. PAIR: the two of a
// cluster have equally many row blocks each, and of an odd one half of K each: as their last place (1), or beside it if it has the same
// rows of x (2), or there half of the rows of x each (3). PAIR 4: all blocks with the same rows of x share the row blocks that
// are left over (spread.cuh).
// SHARERS 2: the two blocks of a cluster have row blocks side by side of the same rows of x, equally many unless W ends. With X_BYTES (of
// an element) strips are lower than GROUP_M tiles of x where these would not stay in L2, of which 16 MB are counted on; two tiles at least.
template <int BLOCKS, int BLOCK_M, int GROUP_M, int CLUSTER_K, int STREAM_K, int PAIR = 0, int SHARERS = 1, int X_BYTES = 0>
struct tern_plan {
    static_assert(PAIR < 4 || (BLOCKS == 1 && SHARERS == 1), "a row block of its own");
    static constexpr int CLUSTER = PAIR % 4 ? 2 : CLUSTER_K * SHARERS;
    static constexpr int AID_COST = 3 + 512 / (BLOCKS * BLOCK_M); // measured: 4 for two row blocks of 256 columns, 5 of 128
    tern_sweep sweep;
    tern_stream_k stream;  // STREAM_K 1
    tern_aid aid;          // STREAM_K 2
    unsigned odd, odd_end; // PAIR 1 to 3: the odd row block, if odd is below odd_end
    tern_spread spread;    // PAIR 4

    // Sets what all places have in common.
    __device__ __forceinline__ tern_plan(const tern_args &args, tern_place &at) {
        const unsigned self = blockIdx.x / CLUSTER, workers = gridDim.x / CLUSTER;
        const unsigned tiles_m = (unsigned)((args.m + BLOCK_M - 1) / BLOCK_M);
        if (PAIR == 4)
            spread = tern_spread_start(args.n, tiles_m, self, workers);
        else
            sweep = tern_sweep_start<BLOCKS, (PAIR > 0)>((args.n + SHARERS - 1) / SHARERS, // a row block of each as one
                                                         tiles_m, self, workers);
        at.row_tiles = (int)((args.n + 15) / 16);
        at.k_tiles = (int)((args.k + TERN_TILE_K - 1) / TERN_TILE_K);
        at.rank = CLUSTER > 1 ? (int)(blockIdx.x % CLUSTER) : 0;
        at.k_begin = CLUSTER_K > 1 ? at.rank * at.k_tiles / CLUSTER_K : 0;
        at.k_end = CLUSTER_K > 1 ? (at.rank + 1) * at.k_tiles / CLUSTER_K : at.k_tiles;
        at.part.all = 1;
        at.alone = false;
        at.half = false;
        if (PAIR % 4) {
            const unsigned own = (sweep.end - sweep.next) / 2;
            odd = sweep.next + 2 * own;
            odd_end = sweep.end;
            sweep.next += (unsigned)at.rank * own;
            sweep.end = sweep.next + own;
        }
        if (STREAM_K == 2)
            aid = tern_aid_start<CLUSTER>(sweep.tiles_n * sweep.tiles_m, (unsigned)at.k_tiles, self, (unsigned)at.rank,
                                          workers, AID_COST);
        else if (STREAM_K)
            stream = tern_stream_k_start(sweep.tiles_n * sweep.tiles_m, (unsigned)at.k_tiles, self, workers);
    }

    // STREAM_K 2: what a block has of a turn. A tile's own blocks divide their part of K; slots are one for each cut tile and then one for
    // each part that is help, which tile and helping block number together.
    __device__ __forceinline__ void divide(tern_place &at, const tern_stream_turn &turn) {
        const unsigned tile = turn.tile - (aid.tiles - aid.cut); // of the cut ones
        const bool helps = at.alone;
        at.part = {tile,
                   helps ? 1 + aid.line.self - turn.first : 0,
                   turn.contributors + (helps ? 1 : 0),
                   tile,
                   aid.cut + tile + turn.first - 1,
                   1};
        if (CLUSTER_K > 1 && !helps) {
            const int k_tiles = at.k_end;
            at.k_begin = at.rank * k_tiles / CLUSTER_K;
            at.k_end = (at.rank + 1) * k_tiles / CLUSTER_K;
        }
    }

    // Tiles of x in a strip.
    static __device__ __forceinline__ unsigned strip(const tern_place &at) {
        if (X_BYTES == 0)
            return GROUP_M;
        const unsigned held = (16u << 20) / ((X_BYTES ? X_BYTES : 1) * TERN_TILE_K * BLOCK_M) / (unsigned)at.k_tiles;
        return held > GROUP_M ? GROUP_M : held > 2 ? held : 2;
    }

    // PAIR 4.
    __device__ __forceinline__ bool next_spread(tern_place &at) {
        if (!tern_spread_next(spread))
            return false;
        at.row_tile = (int)spread.row_block * 4;
        at.blocks = (int)spread.blocks;
        at.x_row = (long long)spread.tile_m * BLOCK_M;
        at.half = spread.shares;
        at.odd_tile = (int)spread.odd * 4;
        at.odd_part = (int)spread.part;
        return true;
    }

    // The next place; false when there is none.
    __device__ __forceinline__ bool next(tern_place &at) {
        if (PAIR == 4)
            return next_spread(at);
        if (STREAM_K) {
            tern_stream_turn turn;
            if (STREAM_K == 2 ? !tern_aid_next(aid, turn, at.alone) : !tern_stream_k_next(stream, turn))
                return false;
            tern_sweep_go<BLOCKS, GROUP_M>(sweep, turn.tile, strip(at));
            at.k_begin = (int)turn.k_begin;
            at.k_end = (int)turn.k_end;
            if (STREAM_K == 2)
                divide(at, turn);
            else
                at.part = {turn.tile, blockIdx.x - turn.first, turn.contributors, 2 * turn.first + 1, 2 * turn.first, 2};
        } else if (PAIR >= 2) {
            if (!tern_sweep_next<BLOCKS, GROUP_M>(sweep)) {
                if (odd == odd_end)
                    return false;
                sweep.blocks = 0;
                sweep.tile_m = odd / sweep.row_blocks;
            }
            const unsigned first = sweep.tile_m * sweep.row_blocks;
            at.half = odd != odd_end && sweep.next >= sweep.end && odd >= first && odd < first + sweep.row_blocks;
            at.odd_tile = (int)(odd - first) * 4;
            odd = at.half ? odd_end : odd;
        } else if (!tern_sweep_next<BLOCKS, GROUP_M>(sweep, sweep.step == 0 ? GROUP_M : strip(at))) {
            if (!PAIR || odd == odd_end)
                return false;
            sweep.next = odd++;
            sweep.end = odd;
            (void)tern_sweep_next<BLOCKS, GROUP_M>(sweep);
            at.half = true;
            at.k_begin = at.rank * (at.k_tiles / 2);
            at.k_end = at.rank == 0 ? at.k_tiles / 2 : at.k_tiles;
        }
        at.row_tile = (int)sweep.row_block * 4;
        at.blocks = (int)sweep.blocks;
        if (SHARERS > 1) {
            at.row_tile = SHARERS * at.row_tile + 4 * at.rank * at.blocks;
            const int left = (at.row_tiles - at.row_tile + 3) / 4;
            at.blocks = left < at.blocks ? left > 0 ? left : 0 : at.blocks;
        }
        at.x_row = (long long)sweep.tile_m * BLOCK_M;
        return true;
    }
};

#endif
