/* FP64 reference, its bound, guards and poison: what must be caught and what must be let through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/half.h"
#include "core/random.h"
#include "verify/guard.h"
#include "verify/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A layer, activations and their reference over all rows and columns. */
struct bench {
    struct tern_weights w;
    int64_t m, rows[64], cols[256];
    uint16_t *x, *got;
    double *ref, *scale;
};

static void bench_reference(struct bench *b) {
    tern_reference_compute(&b->w, TERN_F16, b->x, b->rows, b->m, b->cols, b->w.n, b->ref, b->scale);
}

static void bench_open(struct bench *b, const char *name, int64_t m, int64_t n, int64_t k, uint64_t seed) {
    struct tern_format format;
    assert_int_equal(tern_format_parse(name, &format, NULL), TERN_OK);
    assert_int_equal(tern_weights_random(&format, n, k, seed, &b->w, NULL), TERN_OK);
    b->m = m;
    b->x = malloc((size_t)(m * k) * 2);
    b->got = malloc((size_t)(m * n) * 2);
    b->ref = malloc((size_t)(m * n) * sizeof(double));
    b->scale = malloc((size_t)(m * n) * sizeof(double));
    for (int64_t i = 0; i < m; i++)
        b->rows[i] = i;
    for (int64_t j = 0; j < n; j++)
        b->cols[j] = j;
    tern_activations_random(TERN_F16, m, k, seed, b->x);
    bench_reference(b);
}

static void bench_close(struct bench *b) {
    tern_weights_free(&b->w);
    free(b->x);
    free(b->got);
    free(b->ref);
    free(b->scale);
}

static bool bench_compare(struct bench *b, enum tern_exactness exactness, struct tern_mismatch *mismatch) {
    memset(mismatch, 0, sizeof *mismatch);
    const struct tern_precision precision = {b->w.k, TERN_F16, exactness};
    return tern_reference_compare(b->got, b->w.n, b->rows, b->m, b->cols, b->w.n, b->ref, b->scale, &precision, mismatch);
}

/* Toward zero to the 24 bits of fp32, as tensor cores do. */
static float truncate_to_float(double v) {
    float f = (float)v;
    return fabs((double)f) > fabs(v) ? nextafterf(f, 0.0f) : f;
}

enum order { SEQUENTIAL, SPLIT_K_7, REVERSED, TENSOR_CORE, HALF_ACCUMULATOR };

/* How kernels compute: fp32 sums in several orders; TENSOR_CORE adds 8 products at a time and truncates. */
static uint16_t kernel_dot(const struct bench *b, int64_t i, int64_t j, enum order order, bool rounded) {
    int64_t k = b->w.k;
    float part[7] = {0};
    double step = 0;
    for (int64_t s = 0; s < k; s++) {
        int64_t c = order == REVERSED ? k - 1 - s : s;
        double w = tern_weights_value(&b->w, j, c);
        if (rounded)
            w = (double)tern_half_to_float(tern_half_from_double(w));
        double x = (double)tern_half_to_float(b->x[i * k + c]);
        float *sum = &part[order == SPLIT_K_7 ? s * 7 / k : 0];
        if (order == TENSOR_CORE) {
            step += x * w;
            if (s % 8 == 7) {
                *sum = truncate_to_float((double)*sum + step);
                step = 0;
            }
        } else {
            *sum = fmaf((float)x, (float)w, *sum);
        }
        if (order == HALF_ACCUMULATOR)
            *sum = tern_half_to_float(tern_half_from_double((double)*sum));
    }
    float total = 0;
    for (int p = 0; p < 7; p++)
        total += part[p];
    return tern_half_from_double((double)total);
}

static void run_kernel(struct bench *b, enum order order, bool rounded) {
    for (int64_t i = 0; i < b->m; i++)
        for (int64_t j = 0; j < b->w.n; j++)
            b->got[i * b->w.n + j] = kernel_dot(b, i, j, order, rounded);
}

