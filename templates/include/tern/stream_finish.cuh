// The end of lean decode kernels (tern/stream.cuh): the sums of a row block over the warps of the block and the blocks of a
// cluster, and y.
//
// A warp moves its sums of a row block to a slot in shared memory, once for each row block that its piece touches. Each output is the
// sum of its slots in warp order, then over the cluster by rank: deterministic. A cluster's outputs are dealt to its ranks;
// the others send theirs, so one cluster barrier is enough.
//
// The including kernel has the constants M_TILE (rows of x at most) and VALUES (floats of a slot that make an output).
#ifndef TERN_STREAM_FINISH_CUH
#define TERN_STREAM_FINISH_CUH

#include "tern/bias.cuh"

#include "tern/cluster.cuh"
#include "tern/stream.cuh"

constexpr int BLOCK_ROWS = 16 * ROW_TILES;
constexpr int SPLIT = 32 / BLOCK_ROWS;       // lanes that share the warps' slots of an output
constexpr int SET = M_TILE < 4 ? M_TILE : 4; // rows of x that a warp sums at a time: independent loads
static_assert(ROW_TILES == 1 || ROW_TILES == 2, "a warp sums one row block at a time");
static_assert(BITS == 2 || BITS == 4, "code widths of one plane");

struct tern_slots {
    float *at;       // [WARPS][per_warp][rows * VALUES][SLOT_PITCH]
    int per_warp;    // row blocks that a warp's piece touches at most
    int rows;        // of x
    float *incoming; // CLUSTER_K > 1: [rank][own outputs][BLOCK_ROWS]
};

// Outputs (row block, row of x) that a rank of the cluster has at most.
__device__ __forceinline__ int tern_outputs_own(const struct tern_share &s) {
    return (s.most_rows * M_TILE + CLUSTER_K - 1) / CLUSTER_K;
}

// Lays the slots out at `shared`, which is advanced past them.
__device__ __forceinline__ struct tern_slots tern_slots_make(const struct tern_share &s, int rows, unsigned char *&shared) {
    struct tern_slots slots;
    slots.rows = rows;
    slots.per_warp = (int)((unsigned)(s.most_rows + WARPS - 1) / WARPS) + 1;
    slots.incoming = (float *)shared;
    shared += CLUSTER_K > 1 ? tern_outputs_own(s) * CLUSTER_K * BLOCK_ROWS * 4 : 0;
    slots.at = (float *)shared;
    shared += WARPS * slots.per_warp * rows * (VALUES * SLOT_PITCH * 4);
    return slots;
}

// The warp's slot for a row block. A warp's slots begin with the row block in which its piece begins.
__device__ __forceinline__ float *tern_slot(const struct tern_slots &slots, const struct tern_share &s, int warp, int row) {
    return slots.at + (warp * slots.per_warp + row - tern_piece_row(s, warp)) * (slots.rows * VALUES * SLOT_PITCH);
}

// Calls use(row block, row of x, row of the block, value) for the block's outputs, summed over its warps; value is what
// join(sums, row of x) makes of the VALUES sums. All lanes call join; BLOCK_ROWS lanes call use.
template <class JOIN, class USE>
__device__ __forceinline__ void tern_outputs_each(const struct tern_slots &slots, const struct tern_share &s, int warp,
                                                  int lane, JOIN join, USE use) {
    const int begin = tern_piece_begin(s, tern_smaller(lane, WARPS));
    const int end = tern_piece_begin(s, tern_smaller(lane + 1, WARPS));
#pragma unroll 1
    for (int item = warp; item < s.rows * (M_TILE / SET); item += WARPS) {
        const int row = item / (M_TILE / SET), first_m = item % (M_TILE / SET) * SET;
        const bool touches = begin < tern_smaller(end, (row + 1) * s.tiles) && end > row * s.tiles;
        const unsigned mask = __ballot_sync(0xFFFFFFFFu, touches);
        const int last = 31 - __clz((int)mask);
        float sums[SET][VALUES] = {};
#pragma unroll 2
        for (int w = __ffs((int)mask) - 1 + lane / BLOCK_ROWS; w <= last; w += SPLIT) {
            const float *slot = tern_slot(slots, s, w, row) + first_m * VALUES * SLOT_PITCH + lane % BLOCK_ROWS;
#pragma unroll
            for (int i = 0; i < SET * VALUES; i++)
                if (first_m + i / VALUES < slots.rows && (mask >> w & 1)) // short pieces may be empty
                    sums[i / VALUES][i % VALUES] += __uint_as_float(tern_shared_load_4(slot + i * SLOT_PITCH));
        }
#pragma unroll
        for (int i = 0; i < SET; i++) {
            float sum = join(sums[i], first_m + i);
            if (SPLIT == 2)
                sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 16);
            if (lane < BLOCK_ROWS && first_m + i < slots.rows)
                use(row, first_m + i, lane, sum);
        }
    }
}

__device__ __forceinline__ void tern_store_y(const struct tern_share &s, const struct tern_args &args, int row, int m, int r,
                                             float value) {
    const long long n = (long long)(s.first_row + row) * BLOCK_ROWS + r;
    if (n < args.n) // the last row tile is half empty where N is not a multiple of 16
        ((unsigned short *)args.y)[m * args.n + n] = tern_value_round<BF16>(value + tern_bias_of<BF16>(args, n));
}

// Sums the slots and writes y. Kernels with CLUSTER_K > 1 call tern_cluster_arrive once before. Output i of a cluster is
// summed by rank i % CLUSTER_K.
template <class JOIN>
__device__ __forceinline__ void tern_finish(const struct tern_slots &slots, const struct tern_share &s,
                                            const struct tern_args &args, int warp, int lane, JOIN join) {
    const int own = tern_outputs_own(s), rank = (int)(blockIdx.x % CLUSTER_K);
    __syncthreads();
    if (CLUSTER_K > 1)
        tern_cluster_wait(); // all blocks run
    tern_outputs_each(slots, s, warp, lane, join, [&](int row, int m, int r, float value) {
        const int item = row * M_TILE + m;
        if (CLUSTER_K == 1)
            tern_store_y(s, args, row, m, r, value);
        else
            tern_cluster_store_float(slots.incoming + (rank * own + item / CLUSTER_K) * BLOCK_ROWS + r, item % CLUSTER_K,
                                     value);
    });
    if (CLUSTER_K == 1)
        return;
    tern_cluster_sync();
    for (int i = (int)threadIdx.x; i < own * BLOCK_ROWS; i += WARPS * 32) {
        const int item = i / BLOCK_ROWS * CLUSTER_K + rank, row = item / M_TILE, m = item % M_TILE;
        float sum = 0.0f;
#pragma unroll
        for (int from = 0; from < CLUSTER_K; from++)
            sum += __uint_as_float(tern_shared_load_4(slots.incoming + from * own * BLOCK_ROWS + i));
        if (row < s.rows && m < slots.rows)
            tern_store_y(s, args, row, m, i % BLOCK_ROWS, sum);
    }
}

#endif
