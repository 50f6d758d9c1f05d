/* Tests of the emulator's warp collectives, matrix instructions, half arithmetic and integer intrinsics against plain loops.
 */
#include "emulator_fixture.h"

#include "core/activation.h"
#include "core/half.h"
#include "core/random.h"

#include <math.h>

static struct emulator_fixture warp;

static void run(const struct emulator_case *c, void *y) {
    struct tern_error err = {0};
    if (emulator_launch(&warp, c, y, &err) != TERN_OK)
        fail_msg("%s: %s", c->entry, err.text);
}

static void shuffles_and_votes(void **state) {
    (void)state;
    int y[32][8];
    struct emulator_case c = {.entry = "warp_shuffles", .blocks = 1, .block = 32, .y_bytes = sizeof y};
    for (int order = 0; order < TERN_EMU_ORDERS; order++) {
        c.order = (enum tern_emu_order)order;
        run(&c, y);
        for (int i = 0; i < 32; i++) {
            assert_int_equal(y[i][0], 30);
            assert_int_equal(y[i][1], 10 * (i ^ 5));
            assert_int_equal(y[i][2], 10 * (i + 4 < 32 ? i + 4 : i));
            assert_int_equal(y[i][3], 10 * (i >= 4 ? i - 4 : i));
            assert_int_equal(y[i][4], 10 * (i / 8 * 8 + 1));
            assert_int_equal(y[i][5], 0x49249249);
            assert_int_equal(y[i][6], 1);
            assert_int_equal(y[i][7], i < 16 ? 120 : 31);
        }
    }
}

static void check_mma_16(enum tern_activation type, const char *entry) {
    uint16_t a[16][16], b[8][16];
    float y[16][8];
    struct tern_random random;
    tern_random_init(&random, 7, "mma");
    for (int i = 0; i < 256; i++)
        (&a[0][0])[i] = tern_activation_from_double(type, tern_random_normal(&random));
    for (int i = 0; i < 128; i++)
        (&b[0][0])[i] = tern_activation_from_double(type, tern_random_normal(&random));
    struct emulator_case c = {.entry = entry,
                              .blocks = 1,
                              .block = 32,
                              .x = a,
                              .x_bytes = sizeof a,
                              .codes = b,
                              .codes_bytes = sizeof b,
                              .y_bytes = sizeof y};
    run(&c, y);
    for (int row = 0; row < 16; row++) {
        for (int column = 0; column < 8; column++) {
            double sum = 1.0;
            for (int k = 0; k < 16; k++)
                sum += tern_activation_to_double(type, a[row][k]) * tern_activation_to_double(type, b[column][k]);
            assert_true(fabs((double)y[row][column] - sum) <= 1e-6 * (1.0 + fabs(sum)));
        }
    }
}

static void mma_16_bit_is_the_plain_product(void **state) {
    (void)state;
    check_mma_16(TERN_F16, "warp_mma_f16");
    check_mma_16(TERN_BF16, "warp_mma_bf16");
}

static void mma_8_bit_is_the_plain_product(void **state) {
    (void)state;
    uint8_t a[16][32];
    int8_t b[8][32];
    int y[16][8];
    struct tern_random random;
    tern_random_init(&random, 8, "mma");
    for (int i = 0; i < 512; i++)
        (&a[0][0])[i] = (uint8_t)tern_random_below(&random, 256);
    for (int i = 0; i < 256; i++)
        (&b[0][0])[i] = (int8_t)((int)tern_random_below(&random, 256) - 128);
    for (int is_signed = 0; is_signed < 2; is_signed++) { /* A; B always is */
        struct emulator_case c = {.entry = is_signed ? "warp_mma_s8" : "warp_mma_u8",
                                  .blocks = 1,
                                  .block = 32,
                                  .x = a,
                                  .x_bytes = sizeof a,
                                  .codes = b,
                                  .codes_bytes = sizeof b,
                                  .y_bytes = sizeof y};
        run(&c, y);
        for (int row = 0; row < 16; row++) {
            for (int column = 0; column < 8; column++) {
                int sum = 5;
                for (int k = 0; k < 32; k++)
                    sum += (is_signed ? (int8_t)a[row][k] : a[row][k]) * b[column][k];
                assert_int_equal(y[row][column], sum);
            }
        }
    }
}

static void ldmatrix_gives_the_a_fragment(void **state) {
    (void)state;
    uint16_t x[16][16];
    uint32_t y[32][4];
    for (int i = 0; i < 256; i++)
        (&x[0][0])[i] = (uint16_t)(3 * i + 1);
    struct emulator_case c = {
        .entry = "warp_ldmatrix", .blocks = 1, .block = 32, .x = x, .x_bytes = sizeof x, .y_bytes = sizeof y};
    run(&c, y);
    for (int lane = 0; lane < 32; lane++) {
        for (int r = 0; r < 4; r++) {
            int row = lane / 4 + 8 * (r % 2), k = 2 * (lane % 4) + 8 * (r / 2);
            assert_int_equal(y[lane][r], x[row][k] | (uint32_t)x[row][k + 1] << 16);
        }
    }
}

