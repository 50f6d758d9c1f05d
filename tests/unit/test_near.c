/* Which kernel a table gives to shapes that are near a tuned one, and what it knows of kernels for that. */
#include "export_fixture.h"

#include "config/template.h"

/* A kernel of tiles of 64 rows of W and `tile` rows of x; its key gives it a time at every M of the layer (add_trials). */
static void add_tile_kernel(struct tern_results *rows, int64_t m, int tile, char key) {
    struct tern_result row = fixture_row("ternary-g128", "o", 66 * 64, 1024, 1, m, 2.125, false);
    row.us = row.us_lo = row.us_hi = 10.0, row.max_m = 4096, row.build_key[0] = key;
    row.grid[1][0] = row.grid[2][0] = row.smem[0] = row.workspace[0] = 0;
    tern_str_format(row.params, sizeof row.params, "BLOCK_M=%d", tile);
    tern_str_copy(row.grid[0], sizeof row.grid[0], "min(ceil_div(N,64)*ceil_div(M,BLOCK_M),SMS)");
    tern_str_copy(row.block, sizeof row.block, "128");
    tern_results_add(rows, &row);
}

static void near_shapes_get_the_kernel_whose_rounds_suit_their_n(void **state) {
    const struct fixture *f = *state;
    static const struct {
        int64_t m, n, k;
        int kernel;
        enum tern_selection_match match;
    } asked[] = {
        {128, 66 * 64, 1024, 0, TERN_SELECTION_EXACT}, /* one round of either */
        {128, 65 * 64, 1024, 0, TERN_SELECTION_NEAR},  /* the same */
        {128, 66 * 64, 2048, 0, TERN_SELECTION_NEAR},  /* K stretches both */
        {128, 67 * 64, 1024, 1, TERN_SELECTION_NEAR},  /* two rounds of the lower tiles */
        {100, 67 * 64, 1024, 1, TERN_SELECTION_NEAR},  /* the M above */
        {128, 66 * 256, 4096, 1, TERN_SELECTION_NEAR}, /* the farthest */
        {128, 66 * 256 + 8, 1024, 0, TERN_SELECTION_DEFAULT},
    };
    struct tern_results rows = {0};
    struct tern_error err = {0};
    struct tern_dispatch_limits limits = {H200_SMS, H200_SMEM};
    struct answers answers;
    char *db = path_in(f, "near.db");
    add_tile_kernel(&rows, 128, 64, 'A');  /* 10.7 us at M = 128 */
    add_tile_kernel(&rows, 256, 128, 'B'); /* 11.4 us there */
    assert_int_equal(fixture_database(db, &rows, false, &err), TERN_OK);
    assert_int_equal(add_trials(db, &rows, &err), TERN_OK);
    open_answers(f, "near.db", &rows, &answers);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        const struct tern_selection_problem problem = {NULL, "ternary-g128", asked[i].m, asked[i].n, asked[i].k};
        const struct tern_selection_answer answer =
            tern_selection_ask(&answers.table, &problem, tern_dispatch_fits, &limits);
        assert_int_equal(answer.match, asked[i].match);
        assert_ptr_equal(answer.row, &rows.rows[0]);
        assert_ptr_equal(answer.kernel, &rows.rows[asked[i].kernel]);
    }
    assert_int_equal(answers.stairs[0].near.count, 2);
    close_answers(&answers);
    tern_results_free(&rows);
    free(db);
}

static void busiest_blocks_are_those_of_the_template_that_was_measured(void **state) {
    const struct fixture *f = *state;
    struct answers answers;
    struct tern_template template;
    struct tern_error err = {0};
    char dir[4096];
    struct tern_results rows = {0};
    char *db = path_in(f, "busiest.db");
    assert_int_equal(tern_file_home_path("templates/wgmma-tile", dir, sizeof dir, &err), TERN_OK);
    assert_int_equal(tern_template_load(dir, &template, &err), TERN_OK);
    add_tile_kernel(&rows, 128, 64, 'A');
    struct tern_result kernel = rows.rows[0];
    assert_int_equal(fixture_database(db, &rows, false, &err), TERN_OK);
    open_answers(f, "busiest.db", &rows, &answers);
    assert_string_equal(tern_times_busiest(answers.times, &kernel), ""); /* a template that is not here */
    tern_str_copy(kernel.template_name, sizeof kernel.template_name, "wgmma-tile");
    assert_string_equal(tern_times_busiest(answers.times, &kernel), ""); /* another version of one that is */
    tern_str_copy(kernel.template_hash, sizeof kernel.template_hash, template.hash);
    assert_true(template.busiest[0]);
    assert_string_equal(tern_times_busiest(answers.times, &kernel), template.busiest);
    close_answers(&answers);
    tern_template_free(&template);
    tern_results_free(&rows);
    free(db);
}

static int set_up(void **state) {
    struct fixture *f = tern_alloc_zero(1, sizeof *f);
    tern_str_copy(f->dir, sizeof f->dir, "/tmp/tern-near-XXXXXX");
    *state = f;
    return mkdtemp(f->dir) ? 0 : -1;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    char *const argv[] = {(char[]){"rm"}, (char[]){"-rf"}, f->dir, NULL};
    int code = run_program(f, NULL, NULL, argv);
    free(f);
    return code;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_shapes_get_the_kernel_whose_rounds_suit_their_n),
        cmocka_unit_test(busiest_blocks_are_those_of_the_template_that_was_measured),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
