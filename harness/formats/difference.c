/* Notes and words for the places where two readings differ. Compares nothing but scales. */
#include "formats/difference.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void tern_difference_note(struct tern_difference *d, const struct tern_tensor *tensor, const char *what, int64_t row,
                          int64_t k, double expected, double got) {
    if (d->count++ == 0) {
        d->tensor = tensor->name;
        d->what = what;
        d->row = row;
        d->k = k;
        d->expected = expected;
        d->got = got;
    }
}

void tern_difference_text(const struct tern_difference *d, struct tern_str *out) {
    tern_str_printf(out, "tensor '%s', row %" PRId64 ", k %" PRId64 ": expected %s %.10g, got %.10g", d->tensor, d->row,
                    d->k, d->what, d->expected, d->got);
}

bool tern_scales_equal(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}
