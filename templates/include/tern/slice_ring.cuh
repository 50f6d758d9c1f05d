// Ring of slices of x in shared memory, between warps that copy and warpgroups that multiply (wgmma). Owns nothing: the
// kernel says where slices and barriers lie.
//
// A slice passes three barriers: empty (all consumers are done with it), landed (copies by cp.async are complete), full (the
// tensor cores may read it). The fence between the last two stands in a warp of its own: in a consumer it would wait for
// the products under way, and in a copying thread for the copies under way.
#ifndef TERN_SLICE_RING_CUH
#define TERN_SLICE_RING_CUH

#include "tern/abi.h"
#include "tern/cluster.cuh"
#include "tern/pipeline.cuh"
#include "tern/tensor_copy.cuh"

enum tern_slice_barrier { TERN_FULL = 0, TERN_EMPTY = 8, TERN_LANDED = 16 };
#define TERN_SLICE_BARRIERS      24 /* bytes of a stage */
#define TERN_X_THREADS           64 /* that copy x, two warps */
#define TERN_HALF_SLICE_BARRIERS 16 /* bytes of a half of a slice */

__device__ __forceinline__ void *tern_slice_barrier_of(unsigned char *barriers, int stage, tern_slice_barrier which) {
    return barriers + TERN_SLICE_BARRIERS * stage + which;
}

// Of one stage; `landed` arrivals tell that its copies are complete, `full` make it full, `consumers` warps empty. tern_barriers_publish makes
// all that a thread prepared known.
__device__ __forceinline__ void tern_slice_prepare(unsigned char *barriers, int stage, int full, int consumers, int landed) {
    unsigned char *at = barriers + TERN_SLICE_BARRIERS * stage;
    tern_barriers_init(at + TERN_FULL, 1, full);
    tern_barriers_init(at + TERN_EMPTY, 1, consumers);
    tern_barriers_init(at + TERN_LANDED, 1, landed);
}
__device__ __forceinline__ void tern_slice_init(unsigned char *barriers, int stage, int full, int consumers,
                                                int landed = TERN_X_THREADS) {
    tern_slice_prepare(barriers, stage, full, consumers, landed);
    tern_barriers_publish();
}

// Of all stages, a lane each: `full` and `consumers` as above, and one arrival for what lands. A warp calls.
template <int STAGES>
__device__ __forceinline__ void tern_slices_init(unsigned char *barriers, int lane, int full, int consumers) {
    static_assert(STAGES <= 32, "a lane each");
    unsigned char *at = barriers + TERN_SLICE_BARRIERS * lane;
    if (lane < STAGES) {
        tern_barriers_init(at + TERN_FULL, 1, full);
        tern_barriers_init(at + TERN_EMPTY, 1, consumers);
        tern_barriers_init(at + TERN_LANDED, 1, 1);
    }
}

// Of one half of tern_halves_box.
__device__ __forceinline__ void tern_half_slice_init(unsigned char *barriers, int half, int consumers) {
    unsigned char *at = barriers + TERN_HALF_SLICE_BARRIERS * half;
    tern_barriers_init(at + TERN_FULL, 1, 1);
    tern_barriers_init(at + TERN_EMPTY, 1, consumers);
    tern_barriers_publish();
}

// The warp between: makes `count` slices known to the tensor cores.
template <int STAGES>
__device__ __forceinline__ void tern_slices_publish(unsigned char *barriers, tern_ring &fill, int count, int lane) {
#pragma unroll 1 // instructions are cold when a block begins
    for (int i = 0; i < count; i++) {
        tern_barrier_wait(tern_slice_barrier_of(barriers, fill.stage, TERN_LANDED), fill.parity ^ 1);
        tern_fence_async();
        __syncwarp();
        if (lane == 0)
            tern_barrier_arrive(tern_slice_barrier_of(barriers, fill.stage, TERN_FULL));
        tern_ring_advance<STAGES>(fill);
    }
}

// The two warps that copy slices k_begin .. k_end - 1 of 128 k, ROWS rows of x from `row` on, by cp.async.
template <int STAGES, int ROWS>
__device__ __forceinline__ void tern_slices_copy(unsigned char *ring, unsigned char *barriers, const tern_args &args,
                                                 long long row, int k_begin, int k_end, tern_ring &fill, int thread) {
    const long long left = args.m - row - thread / 16;
    const int rows = (int)(left < ROWS ? left : ROWS);
    const unsigned short *x = static_cast<const unsigned short *>(args.x) + (row + thread / 16) * args.k + 8 * (thread % 16);
    for (int k_tile = k_begin; k_tile < k_end; k_tile++) {
        tern_barrier_wait(tern_slice_barrier_of(barriers, fill.stage, TERN_EMPTY), fill.parity);
        const bool inside = k_tile * TERN_TILE_K + 8 * (thread % 16) < args.k;
        tern_copy_swizzled<ROWS, TERN_X_THREADS>(ring + fill.stage * (2 * ROWS * TERN_TILE_K), x + k_tile * TERN_TILE_K,
                                                 args.k, inside ? rows : 0, thread);
        tern_cp_async_arrive(tern_slice_barrier_of(barriers, fill.stage, TERN_LANDED));
        tern_ring_advance<STAGES>(fill);
    }
}

