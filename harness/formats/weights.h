/* Canonical weights of one linear layer: what readers produce, packers consume and references compute with. */
#ifndef TERN_FORMATS_WEIGHTS_H
#define TERN_FORMATS_WEIGHTS_H

#include "core/activation.h"
#include "formats/format.h"

#include <stdint.h>

struct tern_weights {
    struct tern_format format;
    int64_t n, k, groups; /* groups along K */
    uint8_t *codes;       /* [N][K], row major, one byte a weight, value q */
    uint16_t *scales;     /* [groups][N] binary16; tensor format: all equal */
    uint8_t *zeros;       /* [groups][N], NULL when format.sym */
};

/* Random codes (uniform over the legal ones), scales log-normal around 1/sqrt(K), zeros uniform in [0, 2^bits) when asym;
 * every draw from streams of `seed`. About 1 ns a weight: gate_up of a 7B takes 0.2 s. */
enum tern_status tern_weights_random(const struct tern_format *format, int64_t n, int64_t k, uint64_t seed,
                                     struct tern_weights *weights, struct tern_error *err);
/* Exact value of one weight. */
double tern_weights_value(const struct tern_weights *weights, int64_t row, int64_t col);
void tern_weights_free(struct tern_weights *weights);

/* Activations: x[M][K], standard normal, row i depends only on (type, seed, i, K): a prefix of rows serves smaller M. */
void tern_activations_random(enum tern_activation type, int64_t m, int64_t k, uint64_t seed, uint16_t *x);

#endif
