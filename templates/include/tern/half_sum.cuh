// Sums of a row block that two blocks of a cluster share, half of K each, without a barrier of the cluster: block 0 has the first half
// and sends, block 1 adds and has them all. They land in a stage of the ring of block 1 that no slice will take any more, so the producers
// there say when, and which. Owns nothing.
//
// Behind the ring's barriers lie, TERN_HALF_BARRIERS bytes: that the sums have come (block 1), that a place is free (block 0), the place.
#ifndef TERN_HALF_SUM_CUH
#define TERN_HALF_SUM_CUH

#include "tern/cluster.cuh"
#include "tern/pipeline.cuh"

#define TERN_HALF_BARRIERS     24
#define TERN_HALF_BYTES(count) (4 * TERN_WARPGROUP * (count)) /* of `count` sums a thread */

// One thread, of both blocks.
__device__ __forceinline__ void tern_half_init(unsigned char *barriers, int bytes) {
    tern_barriers_init(barriers, 2, 1);
    tern_barriers_publish();
    tern_barrier_arrive_expect(barriers, bytes);
    tern_barrier_arrive_expect(barriers + 8, 8);
}

// Block 1, a warp of the producers: the stage that would be filled next is free as soon as `empty` says so.
__device__ __forceinline__ void tern_half_offer(unsigned char *barriers, void *empty, const tern_ring &fill, int lane) {
    tern_barrier_wait(empty, fill.parity);
    if (lane == 0)
        tern_cluster_send(barriers + 16, barriers + 8, 0, {__uint_as_float((unsigned)fill.stage), 0.0f});
}

// Block 0, the warpgroup that has the sums, USED a thread; stages begin at `ring`, `pitch` bytes apart.
template <int USED, int COUNT>
__device__ __forceinline__ void tern_half_send(const float (&sum)[COUNT], unsigned char *ring, int pitch,
                                               unsigned char *barriers) {
    tern_barrier_wait(barriers + 8, 0);
    const int stage = *reinterpret_cast<const volatile int *>(barriers + 16);
    unsigned char *to = ring + stage * pitch + 16 * (threadIdx.x % TERN_WARPGROUP);
#pragma unroll
    for (int i = 0; i < USED / 4; i++)
        tern_cluster_send(to + 16 * TERN_WARPGROUP * i, barriers, 1,
                          {sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]});
}

// Block 1, the warpgroup that takes them, from stage `from`.
template <int USED, int COUNT>
__device__ __forceinline__ void tern_half_receive(float (&sum)[COUNT], const unsigned char *from, unsigned char *barriers) {
    from += 16 * (threadIdx.x % TERN_WARPGROUP);
    tern_barrier_wait(barriers, 0);
#pragma unroll
    for (int i = 0; i < USED / 4; i++) {
        const uint4 more = tern_shared_load_16(from + 16 * TERN_WARPGROUP * i);
        sum[4 * i] += __uint_as_float(more.x);
        sum[4 * i + 1] += __uint_as_float(more.y);
        sum[4 * i + 2] += __uint_as_float(more.z);
        sum[4 * i + 3] += __uint_as_float(more.w);
    }
}

#endif
