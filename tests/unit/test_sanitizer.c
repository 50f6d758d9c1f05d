/* compute-sanitizer as text: where it is looked for, its arguments, and what its reports mean. */
#include "device/sanitizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>

static void judge(const char *output, int exit_code, enum tern_sanitizer_verdict expected, const char *excerpt) {
    struct tern_str got = {0};
    assert_int_equal(tern_sanitizer_judge(output, exit_code, &got), expected);
    assert_string_equal(tern_str_text(&got), excerpt);
    tern_str_free(&got);
}

static void reports_are_clean_or_not(void **state) {
    (void)state;
    judge("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", 0, TERN_SANITIZER_CLEAN, "");
    judge("========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", 0,
          TERN_SANITIZER_CLEAN, "");
    judge("========= COMPUTE-SANITIZER\n"
          "========= Invalid __global__ write of size 2 bytes\n"
          "=========     at tern_planted+0x1a0\n"
          "=========     by thread (31,0,0) in block (2,0,0)\n"
          "=========     Address 0x7f is out of bounds\n"
          "========= \n"
          "a line of the program\n"
          "=========     and is 1 bytes after the nearest allocation\n"
          "========= Invalid __global__ write of size 2 bytes\n"
          "========= ERROR SUMMARY: 64 errors\n",
          86, TERN_SANITIZER_ERRORS,
          "Invalid __global__ write of size 2 bytes\n      at tern_planted+0x1a0\n"
          "      by thread (31,0,0) in block (2,0,0)\n      Address 0x7f is out of bounds\n"
          "      and is 1 bytes after the nearest allocation");
    judge("========= COMPUTE-SANITIZER\n"
          "========= Error: Race reported between Write access at tern_planted+0x10\n"
          "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n",
          86, TERN_SANITIZER_ERRORS, "Error: Race reported between Write access at tern_planted+0x10");
    judge("========= COMPUTE-SANITIZER\n"
          "========= Barrier error detected. Divergent thread(s) in block.\n"
          "=========     at tern_planted+0x230\n"
          "=========     by thread (0,0,0) in block (1,0,0)\n"
          "========= ERROR SUMMARY: 32 errors\n",
          86, TERN_SANITIZER_ERRORS,
          "Barrier error detected. Divergent thread(s) in block.\n      at tern_planted+0x230\n      by thread (0,0,0) in "
          "block (1,0,0)");
}

static void what_judged_nothing_is_not_clean(void **state) {
    (void)state;
    judge("", 0, TERN_SANITIZER_UNUSABLE, "no report, exit code 0: ");
    judge("cannot open shared object\n", 127, TERN_SANITIZER_UNUSABLE,
          "no report, exit code 127: cannot open shared object\n");
    judge("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", 139, TERN_SANITIZER_UNUSABLE,
          "no report, exit code 139: ========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n");
    judge("========= COMPUTE-SANITIZER\n========= Error: No attachable process found\n", 1, TERN_SANITIZER_UNUSABLE,
          "Error: No attachable process found");
    judge("========= COMPUTE-SANITIZER\n========= Error: Device not supported\n========= ERROR SUMMARY: 1 error\n", 86,
          TERN_SANITIZER_UNUSABLE, "Error: Device not supported");
}

static void it_is_found_on_path_and_asked_for_one_tool(void **state) {
    char dir[] = "/tmp/tern-sanitizer-XXXXXX", program[64], found[256];
    const char *prefix[TERN_SANITIZER_ARGUMENTS];
    struct tern_error err = {0};
    (void)state;
    assert_non_null(mkdtemp(dir));
    tern_str_format(program, sizeof program, "%s/compute-sanitizer", dir);
    int fd = creat(program, 0700);
    assert_true(fd >= 0);
    close(fd);
    char *path = tern_strdup(getenv("PATH"));
    setenv("PATH", dir, 1);
    assert_int_equal(tern_sanitizer_find(found, sizeof found, &err), TERN_OK);
    assert_string_equal(found, program);
    setenv("PATH", path, 1);
    free(path);
    tern_sanitizer_prefix(found, tern_sanitizer_tools[1], prefix);
    assert_ptr_equal(prefix[0], found);
    assert_string_equal(prefix[2], "racecheck");
    assert_string_equal(tern_sanitizer_tools[2], "synccheck");
    assert_null(prefix[TERN_SANITIZER_ARGUMENTS - 1]);
    unlink(program);
    rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_are_clean_or_not),
        cmocka_unit_test(what_judged_nothing_is_not_clean),
        cmocka_unit_test(it_is_found_on_path_and_asked_for_one_tool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
