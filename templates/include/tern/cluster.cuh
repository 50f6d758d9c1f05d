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

// That all blocks of the cluster run, in two halves: all threads arrive, do something else, and wait. Of what was written before,
// only barriers that are published (bulk.cuh) are visible behind it: a release would wait for all memory accesses on their way,
// about a thousand cycles ahead of the first load.
__device__ __forceinline__ void tern_cluster_arrive() {
#ifdef TERN_EMULATOR
    tern_emu_cluster_arrive();
#elif __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" : : : "memory");
#endif
}
__device__ __forceinline__ void tern_cluster_wait() {
#ifdef TERN_EMULATOR
    tern_emu_cluster_wait();
#elif __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
#endif
}

// Both at once.
__device__ __forceinline__ void tern_cluster_pass() {
    tern_cluster_arrive();
    tern_cluster_wait();
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

// Stores two or four floats at this block's address `shared` (aligned to their size), but in the shared memory of block `rank` of
// the cluster, without waiting; their bytes then count as arrived on the barrier there that lies where `barrier` does here.
template <int FLOATS>
__device__ __forceinline__ void tern_cluster_send(void *shared, void *barrier, int rank, const float (&value)[FLOATS]) {
    static_assert(FLOATS == 2 || FLOATS == 4, "st.async of 8 or 16 bytes");
#ifdef TERN_EMULATOR
    tern_emu_store_async(tern_emu_cluster_map(shared, rank), value, sizeof value, tern_emu_cluster_map(barrier, rank));
#elif __CUDA_ARCH__ >= 900
    if constexpr (FLOATS == 4)
        asm volatile("{\n.reg .b32 to, full;\nmapa.shared::cluster.u32 to, %0, %2;\nmapa.shared::cluster.u32 full, %1, %2;\n"
                     "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [to], {%3, %4, %5, %6}, [full];\n}"
                     :
                     : "r"((unsigned)__cvta_generic_to_shared(shared)), "r"((unsigned)__cvta_generic_to_shared(barrier)),
                       "r"(rank), "f"(value[0]), "f"(value[1]), "f"(value[2]), "f"(value[3])
                     : "memory");
    else
        asm volatile("{\n.reg .b32 to, full;\nmapa.shared::cluster.u32 to, %0, %2;\nmapa.shared::cluster.u32 full, %1, %2;\n"
                     "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [to], {%3, %4}, [full];\n}"
                     :
                     : "r"((unsigned)__cvta_generic_to_shared(shared)), "r"((unsigned)__cvta_generic_to_shared(barrier)),
                       "r"(rank), "f"(value[0]), "f"(value[1])
                     : "memory");
#endif
}

// The same in two steps, for several stores: where `shared` lies in block `rank`, and a store of four floats there.
#ifdef TERN_EMULATOR
typedef unsigned char *tern_cluster_place;
#else
typedef unsigned tern_cluster_place;
#endif
__device__ __forceinline__ tern_cluster_place tern_cluster_at(void *shared, int rank) {
#ifdef TERN_EMULATOR
    return (unsigned char *)tern_emu_cluster_map(shared, rank);
#else
    unsigned place = 0;
#if __CUDA_ARCH__ >= 900
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(place) : "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(rank));
#endif
    return place;
#endif
}
__device__ __forceinline__ void tern_cluster_send_to(tern_cluster_place to, tern_cluster_place barrier, const float *value) {
#ifdef TERN_EMULATOR
    tern_emu_store_async(to, value, 16, barrier);
#elif __CUDA_ARCH__ >= 900
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%2, %3, %4, %5}, [%1];"
                 :
                 : "r"(to), "r"(barrier), "f"(value[0]), "f"(value[1]), "f"(value[2]), "f"(value[3])
                 : "memory");
#endif
}

// Arrives once on the barrier of block `rank` that lies where `barrier` does here. Not `.release.cluster`, which waits for this
// thread's stores to global memory: what it tells is that shared memory has been read.
__device__ __forceinline__ void tern_cluster_barrier_arrive(void *barrier, int rank) {
#ifdef TERN_EMULATOR
    tern_emu_mbarrier_arrive(tern_emu_cluster_map(barrier, rank));
#elif __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}"
                 :
                 : "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(rank)
                 : "memory");
#endif
}

#endif
