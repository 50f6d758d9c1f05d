/* wgmma-a8 (int8 and e4m3) and mma-a8 on the CPU emulator, bit by bit: each code of the quantiser at its place, integer sums of ternary
 * weights, rows with infinities and NaN. What may differ by roundings is judged by `tune verify`. */
#include "core/file.h"
#include "core/half.h"
#include "core/random.h"
#include "device/backend.h"
#include "device/compiler.h"
#include "formats/layout.h"
#include "space/grid.h"
#include "verify/guard.h"
#include "verify/quantise.h"
#include "worker/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { M = 72, N = 256, K = 256, SMS = 4 };

#define WGMMA_TILE "BLOCK_M=96 CONSUMERS=2 ROW_BLOCKS=1 CHUNK=1 GROUP_M=8 CLUSTER_K=1 STREAM_K=0 ROUND_SCALES=0 "

struct kernel {
    const char *name, *params;
    enum tern_activation type;
};
static const struct kernel wgmma = {"wgmma-a8", WGMMA_TILE "BY_ADDING=0 STAGES=3", TERN_INT8};
static const struct kernel wgmma_adding = {"wgmma-a8", WGMMA_TILE "BY_ADDING=1 STAGES=3", TERN_INT8};
static const struct kernel wgmma_e4m3 = {"wgmma-a8", WGMMA_TILE "BY_ADDING=0 STAGES=3", TERN_E4M3};
static const struct kernel mma = {"mma-a8", "BLOCK_M=64 BLOCK_N=128 WARP_M=32 WARP_N=32 STAGES=2", TERN_INT8};

struct fixture {
    struct tern_template *templates;
    size_t template_count;
    void *context;
    uint16_t x[M * K], y[M * N], codes[M * K];
    float scales[M];
    struct tern_weights w;
};

static void open_fixture(struct fixture *f, const char *format_name) {
    struct tern_format format;
    struct tern_error err = {0};
    memset(f, 0, sizeof *f);
    assert_int_equal(tern_templates_load_all(&f->templates, &f->template_count, &err), TERN_OK);
    assert_int_equal(tern_backend_emu.open(0, &f->context, &err), TERN_OK);
    assert_int_equal(tern_format_parse(format_name, &format, &err), TERN_OK);
    assert_int_equal(tern_weights_random(&format, N, K, 21, &f->w, &err), TERN_OK);
    for (int64_t i = 0; i < f->w.groups * N; i++)
        f->w.scales[i] = 0x3C00; /* 1: sums are seen as they are */
}

static void close_fixture(struct fixture *f) {
    tern_backend_emu.close(f->context);
    tern_weights_free(&f->w);
    for (size_t i = 0; i < f->template_count; i++)
        tern_template_free(&f->templates[i]);
    free(f->templates);
}

static const struct tern_template *find_template(const struct fixture *f, const char *name) {
    for (size_t i = 0; i < f->template_count; i++)
        if (strcmp(f->templates[i].name, name) == 0)
            return &f->templates[i];
    fail_msg("no template %s", name);
    return NULL;
}

static void *put(const struct fixture *f, const void *from, int64_t bytes) {
    void *to = NULL;
    struct tern_error err = {0};
    assert_int_equal(tern_backend_emu.alloc(f->context, (size_t)bytes, &to, &err), TERN_OK);
    if (from)
        assert_int_equal(tern_backend_emu.upload(f->context, to, from, (size_t)bytes, &err), TERN_OK);
    else
        assert_int_equal(tern_backend_emu.fill(f->context, to, TERN_POISON_WORD, (size_t)bytes, &err), TERN_OK);
    return to;
}

