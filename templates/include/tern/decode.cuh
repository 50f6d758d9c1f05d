// The frame of decode kernels (few rows of x, weights read once): how blocks and warps share the weights, the ring in shared
// memory that keeps weight tiles in flight, x in shared memory, and the reduction of the warps' partial sums. The arithmetic
// on one tile is the template's own.
//
// The including kernel has these constants in front of it: BITS, ZERO, HAS_ZEROS, GROUP (of the format), BF16 (of x and y) and the parameters
// WARPS, ROW_TILES, PREFETCH, M_TILE, CLUSTER_K, X_CHUNK, X_BULK, RING.
//
// Sharing. W is cut into row blocks of ROW_TILES tiles of 16 rows. A cluster of CLUSTER_K blocks (1: a lone block) owns a
// run of row blocks, evenly over the grid; rank r of it owns the r-th part of the K tiles. Inside the block, the (row block,
// K tile) pairs form one line, row block major, that is cut into WARPS even pieces: a warp reads consecutive memory and may
// start and end inside a row block. It adds its sums to slots in shared memory, one for each row block it touches; at the
// end each output is the sum of the slots of its row block, in warp order, hence deterministic.
//
// Shared memory: x, [columns][x_pitch]; a second x buffer if X_CHUNK > 0; slots,
// [WARPS][slots_per_warp][columns][SLOT_PITCH] f32; one 8-byte barrier in 16; the warps' rings. The launch's smem expression
// states the same sum.
//
// Weights in flight. RING 0: a ring of registers. A warp has six scoreboards for all its loads and ptxas may give the loads
// of all slots one of them; then the wait for the oldest slot waits for the newest too. RING 1: asynchronous copies into a
// ring in shared memory, which are waited for in order, but stream fewer bytes a second: better for 2 bits, worse for 4.
#ifndef TERN_DECODE_CUH
#define TERN_DECODE_CUH

#include "tern/abi.h"
#include "tern/bulk.cuh"
#include "tern/cluster.cuh"
#include "tern/dependent.cuh"
#include "tern/dequant.cuh"
#include "tern/memory.cuh"

constexpr int TILE_BYTES = 256 * BITS;
constexpr int CODE_CHUNKS = BITS / 2;                                 // 16-byte chunks of a lane in a tile
constexpr int SPANS = GROUP % 128 == 0 ? 1 : GROUP % 64 == 0 ? 2 : 4; // pieces of a tile that surely share a scale
constexpr int SPANS_PER_GROUP = GROUP == 0 ? 1 : GROUP * SPANS / 128; // GROUP 96: spans of 32, three to a group
constexpr int BLOCK_ROWS = 16 * ROW_TILES;
constexpr int SLOT_PITCH = BLOCK_ROWS + 4;        // floats; + 4 keeps the fragment's stores free of bank conflicts
constexpr int SCALES_AT = ROW_TILES * TILE_BYTES; // in a slot of the ring, behind the codes: [ROW_TILES][SPANS] of 32 bytes
constexpr int ZEROS_AT = SCALES_AT + ROW_TILES * SPANS * 32; // [ROW_TILES][SPANS] of 16 bytes
constexpr int RING_BYTES = ZEROS_AT + HAS_ZEROS * ROW_TILES * SPANS * 16;
constexpr int X_BUFFERS = X_CHUNK > 0 ? 2 : 1;

// What the block owns and where it keeps it. All members are uniform over the block.
struct tern_share {
    int first_block, blocks;   // row blocks
    int k_begin, k_end;        // K tiles
    int k_tiles, row_tiles;    // of the whole of W
    int first_column, columns; // rows of x, columns of the fragments
    int chunk;                 // K tiles of x that are in shared memory at a time
    int x_pitch;               // bytes from one row of x to the next; 64 more than a multiple of 128: no bank conflicts
    int slots_per_warp;
    unsigned char *x;
    float *slots;
    void *barrier;
    unsigned char *ring;  // [WARPS][PREFETCH][RING_BYTES]
    unsigned char *extra; // the template's own: 16-byte aligned, what the launch's smem adds behind the ring
};

__host__ __device__ constexpr __forceinline__ int tern_smaller(int a, int b) {
    return a < b ? a : b;
}

