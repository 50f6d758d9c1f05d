// Sums of blocks of a cluster that split K meet in one of them, unit by unit (UNIT_FLOATS floats of each lane), while the
// blocks go on. No barrier of the cluster but the first. Owns nothing.
//
// Units are numbered; block q % CLUSTER_K owns unit q. The others send it their sums by asynchronous stores, which count on the
// owner's barrier of the place; the owner adds them by rank behind its own sum, so that the result does not depend on timing, and
// tells the senders that the place is free, but only where somebody will wait for that: so no block is written to, or signalled,
// that may have ended. A warp deals with units q = adder, adder + ADDERS, ...; places come round after CLUSTER_K * DEPTH units, a
// multiple of ADDERS, hence each barrier is waited for by one warp, phase by phase.
//
// In front of it: CLUSTER_K, ADDERS (0: nothing meets), UNIT_FLOATS.
#ifndef TERN_CLUSTER_MEET_CUH
#define TERN_CLUSTER_MEET_CUH

#include "tern/cluster.cuh"
#include "tern/pipeline.cuh"

struct tern_meet {
    static constexpr int depth = ADDERS == 3 ? 3 : 4, others = CLUSTER_K - 1, unit = UNIT_FLOATS * 128 * others;
    static constexpr int bytes = depth * unit; // places, [depth][others], for sums from others
    static constexpr int barriers = CLUSTER_K > 1 ? depth *(1 + CLUSTER_K)
                                                  : 0; // of the places: full; [owner] free, at a sender
    static_assert(ADDERS > 0 ? depth * CLUSTER_K % ADDERS == 0 : CLUSTER_K == 1, "a barrier is waited for by one warp");
    unsigned char *places, *full;
    int rank, q, count; // q: the warp's next unit; count: of the cluster
};

__device__ __forceinline__ struct tern_meet tern_meet_make(unsigned char *places, unsigned char *barriers, int rank,
                                                           int adder, int count) {
    return {places, barriers, rank, adder, count};
}

// Takes the warp's next unit: sends the sum to its owner (false), or completes it if that is this block (true).
__device__ __forceinline__ bool tern_meet_step(struct tern_meet &meet, float (&sum)[UNIT_FLOATS], int lane) {
    constexpr int DEPTH = tern_meet::depth;
    const int owner = meet.q % CLUSTER_K, turn = meet.q / CLUSTER_K, at = turn % DEPTH, parity = turn / DEPTH % 2;
    const bool again = meet.q + CLUSTER_K * DEPTH < meet.count; // the place will be filled once more
    unsigned char *full = meet.full + at * 8, *free = meet.full + (DEPTH + at) * 8;
    unsigned char *place = meet.places + at * tern_meet::unit + lane * (UNIT_FLOATS * 4);
    meet.q += ADDERS;
    if (owner != meet.rank) {
        tern_barrier_wait(free + owner * DEPTH * 8, parity ^ 1); // the first time round at once
        tern_cluster_send(place + (meet.rank - (meet.rank > owner)) * (UNIT_FLOATS * 128), full, owner, sum);
        return false;
    }
    if (lane == 0)
        tern_barrier_arrive_expect(full, tern_meet::unit);
    tern_barrier_wait(full, parity);
#pragma unroll
    for (int i = 0; i < tern_meet::others; i++)
        tern_shared_add_floats(sum, place + i * (UNIT_FLOATS * 128));
    __syncwarp(); // all have read
    if (again && lane < CLUSTER_K && lane != owner)
        tern_cluster_barrier_arrive(free + owner * DEPTH * 8, lane);
    return true;
}

#endif
