// The frame of lean decode kernels: every warp streams one piece of the packed weights through its own ring of stages in shared
// memory. The arithmetic, x and y are the template's own. What it is lean in: few instructions ahead of the first load, and
// few for each tile that passes.
//
// The including kernel has these constants in front of it: BITS, ZERO, HAS_ZEROS, GROUP (of the format), BF16 (of x and y) and the parameters
// WARPS, ROW_TILES (tiles of 16 rows that go together: a row block), CLUSTER_K, TILES (K tiles of 128 in a stage, at most),
// STAGES (of a ring), BULK (0: cp.async by all lanes; 1: bulk copies by lane 0, compute capability 9.0).
//
// Sharing. Row blocks are dealt to the clusters of CLUSTER_K blocks in runs, as even as whole numbers go; rank r of a cluster
// has the r-th part of the K tiles. In the block the (row block, K tile) pairs form one line, row block major, that is cut into
// WARPS even pieces. A stage holds pairs of one row block that follow each other, hence for each of its row tiles one run of
// codes and one of scales.
#ifndef TERN_STREAM_CUH
#define TERN_STREAM_CUH

#include "tern/abi.h"
#include "tern/bulk.cuh"
#include "tern/dependent.cuh"
#include "tern/dequant.cuh"
#include "tern/memory.cuh"

constexpr int TILE_BYTES = 256 * BITS;
constexpr int TILE_CHUNKS = BITS / 2;                                 // 16-byte chunks of a lane in a tile
constexpr int SPANS = GROUP % 128 == 0 ? 1 : GROUP % 64 == 0 ? 2 : 4; // pieces of a tile that surely share a scale
constexpr int SPANS_PER_GROUP = GROUP == 0 ? 1 : GROUP * SPANS / 128; // GROUP 96: spans of 32, three to a group
constexpr int ENTRIES = GROUP == 0 ? 1 : TILES * SPANS;               // scales that a row tile has in a stage at most
constexpr int RUN_BYTES = TILES * TILE_BYTES;                         // a stage: codes, [ROW_TILES] runs; behind them
constexpr int SCALES_AT = ROW_TILES * RUN_BYTES;                      // scales, [ROW_TILES][ENTRIES] of 32 bytes
constexpr int ZEROS_AT = SCALES_AT + ROW_TILES * ENTRIES * 32;        // zero points, [ROW_TILES][ENTRIES] of 16 bytes
constexpr int STAGE_BYTES = ZEROS_AT + HAS_ZEROS * ROW_TILES * ENTRIES * 16;
static_assert(BITS <= 4, "8 bits have a chunk for each step");
static_assert(BULK || 2 * ENTRIES <= 32, "a lane copies at most 16 bytes of scales");

__host__ __device__ constexpr __forceinline__ int tern_smaller(int a, int b) {
    return a < b ? a : b;
}

// What the block owns: row blocks first_row .. first_row + rows - 1, K tiles k_begin .. k_begin + tiles - 1. Uniform.
struct tern_share {
    int first_row, rows, most_rows; // most_rows: of any block
    int k_begin, tiles, most_tiles;
    int k_tiles, row_tiles; // of the whole of W
};

