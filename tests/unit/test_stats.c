/* Statistics against values worked out by hand: order-statistic ranks, quartiles, stopping, bootstrap answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "measure/stats.h"

#include "core/random.h"

#include <math.h>

static void near(double got, double expected) {
    assert_true(fabs(got - expected) <= 1e-12 * (1 + fabs(expected)));
}

/* From the exact binomial: n = 20: sum C(20,0..5) = 21700 / 2^20 = 2.07 %, with C(20,6) 5.77 %: rank 6.
 * n = 25: P(B <= 7) = 2.16 %, P(B <= 8) = 5.39 %: rank 8.  n = 100: P(B <= 39) = 1.76 %, P(B <= 40) = 2.84 %: rank 40.
 * n = 6: 1/64 = 1.6 %: rank 1.  n = 8: 9/256 = 3.5 %: still 1.  n = 9: 10/512 = 1.95 %: rank 2. n = 12: 79/4096 = 1.93 %:
 * rank 3. */
static void ranks_of_the_median_interval(void **state) {
    (void)state;
    static const size_t known[][2] = {{0, 0},  {1, 1},  {5, 1},  {6, 1},   {7, 1},   {8, 1},    {9, 2},     {11, 2},
                                      {12, 3}, {20, 6}, {25, 8}, {50, 18}, {99, 40}, {100, 40}, {1000, 469}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(tern_stats_median_rank(known[i][0]), known[i][1]);
}

/* Integer arithmetic for n <= 60: rank r is the largest with sum_{i<r} C(n,i) <= 2^n / 40. */
static void ranks_agree_with_integer_arithmetic(void **state) {
    (void)state;
    for (uint64_t n = 6; n <= 57; n++) {
        uint64_t binomial = 1, sum = 0, r = 0;
        while (sum + binomial <= ((uint64_t)1 << n) / 40) {
            sum += binomial;
            binomial = binomial * (n - r) / (r + 1); /* stays exact: C(57,28) * 57 < 2^64 */
            r++;
        }
        assert_int_equal(tern_stats_median_rank(n), r);
    }
}

/* n = 1e6: normal approximation n/2 - 1.96 sqrt(n)/2 = 499020 +- 1. */
static void rank_of_a_million(void **state) {
    (void)state;
    size_t rank = tern_stats_median_rank(1000000);
    assert_in_range(rank, 499019, 499022);
}

/* 1..20 shuffled: median 10.5, quartiles 5.75 and 15.25, interval x(6)..x(15), MAD median of |x - 10.5| = 5. */
static void twenty_samples(void **state) {
    (void)state;
    const double samples[] = {7, 20, 1, 13, 4, 18, 9, 2, 16, 11, 5, 14, 3, 19, 8, 12, 6, 17, 10, 15};
    struct tern_stats s;
    tern_stats_compute(samples, 20, &s);
    assert_int_equal(s.n, 20);
    near(s.median, 10.5);
    near(s.q1, 5.75);
    near(s.q3, 15.25);
    near(s.lo, 6);
    near(s.hi, 15);
    near(s.mad, 5);
    near(s.rel_noise, 9.0 / 21.0);
    near(samples[0], 7); /* the input is left alone */
}

static void few_samples_give_the_range(void **state) {
    (void)state;
    struct tern_stats s;
    tern_stats_compute((const double[]){3, 1, 2, 5}, 4, &s);
    near(s.median, 2.5);
    near(s.lo, 1);
    near(s.hi, 5);
    tern_stats_compute((const double[]){4}, 1, &s);
    near(s.median, 4);
    near(s.lo, 4);
    near(s.hi, 4);
    near(s.mad, 0);
    tern_stats_compute((const double[]){9, 5, 7, 1, 3}, 5, &s);
    near(s.median, 5);
    near(s.q1, 3);
    near(s.q3, 7);
    near(s.mad, 2);
}

static void nothing_and_nan_never_settle(void **state) {
    (void)state;
    struct tern_stats s;
    tern_stats_compute(NULL, 0, &s);
    assert_true(isnan(s.median) && isnan(s.lo) && isnan(s.hi) && isnan(s.rel_noise) && isnan(s.mad));
    assert_false(tern_stats_settled(&s, 0, 1.0));
    double samples[30];
    for (int i = 0; i < 30; i++)
        samples[i] = 5.0;
    tern_stats_compute(samples, 30, &s);
    assert_true(tern_stats_settled(&s, 20, 0.005));
    samples[17] = NAN;
    tern_stats_compute(samples, 30, &s);
    assert_true(isnan(s.median) && isnan(s.rel_noise));
    assert_false(tern_stats_settled(&s, 20, 0.005));
    samples[17] = INFINITY;
    tern_stats_compute(samples, 30, &s);
    assert_false(tern_stats_settled(&s, 20, 0.005));
    for (int i = 0; i < 30; i++)
        samples[i] = -5.0 - i; /* negative times have no relative noise */
    tern_stats_compute(samples, 30, &s);
    assert_false(tern_stats_settled(&s, 20, 0.005));
}

static void stopping_needs_samples_and_quiet(void **state) {
    (void)state;
    struct tern_stats s = {.n = 20, .median = 1, .rel_noise = 0.0049};
    assert_true(tern_stats_settled(&s, 20, 0.005));
    assert_false(tern_stats_settled(&s, 21, 0.005));
    s.rel_noise = 0.005;
    assert_false(tern_stats_settled(&s, 20, 0.005));
}

/* The share of 2000 intervals from a skewed distribution that hold the true median lies near 95.9 % (n = 20). */
static void intervals_cover_the_median(void **state) {
    (void)state;
    struct tern_random random;
    tern_random_init(&random, 5, "test-coverage");
    int covered = 0;
    for (int trial = 0; trial < 2000; trial++) {
        double samples[20];
        struct tern_stats s;
        for (int i = 0; i < 20; i++)
            samples[i] = -log(1.0 - tern_random_unit(&random));
        tern_stats_compute(samples, 20, &s);
        covered += s.lo <= log(2.0) && log(2.0) <= s.hi;
    }
    assert_in_range(covered, 1917 - 36, 1917 + 36); /* four standard errors of 8.9 */
}

static void best_is_certain_when_it_always_wins(void **state) {
    (void)state;
    const double a[] = {3, 4, 5, 6}, b[] = {1, 2, 3, 4}, c[] = {9, 9, 9, NAN};
    const double *const all[] = {a, b, c};
    double p[3], regret[3];
    tern_stats_p_best(all, 3, 4, 500, 1, p, regret);
    near(p[0], 0);
    near(p[1], 1);
    near(p[2], 0);
    near(regret[1], 0);
    assert_true(regret[0] >= 0.5 && regret[0] <= 2); /* 3/1 - 1 at most, 6/4 - 1 at least */
    assert_true(isinf(regret[2]) || isnan(regret[2]) || regret[2] > 1.25);
    tern_stats_p_best(all, 1, 4, 500, 1, p, regret);
    near(p[0], 1);
}

static void ties_are_split_and_nothing_is_nan(void **state) {
    (void)state;
    const double a[] = {1, 2, 3}, bad[] = {NAN, NAN, NAN};
    const double *const same[] = {a, a, a, bad}, *const hopeless[] = {bad, bad};
    double p[4], regret[4];
    tern_stats_p_best(same, 4, 3, 300, 1, p, regret);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(p[i] - 1.0 / 3) < 1e-9);
    near(p[3], 0);
    tern_stats_p_best(hopeless, 2, 3, 300, 1, p, regret);
    near(p[0], 0); /* nobody is best */
    near(p[1], 0);
    tern_stats_p_best(same, 2, 0, 300, 1, p, regret);
    assert_true(isnan(p[0]) && isnan(p[1]));
}

