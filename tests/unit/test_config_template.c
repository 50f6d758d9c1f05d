/* Configs: space.lua of templates: what is accepted, what is refused with which words, and asking valid(). */
#include "config/template.h"
#include "core/file.h"
#include "core/str.h"
#include "space/grid.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A whole space.lua; a case appends keys, which override (a later key of a Lua table wins). */
static const char good[] =
    "return { name = 'sample', ops = { 'linear-a16' }, summary = 's', families = { 'ternary', 'gptq' }, bits = { 2, 4 },\n"
    "min_cc = 80, m = { 1, 64 }, layout = 'frag16x128', unit = 'mma-f16', entry = 'tern_sample',\n"
    "efficiency = 0.5, exact_weights = true,\n"
    "params = { { name = 'WARPS', values = { 4, 8 }, default = 8, doc = 'd' },\n"
    "           { name = 'SPLIT_K', values = { 1, 2, 4 }, default = 1, doc = 'd' } },\n"
    "valid = function(p, problem, gpu)\n"
    "  if p.SPLIT_K > problem.groups then return false, 'more splits than groups' end\n"
    "  return p.WARPS * 32 <= gpu.threads_sm and problem.family == 'ternary' and problem.sym\n"
    "    and problem.m + problem.n + problem.k + problem.bits + problem.group > 0, 'never'\n"
    "end,\n"
    "launch = { grid = { 'ceil_div(N, 16)', 'SPLIT_K' }, block = '32*WARPS', smem = 0, workspace = '4*M*N' },\n";

struct folder {
    char root[64], dir[PATH_MAX], space[PATH_MAX], kernel[PATH_MAX];
};

static int make_folder(void **state) {
    struct folder *f = tern_alloc_zero(1, sizeof(*f));
    tern_str_copy(f->root, sizeof(f->root), "/tmp/tern-template-XXXXXX");
    if (mkdtemp(f->root) == NULL)
        return 1;
    tern_str_format(f->dir, sizeof(f->dir), "%s/sample", f->root);
    tern_str_format(f->space, sizeof(f->space), "%s/sample/space.lua", f->root);
    tern_str_format(f->kernel, sizeof(f->kernel), "%s/sample/kernel.cu", f->root);
    *state = f;
    return tern_file_make_dirs(f->dir, NULL) != TERN_OK || tern_file_write(f->kernel, "// kernel", 9, NULL) != TERN_OK;
}

static int remove_folder(void **state) {
    struct folder *f = *state;
    unlink(f->space);
    unlink(f->kernel);
    int failed = rmdir(f->dir) != 0 || rmdir(f->root) != 0;
    free(f);
    return failed;
}

static enum tern_status load(const struct folder *f, const char *extra, struct tern_template *t, struct tern_error *err) {
    struct tern_str text = {0};
    tern_str_printf(&text, "%s%s }", good, extra);
    assert_int_equal(tern_file_write(f->space, text.data, text.length, NULL), TERN_OK);
    tern_str_free(&text);
    return tern_template_load(f->dir, t, err);
}

static void a_template_loads(void **state) {
    struct tern_template t;
    struct tern_error err = {0};
    if (load(*state, "", &t, &err) != TERN_OK)
        fail_msg("%s", err.text);
    assert_string_equal(t.name, "sample");
    assert_true(t.families[TERN_FAMILY_TERNARY] && t.families[TERN_FAMILY_GPTQ]);
    assert_true(t.bits[0] == 2 && t.bits[1] == 4 && t.bits[2] == 0);
    assert_int_equal(t.m_max, 64);
    assert_int_equal(t.param_count, 2);
    assert_string_equal(t.params[1].name, "SPLIT_K");
    assert_int_equal(t.params[0].fallback, 8);
    assert_int_equal(t.params[1].value_count, 3);
    assert_string_equal(t.grid[1], "SPLIT_K");
    assert_string_equal(t.grid[2], "");
    assert_string_equal(t.smem, "0");
    assert_string_equal(t.cluster, "");
    assert_false(t.dependent);
    char before[TERN_HASH_CHARS];
    tern_str_copy(before, sizeof(before), t.hash);
    tern_template_free(&t);
    assert_int_equal(load(*state, " ", &t, &err), TERN_OK);
    assert_string_not_equal(before, t.hash); /* the identity follows the text */
    tern_template_free(&t);
    assert_int_equal(load(*state, "launch = { grid = { '1' }, block = '32', dependent = true }", &t, &err), TERN_OK);
    assert_true(t.dependent);
    tern_template_free(&t);
}

static bool serves(const struct tern_template *t, const char *name) {
    struct tern_format format;
    assert_int_equal(tern_format_parse(name, &format, NULL), TERN_OK);
    return tern_template_serves(t, &format, TERN_F16);
}

