// mma-resident: y[M,N] = x[M,K] * W[N,K]^T for M = 1..16 on tensor cores, x in registers, fp32 accumulation.
//
// Shapes: M up to 8 * FRAGMENTS, N a multiple of 8, K a multiple of 32 up to 128 * WARPS_K * K_TILES * CLUSTER_K (40,960), any
// group that is a multiple of 32, or one scale a row; the last group may be short. 2, 3 and 4 bits. Layout frag16x128
// (harness/formats/layout.h). Compute capability 9.0.
//
// How: each of WARPS_K warps owns K_TILES tiles of 128 k and keeps their x in registers, as the 8-column operand of
// mma.m16n8k16, loaded straight from global memory; the block's rows of W pass by. So x needs no shared memory, no barrier and
// no load for each tile. One more warp streams W by bulk copies, all of K of a row block (ROW_TILES tiles of 16 rows) at a time.
// Sums of a row block go to a slot for each warp; a third kind of warp adds them up, in warp order, and writes y. Barriers of
// copies (mbarrier) are all that ties the three kinds together. Where K is long the blocks of a cluster split it: each keeps its
// part of x, and their sums meet without a barrier of the cluster (tern/cluster_meet.cuh).
//
// Codes are multiplied raw, as subnormal binary16 (docs/kernels/decode.md). The pieces of a tile stand at places of different
// powers of two; x is multiplied by the complement, so one accumulator serves. That is exact while |x| < 1023 (3 bits: 2047, 4 bits: 4095) in
// the warp's tiles of a row of x. Rows beyond (found by their sums, which overflow) are scaled down instead: of what is below
// 2^-7 they keep multiples of 2^-18. Zero point times sum of x is taken off each span's sum; those sums are made by the same
// products in the same order, so weights of value 0 alone give exactly 0. Inf in a row of x, like NaN, makes its row of y NaN
// (Inf - Inf).
//
// Parameters: FRAGMENTS of 8 rows of x; CLUSTER_K blocks that split K; WARPS_K and K_TILES of a block; ROW_TILES that a warp
// multiplies side by side, as it does its K tiles; STAGES row blocks of W in flight; TOGETHER: stages are given back with their
// sums; ADDERS, the warps that add up, 0: the copying warp does.
//
// Bound by: the products (small layers: the delivery of x from the L2) and memory. Expected of the limit: 0.5 to 0.8.
constexpr int WARPS = WARPS_K, BULK = 1, TILES = WARPS_K * K_TILES; // what stream.cuh asks for
constexpr int UNITS = ROW_TILES * FRAGMENTS, UNIT_FLOATS = 4;       // 16 rows and 8 columns: a fragment's four registers
constexpr int SLOTS = STAGES == 2 ? 4 : STAGES;                     // row blocks whose sums wait to be added up
// Row blocks asked for ahead of x: more would stand in its way. Of clusters two of 16 rows or two of up to 8 KB: a block has less x to
// wait for. A dependent launch has x long after all of them.
constexpr bool WEIGHTS_FIRST = DEPENDENT, SMALL = CLUSTER_K > 1 && ROW_TILES *TILES * 256 * BITS <= 8192;
constexpr int FIRST = WEIGHTS_FIRST ? STAGES : SMALL || (CLUSTER_K > 1 && ROW_TILES == 1) ? 2 : 1;
#include "tern/fields.cuh"
#include "tern/resident.cuh"

typedef struct tern_fields<BITS> tern_width;
#include "tern/resident_x.cuh"

// Adds span SPAN of K tile j of a row tile.
template <int SPAN>
__device__ __forceinline__ void tern_span_add(struct tern_sums &sums, int r, const float (&products)[FRAGMENTS][4],
                                              const struct tern_tile &tile, const struct tern_held &x, int j) {
    const float2 scale = __half22float2(tern_as_half2(tile.scales[SPAN]));
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float of_x = x.of_x[j][f][SPAN][i % 2];
            if (HAS_ZEROS)
                of_x *= (float)(i / 2 ? tile.zeros[SPAN] >> 8 : tile.zeros[SPAN] & 0xFFu);
            const float value = products[f][i] - of_x;
            const float scaled = i / 2 ? scale.y : scale.x;
            float &sum = sums.at[r * FRAGMENTS + f][i];
            sum = j == 0 && SPAN == 0 ? scaled * value : fmaf(scaled, value, sum);
        }
}

