// What producer and consumer warps of a pipeline need beside bulk.cuh: plain arrivals, the fence between ordinary stores and
// the tensor cores, moving registers between warpgroups, and the way of a fragment through shared memory to global memory.
// Compute capability 9.0; setmaxnreg needs the sm_90a target.
#ifndef TERN_PIPELINE_CUH
#define TERN_PIPELINE_CUH

#include "tern/bulk.cuh"
#include "tern/dequant.cuh"
#include "tern/memory.cuh"

#define TERN_WARPGROUP 128 /* threads */

// A position in a ring of STAGES and the parity of the barrier phase there.
struct tern_ring {
    int stage, parity;
};
template <int STAGES, int BY = 1> __device__ __forceinline__ void tern_ring_advance(tern_ring &ring) {
    static_assert(BY <= STAGES, "once round at most");
    ring.stage += BY;
    if (BY == 1 ? ring.stage == STAGES : ring.stage >= STAGES) {
        ring.stage -= STAGES;
        ring.parity ^= 1;
    }
}
// By any number.
template <int STAGES> __device__ __forceinline__ void tern_ring_skip(tern_ring &ring, int count) {
    const unsigned at = (unsigned)(ring.stage + count);
    ring.stage = (int)(at % STAGES);
    ring.parity ^= (int)(at / STAGES & 1);
}

// Arrives once.
__device__ __forceinline__ void tern_barrier_arrive(void *barrier) {
#ifdef TERN_EMULATOR
    tern_emu_mbarrier_arrive(barrier);
#else
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory");
#endif
}

// One arrival for a warp, if it is wanted: its lanes' accesses to shared memory come before what waits for it. __syncwarp orders the lanes, and one of
// them arrives. racecheck of compute-sanitizer does not know that order and reports the other 31, so in a build for it
// (TERN_SANITIZE, `tune verify --sanitize`) every lane arrives, and a barrier expects TERN_WARP_ARRIVALS of each warp.
#ifdef TERN_SANITIZE
#define TERN_WARP_ARRIVALS 32
#else
#define TERN_WARP_ARRIVALS 1
#endif
__device__ __forceinline__ void tern_warp_arrive(void *barrier, int lane, bool wanted = true) {
    __syncwarp();
    if (wanted && (TERN_WARP_ARRIVALS == 32 || lane == 0))
        tern_barrier_arrive(barrier);
}

// Arrives once when all copies by cp.async that this thread started so far are complete. What waits on the barrier must
// fence before the tensor cores read them.
__device__ __forceinline__ void tern_cp_async_arrive(void *barrier) {
#ifdef TERN_EMULATOR
    tern_emu_async_commit();
    tern_emu_async_wait(0);
    tern_emu_mbarrier_arrive(barrier);
#else
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" : : "r"(tern_shared_address(barrier)) : "memory");
#endif
}

// The phase under way of the barrier does not end before all copies by cp.async that this thread started so far are complete. It expects as many
// arrivals as without, one of which must come behind this.
__device__ __forceinline__ void tern_cp_async_hold(void *barrier) {
#ifdef TERN_EMULATOR
    (void)barrier;
    tern_emu_async_commit();
    tern_emu_async_wait(0);
#else
    asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" : : "r"(tern_shared_address(barrier)) : "memory");
#endif
}

// synccheck of compute-sanitizer takes a barrier for one place in the program, and reports warps that reach it at different ones. PTX allows those:
// .aligned, which bar.* and __syncthreads imply, is about the lanes of a warp. Builds for it (TERN_SANITIZE) use the form without.
#ifdef TERN_SANITIZE
#define TERN_BARRIER "barrier"
#else
#define TERN_BARRIER "bar"
#endif

// All threads of the block meet, as in __syncthreads, but each warp may come from a place of its own.
__device__ __forceinline__ void tern_block_meet() {
#if defined(TERN_SANITIZE) && !defined(TERN_EMULATOR)
    asm volatile("barrier.sync 0;" : : : "memory");
#else
    __syncthreads();
#endif
}