/* What the template does with bfloat16 is for `ops` and `valid` to say. */
static void types_of_activations_are_ops(void **state) {
    struct tern_template t;
    struct tern_error err = {0};
    struct tern_format format;
    bool valid = true;
    char reason[40];
    const struct tern_gpu gpu = {.name = "x"};
    assert_int_equal(tern_format_parse("ternary-g128", &format, &err), TERN_OK);
    assert_int_equal(
        load(*state, "ops = { 'linear-bf16' }, valid = function(p, problem) return false, problem.activation end", &t, &err),
        TERN_OK);
    assert_true(tern_template_serves(&t, &format, TERN_BF16));
    assert_false(tern_template_serves(&t, &format, TERN_F16));
    for (int type = 0; type < TERN_ACTIVATION_COUNT; type++) {
        const struct tern_problem_shape problem = {
            .format = &format, .m = 1, .n = 64, .k = 256, .type = (enum tern_activation)type};
        assert_int_equal(
            tern_template_valid(&t, (int64_t[]){4, 2}, &problem, &gpu, &valid, NULL, reason, sizeof(reason), &err), TERN_OK);
        assert_string_equal(reason, tern_activation_name((enum tern_activation)type));
    }
    tern_template_free(&t);
}

static void a_selection_names_what_is_unknown(void **state) {
    (void)state;
    const struct tern_template templates[] = {{.name = "simt-decode"}, {.name = "mma-decode"}};
    struct tern_error err = {0};
    bool selected[2];
    assert_int_equal(tern_templates_select(templates, 2, NULL, selected, &err), TERN_OK);
    assert_true(selected[0] && selected[1]);
    assert_int_equal(tern_templates_select(templates, 2, "mma-decode,mma-decode", selected, &err), TERN_OK);
    assert_true(!selected[0] && selected[1]);
    assert_int_equal(tern_templates_select(templates, 2, "simt-decode,mma-decod", selected, &err), TERN_USAGE);
    assert_string_equal(err.text, "unknown template 'mma-decod'");
    assert_non_null(strstr(err.hint, "'mma-decode'"));
    assert_int_equal(tern_templates_select(templates, 2, "", selected, &err), TERN_USAGE);
}

/* Four widths fill the list: nothing behind it is a width. */
static void formats_served_follow_family_and_bits(void **state) {
    struct tern_template t;
    struct tern_error err = {0};
    assert_int_equal(load(*state, "families = { 'gptq' }, bits = { 2, 3, 4, 8 }", &t, &err), TERN_OK);
    assert_true(serves(&t, "gptq2-g128") && serves(&t, "gptq3-g128") && serves(&t, "gptq8-g128"));
    assert_false(serves(&t, "ternary-g128"));
    tern_template_free(&t);
    assert_int_equal(load(*state, "", &t, &err), TERN_OK);
    assert_true(serves(&t, "ternary-g128") && serves(&t, "gptq4-g128"));
    assert_false(serves(&t, "gptq3-g128") || serves(&t, "gptq8-g128"));
    tern_template_free(&t);
}

static void valid_is_asked(void **state) {
    struct tern_template t;
    struct tern_error err = {0};
    struct tern_format format;
    assert_int_equal(tern_format_parse("ternary-g128", &format, &err), TERN_OK);
    struct tern_problem_shape problem = {.format = &format, .m = 1, .n = 64, .k = 256};
    struct tern_gpu gpu = {.name = "x", .threads_sm = 2048};
    assert_int_equal(load(*state, "", &t, &err), TERN_OK);
    bool valid = false;
    char reason[40];
    for (int round = 0; round < 2000; round++) { /* also: neither stack nor memory grows */
        assert_int_equal(
            tern_template_valid(&t, (int64_t[]){4, 2}, &problem, &gpu, &valid, NULL, reason, sizeof(reason), &err), TERN_OK);
        assert_true(valid);
        assert_int_equal(
            tern_template_valid(&t, (int64_t[]){4, 4}, &problem, &gpu, &valid, NULL, reason, sizeof(reason), &err), TERN_OK);
        assert_false(valid);
        assert_string_equal(reason, "more splits than groups");
    }
    problem.k = 512;
    assert_int_equal(tern_template_valid(&t, (int64_t[]){4, 4}, &problem, &gpu, &valid, NULL, reason, sizeof(reason), &err),
                     TERN_OK);
    assert_true(valid);
    tern_template_free(&t);
}

