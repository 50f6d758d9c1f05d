/* What kernels are expected to take at sizes between tuned M, and the steps that follow. */
#include "commands/export_times.h"
#include "core/str.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SMS 132
#define N   (2 * 64 * SMS) /* two row blocks of 64 a multiprocessor */
#define K   1024

static const struct tern_dispatch_limits limits = {SMS, 232448};

/* A winner whose launch has a block for each 64 rows of W and `tile` rows of x, as many as there are multiprocessors. */
static void add(struct tern_results *rows, int64_t m, int tile, double us, const char *layout) {
    struct tern_result row = {.m = m, .n = N, .k = K, .us = us, .min_m = 1, .max_m = 4096};
    tern_str_copy(row.shapes, sizeof row.shapes, "model");
    tern_str_copy(row.layer, sizeof row.layer, "o");
    tern_str_copy(row.format, sizeof row.format, "ternary-g128");
    tern_str_copy(row.op, sizeof row.op, "linear-a16");
    tern_str_copy(row.template_name, sizeof row.template_name, "tiles");
    tern_str_copy(row.layout, sizeof row.layout, layout);
    tern_str_copy(row.policy, sizeof row.policy, "graph/cold");
    tern_str_format(row.params, sizeof row.params, "BLOCK_M=%d", tile);
    tern_str_format(row.build_key, sizeof row.build_key, "%d", tile);
    tern_str_copy(row.grid[0], sizeof row.grid[0], "min(ceil_div(N,64)*ceil_div(M,BLOCK_M),SMS)");
    tern_results_add(rows, &row);
}

struct known {
    struct tern_results rows;
    struct tern_times *times;
    struct tern_selection_table table;
    struct tern_outlook *outlook;
};

static void open_known(struct known *k) {
    k->times = tern_times_of_rows(&k->rows);
    k->table = tern_selection_build(&k->rows);
    k->outlook = tern_outlook_open(k->times, &k->table, &k->table.groups[0], NULL, &limits);
}

static void close_known(struct known *k) {
    tern_outlook_free(k->outlook);
    tern_selection_free(&k->table);
    tern_times_free(k->times);
    tern_results_free(&k->rows);
}

static void assert_expected(const struct known *k, int64_t m, int64_t tuned_m, double us) {
    double expected;
    const struct tern_result *kernel = tern_outlook_best(k->outlook, "frag", m, &expected);
    assert_non_null(kernel);
    assert_int_equal(kernel->m, tuned_m);
    assert_true(fabs(expected - us) < 1e-9);
}

static void rounds_count_how_often_the_device_is_filled(void **state) {
    (void)state;
    struct tern_results rows = {0};
    struct tern_dispatch_grid *grid = NULL;
    add(&rows, 128, 128, 1.0, "frag");
    assert_int_equal(tern_dispatch_grid_open(&rows.rows[0], "", &grid, NULL), TERN_OK);
    assert_int_equal(tern_dispatch_rounds(grid, 128, N, K, SMS), 2);
    assert_int_equal(tern_dispatch_rounds(grid, 129, N, K, SMS), 4);
    assert_int_equal(tern_dispatch_rounds(grid, 128, N + 64, K, SMS), 3);
    assert_int_equal(tern_dispatch_rounds(grid, 128, 64, K, SMS), 1);
    assert_int_equal(tern_dispatch_rounds(grid, 128, N, K, 2 * SMS), 1);
    assert_int_equal(tern_dispatch_rounds(grid, 0, N, K, SMS), 0);
    tern_dispatch_grid_free(grid);
    tern_str_copy(rows.rows[0].grid[0], sizeof rows.rows[0].grid[0], "min(");
    assert_int_not_equal(tern_dispatch_grid_open(&rows.rows[0], "", &grid, NULL), TERN_OK);
    tern_dispatch_grid_free(grid);
    tern_results_free(&rows);
}

static void work_is_what_the_template_says_or_the_rounds(void **state) {
    (void)state;
    struct tern_results rows = {0};
    struct tern_dispatch_grid *grid = NULL;
    add(&rows, 128, 128, 1.0, "frag");
    assert_int_equal(tern_dispatch_grid_open(&rows.rows[0], "", &grid, NULL), TERN_OK);
    assert_int_equal(tern_dispatch_work(grid, 128, N + 64, K, SMS), 3);
    tern_dispatch_grid_free(grid);
    assert_int_equal(tern_dispatch_grid_open(&rows.rows[0], "BLOCK_M*ceil_div(N,SMS)", &grid, NULL), TERN_OK);
    assert_int_equal(tern_dispatch_work(grid, 128, N + 64, K, SMS), 128 * 129);
    assert_int_equal(tern_dispatch_rounds(grid, 128, N + 64, K, SMS), 3);
    assert_int_equal(tern_dispatch_work(grid, 0, N, K, SMS), 0); /* no launch, no work */
    tern_dispatch_grid_free(grid);
    assert_int_not_equal(tern_dispatch_grid_open(&rows.rows[0], "min(", &grid, NULL), TERN_OK);
    tern_dispatch_grid_free(grid);
    tern_results_free(&rows);
}

