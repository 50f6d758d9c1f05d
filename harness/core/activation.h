/* The type of x and y, and the op that it makes of a linear layer: rows of one op are never compared with those of another. With
 * TERN_INT8 and TERN_E4M3 both are binary16 in memory, and x is rounded to bytes with one scale a row before it is multiplied. */
#ifndef TERN_CORE_ACTIVATION_H
#define TERN_CORE_ACTIVATION_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

enum tern_activation { TERN_F16, TERN_BF16, TERN_INT8, TERN_E4M3, TERN_ACTIVATION_COUNT };

/* "f16", "bf16", "int8", "e4m3". */
const char *tern_activation_name(enum tern_activation a);
/* The inverse; TERN_USAGE for a name that is none. */
enum tern_status tern_activation_parse(const char *name, enum tern_activation *a, struct tern_error *err);

/* "linear-a16" (the name from before there was another type), "linear-bf16", "linear-a8", "linear-e4m3". */
const char *tern_activation_op(enum tern_activation a);
/* The inverse; false for an op that is none of ours. */
bool tern_activation_of_op(const char *op, enum tern_activation *a);

uint16_t tern_activation_from_double(enum tern_activation a, double value); /* one rounding, to nearest even */
double tern_activation_to_double(enum tern_activation a, uint16_t bits);    /* exact */

#endif
