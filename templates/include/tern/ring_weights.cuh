// What belongs to W in an entry of a ring in shared memory, one k tile of up to TILES row tiles of layout frag16x128: their codes, and at
// another place their scales and zero points. How a warp copies it by cp.async for a tile of tile_plan.cuh, and how a warp of a warpgroup
// reads its own row tiles, which lie PITCH row tiles apart. Owns nothing.
#ifndef TERN_RING_WEIGHTS_CUH
#define TERN_RING_WEIGHTS_CUH

#include "tern/groups.cuh"
#include "tern/memory.cuh"
#include "tern/pipeline.cuh"
#include "tern/slice_copy.cuh"
#include "tern/tile_plan.cuh"
#include "tern/wgmma.cuh"
#include "tern/wgmma_codes.cuh"

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

template <int BITS, typename GROUPS, bool GROUPED, bool HAS_ZEROS, int TILES> struct tern_weight_copies {
    typedef struct tern_side_copies<GROUPS, HAS_ZEROS, TILES> side_copies;
    static constexpr int tile_bytes = tern_codes<BITS>::tile_bytes, side_bytes = GROUPED ? side_copies::tile_bytes : 0;

    const unsigned char *codes; // of the place's first row tile
    unsigned row_bytes;
    int inside; // row tiles that lie in W
    side_copies sides;

    static __device__ __forceinline__ tern_weight_copies find(const tern_args &args, const tern_place &at, int lane) {
        const int left = at.row_tiles - at.row_tile, inside = left < 4 * at.blocks ? left : 4 * at.blocks;
        const unsigned row_bytes = (unsigned)at.k_tiles * tile_bytes;
        return {static_cast<const unsigned char *>(args.codes) + (long long)at.row_tile * row_bytes, row_bytes, inside,
                side_copies::find(args, at.row_tile, lane)};
    }
    // Starts the copies of k tile `k_tile`.
    __device__ __forceinline__ void copy(const tern_args &args, unsigned char *codes_entry, unsigned char *sides_entry,
                                         int k_tile, int lane) const {
        const unsigned char *from = codes + (long long)k_tile * tile_bytes + 16 * lane;
        unsigned char *to = codes_entry + 16 * lane;
        const int end = TILES > 4 ? inside : 1; // one row block is no loop
#pragma unroll 1 // short: behind the warps that multiply in everything, and cold where a block begins
        for (int tile = 0; tile < end; tile += 4, from += 4ULL * row_bytes, to += 4 * tile_bytes)
#pragma unroll
            for (int at = 0; at < tile_bytes; at += 512)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    tern_cp_async_if<16>(to + i * tile_bytes + at, from + (unsigned long long)i * row_bytes + at, true,
                                         at + 16 * lane < tile_bytes && (i == 0 || tile + i < inside));
        if (GROUPED)
            sides.copy(args, sides_entry, k_tile, 0, inside);
    }
    // The same, unrolled, with nothing kept from slice to slice: for a warp that has few registers, and more copies to start than time.
    static __device__ __forceinline__ void copy_unrolled(const tern_args &args, const tern_place &at,
                                                         unsigned char *codes_entry, unsigned char *sides_entry, int k_tile,
                                                         int lane) {
        int row_tile = at.row_tile;
        const int left = at.row_tiles - row_tile, inside = left < 4 * at.blocks ? left : 4 * at.blocks;
        tern_hide(k_tile); // else the addresses of all tiles are kept
        tern_hide(row_tile);
        tern_copy_slice_codes<TILES, tile_bytes>(codes_entry, args, at, k_tile, lane);
        if (GROUPED)
            side_copies::find(args, row_tile, lane).copy(args, sides_entry, k_tile, 0, inside);
    }
};

template <int BITS, typename GROUPS, bool GROUPED, bool HAS_ZEROS, int PITCH> struct tern_weight_reader {
    typedef struct tern_side_copies<GROUPS, HAS_ZEROS, 4> side_copies; // for its tile_bytes
    tern_gather gather; // from the warp's first row tile on; in 3 bits from a tile's begin
    int tile;           // its first row tile
    unsigned scale_at,
        zero_at; // bytes of its rows' scales in an entry, and of their zero points, less the scales of their tile

    static __device__ __forceinline__ tern_weight_reader find(int tile, int lane) {
        tern_weight_reader reader = {tern_gather_start(lane, BITS == 3 ? 0 : tile * tern_codes<BITS>::tile_bytes), tile,
                                     (unsigned)(tile * side_copies::tile_bytes + lane / 4 * 4),
                                     (unsigned)(tile * side_copies::tile_bytes + lane / 4 * 2)};
        tern_hide(reader.scale_at);
        return reader;
    }
    // Loads the 16-byte chunk of codes whose first use is the 32-k block `block`, of its b-th row tile.
    __device__ __forceinline__ void load_codes(unsigned (&words)[tern_codes<BITS>::words], const unsigned char *codes, int b,
                                               int block) const {
        constexpr int BLOCKS_A_CHUNK = BITS == 8 ? 1 : BITS == 4 ? 2 : 4;
        if (block % BLOCKS_A_CHUNK == 0)
            tern_gather_codes<BITS>(words, codes + ((BITS == 3 ? tile : 0) + PITCH * b) * tern_codes<BITS>::tile_bytes,
                                    block / BLOCKS_A_CHUNK, gather);
    }
    // Scales and zero points that hold from 32-k block `block` of k tile `k_tile` on.
    __device__ __forceinline__ void load_sides(unsigned &scale, tern_zero_bias &zero, const unsigned char *sides, int b,
                                               int k_tile, int block) const {
        if (!GROUPED || block * 32 % GROUPS::scale_k != 0)
            return;
        const unsigned char *from = sides + PITCH * b * side_copies::tile_bytes;
        const int slot = GROUPS::slot(k_tile, block);
        scale = *reinterpret_cast<const unsigned *>(from + scale_at + 32 * slot);
        if (HAS_ZEROS) {
            const unsigned pair =
                *reinterpret_cast<const unsigned short *>(from + zero_at + 32 * GROUPS::in_tile + 16 * slot);
            zero = tern_zero_biases<BITS>(pair & 0xff, pair >> 8);
        }
    }
};

// A of k-step `step` from the words of a tile, pinned; with SCALED times scale.
template <int BITS, bool ZEROS, bool SCALED>
__device__ __forceinline__ void tern_weight_fragment(const unsigned (&words)[tern_codes<BITS>::words], int step,
                                                     const tern_zero_bias &zero, unsigned scale, unsigned (&a)[4]) {
    tern_dequant_tile<BITS, BF16>(words, step, zero, a);
    if constexpr (SCALED)
        tern_scale_fragment<BITS, ZEROS>(tern_scale_rows<BF16>(scale), a);
#pragma unroll
    for (int i = 0; i < 4; i++)
        tern_wgmma_pin(a[i]);
}

#endif
