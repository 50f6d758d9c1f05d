// mma-decode: y[M,N] = x[M,K] * W[N,K]^T for M = 1..64 on tensor cores, weights exact, fp32 accumulation.
//
// Shapes: any M >= 1 (M_TILE rows of x a pass), N a multiple of 8, K a multiple of 32, any group that is a multiple of 32,
// or one scale a row; the last group may be short. Layout frag16x128 (harness/formats/layout.h).
//
// How: weights are the 16-row operand of mma.m16n8k16, straight from global memory in fragment order through a ring of
// registers; x is the 8-column operand, staged once in shared memory, where 16 bytes of a lane serve two k-steps. Codes
// minus zero points are exact in binary16; the scale meets the fp32 sums of its group. tern/decode.cuh has the sharing of
// the work and the reduction.
//
// Parameters: WARPS warps a block; ROW_TILES tiles of 16 rows that share a load of x; PREFETCH ring depth in K tiles of 128;
// M_TILE columns; CTAS blocks an SM at a time (launch bounds); WAVES times as many in the grid, over all SMs but IDLE_SMS
// (both in launch expressions only); CLUSTER_K blocks of a cluster that split K; X_CHUNK K tiles of x in shared memory at a
// time (0: all of the block's K); X_BULK copy x by bulk copies instead of cp.async; X_SHARE blocks (a cluster)
// that copy x together by multicast; SCALE_WEIGHTS multiply the weights by their scale in binary16, which is exact for
// ternary only, and save the group sums' registers.
//
// Bound by: memory up to M = 16 or so, then by shared-memory reads of x and by mma.sync. Expected of the limit: 0.5 to 0.8.
#include "tern/decode.cuh"
#include "tern/mma.cuh"

constexpr int COLUMN_TILES = M_TILE / 8;
constexpr bool GROUP_SUMS = GROUP != 0 && SCALE_WEIGHTS == 0; // scales meet the fp32 sums of a group

// Sums of a row block: [row tile][column tile][fragment register].
struct tern_sums {
    float at[ROW_TILES][COLUMN_TILES][4];
};

// Adds one K tile: row tiles x 128 k x columns. `x` points at this lane's first 16 bytes of the tile in column 0.
__device__ __forceinline__ void tern_tile_multiply(const struct tern_tile (&tiles)[ROW_TILES], const unsigned char *x,
                                                   const int (&x_column)[COLUMN_TILES], struct tern_sums &sums) {
    struct tern_sums group;
#pragma unroll
    for (int piece = 0; piece < 4; piece++) { // 32 k: two steps
        const int span = piece * SPANS / 4;
        const bool first = piece % (4 / SPANS) == 0, last = piece % (4 / SPANS) == 4 / SPANS - 1;
        unsigned a[ROW_TILES][8];
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++) {
            const tern_zero_bias zero = tern_tile_zero(tiles[r], span);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int step = 2 * piece + h;
                tern_dequant<BITS>(tern_tile_word(tiles[r], tern_codes<BITS>::word0(step)),
                                   tern_tile_word(tiles[r], tern_codes<BITS>::word1(step)), step, zero, a[r] + 4 * h);
                if (SCALE_WEIGHTS && GROUP != 0) {
                    unsigned rows[2];
                    tern_scale_rows(tiles[r].scales[span], rows);
                    tern_scale_fragment(rows, a[r] + 4 * h);
                }
            }
        }
#pragma unroll
        for (int m = 0; m < COLUMN_TILES; m++) {
            const uint4 b = tern_shared_load_16(x + x_column[m] + piece * 64);
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++) {
                if (!GROUP_SUMS)
                    tern_mma_f16(sums.at[r][m], a[r], b.x, b.y);
                else if (first)
                    tern_mma_f16_first(group.at[r][m], a[r], b.x, b.y);
                else
                    tern_mma_f16(group.at[r][m], a[r], b.x, b.y);
            }
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++)
                tern_mma_f16(!GROUP_SUMS ? sums.at[r][m] : group.at[r][m], a[r] + 4, b.z, b.w);
        }
        if (!GROUP_SUMS || !last)
            continue;
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
            for (int m = 0; m < COLUMN_TILES; m++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sums.at[r][m][i] += tern_tile_scale(tiles[r], span, i / 2) * group.at[r][m][i];
    }
}

// Adds the sums to the warp's slot of the row block and clears them. With one scale a row, it is applied here.
__device__ __forceinline__ void tern_sums_flush(const struct tern_tile (&tiles)[ROW_TILES], const struct tern_share &s,
                                                int lane, float *slot, struct tern_sums &sums) {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int m = 0; m < COLUMN_TILES; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int column = 8 * m + 2 * t + i % 2;
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++) {
                const float scale = GROUP == 0 ? tern_tile_scale(tiles[r], 0, i / 2) : 1.0f;
                if (column < s.columns)
                    slot[column * SLOT_PITCH + 16 * r + g + 8 * (i / 2)] += scale * sums.at[r][m][i];
                sums.at[r][m][i] = 0.0f;
            }
        }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, CTAS)
    tern_mma_decode(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    if (blockIdx.y * M_TILE >= (unsigned)args.m)
        return;
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const struct tern_share s = tern_share_make(args, shared);
    int x_column[COLUMN_TILES]; // columns that do not exist read the last one; their results are not stored
#pragma unroll
    for (int m = 0; m < COLUMN_TILES; m++)
        x_column[m] = tern_smaller(8 * m + (int)((unsigned)lane / 4), s.columns - 1) * s.x_pitch + (lane & 3) * 16;
    struct tern_sums sums = {};
    tern_decode_walk(
        s, args, warp, lane,
        [&](const struct tern_tile(&tiles)[ROW_TILES], const unsigned char *x) {
            tern_tile_multiply(tiles, x, x_column, sums);
        },
        [&](const struct tern_tile(&tiles)[ROW_TILES], float *slot) { tern_sums_flush(tiles, s, lane, slot, sums); });
    tern_finish(s, args, warp, lane);
}
