// The frame of lean decode kernels: every warp streams one piece of the packed weights through its own ring of stages in shared
// memory. The arithmetic, x and y are the template's own. What it is lean in: few instructions ahead of the first load, and
// few for each tile that passes.
//
// The including kernel has these constants in front of it: BITS, ZERO, HAS_ZEROS, GROUP (of the format) and the parameters
// WARPS, CLUSTER_K, TILES (K tiles of 128 in a stage, at most), STAGES (of a ring), BULK (0: cp.async by all lanes; 1: bulk
// copies by lane 0, compute capability 9.0).
//
// Sharing. Row tiles of 16 rows are dealt to the clusters of CLUSTER_K blocks in runs, as even as whole numbers go; rank r of
// a cluster has the r-th part of the K tiles. In the block the (row tile, K tile) pairs form one line, row tile major, that is
// cut into WARPS even pieces. A stage holds tiles of one row tile that follow each other, hence one run of codes and one of
// scales.
#ifndef TERN_STREAM_CUH
#define TERN_STREAM_CUH

#include "tern/abi.h"
#include "tern/bulk.cuh"
#include "tern/dequant.cuh"
#include "tern/memory.cuh"

constexpr int TILE_BYTES = 256 * BITS;
constexpr int TILE_CHUNKS = BITS / 2;                                 // 16-byte chunks of a lane in a tile
constexpr int SPANS = GROUP % 128 == 0 ? 1 : GROUP % 64 == 0 ? 2 : 4; // pieces of a tile that surely share a scale
constexpr int SPANS_PER_GROUP = GROUP == 0 ? 1 : GROUP * SPANS / 128; // GROUP 96: spans of 32, three to a group
constexpr int ENTRIES = GROUP == 0 ? 1 : TILES * SPANS;               // scales (of 16 rows) that a stage has at most
constexpr int SCALES_AT = TILES * TILE_BYTES;                         // in a stage, behind the codes: entries of 32 bytes
constexpr int ZEROS_AT = SCALES_AT + ENTRIES * 32;                    // entries of 16 bytes
constexpr int STAGE_BYTES = ZEROS_AT + HAS_ZEROS * ENTRIES * 16;
static_assert(BITS == 2 || BITS == 4, "code widths of one plane");
static_assert(2 * ENTRIES <= 32, "a lane copies at most 16 bytes of scales");

__host__ __device__ constexpr __forceinline__ int tern_smaller(int a, int b) {
    return a < b ? a : b;
}

// What the block owns: row tiles first_row .. first_row + rows - 1, K tiles k_begin .. k_begin + tiles - 1. Uniform.
struct tern_share {
    int first_row, rows, most_rows; // most_rows: of any block
    int k_begin, tiles, most_tiles;
    int k_tiles; // of the whole of W
};

__device__ __forceinline__ struct tern_share tern_share_make(const struct tern_args &args) {
    struct tern_share s;
    const unsigned k_tiles = ((unsigned)args.k + 127) / 128, row_tiles = ((unsigned)args.n + 15) / 16;
    const unsigned clusters = gridDim.x / CLUSTER_K, cluster = blockIdx.x / CLUSTER_K, rank = blockIdx.x % CLUSTER_K;
    unsigned even = 1, rest = 0;
    if (clusters != row_tiles) { // the only division by a run-time value; uniform branch
        even = row_tiles / clusters;
        rest = row_tiles - even * clusters;
    }
    s.first_row = (int)(cluster * even + (cluster < rest ? cluster : rest));
    s.rows = (int)(even + (cluster < rest));
    s.most_rows = (int)(even + (rest > 0));
    s.k_tiles = (int)k_tiles;
    s.k_begin = (int)(rank * k_tiles / CLUSTER_K);
    s.tiles = (int)((rank + 1) * k_tiles / CLUSTER_K) - s.k_begin;
    s.most_tiles = (int)((k_tiles + CLUSTER_K - 1) / CLUSTER_K);
    return s;
}

