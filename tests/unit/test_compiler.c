/* Tests of the NVRTC compiler: cubins, logs, resources, unknown architectures, missing toolkits. Needs no GPU. */
#include "core/file.h"
#include "device/compiler.h"
#include "device/compiler_log.h"
#include "device/cubin.h"
#include "device/fixed_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char source[] = "#include <cuda_fp16.h>\n"
                             "extern \"C\" __global__ void __launch_bounds__(128) kernel(float *a, const __half *h) {\n"
                             "    __shared__ float s[256];\n"
                             "    s[threadIdx.x] = a[threadIdx.x] + __half2float(h[0]) * TERN_FACTOR;\n"
                             "    __syncthreads();\n"
                             "    a[threadIdx.x] = s[255 - threadIdx.x];\n"
                             "}\n"
                             "extern \"C\" __global__ void kernel_2(float *a) { a[0] = 1; }\n";

static bool have_nvrtc(void) {
    int major, minor;
    struct tern_error err;
    return tern_nvrtc_version(&major, &minor, NULL, 0, &err) == TERN_OK;
}

static enum tern_status build(const char *text, const char *arch, const char *entry, struct tern_compiled *out,
                              struct tern_error *err) {
    return tern_nvrtc_compile(text, "test.cu", arch, NULL, 0, entry, out, err);
}

/* The log of ptxas and the cubin are two witnesses of the same build. */
static void check_resources(const struct tern_compiled *compiled, const char *entry, int sm) {
    struct tern_cubin cubin;
    assert_int_equal(compiled->ok, 1);
    assert_true(tern_cubin_read(compiled->image, compiled->image_bytes, entry, &cubin));
    assert_int_equal(cubin.sm, sm);
    assert_true(strlen(cubin.toolkit) >= 4);
    assert_true(compiled->registers > 0);
    assert_int_equal(compiled->registers, cubin.registers);
    assert_int_equal(compiled->local_bytes, cubin.frame_bytes);
    int64_t reserved = cubin.static_smem_bytes - compiled->static_smem_bytes;
    assert_true(reserved == 0 || (sm >= 90 && reserved == 1024));
    assert_int_equal(compiled->spill_bytes, 0);
}

static void compiles_for_every_architecture(void **state) {
    static const struct {
        const char *name;
        int sm;
    } archs[] = {{"sm_75", 75},  {"sm_80", 80},   {"sm_86", 86},  {"sm_89", 89},
                 {"sm_90a", 90}, {"sm_100", 100}, {"sm_120", 120}};
    (void)state;
    if (!have_nvrtc())
        skip();
    struct tern_str text = {0};
    tern_str_printf(&text, "#define TERN_FACTOR 2\n%s", source);
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        struct tern_compiled compiled;
        struct tern_error err = {0};
        if (build(tern_str_text(&text), archs[i].name, "kernel", &compiled, &err) != TERN_OK)
            fail_msg("%s: %s", archs[i].name, err.text);
        check_resources(&compiled, "kernel", archs[i].sm);
        assert_int_equal(compiled.static_smem_bytes, 1024);
        tern_compiled_free(&compiled);
        assert_int_equal(build(tern_str_text(&text), archs[i].name, "kernel_2", &compiled, &err), TERN_OK);
        check_resources(&compiled, "kernel_2", archs[i].sm);
        assert_int_equal(compiled.static_smem_bytes, 0);
        tern_compiled_free(&compiled);
    }
    tern_str_free(&text);
}

static void fixed_kernels_compile(void **state) {
    static const char *const archs[] = {"sm_80", "sm_90a", "sm_120"};
    struct tern_error err = {0};
    char kernels[PATH_MAX], includes[PATH_MAX];
    int built = 0;
    (void)state;
    if (!have_nvrtc())
        skip();
    assert_int_equal(tern_file_home_path("kernels", kernels, sizeof kernels, &err), TERN_OK);
    assert_int_equal(tern_file_home_path("templates/include", includes, sizeof includes, &err), TERN_OK);
    const char *const dirs[] = {kernels, includes};
    for (int index = 0;; index++) {
        struct tern_str text = {0};
        const char *entry;
        if (!tern_fixed_source(index, &text, &entry, &err))
            break;
        const char *arch = strcmp(entry, "tern_quantise") == 0 ? "sm_90a" : archs[index % 3]; /* it converts to e4m3 */
        struct tern_compiled compiled;
        assert_int_equal(tern_nvrtc_compile(tern_str_text(&text), entry, arch, dirs, 2, entry, &compiled, &err), TERN_OK);
        if (!compiled.ok)
            fail_msg("%s for %s: %s", entry, arch, tern_str_text(&compiled.log));
        assert_int_equal(compiled.spill_bytes, 0);
        assert_int_equal(compiled.local_bytes, 0);
        built++;
        tern_compiled_free(&compiled);
        tern_str_free(&text);
    }
    assert_string_equal(err.text, "");
    /* dequantise: 9 kinds of weights to 2 types, and 7 of them to e4m3 */
    assert_int_equal(built, 7 + 9 * 2 + 7 + TERN_PROBE_COUNT);
}

