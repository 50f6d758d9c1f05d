/* What raw codes (mma-decode, mma-stream, mma-resident), digits (imma-decode, imma-resident) and bfloat16 do with values that a
 * bound cannot judge, on the CPU emulator: infinities and NaN in x, rows whose weights are all 0, single values of x of every
 * magnitude, and large ones among small ones. */
#include "kernel_fixture.h"

#include "core/activation.h"
#include "core/half.h"
#include "formats/layout.h"
#include "verify/reference.h"

#include <math.h>

/* UNSEEN: k whose weights are all 0. */
enum { N = 176, K = 384, M = 2, ZERO_ROW = 21, UNSEEN = 250, WARPS = 4 };

struct fixture {
    struct emulated kernel;
    int cluster; /* blocks; a pair has row blocks enough to use each place of its sums again */
    int zero;    /* point of the format */
    struct tern_weights weights;
    struct tern_packed packed;
    enum tern_activation type;
    uint16_t x[M][K], y[M][N];
};

struct format_case {
    const char *name, *preamble;
};
static const struct format_case ternary = {"ternary-g128",
                                           "constexpr int BITS = 2, ZERO = 1, HAS_ZEROS = 0, GROUP = 128, DEPENDENT = 0;\n"};
static const struct format_case three_bits = {
    "gptq3-g128", "constexpr int BITS = 3, ZERO = 4, HAS_ZEROS = 0, GROUP = 128, DEPENDENT = 0;\n"};
#define SHARED_K "constexpr int WARPS = 4, CLUSTER_K = 1;\n"
static const char mma_preamble[] =
    SHARED_K "constexpr int M_TILE = 2, CTAS = 1, ROW_TILES = 2, PREFETCH = 2, WAVES = 1, X_CHUNK = 0;\n"
             "constexpr int X_BULK = 0, SCALE_WEIGHTS = 0, RAW_CODES = 1, RING = 1;\n";
static const char stream_preamble[] =
    SHARED_K "constexpr int RAW_CODES = 1, ROW_TILES = 2, BULK = 0, TILES = 2, STAGES = 2;\n";
static const char stream_bf16_preamble[] =
    SHARED_K "constexpr int RAW_CODES = 0, ROW_TILES = 2, BULK = 0, TILES = 2, STAGES = 2;\n";
static const char imma_preamble[] = SHARED_K "constexpr int M_TILE = 2, BULK = 0, TILES = 2, STAGES = 2;\n";
#define RESIDENT "constexpr int FRAGMENTS = 1, WARPS_K = 2, TOGETHER = 0, ADDERS = 1, ROW_TILES = 1, STAGES = 2;\n"
static const char resident_preamble[] = RESIDENT "constexpr int CLUSTER_K = 1, K_TILES = 2;\n";
static const char copier_preamble[] =
    "constexpr int FRAGMENTS = 2, WARPS_K = 3, K_TILES = 1, TOGETHER = 1, ADDERS = 0, ROW_TILES = 1;\n"
    "constexpr int STAGES = 3, CLUSTER_K = 1;\n";
static const char pair_preamble[] = RESIDENT "constexpr int CLUSTER_K = 2, K_TILES = 1;\n";
#define DIGITS "constexpr int FRAGMENTS = 1, WARPS_K = 1, ROW_TILES = 2, STAGES = 2;\n"
static const char digits_preamble[] = DIGITS "constexpr int CLUSTER_K = 1, K_TILES = 3;\n";
static const char digits_pair_preamble[] = DIGITS "constexpr int CLUSTER_K = 2, K_TILES = 2;\n";