/* One round each way: a = {1, 4}, b = {2, 3}. Resamples of two rounds: (1,1) a wins; (2,2) b wins; mixed: medians 2.5
 * and 2.5, a tie. So p = 1/4 + 1/4 = 1/2 in expectation. With a = {1, 3}: mixed medians 2 and 2.5, a wins; (2,2) ties: p =
 * 3/4 + 1/8. */
static void p_best_meets_its_expectation(void **state) {
    (void)state;
    const double a[] = {1, 4}, a2[] = {1, 3}, b[] = {2, 3};
    double p[2], again[2], regret[2];
    tern_stats_p_best((const double *const[]){a, b}, 2, 2, 20000, 3, p, regret);
    assert_true(fabs(p[0] - 0.5) < 0.015);
    near(p[0] + p[1], 1);
    tern_stats_p_best((const double *const[]){a2, b}, 2, 2, 20000, 3, p, regret);
    assert_true(fabs(p[0] - 0.875) < 0.01);
    tern_stats_p_best((const double *const[]){a2, b}, 2, 2, 20000, 3, again, regret);
    assert_true(p[0] == again[0] && p[1] == again[1]);
    tern_stats_p_best((const double *const[]){a2, b}, 2, 2, 20000, 4, again, regret);
    assert_true(p[0] != again[0]);
}

