// Copies, by the copy engine, of weights of layout frag16x128 into a ring in shared memory: codes, scales and zero points of
// consecutive 16-row tiles for one k tile, as one box each. Owns nothing.
#ifndef TERN_WEIGHT_BOX_CUH
#define TERN_WEIGHT_BOX_CUH

#include "tern/abi.h"
#include "tern/groups.cuh"
#include "tern/tensor_copy.cuh"

// GROUPS is a tern_groups, GROUPED says whether it has groups at all. An entry of a ring, for up to TILES row tiles: codes, one row tile behind the other, and at
// another place `side`: 32 bytes of scales a row tile and group that the k tile touches, then 16 of zeros. Outside W all are zero.
template <int BITS, typename GROUPS, bool GROUPED, bool HAS_ZEROS, int TILES> struct tern_weight_boxes {
    static constexpr int tile_bytes = tern_codes<BITS>::tile_bytes, code_bytes = TILES * tile_bytes;
    static constexpr int scale_bytes = GROUPED ? 32 * GROUPS::in_tile : 0; // of a row tile
    static constexpr int zero_bytes = GROUPED && HAS_ZEROS ? 16 * GROUPS::in_tile : 0;
    static constexpr int zeros_at = TILES * scale_bytes;
    static constexpr int side_bytes = zeros_at + (TILES * zero_bytes + 127) / 128 * 128;
    enum { CODES, SCALES, ZEROS, MAPS };

    // Makes map `which` of boxes of `tiles` row tiles, if there is such a matrix; a warp calls.
    static __device__ __forceinline__ void make_map(int which, const tern_args &args, unsigned char *maps,
                                                    unsigned char *scratch, int tiles, int lane) {
        const int bytes = which == CODES ? tile_bytes : which == SCALES ? scale_bytes : zero_bytes; // of a box's row
        const long long groups = which == CODES ? (args.k + TERN_TILE_K - 1) / TERN_TILE_K : args.groups;
        const int group_bytes = which == CODES ? tile_bytes : which == SCALES ? 32 : 16;
        const void *base = which == CODES ? args.codes : which == SCALES ? args.scales : args.zeros;
        if (bytes > 0)
            tern_tensor_map_make<8>(maps + which * TERN_TENSOR_MAP, scratch,
                                    {base, groups * group_bytes / 8, (args.n + 15) / 16, bytes / 8, tiles}, lane);
    }
    // Makes maps that other warps have made known to one that copies; that of codes it has made itself.
    static __device__ __forceinline__ void acquire_maps(const unsigned char *maps) {
        if (GROUPED)
            tern_tensor_map_acquire(maps + SCALES * TERN_TENSOR_MAP);
        if (zero_bytes > 0)
            tern_tensor_map_acquire(maps + ZEROS * TERN_TENSOR_MAP);
    }
    // Starts the copies of k tile `k_tile` from row tile `row_tile` on: codes of `tiles` in boxes of `box`, tile_bytes each, or scales and zeros of a
    // box, scale_bytes + zero_bytes a row tile. They count against the barrier's announced bytes. One thread.
    static __device__ __forceinline__ void copy_codes(const unsigned char *maps, unsigned char *codes, int row_tile,
                                                      int k_tile, int tiles, int box, void *barrier) {
#pragma unroll 1 // it is one box as a rule
        for (int t = 0; t < tiles; t += box)
            tern_tensor_copy(codes + t * tile_bytes, maps, k_tile * (tile_bytes / 8), row_tile + t, barrier);
    }
    static __device__ __forceinline__ void copy_side(const unsigned char *maps, unsigned char *side, int row_tile,
                                                     int k_tile, void *barrier) {
        if (GROUPED)
            tern_tensor_copy(side, maps + SCALES * TERN_TENSOR_MAP, GROUPS::first(k_tile) * 4, row_tile, barrier);
        if (zero_bytes > 0)
            tern_tensor_copy(side + zeros_at, maps + ZEROS * TERN_TENSOR_MAP, GROUPS::first(k_tile) * 2, row_tile, barrier);
    }
};

// A lane's code words of k-steps step .. step + COUNT - 1 of a row tile: of 16 bytes that lie in the lanes' order, as many as hold these steps' first. `codes`
// points to the lane's first 16 bytes.
template <int BITS, int COUNT>
__device__ __forceinline__ void tern_words_load(unsigned (&words)[tern_codes<BITS>::words], const unsigned char *codes,
                                                int step, int lane) {
    constexpr int STEPS_A_LOAD = BITS == 8 ? 2 : BITS == 4 ? 4 : 8; // k-steps that 16 bytes of a lane last for
#pragma unroll
    for (int s = step; s < step + COUNT; s++) {
        if (s % STEPS_A_LOAD != 0)
            continue;
        const int load = s / STEPS_A_LOAD;
        const uint4 four = tern_shared_load_16(codes + 512 * load);
        words[4 * load] = four.x, words[4 * load + 1] = four.y, words[4 * load + 2] = four.z, words[4 * load + 3] = four.w;
        if (BITS == 3) { // the 1-bit plane
            const uint2 high = tern_shared_load_8(codes + 512 - 8 * lane);
            words[BITS == 3 ? 4 : 0] = high.x, words[BITS == 3 ? 5 : 0] = high.y;
        }
    }
}

// Where a lane's codes and scales of a stage lie: of a warpgroup's first slot, and, less the usual way there from that, of its last one. Zeros lie half as far
// apart as scales: `zeros` beyond half of a scale's place. Slots are SLOT_TILES row tiles apart.
template <int BITS, typename GROUPS, typename BOXES, int SLOT_TILES> struct tern_box_places {
    int codes[2], scales[2], zeros;

    // In a stage with codes and sides at these places. `first` is the row tile of the first slot, `last` the way of the last one from its usual place.
    static __device__ __forceinline__ tern_box_places find(int codes_at, int side_at, int first, int last, int lane) {
        const int code = codes_at + first * BOXES::tile_bytes + 16 * lane;
        const int scale = side_at + first * BOXES::scale_bytes + 4 * (lane / 4);
        return {{code, code + last * BOXES::tile_bytes},
                {scale, scale + last * BOXES::scale_bytes},
                side_at / 2 + BOXES::zeros_at};
    }

    // Loads what the decoding of CHUNK k-steps of slot b, the last or not, from `step` on needs: code words, and where a scale begins pairs of SCALES and
    // ZEROS, each for SCALE_K k.
    template <int CHUNK, bool SCALES, bool ZEROS, int SPANS>
    __device__ __forceinline__ void load(unsigned (&words)[tern_codes<BITS>::words], unsigned (&scale)[SPANS],
                                         unsigned (&zero)[SPANS], const unsigned char *shared, int lane, int k_tile, int b,
                                         bool last, int step) const {
        constexpr int SCALE_BYTES = SLOT_TILES * BOXES::scale_bytes; // from slot to slot
        tern_words_load<BITS, CHUNK>(words, shared + codes[last] + b * (SLOT_TILES * BOXES::tile_bytes), step, lane);
        if (step * 16 % GROUPS::scale_k != 0)
            return;
#pragma unroll
        for (int span = 0; span < SPANS; span++) {
            const int group = GROUPS::slot(k_tile, step / 2 + span * GROUPS::scale_k / 32);
            if (SCALES)
                scale[span] = tern_shared_load_4(shared + scales[last] + b * SCALE_BYTES + 32 * group);
            if (ZEROS)
                zero[span] = tern_shared_load_2(shared + zeros + scales[last] / 2 + b * (SCALE_BYTES / 2) + 16 * group);
        }
    }
};

#endif
