// Stream-K: tiles of y cut along K, so that all workers of a persistent grid have equally much to do, and the sum of the cut
// ones in global memory. Owns nothing.
//
// Items are k tiles of tiles of y. Where the tiles do not come out even, the first `cut` of them are dealt out in equal ranges
// of items; the rest are whole, one a worker and turn. A cut tile has several contributors. Each puts its sums into a slot of
// the workspace and then counts itself; whoever counts last adds all of them, in the order of K, and has the result. So nobody
// waits for anybody, and the result does not depend on who was last.
//
// The counter may hold anything before the first launch: a count is a word of 64 bits that also holds a check of itself and of
// its place, and a word that fails the check counts as zero. Whoever counts last puts zero back, so that the next launch needs
// no help. A random word passes with a probability of about 2^-57.
#ifndef TERN_STREAM_K_CUH
#define TERN_STREAM_K_CUH

#include "tern/memory.cuh"

struct tern_stream_k {
    unsigned tiles, k_tiles, cut; // of the problem; tiles that are cut
    unsigned self, workers;
    unsigned next, end; // items left of the own range
    unsigned whole;     // next whole tile
};

// One turn: a tile, or a part of one.
struct tern_stream_turn {
    unsigned tile, k_begin, k_end;
    unsigned first, contributors; // workers of a cut tile: the first one, how many; 1 for a whole tile
};

// Worker `self` of `workers`; there are at least as many items as workers. Numbers stay below 2^32 for k up to 7 million.
__device__ __forceinline__ tern_stream_k tern_stream_k_start(unsigned tiles, unsigned k_tiles, unsigned self,
                                                             unsigned workers) {
    const unsigned rest = tiles % workers, cut = rest == 0 ? 0 : tiles < 2 * workers ? tiles : rest + workers;
    const unsigned items = cut * k_tiles;
    return {tiles, k_tiles, cut, self, workers, items * self / workers, items * (self + 1) / workers, cut + self};
}

// Workers of tile `tile`, a cut one.
struct tern_stream_workers {
    unsigned first, count;
};
__device__ __forceinline__ tern_stream_workers tern_stream_k_workers(const tern_stream_k &s, unsigned tile) {
    const unsigned start = tile * s.k_tiles, items = s.cut * s.k_tiles;
    const unsigned first = ((start + 1) * s.workers - 1) / items;
    return {first, ((start + s.k_tiles) * s.workers - 1) / items - first + 1};
}

// False when the worker is done.
__device__ __forceinline__ bool tern_stream_k_next(tern_stream_k &s, tern_stream_turn &turn) {
    turn.k_begin = 0;
    turn.k_end = s.k_tiles;
    turn.first = s.self;
    turn.contributors = 1;
    if (s.next >= s.end) {
        turn.tile = s.whole;
        s.whole += s.workers;
        return turn.tile < s.tiles;
    }
    turn.tile = s.next / s.k_tiles;
    const unsigned start = turn.tile * s.k_tiles;
    turn.k_begin = s.next - start;
    if (s.end - start < s.k_tiles)
        turn.k_end = s.end - start;
    s.next = start + turn.k_end;
    if (turn.k_end - turn.k_begin < s.k_tiles) { // the workers that have the tile's first and its last item
        const tern_stream_workers all = tern_stream_k_workers(s, turn.tile);
        turn.first = all.first;
        turn.contributors = all.count;
    }
    return true;
}

// Aid: tiles are dealt out whole, one a worker and turn. In the last turn, where some workers have none, each of their blocks helps: a
// tile of that turn gives its last `span` k tiles to them, and they divide all of these among themselves as stream-K does. So
// a tile has few contributors, and most blocks add up once.
struct tern_aid {
    unsigned tiles, k_tiles, workers; // of the problem
    unsigned cut, span;               // tiles of the last turn; k tiles that each gives away
    unsigned next;                    // own next tile
    tern_stream_k line; // of what is given away: its tiles are those that are cut, its workers the blocks that help
};

// Worker `self` of `workers`, a cluster of CLUSTER blocks, and in it block `rank`. The span is what has all done at once if each part that is help
// costs as much as `cost` k tiles beside its own; and one at least.
template <int CLUSTER>
__device__ __forceinline__ tern_aid tern_aid_start(unsigned tiles, unsigned k_tiles, unsigned self, unsigned rank,
                                                   unsigned workers, int cost) {
    const unsigned cut = tiles % workers, helpers = (workers - cut) * CLUSTER;
    const int gain = (int)(k_tiles * helpers) - cost * (int)(cut + helpers) * CLUSTER,
              whole = (int)(cut * CLUSTER + helpers);
    const unsigned span = cut == 0 || k_tiles < 2 ? 0 : gain < whole ? 1 : (unsigned)(gain / whole);
    const unsigned items = cut * span, busy = items < helpers ? items : helpers, block = (self - cut) * CLUSTER + rank;
    tern_aid aid = {tiles, k_tiles, workers, cut, span, self, {cut, span, cut, block, busy, 0, 0, cut}};
    if (self >= cut && block < busy) {
        aid.line.next = items * block / busy;
        aid.line.end = items * (block + 1) / busy;
    }
    return aid;
}

