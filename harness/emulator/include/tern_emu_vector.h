/* Vector types of CUDA (uint4, float2, ...) with their alignment, and make_ functions. */
#ifndef TERN_EMULATOR_VECTOR_H
#define TERN_EMULATOR_VECTOR_H

#define TERN_EMU_VECTOR2(name, type, align)                                                                                 \
    struct alignas(align) name {                                                                                            \
        type x, y;                                                                                                          \
    };                                                                                                                      \
    static inline name make_##name(type x, type y) {                                                                        \
        return name{x, y};                                                                                                  \
    }
#define TERN_EMU_VECTOR3(name, type)                                                                                        \
    struct name {                                                                                                           \
        type x, y, z;                                                                                                       \
    };                                                                                                                      \
    static inline name make_##name(type x, type y, type z) {                                                                \
        return name{x, y, z};                                                                                               \
    }
#define TERN_EMU_VECTOR4(name, type, align)                                                                                 \
    struct alignas(align) name {                                                                                            \
        type x, y, z, w;                                                                                                    \
    };                                                                                                                      \
    static inline name make_##name(type x, type y, type z, type w) {                                                        \
        return name{x, y, z, w};                                                                                            \
    }

TERN_EMU_VECTOR2(char2, signed char, 2)
TERN_EMU_VECTOR4(char4, signed char, 4)
TERN_EMU_VECTOR2(uchar2, unsigned char, 2)
TERN_EMU_VECTOR4(uchar4, unsigned char, 4)
TERN_EMU_VECTOR2(short2, short, 4)
TERN_EMU_VECTOR4(short4, short, 8)
TERN_EMU_VECTOR2(ushort2, unsigned short, 4)
TERN_EMU_VECTOR4(ushort4, unsigned short, 8)
TERN_EMU_VECTOR2(int2, int, 8)
TERN_EMU_VECTOR3(int3, int)
TERN_EMU_VECTOR4(int4, int, 16)
TERN_EMU_VECTOR2(uint2, unsigned, 8)
TERN_EMU_VECTOR3(uint3, unsigned)
TERN_EMU_VECTOR4(uint4, unsigned, 16)
TERN_EMU_VECTOR2(longlong2, long long, 16)
TERN_EMU_VECTOR2(ulonglong2, unsigned long long, 16)
TERN_EMU_VECTOR2(float2, float, 8)
TERN_EMU_VECTOR3(float3, float)
TERN_EMU_VECTOR4(float4, float, 16)
TERN_EMU_VECTOR2(double2, double, 16)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#endif
