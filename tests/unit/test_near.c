/* Which kernel a table gives to shapes that nobody tuned, and what it knows of kernels for that. */
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
        {128, 66 * 64, 1024, 0, TERN_SELECTION_EXACT},        /* one round of either */
        {128, 65 * 64, 1024, 0, TERN_SELECTION_NEAR},         /* the same */
        {128, 66 * 64, 2048, 0, TERN_SELECTION_NEAR},         /* K stretches both */
        {128, 67 * 64, 1024, 1, TERN_SELECTION_NEAR},         /* two rounds of the lower tiles */
        {100, 67 * 64, 1024, 1, TERN_SELECTION_NEAR},         /* the M above */
        {128, 66 * 256, 4096, 1, TERN_SELECTION_NEAR},        /* the farthest */
        {128, 66 * 256 + 8, 1024, 1, TERN_SELECTION_DEFAULT}, /* the same rule farther away: 5 rounds, or 3 */
        {128, 64 * 66 * 64, 1024, 1, TERN_SELECTION_DEFAULT}, /* and beyond the last step */
        {128, 8, 65536, 0, TERN_SELECTION_DEFAULT},
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
    assert_int_equal(answers.stairs[0].band_count, 1);
    assert_int_equal(answers.stairs[0].bands[0].steps.count, 2);
    assert_int_equal(answers.stairs[0].bands[0].steps.items[0].size, 66 * 64);
    close_answers(&answers);
    tern_results_free(&rows);
    free(db);
}

static void bands_end_where_a_kernel_cannot_be_launched(void **state) {
    const struct fixture *f = *state;
    struct tern_results rows = {0};
    struct tern_error err = {0};
    struct answers answers;
    char *db = path_in(f, "bands.db");
    add_tile_kernel(&rows, 128, 64, 'A'); /* 10.7 us at M = 128 */
    add_tile_kernel(&rows, 256, 65, 'B'); /* 11.4 us, in as many rounds */
    tern_str_copy(rows.rows[0].grid[1], sizeof rows.rows[0].grid[1], "(K<=2048)*(K>=512)");
    tern_str_copy(rows.rows[1].smem, sizeof rows.rows[1].smem, "64*K"); /* of 232448 bytes at most */
    assert_int_equal(fixture_database(db, &rows, false, &err), TERN_OK);
    assert_int_equal(add_trials(db, &rows, &err), TERN_OK);
    open_answers(f, "bands.db", &rows, &answers);
    const struct tern_selection_stairs *stairs = &answers.stairs[0];
    static const struct {
        int64_t k;
        size_t kernel;
    } bands[] = {{448, 1}, {2048, 0}, {3584, 1}}; /* steps of K are 64 there */
    assert_int_equal(stairs->band_count, 3);
    for (size_t b = 0; b < 3; b++) {
        assert_int_equal(stairs->bands[b].k, bands[b].k);
        assert_int_equal(stairs->bands[b].steps.count, 1);
        assert_ptr_equal(stairs->bands[b].steps.items[0].kernel, &rows.rows[bands[b].kernel]);
    }
    close_answers(&answers);
    tern_results_free(&rows);
    free(db);
}

/* A time of a kernel in a final, or in a screen, of the problem with m rows. */
static void tile_trial(const char *db, const struct tern_result *kernel, int64_t m, const char *stage, double us) {
    struct tern_store *store = NULL;
    struct tern_error err = {0};
    const struct tern_store_device device = FIXTURE_DEVICE;
    struct tern_store_problem problem = {.m = m, .n = kernel->n, .k = kernel->k};
    struct tern_store_trial trial = {.outcome = TERN_OUTCOME_OK, .predicted_us = NAN};
    struct tern_store_build build;
    bool found = false;
    tern_str_copy(problem.format, sizeof problem.format, kernel->format);
    tern_str_copy(problem.op, sizeof problem.op, kernel->op);
    tern_str_copy(trial.stage, sizeof trial.stage, stage);
    tern_str_copy(trial.policy, sizeof trial.policy, "graph/cold");
    trial.us = trial.us_lo = trial.us_hi = us;
    assert_int_equal(tern_store_open(db, TERN_STORE_WRITE, &store, &err), TERN_OK);
    assert_int_equal(tern_store_device(store, &device, &trial.device, &err), TERN_OK);
    assert_int_equal(tern_store_run_begin(store, trial.device, "trial", "test", 1, &trial.run, &err), TERN_OK);
    assert_int_equal(tern_store_problem(store, &problem, &trial.problem, &err), TERN_OK);
    assert_int_equal(tern_store_build_find(store, kernel->build_key, &build, &found, &err), TERN_OK);
    trial.build = build.id;
    assert_int_equal(tern_store_trial_begin(store, &trial, &err), TERN_OK);
    trial.outcome = TERN_OUTCOME_OK;
    assert_int_equal(tern_store_trial_finish(store, &trial, NULL, 0, &err), TERN_OK);
    tern_store_close(store);
}

