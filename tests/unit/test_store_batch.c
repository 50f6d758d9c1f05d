/* Batches of the store: everything between begin and end is kept, or nothing is. */
#include "store_fixture.h"

/* Begins a trial of its own, then finishes it inside a batch that ends with `status`. */
static void finish_in_batch(const char *path, enum tern_status status) {
    struct tern_store *s;
    CHECK_OK(tern_store_open(path, TERN_STORE_WRITE, &s, failure));
    struct rows rows = sample_rows(s, true);
    struct tern_store_trial t = sample_trial(&rows);
    struct tern_store_build other = sample_build(2);
    CHECK_OK(tern_store_trial_begin(s, &t, failure));
    CHECK_OK(tern_store_batch_begin(s, failure));
    t.outcome = TERN_OUTCOME_WRONG;
    CHECK_OK(tern_store_trial_finish(s, &t, NULL, 0, failure));
    CHECK_OK(tern_store_build_put(s, &other, failure)); /* has a transaction of its own elsewhere */
    assert_int_equal(tern_store_batch_end(s, status, NULL), status);
    tern_store_close(s);
}

/* Finished wrong trials and builds as another process would see them. */
static void expect(const char *path, int64_t wrong, bool second_build) {
    struct tern_store *s;
    struct tern_store_build b;
    int64_t counts[TERN_OUTCOME_COUNT];
    bool found;
    CHECK_OK(tern_store_open(path, TERN_STORE_READ, &s, failure));
    CHECK_OK(tern_store_outcomes(s, 1, counts, failure));
    assert_int_equal(counts[TERN_OUTCOME_WRONG], wrong);
    assert_int_equal(counts[TERN_OUTCOME_RUNNING], 1 - wrong);
    CHECK_OK(tern_store_build_find(s, sample_build(2).key, &b, &found, failure));
    assert_int_equal(found, second_build);
    tern_store_close(s);
}

static void a_good_batch_is_kept(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    finish_in_batch(f.db, TERN_OK);
    expect(f.db, 1, true);
    fixture_close(&f);
}

static void a_failed_batch_leaves_nothing(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    finish_in_batch(f.db, TERN_FAILED);
    expect(f.db, 0, false);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_batch_is_kept),
        cmocka_unit_test(a_failed_batch_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
