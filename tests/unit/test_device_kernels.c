/* Tests of the fixed device code (kernels/) on the CPU emulator: reference GEMM and comparison against the
 * host's own, checksums, read probes. The same source runs on the GPU in tests/gpu/test_device.c. */
#include "kernel_fixture.h"

#include "core/half.h"
#include "device/fixed_kernels.h"
#include "formats/layout.h"

#include <math.h>

#define M 5
#define N 72 /* more than a tile of 64 */
#define K 96

static void check_reference(enum tern_activation type) {
    static const char wrapper[] = "extern \"C\" __global__ void wrapped(tern_args a) {"
                                  " tern_reference(*(const tern_reference_args *)a.workspace); }\n";
    struct tern_format format;
    struct tern_weights w;
    struct tern_error err = {0};
    struct emulated e;
    uint16_t x[M * K];
    double ref[M * N], scale[M * N], got[M * N];
    float got_scale[M * N];
    int64_t index[N];
    for (int i = 0; i < N; i++)
        index[i] = i;
    assert_int_equal(tern_format_parse("gptq4-g32-asym", &format, &err), TERN_OK);
    assert_int_equal(tern_weights_random(&format, N, K, 3, &w, &err), TERN_OK);
    tern_activations_random(type, M, K, 3, x);
    tern_reference_compute(&w, type, x, index, M, index, N, ref, scale);
    emulate(&e, "kernels/reference.cu", "#include \"tern/abi.h\"", wrapper, "wrapped");
    struct tern_reference_args a = {.x = put(&e, x, sizeof x),
                                    .codes = put(&e, w.codes, N * K),
                                    .scales = put(&e, w.scales, (size_t)w.groups * N * 2),
                                    .zeros = put(&e, w.zeros, (size_t)w.groups * N),
                                    .y_ref = put(&e, NULL, sizeof got),
                                    .bound_scale = put(&e, NULL, sizeof got_scale),
                                    .m = M,
                                    .n = N,
                                    .k = K,
                                    .group_size = 32,
                                    .bf16 = type == TERN_BF16};
    struct tern_args args = {.workspace = put(&e, &a, sizeof a)};
    launch(&e, 2, 1, &args);
    get(&e, got, a.y_ref, sizeof got);
    get(&e, got_scale, a.bound_scale, sizeof got_scale);
    for (int i = 0; i < M * N; i++) {
        assert_true(fabs(got[i] - ref[i]) <= 1e-14 * scale[i]);
        assert_true(fabs((double)got_scale[i] - scale[i]) <= 1e-5 * scale[i]);
    }
    end(&e);
    tern_weights_free(&w);
}

static void reference_agrees_with_the_host(void **state) {
    (void)state;
    check_reference(TERN_F16);
    check_reference(TERN_BF16);
}

/* Runs the comparison of y with ref; bound of exact weights, K = 1024. */
static struct tern_compare_result compare(struct emulated *e, enum tern_activation type, const uint16_t *y,
                                          const double *ref, const float *scale, int64_t count) {
    struct tern_bound bound;
    struct tern_compare_result result = {.first = ~0ull};
    const struct tern_precision precision = {1024, type, TERN_EXACT_WEIGHTS};
    tern_reference_bound(&precision, &bound);
    struct tern_compare_args a = {.y = put(e, y, (size_t)count * sizeof *y),
                                  .y_ref = put(e, ref, (size_t)count * sizeof *ref),
                                  .bound_scale = put(e, scale, (size_t)count * sizeof *scale),
                                  .result = put(e, &result, sizeof result),
                                  .count = count,
                                  .rounding = bound.rounding,
                                  .subnormal = bound.subnormal,
                                  .of_ref = bound.of_ref,
                                  .of_scale = bound.of_scale,
                                  .overflow = bound.overflow,
                                  .bf16 = type == TERN_BF16};
    struct tern_args args = {.workspace = put(e, &a, sizeof a)};
    launch(e, 2, 1, &args);
    get(e, &result, a.result, sizeof result);
    return result;
}

