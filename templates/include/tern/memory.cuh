// Loads and copies of kernels: streaming global loads, asynchronous copies into shared memory, 16-byte shared loads.
// Owns nothing. Each function has a PTX body and an emulator body; shared memory is always named by a generic pointer.
// Sizes and alignment: a function that moves B bytes needs addresses that are multiples of B.
#ifndef TERN_MEMORY_CUH
#define TERN_MEMORY_CUH

#ifdef TERN_EMULATOR
#include "emulator/tern_emu.h"
#include <string.h>
#endif

// Declares `unsigned char *name` (or an array of that name): this block's dynamic shared memory, 1024-byte aligned.
#ifdef TERN_EMULATOR
#define TERN_SHARED_DYNAMIC(name) unsigned char *name = (unsigned char *)tern_emu_dynamic_shared()
#else
#define TERN_SHARED_DYNAMIC(name) extern __shared__ __align__(1024) unsigned char name[]
#endif

#ifdef TERN_EMULATOR
static inline void tern_emu_check_aligned(const void *address, size_t bytes) {
    if ((size_t)address % bytes != 0)
        tern_emu_fault("misaligned access");
}
#else
// 32-bit shared-window address of a generic pointer into shared memory.
__device__ __forceinline__ unsigned tern_shared_address(const void *shared) {
    return (unsigned)__cvta_generic_to_shared(shared);
}
#endif

// Streaming loads of data that is read once: they do not displace lines of L1. The `_if` forms leave *value alone when
// `wanted` is false and compile to one predicated instruction instead of a branch around it.
__device__ __forceinline__ void tern_load_stream_16_if(unsigned *value, const void *global, bool wanted) {
#ifdef TERN_EMULATOR
    if (wanted) {
        tern_emu_check_aligned(global, 16);
        memcpy(value, global, 16);
    }
#else
    unsigned v0 = value[0], v1 = value[1], v2 = value[2], v3 = value[3]; // else the compiler puts arrays on the stack
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\n"
                 "@p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
                 : "+r"(v0), "+r"(v1), "+r"(v2), "+r"(v3)
                 : "l"(global), "r"((int)wanted));
    value[0] = v0, value[1] = v1, value[2] = v2, value[3] = v3;
#endif
}

__device__ __forceinline__ void tern_load_stream_8_if(unsigned *value, const void *global, bool wanted) {
#ifdef TERN_EMULATOR
    if (wanted) {
        tern_emu_check_aligned(global, 8);
        memcpy(value, global, 8);
    }
#else
    unsigned v0 = value[0], v1 = value[1];
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %3, 0;\n@p ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];\n}"
                 : "+r"(v0), "+r"(v1)
                 : "l"(global), "r"((int)wanted));
    value[0] = v0, value[1] = v1;
#endif
}

__device__ __forceinline__ void tern_load_stream_4_if(unsigned *value, const void *global, bool wanted) {
#ifdef TERN_EMULATOR
    if (wanted) {
        tern_emu_check_aligned(global, 4);
        memcpy(value, global, 4);
    }
#else
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p ld.global.nc.L1::no_allocate.u32 %0, [%1];\n}"
                 : "+r"(*value)
                 : "l"(global), "r"((int)wanted));
#endif
}

// Two bytes, zero extended.
__device__ __forceinline__ void tern_load_stream_2_if(unsigned *value, const void *global, bool wanted) {
#ifdef TERN_EMULATOR
    if (wanted) {
        tern_emu_check_aligned(global, 2);
        unsigned short low;
        memcpy(&low, global, 2);
        *value = low;
    }
#else
    asm volatile("{\n.reg .pred p;\n.reg .u16 h;\nsetp.ne.s32 p, %2, 0;\ncvt.u16.u32 h, %0;\n"
                 "@p ld.global.nc.L1::no_allocate.u16 h, [%1];\ncvt.u32.u16 %0, h;\n}"
                 : "+r"(*value)
                 : "l"(global), "r"((int)wanted));
#endif
}

__device__ __forceinline__ uint4 tern_load_stream_16(const void *global) {
    uint4 value = {0, 0, 0, 0};
#ifdef TERN_EMULATOR
    tern_load_stream_16_if(&value.x, global, true);
#else
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(global));
#endif
    return value;
}

