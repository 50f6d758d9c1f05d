/* Configs: the sandbox's limits, and what the GPU and shapes loaders accept and refuse. */
#include "config/gpu.h"
#include "config/sandbox.h"
#include "config/shapes.h"
#include "core/file.h"
#include "core/str.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char config_path[] = "/tmp/tern-config-XXXXXX.lua"; /* one file, written anew for each case */

static int make_file(void **state) {
    (void)state;
    int fd = mkstemps(config_path, 4);
    return fd < 0 ? 1 : close(fd);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(config_path);
}

static void write_config(const char *text) {
    assert_int_equal(tern_file_write(config_path, text, strlen(text), NULL), TERN_OK);
}

/* The error's text must be the file's path followed by `expected`. */
static void assert_error(const struct tern_error *err, const char *expected) {
    size_t length = strlen(config_path);
    if (strncmp(err->text, config_path, length) != 0 || strstr(err->text + length, expected) == NULL)
        fail_msg("expected FILE%s, got: %s", expected, err->text);
}

static void assert_sandbox_refuses(const char *text, const char *expected) {
    struct tern_sandbox *sandbox = NULL;
    struct tern_error err = {0};
    write_config(text);
    assert_int_equal(tern_sandbox_load(config_path, &sandbox, &err), TERN_USAGE);
    assert_null(sandbox);
    assert_error(&err, expected);
}

static void sandbox_has_no_doors(void **state) {
    (void)state;
    static const char *const gone[] = {"io",         "os",          "load",        "loadstring",   "loadfile",
                                       "dofile",     "require",     "package",     "debug",        "collectgarbage",
                                       "pcall",      "xpcall",      "coroutine",   "setmetatable", "getmetatable",
                                       "rawset",     "print",       "utf8",        "_G",           "string.dump",
                                       "string.rep", "string.find", "string.gsub", "table.move",   "math.random"};
    for (size_t i = 0; i < sizeof(gone) / sizeof(*gone); i++) {
        char text[128];
        tern_str_format(text, sizeof(text), "return { found = %s ~= nil and error('found') }", gone[i]);
        struct tern_sandbox *sandbox = NULL;
        struct tern_error err = {0};
        write_config(text);
        if (tern_sandbox_load(config_path, &sandbox, &err) != TERN_OK)
            fail_msg("%s: %s", gone[i], err.text);
        tern_sandbox_free(sandbox);
    }
    assert_sandbox_refuses("local a\nreturn { x = ('x'):rep(9) }", ":2: ");
    assert_sandbox_refuses("return { x = (''):dump() }", ":1: ");
}

static void sandbox_names_the_line(void **state) {
    (void)state;
    assert_sandbox_refuses("return {\n  a = = 1,\n}", ":2: unexpected symbol near '='");
    assert_sandbox_refuses("local x = nil\n\nreturn x.y", ":3: attempt to index a nil value");
    assert_sandbox_refuses("error('my words')", ":1: my words");
    assert_sandbox_refuses("error({})", ": raised an error that is a table");
    assert_sandbox_refuses("return 7", ": must return a table, not number");
    assert_sandbox_refuses("", ": must return a table, not nil");
    assert_sandbox_refuses("\x1bLua", "attempt to load a binary chunk");
}

static void sandbox_ends_endless_files(void **state) {
    (void)state;
    assert_sandbox_refuses("\nwhile true do end", ":2: more than 10000000 instructions: an endless loop?");
    assert_sandbox_refuses("local function f() return f() end\nreturn f()", "an endless loop?");
    assert_sandbox_refuses("local function f() return 1 + f() end\nreturn f()", "needs more than 16 MiB");
    assert_sandbox_refuses("local t = { 1, 2, 3 }\ntable.sort(t, function() while true do end end)", ":2: ");
    assert_sandbox_refuses("local s = 'x'\nwhile true do s = s .. s end", ": needs more than 16 MiB of memory");
    assert_sandbox_refuses("local t = {}\nfor i = 1, 1e9 do t[i] = i end", "needs more than 16 MiB");
}

