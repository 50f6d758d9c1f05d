/* Tests of tern/tile_plan.cuh where blocks share row blocks of W: all is multiplied once, and evenly, as space.lua reckons. */
#include "config/template.h"
#include "emulator_fixture.h"
#include "space/grid.h"

static struct emulator_fixture wgmma;
static struct tern_template tile;

/* `busiest` of wgmma-tile with PAIR 4 and tiles of 128 rows of x on so many multiprocessors. */
static int64_t busiest_of(int cluster, int64_t m, int64_t n, int64_t sms) {
    static const char *const names[] = {"BLOCK_M", "CONSUMERS", "CLUSTER_K", "PAIR"};
    const int64_t values[] = {128, 1, cluster, 4};
    struct tern_candidate c = {.tmpl = &tile};
    struct tern_format f;
    struct tern_geometry g;
    struct tern_error err = {0};
    for (size_t p = 0; p < tile.param_count; p++) {
        c.values[p] = tile.params[p].fallback;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strcmp(tile.params[p].name, names[i]) == 0)
                c.values[p] = values[i];
    }
    assert_int_equal(tern_format_parse("ternary-g128", &f, NULL), TERN_OK);
    const struct tern_problem_shape problem = {.format = &f, .m = m, .n = n, .k = 3584, .type = TERN_F16};
    if (tern_candidate_geometry(&c, &problem, sms, &g, &err) != TERN_OK)
        fail_msg("%s", err.text);
    return g.busiest;
}

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
 * same tile of x have equally many places, as those of a cluster must. Where each block has a row block, the one with most columns is the busiest. */
static void check_spread(const char *entry, int cluster) {
    static const struct {
        int row_blocks, tiles_m, blocks;
    } cases[] = {{72, 1, 132}, {72, 2, 132}, {72, 4, 132}, {66, 2, 132},  {592, 3, 132}, {1, 1, 4},  {2, 1, 4},
                 {3, 2, 4},    {9, 5, 8},    {65, 7, 16},  {5, 300, 132}, {130, 1, 128}, {12, 3, 10}};
    static uint32_t y[592 * 3 + 2 * 132];
    struct tern_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int units = cases[i].row_blocks * cases[i].tiles_m, blocks = cases[i].blocks;
        uint32_t most = 0;
        struct emulator_case c = {.entry = entry,
                                  .blocks = blocks,
                                  .block = 1,
                                  .y_bytes = sizeof y[0] * (size_t)(units + 2 * blocks),
                                  .m = 128 * cases[i].tiles_m - 31,
                                  .k = cases[i].row_blocks};
        if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int u = 0; u < units; u++)
            assert_int_equal(y[u], 8 * ((cases[i].row_blocks + 127) / 128));
        for (int b = 0; b < blocks; b++) {
            assert_int_equal(y[units + b], y[units + b / cluster * cluster]);
            most = y[units + blocks + b] > most ? y[units + blocks + b] : most;
        }
        if (blocks <= units * cluster) /* as the launch has them */
            assert_int_equal(busiest_of(cluster, c.m, 64LL * cases[i].row_blocks, blocks), 64 * most / (uint32_t)cluster);
    }
}

static void spread_visits_all_once(void **state) {
    (void)state;
    check_spread("wgmma_spread", 1);
    check_spread("wgmma_spread_cluster", 2);
}

/* A row block for each and a part beside it where PAIR 4 is valid; more or fewer at other sizes. */
static void busiest_follows_the_row_blocks_left_over(void **state) {
    (void)state;
    assert_int_equal(busiest_of(2, 128, 4608, 132), 64 * (128 + 64) / 2); /* qkv */
    assert_int_equal(busiest_of(1, 256, 4608, 132), 64 * (128 + 64));
    assert_int_equal(busiest_of(1, 256, 64 * 66, 132), 64 * 128);
    assert_int_equal(busiest_of(1, 256, 64 * 75, 132), 64 * (128 + 2 * 64));
    assert_int_equal(busiest_of(1, 256, 64 * 132, 132), 64 * 2 * 128);
    assert_int_equal(busiest_of(2, 0, 4608, 132), 0);
}

static int open_fixture(void **state) {
    (void)state;
    char dir[4096];
    struct tern_error err = {0};
    emulator_fixture_open(&wgmma, "wgmma");
    assert_int_equal(tern_file_home_path("templates/wgmma-tile", dir, sizeof dir, &err), TERN_OK);
    return tern_template_load(dir, &tile, &err) == TERN_OK ? 0 : -1;
}
static int close_fixture(void **state) {
    (void)state;
    emulator_fixture_close(&wgmma);
    tern_template_free(&tile);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_visit_all_once),
        cmocka_unit_test(spread_visits_all_once),
        cmocka_unit_test(busiest_follows_the_row_blocks_left_over),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
