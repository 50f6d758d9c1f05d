// Sums that several warpgroups or blocks have of the same row blocks, added up where each is stored: by warpgroups of a block that took
// k tiles in turn, and by two blocks of a cluster. A thread holds COUNT sums a row block. Owns nothing.
#ifndef TERN_SUM_SHARE_CUH
#define TERN_SUM_SHARE_CUH

#include "tern/cluster.cuh"
#include "tern/pipeline.cuh"

// sum[0..3] += what lies at `shared`.
__device__ __forceinline__ void tern_add_four(float *sum, const unsigned char *shared) {
    float four[4] = {sum[0], sum[1], sum[2], sum[3]};
    tern_shared_add_floats(four, shared);
    sum[0] = four[0], sum[1] = four[1], sum[2] = four[2], sum[3] = four[3];
}

__device__ __forceinline__ uint4 tern_four_bits(const float *sum) {
    return uint4{__float_as_uint(sum[0]), __float_as_uint(sum[1]), __float_as_uint(sum[2]), __float_as_uint(sum[3])};
}

// How many of `own` row blocks part `part` of PARTS stores: part, part + PARTS, ...
template <int PARTS> __device__ __forceinline__ int tern_parts_share(int own, int part) {
    return PARTS == 1 ? own : (own - part + PARTS - 1) / PARTS;
}

// Warpgroup of part `part` of PARTS, which all have the same `own` row blocks: gives the others' to them, through `slots` (16-byte aligned,
// (PARTS - 1) * ROW_BLOCKS * COUNT * 512 bytes of these PARTS), and adds what it gets to its own, part 0 first. Then sum[i] is that of its i-th,
// row block i * PARTS + part. `slots` may be in use until named barrier `barrier` of THREADS is passed; it is passed twice.
template <int PARTS, int THREADS, int ROW_BLOCKS, int COUNT>
__device__ __forceinline__ void tern_parts_sum(float (&sum)[ROW_BLOCKS][COUNT], unsigned char *slots, int part, int own,
                                               int barrier) {
    constexpr int QUADS = COUNT / 4, OTHERS = PARTS > 1 ? PARTS - 1 : 1, STORED = (ROW_BLOCKS + PARTS - 1) / PARTS;
    slots += 16 * ((int)threadIdx.x % TERN_WARPGROUP);
    tern_block_sync(barrier, THREADS);
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < QUADS; i++) {
            const int sender = part - (part > b % PARTS ? 1 : 0);
            if (b < own && b % PARTS != part)
                tern_shared_store_16(slots + 16 * TERN_WARPGROUP * ((b * OTHERS + sender) * QUADS + i),
                                     tern_four_bits(&sum[b][4 * i]));
        }
    tern_block_sync(barrier, THREADS);
#pragma unroll
    for (int j = 0; j < STORED; j++) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
#pragma unroll
            for (int p = 0; p < PARTS; p++) { /* indices of registers must be constants */
                constexpr int last = ROW_BLOCKS - 1;
                sum[j][i] = part == p ? sum[j * PARTS + p < last ? j * PARTS + p : last][i] : sum[j][i];
            }
        if (j < tern_parts_share<PARTS>(own, part))
#pragma unroll
            for (int i = 0; i < QUADS * OTHERS; i++)
                tern_add_four(&sum[j][4 * (i / OTHERS)],
                              slots +
                                  16 * TERN_WARPGROUP * (((j * PARTS + part) * OTHERS + i % OTHERS) * QUADS + i / OTHERS));
    }
}

// Warpgroup n of WARPS_N, which divide K of some row blocks between them: gives its sums `sum` of one to its owner, if that is another, through `slots`
// ((WARPS_N - 1) * COUNT * 512 bytes), and adds up those of all from `owner` to `behind` - 1, if it is the owner; nothing if not `divided`, which is the same
// for all. `slots` may be in use until named barrier `barrier` of THREADS is passed; it is passed twice. The sums are moved first, by a product with 1
// that the compiler does not know: if branches read what wgmma adds to, ptxas serialises all products (C7514).
template <int WARPS_N, int THREADS, int COUNT>
__device__ __forceinline__ void tern_items_sum(float (&sum)[COUNT], unsigned char *slots, bool divided, int n, int owner,
                                               int behind, int barrier) {
    const float one = __uint_as_float(0x3F800000u + (threadIdx.x >> 10));
    float own[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        own[i] = sum[i] * one;
    slots += 16 * ((int)threadIdx.x % TERN_WARPGROUP);
    if (divided) {
        tern_block_sync(barrier, THREADS);
        if (n != owner)
#pragma unroll
            for (int i = 0; i < COUNT / 4; i++)
                tern_shared_store_16(slots + 16 * TERN_WARPGROUP * ((n - 1) * (COUNT / 4) + i), tern_four_bits(&own[4 * i]));
        tern_block_sync(barrier, THREADS);
        for (int other = n + 1; n == owner && other < behind; other++)
#pragma unroll
            for (int i = 0; i < COUNT / 4; i++)
                tern_add_four(&own[4 * i], slots + 16 * TERN_WARPGROUP * ((other - 1) * (COUNT / 4) + i));
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        sum[i] = own[i];
}

// Two blocks of a cluster that split K: block `rank` gets its half of the sums of each row block first .. end - 1, in `sum` where they are,
// or (ONE) block 0 all and block 1 none. The other's go to it by asynchronous stores that its barrier counts (one arrival, `parity`), so that
// nobody waits but who gets some: true. The places, QUADS of 16 bytes a thread and row block there, in `places`, those of row block b in
// the place-th from `place` on, step `step`, are free, which the blocks tell each other: all threads of both have called tern_cluster_arrive before, and wait for it here
// or by tern_cluster_wait.
template <bool ONE, int BLOCKS, int ROW_BLOCKS, int COUNT>
__device__ __forceinline__ bool tern_pair_sum(float (&sum)[ROW_BLOCKS][COUNT], unsigned char *places, int place, int step,
                                              int first, int end, void *barrier, int parity, int rank) {
    constexpr int QUADS = COUNT / 4 / (ONE ? 1 : 2);
    tern_cluster_wait();
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < COUNT / 4; i++) {
            const float four[4] = {sum[b][4 * i], sum[b][4 * i + 1], sum[b][4 * i + 2], sum[b][4 * i + 3]};
            const int index = (ONE ? 0 : place + b * step) * QUADS + i % QUADS;
            if (b >= first && b < end && i / QUADS != rank)
                tern_cluster_send(places + 16 * (TERN_WARPGROUP * index + (int)threadIdx.x % TERN_WARPGROUP), barrier,
                                  i / QUADS, four);
        }
    if (first >= end || (ONE && rank == 1))
        return false;
    if (threadIdx.x % TERN_WARPGROUP == 0)
        tern_barrier_arrive_expect(barrier, 16 * TERN_WARPGROUP * QUADS * (end - first));
    tern_barrier_wait(barrier, parity);
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < COUNT / 4; i++)
            if (b >= first && b < end && i / QUADS == rank) {
                const int index = (ONE ? 0 : place + b * step) * QUADS + i % QUADS;
                tern_add_four(&sum[b][4 * i], places + 16 * (TERN_WARPGROUP * index + (int)threadIdx.x % TERN_WARPGROUP));
            }
    return true;
}

#endif
