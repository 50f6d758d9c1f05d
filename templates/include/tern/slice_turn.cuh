// Slices of x (128 k) for wgmma in the order of k of layout frag16x128, so that code words need no gathering. Owns nothing.
//
// Inside 32 k, lane t of a quad owns the weights k = 8*t + 2*c + e, c = 0..3, while the A fragment of the two k-steps wants
// k = 8*c + 2*t + e when B keeps the order of memory. So B trades places: 32 k of a row are 4 x 4 pairs (t, c) of 4 bytes,
// which are transposed on their way through registers, in place. A slice is two halves of 64 k, rows of 128 bytes, 128-byte
// swizzle (wgmma.cuh).
#ifndef TERN_SLICE_TURN_CUH
#define TERN_SLICE_TURN_CUH

#include "tern/mma.cuh"
#include "tern/slice_ring.cuh"

// Turns a slice of ROWS rows, a multiple of 16; the lanes of one warp call. A lane gets pairs (0..3, c) of 32 k of a row from a load of four
// matrices, whose rows are 16 bytes, one t: what it stores as chunk c. Odd rows have the other 32 k of the 64 first, so that the eight
// addresses of a phase of the store lie in eight groups of banks.
template <int ROWS> __device__ __forceinline__ void tern_slice_turn(unsigned char *slice, int lane) {
    const int from_row = lane % 8, to_row = lane / 4;
    const int from = 128 * from_row + 16 * (4 * (from_row & 1) + lane / 8 ^ from_row);
    const int to = 128 * to_row + 16 * (4 * (to_row & 1) + lane % 4 ^ to_row);
    unsigned char *const load[2] = {slice + from, slice + (from ^ 64)}, *const store[2] = {slice + to, slice + (to ^ 64)};
#pragma unroll
    for (int row = 0; row < ROWS; row += 16) {
        unsigned v[8][4];
#pragma unroll
        for (int i = 0; i < 8; i++) // which 32 k of 64, which 64 k, which 8 rows
            tern_ldmatrix_x4(v[i], load[i % 2] + (i / 2 % 2 * ROWS + row + i / 4 * 8) * 128);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 8; i++)
            tern_shared_store_16(store[i % 2] + (i / 2 % 2 * ROWS + row + i / 4 * 8) * 128,
                                 uint4{v[i][0], v[i][1], v[i][2], v[i][3]});
    }
}

// One of two warps that turn slices of a ring as they land, `count` of a tile, and make them known to the tensor cores: warp `parity` those in even
// or odd stages, of which there must be equally many. A barrier knows the parity of its phase, no more, so a warp that came to a stage in the
// other's place, a lap ahead of it, would take the phase before its own for it; nor may it wait for another stage's barrier. Where the first `ready` of
// them have landed, so have their codes (first_copy.cuh), which nobody else says.
template <int STAGES, int ROWS>
__device__ __forceinline__ void tern_slices_turn(unsigned char *ring, unsigned char *barriers, int parity, int ready,
                                                 int count, tern_ring &fill, int lane) {
    static_assert(STAGES % 2 == 0, "each warp has stages of its own");
    const int first = (parity ^ fill.stage) & 1; // a tile may begin with an odd stage
    tern_ring at = fill;
    tern_ring_skip<STAGES>(at, first);
#pragma unroll 1
    for (int i = first; i < count; i += 2) {
        void *const full = tern_slice_barrier_of(barriers, at.stage, TERN_FULL);
        tern_barrier_wait(tern_slice_barrier_of(barriers, at.stage, TERN_LANDED), at.parity ^ 1);
        tern_slice_turn<ROWS>(ring + at.stage * (ROWS * 256), lane);
        tern_fence_async();
        tern_warp_arrive(full, lane);
        if (i < ready && lane == 0)
            tern_barrier_arrive(full);
        tern_ring_advance<STAGES, 2>(at);
    }
    tern_ring_skip<STAGES>(fill, count);
}

#endif
