/* Unit tests of the store: identities, builds, journalled trials, recovery, baselines, promotion, and what it must refuse.
 */
#include "store_fixture.h"

#include <sqlite3.h>

static struct tern_store *open_write(const struct fixture *f) {
    struct tern_store *s = NULL;
    CHECK_OK(tern_store_open(f->db, TERN_STORE_WRITE, &s, failure));
    return s;
}

static void test_identities(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct tern_store *s = open_write(&f);
    struct rows r = sample_rows(s, true), again;
    again = sample_rows(s, true);
    assert_int_equal(again.device, r.device);
    assert_int_equal(again.problem, r.problem);
    assert_int_equal(again.build, r.build);
    assert_int_not_equal(again.run, r.run);
    assert_int_not_equal(sample_rows(s, false).device, r.device);
    CHECK_OK(tern_store_run_end(s, r.run, 0, failure));
    assert_int_equal(tern_store_run_end(s, 999, 0, NULL), TERN_INTERNAL);
    tern_store_close(s);
    s = open_write(&f); /* and after reopening */
    assert_int_equal(sample_rows(s, true).device, r.device);
    tern_store_close(s);
    fixture_close(&f);
}

static void test_builds(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct tern_store *s = open_write(&f);
    struct tern_store_build b = sample_build(3), back;
    bool found = true;
    CHECK_OK(tern_store_build_find(s, b.key, &back, &found, failure));
    assert_false(found);
    CHECK_OK(tern_store_build_put(s, &b, failure));
    CHECK_OK(tern_store_build_find(s, b.key, &back, &found, failure));
    assert_true(found);
    assert_memory_equal(&back, &b, sizeof b);
    struct tern_store_build refused = sample_build(4);
    refused.outcome = TERN_OUTCOME_COMPILE;
    refused.cubin_hash[0] = '\0';
    refused.log = (char *)"kernel.cu(3): error";
    CHECK_OK(tern_store_build_put(s, &refused, failure));
    CHECK_OK(tern_store_build_find(s, refused.key, &back, &found, failure));
    assert_int_equal(back.outcome, TERN_OUTCOME_COMPILE);
    assert_null(back.log);
    refused.outcome = TERN_OUTCOME_OK; /* ok without a cubin cannot be */
    assert_int_equal(tern_store_build_put(s, &refused, NULL), TERN_INTERNAL);
    CHECK_OK(tern_store_build_find(s, refused.key, &back, &found, failure));
    assert_int_equal(back.outcome, TERN_OUTCOME_COMPILE);
    tern_store_close(s);
    fixture_close(&f);
}

static void test_trial_and_resume(void **state) {
    (void)state;
    static const double samples[] = {5.0, 5.5, 4.5};
    struct fixture f;
    fixture_open(&f);
    struct tern_store *s = open_write(&f);
    struct rows r = sample_rows(s, true);
    struct tern_store_trial t = sample_trial(&r), back;
    bool found = true;
    CHECK_OK(tern_store_trial_begin(s, &t, failure));
    CHECK_OK(tern_store_trial_find(s, r.device, r.problem, r.build, "graph/cold", "screen", &back, &found, failure));
    assert_false(found); /* running is not finished */
    t.outcome = TERN_OUTCOME_OK;
    t.us = 5.0;
    t.us_lo = 4.9;
    t.us_hi = 5.1;
    t.sm_mhz = 1980;
    t.gpu_seconds = 0.125;
    t.sample_count = 3;
    strcpy(t.detail, "fine");
    CHECK_OK(tern_store_trial_finish(s, &t, samples, 3, failure));
    CHECK_OK(tern_store_trial_find(s, r.device, r.problem, r.build, "graph/cold", "screen", &back, &found, failure));
    assert_true(found);
    assert_memory_equal(&back, &t, sizeof t);
    CHECK_OK(tern_store_trial_find(s, r.device, r.problem, r.build, "eager/cold", "screen", &back, &found, failure));
    assert_false(found);
    CHECK_OK(tern_store_trial_find(s, r.device, r.problem, r.build, "graph/cold", "final", &back, &found, failure));
    assert_false(found);
    assert_int_equal(tern_store_trial_finish(s, &t, samples, 3, NULL), TERN_INTERNAL); /* finished once only */
    int64_t counts[TERN_OUTCOME_COUNT];
    CHECK_OK(tern_store_outcomes(s, r.run, counts, failure));
    for (int i = 0; i < TERN_OUTCOME_COUNT; i++)
        assert_int_equal(counts[i], i == TERN_OUTCOME_OK);
    tern_store_close(s);
    fixture_close(&f);
}

