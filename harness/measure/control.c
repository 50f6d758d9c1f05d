/* Which devices are alike. See control.h. */
#include "measure/control.h"

#include <math.h>

/* Written so that NaN differs from everything, itself included. */
static bool alike(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance * fmin(a, b);
}

static bool agree(const struct tern_control *a, const struct tern_control *b, double tolerance) {
    return a->read_us > 0 && b->read_us > 0 && alike(a->read_us, b->read_us, tolerance) &&
           alike(a->burst_us, b->burst_us, tolerance);
}

/* Smaller is faster. */
static double product(const struct tern_control *c) {
    return c->read_us * (c->burst_us > 0 ? c->burst_us : 1);
}

size_t tern_control_choose(const struct tern_control *devices, size_t count, double tolerance, bool *keep) {
    size_t best = 0, best_size = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        for (size_t j = 0; j < count; j++)
            size += agree(&devices[i], &devices[j], tolerance);
        if (size > best_size || (size > 0 && size == best_size && product(&devices[i]) < product(&devices[best]))) {
            best = i;
            best_size = size;
        }
    }
    for (size_t j = 0; j < count; j++)
        keep[j] = best_size > 0 && agree(&devices[best], &devices[j], tolerance);
    return best_size;
}
