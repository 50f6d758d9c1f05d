// Emulator tests of wgmma: the product, what a missing wait and a tile given back too early do, the transposition of codes;
// the turning of x; of the sweep over output tiles, of their division along K, and of boxes copied by a tensor map.
#include "tern/abi.h"
#include "tern/first_copy.cuh"
#include "tern/memory.cuh"
#include "tern/pair_share.cuh"
#include "tern/short_scale.cuh"
#include "tern/slice_deal.cuh"
#include "tern/slice_turn.cuh"
#include "tern/stream_k.cuh"
#include "tern/sweep.cuh"
#include "tern/tensor_copy.cuh"
#include "tern/tile_plan.cuh"
#include "tern/unit_owner.cuh"
#include "tern/wgmma.cuh"
#include "tern/wgmma_codes.cuh"
#include "tern/wgmma_e4m3.cuh"

// x: A as [64][16]; codes: B as [32][64], of which k-step args.k is used; shared memory: B swizzled.
static unsigned long long prepare(const struct tern_args &args, unsigned char *shared, unsigned (&a)[4]) {
    const unsigned short *from = (const unsigned short *)args.x;
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int r = 0; r < 4; r++) {
        const int row = 16 * warp + g + 8 * (r % 2), k = 2 * t + 8 * (r / 2);
        a[r] = from[row * 16 + k] | (unsigned)from[row * 16 + k + 1] << 16;
    }
    for (int id = threadIdx.x; id < 32 * 8; id += 128) {
        const int row = id / 8, chunk = id % 8;
        memcpy(shared + 128 * row + 16 * (chunk ^ row % 8), (const unsigned char *)args.codes + 16 * id, 16);
    }
    __syncthreads();
    tern_wgmma_start();
    return tern_wgmma_descriptor(tern_wgmma_start_address(shared) + 2 * (unsigned)args.k);
}

static void store(const struct tern_args &args, const float (&d)[16]) {
    const int row = 16 * (threadIdx.x / 32) + threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 16; i++)
        ((float *)args.y)[(row + 8 * (i / 2 % 2)) * 32 + 8 * (i / 4) + 2 * t + i % 2] = d[i];
}

// y: [64][32] floats, 1 + 2 * A * B: the first product starts from the accumulators, the second is chained behind it.
template <int BF16> static void product(const struct tern_args &args) {
    TERN_SHARED_DYNAMIC(shared);
    unsigned a[4];
    float d[16];
    const unsigned long long b = prepare(args, shared, a);
    for (int i = 0; i < 16; i++)
        d[i] = 1.0f;
    tern_wgmma_fence();
    tern_wgmma<32, BF16>::multiply(d, a, b, true);
    tern_wgmma_commit();
    tern_wgmma<32, BF16>::multiply(d, a, b, true);
    tern_wgmma_commit();
    tern_wgmma_wait<1>();
    tern_wgmma_wait<0>();
    store(args, d);
}

extern "C" __global__ void wgmma_product(struct tern_args args) {
    product<0>(args);
}
extern "C" __global__ void wgmma_product_bf16(struct tern_args args) {
    product<1>(args);
}

// Of bytes: x is A as [64][32], codes B as [32][128].
extern "C" __global__ void wgmma_product_e4m3(struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    unsigned a[4];
    float d[16];
    const unsigned long long b = prepare(args, shared, a);
    for (int i = 0; i < 16; i++)
        d[i] = 1.0f;
    tern_wgmma_fence();
    tern_wgmma_e4m3<32>::multiply(d, a, b, true);
    tern_wgmma_commit();
    tern_wgmma_wait<0>();
    store(args, d);
}

// Without accumulation, and what is seen before the wait (m == 1).
extern "C" __global__ void wgmma_fresh(struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    unsigned a[4];
    float d[16];
    const unsigned long long b = prepare(args, shared, a);
    for (int i = 0; i < 16; i++)
        d[i] = 1.0f;
    tern_wgmma_fence();
    tern_wgmma<32, 0>::multiply(d, a, b, false);
    tern_wgmma_commit();
    if (args.m == 1)
        store(args, d);
    tern_wgmma_wait<0>();
    if (args.m != 1)
        store(args, d);
}

