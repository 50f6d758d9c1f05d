// Ceiling probes: the fastest reads and the fastest matrix products of a device, and an empty kernel. See kernels.h.
// Reads sum what they read, so that a caller can tell that every byte came; products count their steps. Operands are random:
// on zeros the multipliers hardly switch, the clock stays higher, and the rate is one that no real product reaches.
#include "kernels.h"
#if TERN_PROBE == TERN_PROBE_READ || TERN_PROBE == TERN_PROBE_COPY
#include "tern/memory.cuh"
#elif TERN_PROBE == TERN_PROBE_BULK
#include "tern/bulk.cuh"
#endif

#if TERN_PROBE == TERN_PROBE_EMPTY

extern "C" __global__ void __launch_bounds__(1024) tern_probe(tern_probe_args) {}

#elif TERN_PROBE == TERN_PROBE_READ || TERN_PROBE == TERN_PROBE_COPY

// Each round a thread starts TERN_PROBE_UNROLL loads before it uses the first; neighbours read neighbouring words.
extern "C" __global__ void __launch_bounds__(1024) tern_probe(tern_probe_args a) {
    const uint4 *data = (const uint4 *)a.data;
    long long threads = (long long)gridDim.x * blockDim.x;
    unsigned int sum = 0;
#pragma unroll 1
    for (long long base = (long long)blockIdx.x * blockDim.x + threadIdx.x; base < a.count;
         base += threads * TERN_PROBE_UNROLL) {
        uint4 value[TERN_PROBE_UNROLL];
        if (base + (TERN_PROBE_UNROLL - 1) * threads < a.count) {
#pragma unroll
            for (int i = 0; i < TERN_PROBE_UNROLL; i++)
                value[i] = tern_load_stream_16(data + base + i * threads);
        } else {
#pragma unroll
            for (int i = 0; i < TERN_PROBE_UNROLL; i++) {
                value[i] = make_uint4(0, 0, 0, 0);
                tern_load_stream_16_if(&value[i].x, data + base + i * threads, base + i * threads < a.count);
            }
        }
#pragma unroll
        for (int i = 0; i < TERN_PROBE_UNROLL; i++)
#if TERN_PROBE == TERN_PROBE_COPY
            if (base + i * threads < a.count)
                ((uint4 *)a.to)[base + i * threads] = value[i];
#else
            sum += value[i].x + value[i].y + value[i].z + value[i].w;
#endif
    }
    if (a.check)
        atomicAdd(a.result, sum);
}

#elif TERN_PROBE == TERN_PROBE_BULK

// Ring of shared-memory stages filled by bulk copies of one chunk each; block b reads chunks b, b + grid, ...
constexpr int STAGES = 5, THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS) tern_probe(tern_probe_args a) {
    __shared__ __align__(128) unsigned char stage[STAGES][TERN_PROBE_CHUNK];
    __shared__ __align__(8) unsigned long long full[STAGES];
    const unsigned char *data = (const unsigned char *)a.data;
    long long chunks = a.count * 16 / TERN_PROBE_CHUNK, first = blockIdx.x, grid = gridDim.x;
    unsigned int sum = 0;
    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; s++) {
            tern_barrier_init(&full[s], 1);
            if (first + s * grid < chunks) {
                tern_barrier_arrive_expect(&full[s], TERN_PROBE_CHUNK);
                tern_bulk_copy(stage[s], data + (first + s * grid) * TERN_PROBE_CHUNK, TERN_PROBE_CHUNK, &full[s]);
            }
        }
    __syncthreads();
    int s = 0, parity = 0;
    for (long long chunk = first; chunk < chunks; chunk += grid) {
        tern_barrier_wait(&full[s], parity);
        if (a.check)
            for (int i = threadIdx.x; i < TERN_PROBE_CHUNK / 4; i += THREADS)
                sum += ((const unsigned int *)stage[s])[i];
        __syncthreads(); // nobody reads the stage any more
        if (threadIdx.x == 0 && chunk + STAGES * grid < chunks) {
            tern_barrier_arrive_expect(&full[s], TERN_PROBE_CHUNK);
            tern_bulk_copy(stage[s], data + (chunk + STAGES * grid) * TERN_PROBE_CHUNK, TERN_PROBE_CHUNK, &full[s]);
        }
        s = s + 1 == STAGES ? 0 : s + 1;
        parity ^= s == 0;
    }
    if (a.check)
        atomicAdd(a.result, sum);
}

