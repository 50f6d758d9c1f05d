/* Sizes between tuned M that are worth tuning too. */
#include "space/between.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = 64 };

static void equal_times_need_nothing(void **state) {
    (void)state;
    const struct tern_between_point points[] = {{64, 64, 64, 10.0}, {128, 128, 1024, 10.9}};
    int64_t sizes[MOST];
    assert_int_equal(tern_between_choose(points, 2, 1.1, sizes, MOST), 0);
    assert_int_equal(tern_between_choose(points, 1, 1.1, sizes, MOST), 0);
    assert_int_equal(tern_between_choose(points, 0, 1.1, sizes, MOST), 0);
}

/* gate_up of Qwen2.5-7B on an H200: 52.9 us at 128, 93.6 us at 256. Kernels for 160, 192 and 224 rows serve all in between within
 * a tenth: 144 is expected to take 58.0 us, 160 63.1, 176 68.2, 192 73.3, 208 78.3, 224 83.4, 240 88.5. */
static void each_size_serves_those_below(void **state) {
    (void)state;
    const struct tern_between_point points[] = {{128, 128, 1 << 20, 52.9}, {256, 256, 1 << 20, 93.6}};
    const int64_t expected[] = {160, 192, 224};
    int64_t sizes[MOST];
    assert_int_equal(tern_between_choose(points, 2, 1.1, sizes, MOST), 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sizes[i], expected[i]);
    assert_int_equal(tern_between_choose(points, 2, 1.4, sizes, MOST), 1);
}

/* A kernel whose tiles are small next to M grows with M: 17 of 16 tiles cost 6 %. One that cannot serve more rows does not. */
static void small_tiles_serve_what_is_above(void **state) {
    (void)state;
    struct tern_between_point points[] = {{1024, 64, 1 << 20, 100.0}, {2048, 256, 1 << 20, 200.0}};
    int64_t sizes[MOST];
    assert_int_equal(tern_between_choose(points, 2, 1.1, sizes, MOST), 0);
    points[0].most = 1024;
    assert_true(tern_between_choose(points, 2, 1.1, sizes, MOST) > 0);
    points[0] = (struct tern_between_point){1024, 256, 1 << 20, 100.0};
    assert_true(tern_between_choose(points, 2, 1.1, sizes, MOST) > 0);
}

/* What no tensor core tile can tell apart is not tuned. */
static void steps_are_those_of_tiles(void **state) {
    (void)state;
    const struct tern_between_point points[] = {{8, 8, 8, 10.0}, {16, 16, 16, 20.0}, {32, 32, 64, 40.0}, {64, 64, 64, 80.0}};
    int64_t sizes[MOST];
    assert_int_equal(tern_between_choose(points, 4, 1.1, sizes, MOST), 1);
    assert_int_equal(sizes[0], 48);
}

static void the_list_may_be_short(void **state) {
    (void)state;
    const struct tern_between_point points[] = {{128, 128, 1 << 20, 52.9}, {256, 256, 1 << 20, 93.6}};
    int64_t sizes[] = {0, 0, -1};
    assert_int_equal(tern_between_choose(points, 2, 1.1, sizes, 2), 2);
    assert_int_equal(sizes[1], 192);
    assert_int_equal(sizes[2], -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_times_need_nothing),        cmocka_unit_test(each_size_serves_those_below),
        cmocka_unit_test(small_tiles_serve_what_is_above), cmocka_unit_test(steps_are_those_of_tiles),
        cmocka_unit_test(the_list_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
