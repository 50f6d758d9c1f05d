/* Choice of layouts under the rule of one copy of the weights. See one_copy.h. */
#include "space/one_copy.h"

#include <math.h>

#define UNSERVED 1000.0

/* Best time at M number m over layouts a and b; NAN never wins a comparison. */
static double best_of_pair(const double *us, size_t ms, size_t m, size_t a, size_t b) {
    double best = (double)INFINITY;
    if (us[a * ms + m] < best)
        best = us[a * ms + m];
    if (us[b * ms + m] < best)
        best = us[b * ms + m];
    return best;
}

static double best_of_all(const double *us, size_t layouts, size_t ms, size_t m) {
    double best = (double)INFINITY;
    for (size_t l = 0; l < layouts; l++)
        if (us[l * ms + m] < best)
            best = us[l * ms + m];
    return best;
}

/* Weighted slow-down of keeping layouts a and b (a == b: one copy). */
static double slowdown(const double *us, size_t layouts, size_t ms, const double *weight, size_t a, size_t b) {
    double sum = 0, total = 0;
    for (size_t m = 0; m < ms; m++) {
        double all = best_of_all(us, layouts, ms, m), pair = best_of_pair(us, ms, m, a, b);
        if (!isfinite(all))
            continue; /* no layout serves this M: no reason to prefer one */
        sum += weight[m] * (isfinite(pair) ? pair / all : UNSERVED);
        total += weight[m];
    }
    return total > 0 ? sum / total : (double)INFINITY;
}

double tern_one_copy_choose(const double *us, size_t layouts, size_t ms, const double *weight, int copies, bool *chosen) {
    double best = (double)INFINITY;
    size_t best_a = 0, best_b = 0;
    for (size_t l = 0; l < layouts; l++)
        chosen[l] = false;
    for (size_t a = 0; a < layouts; a++)
        for (size_t b = a; b < (copies > 1 ? layouts : a + 1); b++) {
            double loss = slowdown(us, layouts, ms, weight, a, b);
            if (loss < best) {
                best = loss;
                best_a = a;
                best_b = b;
            }
        }
    if (isfinite(best))
        chosen[best_a] = chosen[best_b] = true;
    return best;
}
