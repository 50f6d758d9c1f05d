/* IEEE binary16 and bfloat16 on the host, by integer arithmetic: no dependence on compiler half types or rounding mode. */
#include "core/half.h"

#include <string.h>

/* Significand shifted right by `shift` bits, rounded to nearest, ties to even. shift in 1..63. */
static uint64_t half_round_shift(uint64_t value, int shift) {
    uint64_t kept = value >> shift;
    uint64_t rest = value & ((UINT64_C(1) << shift) - 1);
    uint64_t middle = UINT64_C(1) << (shift - 1);
    return kept + (rest > middle || (rest == middle && (kept & 1)));
}

/* binary64 has 52 fraction bits, bias 1023; binary16 has 10, bias 15: 42 bits go for normal results, more for subnormal
 * ones. A carry out of the fraction runs into the exponent, which is exactly what rounding up to the next power of two (or
 * to infinity) needs. */
uint16_t tern_half_from_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    uint16_t sign = (uint16_t)((bits >> 48) & 0x8000);
    int exponent = (int)((bits >> 52) & 0x7ff) - 1023;
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);

    if (exponent == 1024) /* NaN stays a NaN, quiet, with its upper payload bits */
        return (uint16_t)(sign | 0x7c00 | (fraction ? 0x200 | (fraction >> 42) : 0));
    if (exponent >= 16)
        return (uint16_t)(sign | 0x7c00);
    if (exponent >= -14)
        return (uint16_t)(sign | ((uint64_t)(exponent + 14) * 1024 + half_round_shift(fraction | UINT64_C(1) << 52, 42)));
    if (exponent < -25) /* below half of the smallest step, 2^-25; doubles' own subnormals included */
        return sign;
    return (uint16_t)(sign | half_round_shift(fraction | UINT64_C(1) << 52, 42 + (-14 - exponent)));
}

static float half_float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

float tern_half_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = (half >> 10) & 0x1f;
    uint32_t fraction = half & 0x3ff;

    if (exponent == 0x1f)
        return half_float_from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent != 0)
        return half_float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = (float)fraction * 0x1p-24f; /* subnormal or zero: exact */
    return sign ? -magnitude : magnitude;
}

uint16_t tern_bf16_from_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7fffffff) > 0x7f800000) /* NaN: keep it one even if its low payload bits are cut */
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float tern_bf16_to_float(uint16_t bits) {
    return half_float_from_bits((uint32_t)bits << 16);
}
