/* Reference results in FP64 and the elementwise bound that decides right or wrong.
 * Works from canonical weights and activations only; shares no code with kernels or packers.
 *
 * The bound. A right kernel computes v = sum_k x*w in fp32, in any order and split, and rounds v once to the type of y:
 *
 *   |got - ref| <= u |ref| + s                                        rounding of the output: half an ulp, normal or
 * subnormal: u = 2^-11, s = 2^-25 for binary16, 2^-8 and 2^-134 for bfloat16
 *                + 2^-23 (sqrt(K) * sum|x*w| + K/16 * |ref|)          accumulation in fp32
 *                + u * sum|x*w|                                       TERN_ROUNDED_WEIGHTS: each weight rounded to the type of x
 *                + 2^-23 (2 + sqrt(K/32)) * sum|x*w|                  TERN_EXACT_SUMS: in the place of the accumulation
 *
 * Exact sums. x and W are integers (verify/quantise.h) and their s32 sums over a group of 32 k or more exact. At most K/32
 * times such a sum is converted, scaled and added to the running sum, which rounds by 2^-24 of it, to nearest: independent
 * signs grow with the root. The scales of the row and of the token are three more roundings, parts of a split K no more
 * additions than groups. The error of quantising x is no part of it: ref is that of the quantised x.
 *
 * Accumulation. Products x * (q - z) are exact in fp32 (11 + 8 bits, 8 + 8 for bfloat16). Tensor cores add them 8 at a time and truncate each
 * time (Fasi, Higham, Mikaitis, Pranesh 2021), so K/8 steps each lose up to 2^-23 of the running sum, half of that on
 * average, all in the direction of zero. In data of random sign the running sum stays below |ref| + 4 sqrt(K) rms(x*w), and
 * the rms is about 1.25 to 1.6 times the mean of |x*w| = sum|x*w| / K. The losses are then at most K/8 * 2^-24 * (|ref|
 * + 6.4 sum|x*w| / sqrt(K)) = 2^-23 (K/16 |ref| + 0.4 sqrt(K) sum|x*w|); 0.4 becomes 1 for the truncation of the products
 * that are aligned with the running sum, for the one rounding by the scale of each group, and for the joining of split-K
 * parts. fp32 fused multiply-adds on CUDA cores err less: K independent roundings of 2^-24 grow with sqrt(K). Worst case:
 * all products of one sign, and K/8 truncations that each lose nearly a whole ulp, lose 2^-23 K/8 * |ref| / 2 (the running
 * sum is half of |ref| on average): that is the second term, exactly. A chain of K single fp32 additions of one sign could
 * lose more in theory (2^-24 K |ref|), which rounding to nearest does not do in practice. An accumulator in binary16 errs by
 * about 2^-11 sqrt(K) and is caught. */
#include "verify/reference.h"

#include "core/half.h"
#include "core/str.h"
#include "formats/parallel.h"

#include <math.h>
#include <stdlib.h>

enum { TERN_DOT_LANES = 8 };

/* Of a type: unit roundoff, half the smallest step, and halfway to the next binade behind the largest number. */
static const struct {
    double rounding, subnormal, overflow;
} output_types[TERN_ACTIVATION_COUNT] = {
    [TERN_F16] = {0x1p-11, 0x1p-25, 0x1.ffep15},
    [TERN_BF16] = {0x1p-8, 0x1p-134, 0x1.ffp127},
    [TERN_INT8] = {0x1p-11, 0x1p-25, 0x1.ffep15}, /* y is binary16 */
    [TERN_E4M3] = {0x1p-11, 0x1p-25, 0x1.ffep15},
};

struct tern_reference_job {
    const struct tern_weights *weights;
    const double *x; /* [n_rows][K] */
    const int64_t *cols;
    int64_t n_rows, n_cols;
    double *ref, *scale;
};

/* One row of W as doubles: exact, for an integer of 9 bits times a binary16. */
static void decode_row(const struct tern_weights *weights, int64_t row, double *w) {
    const struct tern_format *format = &weights->format;
    const uint8_t *codes = weights->codes + row * weights->k;
    int64_t size = tern_format_group_size(format, weights->k);
    for (int64_t group = 0; group * size < weights->k; group++) {
        int64_t entry = group * weights->n + row;
        int64_t end = (group + 1) * size < weights->k ? (group + 1) * size : weights->k;
        double scale = (double)tern_half_to_float(weights->scales[entry]);
        int zero = format->sym ? format->zero : weights->zeros[entry];
        for (int64_t k = group * size; k < end; k++)
            w[k] = scale * (codes[k] - zero);
    }
}

/* sum x*w and sum |x*w| in eight interleaved chains; K is a multiple of 32. */
static void dot(const double *x, const double *w, int64_t k, double *sum, double *magnitude) {
    double sums[TERN_DOT_LANES] = {0}, magnitudes[TERN_DOT_LANES] = {0};
    for (int64_t i = 0; i < k; i += TERN_DOT_LANES) {
        for (int lane = 0; lane < TERN_DOT_LANES; lane++) {
            double product = x[i + lane] * w[i + lane];
            sums[lane] += product;
            magnitudes[lane] += fabs(product);
        }
    }
    *sum = 0;
    *magnitude = 0;
    for (int lane = 0; lane < TERN_DOT_LANES; lane++) {
        *sum += sums[lane];
        *magnitude += magnitudes[lane];
    }
}