/* An 8 x 32 layer by hand: scale 0.5, zero 8, codes 8 but for q[2][3] = 10 and q[2][31] = 1; x = 3 at k 3 and 2 at k 31:
 * y[2] = 3 * 1 - 2 * 3.5 = -4, sum|x*w| = 3 + 7 = 10; y of the other rows is 0. */
static void reference_by_hand(void **state) {
    (void)state;
    struct bench b;
    bench_open(&b, "gptq4-channel", 1, 8, 32, 1);
    memset(b.w.codes, 8, 8 * 32);
    memset(b.x, 0, 32 * 2);
    for (int j = 0; j < 8; j++)
        b.w.scales[j] = 0x3800;
    b.w.codes[2 * 32 + 3] = 10;
    b.w.codes[2 * 32 + 31] = 1;
    b.x[3] = 0x4200;
    b.x[31] = 0x4000;
    bench_reference(&b);
    for (int j = 0; j < 8; j++) {
        assert_true(b.ref[j] == (j == 2 ? -4.0 : 0.0));
        assert_true(b.scale[j] == (j == 2 ? 10.0 : 0.0));
    }
    bench_close(&b);
}

/* Chosen rows and columns, short last groups and zeros, against the plain definition. */
static void reference_of_a_selection(void **state) {
    (void)state;
    const char *names[] = {"ternary-g128", "gptq3-g96-asym", "gptq8-channel-asym", "ternary-tensor"};
    for (int f = 0; f < 4; f++) {
        struct bench b;
        bench_open(&b, names[f], 6, 40, 352, 5);
        const int64_t rows[] = {5, 0, 3}, cols[] = {39, 7, 7, 16};
        double ref[12], scale[12];
        tern_reference_compute(&b.w, TERN_F16, b.x, rows, 3, cols, 4, ref, scale);
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 4; j++) {
                double sum = 0, magnitude = 0;
                for (int64_t k = 0; k < 352; k++) {
                    double p = (double)tern_half_to_float(b.x[rows[i] * 352 + k]) * tern_weights_value(&b.w, cols[j], k);
                    sum += p;
                    magnitude += fabs(p);
                }
                assert_true(fabs(ref[i * 4 + j] - sum) <= 1e-12 * magnitude);
                assert_true(fabs(scale[i * 4 + j] - magnitude) <= 1e-12 * magnitude);
            }
        }
        bench_close(&b);
    }
}

static double tolerance(double ref, double scale, int64_t k, enum tern_activation type, enum tern_exactness exactness) {
    const struct tern_precision precision = {k, type, exactness};
    return tern_reference_tolerance(ref, scale, &precision);
}

/* ref 1, sum|x*w| 32, K 4096: 2^-11 + 2^-25 + 2^-23 (64 * 32 + 256); ROUNDED adds 32 * 2^-11. bfloat16: 2^-8, 2^-134. */
static void tolerance_by_hand(void **state) {
    (void)state;
    const double sums = ldexp(64 * 32 + 256, -23), half = ldexp(1, -11) + ldexp(1, -25) + sums, bf16 = ldexp(1, -8) + sums;
    assert_true(fabs(tolerance(1, 32, 4096, TERN_F16, TERN_EXACT_WEIGHTS) - half) < 1e-15);
    assert_true(fabs(tolerance(-1, 32, 4096, TERN_F16, TERN_ROUNDED_WEIGHTS) - half - 32 * ldexp(1, -11)) < 1e-15);
    assert_true(tolerance(0, 0, 32, TERN_F16, TERN_EXACT_WEIGHTS) == ldexp(1, -25));
    assert_true(fabs(tolerance(1, 32, 4096, TERN_BF16, TERN_EXACT_WEIGHTS) - bf16) < 1e-15);
    assert_true(fabs(tolerance(-1, 32, 4096, TERN_BF16, TERN_ROUNDED_WEIGHTS) - bf16 - 32 * ldexp(1, -8)) < 1e-15);
    assert_true(tolerance(0, 0, 32, TERN_BF16, TERN_EXACT_WEIGHTS) == ldexp(1, -134));
    /* sums of integers: 2^-23 (2 + sqrt(128)) * 32; of e4m3 2^-10 * 32 more */
    const double exact = ldexp(1, -11) + ldexp(1, -25) + ldexp(32 * (2 + sqrt(128)), -23);
    assert_true(fabs(tolerance(1, 32, 4096, TERN_INT8, TERN_EXACT_SUMS) - exact) < 1e-15);
    assert_true(fabs(tolerance(1, 32, 4096, TERN_E4M3, TERN_E4M3_SUMS) - exact - 32 * ldexp(1, -10)) < 1e-15);
}