static int open_format(void **state, const struct format_case *of, const char *source_file, const char *preamble,
                       enum tern_activation type, const char *entry, int cluster) {
    static struct fixture f;
    struct tern_error err = {0};
    struct tern_format format;
    struct tern_str source = {0};
    char *text = read_kernel(source_file);
    tern_str_printf(&source, "%sconstexpr int BF16 = %d;\n%s%s", of->preamble, type == TERN_BF16, preamble, text);
    emulate_source(&f.kernel, tern_str_text(&source), source_file, entry);
    assert_int_equal(tern_format_parse(of->name, &format, &err), TERN_OK);
    assert_int_equal(tern_weights_random(&format, N, K, 5, &f.weights, &err), TERN_OK);
    f.zero = format.zero;
    memset(f.weights.codes + ZERO_ROW * K, f.zero, K);
    for (int n = 0; n < N; n++)
        f.weights.codes[n * K + UNSEEN] = (uint8_t)f.zero;
    f.cluster = cluster;
    assert_int_equal(tern_layout_pack(tern_layout_find("frag16x128"), &f.weights, &f.packed, &err), TERN_OK);
    free(text);
    tern_str_free(&source);
    f.type = type;
    *state = &f;
    return 0;
}

static int open_template(void **state, const char *source_file, const char *preamble, enum tern_activation type,
                         const char *entry, int cluster) {
    return open_format(state, &ternary, source_file, preamble, type, entry, cluster);
}

static int open_mma(void **state) {
    return open_template(state, "templates/mma-decode/kernel.cu", mma_preamble, TERN_F16, "tern_mma_decode", 1);
}
static int open_stream(void **state) {
    return open_template(state, "templates/mma-stream/kernel.cu", stream_preamble, TERN_F16, "tern_mma_stream", 1);
}
static int open_stream_bf16(void **state) {
    return open_template(state, "templates/mma-stream/kernel.cu", stream_bf16_preamble, TERN_BF16, "tern_mma_stream", 1);
}
static int open_imma(void **state) {
    return open_template(state, "templates/imma-decode/kernel.cu", imma_preamble, TERN_F16, "tern_imma_decode", 1);
}
static int open_digits_bf16(void **state) {
    return open_template(state, "templates/imma-resident/kernel.cu", digits_preamble, TERN_BF16, "tern_imma_resident", 1);
}
static int open_resident(void **state) {
    return open_template(state, "templates/mma-resident/kernel.cu", resident_preamble, TERN_F16, "tern_mma_resident", 1);
}
static int open_copier(void **state) {
    return open_template(state, "templates/mma-resident/kernel.cu", copier_preamble, TERN_F16, "tern_mma_resident", 1);
}
static int open_pair(void **state) {
    return open_template(state, "templates/mma-resident/kernel.cu", pair_preamble, TERN_F16, "tern_mma_resident", 2);
}
static int open_digits(void **state) {
    return open_template(state, "templates/imma-resident/kernel.cu", digits_preamble, TERN_F16, "tern_imma_resident", 1);
}
static int open_digits_pair(void **state) {
    return open_template(state, "templates/imma-resident/kernel.cu", digits_pair_preamble, TERN_F16, "tern_imma_resident",
                         2);
}

static int open_resident_3(void **state) {
    return open_format(state, &three_bits, "templates/mma-resident/kernel.cu", resident_preamble, TERN_F16,
                       "tern_mma_resident", 1);
}
static int open_digits_3(void **state) {
    return open_format(state, &three_bits, "templates/imma-resident/kernel.cu", digits_preamble, TERN_F16,
                       "tern_imma_resident", 1);
}

static int close_fixture(void **state) {
    struct fixture *f = *state;
    end(&f->kernel);
    tern_packed_free(&f->packed);
    tern_weights_free(&f->weights);
    return 0;
}

static void multiply(struct fixture *f) {
    struct tern_error err = {0};
    memset(f->y, 0xFF, sizeof f->y);
    struct tern_args args = {.x = put(&f->kernel, f->x, sizeof f->x),
                             .codes = put(&f->kernel, f->packed.codes, (size_t)f->packed.code_bytes),
                             .scales = put(&f->kernel, f->packed.scales, (size_t)f->packed.scale_bytes),
                             .y = put(&f->kernel, f->y, sizeof f->y),
                             .m = M,
                             .n = N,
                             .k = K,
                             .groups = f->weights.groups,
                             .group_size = 128,
                             .multiprocessors = 2};
    struct tern_launch l = {.function = f->kernel.function,
                            .grid = {2, 1, 1},
                            .block = 32 * WARPS,
                            .cluster = f->cluster,
                            .smem_bytes = 65536,
                            .args = args};
    if (tern_backend_emu.launch(f->kernel.context, &l, &err) != TERN_OK)
        fail_msg("%s", err.text);
    get(&f->kernel, f->y, args.y, sizeof f->y);
    void *const held[] = {(void *)args.x, (void *)args.codes, (void *)args.scales, args.y};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        tern_backend_emu.release(f->kernel.context, held[i]);
}