__device__ __forceinline__ struct tern_share tern_share_make(const struct tern_args &args, unsigned char *shared) {
    struct tern_share s;
    s.k_tiles = (int)(((unsigned)args.k + 127) / 128); // N and K are below 2^31: unsigned divisions are shifts
    s.row_tiles = (int)(((unsigned)args.n + 15) / 16);
    const unsigned row_blocks = (unsigned)(s.row_tiles + ROW_TILES - 1) / ROW_TILES;
    const unsigned clusters = gridDim.x / CLUSTER_K, cluster = blockIdx.x / CLUSTER_K;
    unsigned most = 1, even = 1, rest = 0;
    if (clusters != row_blocks) { // the only division by a run-time value; uniform branch
        even = row_blocks / clusters;
        rest = row_blocks - even * clusters;
        most = even + (rest > 0);
    }
    s.first_block = (int)(cluster * even + (cluster < rest ? cluster : rest));
    s.blocks = (int)(even + (cluster < rest));
    const unsigned rank = blockIdx.x % CLUSTER_K;
    s.k_begin = (int)(rank * (unsigned)s.k_tiles / CLUSTER_K);
    s.k_end = (int)((rank + 1) * (unsigned)s.k_tiles / CLUSTER_K);
    s.first_column = (int)blockIdx.y * M_TILE;
    s.columns = tern_smaller((int)args.m - s.first_column, M_TILE);
    s.chunk = X_CHUNK > 0 ? X_CHUNK : (int)((unsigned)(s.k_tiles + CLUSTER_K - 1) / CLUSTER_K);
    s.x_pitch = s.chunk * 256 + 64;
    s.slots_per_warp = (int)((most + WARPS - 1) / WARPS + 1);
    s.x = shared;
    s.slots = (float *)(shared + X_BUFFERS * s.columns * s.x_pitch);
    s.barrier = s.slots + WARPS * s.slots_per_warp * s.columns * SLOT_PITCH;
    s.ring = (unsigned char *)s.barrier + 16;
    s.extra = s.ring + RING * WARPS * PREFETCH * RING_BYTES;
    return s;
}

// Where the lane finds its part of tile 0 and of the scales and zero points of group 0. Into a ring in shared memory a lane
// copies 16 bytes: lane 2*e + half the half of the scales of entry e = row tile * SPANS + span, lane e the zero points of
// it. Into registers it loads those of its rows.
struct tern_source {
    const unsigned char *codes, *scales, *zeros;
};

__device__ __forceinline__ struct tern_source tern_source_make(const struct tern_args &args, int lane_) {
    const unsigned lane = (unsigned)lane_, groups = (unsigned)args.groups;
    struct tern_source from;
    from.codes = (const unsigned char *)args.codes + lane * 16;
    from.scales =
        (const unsigned char *)args.scales + (RING ? lane / (2 * SPANS) * groups * 32 + lane % 2 * 16 : lane / 4 * 4);
    from.zeros = (const unsigned char *)args.zeros + (!HAS_ZEROS ? 0 : RING ? lane / SPANS * groups * 16 : lane / 4 * 2);
#ifndef TERN_EMULATOR
    // Keeps the sums in registers: the compiler would add the two parts anew to every tile's address.
    asm("" : "+l"(from.codes), "+l"(from.scales), "+l"(from.zeros));
#endif
    return from;
}

// One lane's part of a 16 x 128 tile with the scales and zero points of its rows g (low half) and g + 8 (high half).
struct tern_tile {
    unsigned words[tern_codes<BITS>::words];
    unsigned scales[SPANS];
    unsigned zeros[SPANS]; // two bytes
};

// A warp's place in its piece of the line of tiles. `left` counts the tiles of the running chunk.
struct tern_cursor {
    int block;          // row block, from the share's first
    int k, left;        // K tile; tiles left
    int k_begin, k_end; // the running chunk's K tiles
    unsigned tile;      // index in W of the tile k = 0 of the row block
    unsigned group;     // index in scales of its first group
    int present;        // row tiles of the row block and behind it that exist
};

__device__ __forceinline__ void tern_cursor_enter_block(struct tern_cursor &c, const struct tern_share &s, int groups) {
    const unsigned row_tile = (unsigned)(s.first_block + c.block) * ROW_TILES;
    c.tile = row_tile * (unsigned)s.k_tiles;
    c.group = row_tile * (unsigned)groups;
    c.present = s.row_tiles - (int)row_tile;
}

// The row block, from the share's first, in which the warp's piece begins.
__device__ __forceinline__ int tern_warp_first(const struct tern_share &s, int warp) {
    return (int)((unsigned)(warp * s.blocks) / WARPS);
}