// Multiplies span SPAN of the first COUNT K tiles and all row tiles side by side: independent chains of products. The even steps come
// first, so that the words can be shifted for the odd ones where they are.
template <int COUNT, int SPAN>
__device__ __forceinline__ void tern_span_step(struct tern_sums &sums, const struct tern_tile (&tiles)[K_TILES][ROW_TILES],
                                               const tern_width (&fields)[COUNT][ROW_TILES], const struct tern_held &x,
                                               unsigned two_24) {
    constexpr int BEGIN = SPAN * 4 / SPANS, END = (SPAN + 1) * 4 / SPANS;
    float products[COUNT][ROW_TILES][CHAINS][FRAGMENTS][4];
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = BEGIN; i < END; i++)
#pragma unroll
            for (int j = 0; j < COUNT; j++)
#pragma unroll
                for (int r = 0; r < ROW_TILES; r++) {
                    const int piece = tern_width::piece(i, SPANS);
                    unsigned a[4];
                    tern_fields_halves(fields[j][r], piece, h, two_24, a);
                    tern_step_multiply(products[j][r][h % CHAINS], a, x.b[j], piece, h, i == BEGIN && h < CHAINS);
                }
#pragma unroll
    for (int j = 0; j < COUNT; j++)
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++) {
            tern_chains_join(products[j][r]);
            tern_span_add<SPAN>(sums, r, products[j][r][0], tiles[j][r], x, j);
        }
}

// Multiplies the warp's first COUNT K tiles of a row block.
template <int COUNT>
__device__ __forceinline__ void tern_tiles_multiply(struct tern_sums &sums,
                                                    const struct tern_tile (&tiles)[K_TILES][ROW_TILES],
                                                    const struct tern_held &x, unsigned two_24) {
    tern_width fields[COUNT][ROW_TILES];
#pragma unroll
    for (int j = 0; j < COUNT; j++)
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++)
            fields[j][r] = tern_fields_make<BITS>(tiles[j][r].words);
    tern_span_step<COUNT, 0>(sums, tiles, fields, x, two_24);
    if constexpr (SPANS > 1)
        tern_span_step<COUNT, 1>(sums, tiles, fields, x, two_24);
    if constexpr (SPANS > 2) {
        tern_span_step<COUNT, 2>(sums, tiles, fields, x, two_24);
        tern_span_step<COUNT, 3>(sums, tiles, fields, x, two_24);
    }
}

// Makes scales of 0 of those of tiles that the warp lacks; their x is 0.
__device__ __forceinline__ void tern_scales_drop(struct tern_tile (&tiles)[K_TILES][ROW_TILES], int count) {
#pragma unroll
    for (int j = 0; j < K_TILES; j++)
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++)
#pragma unroll
            for (int span = 0; span < SPANS; span++)
                if (j >= count)
                    tiles[j][r].scales[span] = 0;
}

// Stores the lane's four outputs of a unit: rows n and n + 8 of W, two of x from fragment f.
__device__ __forceinline__ void tern_y_store(const struct tern_args &args, int n, int f, const float (&sum)[UNIT_FLOATS],
                                             const float2 &bias, int lane) {
    const int m = f * 8 + lane % 4 * 2, columns = (int)args.n;
    __half *y[2] = {(__half *)args.y + (m * columns + n),
                    (__half *)args.y + ((m + 1) * columns + n)}; // M * N: 31 bits, as M <= 16
#pragma unroll
    for (int i = 0; i < 4; i++) // the last row tile is half empty where N is not a multiple of 16
        if (n + i / 2 * 8 < columns && m + i % 2 < (int)args.m)
            y[i % 2][i / 2 * 8] = __float2half_rn(fmaf(sum[i], HELD_UNIT, i < 2 ? bias.x : bias.y));
}

