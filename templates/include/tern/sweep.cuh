// Which output tiles a block of a persistent grid works on, and in which order. W is counted in row blocks of 64 rows, x in
// tiles of rows; a tile of y is up to BLOCKS row blocks times one tile of x. Owns nothing.
//
// Where there are few tiles they are cut so that all workers get equally many row blocks: units are row blocks times tiles
// of x, x the slow direction, and a worker's share is next .. end - 1. Where there are many, tiles are whole and workers
// sweep them side by side: strips of GROUP_M tiles of x, inside a strip x the fast direction, so that x and W are shared in
// L2.
#ifndef TERN_SWEEP_CUH
#define TERN_SWEEP_CUH

struct tern_sweep {
    unsigned next, end;
    unsigned step;                         // 0: shares
    unsigned row_blocks, tiles_n, tiles_m; // of the problem
    unsigned row_block, blocks, tile_m;    // the tile at hand: first row block, how many (1 or more), tile of x
};

// Worker `self` of `count`. SHARES: shares in any case, and tern_sweep_next with GROUP_M = 0.
template <int BLOCKS, bool SHARES = false>
__device__ __forceinline__ tern_sweep tern_sweep_start(long long n, unsigned tiles_m, unsigned self, unsigned count) {
    const unsigned row_blocks = ((unsigned)n + 63) / 64, tiles_n = (row_blocks + BLOCKS - 1) / BLOCKS;
    const unsigned units = row_blocks * tiles_m;
    tern_sweep s = {self, tiles_n * tiles_m, count, row_blocks, tiles_n, tiles_m, 0, 0, 0};
    if (SHARES || units <= count * (BLOCKS * 6u)) { // a share is at most about six tiles
        s.step = 0;
        const unsigned base = units / count, more = units - base * count; // of whom the first have one more
        s.next = self * base + (self < more ? self : more);
        s.end = s.next + base + (self < more ? 1 : 0);
    }
    return s;
}

// Goes to whole tile `tile` of all. `group`: tiles of x in a strip, if not GROUP_M.
template <int BLOCKS, int GROUP_M>
__device__ __forceinline__ void tern_sweep_go(tern_sweep &s, unsigned tile, unsigned group = GROUP_M) {
    const unsigned strip = tile / (group * s.tiles_n), rest = tile - strip * (group * s.tiles_n);
    const unsigned left = s.tiles_m - strip * group, height = left < group ? left : group;
    s.tile_m = strip * group + rest % height;
    s.row_block = rest / height * BLOCKS;
    s.blocks = s.row_blocks - s.row_block < BLOCKS ? s.row_blocks - s.row_block : BLOCKS;
}

// Goes to the next tile; false when there is none. `group` as above.
template <int BLOCKS, int GROUP_M>
__device__ __forceinline__ bool tern_sweep_next(tern_sweep &s, unsigned group = GROUP_M) {
    if (s.next >= s.end)
        return false;
    if (GROUP_M == 0 || s.step == 0) { // what is left of the share in this tile of x, in equal parts
        s.tile_m = s.next < s.row_blocks ? 0 : s.next / s.row_blocks; // a division is what a block begins with: none in vain
        s.row_block = s.next - s.tile_m * s.row_blocks;
        const unsigned share = s.end - s.next, rest = s.row_blocks - s.row_block, left = share < rest ? share : rest;
        const unsigned parts = (left + BLOCKS - 1) / BLOCKS;
        s.blocks = parts == 1 ? left : (left + parts - 1) / parts;
        s.next += s.blocks;
        return true;
    }
    tern_sweep_go<BLOCKS, GROUP_M == 0 ? 1 : GROUP_M>(s, s.next, group);
    s.next += s.step;
    return true;
}

// Row blocks of the largest tile of a share that has not begun, or more.
template <int BLOCKS> __device__ __forceinline__ unsigned tern_sweep_largest(const tern_sweep &s) {
    const unsigned share = s.end - s.next, parts = (share + BLOCKS - 1) / BLOCKS;
    if (s.tiles_m == 1 && parts > 1)
        return (share + parts - 1) / parts;
    return share < BLOCKS ? share : BLOCKS;
}

#endif