// Goes to the start of the warp's piece of the chunk that begins at K tile k_begin. A piece may be empty.
__device__ __forceinline__ void tern_cursor_start(struct tern_cursor &c, const struct tern_share &s, int groups, int warp,
                                                  int k_begin) {
    c.k_begin = k_begin;
    c.k_end = tern_smaller(k_begin + s.chunk, s.k_end);
    const int tiles = c.k_end - c.k_begin;
    const unsigned line = (unsigned)(s.blocks * tiles), from = (unsigned)warp * line / WARPS;
    c.left = (int)((unsigned)(warp + 1) * line / WARPS - from);
    c.block = tern_warp_first(s, warp); // = from / tiles, whatever tiles is
    c.k = c.k_begin + (int)from - c.block * tiles;
    tern_cursor_enter_block(c, s, groups);
}

// Goes to the next tile; true if the tile just left was the last one of its row block in this piece.
__device__ __forceinline__ bool tern_cursor_next(struct tern_cursor &c, const struct tern_share &s, int groups) {
    c.left--;
    c.k++;
    const bool wrapped = c.k == c.k_end;
    if (wrapped) {
        c.k = c.k_begin;
        c.block++;
        tern_cursor_enter_block(c, s, groups);
    }
    return wrapped || c.left == 0;
}

// The group of span `span` of the cursor's tile; the spans behind the end of K belong to no group.
__device__ __forceinline__ unsigned tern_span_group(const struct tern_cursor &c, int span, int groups) {
    if (GROUP == 0)
        return 0;
    const int group = (c.k * SPANS + span) / SPANS_PER_GROUP;
    return (unsigned)(SPANS > 1 ? tern_smaller(group, groups - 1) : group);
}

// Starts the loads of the tiles at the cursor, one for each row tile of the block; row tiles beyond W and `wanted` false
// load nothing. With one scale a row, scales come only with the last tile of a row block, where they are used.
__device__ __forceinline__ void tern_tile_load(struct tern_tile (&tiles)[ROW_TILES], const struct tern_cursor &c,
                                               const struct tern_share &s, const struct tern_source &from, int groups,
                                               int lane, bool wanted) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        const bool load = wanted && (ROW_TILES == 1 || r < c.present);
        const unsigned index = c.tile + (unsigned)(r * s.k_tiles + c.k);
        const unsigned char *codes = from.codes + (unsigned long long)index * TILE_BYTES;
#pragma unroll
        for (int i = 0; i < CODE_CHUNKS; i++)
            tern_load_stream_16_if(tiles[r].words + 4 * i, codes + i * 512, load);
        if (BITS == 3)
            tern_load_stream_8_if(tiles[r].words + tern_codes<BITS>::words - 2, codes + 512 - lane * 8, load);
#pragma unroll
        for (int j = 0; j < SPANS; j++) {
            const unsigned long long entry = c.group + (unsigned)(r * groups) + tern_span_group(c, j, groups);
            const bool scale = GROUP != 0 || c.left == 1 || c.k + 1 == c.k_end;
            tern_load_stream_4_if(&tiles[r].scales[j], from.scales + entry * 32, load && scale);
            if (HAS_ZEROS)
                tern_load_stream_2_if(&tiles[r].zeros[j], from.zeros + entry * 16, load);
        }
    }
}

__device__ __forceinline__ void tern_tile_clear(struct tern_tile &tile) {
#pragma unroll
    for (int i = 0; i < tern_codes<BITS>::words; i++)
        tile.words[i] = 0;
#pragma unroll
    for (int j = 0; j < SPANS; j++)
        tile.scales[j] = tile.zeros[j] = 0;
}

// Starts the copies of the tiles at the cursor, one for each row tile of the block, into a slot of the ring; row tiles
// beyond W become zeros. With one scale a row, scales come only with the last tile of a row block, where they are used.
__device__ __forceinline__ void tern_tile_copy(unsigned char *slot, const struct tern_cursor &c, const struct tern_share &s,
                                               const struct tern_source &from, int groups, int lane) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        const bool present = ROW_TILES == 1 || r < c.present;
        const unsigned index = c.tile + (unsigned)(r * s.k_tiles + c.k);
        const unsigned char *codes = from.codes + (unsigned long long)index * TILE_BYTES;
        unsigned char *to = slot + r * TILE_BYTES + lane * 16;