// Shared memory of B is overwritten while the product is in flight.
extern "C" __global__ void wgmma_overwritten(struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    unsigned a[4];
    float d[16] = {};
    const unsigned long long b = prepare(args, shared, a);
    tern_wgmma_fence();
    tern_wgmma<32, 0>::multiply(d, a, b, true);
    tern_wgmma_commit();
    __syncthreads();
    if (threadIdx.x == 77)
        shared[16 * 128 + 32] ^= 1;
    __syncthreads();
    tern_wgmma_wait<0>();
    store(args, d);
}

// A descriptor without the swizzle is refused.
extern "C" __global__ void wgmma_unswizzled(struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    unsigned a[4];
    float d[16] = {};
    const unsigned long long b = prepare(args, shared, a);
    tern_wgmma<32, 0>::multiply(d, a, b & ~(3ull << 62), true);
}

// A tile as it lies in global memory: chunks of 16 bytes a lane, for 3 bits the upper plane of 8 bytes a lane behind them.
template <int BITS> static void columns(const struct tern_args &args) {
    constexpr int CHUNKS = BITS == 8 ? 4 : BITS == 4 ? 2 : 1;
    TERN_SHARED_DYNAMIC(tile);
    const int lane = (int)threadIdx.x;
    const unsigned *x = (const unsigned *)args.x + lane * 16;
    unsigned words[2 * BITS];
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        memcpy(tile + 512 * chunk + 16 * lane, x + 4 * chunk, 16);
    if (BITS == 3)
        memcpy(tile + 512 + 8 * lane, x + 4, 8);
    __syncwarp();
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        tern_gather_codes<BITS>(words, tile, chunk, tern_gather_start(lane));
    memcpy((unsigned *)args.y + lane * 16, words, sizeof words);
}

// x, y: [32][16] words, the first 2 * bits of a lane; k: bits.
extern "C" __global__ void wgmma_columns(struct tern_args args) {
    if (args.k == 2)
        columns<2>(args);
    else if (args.k == 3)
        columns<3>(args);
    else if (args.k == 4)
        columns<4>(args);
    else
        columns<8>(args);
}

// Every block is a worker of a sweep over n = k rows of W and m tiles of x. y: how often each (tile of x, row block) was
// visited, then the row blocks of each worker.
extern "C" __global__ void wgmma_sweep(struct tern_args args) {
    unsigned *y = (unsigned *)args.y;
    tern_sweep sweep = tern_sweep_start<4>(args.k, (unsigned)args.m, blockIdx.x, gridDim.x);
    while (tern_sweep_next<4, 8>(sweep)) {
        if (sweep.blocks == 0 || sweep.blocks > 4 || sweep.row_block + sweep.blocks > sweep.row_blocks)
            tern_emu_fault("sweep: a tile outside the problem");
        for (unsigned b = 0; b < sweep.blocks; b++)
            y[sweep.tile_m * sweep.row_blocks + sweep.row_block + b]++;
        y[sweep.row_blocks * sweep.tiles_m + blockIdx.x] += sweep.blocks;
    }
}

// Blocks of a cluster and the units they own of m row blocks. y: how often each (row block, unit) is owned.
template <int CLUSTER, int ROW_BLOCKS, int UNITS> static void owners(const struct tern_args &args) {
    typedef struct tern_units<CLUSTER, ROW_BLOCKS, UNITS> units;
    for (int rank = 0; rank < CLUSTER; rank++)
        for (int i = 0; i < units::count((int)args.m, rank); i++) {
            const int b = units::block_of(i, rank), unit = units::unit_of(i, rank);
            if (i >= units::most || b >= args.m || unit >= UNITS)
                tern_emu_fault("owners: a unit that is not there");
            ((unsigned *)args.y)[b * UNITS + unit]++;
        }
}
// Slices of x dealt to warps, m tiles of k slices each. y[slice]: 1 + which warp has it.
extern "C" __global__ void wgmma_deal(struct tern_args args) {
    for (int warp = 0; warp < TERN_DEAL_WARPS; warp++)
        for (int tile = 0, turn = warp; tile < args.m; tile++, turn = tern_deal_turn(turn, (int)args.k))
            for (int slice = turn; slice < args.k; slice += TERN_DEAL_WARPS)
                ((unsigned *)args.y)[tile * args.k + slice] += 1 + warp;
}

