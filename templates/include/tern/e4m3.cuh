// Activations as e4m3: 4 exponent bits (bias 7), 3 of fraction, largest 448, smallest 2^-9, no infinity. Owns nothing.
#ifndef TERN_E4M3_CUH
#define TERN_E4M3_CUH

#ifdef TERN_EMULATOR
// To the nearest, ties to even, beyond 448 to 448; NaN stays one.
static inline unsigned tern_emu_e4m3_from_float(float value) {
    const float magnitude = __builtin_fabsf(value);
    const unsigned sign = __builtin_signbit(value) ? 0x80u : 0u;
    if (!(magnitude < 448.0f))
        return sign | (magnitude >= 448.0f ? 0x7Eu : 0x7Fu);
    const int exponent = magnitude < 0x1p-6f ? -6 : __builtin_ilogbf(magnitude); // subnormal: the step of the first binade
    const int eighths = (int)__builtin_rintf(__builtin_ldexpf(magnitude, 3 - exponent)); // exact but for the rounding
    return sign | (unsigned)(eighths + 8 * (exponent + 6)); // from 8 on, the leading bit counts into the exponent
}
static inline float tern_emu_e4m3_to_float(unsigned code) {
    const int exponent = (int)(code >> 3 & 15), fraction = (int)(code & 7) + (exponent ? 8 : 0);
    const float magnitude = __builtin_ldexpf((float)fraction, (exponent ? exponent : 1) - 10);
    return (code & 0x7F) == 0x7F ? __builtin_nanf("") : code & 0x80 ? -magnitude : magnitude;
}
#endif

// Two numbers in the low half of a word, `low` in the low byte.
__device__ __forceinline__ unsigned tern_e4m3_pair(float low, float high) {
#ifdef TERN_EMULATOR
    return tern_emu_e4m3_from_float(high) << 8 | tern_emu_e4m3_from_float(low);
#else
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
#endif
}

#endif
