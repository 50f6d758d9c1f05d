// simt-decode: y[M,N] = x[M,K] * W[N,K]^T for M = 1..8 on CUDA cores, weights exact, fp32 accumulation. cc 7.5 and later.
//
// Shapes: any M >= 1 (M_TILE rows of x a pass), N a multiple of 8, K a multiple of 32, any group that is a multiple of 32,
// or one scale a row; the last group may be short. Layout frag16x128 (harness/formats/layout.h).
//
// How: lane 4g + t holds rows g and g + 8 of a row tile and eight of each 32 columns, straight from global memory through a
// ring of registers. Codes minus zero points are exact in binary16 and become fp32 before they meet x: binary16 partial sums
// would lose what the bound of verify allows. Sums go over the four t by shuffles, over the warps by tern/decode.cuh.
//
// Parameters: WARPS warps a block; ROW_TILES tiles of 16 rows that share a load of x; PREFETCH ring depth in K tiles of 128;
// M_TILE columns; CTAS blocks an SM at a time (launch bounds); WAVES times as many in the grid, over all SMs but IDLE_SMS
// (both in launch expressions only); CLUSTER_K blocks of a cluster that split K; X_CHUNK K tiles of x in shared memory at a
// time (0: all of the block's K).
//
// Bound by: issue slots, 3 + M a weight of a lane; at M = 1 about 1.8 times what an H200 has at full read speed. Expected of
// the limit: 0.4 to 0.5.
constexpr int X_BULK = 0, RING = 0; // this kernel is not the one for which more would matter
#include "tern/decode.cuh"

// Sums of a row block: [row tile][row g or g + 8][column], this lane's share of k.
struct tern_sums {
    float at[ROW_TILES][2][M_TILE];
};

// Adds eight k of one lane: a fragment pair of a row tile times x.
__device__ __forceinline__ void tern_pairs_multiply(const unsigned (&a)[8], const float (&x)[M_TILE][8],
                                                    float (&sums)[2][M_TILE]) {
#pragma unroll
    for (int p = 0; p < 8; p++) { // fragment register p: row g + 8 * (p & 1), k 2 * (p / 2) and the next
        const __half2 pair = tern_as_half2(a[p]);
        const float low = __low2float(pair), high = __high2float(pair);
#pragma unroll
        for (int m = 0; m < M_TILE; m++) {
            sums[p & 1][m] = fmaf(low, x[m][p / 2 * 2], sums[p & 1][m]);
            sums[p & 1][m] = fmaf(high, x[m][p / 2 * 2 + 1], sums[p & 1][m]);
        }
    }
}

__device__ __forceinline__ void tern_x_floats(uint4 bits, float (&x)[8]) {
    const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 pair = tern_pair_floats<BF16>(words[i]);
        x[2 * i] = pair.x;
        x[2 * i + 1] = pair.y;
    }
}

// Adds one K tile. `x` points at this lane's first 16 bytes of the tile in column 0.
__device__ __forceinline__ void tern_tile_multiply(const struct tern_tile (&tiles)[ROW_TILES], const unsigned char *x,
                                                   const int (&x_column)[M_TILE], struct tern_sums &sums) {
    struct tern_sums group;
#pragma unroll
    for (int piece = 0; piece < 4; piece++) { // 32 k
        const int span = piece * SPANS / 4;
        const bool first = piece % (4 / SPANS) == 0, last = piece % (4 / SPANS) == 4 / SPANS - 1;
        float values[M_TILE][8];
#pragma unroll
        for (int m = 0; m < M_TILE; m++)
            tern_x_floats(tern_shared_load_16(x + x_column[m] + piece * 64), values[m]);
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++) {
            unsigned a[8];
            const tern_zero_bias zero = tern_tile_zero(tiles[r], span);
#pragma unroll
            for (int h = 0; h < 2; h++)
                tern_dequant_tile<BITS, 0>(tiles[r].words, 2 * piece + h, zero, a + 4 * h);
            if (GROUP == 0) {
                tern_pairs_multiply(a, values, sums.at[r]);
                continue;
            }
#pragma unroll
            for (int i = 0; i < 2 * M_TILE; i++)
                if (first)
                    group.at[r][i / M_TILE][i % M_TILE] = 0.0f;
            tern_pairs_multiply(a, values, group.at[r]);
#pragma unroll
            for (int i = 0; i < 2 * M_TILE; i++)
                if (last)
                    sums.at[r][i / M_TILE][i % M_TILE] +=
                        tern_tile_scale(tiles[r], span, i / M_TILE) * group.at[r][i / M_TILE][i % M_TILE];
        }
    }
}

// Adds the sums over the four lanes of a row to the warp's slot of the row block and clears them. With one scale a row, it
// is applied here.
__device__ __forceinline__ void tern_sums_flush(const struct tern_tile (&tiles)[ROW_TILES], const struct tern_share &s,
                                                int lane, float *slot, struct tern_sums &sums) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int m = 0; m < M_TILE; m++) {
                float sum = sums.at[r][half][m];
                sums.at[r][half][m] = 0.0f;
                sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
                sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
                if (GROUP == 0)
                    sum *= tern_tile_scale(tiles[r], 0, half);
                if (m < s.columns && lane % 4 == m % 4)
                    slot[m * SLOT_PITCH + 16 * r + lane / 4 + 8 * half] += sum;
            }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, CTAS)
    tern_simt_decode(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    if (blockIdx.y * M_TILE >= (unsigned)args.m)
        return;
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const struct tern_share s = tern_share_make(args, shared);
    int x_column[M_TILE]; // columns that do not exist read the last one; their results are not stored
#pragma unroll
    for (int m = 0; m < M_TILE; m++)
        x_column[m] = tern_smaller(m, s.columns - 1) * s.x_pitch + (lane & 3) * 16;
    struct tern_sums sums = {};
    tern_decode_walk(
        s, args, warp, lane, []() {},
        [&](const struct tern_tile(&tiles)[ROW_TILES], int x, int) { tern_tile_multiply(tiles, s.x + x, x_column, sums); },
        [&](const struct tern_tile(&tiles)[ROW_TILES], float *slot) { tern_sums_flush(tiles, s, lane, slot, sums); });
    tern_finish(s, args, warp, lane);
}
