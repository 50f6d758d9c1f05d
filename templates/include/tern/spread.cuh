// Row blocks of 64 rows of W dealt out to blocks of a persistent grid, equally many to each, and of those that are left over each block's part of
// the columns. A block has one tile of x at a time, which it shares with as many others as there are blocks for it. Owns nothing.
#ifndef TERN_SPREAD_CUH
#define TERN_SPREAD_CUH

#define TERN_SPREAD_PARTS 8 /* of the columns of a row block that is left over */

struct tern_spread {
    unsigned tile_m, tiles_m, at_once; // the tile of x at hand, all, and how many are under way at the same time
    unsigned self, count;              // this block, and all that have this tile of x
    unsigned turn, turns;              // places that it has of it: those that come, and all
    unsigned own, left;                // of them with a row block of its own; row blocks left over
    unsigned row_block, blocks;        // the place at hand: its own row block, and 0 if there is none;
    unsigned odd, part;                // the one that is left over, and which part of its columns,
    bool shares;                       // if it has one
};

// Worker `self` of `workers`, each of them a block, or a cluster of them that divide K.
__device__ __forceinline__ tern_spread tern_spread_start(long long n, unsigned tiles_m, unsigned self, unsigned workers) {
    const unsigned row_blocks = ((unsigned)n + 63) / 64, at_once = tiles_m < workers ? tiles_m : workers;
    const unsigned share = at_once == 1 ? workers : workers / at_once, column = self < share ? 0 : self / share;
    tern_spread s;
    s.at_once = at_once;
    s.tiles_m = tiles_m;
    s.tile_m = column < at_once ? column : tiles_m; // a worker that is one too many has none
    s.self = self - column * share;
    s.count = share;
    s.own = row_blocks < 2 * s.count ? row_blocks >= s.count : row_blocks / s.count;
    s.left = row_blocks - s.own * s.count;
    const unsigned parts = s.left * TERN_SPREAD_PARTS,
                   shared = parts <= s.count ? parts > 0 : (parts + s.count - 1) / s.count;
    s.turn = 0;
    s.turns = shared > s.own ? shared : s.own;
    return s;
}

// Goes to the next place; false when there is none.
__device__ __forceinline__ bool tern_spread_next(tern_spread &s) {
    if (s.turn == s.turns) {
        s.turn = 0;
        s.tile_m += s.at_once;
    }
    if (s.tile_m >= s.tiles_m)
        return false;
    const unsigned item = s.turn * s.count + s.self;
    s.blocks = s.turn < s.own;
    s.row_block = s.blocks ? item : 0;
    s.shares = item < s.left * TERN_SPREAD_PARTS;
    s.odd = s.shares ? s.own * s.count + item / TERN_SPREAD_PARTS : 0;
    s.part = item % TERN_SPREAD_PARTS;
    s.turn++;
    return true;
}

#endif
