// Copies of one warp, by cp.async, of the codes of the row tiles of a tile of tile_plan.cuh in a slice of 128 k,
// unrolled (weight_box.cuh has the copy engine bring them). Owns nothing.
#ifndef TERN_SLICE_COPY_CUH
#define TERN_SLICE_COPY_CUH

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

#endif
