/* Tests of the check of candidates: a kernel with one bug at a time (tests/emulator/broken) must get the right outcome for
 * it. */
#include "emulator_fixture.h"

#include "worker/check.h"

#include <math.h>

static struct tern_template broken;
static struct tern_gpu gpu;
static char folder[64];

/* Source of a candidate: preamble, the example kernel for its decoder, the kernel with the bug. */
static void make_source(const struct tern_candidate *candidate, const struct tern_format *format, struct tern_str *out) {
    static const char *const files[] = {"examples/templates/naive/kernel.cu", "tests/emulator/broken/kernel.cu"};
    tern_candidate_preamble(candidate, format, TERN_F16, out);
    for (size_t i = 0; i < 2; i++) {
        struct tern_error err;
        char *text;
        size_t length;
        assert_int_equal(tern_file_read(files[i], &text, &length, &err), TERN_OK);
        tern_str_append(out, text);
        free(text);
    }
}

static void run_on(int64_t bug, const char *format_name, const struct tern_check_shape *own,
                   struct tern_check_result *result, int64_t *shapes) {
    struct tern_error err = {0};
    struct tern_format format;
    struct tern_str source = {0}, log = {0};
    struct tern_candidate candidate = {.tmpl = &broken, .values = {bug, 32, 1}};
    char object[128], text[160];
    void *context;
    int ok;
    assert_int_equal(tern_format_parse(format_name, &format, &err), TERN_OK);
    make_source(&candidate, &format, &source);
    snprintf(object, sizeof object, "%s/bug%d-%s.so", folder, (int)bug, format_name);
    if (tern_emu_compile(tern_str_text(&source), "broken", object, 0, &log, &ok, &err) != TERN_OK || !ok)
        fail_msg("%s %s", err.text, tern_str_text(&log));
    assert_int_equal(tern_backend_emu.open(0, &context, &err), TERN_OK);
    struct tern_check_bench *bench =
        tern_check_bench_create(&tern_backend_emu, context, &format, TERN_F16, tern_layout_find(broken.layout), 1);
    if (tern_check_candidate(bench, &candidate, object, strlen(object), 4, &gpu, 3, own, result, shapes, &err) != TERN_OK)
        fail_msg("%s", err.text);
    tern_check_bench_free(bench);
    tern_backend_emu.close(context);
    tern_str_free(&source);
    tern_str_free(&log);
    snprintf(text, sizeof text, "%s.cu", object);
    unlink(text);
    unlink(object);
}

static void run_bug(int64_t bug, const char *format_name, struct tern_check_result *result, int64_t *shapes) {
    run_on(bug, format_name, NULL, result, shapes);
}

static void right_kernel_passes(void **state) {
    (void)state;
    static const char *const formats[] = {"ternary-g128", "gptq3-g32-asym", "gptq8-channel"};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct tern_check_result result;
        int64_t shapes;
        run_bug(0, formats[i], &result, &shapes);
        if (result.outcome != TERN_OUTCOME_OK)
            fail_msg("%s: %s", formats[i], result.detail);
        assert_int_equal(shapes, 3);
        assert_int_equal(result.launches, 12);
        assert_true(result.mismatch.checked > 100);
        assert_true(result.mismatch.worst <= 1.0 && result.mismatch.worst > 0.1);
    }
}

static void every_bug_is_found(void **state) {
    (void)state;
    static const struct {
        int64_t bug;
        enum tern_outcome outcome;
        const char *part;
    } cases[] = {{1, TERN_OUTCOME_WRONG, "elements differ"},
                 {2, TERN_OUTCOME_WRONG, "got nan"},
                 {3, TERN_OUTCOME_WRONG, "1 elements of y were not written"},
                 {4, TERN_OUTCOME_FAULT, "0 bytes behind the end of a buffer"},
                 {5, TERN_OUTCOME_WRONG, "(the poison)"},
                 {6, TERN_OUTCOME_WRONG, "one-hot x reads weight"},
                 {7, TERN_OUTCOME_WRONG, "changed its input scales"},
                 {8, TERN_OUTCOME_FAULT, "__trap() (thread 5"},
                 {9, TERN_OUTCOME_WRONG, "elements differ"},
                 {10, TERN_OUTCOME_NONDET, "second run differs"},
                 {11, TERN_OUTCOME_RESOURCES, "OUT_OF_RESOURCES"},
                 {12, TERN_OUTCOME_INVALID, "never valid"},
                 {13, TERN_OUTCOME_FAULT, "spin"},
                 {15, TERN_OUTCOME_WRONG, "elements differ"}}; /* forgets the bias */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tern_check_result result;
        int64_t shapes;
        run_bug(cases[i].bug, "gptq4-g32", &result, &shapes);
        if (result.outcome != cases[i].outcome || strstr(result.detail, cases[i].part) == NULL)
            fail_msg("bug %d: %s: %s", (int)cases[i].bug, tern_outcome_name(result.outcome), result.detail);
    }
}