// Where warp's piece of the line begins; warp may be WARPS: the end of the line.
__device__ __forceinline__ int tern_piece_begin(const struct tern_share &s, int warp) {
    return (int)((unsigned)(warp * (s.rows * s.tiles)) / WARPS);
}
// The row tile, from the share's first, in which it begins: piece_begin / tiles, whatever tiles is.
__device__ __forceinline__ int tern_piece_row(const struct tern_share &s, int warp) {
    return (int)((unsigned)(warp * s.rows) / WARPS);
}

// A warp's place in its piece; left counts tiles of the piece.
struct tern_cursor {
    int row, k, left; // row and k from the share's first
};

__device__ __forceinline__ struct tern_cursor tern_cursor_start(const struct tern_share &s, int warp) {
    struct tern_cursor c;
    const int begin = tern_piece_begin(s, warp);
    c.left = tern_piece_begin(s, warp + 1) - begin;
    c.row = tern_piece_row(s, warp);
    c.k = begin - c.row * s.tiles;
    return c;
}

// Tiles of the stage at the cursor: 0 at the end of the piece.
__device__ __forceinline__ int tern_cursor_tiles(const struct tern_cursor &c, const struct tern_share &s) {
    return tern_smaller(TILES, tern_smaller(s.tiles - c.k, c.left));
}

// Passes over the stage's tiles; true if they were the last ones of their row tile in this piece.
__device__ __forceinline__ bool tern_cursor_pass(struct tern_cursor &c, const struct tern_share &s, int tiles) {
    c.left -= tiles;
    c.k += tiles;
    const bool end = c.k == s.tiles;
    if (end) {
        c.k = 0;
        c.row++;
    }
    return end || c.left == 0;
}

// The group of span `span` of K tile `k` of W; spans behind the end of K count to the last group.
__device__ __forceinline__ int tern_span_group(int k, int span, int groups) {
    if (GROUP == 0)
        return 0;
    const int group = (int)((unsigned)(k * SPANS + span) / SPANS_PER_GROUP);
    return SPANS > 1 ? tern_smaller(group, groups - 1) : group;
}

// Starts the copies of the stage at the cursor, `tiles` tiles, into a slot of the ring.
__device__ __forceinline__ void tern_stage_copy(unsigned char *slot, void *barrier, const struct tern_cursor &c, int tiles,
                                                const struct tern_share &s, const struct tern_args &args, int lane) {
    const int k = s.k_begin + c.k, groups = (int)args.groups;
    const unsigned row = (unsigned)(s.first_row + c.row);
    const int first = tern_span_group(k, 0, groups);
    const int entries = SPANS == 1 && GROUP == 128 ? tiles : tern_span_group(k + tiles - 1, SPANS - 1, groups) - first + 1;
    const unsigned long long entry = (unsigned long long)row * (unsigned)groups + (unsigned)first;
    const unsigned char *codes =
        (const unsigned char *)args.codes + ((unsigned long long)row * (unsigned)s.k_tiles + (unsigned)k) * TILE_BYTES;
    const unsigned char *scales = (const unsigned char *)args.scales + entry * 32;
    const unsigned char *zeros = (const unsigned char *)args.zeros + entry * 16;
    if (BULK) {
        if (lane != 0)
            return;
        tern_barrier_arrive_expect(barrier, tiles * TILE_BYTES + entries * (32 + 16 * HAS_ZEROS));
        tern_bulk_copy(slot, codes, tiles * TILE_BYTES, barrier);
        tern_bulk_copy(slot + SCALES_AT, scales, entries * 32, barrier);
        if (HAS_ZEROS)
            tern_bulk_copy(slot + ZEROS_AT, zeros, entries * 16, barrier);
        return;
    }
    unsigned char *to = slot + lane * 16;
#pragma unroll
    for (int i = 0; i < TILES * TILE_CHUNKS; i++)
        tern_cp_async_if<16>(to + i * 512, codes + lane * 16 + i * 512, true, i / TILE_CHUNKS < tiles);
    tern_cp_async_if<16>(to + SCALES_AT, scales + lane * 16, true, lane < 2 * entries);
    if (HAS_ZEROS)
        tern_cp_async_if<16>(to + ZEROS_AT, zeros + lane * 16, true, lane < entries);
}