static void compile(const struct tern_candidate *c, const struct tern_format *format, enum tern_activation type,
                    const char *path) {
    struct tern_str source = {0}, log = {0};
    struct tern_error err = {0};
    char file[PATH_MAX], *text = NULL;
    size_t length = 0;
    int ok = 0;
    tern_str_format(file, sizeof file, "%s/kernel.cu", c->tmpl->dir);
    assert_int_equal(tern_file_read(file, &text, &length, &err), TERN_OK);
    tern_candidate_preamble(c, format, type, &source);
    tern_str_append(&source, text);
    assert_int_equal(tern_emu_compile(tern_str_text(&source), "kernel.cu", path, 0, &log, &ok, &err), TERN_OK);
    if (!ok)
        fail_msg("%s", tern_str_text(&log));
    free(text);
    tern_str_free(&source);
    tern_str_free(&log);
}

/* y of x and w by the prologue and the kernel. Codes and scales of x by the host. */
static void run(struct fixture *f, const struct kernel *kernel) {
    struct tern_candidate c;
    struct tern_geometry g;
    struct tern_packed packed;
    struct tern_error err = {0};
    const struct tern_problem_shape shape = {.format = &f->w.format, .m = M, .n = N, .k = K, .type = kernel->type};
    const struct tern_backend *b = &tern_backend_emu;
    char path[64], source[80];
    void *module = NULL;
    tern_str_format(path, sizeof path, "/tmp/tern-test-%ld-a8.so", (long)getpid());
    assert_int_equal(tern_candidate_parse(find_template(f, kernel->name), kernel->params, &c, &err), TERN_OK);
    assert_int_equal(tern_candidate_geometry(&c, &shape, SMS, &g, &err), TERN_OK);
    compile(&c, &f->w.format, kernel->type, path);
    assert_int_equal(tern_layout_pack(tern_layout_find(c.tmpl->layout), &f->w, &packed, &err), TERN_OK);
    struct tern_launch launch = {.block = g.block,
                                 .grid = {g.grid[0], g.grid[1], g.grid[2]},
                                 .cluster = g.cluster,
                                 .smem_bytes = g.smem_bytes,
                                 .prologue_grid = g.prologue_grid,
                                 .prologue_block = g.prologue_block,
                                 .args = {.x = put(f, f->x, sizeof f->x),
                                          .codes = put(f, packed.codes, packed.code_bytes),
                                          .scales = put(f, packed.scales, packed.scale_bytes),
                                          .zeros = packed.zero_bytes ? put(f, packed.zeros, packed.zero_bytes) : NULL,
                                          .y = put(f, NULL, sizeof f->y),
                                          .workspace = put(f, NULL, g.workspace_bytes),
                                          .m = M,
                                          .n = N,
                                          .k = K,
                                          .groups = f->w.groups,
                                          .group_size = tern_format_group_size(&f->w.format, K),
                                          .multiprocessors = SMS}};
    assert_int_equal(
        b->module_load(f->context, path, strlen(path), c.tmpl->entry, g.smem_bytes, &module, &launch.function, &err),
        TERN_OK);
    assert_int_equal(b->module_function(f->context, module, c.tmpl->prologue, &launch.prologue, &err), TERN_OK);
    if (b->launch(f->context, &launch, &err) != TERN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(b->download(f->context, f->y, launch.args.y, sizeof f->y, &err), TERN_OK);
    b->module_unload(f->context, module);
    tern_packed_free(&packed);
    tern_str_format(source, sizeof source, "%s.cu", path);
    unlink(source);
    unlink(path);
    tern_quantise_activations(tern_check_arithmetic(&c, kernel->type), f->x, M, K, f->codes, f->scales);
}

/* sum_k code * weight, without scales: |sum| < 2^15. */
static int integer_sum(const struct fixture *f, int64_t i, int64_t j) {
    int sum = 0;
    for (int64_t k = 0; k < K; k++)
        sum += (int)tern_half_to_float(f->codes[i * K + k]) * (f->w.codes[j * K + k] - f->w.format.zero);
    return sum;
}

/* All of y, from the integers of the host: times the scale of the token in binary32, then rounded to binary16. */
static void expect_sums(const struct fixture *f) {
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            const uint16_t want = tern_half_from_double((double)((float)integer_sum(f, i, j) * f->scales[i]));
            if (f->y[i * N + j] != want && (f->y[i * N + j] | want) != 0x8000) /* zeros have no sign here */
                fail_msg("row %d column %d: %04x, not %04x (sum %d)", (int)i, (int)j, f->y[i * N + j], want,
                         integer_sum(f, i, j));
        }
}

