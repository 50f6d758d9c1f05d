/* The least of correlated normal variables against what is known of it. */
#include "space/joint.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { N = 24 };

/* N variables of mean 3 and variance 4 whose errors have this correlation. */
static double least(double correlation, size_t n, double chance) {
    double mean[N], c[N * N];
    for (size_t i = 0; i < n; i++) {
        mean[i] = 3;
        for (size_t j = 0; j < n; j++)
            c[i * n + j] = 4 * (i == j ? 1 : correlation);
    }
    return tern_joint_least(mean, c, n, chance, 1);
}

static void one_variable_has_its_own_quantiles(void **state) {
    (void)state;
    assert_true(fabs(least(0, 1, 0.5) - 3) < 0.3);
    assert_true(fabs(least(0, 1, 0.1) - (3 - 1.2816 * 2)) < 0.4);
}

/* The least of n falls below x at 1 - (1 - Phi(x))^n: at one in two for x = -1.90 of 24. Many that err together are as one. */
static void correlation_decides_how_far_the_least_falls(void **state) {
    (void)state;
    assert_true(fabs(least(0, N, 0.5) - (3 - 1.90 * 2)) < 0.3);
    assert_true(fabs(least(1, N, 0.5) - least(1, 1, 0.5)) < 0.3);
    assert_true(least(0, N, 0.1) < least(0.5, N, 0.1) - 0.3 && least(0.5, N, 0.1) < least(1, N, 0.1) - 0.3);
}

static void what_is_certain_stays(void **state) {
    const double mean[3] = {2, 1, 5}, none[9] = {0};
    (void)state;
    assert_true(tern_joint_least(mean, none, 3, 0.1, 7) == 1);
    assert_true(least(0.3, N, 0.2) == least(0.3, N, 0.2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_variable_has_its_own_quantiles),
        cmocka_unit_test(correlation_decides_how_far_the_least_falls),
        cmocka_unit_test(what_is_certain_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
