// mma-resident: y[M,N] = x[M,K] * W[N,K]^T for M = 1..16 on tensor cores, x in registers, fp32 accumulation.
//
// Shapes: M up to 8 * FRAGMENTS, N a multiple of 8, K a multiple of 32 up to 128 * WARPS_K * K_TILES * CLUSTER_K (40,960), any
// group that is a multiple of 32, or one scale a row; the last group may be short. 2 and 4 bits. Layout frag16x128
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
// powers of two; x is multiplied by the complement, so one accumulator serves. That is exact while |x| < 1023 (4 bits: 4095) in
// the warp's tiles of a row of x. Rows beyond (found by their sums, which overflow) are scaled down instead: of what is below
// 2^-7 they keep multiples of 2^-18. Zero point times sum of x is taken off each span's sum; those sums are made by the same
// products in the same order, so weights of value 0 alone give exactly 0. Inf in a row of x, like NaN, makes its row of y NaN
// (Inf - Inf).
//
// Parameters: FRAGMENTS of 8 rows of x; CLUSTER_K blocks that split K; WARPS_K and K_TILES of a block; ROW_TILES that a warp
// multiplies side by side; STAGES row blocks of W in flight; ADDERS, the warps that add up.
//
// Bound by: the products (small layers: the delivery of x from the L2) and memory. Expected of the limit: 0.5 to 0.8.
constexpr int WARPS = WARPS_K, BULK = 1, TILES = WARPS_K * K_TILES; // what stream.cuh asks for
#include "tern/bias.cuh"
#include "tern/cluster_meet.cuh"
#include "tern/pipeline.cuh"
#include "tern/stream.cuh"

typedef struct tern_codes<BITS> tern_width;
constexpr int PLACES = tern_width::places, PITCH = tern_width::pitch;
#include "tern/resident_x.cuh"
// Row blocks asked for ahead of x: more would stand in its way. Of clusters 32 rows: a block has less x to wait for.
constexpr int FIRST = CLUSTER_K > 1 && ROW_TILES == 1 ? 2 : 1;
constexpr int SLOTS = 3;                     // row blocks whose sums wait to be added up
constexpr int UNITS = ROW_TILES * FRAGMENTS; // of a row block: 16 rows and 8 columns, four floats of a lane
constexpr int SLOT_BYTES = UNITS * 512;      // sums of a row block from one warp
constexpr int THREADS = 32 * (WARPS_K + 1 + ADDERS), READY = 1, X_HERE = 2; // of the block; named barriers

static_assert(ADDERS <= UNITS * SLOTS, "an adder two laps ahead: parity cannot tell");

// The cluster's row blocks are first, first + step, ... of W: nothing is divided ahead of the first copy. Its blocks split K.
// Uniform.
struct tern_part {
    int first, step, row_blocks; // row_blocks: of W
    int rank;                    // in the cluster
    struct tern_tiles k;
};

__device__ __forceinline__ struct tern_part tern_part_make(const struct tern_args &args) {
    const unsigned rank = blockIdx.x % CLUSTER_K, tiles = ((unsigned)args.k + 127) / 128;
    const unsigned begin = rank * tiles / CLUSTER_K, end = (rank + 1) * tiles / CLUSTER_K;
    return {(int)(blockIdx.x / CLUSTER_K),
            (int)(gridDim.x / CLUSTER_K),
            (int)(((unsigned)args.n + 16 * ROW_TILES - 1) / (16 * ROW_TILES)),
            (int)rank,
            {(int)begin, (int)(end - begin), (int)tiles}};
}

// Shared memory of a block; all 16-byte aligned.
struct tern_places {
    unsigned char *ring;  // [STAGES][STAGE_BYTES]
    unsigned char *slots; // [SLOTS][WARPS_K][SLOT_BYTES]
    unsigned char *meet;  // what tern_meet needs
    unsigned char *barriers;
};
// Barriers: of a stage full and empty, of a slot full and empty, those of tern_meet.
constexpr int STAGE_EMPTY = STAGES * 8, SLOT_FULL = STAGES * 16, SLOT_EMPTY = SLOT_FULL + SLOTS * 8;
constexpr int MEET = SLOT_EMPTY + SLOTS * 8;