// A warp's ring: its slots, their barriers (BULK), and the place that is filled next.
struct tern_ring {
    unsigned char *slots; // [STAGES][STAGE_BYTES]
    unsigned char *barriers;
    struct tern_cursor fetch;
};

// Fills slot `stage` with the next stage of the piece. Past its end nothing is copied, but the group of copies is closed all
// the same: the walk counts them.
__device__ __forceinline__ void tern_ring_fill(struct tern_ring &ring, int stage, const struct tern_share &s,
                                               const struct tern_args &args, int lane) {
    const int tiles = tern_cursor_tiles(ring.fetch, s);
    if (tiles > 0) {
        tern_stage_copy(ring.slots + stage * STAGE_BYTES, ring.barriers + stage * 8, ring.fetch, tiles, s, args, lane);
        tern_cursor_pass(ring.fetch, s, tiles);
    }
    if (!BULK)
        tern_cp_async_commit();
}

// Prepares the ring at `slots` and `barriers` (the warp's own) and starts the first copies.
__device__ __forceinline__ void tern_ring_start(struct tern_ring &ring, unsigned char *slots, unsigned char *barriers,
                                                const struct tern_share &s, const struct tern_args &args, int warp,
                                                int lane) {
    ring.slots = slots;
    ring.barriers = barriers;
    ring.fetch = tern_cursor_start(s, warp);
    if (BULK && lane == 0)
#pragma unroll
        for (int i = 0; i < STAGES; i++)
            tern_barrier_init(barriers + i * 8, 1);
    if (BULK)
        __syncwarp();
#pragma unroll
    for (int i = 0; i < STAGES; i++)
        tern_ring_fill(ring, i, s, args, lane);
}

// Walks the piece: use(slot, j, k, entry) for each tile, j its place in the slot, k its K tile from the share's first, entry
// (of the slot) its first span's scales' place among those of all K; flush(row) behind the last tile of a row tile in this piece.
template <class USE, class FLUSH>
__device__ __forceinline__ void tern_ring_walk(struct tern_ring &ring, const struct tern_share &s,
                                               const struct tern_args &args, int warp, int lane, USE use, FLUSH flush) {
    struct tern_cursor here = tern_cursor_start(s, warp);
    int stage = 0, parity = 0;
#pragma unroll 1
    while (here.left > 0) {
        const unsigned char *slot = ring.slots + stage * STAGE_BYTES;
        const int tiles = tern_cursor_tiles(here, s), row = here.row;
        if (BULK) {
            tern_barrier_wait(ring.barriers + stage * 8, parity);
        } else {
            tern_cp_async_wait<STAGES - 1>();
            __syncwarp(); // scales were copied by other lanes
        }
#pragma unroll 1
        for (int j = 0; j < tiles; j++)
            use(slot, j, here.k + j, here.k);
        __syncwarp(); // all have read
        tern_ring_fill(ring, stage, s, args, lane);
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
        if (tern_cursor_pass(here, s, tiles))
            flush(row);
    }
}

// Scales of span `span` of tile k (from the share's first) in a slot whose first tile is first_k: row g in the low half,
// row g + 8 in the high half.
__device__ __forceinline__ int tern_slot_entry(const struct tern_share &s, int k, int first_k, int span, int groups) {
    return GROUP == 0                     ? 0
           : SPANS == 1 && GROUP == 128 ? k - first_k
                                          : tern_span_group(s.k_begin + k, span, groups) -
                                                tern_span_group(s.k_begin + first_k, 0, groups);
}
__device__ __forceinline__ float2 tern_slot_scale(const unsigned char *slot, int entry, int lane) {
    const unsigned pair = *reinterpret_cast<const unsigned *>(slot + SCALES_AT + entry * 32 + lane / 4 * 4);
    return __half22float2(tern_as_half2(pair));
}
__device__ __forceinline__ uint2 tern_slot_zeros(const unsigned char *slot, int entry, int lane) {
    const unsigned pair = *reinterpret_cast<const unsigned short *>(slot + ZEROS_AT + entry * 16 + lane / 4 * 2);
    return make_uint2(pair & 0xFFu, pair >> 8);
}

#endif