static void reference_cols(void *opaque, int64_t begin, int64_t end) {
    const struct tern_reference_job *job = opaque;
    int64_t k = job->weights->k;
    double *w = tern_alloc((size_t)k * sizeof *w);
    for (int64_t j = begin; j < end; j++) {
        decode_row(job->weights, job->cols[j], w);
        for (int64_t i = 0; i < job->n_rows; i++)
            dot(job->x + i * k, w, k, &job->ref[i * job->n_cols + j], &job->scale[i * job->n_cols + j]);
    }
    free(w);
}

void tern_reference_compute(const struct tern_weights *weights, enum tern_activation type, const uint16_t *x,
                            const int64_t *rows, int64_t n_rows, const int64_t *cols, int64_t n_cols, double *ref,
                            double *bound_scale) {
    int64_t k = weights->k;
    if (n_rows <= 0 || n_cols <= 0)
        return;
    double *wide = tern_alloc((size_t)n_rows * (size_t)k * sizeof *wide);
    for (int64_t i = 0; i < n_rows; i++)
        for (int64_t c = 0; c < k; c++)
            wide[i * k + c] = tern_activation_to_double(type, x[rows[i] * k + c]);
    struct tern_reference_job job = {
        .weights = weights, .x = wide, .cols = cols, .n_rows = n_rows, .n_cols = n_cols, .ref = ref, .scale = bound_scale};
    tern_parallel_for(n_cols, 1 + 500000 / (k * n_rows), reference_cols, &job);
    free(wide);
}

void tern_reference_scale(int64_t n_rows, int64_t n_cols, const float *row_scales, const float *col_scales, double *ref,
                          double *bound_scale) {
    for (int64_t i = 0; i < n_rows; i++)
        for (int64_t j = 0; j < n_cols; j++) {
            double scale = (row_scales ? (double)row_scales[i] : 1.0) * (col_scales ? (double)col_scales[j] : 1.0);
            ref[i * n_cols + j] *= scale;
            bound_scale[i * n_cols + j] *= fabs(scale);
        }
}

void tern_reference_bound(const struct tern_precision *precision, struct tern_bound *bound) {
    const double k = (double)precision->k;
    bound->rounding = output_types[precision->type].rounding;
    bound->subnormal = output_types[precision->type].subnormal;
    bound->overflow = output_types[precision->type].overflow;
    bound->of_ref = ldexp(k / 16.0, -23);
    bound->of_scale = ldexp(sqrt(k), -23);
    if (precision->exactness == TERN_ROUNDED_WEIGHTS)
        bound->of_scale += bound->rounding;
    if (precision->exactness == TERN_EXACT_SUMS || precision->exactness == TERN_E4M3_SUMS) {
        bound->of_ref = 0;
        bound->of_scale = ldexp(2.0 + sqrt(k / 32.0), -23);
    }
    if (precision->exactness == TERN_E4M3_SUMS)
        bound->of_scale += 0x1p-10;
}

/* How far the fp32 sum may lie from ref, before the output is rounded. */
static double accumulation(const struct tern_bound *bound, double ref, double scale) {
    return bound->of_ref * fabs(ref) + bound->of_scale * scale;
}

double tern_reference_tolerance(double ref, double scale, const struct tern_precision *precision) {
    struct tern_bound bound;
    tern_reference_bound(precision, &bound);
    return bound.rounding * fabs(ref) + bound.subnormal + accumulation(&bound, ref, scale);
}

/* Decides one element. Infinity is right only where the fp32 sum may overflow the type of y, with the sign of ref; a finite value
 * is right only where it need not. *ratio gets |got - ref| / tolerance, 0 for a right infinity, infinite for NaN. */
static bool element_is_right(const struct tern_bound *bound, double got, double ref, double scale, double tolerance,
                             double *ratio) {
    double slack = accumulation(bound, ref, scale);
    *ratio = INFINITY;
    if (isinf(got)) {
        bool right = signbit(got) == signbit(ref) && fabs(ref) + slack >= bound->overflow;
        if (right)
            *ratio = 0;
        return right;
    }
    double error = fabs(got - ref);
    if (error / tolerance <= INFINITY)
        *ratio = error / tolerance;
    return error <= tolerance && fabs(ref) - slack < bound->overflow;
}

bool tern_reference_compare(const uint16_t *got, int64_t n, const int64_t *rows, int64_t n_rows, const int64_t *cols,
                            int64_t n_cols, const double *ref, const double *bound_scale,
                            const struct tern_precision *precision, struct tern_mismatch *mismatch) {
    struct tern_bound bound;
    int64_t wrong = 0, checked = 0;
    tern_reference_bound(precision, &bound);
    for (int64_t i = 0; i < n_rows; i++) {
        for (int64_t j = 0; j < n_cols; j++) {
            double value = tern_activation_to_double(precision->type, got[rows[i] * n + cols[j]]);
            double expected = ref[i * n_cols + j], scale = bound_scale[i * n_cols + j], ratio;
            double tolerance = bound.rounding * fabs(expected) + bound.subnormal + accumulation(&bound, expected, scale);
            checked++;
            bool right = element_is_right(&bound, value, expected, scale, tolerance, &ratio);
            if (ratio > mismatch->worst)
                mismatch->worst = ratio;
            if (right)
                continue;
            if (mismatch->count + wrong == 0) {
                mismatch->row = rows[i];
                mismatch->col = cols[j];
                mismatch->got = value;
                mismatch->expected = expected;
                mismatch->tolerance = tolerance;
            }
            wrong++;
        }
    }
    mismatch->count += wrong;
    mismatch->checked += checked;
    return checked > 0 && wrong == 0;
}