extern "C" __global__ void wgmma_owners(struct tern_args args) {
    if (args.k == 0)
        owners<2, 3, 4>(args);
    else if (args.k == 1)
        owners<4, 3, 2>(args);
    else if (args.k == 2)
        owners<3, 2, 4>(args);
    else
        owners<4, 3, 1>(args);
}

// Every two blocks are a pair of tern_plan, tiles of 4 row blocks; n = 64 k rows of W, m rows of x in tiles of 128. y: how many halves of
// k tiles (of their columns) of each (tile of x, row block) were multiplied, then of each block.
template <int PAIR> static void visit_pairs(struct tern_args args) {
    unsigned *y = (unsigned *)args.y;
    const int row_blocks = (int)args.k, tiles_m = (int)((args.m + 127) / 128);
    args.n = 64 * args.k;
    tern_place at;
    tern_plan<4, 128, 8, 1, 0, PAIR> plan(args, at);
    for (int halves = 0; plan.next(at);) {
        const tern_place odd = tern_odd_place<PAIR>(at);
        if (at.blocks > 4 || (halves += at.half) > 1 || at.x_row / 128 >= tiles_m || (at.blocks == 0 && !at.half))
            tern_emu_fault("pairs: a place outside the problem, or two shared row blocks");
        for (int b = 0; b <= at.blocks; b++) {
            const int row_block = b < at.blocks ? at.row_tile / 4 + b : odd.row_tile / 4;
            const unsigned k_tiles = (unsigned)(b < at.blocks ? at.k_end - at.k_begin : odd.k_end - odd.k_begin);
            const unsigned halves_done = b == at.blocks && PAIR == 3 ? k_tiles : 2 * k_tiles;
            if (k_tiles > 0 && row_block >= row_blocks)
                tern_emu_fault("pairs: a row block outside W");
            y[k_tiles > 0 ? at.x_row / 128 * row_blocks + row_block : 0] += halves_done;
            y[row_blocks * tiles_m + blockIdx.x] += halves_done;
        }
    }
}
extern "C" __global__ void wgmma_pairs_k(struct tern_args args) {
    visit_pairs<2>(args);
}
extern "C" __global__ void wgmma_pairs_columns(struct tern_args args) {
    visit_pairs<3>(args);
}

// Every CLUSTER blocks are a worker of tern_plan with PAIR 4; n = 64 k rows of W, m rows of x in tiles of 128. y: how many eighths of the
// columns of how many k tiles of each (tile of x, row block) were multiplied, then the places of each block, then the columns of each block,
// of which a part takes as long as 64 (space.lua).
template <int CLUSTER> static void spread_row_blocks(struct tern_args args) {
    unsigned *y = (unsigned *)args.y;
    const int row_blocks = (int)args.k, tiles_m = (int)((args.m + 127) / 128);
    args.n = 64 * args.k;
    tern_place at;
    tern_plan<1, 128, 8, CLUSTER, 0, 4> plan(args, at);
    while (plan.next(at)) {
        const tern_place odd = tern_odd_place<4>(at);
        if (at.blocks > 1 || at.x_row / 128 >= tiles_m || at.row_tile / 4 >= row_blocks || odd.row_tile / 4 >= row_blocks ||
            at.odd_part >= TERN_SPREAD_PARTS || (at.half && odd.k_begin != at.k_begin))
            tern_emu_fault("spread: a place or a part outside the problem");
        unsigned *tile = y + at.x_row / 128 * row_blocks;
        tile[at.row_tile / 4] += (unsigned)(8 * at.blocks * (at.k_end - at.k_begin));
        tile[odd.row_tile / 4] += (unsigned)(odd.k_end - odd.k_begin);
        y[row_blocks * tiles_m + blockIdx.x]++;
        y[row_blocks * tiles_m + gridDim.x + blockIdx.x] += (unsigned)(128 * at.blocks + 64 * at.half);
    }
}
extern "C" __global__ void wgmma_spread(struct tern_args args) {
    spread_row_blocks<1>(args);
}
extern "C" __global__ void wgmma_spread_cluster(struct tern_args args) {
    spread_row_blocks<2>(args);
}