#pragma unroll
        for (int i = 0; i < CODE_CHUNKS; i++)
            tern_cp_async<16>(to + i * 512, codes + i * 512, present);
        if (BITS == 3)
            tern_cp_async<8>(to + 512 - lane * 8, codes + 512 - lane * 8, present);
    }
    const bool scale = GROUP != 0 || c.left == 1 || c.k + 1 == c.k_end;
    const unsigned entry = c.group + tern_span_group(c, lane / 2 % SPANS, groups);
    tern_cp_async_if<16>(slot + SCALES_AT + lane * 16, from.scales + (unsigned long long)entry * 32,
                         ROW_TILES == 1 || lane / (2 * SPANS) < c.present, scale && lane < 2 * SPANS * ROW_TILES);
    if (HAS_ZEROS) {
        const unsigned of_zeros = c.group + tern_span_group(c, lane % SPANS, groups);
        tern_cp_async_if<16>(slot + ZEROS_AT + lane * 16, from.zeros + (unsigned long long)of_zeros * 16,
                             ROW_TILES == 1 || lane / SPANS < c.present, lane < SPANS * ROW_TILES);
    }
}

// The lane's part of a slot whose copies are complete.
__device__ __forceinline__ void tern_tile_take(struct tern_tile (&tiles)[ROW_TILES], const unsigned char *slot, int lane) {
    const int g = (int)((unsigned)lane / 4);
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        const unsigned char *codes = slot + r * TILE_BYTES + lane * 16;
#pragma unroll
        for (int i = 0; i < CODE_CHUNKS; i++) {
            const uint4 four = tern_shared_load_16(codes + i * 512);
            tiles[r].words[4 * i + 0] = four.x;
            tiles[r].words[4 * i + 1] = four.y;
            tiles[r].words[4 * i + 2] = four.z;
            tiles[r].words[4 * i + 3] = four.w;
        }
        if (BITS == 3) {
            const uint2 two = *reinterpret_cast<const uint2 *>(codes + 512 - lane * 8);
            tiles[r].words[tern_codes<BITS>::words - 2] = two.x;
            tiles[r].words[tern_codes<BITS>::words - 1] = two.y;
        }
#pragma unroll
        for (int j = 0; j < SPANS; j++) {
            const int entry = r * SPANS + j;
            tiles[r].scales[j] = *reinterpret_cast<const unsigned *>(slot + SCALES_AT + entry * 32 + g * 4);
            if (HAS_ZEROS)
                tiles[r].zeros[j] = *reinterpret_cast<const unsigned short *>(slot + ZEROS_AT + entry * 16 + g * 2);
        }
    }
}

__device__ __forceinline__ tern_zero_bias tern_tile_zero(const struct tern_tile &tile, int span) {
    if (HAS_ZEROS)
        return tern_zero_biases<BITS>(tile.zeros[span] & 0xFFu, tile.zeros[span] >> 8);
    return tern_zero_biases<BITS>(ZERO, ZERO);
}

// Scale of row g (half 0) or g + 8 (half 1) as a float.
__device__ __forceinline__ float tern_tile_scale(const struct tern_tile &tile, int span, int half) {
    const __half2 pair = tern_as_half2(tile.scales[span]);
    return half ? __high2float(pair) : __low2float(pair);
}

// Bytes of a row of x in the block's K tiles from k_begin on (one chunk), short of what lies behind K.
__device__ __forceinline__ int tern_x_bytes(const struct tern_share &s, const struct tern_args &args, int k_begin) {
    const int tiles = tern_smaller(s.chunk, s.k_end - k_begin);
    return tern_smaller((int)args.k - k_begin * 128, tiles * 128) * 2;
}

// Prepares the barrier for the bulk copies of x.
__device__ __forceinline__ void tern_x_announce(const struct tern_share &s, const struct tern_args &args) {
    if (threadIdx.x == 0) {
        tern_barrier_init(s.barrier, 1);
        tern_barrier_arrive_expect(s.barrier, s.columns * tern_x_bytes(s, args, s.k_begin));
    }
    __syncwarp();
}