/* Another card of the same kind and a build with the same machine code share rows; another driver shares no failure. */
static void test_peers(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct tern_store *s = open_write(&f);
    struct rows r = sample_rows(s, true);
    struct tern_store_trial t = sample_trial(&r), back;
    struct tern_store_device twin = sample_device(true), updated = sample_device(true);
    struct tern_store_build same = sample_build(1), other = sample_build(1);
    int64_t twin_id, updated_id;
    bool found;
    strcpy(twin.uuid, "GPU-2");
    strcpy(updated.driver, "590.1");
    strcpy(same.nvrtc, "13.1");
    memset(same.key, 'a', 32);
    strcpy(other.nvrtc, "13.2");
    memset(other.key, 'b', 32);
    memset(other.cubin_hash, 'd', 32);
    CHECK_OK(tern_store_device(s, &twin, &twin_id, failure));
    CHECK_OK(tern_store_device(s, &updated, &updated_id, failure));
    CHECK_OK(tern_store_build_put(s, &same, failure));
    CHECK_OK(tern_store_build_put(s, &other, failure));
    CHECK_OK(tern_store_trial_begin(s, &t, failure));
    t.outcome = TERN_OUTCOME_WRONG;
    CHECK_OK(tern_store_trial_finish(s, &t, NULL, 0, failure));
    CHECK_OK(tern_store_trial_find(s, twin_id, r.problem, same.id, "graph/cold", "screen", &back, &found, failure));
    assert_true(found);
    assert_int_equal(back.id, t.id);
    CHECK_OK(tern_store_trial_find(s, updated_id, r.problem, r.build, "graph/cold", "screen", &back, &found, failure));
    assert_false(found);
    CHECK_OK(tern_store_trial_find(s, r.device, r.problem, other.id, "graph/cold", "screen", &back, &found, failure));
    assert_false(found);
    tern_store_close(s);
    fixture_close(&f);
}

static int64_t finished_trial(struct tern_store *s, const struct rows *r, enum tern_outcome outcome) {
    struct tern_store_trial t = sample_trial(r);
    CHECK_OK(tern_store_trial_begin(s, &t, failure));
    t.outcome = outcome;
    CHECK_OK(tern_store_trial_finish(s, &t, NULL, 0, failure));
    return t.id;
}

/* Id of the trial that answers on a device; 0: none. */
static int64_t answer(struct tern_store *s, int64_t device, const struct rows *r) {
    struct tern_store_trial t;
    bool found;
    CHECK_OK(tern_store_trial_find(s, device, r->problem, r->build, "graph/cold", "screen", &t, &found, failure));
    return found ? t.id : 0;
}

/* What ran right keeps its row under a new driver, as its machine code is the same; what failed is tried again; a row of the
 * device's own class goes first; recordings have their identity in the driver's place. */
