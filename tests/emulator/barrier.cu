// Emulator tests of barriers: a good one, a divergent one, threads that leave early, and a race that the order of threads shows.
// Each entry takes tern_args; y is an int array of m elements.
#include "tern/abi.h"

extern "C" __global__ void barrier_good(struct tern_args args) {
    __shared__ int ring[64];
    int *y = (int *)args.y, i = threadIdx.x;
    ring[i] = 100 + i;
    __syncthreads();
    y[blockIdx.x * blockDim.x + i] = ring[(i + 1) % 64] + __syncthreads_count(i < 10);
}

extern "C" __global__ void barrier_divergent(struct tern_args args) {
    int *y = (int *)args.y, i = threadIdx.x;
    if (i % 2 == 0) {
        __syncthreads();
    } else {
        y[i] = 1;
        __syncthreads();
    }
    y[i] = i;
}

extern "C" __global__ void barrier_exited(struct tern_args args) {
    int *y = (int *)args.y, i = threadIdx.x;
    if (i == 5)
        return;
    __syncthreads();
    y[i] = i;
}

extern "C" __global__ void barrier_missing(struct tern_args args) {
    __shared__ int ring[64];
    int *y = (int *)args.y, i = threadIdx.x;
    ring[i] = 100 + i;
    y[i] = ring[(i + 1) % 64]; // a race: the barrier is missing
}

extern "C" __global__ void barrier_named(struct tern_args args) {
    __shared__ int box[64];
    int *y = (int *)args.y, i = threadIdx.x;
    if (i < 32) { // producer: arrives and goes on
        box[i] = 7 * i;
        tern_emu_barrier_arrive(1, 64);
        y[i] = 1;
    } else {
        tern_emu_barrier_sync(1, 64);
        y[i] = box[i - 32];
    }
}

extern "C" __global__ void barrier_spin(struct tern_args args) {
    int *y = (int *)args.y;
    if (threadIdx.x == 0)
        while (*(volatile int *)args.workspace != 12345) // nobody sets it
            tern_emu_yield();
    y[threadIdx.x] = 0;
}

extern "C" __global__ void barrier_diverged_warp(struct tern_args args) {
    int *y = (int *)args.y, i = threadIdx.x;
    if (i % 32 < 16)
        y[i] = __shfl_sync(0xFFFFFFFFu, i, 0);
    else
        y[i] = __shfl_xor_sync(0xFFFFFFFFu, i, 1);
}
