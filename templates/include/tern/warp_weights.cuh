// Weights of layout frag16x128 that a warp brings for itself alone, by cp.async, into a ring of k tiles in shared memory: codes, scales
// and zero points of the 16-row tiles that it has of several row blocks. Nobody else waits for them. Owns nothing.
#ifndef TERN_WARP_WEIGHTS_CUH
#define TERN_WARP_WEIGHTS_CUH

#include "tern/abi.h"
#include "tern/groups.cuh"
#include "tern/memory.cuh"

// ROW_BLOCKS tiles, STEP 16-row tiles apart; GROUPS is a tern_groups, GROUPED says that scales and zeros change along K. SLOTS k tiles in
// the ring, each ROW_BLOCKS entries of codes, scales, zeros.
template <int BITS, typename GROUPS, bool GROUPED, bool HAS_ZEROS, int ROW_BLOCKS, int STEP, int SLOTS>
struct tern_warp_weights {
    static constexpr int tile_bytes = tern_codes<BITS>::tile_bytes, scale_bytes = GROUPED ? 32 * GROUPS::in_tile : 0;
    static constexpr int entry_bytes = tile_bytes + scale_bytes + (GROUPED && HAS_ZEROS ? 16 * GROUPS::in_tile : 0);
    static constexpr int slot_bytes = ROW_BLOCKS * entry_bytes, ring_bytes = SLOTS * slot_bytes;
    // Scales and zeros of a k tile are 16-byte pieces, two a group of scales, then one a group of zeros; lanes take those of all row
    // blocks.
    static constexpr int scale_pieces = 2 * GROUPS::in_tile, pieces = scale_pieces + (HAS_ZEROS ? GROUPS::in_tile : 0);
    static constexpr int side_rounds = GROUPED ? (ROW_BLOCKS * pieces + 31) / 32 : 0;

    int slot;                                   // byte of shared memory where the slot to fill begins
    int k_tile, tiles;                          // next k tile; 16-row tiles from the warp's first one on that are there
    const unsigned char *codes;                 // this lane's 16 bytes of k_tile in row block 0,
    long long block_bytes;                      // and from one row block to the next
    const unsigned char *side[side_rounds + 1]; // this lane's pieces of group 0

    // Of a lane in a round: row block, piece, group within the k tile, bytes a group.
    struct side_piece {
        int b, piece, within, bytes;
    };
    static __device__ __forceinline__ side_piece side_of(int lane, int round) {
        const int b = (32 * round + lane) / pieces, piece = (32 * round + lane) % pieces;
        const bool zero = piece >= scale_pieces;
        return {b, piece, zero ? piece - scale_pieces : piece / 2, zero ? 16 : 32};
    }

    // Goes to k tile k_begin of k_tiles in the row blocks whose first tile is `tile`; `count` tiles from there on are there.
    __device__ __forceinline__ void go(const tern_args &args, int tile, int count, int k_tiles, int k_begin, int lane) {
        tiles = count;
        k_tile = k_begin;
        codes = static_cast<const unsigned char *>(args.codes) +
                (unsigned long long)((unsigned)k_tiles * tile_bytes) * (unsigned)tile +
                (unsigned)(k_begin * tile_bytes + 16 * lane);
        block_bytes = (long long)k_tiles * (STEP * tile_bytes);
#pragma unroll
        for (int round = 0; round < side_rounds; round++) {
            const side_piece mine = side_of(lane, round);
            side[round] =
                static_cast<const unsigned char *>(mine.bytes == 16 ? args.zeros : args.scales) +
                (unsigned long long)((unsigned)args.groups * (unsigned)mine.bytes) * (unsigned)(tile + mine.b * STEP) +
                mine.within * mine.bytes + (mine.bytes == 32 ? 16 * (mine.piece % 2) : 0);
        }
    }

    // Starts the copies of the next k tile into its slot, which all lanes are done with, and goes on. `ring` is where slots begin. Tiles
    // that are not there are left as they are.
    __device__ __forceinline__ void copy(const tern_args &args, unsigned char *shared, int ring, int lane) {
        unsigned char *to = shared + slot;
#pragma unroll
        for (int b = 0; b < ROW_BLOCKS; b++)
#pragma unroll
            for (int at = 0; at < tile_bytes; at += 512)
                tern_cp_async_if<16>(to + b * entry_bytes + at + 16 * lane, codes + b * block_bytes + at, true,
                                     STEP * b < tiles && at + 16 * lane < tile_bytes);
#pragma unroll
        for (int round = 0; round < side_rounds; round++) {
            const side_piece mine = side_of(lane, round);
            const int first = GROUPS::first(k_tile);
            tern_cp_async_if<16>(to + mine.b * entry_bytes + tile_bytes + 16 * mine.piece,
                                 side[round] + (unsigned)(first * mine.bytes),
                                 GROUPS::in_tile == 1 || first + mine.within < args.groups, STEP * mine.b < tiles);
        }
        tern_cp_async_commit();
        slot += slot_bytes;
        if (slot == ring + ring_bytes)
            slot = ring;
        codes += tile_bytes;
        k_tile++;
    }
};

#endif
