// Tiles of packed weights and what belongs to them from global memory into a slice of a ring, by cp.async of all lanes of a
// warpgroup of producers. One by one through the copy engine, small copies take some 70 cycles each. Owns nothing.
#ifndef TERN_TILE_COPY_CUH
#define TERN_TILE_COPY_CUH

#include "tern/dequant.cuh"
#include "tern/memory.cuh"
#include "tern/tile_plan.cuh"

// What warp w of the four copies of a tile of work: 16-row tiles w, w + 4, ... of it, 16 bytes a lane and copy.
struct tern_tile_source {
    const unsigned char *codes; // of this lane in the warp's first tile, at the next slice
    long long pitch;            // bytes from one of the warp's tiles to the next
    long long entry;            // first entry of scales of the first tile
    int blocks;                 // tiles of the warp inside W
};

// TILE_BYTES: codes of 16 rows and 128 k.
template <int TILE_BYTES>
__device__ __forceinline__ tern_tile_source tern_tile_source_of(const tern_args &args, const tern_place &at, int warp,
                                                                int lane) {
    const int left = at.row_tiles - at.row_tile - warp, inside = left < 1 ? 0 : (left + 3) / 4;
    const long long tile = at.row_tile + warp;
    return {static_cast<const unsigned char *>(args.codes) + (tile * at.k_tiles + at.k_begin) * TILE_BYTES + 16 * lane,
            4LL * at.k_tiles * TILE_BYTES, tile * args.groups, inside < at.blocks ? inside : at.blocks};
}

// Codes of the warp's tiles, up to BLOCKS; `to` is the place of the slice's first tile.
template <int BLOCKS, int TILE_BYTES>
__device__ __forceinline__ void tern_copy_codes(unsigned char *to, const tern_tile_source &source, int warp, int lane) {
    to += warp * TILE_BYTES + 16 * lane;
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int piece = 0; piece < TILE_BYTES / 512; piece++)
            tern_cp_async_if<16>(to + 4 * b * TILE_BYTES + 512 * piece, source.codes + b * source.pitch + 512 * piece, true,
                                 b < source.blocks);
}

// `count` pieces of 16 bytes (of scales, of zero points) for each of the warp's tiles, which have room for PIECES. `from` is the
// first one's, and the same of the next of the warp's tiles lies `pitch` bytes behind.
template <int BLOCKS, int PIECES>
__device__ __forceinline__ void tern_copy_sides(unsigned char *to, const unsigned char *from, long long pitch, int count,
                                                const tern_tile_source &source, int warp, int lane) {
    to += 16 * warp * PIECES;
#pragma unroll
    for (int first = 0; first < BLOCKS * PIECES; first += 32) {
        const int b = (first + lane) / PIECES, piece = (first + lane) % PIECES;
        tern_cp_async_if<16>(to + (4 * b * PIECES + piece) * 16, from + b * pitch + 16 * piece, true,
                             b < source.blocks && piece < count);
    }
}

#endif
