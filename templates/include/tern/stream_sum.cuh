// Sums of tiles that stream_k.cuh cuts along K, through global memory. A warpgroup's sums lie in a slot: 16 bytes of all its
// threads side by side. Owns nothing.
#ifndef TERN_STREAM_SUM_CUH
#define TERN_STREAM_SUM_CUH

#include "tern/pipeline.cuh"
#include "tern/stream_k.cuh"

#define TERN_SLOT_STEP (16 * TERN_WARPGROUP) // bytes from a thread's four floats to its next four

// The first `active` row blocks: sum += slot, or sum = slot.
template <bool FIRST, int ROW_BLOCKS, int COUNT>
__device__ __forceinline__ void tern_slot_add(float (&sum)[ROW_BLOCKS][COUNT], const unsigned char *slot, int active) {
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        if (b >= active)
            break;
#pragma unroll
        for (int i = 0; i < COUNT / 4; i++) {
            const float4 more = tern_sums_load(slot + (b * (COUNT / 4) + i) * TERN_SLOT_STEP);
            float *d = &sum[b][4 * i];
            d[0] = FIRST ? more.x : d[0] + more.x;
            d[1] = FIRST ? more.y : d[1] + more.y;
            d[2] = FIRST ? more.z : d[2] + more.z;
            d[3] = FIRST ? more.w : d[3] + more.w;
        }
    }
}

template <int ROW_BLOCKS, int COUNT>
__device__ __forceinline__ void tern_slot_put(const float (&sum)[ROW_BLOCKS][COUNT], unsigned char *slot, int active) {
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        if (b >= active)
            break;
#pragma unroll
        for (int i = 0; i < COUNT / 4; i++)
            tern_sums_store(slot + (b * (COUNT / 4) + i) * TERN_SLOT_STEP, &sum[b][4 * i]);
    }
}

// A warpgroup's part of a cut tile. A block has two slots: the first contributor uses the second one of its block, since its
// range ends in this tile, the others the first one, since theirs begin here or lie inside.
struct tern_join {
    unsigned long long *counter; // of this tile and warpgroup, number `place`
    unsigned place;
    unsigned char *slots; // first slot of the first contributor's block, at the warpgroup's part
    long long pitch;      // bytes of a slot of a block
    unsigned self, all;   // this contributor's number, and how many there are
    unsigned *answer;     // a word of shared memory of the warpgroup, free until the next barrier behind
    int barrier;          // a named barrier of the warpgroup
};

// All but the place for the answer and the barrier, of warpgroup `warpgroup` of CONSUMERS in tile `tile`, which has `contributors`
// from block `first` on. At `counters` two for each block of the grid and warpgroup, behind them two slots of SLOT_BYTES a block.
template <int CONSUMERS, long long SLOT_BYTES>
__device__ __forceinline__ tern_join tern_join_make(unsigned char *counters, unsigned tile, unsigned first,
                                                    unsigned contributors, int warpgroup) {
    tern_join join;
    join.place = tile * CONSUMERS + (unsigned)warpgroup;
    join.counter = reinterpret_cast<unsigned long long *>(counters) + join.place;
    join.slots = counters + 16 * CONSUMERS * (unsigned long long)gridDim.x + first * (2 * SLOT_BYTES) +
                 warpgroup * (SLOT_BYTES / CONSUMERS);
    join.pitch = SLOT_BYTES;
    join.self = blockIdx.x - first;
    join.all = contributors;
    return join;
}

// True if it is the last one to come; then `sum` is that of all contributors, added in the order of K. All threads of the
// warpgroup call.
template <int ROW_BLOCKS, int COUNT>
__device__ __forceinline__ bool tern_stream_join(const tern_join &j, float (&sum)[ROW_BLOCKS][COUNT], int active) {
    const bool counts = threadIdx.x % TERN_WARPGROUP == 0;
    unsigned char *slots = j.slots + 16 * (threadIdx.x % TERN_WARPGROUP), *head = slots + j.pitch;
    unsigned before = 0;
    if (j.self == 0) { // comes late: the others may all be there, and its own sums need not go through memory
        if (counts)
            *j.answer = tern_count_look(j.counter, j.place, j.all);
        tern_block_sync(j.barrier, TERN_WARPGROUP);
        before = *j.answer;
        tern_block_sync(j.barrier, TERN_WARPGROUP);
    }
    if (before + 1 != j.all)
        tern_slot_put(sum, j.self == 0 ? head : slots + j.self * (2 * j.pitch), active);
    tern_block_sync(j.barrier, TERN_WARPGROUP);
    if (counts)
        *j.answer = tern_count_arrival(j.counter, j.place, j.all, before);
    tern_block_sync(j.barrier, TERN_WARPGROUP);
    before = *j.answer;
    tern_block_sync(j.barrier, TERN_WARPGROUP);
    if (before + 1 != j.all)
        return false;
    if (j.self > 1) // the sums of the two first are the same either way
        tern_slot_add<true>(sum, head, active);
    for (unsigned other = j.self > 1 ? 1 : 0; other < j.all; other++)
        if (other != j.self || j.self > 1)
            tern_slot_add<false>(sum, other == 0 ? head : slots + other * (2 * j.pitch), active);
    return true;
}

#endif
