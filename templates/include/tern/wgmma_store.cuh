// Sums of a warpgroup to y: 64 rows of W (n) times COUNT * 2 rows of x (m), rounded to the type of y (BF16), by way of shared memory,
// where the four warps put their 16 rows of W beside each other: 128 bytes of a row of y leave in eight neighbouring lanes.
// Owns nothing.
#ifndef TERN_WGMMA_STORE_CUH
#define TERN_WGMMA_STORE_CUH

#include "tern/bias.cuh"
#include "tern/pipeline.cuh"

// Bytes of shared memory of a warp that stores up to `units` times 16 rows of x at once (4, 2 or 1); 32 spread the four of a warpgroup
// over the banks.
#define TERN_STORE_SLOT_OF(units) ((units)*TERN_TURN_SLOT + 32)
#define TERN_STORE_SLOT           TERN_STORE_SLOT_OF(4)

struct tern_store {
    unsigned char *slots; // 4 * TERN_STORE_SLOT_OF(MOST) bytes of the warpgroup
    int barrier;          // a named barrier of its own
    int warp, lane;       // warp within the warpgroup
    long long x_row;      // first row of x
    int rank;             // of the CLUSTER blocks that own equally many units of 16 rows of x; those of `rank` are stored
};

// Stores times scale (row g, row g + 8 of the warp's tile), plus the bias; `tile` is the warp's 16-row tile of W. N is a multiple of 8: a
// chunk of 8 columns is inside or outside. All four warps call. Up to MOST units at once; ROWS rows of x, if not all of the sums'.
template <int CLUSTER, int MOST = 4, int ROWS = 0, int COUNT>
__device__ __forceinline__ void tern_store_sums(const tern_args &args, const tern_store &to, int tile, float2 scale,
                                                const float (&sum)[COUNT]) {
    constexpr int UNITS = COUNT / 8, OWN = UNITS / CLUSTER, HEIGHT = ROWS > 0 ? ROWS : 2 * COUNT,
                  SLOT = TERN_STORE_SLOT_OF(MOST);
    constexpr int PASS = CLUSTER == 1 || OWN % MOST == 0 ? MOST : OWN % 2 == 0 ? 2 : 1; // of one rank's units
    const int lane = to.lane, chunk = lane % 8;
    unsigned char *own = to.slots + to.warp * SLOT;
    const unsigned char *unit = to.slots + chunk / 2 * SLOT + to.warp * TERN_TURN_SLOT; // that this warp stores
    const long long n = 16LL * (tile - to.warp) + 8 * chunk, left = args.m - to.x_row;
    const float2 bias = tern_bias_of_rows<BF16>(args, 16LL * tile + lane / 4);
    const int first_row = 16 * to.warp + lane / 8;
    const long long pitch = 4 * args.n; // of rows that a lane stores one after the other
    const int rows = (n < args.n ? (int)(left < HEIGHT ? left : HEIGHT) : 0) - first_row; // from the lane's first on
    unsigned short *y = static_cast<unsigned short *>(args.y) + (to.x_row + first_row) * args.n + n;
#pragma unroll
    for (int first = 0; first < UNITS; first += PASS) {
        if (CLUSTER > 1 && first / OWN != to.rank)
            continue;
#pragma unroll
        for (int i = 0; i < PASS && first + i < UNITS; i++)
            tern_turn_put<BF16>(own + i * TERN_TURN_SLOT, &sum[8 * (first + i)], scale, bias, lane);
        tern_block_sync(to.barrier, TERN_WARPGROUP);
        unsigned short *at = y + 4 * first * pitch;
#pragma unroll
        for (int i = 0; i < 4; i++, at += pitch)
            if (to.warp < PASS && 16 * first + 4 * i < rows)
                tern_store_stream_16(at, tern_turn_get(unit, 4 * i + lane / 8, lane % 2));
        tern_block_sync(to.barrier, TERN_WARPGROUP);
    }
}

// Scales of the warp's tile where a row has one; rows past the end are never stored.
__device__ __forceinline__ float2 tern_row_scales(const tern_args &args, int tile, int row_tiles, int lane) {
    const int inside = tile < row_tiles ? tile : row_tiles - 1;
    return __half22float2(static_cast<const __half2 *>(args.scales)[8LL * inside + lane / 4]);
}
// And its zero points where a row has one.
template <int BITS>
__device__ __forceinline__ tern_zero_bias tern_row_zeros(const tern_args &args, int tile, int row_tiles, int lane) {
    const int inside = tile < row_tiles ? tile : row_tiles - 1;
    const unsigned char *zeros = static_cast<const unsigned char *>(args.zeros) + 16LL * inside + 2 * (lane / 4);
    return tern_zero_biases<BITS>(zeros[0], zeros[1]);
}