/* Values of many magnitudes, one in a hundred 1000 times as large. */
static void fill(struct fixture *f) {
    for (int m = 0; m < M; m++)
        for (int k = 0; k < K; k++)
            f->x[m][k] = tern_activation_from_double(f->type, sin(3.7 * k + m) * (k % 100 == 7 ? 1000 : 1) / (1 + k % 5));
}

static void zero_weights_give_zero(void **state) {
    struct fixture *f = *state;
    fill(f);
    multiply(f);
    int others = 0;
    for (int m = 0; m < M; m++) {
        assert_true(tern_activation_to_double(f->type, f->y[m][ZERO_ROW]) == 0);
        for (int n = 0; n < N; n++)
            others += isfinite(tern_activation_to_double(f->type, f->y[m][n])) &&
                      tern_activation_to_double(f->type, f->y[m][n]) != 0;
    }
    assert_int_equal(others, M * (N - 1));
}

/* A special value at any place of a tile makes all of its row of y NaN, and nothing of another row. */
static void specials_become_nan(void **state) {
    struct fixture *f = *state;
    static const uint16_t specials[TERN_ACTIVATION_COUNT][3] = {
        [TERN_F16] = {0x7C00, 0xFC00, 0x7E00}, [TERN_BF16] = {0x7F80, 0xFF80, 0x7FC0}};
    for (int i = 0; i < 24; i++) {
        fill(f);
        f->x[1][(i * 53) % K] = specials[f->type][i % 3];
        multiply(f);
        for (int n = 0; n < N; n++) {
            assert_true(isfinite(tern_activation_to_double(f->type, f->y[0][n])));
            assert_true(isnan(tern_activation_to_double(f->type, f->y[1][n])));
        }
    }
}

/* Exact weights: infinity times 1 or -1 stays one, times 0 is NaN, NaN is; nothing of another row changes. */
static void specials_pass(void **state) {
    struct fixture *f = *state;
    static const uint16_t specials[] = {0x7F80, 0xFF80, 0x7FC0};
    for (int i = 0; i < 24; i++) {
        const int k = i * 53 % K;
        fill(f);
        f->x[1][k] = specials[i % 3];
        multiply(f);
        for (int n = 0; n < N; n++) {
            const double factor = f->weights.codes[n * K + k] - f->zero,
                         got = tern_activation_to_double(f->type, f->y[1][n]);
            const double expected = factor * tern_activation_to_double(f->type, specials[i % 3]);
            assert_true(isfinite(tern_activation_to_double(f->type, f->y[0][n])));
            assert_true(isnan(expected) ? isnan(got) : got == expected);
        }
    }
}

/* One value of x alone is multiplied without an error but the rounding of y, whatever its magnitude. */
static void single_values_are_exact(void **state) {
    struct fixture *f = *state;
    static const uint16_t values[TERN_ACTIVATION_COUNT][14] = {
        [TERN_F16] = {0x0001, 0x8001, 0x03FF, 0x0400, 0x9555, 0x2FFF, 0x37FF, 0xB801, 0x3C01, 0x4BFF, 0xD3FE, 0x5FFF, 0x7BFF,
                      0xFBFF},
        [TERN_BF16] = {0x0880, 0x8881, 0x1FFF, 0x2401, 0xA555, 0x3001, 0x3F80, 0xBF81, 0x42FF, 0xC7FE, 0x5555, 0x6FFF,
                       0x7F01, 0xFF7F}}; /* from 2^-110: fp32 has 2^-149 */
    for (size_t i = 0; i < 14; i++) {
        const int k = (int)(i * 101) % K;
        memset(f->x, 0, sizeof f->x);
        f->x[1][k] = values[f->type][i];
        multiply(f);
        for (int n = 0; n < N; n++) {
            const double scale = tern_half_to_float(f->weights.scales[k / 128 * N + n]);
            const double x = tern_activation_to_double(f->type, values[f->type][i]);
            const uint16_t expected =
                tern_activation_from_double(f->type, (f->weights.codes[n * K + k] - f->zero) * scale * x);
            assert_true(tern_activation_to_double(f->type, f->y[1][n]) == tern_activation_to_double(f->type, expected));
            assert_true(tern_activation_to_double(f->type, f->y[0][n]) == 0);
        }
    }
}