/* No standard shape has M = 11: such a candidate is checked on the shape of its problem, and is no less thoroughly checked
 * there. */
static void own_shape_serves_where_no_standard_shape_does(void **state) {
    (void)state;
    struct tern_template all = broken;
    struct tern_check_result result;
    const struct tern_check_shape own = tern_check_own_shape(11, 160);
    int64_t shapes;
    broken.m_min = broken.m_max = 11;
    run_bug(0, "gptq4-g32", &result, &shapes);
    assert_int_equal(result.outcome, TERN_OUTCOME_INVALID);
    run_on(0, "gptq4-g32", &own, &result, &shapes);
    assert_int_equal(result.outcome, TERN_OUTCOME_OK);
    assert_int_equal(shapes, 1);
    run_on(3, "gptq4-g32", &own, &result, &shapes);
    assert_int_equal(result.outcome, TERN_OUTCOME_WRONG);
    assert_non_null(strstr(result.detail, "M=11 N=24 K=160"));
    broken = all;
}

static void exactness_follows_template_and_parameter(void **state) {
    (void)state;
    struct tern_template t = broken;
    struct tern_candidate c = {.tmpl = &t, .values = {1, 32, 1}};
    assert_int_equal(tern_check_exactness(&c, TERN_F16), TERN_EXACT_WEIGHTS);
    t.exact_weights = false;
    assert_int_equal(tern_check_exactness(&c, TERN_F16), TERN_ROUNDED_WEIGHTS);
    t.exact_weights = true;
    tern_str_copy(t.params[0].name, sizeof t.params[0].name, "ROUND_WEIGHTS");
    assert_int_equal(tern_check_exactness(&c, TERN_F16), TERN_ROUNDED_WEIGHTS);
    c.values[0] = 0;
    assert_int_equal(tern_check_exactness(&c, TERN_F16), TERN_EXACT_WEIGHTS);
}

/* The table of shapes is what the documentation says: tails of every kind. */
static void shapes_are_odd_and_legal(void **state) {
    (void)state;
    struct tern_format format;
    struct tern_error err;
    int64_t short_groups = 0, odd_tiles = 0;
    assert_int_equal(tern_format_parse("gptq4-g32", &format, &err), TERN_OK);
    for (size_t i = 0; i < tern_check_shape_count; i++) {
        const struct tern_check_shape *s = &tern_check_shapes[i];
        assert_int_equal(tern_format_check_shape(&format, s->n, s->k, true, &err), TERN_OK);
        short_groups += s->k > 128 && s->k % 128 != 0;
        odd_tiles += s->n % 16 != 0;
        assert_true(tern_check_shape_fits(s, &format, &broken) == (s->m <= 64));
    }
    assert_true(short_groups >= 3 && odd_tiles >= 3);
}

static int open_all(void **state) {
    (void)state;
    struct tern_error err = {0};
    if (tern_template_load("tests/emulator/broken", &broken, &err) != TERN_OK ||
        tern_gpu_load("h200", &gpu, &err) != TERN_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    snprintf(folder, sizeof folder, "/tmp/tern-check-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int close_all(void **state) {
    (void)state;
    tern_template_free(&broken);
    tern_gpu_free(&gpu);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernel_passes),
        cmocka_unit_test(every_bug_is_found),
        cmocka_unit_test(own_shape_serves_where_no_standard_shape_does),
        cmocka_unit_test(exactness_follows_template_and_parameter),
        cmocka_unit_test(shapes_are_odd_and_legal),
    };
    return cmocka_run_group_tests_name("check", tests, open_all, close_all);
}