/* A refusal that looked at WARPS only holds for every SPLIT_K: the grid skips those points and still counts them. */
static void refusals_say_how_far_they_looked(void **state) {
    static const char valid_lua[] = "valid = function(p)\n"
                                    "  if p.WARPS == 4 then return false, 'few warps' end\n"
                                    "  if p.SPLIT_K == 2 then return false, 'two splits' end\n"
                                    "  return true\n"
                                    "end";
    struct tern_template t;
    struct tern_error err = {0};
    struct tern_format format;
    struct tern_candidates list = {0};
    struct tern_exclusions why = {0};
    char reason[40];
    uint32_t read = 99;
    bool valid = true;
    assert_int_equal(tern_format_parse("ternary-channel", &format, &err), TERN_OK);
    struct tern_problem_shape problem = {.format = &format, .m = 1, .n = 64, .k = 256};
    struct tern_gpu gpu = {
        .name = "x", .cc = 90, .sms = 10, .threads_sm = 2048, .smem_block_bytes = 1 << 16, .memory_bytes = 1 << 30};
    assert_int_equal(load(*state, valid_lua, &t, &err), TERN_OK);
    assert_int_equal(tern_template_valid(&t, (int64_t[]){4, 1}, &problem, &gpu, &valid, &read, reason, sizeof(reason), &err),
                     TERN_OK);
    assert_false(valid);
    assert_int_equal(read, 1);
    assert_int_equal(tern_template_valid(&t, (int64_t[]){8, 2}, &problem, &gpu, &valid, &read, reason, sizeof(reason), &err),
                     TERN_OK);
    assert_false(valid);
    assert_int_equal(read, 3);
    assert_int_equal(tern_grid_enumerate(&t, &problem, &gpu, &list, &why, &err), TERN_OK);
    assert_int_equal(list.count, 2); /* WARPS = 8 with SPLIT_K 1 (the default) and 4 */
    assert_int_equal(why.count, 2);
    for (size_t i = 0; i < why.count; i++)
        assert_int_equal(why.items[i].count, strcmp(why.items[i].reason, "few warps") == 0 ? 3 : 1);
    tern_candidates_free(&list);
    tern_template_free(&t);
}

/* What valid() looks at first is stepped through last, which nobody sees: candidates come as declared, the last parameter fastest, refusals are counted. */
static void grids_come_in_declared_order(void **state) {
    static const char valid_lua[] = "valid = function(p)\n"
                                    "  if p.SPLIT_K == 2 then return false, 'two splits' end\n"
                                    "  return true\n"
                                    "end";
    static const char *const expected[] = {"WARPS=8 SPLIT_K=1", "WARPS=4 SPLIT_K=1", "WARPS=4 SPLIT_K=4",
                                           "WARPS=8 SPLIT_K=4"};
    struct tern_template t;
    struct tern_error err = {0};
    struct tern_format format;
    struct tern_candidates list = {0};
    struct tern_exclusions why = {0};
    assert_int_equal(tern_format_parse("ternary-channel", &format, &err), TERN_OK);
    struct tern_problem_shape problem = {.format = &format, .m = 1, .n = 64, .k = 256};
    struct tern_gpu gpu = {
        .name = "x", .cc = 90, .sms = 10, .threads_sm = 2048, .smem_block_bytes = 1 << 16, .memory_bytes = 1 << 30};
    assert_int_equal(load(*state, valid_lua, &t, &err), TERN_OK);
    assert_int_equal(tern_grid_enumerate(&t, &problem, &gpu, &list, &why, &err), TERN_OK);
    assert_int_equal(list.count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < list.count; i++) {
        char text[64];
        tern_candidate_text(&list.items[i], text, sizeof text);
        assert_string_equal(text, expected[i]);
    }
    assert_int_equal(why.count, 1);
    assert_int_equal(why.items[0].count, 2);
    tern_candidates_free(&list);
    tern_template_free(&t);
}

static void bad_valid_functions_are_errors(void **state) {
    static const char *const cases[][2] = {
        {"valid = function(p) return p.NONE + 1 end", "space.lua:12: valid() reads p.NONE, which is no parameter"},
        {"valid = function(p) return 1 end", "valid() must return true, or false and a reason, not a number"},
        {"valid = function(p) return false end", "valid() returned false without a reason"},
        {"valid = function(p) while true do end end", "space.lua:12: more than 10000000 instructions"},
    };
    struct tern_format format;
    struct tern_error err = {0};
    assert_int_equal(tern_format_parse("ternary-channel", &format, &err), TERN_OK);
    struct tern_problem_shape problem = {.format = &format, .m = 1, .n = 64, .k = 256};
    struct tern_gpu gpu = {.name = "x"};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct tern_template t;
        bool valid = true;
        char reason[40];
        assert_int_equal(load(*state, cases[i][0], &t, &err), TERN_OK);
        assert_int_equal(
            tern_template_valid(&t, (int64_t[]){4, 2}, &problem, &gpu, &valid, NULL, reason, sizeof(reason), &err),
            TERN_USAGE);
        assert_false(valid);
        if (strstr(err.text, cases[i][1]) == NULL)
            fail_msg("expected %s, got: %s", cases[i][1], err.text);
        tern_template_free(&t);
    }
}

