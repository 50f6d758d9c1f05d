/* One copy of the weights: which layouts an engine keeps. */
#include "space/one_copy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const double even[] = {1, 1, 1};

static void one_layout_must_serve_all_m(void **state) {
    (void)state;
    /* A wins twice by little, B wins once by a lot: B loses least. */
    const double us[] = {10, 10, 60, 11, 11, 20};
    bool chosen[2];
    double loss = tern_one_copy_choose(us, 2, 3, even, 1, chosen);
    assert_false(chosen[0]);
    assert_true(chosen[1]);
    assert_true(fabs(loss - (1.1 + 1.1 + 1.0) / 3) < 1e-12);
}

static void weights_of_m_decide(void **state) {
    (void)state;
    const double us[] = {10, 10, 60, 11, 11, 20}, decode[] = {100, 100, 1};
    bool chosen[2];
    tern_one_copy_choose(us, 2, 3, decode, 1, chosen);
    assert_true(chosen[0]);
    assert_false(chosen[1]);
}

static void two_copies_lose_nothing(void **state) {
    (void)state;
    const double us[] = {10, 90, 60, 11, 11, 20, 50, 9, 90};
    bool chosen[3];
    double loss = tern_one_copy_choose(us, 3, 3, even, 2, chosen);
    assert_true(chosen[0] + chosen[1] + chosen[2] == 2);
    assert_true(chosen[1]);
    assert_true(loss < 1.1);
}

static void a_layout_with_gaps_loses_to_one_without(void **state) {
    (void)state;
    const double us[] = {1, 1, (double)NAN, 30, 30, 30};
    bool chosen[2];
    tern_one_copy_choose(us, 2, 3, even, 1, chosen);
    assert_false(chosen[0]);
    assert_true(chosen[1]);
}

static void nothing_timed_chooses_nothing(void **state) {
    (void)state;
    const double us[] = {(double)NAN, (double)INFINITY, (double)NAN};
    bool chosen[1];
    assert_true(isinf(tern_one_copy_choose(us, 1, 3, even, 1, chosen)));
    assert_false(chosen[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_layout_must_serve_all_m),   cmocka_unit_test(weights_of_m_decide),
        cmocka_unit_test(two_copies_lose_nothing),       cmocka_unit_test(a_layout_with_gaps_loses_to_one_without),
        cmocka_unit_test(nothing_timed_chooses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
