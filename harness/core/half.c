/* IEEE binary16, bfloat16 and e4m3 on the host, by integer arithmetic: no dependence on compiler half types or rounding mode. */
#include "core/half.h"

#include <math.h>
#include <string.h>

/* Significand shifted right by `shift` bits, rounded to nearest, ties to even. shift in 1..63. */
static uint64_t half_round_shift(uint64_t value, int shift) {
    uint64_t kept = value >> shift;
    uint64_t rest = value & ((UINT64_C(1) << shift) - 1);
    uint64_t middle = UINT64_C(1) << (shift - 1);
    return kept + (rest > middle || (rest == middle && (kept & 1)));
}

/* To a 16-bit format of `fraction_bits` and `bias`, from binary64 with its 52 fraction bits and bias 1023: the rest of the
 * fraction goes for normal results, more for subnormal ones. A carry out of the fraction runs into the exponent, which is
 * exactly what rounding up to the next power of two (or to infinity) needs. */
static uint16_t half_round(double value, int fraction_bits, int bias) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const int drop = 52 - fraction_bits;
    const uint64_t infinity = (uint64_t)(2 * bias + 1) << fraction_bits;
    uint64_t sign = (bits >> 48) & 0x8000;
    int exponent = (int)((bits >> 52) & 0x7ff) - 1023;
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1), significand = fraction | UINT64_C(1) << 52;

    if (exponent == 1024) /* NaN stays a NaN, quiet, with its upper payload bits */
        return (uint16_t)(sign | infinity | (fraction ? UINT64_C(1) << (fraction_bits - 1) | (fraction >> drop) : 0));
    if (exponent > bias)
        return (uint16_t)(sign | infinity);
    if (exponent >= 1 - bias)
        return (uint16_t)(sign | (((uint64_t)(exponent + bias - 1) << fraction_bits) + half_round_shift(significand, drop)));
    if (exponent < -bias - fraction_bits) /* below half of the smallest step; doubles' own subnormals included */
        return (uint16_t)sign;
    return (uint16_t)(sign | half_round_shift(significand, drop + (1 - bias - exponent)));
}

uint16_t tern_half_from_double(double value) {
    return half_round(value, 10, 15);
}

uint16_t tern_bf16_from_double(double value) {
    return half_round(value, 7, 127);
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

float tern_bf16_to_float(uint16_t bits) {
    return half_float_from_bits((uint32_t)bits << 16);
}

double tern_e4m3_round(double value) {
    if (!(fabs(value) < 448.0))
        return isnan(value) ? value : copysign(448.0, value);
    const double unit =
        fabs(value) < 128.0 ? 1.0 : 4.0; /* upper binades by those below: one more than IEEE would give them */
    const uint16_t bits = half_round(value / unit, 3, 7);
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    const double magnitude = ldexp(exponent ? fraction + 8 : fraction, (exponent ? exponent : 1) - 10) * unit;
    return copysign(magnitude, value);
}
