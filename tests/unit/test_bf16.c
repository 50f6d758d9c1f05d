/* Tests of bfloat16 on the emulator: every code less every zero point decodes to itself, and (q - z) * scale is rounded once. */
#include "emulator_fixture.h"

#include "core/half.h"
#include "core/random.h"

#include <math.h>

static struct emulator_fixture bf16;

static void codes_are_exact(void **state) {
    (void)state;
    static const char *const entries[] = {"bf16_codes_2", "bf16_codes_3", "bf16_codes_4", "bf16_codes_8"};
    static const int bits[] = {2, 3, 4, 8};
    uint32_t x[32][16];
    int32_t y[2][32];
    struct tern_random random;
    struct tern_error err = {0};
    tern_random_init(&random, 5, "codes");
    for (int i = 0; i < 512; i++)
        (&x[0][0])[i] = (uint32_t)tern_random_below(&random, (uint64_t)1 << 32);
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        const struct emulator_case c = {
            .entry = entries[i], .blocks = 1, .block = 32, .x = x, .x_bytes = sizeof x, .y_bytes = sizeof y};
        if (emulator_launch(&bf16, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int lane = 0; lane < 32; lane++) {
            assert_int_equal(y[0][lane], 0);
            assert_int_equal(y[1][lane], 64 << bits[i]);
        }
    }
}

/* All finite binary16 scales times -15..16, or times -2..1 in the short form. */
static void scaled_weights_are_rounded_once(void **state) {
    (void)state;
    enum { SCALES = 0x7C00, VALUES = 32 };
    uint16_t *scales = tern_alloc(SCALES * sizeof *scales), *y = tern_alloc((size_t)SCALES * VALUES * sizeof *y);
    struct tern_error err = {0};
    for (int i = 0; i < SCALES; i++)
        scales[i] = (uint16_t)(i | (i % 2) << 15);
    for (int brief = 0; brief < 2; brief++) {
        const struct emulator_case c = {.entry = "bf16_scaled",
                                        .blocks = 1,
                                        .block = 32,
                                        .x = scales,
                                        .x_bytes = SCALES * sizeof *scales,
                                        .y_bytes = (size_t)SCALES * VALUES * sizeof *y,
                                        .m = SCALES,
                                        .k = brief};
        if (emulator_launch(&bf16, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int i = 0; i < SCALES; i++)
            for (int d = brief ? -2 : -15; d <= (brief ? 1 : 16); d++) {
                const uint16_t got = y[i * VALUES + d + 15];
                const double exact = d * (double)tern_half_to_float(scales[i]);
                if (!(tern_bf16_to_float(got) == tern_bf16_to_float(tern_bf16_from_double(exact))))
                    fail_msg("%d * %a: %a, form %d", d, exact / d, (double)tern_bf16_to_float(got), brief);
            }
    }
    free(scales);
    free(y);
}

static int open_bf16(void **state) {
    (void)state;
    emulator_fixture_open(&bf16, "bf16");
    return 0;
}
static int close_bf16(void **state) {
    (void)state;
    emulator_fixture_close(&bf16);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_exact),
        cmocka_unit_test(scaled_weights_are_rounded_once),
    };
    return cmocka_run_group_tests_name("bf16", tests, open_bf16, close_bf16);
}
