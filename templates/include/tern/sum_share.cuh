// Sums that several warpgroups or blocks have of the same row blocks, added up where each is stored: by warpgroups of a block that took
// k tiles in turn, and by two blocks of a cluster. A thread holds COUNT sums a row block. Owns nothing.
#ifndef TERN_SUM_SHARE_CUH
#define TERN_SUM_SHARE_CUH

#include "tern/cluster_sum.cuh"
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

// Sums that products have added to, moved by a product with 1 that the compiler does not know: if branches read what wgmma adds to, ptxas serialises
// all products (C7514).
template <int COUNT> __device__ __forceinline__ void tern_sums_move(float (&to)[COUNT], const float (&sum)[COUNT]) {
    const float one = __uint_as_float(0x3F800000u + (threadIdx.x >> 10));
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        to[i] = sum[i] * one;
}

// A warpgroup leaves its sums for another one in `place`, COUNT * 512 bytes.
template <int COUNT> __device__ __forceinline__ void tern_sums_leave(const float (&sum)[COUNT], unsigned char *place) {
    int at = 16 * ((int)threadIdx.x % TERN_WARPGROUP);
    tern_hide(at); // or it is kept all along
    place += at;
#pragma unroll
    for (int i = 0; i < COUNT; i += 4)
        tern_shared_store_16(place + 4 * TERN_WARPGROUP * i, tern_four_bits(&sum[i]));
}

// Adds those of `count` places to its own: of the first `sent` from `from` on, of the rest from `left` on.
template <int COUNT>
__device__ __forceinline__ void tern_sums_collect(float (&sum)[COUNT], const unsigned char *from, int sent,
                                                  const unsigned char *left, int count) {
    int at = 16 * ((int)threadIdx.x % TERN_WARPGROUP);
    tern_hide(at); // as above
    from += at, left += at;
#pragma unroll 1
    for (int p = 0; p < count; p++) {
        const unsigned char *place = p < sent ? from : left;
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            tern_shared_add_floats(*reinterpret_cast<float(*)[4]>(&sum[i]), place + 4 * TERN_WARPGROUP * i);
        (p < sent ? from : left) += 4 * TERN_WARPGROUP * COUNT;
    }
}

// Two blocks of a cluster that split K: block `rank` adds up that half of the sums of the first `blocks` row blocks, `own`, and gives the other half to the other
// block, by asynchronous stores that its barrier counts (one arrival; `parity` changes when it was waited for). `places` has room for COUNT / 2 sums of each thread
// and row block, for every STEP-th row block from `places` on; that it is free, the blocks tell each other: all threads of both have called tern_cluster_arrive
// before, and wait for it here or by tern_cluster_wait. What branches read is moved first, as above.
template <int STEP, int BLOCKS, int ROW_BLOCKS, int COUNT>
__device__ __forceinline__ void tern_pair_sum(const float (&sum)[ROW_BLOCKS][COUNT], float (&own)[BLOCKS][COUNT / 2],
                                              unsigned char *places, int blocks, void *barrier, int &parity, int rank) {
    constexpr int HALF = COUNT / 2, PIECE = 16 * TERN_WARPGROUP,
                  BLOCK = HALF / 4 * PIECE; // 4 sums of each thread; of a row block
    float other[BLOCKS][HALF];
#pragma unroll
    for (int i = 0; i < BLOCKS * HALF; i++) {
        const float low = sum[i / HALF][i % HALF], high = sum[i / HALF][i % HALF + HALF];
        own[i / HALF][i % HALF] = rank == 0 ? low : high;
        other[i / HALF][i % HALF] = rank == 0 ? high : low;
    }
    tern_cluster_wait();
    if (blocks == 0)
        return;
    int at = 16 * ((int)threadIdx.x % TERN_WARPGROUP);
    tern_hide(at); // or it is found anew for each of the stores
    const tern_cluster_place to = tern_cluster_at(places + at, rank ^ 1), full = tern_cluster_at(barrier, rank ^ 1);
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        if (b >= blocks)
            break;
#pragma unroll
        for (int i = 0; i < HALF; i += 4)
            tern_cluster_send_to(to + b * STEP * BLOCK + i / 4 * PIECE, full, &other[b][i]);
    }
    tern_sums_await(barrier, parity, BLOCK * blocks);
    parity ^= 1;
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        if (b >= blocks)
            break;
#pragma unroll
        for (int i = 0; i < HALF; i += 4)
            tern_add_four(&own[b][i], places + at + b * STEP * BLOCK + i / 4 * PIECE);
    }
}

#endif
