/* Core: files, folders and command-line options. */
#include "core/file.h"
#include "core/options.h"
#include "core/str.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static int make_dir(void **state) {
    char *dir = tern_strdup("/tmp/tern-test-XXXXXX");
    *state = dir;
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state) {
    char *dir = *state;
    struct tern_strs names = {0};
    char path[PATH_MAX];
    if (tern_file_list(dir, "", &names, NULL) == TERN_OK)
        for (size_t i = 0; i < names.count; i++) {
            tern_str_format(path, sizeof(path), "%s/%s", dir, names.items[i]);
            if (unlink(path) != 0)
                rmdir(path);
        }
    tern_strs_free(&names);
    int failed = rmdir(dir);
    free(dir);
    return failed;
}

static void write_read_list(void **state) {
    const char *dir = *state;
    struct tern_error err;
    char path[PATH_MAX];
    tern_str_format(path, sizeof(path), "%s/b.lua", dir);
    size_t big = 300000;
    char *content = tern_alloc(big);
    memset(content, 'z', big);
    content[17] = '\0';
    assert_int_equal(tern_file_write(path, "old", 3, &err), TERN_OK);
    assert_int_equal(tern_file_write(path, content, big, &err), TERN_OK);
    char *data;
    size_t length;
    assert_int_equal(tern_file_read(path, &data, &length, &err), TERN_OK);
    assert_int_equal(length, big);
    assert_memory_equal(data, content, big);
    assert_int_equal(data[big], 0);
    free(data);
    free(content);
    tern_str_format(path, sizeof(path), "%s/a.lua", dir);
    assert_int_equal(tern_file_write(path, "", 0, &err), TERN_OK);
    assert_int_equal(tern_file_read(path, &data, &length, &err), TERN_OK);
    assert_int_equal(length, 0);
    assert_string_equal(data, "");
    free(data);
    tern_str_format(path, sizeof(path), "%s/c.txt", dir);
    assert_int_equal(tern_file_write(path, "x", 1, &err), TERN_OK);
    struct tern_strs names = {0};
    assert_int_equal(tern_file_list(dir, ".lua", &names, &err), TERN_OK);
    assert_int_equal(names.count, 2); /* and no temporary file is left */
    assert_string_equal(names.items[0], "a.lua");
    assert_string_equal(names.items[1], "b.lua");
    tern_strs_free(&names);
}

static void failures_name_the_path(void **state) {
    const char *dir = *state;
    struct tern_error err;
    char path[PATH_MAX];
    char *data;
    size_t length;
    tern_str_format(path, sizeof(path), "%s/none", dir);
    assert_int_equal(tern_file_read(path, &data, &length, &err), TERN_USAGE);
    assert_null(data);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(tern_file_read(dir, &data, &length, &err), TERN_INTERNAL); /* a folder */
    tern_str_format(path, sizeof(path), "%s/none/file", dir);
    assert_int_equal(tern_file_write(path, "x", 1, &err), TERN_USAGE);
    tern_str_format(path, sizeof(path), "%s/file", dir);
    assert_int_equal(tern_file_write(path, "x", 1, &err), TERN_OK);
    tern_str_format(path, sizeof(path), "%s/file/below", dir);
    assert_int_equal(tern_file_make_dirs(path, &err), TERN_INTERNAL);
    assert_int_equal(tern_file_check_writable_dir(path, &err), TERN_INTERNAL);
    assert_int_equal(tern_file_check_writable_dir("/proc/nowhere", &err), TERN_INTERNAL);
    char longest[PATH_MAX + 10];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(tern_file_make_dirs(longest, &err), TERN_USAGE);
    assert_int_equal(tern_file_write(longest, "x", 1, &err), TERN_USAGE);
    struct tern_strs names = {0};
    assert_int_equal(tern_file_list("/no/such/folder", "", &names, &err), TERN_USAGE);
}

static void dirs_are_made(void **state) {
    const char *dir = *state;
    struct tern_error err;
    char path[PATH_MAX];
    tern_str_format(path, sizeof(path), "%s/x//", dir);
    assert_int_equal(tern_file_make_dirs(path, &err), TERN_OK);
    assert_int_equal(tern_file_make_dirs(path, &err), TERN_OK);
    assert_true(tern_file_is_dir(path));
    assert_int_equal(tern_file_check_writable_dir(path, &err), TERN_OK);
    struct tern_strs names = {0};
    assert_int_equal(tern_file_list(path, "", &names, &err), TERN_OK);
    assert_int_equal(names.count, 0); /* the probe is gone */
    tern_strs_free(&names);
}

static void scratch_lies_in_tmpdir(void **state) {
    const char *dir = *state;
    struct tern_error err;
    char path[PATH_MAX], expected[PATH_MAX];
    setenv("TMPDIR", dir, 1);
    tern_str_format(expected, sizeof(expected), "%s/work.", dir);
    assert_int_equal(tern_file_make_scratch("work", path, sizeof(path), &err), TERN_OK);
    assert_memory_equal(path, expected, strlen(expected));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(tern_file_make_scratch("work", path, strlen(expected), &err), TERN_USAGE);
    setenv("TMPDIR", "/proc/nowhere", 1);
    assert_int_equal(tern_file_make_scratch("work", path, sizeof(path), &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "/proc/nowhere"));
    setenv("TMPDIR", "", 1);
    assert_int_equal(tern_file_make_scratch("work", path, sizeof(path), &err), TERN_OK);
    assert_memory_equal(path, "/tmp/work.", strlen("/tmp/work."));
    assert_int_equal(rmdir(path), 0);
    unsetenv("TMPDIR");
}