// Has the copy engine bring the slice of 128 k of k tile `k_tile`, two boxes, from row `row` of x on, to `to`; its BYTES count against the
// barrier's announced ones. One thread.
template <int BYTES>
__device__ __forceinline__ void tern_slice_boxes(unsigned char *to, const void *map, int row, int k_tile, void *barrier) {
    tern_tensor_copy(to, map, k_tile * TERN_TILE_K, row, barrier);
    tern_tensor_copy(to + BYTES / 2, map, k_tile * TERN_TILE_K + 64, row, barrier);
}

// The same in halves of 64 k, BYTES each, through a ring of their own: what is too coarse for shared memory as slices. A half passes two
// barriers: full, empty.
template <int HALVES, int BYTES>
__device__ __forceinline__ void tern_halves_box(unsigned char *ring, unsigned char *barriers, const void *map, int row,
                                                int k_begin, int k_end, tern_ring &fill, int lane) {
    for (int half = 2 * k_begin; half < 2 * k_end; half++) {
        unsigned char *full = barriers + TERN_HALF_SLICE_BARRIERS * fill.stage;
        tern_barrier_wait(full + TERN_EMPTY, fill.parity);
        if (lane == 0) {
            tern_barrier_arrive_expect(full, BYTES);
            tern_tensor_copy(ring + fill.stage * BYTES, map, half * (TERN_TILE_K / 2), row, full);
        }
        tern_ring_advance<HALVES>(fill);
    }
}

// Consumers: waits for the next half, whose stage it returns; a warp has read the one in `stage`, if that is not below 0.
template <int HALVES> __device__ __forceinline__ int tern_half_slice_await(unsigned char *barriers, tern_ring &use) {
    const int stage = use.stage;
    tern_barrier_wait(barriers + TERN_HALF_SLICE_BARRIERS * stage + TERN_FULL, use.parity);
    tern_ring_advance<HALVES>(use);
    return stage;
}
__device__ __forceinline__ void tern_half_slice_release(unsigned char *barriers, int stage, int lane) {
    tern_warp_arrive(barriers + TERN_HALF_SLICE_BARRIERS * stage + TERN_EMPTY, lane, stage >= 0);
}

// Gives the next half back unread.
template <int HALVES>
__device__ __forceinline__ void tern_half_slice_skip(unsigned char *barriers, tern_ring &use, int lane) {
    tern_half_slice_release(barriers, tern_half_slice_await<HALVES>(barriers, use), lane);
}

// The warp that brings slices k_begin .. k_end - 1, full as they land. SHARERS 2: the two blocks of a cluster have the same rows of x, and block
// `rank` brings one half of 64 k for both; LANDED, of one arrival, is where the other one says that its stage is empty too.
template <int STAGES, int BYTES, int SHARERS = 1>
__device__ __forceinline__ void tern_slices_box(unsigned char *ring, unsigned char *barriers, const void *map, int row,
                                                int k_begin, int k_end, tern_ring &fill, int lane, int rank = 0) {
#pragma unroll 2 // no more: cold, as above; not 1, which has ptxas move the plan out of its uniform registers
    for (int k_tile = k_begin; k_tile < k_end; k_tile++) {
        void *full = tern_slice_barrier_of(barriers, fill.stage, TERN_FULL),
             *other = tern_slice_barrier_of(barriers, fill.stage, TERN_LANDED);
        tern_barrier_wait(tern_slice_barrier_of(barriers, fill.stage, TERN_EMPTY), fill.parity);
        if (lane == 0) {
            tern_barrier_arrive_expect(full, BYTES);
            if (SHARERS == 1)
                tern_slice_boxes<BYTES>(ring + fill.stage * BYTES, map, row, k_tile, full);
            else
                tern_cluster_barrier_arrive(other, rank ^ 1);
        }
        if (SHARERS == 2) {
            tern_barrier_wait(other, fill.parity ^ 1);
            if (lane == 0)
                tern_tensor_copy_all<2>(ring + fill.stage * BYTES + rank * (BYTES / 2), map,
                                        k_tile * TERN_TILE_K + 64 * rank, row, full);
        }
        tern_ring_advance<STAGES>(fill);
    }
}

// A consuming warp that has nothing to do in `count` stages, every BY-th, gives them back.
template <int STAGES, int BY>
__device__ __forceinline__ void tern_slices_pass(unsigned char *barriers, tern_ring &ring, int count, int lane) {
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        tern_barrier_wait(tern_slice_barrier_of(barriers, ring.stage, TERN_FULL), ring.parity);
        tern_warp_arrive(tern_slice_barrier_of(barriers, ring.stage, TERN_EMPTY), lane);
        tern_ring_advance<STAGES, BY>(ring);
    }
}

#endif