// Every block is a worker of a stream-K division of m tiles with k k tiles each. y: how often each (tile, k tile) was visited;
// then the contributors that each tile was said to have, and how many came.
extern "C" __global__ void wgmma_stream_k(struct tern_args args) {
    const unsigned tiles = (unsigned)args.m, k_tiles = (unsigned)args.k;
    unsigned *y = (unsigned *)args.y, *said = y + tiles * k_tiles, *came = said + tiles;
    tern_stream_k stream = tern_stream_k_start(tiles, k_tiles, blockIdx.x, gridDim.x);
    tern_stream_turn turn;
    while (tern_stream_k_next(stream, turn)) {
        if (turn.tile >= tiles || turn.k_begin >= turn.k_end || turn.k_end > k_tiles)
            tern_emu_fault("stream-K: a turn outside the problem");
        if ((turn.k_begin == 0) != (turn.first == blockIdx.x))
            tern_emu_fault("stream-K: the first contributor is the one that starts at k = 0");
        for (unsigned k = turn.k_begin; k < turn.k_end; k++)
            y[turn.tile * k_tiles + k]++;
        if (said[turn.tile] != 0 && said[turn.tile] != turn.contributors)
            tern_emu_fault("stream-K: contributors of a tile disagree");
        said[turn.tile] = turn.contributors;
        came[turn.tile]++;
    }
}

// Every CLUSTER blocks are a worker of tern_plan with STREAM_K 2: m rows of x in tiles of 128, one row block of W. y: how often each (tile, k tile)
// was multiplied; then the contributors that each tile was said to have, and how many came; then how often each slot was used.
template <int CLUSTER> static void aid_tiles(struct tern_args args) {
    const unsigned tiles = (unsigned)((args.m + 127) / 128), k_tiles = (unsigned)((args.k + 127) / 128);
    unsigned *y = (unsigned *)args.y, *said = y + tiles * k_tiles, *came = said + tiles, *slots = came + tiles;
    args.n = 64;
    tern_place at;
    tern_plan<1, 128, 8, CLUSTER, 2> plan(args, at);
    while (plan.next(at)) {
        const unsigned tile = (unsigned)(at.x_row / 128);
        if (tile >= tiles || at.k_end > (int)k_tiles || at.row_tile != 0 || (at.alone && at.part.all < 2))
            tern_emu_fault("aid: a place outside the problem, or help that is all of a tile");
        for (int k = at.k_begin; k < at.k_end; k++)
            y[tile * k_tiles + (unsigned)k]++;
        if (said[tile] != 0 && said[tile] != at.part.all)
            tern_emu_fault("aid: contributors of a tile disagree");
        said[tile] = at.part.all;
        if (!at.alone && at.rank > 0)
            continue; // a cluster comes as one
        came[tile]++;
        const unsigned slot = at.part.self == 0 ? at.part.head : at.part.slots + at.part.self * at.part.step;
        if (at.part.self >= at.part.all || (at.part.all > 1 && slot >= 2 * gridDim.x))
            tern_emu_fault("aid: no such contributor or slot");
        if (at.part.all > 1)
            slots[slot]++;
    }
}
extern "C" __global__ void wgmma_aid(struct tern_args args) {
    aid_tiles<1>(args);
}
extern "C" __global__ void wgmma_aid_cluster(struct tern_args args) {
    aid_tiles<2>(args);
}

