// mma-stream: y[M,N] = x[M,K] * W[N,K]^T for M = 1..8 on tensor cores, weights exact, fp32 accumulation.
//
// Shapes: M up to 8, N a multiple of 8, K a multiple of 32, any group that is a multiple of 32, or one scale a row; the
// last group may be short. 2 and 4 bits. Layout frag16x128 (harness/formats/layout.h).
//
// How: weights are the 16-row operand of mma.m16n8k16, x the 8-column operand, staged once in shared memory, where 16 bytes of a
// lane serve two k-steps. Codes minus zero points are exact in binary16; the scale meets the fp32 sums of its group.
// tern/stream.cuh has the stream of weights; mma-decode serves what this one does not (more of M, other code widths, GPUs).
//
// Parameters: ROW_TILES tiles of 16 rows that share a load of x; WARPS warps a block, one block an SM;
// CLUSTER_K blocks of a cluster that split K; X_BULK x by bulk copies instead of cp.async; TILES K tiles of 128 a stage, STAGES of
// each warp's ring; BULK how it is filled (0 cp.async, 1 bulk copies).
//
// Bound by: fixed costs on small layers, then memory and issue slots. Expected of the limit: 0.45 to 0.7.
constexpr int M_TILE = 8;                                  // columns of a fragment
constexpr int VALUES = 1, SLOT_PITCH = 16 * ROW_TILES + 4; // an output's sums; floats apart: no bank conflicts
#include "tern/mma.cuh"
#include "tern/stream_finish.cuh"

// Chains of products that a row tile's sums of a span are cut into: two halve the latency where nothing else overlaps.
constexpr int CHAINS = ROW_TILES == 1 && SPANS == 1 ? 2 : 1;

// Shared memory of a block; all 16-byte aligned.
struct tern_places {
    unsigned char *x; // [rows of x][pitch]; first, as bulk copies like it aligned
    int pitch;        // 64 more than a multiple of 128: no bank conflicts
    void *barrier;    // X_BULK
    struct tern_slots slots;
    unsigned char *rings; // [WARPS][STAGES][STAGE_BYTES], and behind them the barriers
};

__device__ __forceinline__ struct tern_places tern_places_make(const struct tern_share &s, unsigned char *shared, int rows) {
    struct tern_places p;
    p.x = shared;
    p.pitch = s.most_tiles * 256 + 64;
    p.rings = shared + rows * p.pitch;
    shared = p.rings + WARPS * STAGES * (STAGE_BYTES + BULK * 8);
    p.barrier = shared;
    shared += 16;
    p.slots = tern_slots_make(s, rows, shared);
    return p;
}

// Starts the copies of x; k behind K become zeros, so that what the padding of the weights meets is finite.
__device__ __forceinline__ void tern_x_copy(const struct tern_places &p, const struct tern_share &s,
                                            const struct tern_args &args, int warp, int lane) {
    const int k = s.k_begin * 128, present = tern_smaller((int)args.k - k, s.tiles * 128) * 2; // bytes of a row
    const int padding = (s.tiles * 256 - present) / 16, rows = p.slots.rows;
    const __half *x = (const __half *)args.x + k;
    if (X_BULK) {
        if (warp == 0) {
            if (lane == 0) {
                tern_barrier_init(p.barrier, 1);
                tern_barrier_arrive_expect(p.barrier, rows * present);
            }
            __syncwarp();
            if (lane < rows)
                tern_bulk_copy(p.x + lane * p.pitch, x + lane * args.k, present, p.barrier);
        }
        for (int m = warp; m < rows; m += WARPS)
            for (int i = lane; i < padding; i += 32)
                tern_shared_store_16(p.x + m * p.pitch + present + i * 16, make_uint4(0, 0, 0, 0));
        return;
    }
    tern_x_copy_async(p.x, p.pitch, s, args, rows, warp, lane);
}

// Waits for x: whatever was started before the rings' first stages.
__device__ __forceinline__ void tern_x_wait(const struct tern_places &p) {
    if (!X_BULK)
        tern_cp_async_wait<BULK ? 0 : STAGES>();
    __syncthreads();
    if (X_BULK)
        tern_barrier_wait(p.barrier, 0);
}

// Sums of a row block: [row tile][fragment register].
struct tern_sums {
    float at[ROW_TILES][4];
};

// What the lane needs of a row tile in a slot: codes, scales and zero points of rows g and g + 8.
struct tern_tile {
    unsigned words[tern_codes<BITS>::words];
    float scale[SPANS][2];
    tern_zero_bias zero[SPANS];
};

__device__ __forceinline__ void tern_tile_take(struct tern_tile &tile, const unsigned char *slot, int r, int j, int k,
                                               int first_k, const struct tern_share &s, int groups, int lane) {
    tern_slot_words(slot, r, j, lane, tile.words);
#pragma unroll
    for (int span = 0; span < SPANS; span++) {
        const int entry = tern_slot_entry(s, j, k, first_k, span, groups);
        const float2 pair = __half22float2(tern_as_half2(tern_slot_scales(slot, r, entry, lane)));
        const unsigned zeros = HAS_ZEROS ? tern_slot_zeros(slot, r, entry, lane) : ZERO * 257u;
        tile.scale[span][0] = pair.x;
        tile.scale[span][1] = pair.y;
        tile.zero[span] = tern_zero_biases<BITS>(zeros & 0xFFu, zeros >> 8);
    }
}

