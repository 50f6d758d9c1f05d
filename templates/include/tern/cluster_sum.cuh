// Sums of a cluster whose blocks split K, added up through distributed shared memory. Owns nothing.
#ifndef TERN_CLUSTER_SUM_CUH
#define TERN_CLUSTER_SUM_CUH

#include "tern/cluster.cuh"
#include "tern/pipeline.cuh"
#include "tern/unit_owner.cuh"

// Waits for `bytes` of sums that are sent to `barrier` (one arrival; `parity` of its phase). All threads of a warpgroup call.
__device__ __forceinline__ void tern_sums_await(void *barrier, int parity, int bytes) {
    if (threadIdx.x % TERN_WARPGROUP == 0)
        tern_barrier_arrive_expect(barrier, bytes);
    tern_barrier_wait(barrier, parity);
}

// Each thread holds COUNT sums a row block, in units of 8. Every block owns an equal part of the units: it gets the other
// blocks' sums of those into its `shared`, [sender][row block][unit][half][thread] of 16 bytes, and adds them in the order
// own, then the others by rank: the result does not depend on timing. They go by asynchronous stores, which `barrier` of the owner
// counts (one arrival; `parity` of its phase): no barrier of the cluster behind the stores, whose release would wait for all accesses
// to memory. All threads of the cluster must pass tern_cluster_pass once, the THREADS that hold sums, from thread `first` on, here;
// every block is then past its use of `shared` before the first store into it, and the caller sees to it that nobody writes there
// before all have read.
template <int CLUSTER, int THREADS, int ROW_BLOCKS, int COUNT>
__device__ __forceinline__ void tern_cluster_sum(float (&sum)[ROW_BLOCKS][COUNT], unsigned char *shared, void *barrier,
                                                 int parity, int rank, int first = 0) {
    constexpr int UNITS = COUNT / 8, OWN = UNITS / CLUSTER,
                  QUADS = 2 * ROW_BLOCKS * OWN; // of sums of four, from each sender
    unsigned char *slots = shared + 16 * (threadIdx.x - first);
    tern_cluster_pass();
    if ((int)threadIdx.x == first)
        tern_barrier_arrive_expect(barrier, 16 * THREADS * QUADS * (CLUSTER - 1));
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS * COUNT / 4; i++) {
        const int b = i / (COUNT / 4), quad = i % (COUNT / 4), owner = quad / 2 / OWN;
        const float four[4] = {sum[b][4 * quad], sum[b][4 * quad + 1], sum[b][4 * quad + 2], sum[b][4 * quad + 3]};
        const int index = ((rank < owner ? rank : rank - 1) * ROW_BLOCKS + b) * (2 * OWN) + quad % (2 * OWN);
        if (owner != rank)
            tern_cluster_send(slots + 16 * THREADS * index, barrier, owner, four);
    }
    tern_barrier_wait(barrier, parity);
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS * COUNT / 4; i++) {
        const int b = i / (COUNT / 4), quad = i % (COUNT / 4);
        if (quad / 2 / OWN != rank)
            continue;
        float four[4] = {sum[b][4 * quad], sum[b][4 * quad + 1], sum[b][4 * quad + 2], sum[b][4 * quad + 3]};
#pragma unroll
        for (int sender = 0; sender < CLUSTER - 1; sender++)
            tern_shared_add_floats(four, slots + 16 * THREADS * ((sender * ROW_BLOCKS + b) * (2 * OWN) + quad % (2 * OWN)));
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[b][4 * quad + e] = four[e];
    }
}

