// A separate, straight measurement of what `tune calibrate` claims: plain CUDA run-time code, one event pair around many
// launches, its own kernels, in the same regime (a graph; operands of random sign and mantissa and four exponents near 1, as
// their switching decides the clock). Shares no code with the harness. Prints "name value" lines: GB/s and TFLOPS.
// Build: nvcc -O3 -arch=sm_90a (or the device's own) -o straight straight.cu
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <unistd.h>
#include <vector>

static cudaStream_t stream;

#define CHECK(call)                                                                                                         \
    do {                                                                                                                    \
        cudaError_t e = (call);                                                                                             \
        if (e != cudaSuccess) {                                                                                             \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e));                                                      \
            exit(1);                                                                                                        \
        }                                                                                                                   \
    } while (0)

// Each block reads one contiguous piece; what it reads is used, so that nothing is left out.
template <int UNROLL> __global__ void read_kernel(const uint4 *from, size_t words, unsigned *sink) {
    size_t piece = (words + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * piece, end = min(begin + piece, words);
    unsigned mix = 0;
    for (size_t i = begin + threadIdx.x; i < end; i += (size_t)blockDim.x * UNROLL) {
        uint4 v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            v[u] = i + (size_t)u * blockDim.x < end ? __ldcs(from + i + (size_t)u * blockDim.x) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            mix ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
    }
    if (mix == 0x9e3779b9u)
        *sink = mix;
}

__global__ void copy_kernel(const uint4 *from, uint4 *to, size_t words) {
    size_t i = (size_t)blockIdx.x * blockDim.x * 2 + threadIdx.x;
    if (i + blockDim.x < words) {
        uint4 a = from[i], b = from[i + blockDim.x];
        to[i] = a, to[i + blockDim.x] = b;
    } else if (i < words) {
        to[i] = from[i];
    }
}

__global__ void fill_kernel(unsigned *at, size_t count) {
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        at[i] = (unsigned)(i * 2654435761u ^ i >> 7);
}

// Random halves near 1, of either sign.
__device__ unsigned halves(unsigned seed) {
    seed = (seed ^ seed >> 15) * 0x2c1b3c6du;
    seed = (seed ^ seed >> 12) * 0x297a2d39u;
    return ((seed ^ seed >> 15) & 0x8fff8fffu) | 0x30003000u;
}

// 16x8x16 products, four independent accumulators a warp.
__global__ void __launch_bounds__(256) mma_kernel(int steps, float *sink) {
    unsigned a[4], b[4][2], seed = (blockIdx.x * blockDim.x + threadIdx.x) * 12;
    float d[4][4] = {};
    for (int i = 0; i < 4; i++)
        a[i] = halves(seed + i), b[i][0] = halves(seed + 4 + 2 * i), b[i][1] = halves(seed + 5 + 2 * i);
    for (int s = 0; s < steps; s++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[i][0]), "r"(b[i][1]));
    if (d[0][0] + d[1][1] + d[2][2] + d[3][3] == 12345.f)
        *sink = d[0][0];
}

// 64x128x16 products, A from registers, B from shared memory (no swizzle: core matrices of 8 rows x 16 bytes).
#define D(i)  "+f"(d[i])
#define D8(i) D(i), D(i + 1), D(i + 2), D(i + 3), D(i + 4), D(i + 5), D(i + 6), D(i + 7)
__global__ void __launch_bounds__(128) wgmma_kernel(int steps, float *sink) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ __align__(128) unsigned b[128 * 8];
    unsigned a[4], seed = blockIdx.x * 2048 + threadIdx.x;
    float d[64] = {};
    for (int i = threadIdx.x; i < 128 * 8; i += blockDim.x)
        b[i] = halves(seed + i);
    for (int i = 0; i < 4; i++)
        a[i] = halves(seed + 1024 + 128 * i);
    __syncthreads();
    asm volatile("fence.proxy.async;" ::: "memory");
    unsigned long long at = (unsigned)__cvta_generic_to_shared(b) >> 4;
    unsigned long long desc = at | (unsigned long long)(128 >> 4) << 16 | (unsigned long long)(256 >> 4) << 32;
    for (int s = 0; s < steps; s += 8) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < 8; i++)
            asm volatile("{ .reg .pred p; setp.eq.b32 p, %69, %69; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                         "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,"
                         "%27,%28,%29,"
                         "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%"
                         "54,%55,%56,%"
                         "57,"
                         "%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, p, 1, 1, 0; }"
                         : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56)
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc), "r"(s));
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    float sum = 0;
    for (int i = 0; i < 64; i++)
        sum += d[i];
    if (sum == 12345.f)
        *sink = sum;