static void check_comparison(enum tern_activation type, double beyond, uint16_t infinity) {
    static const char wrapper[] = "extern \"C\" __global__ void wrapped(tern_args a) {"
                                  " tern_compare(*(const tern_compare_args *)a.workspace); }\n";
    /* The shim has the float functions only. */
    static const char host_maths[] = "#define fabs __builtin_fabs\n#define isinf __builtin_isinf\n"
                                     "#define signbit __builtin_signbit\n#include \"tern/abi.h\"";
    enum { COUNT = 1200 };
    uint16_t y[COUNT];
    double ref[COUNT], wide[COUNT];
    float scale[COUNT];
    int64_t row = 0, cols[COUNT];
    struct emulated e;
    const struct tern_precision precision = {1024, type, TERN_EXACT_WEIGHTS};
    for (int i = 0; i < COUNT; i++) {
        cols[i] = i;
        ref[i] = (i - 600) * 0.37;
        scale[i] = (float)(fabs(ref[i]) + 8);
        wide[i] = (double)scale[i];
        y[i] = tern_activation_from_double(type, ref[i]);
    }
    emulate(&e, "kernels/compare.cu", host_maths, wrapper, "wrapped");
    struct tern_compare_result good = compare(&e, type, y, ref, scale, COUNT);
    assert_int_equal(good.checked, COUNT);
    assert_int_equal(good.mismatches, 0);
    assert_int_equal(good.poisoned, 0);
    assert_true(good.first == ~0ull);
    y[1100] = 0xFFFF;                                                 /* poison, a NaN */
    y[700] = (uint16_t)(y[700] + 8);                                  /* a planted error */
    y[3] = infinity;                                                  /* infinity where none may be */
    ref[9] = beyond, scale[9] = 7e4f, wide[9] = 7e4, y[9] = infinity; /* infinity where it is right */
    struct tern_compare_result bad = compare(&e, type, y, ref, scale, COUNT);
    struct tern_mismatch host = {0};
    assert_false(tern_reference_compare(y, COUNT, &row, 1, cols, COUNT, ref, wide, &precision, &host));
    assert_int_equal(host.count, 3);
    assert_int_equal(bad.mismatches, host.count);
    assert_int_equal(bad.checked, COUNT);
    assert_int_equal(bad.first, host.col);
    assert_int_equal(bad.first, 3);
    assert_int_equal(bad.poisoned, 1);
    assert_int_equal(bad.worst_bits, 0x7f800000);
    end(&e);
}

static void comparison_finds_what_the_host_finds(void **state) {
    (void)state;
    check_comparison(TERN_F16, 70000, 0x7c00);
    check_comparison(TERN_BF16, 3.4e38, 0x7f80);
}

static uint64_t checksum(struct emulated *e, const uint64_t *words, size_t count) {
    uint64_t sum = 0;
    struct tern_checksum_args a = {
        .data = put(e, words, count * sizeof *words), .sum = put(e, &sum, sizeof sum), .count = (long long)count};
    struct tern_args args = {.workspace = put(e, &a, sizeof a)};
    launch(e, 2, 1, &args);
    get(e, &sum, a.sum, sizeof sum);
    return sum;
}

static void checksum_sees_every_bit_and_its_place(void **state) {
    static const char wrapper[] = "extern \"C\" __global__ void wrapped(tern_args a) {"
                                  " tern_checksum(*(const tern_checksum_args *)a.workspace); }\n";
    enum { COUNT = 1201 };
    uint64_t words[COUNT] = {0};
    struct emulated e;
    (void)state;
    emulate(&e, "kernels/checksum.cu", "#include \"tern/abi.h\"", wrapper, "wrapped");
    uint64_t zeros = checksum(&e, words, COUNT);
    assert_true(zeros == checksum(&e, words, COUNT));
    assert_true(zeros != checksum(&e, words, COUNT - 1));
    for (size_t i = 0; i < COUNT; i += 240) { /* the first and the last word among them */
        words[i] = 1ull << (i % 64);
        assert_true(zeros != checksum(&e, words, COUNT));
        words[i] = 0;
    }
    words[3] = 5;
    words[900] = 7;
    uint64_t sum = checksum(&e, words, COUNT);
    words[3] = 7;
    words[900] = 5;
    assert_true(sum != checksum(&e, words, COUNT));
    end(&e);
}

/* Sum of the words that a read probe saw, of `bytes` from a buffer that goes on behind them. `copied` (may be NULL) is where
 * a copy probe writes; bytes + 64 of it go to the device and come back. */
