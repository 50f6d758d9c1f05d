/* IEEE binary16, bfloat16 and e4m3 conversions on the host, round to nearest even, NaN and Inf kept. */
#ifndef TERN_CORE_HALF_H
#define TERN_CORE_HALF_H

#include <stdint.h>

uint16_t tern_half_from_double(double value); /* one rounding, from the double itself */
float tern_half_to_float(uint16_t half);      /* exact */
uint16_t tern_bf16_from_double(double value); /* likewise */
float tern_bf16_to_float(uint16_t bits);

/* The nearest number of e4m3 (4 exponent bits of bias 7, 3 of fraction), ties to even; beyond 448, the largest, that. NaN stays. */
double tern_e4m3_round(double value);

#endif