/* W is the unit matrix: y shows the code of each x at its place. */
static void every_code_is_at_its_place(void **state) {
    static const char *const formats[] = {"ternary-tensor", "ternary-g128", "gptq4-g128", "gptq8-channel"};
    static struct fixture f;
    (void)state;
    for (int i = 0; i < 4; i++) {
        open_fixture(&f, formats[i]);
        for (int64_t j = 0; j < N; j++)
            for (int64_t k = 0; k < K; k++)
                f.w.codes[j * K + k] = (uint8_t)(f.w.format.zero + (j == k));
        tern_activations_random(TERN_INT8, M, K, 22, f.x);
        for (int k = 0; k < K; k++) {
            f.x[3 * K + k] = (uint16_t)(k & 1 ? 0x8000 : 0);                     /* zeros of both signs */
            f.x[4 * K + k] = (uint16_t)(k | (k & 1) << 15);                      /* subnormal: 2^-24 to 255 * 2^-24 */
            f.x[5 * K + k] = tern_half_from_double(k == 9 ? 127 : k / 2.0 - 60); /* halves between integers: ties */
            f.x[6 * K + k] = (uint16_t)(k == 200 ? 0xFBFF : 0x2000 + 64 * k);    /* largest magnitude of all, negative */
        }
        for (int of_mma = 0; of_mma < 2; of_mma++) {
            run(&f, of_mma ? &mma : i == 1 ? &wgmma_adding : &wgmma);
            expect_sums(&f);
            assert_int_equal(f.y[5 * N + 125] & 0x7FFF, tern_half_from_double(2)); /* 2.5 */
        }
        close_fixture(&f);
    }
}

/* The integer of weight k of row j. */
static int weight_of(const struct fixture *f, int64_t j, int64_t k) {
    const int64_t group = k / tern_format_group_size(&f->w.format, K);
    return f->w.codes[j * K + k] - (f->w.zeros ? f->w.zeros[group * N + j] : f->w.format.zero);
}

/* W has one weight a row, on the diagonal, of all values that the format has: y shows each code of x times each of them. */
static void e4m3_codes_and_weights_are_exact(void **state) {
    static const char *const formats[] = {"ternary-tensor", "ternary-g32",    "gptq2-g128-asym", "gptq2-g64-asym",
                                          "gptq4-g128",     "gptq4-g32-asym", "gptq4-channel"};
    static struct fixture f;
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        open_fixture(&f, formats[i]);
        for (int64_t j = 0; j < N; j++)
            for (int64_t k = 0; k < K; k++) {
                const int zero = f.w.codes[j * K + k] - weight_of(&f, j, k), levels = 1 << f.w.format.bits;
                f.w.codes[j * K + k] = (uint8_t)(j != k                                     ? zero
                                                 : f.w.format.family == TERN_FAMILY_TERNARY ? k % 3
                                                                                            : k / 3 % levels);
            }
        tern_activations_random(TERN_E4M3, M, K, 25, f.x);
        for (int k = 0; k < K; k++) {
            f.x[3 * K + k] = (uint16_t)(k & 1 ? 0x8000 : 0);
            f.x[4 * K + k] = (uint16_t)(k | (k & 1) << 15); /* subnormal binary16, up to 255 * 2^-24 */
            for (int r = 5; r < 40; r++) /* scale 1: all numbers of e4m3, ties between them, quarters below ties */
                f.x[r * K + k] = tern_half_from_double(k == r ? 448 : ldexp(k % 64 + 64 * (r % 4) + 1, r / 4 * 3 / 2 - 13));
            f.x[40 * K + k] = (uint16_t)(k == 200 ? 0xFBFF : 0x2000 + 64 * k); /* largest magnitude of all, negative */
        }
        run(&f, &wgmma_e4m3);
        for (int64_t m = 0; m < M; m++)
            for (int64_t j = 0; j < N; j++) {
                const float product = tern_half_to_float(f.codes[m * K + j]) * (float)weight_of(&f, j, j);
                const uint16_t want = tern_half_from_double((double)(product * f.scales[m])), got = f.y[m * N + j];
                if (got != want && (got | want) != 0x8000)
                    fail_msg("%s: row %d column %d: %04x, not %04x", formats[i], (int)m, (int)j, got, want);
            }
        assert_true(f.scales[8] == 1.0f && f.codes[8 * K] == 0); /* 2^-10: a tie of 0 and 2^-9 */
        assert_true(tern_half_to_float(f.codes[8 * K + 2]) == 0x1p-8f);
        close_fixture(&f);
    }
}