static void sandbox_keeps_useful_things(void **state) {
    (void)state;
    write_config("local t = {}\nfor _, v in ipairs({ 3, 1, 2 }) do table.insert(t, v) end\ntable.sort(t)\n"
                 "return { text = ('%d %s'):format(math.floor(2.5), table.concat(t, ',')):upper() }");
    struct tern_sandbox *sandbox = NULL;
    struct tern_error err;
    assert_int_equal(tern_sandbox_load(config_path, &sandbox, &err), TERN_OK);
    tern_sandbox_free(sandbox);
    assert_int_equal(tern_sandbox_load("/no/such/file.lua", &sandbox, &err), TERN_USAGE);
}

/* ---- shapes ---- */

static void every_model_loads(void **state) {
    (void)state;
    struct tern_strs names = {0};
    struct tern_error err;
    static struct tern_shapes shapes;
    assert_int_equal(tern_shapes_names(&names, &err), TERN_OK);
    assert_true(names.count >= 9);
    for (size_t i = 0; i < names.count; i++) {
        if (tern_shapes_load(names.items[i], &shapes, &err) != TERN_OK)
            fail_msg("%s", err.text);
        double sum = 0;
        for (size_t m = 0; m < shapes.m_count; m++)
            sum += shapes.weight[m];
        assert_true(fabs(sum - 1) < 1e-12);
        assert_string_equal(shapes.name, names.items[i]);
    }
    tern_strs_free(&names);
}

static void qwen7b_is_as_published(void **state) {
    (void)state;
    static struct tern_shapes s;
    struct tern_error err;
    assert_int_equal(tern_shapes_load("qwen7b.lua", &s, &err), TERN_OK);
    static const int64_t expected[4][2] = {{4608, 3584}, {3584, 3584}, {37888, 3584}, {3584, 18944}};
    assert_int_equal(s.layer_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(s.layers[i].n, expected[i][0]);
        assert_int_equal(s.layers[i].k, expected[i][1]);
        assert_int_equal(s.layers[i].count, 28);
    }
    assert_int_equal(s.m_count, 14);
    for (size_t i = 0; i < 14; i++)
        assert_int_equal(s.m[i], (int64_t)1 << i);
    assert_int_equal(s.format_count, 2);
    assert_string_equal(s.formats[0].name, "ternary-g128");
    assert_string_equal(s.formats[1].name, "gptq4-g128");
}

#define SHAPES(layers, rest)                                                                                                \
    "return { title = 't', source = 's', layers = { " layers " }, formats = { 'ternary-g128' }, " rest " }"
#define LAYER "{ name = 'a', n = 64, k = 128 }"

static void assert_shapes_refused(const char *text, const char *expected, const char *hint) {
    static struct tern_shapes shapes;
    struct tern_error err = {0};
    write_config(text);
    assert_int_equal(tern_shapes_load(config_path, &shapes, &err), TERN_USAGE);
    assert_error(&err, expected);
    if (hint != NULL)
        assert_string_equal(err.hint, hint);
}

static void bad_shapes_name_the_key(void **state) {
    (void)state;
    assert_shapes_refused(SHAPES(LAYER, "decode = { 0 }"),
                          ": key 'decode[1]' must be a whole number from 1 to 1048576, not 0", NULL);
    assert_shapes_refused(SHAPES(LAYER, "decode = { 1.5 }"), ": key 'decode[1]' must be a whole number", NULL);
    assert_shapes_refused(SHAPES(LAYER, "decode = '1'"), ": key 'decode' must be a table, not '1'", NULL);
    assert_shapes_refused(SHAPES(LAYER, "decode = { 1, 1 }"), "M = 1 twice", NULL);
    assert_shapes_refused(SHAPES(LAYER, "decode = {}"), ": key 'decode' must be a list of 1 to 64 numbers, not 0", NULL);
    assert_shapes_refused(SHAPES(LAYER, ""), ": key 'decode' or 'prefill' must list at least one M", NULL);
    assert_shapes_refused(SHAPES("{ name = 'a', n = 12, k = 128 }", "decode = { 1 }"),
                          ": key 'layers[1].n' must be a multiple of 8, not 12", NULL);
    assert_shapes_refused(SHAPES("{ name = 'a', n = 64, k = 100 }", "decode = { 1 }"),
                          ": key 'layers[1].k' must be a multiple of 32, not 100", NULL);
    assert_shapes_refused(SHAPES("{ name = 'a', n = '64', k = 128 }", "decode = { 1 }"),
                          ": key 'layers[1].n' must be a whole number from 8 to 2147483647, not '64'", NULL);
    assert_shapes_refused(SHAPES("{ name = 'a', n = 64 }", "decode = { 1 }"), ": key 'layers[1].k' is missing", NULL);
    assert_shapes_refused(SHAPES(LAYER ", " LAYER, "decode = { 1 }"), ": key 'layers[2].name' is used twice: 'a'", NULL);
    assert_shapes_refused(SHAPES("", "decode = { 1 }"), ": key 'layers' must be a list of 1 to 64 layers", NULL);
    assert_shapes_refused(SHAPES(LAYER, "decod = { 1 }"), ": key 'decod' is unknown", "did you mean 'decode'?");
    assert_shapes_refused(SHAPES(LAYER, "decode = { 1 }, 5"), "has an entry without a name, [1]", NULL);
    assert_shapes_refused(SHAPES(LAYER, "decode = { 1 }, mix = { [2] = 1 }"), ": key 'mix' must name at least one M", NULL);
    assert_shapes_refused(SHAPES(LAYER, "decode = { 1 }, mix = { [1] = 0 / 0 }"), ": key 'mix' must give M = 1 a number > 0",
                          NULL);
    assert_shapes_refused("return { title = 't', source = 's', layers = { " LAYER
                          " }, decode = { 1 }, formats = { 'ternry-g128' } }",
                          ": key 'formats[1]': unknown format 'ternry-g128'", "did you mean 'ternary-g128'?");
}