static size_t count_runners_up(const char *db, const struct tern_results *winners, struct tern_results *rows) {
    struct tern_times *times = NULL;
    struct tern_gpu gpu;
    struct tern_error err = {0};
    tern_results_free(rows);
    *rows = (struct tern_results){0};
    for (size_t i = 0; i < winners->count; i++)
        tern_results_add(rows, &winners->rows[i]);
    assert_int_equal(tern_gpu_load("h200", &gpu, &err), TERN_OK);
    assert_int_equal(tern_times_load(db, &gpu, rows, &times, &err), TERN_OK);
    tern_times_runners_up(times, rows);
    tern_times_free(times);
    tern_gpu_free(&gpu);
    return rows->count - winners->count;
}

static void runners_up_lost_a_final_by_little(void **state) {
    const struct fixture *f = *state;
    struct tern_template template;
    struct tern_error err = {0};
    struct tern_results winners = {0}, rows = {0};
    char dir[4096], *db = path_in(f, "runners.db");
    assert_int_equal(tern_file_home_path("templates/wgmma-tile", dir, sizeof dir, &err), TERN_OK);
    assert_int_equal(tern_template_load(dir, &template, &err), TERN_OK);
    add_tile_kernel(&winners, 128, 128, 'A');
    add_tile_kernel(&winners, 256, 64, 'B');
    for (size_t i = 0; i < 2; i++)
        tern_template_fill(&template, &winners.rows[i]);
    winners.rows[1].registers = 77;
    assert_int_equal(fixture_database(db, &winners, false, &err), TERN_OK);
    const struct tern_result *other = &winners.rows[1];
    tile_trial(db, &winners.rows[0], 128, "final", 10.0);
    tile_trial(db, other, 128, "screen", 10.1);
    assert_int_equal(count_runners_up(db, &winners, &rows), 0); /* a screen is no final */
    tile_trial(db, other, 128, "final", 10.41);
    assert_int_equal(count_runners_up(db, &winners, &rows), 0); /* 4 % are the most */
    tile_trial(db, other, 128, "final", 10.2);
    tile_trial(db, other, 128, "final", 10.39);
    assert_int_equal(count_runners_up(db, &winners, &rows), 1); /* the newest time, once */
    const struct tern_result *row = &rows.rows[2];
    assert_true(row->runner_up && row->us == 10.39 && row->m == 128 && row->registers == 77);
    assert_string_equal(row->params, other->params);
    assert_string_equal(row->build_key, other->build_key);
    assert_string_equal(row->grid[0], template.grid[0]);
    struct tern_selection_table table = tern_selection_build(&rows);
    assert_int_equal(table.groups[0].count, 2); /* it answers for no problem of its own */
    tern_selection_free(&table);
    tern_str_copy(winners.rows[0].layout, sizeof winners.rows[0].layout, "rows");
    assert_int_equal(count_runners_up(db, &winners, &rows), 0); /* it cannot read that copy of the weights */
    tern_template_free(&template);
    tern_results_free(&winners);
    tern_results_free(&rows);
    free(db);
}

/* Two kernels with as many rounds, tried at M = 128 alone: the winner took 5 us, the other is no winner anywhere. */
static void runners_up_serve_other_shapes_if_they_are_worth_it(void **state) {
    const struct fixture *f = *state;
    static const struct {
        double us;
        size_t kernel; /* that serves other shapes */
    } asked[] = {{4.845, 1}, {4.855, 0}};
    struct tern_results rows = {0};
    struct tern_error err = {0};
    struct answers answers;
    char *db = path_in(f, "worth.db");
    add_tile_kernel(&rows, 128, 64, 'A');
    add_tile_kernel(&rows, 256, 65, 'B');
    assert_int_equal(fixture_database(db, &rows, false, &err), TERN_OK);
    rows.rows[1].m = 128, rows.rows[1].runner_up = true;
    tile_trial(db, &rows.rows[0], 128, "final", 5.0);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        tile_trial(db, &rows.rows[1], 128, "final", asked[i].us);
        open_answers(f, "worth.db", &rows, &answers);
        assert_int_equal(answers.stairs[0].band_count, 1);
        assert_int_equal(answers.stairs[0].bands[0].steps.count, 1);
        assert_ptr_equal(answers.stairs[0].bands[0].steps.items[0].kernel, &rows.rows[asked[i].kernel]);
        close_answers(&answers);
    }
    tern_results_free(&rows);
    free(db);
}

static void a_time_at_more_rows_is_the_most_for_fewer(void **state) {
    const struct fixture *f = *state;
    struct tern_results rows = {0};
    struct tern_error err = {0};
    struct answers answers;
    char *db = path_in(f, "more.db");
    add_tile_kernel(&rows, 128, 64, 'A');
    add_tile_kernel(&rows, 256, 65, 'B');
    assert_int_equal(fixture_database(db, &rows, false, &err), TERN_OK);
    tile_trial(db, &rows.rows[0], 128, "final", 10.0); /* 1 round; with 67 row blocks 2: 17 us */
    tile_trial(db, &rows.rows[1], 256, "final", 7.0);  /* 2; with 67 row blocks 3: 9.8 us */
    for (size_t i = 0; i < 2; i++) {
        rows.rows[1].min_m = i ? 129 : 1;
        open_answers(f, "more.db", &rows, &answers);
        const struct tern_selection_steps *steps = &answers.stairs[0].bands[0].steps;
        assert_int_equal(steps->count, 1);
        assert_ptr_equal(steps->items[0].kernel, &rows.rows[i ? 0 : 1]);
        close_answers(&answers);
    }
    tern_results_free(&rows);
    free(db);
}

