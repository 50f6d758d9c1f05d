/* Tests of result order, selection, table, CSV and JSON. */
#include "output_fixture.h"

#include "output/csv.h"
#include "output/select.h"
#include "output/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

static struct tern_result row_of(const char *format, const char *layer, int64_t n, int64_t k, int64_t m, double us) {
    struct tern_result row = fixture_row(format, layer, n, k, 1, m, 2.0, false);
    row.us = us;
    row.min_m = 1, row.max_m = 1 << 20;
    return row;
}

static void sort_is_layer_order(void **state) {
    static const char *const given[] = {"zeta", "down", "qkv", "gate_up", "alpha", "o"};
    static const char *const expected[] = {"qkv", "o", "gate_up", "down", "zeta", "alpha"};
    struct tern_results list = {0};
    (void)state;
    for (int64_t m = 4; m >= 1; m /= 2)
        for (size_t i = 0; i < 6; i++) {
            struct tern_result row = row_of("ternary-g128", given[i], 64, 64, m, 1.0);
            tern_results_add(&list, &row);
        }
    tern_results_sort(&list);
    assert_int_equal(list.count, 18);
    for (size_t i = 0; i < list.count; i++) {
        assert_string_equal(list.rows[i].layer, expected[i / 3]);
        assert_int_equal(list.rows[i].m, 1 << (i % 3));
    }
    tern_results_free(&list);
    assert_null(list.rows);
}

/* Two shapes: (64, 64) tuned at M = 1 (2 us), 8 (10 us), 64 (12 us); (1024, 64) at M = 1. */
static void small_table(struct tern_results *list) {
    const struct tern_result rows[] = {
        row_of("ternary-g128", "a", 64, 64, 1, 2.0), row_of("ternary-g128", "a", 64, 64, 8, 10.0),
        row_of("ternary-g128", "a", 64, 64, 64, 12.0), row_of("ternary-g128", "b", 1024, 64, 1, 3.0)};
    for (size_t i = 0; i < 4; i++)
        tern_results_add(list, &rows[i]);
}

static void expect(const struct tern_selection_table *table, int64_t m, int64_t n, int64_t k,
                   enum tern_selection_match match, int64_t tuned_m, int64_t tuned_n) {
    enum tern_selection_match got = TERN_SELECTION_EXACT;
    const struct tern_selection_problem problem = {NULL, "ternary-g128", m, n, k};
    const struct tern_result *row = tern_selection_find(table, &problem, NULL, NULL, &got);
    assert_int_equal(got, match);
    if (match == TERN_SELECTION_NONE) {
        assert_null(row);
        return;
    }
    assert_non_null(row);
    assert_int_equal(row->m, tuned_m);
    assert_int_equal(row->n, tuned_n);
}

static void selection_follows_the_rules(void **state) {
    struct tern_results list = {0};
    (void)state;
    small_table(&list);
    struct tern_selection_table table = tern_selection_build(&list);
    assert_int_equal(table.count, 2);
    expect(&table, 1, 64, 64, TERN_SELECTION_EXACT, 1, 64);
    expect(&table, 64, 64, 64, TERN_SELECTION_EXACT, 64, 64);
    expect(&table, 2, 64, 64, TERN_SELECTION_BETWEEN, 1, 64);  /* 2 passes of 2 us beat 10 us */
    expect(&table, 5, 64, 64, TERN_SELECTION_BETWEEN, 8, 64);  /* 5 passes of 2 us do not */
    expect(&table, 9, 64, 64, TERN_SELECTION_BETWEEN, 64, 64); /* 2 passes of 10 us against 12 us */
    expect(&table, 65, 64, 64, TERN_SELECTION_BETWEEN, 64, 64);
    expect(&table, 1, 128, 64, TERN_SELECTION_NEAR, 1, 64);
    expect(&table, 1, 512, 64, TERN_SELECTION_NEAR, 1, 1024);
    expect(&table, 1, 64, 256, TERN_SELECTION_NEAR, 1, 64);      /* exactly 4x is near */
    expect(&table, 1, 64, 288, TERN_SELECTION_DEFAULT, 1, 64);   /* more is not */
    expect(&table, 1, 256, 4096, TERN_SELECTION_DEFAULT, 1, 64); /* 64x in K from both: the first */
    expect(&table, 0, 64, 64, TERN_SELECTION_NONE, 0, 0);
    expect(&table, -1, 64, 64, TERN_SELECTION_NONE, 0, 0);
    expect(&table, 1, 0, 64, TERN_SELECTION_NONE, 0, 0);
    expect(&table, INT64_C(1) << 24, 64, 64, TERN_SELECTION_NONE, 0, 0);
    expect(&table, 1, 68, 64, TERN_SELECTION_NONE, 0, 0); /* N no multiple of 8, K no multiple of 32 */
    expect(&table, 1, 64, 80, TERN_SELECTION_NONE, 0, 0);
    enum tern_selection_match match;
    const struct tern_selection_problem other_format = {NULL, "gptq4-g128", 1, 64, 64},
                                        other_op = {"linear-a8", "ternary-g128", 1, 64, 64};
    assert_null(tern_selection_find(&table, &other_format, NULL, NULL, &match));
    assert_null(tern_selection_find(&table, &other_op, NULL, NULL, &match));
    tern_selection_free(&table);
    tern_results_free(&list);
}