/* Values near the largest: sums stay finite and as good as fp32 sums of such values, and the other row of y keeps its bits. */
static void large_values_stay_in_their_row(void **state) {
    struct fixture *f = *state;
    uint16_t other[N];
    fill(f);
    multiply(f);
    memcpy(other, f->y[0], sizeof other);
    f->x[1][37] = tern_half_from_double(30000);
    f->x[1][200] = tern_half_from_double(-1500);
    multiply(f);
    assert_memory_equal(other, f->y[0], sizeof other);
    for (int n = 0; n < N; n++) {
        double expected = 0, magnitude = 0;
        for (int k = 0; k < K; k++) {
            const double x = tern_half_to_float(f->x[1][k]), scale = tern_half_to_float(f->weights.scales[k / 128 * N + n]);
            expected += (f->weights.codes[n * K + k] - f->zero) * scale * x;
            magnitude += f->zero * scale * fabs(x); /* no weight is further from 0 */
        }
        const double bound = ldexp(fabs(expected), -11) + ldexp(magnitude, -20);
        assert_true(fabs(tern_half_to_float(f->y[1][n]) - expected) <= bound);
    }
}

/* Sums of x times W, or of |x * W|: [M][N]. */
struct expected {
    double sum[M * N], magnitude[M * N];
};

static void expect(const struct fixture *f, const uint16_t *x, struct expected *e) {
    int64_t rows[M], cols[N];
    for (int i = 0; i < M; i++)
        rows[i] = i;
    for (int i = 0; i < N; i++)
        cols[i] = i;
    tern_reference_compute(&f->weights, f->type, x, rows, M, cols, N, e->sum, e->magnitude);
}

/* A value of x that meets only weights of 0 may decide how the others are rounded. While it is 1000 times as large as they are,
 * the row is as right as `tune` wants every kernel to be; beyond, each value errs by 2^-24 of it at most. */
static void unseen_values_cost_little(void **state) {
    struct fixture *f = *state;
    const struct tern_precision precision = {.k = K, .type = f->type, .exactness = TERN_EXACT_WEIGHTS};
    static const double unseen[] = {1000, 60000};
    uint16_t ones[M][K];
    struct expected weights, e;
    for (int i = 0; i < M * K; i++)
        ones[i / K][i % K] = tern_activation_from_double(f->type, 1);
    expect(f, ones[0], &weights);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < M * K; k++)
            f->x[k / K][k % K] = tern_activation_from_double(f->type, sin(3.7 * k) * cos(0.9 * k * k));
        f->x[1][UNSEEN] = tern_activation_from_double(f->type, unseen[i]);
        multiply(f);
        expect(f, f->x[0], &e);
        for (int j = 0; j < M * N; j++) {
            const double got = tern_activation_to_double(f->type, f->y[j / N][j % N]);
            const double rounded = j >= N && unseen[i] > 1000 ? ldexp(unseen[i], -24) * weights.magnitude[j] : 0;
            assert_true(fabs(got - e.sum[j]) <= tern_reference_tolerance(e.sum[j], e.magnitude[j], &precision) + rounded);
        }
    }
}

/* Every finite binary16 in every piece of a tile comes through weights of 0 and a single 1 as it was, beside a value, multiplied by 0,
 * of an exponent larger by 13: a digit more or less would show. Row n of W takes column n. */