__device__ __forceinline__ struct tern_share tern_share_make(const struct tern_args &args) {
    struct tern_share s;
    const unsigned k_tiles = ((unsigned)args.k + 127) / 128, row_tiles = ((unsigned)args.n + 15) / 16;
    const unsigned clusters = gridDim.x / CLUSTER_K, cluster = blockIdx.x / CLUSTER_K, rank = blockIdx.x % CLUSTER_K;
    unsigned even = 1, rest = 0;
    const unsigned row_blocks = (row_tiles + ROW_TILES - 1) / ROW_TILES;
    if (clusters != row_blocks) { // the only division by a run-time value; uniform branch
        even = row_blocks / clusters;
        rest = row_blocks - even * clusters;
    }
    s.row_tiles = (int)row_tiles;
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
// The row block, from the share's first, in which it begins: piece_begin / tiles, whatever tiles is.
__device__ __forceinline__ int tern_piece_row(const struct tern_share &s, int warp) {
    return (int)((unsigned)(warp * s.rows) / WARPS);
}

// Calls use(row of x, q) for the warp's part of the block's x: 32 chunks of 8 k, of K tiles 2 * q and 2 * q + 1. Uniform.
template <class USE> __device__ __forceinline__ void tern_x_each(const struct tern_share &s, int rows, int warp, USE use) {
    const int pairs = (s.tiles + 1) / 2;
    int row = 0, q = warp;
#pragma unroll 1
    while (true) {
        while (q >= pairs) {
            q -= pairs;
            row++;
        }
        if (row >= rows)
            break;
        use(row, q);
        q += WARPS;
    }
}

// Groups of a lane's copies that are younger than x's when x is waited for: the first weights, where those come by cp.async and
// behind x. They come ahead of x in a dependent launch, which has them on their way while it waits for x.
constexpr int BEHIND_X = BULK || DEPENDENT ? 0 : STAGES;

// Starts the copies of x by cp.async, to `to`, rows `pitch` bytes apart: chunk q * 32 + lane of a row by that lane of the warp that
// tern_x_each gives it to. k behind K become zeros.
__device__ __forceinline__ void tern_x_copy_async(unsigned char *to, int pitch, const struct tern_share &s,
                                                  const struct tern_args &args, int rows, int warp, int lane) {
    const unsigned short *x = (const unsigned short *)args.x + s.k_begin * 128;
    const int present = (int)args.k - s.k_begin * 128;
    tern_x_each(s, rows, warp, [&](int row, int q) {
        const int chunk = q * 32 + lane;
        tern_cp_async_if<16>(to + row * pitch + chunk * 16, x + row * args.k + chunk * 8, chunk * 8 < present,
                             chunk < s.tiles * 16);
    });
    tern_cp_async_commit();
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

// Where the pieces are runs of memory, of codes and scales alike, stages need not end with a row block.
constexpr bool ENTRY_A_TILE = GROUP == 128; // scales follow each other as tiles do
constexpr bool LINEAR = ENTRY_A_TILE && CLUSTER_K == 1 && ROW_TILES == 1;

// Tiles of the stage at the cursor: 0 at the end of the piece.
__device__ __forceinline__ int tern_cursor_tiles(const struct tern_cursor &c, const struct tern_share &s) {
    return LINEAR ? tern_smaller(TILES, c.left) : tern_smaller(TILES, tern_smaller(s.tiles - c.k, c.left));
}

// The group of span `span` of K tile `k` of W; spans behind the end of K count to the last group.
__device__ __forceinline__ int tern_span_group(int k, int span, int groups) {
    if (GROUP == 0)
        return 0;
    const int group = (int)((unsigned)(k * SPANS + span) / SPANS_PER_GROUP);
    return SPANS > 1 ? tern_smaller(group, groups - 1) : group;
}

// A warp's ring, and what is copied into it next.
struct tern_warp_ring {
    unsigned char *slots;    // [STAGES][STAGE_BYTES]
    unsigned char *barriers; // [STAGES], BULK only
    struct tern_cursor fetch;
    // At the fetch's tile, for this lane's 16 bytes (BULK: for all): codes; scales and zeros where a tile has an entry.
    const unsigned char *codes, *scales, *zeros;
};

// Sets the ring's pointers to the cursor's tile.
__device__ __forceinline__ void tern_ring_point(struct tern_warp_ring &ring, const struct tern_share &s,
                                                const struct tern_args &args, int lane) {
    const unsigned row_tile = (unsigned)(s.first_row + ring.fetch.row) * ROW_TILES, k = (unsigned)(s.k_begin + ring.fetch.k);
    const unsigned long long tile = (unsigned long long)row_tile * (unsigned)s.k_tiles + k;
    const int own = BULK ? 0 : lane * 16;
    ring.codes = (const unsigned char *)args.codes + tile * TILE_BYTES + own;
    ring.scales = (const unsigned char *)args.scales + tile * 32 + own;
    ring.zeros = (const unsigned char *)args.zeros + tile * 16 + own;
}

// Starts the copies of one row tile's part of a stage, `tiles` tiles and `entries` scales.
__device__ __forceinline__ void tern_run_copy(const struct tern_warp_ring &ring, int stage, int r, int tiles, int entries,
                                              const unsigned char *codes, const unsigned char *scales,
                                              const unsigned char *zeros, int lane) {
    unsigned char *slot = ring.slots + stage * STAGE_BYTES, *to = slot + r * RUN_BYTES;
    unsigned char *to_scales = slot + SCALES_AT + r * ENTRIES * 32, *to_zeros = slot + ZEROS_AT + r * ENTRIES * 16;
    if (BULK) {
        void *barrier = ring.barriers + stage * 8;
        tern_bulk_copy(to, codes, tiles * TILE_BYTES, barrier);
        tern_bulk_copy(to_scales, scales, entries * 32, barrier);
        if (HAS_ZEROS)
            tern_bulk_copy(to_zeros, zeros, entries * 16, barrier);
        return;
    }
#pragma unroll
    for (int i = 0; i < TILES * TILE_CHUNKS; i++)
        tern_cp_async_if<16>(to + lane * 16 + i * 512, codes + i * 512, true, i / TILE_CHUNKS < tiles);
    tern_cp_async_if<16>(to_scales + lane * 16, scales, true, lane < 2 * entries);
    if (HAS_ZEROS)
        tern_cp_async_if<16>(to_zeros + lane * 16, zeros, true, lane < entries);
}

// Starts the copies of the stage at the cursor, `tiles` K tiles. What row tiles behind N would have stays as it is.
__device__ __forceinline__ void tern_stage_copy(const struct tern_warp_ring &ring, int stage, int tiles,
                                                const struct tern_share &s, const struct tern_args &args, int lane) {
    const int row_tile = (s.first_row + ring.fetch.row) * ROW_TILES, groups = (int)args.groups;
    const int present = tern_smaller(ROW_TILES, s.row_tiles - row_tile);
    const unsigned char *scales = ring.scales, *zeros = ring.zeros;
    int entries = tiles;
    if (!ENTRY_A_TILE) {
        const int k = s.k_begin + ring.fetch.k, first = tern_span_group(k, 0, groups), own = BULK ? 0 : lane * 16;
        const unsigned long long entry = (unsigned long long)row_tile * (unsigned)groups + (unsigned)first;
        entries = tern_span_group(k + tiles - 1, SPANS - 1, groups) - first + 1;
        scales = (const unsigned char *)args.scales + entry * 32 + own;
        zeros = (const unsigned char *)args.zeros + entry * 16 + own;
    }
    if (BULK && lane != 0)
        return;
    if (BULK)
        tern_barrier_arrive_expect(ring.barriers + stage * 8,
                                   present * (tiles * TILE_BYTES + entries * (32 + 16 * HAS_ZEROS)));
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        if (ROW_TILES == 1 || r < present)
            tern_run_copy(ring, stage, r, tiles, entries, ring.codes + (long long)r * s.k_tiles * TILE_BYTES,
                          scales + (long long)r * groups * 32, zeros + (long long)r * groups * 16, lane);
}

// Fills slot `stage` with the next stage of the piece. Past its end nothing is copied, but the group of copies is closed all
// the same: the walk counts them.
__device__ __forceinline__ void tern_ring_fill(struct tern_warp_ring &ring, int stage, const struct tern_share &s,
                                               const struct tern_args &args, int lane) {
    const int tiles = tern_cursor_tiles(ring.fetch, s);
    if (tiles > 0) {
        tern_stage_copy(ring, stage, tiles, s, args, lane);
        ring.fetch.left -= tiles;
        int passed = tiles;
        if (!LINEAR) {
            ring.fetch.k += tiles;
            if (ring.fetch.k == s.tiles) { // a jump to the next row block
                ring.fetch.k = 0;
                ring.fetch.row++;
                passed += ROW_TILES * s.k_tiles - s.tiles;
            }
        }
        ring.codes += passed * TILE_BYTES;
        ring.scales += passed * 32;
        ring.zeros += passed * 16;
    }
    if (!BULK)
        tern_cp_async_commit();
}

// Prepares the ring at `slots` and `barriers` (the warp's own) and starts the first copies.
__device__ __forceinline__ void tern_ring_start(struct tern_warp_ring &ring, unsigned char *slots, unsigned char *barriers,
                                                const struct tern_share &s, const struct tern_args &args, int warp,
                                                int lane) {
    ring.slots = tern_shared_kept(slots);
    ring.barriers = barriers;
    ring.fetch = tern_cursor_start(s, warp);
    tern_ring_point(ring, s, args, lane);
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

// Walks the piece: use(slot, j, k, first_k) for each K tile, j its place in the slot, k its K tile, first_k that of the slot's
// first (not where LINEAR: there entry j is its scales), both from the share's first; flush(row) behind the last one of a row
// block in this piece.
template <class USE, class FLUSH>
__device__ __forceinline__ void tern_ring_walk(struct tern_warp_ring &ring, const struct tern_share &s,
                                               const struct tern_args &args, int warp, int lane, USE use, FLUSH flush) {
    struct tern_cursor here = tern_cursor_start(s, warp);
    int stage = 0, parity = 0;
#pragma unroll 1
    while (here.left > 0) {
        const unsigned char *slot = ring.slots + stage * STAGE_BYTES;
        const int tiles = tern_cursor_tiles(here, s), first_k = here.k;
        if (BULK) {
            tern_barrier_wait(ring.barriers + stage * 8, parity);
        } else {
            tern_cp_async_wait<STAGES - 1>();
            __syncwarp(); // scales were copied by other lanes
        }
        here.left -= tiles;
#pragma unroll 1
        for (int j = 0; j < tiles; j++) {
            use(slot, j, here.k, first_k);
            if (++here.k == s.tiles) {
                flush(here.row);
                here.k = 0;
                here.row++;
            }
        }
        __syncwarp(); // all have read
        tern_ring_fill(ring, stage, s, args, lane);
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
    if (here.k > 0 && tern_piece_begin(s, warp + 1) > tern_piece_begin(s, warp))
        flush(here.row);
}

// Which of a row tile's entries in a slot is that of span `span` of K tile k, in place j; the slot's first tile is first_k.
__device__ __forceinline__ int tern_slot_entry(const struct tern_share &s, int j, int k, int first_k, int span, int groups) {
    if (GROUP == 0)
        return 0;
    if (ENTRY_A_TILE)
        return j;
    return tern_span_group(s.k_begin + k, span, groups) - tern_span_group(s.k_begin + first_k, 0, groups);
}
// Scales of row g (low half) and row g + 8 (high half) of row tile r; their zero points likewise, a byte each.
__device__ __forceinline__ unsigned tern_slot_scales(const unsigned char *slot, int r, int entry, int lane) {
    return tern_shared_load_4(slot + SCALES_AT + (r * ENTRIES + entry) * 32 + lane / 4 * 4);
}
__device__ __forceinline__ unsigned tern_slot_zeros(const unsigned char *slot, int r, int entry, int lane) {
    return tern_shared_load_2(slot + ZEROS_AT + (r * ENTRIES + entry) * 16 + lane / 4 * 2);
}

// The lane's code words of row tile r in place j of a slot; of 3 bits those of the two low ones.
__device__ __forceinline__ void tern_slot_words(const unsigned char *slot, int r, int j, int lane,
                                                unsigned (&words)[tern_codes<BITS>::words]) {
#pragma unroll
    for (int i = 0; i < TILE_CHUNKS; i++) {
        const uint4 four = tern_shared_load_16(slot + r * RUN_BYTES + j * TILE_BYTES + i * 512 + lane * 16);
        words[4 * i + 0] = four.x;
        words[4 * i + 1] = four.y;
        words[4 * i + 2] = four.z;
        words[4 * i + 3] = four.w;
    }
}

#endif
