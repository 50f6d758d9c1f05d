// Slices of x for wgmma, dealt to three warps: each brings whole slices by cp.async, every third one, so that three schedulers share
// the instructions. Owns nothing; the ring and its barriers are those of slice_ring.cuh.
#ifndef TERN_SLICE_DEAL_CUH
#define TERN_SLICE_DEAL_CUH

#include "tern/slice_ring.cuh"

#define TERN_DEAL_WARPS 3

// A warp whose first slice of a tile is number `turn` (0 to 2), which has `slices` of them: its first one of the next tile. Slices go round the warps from
// tile to tile, so that a warp's last one is always three back. If it were more than there are stages in the ring, the phase whose parity it waits
// for could be one that has not begun: it would write into a stage that is in use.
__device__ __forceinline__ int tern_deal_turn(int turn, int slices) {
    const int left = slices % TERN_DEAL_WARPS;
    return turn < left ? turn + TERN_DEAL_WARPS - left : turn - left;
}

// Copies ROWS rows of 128 k into shared memory in the form that wgmma.cuh wants of B: two halves of 64 k, rows of 128 bytes, swizzled.
// The lanes of a warp call, eight of them for each of four rows. `x` is k 0 of the slice in row 0, rows are `pitch` bytes apart, `inside` of
// them are read; what others multiply is never stored. Behind the first `columns` k there are zeros.
template <int ROWS>
__device__ __forceinline__ void tern_copy_slice(unsigned char *to, const unsigned short *x, long long pitch, int inside,
                                                int columns, int lane) {
    const int chunk = lane % 8, row = lane / 8, column = chunk ^ row;
    const bool low = 8 * chunk < columns, high = 8 * chunk + 64 < columns;
    const unsigned char *source = reinterpret_cast<const unsigned char *>(x + 8 * chunk) + row * pitch;
    unsigned char *even = to + row * 128 + 16 * column, *odd = even + 512 + (column & 4 ? -64 : 64);
    tern_hide(even); // or addresses are put together again from their parts
    tern_hide(odd);
#pragma unroll
    for (int unit = 0; unit < ROWS / 16; unit++) { // of 16 rows
        if (16 * unit + 16 > inside)
            break;
#pragma unroll
        for (int i = 0; i < 4; i++, source += 4 * pitch) {
            unsigned char *at = (i % 2 ? odd : even) + unit * 2048 + i / 2 * 1024;
            tern_hide(source);
            tern_cp_async<16>(at, source, low);
            tern_cp_async<16>(at + ROWS * 128, source + 128, high);
        }
    }
    if (inside % 16 != 0 && inside < ROWS)
#pragma unroll 1
        for (int i = inside / 16 * 4; row + 4 * i < inside; i++, source += 4 * pitch) {
            unsigned char *at = (i % 2 ? odd : even) + i / 2 * 1024;
            tern_cp_async<16>(at, source, low);
            tern_cp_async<16>(at + ROWS * 128, source + 128, high);
        }
}

#endif