static void every_honest_order_is_accepted(void **state) {
    (void)state;
    const char *names[] = {"ternary-g128", "gptq4-g128-asym", "gptq8-channel", "gptq2-g64"};
    for (int f = 0; f < 4; f++) {
        struct bench b;
        struct tern_mismatch mismatch;
        bench_open(&b, names[f], 2, 16, 3584, 21);
        for (enum order order = SEQUENTIAL; order <= TENSOR_CORE; order++) {
            run_kernel(&b, order, false);
            assert_true(bench_compare(&b, TERN_EXACT_WEIGHTS, &mismatch));
            assert_int_equal(mismatch.checked, 32);
            assert_int_equal(mismatch.count, 0);
            assert_true(mismatch.worst > 0 && mismatch.worst <= 1);
        }
        run_kernel(&b, SEQUENTIAL, true);
        assert_true(bench_compare(&b, TERN_ROUNDED_WEIGHTS, &mismatch));
        bench_close(&b);
    }
}

/* The worst case for truncation: every product positive. */
static void same_sign_truncation_is_accepted(void **state) {
    (void)state;
    struct bench b;
    struct tern_mismatch mismatch;
    bench_open(&b, "gptq2-channel", 2, 8, 18944, 3);
    for (int64_t i = 0; i < 8 * 18944; i++)
        b.w.codes[i] = 3;
    for (int64_t i = 0; i < 2 * 18944; i++)
        b.x[i] &= 0x7FFF;
    bench_reference(&b);
    for (enum order order = SEQUENTIAL; order <= TENSOR_CORE; order++) {
        run_kernel(&b, order, false);
        assert_true(bench_compare(&b, TERN_EXACT_WEIGHTS, &mismatch));
    }
    bench_close(&b);
}

static void a_half_accumulator_is_caught(void **state) {
    (void)state;
    struct bench b;
    struct tern_mismatch mismatch;
    bench_open(&b, "ternary-channel", 2, 16, 3584, 4);
    run_kernel(&b, HALF_ACCUMULATOR, false);
    assert_false(bench_compare(&b, TERN_EXACT_WEIGHTS, &mismatch));
    assert_true(mismatch.count > 8 && mismatch.worst > 2);
    bench_close(&b);
}

/* A kernel that reads one weight of 3584 wrongly (by one step), at random places: seen over 16 rows of x at nearly every
 * place; it stays hidden in a row only where x there is near 0. */
static void one_wrong_weight_is_caught(void **state) {
    (void)state;
    const char *names[] = {"ternary-g128", "gptq4-g128"};
    for (int f = 0; f < 2; f++) {
        struct bench b;
        struct tern_random random;
        struct tern_mismatch mismatch;
        bench_open(&b, names[f], 16, 8, 3584, 31);
        tern_random_init(&random, 1, "test-places");
        for (int trial = 0; trial < 200; trial++) {
            int64_t col = (int64_t)tern_random_below(&random, 8), k = (int64_t)tern_random_below(&random, 3584);
            double step = tern_half_to_float(b.w.scales[k / 128 * 8 + col]);
            for (int64_t i = 0; i < 16 * 8; i++) {
                double wrong = i % 8 == col ? step * (double)tern_half_to_float(b.x[i / 8 * 3584 + k]) : 0;
                b.got[i] = tern_half_from_double((double)(float)(b.ref[i] + wrong));
            }
            assert_false(bench_compare(&b, TERN_EXACT_WEIGHTS, &mismatch));
            assert_int_equal(mismatch.col, col);
            assert_true(mismatch.count <= 16);
            if (f == 0) /* |x| of a normal is beyond the blind zone in 15 of 16 rows or so */
                assert_true(mismatch.count >= 9);
        }
        bench_close(&b);
    }
}