static void a_launch_has_blocks_and_room_for_their_memory(void **state) {
    (void)state;
    struct tern_results rows = {0};
    struct tern_dispatch_grid *grid = NULL;
    add(&rows, 128, 128, 1.0, "frag");
    tern_str_copy(rows.rows[0].smem, sizeof rows.rows[0].smem, "K*BLOCK_M");
    rows.rows[0].static_smem_bytes = 232448 - 1024 * 128;
    assert_int_equal(tern_dispatch_grid_open(&rows.rows[0], "", &grid, NULL), TERN_OK);
    assert_true(tern_dispatch_launches(grid, 128, N, 1024, &limits));
    assert_false(tern_dispatch_launches(grid, 128, N, 1056, &limits));
    assert_false(tern_dispatch_launches(grid, 0, N, 1024, &limits));
    tern_dispatch_grid_free(grid);
    tern_results_free(&rows);
}

static void between_two_times_they_follow_the_rounds(void **state) {
    (void)state;
    struct known k = {0};
    add(&k.rows, 128, 128, 20.0, "frag"); /* 2 rounds */
    add(&k.rows, 512, 128, 80.0, "frag"); /* 8 */
    open_known(&k);
    assert_expected(&k, 129, 128, 40.0); /* 4 rounds */
    assert_expected(&k, 256, 128, 40.0);
    assert_expected(&k, 257, 128, 60.0);
    assert_expected(&k, 511, 128, 80.0);
    close_known(&k);
}

static void from_one_side_there_is_doubt(void **state) {
    (void)state;
    struct known k = {0};
    double us;
    add(&k.rows, 128, 128, 30.0, "frag");
    add(&k.rows, 256, 256, 38.0, "frag");
    open_known(&k);
    assert_expected(&k, 160, 256, 38.0);                         /* as many rounds as where it was tuned */
    assert_expected(&k, 100, 128, 30.0);                         /* the same */
    assert_expected(&k, 384, 256, 1.05 * 38.0 * 4.5 / 2.5);      /* twice the rounds */
    assert_null(tern_outlook_best(k.outlook, "frag", 385, &us)); /* farther than half an octave above all that is known */
    assert_true(isinf(us));
    assert_null(tern_outlook_best(k.outlook, "other", 160, &us)); /* no kernel reads this layout */
    k.rows.rows[1].max_m = 256;
    assert_null(tern_outlook_best(k.outlook, "frag", 300, &us)); /* nor takes so many rows */
    close_known(&k);
}

static void steps_change_where_another_kernel_is_expected_to_win(void **state) {
    (void)state;
    struct known k = {0};
    add(&k.rows, 128, 128, 20.0, "frag"); /* 2 rounds, 4 up to 256 */
    add(&k.rows, 384, 192, 50.0, "frag"); /* 4 rounds, 2 up to 192, where nothing is known */
    add(&k.rows, 512, 128, 80.0, "frag");
    add(&k.rows, 1024, 128, 160.0, "other");
    open_known(&k);
    struct tern_selection_stairs *stairs = tern_times_stairs(k.times, &k.table, NULL, &limits);
    assert_int_equal(stairs[0].between.count, 0); /* nothing lies below the first */
    /* Up to 256 the smaller tile: 40 us. Up to 383 the larger, in 4 rounds: 50 us, where the smaller takes 60. */
    assert_int_equal(stairs[1].between.count, 2);
    assert_int_equal(stairs[1].between.items[0].size, 256);
    assert_ptr_equal(stairs[1].between.items[0].kernel, &k.rows.rows[0]);
    assert_int_equal(stairs[1].between.items[1].size, 383);
    assert_ptr_equal(stairs[1].between.items[1].kernel, &k.rows.rows[1]);
    /* The larger tile takes 6 rounds from 385 on: 1.05 * 50 * 6.5 / 4.5 = 75.8, the smaller 80. */
    assert_int_equal(stairs[2].between.count, 1);
    assert_int_equal(stairs[2].between.items[0].size, 511);
    assert_ptr_equal(stairs[2].between.items[0].kernel, &k.rows.rows[1]);
    assert_int_equal(stairs[3].between.count, 0); /* the weights are packed otherwise there */
    tern_times_stairs_free(stairs, k.rows.count);
    close_known(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_count_how_often_the_device_is_filled),
        cmocka_unit_test(work_is_what_the_template_says_or_the_rounds),
        cmocka_unit_test(a_launch_has_blocks_and_room_for_their_memory),
        cmocka_unit_test(between_two_times_they_follow_the_rounds),
        cmocka_unit_test(from_one_side_there_is_doubt),
        cmocka_unit_test(steps_change_where_another_kernel_is_expected_to_win),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