// A unit of 16 rows of x, 8 sums a thread, of a row block: which of W's that is, and which unit of those from to.x_row on.
struct tern_unit {
    int row_block, unit;
};

// Sums of `count` units times one scale a row (ROW_SCALES), plus the bias. `place` as below.
template <bool ROW_SCALES, int UNITS, typename PLACE>
__device__ __forceinline__ void tern_units_scale(const tern_args &args, const tern_store &to, int count, const PLACE &place,
                                                 int row_tiles, float (&sum)[UNITS][8]) {
#pragma unroll
    for (int i = 0; i < UNITS; i++) {
        if (i >= count)
            break;
        const int tile = 4 * place(i).row_block + to.warp;
        const float2 scale = ROW_SCALES ? tern_row_scales(args, tile, row_tiles, to.lane) : float2{1.0f, 1.0f};
        const float2 bias = tern_bias_of_rows<BF16>(args, 16LL * tile + to.lane / 4);
#pragma unroll
        for (int e = 0; e < 8; e++)
            sum[i][e] = fmaf(sum[i][e], e / 2 % 2 ? scale.y : scale.x, e / 2 % 2 ? bias.y : bias.x);
    }
}

// The same as tern_store_sums for units 0 .. count - 1, UNITS at most, of whichever row blocks, four at a time: each warp stores one, and few barriers are passed.
// `place` tells which tern_unit each is. With ROW_SCALES the sums are multiplied by one scale a row.
// All of it is cold code that runs once: what most layers do not have, scales and biases, is beside the way, and nothing is asked twice.
template <bool ROW_SCALES, int UNITS, typename PLACE>
__device__ __forceinline__ void tern_store_units(const tern_args &args, const tern_store &to, int count, const PLACE &place,
                                                 int row_tiles, float (&sum)[UNITS][8]) {
    if (ROW_SCALES || args.bias)
        tern_units_scale<ROW_SCALES>(args, to, count, place, row_tiles, sum);
    int lane = to.lane;
    tern_hide(lane); // what is made of it would else be made ahead of the loop over k, and kept
    const int chunk = lane % 8;
    unsigned char *mine = tern_shared_kept(tern_turn_row(to.slots + to.warp * TERN_STORE_SLOT, lane));
    const tern_turned from = // of the unit that this warp stores
        tern_turned_at(to.slots + chunk / 2 * TERN_STORE_SLOT + to.warp * TERN_TURN_SLOT, lane / 8, lane % 2);
    const long long pitch = 4 * args.n;                   // of rows that a lane stores one after the other
    const int left = (int)(args.m - to.x_row) - lane / 8; // rows of x from the lane's first on
    unsigned short *y = static_cast<unsigned short *>(args.y) + (to.x_row + lane / 8) * args.n + 8 * chunk;
#pragma unroll
    for (int first = 0; first < UNITS; first += 4) {
        if (first >= count)
            break;
#pragma unroll
        for (int i = 0; i < 4 && first + i < UNITS; i++) {
            if (first + i >= count)
                break;
            tern_turn_put<BF16>(mine + i * TERN_TURN_SLOT, sum[first + i]);
        }
        tern_block_sync(to.barrier, TERN_WARPGROUP);
        const tern_unit at = place(first + to.warp);
        const unsigned n = 64u * (unsigned)at.row_block;
        const int rows = first + to.warp < count && n + 8 * chunk < (unsigned)args.n ? left - 16 * at.unit : 0;
        unsigned short *out = y + 16 * at.unit * args.n + n;
        uint4 row[4];
#pragma unroll
        for (int i = 0; i < 4; i++) // of all rows, in short code
            row[i] = tern_turn_get(from, i);
#pragma unroll
        for (int i = 0; i < 4; i++, out += pitch)
            if (4 * i < rows)
                tern_store_stream_16(out, row[i]);
        tern_block_sync(to.barrier, TERN_WARPGROUP);
    }
}

// The same for all units of row blocks 0 .. blocks - 1, BLOCKS at most. `place` tells which of W's a row block is.
template <bool ROW_SCALES, int BLOCKS, int ROW_BLOCKS, int COUNT, typename PLACE>
__device__ __forceinline__ void tern_store_blocks(const tern_args &args, const tern_store &to, int blocks,
                                                  const PLACE &place, int row_tiles, float (&sum)[ROW_BLOCKS][COUNT]) {
    constexpr int UNITS = COUNT / 8; // of a row block
    const auto unit = [&](unsigned i) -> tern_unit { return {place((int)(i / UNITS)), (int)(i % UNITS)}; };
    tern_store_units<ROW_SCALES>(args, to, UNITS * blocks, unit, row_tiles,
                                 *reinterpret_cast<float(*)[BLOCKS * UNITS][8]>(&sum));
}

#endif