#endif
}

// Best over ways of the median of `repeats` timings of a graph of `launches` launches behind one that is not timed; way(i)
// enqueues so many launches and returns false when there is no i.
template <typename Way> static float best_us(int launches, int repeats, int idle_ms, Way way) {
    cudaEvent_t from, to;
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    float best = 1e30f;
    for (int w = 0;; w++) {
        cudaGraph_t graph;
        cudaGraphExec_t replay;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
        bool there = way(w, launches);
        CHECK(cudaStreamEndCapture(stream, &graph));
        if (!there)
            break;
        CHECK(cudaGraphInstantiate(&replay, graph, 0));
        std::vector<float> ms(repeats);
        for (float &t : ms) {
            if (idle_ms)
                usleep(idle_ms * 1000);
            CHECK(cudaGraphLaunch(replay, stream));
            CHECK(cudaEventRecord(from, stream));
            CHECK(cudaGraphLaunch(replay, stream));
            CHECK(cudaEventRecord(to, stream));
            CHECK(cudaEventSynchronize(to));
            CHECK(cudaEventElapsedTime(&t, from, to));
        }
        std::sort(ms.begin(), ms.end());
        best = std::min(best, ms[repeats / 2] * 1e3f / launches);
        CHECK(cudaGraphExecDestroy(replay));
        CHECK(cudaGraphDestroy(graph));
    }
    CHECK(cudaGetLastError());
    return best;
}

int main() {
    const size_t mib = 1 << 20, pool_bytes = 2048 * mib;
    char *pool;
    float *sink;
    cudaDeviceProp prop;
    CHECK(cudaGetDeviceProperties(&prop, 0));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&pool, pool_bytes));
    CHECK(cudaMalloc(&sink, 64));
    fill_kernel<<<prop.multiProcessorCount * 8, 256, 0, stream>>>((unsigned *)pool, pool_bytes / 4);
    CHECK(cudaDeviceSynchronize());
    const int sms = prop.multiProcessorCount, waves[] = {2, 4, 8, 16, 64};
    for (size_t size : {32 * mib, 128 * mib, 512 * mib, 1024 * mib}) {
        size_t turn = 0, copies = pool_bytes / size, words = size / 16;
        float us = best_us((int)std::max<size_t>(copies, 24), 9, 0, [&](int w, int launches) {
            if (w >= 10)
                return false;
            for (int i = 0; i < launches; i++, turn++) {
                const uint4 *from = (const uint4 *)(pool + turn % copies * size);
                if (w < 5)
                    read_kernel<4><<<sms * waves[w], 512, 0, stream>>>(from, words, (unsigned *)sink);
                else
                    read_kernel<8><<<sms * waves[w - 5], 256, 0, stream>>>(from, words, (unsigned *)sink);
            }
            return true;
        });
        printf("read/%zu %.1f\n", size / mib, size / us * 1e-3);
    }
    const size_t half = pool_bytes / 2;
    float us = best_us(6, 7, 0, [&](int w, int launches) {
        for (int i = 0; i < launches && w < 2; i++) {
            char *from = pool + i % 2 * half, *to = pool + (i + 1) % 2 * half;
            if (w == 0)
                CHECK(cudaMemcpyAsync(to, from, half, cudaMemcpyDeviceToDevice, stream));
            else
                copy_kernel<<<(unsigned)(half / 16 / 512), 256, 0, stream>>>((const uint4 *)from, (uint4 *)to, half / 16);
        }
        return w < 2;
    });
    printf("copy %.1f\n", 2.0 * half / us * 1e-3);
    us = best_us(1, 9, 40, [&](int w, int launches) {
        for (int i = 0; i < launches && w < 3; i++)
            mma_kernel<<<sms *(w + 1) * 2, 256, 0, stream>>>(6000 / (w + 1), sink);
        return w < 3;
    });
    // A launch of way w has 2 (w + 1) blocks of 8 warps on each multiprocessor, and steps that divide 6000 evenly.
    printf("mma-f16 %.1f\n", 2.0 * sms * 8 * 6000 * 4 * 2 * 16 * 8 * 16 / us * 1e-6);
    if (prop.major != 9)
        return 0;
    us = best_us(1, 9, 40, [&](int w, int launches) {
        for (int i = 0; i < launches && w < 3; i++)
            wgmma_kernel<<<sms *(w + 1) * 2, 128, 0, stream>>>(6000 / (w + 1), sink);
        return w < 3;
    });
    printf("wgmma-f16 %.1f\n", 2.0 * sms * 6000 * 2 * 64 * 128 * 16 / us * 1e-6);
    return 0;
}