// The same where blocks own units of any row block (unit_owner.cuh), so that CLUSTER need not divide UNITS: `n` is the warpgroup of WARPS_N, which has every
// WARPS_N-th of `blocks` row blocks, and `rank` its block's from its first one on. `own`: the sums of the block's units, in their order. What
// goes to each other block stands together, and each place is found once: the code is cold. `parity` changes when the barrier was waited for. Behind a
// tern_cluster_wait of all, which sees to it that `shared` is free everywhere.
template <int CLUSTER, int WARPS_N, int ROW_BLOCKS, int COUNT, int MOST>
__device__ __forceinline__ void tern_cluster_sum_units(const float (&sum)[ROW_BLOCKS][COUNT], float (&own)[MOST][8],
                                                       unsigned char *shared, void *barrier, int &parity, int rank, int n,
                                                       int blocks) {
    typedef struct tern_units<CLUSTER, ROW_BLOCKS, COUNT / 8> units;
    static_assert(MOST == units::most, "all of one block");
    constexpr int PIECE = 16 * TERN_WARPGROUP * WARPS_N; // 4 sums of each thread
    const int active = (blocks - n + WARPS_N - 1) / WARPS_N, first = units::first(n);
    int at = 16 * (int)threadIdx.x;
    tern_hide(at);
    unsigned char *slots = shared + at;
#pragma unroll
    for (int owner = 0; owner < CLUSTER; owner++) {
        if (owner == rank)
            continue;
        const int to = owner + first < CLUSTER ? owner + first : owner + first - CLUSTER;
        const int sender = rank < owner ? rank : rank - 1; // of those but the owner
        const tern_cluster_place place = tern_cluster_at(slots + 2 * PIECE * MOST * sender, to),
                                 full = tern_cluster_at(barrier, to);
#pragma unroll
        for (int i = 0; i < 2 * MOST; i++) {
            const int b = units::block_of(i / 2, owner), e = 8 * units::unit_of(i / 2, owner) + i % 2 * 4;
            if (b < ROW_BLOCKS && b < active)
                tern_cluster_send_to(place + PIECE * i, full, &sum[b < ROW_BLOCKS ? b : 0][e]);
        }
    }
    const int count = units::count(active, rank);
#pragma unroll
    for (int i = 0; i < 8 * MOST; i++) {
#pragma unroll
        for (int owner = 0; owner < CLUSTER; owner++) { // indices of registers must be constants
            const int b = units::block_of(i / 8, owner), e = 8 * units::unit_of(i / 8, owner) + i % 8;
            if (b < ROW_BLOCKS)
                own[i / 8][i % 8] = owner == 0 || owner == rank ? sum[b < ROW_BLOCKS ? b : 0][e] : own[i / 8][i % 8];
        }
    }
    if (CLUSTER == 1 || count == 0)
        return;
    tern_sums_await(barrier, parity, 32 * TERN_WARPGROUP * (CLUSTER - 1) * count);
    parity ^= 1;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        if (i >= count)
            break;
#pragma unroll
        for (int s = 0; s < 2 * (CLUSTER - 1); s++)
            tern_shared_add_floats(*reinterpret_cast<float(*)[4]>(&own[i][s % 2 * 4]),
                                   slots + PIECE * (2 * (s / 2 * MOST + i) + s % 2));
    }
}

// The COUNT sums a thread of a warpgroup go to `slots` (COUNT * 512 bytes) in block `rank` of the cluster, and there, behind a
// tern_cluster_sync, are added to those of the warpgroup that takes them.
template <int COUNT>
__device__ __forceinline__ void tern_half_give(const float (&sum)[COUNT], unsigned char *slots, int rank) {
#pragma unroll
    for (int i = 0; i < COUNT / 4; i++)
        tern_cluster_store_16(slots + 16 * (TERN_WARPGROUP * i + (int)threadIdx.x % TERN_WARPGROUP), rank, &sum[4 * i]);
}
template <int COUNT> __device__ __forceinline__ void tern_half_take(float (&sum)[COUNT], const unsigned char *slots) {
#pragma unroll
    for (int i = 0; i < COUNT / 4; i++) {
        const float4 more =
            *reinterpret_cast<const float4 *>(slots + 16 * (TERN_WARPGROUP * i + (int)threadIdx.x % TERN_WARPGROUP));
        sum[4 * i] += more.x;
        sum[4 * i + 1] += more.y;
        sum[4 * i + 2] += more.z;
        sum[4 * i + 3] += more.w;
    }
}

// The first USED of the sums of each thread of a warpgroup go to `slots` of block `to`, USED * 512 bytes, without waiting; `barrier` there counts
// them (one arrival). Behind a tern_cluster_pass of all, which sees to it that `slots` are free.
template <int USED, int COUNT>
__device__ __forceinline__ void tern_sums_give(const float (&sum)[COUNT], unsigned char *slots, void *barrier, int to) {
    const tern_cluster_place place = tern_cluster_at(slots + 16 * ((int)threadIdx.x % TERN_WARPGROUP), to),
                             full = tern_cluster_at(barrier, to);
#pragma unroll
    for (int i = 0; i < USED / 4; i++)
        tern_cluster_send_to(place + 16 * TERN_WARPGROUP * i, full, &sum[4 * i]);
}
// There: waits for them, and adds them to its own.
template <int USED, int COUNT>
__device__ __forceinline__ void tern_sums_take(float (&sum)[COUNT], const unsigned char *slots, void *barrier, int parity) {
    tern_sums_await(barrier, parity, 4 * TERN_WARPGROUP * USED);
    tern_half_take(*reinterpret_cast<float(*)[USED]>(&sum), slots);
}

// Both at the end of two blocks that had half of K each, with `slots` free: block 1 gives its sums away, and block 0 has those of
// all. `mine`: of the warpgroup that has them. All threads of both blocks call this, or tern_cluster_sync twice. True where the sums
// are.
template <int COUNT>
__device__ __forceinline__ bool tern_half_sum(float (&sum)[COUNT], unsigned char *slots, int rank, bool mine) {
    tern_cluster_sync();
    if (mine && rank == 1)
        tern_half_give(sum, slots, 0);
    tern_cluster_sync();
    if (mine && rank == 0)
        tern_half_take(sum, slots);
    return mine && rank == 0;
}

#endif