static void test_new_driver(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct tern_store *s = open_write(&f);
    struct rows r = sample_rows(s, true);
    struct tern_store_device updated = sample_device(true), other = sample_device(true), replay = sample_device(true), back;
    int64_t updated_id, other_id, replay_id;
    bool quarantined = true;
    strcpy(updated.driver, "590.1");
    strcpy(other.driver, "590.1");
    strcpy(other.name, "NVIDIA H200 NVL");
    strcpy(replay.driver, "590.1 recording 0123");
    strcpy(replay.gpu, "h200-replay");
    CHECK_OK(tern_store_device(s, &updated, &updated_id, failure));
    CHECK_OK(tern_store_device(s, &other, &other_id, failure));
    CHECK_OK(tern_store_device_get(s, updated_id, &back, failure));
    assert_memory_equal(&back, &updated, sizeof back);
    assert_int_equal(tern_store_device_get(s, 999, &back, NULL), TERN_INTERNAL);
    int64_t ok = finished_trial(s, &r, TERN_OUTCOME_OK);
    assert_int_equal(answer(s, updated_id, &r), ok);
    assert_int_equal(answer(s, other_id, &r), 0);
    finished_trial(s, &r, TERN_OUTCOME_CRASH);
    finished_trial(s, &r, TERN_OUTCOME_CRASH);
    assert_int_equal(answer(s, updated_id, &r), ok);
    int64_t recovered;
    CHECK_OK(tern_store_recover(s, &recovered, failure)); /* two crashes: quarantine, on this driver */
    CHECK_OK(tern_store_quarantined(s, updated_id, r.problem, r.build, &quarantined, failure));
    assert_false(quarantined);
    struct rows on_updated = r;
    on_updated.device = updated_id;
    int64_t own = finished_trial(s, &on_updated, TERN_OUTCOME_WRONG);
    finished_trial(s, &r, TERN_OUTCOME_OK);
    assert_int_equal(answer(s, updated_id, &r), own);
    CHECK_OK(tern_store_device(s, &replay, &replay_id, failure));
    r.device = replay_id;
    struct tern_store_build b = sample_build(2);
    CHECK_OK(tern_store_build_put(s, &b, failure));
    r.build = b.id;
    finished_trial(s, &r, TERN_OUTCOME_OK);
    strcpy(replay.driver, "590.1 recording 4567");
    CHECK_OK(tern_store_device(s, &replay, &replay_id, failure));
    assert_int_equal(answer(s, replay_id, &r), 0);
    tern_store_close(s);
    fixture_close(&f);
}

static bool outdated(struct tern_store *s, const struct rows *r, const char *template_name, const char *hash) {
    bool value;
    CHECK_OK(tern_store_template_outdated(s, r->device, r->problem, template_name, hash, &value, failure));
    return value;
}

static void test_edited_template(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct tern_store *s = open_write(&f);
    struct rows r = sample_rows(s, true);
    struct tern_store_build b = sample_build(1), edited = sample_build(2);
    strcpy(edited.template_hash, "another");
    CHECK_OK(tern_store_build_put(s, &edited, failure));
    assert_false(outdated(s, &r, b.template_name, edited.template_hash)); /* never tried */
    finished_trial(s, &r, TERN_OUTCOME_OK);
    assert_false(outdated(s, &r, b.template_name, b.template_hash));
    assert_true(outdated(s, &r, b.template_name, edited.template_hash));
    assert_false(outdated(s, &r, "mma-decode", edited.template_hash));
    r.build = edited.id;
    finished_trial(s, &r, TERN_OUTCOME_WRONG);
    assert_false(outdated(s, &r, b.template_name, edited.template_hash)); /* tried */
    tern_store_close(s);
    fixture_close(&f);
}