/* Scales one ulp off in a whole channel: full activations show it. */
static void a_channel_scale_off_by_one_ulp_is_caught(void **state) {
    (void)state;
    struct bench b;
    struct tern_mismatch mismatch;
    bench_open(&b, "ternary-channel", 16, 64, 3584, 8);
    for (int64_t j = 0; j < 64; j++)
        b.w.scales[j]++;
    run_kernel(&b, TENSOR_CORE, false);
    assert_false(bench_compare(&b, TERN_EXACT_WEIGHTS, &mismatch));
    assert_true(mismatch.count > 50);
    bench_close(&b);
}

/* One ulp in one group of 28 moves most y by less than the output's own rounding, so full activations hide it from any
 * elementwise bound. Activations that are zero outside that group show it. */
static void a_group_scale_off_by_one_ulp_is_caught_by_a_group_probe(void **state) {
    (void)state;
    struct bench b;
    struct tern_mismatch mismatch;
    bench_open(&b, "ternary-g128", 16, 32, 3584, 8);
    for (int64_t i = 0; i < 16 * 3584; i++)
        if (i % 3584 / 128 != 11)
            b.x[i] = 0;
    bench_reference(&b);
    run_kernel(&b, SPLIT_K_7, false);
    assert_true(bench_compare(&b, TERN_EXACT_WEIGHTS, &mismatch));
    for (int64_t j = 0; j < 32; j++)
        b.w.scales[11 * 32 + j]++;
    run_kernel(&b, SPLIT_K_7, false);
    assert_false(bench_compare(&b, TERN_EXACT_WEIGHTS, &mismatch));
    assert_true(mismatch.count > 50);
    bench_close(&b);
}

static const struct tern_precision exact_32 = {32, TERN_F16, TERN_EXACT_WEIGHTS};
static const struct tern_precision exact_32_bf16 = {32, TERN_BF16, TERN_EXACT_WEIGHTS};

/* One element: is it right? */
static bool right_of(const struct tern_precision *precision, double ref, double scale, uint16_t got) {
    const int64_t zero = 0;
    struct tern_mismatch mismatch = {0};
    bool ok = tern_reference_compare(&got, 1, &zero, 1, &zero, 1, &ref, &scale, precision, &mismatch);
    assert_int_equal(mismatch.checked, 1);
    assert_int_equal(mismatch.count, !ok);
    return ok;
}
static bool right(double ref, double scale, uint16_t got) {
    return right_of(&exact_32, ref, scale, got);
}
static bool right_bf16(double ref, double scale, uint16_t got) {
    return right_of(&exact_32_bf16, ref, scale, got);
}

