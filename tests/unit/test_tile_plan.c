/* Tests of tern/tile_plan.cuh where blocks share row blocks of W: all is multiplied once, and evenly. */
#include "emulator_fixture.h"

static struct emulator_fixture wgmma;

/* Two blocks that share an odd row block, along K or by columns: all of each row block is multiplied once, and blocks have equally much of
 * it, to within half a row block and one k tile. */
static void check_pairs(const char *entry) {
    static const struct {
        int row_blocks, tiles_m, workers;
    } cases[] = {{592, 1, 132}, {593, 2, 132}, {9, 1, 2},   {8, 1, 2},   {3, 1, 2},
                 {1, 1, 2},     {3, 3, 4},     {129, 4, 6}, {57, 4, 132}};
    static uint32_t y[593 * 2 + 132];
    struct tern_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int units = cases[i].row_blocks * cases[i].tiles_m, workers = cases[i].workers, pairs = workers / 2;
        const int k_tiles = (cases[i].row_blocks + 127) / 128;
        struct emulator_case c = {.entry = entry,
                                  .blocks = workers,
                                  .block = 1,
                                  .y_bytes = sizeof y[0] * (size_t)(units + workers),
                                  .m = 128 * cases[i].tiles_m - 31,
                                  .k = cases[i].row_blocks};
        if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int u = 0; u < units; u++)
            assert_int_equal(y[u], 2 * k_tiles);
        for (int w = 0; w < workers; w++)
            assert_in_range(y[units + w] + 1, (uintmax_t)(units / pairs * k_tiles),
                            (uintmax_t)((units + pairs - 1) / pairs * k_tiles + 2));
    }
}

static void pairs_visit_all_once(void **state) {
    (void)state;
    check_pairs("wgmma_pairs_k");
    check_pairs("wgmma_pairs_columns");
}

/* Row blocks that are left over when all blocks have equally many are shared by columns: all of each is multiplied once, and blocks with the
 * same tile of x have equally many places, as those of a cluster must. */
static void check_spread(const char *entry, int cluster) {
    static const struct {
        int row_blocks, tiles_m, blocks;
    } cases[] = {{72, 1, 132}, {72, 2, 132}, {72, 4, 132}, {66, 2, 132},  {592, 3, 132}, {1, 1, 4},  {2, 1, 4},
                 {3, 2, 4},    {9, 5, 8},    {65, 7, 16},  {5, 300, 132}, {130, 1, 128}, {12, 3, 10}};
    static uint32_t y[592 * 3 + 132];
    struct tern_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int units = cases[i].row_blocks * cases[i].tiles_m, blocks = cases[i].blocks;
        struct emulator_case c = {.entry = entry,
                                  .blocks = blocks,
                                  .block = 1,
                                  .y_bytes = sizeof y[0] * (size_t)(units + blocks),
                                  .m = 128 * cases[i].tiles_m - 31,
                                  .k = cases[i].row_blocks};
        if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int u = 0; u < units; u++)
            assert_int_equal(y[u], 8 * ((cases[i].row_blocks + 127) / 128));
        for (int b = 0; b < blocks; b++)
            assert_int_equal(y[units + b], y[units + b / cluster * cluster]);
    }
}

static void spread_visits_all_once(void **state) {
    (void)state;
    check_spread("wgmma_spread", 1);
    check_spread("wgmma_spread_cluster", 2);
}

static int open_fixture(void **state) {
    (void)state;
    emulator_fixture_open(&wgmma, "wgmma");
    return 0;
}
static int close_fixture(void **state) {
    (void)state;
    emulator_fixture_close(&wgmma);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_visit_all_once),
        cmocka_unit_test(spread_visits_all_once),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