/* Nothing may hold a time that no GPU produced. */
static void test_no_time_without_a_device(void **state) {
    (void)state;
    static const double samples[] = {5.0};
    struct fixture f;
    fixture_open(&f);
    struct tern_store *s = open_write(&f);
    struct rows planned = sample_rows(s, false), real = sample_rows(s, true);
    struct tern_store_trial t = sample_trial(&planned);
    struct tern_error err = {0};
    CHECK_OK(tern_store_trial_begin(s, &t, failure));
    t.outcome = TERN_OUTCOME_OK;
    t.us = 5.0;
    assert_int_equal(tern_store_trial_finish(s, &t, NULL, 0, &err), TERN_INTERNAL);
    assert_non_null(strstr(err.text, "CHECK"));
    t.us = NAN;
    assert_int_equal(tern_store_trial_finish(s, &t, samples, 1, NULL), TERN_INTERNAL); /* samples are times too */
    t.gpu_seconds = 0.5;
    assert_int_equal(tern_store_trial_finish(s, &t, NULL, 0, NULL), TERN_INTERNAL); /* and seconds of device work */
    t.gpu_seconds = 0;                                                              /* none */
    t.outcome = TERN_OUTCOME_PLANNED;
    CHECK_OK(tern_store_trial_finish(s, &t, NULL, 0, failure));
    t = sample_trial(&real); /* planned never has a time, even where there is a device */
    CHECK_OK(tern_store_trial_begin(s, &t, failure));
    t.outcome = TERN_OUTCOME_PLANNED;
    t.us = 5.0;
    assert_int_equal(tern_store_trial_finish(s, &t, NULL, 0, NULL), TERN_INTERNAL);
    t.us = NAN;
    t.gpu_seconds = 0.5;
    assert_int_equal(tern_store_trial_finish(s, &t, NULL, 0, NULL), TERN_INTERNAL);
    t.outcome = TERN_OUTCOME_OK;
    t.us = -1;
    assert_int_equal(tern_store_trial_finish(s, &t, NULL, 0, NULL), TERN_INTERNAL);
    struct tern_store_baseline b = {"cublaslt-default", "graph/cold", "", 11, 10.9, 11.1, 1980};
    assert_int_equal(tern_store_baseline_put(s, planned.run, planned.device, planned.problem, &b, samples, 1, NULL),
                     TERN_INTERNAL);
    t.device = 999; /* foreign keys */
    assert_int_equal(tern_store_trial_begin(s, &t, NULL), TERN_INTERNAL);
    t = sample_trial(&real);
    t.build = 999;
    assert_int_equal(tern_store_trial_begin(s, &t, NULL), TERN_INTERNAL);
    tern_store_close(s);
    fixture_close(&f);
}

/* Direct SQL cannot lie about `real` either: it is tied to the device by a foreign key. */
static void test_constraints_hold_for_plain_sql(void **state) {
    (void)state;
    static const char *const lies[] = {
        "INSERT INTO trial (run, device, real, problem, build, policy, stage, outcome, detail, us, started, finished)"
        " VALUES (1, 1, 1, 1, 1, '', '', 'ok', '', 5.0, '', '')",
        "INSERT INTO trial (run, device, real, problem, build, policy, stage, outcome, detail, started, finished)"
        " VALUES (1, 1, 0, 1, 1, '', '', 'excellent', '', '', '')",
        "INSERT INTO trial (run, device, real, problem, build, policy, stage, outcome, detail, started, finished)"
        " VALUES (1, 1, 0, 1, 1, '', '', NULL, '', '', '')",
        "UPDATE device SET real = 2",
        "UPDATE device SET sms = 'many'",
        "INSERT INTO ceiling (run, device, real, kind, argument, value, unit, sample_count, sm_mhz, finished)"
        " VALUES (1, 1, 0, 'read', 1, 1, 'us', 0, 0, '')",
    };
    struct fixture f;
    fixture_open(&f);
    struct tern_store *s = open_write(&f);
    struct rows r = sample_rows(s, false);
    assert_int_equal(r.device + r.run + r.problem + r.build, 4); /* the 1s above */
    tern_store_close(s);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(f.db, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA foreign_keys = ON", NULL, NULL, NULL), SQLITE_OK);
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        int code = sqlite3_exec(db, lies[i], NULL, NULL, NULL);
        if (code != SQLITE_CONSTRAINT)
            fail_msg("%s: %d %s", lies[i], code, sqlite3_errmsg(db));
    }
    sqlite3_close(db);
    fixture_close(&f);
}

