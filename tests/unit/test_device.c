/* Tests of the CUDA backend where there is no GPU: clear errors with a remedy, no crash, nothing of CUDA linked. */
#include "core/str.h"
#include "device/backend.h"
#include "device/cuda_timing.h"
#include "device/detect.h"
#include "device/library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In a machine with a working GPU the open succeeds, and this test has nothing to say. */
static void no_gpu_is_missing_with_a_remedy(void **state) {
    void *context = NULL;
    struct tern_error err = {0};
    (void)state;
    enum tern_status status = tern_backend_cuda.open(0, &context, &err);
    if (status == TERN_OK) {
        tern_backend_cuda.close(context);
        skip();
    }
    assert_int_equal(status, TERN_MISSING);
    assert_null(context);
    assert_int_equal(err.status, TERN_MISSING);
    assert_true(strlen(err.text) > 0);
    assert_true(strlen(err.hint) > 0);
    tern_backend_cuda.close(NULL);
}

/* The program must start where no part of CUDA is installed. */
static void nothing_of_cuda_is_loaded(void **state) {
    char line[1024];
    int lines = 0;
    (void)state;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        lines++;
        assert_null(strstr(line, "libcuda"));
        assert_null(strstr(line, "libnvrtc"));
        assert_null(strstr(line, "libcublas"));
        assert_null(strstr(line, "libnvidia"));
    }
    fclose(maps);
    assert_true(lines > 5);
}

struct api {
    int (*first)(const char *);
    int (*second)(const char *);
};
static const struct tern_symbol good_symbols[] = {{"atoi", NULL, offsetof(struct api, first)},
                                                  {"no_such_function_v2", "atoi", offsetof(struct api, second)}};
static const struct tern_symbol bad_symbols[] = {{"no_such_function", "nor_this", offsetof(struct api, first)}};

static void library_tables_are_filled(void **state) {
    struct tern_library library = {.title = "libc",
                                   .sonames = {"libno-such.so.9", "libc.so.6"},
                                   .driver = true,
                                   .hint = "remedy",
                                   .symbols = good_symbols,
                                   .symbol_count = 2};
    struct api api = {0};
    struct tern_error err = {0};
    char path[PATH_MAX] = "";
    (void)state;
    assert_int_equal(tern_library_load(&library, &api, path, sizeof path, &err), TERN_OK);
    assert_int_equal(api.first("42"), 42);
    assert_int_equal(api.second("42"), 42); /* the older name stands in */
    assert_non_null(strstr(path, "libc.so.6"));

    library.symbols = bad_symbols;
    library.symbol_count = 1;
    assert_int_equal(tern_library_load(&library, &api, path, sizeof path, &err), TERN_MISSING);
    assert_non_null(strstr(err.text, "no_such_function"));
    assert_string_equal(err.hint, "remedy");

    library.sonames[1] = NULL;
    assert_int_equal(tern_library_load(&library, &api, path, sizeof path, &err), TERN_MISSING);
    assert_non_null(strstr(err.text, "libno-such.so.9"));
    assert_string_equal(err.hint, "remedy");
}

static void toolkit_roots_end(void **state) {
    char root[PATH_MAX];
    int count = 0;
    (void)state;
    assert_int_equal(setenv("CUDA_HOME", "/somewhere/cuda", 1), 0);
    assert_true(tern_cuda_root(0, root, sizeof root));
    assert_string_equal(root, "/somewhere/cuda");
    unsetenv("CUDA_HOME");
    assert_true(tern_cuda_root(0, root, sizeof root));
    assert_string_equal(root, "");
    while (tern_cuda_root(count, root, sizeof root))
        count++;
    assert_int_equal(count, 4);
    assert_false(tern_cuda_root(-1, root, sizeof root));
}

/* The child looks, this process stays without the driver; every part has either what was found or a remedy. */
static void detection_leaves_no_trace(void **state) {
    struct tern_detection detection;
    struct tern_error err = {0};
    (void)state;
    assert_int_equal(tern_cuda_detect(60, &detection, &err), TERN_OK);
    const struct tern_detected *const parts[] = {&detection.driver, &detection.nvml, &detection.cublas};
    for (int i = 0; i < 3; i++) {
        assert_true(strlen(parts[i]->detail) > 0);
        assert_true(parts[i]->found || strlen(parts[i]->hint) > 0);
    }
    assert_true(detection.driver.found || detection.gpu_count == 0);
    nothing_of_cuda_is_loaded(NULL);
}

/* No time at all is a driver that does not answer: a finding, not a hang and not an error. */
static void detection_keeps_its_deadline(void **state) {
    struct tern_detection detection;
    struct tern_error err = {0};
    (void)state;
    assert_int_equal(tern_cuda_detect(0, &detection, &err), TERN_OK);
    assert_false(detection.driver.found);
    assert_non_null(strstr(detection.driver.detail, "did not answer"));
    assert_true(strlen(detection.driver.hint) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_cuda_is_loaded),    cmocka_unit_test(detection_leaves_no_trace),
        cmocka_unit_test(detection_keeps_its_deadline), cmocka_unit_test(no_gpu_is_missing_with_a_remedy),
        cmocka_unit_test(library_tables_are_filled),    cmocka_unit_test(toolkit_roots_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
