/* Unit tests of promotion: complete rows come back, one answer a problem, planned never replaces measured, all or nothing.
 */
#include "store_fixture.h"

static struct tern_result sample_winner(int64_t m, bool planned, double us) {
    struct tern_result r = {.gpu = "h200",
                            .arch = "sm_90a",
                            .planned = planned,
                            .format = "ternary-g128",
                            .op = "linear-a16",
                            .shapes = "qwen7b",
                            .layer = "qkv",
                            .m = m,
                            .n = 4608,
                            .k = 3584,
                            .layer_count = 28,
                            .template_name = "simt-decode",
                            .layout = "frag16x128",
                            .params = "STAGES=1",
                            .us = us,
                            .us_lo = us,
                            .us_hi = us,
                            .p_best = 0.9,
                            .regret = 0.01,
                            .baseline = "cublaslt-best16",
                            .baseline_us = 10.8,
                            .dequant_us = 20,
                            .default_us = NAN,
                            .dequant_e4m3_us = NAN,
                            .speedup = 10.8 / us,
                            .speedup_lo = 2,
                            .speedup_hi = 3,
                            .sustained_us = 1.25 * us,
                            .sustained_speedup = 2.5,
                            .limit_us = 2.7,
                            .pct_of_limit = 270 / us,
                            .predicted_us = 5,
                            .entry = "simt_decode",
                            .grid = {"ceil_div(N, 16)", "1", "2"},
                            .block = "128",
                            .smem = "65536",
                            .workspace = "M*N*8",
                            .cluster = "1",
                            .prologue = "quantise",
                            .prologue_grid = "M",
                            .prologue_block = "256",
                            .registers = 64,
                            .static_smem_bytes = 16,
                            .min_m = 1,
                            .max_m = 16};
    struct tern_store_build b = sample_build(1);
    strcpy(r.build_key, b.key);
    strcpy(r.cubin_hash, b.cubin_hash);
    strcpy(r.template_hash, b.template_hash);
    if (planned) {
        double *const times[] = {
            &r.us,      &r.us_lo,      &r.us_hi,      &r.p_best,       &r.regret,       &r.baseline_us,      &r.dequant_us,
            &r.speedup, &r.speedup_lo, &r.speedup_hi, &r.pct_of_limit, &r.sustained_us, &r.sustained_speedup};
        for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
            *times[i] = NAN;
        r.baseline[0] = '\0';
    }
    return r;
}

struct world {
    struct fixture f;
    struct tern_store *s;
    struct rows real, described;
};

static void world_open(struct world *w) {
    fixture_open(&w->f);
    CHECK_OK(tern_store_open(w->f.db, TERN_STORE_WRITE, &w->s, failure));
    w->described = sample_rows(w->s, false);
    w->real = sample_rows(w->s, true);
}

static void world_close(struct world *w) {
    tern_store_close(w->s);
    fixture_close(&w->f);
}

static void promote(struct world *w, const struct rows *on, const struct tern_result *rows, size_t count) {
    CHECK_OK(tern_store_promote(w->s, on->run, on->device, rows, count, failure));
}

/* The one winner of M, or fails. */
static struct tern_result winner_of(struct world *w, int64_t m) {
    struct tern_results all = {0};
    struct tern_result found = {0};
    int count = 0;
    CHECK_OK(tern_store_winners(w->s, "h200", "qwen7b", &all, failure));
    for (size_t i = 0; i < all.count; i++) {
        if (all.rows[i].m == m) {
            found = all.rows[i];
            count++;
        }
    }
    assert_int_equal(count, 1);
    tern_results_free(&all);
    return found;
}

static void test_complete_rows(void **state) {
    (void)state;
    struct world w;
    world_open(&w);
    struct tern_result rows[] = {sample_winner(4, false, 5), sample_winner(1, false, 4.5)};
    promote(&w, &w.real, rows, 2);
    struct tern_results all = {0};
    CHECK_OK(tern_store_winners(w.s, NULL, NULL, &all, failure));
    assert_int_equal(all.count, 2);
    for (size_t i = 0; i < 2; i++) { /* the device comes with the answer; no final of theirs is stored, so no policy */
        strcpy(rows[i].device, "NVIDIA H200");
        strcpy(rows[i].driver, "580.1");
    }
    assert_memory_equal(&all.rows[0], &rows[1], sizeof rows[0]); /* sorted by M, every field as given */
    assert_memory_equal(&all.rows[1], &rows[0], sizeof rows[0]);
    tern_results_free(&all);
    CHECK_OK(tern_store_winners(w.s, "a10", NULL, &all, failure));
    CHECK_OK(tern_store_winners(w.s, "h200", "llama3-8b", &all, failure));
    assert_int_equal(all.count, 0);
    struct tern_result other = sample_winner(1, false, 6);
    strcpy(other.shapes, "llama3-8b");
    promote(&w, &w.real, &other, 1);
    CHECK_OK(tern_store_winners(w.s, "h200", "llama3-8b", &all, failure));
    assert_int_equal(all.count, 1);
    tern_results_free(&all);
    world_close(&w);
}