/* Binomial tails: 2^-10 = 0.00098; (1 + 14) / 2^14 = 0.00092; (1 + 20 + 190) / 2^20 = 0.0002; 2^-9 = 0.002. */
static void surely_slower_by_the_sign_test(void **state) {
    (void)state;
    double a[20], b[20];
    for (size_t i = 0; i < 20; i++) {
        a[i] = 103;
        b[i] = 100;
    }
    assert_true(tern_stats_slower(a, b, 10, 0.02));
    assert_false(tern_stats_slower(a, b, 9, 0.02));
    assert_false(tern_stats_slower(a, b, 20, 0.04)); /* slower, but not by the margin */
    assert_false(tern_stats_slower(b, a, 20, 0));
    a[3] = 90;
    assert_false(tern_stats_slower(a, b, 10, 0.02));
    assert_true(tern_stats_slower(a, b, 14, 0.02));
    a[4] = 90;
    assert_false(tern_stats_slower(a, b, 14, 0.02));
    assert_true(tern_stats_slower(a, b, 20, 0.02));
    assert_false(tern_stats_slower(a, b, 0, 0));
    b[0] = (double)NAN; /* a round that does not count: 17 of 20 */
    assert_false(tern_stats_slower(a, b, 20, 0.02));
}

static void ratio_of_medians(void **state) {
    (void)state;
    double a[25], b[25], ratio, lo, hi, lo2, hi2;
    struct tern_random random;
    tern_random_init(&random, 9, "test-ratio");
    for (int i = 0; i < 25; i++) {
        b[i] = 10.0 + tern_random_normal(&random) * 0.1;
        a[i] = 2.0 * b[i];
    }
    tern_stats_ratio_interval(a, b, 25, 1000, 1, &ratio, &lo, &hi);
    near(ratio, 2.0); /* paired and proportional: no spread at all */
    near(lo, 2.0);
    near(hi, 2.0);
    for (int i = 0; i < 25; i++)
        a[i] = 20.0 + tern_random_normal(&random) * 0.2;
    tern_stats_ratio_interval(a, b, 25, 1000, 1, &ratio, &lo, &hi);
    assert_true(lo < ratio && ratio < hi && lo > 1.97 && hi < 2.03 && hi - lo > 0.001);
    tern_stats_ratio_interval(a, b, 25, 1000, 1, &ratio, &lo2, &hi2);
    assert_true(lo == lo2 && hi == hi2);
    a[3] = NAN;
    tern_stats_ratio_interval(a, b, 25, 1000, 1, &ratio, &lo, &hi);
    assert_true(isnan(ratio) && isnan(lo) && isnan(hi));
    tern_stats_ratio_interval(b, b, 0, 1000, 1, &ratio, &lo, &hi);
    assert_true(isnan(ratio) && isnan(lo) && isnan(hi));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_the_median_interval),
        cmocka_unit_test(ranks_agree_with_integer_arithmetic),
        cmocka_unit_test(rank_of_a_million),
        cmocka_unit_test(twenty_samples),
        cmocka_unit_test(few_samples_give_the_range),
        cmocka_unit_test(nothing_and_nan_never_settle),
        cmocka_unit_test(stopping_needs_samples_and_quiet),
        cmocka_unit_test(intervals_cover_the_median),
        cmocka_unit_test(best_is_certain_when_it_always_wins),
        cmocka_unit_test(ties_are_split_and_nothing_is_nan),
        cmocka_unit_test(p_best_meets_its_expectation),
        cmocka_unit_test(surely_slower_by_the_sign_test),
        cmocka_unit_test(ratio_of_medians),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
