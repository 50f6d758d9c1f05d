// Copies of one warp, by cp.async, of what belongs to W in a slice of 128 k: codes, scales and zero points of the row tiles of a tile of
// tile_plan.cuh, unrolled (weight_box.cuh has the copy engine bring them). Owns nothing.
#ifndef TERN_SLICE_COPY_CUH
#define TERN_SLICE_COPY_CUH

#include "tern/groups.cuh"
#include "tern/memory.cuh"
#include "tern/tile_plan.cuh"

// Codes of up to TILES row tiles, BYTES each, 16 bytes a lane: bulk copies as short as a tile are issued one after the other and keep the
// ring empty. Tiles outside W are left as they are.
template <int TILES, int BYTES>
__device__ __forceinline__ void tern_copy_slice_codes(unsigned char *to, const tern_args &args, const tern_place &at,
                                                      int k_tile, int lane) {
    const int left = at.row_tiles - at.row_tile, inside = left < 4 * at.blocks ? left : 4 * at.blocks;
    const unsigned char *from =
        static_cast<const unsigned char *>(args.codes) + ((long long)at.row_tile * at.k_tiles + k_tile) * BYTES + 16 * lane;
    to += 16 * lane;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++, from += (long long)at.k_tiles * BYTES)
        if (tile < inside)
#pragma unroll
            for (int piece = 0; piece < BYTES; piece += 512)
                if (BYTES - piece >= 512 || 16 * lane < BYTES - piece)
                    tern_cp_async<16>(to + tile * BYTES + piece, from + piece, true);
}

// Scales and zeros: 16-byte pieces, two a group and tile of scales, then one of zeros. Groups behind the last one become zeros.
template <typename GROUPS, bool HAS_ZEROS, int TILES>
__device__ __forceinline__ void tern_copy_slice_sides(unsigned char *scales, unsigned char *zeros, const tern_args &args,
                                                      const tern_place &at, int k_tile, int lane) {
    constexpr int SCALE_PIECES = TILES * GROUPS::in_tile * 2, PIECES = SCALE_PIECES + (HAS_ZEROS ? SCALE_PIECES / 2 : 0);
#pragma unroll
    for (int first = 0; first < PIECES; first += 32) {
        const int id = first + lane;
        if (id >= PIECES)
            break;
        const bool zero = id >= SCALE_PIECES;
        const int entry = zero ? id - SCALE_PIECES : id / 2, tile = entry / GROUPS::in_tile;
        const long long group = (long long)GROUPS::first(k_tile) + entry % GROUPS::in_tile;
        const long long index = (long long)(at.row_tile + tile) * args.groups + group;
        const bool inside = tile < 4 * at.blocks && at.row_tile + tile < at.row_tiles && group < args.groups;
        const unsigned char *from = zero ? static_cast<const unsigned char *>(args.zeros) + 16 * index
                                         : static_cast<const unsigned char *>(args.scales) + 32 * index + 16 * (id % 2);
        tern_cp_async<16>(zero ? zeros + 16 * entry : scales + 16 * id, from, inside);
    }
}

#endif
