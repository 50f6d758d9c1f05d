/* Curves: best so far over GPU seconds, its levels and its table. All numbers are invented. */
#include "core/str.h"
#include "output/curve.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define WRONG (-1.0) /* a trial without a time */

static void add(struct tern_curve *s, int64_t build, bool final, double us, double gpu_seconds) {
    struct tern_curve_trial t = {
        .build = build, .final = final, .ok = us > 0, .us = us > 0 ? us : (double)NAN, .gpu_seconds = gpu_seconds};
    tern_str_copy(t.template_name, sizeof t.template_name, "t");
    tern_str_format(t.params, sizeof t.params, "A=%lld", (long long)build);
    tern_curve_add(s, &t);
}

static void release(struct tern_curve *s) {
    free(s->trials);
    free(s->points);
}

static void expect_point(const struct tern_curve *s, size_t i, size_t trial, double gpu_seconds, double us) {
    assert_true(i < s->point_count);
    const struct tern_curve_point *p = &s->points[i];
    if (p->trial != trial || fabs(p->gpu_seconds - gpu_seconds) > 1e-12 || p->us != us)
        fail_msg("point %zu: trial %zu at %g s, %g us", i, p->trial, p->gpu_seconds, p->us);
}

/* Checks, wrong candidates and finals cost seconds; only right times make the curve. */
static void the_best_so_far(void **state) {
    (void)state;
    struct tern_curve s = {0};
    add(&s, 1, false, WRONG, 0.5); /* a check */
    add(&s, 1, false, 20, 1);
    add(&s, 2, false, WRONG, 2);
    add(&s, 3, false, 10, 4);
    add(&s, 1, false, 30, 8); /* no better */
    tern_curve_finish(&s);
    assert_int_equal(s.point_count, 2);
    expect_point(&s, 0, 2, 1.5, 20);
    expect_point(&s, 1, 4, 7.5, 10);
    assert_string_equal(s.points[1].params, "A=3");
    assert_true(s.tried == 3 && s.right == 2 && s.unknown == 0 && s.gpu_seconds == 15.5);
    assert_true(tern_curve_until(&s, 0) == 7.5);
    assert_true(tern_curve_until(&s, 1) == 1.5);
    release(&s);
}

/* A lucky screen is not better than what the final says of it, and what was in no final is not better than the final's best. */
static void finals_decide(void **state) {
    (void)state;
    struct tern_curve s = {0};
    add(&s, 1, false, 12, 1);
    add(&s, 2, false, 9, 1);   /* lucky: 10 in the final */
    add(&s, 3, false, 9.5, 1); /* in no final */
    add(&s, 2, true, 10, 1);
    add(&s, 1, true, 11, 1);
    add(&s, 2, true, 10.25, 1); /* a later final of the same candidate counts */
    tern_curve_finish(&s);
    assert_int_equal(s.point_count, 2);
    expect_point(&s, 0, 1, 1, 11);
    expect_point(&s, 1, 2, 2, 10.25);
    release(&s);
}

static void unknown_seconds(void **state) {
    (void)state;
    struct tern_curve some = {0}, none = {0}, nothing = {0};
    add(&some, 1, false, 12, (double)NAN);
    add(&some, 2, false, 10, 1);
    tern_curve_finish(&some);
    assert_true(some.unknown == 1 && some.gpu_seconds == 1 && tern_curve_until(&some, 0.5) == 0);
    add(&none, 1, false, 12, (double)NAN);
    tern_curve_finish(&none);
    assert_true(isnan(none.gpu_seconds) && isnan(tern_curve_until(&none, 0)) && none.point_count == 1);
    add(&nothing, 1, false, WRONG, 1);
    tern_curve_finish(&nothing);
    assert_true(nothing.gpu_seconds == 1 && nothing.point_count == 0 && isnan(tern_curve_until(&nothing, 0)));
    release(&some);
    release(&none);
    release(&nothing);
}

/* Columns hold for large and small numbers, and no line is longer than 80. */
static void the_table(void **state) {
    (void)state;
    static const char *const layers[] = {"qkv", "a_layer_with_a_long_name", "down"};
    struct tern_curve *list = tern_alloc_zero(3, sizeof *list);
    const struct tern_curves all = {list, 3};
    char *text = NULL, *rest, *line;
    size_t length = 0;
    for (size_t i = 0; i < 3; i++) {
        tern_str_copy(list[i].problem.gpu, sizeof list[i].problem.gpu, "h200");
        tern_str_copy(list[i].problem.layer, sizeof list[i].problem.layer, layers[i]);
        list[i].problem.m = 8192;
        add(&list[i], 1, false, 123456.0, i == 1 ? (double)NAN : 4321.9);
        tern_curve_finish(&list[i]);
    }
    FILE *out = open_memstream(&text, &length);
    tern_curve_table(out, &all);
    fclose(out);
    assert_non_null(strstr(text, "until within"));
    assert_non_null(strstr(text, "a_layer_wi"));
    assert_non_null(strstr(text, "sum"));
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        assert_true(strlen(line) <= 80);
    free(text);
    for (size_t i = 0; i < 3; i++)
        release(&list[i]);
    free(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_so_far),
        cmocka_unit_test(finals_decide),
        cmocka_unit_test(unknown_seconds),
        cmocka_unit_test(the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
