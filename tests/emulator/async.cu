// Emulator tests of asynchronous copies: cp.async with and without its wait, mbarriers with bulk copies, clusters, late arrivals.
#include "tern/abi.h"
#include "tern/memory.cuh"

static __device__ void copy_rows(struct tern_args args, bool wait) {
    TERN_SHARED_DYNAMIC(shared);
    int i = threadIdx.x;
    tern_cp_async<16>(shared + 16 * i, (const char *)args.x + 16 * i, i != 7);
    tern_cp_async_commit();
    if (wait)
        tern_cp_async_wait<0>();
    __syncthreads();
    ((uint4 *)args.y)[i] = tern_shared_load_16(shared + 16 * ((i + 1) % 32));
}
extern "C" __global__ void async_good(struct tern_args args) { copy_rows(args, true); }
extern "C" __global__ void async_no_wait(struct tern_args args) { copy_rows(args, false); }

// Two groups; waiting for all but the newest must deliver the first only.
extern "C" __global__ void async_groups(struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    unsigned *y = (unsigned *)args.y;
    for (int g = 0; g < 2; g++) {
        tern_cp_async<4>(shared + 4 * g, (const char *)args.x + 4 * g, true);
        tern_cp_async_commit();
    }
    tern_cp_async_wait<1>();
    y[0] = ((volatile unsigned *)shared)[0];
    y[1] = ((volatile unsigned *)shared)[1];
    tern_cp_async_wait<0>();
    y[2] = ((volatile unsigned *)shared)[1];
}

static __device__ void bulk(struct tern_args args, bool wait) {
    TERN_SHARED_DYNAMIC(shared);
    void *barrier = shared + 1024;
    if (threadIdx.x == 0)
        tern_emu_mbarrier_init(barrier, 1);
    __syncthreads();
    for (int round = 0; round < 2; round++) {
        if (threadIdx.x == 0) {
            tern_emu_mbarrier_arrive_expect(barrier, 512);
            for (int half = 0; half < 2; half++)
                tern_emu_bulk_copy(shared + 256 * half, (const char *)args.x + 512 * round + 256 * half, 256, barrier);
        }
        if (wait)
            tern_emu_mbarrier_wait(barrier, round);
        else
            __syncthreads();
        ((uint4 *)args.y)[32 * round + threadIdx.x] = tern_shared_load_16(shared + 16 * threadIdx.x);
        __syncthreads();
    }
}
extern "C" __global__ void async_bulk(struct tern_args args) { bulk(args, true); }
extern "C" __global__ void async_bulk_no_wait(struct tern_args args) { bulk(args, false); }
extern "C" __global__ void async_no_init(struct tern_args) { tern_emu_mbarrier_wait(tern_emu_dynamic_shared(), 0); }
extern "C" __global__ void async_never(struct tern_args) {
    if (threadIdx.x == 0)
        tern_emu_mbarrier_init(tern_emu_dynamic_shared(), 1);
    __syncthreads();
    tern_emu_mbarrier_wait(tern_emu_dynamic_shared(), 0); // nobody arrives
}

// Blocks of a cluster write into the next one's shared memory.
extern "C" __global__ void async_cluster(struct tern_args args) {
    int rank = tern_emu_cluster_rank(), size = tern_emu_cluster_size();
    int *mine = (int *)tern_emu_dynamic_shared(), *next = (int *)tern_emu_cluster_map(mine, (rank + 1) % size);
    next[threadIdx.x] = 1000 * (int)blockIdx.x + (int)threadIdx.x;
    tern_emu_cluster_sync();
    ((int *)args.y)[blockIdx.x * blockDim.x + threadIdx.x] = mine[threadIdx.x];
}

// Block 0 waits for the cluster as soon as it has arrived, block 1 only after block 0 has come out of its wait.
extern "C" __global__ void async_cluster_split(struct tern_args args) {
    unsigned char *shared = (unsigned char *)tern_emu_dynamic_shared();
    if (threadIdx.x == 0)
        tern_emu_mbarrier_init(shared, 32);
    __syncthreads();
    tern_emu_cluster_arrive();
    if (blockIdx.x == 0) {
        tern_emu_cluster_wait();
        tern_emu_mbarrier_arrive(tern_emu_cluster_map(shared, 1));
    } else {
        tern_emu_mbarrier_wait(shared, 0);
        tern_emu_cluster_wait();
    }
    ((int *)args.y)[32 * blockIdx.x + threadIdx.x] = (int)blockIdx.x;
}
extern "C" __global__ void async_cluster_no_arrive(struct tern_args) { tern_emu_cluster_wait(); }
extern "C" __global__ void async_cluster_twice(struct tern_args) {
    tern_emu_cluster_arrive();
    tern_emu_cluster_arrive();
}

// Lane t of each block of a pair sends 16 bytes to the other, which waits for the barrier (wait false: does not) and reads.
__device__ static void sends(const struct tern_args &args, bool wait) {
    unsigned char *shared = (unsigned char *)tern_emu_dynamic_shared();
    const int lane = (int)threadIdx.x, other = 1 - tern_emu_cluster_rank();
    int *mine = (int *)(shared + 16) + lane * 4, *y = (int *)args.y + (blockIdx.x * 32 + lane) * 4;
    if (lane == 0)
        tern_emu_mbarrier_init(shared, 1);
    __syncthreads();
    tern_emu_cluster_sync();
    int value[4];
    for (int i = 0; i < 4; i++)
        value[i] = 1000 * (int)blockIdx.x + 4 * lane + i;
    tern_emu_store_async(tern_emu_cluster_map(mine, other), value, 16, tern_emu_cluster_map(shared, other));
    if (lane == 0)
        tern_emu_mbarrier_arrive_expect(shared, 32 * 16);
    if (wait)
        tern_emu_mbarrier_wait(shared, 0);
    for (int i = 0; i < 4; i++)
        y[i] = mine[i];
}
extern "C" __global__ void async_store(struct tern_args args) { sends(args, true); }
extern "C" __global__ void async_store_no_wait(struct tern_args args) { sends(args, false); }
extern "C" __global__ void async_store_askew(struct tern_args) {
    unsigned char *shared = (unsigned char *)tern_emu_dynamic_shared();
    tern_emu_mbarrier_init(shared, 1);
    tern_emu_store_async(shared + 24, shared, 16, shared);
}

// Dependent launches, blocks of one thread: y[0] is what was x before the wait, y[1] after it; y[2] is written before it, y[3] behind.
static __device__ void depend(struct tern_args args, bool wait) {
    volatile unsigned *y = (volatile unsigned *)args.y + 4 * blockIdx.x;
    const volatile unsigned *x = (const volatile unsigned *)args.x;
    const unsigned before = x[blockIdx.x];
    y[2] = 5;
    if (wait)
        tern_emu_dependency_wait();
    y[0] = before;
    y[1] = x[blockIdx.x];
    y[3] = 6;
}
extern "C" __global__ void async_late(struct tern_args args) { depend(args, true); }
extern "C" __global__ void async_late_no_wait(struct tern_args args) { depend(args, false); }