// Barrier `id` (1..15; 0 is tern_block_meet's) over `threads` threads of the block, whole warps.
__device__ __forceinline__ void tern_block_sync(int id, int threads) {
#ifdef TERN_EMULATOR
    tern_emu_barrier_sync(id, threads);
#else
    asm volatile(TERN_BARRIER ".sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
#endif
}

// Arrives at barrier `id` without waiting for the others, who call tern_block_sync.
__device__ __forceinline__ void tern_block_arrive(int id, int threads) {
#ifdef TERN_EMULATOR
    tern_emu_barrier_arrive(id, threads);
#else
    asm volatile(TERN_BARRIER ".arrive %0, %1;" : : "r"(id), "r"(threads) : "memory");
#endif
}

// Copies ROWS rows of 128 elements of 16 bits (k) into shared memory in the form that wgmma.cuh wants of B: two halves of 64 k, rows of
// 128 bytes, swizzled. 64 threads call: each keeps one 16-byte chunk (8 k) of the 16 of a row and takes every 4th row.
// `source` is its chunk in its first row, rows are `stride` elements apart, and only `inside` rows from there on are read;
// the others become zeros.
template <int ROWS, int THREADS>
__device__ __forceinline__ void tern_copy_swizzled(unsigned char *to, const unsigned short *source, long long stride,
                                                   int inside, int thread) {
    static_assert(THREADS == 64, "4 rows a pass: the swizzle alternates between two columns");
    const int chunk = thread % 16, row = thread / 16, column = chunk % 8 ^ row;
    unsigned char *even = to + chunk / 8 * (ROWS * 128) + row * 128 + 16 * column;
    unsigned char *odd = even + 512 + (column & 4 ? -64 : 64);
#pragma unroll 8
    for (int i = 0; i < ROWS / 8; i++) {
        tern_cp_async<16>(even + 1024 * i, source, 8 * i < inside);
        source += 4 * stride;
        tern_cp_async<16>(odd + 1024 * i, source, 8 * i + 4 < inside);
        source += 4 * stride;
    }
}

// Stores four floats at this block's address `shared` (16-byte aligned), but in the shared memory of block `rank` of the
// cluster.
__device__ __forceinline__ void tern_cluster_store_16(void *shared, int rank, const float *value) {
#ifdef TERN_EMULATOR
    memcpy(tern_emu_cluster_map(shared, rank), value, 16);
#else
    asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
                 "st.shared::cluster.v4.f32 [remote], {%2, %3, %4, %5};\n}"
                 :
                 : "r"(tern_shared_address(shared)), "r"(rank), "f"(value[0]), "f"(value[1]), "f"(value[2]), "f"(value[3])
                 : "memory");
#endif
}

// Orders this thread's ordinary accesses to shared memory before what the tensor cores or the copy engine do after a
// barrier.
__device__ __forceinline__ void tern_fence_async() {
#ifndef TERN_EMULATOR
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
#endif
}

// Registers a thread for setmaxnreg in `consumers` warpgroups beside one that keeps `producer`. All are launched with an equal share (a quarter
// of the warps share a quarter of the registers); consumers take what the other gives.
__host__ __device__ constexpr int tern_consumer_registers(int consumers, int producer) {
    const int offered = (512 / (consumers + 1) / 8 * 8 * (consumers + 1) - producer) / consumers / 8 * 8;
    return offered < 240 ? offered : 240;
}

// Sets the registers a thread of this warpgroup may use; all its warps call it. What all warpgroups of a CTA take together
// must not exceed what the CTA was launched with, or the kernel hangs: the caller asserts it at compile time.
template <int REGISTERS> __device__ __forceinline__ void tern_registers_raise() {
#ifndef TERN_EMULATOR
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(REGISTERS));
#endif
}
template <int REGISTERS> __device__ __forceinline__ void tern_registers_lower() {
#ifndef TERN_EMULATOR
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(REGISTERS));
#endif
}

// Up or down from `ENTRY` at launch.
template <int REGISTERS, int ENTRY> __device__ __forceinline__ void tern_registers_set() {
    if (REGISTERS > ENTRY)
        tern_registers_raise<REGISTERS>();
    else
        tern_registers_lower<REGISTERS>();
}

// The same value in all lanes, in a form that the compiler knows to be uniform.
__device__ __forceinline__ unsigned tern_uniform(unsigned value) {
    return __shfl_sync(0xFFFFFFFFu, value, 0);
}