static unsigned int probe_sum(const char *macros, const uint32_t *words, size_t bytes, int64_t blocks, int64_t block,
                              int check, uint32_t *copied) {
    static const char wrapper[] = "extern \"C\" __global__ void wrapped(tern_args a) {"
                                  " tern_probe(*(const tern_probe_args *)a.workspace); }\n";
    struct emulated e;
    struct tern_error err = {0};
    unsigned int result[2] = {0, 0};
    char preamble[256];
    tern_str_format(preamble, sizeof preamble, "%s\n#include \"tern/abi.h\"", macros);
    emulate(&e, "kernels/ceiling.cu", preamble, wrapper, "wrapped");
    struct tern_probe_args a = {.data = put(&e, words, bytes + 64),
                                .to = copied ? put(&e, copied, bytes + 64) : NULL,
                                .result = put(&e, result, sizeof result),
                                .count = (long long)(bytes / 16),
                                .check = check};
    struct tern_args args = {.workspace = put(&e, &a, sizeof a)};
    struct tern_launch l = {.function = e.function, .grid = {blocks, 1, 1}, .block = block, .cluster = 1, .args = args};
    if (tern_backend_emu.launch(e.context, &l, &err) != TERN_OK)
        fail_msg("%s", err.text);
    get(&e, result, a.result, sizeof result);
    if (copied)
        get(&e, copied, a.to, bytes + 64);
    end(&e);
    return result[0];
}

/* A probe that skips or repeats a byte would be a wrong ceiling. */
static void read_probes_read_every_byte_once(void **state) {
    static const char read_4[] = "#define TERN_PROBE 1\n#define TERN_PROBE_UNROLL 4";
    static const char read_8[] = "#define TERN_PROBE 1\n#define TERN_PROBE_UNROLL 8";
    static const char bulk[] = "#define TERN_PROBE 2";
    const size_t bytes = 13 * TERN_PROBE_CHUNK; /* no multiple of what a round of either probe takes */
    uint32_t *words = malloc(bytes + 64), sum = 0;
    (void)state;
    assert_non_null(words);
    for (uint32_t i = 0; i < bytes / 4 + 16; i++)
        words[i] = (i + 1) * 2654435761u;
    for (size_t i = 0; i < bytes / 4; i++)
        sum += words[i];
    assert_int_equal(probe_sum(read_4, words, bytes, 3, 64, 1, NULL), sum);
    assert_int_equal(probe_sum(read_8, words, bytes, 2, 128, 1, NULL), sum);
    assert_int_equal(probe_sum(read_8, words, bytes, 30, 128, 1, NULL), sum); /* more threads than words */
    assert_int_equal(probe_sum(bulk, words, bytes, 2, 128, 1, NULL), sum);    /* the ring turns round */
    assert_int_equal(probe_sum(bulk, words, bytes, 14, 128, 1, NULL), sum);   /* a block without work */
    assert_int_equal(probe_sum(read_4, words, bytes, 3, 64, 0, NULL), 0);     /* timed reads write nothing */
    free(words);
}

static void copy_probe_writes_every_byte_once(void **state) {
    static const char copy[] = "#define TERN_PROBE 6\n#define TERN_PROBE_UNROLL 4";
    enum { WORDS = 4 * 997 }; /* 32-bit words; no multiple of what a round takes */
    uint32_t words[WORDS + 16], copied[WORDS + 16] = {0};
    (void)state;
    for (uint32_t i = 0; i < WORDS + 16; i++)
        words[i] = (i + 1) * 2654435761u;
    assert_int_equal(probe_sum(copy, words, sizeof words - 64, 3, 64, 1, copied), 0);
    assert_memory_equal(copied, words, sizeof words - 64);
    for (size_t i = WORDS; i < WORDS + 16; i++)
        assert_int_equal(copied[i], 0);
}

/* One of the packing kernels on the emulator; *wrong is what it counted. The arrays of `a` are the emulator's already. */
static void run_packing(struct emulated *e, const char *entry, struct tern_pack_args a, uint64_t *wrong) {
    struct tern_error err = {0};
    void *function = NULL;
    *wrong = 0;
    a.wrong = put(e, wrong, sizeof *wrong);
    struct tern_args args = {.workspace = put(e, &a, sizeof a)};
    assert_int_equal(tern_backend_emu.module_function(e->context, e->module, entry, &function, &err), TERN_OK);
    const int64_t grid = (a.row_tiles * a.k_tiles + TERN_PACK_WARPS - 1) / TERN_PACK_WARPS;
    struct tern_launch l = {
        .function = function, .grid = {grid, 1, 1}, .block = 32 * TERN_PACK_WARPS, .cluster = 1, .args = args};
    if (tern_backend_emu.launch(e->context, &l, &err) != TERN_OK)
        fail_msg("%s: %s", entry, err.text);
    get(e, wrong, a.wrong, sizeof *wrong);
    tern_backend_emu.release(e->context, a.wrong);
    tern_backend_emu.release(e->context, args.workspace);
}