static void error_is_a_result_with_a_log(void **state) {
    struct tern_compiled compiled;
    struct tern_error err = {0};
    (void)state;
    if (!have_nvrtc())
        skip();
    assert_int_equal(build(source, "sm_80", "kernel", &compiled, &err), TERN_OK); /* TERN_FACTOR is not defined */
    assert_int_equal(compiled.ok, 0);
    assert_null(compiled.image);
    assert_non_null(strstr(tern_str_text(&compiled.log), "TERN_FACTOR"));
    assert_non_null(strstr(tern_str_text(&compiled.log), "test.cu(4)"));
    tern_compiled_free(&compiled);
    /* refused by ptxas, not by the front end */
    const char *big = "extern \"C\" __global__ void kernel(float *a) { __shared__ float s[65536]; s[threadIdx.x] = a[0];"
                      " __syncthreads(); a[1] = s[a[2] > 0]; }";
    assert_int_equal(build(big, "sm_80", "kernel", &compiled, &err), TERN_OK);
    assert_int_equal(compiled.ok, 0);
    assert_true(compiled.log.length > 0);
    tern_compiled_free(&compiled);
}

static void unknown_architecture_names_both(void **state) {
    struct tern_compiled compiled;
    struct tern_error err = {0};
    (void)state;
    if (!have_nvrtc())
        skip();
    assert_int_equal(build("", "sm_999", "kernel", &compiled, &err), TERN_MISSING);
    assert_non_null(strstr(err.text, "sm_999"));
    assert_non_null(strstr(err.text, "NVRTC 1"));
    assert_non_null(strstr(err.text, "sm_90"));
    assert_non_null(strstr(err.hint, "a newer"));
    assert_int_equal(build("", "sm_35", "kernel", &compiled, &err), TERN_MISSING);
    assert_non_null(strstr(err.hint, "an older"));
}

static void spills_are_counted(void **state) {
    static const char log[] =
        "ptxas info    : Compiling entry function 'other' for 'sm_90a'\n"
        "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
        "ptxas info    : Used 11 registers, used 0 barriers\n"
        "ptxas info    : Compiling entry function 'kernel' for 'sm_90a'\n"
        "ptxas info    : Function properties for kernel\n"
        "ptxas         .     256 bytes stack frame, 96 bytes spill stores, 112 bytes spill loads\n"
        "ptxas info    : Used 168 registers, used 1 barriers, 256 bytes cumulative stack size, 49152 bytes smem\n"
        "ptxas info    : Function properties for helper\n"
        "ptxas         .     0 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads\n";
    struct tern_compiled out = {.registers = -1};
    (void)state;
    assert_false(tern_compiler_log_read(log, "kern", &out));
    assert_int_equal(out.registers, -1);
    assert_true(tern_compiler_log_read(log, "kernel", &out));
    assert_int_equal(out.registers, 168);
    assert_int_equal(out.static_smem_bytes, 49152);
    assert_int_equal(out.local_bytes, 256);
    assert_int_equal(out.spill_bytes, 96 + 112 + 8 + 16);
    assert_true(tern_compiler_log_read(log, "other", &out));
    assert_int_equal(out.registers, 11);
    assert_int_equal(out.static_smem_bytes, 0);
    assert_int_equal(out.spill_bytes, 8);
    assert_false(tern_compiler_log_read("", "kernel", &out));
}

