// Which block of a cluster gets, adds up and stores which sums: units of 16 rows of x (8 sums a thread) of the row blocks that a warpgroup
// has. Owns nothing.
//
// Where a row block's units divide evenly, each block owns equally many of them that follow each other. Else all units of all row blocks
// are dealt out in turn, and the kernel begins with another block in each warpgroup, so that all own about equally many.
#ifndef TERN_UNIT_OWNER_CUH
#define TERN_UNIT_OWNER_CUH

// A thread holds UNITS units of each of ROW_BLOCKS row blocks. `rank` is that of a block from the warpgroup's first one on.
template <int CLUSTER, int ROW_BLOCKS, int UNITS> struct tern_units {
    static constexpr bool even = UNITS % CLUSTER == 0;
    static constexpr int share = even ? UNITS / CLUSTER : 1; // units of a row block that one block owns
    static constexpr int most = even ? ROW_BLOCKS * share : (ROW_BLOCKS * UNITS + CLUSTER - 1) / CLUSTER; // of all

    // The index-th unit of block `rank`: its row block, and which it is there.
    static constexpr __host__ __device__ int block_of(int index, int rank) {
        return even ? index / share : (index * CLUSTER + rank) / UNITS;
    }
    static constexpr __host__ __device__ int unit_of(int index, int rank) {
        return even ? rank * share + index % share : (index * CLUSTER + rank) % UNITS;
    }
    // How many block `rank` owns of `blocks` row blocks.
    static constexpr __host__ __device__ int count(int blocks, int rank) {
        return even ? blocks * share : (blocks * UNITS - rank + CLUSTER - 1) / CLUSTER;
    }
    // The block that warpgroup n of those side by side begins with.
    static constexpr __host__ __device__ int first(int n) { return even ? 0 : n * ROW_BLOCKS * UNITS % CLUSTER; }
};

#endif