/* a*b + c rounded once from long double, whose 64-bit significand holds the sum of these operands up to a sticky bit that
 * matters in one case of 2^40: the operands here are drawn so that exact sums fit (checked). */
static void half_arithmetic_is_rounded_once(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    uint16_t *x = tern_alloc(3 * COUNT * sizeof *x), *y = tern_alloc(4 * COUNT * sizeof *y);
    struct tern_random random;
    tern_random_init(&random, 9, "half");
    for (int i = 0; i < 3 * COUNT; i++) {
        /* every finite exponent of 2^-12 .. 2^12, and some subnormals */
        uint64_t bits = tern_random_u64(&random);
        unsigned exponent = bits % 16 == 0 ? 0u : 3u + (unsigned)(bits >> 8) % 24u;
        x[i] = (uint16_t)((bits >> 32 & 0x83FFu) | exponent << 10);
    }
    struct emulator_case c = {.entry = "warp_half",
                              .blocks = 1,
                              .block = 32,
                              .x = x,
                              .x_bytes = 3 * COUNT * sizeof *x,
                              .y_bytes = 4 * COUNT * sizeof *y,
                              .m = COUNT};
    run(&c, y);
    for (int i = 0; i < COUNT; i++) {
        double a = (double)tern_half_to_float(x[3 * i]), b = (double)tern_half_to_float(x[3 * i + 1]);
        double third = (double)tern_half_to_float(x[3 * i + 2]);
        uint16_t expected[4] = {tern_half_from_double(a + b), tern_half_from_double(a - b), tern_half_from_double(a * b)};
        double sum = a * b + third; /* at most 22 + 26 bits apart: exact in binary64 unless the check says otherwise */
        bool exact = (long double)sum == (long double)(a * b) + (long double)third;
        expected[3] = exact ? tern_half_from_double(sum) : y[4 * i + 3];
        for (int j = 0; j < 4; j++) {
            if (y[4 * i + j] != expected[j])
                fail_msg("triple %d (%04x %04x %04x) result %d: %04x, expected %04x", i, x[3 * i], x[3 * i + 1],
                         x[3 * i + 2], j, y[4 * i + j], expected[j]);
        }
    }
    free(x);
    free(y);
}

/* The classic: 1 + 2^-11 + 2^-30 must round up, which two roundings miss. */
static void fma_sees_the_last_bit(void **state) {
    (void)state;
    /* a*b = (1 + 2^-10)(1 - 2^-10) = 1 - 2^-20; c = 2^-11: exact sum 1 + 2^-11 - 2^-20 lies below the tie and rounds to 1 */
    uint16_t x[6] = {tern_half_from_double(1.0 + 0x1p-10), tern_half_from_double(1.0 - 0x1p-10),
                     tern_half_from_double(0x1p-11),       tern_half_from_double(1.0),
                     tern_half_from_double(1.0),           tern_half_from_double(0x1p-11)};
    uint16_t y[8];
    struct emulator_case c = {
        .entry = "warp_half", .blocks = 1, .block = 32, .x = x, .x_bytes = sizeof x, .y_bytes = sizeof y, .m = 2};
    run(&c, y);
    assert_int_equal(y[3], 0x3C00);
    assert_int_equal(y[7], 0x3C00); /* a tie goes to even */
}

static void integer_intrinsics(void **state) {
    (void)state;
    int y[11];
    struct emulator_case c = {.entry = "warp_integers", .blocks = 1, .block = 32, .y_bytes = sizeof y, .y_fill = 7};
    run(&c, y);
    const uint32_t expected[11] = {16, 8, 31, 0x77115500u, 42, 0x6789ABCDu, 0x80000000u, 1322, 3, 99, 12};
    for (int i = 0; i < 11; i++)
        if ((uint32_t)y[i] != expected[i])
            fail_msg("result %d: %08x, expected %08x", i, (unsigned)y[i], expected[i]);
}

static int open_all(void **state) {
    (void)state;
    emulator_fixture_open(&warp, "warp");
    return 0;
}

static int close_all(void **state) {
    (void)state;
    emulator_fixture_close(&warp);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles_and_votes),
        cmocka_unit_test(mma_16_bit_is_the_plain_product),
        cmocka_unit_test(mma_8_bit_is_the_plain_product),
        cmocka_unit_test(ldmatrix_gives_the_a_fragment),
        cmocka_unit_test(half_arithmetic_is_rounded_once),
        cmocka_unit_test(fma_sees_the_last_bit),
        cmocka_unit_test(integer_intrinsics),
    };
    return cmocka_run_group_tests_name("emulator warp", tests, open_all, close_all);
}
