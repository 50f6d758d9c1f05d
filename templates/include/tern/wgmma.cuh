// Warpgroup matrix multiply (wgmma, sm_90a): A in registers, B in shared memory by descriptor, fp32 accumulators in
// registers. Owns nothing. A warpgroup is four warps from a multiple of four on; all 128 threads call each function.
//
// d[64 x N] (+)= a[64 x 16] * b[16 x N]. Warp w of the warpgroup owns rows 16*w..16*w+15; inside them lane 4*g + t holds
//   a[0] row g, k 2t..2t+1; a[1] row g+8, same k; a[2] row g, k 2t+8..2t+9; a[3] row g+8 (as in mma.m16n8k16)
//   d[4*i], d[4*i+1] row g, columns 8*i+2t, 8*i+2t+1; d[4*i+2], d[4*i+3] row g+8
// B is K-major: rows of 64 k (128 bytes) a column of B, 16-byte chunk c of row r at chunk c ^ (r % 8): the 128-byte swizzle.
//
// Order of use: write A registers, tern_wgmma_pin them, tern_wgmma_fence, products, tern_wgmma_commit, tern_wgmma_wait. A
// registers and d must not be touched between the fence and the wait that covers the product. The pin keeps the compiler
// from moving work past the fence, which it would answer by serialising the products (ptxas C7519, C7520).
#ifndef TERN_WGMMA_CUH
#define TERN_WGMMA_CUH

#ifdef TERN_EMULATOR
#include "tern/wgmma_emu.cuh"
#endif

// At the start of the kernel, before any other function of this file.
__device__ __forceinline__ void tern_wgmma_start() {
#ifdef TERN_EMULATOR
    tern_emu_wgmma_reset();
#endif
}

__device__ __forceinline__ void tern_wgmma_pin(unsigned &a) {
#ifndef TERN_EMULATOR
    asm volatile("" : "+r"(a) : : "memory");
#endif
}

template <int STEPS> __device__ __forceinline__ void tern_wgmma_pin(unsigned (&a)[STEPS][4]) {
#pragma unroll
    for (int i = 0; i < 4 * STEPS; i++)
        tern_wgmma_pin(a[i / 4][i % 4]);
}

// The same for accumulators that are read after the wait, the first USED of them or all: nothing of the reading may move in front of it.
template <int USED = 0, int COUNT> __device__ __forceinline__ void tern_wgmma_pin(float (&d)[COUNT]) {
#ifndef TERN_EMULATOR
#pragma unroll
    for (int i = 0; i < (USED > 0 ? USED : COUNT); i++)
        asm volatile("" : "+f"(d[i]) : : "memory");
#endif
}

// sum += part * scale (row g, row g + 8), for a part whose products have been waited for.
template <int COUNT>
__device__ __forceinline__ void tern_wgmma_add_scaled(float (&sum)[COUNT], float (&part)[COUNT], float2 scale) {
    tern_wgmma_pin(part);
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        sum[i] += (i & 2 ? scale.y : scale.x) * part[i];
}

__device__ __forceinline__ void tern_wgmma_fence() {
#ifndef TERN_EMULATOR
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
#endif
}

// Closes the group of products issued since the last commit.
__device__ __forceinline__ void tern_wgmma_commit() {
#ifdef TERN_EMULATOR
    tern_emu_wgmma_self()->group++;
#else
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
#endif
}

// Waits until at most PENDING groups are unfinished.
template <int PENDING> __device__ __forceinline__ void tern_wgmma_wait() {
#ifdef TERN_EMULATOR
    tern_emu_wgmma_wait(PENDING);
#else
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(PENDING) : "memory");
#endif
}

// Low word of the descriptor of a B tile at `shared` (its rows from a 1024-byte boundary on): the start address in 16 bytes.
// Steps of 16 k are 2 further on, rows of 64 k as many as their bytes / 16.
__device__ __forceinline__ unsigned tern_wgmma_start_address(const void *shared) {
#ifdef TERN_EMULATOR
    return (unsigned)((const unsigned char *)shared - (const unsigned char *)tern_emu_dynamic_shared()) >> 4;
#else
    return (unsigned)__cvta_generic_to_shared(shared) >> 4;
#endif
}