static void selection_obeys_the_range_of_m(void **state) {
    struct tern_results list = {0};
    (void)state;
    small_table(&list);
    list.rows[0].max_m = 4;
    list.rows[1].max_m = 8;
    list.rows[2].min_m = 16, list.rows[2].max_m = 64;
    struct tern_selection_table table = tern_selection_build(&list);
    expect(&table, 9, 64, 64, TERN_SELECTION_NONE, 0, 0);
    expect(&table, 65, 64, 64, TERN_SELECTION_NONE, 0, 0);
    expect(&table, 17, 64, 64, TERN_SELECTION_BETWEEN, 64, 64);
    expect(&table, 7, 64, 64, TERN_SELECTION_BETWEEN, 8, 64);
    tern_selection_free(&table);
    tern_results_free(&list);
}

static void selection_takes_one_source(void **state) {
    struct tern_results list = {0};
    (void)state;
    small_table(&list);
    struct tern_result other = row_of("ternary-g128", "c", 64, 64, 32, 1.0); /* one row of another layer of the same shape */
    tern_results_add(&list, &other);
    struct tern_selection_table table = tern_selection_build(&list);
    assert_int_equal(table.groups[0].count, 3);
    expect(&table, 32, 64, 64, TERN_SELECTION_BETWEEN, 64, 64);
    tern_selection_free(&table);
    tern_results_free(&list);
}

static void cublas_only_where_measured_faster(void **state) {
    struct tern_result row = row_of("ternary-g128", "a", 64, 64, 1, 2.0);
    (void)state;
    row.baseline_us = 1.9;
    assert_true(tern_selection_use_cublas(&row));
    row.baseline_us = 2.0;
    assert_false(tern_selection_use_cublas(&row));
    row.baseline_us = NAN;
    assert_false(tern_selection_use_cublas(&row));
}

/* Of two composites the faster one, and none that was not measured. */
static void composites_only_where_measured_faster(void **state) {
    static const struct {
        double f16, e4m3;
        int use;
    } cases[] = {{2.1, 2.2, 0}, {1.9, 2.2, 1}, {2.2, 1.9, 2}, {1.8, 1.7, 2}, {1.7, 1.8, 1}, {1.7, 1.7, 1},
                 {2.0, 2.0, 0}, {NAN, 1.9, 2}, {NAN, 2.1, 0}, {1.9, NAN, 1}, {2.1, NAN, 0}, {NAN, NAN, 0}};
    struct tern_result row = row_of("ternary-g128", "a", 64, 64, 1, 2.0);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        row.dequant_us = cases[i].f16;
        row.dequant_e4m3_us = cases[i].e4m3;
        assert_int_equal(tern_selection_use_dequant(&row), cases[i].use);
    }
}

static char *table_text(bool planned) {
    struct tern_results list = {0};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    fixture_results(&list, planned);
    tern_str_copy(list.rows[0].template_name, sizeof list.rows[0].template_name, "a_template_with_a_rather_long_name");
    tern_output_table(out, &list);
    fclose(out);
    tern_results_free(&list);
    return text;
}

static size_t longest_line(const char *text) {
    size_t longest = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        longest = length > longest ? length : longest;
        text += length + (text[length] == '\n');
    }
    return longest;
}

static void table_fits_and_names_the_state(void **state) {
    (void)state;
    char *measured = table_text(false), *planned = table_text(true);
    assert_true(longest_line(measured) > 60 && longest_line(measured) <= 80);
    assert_true(longest_line(planned) > 60 && longest_line(planned) <= 80);
    assert_null(strstr(measured, "PLANNED"));
    assert_null(strchr(measured, '~'));
    assert_non_null(strstr(measured, "speed-up"));
    assert_non_null(strstr(planned, "PLANNED"));
    assert_non_null(strstr(planned, "nothing was measured"));
    assert_non_null(strchr(planned, '~'));
    assert_null(strstr(planned, "speed-up"));
    assert_null(strstr(planned, "nan"));
    free(measured);
    free(planned);
}