static void damaged_cubin_is_refused(void **state) {
    struct tern_compiled compiled;
    struct tern_error err = {0};
    struct tern_cubin cubin;
    (void)state;
    assert_false(tern_cubin_read("", 0, "kernel", &cubin));
    assert_false(tern_cubin_read("\177ELF", 4, "kernel", &cubin));
    if (!have_nvrtc())
        skip();
    assert_int_equal(
        build("extern \"C\" __global__ void kernel(float *a) { a[0] = 1; }", "sm_80", "kernel", &compiled, &err), TERN_OK);
    for (size_t bytes = 0; bytes < compiled.image_bytes; bytes += 7) { /* cut short anywhere: no read outside (ASan build) */
        char *cut = malloc(bytes + 1);
        assert_non_null(cut);
        memcpy(cut, compiled.image, bytes);
        (void)tern_cubin_read(cut, bytes, "kernel", &cubin);
        free(cut);
    }
    assert_true(tern_cubin_read(compiled.image, compiled.image_bytes, "absent", &cubin));
    assert_int_equal(cubin.registers, -1);
    tern_compiled_free(&compiled);
}

static void headers_follow_cuda_home(void **state) {
    char dir[PATH_MAX], folder[] = "/tmp/tern-test-XXXXXX", path[PATH_MAX], include[PATH_MAX];
    struct tern_error err = {0};
    const char *before = getenv("CUDA_HOME");
    char *kept = before ? strdup(before) : NULL;
    (void)state;
    assert_non_null(mkdtemp(folder));
    tern_str_format(include, sizeof include, "%s/include", folder);
    tern_str_format(path, sizeof path, "%s/cuda_fp16.h", include);
    assert_int_equal(tern_file_make_dirs(include, &err), TERN_OK);
    assert_int_equal(tern_file_write(path, "\n", 1, &err), TERN_OK);
    assert_int_equal(setenv("CUDA_HOME", folder, 1), 0);
    assert_int_equal(tern_cuda_include_dir(dir, sizeof dir, &err), TERN_OK);
    assert_string_equal(dir, include);
    assert_int_equal(kept ? setenv("CUDA_HOME", kept, 1) : unsetenv("CUDA_HOME"), 0);
    unlink(path);
    rmdir(include);
    rmdir(folder);
    free(kept);
}

static void write_text(const char *folder, const char *name, const char *text) {
    char path[PATH_MAX];
    struct tern_error err = {0};
    tern_str_format(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(tern_file_write(path, text, strlen(text), &err), TERN_OK);
}

/* main includes a and b; a includes b (beside itself) and main again: each once, in the order of first inclusion. */
static void closure_holds_each_include_once(void **state) {
    char folder[] = "/tmp/tern-test-XXXXXX", sub[PATH_MAX];
    struct tern_str out = {0}, again = {0};
    struct tern_error err = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    tern_str_format(sub, sizeof sub, "%s/tern", folder);
    assert_int_equal(tern_file_make_dirs(sub, &err), TERN_OK);
    write_text(sub, "a.cuh", "#include \"b.cuh\"\nA_TEXT\n  #  include \"tern/a.cuh\"\n");
    write_text(sub, "b.cuh", "B_TEXT\n#include <vector>\n");
    const char *text =
        "#include \"tern/a.cuh\"\n#include \"tern/b.cuh\"\n#include \"absent.h\"\nint x; // #include \"no.h\"";
    assert_int_equal(tern_source_closure(text, folder, &out, &err), TERN_OK);
    const char *all = tern_str_text(&out), *a = strstr(all, "A_TEXT"), *b = strstr(all, "B_TEXT");
    assert_true(strncmp(all, text, strlen(text)) == 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(strstr(a + 1, "A_TEXT"));
    assert_null(strstr(b + 1, "B_TEXT"));
    assert_true(a < b);
    assert_non_null(strstr(all, "#absent \"absent.h\""));
    assert_null(strstr(all, "#absent \"no.h\""));
    write_text(sub, "b.cuh", "C_TEXT\n"); /* a change in a nested include changes the identity */
    assert_int_equal(tern_source_closure(text, folder, &again, &err), TERN_OK);
    assert_string_not_equal(tern_str_text(&again), all);
    tern_str_free(&out);
    tern_str_free(&again);
    static const char *const names[] = {"a.cuh", "b.cuh"};
    for (int i = 0; i < 2; i++) {
        char path[PATH_MAX + 8];
        tern_str_format(path, sizeof path, "%s/%s", sub, names[i]);
        unlink(path);
    }
    rmdir(sub);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiles_for_every_architecture),
        cmocka_unit_test(fixed_kernels_compile),
        cmocka_unit_test(error_is_a_result_with_a_log),
        cmocka_unit_test(unknown_architecture_names_both),
        cmocka_unit_test(spills_are_counted),
        cmocka_unit_test(damaged_cubin_is_refused),
        cmocka_unit_test(headers_follow_cuda_home),
        cmocka_unit_test(closure_holds_each_include_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
