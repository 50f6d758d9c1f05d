/* Sizes between tuned M that are worth tuning too. See between.h. */
#include "space/between.h"

#include <math.h>

#define STEP_LEAST 16 /* rows: the step of the tiles of our tensor core kernels */
#define OCTAVE     8  /* steps in an octave: from 16 tiles of it on, tiles of another size change little */

/* The next size above m at which a kernel made for it may differ from the one below. */
static int64_t next_step(int64_t m) {
    int64_t octave = 1;
    while (2 * octave <= m)
        octave *= 2;
    const int64_t step = octave / OCTAVE > STEP_LEAST ? octave / OCTAVE : STEP_LEAST;
    return (m / step + 1) * step;
}

static int64_t tiles(const struct tern_between_point *p, int64_t m) {
    return (m + p->tile - 1) / p->tile;
}

/* What the best of the points is expected to take at m, which lies below points[high]. */
static double answer_us(const struct tern_between_point *points, size_t high, int64_t m) {
    double best = points[high].us;
    for (size_t i = 0; i < high; i++) {
        const struct tern_between_point *p = &points[i];
        if (m <= p->most)
            best = fmin(best, p->us * (double)tiles(p, m) / (double)tiles(p, p->m));
    }
    return best;
}

static double line_us(const struct tern_between_point *low, const struct tern_between_point *high, int64_t m) {
    return low->us + (high->us - low->us) * (double)(m - low->m) / (double)(high->m - low->m);
}

size_t tern_between_choose(const struct tern_between_point *points, size_t count, double ratio, int64_t *sizes,
                           size_t most) {
    size_t chosen = 0;
    for (size_t high = 1; high < count; high++) {
        const struct tern_between_point *a = &points[high - 1], *b = &points[high];
        for (int64_t m = next_step(a->m); m < b->m && chosen < most; m = next_step(m)) {
            const double wanted_us = ratio * line_us(a, b, m);
            if (!(answer_us(points, high, m) > wanted_us))
                continue;
            /* The largest size whose own kernel still serves this one. */
            for (int64_t next = next_step(m); next < b->m && line_us(a, b, next) <= wanted_us; next = next_step(next))
                m = next;
            sizes[chosen++] = m;
        }
    }
    return chosen;
}
