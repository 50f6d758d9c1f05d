/* Canonical weights: random ones for tuning and tests, exact values, and random activations.
 * Generators are counter based: a draw is a hash of (stream key, row, word), so rows can be made in any order and by any
 * number of threads with the same result on every machine. */
#include "formats/weights.h"

#include "core/half.h"
#include "core/random.h"
#include "core/str.h"
#include "formats/parallel.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits that passes BigCrush on a counter. */
static uint64_t mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

#define GOLDEN 0x9E3779B97F4A7C15u

/* Key of the stream `name` of a seed: the link to core/random.h's named streams. */
static uint64_t stream_key(uint64_t seed, const char *name) {
    struct tern_random r;
    tern_random_init(&r, seed, name);
    return tern_random_u64(&r);
}

/* Key of one row; its words are mix64(key + GOLDEN * (i + 1)), i the first element that the word serves. */
static uint64_t row_key(uint64_t key, int64_t row) {
    return mix64(key + GOLDEN * (uint64_t)(row + 1));
}

struct codes_context {
    struct tern_weights *weights;
    uint64_t key;
};

/* Ternary: floor(3 u / 2^16) of 16 random bits; 0 comes 1/65536 more often than 1/3, far below what any test can see. */
static void fill_ternary(uint8_t *codes, int64_t k, uint64_t key) {
    for (int64_t i = 0; i < k; i += 4) {
        uint64_t bits = mix64(key + GOLDEN * (uint64_t)(i + 1));
        for (int j = 0; j < 4; j++)
            codes[i + j] = (uint8_t)((((bits >> (16 * j)) & 0xFFFF) * 3) >> 16);
    }
}

/* 2^bits codes: the low bits of each random byte, exactly uniform. K is a multiple of 32, so whole words fit. */
static void fill_masked(uint8_t *codes, int64_t k, uint64_t key, int code_bits) {
    uint64_t mask = ((1u << code_bits) - 1u) * 0x0101010101010101u;
    for (int64_t i = 0; i < k; i += 8) {
        uint64_t bits = mix64(key + GOLDEN * (uint64_t)(i + 1)) & mask;
        for (int j = 0; j < 8; j++) /* byte by byte: the same on any byte order */
            codes[i + j] = (uint8_t)(bits >> (8 * j));
    }
}

static void fill_code_rows(void *opaque, int64_t begin, int64_t end) {
    const struct codes_context *context = opaque;
    const struct tern_weights *w = context->weights;
    for (int64_t row = begin; row < end; row++) {
        uint64_t key = row_key(context->key, row);
        if (w->format.family == TERN_FAMILY_TERNARY)
            fill_ternary(w->codes + row * w->k, w->k, key);
        else
            fill_masked(w->codes + row * w->k, w->k, key, w->format.bits);
    }
}

/* Log-normal with sigma 0.25: scales of real checkpoints spread about that much within a layer. */
static void fill_scales(struct tern_weights *w, uint64_t seed) {
    struct tern_random r;
    double centre = 1.0 / sqrt((double)w->k);
    tern_random_init(&r, seed, "weight-scales");
    for (int64_t i = 0; i < w->groups * w->n; i++) {
        if (i > 0 && w->format.group == TERN_GROUP_TENSOR)
            w->scales[i] = w->scales[0];
        else
            w->scales[i] = tern_half_from_double(centre * exp(0.25 * tern_random_normal(&r)));
    }
}

