/* Unit tests of the parameter grid: order, exclusions, hardware limits, geometry, text forms, preamble.
 * Templates are built by hand without a Lua state, so only Tern's own rules are at work. */
#include "core/result.h"
#include "space/grid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct tern_gpu GPU = {
    .name = "test",
    .cc = 90,
    .sms = 132,
    .memory_bytes = 1LL << 37,
    .smem_block_bytes = 232448,
    .smem_sm_bytes = 233472,
    .regs_sm = 65536,
    .threads_sm = 2048,
    .blocks_sm = 32,
};

static struct tern_format format(const char *name) {
    struct tern_format f;
    assert_int_equal(tern_format_parse(name, &f, NULL), TERN_OK);
    return f;
}

/* 3 x 4 x 2 points: BLOCK_M, WARPS, SPLIT_K. */
static struct tern_template sample(void) {
    return (struct tern_template){
        .name = "sample",
        .types = {[TERN_F16] = true},
        .families = {[TERN_FAMILY_TERNARY] = true},
        .bits = {2},
        .min_cc = 80,
        .m_min = 0,
        .m_max = 64,
        .params = {{.name = "BLOCK_M", .values = {8, 16, 32}, .value_count = 3, .fallback = 16},
                   {.name = "WARPS", .values = {1, 4, 8, 64}, .value_count = 4, .fallback = 4},
                   {.name = "SPLIT_K", .values = {1, 2}, .value_count = 2, .fallback = 2}},
        .param_count = 3,
        .grid = {"ceil_div(N, 16*WARPS)", "ceil_div(M, BLOCK_M)", "SPLIT_K"},
        .block = "32*WARPS",
        .smem = "WARPS*BLOCK_M*1024",
        .workspace = "SPLIT_K > 1 ? M*N*4*SPLIT_K : 0",
    };
}

static int64_t excluded(const struct tern_exclusions *why, const char *part) {
    int64_t count = 0;
    for (size_t i = 0; i < why->count; i++)
        if (strstr(why->items[i].reason, part))
            count += why->items[i].count;
    return count;
}

static void test_enumerate(void **state) {
    (void)state;
    struct tern_template t = sample();
    struct tern_format f = format("ternary-g128");
    struct tern_problem_shape p = {.format = &f, .m = 4, .n = 4608, .k = 3584, .type = TERN_F16};
    struct tern_candidates list = {0};
    struct tern_exclusions why = {0};
    assert_int_equal(tern_grid_enumerate(&t, &p, &GPU, &list, &why, NULL), TERN_OK);
    assert_int_equal(excluded(&why, "threads a block"), 6); /* WARPS = 64 */
    assert_int_equal(excluded(&why, "shared memory"), 2);   /* 8 warps of 32 rows: 256 KiB */
    assert_int_equal(list.count, 24 - 8);
    const int64_t fallback[] = {16, 4, 2}, first[] = {8, 1, 1};
    assert_memory_equal(list.items[0].values, fallback, sizeof fallback);
    assert_memory_equal(list.items[1].values, first, sizeof first);
    for (size_t i = 0; i < list.count; i++)
        for (size_t j = 0; j < i; j++)
            assert_false(tern_candidate_equal(&list.items[i], &list.items[j]));
    tern_candidates_free(&list);
}

/* The whole template is left out for one reason, and all its points are counted under it. */
static void check_left_out(const struct tern_template *t, const char *name, enum tern_activation type, int64_t m,
                           const struct tern_gpu *gpu, const char *reason) {
    struct tern_format f = format(name);
    struct tern_problem_shape p = {.format = &f, .m = m, .n = 4608, .k = 3584, .type = type};
    struct tern_candidates list = {0};
    struct tern_exclusions why = {0};
    assert_int_equal(tern_grid_enumerate(t, &p, gpu, &list, &why, NULL), TERN_OK);
    assert_int_equal(list.count, 0);
    assert_int_equal(excluded(&why, reason), 24);
    tern_candidates_free(&list);
}

static void test_template_does_not_serve(void **state) {
    (void)state;
    struct tern_template t = sample();
    struct tern_gpu old = GPU;
    old.cc = 75;
    check_left_out(&t, "gptq4-g128", TERN_F16, 4, &GPU, "gptq weights");
    check_left_out(&t, "ternary-g128", TERN_F16, 65, &GPU, "M outside 0..64");
    check_left_out(&t, "ternary-g128", TERN_F16, 4, &old, "compute capability 8.0");
    check_left_out(&t, "ternary-g128", TERN_BF16, 4, &GPU, "bf16 activations are not supported");
    t.families[TERN_FAMILY_GPTQ] = true;
    check_left_out(&t, "gptq4-g128", TERN_F16, 4, &GPU, "4-bit weights");
    t.types[TERN_BF16] = true;
    t.min_cc = 75;
    check_left_out(&t, "ternary-g128", TERN_BF16, 4, &old, "bf16 needs compute capability 8.0");
}

