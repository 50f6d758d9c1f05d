// Programmatic dependent launch (compute capability 9.0): a kernel starts while the one ahead of it in the stream is still at work.
//
// The including kernel has DEPENDENT in front of it: 1 in the build that is launched so, 0 in the one that follows its
// predecessor as ever. With 1 every thread calls tern_dependency_wait before it first touches x, y or the workspace; ahead of
// that it may load weights, which no kernel of the stream writes. Launched without the attribute such a build is right as well.
#ifndef TERN_DEPENDENT_CUH
#define TERN_DEPENDENT_CUH

#include "tern/memory.cuh"

// Returns when the kernel ahead has ended and what it wrote is visible. Then lets the kernel behind start: not earlier, so that at
// most two kernels share a multiprocessor, and the one behind that finds its room when it can use it.
__device__ __forceinline__ void tern_dependency_wait() {
    if (!DEPENDENT)
        return;
#ifdef TERN_EMULATOR
    tern_emu_dependency_wait();
#elif __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" : : : "memory");
#endif
}

// A load that stays where it is: on the read-only path the compiler moves it across waits and barriers.
__device__ __forceinline__ uint4 tern_load_ordered_16(const void *global) {
#ifdef TERN_EMULATOR
    return tern_load_stream_16(global);
#else
    uint4 value;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(global)
                 : "memory");
    return value;
#endif
}

// tern_load_stream_16 of what the kernel ahead may have written, which stays behind the wait.
__device__ __forceinline__ uint4 tern_load_dependent_16(const void *global) {
    return DEPENDENT ? tern_load_ordered_16(global) : tern_load_stream_16(global);
}

// The same where wanted; *value stays what it was elsewhere.
__device__ __forceinline__ void tern_load_dependent_16_if(unsigned *value, const void *global, bool wanted) {
#ifndef TERN_EMULATOR
    if (DEPENDENT) {
        asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\n"
                     "@p ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
                     : "+r"(value[0]), "+r"(value[1]), "+r"(value[2]), "+r"(value[3])
                     : "l"(global), "r"((int)wanted)
                     : "memory");
        return;
    }
#endif
    tern_load_stream_16_if(value, global, wanted);
}

#endif