enum tern_status tern_weights_random(const struct tern_format *format, int64_t n, int64_t k, uint64_t seed,
                                     struct tern_weights *weights, struct tern_error *err) {
    memset(weights, 0, sizeof *weights);
    enum tern_status status = tern_format_check_shape(format, n, k, true, err);
    if (status != TERN_OK)
        return status;
    weights->format = *format;
    weights->n = n;
    weights->k = k;
    weights->groups = tern_format_groups(format, k);
    size_t entries = (size_t)weights->groups * (size_t)n;
    weights->codes = tern_alloc((size_t)n * (size_t)k);
    weights->scales = tern_alloc(entries * sizeof *weights->scales);
    struct codes_context context = {.weights = weights, .key = stream_key(seed, "weight-codes")};
    tern_parallel_for(n, 1 + 1000000 / k, fill_code_rows, &context);
    fill_scales(weights, seed);
    if (!format->sym) {
        struct tern_random r;
        tern_random_init(&r, seed, "weight-zeros");
        weights->zeros = tern_alloc(entries);
        for (size_t i = 0; i < entries; i++)
            weights->zeros[i] = (uint8_t)(tern_random_u64(&r) >> (64 - format->bits));
    }
    return TERN_OK;
}

double tern_weights_value(const struct tern_weights *weights, int64_t row, int64_t col) {
    int64_t group = col / tern_format_group_size(&weights->format, weights->k);
    int64_t entry = group * weights->n + row;
    int zero = weights->format.sym ? weights->format.zero : weights->zeros[entry];
    return (double)tern_half_to_float(weights->scales[entry]) * (weights->codes[row * weights->k + col] - zero);
}

void tern_weights_free(struct tern_weights *weights) {
    free(weights->codes);
    free(weights->scales);
    free(weights->zeros);
    memset(weights, 0, sizeof *weights);
}

/* Inverse of the standard normal distribution for 0 < p <= 1/2: Acklam's rational approximation, relative error 1.2e-9,
 * far finer than binary16 or bfloat16. */
static double normal_quantile_lower(double p) {
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                               1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01,
                               -1.328068155288572e+01};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                               -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
    if (p < 0.02425) {
        double q = sqrt(-2.0 * log(p));
        return (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
               ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1.0);
    }
    double q = p - 0.5, r = q * q;
    return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
           (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1.0);
}

/* 15 random bits choose the quantile (i + 1/2) / 2^16 below the median, one the sign: the largest value is about 4.17. */
static uint16_t normal_value(enum tern_activation type, uint32_t bits) {
    double magnitude = -normal_quantile_lower(((bits & 0x7FFF) + 0.5) / 65536.0);
    return (uint16_t)(tern_activation_from_double(type, magnitude) | (bits & 0x8000));
}

struct activations_context {
    uint16_t *x;
    enum tern_activation type;
    const uint16_t *table; /* normal_value of 0..32767, or NULL to compute each value */
    int64_t k;
    uint64_t key;
};

static void fill_activation_rows(void *opaque, int64_t begin, int64_t end) {
    const struct activations_context *context = opaque;
    for (int64_t row = begin; row < end; row++) {
        uint64_t key = row_key(context->key, row), word = 0;
        uint16_t *x = context->x + row * context->k;
        for (int64_t i = 0; i < context->k; i++) {
            if (i % 4 == 0)
                word = mix64(key + GOLDEN * (uint64_t)(i + 1));
            uint32_t bits = (uint32_t)(word >> (16 * (i % 4))) & 0xFFFF;
            x[i] = context->table ? (uint16_t)(context->table[bits & 0x7FFF] | (bits & 0x8000))
                                  : normal_value(context->type, bits);
        }
    }
}

void tern_activations_random(enum tern_activation type, int64_t m, int64_t k, uint64_t seed, uint16_t *x) {
    if (m <= 0 || k <= 0)
        return;
    char name[48];
    tern_str_format(name, sizeof name, "activations-%" PRId64, k);
    struct activations_context context = {.x = x, .type = type, .k = k, .key = stream_key(seed, name)};
    uint16_t *table = NULL;
    if (m > 65536 / k) { /* many draws: a table of all quantiles gives the same values faster */
        table = tern_alloc(32768 * sizeof *table);
        for (uint32_t i = 0; i < 32768; i++)
            table[i] = normal_value(type, i);
        context.table = table;
    }
    tern_parallel_for(m, 1 + 1000000 / k, fill_activation_rows, &context);
    free(table);
}