__device__ __forceinline__ struct tern_places tern_places_make(unsigned char *shared) {
    unsigned char *slots = shared + STAGES * STAGE_BYTES;
    unsigned char *meet = slots + SLOTS * WARPS_K * SLOT_BYTES;
    return {shared, slots, meet, meet + tern_meet::bytes};
}

// A place in a ring, and the parity of its barriers' phase.
template <int LENGTH> struct tern_turn {
    int at, parity;
    __device__ __forceinline__ void step() {
        if (++at == LENGTH) {
            at = 0;
            parity ^= 1;
        }
    }
};

// What the copying lane starts for a row block: a run of K tiles of each row tile.
struct tern_run {
    int tiles, entries;
    const unsigned char *codes, *scales, *zeros; // of row tile 0
    long long codes_pitch, scales_pitch;         // from a row tile to the next; of zero points: half that of scales
};

__device__ __forceinline__ struct tern_run tern_run_make(const struct tern_part &s, const struct tern_args &args) {
    struct tern_run run;
    const int groups = (int)args.groups, entry = tern_span_group(s.k.first, 0, groups);
    run.tiles = s.k.count;
    run.entries = tern_span_group(s.k.first + s.k.count - 1, SPANS - 1, groups) - entry + 1;
    run.codes_pitch = (long long)s.k.all * TILE_BYTES;
    run.scales_pitch = args.groups * 32;
    run.codes = (const unsigned char *)args.codes + s.first * ROW_TILES * run.codes_pitch + s.k.first * TILE_BYTES;
    run.scales = (const unsigned char *)args.scales + s.first * ROW_TILES * run.scales_pitch + entry * 32;
    run.zeros = (const unsigned char *)args.zeros + s.first * ROW_TILES * run.scales_pitch / 2 + entry * 16;
    return run;
}

// Starts the copies of `present` row tiles into a stage. One lane.
__device__ __forceinline__ void tern_run_start(const struct tern_run &run, unsigned char *stage, void *full, int present) {
    tern_barrier_arrive_expect(full, present * (run.tiles * TILE_BYTES + run.entries * (32 + 16 * HAS_ZEROS)));
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        if (ROW_TILES == 1 || r < present) {
            tern_bulk_copy(stage + r * RUN_BYTES, run.codes + r * run.codes_pitch, run.tiles * TILE_BYTES, full);
            tern_bulk_copy(stage + SCALES_AT + r * ENTRIES * 32, run.scales + r * run.scales_pitch, run.entries * 32, full);
            if (HAS_ZEROS)
                tern_bulk_copy(stage + ZEROS_AT + r * ENTRIES * 16, run.zeros + r * run.scales_pitch / 2, run.entries * 16,
                               full);
        }
}

// The copying warp waits until x is there.
__device__ __forceinline__ void tern_x_await() {
    tern_block_sync(X_HERE, 32 * (WARPS_K + 1));
    if (CLUSTER_K > 1)
        tern_cluster_wait();
}