__device__ __forceinline__ uint2 tern_load_stream_8(const void *global) {
    uint2 value = {0, 0};
#ifdef TERN_EMULATOR
    tern_load_stream_8_if(&value.x, global, true);
#else
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "l"(global));
#endif
    return value;
}

__device__ __forceinline__ unsigned tern_load_stream_4(const void *global) {
    unsigned value = 0;
#ifdef TERN_EMULATOR
    tern_load_stream_4_if(&value, global, true);
#else
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(value) : "l"(global));
#endif
    return value;
}

__device__ __forceinline__ unsigned tern_load_stream_2(const void *global) {
#ifdef TERN_EMULATOR
    unsigned value = 0;
    tern_load_stream_2_if(&value, global, true);
    return value;
#else
    unsigned short value;
    asm volatile("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(value) : "l"(global));
    return value;
#endif
}

__device__ __forceinline__ uint4 tern_shared_load_16(const void *shared) {
    uint4 value;
#ifdef TERN_EMULATOR
    tern_emu_check_aligned(shared, 16);
    memcpy(&value, shared, 16);
#else
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(tern_shared_address(shared))
                 : "memory");
#endif
    return value;
}

__device__ __forceinline__ uint2 tern_shared_load_8(const void *shared) {
    uint2 value;
#ifdef TERN_EMULATOR
    tern_emu_check_aligned(shared, 8);
    memcpy(&value, shared, 8);
#else
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(value.x), "=r"(value.y)
                 : "r"(tern_shared_address(shared))
                 : "memory");
#endif
    return value;
}

// Four bytes, and two (zero extended).
__device__ __forceinline__ unsigned tern_shared_load_4(const void *shared) {
    unsigned value;
#ifdef TERN_EMULATOR
    tern_emu_check_aligned(shared, 4);
    memcpy(&value, shared, 4);
#else
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(tern_shared_address(shared)) : "memory");
#endif
    return value;
}
__device__ __forceinline__ unsigned tern_shared_load_2(const void *shared) {
    unsigned short value;
#ifdef TERN_EMULATOR
    tern_emu_check_aligned(shared, 2);
    memcpy(&value, shared, 2);
#else
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(tern_shared_address(shared)) : "memory");
#endif
    return value;
}
__device__ __forceinline__ void tern_shared_store_4(void *shared, unsigned value) {
#ifdef TERN_EMULATOR
    tern_emu_check_aligned(shared, 4);
    memcpy(shared, &value, 4);
#else
    asm volatile("st.shared.u32 [%0], %1;" : : "r"(tern_shared_address(shared)), "r"(value) : "memory");
#endif
}
__device__ __forceinline__ void tern_shared_store_8(void *shared, uint2 value) {
#ifdef TERN_EMULATOR
    tern_emu_check_aligned(shared, 8);
    memcpy(shared, &value, 8);
#else
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};"
                 :
                 : "r"(tern_shared_address(shared)), "r"(value.x), "r"(value.y)
                 : "memory");
#endif
}

// The value, kept in a register: the compiler would compute it anew in every turn of a loop.
__device__ __forceinline__ int tern_kept(int value) {
#ifndef TERN_EMULATOR
    asm("" : "+r"(value));
#endif
    return value;
}
// The pointer into shared memory, kept in a register: the compiler would else read the window's base anew at every use.
__device__ __forceinline__ unsigned char *tern_shared_kept(unsigned char *shared) {
#ifndef TERN_EMULATOR
    asm("" : "+l"(shared));
#endif
    return shared;
}

// The same for one into global memory: the compiler would else compute it anew for every load with a condition.
template <class T> __device__ __forceinline__ const T *tern_global_kept(const T *global) {
#ifndef TERN_EMULATOR
    asm("" : "+l"(global));
#endif
    return global;
}

// Two floats; 8-byte aligned.
__device__ __forceinline__ void tern_shared_load_pair(float (&pair)[2], const void *shared) {
#ifdef TERN_EMULATOR
    tern_emu_check_aligned(shared, 8);
    memcpy(pair, shared, 8);
#else
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(pair[0]), "=f"(pair[1])
                 : "r"(tern_shared_address(shared))
                 : "memory");
#endif
}

__device__ __forceinline__ void tern_shared_store_16(void *shared, uint4 value) {
#ifdef TERN_EMULATOR
    tern_emu_check_aligned(shared, 16);
    memcpy(shared, &value, 16);
#else
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(tern_shared_address(shared)), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
                 : "memory");