static void check_hardware(const struct tern_template *t, int64_t n, const char *reason, int64_t points) {
    struct tern_format f = format("ternary-g128");
    struct tern_problem_shape p = {.format = &f, .m = 4, .n = n, .k = 3584, .type = TERN_F16};
    struct tern_candidates list = {0};
    struct tern_exclusions why = {0};
    assert_int_equal(tern_grid_enumerate(t, &p, &GPU, &list, &why, NULL), TERN_OK);
    if (excluded(&why, reason) != points)
        fail_msg("%s: %lld points", reason, (long long)excluded(&why, reason));
    tern_candidates_free(&list);
}

static void test_hardware_limits(void **state) {
    (void)state;
    struct tern_template t = sample();
    strcpy(t.grid[1], "65536");
    check_hardware(&t, 4608, "grid larger", 16);
    strcpy(t.grid[1], "0");
    check_hardware(&t, 4608, "empty grid", 16);
    t = sample();
    strcpy(t.cluster, "16");
    check_hardware(&t, 4608, "cluster size", 16);
    strcpy(t.cluster, "SPLIT_K");
    check_hardware(&t, 16 * 8 * 3, "multiple of the cluster", 2); /* 3 blocks of 8 warps, in pairs; 24 and 6 are even */
    t = sample();
    strcpy(t.workspace, "1024*1024*1024*1024");
    check_hardware(&t, 4608, "workspace", 16);
}

static void test_many_reasons_are_pooled(void **state) {
    (void)state;
    struct tern_template t = sample();
    struct tern_exclusions why = {0};
    struct tern_candidates list = {0};
    struct tern_format f = format("ternary-g128");
    for (int i = 0; i < 40; i++) { /* 40 different ranges of M give 40 different reasons */
        struct tern_problem_shape p = {.format = &f, .m = 100, .n = 4608, .k = 3584, .type = TERN_F16};
        t.m_max = 10 + i;
        assert_int_equal(tern_grid_enumerate(&t, &p, &GPU, &list, &why, NULL), TERN_OK);
    }
    assert_int_equal(why.count, 32);
    assert_string_equal(why.items[31].reason, "other reasons");
    int64_t sum = 0;
    for (size_t i = 0; i < why.count; i++)
        sum += why.items[i].count;
    assert_int_equal(sum, 40 * 24);
}

static void test_bad_templates(void **state) {
    (void)state;
    struct tern_template t = sample();
    struct tern_format f = format("ternary-g128");
    struct tern_problem_shape p = {.format = &f, .m = 4, .n = 4608, .k = 3584, .type = TERN_F16};
    struct tern_candidates list = {0};
    struct tern_error err = {0};
    strcpy(t.block, "32*WARP");
    assert_int_equal(tern_grid_enumerate(&t, &p, &GPU, &list, NULL, &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "template sample, launch.block"));
    assert_non_null(strstr(err.text, "did you mean \"WARPS\""));
    strcpy(t.block, "WARPS - 100");
    assert_int_equal(tern_grid_enumerate(&t, &p, &GPU, &list, NULL, &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "negative"));
    t = sample();
    t.params[1].value_count = 0;
    assert_int_equal(tern_grid_enumerate(&t, &p, &GPU, &list, NULL, &err), TERN_USAGE);
    t = sample();
    for (t.param_count = 0; t.param_count < 10; t.param_count++)
        t.params[t.param_count].value_count = 32;
    assert_int_equal(tern_grid_enumerate(&t, &p, &GPU, &list, NULL, &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "points"));
    tern_candidates_free(&list);
}