/* The policy of a winner is that of the final that it came from, whatever was tried since. */
static void test_policy_of_its_final(void **state) {
    (void)state;
    struct world w;
    world_open(&w);
    struct tern_result row = sample_winner(1, false, 4.5);
    const double times[] = {4.5, 4.4, 4.5};
    const char *const policies[] = {"graph/cold/cool", "graph/cold", "graph/cold"}, *const stages[] = {"final", "final",
                                                                                                       "screen"};
    for (size_t i = 0; i < 3; i++) {
        struct tern_store_trial t = sample_trial(&w.real);
        strcpy(t.policy, policies[i]);
        strcpy(t.stage, stages[i]);
        CHECK_OK(tern_store_trial_begin(w.s, &t, failure));
        t.outcome = TERN_OUTCOME_OK;
        t.us = t.us_lo = t.us_hi = times[i];
        CHECK_OK(tern_store_trial_finish(w.s, &t, &t.us, 1, failure));
    }
    promote(&w, &w.real, &row, 1);
    row = winner_of(&w, 1);
    assert_string_equal(row.policy, "graph/cold/cool");
    assert_string_equal(row.device, "NVIDIA H200");
    world_close(&w);
}

struct seen {
    int runs, nvrtc, policies, builds, templates, refused, baselines;
};

static enum tern_status see_fact(void *user, const struct tern_store_fact *fact, struct tern_error *err) {
    struct seen *seen = user;
    (void)err;
    seen->runs += !strcmp(fact->section, "run") && !strcmp(fact->name, "tune --gpu h200") && fact->exit_code == -1;
    seen->nvrtc += !strcmp(fact->section, "nvrtc") && !strcmp(fact->name, "13.0");
    seen->builds += !strcmp(fact->section, "build") ? (int)fact->count : 0;
    seen->templates += !strcmp(fact->section, "template") && !strcmp(fact->name, "simt-decode") && strlen(fact->text) == 32;
    return TERN_OK;
}

static void see_refused(void *user, const struct tern_store_build *b) {
    ((struct seen *)user)->refused += b->outcome == TERN_OUTCOME_COMPILE && !strcmp(b->log, "error: x\nmore");
}

static void see_baseline(void *user, const struct tern_store_baseline *b) {
    ((struct seen *)user)->baselines += !strcmp(b->kind, "cublaslt-default") && b->us == 11;
}

/* What a release states and what `show` tells of a winner. */
static void test_what_stands_behind(void **state) {
    (void)state;
    struct world w;
    struct seen seen = {0};
    world_open(&w);
    struct tern_result row = sample_winner(1, false, 4.5);
    struct tern_store_build refused = sample_build(2);
    struct tern_store_problem p = sample_problem(1);
    struct tern_store_device device;
    bool found = true;
    char *log = NULL;
    CHECK_OK(tern_store_winner_device(w.s, "h200", &device, &found, failure));
    assert_false(found);
    promote(&w, &w.real, &row, 1);
    refused.outcome = TERN_OUTCOME_COMPILE;
    refused.cubin_hash[0] = 0;
    refused.log = (char[]){"error: x\nmore"};
    CHECK_OK(tern_store_build_put(w.s, &refused, failure));
    for (double us = 10; us < 12; us++) { /* the newer one counts */
        const struct tern_store_baseline b = {"cublaslt-default", "graph/cold", "", us, us, us, 0};
        CHECK_OK(tern_store_baseline_put(w.s, w.real.run, w.real.device, w.real.problem, &b, &us, 1, failure));
    }
    const struct tern_store_baseline composite = {"dequant-e4m3-cublaslt", "graph/cold", "", 13, 13, 13, 0};
    CHECK_OK(tern_store_baseline_put(w.s, w.real.run, w.real.device, w.real.problem, &composite, &composite.us, 1, failure));
    CHECK_OK(tern_store_facts_each(w.s, "h200", see_fact, &seen, failure));
    CHECK_OK(tern_store_refused_each(w.s, "h200", "ternary-g128", "linear-a16", see_refused, &seen, failure));
    CHECK_OK(tern_store_refused_each(w.s, "h200", "ternary-g128", "linear-bf16", see_refused, &seen, failure)); /* none */
    CHECK_OK(tern_store_baselines_each(w.s, "h200", &p, see_baseline, &seen, failure));
    CHECK_OK(tern_store_winner_device(w.s, "h200", &device, &found, failure));
    CHECK_OK(tern_store_build_log(w.s, refused.key, &log, failure));
    assert_true(found);
    assert_string_equal(device.uuid, "GPU-1");
    assert_string_equal(log, "error: x\nmore");
    assert_int_equal(seen.runs, 1);
    assert_int_equal(seen.nvrtc, 1);
    assert_int_equal(seen.builds, 2);
    assert_int_equal(seen.templates, 1);
    assert_int_equal(seen.refused, 1);
    assert_int_equal(seen.baselines, 1);
    assert_true(winner_of(&w, 1).default_us == 11);
    assert_true(winner_of(&w, 1).dequant_e4m3_us == 13);
    free(log);
    world_close(&w);
}