// Each block is one of a cluster that works on a tile of m row blocks and k k tiles, in three warpgroups. y: how often each (row block, k tile) is
// multiplied; how many warpgroups get the sums of each row block; what each warpgroup has to do.
template <bool PAIR> static void share_tile(const struct tern_args &args) {
    const int SLOTS = 6, blocks = (int)args.m, k_tiles = (int)args.k, rank = (int)blockIdx.x;
    unsigned *done = (unsigned *)args.y, *sums = done + blocks * k_tiles, *work = sums + blocks + 3 * rank;
    tern_sweep sweep = {};
    sweep.blocks = (unsigned)blocks;
    const tern_share<PAIR, 3, SLOTS> mine = tern_share<PAIR, 3, SLOTS>::find(sweep, rank, k_tiles);
    for (int n = 0; n < 3; n++)
        for (int b = 0; b < SLOTS; b++) {
            if (mine.empty(n, b))
                continue;
            const int block = mine.first + mine.place(n, b);
            const auto last = mine.last(n, k_tiles);
            const bool whole = b < mine.each, given = !whole && (mine.gives(n) || (rank == 1 && mine.has_half(n)));
            if (block < 0 || block >= blocks || b >= mine.slots(n) + (given ? SLOTS : 0))
                tern_emu_fault("share: a row block outside the tile, or a slot that is not stored");
            sums[block] += !given;
            for (int i = 0; i < k_tiles; i++) // in the block's order
                if (b < SLOTS - 1 || (i >= last.begin && i < last.end)) {
                    done[block * k_tiles + mine.k_tile(i, k_tiles)]++;
                    work[n]++;
                }
        }
    for (int n = 0; n < 3; n++)
        if (mine.divided && work[n] >= (unsigned)((mine.each + 1) * k_tiles))
            tern_emu_fault("share: divided, and yet a warpgroup has a whole row block more");
}
extern "C" __global__ void wgmma_share(struct tern_args args) {
    share_tile<false>(args);
}
extern "C" __global__ void wgmma_share_pair(struct tern_args args) {
    share_tile<true>(args);
}

// Boxes of codes fit into the room of a block and make up all its tiles, of m row blocks times k tiles of x. y: how many tiles each block had.
extern "C" __global__ void wgmma_share_boxes(struct tern_args args) {
    typedef struct tern_share<true, 2, 2> share;
    tern_sweep sweep = tern_sweep_start<share::tile_blocks, true>(64 * args.m, (unsigned)args.k, blockIdx.x, gridDim.x);
    const int highest = share::highest(sweep), step = share::step(sweep);
    while (tern_sweep_next<share::tile_blocks, 0>(sweep)) {
        const int tiles = 4 * share::find(sweep, 0, 2).blocks;
        if (tiles > highest || tiles % step != 0 || highest > 4 * 2 * 2)
            tern_emu_fault("share: boxes do not make up a tile");
        ((unsigned *)args.y)[blockIdx.x]++;
    }
}

// Every block counts itself at two counters of the workspace, whose content is what the host put there. y: what it got.
extern "C" __global__ void wgmma_count(struct tern_args args) {
    unsigned *y = (unsigned *)args.y;
    for (unsigned place = 0; place < 2; place++)
        y[2 * blockIdx.x + place] =
            tern_count_arrival((unsigned long long *)args.x + place, place, gridDim.x, (unsigned)args.k);
}

// Copies a box of 64 columns and 16 rows from (m, k) of x, [20][80] elements, and stores it without the swizzle.
extern "C" __global__ void wgmma_box(struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    void *barrier = shared + 2048;
    if (threadIdx.x == 0)
        tern_barrier_init(barrier, 1);
    __syncthreads();
    unsigned char *map = (unsigned char *)args.y + 2048;
    tern_tensor_map_make<2>(map, shared + 2176, {args.x, 80, 20, 64, 16}, (int)threadIdx.x);
    if (threadIdx.x == 0) {
        tern_barrier_arrive_expect(barrier, 2048);
        tern_tensor_copy(shared, map, (int)args.k, (int)args.m, barrier);
    }
    tern_barrier_wait(barrier, 0);
    for (int id = threadIdx.x; id < 16 * 8; id += 32)
        memcpy((unsigned char *)args.y + 16 * id, shared + 128 * (id / 8) + 16 * (id % 8 ^ id / 8 % 8), 16);
}

// One warp turns a slice of 32 rows, which it takes from x, [32][128], and stores without the swizzle.
extern "C" __global__ void wgmma_turn(struct tern_args args) {
    TERN_SHARED_DYNAMIC(slice);
    for (int id = threadIdx.x; id < 32 * 16; id += 32) {
        const int row = id / 16, chunk = id % 16;
        memcpy(slice + chunk / 8 * 4096 + 128 * row + 16 * (chunk % 8 ^ row % 8), (const unsigned char *)args.x + 16 * id,
               16);
    }
    __syncwarp();
    tern_slice_turn<32>(slice, (int)threadIdx.x);
    __syncwarp();
    for (int id = threadIdx.x; id < 32 * 16; id += 32) {
        const int row = id / 16, chunk = id % 16;
        memcpy((unsigned char *)args.y + 16 * id, slice + chunk / 8 * 4096 + 128 * row + 16 * (chunk % 8 ^ row % 8), 16);
    }
}