static void test_geometry(void **state) {
    (void)state;
    struct tern_template t = sample();
    struct tern_format f = format("ternary-g128");
    struct tern_problem_shape p = {.format = &f, .m = 33, .n = 4600, .k = 3584, .type = TERN_F16};
    struct tern_candidate c = {.tmpl = &t, .values = {16, 4, 2}};
    struct tern_geometry g;
    assert_int_equal(tern_candidate_geometry(&c, &p, 132, &g, NULL), TERN_OK);
    assert_int_equal(g.grid[0], 72);
    assert_int_equal(g.grid[1], 3);
    assert_int_equal(g.grid[2], 2);
    assert_int_equal(g.block, 128);
    assert_int_equal(g.cluster, 1);
    assert_int_equal(g.smem_bytes, 65536);
    assert_int_equal(g.workspace_bytes, 33 * 4600 * 4 * 2);
    assert_int_equal(g.busiest, 0); /* the template does not say */
    strcpy(t.busiest, "ceil_div(N,64)*M*SPLIT_K");
    assert_int_equal(tern_candidate_geometry(&c, &p, 132, &g, NULL), TERN_OK);
    assert_int_equal(g.busiest, 72 * 33 * 2);
    p.m = 0; /* nothing to launch */
    assert_int_equal(tern_candidate_geometry(&c, &p, 132, &g, NULL), TERN_OK);
    assert_int_equal(g.grid[0] + g.grid[1] + g.grid[2], 0);
    strcpy(t.grid[0], "SMS*G + GROUP*BITS + HAS_ZEROS"); /* every name of a problem */
    p.m = 1;
    assert_int_equal(tern_candidate_geometry(&c, &p, 132, &g, NULL), TERN_OK);
    assert_int_equal(g.grid[0], 132 * 28 + 128 * 2);
    f = format("ternary-channel"); /* one group of K */
    assert_int_equal(tern_candidate_geometry(&c, &p, 132, &g, NULL), TERN_OK);
    assert_int_equal(g.grid[0], 132 * 1 + 3584 * 2);
    f = format("gptq4-g128-asym");
    assert_int_equal(tern_candidate_geometry(&c, &p, 132, &g, NULL), TERN_OK);
    assert_int_equal(g.grid[0], 132 * 28 + 128 * 4 + 1);
}

static void check_parse_error(const struct tern_template *t, const char *text, const char *part) {
    struct tern_candidate c = {0};
    struct tern_error err = {0};
    assert_int_equal(tern_candidate_parse(t, text, &c, &err), TERN_USAGE);
    if (!strstr(err.text, part) && !strstr(err.hint, part))
        fail_msg("%s: \"%s\" lacks \"%s\"", text, err.text, part);
    assert_null(c.tmpl); /* untouched */
}

static void test_text(void **state) {
    (void)state;
    struct tern_template t = sample();
    struct tern_candidate c = {.tmpl = &t, .values = {16, 4, 2}}, back = {0};
    char text[256];
    tern_candidate_text(&c, text, sizeof text);
    assert_string_equal(text, "BLOCK_M=16 WARPS=4 SPLIT_K=2");
    assert_int_equal(tern_candidate_parse(&t, text, &back, NULL), TERN_OK);
    assert_true(tern_candidate_equal(&c, &back));
    assert_int_equal(tern_candidate_parse(&t, "SPLIT_K=1  WARPS=4 BLOCK_M=16", &back, NULL), TERN_OK);
    assert_false(tern_candidate_equal(&c, &back));
    check_parse_error(&t, "BLOCK_M=16 WARPS=4", "no value for SPLIT_K");
    check_parse_error(&t, "BLOCK_M=16 WARPS=4 SPLIT_K=2 SPLIT_K=2", "twice");
    check_parse_error(&t, "BLOCK_M=16 WARPS=5 SPLIT_K=2", "not among");
    check_parse_error(&t, "BLOCK_M=16 WARP=4 SPLIT_K=2", "did you mean WARPS");
    check_parse_error(&t, "BLOCK_M=16x WARPS=4 SPLIT_K=2", "NAME=integer");
    check_parse_error(&t, "BLOCK_M", "NAME=integer");
    check_parse_error(&t, "", "no value");
    check_parse_error(&t, "BLOCK_M=16 WARPS=4 SPLIT_K=2 DEPENDENT=1", "no parameter"); /* this template cannot */
}

