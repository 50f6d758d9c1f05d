/* wgmma-turn on the CPU emulator with scales too large for two operations a register (short_scale.cuh): k tiles where
 * all scales are small, where one is large, very large or no number lie side by side, and every product is exact. */
#include "kernel_fixture.h"

#include "core/half.h"
#include "formats/layout.h"
#include "verify/reference.h"

#include <math.h>

enum { N = 176, K = 1024, M = 5, GROUPS = K / 128, BLOCKS = 2 };

static const char preamble[] =
    "constexpr int BITS = 2, ZERO = 1, HAS_ZEROS = 0, GROUP = 128, DEPENDENT = 0, BF16 = 0;\n"
    "constexpr int BLOCK_M = 16, WARPS_N = 1, WARPS_K = 1, ROW_BLOCKS = 2, CLUSTER_K = 1, PAIR = 0;\n"
    "constexpr int STAGES = 4, SCALE_WEIGHTS = 1, ROUND_WEIGHTS = 0;\n";

static void multiply(const struct tern_weights *weights, const uint16_t *x, uint16_t *y) {
    struct emulated kernel;
    struct tern_error err = {0};
    struct tern_packed packed;
    struct tern_str source = {0};
    char *text = read_kernel("templates/wgmma-turn/kernel.cu");
    tern_str_printf(&source, "%s%s", preamble, text);
    emulate_source(&kernel, tern_str_text(&source), "templates/wgmma-turn/kernel.cu", "tern_wgmma_turn");
    assert_int_equal(tern_layout_pack(tern_layout_find("frag16x128"), weights, &packed, &err), TERN_OK);
    struct tern_launch l = {.function = kernel.function,
                            .grid = {BLOCKS, 1, 1},
                            .block = 256,
                            .cluster = 1,
                            .smem_bytes = 131072,
                            .args = {.x = put(&kernel, x, sizeof *x * M * K),
                                     .codes = put(&kernel, packed.codes, (size_t)packed.code_bytes),
                                     .scales = put(&kernel, packed.scales, (size_t)packed.scale_bytes),
                                     .y = put(&kernel, NULL, sizeof *y * M * N),
                                     .workspace = put(&kernel, NULL, (size_t)BLOCKS * 512),
                                     .m = M,
                                     .n = N,
                                     .k = K,
                                     .groups = weights->groups,
                                     .group_size = 128,
                                     .multiprocessors = BLOCKS}};
    if (tern_backend_emu.launch(kernel.context, &l, &err) != TERN_OK)
        fail_msg("%s", err.text);
    get(&kernel, y, l.args.y, sizeof *y * M * N);
    tern_packed_free(&packed);
    tern_str_free(&source);
    free(text);
    end(&kernel);
}

/* The scale of group g of row n: mostly below 1/16, but 1, 1/16, 300, -7 or NaN in some, each in a k tile of its own. */
static double scale_of(int n, int g) {
    static const struct {
        int row, group;
        double scale;
    } large[] = {{3, 1, 1.0}, {20, 2, 0.0625}, {100, 4, 300}, {100, 5, -7}, {175, 7, (double)NAN}};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        if (large[i].row == n && large[i].group == g)
            return large[i].scale;
    return (1 + (n + g) % 7) / 128.0;
}

static void large_scales_are_exact(void **state) {
    (void)state;
    static uint16_t x[M][K], y[M][N];
    struct tern_error err = {0};
    struct tern_format format;
    struct tern_weights weights;
    assert_int_equal(tern_format_parse("ternary-g128", &format, &err), TERN_OK);
    assert_int_equal(tern_weights_random(&format, N, K, 5, &weights, &err), TERN_OK);
    for (int n = 0; n < N; n++)
        for (int g = 0; g < GROUPS; g++)
            weights.scales[g * N + n] = tern_half_from_double(scale_of(n, g));
    for (int m = 0; m < M; m++)
        for (int k = 0; k < K; k++)
            x[m][k] = tern_half_from_double((m + 3 * k) % 5 - 2);
    multiply(&weights, &x[0][0], &y[0][0]);
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += scale_of(n, k / 128) * (weights.codes[n * K + k] - 1) * ((m + 3 * k) % 5 - 2);
            const float got = tern_half_to_float(y[m][n]);
            if (isnan(sum) ? !isnan(got) : y[m][n] != tern_half_from_double(sum))
                fail_msg("y[%d][%d] is %g, not %g", m, n, (double)got, sum);
        }
    tern_weights_free(&weights);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(large_scales_are_exact)};
    return cmocka_run_group_tests_name("turn_scales", tests, NULL, NULL);
}
