// One-dimensional bulk copies from global to shared memory, and the mbarrier that counts their bytes (compute
// capability 9.0). A barrier is an 8-byte aligned 64-bit word of shared memory; one thread initialises it, a __syncthreads
// makes it known.
#ifndef TERN_BULK_CUH
#define TERN_BULK_CUH

#ifdef TERN_EMULATOR
#include "emulator/tern_emu.h"
#endif

// Prepares a barrier for `arrivals` arrivals a phase and makes it visible to the copy engine.
__device__ __forceinline__ void tern_barrier_init(void *barrier, int arrivals) {
#ifdef TERN_EMULATOR
    tern_emu_mbarrier_init(barrier, arrivals);
#elif __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\nfence.mbarrier_init.release.cluster;\n"
                 "fence.proxy.async.shared::cta;"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(arrivals)
                 : "memory");
#endif
}

// Prepares `count` barriers that follow each other; tern_barriers_publish makes all that this thread prepared so visible, at
// the price of one fence.
__device__ __forceinline__ void tern_barriers_init(unsigned char *barriers, int count, int arrivals) {
#pragma unroll
    for (int i = 0; i < count; i++)
#if defined(TERN_EMULATOR) || __CUDA_ARCH__ < 900
        tern_barrier_init(barriers + 8 * i, arrivals);
#else
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                     :
                     : "r"((unsigned)__cvta_generic_to_shared(barriers + 8 * i)), "r"(arrivals)
                     : "memory");
#endif
}
__device__ __forceinline__ void tern_barriers_publish() {
#if !defined(TERN_EMULATOR) && __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" : : : "memory");
#endif
}

// Arrives once and announces `bytes` of bulk copies for the running phase.
__device__ __forceinline__ void tern_barrier_arrive_expect(void *barrier, int bytes) {
#ifdef TERN_EMULATOR
    tern_emu_mbarrier_arrive_expect(barrier, bytes);
#elif __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes)
                 : "memory");
#endif
}

// Waits until the phase with this parity (0 for the first) is complete.
__device__ __forceinline__ void tern_barrier_wait(void *barrier, int parity) {
#ifdef TERN_EMULATOR
    tern_emu_mbarrier_wait(barrier, parity);
#elif __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred p;\nWAIT_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT_%=;\n}"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity)
                 : "memory");
#endif
}

// Starts a copy of `bytes` (a multiple of 16; both addresses too); its bytes count against the barrier's announced ones.
__device__ __forceinline__ void tern_bulk_copy(void *shared, const void *global, int bytes, void *barrier) {
#ifdef TERN_EMULATOR
    tern_emu_bulk_copy(shared, global, (size_t)bytes, barrier);
#elif __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"(bytes),
                   "r"((unsigned)__cvta_generic_to_shared(barrier))
                 : "memory");
#endif
}

// Asks for `bytes` (a multiple of 16; the address too) to be brought into the L2. Nothing waits for them.
__device__ __forceinline__ void tern_bulk_prefetch(const void *global, int bytes) {
#if !defined(TERN_EMULATOR) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" : : "l"(global), "r"(bytes) : "memory");
#endif
}

#endif