// The descriptor: 128-byte swizzle (bit 62), groups of 8 rows 1024 bytes apart; the field between is unused in this mode. A
// sum and not an or, so that a constant part of the address melts into it. The low word for itself, for kernels that keep it and move it on.
__device__ __forceinline__ unsigned tern_wgmma_descriptor_low(unsigned start_address) {
    return start_address + 0x10000u;
}
__device__ __forceinline__ unsigned long long tern_wgmma_descriptor_of(unsigned low) {
    return 0x4000004000000000ull | low;
}
__device__ __forceinline__ unsigned long long tern_wgmma_descriptor(unsigned start_address) {
    return tern_wgmma_descriptor_of(tern_wgmma_descriptor_low(start_address));
}

// N columns: a multiple of 16 up to 256, those listed below; binary16, or bfloat16 where BF16 is 1. accumulate false: d = a * b.
template <int N, int BF16> struct tern_wgmma;

#ifdef TERN_EMULATOR
template <int N, int BF16> struct tern_wgmma {
    static inline void multiply(float (&d)[N / 2], const unsigned (&a)[4], unsigned long long b, bool accumulate) {
        tern_emu_wgmma_issue(d, N, a, b, accumulate, BF16 ? TERN_EMU_WGMMA_BF16 : TERN_EMU_WGMMA_F16);
    }
};
#else
// clang-format off
#define TERN_WGMMA_TEXT_8 \
    "%0, %1, %2, %3, %4, %5, %6, %7"
#define TERN_WGMMA_TEXT_16 TERN_WGMMA_TEXT_8 \
    ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TERN_WGMMA_TEXT_24 TERN_WGMMA_TEXT_16 \
    ", %16, %17, %18, %19, %20, %21, %22, %23"
#define TERN_WGMMA_TEXT_32 TERN_WGMMA_TEXT_24 \
    ", %24, %25, %26, %27, %28, %29, %30, %31"
#define TERN_WGMMA_TEXT_40 TERN_WGMMA_TEXT_32 \
    ", %32, %33, %34, %35, %36, %37, %38, %39"
#define TERN_WGMMA_TEXT_48 TERN_WGMMA_TEXT_32 \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define TERN_WGMMA_TEXT_56 TERN_WGMMA_TEXT_48 \
    ", %48, %49, %50, %51, %52, %53, %54, %55"
#define TERN_WGMMA_TEXT_64 TERN_WGMMA_TEXT_48 \
    ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TERN_WGMMA_TEXT_68 TERN_WGMMA_TEXT_64 \
    ", %64, %65, %66, %67"
#define TERN_WGMMA_TEXT_72 TERN_WGMMA_TEXT_64 \
    ", %64, %65, %66, %67, %68, %69, %70, %71"
#define TERN_WGMMA_TEXT_80 TERN_WGMMA_TEXT_64 \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define TERN_WGMMA_TEXT_88 TERN_WGMMA_TEXT_80 \
    ", %80, %81, %82, %83, %84, %85, %86, %87"
#define TERN_WGMMA_TEXT_96 TERN_WGMMA_TEXT_80 \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define TERN_WGMMA_TEXT_104 TERN_WGMMA_TEXT_96 \
    ", %96, %97, %98, %99, %100, %101, %102, %103"
#define TERN_WGMMA_TEXT_112 TERN_WGMMA_TEXT_96 \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define TERN_WGMMA_TEXT_120 TERN_WGMMA_TEXT_112 \
    ", %112, %113, %114, %115, %116, %117, %118, %119"
#define TERN_WGMMA_TEXT_128 TERN_WGMMA_TEXT_112 \
    ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define TERN_WGMMA_OUT_8 \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define TERN_WGMMA_OUT_16 TERN_WGMMA_OUT_8, \
    "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define TERN_WGMMA_OUT_24 TERN_WGMMA_OUT_16, \
    "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define TERN_WGMMA_OUT_32 TERN_WGMMA_OUT_24, \
    "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define TERN_WGMMA_OUT_40 TERN_WGMMA_OUT_32, \
    "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define TERN_WGMMA_OUT_48 TERN_WGMMA_OUT_32, \
    "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
    "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define TERN_WGMMA_OUT_56 TERN_WGMMA_OUT_48, \
    "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define TERN_WGMMA_OUT_64 TERN_WGMMA_OUT_48, \
    "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
    "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define TERN_WGMMA_OUT_68 TERN_WGMMA_OUT_64, \
    "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define TERN_WGMMA_OUT_72 TERN_WGMMA_OUT_64, \
    "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define TERN_WGMMA_OUT_80 TERN_WGMMA_OUT_64, \
    "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), \
    "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define TERN_WGMMA_OUT_88 TERN_WGMMA_OUT_80, \
    "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define TERN_WGMMA_OUT_96 TERN_WGMMA_OUT_80, \
    "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), \
    "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define TERN_WGMMA_OUT_104 TERN_WGMMA_OUT_96, \
    "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define TERN_WGMMA_OUT_112 TERN_WGMMA_OUT_96, \
    "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), \
    "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define TERN_WGMMA_OUT_120 TERN_WGMMA_OUT_112, \
    "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define TERN_WGMMA_OUT_128 TERN_WGMMA_OUT_112, \
    "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), \
    "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

