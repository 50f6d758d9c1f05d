// Thread block clusters (compute capability 9.0): barrier over the cluster and loads from another block's shared memory.
// A cluster here is CLUSTER blocks that follow each other along x, so a block's rank is blockIdx.x % CLUSTER.
#ifndef TERN_CLUSTER_CUH
#define TERN_CLUSTER_CUH

#ifdef TERN_EMULATOR
#include "emulator/tern_emu.h"
#include <string.h>
#endif

// All threads of all blocks of the cluster arrive and wait; shared-memory writes before it are visible behind it.
__device__ __forceinline__ void tern_cluster_sync() {
#ifdef TERN_EMULATOR
    tern_emu_cluster_sync();
#elif __CUDA_ARCH__ >= 900
    __syncwarp(); // .aligned: the warp must be whole
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" : : : "memory");
#endif
}

// The two halves of tern_cluster_sync: all threads arrive, do something else, and wait.
__device__ __forceinline__ void tern_cluster_arrive() {
#if !defined(TERN_EMULATOR) && __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
#endif
}
__device__ __forceinline__ void tern_cluster_wait() {
#ifdef TERN_EMULATOR
    tern_emu_cluster_sync();
#elif __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
#endif
}

// Reads a float at this block's address `shared`, but in the dynamic shared memory of block `rank` of the cluster.
__device__ __forceinline__ float tern_cluster_load_float(const void *shared, int rank) {
    float value;
#ifdef TERN_EMULATOR
    memcpy(&value, tern_emu_cluster_map((void *)shared, rank), sizeof value);
#elif __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %1, %2;\nld.shared::cluster.f32 %0, [remote];\n}"
                 : "=f"(value)
                 : "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(rank)
                 : "memory");
#else
    value = *(const float *)shared; // no clusters: valid() of a template must exclude them
#endif
    return value;
}

// Stores a float at this block's address `shared`, but in the dynamic shared memory of block `rank` of the cluster.
__device__ __forceinline__ void tern_cluster_store_float(void *shared, int rank, float value) {
#ifdef TERN_EMULATOR
    memcpy(tern_emu_cluster_map(shared, rank), &value, sizeof value);
#elif __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\nst.shared::cluster.f32 [remote], %2;\n}"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(rank), "f"(value)
                 : "memory");
#endif
}

#endif