static void every_value_is_exact(void **state) {
    struct fixture *f = *state;
    struct tern_error err = {0};
    const struct tern_packed packed = f->packed;
    uint8_t *codes = malloc(N * K);
    uint16_t *scales = malloc((size_t)f->weights.groups * N * sizeof *scales);
    assert_non_null(codes);
    assert_non_null(scales);
    for (int i = 0; i < N * K; i++)
        codes[i] = (uint8_t)(f->zero + (i / K == i % K));
    for (int i = 0; i < (int)f->weights.groups * N; i++)
        scales[i] = tern_half_from_double(1);
    struct tern_weights one = f->weights;
    one.codes = codes;
    one.scales = scales;
    assert_int_equal(tern_layout_pack(tern_layout_find("frag16x128"), &one, &f->packed, &err), TERN_OK);
    for (int first = 0; first < 0x10000; first += M * 128)
        for (int piece = 0; piece < 4; piece++) {
            const int exponent = (first >> 10 & 31) + 13 + (first >> 10 & 31 ? 0 : 1);
            memset(f->x, 0, sizeof f->x);
            f->x[0][UNSEEN] = f->x[1][UNSEEN] = (uint16_t)((exponent < 30 ? exponent : 30) << 10 | 0x3F7);
            for (int i = 0; i < M * 128; i++)
                if (((first + i) & 0x7C00) != 0x7C00)
                    f->x[i / 128][(i + 32 * piece) % 128] = (uint16_t)(first + i);
            multiply(f);
            for (int i = 0; i < M * 128; i++)
                assert_true(tern_half_to_float(f->y[i / 128][i % 128]) == tern_half_to_float(f->x[i / 128][i % 128]));
        }
    tern_packed_free(&f->packed);
    f->packed = packed;
    free(codes);
    free(scales);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_weights_give_zero),
        cmocka_unit_test(specials_become_nan),
        cmocka_unit_test(single_values_are_exact),
        cmocka_unit_test(large_values_stay_in_their_row),
    };
    const struct CMUnitTest digits[] = {
        cmocka_unit_test(zero_weights_give_zero),    cmocka_unit_test(specials_become_nan),
        cmocka_unit_test(unseen_values_cost_little), cmocka_unit_test(large_values_stay_in_their_row),
        cmocka_unit_test(every_value_is_exact),
    };
    const struct CMUnitTest bf16[] = {
        cmocka_unit_test(zero_weights_give_zero),
        cmocka_unit_test(specials_pass),
        cmocka_unit_test(single_values_are_exact),
    };
    const struct CMUnitTest digits_bf16[] = {
        cmocka_unit_test(zero_weights_give_zero),
        cmocka_unit_test(specials_become_nan),
        cmocka_unit_test(single_values_are_exact),
        cmocka_unit_test(unseen_values_cost_little),
    };
    int failed = cmocka_run_group_tests_name("mma-decode", tests, open_mma, close_fixture);
    failed += cmocka_run_group_tests_name("mma-stream", tests, open_stream, close_fixture);
    failed += cmocka_run_group_tests_name("mma-stream, bfloat16", bf16, open_stream_bf16, close_fixture);
    failed += cmocka_run_group_tests_name("mma-resident", tests, open_resident, close_fixture);
    failed += cmocka_run_group_tests_name("mma-resident, the copying warp adds up", tests, open_copier, close_fixture);
    failed += cmocka_run_group_tests_name("mma-resident, K split over two blocks", tests, open_pair, close_fixture);
    failed += cmocka_run_group_tests_name("imma-resident", digits, open_digits, close_fixture);
    failed += cmocka_run_group_tests_name("imma-resident, bfloat16", digits_bf16, open_digits_bf16, close_fixture);
    failed += cmocka_run_group_tests_name("imma-resident, K split over two blocks", tests, open_digits_pair, close_fixture);
    failed += cmocka_run_group_tests_name("mma-resident, 3 bits", tests, open_resident_3, close_fixture);
    failed += cmocka_run_group_tests_name("imma-resident, 3 bits", digits, open_digits_3, close_fixture);
    return failed + cmocka_run_group_tests_name("imma-decode", digits, open_imma, close_fixture);
}
