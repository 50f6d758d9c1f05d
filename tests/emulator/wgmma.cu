// Emulator tests of wgmma: the product, what a missing wait and a tile given back too early do, the transposition of codes;
// and of the sweep over output tiles.
#include "tern/abi.h"
#include "tern/memory.cuh"
#include "tern/sweep.cuh"
#include "tern/wgmma.cuh"
#include "tern/wgmma_codes.cuh"

// x: A as [64][16] halves; codes: B as [32][64] halves, of which k-step args.k is used; shared memory: B swizzled.
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
extern "C" __global__ void wgmma_product(struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    unsigned a[4];
    float d[16];
    const unsigned long long b = prepare(args, shared, a);
    for (int i = 0; i < 16; i++)
        d[i] = 1.0f;
    tern_wgmma_fence();
    tern_wgmma<32>::multiply(d, a, b, true);
    tern_wgmma_commit();
    tern_wgmma<32>::multiply(d, a, b, true);
    tern_wgmma_commit();
    tern_wgmma_wait<1>();
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
    tern_wgmma<32>::multiply(d, a, b, false);
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
    tern_wgmma<32>::multiply(d, a, b, true);
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
    tern_wgmma<32>::multiply(d, a, b & ~(3ull << 62), true);
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