// Starts the copy of x's K tiles k_begin.. (at most a chunk) into buffer `buffer`; columns behind K become zeros, so that
// what the padding of the weights meets is finite. Every thread calls. The copy is complete after tern_x_wait.
__device__ __forceinline__ void tern_x_copy(const struct tern_share &s, const struct tern_args &args, int k_begin,
                                            int buffer) {
    const int tiles = tern_smaller(s.chunk, s.k_end - k_begin);
    unsigned char *to = s.x + buffer * s.columns * s.x_pitch;
    const long long first = (long long)k_begin * 128;
    if (X_BULK) {
        const int present = tern_x_bytes(s, args, k_begin);
        if (threadIdx.x < 32)
            for (int column = (int)threadIdx.x; column < s.columns; column += 32) {
                unsigned char *row = to + column * s.x_pitch;
                const unsigned char *of = (const unsigned char *)args.x + ((s.first_column + column) * args.k + first) * 2;
                tern_bulk_copy(row, of, present, s.barrier);
            }
        const int padding = (tiles * 256 - present) / 16;
        for (int i = (int)threadIdx.x; i < padding * s.columns; i += WARPS * 32)
            tern_shared_store_16(to + i / padding * s.x_pitch + present + i % padding * 16, make_uint4(0, 0, 0, 0));
    } else {
        for (int column = 0; column < s.columns; column++) {
            const unsigned char *row = (const unsigned char *)args.x + (s.first_column + column) * args.k * 2;
            for (int i = (int)threadIdx.x; i < tiles * 16; i += WARPS * 32)
                tern_cp_async<16>(to + column * s.x_pitch + i * 16, row + (first + i * 8) * 2, first + i * 8 < args.k);
        }
        tern_cp_async_commit();
    }
}

// Waits for all groups of copies but the newest LEFT; then the whole block may read it.
template <int LEFT> __device__ __forceinline__ void tern_x_wait(const struct tern_share &s) {
    if (!X_BULK)
        tern_cp_async_wait<LEFT>();
    __syncthreads();
    if (X_BULK)
        tern_barrier_wait(s.barrier, 0);
}

__device__ __forceinline__ void tern_slots_clear(const struct tern_share &s) {
    const int count = WARPS * s.slots_per_warp * s.columns * (SLOT_PITCH / 4);
    for (int i = (int)threadIdx.x; i < count; i += WARPS * 32)
        tern_shared_store_16(s.slots + i * 4, make_uint4(0, 0, 0, 0));
}

// The warp's slot for a row block, [columns][SLOT_PITCH]. A warp's slots begin with the row block its piece begins in.
__device__ __forceinline__ float *tern_slot(const struct tern_share &s, int warp, int block) {
    return s.slots + (warp * s.slots_per_warp + block - tern_warp_first(s, warp)) * (s.columns * SLOT_PITCH);
}

// The ring's next load: into `tiles`, from the cursor, which moves on. Past the end of the piece it loads nothing.
__device__ __forceinline__ void tern_ring_load(struct tern_tile (&tiles)[ROW_TILES], struct tern_cursor &fetch,
                                               const struct tern_share &s, const struct tern_source &from, int groups,
                                               int warp, int lane) {
    if (X_CHUNK > 0)
        while (fetch.left == 0 && fetch.k_end < s.k_end)
            tern_cursor_start(fetch, s, groups, warp, fetch.k_end);
    const bool wanted = fetch.left > 0;
    tern_tile_load(tiles, fetch, s, from, groups, lane, wanted);
    if (wanted)
        tern_cursor_next(fetch, s, groups);
}

// The ring's next copy: into `slot`, from the cursor, which moves on. Past the end of the piece it copies nothing, but
// closes a group of copies all the same: the loop counts them.
__device__ __forceinline__ void tern_ring_copy(unsigned char *slot, struct tern_cursor &fetch, const struct tern_share &s,
                                               const struct tern_source &from, int groups, int warp, int lane) {
    if (X_CHUNK > 0)
        while (fetch.left == 0 && fetch.k_end < s.k_end)
            tern_cursor_start(fetch, s, groups, warp, fetch.k_end);
    if (fetch.left > 0) {
        tern_tile_copy(slot, fetch, s, from, groups, lane);
        tern_cursor_next(fetch, s, groups);
    }
    tern_cp_async_commit();
}

// Brings the next chunk of x into use and starts the copy of the one after it. All warps pass here once for each chunk.
__device__ __forceinline__ void tern_x_advance(struct tern_cursor &here, const struct tern_share &s,
                                               const struct tern_args &args, int warp, int &buffer) {
    tern_cursor_start(here, s, (int)args.groups, warp, here.k_end);
    buffer ^= 1;
    tern_x_wait<0>(s); // its barrier also says that nobody reads the other buffer any more
    if (here.k_end < s.k_end)
        tern_x_copy(s, args, here.k_end, buffer ^ 1);
}