static void mix_is_scaled(void **state) {
    (void)state;
    static struct tern_shapes s;
    struct tern_error err;
    write_config(SHAPES(LAYER, "prefill = { 128 }, decode = { 4, 1 }, mix = { [4] = 3, [128] = 1 }"));
    if (tern_shapes_load(config_path, &s, &err) != TERN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(s.m_count, 3);
    assert_int_equal(s.m[0], 1);
    assert_true(s.weight[0] == 0 && s.weight[1] == 0.75 && s.weight[2] == 0.25);
    write_config(SHAPES(LAYER, "prefill = { 128 }, decode = { 4, 1 }"));
    assert_int_equal(tern_shapes_load(config_path, &s, &err), TERN_OK);
    assert_true(s.weight[0] == 0.25 && s.weight[1] == 0.25 && s.weight[2] == 0.5);
}

/* ---- GPUs ---- */

static void every_gpu_loads(void **state) {
    (void)state;
    static const char *const wanted[] = {"a10",  "a100", "a100-40gb", "b200",    "h100",
                                         "h200", "l40s", "rtx4090",   "rtx5090", "t4"};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        struct tern_gpu gpu;
        struct tern_error err;
        if (tern_gpu_load(wanted[i], &gpu, &err) != TERN_OK)
            fail_msg("%s", err.text);
        assert_string_equal(gpu.name, wanted[i]);
        assert_true(gpu.smem_block_bytes <= gpu.smem_sm_bytes);
        assert_true(gpu.device_names.count > 0);
        assert_true(gpu.f16_tflops > gpu.f32_tflops);
        assert_true(gpu.launch_us > 0);
        tern_gpu_free(&gpu);
    }
}

static void h200_limits(void **state) {
    (void)state;
    struct tern_gpu gpu;
    struct tern_error err;
    assert_int_equal(tern_gpu_load("h200", &gpu, &err), TERN_OK);
    assert_true(tern_gpu_matches(&gpu, "NVIDIA H200", 90, INT64_C(150754820096)));
    assert_false(tern_gpu_matches(&gpu, "NVIDIA H200", 80, INT64_C(150754820096)));
    assert_false(tern_gpu_matches(&gpu, "NVIDIA H100", 90, INT64_C(150754820096)));
    assert_false(tern_gpu_matches(&gpu, "NVIDIA H200", 90, INT64_C(75000000000)));
    assert_true(fabs(tern_gpu_read_us(&gpu, 4e6) - 2.6) < 1e-9);
    assert_true(fabs(tern_gpu_read_us(&gpu, 48e6) - 12.85) < 1e-9);
    assert_true(fabs(tern_gpu_read_us(&gpu, 0) - 0.51) < 1e-9);
    assert_true(fabs(tern_gpu_read_us(&gpu, 128e6 + 4.8e9) - 1030.7) < 1e-6);
    for (double mb = 0; mb < 300; mb += 0.5) /* never falls */
        assert_true(tern_gpu_read_us(&gpu, (mb + 0.5) * 1e6) > tern_gpu_read_us(&gpu, mb * 1e6));
    tern_gpu_free(&gpu);
}