/* What overflows, what is a neighbour, and what is no number. */
static void bfloat16_has_limits_of_its_own(void **state) {
    (void)state;
    enum { INF = 0x7F80, NEG_INF = 0xFF80, MAX = 0x7F7F, NEG_MAX = 0xFF7F };
    const double edge = ldexp(2 - ldexp(1, -8), 127), max = ldexp(2 - ldexp(1, -7), 127);
    assert_true(right_bf16(70000, 70000, 0x4789)); /* 70144; no infinity here */
    assert_false(right_bf16(70000, 70000, INF));
    assert_true(right_bf16(max, max, MAX));
    assert_false(right_bf16(max, max, INF));
    assert_true(right_bf16(1.01 * edge, edge, INF));
    assert_false(right_bf16(1.01 * edge, edge, NEG_INF));
    assert_false(right_bf16(1.01 * edge, edge, MAX)); /* saturating is wrong */
    assert_true(right_bf16(-1.01 * edge, edge, NEG_INF));
    assert_true(right_bf16(edge, edge, INF)); /* either side of the edge, within accumulation */
    assert_true(right_bf16(-edge, edge, NEG_MAX));
    assert_true(right_bf16(1, 1, 0x3F80));
    assert_true(right_bf16(1 + ldexp(1, -8), 1, 0x3F80)); /* half way: both */
    assert_true(right_bf16(1 + ldexp(1, -8), 1, 0x3F81));
    assert_false(right_bf16(1, 1, 0x3F81));
    assert_false(right_bf16(1, 1, 0xBF80));
    assert_false(right_bf16(1, 1, 0xFFFF));
    assert_false(right_bf16(0, 0, 0x7FC0));
    assert_true(right_bf16(0, 0, 0x8000));
    assert_true(right_bf16(ldexp(1.5, -133), 0, 0x0001));
    assert_true(right_bf16(ldexp(1.5, -133), 0, 0x0002));
    assert_false(right_bf16(ldexp(1.5, -133), 0, 0x0003));
}

static void overflow_gives_the_right_infinity_only(void **state) {
    (void)state;
    enum { INF = 0x7C00, NEG_INF = 0xFC00, MAX = 0x7BFF, NEG_MAX = 0xFBFF };
    assert_true(right(70000, 70000, INF));
    assert_false(right(70000, 70000, NEG_INF));
    assert_false(right(70000, 70000, MAX)); /* saturating is wrong */
    assert_false(right(70000, 70000, 0x7E00));
    assert_true(right(-70000, 70000, NEG_INF));
    assert_false(right(-70000, 70000, INF));
    assert_false(right(-70000, 70000, NEG_MAX));
    assert_false(right(65000, 65000, INF)); /* no reason to overflow */
    assert_true(right(65504, 65504, MAX));
    assert_false(right(65504, 65504, INF));
    assert_true(right(65510, 65510, MAX)); /* rounds down */
    assert_false(right(65510, 65510, INF));
    assert_true(right(65530, 65530, INF));
    assert_false(right(65530, 65530, MAX));
    assert_true(right(65520, 65520, INF)); /* either side of the edge, within accumulation */
    assert_true(right(65520, 65520, MAX));
    assert_false(right(1, 1, INF));
}

static void nan_fails_everywhere(void **state) {
    (void)state;
    assert_false(right(0, 0, 0x7E00));
    assert_false(right(1, 1, 0xFFFF));
    assert_false(right(NAN, 1, 0x3C00));
    assert_false(right(1, NAN, 0x3C00));
    assert_false(right(NAN, NAN, 0x7C00));
    assert_false(right(INFINITY, INFINITY, 0x3C00));
    assert_true(right(0, 0, 0x0000));
    assert_true(right(0, 0, 0x8000)); /* -0 equals 0 */
    assert_false(right(0, 0, 0x0002));
    assert_true(right(1, 1, 0x3C00));
    assert_false(right(1, 1, 0xBC00));
    assert_false(right(1, 1, 0x3C02));
    assert_true(right(ldexp(1.5, -24), 0, 0x0001)); /* half way between subnormals: both */
    assert_true(right(ldexp(1.5, -24), 0, 0x0002));
    assert_false(right(ldexp(1.5, -24), 0, 0x0003));
}