// Sums of the span at hand.
struct tern_group {
    float at[CHAINS][ROW_TILES][4];
};

// Adds piece PIECE (32 k, two steps) of a K tile; x is the lane's column there.
template <int PIECE>
__device__ __forceinline__ void tern_piece_multiply(const struct tern_tile (&tiles)[ROW_TILES], const unsigned char *x,
                                                    struct tern_group &group) {
    constexpr int SPAN = PIECE * SPANS / 4;
    constexpr bool FIRST = PIECE * SPANS % 4 == 0;
    const uint4 b = tern_shared_load_16(x + PIECE * 64);
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        float(&even)[4] = group.at[0][r], (&odd)[4] = group.at[CHAINS - 1][r];
        unsigned a[2][4];
#pragma unroll
        for (int h = 0; h < 2; h++)
            tern_dequant_tile<BITS>(tiles[r].words, 2 * PIECE + h, tiles[r].zero[SPAN], a[h]);
        if (FIRST)
            tern_mma_f16_first(even, a[0], b.x, b.y);
        else
            tern_mma_f16(even, a[0], b.x, b.y);
        if (FIRST && CHAINS == 2)
            tern_mma_f16_first(odd, a[1], b.z, b.w);
        else
            tern_mma_f16(odd, a[1], b.z, b.w);
    }
}

// Adds the span's sums to the row block's, scaled.
__device__ __forceinline__ void tern_group_add(const struct tern_tile (&tiles)[ROW_TILES], int span,
                                               const struct tern_group &group, struct tern_sums &sums) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float sum = group.at[0][r][i] + (CHAINS == 2 ? group.at[CHAINS - 1][r][i] : 0.0f);
            sums.at[r][i] = fmaf(tiles[r].scale[span][i / 2], sum, sums.at[r][i]);
        }
}

// Adds one K tile: row tiles x 128 k x columns.
__device__ __forceinline__ void tern_tile_multiply(const struct tern_tile (&tiles)[ROW_TILES], const unsigned char *x,
                                                   struct tern_sums &sums) {
    struct tern_group group;
    tern_piece_multiply<0>(tiles, x, group);
    if (SPANS == 4)
        tern_group_add(tiles, 0, group, sums);
    tern_piece_multiply<1>(tiles, x, group);
    if (SPANS >= 2)
        tern_group_add(tiles, SPANS / 4, group, sums);
    tern_piece_multiply<2>(tiles, x, group);
    if (SPANS == 4)
        tern_group_add(tiles, 2, group, sums);
    tern_piece_multiply<3>(tiles, x, group);
    tern_group_add(tiles, SPANS - 1, group, sums);
}

// Moves the sums to the warp's slot.
__device__ __forceinline__ void tern_sums_flush(float *slot, int rows, int lane, struct tern_sums &sums) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int column = 2 * (lane % 4) + i % 2;
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++) {
            if (column < rows)
                tern_shared_store_4(slot + column * SLOT_PITCH + 16 * r + lane / 4 + 8 * (i / 2),
                                    __float_as_uint(sums.at[r][i]));
            sums.at[r][i] = 0.0f;
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) tern_mma_stream(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(dynamic);
    unsigned char *shared = tern_shared_kept(dynamic);
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const int rows = (int)args.m;
    const struct tern_share s = tern_share_make(args);
    const struct tern_places p = tern_places_make(s, shared, rows);
    tern_x_copy(p, s, args, warp, lane);
    struct tern_ring ring;
    tern_ring_start(ring, p.rings + warp * (STAGES * STAGE_BYTES),
                    p.rings + WARPS * STAGES * STAGE_BYTES + warp * (STAGES * 8), s, args, warp, lane);
    if (CLUSTER_K > 1)
        tern_cluster_arrive();
    // The lane's column of x. Columns that do not exist read the last one; they are not stored.
    const unsigned char *x = p.x + tern_kept(tern_smaller(lane / 4, rows - 1) * p.pitch + lane % 4 * 16);
    tern_x_wait(p);
    struct tern_sums sums = {};
    tern_ring_walk(
        ring, s, args, warp, lane,
        [&](const unsigned char *slot, int j, int k, int first_k) {
            struct tern_tile tiles[ROW_TILES];
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++)
                tern_tile_take(tiles[r], slot, r, j, k, first_k, s, (int)args.groups, lane);
            tern_tile_multiply(tiles, x + k * 256, sums);
        },
        [&](int row) { tern_sums_flush(tern_slot(p.slots, s, warp, row), rows, lane, sums); });
    tern_finish(p.slots, s, args, warp, lane, [](const float(&values)[VALUES], int) { return values[0]; });
}