static void expect_bytes(struct emulated *e, const void *at, const void *want, size_t bytes, const char *what) {
    uint8_t *got = malloc(bytes + 1);
    assert_non_null(got);
    get(e, got, at, bytes);
    if (memcmp(got, want, bytes) != 0)
        fail_msg("%s differ", what);
    free(got);
}

/* Packed as by the host, unpacked to what it was; then one bit of the padding, and one code that does not exist where there is one. */
static void check_packing(struct emulated *e, const char *name, int64_t n, int64_t k) {
    struct tern_format format;
    struct tern_weights w;
    struct tern_packed packed;
    struct tern_pack_args a;
    struct tern_error err = {0};
    uint64_t wrong = 0;
    assert_int_equal(tern_format_parse(name, &format, &err), TERN_OK);
    assert_int_equal(tern_weights_random(&format, n, k, 5, &w, &err), TERN_OK);
    assert_int_equal(tern_layout_pack(tern_layout_find("frag16x128"), &w, &packed, &err), TERN_OK);
    assert_true(tern_layout_wire(tern_layout_find("frag16x128"), &format, n, k, &a));
    const size_t weights = (size_t)(n * k), entries = (size_t)(w.groups * n);
    a.codes = put(e, w.codes, weights), a.scales = put(e, w.scales, 2 * entries);
    a.packed_codes = put(e, NULL, (size_t)packed.code_bytes), a.packed_scales = put(e, NULL, (size_t)packed.scale_bytes);
    if (!format.sym)
        a.zeros = put(e, w.zeros, entries), a.packed_zeros = put(e, NULL, ((size_t)packed.zero_bytes + 3) / 4 * 4);
    run_packing(e, "packed", a, &wrong);
    assert_int_equal(wrong, 0);
    expect_bytes(e, a.packed_codes, packed.codes, (size_t)packed.code_bytes, name);
    expect_bytes(e, a.packed_scales, packed.scales, (size_t)packed.scale_bytes, name);
    if (!format.sym)
        expect_bytes(e, a.packed_zeros, packed.zeros, (size_t)packed.zero_bytes, name);
    memset(a.codes, 0xA5, weights);
    memset(a.scales, 0xA5, 2 * entries);
    run_packing(e, "unpacked_scales", a, &wrong);
    run_packing(e, "unpacked", a, &wrong);
    assert_int_equal(wrong, 0);
    expect_bytes(e, a.codes, w.codes, weights, name);
    expect_bytes(e, a.scales, w.scales, 2 * entries, name);
    if (n % 16 != 0) { /* the last word of a tile whose last rows are padding */
        a.packed_codes[packed.code_bytes / 4 - 1] ^= 1u << 31;
        run_packing(e, "unpacked", a, &wrong);
        assert_int_equal(wrong, 1);
    }
    a.codes[weights - 1] = 0xFF;
    run_packing(e, "packed", a, &wrong);
    assert_int_equal(wrong, format.bits < 8);
    void *const buffers[] = {a.codes, a.scales, a.zeros, a.packed_codes, a.packed_scales, a.packed_zeros};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (buffers[i])
            tern_backend_emu.release(e->context, buffers[i]);
    tern_packed_free(&packed);
    tern_weights_free(&w);
}

static void packing_is_the_hosts(void **state) {
    static const char wrapper[] =
        "extern \"C\" __global__ void packed(tern_args a) { tern_pack(*(const tern_pack_args *)a.workspace); }\n"
        "extern \"C\" __global__ void unpacked(tern_args a) { tern_unpack(*(const tern_pack_args *)a.workspace); }\n"
        "extern \"C\" __global__ void unpacked_scales(tern_args a) {"
        " tern_unpack_scales(*(const tern_pack_args *)a.workspace); }\n";
    static const char *const formats[] = {"ternary-g128", "ternary-channel", "ternary-tensor",  "gptq2-g64-asym",
                                          "gptq3-g32",    "gptq3-g32-asym",  "gptq4-g128-asym", "gptq8-channel"};
    struct emulated e;
    (void)state;
    emulate(&e, "kernels/pack.cu", "#include \"tern/abi.h\"", wrapper, "packed");
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        check_packing(&e, formats[i], 40, 288); /* half a row tile, a quarter of a k tile; several blocks */
        check_packing(&e, formats[i], 16, 128);
    }
    end(&e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_agrees_with_the_host),
        cmocka_unit_test(comparison_finds_what_the_host_finds),
        cmocka_unit_test(packing_is_the_hosts),
        cmocka_unit_test(checksum_sees_every_bit_and_its_place),
        cmocka_unit_test(read_probes_read_every_byte_once),
        cmocka_unit_test(copy_probe_writes_every_byte_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