// The copying warp: prepares the barriers and keeps the ring full. All lanes walk, so that the compiler knows the walk to be
// uniform: copies take their addresses from uniform registers.
__device__ __forceinline__ void tern_produce(const struct tern_part &s, const struct tern_places &p,
                                             const struct tern_args &args, int lane) {
    const int row_tiles = (int)(((unsigned)args.n + 15) / 16);
    struct tern_run run = tern_run_make(s, args);
    tern_turn<STAGES> turn = {0, 0};
    int present = row_tiles - s.first * ROW_TILES;
    if (lane == 0) {
        tern_barriers_init(p.barriers, STAGES, 1);
        tern_barriers_init(p.barriers + STAGE_EMPTY, STAGES, WARPS_K);
        tern_barriers_init(p.barriers + SLOT_FULL, SLOTS, WARPS_K);
        tern_barriers_init(p.barriers + SLOT_EMPTY, SLOTS, UNITS);
        tern_barriers_init(p.barriers + MEET, tern_meet::barriers, 1);
        tern_barriers_publish();
    }
    __syncwarp();
    tern_block_arrive(READY, THREADS);
    if (CLUSTER_K > 1)
        tern_cluster_arrive();
#pragma unroll 1
    for (int item = 0; present > 0; item++) {
        if (item == FIRST)
            tern_x_await();
        if (item >= STAGES)
            tern_barrier_wait(p.barriers + STAGE_EMPTY + turn.at * 8, turn.parity ^ 1);
        if (lane == 0)
            tern_run_start(run, p.ring + turn.at * STAGE_BYTES, p.barriers + turn.at * 8, tern_smaller(ROW_TILES, present));
        present -= s.step * ROW_TILES;
        run.codes += s.step * ROW_TILES * run.codes_pitch;
        run.scales += s.step * ROW_TILES * run.scales_pitch;
        run.zeros += s.step * ROW_TILES * run.scales_pitch / 2;
        turn.step();
    }
    if (s.first + FIRST * s.step >= s.row_blocks)
        tern_x_await(); // not passed above
}

// What the lane needs of a tile: codes, scales and zero points of rows g and g + 8.
struct tern_tile {
    unsigned words[tern_width::words], scales[SPANS], zeros[SPANS];
};

// Sums of a row block: [row tile][fragment][fragment register].
struct tern_sums {
    float at[ROW_TILES][FRAGMENTS][4];
};

// Adds span SPAN of K tile j of a row tile.
template <int SPAN>
__device__ __forceinline__ void tern_span_add(float (&sums)[FRAGMENTS][4], const float (&products)[FRAGMENTS][4],
                                              const struct tern_tile &tile, const struct tern_held &x, int j) {
    const float2 scale = __half22float2(tern_as_half2(tile.scales[SPAN]));
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float of_x = x.of_x[j][f][SPAN][i % 2];
            if (HAS_ZEROS)
                of_x *= (float)(i / 2 ? tile.zeros[SPAN] >> 8 : tile.zeros[SPAN] & 0xFFu);
            const float value = fmaf(products[f][i], x.power[f][i % 2], -of_x);
            const float scaled = i / 2 ? scale.y : scale.x;
            sums[f][i] = j == 0 && SPAN == 0 ? scaled * value : fmaf(scaled, value, sums[f][i]);
        }
}

// Multiplies span SPAN of K tile j, all row tiles side by side: independent chains of products.
template <int SPAN>
__device__ __forceinline__ void tern_span_step(struct tern_sums &sums, const struct tern_tile (&tiles)[ROW_TILES],
                                               const struct tern_held &x, int j, unsigned two_24) {
    constexpr int BEGIN = SPAN * 4 / SPANS, END = (SPAN + 1) * 4 / SPANS;
    float products[ROW_TILES][FRAGMENTS][4];
#pragma unroll
    for (int piece = BEGIN; piece < END; piece++)
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++) {
                unsigned a[4];
                tern_raw_fragment<BITS, PLACES>(tiles[r].words, 2 * piece + h, two_24, a);
                tern_step_multiply(products[r], a, x.b[j], piece, h, piece == BEGIN && h == 0);
            }
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        tern_span_add<SPAN>(sums.at[r], products[r], tiles[r], x, j);
}

// Loads what the lane needs of the warp's K tile j of a row block. words: the lane's in the warp's first tile of the stage.
__device__ __forceinline__ void tern_tile_load(struct tern_tile (&tiles)[ROW_TILES], const struct tern_held &x,
                                               const unsigned char *words, const unsigned char *stage, int j) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        tern_slot_words(words, r, j * WARPS_K, 0, tiles[r].words);
