/* Tests of the progress line. */
#include "output/progress.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void expect(const struct tern_progress *p, const char *line) {
    char out[TERN_PROGRESS_SIZE];
    tern_progress_line(p, out);
    assert_string_equal(out, line);
}

static void a_line_says_all(void **state) {
    int64_t outcomes[TERN_OUTCOME_COUNT] = {[TERN_OUTCOME_OK] = 412, [TERN_OUTCOME_WRONG] = 3};
    struct tern_progress p = {"ternary-g128 qkv M=16", 34, 112, 0, 56, outcomes, 6.93, 1980};
    (void)state;
    expect(&p, "[###.........] 34/112 ternary-g128 qkv M=16  6.93 us  2m08s left  412. 3w");
    p.what = "qkv";
    expect(&p, "[###.........] 34/112 qkv  6.93 us  2m08s left  412. 3w  1980 MHz");
}

static void what_was_done_before_took_no_time(void **state) {
    struct tern_progress p = {"x", 30, 40, 20, 10, NULL, (double)NAN, 0};
    (void)state;
    expect(&p, "[#########...] 30/40 x  10s left");
    p.before = 30; /* nothing done yet: no estimate */
    expect(&p, "[#########...] 30/40 x");
    p.done = 40;
    expect(&p, "[############] 40/40 x");
    p = (struct tern_progress){"x", 1, 1000, 0, 100, NULL, INFINITY, 0};
    expect(&p, "[............] 1/1000 x  27h45m left");
    p = (struct tern_progress){"x", 0, 0, 0, 0, NULL, 0, 0};
    expect(&p, "[............] 0/0 x");
}

static void it_never_wraps(void **state) {
    char out[TERN_PROGRESS_SIZE], name[200];
    int64_t outcomes[TERN_OUTCOME_COUNT];
    (void)state;
    for (int i = 0; i < TERN_OUTCOME_COUNT; i++)
        outcomes[i] = 123456789;
    memset(name, 'a', sizeof name);
    for (size_t length = 0; length < sizeof name; length++) {
        name[length] = 0;
        const struct tern_progress p = {name, 1, 2, 0, 1e300, outcomes, 123456.0, 1980};
        tern_progress_line(&p, out);
        assert_true(strlen(out) < TERN_PROGRESS_SIZE);
        name[length] = 'a';
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_says_all),
        cmocka_unit_test(what_was_done_before_took_no_time),
        cmocka_unit_test(it_never_wraps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
