// Emulator tests of what two blocks of a cluster do that have the same rows of x: how tile_plan.cuh deals row blocks out to them, and how
// they bring slices for each other.
#include "tern/abi.h"
#include "tern/slice_ring.cuh"
#include "tern/tile_plan.cuh"

// n = k rows of W, m tiles of 128 rows of x in strips of five (x is 12,800 long). y: how often each (tile of x, row block) was visited; then of
// each block how many row blocks it had; and which tiles of x, in which order, in one number.
extern "C" __global__ void shared_x_places(struct tern_args args) {
    unsigned *y = (unsigned *)args.y;
    const unsigned row_blocks = (unsigned)((args.k + 63) / 64), tiles_m = (unsigned)args.m;
    args.n = args.k;
    args.m *= 128;
    args.k = 12800;
    tern_place at;
    tern_plan<2, 128, 8, 1, 0, 0, 2, 2> plan(args, at);
    unsigned *own = y + row_blocks * tiles_m + blockIdx.x, *path = own + gridDim.x;
    while (plan.next(at)) {
        const unsigned tile_m = (unsigned)(at.x_row / 128), row_block = (unsigned)at.row_tile / 4;
        if (at.blocks < 0 || at.blocks > 2 || tile_m >= tiles_m || (at.blocks > 0 && row_block + at.blocks > row_blocks))
            tern_emu_fault("shared x: a place outside the problem");
        for (int b = 0; b < at.blocks; b++)
            y[tile_m * row_blocks + row_block + b]++;
        *own += at.blocks;
        *path = 31 * *path + tile_m + 1;
    }
}

// A cluster brings the slices of x, [8][k], through rings of three; a block has one warp that brings them and one that stores them without
// the swizzle, in y, [block][slice][8][128], block 1 late.
extern "C" __global__ void shared_x_slices(struct tern_args args) {
    enum { STAGES = 3, BYTES = 2 * 8 * 128 };
    TERN_SHARED_DYNAMIC(shared);
    unsigned char *barriers = shared + STAGES * BYTES, *map = static_cast<unsigned char *>(args.workspace);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, slices = (int)((args.k + 127) / 128);
    tern_ring ring = {0, warp == 0 ? 1 : 0};
    if (warp == 0)
        tern_tensor_map_make<2>(map, shared + 8192, {args.x, args.k, 8, 64, 8}, lane);
    for (int stage = 0; threadIdx.x == 0 && stage < STAGES; stage++)
        tern_slice_init(barriers, stage, 1, TERN_WARP_ARRIVALS, 1);
    __syncthreads();
    tern_cluster_sync();
    if (warp == 0)
        tern_slices_box<STAGES, BYTES, 2>(shared, barriers, map, 0, 0, slices, ring, lane, (int)blockIdx.x);
    for (int slice = 0; warp == 1 && slice < slices; slice++) {
        tern_barrier_wait(tern_slice_barrier_of(barriers, ring.stage, TERN_FULL), ring.parity);
        for (int turn = 0; blockIdx.x == 1 && turn < 50; turn++)
            tern_emu_yield();
        unsigned char *y = static_cast<unsigned char *>(args.y) + (blockIdx.x * slices + slice) * BYTES;
        for (int id = lane; id < 8 * 16; id += 32)
            memcpy(y + 16 * id, shared + ring.stage * BYTES + id % 16 / 8 * 1024 + 128 * (id / 16) + 16 * (id % 8 ^ id / 16), 16);
        tern_warp_arrive(tern_slice_barrier_of(barriers, ring.stage, TERN_EMPTY), lane);
        tern_ring_advance<STAGES>(ring);
    }
    tern_cluster_sync();
}
