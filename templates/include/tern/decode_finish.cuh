// The end of decode kernels: the slots of a row block summed over warps and over the blocks of a cluster, and y written. A part
// of tern/decode.cuh, which includes it.
#ifndef TERN_DECODE_FINISH_CUH
#define TERN_DECODE_FINISH_CUH

#include "tern/bias.cuh"

constexpr int COLUMN_SET = M_TILE >= 4 ? 4 : 1; // columns that one pass of the final sums takes: independent loads

// a / b for 0 <= a < 4096, 0 < b <= 64: the quotient of a + 1/2 is never nearer than 1/128 to an integer, the reciprocal is
// good to 2^-22.
__device__ __forceinline__ int tern_small_quotient(int a, int b) {
#ifdef TERN_EMULATOR
    return a / b;
#else
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"((float)b));
    return (int)(((float)a + 0.5f) * reciprocal);
#endif
}

// Calls use(block, column, first, last) for the PARTS-th part of the (row block, COLUMN_SET columns from `column`) pairs;
// first and last are the warps whose pieces touch the row block. All lanes of a warp take part.
template <int PARTS, class USE>
__device__ __forceinline__ void tern_outputs_each(const struct tern_share &s, int part, int lane, USE use) {
    const int sets = (int)((unsigned)(s.columns + COLUMN_SET - 1) / COLUMN_SET);
    const int step_blocks = tern_small_quotient(PARTS, sets), step_sets = PARTS - step_blocks * sets;
    int block = tern_small_quotient(part, sets), set = part - block * sets;
    while (block < s.blocks) {
        const bool touches = lane < WARPS && lane * s.blocks < (block + 1) * WARPS && (lane + 1) * s.blocks > block * WARPS;
        const unsigned mask = __ballot_sync(0xFFFFFFFFu, touches);
        use(block, set * COLUMN_SET, __ffs((int)mask) - 1, 31 - __clz((int)mask));
        block += step_blocks;
        set += step_sets;
        if (set >= sets) {
            set -= sets;
            block++;
        }
    }
}

// Writes one row of W's results for the set's columns that exist.
__device__ __forceinline__ void tern_store_y(const struct tern_share &s, const struct tern_args &args, int block, int column,
                                             int row, const float (&values)[COLUMN_SET]) {
    const long long n = (long long)(s.first_block + block) * BLOCK_ROWS + row;
    if (n >= args.n) // the last row tile is half empty where N is not a multiple of 16
        return;
    const float bias = tern_bias_of<BF16>(args, n);
    unsigned short *y = (unsigned short *)args.y + (s.first_column + column) * args.n + n;
#pragma unroll
    for (int c = 0; c < COLUMN_SET; c++)
        if (column + c < s.columns)
            y[c * args.n] = tern_value_round<BF16>(values[c] + bias);
}

// Sums the slots over the warps, and over the blocks of the cluster, and writes y.
__device__ __forceinline__ void tern_finish(const struct tern_share &s, const struct tern_args &args, int warp, int lane) {
    __syncthreads();
    tern_outputs_each<WARPS>(s, warp, lane, [&](int block, int column, int first, int last) {
        for (int row = lane; row < BLOCK_ROWS; row += 32) {
            float sums[COLUMN_SET] = {};
#pragma unroll 2
            for (int w = first; w <= last; w++) {
                const float *slot = tern_slot(s, w, block) + column * SLOT_PITCH + row;
#pragma unroll
                for (int c = 0; c < COLUMN_SET; c++)
                    if (column + c < s.columns)
                        sums[c] += slot[c * SLOT_PITCH];
            }
            if (CLUSTER_K == 1) {
                tern_store_y(s, args, block, column, row, sums);
                continue;
            }
            float *slot = tern_slot(s, first, block) + column * SLOT_PITCH + row;
#pragma unroll
            for (int c = 0; c < COLUMN_SET; c++)
                if (column + c < s.columns)
                    slot[c * SLOT_PITCH] = sums[c];
        }
    });
    if (CLUSTER_K == 1)
        return;
    tern_cluster_sync(); // each block's sums are in the first touching slots; now the blocks share the outputs
    const int part = (int)(blockIdx.x % CLUSTER_K) * WARPS + warp;
    tern_outputs_each<CLUSTER_K * WARPS>(s, part, lane, [&](int block, int column, int first, int) {
        for (int row = lane; row < BLOCK_ROWS; row += 32) {
            const float *slot = tern_slot(s, first, block) + column * SLOT_PITCH + row;
            float parts[COLUMN_SET][CLUSTER_K], sums[COLUMN_SET] = {};
#pragma unroll
            for (int c = 0; c < COLUMN_SET; c++)
                if (column + c < s.columns)
#pragma unroll
                    for (int i = 0; i < CLUSTER_K; i++)
                        parts[c][i] = tern_cluster_load_float(slot + c * SLOT_PITCH, i);
#pragma unroll
            for (int c = 0; c < COLUMN_SET; c++)
                if (column + c < s.columns)
#pragma unroll
                    for (int i = 0; i < CLUSTER_K; i++)
                        sums[c] += parts[c][i];
            tern_store_y(s, args, block, column, row, sums);
        }
    });
    tern_cluster_sync(); // nobody leaves while another block may still read its slots
}

#endif