#pragma unroll
        for (int span = 0; span < SPANS; span++) {
            const int entry = r * ENTRIES * 32 + tern_held_entry(x, j, span);
            tiles[r].scales[span] = tern_shared_load_4(stage + (SCALES_AT + entry));
            tiles[r].zeros[span] = HAS_ZEROS ? tern_shared_load_2(stage + (ZEROS_AT + entry / 2)) : 0;
        }
    }
}

// Sums of a row block, of the warp's K tiles; frees the stage. Tile j + 1 is loaded ahead of the products of tile j.
__device__ __forceinline__ void tern_row_multiply(struct tern_sums &sums, const struct tern_held &x,
                                                  const unsigned char *words, const unsigned char *stage, void *empty,
                                                  unsigned two_24, int lane) {
    struct tern_tile tiles[2][ROW_TILES];
    tern_tile_load(tiles[0], x, words, stage, 0);
#pragma unroll
    for (int j = 0; j < K_TILES; j++) {
        if (j + 1 < K_TILES && j + 1 < x.tiles)
            tern_tile_load(tiles[(j + 1) % 2], x, words, stage, j + 1);
        if (j == (K_TILES > 1 ? K_TILES - 2 : 0)) {
            __syncwarp(); // all have read
            if (lane == 0)
                tern_barrier_arrive(empty);
        }
        if (j == 0 || j < x.tiles) {
            tern_span_step<0>(sums, tiles[j % 2], x, j, two_24);
            if constexpr (SPANS > 1)
                tern_span_step<1>(sums, tiles[j % 2], x, j, two_24);
            if constexpr (SPANS > 2) {
                tern_span_step<2>(sums, tiles[j % 2], x, j, two_24);
                tern_span_step<3>(sums, tiles[j % 2], x, j, two_24);
            }
        }
    }
}

// Where the lane's four floats of a fragment lie in a slot: 16 bytes at a place that spares banks.
__device__ __forceinline__ int tern_slot_place(int lane) {
    return (lane % 4 * 8 + (lane / 4 ^ lane % 4 * 2)) * 16;
}

// Moves a row block's sums to the lane's place in the warp's slot.
__device__ __forceinline__ void tern_slot_put(unsigned char *to, const struct tern_sums &sums) {
#pragma unroll
    for (int i = 0; i < UNITS; i++) {
        const float(&at)[4] = sums.at[i / FRAGMENTS][i % FRAGMENTS];
        tern_shared_store_16(to + i * 512, make_uint4(__float_as_uint(at[0]), __float_as_uint(at[1]), __float_as_uint(at[2]),
                                                      __float_as_uint(at[3])));
    }
}

// Stores the lane's four outputs of a unit of the row block that begins with row `first` of W.
__device__ __forceinline__ void tern_y_store(const struct tern_args &args, int first, int unit, const float (&sum)[4],
                                             int lane) {
    const int n = first + unit / FRAGMENTS * 16 + lane / 4, m = unit % FRAGMENTS * 8 + lane % 4 * 2;
    __half *y = (__half *)args.y + (m * args.n + n);
    const float2 bias = tern_bias_of_rows<0>(args, n);
#pragma unroll
    for (int i = 0; i < 4; i++) // the last row tile is half empty where N is not a multiple of 16
        if (n + i / 2 * 8 < (int)args.n && m + i % 2 < (int)args.m)
            y[i % 2 * args.n + i / 2 * 8] = __float2half_rn(sum[i] + (i < 2 ? bias.x : bias.y));
}

