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

#endif
