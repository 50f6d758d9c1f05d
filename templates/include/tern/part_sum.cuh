// Sums of warpgroups of one block that split K, added up through shared memory. Owns nothing.
#ifndef TERN_PART_SUM_CUH
#define TERN_PART_SUM_CUH

#include "tern/pipeline.cuh"

// Bytes of shared memory for PARTS parts of `blocks` row blocks of COUNT sums a thread.
#define TERN_PART_SUM_BYTES(parts, blocks, count) ((parts - 1) * (blocks)*4 * (count)*TERN_WARPGROUP)

// Warpgroup `n` of WARPS_N in part `part` of PARTS: adds the sums of all parts into those of part 0, in their order. `shared`
// may be in use until then: named barrier `barrier` of all THREADS that call is passed before it is written to, and once
// more before it is read. Only the first `active` row blocks count.
template <int PARTS, int WARPS_N, int THREADS, int ROW_BLOCKS, int COUNT>
__device__ __forceinline__ void tern_part_sum(float (&sum)[ROW_BLOCKS][COUNT], unsigned char *shared, int part, int n,
                                              int barrier, int active = ROW_BLOCKS) {
    constexpr int QUADS = ROW_BLOCKS * COUNT / 4, PART = WARPS_N * QUADS * TERN_WARPGROUP;
    float4 *slots = reinterpret_cast<float4 *>(shared) + n * QUADS * TERN_WARPGROUP + threadIdx.x % TERN_WARPGROUP;
    tern_block_sync(barrier, THREADS);
    if (part > 0)
#pragma unroll
        for (int i = 0; i < QUADS; i++) {
            const float *d = &sum[4 * i / COUNT][4 * i % COUNT];
            if (4 * i / COUNT >= active)
                break;
            slots[(part - 1) * PART + i * TERN_WARPGROUP] = float4{d[0], d[1], d[2], d[3]};
        }
    tern_block_sync(barrier, THREADS);
    if (part > 0)
        return;
#pragma unroll 1 // cold code, and short
    for (int other = 0; other < PARTS - 1; other++, slots += PART)
#pragma unroll
        for (int i = 0; i < QUADS; i++) {
            if (4 * i / COUNT >= active)
                break;
            const float4 more = slots[i * TERN_WARPGROUP];
            float *d = &sum[4 * i / COUNT][4 * i % COUNT];
            d[0] += more.x;
            d[1] += more.y;
            d[2] += more.z;
            d[3] += more.w;
        }
}

// Two warpgroups that take slices of a ring in turn: that of turn 1 then has the sums of both. That of turn 0, mostly done before, leaves its own and goes
// on; they lie in stages that it alone has used, every other one from `first` on, BYTES each of STAGES at `ring`. Named barriers: `own` of the
// warpgroup, `both` of the two.
template <int STAGES, int BYTES, int ROW_BLOCKS, int COUNT>
__device__ __forceinline__ void tern_turn_sum(float (&sum)[ROW_BLOCKS][COUNT], unsigned char *ring, int first, int turn,
                                              int own, int both) {
    static_assert(4 * COUNT * TERN_WARPGROUP <= BYTES && 2 * ROW_BLOCKS <= STAGES, "a stage for each row block's sums");
    if (turn == 0)
        tern_block_sync(own, TERN_WARPGROUP); // none of its warps multiplies any more
    else
        tern_block_sync(both, 2 * TERN_WARPGROUP);
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        float4 *slots = reinterpret_cast<float4 *>(ring + (first + 2 * b) % STAGES * BYTES) + threadIdx.x % TERN_WARPGROUP;
        if (turn == 0) {
#pragma unroll
            for (int i = 0; i < COUNT / 4; i++)
                slots[i * TERN_WARPGROUP] = float4{sum[b][4 * i], sum[b][4 * i + 1], sum[b][4 * i + 2], sum[b][4 * i + 3]};
            continue;
        }
#pragma unroll
        for (int i = 0; i < COUNT / 4; i++) {
            const float4 more = slots[i * TERN_WARPGROUP];
            sum[b][4 * i] += more.x;
            sum[b][4 * i + 1] += more.y;
            sum[b][4 * i + 2] += more.z;
            sum[b][4 * i + 3] += more.w;
        }
    }
    if (turn == 0)
        tern_block_arrive(both, 2 * TERN_WARPGROUP);
}

#endif
