// Emulator tests of warp collectives: shuffles, votes, reductions, ldmatrix and mma against plain loops, half arithmetic.
#include "tern/abi.h"
#include "tern/mma.cuh"

// y[i*8 + j]: result j of lane i.
extern "C" __global__ void warp_shuffles(struct tern_args args) {
    int i = threadIdx.x, *y = (int *)args.y + 8 * i;
    y[0] = __shfl_sync(0xFFFFFFFFu, 10 * i, 3);
    y[1] = __shfl_xor_sync(0xFFFFFFFFu, 10 * i, 5);
    y[2] = __shfl_down_sync(0xFFFFFFFFu, 10 * i, 4);
    y[3] = __shfl_up_sync(0xFFFFFFFFu, 10 * i, 4);
    y[4] = __shfl_sync(0xFFFFFFFFu, 10 * i, 1, 8);
    y[5] = (int)__ballot_sync(0xFFFFFFFFu, i % 3 == 0);
    y[6] = __any_sync(0xFFFFFFFFu, i == 31) + 2 * __all_sync(0xFFFFFFFFu, i < 31);
    y[7] = i < 16 ? __reduce_add_sync(0x0000FFFFu, i) : __reduce_max_sync(0xFFFF0000u, i);
}

// x: A as [16][16], codes: B as [8][16] (column major), y: [16][8] floats.
template <int BF16> static void mma_16(const struct tern_args &args) {
    const unsigned short *a = (const unsigned short *)args.x, *b = (const unsigned short *)args.codes;
    int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    unsigned fa[4], fb[2];
    for (int r = 0; r < 4; r++) {
        int row = g + 8 * (r % 2), k = 2 * t + 8 * (r / 2);
        fa[r] = a[row * 16 + k] | (unsigned)a[row * 16 + k + 1] << 16;
    }
    for (int r = 0; r < 2; r++)
        fb[r] = b[g * 16 + 2 * t + 8 * r] | (unsigned)b[g * 16 + 2 * t + 8 * r + 1] << 16;
    float c[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    tern_mma_16<BF16>(c, fa, fb[0], fb[1]);
    for (int i = 0; i < 4; i++)
        ((float *)args.y)[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = c[i];
}

extern "C" __global__ void warp_mma_f16(struct tern_args args) {
    mma_16<0>(args);
}
extern "C" __global__ void warp_mma_bf16(struct tern_args args) {
    mma_16<1>(args);
}

// x: A as [16][32] bytes, codes: B as [8][32] bytes (column major), y: [16][8] ints.
template <bool SIGNED> static void mma_8(const struct tern_args &args) {
    int lane = threadIdx.x, g = lane / 4, t = lane % 4, c[4] = {5, 5, 5, 5};
    unsigned fa[4], fb[2];
    for (int r = 0; r < 4; r++)
        memcpy(&fa[r], (const char *)args.x + (g + 8 * (r % 2)) * 32 + 4 * t + 16 * (r / 2), 4);
    for (int r = 0; r < 2; r++)
        memcpy(&fb[r], (const char *)args.codes + g * 32 + 4 * t + 16 * r, 4);
    tern_mma_s8<SIGNED>(c, fa, fb[0], fb[1]);
    for (int i = 0; i < 4; i++)
        ((int *)args.y)[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = c[i];
}
extern "C" __global__ void warp_mma_u8(struct tern_args args) {
    mma_8<false>(args);
}
extern "C" __global__ void warp_mma_s8(struct tern_args args) {
    mma_8<true>(args);
}

// x: [16][16] halves; y[lane*4 + j] the words of ldmatrix.x4: an mma A fragment.
extern "C" __global__ void warp_ldmatrix(struct tern_args args) {
    __shared__ __align__(16) unsigned short tile[16 * 16];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32)
        tile[i] = ((const unsigned short *)args.x)[i];
    __syncwarp();
    unsigned out[4];
    tern_ldmatrix_x4(out, tile + (lane % 16) * 16 + 8 * (lane / 16));
    for (int j = 0; j < 4; j++)
        ((unsigned *)args.y)[lane * 4 + j] = out[j];
}

// One thread: x holds triples of halves a, b, c; y gets a+b, a-b, a*b, a*b+c (m triples), each rounded once.
extern "C" __global__ void warp_half(struct tern_args args) {
    const __half *x = (const __half *)args.x;
    __half *y = (__half *)args.y;
    for (long long i = threadIdx.x; i < args.m; i += blockDim.x) {
        __half a = x[3 * i], b = x[3 * i + 1], c = x[3 * i + 2];
        y[4 * i] = __hadd(a, b);
        y[4 * i + 1] = __hsub(a, b);
        __half2 r = __hmul2(__halves2half2(a, b), __halves2half2(b, a));
        y[4 * i + 2] = __low2half(r);
        y[4 * i + 3] = __high2half(__hfma2(__half2half2(a), __half2half2(b), __halves2half2(a, c)));
    }
}

// Integer intrinsics with known answers.
extern "C" __global__ void warp_integers(struct tern_args args) {
    int *y = (int *)args.y;
    if (threadIdx.x != 0)
        return;
    y[0] = __popc(0xF0F0F0F0u);
    y[1] = __ffs(0x80);
    y[2] = __clz(1);
    y[3] = (int)__byte_perm(0x33221100u, 0x77665544u, 0x7150u);
    y[4] = __dp4a(0x01FF0203, 0x04050607, 10); // 1*4 - 1*5 + 2*6 + 3*7 + 10
    y[5] = (int)__funnelshift_r(0x89ABCDEFu, 0x01234567u, 8);
    y[6] = (int)__brev(1u);
    y[7] = (int)__dp4a(0x01FF0203u, 0x04050607u, 10u); // 4 + 255*5 + 12 + 21 + 10
    y[8] = max(min(5, 3), -1);
    atomicAdd(y + 9, 5); // y[9] starts as the host left it
    y[10] = atomicCAS(y + 9, 12, 99);
}
