// The k tiles that a block begins with, copied by cp.async as the copy engine brings the rest (weight_box.cuh, slice_ring.cuh): by threads that have
// nothing else to do while the block makes its tensor maps. Owns nothing.
#ifndef TERN_FIRST_COPY_CUH
#define TERN_FIRST_COPY_CUH

#include "tern/slice_ring.cuh"
#include "tern/weight_box.cuh"

// A matrix, as it lies in memory.
struct tern_rows {
    const void *base;
    long long bytes, count; // of a row, a multiple of 16; rows
};

// Starts the copy of `height` (up to MOST) rows of WIDTH bytes to `to`, row behind row, from byte `byte` of row `row` on. What lies outside the matrix becomes
// zeros. THREADS threads call, unrolled and without branches: instructions are cold when a block begins, and behind divergent code ptxas does not use
// uniform registers any more. SLICE > 0: to a slice of x of so many rows, two halves of 128 bytes a row, swizzled.
template <int WIDTH, int THREADS, int MOST, int SLICE = 0>
__device__ __forceinline__ void tern_first_copy(unsigned char *to, const tern_rows &from, int row, long long byte,
                                                int height, int thread) {
    constexpr int CHUNKS_A_ROW = WIDTH / 16, LANES = CHUNKS_A_ROW <= 2    ? 2
                                                     : CHUNKS_A_ROW <= 4  ? 4
                                                     : CHUNKS_A_ROW <= 8  ? 8
                                                     : CHUNKS_A_ROW <= 16 ? 16
                                                     : CHUNKS_A_ROW <= 32 ? 32
                                                     : CHUNKS_A_ROW <= 64 ? 64
                                                                          : 128; // of a row
    static_assert(CHUNKS_A_ROW <= LANES && (SLICE == 0 || WIDTH == 256), "a thread copies at most one chunk of a row");
    constexpr int STEP = THREADS / LANES; // rows at once
    static_assert(SLICE == 0 || STEP % 8 == 0, "the swizzle of a thread is the same in all its rows");
    const int chunk = thread % LANES, first = thread / LANES;
    const bool wanted = chunk < CHUNKS_A_ROW && byte + 16 * chunk < from.bytes;
    to += SLICE > 0 ? chunk / 8 * (128 * SLICE) + first * 128 + 16 * (chunk % 8 ^ first % 8) : WIDTH * first + 16 * chunk;
    const unsigned char *source =
        static_cast<const unsigned char *>(from.base) + (row + first) * from.bytes + byte + 16 * chunk;
#pragma unroll
    for (int r = 0; r < MOST; r += STEP) {
        tern_cp_async_if<16>(to + r * (SLICE > 0 ? 128 : WIDTH), source, wanted && row + first + r < from.count,
                             chunk < CHUNKS_A_ROW && first + r < height);
        source += STEP * from.bytes;
    }
}

// Where it begins: k tile, how many of them come so (up to FIRST), row tile; row tiles of codes, and of scales and zeros.
struct tern_first_tiles {
    int k_tile, count, row_tile, tiles, side_tiles;
};

// Starts the copies to stages 0 to count - 1 of rings of x, codes, and scales and zeros. x has up to ROWS rows. BOXES are tern_weight_boxes of up to TILES row tiles.
template <int FIRST, int ROWS, int TILES, typename GROUPS, typename BOXES, int THREADS>
__device__ __forceinline__ void tern_first_start(const tern_args &args, const tern_first_tiles &of, unsigned char *x,
                                                 unsigned char *codes, unsigned char *side, int thread) {
    const long long row_tiles = (args.n + 15) / 16, k_tiles = (args.k + TERN_TILE_K - 1) / TERN_TILE_K;
#pragma unroll
    for (int i = 0; i < FIRST; i++) {
        const int k_tile = of.k_tile + i, group = GROUPS::first(k_tile), here = i < of.count ? 1 : 0;
        unsigned char *stage = side + i * BOXES::side_bytes;
        tern_first_copy<BOXES::tile_bytes, THREADS, TILES>(codes + i * BOXES::code_bytes,
                                                           {args.codes, k_tiles * BOXES::tile_bytes, row_tiles}, of.row_tile,
                                                           (long long)k_tile * BOXES::tile_bytes, here * of.tiles, thread);
        if constexpr (BOXES::scale_bytes > 0)
            tern_first_copy<BOXES::scale_bytes, THREADS, TILES>(stage, {args.scales, 32 * args.groups, row_tiles},
                                                                of.row_tile, 32 * group, here * of.side_tiles, thread);
        if constexpr (BOXES::zero_bytes > 0)
            tern_first_copy<BOXES::zero_bytes, THREADS, TILES>(stage + BOXES::zeros_at,
                                                               {args.zeros, 16 * args.groups, row_tiles}, of.row_tile,
                                                               16 * group, here * of.side_tiles, thread);
    }
#pragma unroll
    for (int i = 0; i < FIRST; i++)
        tern_first_copy<2 * TERN_TILE_K, THREADS, ROWS, ROWS>(x + i * (2 * ROWS * TERN_TILE_K), {args.x, 2 * args.k, args.m},
                                                              0, 2 * TERN_TILE_K * (of.k_tile + i), i < of.count ? ROWS : 0,
                                                              thread);
}

// Has the barriers of what landed in their stages wait for them, in the place of the copy engine's bytes: nobody else need, who has work until then. That their
// codes are there tells who turns x (slice_turn.cuh); it fences, for the tensor cores, and as the copy engine writes to the same places later. The
// same THREADS threads call, `barrier` is a named one.
template <int FIRST, int THREADS>
__device__ __forceinline__ void tern_first_expect(unsigned char *barriers, int count, int barrier) {
#pragma unroll
    for (int i = 0; i < FIRST; i++)
        if (i < count)
            tern_cp_async_hold(tern_slice_barrier_of(barriers, i, TERN_LANDED));
    tern_block_sync(barrier, THREADS); // all hold them
#pragma unroll
    for (int i = 0; i < FIRST; i++)
        if (i < count && (int)threadIdx.x == 32 * i)
            tern_barrier_arrive(tern_slice_barrier_of(barriers, i, TERN_LANDED));
}

#endif
