/* Sizes between tuned M that are worth tuning too. See between.h. */
#include "space/between.h"

#define OCTAVE_STEPS 16
#define LEAST_STEP   16

int64_t tern_between_step(int64_t m) {
    int64_t octave = 1;
    while (2 * octave <= m)
        octave *= 2;
    const int64_t step = octave / OCTAVE_STEPS > LEAST_STEP ? octave / OCTAVE_STEPS : LEAST_STEP;
    return (m / step + 1) * step;
}

static double line_us(const struct tern_between_point *low, const struct tern_between_point *high, int64_t m) {
    return low->us + (high->us - low->us) * (double)(m - low->m) / (double)(high->m - low->m);
}

size_t tern_between_choose(const struct tern_between_point *points, size_t count, double ratio, tern_between_answer *answer,
                           void *user, int64_t *sizes, size_t most) {
    size_t chosen = 0;
    for (size_t high = 1; high < count; high++) {
        const struct tern_between_point *a = &points[high - 1], *b = &points[high];
        for (int64_t m = tern_between_step(a->m); m < b->m && chosen < most; m = tern_between_step(m)) {
            const double wanted_us = ratio * line_us(a, b, m);
            if (answer(user, m) <= wanted_us)
                continue;
            /* The largest step whose own kernel still serves this one. */
            for (int64_t next = tern_between_step(m); next < b->m && line_us(a, b, next) <= wanted_us;
                 next = tern_between_step(next))
                m = next;
            sizes[chosen++] = m;
        }
    }
    return chosen;
}
