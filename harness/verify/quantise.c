/* Rounding of activations and of group scales to integers, in binary32 arithmetic that kernels can repeat bit by bit. */
#include "verify/quantise.h"

#include "core/half.h"
#include "formats/parallel.h"

#include <math.h>
#include <stdbool.h>

#define LARGEST      127.0f
#define LARGEST_E4M3 448.0f

/* Nearest integer to the exact product, ties to even. */
static uint16_t code_of(float value, float inverse) {
    return tern_half_from_double(nearbyint((double)value * (double)inverse)); /* 11 and 24 bits: exact in binary64 */
}

static uint16_t e4m3_of(float value, float inverse) {
    return tern_half_from_double(tern_e4m3_round((double)(value * inverse)));
}

struct activations_job {
    bool e4m3;
    const uint16_t *x;
    uint16_t *codes;
    float *scales;
    int64_t k;
};

static void quantise_rows(void *opaque, int64_t begin, int64_t end) {
    const struct activations_job *job = opaque;
    const float largest = job->e4m3 ? LARGEST_E4M3 : LARGEST;
    uint16_t (*const code)(float, float) = job->e4m3 ? e4m3_of : code_of;
    for (int64_t i = begin; i < end; i++) {
        const uint16_t *x = job->x + i * job->k;
        unsigned most = 0;
        for (int64_t k = 0; k < job->k; k++)
            most = (x[k] & 0x7FFFu) > most ? x[k] & 0x7FFFu : most; /* magnitudes in the order of their bits, NaN last */
        float magnitude = tern_half_to_float((uint16_t)most);
        bool finite = most < 0x7C00u;
        float inverse = finite && most > 0 ? largest / magnitude : 0.0f;
        job->scales[i] = finite ? magnitude / largest : NAN;
        for (int64_t k = 0; k < job->k; k++)
            job->codes[i * job->k + k] = finite ? code(tern_half_to_float(x[k]), inverse) : 0;
    }
}

void tern_quantise_activations(enum tern_arithmetic arithmetic, const uint16_t *x, int64_t m, int64_t k, uint16_t *codes,
                               float *scales) {
    struct activations_job job = {arithmetic == TERN_ARITHMETIC_E4M3, x, codes, scales, k};
    tern_parallel_for(m, 1 + 100000 / k, quantise_rows, &job);
}

void tern_quantise_scales(const struct tern_weights *weights, uint16_t *codes, float *units) {
    for (int64_t n = 0; n < weights->n; n++) {
        float most = 0;
        for (int64_t g = 0; g < weights->groups; g++)
            most = fmaxf(most, fabsf(tern_half_to_float(weights->scales[g * weights->n + n])));
        float inverse = most > 0 ? LARGEST / most : 0.0f;
        units[n] = most / LARGEST;
        for (int64_t g = 0; g < weights->groups; g++)
            codes[g * weights->n + n] = code_of(tern_half_to_float(weights->scales[g * weights->n + n]), inverse);
    }
}
