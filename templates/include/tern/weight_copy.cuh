// Copies, by cp.async, of weights of layout frag16x128 into a ring in shared memory: codes, scales and zero points of
// consecutive 16-row tiles for one k tile. Owns nothing.
#ifndef TERN_WEIGHT_COPY_CUH
#define TERN_WEIGHT_COPY_CUH

#include "tern/abi.h"
#include "tern/groups.cuh"
#include "tern/memory.cuh"

// Codes of row tiles begin (a multiple of 4) .. end - 1, TILE_BYTES each, which lie `row_bytes` apart; `codes` is the k tile of row
// tile 0. They go one behind the other to `to`. One of two warps, which copies two of every four row tiles, from `own` on: 0 or 2. A short
// loop: the warp that runs it is behind those that multiply in everything, and a block begins with it, when instructions are cold.
template <int TILE_BYTES>
__device__ __forceinline__ void tern_copy_codes(unsigned char *to, const unsigned char *codes, unsigned row_bytes, int begin,
                                                int end, int own, int lane) {
    const unsigned char *from = codes + (unsigned long long)row_bytes * (unsigned)(begin + own) + 16 * lane;
    to += (begin + own) * TILE_BYTES + 16 * lane;
#pragma unroll 1
    for (int tile = begin + own; tile < end; tile += 4, from += 4ULL * row_bytes, to += 4 * TILE_BYTES)
#pragma unroll
        for (int at = 0; at < TILE_BYTES; at += 512) {
            const bool inside = at + 16 * lane < TILE_BYTES;
            tern_cp_async_if<16>(to + at, from + at, true, inside);
            tern_cp_async_if<16>(to + TILE_BYTES + at, from + row_bytes + at, true, inside && tile + 1 < end);
        }
}

// Scales and zero points: of each row tile 32 bytes a group of scales, then 16 a group of zeros, for the groups that a k tile
// touches. In pieces of 16 bytes; a lane has the same piece of every STEP-th row tile. GROUPS is a tern_groups.
template <typename GROUPS, bool HAS_ZEROS, int TILES> struct tern_side_copies {
    static constexpr int scale_pieces = 2 * GROUPS::in_tile, pieces = scale_pieces + (HAS_ZEROS ? GROUPS::in_tile : 0);
    static constexpr int step = pieces <= 2 ? 16 : pieces <= 4 ? 8 : pieces <= 8 ? 4 : 2;
    static constexpr int tile_bytes = 16 * pieces;
    static_assert(pieces * step <= 32, "a lane has one piece of a row tile");

    const unsigned char *from; // the piece of the lane's first row tile, if group 0 were the k tile's first
    long long stride;          // bytes from there to its next row tile
    int tile, group, bytes;    // first row tile; group within the k tile; bytes from one group to the next
    int to;                    // byte of the ring's entry

    static __device__ __forceinline__ tern_side_copies find(const tern_args &args, long long first_tile, int lane) {
        const int tile = lane / (32 / step), piece = lane % (32 / step);
        const bool zero = piece >= scale_pieces;
        const int group = zero ? piece - scale_pieces : piece / 2, bytes = zero ? 16 : 32;
        const unsigned char *all = static_cast<const unsigned char *>(zero ? args.zeros : args.scales);
        return {all + ((first_tile + tile) * args.groups + group) * bytes + (zero ? 0 : 16 * (piece % 2)),
                args.groups * bytes * step,
                piece < pieces ? tile : TILES, // none
                group,
                bytes,
                tile * tile_bytes + 16 * piece};
    }

    // Starts this lane's copies for row tiles begin .. end - 1 of k tile `k_tile`.
    __device__ __forceinline__ void copy(const tern_args &args, unsigned char *entry, int k_tile, int begin, int end) const {
        const int first = GROUPS::first(k_tile);
        const bool inside = GROUPS::in_tile == 1 || first + group < args.groups;
        const unsigned char *source = from + (long long)first * bytes;
#pragma unroll
        for (int i = 0; i < TILES; i += step) {
            tern_cp_async_if<16>(entry + to + i * tile_bytes, source, inside, i + tile < end && i + tile >= begin);
            source += stride;
        }
    }
};

#endif