// A multiplying warp: takes its x and walks the row blocks.
__device__ __forceinline__ void tern_consume(const struct tern_part &s, const struct tern_places &p,
                                             const struct tern_args &args, int warp, int lane) {
    const unsigned two_24 = (unsigned)tern_kept((int)(gridDim.z << 24)); // unknown to the compiler; a grid has one layer
    struct tern_held x;
    tern_dependency_wait();
    tern_held_load(x, s.k, args, warp, lane);
    tern_ready_await(p);
    tern_held_make(x, s.k, args, warp, lane);
    if (CLUSTER_K > 1)
        tern_cluster_wait();
    tern_rows_walk_at_once(
        s, p, args, warp, lane, [&](struct tern_sums &sums, struct tern_tile(&tiles)[K_TILES][ROW_TILES], int count) {
            if (count == K_TILES || (K_TILES == 1 && !TOGETHER))
                tern_tiles_multiply<K_TILES>(sums, tiles, x, two_24);
            else {
                if (TOGETHER)
                    tern_scales_drop(tiles, count);
                tern_tiles_multiply<K_TILES == 1 ? 1 : K_TILES - 1>(sums, tiles, x, two_24); // or fewer: scales of 0
            }
            if (x.any_down)
                tern_held_unify(sums.at, x);
        });
}

// Where x takes most of a thread's registers and warpgroups come out even, the other warps are filled up to a warpgroup and leave it
// theirs. The equal share is what the launch gives.
constexpr bool MOVED = WARPS_K % 4 == 0 && WARPS_K < 24 && ADDERS > 0 && ADDERS<4 && K_TILES * FRAGMENTS> 2;
constexpr int LAUNCHED = MOVED ? 32 * (WARPS_K + 4) : THREADS;
constexpr int EQUAL_SHARE = 65536 / LAUNCHED / 8 * 8, OTHERS_SHARE = MOVED ? 32 : 24;
constexpr int SHARE = MOVED ? (EQUAL_SHARE * (WARPS_K + 4) - 4 * OTHERS_SHARE) / WARPS_K / 8 * 8 : 240;
static_assert(!MOVED || SHARE * WARPS_K + OTHERS_SHARE * 4 <= EQUAL_SHARE * (WARPS_K + 4),
              "registers taken by setmaxnreg must have been given, or the kernel hangs");

extern "C" __global__ void __launch_bounds__(LAUNCHED, 1) tern_mma_resident(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(dynamic);
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const struct tern_part s = tern_part_make(args);
    if (CLUSTER_K > 1 && warp != WARPS_K)
        tern_cluster_arrive(); // the copying warp: once its barriers are prepared
    if constexpr (MOVED) {
        if (warp < WARPS_K)
            tern_registers_raise<SHARE>();
        else
            tern_registers_lower<OTHERS_SHARE>();
    }
    const auto store = [&](int n, int f, const float(&sum)[UNIT_FLOATS], const float2 &bias) {
        tern_y_store(args, n, f, sum, bias, lane);
    };
    if (warp < WARPS_K)
        tern_consume(s, tern_places_make(tern_shared_kept(dynamic)), args, warp, lane);
    else if (warp == WARPS_K) {
        const struct tern_places p = tern_places_make(dynamic); // not the kept pointer, which is not known to be uniform
        if constexpr (ADDERS == 0)
            tern_add_and_copy<SLOT_ROW, UNIT_ROW, UNIT_BYTES>(s, p, tern_places_make(tern_shared_kept(dynamic)), args, lane,
                                                              store);
        else {
            struct tern_supply w = tern_supply_make(s, p, args, lane);
            tern_produce(w, s, p, s.row_blocks, lane);
        }
    } else if (!MOVED || warp < WARPS_K + 1 + ADDERS) {
        if (SMALL && FRAGMENTS == 1 && !WEIGHTS_FIRST && warp == WARPS_K + 1)
            tern_first_prefetch(s, args, lane);
        tern_dependency_wait(); // ahead of y
        if constexpr (ADDERS > 0)
            tern_add_up<SLOT_ROW, UNIT_ROW, UNIT_BYTES>(s, tern_places_make(tern_shared_kept(dynamic)), args,
                                                        warp - WARPS_K - 1, lane, store);
    } else if (CLUSTER_K > 1)
        tern_cluster_wait();
}