// Hides from the compiler where a value comes from, so that nothing is made of it earlier.
template <typename T> __device__ __forceinline__ void tern_hide(T &value) {
#ifndef TERN_EMULATOR
    asm volatile("" : "+r"(value));
#endif
}
template <typename TYPE> __device__ __forceinline__ void tern_hide(TYPE *&value) {
#ifndef TERN_EMULATOR
    asm volatile("" : "+l"(value));
#endif
}

// Stores four 8 x 8 matrices of 16-bit elements, each transposed: value[j] of lane l holds elements 2*(l%4), 2*(l%4)+1 of
// row l/4 of matrix j; lane 8*j + r gives the shared-memory address where column r of matrix j goes (16 bytes).
__device__ __forceinline__ void tern_stmatrix_x4_trans(void *row, const unsigned (&value)[4]) {
#ifdef TERN_EMULATOR
    void *rows[32];
    tern_emu_exchange(&row, sizeof row, rows);
    const int lane = tern_emu_lane();
    for (int j = 0; j < 4; j++)
        for (int e = 0; e < 2; e++) {
            unsigned char *to = (unsigned char *)rows[8 * j + 2 * (lane % 4) + e];
            if ((size_t)to % 16 != 0)
                tern_emu_fault("stmatrix: row address is not a multiple of 16");
            const unsigned short element = (unsigned short)(value[j] >> 16 * e);
            memcpy(to + 2 * (lane / 4), &element, 2);
        }
#else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(tern_shared_address(row)), "r"(value[0]), "r"(value[1]), "r"(value[2]), "r"(value[3])
                 : "memory");
#endif
}

// Turning fp32 fragments (16 rows, two 8-column tiles: d[0..3], d[4..7] as in mma.m16n8k16) by way of a slot of shared
// memory: put rounds them to the type of y and leaves them at `row`, the lane's in the slot; after a barrier get gives rows 8 * half .. + 7 of a
// column, 0..15. The exclusive-or spreads the eight addresses of a matrix over the banks.
#define TERN_TURN_SLOT 512 /* bytes */
__device__ __forceinline__ unsigned char *tern_turn_row(unsigned char *slot, int lane) {
    const int row = lane / 16 * 8 + lane % 8;
    return slot + 32 * row + 16 * (lane / 8 % 2 ^ (row >> 2 & 1));
}
template <int BF16> __device__ __forceinline__ void tern_turn_put(unsigned char *row, const float *d) {
    const unsigned value[4] = {tern_pair_round<BF16>(d[0], d[1]), tern_pair_round<BF16>(d[2], d[3]),
                               tern_pair_round<BF16>(d[4], d[5]), tern_pair_round<BF16>(d[6], d[7])};
    tern_stmatrix_x4_trans(row, value);
}
// The same times scale, plus bias (row g, row g + 8).
template <int BF16>
__device__ __forceinline__ void tern_turn_put(unsigned char *slot, const float *d, float2 scale, float2 bias, int lane) {
    float out[8];
#pragma unroll
    for (int e = 0; e < 8; e++)
        out[e] = fmaf(d[e], e / 2 % 2 ? scale.y : scale.x, e / 2 % 2 ? bias.y : bias.x);
    tern_turn_put<BF16>(tern_turn_row(slot, lane), out);
}
__device__ __forceinline__ uint4 tern_turn_get(const unsigned char *slot, int column, int half) {
    return tern_shared_load_16(slot + 32 * column + 16 * (half ^ (column >> 2 & 1)));
}
// Where a lane gets columns `column` (below 4) + 4 * i, of even and of odd i.
struct tern_turned {
    const unsigned char *even, *odd;
};
__device__ __forceinline__ tern_turned tern_turned_at(unsigned char *slot, int column, int half) {
    return {tern_shared_kept(slot + 32 * column + 16 * half), tern_shared_kept(slot + 32 * column + 16 * (half ^ 1))};
}
__device__ __forceinline__ uint4 tern_turn_get(const tern_turned &from, int i) {
    return tern_shared_load_16((i % 2 ? from.odd : from.even) + 128 * i);
}

// Stores 16 bytes that nobody reads again soon.
__device__ __forceinline__ void tern_store_stream_16(void *global, uint4 value) {
#ifdef TERN_EMULATOR
    tern_emu_check_aligned(global, 16);
    memcpy(global, &value, 16);
#else
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(global), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
                 : "memory");
#endif
}

#endif