/* What does not grow with the rounds is half a round, and 3 us at most: with half of its 30 us the kernel of one round would win at two. */
static void long_rounds_have_no_more_overhead(void **state) {
    const struct fixture *f = *state;
    struct tern_results rows = {0};
    struct tern_error err = {0};
    struct answers answers;
    char *db = path_in(f, "long.db");
    add_tile_kernel(&rows, 128, 64, 'A');
    add_tile_kernel(&rows, 256, 33, 'B');
    assert_int_equal(fixture_database(db, &rows, false, &err), TERN_OK);
    tile_trial(db, &rows.rows[0], 128, "final", 30.0); /* 1 round; with 67 row blocks 2: 57 us */
    tile_trial(db, &rows.rows[1], 128, "final", 38.9); /* 2; with 67 row blocks 3: 56.9 us */
    open_answers(f, "long.db", &rows, &answers);
    const struct tern_selection_answer answer =
        tern_selection_ask(&answers.table, &(struct tern_selection_problem){NULL, "ternary-g128", 128, 67 * 64, 1024},
                           tern_dispatch_fits, &(struct tern_dispatch_limits){H200_SMS, H200_SMEM});
    assert_ptr_equal(answer.kernel, &rows.rows[1]);
    close_answers(&answers);
    tern_results_free(&rows);
    free(db);
}

/* A kernel of wgmma-turn for the five row blocks that a multiprocessor has of 37888 rows of W; where there are four its template refuses it. */
static void kernels_pay_where_their_template_refuses_them(void **state) {
    const struct fixture *f = *state;
    static const struct {
        int64_t n;
        size_t kernel;
    } asked[] = {{37888, 0}, {35840, 0}, {33792, 1}, {28672, 1}};
    struct tern_template template;
    struct tern_error err = {0};
    struct answers answers;
    char dir[4096];
    struct tern_results rows = {0};
    char *db = path_in(f, "refused.db");
    assert_int_equal(tern_file_home_path("templates/wgmma-turn", dir, sizeof dir, &err), TERN_OK);
    assert_int_equal(tern_template_load(dir, &template, &err), TERN_OK);
    add_tile_kernel(&rows, 64, 64, 'A');
    add_tile_kernel(&rows, 128, 64, 'B'); /* of a template that is not here, so that nothing refuses it */
    rows.rows[0].n = rows.rows[1].n = 37888, rows.rows[0].k = rows.rows[1].k = 3584;
    tern_str_copy(rows.rows[1].layout, sizeof rows.rows[1].layout, template.layout);
    tern_template_fill(&template, &rows.rows[0]);
    tern_str_copy(rows.rows[0].params, sizeof rows.rows[0].params,
                  "BLOCK_M=64 CLUSTER_K=1 WARPS_N=2 WARPS_K=1 SCALE_WEIGHTS=1 ROUND_WEIGHTS=0 ROW_BLOCKS=3 PAIR=0 STAGES=6");
    assert_int_equal(fixture_database(db, &rows, false, &err), TERN_OK);
    tile_trial(db, &rows.rows[0], 64, "final",
               10.0); /* with four row blocks 3 + 7 * 16 / 21 = 8.3 us by its work, 10.0 refused */
    tile_trial(db, &rows.rows[1], 64, "final", 10.9); /* 5 rounds; with 4: 8.9 us */
    open_answers(f, "refused.db", &rows, &answers);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        const struct tern_selection_problem problem = {NULL, "ternary-g128", 64, asked[i].n, 3584};
        struct tern_dispatch_limits limits = {H200_SMS, H200_SMEM};
        assert_ptr_equal(tern_selection_ask(&answers.table, &problem, tern_dispatch_fits, &limits).kernel,
                         &rows.rows[asked[i].kernel]);
    }
    struct tern_rules *rules = tern_times_rules(answers.times, &rows.rows[0]);
    assert_true(tern_rules_take(rules, 64, 37888, 3584));
    assert_false(tern_rules_take(rules, 64, 28672, 3584));
    tern_rules_free(rules);
    assert_null(tern_times_rules(answers.times, &rows.rows[1]));
    assert_true(tern_rules_take(NULL, 64, 28672, 3584));
    close_answers(&answers);
    tern_template_free(&template);
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
        cmocka_unit_test(bands_end_where_a_kernel_cannot_be_launched),
        cmocka_unit_test(runners_up_lost_a_final_by_little),
        cmocka_unit_test(runners_up_serve_other_shapes_if_they_are_worth_it),
        cmocka_unit_test(a_time_at_more_rows_is_the_most_for_fewer),
        cmocka_unit_test(long_rounds_have_no_more_overhead),
        cmocka_unit_test(kernels_pay_where_their_template_refuses_them),
        cmocka_unit_test(busiest_blocks_are_those_of_the_template_that_was_measured),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