#else // matrix probes

static __device__ unsigned int scramble(unsigned int x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

// Two or four random operands in a word: random sign and mantissa, one of four exponents near 1; s8: any value.
static __device__ unsigned int operand(unsigned int seed) {
    unsigned int bits = scramble(seed);
#if TERN_PROBE_TYPE == TERN_PROBE_F16
    return (bits & 0x8fff8fffu) | 0x30003000u;
#elif TERN_PROBE_TYPE == TERN_PROBE_BF16
    return (bits & 0x81ff81ffu) | 0x3e003e00u;
#elif TERN_PROBE_TYPE == TERN_PROBE_E4M3
    return (bits & 0x9f9f9f9fu) | 0x20202020u;
#else
    return bits;
#endif
}

#if TERN_PROBE_TYPE == TERN_PROBE_S8
typedef int accumulator;
#define INOUT "+r"
#define BITS(value) ((unsigned int)(value))
#else
typedef float accumulator;
#define INOUT "+f"
#define BITS(value) __float_as_uint(value)
#endif

// Sums of results keep the products alive; `done` proves that they were issued.
template <int N> static __device__ void finish(const tern_probe_args &a, const accumulator (&d)[N], long long steps) {
    if (a.check) {
        unsigned int sum = 0;
        for (int i = 0; i < N; i++)
            sum += BITS(d[i]);
        atomicAdd(a.result, sum);
    }
    if (threadIdx.x == 0)
        atomicAdd(a.result + 1, (unsigned int)steps);
}

#if TERN_PROBE == TERN_PROBE_MMA

#if TERN_PROBE_TYPE == TERN_PROBE_F16
#define SHAPE "m16n8k16.row.col.f32.f16.f16.f32"
#define MIN_ARCH 800
#elif TERN_PROBE_TYPE == TERN_PROBE_BF16
#define SHAPE "m16n8k16.row.col.f32.bf16.bf16.f32"
#define MIN_ARCH 800
#elif TERN_PROBE_TYPE == TERN_PROBE_S8
#define SHAPE "m16n8k32.row.col.s32.s8.s8.s32"
#define MIN_ARCH 800
#else
#define SHAPE "m16n8k32.row.col.f32.e4m3.e4m3.f32"
#define MIN_ARCH 890
#endif

// A step is eight products on accumulators of their own: two A fragments times four B fragments, no two in a row alike.
extern "C" __global__ void __launch_bounds__(512) tern_probe(tern_probe_args a) {
#if __CUDA_ARCH__ >= MIN_ARCH
    unsigned int seed = (blockIdx.x * blockDim.x + threadIdx.x) * 16, x[2][4], w[4][2];
    accumulator d[32];
    for (int i = 0; i < 8; i++) {
        x[i / 4][i % 4] = operand(seed + i);
        w[i / 2][i % 2] = operand(seed + 8 + i);
    }
#pragma unroll
    for (int i = 0; i < 32; i++)
        d[i] = 0;
    long long step = 0;
#pragma unroll 4
    for (; step < a.count; step++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            asm volatile("mma.sync.aligned." SHAPE " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : INOUT(d[4 * i]), INOUT(d[4 * i + 1]), INOUT(d[4 * i + 2]), INOUT(d[4 * i + 3])
                         : "r"(x[i % 2][0]), "r"(x[i % 2][1]), "r"(x[i % 2][2]), "r"(x[i % 2][3]), "r"(w[i / 2][0]),
                           "r"(w[i / 2][1]));
    finish(a, d, step);
#endif
}

#else // wgmma

#if TERN_PROBE_TYPE == TERN_PROBE_F16
#define SHAPE "m64n256k16.f32.f16.f16"
#define TAIL ", 1, 1, 0"
#define TAIL_SHARED ", 1, 1, 0, 0"
#elif TERN_PROBE_TYPE == TERN_PROBE_BF16
#define SHAPE "m64n256k16.f32.bf16.bf16"
#define TAIL ", 1, 1, 0"
#define TAIL_SHARED ", 1, 1, 0, 0"
#elif TERN_PROBE_TYPE == TERN_PROBE_S8
#define SHAPE "m64n256k32.s32.s8.s8"
#define TAIL ""
#define TAIL_SHARED ""
#else
#define SHAPE "m64n256k32.f32.e4m3.e4m3"
#define TAIL ", 1, 1"
#define TAIL_SHARED ", 1, 1"
#endif

// The 128 accumulators of a thread as operands %0 to %127.
// clang-format off
#define OUT_4(i)   INOUT(d[i]), INOUT(d[(i) + 1]), INOUT(d[(i) + 2]), INOUT(d[(i) + 3])
#define OUT_16(i)  OUT_4(i), OUT_4((i) + 4), OUT_4((i) + 8), OUT_4((i) + 12)
#define OUT_64(i)  OUT_16(i), OUT_16((i) + 16), OUT_16((i) + 32), OUT_16((i) + 48)
#define OUT_128    OUT_64(0), OUT_64(64)
#define TEXT_128 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
    ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
    ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
    ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
// clang-format on

// Rows of 128 bytes, 128-byte swizzle, groups of 8 rows 1024 bytes apart; the next k of an instruction is 32 bytes on.
static __device__ unsigned long long descriptor(const void *shared) {
    return 0x4000004000010000ull | ((unsigned int)__cvta_generic_to_shared(shared) >> 4);
}

// Keeps the compiler from moving uses of accumulators over a wait, which it would answer by serialising the products.
static __device__ __forceinline__ void pin(accumulator (&d)[128]) {
#pragma unroll
    for (int i = 0; i < 128; i++)
        asm volatile("" : INOUT(d[i]) : : "memory");
}

// A step is four products of each warpgroup: one 128-byte wide tile of B (256 rows) and of A (64 rows).
extern "C" __global__ void __launch_bounds__(256) tern_probe(tern_probe_args a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ __align__(1024) unsigned int b_tile[256 * 32];
    unsigned int seed = blockIdx.x * 16384 + threadIdx.x;
    for (int i = threadIdx.x; i < 256 * 32; i += blockDim.x)
        b_tile[i] = operand(seed + i);
#if TERN_PROBE == TERN_PROBE_WGMMA_SHARED
    __shared__ __align__(1024) unsigned int a_tile[64 * 32];
    for (int i = threadIdx.x; i < 64 * 32; i += blockDim.x)
        a_tile[i] = operand(seed + 8192 + i);
    unsigned long long x = descriptor(a_tile);
#else
    unsigned int x[2][4];
    for (int i = 0; i < 8; i++)
        x[i / 4][i % 4] = operand(seed + 8192 + 256 * i);
#endif
    accumulator d[128];
#pragma unroll
    for (int i = 0; i < 128; i++)
        d[i] = 0;
    pin(d);
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); // the tiles were written by plain stores
    __syncthreads();
    unsigned long long w = descriptor(b_tile);
    long long step = 0;
#pragma unroll 1
    for (; step < a.count; step++) {
        asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
#pragma unroll
        for (int i = 0; i < 4; i++) {
#if TERN_PROBE == TERN_PROBE_WGMMA_SHARED
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned." SHAPE " {" TEXT_128
                         "}, %128, %129, p" TAIL_SHARED ";\n}"
                         : OUT_128
                         : "l"(x + 2 * i), "l"(w + 2 * i));
#else
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned." SHAPE " {" TEXT_128
                         "}, {%128, %129, %130, %131}, %132, p" TAIL ";\n}"
                         : OUT_128
                         : "r"(x[i % 2][0]), "r"(x[i % 2][1]), "r"(x[i % 2][2]), "r"(x[i % 2][3]), "l"(w + 2 * i));
#endif
        }
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" : : : "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
    pin(d);
    finish(a, d, step);
#endif
}

#endif
#endif
