/* Tests of two blocks of a cluster that have the same rows of x: what each works on, and the slices that they bring for each other. */
#include "emulator_fixture.h"

#include <string.h>

static struct emulator_fixture shared_x;

/* Each row block of each tile of x is visited once; both blocks pass the same tiles of x, with equally many row blocks unless W ends. Shares,
 * equally many for all clusters, and strips. */
static void places_are_side_by_side(void **state) {
    (void)state;
    static const struct {
        int row_blocks, tiles_m, clusters;
        bool shares;
    } cases[] = {{592, 1, 66, true}, {56, 8, 33, true}, {3, 2, 3, true},    {7, 5, 2, true},
                 {1, 1, 1, true},    {37, 9, 1, false}, {50, 17, 2, false}, {592, 8, 66, false}};
    static uint32_t y[592 * 8 + 4 * 66];
    struct tern_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int units = cases[i].row_blocks * cases[i].tiles_m, clusters = cases[i].clusters;
        const int both = (cases[i].row_blocks + 1) / 2 * cases[i].tiles_m; /* of both blocks as one */
        struct emulator_case c = {.entry = "shared_x_places",
                                  .blocks = 2 * clusters,
                                  .block = 1,
                                  .y_bytes = sizeof y[0] * (size_t)(units + 4 * clusters),
                                  .m = cases[i].tiles_m,
                                  .k = 64 * cases[i].row_blocks - 56};
        if (emulator_launch(&shared_x, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int u = 0; u < units; u++)
            assert_int_equal(y[u], 1);
        const uint32_t *own = y + units, *path = own + 2 * clusters;
        for (int b = 0; b < 2 * clusters; b++) {
            assert_int_equal(path[b], path[b ^ 1]);
            assert_in_range(own[b & ~1], own[b | 1], own[b | 1] + (unsigned)(cases[i].row_blocks % 2 * cases[i].tiles_m));
            if (cases[i].shares)
                assert_in_range(own[b & ~1], (uintmax_t)(both / clusters), (uintmax_t)((both + clusters - 1) / clusters));
        }
    }
}

/* Both blocks see every slice whole, in order, while one is slower and rings come round; what lies outside x is zero. */
static void slices_come_to_both(void **state) {
    (void)state;
    enum { K = 7 * 128 - 40, SLICES = 7 };
    static uint16_t x[8][K], y[2][SLICES][8][128];
    struct tern_error err = {0};
    for (int i = 0; i < 8 * K; i++)
        (&x[0][0])[i] = (uint16_t)(i + 1);
    for (int order = TERN_EMU_FORWARD; order < TERN_EMU_ORDERS; order++) {
        struct emulator_case c = {.entry = "shared_x_slices",
                                  .blocks = 2,
                                  .block = 64,
                                  .cluster = 2,
                                  .smem = 8192 + 128,
                                  .x = x,
                                  .x_bytes = sizeof x,
                                  .y_bytes = sizeof y,
                                  .k = K,
                                  .order = (enum tern_emu_order)order};
        if (emulator_launch(&shared_x, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int block = 0; block < 2; block++)
            for (int row = 0; row < 8; row++)
                for (int k = 0; k < SLICES * 128; k++)
                    assert_int_equal(y[block][k / 128][row][k % 128], k < K ? x[row][k] : 0);
    }
}

static int open_fixture(void **state) {
    (void)state;
    emulator_fixture_open(&shared_x, "shared_x");
    return 0;
}
static int close_fixture(void **state) {
    (void)state;
    emulator_fixture_close(&shared_x);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_side_by_side),
        cmocka_unit_test(slices_come_to_both),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