// Four warps copy the first two slices, of four stages, and are done with the first while the warp that turns the second has not looked yet: its stage has been
// filled again by then. y: both slices, from x, [16][256].
extern "C" __global__ void wgmma_first_slices(struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    constexpr int SLICE = 16 * 256, GO = 4 * SLICE + 4 * TERN_SLICE_BARRIERS;
    unsigned char *barriers = shared + 4 * SLICE;
    const int thread = (int)threadIdx.x;
    if (thread == 0) {
        for (int stage = 0; stage < 4; stage++)
            tern_slice_init(barriers, stage, 1 + TERN_WARP_ARRIVALS, 1, 1);
        tern_barriers_init(shared + GO, 1, 1);
    }
    __syncthreads();
    if (thread >= 128) {
        const int parity = thread / 32 - 4;
        tern_ring fill = {0, 1};
        if (parity == 1)
            tern_barrier_wait(shared + GO, 0);
        tern_slices_turn<4, 16>(shared, barriers, parity, 2, 2, fill, thread % 32);
        return;
    }
    for (int i = 0; i < 2; i++)
        tern_first_copy<256, 128, 16, 16>(shared + i * SLICE, {args.x, 512, 16}, 0, 256 * i, 16, thread);
    tern_first_expect<2, 128>(barriers, 2, 1);
    for (int i = 0; i < 2; i++) {
        tern_barrier_wait(tern_slice_barrier_of(barriers, i, TERN_FULL), 0);
        for (int id = thread; id < SLICE / 16; id += 128)
            memcpy((unsigned char *)args.y + i * SLICE + 16 * id, shared + i * SLICE + 16 * id, 16);
        tern_block_sync(1, 128);
        if (thread == 0 && i == 0) {
            tern_barrier_arrive(tern_slice_barrier_of(barriers, 0, TERN_LANDED)); // the next k tile
            tern_barrier_arrive(shared + GO);
        }
    }
}

// Codes times every scale, the short way. y: pairs of scales that are small enough; fragments that are not exact.
template <int ZERO> static void short_scales(const struct tern_args &args) {
    typedef tern_short_scale<ZERO> way;
    unsigned *y = (unsigned *)args.y, random = 1;
    for (unsigned i = 0; i < 0x20000; i++) {
        const unsigned scale = i & 0xFFFF,
                       other = scale ^ (i >> 16 ? 0x8415 : 0x8015); // of row g + 8; the exponent differs, or not
        alignas(16) unsigned pairs[4] = {scale << 16 | other, 0, other, 0};
        if (way::too_large((const unsigned char *)pairs, 16, 0))
            continue;
        y[0]++;
        const way scaled = way::of(pairs[0]);
        for (int step = 0; step < TERN_TILE_STEPS; step++) {
            unsigned words[4], swapped[4], a[4];
            for (int p = 0; p < 4; p++) {
                random = random * 1664525 + 1013904223;
                words[p] = random ^ random >> 15;
                if (ZERO == 1) // no code 3
                    words[p] &= ~(words[p] >> 1 & 0x55555555u);
            }
            way::swap_bytes(words, swapped);
            scaled.fragment(words, swapped, step, a);
            for (int p = 0; p < 8; p++) {
                const int bit = 16 * (p % 2) + 2 * (step / 2) + 8 * (step & 1), q = (int)(words[p / 2] >> bit & 3);
                const float s = tern_emu_half_to_float((unsigned short)(p / 2 % 2 ? scale : other));
                y[1] += tern_emu_half_to_float((unsigned short)(a[p / 2] >> 16 * (p % 2))) != (float)(q - ZERO) * s;
            }
        }
    }
}
extern "C" __global__ void wgmma_short_ternary(struct tern_args args) {
    short_scales<1>(args);
}
extern "C" __global__ void wgmma_short_gptq(struct tern_args args) {
    short_scales<2>(args);
}
