/* CUDA C++ for g++: put in front (-include) of every kernel that the emulator compiles. Keywords, coordinates, barriers,
 * warp collectives and the services of tern_emu.h; vectors, arithmetic and atomics come from the headers included at the
 * end. Device code sees this file only; the host side of each call is harness/emulator/block.c and async.c. */
#ifndef TERN_EMULATOR_SHIM_H
#define TERN_EMULATOR_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include "emulator/services.h"
#include "emulator/tern_emu.h"

#define __CUDA_ARCH__ 900 /* what kernels may assume; a TERN_EMULATOR body comes first wherever PTX would be needed */

#define __device__
#define __host__
#define __global__      __attribute__((visibility("default")))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __cluster_dims__(...)
#define __constant__     static
#define __align__(bytes) __attribute__((aligned(bytes)))
/* Static shared memory: one section, so that the host can poison it between blocks. */
#define __shared__ static __attribute__((section("tern_shared")))

extern "C" {
__attribute__((visibility("default"))) struct tern_emu_state tern_emu_state = {};
/* Bounds of the section; weak, because a kernel without static shared memory has none. */
extern uint8_t __start_tern_shared[] __attribute__((weak, visibility("hidden")));
extern uint8_t __stop_tern_shared[] __attribute__((weak, visibility("hidden")));
}

/* The services of tern_emu.h, through the table. They carry file and line where a default argument can. */
#define TERN_EMU_CALL tern_emu_state.services->
#define TERN_EMU_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

extern "C" {
inline void tern_emu_exchange(const void *value, size_t bytes, void *all) {
    TERN_EMU_CALL collective(0xFFFFFFFFu, value, bytes, all, "warp exchange", (int)bytes);
}
inline int tern_emu_lane(void) {
    return (int)(tern_emu_state.thread[0] & 31u);
}
inline void *tern_emu_dynamic_shared(void) {
    size_t bytes;
    return TERN_EMU_CALL dynamic_shared(&bytes);
}
inline size_t tern_emu_dynamic_shared_bytes(void) {
    size_t bytes;
    TERN_EMU_CALL dynamic_shared(&bytes);
    return bytes;
}
inline void tern_emu_fault(const char *what) {
    TERN_EMU_CALL fault(what);
}
inline void tern_emu_yield(void) {
    TERN_EMU_CALL yield();
}
inline void tern_emu_async_copy(void *to, const void *from, size_t bytes, size_t valid_bytes) {
    TERN_EMU_CALL async_copy(to, from, bytes, valid_bytes);
}
inline void tern_emu_async_commit(void) {
    TERN_EMU_CALL async_commit();
}
inline void tern_emu_async_wait(int pending) {
    TERN_EMU_CALL async_wait(pending);
}
inline void tern_emu_mbarrier_init(void *barrier, int count) {
    TERN_EMU_CALL mbarrier_init(barrier, count);
}
inline void tern_emu_mbarrier_arrive(void *barrier) {
    TERN_EMU_CALL mbarrier_arrive(barrier, 1, 0);
}
inline void tern_emu_mbarrier_arrive_expect(void *barrier, int64_t bytes) {
    TERN_EMU_CALL mbarrier_arrive(barrier, 1, bytes);
}
inline void tern_emu_mbarrier_expect(void *barrier, int64_t bytes) {
    TERN_EMU_CALL mbarrier_arrive(barrier, 0, bytes);
}
inline int tern_emu_mbarrier_test(void *barrier, int parity) {
    return TERN_EMU_CALL mbarrier_test(barrier, parity);
}
inline void tern_emu_mbarrier_wait(void *barrier, int parity) {
    TERN_EMU_CALL mbarrier_wait(barrier, parity);
}
inline void tern_emu_bulk_copy(void *to, const void *from, size_t bytes, void *barrier) {
    TERN_EMU_CALL bulk_copy(to, from, bytes, barrier);
}
inline void tern_emu_store_async(void *to, const void *value, size_t bytes, void *barrier) {
    TERN_EMU_CALL store_async(to, value, bytes, barrier);
}
inline void tern_emu_barrier_sync(int id, int threads) {
    TERN_EMU_CALL named_sync(id, threads, 1, "bar.sync", id);
}
inline void tern_emu_barrier_arrive(int id, int threads) {
    TERN_EMU_CALL named_sync(id, threads, 0, "bar.arrive", id);
}
inline void tern_emu_dependency_wait(void) {
    TERN_EMU_CALL dependency_wait();
}
inline int tern_emu_cluster_rank(void) {
    return TERN_EMU_CALL cluster_rank();
}
inline int tern_emu_cluster_size(void) {
    return TERN_EMU_CALL cluster_size();
}
inline void *tern_emu_cluster_map(void *shared, int rank) {
    return TERN_EMU_CALL cluster_map(shared, rank);
}
inline void tern_emu_cluster_arrive(void) {
    TERN_EMU_CALL cluster_arrive();
}
inline void tern_emu_cluster_wait(void) {
    TERN_EMU_CALL cluster_wait("cluster barrier", 0);
}
inline void tern_emu_cluster_sync(void) {
    tern_emu_cluster_arrive();
    tern_emu_cluster_wait();
}
}
#if defined(__has_feature) /* clang; gcc defines the macro itself */
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
/* Runs at dlopen: tells the host what the object holds. */
__attribute__((constructor)) static void tern_emu_describe(void) {
    tern_emu_state.version = TERN_EMU_VERSION;
#ifdef __SANITIZE_ADDRESS__
    tern_emu_state.asan = 1;
#endif
    tern_emu_state.shared_begin = __start_tern_shared;
    tern_emu_state.shared_end = __stop_tern_shared;
}

