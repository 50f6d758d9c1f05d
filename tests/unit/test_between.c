/* Sizes between tuned M that are worth tuning too. */
#include "space/between.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = 64 };

/* Answers with the time of the next larger point. */
static double larger_one(void *user, int64_t m) {
    const struct tern_between_point *p = user;
    while (p->m < m)
        p++;
    return p->us;
}

static double never(void *user, int64_t m) {
    (void)user;
    (void)m;
    return INFINITY;
}

static void steps_are_those_of_tiles(void **state) {
    (void)state;
    const int64_t from[] = {1, 8, 16, 17, 48, 63, 64, 96, 100, 128, 255, 256, 300, 512, 1000, 4096};
    const int64_t to[] = {16, 16, 32, 32, 64, 64, 80, 112, 112, 144, 256, 272, 304, 544, 1024, 4352};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        assert_int_equal(tern_between_step(from[i]), to[i]);
}

static void equal_times_need_nothing(void **state) {
    (void)state;
    struct tern_between_point points[] = {{64, 10.0}, {128, 10.9}};
    int64_t sizes[MOST];
    assert_int_equal(tern_between_choose(points, 2, 1.1, larger_one, points, sizes, MOST), 0);
    assert_int_equal(tern_between_choose(points, 1, 1.1, never, NULL, sizes, MOST), 0);
    assert_int_equal(tern_between_choose(points, 0, 1.1, never, NULL, sizes, MOST), 0);
}

/* gate_up of Qwen2.5-7B on an H200: 52.9 us at 128, 93.6 us at 256, 176 us at 512. A kernel made for 160 is expected to take 63.1 us,
 * for 192 73.3, for 208 78.3, for 224 83.4, for 256 93.6: the one for 208 may answer for 176 (68.2) within 1.15, not within 1.1. */
static void each_size_serves_those_below(void **state) {
    (void)state;
    struct tern_between_point points[] = {{128, 52.9}, {256, 93.6}, {512, 176.0}};
    const int64_t tenth[] = {160, 192, 224, 288, 336, 384, 432, 496}, more[] = {160, 208, 304, 368, 432};
    int64_t sizes[MOST];
    assert_int_equal(tern_between_choose(points, 3, 1.1, larger_one, points, sizes, MOST), 8);
    assert_memory_equal(sizes, tenth, sizeof tenth);
    assert_int_equal(tern_between_choose(points, 3, 1.15, larger_one, points, sizes, MOST), 5);
    assert_memory_equal(sizes, more, sizeof more);
}

/* Where the table knows nothing, all is tuned that lies apart by the ratio. */
static void unknown_answers_are_tuned(void **state) {
    (void)state;
    const struct tern_between_point points[] = {{16, 10.0}, {64, 10.0}, {128, 10.0}};
    int64_t sizes[MOST];
    assert_int_equal(tern_between_choose(points, 3, 1.1, never, NULL, sizes, MOST), 2);
    assert_int_equal(sizes[0], 48);
    assert_int_equal(sizes[1], 112);
}

static void the_list_may_be_short(void **state) {
    (void)state;
    struct tern_between_point points[] = {{128, 52.9}, {256, 93.6}};
    int64_t sizes[] = {0, 0, -1};
    assert_int_equal(tern_between_choose(points, 2, 1.05, larger_one, points, sizes, 2), 2);
    assert_int_equal(sizes[2], -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_tiles),     cmocka_unit_test(equal_times_need_nothing),
        cmocka_unit_test(each_size_serves_those_below), cmocka_unit_test(unknown_answers_are_tuned),
        cmocka_unit_test(the_list_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
