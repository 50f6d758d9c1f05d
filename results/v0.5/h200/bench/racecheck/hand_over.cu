// Does racecheck know the order that __syncwarp and one lane's arrival at an mbarrier give? One block, two warps: warp 0 stores 32 values, arrives, warp 1 waits and reads them.
// FORM 0: __syncwarp, lane 0 arrives (count 1). 1: every lane arrives (count 32). 2: lane 0 arrives without __syncwarp (a true race of the other 31).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
template <int FORM> __global__ void hand_over(int *out, int rounds) {
    __shared__ int value[32];
    __shared__ alignas(8) uint64_t full, empty;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto at = [](uint64_t *b) { return (uint32_t)__cvta_generic_to_shared(b); };
    auto arrive = [&](uint64_t *b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(b)) : "memory"); };
    auto wait = [&](uint64_t *b, uint32_t parity) {
        asm volatile("{\n.reg .pred p;\nW%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra W%=;\n}" ::"r"(at(b)), "r"(parity) : "memory");
    };
    const uint32_t count = FORM == 1 ? 32 : 1;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(&full)), "r"(count) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(&empty)), "r"(count) : "memory");
    }
    __syncthreads();
    for (int i = 0; i < rounds; i++) {
        if (warp == 0) {
            if (i > 0) wait(&empty, (i - 1) & 1);
            value[lane] = lane + i;
            if (FORM == 0) __syncwarp();
            if (FORM == 1 || lane == 0) arrive(&full);
        } else {
            wait(&full, i & 1);
            out[i * 32 + lane] = value[31 - lane];
            if (FORM == 0) __syncwarp();
            if (FORM == 1 || lane == 0) arrive(&empty);
        }
    }
}
int main(int argc, char **argv) {
    int form = atoi(argv[1]), rounds = 4, *out, host[128], bad = 0;
    cudaMalloc(&out, sizeof host);
    if (form == 0) hand_over<0><<<1, 64>>>(out, rounds);
    if (form == 1) hand_over<1><<<1, 64>>>(out, rounds);
    if (form == 2) hand_over<2><<<1, 64>>>(out, rounds);
    cudaError_t e = cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 128; i++) bad += host[i] != 31 - i % 32 + i / 32;
    printf("form %d: %s, %d of 128 wrong\n", form, cudaGetErrorString(e), bad);
}