// The loop over a ring of registers, each slot refilled behind its use.
template <class USE>
__device__ __forceinline__ void tern_walk_registers(struct tern_tile (&ring)[PREFETCH][ROW_TILES], struct tern_cursor &fetch,
                                                    const struct tern_share &s, const struct tern_source &from, int groups,
                                                    int warp, int lane, USE use) {
    for (bool more = true; more;) {
#pragma unroll
        for (int i = 0; i < PREFETCH; i++) {
            if (!use(ring[i])) {
                more = false;
                break;
            }
            tern_ring_load(ring[i], fetch, s, from, groups, warp, lane);
        }
    }
}

// The loop over a ring in shared memory: a slot is read into registers and refilled ahead of its use.
template <class USE>
__device__ __forceinline__ void tern_walk_shared(unsigned char *ring, struct tern_cursor &fetch, const struct tern_share &s,
                                                 const struct tern_source &from, int groups, int warp, int lane, USE use) {
    int place = 0;
    bool more = true;
#pragma unroll 1
    while (more) {
        struct tern_tile tiles[ROW_TILES];
        tern_cp_async_wait<PREFETCH - 1>();
        __syncwarp(); // scales were copied by other lanes
        tern_tile_take(tiles, ring + place, lane);
        __syncwarp(); // all have read
        tern_ring_copy(ring + place, fetch, s, from, groups, warp, lane);
        place = place == (PREFETCH - 1) * RING_BYTES ? 0 : place + RING_BYTES;
        more = use(tiles);
    }
}

// Walks the warp's tiles: prepare() once x (its first chunk) is there; multiply(tiles, x, tile) for each set of ROW_TILES
// tiles, x the offset from s.x of the tile's columns in row 0 of x, tile counted from the chunk's first; flush(tiles, slot)
// behind the last one of a row block in this piece. Loads of weights start before anything waits.
template <class PREPARE, class MULTIPLY, class FLUSH>
__device__ __forceinline__ void tern_decode_walk(const struct tern_share &s, const struct tern_args &args, int warp,
                                                 int lane, PREPARE prepare, MULTIPLY multiply, FLUSH flush) {
    // Few instructions, or a group older than the weights'; a dependent launch asks for its weights first.
    constexpr bool X_AHEAD = !DEPENDENT && (X_BULK || RING);
    if (X_BULK)
        tern_x_announce(s, args);
    if (X_AHEAD)
        tern_x_copy(s, args, s.k_begin, 0);
    const struct tern_source from = tern_source_make(args, lane);
    const int groups = (int)args.groups;
    unsigned char *shared_ring = s.ring + warp * (PREFETCH * RING_BYTES);
    struct tern_tile ring[PREFETCH][ROW_TILES];
    struct tern_cursor fetch, here;
    tern_cursor_start(fetch, s, groups, warp, s.k_begin);
    here = fetch;
#pragma unroll
    for (int i = 0; i < PREFETCH; i++) {
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++)
            tern_tile_clear(ring[i][r]);
        if (RING)
            tern_ring_copy(shared_ring + i * RING_BYTES, fetch, s, from, groups, warp, lane);
        else
            tern_ring_load(ring[i], fetch, s, from, groups, warp, lane);
    }
    tern_dependency_wait();
    if (!X_AHEAD)
        tern_x_copy(s, args, s.k_begin, 0);
    tern_slots_clear(s);
    constexpr int BEHIND = RING && X_AHEAD ? PREFETCH : 0; // groups of copies that x does not wait for
    if (X_CHUNK > 0 && here.k_end < s.k_end) {
        tern_x_copy(s, args, here.k_end, 1);
        tern_x_wait<BEHIND + 1>(s);
    } else {
        tern_x_wait<BEHIND>(s);
    }
    prepare();
    int buffer = 0;
    const auto use = [&](const struct tern_tile(&tiles)[ROW_TILES]) { // false: the piece is at its end
        if (X_CHUNK > 0)
            while (here.left == 0 && here.k_end < s.k_end)
                tern_x_advance(here, s, args, warp, buffer);
        if (here.left == 0)
            return false;
        const int tile = here.k - here.k_begin;
        multiply(tiles, (X_CHUNK > 0 ? buffer * s.columns * s.x_pitch : 0) + tile * 256, tile);
        float *slot = tern_slot(s, warp, here.block);
        if (tern_cursor_next(here, s, groups))
            flush(tiles, slot);
        return true;
    };
    if (RING)
        tern_walk_shared(shared_ring, fetch, s, from, groups, warp, lane, use);
    else
        tern_walk_registers(ring, fetch, s, from, groups, warp, lane, use);
}

#include "tern/decode_finish.cuh"

#endif