static void a_gpu_without_points_reads_at_its_bandwidth(void **state) {
    (void)state;
    struct tern_gpu gpu = {.memory_gbs = 1000, .launch_us = 1};
    assert_true(fabs(tern_gpu_read_us(&gpu, 5e6) - 6) < 1e-9);
}

static void bad_gpus_name_the_key(void **state) {
    (void)state;
    static const char good[] =
        "return { title = 't', arch = 'sm_80', cc = 80, sms = 1, l2_bytes = 1, memory_bytes = 1,"
        "smem_block_bytes = 65536, smem_sm_bytes = 65536, regs_sm = 65536, threads_sm = 1024, blocks_sm = 16,"
        "memory_gbs = 1, clock_mhz = 1, f16_tflops = 1, s8_tops = 1, f32_tflops = 1, source = 's',"
        "device_names = { 'x' }, %s }";
    static const char *const cases[][2] = {
        {"arch = 'sm_90'", ": key 'arch' must be sm_80"},
        {"memory_gbs = -1", ": key 'memory_gbs' must be a number > 0, not -1"},
        {"memory_gbs = 1 / 0", ": key 'memory_gbs' must be a number > 0, not inf"},
        {"sms = true", ": key 'sms' must be a whole number from 1 to 4096, not true"},
        {"cold_read = { { 2, 1 }, { 1, 2 } }", "ascending; point 2 does not fit"},
        {"cold_read = { 3 }", ": key 'cold_read[1]' must be a table, not 3"},
        {"device_names = {}", ": key 'device_names' must list at least one name"},
        {"source = ''", ": key 'source' must not be empty"},
        {"title = string.format('%99s', 'x')", ": key 'title' is too long: 99 characters, at most 63"},
        {"memroy_gbs = 1", ": key 'memroy_gbs' is unknown"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct tern_str text = {0};
        tern_str_append_bytes(&text, good, strlen(good) - 4);
        tern_str_printf(&text, "%s }", cases[i][0]);
        write_config(tern_str_text(&text));
        struct tern_gpu gpu;
        struct tern_error err = {0};
        assert_int_equal(tern_gpu_load(config_path, &gpu, &err), TERN_USAGE);
        assert_error(&err, cases[i][1]);
        tern_str_free(&text);
    }
}

static void names_are_suggested(void **state) {
    (void)state;
    struct tern_gpu gpu;
    static struct tern_shapes shapes;
    struct tern_error err;
    assert_int_equal(tern_gpu_load("h20", &gpu, &err), TERN_USAGE);
    assert_string_equal(err.text, "unknown GPU 'h20': no such file, and not in configs/gpus");
    assert_string_equal(err.hint, "did you mean h200?");
    assert_int_equal(tern_shapes_load("qwen-7b", &shapes, &err), TERN_USAGE);
    assert_string_equal(err.hint, "did you mean qwen7b?");
    assert_int_equal(tern_gpu_load("zzzzzzzz", &gpu, &err), TERN_USAGE);
    assert_non_null(strstr(err.hint, "known: a10, a100"));
    assert_int_equal(tern_gpu_load("", &gpu, &err), TERN_USAGE);
    assert_int_equal(tern_gpu_load("no/such/file.lua", &gpu, &err), TERN_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sandbox_has_no_doors),
        cmocka_unit_test(sandbox_names_the_line),
        cmocka_unit_test(sandbox_ends_endless_files),
        cmocka_unit_test(sandbox_keeps_useful_things),
        cmocka_unit_test(every_model_loads),
        cmocka_unit_test(qwen7b_is_as_published),
        cmocka_unit_test(bad_shapes_name_the_key),
        cmocka_unit_test(mix_is_scaled),
        cmocka_unit_test(every_gpu_loads),
        cmocka_unit_test(h200_limits),
        cmocka_unit_test(a_gpu_without_points_reads_at_its_bandwidth),
        cmocka_unit_test(bad_gpus_name_the_key),
        cmocka_unit_test(names_are_suggested),
    };
    return cmocka_run_group_tests_name("config", tests, make_file, remove_file);
}
