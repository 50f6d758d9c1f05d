/* Tests of the comparison of two sets of results, and of reading winners.csv back. All numbers are invented. */
#include "output_fixture.h"

#include "output/compare.h"
#include "output/csv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

static double two_percent(void *user, const struct tern_result *a, const struct tern_result *b) {
    (void)user, (void)a, (void)b;
    return 0.02;
}

static void compare(const struct tern_results *a, const struct tern_results *b, struct tern_compare *out) {
    memset(out, 0, sizeof *out);
    tern_compare(a, b, two_percent, NULL, out);
}

static void scale(struct tern_result *row, double by) {
    row->us *= by, row->us_lo *= by, row->us_hi *= by;
}

static void same_data_is_the_same(void **state) {
    struct tern_results a = {0}, b = {0};
    struct tern_compare c;
    (void)state;
    fixture_results(&a, false), fixture_results(&b, false);
    compare(&a, &b, &c);
    assert_int_equal(c.count, 112);
    assert_int_equal(c.counts[TERN_COMPARE_SAME], 112);
    assert_int_equal(tern_compare_failed(&c), 0);
    assert_true(fabs(c.mean_ratio - 1) < 1e-12);
    tern_compare_free(&c), tern_results_free(&a), tern_results_free(&b);
}

/* Of every row on its own, so that no row is blind. */
static void a_planted_slow_down_is_found(void **state) {
    struct tern_results a = {0}, b = {0};
    (void)state;
    fixture_results(&a, false), fixture_results(&b, false);
    for (size_t i = 0; i < b.count; i++) {
        struct tern_compare c;
        const struct tern_result kept = b.rows[i];
        scale(&b.rows[i], 1.05);
        compare(&a, &b, &c);
        assert_int_equal(c.counts[TERN_COMPARE_SLOWER], 1);
        assert_int_equal(c.counts[TERN_COMPARE_SAME], 111);
        assert_ptr_equal(c.rows[i].b, &b.rows[i]);
        assert_int_equal(c.rows[i].verdict, TERN_COMPARE_SLOWER);
        assert_true(c.rows[i].lo > 1.02 && c.rows[i].lo < c.rows[i].ratio && c.rows[i].ratio < c.rows[i].hi);
        tern_compare_free(&c);
        compare(&b, &a, &c); /* the other way round it is faster */
        assert_int_equal(c.counts[TERN_COMPARE_FASTER], 1);
        assert_int_equal(tern_compare_failed(&c), 0);
        tern_compare_free(&c);
        b.rows[i] = kept;
    }
    tern_results_free(&a), tern_results_free(&b);
}

static enum tern_compare_verdict verdict_of(struct tern_result x, struct tern_result y) {
    const struct tern_results a = {&x, 1, 1}, b = {&y, 1, 1};
    struct tern_compare c;
    compare(&a, &b, &c);
    assert_int_equal(c.count, 1);
    enum tern_compare_verdict verdict = c.rows[0].verdict;
    assert_int_equal(tern_compare_judged(&c), verdict <= TERN_COMPARE_AMBIGUOUS);
    tern_compare_free(&c);
    return verdict;
}

static void verdicts_follow_the_intervals(void **state) {
    struct tern_result a = fixture_row("ternary-g128", "o", 64, 64, 1, 1, 2.0, false), b = a;
    (void)state;
    b.us_hi = b.us * 1.05;
    assert_int_equal(verdict_of(a, b), TERN_COMPARE_AMBIGUOUS);
    b = a, b.us_lo = NAN;
    assert_int_equal(verdict_of(a, b), TERN_COMPARE_AMBIGUOUS);
    b = a, scale(&b, 2.0), b.us_lo = b.us_hi = NAN; /* no interval, no claim */
    assert_int_equal(verdict_of(a, b), TERN_COMPARE_AMBIGUOUS);
    b = a, tern_str_copy(b.policy, sizeof b.policy, "graph/cold"); /* unknown in a */
    assert_int_equal(verdict_of(a, b), TERN_COMPARE_SAME);
    tern_str_copy(a.policy, sizeof a.policy, "graph/cold/cool");
    assert_int_equal(verdict_of(a, b), TERN_COMPARE_OTHER_POLICY);
    b = a, tern_str_copy(b.gpu, sizeof b.gpu, "a100");
    assert_int_equal(verdict_of(a, b), TERN_COMPARE_OTHER_DEVICE);
    b = a, tern_str_copy(a.device, sizeof a.device, "one"), tern_str_copy(b.device, sizeof b.device, "two");
    assert_int_equal(verdict_of(a, b), TERN_COMPARE_OTHER_DEVICE);
    b = a, b.planned = true, b.us = NAN;
    assert_int_equal(verdict_of(a, b), TERN_COMPARE_MISSING);
    assert_int_equal(verdict_of(b, a), TERN_COMPARE_NEW);
    b = a, b.shapes[0] = 0;
    assert_int_equal(verdict_of(a, b), TERN_COMPARE_SAME);
}

static void missing_rows_fail(void **state) {
    struct tern_results a = {0}, b = {0};
    struct tern_compare c;
    (void)state;
    fixture_results(&a, false), fixture_results(&b, false);
    b.count--;
    compare(&a, &b, &c);
    assert_int_equal(c.counts[TERN_COMPARE_MISSING], 1);
    assert_int_equal(tern_compare_failed(&c), 1);
    tern_compare_free(&c);
    compare(&b, &a, &c);
    assert_int_equal(c.counts[TERN_COMPARE_NEW], 1);
    assert_int_equal(tern_compare_failed(&c), 0);
    tern_compare_free(&c), tern_results_free(&a), tern_results_free(&b);
}

