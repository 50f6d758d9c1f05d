// wgmma of bytes: d[64 x N] (+)= a[64 x 32] * b[32 x N], s8 times s8 with s32 sums, exact below 2^31. Fences, commits, waits and
// the swizzle of B are those of wgmma.cuh: 32 k are 32 bytes of a row of 128, so steps lie as far apart as k-steps of 16
// halves. Owns nothing.
//
// Lane 4*g + t of a warp holds four k a register, the lowest in the low byte:
//   a[0] row g, k 4t..4t+3; a[1] row g+8, same k; a[2] row g, k 16+4t..; a[3] row g+8
//   d as in wgmma.cuh
#ifndef TERN_WGMMA_S8_CUH
#define TERN_WGMMA_S8_CUH

#include "tern/wgmma.cuh"

// N columns: a multiple of 32 up to 256, or 144. accumulate false: d = a * b.
template <int N> struct tern_wgmma_s8;

// As for sums of floats: nothing that reads the sums may move in front of the wait.
template <int COUNT> __device__ __forceinline__ void tern_wgmma_pin(int (&d)[COUNT]) {
#ifndef TERN_EMULATOR
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+r"(d[i]) : : "memory");
#endif
}

// sum += part * scale (row g, row g + 8), |part| < 2^22. BY_ADDING: an integer added to the bits of 1.5 * 2^23 is added to its
// value, which takes two additions in the place of the conversion instruction; the result is the same.
template <int BY_ADDING, int COUNT>
__device__ __forceinline__ void tern_wgmma_add_scaled(float (&sum)[COUNT], int (&part)[COUNT], float2 scale) {
    tern_wgmma_pin(part);
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        sum[i] = fmaf(i & 2 ? scale.y : scale.x,
                      BY_ADDING ? __int_as_float(part[i] + 0x4B400000) - 12582912.0f : (float)part[i], sum[i]);
}

#ifdef TERN_EMULATOR
template <int N> struct tern_wgmma_s8 {
    static inline void multiply(int (&d)[N / 2], const unsigned (&a)[4], unsigned long long b, bool accumulate) {
        tern_emu_wgmma_issue((float *)(void *)d, N, a, b, accumulate, TERN_EMU_WGMMA_S8);
    }
};
#else
// clang-format off
#define TERN_WGMMA_S8_4(i)   "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define TERN_WGMMA_S8_16(i)  TERN_WGMMA_S8_4(i), TERN_WGMMA_S8_4(i + 4), TERN_WGMMA_S8_4(i + 8), TERN_WGMMA_S8_4(i + 12)
#define TERN_WGMMA_S8_32(i)  TERN_WGMMA_S8_16(i), TERN_WGMMA_S8_16(i + 16)
#define TERN_WGMMA_S8_48(i)  TERN_WGMMA_S8_32(i), TERN_WGMMA_S8_16(i + 32)
#define TERN_WGMMA_S8_64(i)  TERN_WGMMA_S8_32(i), TERN_WGMMA_S8_32(i + 32)
#define TERN_WGMMA_S8_72(i)  TERN_WGMMA_S8_64(i), TERN_WGMMA_S8_4(i + 64), TERN_WGMMA_S8_4(i + 68)
#define TERN_WGMMA_S8_80(i)  TERN_WGMMA_S8_64(i), TERN_WGMMA_S8_16(i + 64)
#define TERN_WGMMA_S8_96(i)  TERN_WGMMA_S8_64(i), TERN_WGMMA_S8_32(i + 64)
#define TERN_WGMMA_S8_112(i) TERN_WGMMA_S8_64(i), TERN_WGMMA_S8_48(i + 64)
#define TERN_WGMMA_S8_128(i) TERN_WGMMA_S8_64(i), TERN_WGMMA_S8_64(i + 64)

#define TERN_WGMMA_S8_DEFINE(N, COUNT, A0, A1, A2, A3, B, P)                                                                 \
    template <> struct tern_wgmma_s8<N> {                                                                                    \
        static __device__ __forceinline__ void multiply(int (&d)[COUNT], const unsigned (&a)[4], unsigned long long b,       \
                                                        bool accumulate) {                                                   \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\n"                                                    \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k32.s32.s8.s8 {" TERN_WGMMA_TEXT_##COUNT "}, "              \
                         "{%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", p;\n}"                                          \
                         : TERN_WGMMA_S8_##COUNT(0)                                                                          \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)accumulate));                        \
        }                                                                                                                    \
    };
TERN_WGMMA_S8_DEFINE(32, 16, 16, 17, 18, 19, 20, 21)
TERN_WGMMA_S8_DEFINE(64, 32, 32, 33, 34, 35, 36, 37)
TERN_WGMMA_S8_DEFINE(96, 48, 48, 49, 50, 51, 52, 53)
TERN_WGMMA_S8_DEFINE(128, 64, 64, 65, 66, 67, 68, 69)
TERN_WGMMA_S8_DEFINE(144, 72, 72, 73, 74, 75, 76, 77)
TERN_WGMMA_S8_DEFINE(160, 80, 80, 81, 82, 83, 84, 85)
TERN_WGMMA_S8_DEFINE(192, 96, 96, 97, 98, 99, 100, 101)
TERN_WGMMA_S8_DEFINE(224, 112, 112, 113, 114, 115, 116, 117)
TERN_WGMMA_S8_DEFINE(256, 128, 128, 129, 130, 131, 132, 133)
#undef TERN_WGMMA_S8_DEFINE
// clang-format on
#endif

#endif