static void mismatches_add_up_and_name_the_first(void **state) {
    (void)state;
    const uint16_t got[] = {0, 0, 0, 0x3C00, 0, 0x7E00};
    const double ref[4] = {0}, scale[4] = {0};
    const int64_t rows[] = {0, 1}, cols[] = {0, 2};
    struct tern_mismatch mismatch = {0};
    assert_false(tern_reference_compare(got, 3, rows, 0, cols, 2, ref, scale, &exact_32, &mismatch));
    assert_int_equal(mismatch.checked, 0); /* nothing checked is not a pass */
    assert_true(tern_reference_compare(got, 3, rows, 1, cols, 2, ref, scale, &exact_32, &mismatch));
    assert_int_equal(mismatch.count, 0);
    assert_false(tern_reference_compare(got, 3, rows, 2, cols, 2, ref, scale, &exact_32, &mismatch));
    assert_int_equal(mismatch.checked, 6);
    assert_int_equal(mismatch.count, 2);
    assert_int_equal(mismatch.row, 1);
    assert_int_equal(mismatch.col, 0);
    assert_true(mismatch.got == 1.0 && mismatch.expected == 0.0 && mismatch.tolerance > 0);
    assert_true(isinf(mismatch.worst)); /* the NaN */
    assert_true(tern_reference_compare(got, 3, rows, 1, cols, 2, ref, scale, &exact_32, &mismatch));
    assert_int_equal(mismatch.count, 2); /* this call's own answer is clean, the sum stays */
}

static void guards_see_every_byte(void **state) {
    (void)state;
    uint8_t guard[TERN_GUARD_BYTES + 3];
    size_t offset = 1234567;
    tern_guard_fill(guard, sizeof guard, 42);
    assert_true(tern_guard_check(guard, sizeof guard, 42, &offset));
    assert_int_equal(offset, 1234567);
    assert_false(tern_guard_check(guard, sizeof guard, 43, &offset));
    assert_false(tern_guard_check(guard + 8, sizeof guard - 8, 42, &offset)); /* a moved copy */
    for (size_t i = 0; i < sizeof guard; i++) {
        for (int bit = 0; bit < 8; bit += 7) {
            guard[i] ^= (uint8_t)(1u << bit);
            assert_false(tern_guard_check(guard, sizeof guard, 42, &offset));
            assert_int_equal(offset, i);
            guard[i] ^= (uint8_t)(1u << bit);
        }
    }
    for (int fill = 0; fill < 256; fill++) {
        memset(guard, fill, sizeof guard);
        assert_false(tern_guard_check(guard, sizeof guard, 42, NULL));
    }
    assert_true(tern_guard_check(guard, 0, 42, &offset));
}

static void poison_is_nan_and_counted(void **state) {
    (void)state;
    uint16_t y[] = {0xFFFF, 0x7E00, 0xFFFE, 0xFFFF, 0, 0xFFFF};
    assert_int_equal(tern_guard_count_poison(y, 6), 3);
    assert_int_equal(tern_guard_count_poison(y, 0), 0);
    assert_true(isnan(tern_half_to_float((uint16_t)TERN_POISON_WORD)));
    assert_true(isnan(tern_bf16_to_float((uint16_t)TERN_POISON_WORD)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_by_hand),
        cmocka_unit_test(reference_of_a_selection),
        cmocka_unit_test(tolerance_by_hand),
        cmocka_unit_test(every_honest_order_is_accepted),
        cmocka_unit_test(same_sign_truncation_is_accepted),
        cmocka_unit_test(a_half_accumulator_is_caught),
        cmocka_unit_test(one_wrong_weight_is_caught),
        cmocka_unit_test(a_channel_scale_off_by_one_ulp_is_caught),
        cmocka_unit_test(a_group_scale_off_by_one_ulp_is_caught_by_a_group_probe),
        cmocka_unit_test(overflow_gives_the_right_infinity_only),
        cmocka_unit_test(bfloat16_has_limits_of_its_own),
        cmocka_unit_test(nan_fails_everywhere),
        cmocka_unit_test(mismatches_add_up_and_name_the_first),
        cmocka_unit_test(guards_see_every_byte),
        cmocka_unit_test(poison_is_nan_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