static void programs_and_home(void **state) {
    (void)state;
    struct tern_error err;
    char path[PATH_MAX];
    assert_true(tern_file_find_program("sh", path, sizeof(path)));
    assert_int_equal(access(path, X_OK), 0);
    assert_false(tern_file_find_program("no-such-program-of-tern", path, sizeof(path)));
    assert_int_equal(tern_file_home_path("configs/gpus", path, sizeof(path), &err), TERN_OK);
    assert_true(tern_file_is_dir(path));
    setenv("TERN_HOME", "/tmp", 1);
    assert_int_equal(tern_file_home(path, sizeof(path), &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "/tmp"));
    unsetenv("TERN_HOME");
}

/* ---- options ---- */

struct values {
    bool json;
    const char *gpu;
    int64_t seed;
    double budget;
    const char *positional[2];
    size_t positional_count;
};

static enum tern_status parse(struct values *v, int argc, char **argv, struct tern_error *err) {
    *v = (struct values){.gpu = "none", .seed = 1, .budget = 180};
    const struct tern_option options[] = {
        {"json", 'j', TERN_OPTION_FLAG, &v->json, NULL, "print JSON", 0, 0},
        {"gpu", 'g', TERN_OPTION_TEXT, &v->gpu, "NAME", "device", 0, 0},
        {"seed", 0, TERN_OPTION_INT, &v->seed, "N", "seed", 0, 100},
        {"budget", 0, TERN_OPTION_SECONDS, &v->budget, "TIME", "budget", 0, 0},
    };
    return tern_options_parse(options, 4, argc, argv, v->positional, 2, &v->positional_count, err);
}

#define PARSE(v, err, ...)                                                                                                  \
    parse(v, (int)(sizeof((char *[]){"run", __VA_ARGS__}) / sizeof(char *)), (char *[]){"run", __VA_ARGS__}, err)

static void options_accepts(void **state) {
    (void)state;
    struct values v;
    struct tern_error err;
    assert_int_equal(PARSE(&v, &err, "a", "--gpu", "h200", "-j", "--seed=7", "--budget", "3m", "--", "--b"), TERN_OK);
    assert_true(v.json);
    assert_string_equal(v.gpu, "h200");
    assert_int_equal(v.seed, 7);
    assert_true(v.budget == 180);
    assert_int_equal(v.positional_count, 2);
    assert_string_equal(v.positional[0], "a");
    assert_string_equal(v.positional[1], "--b");
    assert_int_equal(PARSE(&v, &err, "-gh100", "--budget=1.5h", "-"), TERN_OK);
    assert_string_equal(v.gpu, "h100");
    assert_true(v.budget == 5400);
    assert_string_equal(v.positional[0], "-");
    assert_int_equal(v.seed, 1);
}

static void options_refuses(void **state) {
    (void)state;
    struct values v;
    struct tern_error err;
    assert_int_equal(PARSE(&v, &err, "--sed", "7"), TERN_USAGE);
    assert_string_equal(err.text, "unknown option '--sed'");
    assert_string_equal(err.hint, "did you mean --seed?");
    assert_int_equal(PARSE(&v, &err, "-x"), TERN_USAGE);
    assert_string_equal(err.hint, "'tune help run' lists the options");
    assert_int_equal(PARSE(&v, &err, "--gpu"), TERN_USAGE);
    assert_string_equal(err.text, "option --gpu needs a value: --gpu NAME");
    assert_int_equal(PARSE(&v, &err, "--gpu="), TERN_USAGE);
    assert_int_equal(PARSE(&v, &err, "--json=yes"), TERN_USAGE);
    assert_int_equal(PARSE(&v, &err, "--gpu", "a", "--gpu", "b"), TERN_USAGE);
    assert_string_equal(err.text, "option --gpu is given twice");
    assert_int_equal(PARSE(&v, &err, "--seed", "101"), TERN_USAGE);
    assert_string_equal(err.text, "--seed takes a whole number from 0 to 100, not '101'");
    assert_int_equal(PARSE(&v, &err, "a", "b", "c"), TERN_USAGE);
    assert_string_equal(err.text, "unexpected argument 'c'");
    static const char *const bad[] = {"0", "-1", "x", "3d", "s", "1e300h"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(PARSE(&v, &err, "--budget", (char *)bad[i]), TERN_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(write_read_list, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(failures_name_the_path, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(dirs_are_made, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(scratch_lies_in_tmpdir, make_dir, remove_dir),
        cmocka_unit_test(programs_and_home),
        cmocka_unit_test(options_accepts),
        cmocka_unit_test(options_refuses),
    };
    return cmocka_run_group_tests_name("core files", tests, NULL, NULL);
}
