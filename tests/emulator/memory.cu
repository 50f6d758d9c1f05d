// Emulator tests of memory: writes and reads outside, division by zero, misaligned vectors, elements nobody wrote, NaN, stacks.
#include "tern/abi.h"
#include "tern/memory.cuh"

extern "C" __global__ void memory_good(struct tern_args args) { ((int *)args.y)[blockIdx.x * blockDim.x + threadIdx.x] = 3; }

extern "C" __global__ void memory_write_behind(struct tern_args args) {
    ((int *)args.y)[args.m + (threadIdx.x == 31 ? 0 : -1)] = 3; // m elements: one behind the end
}

extern "C" __global__ void memory_write_far(struct tern_args args) { ((int *)args.y)[args.m + 1024 + threadIdx.x] = 3; }

extern "C" __global__ void memory_read_far(struct tern_args args) {
    ((int *)args.y)[threadIdx.x] = ((const int *)args.x)[args.k + 64 + threadIdx.x];
}

extern "C" __global__ void memory_write_before(struct tern_args args) { ((int *)args.y)[-1 - (int)threadIdx.x] = 3; }

extern "C" __global__ void memory_null(struct tern_args args) { ((int *)args.y)[0] = *(const volatile int *)args.zeros; }

extern "C" __global__ void memory_divide(struct tern_args args) {
    volatile int zero = 0;
    ((int *)args.y)[threadIdx.x] = 7 / zero;
}

extern "C" __global__ void memory_shared_behind(struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    shared[tern_emu_dynamic_shared_bytes()] = 1;
    ((int *)args.y)[threadIdx.x] = 0;
}

extern "C" __global__ void memory_misaligned(struct tern_args args) {
    ((uint4 *)args.y)[0] = tern_shared_load_16((const char *)tern_emu_dynamic_shared() + 4);
}

extern "C" __global__ void memory_trap(struct tern_args args) {
    if (threadIdx.x == 3)
        __trap();
}

static volatile int depth_sink;
static int recurse(int n) {
    volatile char room[512];
    room[n & 511] = (char)n;
    return n == 0 ? 0 : recurse(n - 1) + room[n & 511];
}
extern "C" __global__ void memory_stack(struct tern_args args) { ((int *)args.y)[0] = recurse(1 << 20) + depth_sink; }

// Static and dynamic shared memory of the next block must not show what this one left.
extern "C" __global__ void memory_shared_poison(struct tern_args args) {
    TERN_SHARED_DYNAMIC(shared);
    __shared__ unsigned still[4];
    unsigned *words = (unsigned *)shared;
    ((unsigned *)args.y)[2 * blockIdx.x] = still[1];
    ((unsigned *)args.y)[2 * blockIdx.x + 1] = words[1];
    still[1] = words[1] = 42;
}