#endif
}

// Stores two or four floats at once; adds as many to `sum`. Aligned to their size.
template <int FLOATS> __device__ __forceinline__ void tern_shared_store_floats(void *shared, const float (&value)[FLOATS]) {
    static_assert(FLOATS == 2 || FLOATS == 4, "8 or 16 bytes");
    if constexpr (FLOATS == 4)
        tern_shared_store_16(shared, make_uint4(__float_as_uint(value[0]), __float_as_uint(value[1]),
                                                __float_as_uint(value[2]), __float_as_uint(value[3])));
    else
        tern_shared_store_8(shared, make_uint2(__float_as_uint(value[0]), __float_as_uint(value[1])));
}
template <int FLOATS> __device__ __forceinline__ void tern_shared_add_floats(float (&sum)[FLOATS], const void *shared) {
    static_assert(FLOATS == 2 || FLOATS == 4, "8 or 16 bytes");
    if constexpr (FLOATS == 4) {
        const uint4 more = tern_shared_load_16(shared);
        sum[0] += __uint_as_float(more.x);
        sum[1] += __uint_as_float(more.y);
        sum[2] += __uint_as_float(more.z);
        sum[3] += __uint_as_float(more.w);
    } else {
        float more[2];
        tern_shared_load_pair(more, shared);
        sum[0] += more[0];
        sum[1] += more[1];
    }
}

// Asynchronous copy of BYTES (4, 8 or 16) from global to shared memory. `wanted` false writes zeros and reads nothing.
// 16-byte copies bypass L1. Below compute capability 8.0 it is a load and a store. The emulator copies at
// the wait and leaves poison until then.
template <int BYTES> __device__ __forceinline__ void tern_cp_async(void *shared, const void *global, bool wanted) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
#ifdef TERN_EMULATOR
    tern_emu_check_aligned(shared, BYTES);
    if (wanted)
        tern_emu_check_aligned(global, BYTES);
    tern_emu_async_copy(shared, global, BYTES, wanted ? BYTES : 0);
#elif __CUDA_ARCH__ >= 800
    unsigned to = tern_shared_address(shared);
    int source_bytes = wanted ? BYTES : 0;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(to), "l"(global), "r"(source_bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :
                     : "r"(to), "l"(global), "n"(BYTES), "r"(source_bytes)
                     : "memory");
#else
    unsigned to = tern_shared_address(shared);
    if constexpr (BYTES == 16) {
        uint4 value = {0, 0, 0, 0};
        if (wanted)
            value = *(const uint4 *)global;
        tern_shared_store_16(shared, value);
    } else if constexpr (BYTES == 8) {
        uint2 value = {0, 0};
        if (wanted)
            value = *(const uint2 *)global;
        asm volatile("st.shared.v2.u32 [%0], {%1, %2};" : : "r"(to), "r"(value.x), "r"(value.y) : "memory");
    } else {
        unsigned value = wanted ? *(const unsigned *)global : 0u;
        asm volatile("st.shared.u32 [%0], %1;" : : "r"(to), "r"(value) : "memory");
    }
#endif
}

// The same by the lanes with `active` set; the others do nothing. One predicated instruction.
template <int BYTES>
__device__ __forceinline__ void tern_cp_async_if(void *shared, const void *global, bool wanted, bool active) {
#if !defined(TERN_EMULATOR) && __CUDA_ARCH__ >= 800
    static_assert(BYTES == 16, "nobody needs another size");
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %3, 0;\n@p cp.async.cg.shared.global [%0], [%1], 16, %2;\n}"
                 :
                 : "r"(tern_shared_address(shared)), "l"(global), "r"(wanted ? BYTES : 0), "r"((int)active)
                 : "memory");
#else
    if (active)
        tern_cp_async<BYTES>(shared, global, wanted);
#endif
}

// Closes the group of copies that this thread started since the last commit.
__device__ __forceinline__ void tern_cp_async_commit() {
#ifdef TERN_EMULATOR
    tern_emu_async_commit();
#elif __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

// Waits until at most LEFT of this thread's committed groups are unfinished; a barrier must follow before other threads
// read.
template <int LEFT> __device__ __forceinline__ void tern_cp_async_wait() {
#ifdef TERN_EMULATOR
    tern_emu_async_wait(LEFT);
#elif __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" : : "n"(LEFT) : "memory");
#endif
}

#endif