#include "tern_emu_vector.h"

/* ---- coordinates
 * ------------------------------------------------------------------------------------------------------------ */
static inline uint3 tern_emu_uint3(const unsigned *v) {
    return uint3{v[0], v[1], v[2]};
}
#define threadIdx (tern_emu_uint3(tern_emu_state.thread))
#define blockIdx  (tern_emu_uint3(tern_emu_state.block))
#define blockDim  (tern_emu_uint3(tern_emu_state.block_dim))
#define gridDim   (tern_emu_uint3(tern_emu_state.grid_dim))
static const int warpSize = 32;

/* ---- barriers
 * ----------------------------------------------------------------------------------------------------------------- */
static inline void __syncthreads(TERN_EMU_SITE) {
    TERN_EMU_CALL block_sync(0, file, line);
}
static inline int __syncthreads_count(int p, TERN_EMU_SITE) {
    return TERN_EMU_CALL block_sync(p != 0, file, line);
}
static inline int __syncthreads_or(int p, TERN_EMU_SITE) {
    return TERN_EMU_CALL block_sync(p != 0, file, line) > 0;
}
static inline int __syncthreads_and(int p, TERN_EMU_SITE) {
    return TERN_EMU_CALL block_sync(p == 0, file, line) == 0;
}
static inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, TERN_EMU_SITE) {
    TERN_EMU_CALL collective(mask, nullptr, 0, nullptr, file, line);
}
static inline void __threadfence(void) {
    __asm__ volatile("" ::: "memory");
}
static inline void __threadfence_block(void) {
    __asm__ volatile("" ::: "memory");
}
static inline void __threadfence_system(void) {
    __asm__ volatile("" ::: "memory");
}
static inline void __nanosleep(unsigned) {
    tern_emu_yield();
}
static inline void __trap(void) {
    tern_emu_fault("__trap()");
}
static inline long long clock64(void) {
    return 0;
} /* no time exists here */
static inline int clock(void) {
    return 0;
}
#define assert(condition) ((condition) ? (void)0 : tern_emu_fault("assertion failed: " #condition))

/* ---- warp collectives
 * --------------------------------------------------------------------------------------------------------- */
static inline unsigned __activemask(void) {
    return TERN_EMU_CALL active_mask();
}

template <typename T> static inline T tern_emu_pick(unsigned mask, T value, int source, const char *file, int line) {
    T all[32];
    TERN_EMU_CALL collective(mask, &value, sizeof(T), all, file, line);
    if (!(mask >> (source & 31) & 1u)) {
        tern_emu_fault("shuffle reads a lane outside its mask");
    }
    return all[source & 31];
}
template <typename T> static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, TERN_EMU_SITE) {
    int lane = tern_emu_lane();
    return tern_emu_pick(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), file, line);
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, TERN_EMU_SITE) {
    int lane = tern_emu_lane(), source = lane ^ bits;
    return tern_emu_pick(mask, value, source >= (lane & ~(width - 1)) + width ? lane : source, file, line);
}
template <typename T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, TERN_EMU_SITE) {
    int lane = tern_emu_lane(), source = lane + (int)by;
    return tern_emu_pick(mask, value, source >= (lane & ~(width - 1)) + width ? lane : source, file, line);
}
template <typename T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, TERN_EMU_SITE) {
    int lane = tern_emu_lane(), source = lane - (int)by;
    return tern_emu_pick(mask, value, source < (lane & ~(width - 1)) ? lane : source, file, line);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, TERN_EMU_SITE) {
    int mine = predicate != 0, all[32];
    TERN_EMU_CALL collective(mask, &mine, sizeof mine, all, file, line);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; ++lane) {
        bits |= all[lane] ? 1u << lane : 0u;
    }
    return bits & mask;
}
static inline int __any_sync(unsigned mask, int p, TERN_EMU_SITE) {
    return __ballot_sync(mask, p, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int p, TERN_EMU_SITE) {
    return __ballot_sync(mask, p, file, line) == mask;
}
template <typename T> static inline T tern_emu_reduce(unsigned mask, T value, T (*op)(T, T), const char *file, int line) {
    T all[32], result = value;
    TERN_EMU_CALL collective(mask, &value, sizeof(T), all, file, line);
    for (int lane = 0; lane < 32; ++lane) {
        if ((mask >> lane & 1u) && lane != tern_emu_lane()) {
            result = op(result, all[lane]);
        }
    }
    return result;
}
template <typename T> static inline T __reduce_add_sync(unsigned mask, T value, TERN_EMU_SITE) {
    return tern_emu_reduce<T>(
        mask, value, [](T a, T b) { return (T)((unsigned)a + (unsigned)b); }, file, line);
}
template <typename T> static inline T __reduce_max_sync(unsigned mask, T value, TERN_EMU_SITE) {
    return tern_emu_reduce<T>(
        mask, value, [](T a, T b) { return a > b ? a : b; }, file, line);
}
template <typename T> static inline T __reduce_min_sync(unsigned mask, T value, TERN_EMU_SITE) {
    return tern_emu_reduce<T>(
        mask, value, [](T a, T b) { return a < b ? a : b; }, file, line);
}

#include "tern_emu_math.h"
#include "tern_emu_atomic.h"
#include "cuda_fp16.h"
#include "cuda_bf16.h"

#endif