/* A template that can be launched dependently is, where the problem says so; the words behind the parameters tell. */
static void test_dependent(void **state) {
    (void)state;
    struct tern_template t = sample();
    struct tern_format f = format("ternary-g128");
    struct tern_candidate c = {.tmpl = &t, .values = {16, 4, 2}, .dependent = true}, back = {0}, plain = c;
    char text[256];
    for (int can = 0; can < 2; can++)
        for (int asked = 0; asked < 2; asked++) {
            struct tern_problem_shape p = {.format = &f, .m = 4, .n = 4608, .k = 3584, .type = TERN_F16, .dependent = asked};
            struct tern_candidates list = {0};
            struct tern_exclusions why = {0};
            t.dependent = can;
            assert_int_equal(tern_grid_enumerate(&t, &p, &GPU, &list, &why, NULL), TERN_OK);
            assert_int_equal(list.count, 24 - 8);
            for (size_t i = 0; i < list.count; i++)
                assert_int_equal(list.items[i].dependent, can && asked);
            tern_candidates_free(&list);
        }
    tern_candidate_text(&c, text, sizeof text);
    assert_string_equal(text, "BLOCK_M=16 WARPS=4 SPLIT_K=2 DEPENDENT=1");
    assert_true(tern_is_dependent(text));
    assert_int_equal(tern_candidate_parse(&t, text, &back, NULL), TERN_OK);
    assert_true(back.dependent && tern_candidate_equal(&c, &back));
    plain.dependent = false;
    assert_false(tern_candidate_equal(&c, &plain));
    tern_candidate_text(&plain, text, sizeof text);
    assert_false(tern_is_dependent(text) || tern_is_dependent("") || tern_is_dependent("INDEPENDENT=1"));
    assert_true(tern_is_dependent("DEPENDENT=1"));
    check_parse_error(&t, "BLOCK_M=16 WARPS=4 SPLIT_K=2 DEPENDENT=1 DEPENDENT=1", "DEPENDENT");
    check_parse_error(&t, "BLOCK_M=16 WARPS=4 SPLIT_K=2 DEPENDENT=2", "DEPENDENT");
}

static void check_preamble(const char *name, enum tern_activation type, bool dependent, const char *expected) {
    struct tern_template t = sample();
    struct tern_format f = format(name);
    struct tern_candidate c = {.tmpl = &t, .values = {16, 4, 2}, .dependent = dependent};
    struct tern_str out = {0};
    tern_candidate_preamble(&c, &f, type, &out);
    assert_string_equal(tern_str_text(&out), expected);
    tern_str_free(&out);
}

static void test_preamble(void **state) {
    (void)state;
#define PARAMS "constexpr int BLOCK_M = 16;\nconstexpr int WARPS = 4;\nconstexpr int SPLIT_K = 2;\n"
#define PLAIN  "constexpr int BF16 = 0;\nconstexpr int E4M3 = 0;\nconstexpr int DEPENDENT = 0;\n" LINE
#define LINE   "#line 1 \"templates/sample/kernel.cu\"\n"
    check_preamble("ternary-g128", TERN_F16, false,
                   PARAMS "constexpr int BITS = 2;\nconstexpr int ZERO = 1;\nconstexpr int HAS_ZEROS = 0;\n"
                          "constexpr int GROUP = 128;\n" PLAIN);
    check_preamble("ternary-tensor", TERN_F16, false,
                   PARAMS "constexpr int BITS = 2;\nconstexpr int ZERO = 1;\nconstexpr int HAS_ZEROS = 0;\n"
                          "constexpr int GROUP = 0;\n" PLAIN);
    check_preamble("gptq8-channel", TERN_F16, false,
                   PARAMS "constexpr int BITS = 8;\nconstexpr int ZERO = 128;\nconstexpr int HAS_ZEROS = 0;\n"
                          "constexpr int GROUP = 0;\n" PLAIN);
    check_preamble("gptq4-g64-asym", TERN_F16, false,
                   PARAMS "constexpr int BITS = 4;\nconstexpr int ZERO = 0;\nconstexpr int HAS_ZEROS = 1;\n"
                          "constexpr int GROUP = 64;\n" PLAIN);
    check_preamble(
        "ternary-tensor", TERN_BF16, true,
        PARAMS
        "constexpr int BITS = 2;\nconstexpr int ZERO = 1;\nconstexpr int HAS_ZEROS = 0;\n"
        "constexpr int GROUP = 0;\nconstexpr int BF16 = 1;\nconstexpr int E4M3 = 0;\nconstexpr int DEPENDENT = 1;\n" LINE);
    check_preamble(
        "ternary-tensor", TERN_E4M3, false,
        PARAMS
        "constexpr int BITS = 2;\nconstexpr int ZERO = 1;\nconstexpr int HAS_ZEROS = 0;\n"
        "constexpr int GROUP = 0;\nconstexpr int BF16 = 0;\nconstexpr int E4M3 = 1;\nconstexpr int DEPENDENT = 0;\n" LINE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_enumerate),
        cmocka_unit_test(test_template_does_not_serve),
        cmocka_unit_test(test_hardware_limits),
        cmocka_unit_test(test_many_reasons_are_pooled),
        cmocka_unit_test(test_bad_templates),
        cmocka_unit_test(test_geometry),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_dependent),
        cmocka_unit_test(test_preamble),
    };
    return cmocka_run_group_tests_name("grid", tests, NULL, NULL);
}