static void test_baselines(void **state) {
    (void)state;
    static const double samples[] = {11, 11.5};
    struct fixture f;
    fixture_open(&f);
    struct tern_store *s = open_write(&f);
    struct rows r = sample_rows(s, true);
    struct tern_store_baseline b = {"cublaslt-best16", "graph/cold", "algo 7", 11, 10.9, 11.1, 1980}, back;
    bool found = true;
    CHECK_OK(tern_store_baseline_find(s, r.device, r.problem, b.kind, b.policy, &back, &found, failure));
    assert_false(found);
    CHECK_OK(tern_store_baseline_put(s, r.run, r.device, r.problem, &b, samples, 2, failure));
    b.us = 10.95;
    CHECK_OK(tern_store_baseline_put(s, r.run, r.device, r.problem, &b, samples, 2, failure));
    CHECK_OK(tern_store_baseline_find(s, r.device, r.problem, b.kind, b.policy, &back, &found, failure));
    assert_true(found);
    assert_true(back.us == 10.95 && back.us_lo == 10.9 && back.us_hi == 11.1 && back.sm_mhz == 1980);
    assert_string_equal(back.detail, "algo 7");
    CHECK_OK(tern_store_baseline_find(s, r.device, r.problem, "cublaslt-default", b.policy, &back, &found, failure));
    assert_false(found);
    tern_store_close(s);
    fixture_close(&f);
}

static int count_trials(void *user, const struct tern_store_trial *t, const struct tern_store_build *b) {
    int *count = user;
    assert_int_equal(t->build, b->id);
    assert_string_equal(b->params, "STAGES=1");
    return ++*count == 2;
}

static void test_trials_each(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct tern_store *s = open_write(&f);
    struct rows r = sample_rows(s, true);
    struct tern_store_problem p = sample_problem(1), none = sample_problem(2);
    int count = 0;
    for (int i = 0; i < 3; i++) {
        struct tern_store_trial t = sample_trial(&r);
        CHECK_OK(tern_store_trial_begin(s, &t, failure));
    }
    CHECK_OK(tern_store_trials_each(s, "h200", &p, count_trials, &count, failure));
    assert_int_equal(count, 2); /* stopped by the callback */
    CHECK_OK(tern_store_trials_each(s, "h200", &none, count_trials, &count, failure));
    CHECK_OK(tern_store_trials_each(s, "a100-80", &p, count_trials, &count, failure));
    assert_int_equal(count, 2);
    tern_store_close(s);
    fixture_close(&f);
}

static void test_control_times(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct tern_store *s = open_write(&f);
    struct rows r = sample_rows(s, true), planned = sample_rows(s, false);
    CHECK_OK(tern_store_control_put(s, r.run, r.device, 9.5, 400, true, failure));
    CHECK_OK(tern_store_control_put(s, r.run, sample_peer(s), 10.5, 0, false, failure));
    assert_int_equal(tern_store_control_put(s, r.run, r.device, 9.5, 400, true, NULL), TERN_INTERNAL); /* once a run */
    assert_int_equal(tern_store_control_put(s, planned.run, planned.device, 9.5, 400, true, NULL), TERN_INTERNAL);
    assert_int_equal(tern_store_control_put(s, planned.run, r.device, 0, 400, true, NULL), TERN_INTERNAL);
    assert_int_equal(tern_store_control_put(s, planned.run, r.device, NAN, 400, true, NULL), TERN_INTERNAL);
    tern_store_close(s);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identities),
        cmocka_unit_test(test_builds),
        cmocka_unit_test(test_trial_and_resume),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_new_driver),
        cmocka_unit_test(test_edited_template),
        cmocka_unit_test(test_no_time_without_a_device),
        cmocka_unit_test(test_constraints_hold_for_plain_sql),
        cmocka_unit_test(test_control_times),
        cmocka_unit_test(test_baselines),
        cmocka_unit_test(test_trials_each),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
