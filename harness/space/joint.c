/* Least of correlated normal variables, by Monte Carlo over their Cholesky factor. See joint.h. */
#include "space/joint.h"

#include "core/random.h"
#include "core/str.h"

#include <math.h>
#include <stdlib.h>

#define DRAWS 400

/* Lower triangle L of C = L L^T, row by row. */
static double *factor(const double *c, size_t n) {
    double *l = tern_alloc_zero(n * n, sizeof *l);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double left = c[i * n + j];
            for (size_t k = 0; k < j; k++)
                left -= l[i * n + k] * l[j * n + k];
            if (i == j)
                l[i * n + i] = sqrt(fmax(left, 0));
            else
                l[i * n + j] = l[j * n + j] > 0 ? left / l[j * n + j] : 0;
        }
    return l;
}

static double least_of_draw(const double *mean, const double *l, size_t n, struct tern_random *random, double *z) {
    double least = (double)INFINITY;
    for (size_t i = 0; i < n; i++) {
        double value = mean[i];
        z[i] = tern_random_normal(random);
        for (size_t k = 0; k <= i; k++)
            value += l[i * n + k] * z[k];
        least = fmin(least, value);
    }
    return least;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tern_joint_least(const double *mean, const double *covariance, size_t n, double chance, uint64_t seed) {
    struct tern_random random;
    double *l = factor(covariance, n), *z = tern_alloc(n * sizeof *z), least[DRAWS];
    tern_random_init(&random, seed, "joint");
    for (size_t d = 0; d < DRAWS; d++)
        least[d] = least_of_draw(mean, l, n, &random, z);
    qsort(least, DRAWS, sizeof *least, by_size);
    free(l);
    free(z);
    return least[(size_t)(chance * (DRAWS - 1))];
}
