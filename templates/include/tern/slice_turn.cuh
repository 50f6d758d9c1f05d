// Slices of x (128 k) for wgmma in the order of k of layout frag16x128, so that code words need no gathering. Owns nothing.
//
// Inside 32 k, lane t of a quad owns the weights k = 8*t + 2*c + e, c = 0..3, while the A fragment of the two k-steps wants
// k = 8*c + 2*t + e when B keeps the order of memory. So B trades places: 32 k of a row are 4 x 4 pairs (t, c) of 4 bytes,
// which are transposed in the registers of one lane, in place. A slice is two halves of 64 k, rows of 128 bytes, 128-byte
// swizzle (wgmma.cuh).
#ifndef TERN_SLICE_TURN_CUH
#define TERN_SLICE_TURN_CUH

#include "tern/slice_ring.cuh"

// Turns a slice of ROWS rows, a multiple of 16; the lanes of one warp call. Each lane has 32 k of one row of every 8, which
// spreads the eight addresses of a phase over the banks.
template <int ROWS> __device__ __forceinline__ void tern_slice_turn(unsigned char *slice, int lane) {
    const int row = lane % 8, piece = lane / 8; // of 32 k
    unsigned char *at = slice + piece / 2 * (ROWS * 128) + row * 128;
    const int column = 16 * (4 * (piece % 2) ^ row);
#pragma unroll 1 // producers have few registers
    for (int group = 0; group < ROWS / 16; group++, at += 2048) {
        uint4 v[2][4];
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i / 4][i % 4] = tern_shared_load_16(at + 1024 * (i / 4) + (column ^ 16 * (i % 4)));
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint4 *from = v[i];
            unsigned char *to = at + 1024 * i;
            tern_shared_store_16(to + column, uint4{from[0].x, from[1].x, from[2].x, from[3].x});
            tern_shared_store_16(to + (column ^ 16), uint4{from[0].y, from[1].y, from[2].y, from[3].y});
            tern_shared_store_16(to + (column ^ 32), uint4{from[0].z, from[1].z, from[2].z, from[3].z});
            tern_shared_store_16(to + (column ^ 48), uint4{from[0].w, from[1].w, from[2].w, from[3].w});
        }
    }
}

// One of two warps, `first` is 0 or 1, that turn every second of `count` slices of a ring as they land, and make them known to the
// tensor cores. STAGES must be even: a barrier knows the parity of its phase, no more, so a warp that came to a stage in the
// other's place, a lap ahead of it, would take the phase before its own for it.
template <int STAGES, int ROWS>
__device__ __forceinline__ void tern_slices_turn(unsigned char *ring, unsigned char *barriers, int first, int count,
                                                 tern_ring &fill, int lane) {
    static_assert(STAGES % 2 == 0, "each warp has stages of its own");
    tern_ring at = fill;
    tern_ring_skip<STAGES>(at, first);
#pragma unroll 1
    for (int i = first; i < count; i += 2) {
        tern_barrier_wait(tern_slice_barrier_of(barriers, at.stage, TERN_LANDED), at.parity ^ 1);
        tern_slice_turn<ROWS>(ring + at.stage * (ROWS * 256), lane);
        tern_fence_async();
        tern_warp_arrive(tern_slice_barrier_of(barriers, at.stage, TERN_FULL), lane);
        tern_ring_advance<STAGES, 2>(at);
    }
    tern_ring_skip<STAGES>(fill, count);
}

#endif