#define TERN_WGMMA_DEFINE_TYPE(N, COUNT, A0, A1, A2, A3, B, P, BF16, TYPE)                                                  \
    template <> struct tern_wgmma<N, BF16> {                                                                                \
        static __device__ __forceinline__ void multiply(float (&d)[COUNT], const unsigned (&a)[4], unsigned long long b,    \
                                                        bool accumulate) {                                                  \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\n"                                                   \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" TERN_WGMMA_TEXT_##COUNT "}, " \
                         "{%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", p, 1, 1, 0;\n}"                                \
                         : TERN_WGMMA_OUT_##COUNT                                                                           \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)accumulate));                       \
        }                                                                                                                   \
    };
#define TERN_WGMMA_DEFINE(N, COUNT, A0, A1, A2, A3, B, P)                                                                   \
    TERN_WGMMA_DEFINE_TYPE(N, COUNT, A0, A1, A2, A3, B, P, 0, "f16")                                                        \
    TERN_WGMMA_DEFINE_TYPE(N, COUNT, A0, A1, A2, A3, B, P, 1, "bf16")
TERN_WGMMA_DEFINE(16, 8, 8, 9, 10, 11, 12, 13)
TERN_WGMMA_DEFINE(32, 16, 16, 17, 18, 19, 20, 21)
TERN_WGMMA_DEFINE(48, 24, 24, 25, 26, 27, 28, 29)
TERN_WGMMA_DEFINE(64, 32, 32, 33, 34, 35, 36, 37)
TERN_WGMMA_DEFINE(80, 40, 40, 41, 42, 43, 44, 45)
TERN_WGMMA_DEFINE(96, 48, 48, 49, 50, 51, 52, 53)
TERN_WGMMA_DEFINE(112, 56, 56, 57, 58, 59, 60, 61)
TERN_WGMMA_DEFINE(128, 64, 64, 65, 66, 67, 68, 69)
TERN_WGMMA_DEFINE(136, 68, 68, 69, 70, 71, 72, 73)
TERN_WGMMA_DEFINE(144, 72, 72, 73, 74, 75, 76, 77)
TERN_WGMMA_DEFINE(160, 80, 80, 81, 82, 83, 84, 85)
TERN_WGMMA_DEFINE(176, 88, 88, 89, 90, 91, 92, 93)
TERN_WGMMA_DEFINE(192, 96, 96, 97, 98, 99, 100, 101)
TERN_WGMMA_DEFINE(208, 104, 104, 105, 106, 107, 108, 109)
TERN_WGMMA_DEFINE(224, 112, 112, 113, 114, 115, 116, 117)
TERN_WGMMA_DEFINE(240, 120, 120, 121, 122, 123, 124, 125)
TERN_WGMMA_DEFINE(256, 128, 128, 129, 130, 131, 132, 133)

#undef TERN_WGMMA_DEFINE
#undef TERN_WGMMA_DEFINE_TYPE
// clang-format on
#endif

// N columns in PIECES products of equally many, into the first N / 2 of d: a product names all its registers, more than a thread has
// at launch where columns are many and warpgroups too.
template <int N, int BF16, int PIECES, int COUNT>
__device__ __forceinline__ void tern_wgmma_multiply(float (&d)[COUNT], const unsigned (&a)[4], unsigned long long b,
                                                    bool accumulate) {
    constexpr int COLUMNS = N / PIECES;
    static_assert(N <= 2 * COUNT && COLUMNS * PIECES == N, "columns have sums, and pieces are equal");
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        tern_wgmma<COLUMNS, BF16>::multiply(*reinterpret_cast<float(*)[COLUMNS / 2]>(&d[i * (COLUMNS / 2)]), a,
                                            b + (unsigned)(i * COLUMNS * 8), accumulate);
}

#endif
