/* What candidates do to their inputs before they multiply, as the host does it: the reference multiplies the same numbers. Shares no
 * code with kernels. */
#ifndef TERN_VERIFY_QUANTISE_H
#define TERN_VERIFY_QUANTISE_H

#include "formats/weights.h"

#include <stdint.h>

enum tern_arithmetic {
    TERN_ARITHMETIC_A16,        /* x and W as they are */
    TERN_ARITHMETIC_A8,         /* x rounded to int8, one scale a row */
    TERN_ARITHMETIC_A8_ROUNDED, /* and the group scales of W to 7 bits of the row's largest */
    TERN_ARITHMETIC_E4M3        /* x rounded to e4m3, one scale a row */
};
#define TERN_ARITHMETICS 4

/* x [M][K] binary16 to codes (may be x itself), as binary16 (exact), and a scale for each row: scale = max|x| / most, code = x * (most /
 * max|x|), both quotients rounded to binary32. A row of zeros has scale 0, one with Inf or NaN scale NaN and codes 0.
 *   int8: most = 127, the product once to the nearest integer, ties to even; x is off by at most half a scale.
 *   e4m3: most = 448, the product to binary32 and then to the nearest e4m3 number, ties to even; x is off by at most a
 *   16th of itself, or 2^-10 scales where that is more. */
void tern_quantise_activations(enum tern_arithmetic arithmetic, const uint16_t *x, int64_t m, int64_t k, uint16_t *codes,
                               float *scales);

/* Group scales [groups][N] to integers of -127 .. 127, as binary16 (exact), in units of a 127th of the largest magnitude of their
 * row of W, rounded in the same way: units[N]. A scale is off by at most half a unit. */
void tern_quantise_scales(const struct tern_weights *weights, uint16_t *codes, float *units);

#endif