// An adding warp: takes units in turn, sums their slots in warp order, and writes y, or hands the sum to the block of the
// cluster that does.
__device__ __forceinline__ void tern_add_up(const struct tern_part &s, const struct tern_places &p,
                                            const struct tern_args &args, int adder, int lane) {
    const int place = tern_slot_place(lane);
    tern_turn<SLOTS> turn = {0, 0};
    int unit = adder; // of the row block at hand
    struct tern_meet meet =
        tern_meet_make(p.meet, p.barriers + MEET, s.rank, adder, ((s.row_blocks - 1 - s.first) / s.step + 1) * UNITS);
    tern_block_sync(READY, THREADS);
    if (CLUSTER_K > 1)
        tern_cluster_wait();
#pragma unroll 1
    for (int row = s.first; row < s.row_blocks; row += s.step) {
        for (; unit < UNITS; unit += ADDERS) {
            const unsigned char *from = p.slots + turn.at * (WARPS_K * SLOT_BYTES) + unit * 512 + place;
            float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            tern_barrier_wait(p.barriers + SLOT_FULL + turn.at * 8, turn.parity);
#pragma unroll
            for (int w = 0; w < WARPS_K; w++)
                tern_shared_add_16(sum, from + w * SLOT_BYTES);
            __syncwarp(); // all have read
            if (lane == 0)
                tern_barrier_arrive(p.barriers + SLOT_EMPTY + turn.at * 8);
            if (CLUSTER_K == 1 || tern_meet_step(meet, sum, lane))
                tern_y_store(args, row * (16 * ROW_TILES), unit, sum, lane);
        }
        unit -= UNITS;
        turn.step();
    }
}

// A multiplying warp: takes its x and walks the row blocks.
__device__ __forceinline__ void tern_consume(const struct tern_part &s, const struct tern_places &p,
                                             const struct tern_args &args, int warp, int lane) {
    const unsigned two_24 = (unsigned)tern_kept((int)(gridDim.z << 24)); // unknown to the compiler; a grid has one layer
    const int words = tern_kept(warp * TILE_BYTES + lane * 16), place = warp * SLOT_BYTES + tern_slot_place(lane);
    struct tern_held x;
    tern_held_load(x, s.k, args, warp, lane);
    tern_block_sync(READY, THREADS); // barriers are prepared
    tern_held_make(x, s.k, args, warp, lane);
    tern_block_arrive(X_HERE, 32 * (WARPS_K + 1));
    if (CLUSTER_K > 1)
        tern_cluster_wait();
    tern_turn<STAGES> turn = {0, 0};
    tern_turn<SLOTS> slot = {0, 1};
    struct tern_sums sums = {};
#pragma unroll 1
    for (int row = s.first; row < s.row_blocks; row += s.step) {
        const unsigned char *stage = p.ring + turn.at * STAGE_BYTES;
        unsigned char *barrier = p.barriers + turn.at * 8;
        tern_barrier_wait(barrier, turn.parity);
        if (x.tiles > 0)
            tern_row_multiply(sums, x, stage + words, stage, barrier + STAGE_EMPTY, two_24, lane);
        else if (lane == 0)
            tern_barrier_arrive(barrier + STAGE_EMPTY);
        tern_barrier_wait(p.barriers + SLOT_EMPTY + slot.at * 8, slot.parity); // the first time round at once
        tern_slot_put(p.slots + slot.at * (WARPS_K * SLOT_BYTES) + place, sums);
        __syncwarp(); // all have written
        if (lane == 0)
            tern_barrier_arrive(p.barriers + SLOT_FULL + slot.at * 8);
        turn.step();
        slot.step();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) tern_mma_resident(const __grid_constant__ struct tern_args args) {
    TERN_SHARED_DYNAMIC(dynamic);
    const int lane = (int)(threadIdx.x % 32), warp = __shfl_sync(0xFFFFFFFFu, (int)(threadIdx.x / 32), 0);
    const struct tern_part s = tern_part_make(args);
    if (CLUSTER_K > 1 && warp != WARPS_K)
        tern_cluster_arrive(); // the copying warp: once its barriers are prepared
    if (warp < WARPS_K)
        tern_consume(s, tern_places_make(tern_shared_kept(dynamic)), args, warp, lane);
    else if (warp == WARPS_K)
        tern_produce(s, tern_places_make(dynamic), args, lane); // not the kept pointer, which is not known to be uniform
    else
        tern_add_up(s, tern_places_make(tern_shared_kept(dynamic)), args, warp - WARPS_K - 1, lane);
}