/* Rows of linear-a8 stand under a heading that says so; those that round scales are marked, and the mark is explained. */
static void table_marks_rounded_scales(void **state) {
    struct tern_results list = {0};
    char *text = NULL;
    size_t length = 0;
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct tern_result row = row_of("ternary-g128", "a", 64, 64, 128 << i, 1.0);
        tern_str_copy(row.op, sizeof row.op, i < 2 ? "linear-a8" : "linear-a16");
        tern_str_copy(row.template_name, sizeof row.template_name, "thirteen_char");
        tern_str_format(row.params, sizeof row.params, "BLOCK_M=128 ROUND_SCALES=%d", i);
        tern_results_add(&list, &row);
    }
    for (int marked = 1; marked >= 0; marked--) {
        FILE *out = open_memstream(&text, &length);
        tern_output_table(out, &list);
        fclose(out);
        assert_int_equal(longest_line(text) <= 80, 1);
        assert_non_null(strstr(text, "linear-a8: activations are quantised"));
        assert_int_equal(strstr(text, "*: group scales are rounded to 7 bits") != NULL, marked);
        assert_int_equal(strstr(text, "thirteen_c..*") != NULL, marked);
        assert_non_null(strstr(text, "thirteen_char "));
        free(text);
        list.rows[1].params[0] = 0;
    }
    tern_results_free(&list);
}

static void csv_has_the_documented_columns(void **state) {
    struct tern_results list = {0};
    struct tern_str text = {0};
    (void)state;
    struct tern_result row = row_of("ternary-g128", "a,\"b\"", 64, 32, 2, 1.25);
    row.us_lo = 1.2, row.us_hi = NAN, row.baseline_us = 2.5, row.speedup = 2.0, row.limit_us = 1.0, row.pct_of_limit = 80.0;
    row.sustained_us = 1.5;
    tern_results_add(&list, &row);
    tern_output_csv_text(&text, &list);
    assert_string_equal(text.data,
                        "format,op,layer,n,k,m,template,params,us,us_lo,us_hi,baseline,baseline_us,speedup,limit_us,"
                        "pct_of_limit,p_best,regret,sustained_us,sustained_speedup,shapes,layer_count,policy\n"
                        "ternary-g128,linear-a16,\"a,\"\"b\"\"\",64,32,2,fake_decode,WARPS=4 ROW_TILES=1 SPLIT_K=2,"
                        "1.25,1.2,,cublaslt-best16,2.5,2,1,80,0.97,0.015,1.5,,qwen7b,1,\n");
    tern_str_free(&text);
    tern_results_free(&list);
}

static json_t *run_json(bool planned) {
    struct tern_results list = {0};
    char *text = NULL;
    size_t length = 0;
    const int64_t outcomes[TERN_OUTCOME_COUNT] = {[TERN_OUTCOME_OK] = 7};
    FILE *out = open_memstream(&text, &length);
    fixture_results(&list, planned);
    tern_str_copy(list.rows[0].layer, sizeof list.rows[0].layer, "qk\"\\v\n");
    list.rows[1].template_name[0] = 0;
    tern_output_run_json(out, "h200", planned, "a\xff.db", &list, outcomes);
    fclose(out);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    tern_results_free(&list);
    return root;
}

static void json_keeps_keys_and_nulls(void **state) {
    (void)state;
    json_t *root = run_json(true);
    assert_non_null(root);
    json_t *first = json_array_get(json_object_get(root, "problems"), 0);
    json_t *second = json_array_get(json_object_get(root, "problems"), 1);
    assert_string_equal(json_string_value(json_object_get(root, "mode")), "planned");
    assert_string_equal(json_string_value(json_object_get(root, "db")), "a?.db");
    assert_string_equal(json_string_value(json_object_get(first, "layer")), "qk\"\\v\n");
    assert_string_equal(json_string_value(json_object_get(first, "status")), "planned");
    assert_true(json_is_null(json_object_get(first, "speedup")));
    assert_true(json_is_null(json_object_get(json_object_get(first, "winner"), "us")));
    assert_true(json_is_null(json_object_get(first, "baseline")));
    assert_string_equal(json_string_value(json_object_get(second, "status")), "none");
    assert_true(json_is_null(json_object_get(second, "winner")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "outcomes"), "ok")), 7);
    assert_int_equal(json_object_size(json_object_get(root, "outcomes")), TERN_OUTCOME_COUNT);
    json_decref(root);
    root = run_json(false);
    first = json_array_get(json_object_get(root, "problems"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "status")), "measured");
    assert_true(json_real_value(json_object_get(json_object_get(first, "winner"), "us")) > 0.0);
    assert_string_equal(json_string_value(json_object_get(json_object_get(first, "baseline"), "name")), "cublaslt-best16");
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sort_is_layer_order),
        cmocka_unit_test(selection_follows_the_rules),
        cmocka_unit_test(selection_obeys_the_range_of_m),
        cmocka_unit_test(selection_takes_one_source),
        cmocka_unit_test(cublas_only_where_measured_faster),
        cmocka_unit_test(composites_only_where_measured_faster),
        cmocka_unit_test(table_fits_and_names_the_state),
        cmocka_unit_test(table_marks_rounded_scales),
        cmocka_unit_test(csv_has_the_documented_columns),
        cmocka_unit_test(json_keeps_keys_and_nulls),
    };
    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
