/* IEEE binary16 and bfloat16 conversions on the host, round to nearest even, NaN and Inf kept. */
#ifndef TERN_CORE_HALF_H
#define TERN_CORE_HALF_H

#include <stdint.h>

uint16_t tern_half_from_double(double value); /* one rounding, from the double itself */
float tern_half_to_float(uint16_t half);      /* exact */
uint16_t tern_bf16_from_double(double value); /* likewise */
float tern_bf16_to_float(uint16_t bits);

#endif
