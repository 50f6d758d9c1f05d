// wgmma of e4m3 numbers: d[64 x N] (+)= a[64 x 32] * b[32 x N]. Operands lie as those of wgmma_s8.cuh, d is binary32. The tensor
// cores keep fewer bits of it while they add: who wants those of binary32 adds up short runs (docs/kernels/a8.md). Owns
// nothing.
#ifndef TERN_WGMMA_E4M3_CUH
#define TERN_WGMMA_E4M3_CUH

#include "tern/wgmma.cuh"

// N columns: a multiple of 32 up to 192, or 144. accumulate false: d = a * b.
template <int N> struct tern_wgmma_e4m3;

#ifdef TERN_EMULATOR
template <int N> struct tern_wgmma_e4m3 {
    static inline void multiply(float (&d)[N / 2], const unsigned (&a)[4], unsigned long long b, bool accumulate) {
        tern_emu_wgmma_issue(d, N, a, b, accumulate, TERN_EMU_WGMMA_E4M3);
    }
};
#else
// clang-format off
#define TERN_WGMMA_E4M3_DEFINE(N, COUNT, A0, A1, A2, A3, B, P)                                                               \
    template <> struct tern_wgmma_e4m3<N> {                                                                                  \
        static __device__ __forceinline__ void multiply(float (&d)[COUNT], const unsigned (&a)[4], unsigned long long b,     \
                                                        bool accumulate) {                                                   \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\n"                                                    \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" TERN_WGMMA_TEXT_##COUNT "}, "          \
                         "{%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", p, 1, 1;\n}"                                    \
                         : TERN_WGMMA_OUT_##COUNT                                                                            \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)accumulate));                        \
        }                                                                                                                    \
    };
TERN_WGMMA_E4M3_DEFINE(64, 32, 32, 33, 34, 35, 36, 37)
TERN_WGMMA_E4M3_DEFINE(96, 48, 48, 49, 50, 51, 52, 53)
TERN_WGMMA_E4M3_DEFINE(128, 64, 64, 65, 66, 67, 68, 69)
TERN_WGMMA_E4M3_DEFINE(144, 72, 72, 73, 74, 75, 76, 77)
TERN_WGMMA_E4M3_DEFINE(160, 80, 80, 81, 82, 83, 84, 85)
TERN_WGMMA_E4M3_DEFINE(192, 96, 96, 97, 98, 99, 100, 101)
#undef TERN_WGMMA_E4M3_DEFINE
// clang-format on
#endif

#endif
