/* Tests of what the dequantise + cuBLASLt baselines launch (kernels/dequantise.cu, kernels/quantise.cu) on the CPU emulator, against the
 * host's own numbers. */
#include "kernel_fixture.h"

#include "core/half.h"
#include "device/fixed_kernels.h"
#include "formats/layout.h"
#include "verify/quantise.h"

#include <math.h>

/* Element of a matrix of e4m3 numbers with a scale for 128 k behind them (kernels.h). */
static double e4m3_value(const void *matrix, int64_t rows, int64_t k, int64_t row, int64_t col) {
    const uint8_t code = ((const uint8_t *)matrix)[row * k + col];
    const int exponent = code >> 3 & 15, fraction = code & 7;
    const double magnitude = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
    float scale;
    memcpy(&scale, (const char *)matrix + TERN_E4M3_SCALES_AT(rows, k) + 4 * (col / 128 * rows + row), sizeof scale);
    return (code & 0x7F) == 0x7F ? (double)NAN : (code & 0x80 ? -magnitude : magnitude) * (double)scale;
}

static void check_dequantise(const char *name, enum tern_activation type, int64_t n, int64_t k) {
    struct tern_format format;
    struct tern_weights weights;
    struct tern_packed packed;
    struct tern_error err = {0};
    struct emulated e;
    char macros[128];
    assert_int_equal(tern_format_parse(name, &format, &err), TERN_OK);
    assert_int_equal(tern_weights_random(&format, n, k, 7, &weights, &err), TERN_OK);
    assert_int_equal(tern_layout_pack(tern_layout_find("frag16x128"), &weights, &packed, &err), TERN_OK);
    tern_str_format(macros, sizeof macros,
                    "#define TERN_BITS %d\n#define TERN_ASYM %d\n#define TERN_ZERO %d\n#define TERN_BF16 %d\n"
                    "#define TERN_E4M3 %d",
                    format.bits, !format.sym, format.zero, type == TERN_BF16, type == TERN_E4M3);
    emulate(&e, "kernels/dequantise.cu", macros, NULL, "tern_dequantise");
    size_t bytes = type == TERN_E4M3 ? (size_t)TERN_E4M3_MATRIX_BYTES(n, k) : (size_t)(n * k) * sizeof(uint16_t);
    struct tern_args args = {.codes = put(&e, packed.codes, (size_t)packed.code_bytes),
                             .scales = put(&e, packed.scales, (size_t)packed.scale_bytes),
                             .zeros = packed.zero_bytes ? put(&e, packed.zeros, (size_t)packed.zero_bytes) : NULL,
                             .y = put(&e, NULL, bytes),
                             .n = n,
                             .k = k,
                             .groups = weights.groups,
                             .group_size = tern_format_group_size(&format, k)};
    int64_t tiles = (n + 15) / 16 * ((k + 127) / 128);
    launch(&e, (tiles + TERN_DEQUANTISE_WARPS - 1) / TERN_DEQUANTISE_WARPS, 1, &args);
    void *w = malloc(bytes);
    assert_non_null(w);
    get(&e, w, args.y, bytes);
    for (int64_t row = 0; row < n; row++)
        for (int64_t col = 0; col < k; col++) {
            const double expected = tern_weights_value(&weights, row, col);
            const double got = type == TERN_E4M3 ? e4m3_value(w, n, k, row, col)
                                                 : tern_activation_to_double(type, ((uint16_t *)w)[row * k + col]);
            if (got != (type == TERN_E4M3 ? expected
                                          : tern_activation_to_double(type, tern_activation_from_double(type, expected))))
                fail_msg("%s: weight (%d,%d) is %g", name, (int)row, (int)col, got);
        }
    free(w);
    end(&e);
    tern_packed_free(&packed);
    tern_weights_free(&weights);
}

static void dequantise_is_exact(void **state) {
    (void)state;
    check_dequantise("ternary-g128", TERN_F16, 40, 288); /* half a row tile, a quarter of a k tile, a short last group */
    check_dequantise("gptq3-g32-asym", TERN_F16, 24, 160);
    check_dequantise("gptq4-g128-asym", TERN_F16, 16, 256);
    check_dequantise("gptq8-channel", TERN_F16, 8, 96);
    check_dequantise("ternary-g128", TERN_BF16, 24, 160);
    check_dequantise("gptq8-channel-asym", TERN_BF16, 8, 96);
    check_dequantise("ternary-g128", TERN_E4M3, 40, 288);
    check_dequantise("ternary-tensor", TERN_E4M3, 24, 160);
    check_dequantise("gptq2-g256-asym", TERN_E4M3, 24, 544);
    check_dequantise("gptq3-channel-asym", TERN_E4M3, 8, 96);
    check_dequantise("gptq4-g128", TERN_E4M3, 16, 256);
    check_dequantise("gptq4-g128-asym", TERN_E4M3, 24, 416); /* q - z from -16 to 15 */
}

/* Rows of zeros, of one large number, of subnormal ones, with Inf and with NaN among random ones; K beyond what a block reads at once. */
static void quantise_is_the_hosts(void **state) {
    enum { ROWS = 7, COLUMNS = 2080 };
    struct emulated e;
    uint16_t *x = malloc(2 * ROWS * COLUMNS), *codes = malloc(2 * ROWS * COLUMNS);
    float scales[ROWS];
    void *got = malloc(TERN_E4M3_MATRIX_BYTES(ROWS, COLUMNS));
    (void)state;
    assert_non_null(x);
    assert_non_null(codes);
    assert_non_null(got);
    tern_activations_random(TERN_E4M3, ROWS, COLUMNS, 5, x);
    for (int i = 0; i < COLUMNS; i++) {
        x[i] = 0;
        x[2 * COLUMNS + i] = (uint16_t)(i % 2 << 15 | i % 1000);
    }
    x[COLUMNS + 2079] = 0x7BFF;
    x[3 * COLUMNS + 8] = 0xFC00;
    x[4 * COLUMNS + 2077] = 0x7E01;
    tern_quantise_activations(TERN_ARITHMETIC_E4M3, x, ROWS, COLUMNS, codes, scales);
    emulate(&e, "kernels/quantise.cu", "", NULL, "tern_quantise");
    const struct tern_args args = {.x = put(&e, x, 2 * ROWS * COLUMNS),
                                   .workspace = put(&e, NULL, TERN_E4M3_MATRIX_BYTES(ROWS, COLUMNS)),
                                   .m = ROWS,
                                   .k = COLUMNS};
    launch(&e, ROWS, 1, &args);
    get(&e, got, args.workspace, TERN_E4M3_MATRIX_BYTES(ROWS, COLUMNS));
    for (int row = 0; row < ROWS; row++)
        for (int col = 0; col < COLUMNS; col++) {
            const double value = e4m3_value(got, ROWS, COLUMNS, row, col);
            const double expected = (double)tern_half_to_float(codes[row * COLUMNS + col]) * (double)scales[row];
            if (!(value == expected || (isnan(value) && isnan(expected))))
                fail_msg("x (%d,%d) is %g, not %g", row, col, value, expected);
        }
    assert_true(isnan(scales[3]) && isnan(scales[4]) && scales[0] == 0);
    free(x), free(codes), free(got);
    end(&e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dequantise_is_exact),
        cmocka_unit_test(quantise_is_the_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
