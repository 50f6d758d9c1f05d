/* Reference results in FP64 and the elementwise bound that decides right or wrong. Host code, independent of device
 * decoders. */
#ifndef TERN_VERIFY_REFERENCE_H
#define TERN_VERIFY_REFERENCE_H

#include "core/activation.h"
#include "formats/weights.h"

#include <stdbool.h>
#include <stdint.h>

/* y = sum_k x*w and scale = sum_k |x*w|, both FP64, for the listed rows of x (i) and rows of W (j):
 * ref[i*n_cols + j], bound_scale[i*n_cols + j]. x is [M][K] of the given type. Threads: as many as cores. */
void tern_reference_compute(const struct tern_weights *weights, enum tern_activation type, const uint16_t *x,
                            const int64_t *rows, int64_t n_rows, const int64_t *cols, int64_t n_cols, double *ref,
                            double *bound_scale);

/* ref[i][j] and bound_scale[i][j] times row_scales[i] and col_scales[j] (NULL: 1), of integers that stood for x and for group
 * scales (verify/quantise.h). */
void tern_reference_scale(int64_t n_rows, int64_t n_cols, const float *row_scales, const float *col_scales, double *ref,
                          double *bound_scale);

/* How exactly a template computes. */
enum tern_exactness {
    TERN_EXACT_WEIGHTS,   /* scale applied in fp32: weights are exact */
    TERN_ROUNDED_WEIGHTS, /* (q - z) * scale rounded once to the type of x, as cuBLAS on dequantised weights has it */
    TERN_EXACT_SUMS, /* integer x and weights: sums of 32 k and more are exact, fp32 rounds their scaling and addition */
    TERN_E4M3_SUMS   /* e4m3 x and weights: sums of 128 k at most by tensor cores that keep 14 bits, fp32 beyond */
};

/* What decides the bound: K, the type of x and y, how exact the weights are. */
struct tern_precision {
    int64_t k;
    enum tern_activation type;
    enum tern_exactness exactness;
};

/* |got - ref| <= tolerance(ref, scale): output rounding u |ref| + half the smallest step, plus accumulation error and, for
 * ROUNDED, u of sum|x*w|; u is 2^-11 for f16, 2^-8 for bf16. The formula and its reasons stand in reference.c. */
double tern_reference_tolerance(double ref, double scale, const struct tern_precision *precision);

/* The tolerance as numbers, so that a device comparison can apply the same formula:
 * tolerance = rounding * |ref| + subnormal + of_ref * |ref| + of_scale * sum|x*w|. */
struct tern_bound {
    double rounding, subnormal; /* of the output */
    double of_ref, of_scale;    /* of the fp32 accumulation and, for ROUNDED, of the weights */
    double overflow;            /* from here on rounding the output gives infinity */
};
void tern_reference_bound(const struct tern_precision *precision, struct tern_bound *bound);

struct tern_mismatch {
    int64_t count, checked;
    int64_t row, col; /* first mismatch */
    double got, expected, tolerance;
    double worst; /* largest |got - ref| / tolerance seen; NaN counts as infinite */
};

/* Compares got ([M][N], leading dimension n, of the precision's type) at rows x cols with ref. Written so that NaN fails; checked == 0
 * fails. Adds into *mismatch (zero it first). Returns true when nothing differed and at least one element was checked. */
bool tern_reference_compare(const uint16_t *got, int64_t n, const int64_t *rows, int64_t n_rows, const int64_t *cols,
                            int64_t n_cols, const double *ref, const double *bound_scale,
                            const struct tern_precision *precision, struct tern_mismatch *mismatch);

#endif