/* Sums below 2048 are binary16 numbers themselves: y is the integer sum, bit by bit, in the even rows, whose scale is 1. */
static void expect_whole_sums(struct fixture *f, const struct kernel *kernel) {
    int64_t seen = 0;
    run(f, kernel);
    for (int64_t i = 0; i < M; i += 2) {
        assert_true(f->scales[i] == 1.0f);
        for (int64_t j = 0; j < N; j++) {
            const int sum = integer_sum(f, i, j);
            assert_true(abs(sum) > 2048 || (double)tern_half_to_float(f->y[i * N + j]) == sum);
            seen += abs(sum) <= 2048 && sum % 2 != 0;
        }
    }
    assert_true(seen > M * N / 8);
    expect_sums(f);
}

/* A BitNet layer: codes -1, 0, 1 with one scale, activations int8. Odd rows have real scales. */
static void bitnet_sums_are_exact(void **state) {
    static struct fixture f;
    struct tern_random random;
    (void)state;
    open_fixture(&f, "ternary-tensor");
    tern_random_init(&random, 23, "bitnet");
    for (int64_t i = 0; i < M * K; i++)
        f.x[i] = tern_half_from_double((double)tern_random_below(&random, 255) - 127.0);
    for (int64_t i = 0; i < M; i++)
        for (int64_t k = 0; k < K; k++) {
            uint16_t *x = &f.x[i * K + k];
            *x = i % 2    ? tern_half_from_double(0.37 * (double)tern_half_to_float(*x))
                 : k == i ? tern_half_from_double(127)
                          : *x;
        }
    expect_whole_sums(&f, &wgmma);
    expect_whole_sums(&f, &mma);
    close_fixture(&f);
}

/* Rows 1, 9, 17 and 25, and no others. */
static void expect_spoilt(struct fixture *f, const struct kernel *kernel) {
    run(f, kernel);
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            const bool spoilt = i % 8 == 1 && i<32, is_nan = (f->y[i * N + j] & 0x7FFF)> 0x7C00;
            if (spoilt != is_nan)
                fail_msg("row %d column %d: %04x", (int)i, (int)j, f->y[i * N + j]);
        }
}

static void infinities_and_nan_spoil_their_row_only(void **state) {
    static const uint16_t specials[] = {0x7C00, 0xFC00, 0x7E00, 0xFE01};
    static struct fixture f;
    (void)state;
    open_fixture(&f, "ternary-g128");
    tern_activations_random(TERN_INT8, M, K, 24, f.x);
    for (int i = 0; i < 4; i++)
        f.x[(8 * i + 1) * K + 67 * i] = specials[i];
    expect_spoilt(&f, &wgmma);
    expect_spoilt(&f, &wgmma_e4m3);
    expect_spoilt(&f, &mma);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_is_at_its_place),
        cmocka_unit_test(e4m3_codes_and_weights_are_exact),
        cmocka_unit_test(bitnet_sums_are_exact),
        cmocka_unit_test(infinities_and_nan_spoil_their_row_only),
    };
    return cmocka_run_group_tests_name("a8", tests, NULL, NULL);
}