static void bad_templates_name_the_key(void **state) {
    static const char *const cases[][2] = {
        {"name = 'other'", "key 'name' must be the folder's name 'sample', not 'other'"},
        {"ops = { 'linear-a17' }", "key 'ops' must hold 'linear-a16' or 'linear-bf16', not 'linear-a17'"},
        {"ops = {}", "key 'ops' must list at least one op"},
        {"families = { 'awq' }", "key 'families' must hold 'ternary' or 'gptq', not 'awq'"},
        {"bits = { 5 }", "key 'bits' must hold 2, 3, 4 or 8, not 5"},
        {"m = { 64, 1 }", "key 'm' must be {least, largest}"},
        {"m = { 0, 1 }", "key 'm[1]' must be a whole number from 1"},
        {"layout = 'rows'", "key 'layout' must be a layout that exists"},
        {"efficiency = 1.5", "key 'efficiency' must be a share of the limit, at most 1, not 1.5"},
        {"exact_weights = 1", "key 'exact_weights' must be true or false, not 1"},
        {"params = { { name = 'warps', values = { 1 }, default = 1, doc = 'd' } }",
         "key 'params[1].name' must be upper case"},
        {"params = { { name = 'M', values = { 1 }, default = 1, doc = 'd' } }", "key 'params[1].name' must not be 'M'"},
        {"params = { { name = 'A', values = { 1 }, default = 2, doc = 'd' } }",
         "'params[1].default' must be one of 'values', not 2"},
        {"params = { { name = 'A', values = { 1, 1 }, default = 1, doc = 'd' } }", "key 'params[1].values' holds 1 twice"},
        {"params = { { name = 'A', values = { 1 }, default = 1 } }", "key 'params[1].doc' is missing"},
        {"valid = 7", "key 'valid' must be a function(p, problem, gpu), not a number"},
        {"launch = { grid = { '1' } }", "key 'launch.block' is missing"},
        {"launch = { grid = { '1 +' }, block = '32' }", "key 'launch.grid[1]': "},
        {"launch = { grid = {}, block = '32' }", "key 'launch.grid' must be a list of 1 to 3 expressions"},
        {"launch = { grid = { '1' }, block = '32', smen = '1' }", "key 'launch.smen' is unknown"},
        {"launch = { grid = { '1' }, block = function() end }", "key 'launch.block' must be a text, not a function"},
        {"launch = { grid = { '1' }, block = '32', dependent = 1 }", "key 'launch.dependent' must be true or false, not 1"},
        {"params = { { name = 'DEPENDENT', values = { 1 }, default = 1, doc = 'd' } }",
         "key 'params[1].name' must not be 'DEPENDENT'"},
        {"sumary = 'x'", "key 'sumary' is unknown"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct tern_template t;
        struct tern_error err = {0};
        assert_int_equal(load(*state, cases[i][0], &t, &err), TERN_USAGE);
        assert_null(t.lua);
        if (strstr(err.text, cases[i][1]) == NULL || strstr(err.text, "/sample/space.lua: ") == NULL)
            fail_msg("expected %s, got: %s", cases[i][1], err.text);
    }
    struct tern_template t;
    struct tern_error err = {0};
    struct folder *f = *state;
    unlink(f->kernel);
    assert_int_equal(load(f, "", &t, &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "kernel.cu"));
}

static void all_templates_load(void **state) {
    (void)state;
    struct tern_template *templates;
    size_t count;
    struct tern_error err;
    if (tern_templates_load_all(&templates, &count, &err) != TERN_OK)
        fail_msg("%s", err.text);
    assert_true(count > 0);
    for (size_t i = 1; i < count; i++)
        assert_true(strcmp(templates[i - 1].name, templates[i].name) < 0);
    tern_templates_free(templates, count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_template_loads, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(types_of_activations_are_ops, make_folder, remove_folder),
        cmocka_unit_test(a_selection_names_what_is_unknown),
        cmocka_unit_test_setup_teardown(formats_served_follow_family_and_bits, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(valid_is_asked, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(refusals_say_how_far_they_looked, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(grids_come_in_declared_order, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(bad_valid_functions_are_errors, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(bad_templates_name_the_key, make_folder, remove_folder),
        cmocka_unit_test(all_templates_load),
    };
    return cmocka_run_group_tests_name("config templates", tests, NULL, NULL);
}
