/* Unit tests of several devices in one run: which of them are alike, and which problem each takes next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "commands/run_internal.h"

#include "core/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- control times ---- */

/* Which of the devices are kept at 2 %, as digits. */
static const char *kept(const struct tern_control *devices, size_t count, char out[8]) {
    bool keep[7];
    size_t size = tern_control_choose(devices, count, TERN_CONTROL_TOLERANCE, keep), length = 0;
    for (size_t i = 0; i < count; i++)
        if (keep[i])
            out[length++] = (char)('0' + i);
    out[length] = '\0';
    assert_int_equal(length, size);
    return out;
}

static void the_largest_group_is_kept(void **state) {
    (void)state;
    char out[8];
    const struct tern_control alike[] = {{9.00, 400}, {9.17, 395}, {8.90, 402}};
    assert_string_equal(kept(alike, 3, out), "012");
    assert_string_equal(kept(alike, 1, out), "0");
    assert_string_equal(kept(alike, 0, out), "");
    const struct tern_control slow_memory[] = {{9.30, 400}, {9.00, 400}, {9.05, 400}};
    assert_string_equal(kept(slow_memory, 3, out), "12");
    const struct tern_control slow_clock[] = {{9.00, 400}, {9.00, 440}, {9.00, 401}};
    assert_string_equal(kept(slow_clock, 3, out), "02");
    const struct tern_control mostly_slow[] = {{9.00, 400}, {9.50, 400}, {9.51, 400}}; /* the odd one, though faster */
    assert_string_equal(kept(mostly_slow, 3, out), "12");
    const struct tern_control chain[] = {{9.00, 400}, {9.15, 400}, {9.30, 400}, {9.45, 400}}; /* around 9.15 or 9.30 */
    assert_string_equal(kept(chain, 4, out), "012");
}

static void of_two_that_differ_the_faster_is_kept(void **state) {
    (void)state;
    char out[8];
    const struct tern_control memory[] = {{9.50, 400}, {9.00, 400}}, clock[] = {{9.0, 400}, {9.0, 450}},
                              no_matrix[] = {{9.50, 0}, {9.00, 0}};
    assert_string_equal(kept(memory, 2, out), "1");
    assert_string_equal(kept(clock, 2, out), "0");
    assert_string_equal(kept(no_matrix, 2, out), "1");
}

static void what_is_no_time_is_not_kept(void **state) {
    (void)state;
    char out[8];
    const struct tern_control bad[] = {
        {(double)NAN, 400}, {9.00, (double)NAN}, {0, 400}, {-9, 400}, {(double)INFINITY, 400}};
    assert_string_equal(kept(bad, 5, out), "");
    const struct tern_control one[] = {{(double)NAN, 400}, {9.5, 400}, {0, 0}};
    assert_string_equal(kept(one, 3, out), "1");
    const struct tern_control half[] = {{9, 0}, {9, 400}, {9, 400}};
    assert_string_equal(kept(half, 3, out), "12");
}

/* ---- who takes what ---- */

#define LAYERS 3
#define MS     4

/* Three devices, three layers at four batch sizes. */
static struct run *make_run(void) {
    struct run *run = tern_alloc_zero(1, sizeof *run);
    run->shapes.m_count = MS;
    run->shapes.layer_count = LAYERS;
    run->problem_count = (size_t)LAYERS * MS;
    run->problems = tern_alloc_zero(run->problem_count, sizeof *run->problems);
    for (size_t i = 0; i < run->problem_count; i++) {
        run->problems[i].layer = i / MS;
        run->problems[i].m = i % MS;
    }
    run->gpu_count = 3;
    for (size_t i = 0; i < run->gpu_count; i++)
        run->gpus[i].run = run;
    return run;
}

static void free_run(struct run *run) {
    free(run->problems);
    free(run);
}

/* The device is done with what it had and takes the next; its index, -1 for none. */
static int next(struct run *run, size_t device) {
    struct run_gpu *gpu = &run->gpus[device];
    gpu->previous = gpu->problem ? gpu->problem : gpu->previous;
    gpu->problem = NULL;
    struct run_problem *p = tern_run_next_problem(gpu);
    if (!p)
        return -1;
    gpu->problem = p;
    p->gpu = gpu;
    gpu->prepared = (size_t)(p - run->problems) / MS * MS + 1;
    return (int)(p - run->problems);
}

static void each_device_has_a_layer(void **state) {
    (void)state;
    struct run *run = make_run();
    assert_int_equal(next(run, 0), 0);
    assert_int_equal(next(run, 1), MS);
    assert_int_equal(next(run, 2), 2 * MS);
    assert_int_equal(next(run, 1), MS + 1); /* and stays on it */
    assert_int_equal(next(run, 1), MS + 2);
    assert_int_equal(next(run, 0), 1);
    free_run(run);
}

static void an_idle_device_helps_in_the_middle(void **state) {
    (void)state;
    struct run *run = make_run();
    assert_int_equal(next(run, 0), 0);
    assert_int_equal(next(run, 1), MS);
    assert_int_equal(next(run, 2), 2 * MS);
    for (int m = 1; m < MS; m++)
        assert_int_equal(next(run, 2), 2 * MS + m);
    assert_int_equal(next(run, 2), 2); /* of 1, 2, 3 in layer 0 */
    assert_int_equal(next(run, 2), 3);
    assert_int_equal(next(run, 2), MS + 2); /* then the longest row again */
    assert_int_equal(next(run, 0), 1);
    assert_int_equal(next(run, 0), MS + 1); /* its own layer is done: it helps, too */
    assert_int_equal(next(run, 1), MS + 3);
    assert_int_equal(next(run, 1), -1);
    assert_int_equal(next(run, 2), -1);
    free_run(run);
}

static void what_is_done_or_given_back_counts(void **state) {
    (void)state;
    struct run *run = make_run();
    for (size_t i = 0; i < run->problem_count; i++)
        run->problems[i].done = i != 1 && i != 3 && i != 2 * MS; /* resumed */
    assert_int_equal(next(run, 0), 1);
    assert_int_equal(next(run, 1), 2 * MS);
    run->gpus[1].problem->gpu = NULL; /* device 1 is lost over it */
    run->gpus[1].problem = NULL;
    assert_int_equal(next(run, 0), 3); /* stays on what it has prepared */
    assert_int_equal(next(run, 0), 2 * MS);
    assert_int_equal(next(run, 0), -1);
    free_run(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_group_is_kept),          cmocka_unit_test(of_two_that_differ_the_faster_is_kept),
        cmocka_unit_test(what_is_no_time_is_not_kept),        cmocka_unit_test(each_device_has_a_layer),
        cmocka_unit_test(an_idle_device_helps_in_the_middle), cmocka_unit_test(what_is_done_or_given_back_counts),
    };
    return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
