/* Where two readings of the same weights differ: how often, and the first place. */
#ifndef TERN_FORMATS_DIFFERENCE_H
#define TERN_FORMATS_DIFFERENCE_H

#include "formats/linear.h"

struct tern_difference {
    int64_t count;      /* values that differ; 0: none, and nothing below is set */
    const char *tensor; /* of the checkpoint, which must outlive this */
    const char *what;   /* code, zero point, scale, ... of the first */
    int64_t row, k;
    double expected, got;
};

/* Counts one more value; the first one is kept. */
void tern_difference_note(struct tern_difference *d, const struct tern_tensor *tensor, const char *what, int64_t row,
                          int64_t k, double expected, double got);
/* "tensor 'a.qweight', row 3, k 77: expected code 5, got 4". */
void tern_difference_text(const struct tern_difference *d, struct tern_str *out);

/* The bits of two scales; NaN, whose payload says nothing, equals NaN. */
bool tern_scales_equal(float a, float b);

#endif