// False when the worker's block is done. `helps`: the turn is help, and first .. first + contributors - 1 are blocks that help; they are so
// too in the turn of a tile that is helped with, which has contributors - 1 of them.
__device__ __forceinline__ bool tern_aid_next(tern_aid &s, tern_stream_turn &turn, bool &helps) {
    helps = s.next >= s.tiles;
    if (helps) {
        if (!tern_stream_k_next(s.line, turn))
            return false;
        turn.tile += s.tiles - s.cut;
        turn.k_begin += s.k_tiles - s.span;
        turn.k_end += s.k_tiles - s.span;
        return true;
    }
    const bool helped = s.span > 0 && s.next >= s.tiles - s.cut;
    turn = {s.next, 0, s.k_tiles - (helped ? s.span : 0), 0, 1};
    if (helped) {
        const tern_stream_workers all = tern_stream_k_workers(s.line, s.next - (s.tiles - s.cut));
        turn.first = all.first;
        turn.contributors = 1 + all.count;
    }
    s.next += s.workers;
    return true;
}

// What a worker has of a cut tile: contributor `self` of `all`, in the order of K; 1: it has all of it. Contributor 0 has slot `head`, the
// others slots + self * step.
struct tern_part {
    unsigned tile, self, all;
    unsigned head, slots, step;
};

// A count of arrivals as it lies in memory, at number `place` of the counters.
__device__ __forceinline__ unsigned long long tern_count_word(unsigned count, unsigned place) {
    const unsigned check = (count + 0x51ED270Bu) * 0x9E3779B1u ^ (place + 1) * 0x85EBCA6Bu;
    return (unsigned long long)check << 32 | (count ^ 0x7E57C0DEu);
}
// The count below `limit` that a word holds; 0 for a word that is none.
__device__ __forceinline__ unsigned tern_count_of(unsigned long long word, unsigned place, unsigned limit) {
    const unsigned count = (unsigned)word ^ 0x7E57C0DEu;
    return count < limit && word == tern_count_word(count, place) ? count : 0;
}

// Orders what this thread has seen and written before what it does from here on, for all blocks.
__device__ __forceinline__ void tern_fence_device() {
#ifndef TERN_EMULATOR
    asm volatile("fence.acq_rel.gpu;" : : : "memory");
#endif
}

// The count at `place`, as it is at this moment.
__device__ __forceinline__ unsigned tern_count_look(const unsigned long long *counter, unsigned place, unsigned all) {
    return tern_count_of(*reinterpret_cast<const volatile unsigned long long *>(counter), place, all);
}

// Counts one arrival of `all` and returns how many there were before; `guess` is what it might be. The last one, which gets
// all - 1, puts zero back. What the thread wrote before, or other threads of its block before a barrier that it has passed, is
// seen by those that arrive after it; the last one, and its block behind a barrier, may read what the others wrote.
__device__ __forceinline__ unsigned tern_count_arrival(unsigned long long *counter, unsigned place, unsigned all,
                                                       unsigned guess) {
    tern_fence_device();
    unsigned long long seen = tern_count_word(guess, place);
    for (;;) {
        const unsigned before = tern_count_of(seen, place, all);
        const unsigned long long now = atomicCAS(counter, seen, tern_count_word(before + 1 == all ? 0 : before + 1, place));
        if (now == seen) {
            tern_fence_device();
            return before;
        }
        seen = now;
    }
}

// 16 bytes of sums between blocks: into and out of L2.
__device__ __forceinline__ void tern_sums_store(void *global, const float *d) {
#ifdef TERN_EMULATOR
    tern_emu_check_aligned(global, 16);
    memcpy(global, d, 16);
#else
    asm volatile("st.global.cg.v4.f32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(global), "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3])
                 : "memory");
#endif
}
__device__ __forceinline__ float4 tern_sums_load(const void *global) {
    float4 value;
#ifdef TERN_EMULATOR
    tern_emu_check_aligned(global, 16);
    memcpy(&value, global, 16);
#else
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(global)
                 : "memory");
#endif
    return value;
}

#endif
