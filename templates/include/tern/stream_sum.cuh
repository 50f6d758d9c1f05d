// Sums of tiles that stream_k.cuh cuts along K, through global memory. A warpgroup's sums lie in a slot: 16 bytes of all its
// threads side by side. Owns nothing.
#ifndef TERN_STREAM_SUM_CUH
#define TERN_STREAM_SUM_CUH

#include "tern/pipeline.cuh"
#include "tern/stream_k.cuh"

#define TERN_SLOT_STEP (16 * TERN_WARPGROUP) // bytes from a thread's four floats to its next four

// Quads begin .. end - 1 of four sums a thread, of the first `active` row blocks: sum += slot, or sum = slot.
template <bool FIRST, int ROW_BLOCKS, int COUNT>
__device__ __forceinline__ void tern_slot_add(float (&sum)[ROW_BLOCKS][COUNT], const unsigned char *slot, int active,
                                              int begin, int end) {
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        if (b >= active)
            break;
#pragma unroll
        for (int i = begin; i < end; i++) {
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
__device__ __forceinline__ void tern_slot_put(const float (&sum)[ROW_BLOCKS][COUNT], unsigned char *slot, int active,
                                              int begin, int end) {
#pragma unroll
    for (int b = 0; b < ROW_BLOCKS; b++) {
        if (b >= active)
            break;
#pragma unroll
        for (int i = begin; i < end; i++)
            tern_sums_store(slot + (b * (COUNT / 4) + i) * TERN_SLOT_STEP, &sum[b][4 * i]);
    }
}

// A warpgroup's part of a cut tile, whose columns are SHARES equal shares that are added up each for itself.
struct tern_join {
    unsigned long long *counter; // of this tile and warpgroup and share 0, number `place`; those of the other shares follow
    unsigned place;
    unsigned char *head, *slots; // of contributor 0; of the others, i * step further, at the warpgroup's part
    long long step;
    unsigned self, all; // this contributor's number, and how many there are
    unsigned *answer;   // a word of shared memory of the warpgroup for each share, free until the next barrier behind
    int barrier;        // a named barrier of the warpgroup
};

// All but the place for the answer and the barrier, of warpgroup `warpgroup` of CONSUMERS. At `counters` two for each block of the grid and
// warpgroup, behind them two slots of SLOT_BYTES a block. Of a stream-K tile the first contributor uses the second slot of its block, since its
// range ends in this tile, the others the first one, since theirs begin here or lie inside.
template <int CONSUMERS, long long SLOT_BYTES, int SHARES = 1>
__device__ __forceinline__ tern_join tern_join_make(unsigned char *counters, const tern_part &part, int warpgroup) {
    tern_join join;
    unsigned char *slots = counters + 16 * CONSUMERS * (unsigned long long)gridDim.x + warpgroup * (SLOT_BYTES / CONSUMERS);
    join.place = (part.tile * CONSUMERS + (unsigned)warpgroup) * SHARES;
    join.counter = reinterpret_cast<unsigned long long *>(counters) + join.place;
    join.head = slots + part.head * SLOT_BYTES;
    join.slots = slots + part.slots * SLOT_BYTES;
    join.step = part.step * SLOT_BYTES;
    join.self = part.self;
    join.all = part.all;
    return join;
}

// Of the shares whose bits are set in `wanted` those as bits, at which it is the last one to come; of them `sum` is then that of all
// contributors, added in the order of K. All threads of the warpgroup call.
template <int SHARES = 1, int ROW_BLOCKS, int COUNT>
__device__ __forceinline__ unsigned tern_stream_join(const tern_join &j, float (&sum)[ROW_BLOCKS][COUNT], int active,
                                                     unsigned wanted = 1) {
    constexpr int QUADS = COUNT / 4 / SHARES;
    const auto counts = [](int share) { return threadIdx.x % TERN_WARPGROUP == 32 * (unsigned)(share % 4); };
    unsigned char *slots = j.slots + 16 * (threadIdx.x % TERN_WARPGROUP),
                  *head = j.head + 16 * (threadIdx.x % TERN_WARPGROUP);
    unsigned before[SHARES] = {}, last = 0;
    if (j.self == 0) { // comes late: the others may all be there, and its own sums need not go through memory
#pragma unroll
        for (int share = 0; share < SHARES; share++)
            if (counts(share) && wanted >> share & 1)
                j.answer[share] = tern_count_look(j.counter + share, j.place + share, j.all);
        tern_block_sync(j.barrier, TERN_WARPGROUP);
#pragma unroll
        for (int share = 0; share < SHARES; share++)
            before[share] = wanted >> share & 1 ? j.answer[share] : 0;
        tern_block_sync(j.barrier, TERN_WARPGROUP);
    }
#pragma unroll
    for (int share = 0; share < SHARES; share++)
        if (wanted >> share & 1 && before[share] + 1 != j.all)
            tern_slot_put(sum, j.self == 0 ? head : slots + j.self * j.step, active, share * QUADS, (share + 1) * QUADS);
    tern_block_sync(j.barrier, TERN_WARPGROUP);
#pragma unroll
    for (int share = 0; share < SHARES; share++)
        if (counts(share) && wanted >> share & 1)
            j.answer[share] = tern_count_arrival(j.counter + share, j.place + share, j.all, before[share]);
    tern_block_sync(j.barrier, TERN_WARPGROUP);
#pragma unroll
    for (int share = 0; share < SHARES; share++)
        last |= wanted >> share & 1 && j.answer[share] + 1 == j.all ? 1u << share : 0;
    tern_block_sync(j.barrier, TERN_WARPGROUP);
#pragma unroll
    for (int share = 0; share < SHARES; share++) {
        const int begin = share * QUADS, end = begin + QUADS;
        if (!(last >> share & 1))
            continue;
        if (j.self > 1) // the sums of the two first are the same either way
            tern_slot_add<true>(sum, head, active, begin, end);
        for (unsigned other = j.self > 1 ? 1 : 0; other < j.all; other++)
            if (other != j.self || j.self > 1)
                tern_slot_add<false>(sum, other == 0 ? head : slots + other * j.step, active, begin, end);
    }
    return last;
}

#endif