static void test_replacement(void **state) {
    (void)state;
    struct world w;
    world_open(&w);
    struct tern_result both[] = {sample_winner(1, false, 5), sample_winner(2, false, 5)},
                       faster = sample_winner(1, false, 4);
    promote(&w, &w.real, both, 2);
    promote(&w, &w.real, &faster, 1);
    assert_true(winner_of(&w, 1).us == 4);
    assert_true(winner_of(&w, 2).us == 5); /* a run over fewer M leaves the others alone */
    struct tern_result moved = sample_winner(1, false, 3);
    moved.n = 5120; /* the shapes file changed: rows of the old N would answer for the wrong layer */
    promote(&w, &w.real, &moved, 1);
    struct tern_results all = {0};
    CHECK_OK(tern_store_winners(w.s, "h200", NULL, &all, failure));
    assert_int_equal(all.count, 1);
    assert_int_equal(all.rows[0].n, 5120);
    tern_results_free(&all);
    world_close(&w);
}

static void test_planned_never_replaces_measured(void **state) {
    (void)state;
    struct world w;
    world_open(&w);
    struct tern_result planned = sample_winner(1, true, NAN), measured = sample_winner(1, false, 5);
    promote(&w, &w.described, &planned, 1);
    struct tern_result got = winner_of(&w, 1);
    assert_true(got.planned && isnan(got.us) && isnan(got.speedup) && got.predicted_us == 5 && got.limit_us == 2.7);
    promote(&w, &w.real, &planned, 1);
    promote(&w, &w.real, &measured, 1);
    assert_false(winner_of(&w, 1).planned);
    promote(&w, &w.real, &planned, 1);      /* on the same device, */
    promote(&w, &w.described, &planned, 1); /* and from a plan without it */
    got = winner_of(&w, 1);
    assert_false(got.planned);
    assert_true(got.us == 5);
    world_close(&w);
}

/* One bad row, and nothing of the call is kept. */
static void check_refused(struct world *w, const struct rows *on, struct tern_result bad, const char *part) {
    struct tern_result rows[] = {sample_winner(8, bad.planned, 3), bad};
    struct tern_results all = {0};
    struct tern_error err = {0};
    assert_int_equal(tern_store_promote(w->s, on->run, on->device, rows, 2, &err), TERN_INTERNAL);
    if (!strstr(err.text, part))
        fail_msg("\"%s\" lacks \"%s\"", err.text, part);
    CHECK_OK(tern_store_winners(w->s, NULL, NULL, &all, failure));
    assert_int_equal(all.count, 0);
}

static void test_refusals(void **state) {
    (void)state;
    struct world w;
    world_open(&w);
    struct tern_result bad = sample_winner(1, false, 5);
    memset(bad.build_key, 'f', 32);
    check_refused(&w, &w.real, bad, "ffffffffffffffffffffffffffffffff");
    bad = sample_winner(1, true, NAN);
    bad.us = 5; /* a planned row with a time */
    check_refused(&w, &w.real, bad, "CHECK");
    bad = sample_winner(1, true, NAN);
    bad.speedup = 2;
    check_refused(&w, &w.described, bad, "CHECK");
    bad = sample_winner(1, false, NAN); /* a measured row without one */
    check_refused(&w, &w.real, bad, "CHECK");
    bad = sample_winner(1, false, -5);
    check_refused(&w, &w.real, bad, "CHECK");
    bad = sample_winner(1, false, 5);
    bad.us_lo = 6;
    bad.us_hi = 4;
    check_refused(&w, &w.real, bad, "CHECK");
    check_refused(&w, &w.described, sample_winner(1, false, 5), "CHECK"); /* measured on a description */
    world_close(&w);
}

/* A new driver is a new device class: its row answers, the old one stays in the database. */
static void test_newest_class_answers(void **state) {
    (void)state;
    struct world w;
    world_open(&w);
    struct tern_store_device updated = sample_device(true);
    struct tern_result before = sample_winner(1, false, 5), after = sample_winner(1, false, 6);
    struct rows on = w.real;
    strcpy(updated.driver, "590.1");
    CHECK_OK(tern_store_device(w.s, &updated, &on.device, failure));
    promote(&w, &w.real, &before, 1);
    promote(&w, &on, &after, 1);
    assert_true(winner_of(&w, 1).us == 6);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policy_of_its_final),
        cmocka_unit_test(test_what_stands_behind),
        cmocka_unit_test(test_complete_rows),
        cmocka_unit_test(test_replacement),
        cmocka_unit_test(test_planned_never_replaces_measured),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_newest_class_answers),
    };
    return cmocka_run_group_tests_name("store winners", tests, NULL, NULL);
}
