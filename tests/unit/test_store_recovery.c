/* Unit tests of the store after a dead run: what was running, what waited, quarantine, and checks that come with a trial. */
#include "store_fixture.h"

static struct tern_store *open_write(const struct fixture *f) {
    struct tern_store *s = NULL;
    CHECK_OK(tern_store_open(f->db, TERN_STORE_WRITE, &s, failure));
    return s;
}

static void test_recovery_and_quarantine(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    for (int round = 0; round < 3; round++) {
        struct tern_store *s = open_write(&f);
        struct rows r = sample_rows(s, true);
        struct tern_store_trial t = sample_trial(&r), back;
        int64_t recovered = -1, counts[TERN_OUTCOME_COUNT];
        bool found = true, quarantined = true;
        CHECK_OK(tern_store_recover(s, &recovered, failure));
        assert_int_equal(recovered, round > 0);
        CHECK_OK(tern_store_quarantined(s, r.device, r.problem, r.build, &quarantined, failure));
        assert_int_equal(quarantined, round == 2); /* once interrupted is bad luck, twice is a pattern */
        CHECK_OK(tern_store_quarantined(s, r.device, r.problem, r.build + 1, &quarantined, failure));
        assert_false(quarantined);
        CHECK_OK(tern_store_trial_find(s, r.device, r.problem, r.build, "graph/cold", "screen", &back, &found, failure));
        assert_false(found); /* tried again */
        CHECK_OK(tern_store_recover(s, &recovered, failure));
        assert_int_equal(recovered, 0);
        if (round > 0) {
            CHECK_OK(tern_store_outcomes(s, r.run - 1, counts, failure));
            assert_int_equal(counts[TERN_OUTCOME_CRASH], 1);
            assert_int_equal(counts[TERN_OUTCOME_RUNNING], 0);
        }
        CHECK_OK(tern_store_trial_begin(s, &t, failure)); /* left running */
        tern_store_close(s);
    }
    fixture_close(&f);
}

/* A device that is lost in a run takes its own running trials along, and only those; the class counts as one. */
static void test_recovery_of_one_device(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct tern_store *s = open_write(&f);
    struct rows r = sample_rows(s, true);
    struct tern_store_trial lost = sample_trial(&r), other = sample_trial(&r);
    int64_t recovered = -1, counts[TERN_OUTCOME_COUNT];
    bool quarantined = true;
    other.device = sample_peer(s);
    CHECK_OK(tern_store_trial_begin(s, &lost, failure));
    CHECK_OK(tern_store_trial_begin(s, &other, failure));
    CHECK_OK(tern_store_recover_device(s, r.device, &recovered, failure));
    assert_int_equal(recovered, 1);
    CHECK_OK(tern_store_outcomes(s, r.run, counts, failure));
    assert_int_equal(counts[TERN_OUTCOME_RUNNING], 1);
    CHECK_OK(tern_store_quarantined(s, r.device, r.problem, r.build, &quarantined, failure));
    assert_false(quarantined);
    CHECK_OK(tern_store_recover_device(s, other.device, &recovered, failure)); /* a second device fell over the same build */
    assert_int_equal(recovered, 1);
    CHECK_OK(tern_store_quarantined(s, r.device, r.problem, r.build, &quarantined, failure));
    assert_true(quarantined);
    tern_store_close(s);
    fixture_close(&f);
}

/* One candidate on the device, the next one journalled already: a dead run leaves one crash, and of the other no trace. */
static void test_waiting_trials(void **state) {
    (void)state;
    struct fixture f;
    struct tern_store *s;
    int64_t recovered, counts[TERN_OUTCOME_COUNT];
    bool found = false;
    fixture_open(&f);
    CHECK_OK(tern_store_open(f.db, TERN_STORE_WRITE, &s, failure));
    struct rows r = sample_rows(s, true);
    struct tern_store_trial now = sample_trial(&r), next = sample_trial(&r), check = sample_trial(&r), back;
    strcpy(now.stage, "screen");
    strcpy(next.stage, "screen");
    CHECK_OK(tern_store_trial_begin(s, &now, failure));
    CHECK_OK(tern_store_trial_begin(s, &next, failure));
    CHECK_OK(tern_store_trial_withdraw(s, &next, failure)); /* Ctrl-C before it was sent */
    CHECK_OK(tern_store_trial_begin(s, &next, failure));
    CHECK_OK(tern_store_recover(s, &recovered, failure));
    assert_int_equal(recovered, 1);
    CHECK_OK(tern_store_outcomes(s, r.run, counts, failure));
    assert_int_equal(counts[TERN_OUTCOME_CRASH], 1);
    assert_int_equal(counts[TERN_OUTCOME_RUNNING], 0);

    /* The check that came with a trial is a row of its own, found by build whatever problem it was made on. */
    CHECK_OK(tern_store_trial_begin(s, &now, failure));
    now.outcome = TERN_OUTCOME_OK;
    now.us = now.us_lo = now.us_hi = 5;
    strcpy(check.stage, "verify");
    strcpy(check.policy, "small");
    check.outcome = TERN_OUTCOME_OK;
    check.predicted_us = check.us = check.us_lo = check.us_hi = (double)NAN;
    check.gpu_seconds = 0.01;
    CHECK_OK(tern_store_trial_finish_checked(s, &check, &now, NULL, 0, failure));
    CHECK_OK(tern_store_trial_find(s, r.device, TERN_STORE_ANY_PROBLEM, r.build, "small", "verify", &back, &found, failure));
    assert_true(found && back.outcome == TERN_OUTCOME_OK && back.gpu_seconds == 0.01);
    CHECK_OK(tern_store_trial_find(s, r.device, r.problem, r.build, now.policy, "screen", &back, &found, failure));
    assert_true(found && back.us == 5);
    CHECK_OK(tern_store_trial_find(s, r.device, r.problem + 1, r.build, "small", "verify", &back, &found, failure));
    assert_false(found);
    tern_store_close(s);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recovery_and_quarantine),
        cmocka_unit_test(test_recovery_of_one_device),
        cmocka_unit_test(test_waiting_trials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