/* Another op is another problem, whatever else agrees. */
static void an_a8_row_is_no_a16_row(void **state) {
    struct tern_result rows[2] = {fixture_row("ternary-g128", "o", 64, 64, 1, 128, 2.0, false)};
    struct tern_results a = {rows, 1, 1}, b = {rows + 1, 1, 1};
    struct tern_compare c;
    (void)state;
    rows[1] = rows[0];
    tern_str_copy(rows[1].op, sizeof rows[1].op, "linear-a8");
    compare(&a, &b, &c);
    assert_int_equal(c.counts[TERN_COMPARE_MISSING], 1);
    assert_int_equal(c.counts[TERN_COMPARE_NEW], 1);
    assert_int_equal(tern_compare_judged(&c), 0);
    tern_compare_free(&c);
    compare(&b, &b, &c);
    assert_int_equal(c.counts[TERN_COMPARE_SAME], 1);
    tern_compare_free(&c);
}

static void printed_forms_agree(void **state) {
    struct tern_results a = {0}, b = {0};
    struct tern_compare c;
    char *table = NULL, *text = NULL;
    size_t length = 0;
    (void)state;
    fixture_results(&a, false), fixture_results(&b, false);
    scale(&b.rows[3], 1.05);
    tern_str_copy(b.rows[4].policy, sizeof b.rows[4].policy, "x"), tern_str_copy(a.rows[4].policy, 8, "y");
    compare(&a, &b, &c);
    FILE *out = open_memstream(&table, &length);
    tern_compare_table(out, &c, true);
    fclose(out);
    assert_non_null(strstr(table, "slower"));
    assert_non_null(strstr(table, "112 problems: 1 slower, 110 same, 1 other policy."));
    assert_non_null(strstr(table, "Not compared: rows timed under policy y in A and x in B."));
    assert_null(strstr(table, "nan"));
    for (const char *line = table; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        assert_true(strcspn(line, "\n") <= 80);
    out = open_memstream(&text, &length);
    tern_compare_json(out, &c);
    fclose(out);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_int_equal(json_array_size(json_object_get(root, "problems")), 112);
    assert_true(json_is_false(json_object_get(root, "passed")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "counts"), "slower")), 1);
    json_decref(root);
    free(table), free(text), tern_compare_free(&c), tern_results_free(&a), tern_results_free(&b);
}

/* Writes `text`, reads it as winners.csv. */
static enum tern_status read_text(const char *text, struct tern_results *rows, struct tern_strs *missing,
                                  struct tern_error *err) {
    char path[] = "/tmp/test_compareXXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    enum tern_status status = tern_csv_read(path, rows, missing, err);
    unlink(path);
    return status;
}

static void csv_comes_back(void **state) {
    struct tern_results rows = {0}, back = {0};
    struct tern_str text = {0}, again = {0};
    struct tern_strs missing = {0};
    (void)state;
    fixture_results(&rows, false);
    tern_str_copy(rows.rows[5].layer, sizeof rows.rows[5].layer, "a,\"b\"\nc");
    tern_output_csv_text(&text, &rows);
    assert_int_equal(read_text(text.data, &back, &missing, NULL), TERN_OK);
    assert_int_equal(back.count, 112);
    assert_int_equal(missing.count, 0);
    tern_output_csv_text(&again, &back);
    assert_string_equal(text.data, again.data);
    tern_str_free(&text), tern_str_free(&again), tern_results_free(&rows), tern_results_free(&back);
}

static void older_csv_is_read(void **state) {
    struct tern_results rows = {0};
    struct tern_strs missing = {0};
    struct tern_error err = {0};
    (void)state;
    assert_int_equal(read_text("m,us,format,op,layer,n,k,else\r\n4,1.5,f,linear-a16,o,64,32,x\r\n8,,f,linear-a16,o,64,32,",
                               &rows, &missing, &err),
                     TERN_OK);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.rows[0].m, 4);
    assert_true(rows.rows[0].us == 1.5 && isnan(rows.rows[0].us_lo) && !rows.rows[0].planned && rows.rows[1].planned);
    assert_true(missing.count > 10);
    tern_strs_free(&missing), tern_results_free(&rows);
    static const char *const damaged[] = {"", "format,op\n", "format,op,layer,n,k,m,us\nf,o,l,1,2,3\n",
                                          "format,op,layer,n,k,m,us\nf,o,l,1,2,x,1\n",
                                          "format,op,layer,n,k,m,us\nf,o,\"l,1,2,3,1\n"};
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        assert_int_equal(read_text(damaged[i], &rows, NULL, &err), TERN_INTERNAL);
        assert_non_null(strstr(err.text, "row "));
        tern_results_free(&rows);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_data_is_the_same),
        cmocka_unit_test(a_planted_slow_down_is_found),
        cmocka_unit_test(verdicts_follow_the_intervals),
        cmocka_unit_test(missing_rows_fail),
        cmocka_unit_test(an_a8_row_is_no_a16_row),
        cmocka_unit_test(printed_forms_agree),
        cmocka_unit_test(csv_comes_back),
        cmocka_unit_test(older_csv_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
