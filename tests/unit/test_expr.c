/* Unit tests of the launch arithmetic: values, errors with their columns, printing as C, and random round trips. */
#include "config/expr.h"
#include "core/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct tern_binding BOUND[] = {
    {"M", 17},        {"N", 4608},        {"K", 3584},          {"G", 28}, {"ROW_TILES", 4}, {"SPLIT_K", 2},
    {"NEGATIVE", -3}, {"BIG", INT64_MAX}, {"LEAST", INT64_MIN},
};
#define BOUND_COUNT (sizeof BOUND / sizeof BOUND[0])

static void check_value(const char *text, int64_t expected) {
    struct tern_expr *e = NULL;
    struct tern_error err = {0};
    int64_t value = -12345;
    if (tern_expr_parse(text, &e, &err))
        fail_msg("%s: %s", text, err.text);
    if (tern_expr_eval(e, BOUND, BOUND_COUNT, &value, &err))
        fail_msg("%s: %s", text, err.text);
    if (value != expected)
        fail_msg("%s = %lld, expected %lld", text, (long long)value, (long long)expected);
    tern_expr_free(e);
}

static void test_values(void **state) {
    (void)state;
    check_value("7", 7);
    check_value(" 9223372036854775807 ", INT64_MAX);
    check_value("-9223372036854775807 - 1", INT64_MIN);
    check_value("2+3*4", 14);
    check_value("(2+3)*4", 20);
    check_value("20-7-3", 10);
    check_value("100/7/2", 7);
    check_value("-7/2", -3);
    check_value("-7%3", -1);
    check_value("--5", 5);
    check_value("2 - -3", 5);
    check_value("ceil_div(N, 16*ROW_TILES)", 72);
    check_value("ceil_div(M, 16)", 2);
    check_value("ceil_div(0, 16)", 0);
    check_value("ceil_div(-7, 2)", -3);
    check_value("ceil_div(BIG, 2)", INT64_MAX / 2 + 1);
    check_value("min(M, 8) + max(K, N)", 8 + 4608);
    check_value("min(LEAST, BIG)", INT64_MIN);
    check_value("1 < 2", 1);
    check_value("(2 <= 1) + (2 >= 2) + (3 > 3) + (3 == 3) + (3 != 3)", 2);
    check_value("M > 16 ? 1 : M > 8 ? 2 : 3", 1);
    check_value("0 ? 1 : 0 ? 2 : 3", 3);
    check_value("SPLIT_K > 1 ? M*N*4*SPLIT_K : 0", 17LL * 4608 * 4 * 2);
    check_value("ROW_TILES == 0 ? 1/0 : 5", 5); /* the side not taken is not evaluated */
}

/* `text` fails to parse or evaluate with TERN_USAGE, and the message contains `part`. */
static void check_error(const char *text, const char *part) {
    struct tern_expr *e = NULL;
    struct tern_error err = {0};
    int64_t value = 99;
    enum tern_status status = tern_expr_parse(text, &e, &err);
    if (!status)
        status = tern_expr_eval(e, BOUND, BOUND_COUNT, &value, &err);
    if (status != TERN_USAGE || !strstr(err.text, part))
        fail_msg("%s: status %d, \"%s\" lacks \"%s\"", text, status, err.text, part);
    tern_expr_free(e);
}

static void test_errors(void **state) {
    (void)state;
    check_error("", "column 1");
    check_error("2 +", "column 4");
    check_error("2 + )", "column 5");
    check_error("(2", "column 3: expected ')'");
    check_error("2 3", "column 3: unexpected");
    check_error("min(2)", "column 6: expected ','");
    check_error("min(2, 3", "expected ')'");
    check_error("clamp(2, 3)", "column 1: unknown function \"clamp\"");
    check_error("12abc", "malformed number");
    check_error("1.5", "malformed number");
    check_error("9223372036854775808", "64 bits");
    check_error("1 < 2 < 3", "column 7: comparisons do not chain");
    check_error("M ? 2", "expected ':'");
    check_error("2 + WIDTH", "column 5: unknown name \"WIDTH\"");
    check_error("2 + SPLIT_M", "did you mean \"SPLIT_K\"");
    check_error("8 / (M - 17)", "column 3: division by zero");
    check_error("8 % 0", "division by zero");
    check_error("ceil_div(8, 0)", "division by zero");
    check_error("ceil_div(8, NEGATIVE)", "negative");
    check_error("BIG + 1", "column 5: overflow");
    check_error("LEAST - 1", "overflow");
    check_error("BIG * 2", "overflow");
    check_error("-LEAST", "overflow");
    check_error("LEAST / -1", "overflow");
    check_error("LEAST % -1", "overflow");
    check_error("a_name_that_is_much_too_long_to_be_one", "too long");
    check_error("2 $ 3", "column 3");
}

static void test_deep_nesting_is_an_error(void **state) {
    (void)state;
    const char *const pieces[] = {"(", "-", "1+(", "1?", "-(", "1+"}; /* a long chain is a deep tree too */
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct tern_str text = {0};
        while (text.length + strlen(pieces[i]) < 800)
            tern_str_append(&text, pieces[i]);
        tern_str_append(&text, "1");
        struct tern_expr *e = NULL;
        struct tern_error err = {0};
        assert_int_equal(tern_expr_parse(text.data, &e, &err), TERN_USAGE);
        assert_non_null(strstr(err.text, "column"));
        assert_null(e);
        tern_str_free(&text);
    }
    struct tern_str text = {0};
    for (int n = 0; n < 100000; n++)
        tern_str_append(&text, " ");
    struct tern_expr *e = NULL;
    assert_int_equal(tern_expr_parse(text.data, &e, NULL), TERN_USAGE);
    tern_str_free(&text);
}

static void check_print(const char *text, const char *expected) {
    static const struct tern_binding params[] = {
        {"WARPS", 4}, {"STAGES", 3}, {"SPLIT", 1}, {"NEG", -2}, {"HUGE", INT64_MIN}};
    struct tern_expr *e = NULL;
    struct tern_error err = {0};
    struct tern_str out = {0};
    assert_int_equal(tern_expr_parse(text, &e, &err), TERN_OK);
    if (tern_expr_print_c(e, params, sizeof params / sizeof params[0], &out, &err))
        fail_msg("%s: %s", text, err.text);
    assert_string_equal(tern_str_text(&out), expected);
    tern_str_free(&out);
    tern_expr_free(e);
}

static void test_print(void **state) {
    (void)state;
    check_print("32*WARPS", "128");
    check_print("ceil_div(N, 16*WARPS)", "tern_ceil_div_(n, 64)");
    check_print("min(M, 8)*max(K, G)", "tern_min_(m, 8) * tern_max_(k, groups)");
    check_print("M*N*4*WARPS", "m * n * 4 * 4");
    check_print("M + (N + K)", "m + (n + k)");
    check_print("(M + N) + K", "m + n + k");
    check_print("(M*N)/(K*2)", "m * n / (k * 2)");
    check_print("M - (N - K)", "m - (n - k)");
    check_print("(M)", "m");
    check_print("-M - -N", "-m - -n");
    check_print("-(-M)", "-(-m)");
    check_print("M*NEG", "m * -2");
    check_print("M - NEG", "m - -2");
    check_print("M + HUGE", "m + (-9223372036854775807 - 1)");
    check_print("M > 16 ? GROUP : SMS", "m > 16 ? group_size : sms");
    check_print("(M > 16 ? 1 : 2) * N", "(m > 16 ? 1 : 2) * n");
    check_print("M > 1 ? (N > 1 ? 1 : 2) : K > 1 ? 3 : 4", "m > 1 ? n > 1 ? 1 : 2 : k > 1 ? 3 : 4");
    check_print("(M > 1 ? 1 : 0) ? N : K", "(m > 1 ? 1 : 0) ? n : k");
    check_print("(M < N) == (N < K)", "(m < n) == (n < k)");
    check_print("(M > 4)*100000*100000", "(int64_t)(m > 4) * 100000 * 100000");
    check_print("2*(M > 4 ? 1 : 3)", "(int64_t)2 * (m > 4 ? 1 : 3)");
    check_print("-(M > 4)", "-(int64_t)(m > 4)");
    check_print("SPLIT > 1 ? M*N*SPLIT : 0", "0");      /* decided by a parameter */
    check_print("SPLIT == 1 ? M : M/(SPLIT - 1)", "m"); /* the other side would divide by zero */
    check_print("2*(SPLIT == 1 ? STAGES : M)", "6");
}

static void test_print_errors(void **state) {
    (void)state;
    struct tern_expr *e = NULL;
    struct tern_error err = {0};
    struct tern_str out = {0};
    assert_int_equal(tern_expr_parse("M + TILE", &e, &err), TERN_OK);
    assert_int_equal(tern_expr_print_c(e, NULL, 0, &out, &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "column 5: unknown name \"TILE\""));
    tern_expr_free(e);
    assert_int_equal(tern_expr_parse("M + 1/0", &e, &err), TERN_OK);
    assert_int_equal(tern_expr_print_c(e, NULL, 0, &out, &err), TERN_USAGE);
    tern_expr_free(e);
    tern_str_free(&out);
}

/* A random expression over M, N, K and small numbers, by recursive descent on the grammar. */
static void random_expr(struct tern_random *r, int depth, struct tern_str *out) {
    static const char *const ops[] = {"+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!="};
    static const char *const leaves[] = {"M", "N", "K", "0", "1", "2", "7", "64", "3000000000"};
    uint64_t pick = depth ? tern_random_below(r, 6) : 0;
    if (pick == 0) {
        tern_str_append(out, leaves[tern_random_below(r, 9)]);
        return;
    }
    tern_str_append(out, pick == 1 ? "-(" : pick == 2 ? "(" : pick == 3 ? "max(" : pick == 4 ? "ceil_div(" : "(");
    random_expr(r, depth - 1, out);
    if (pick == 2 || pick == 5)
        tern_str_printf(out, ") %s (", pick == 2 ? "?" : ops[tern_random_below(r, 11)]);
    if (pick == 3 || pick == 4)
        tern_str_append(out, ", ");
    if (pick != 1)
        random_expr(r, depth - 1, out);
    tern_str_append(out, ")");
    if (pick == 2) {
        tern_str_append(out, " : (");
        random_expr(r, depth - 1, out);
        tern_str_append(out, ")");
    }
}

static void remove_all(char *text, const char *part, const char *with) {
    for (char *at; (at = strstr(text, part));) {
        memmove(at, with, strlen(with));
        memmove(at + strlen(with), at + strlen(part), strlen(at + strlen(part)) + 1);
    }
}

/* The printed C, read back by the same language (helpers and casts renamed), has the value of the original, or both fail. */
static void test_random_round_trips(void **state) {
    (void)state;
    struct tern_random r;
    tern_random_init(&r, 1, "expr");
    int values = 0;
    for (int round = 0; round < 20000; round++) {
        struct tern_str text = {0}, printed = {0};
        random_expr(&r, 4, &text);
        int64_t m = (int64_t)tern_random_below(&r, 9), n = (int64_t)tern_random_below(&r, 5000);
        const struct tern_binding all[] = {{"M", m}, {"N", n}, {"K", 3}}, later[] = {{"m", m}, {"n", n}, {"k", 3}};
        struct tern_expr *e = NULL, *back = NULL;
        int64_t value = 0, again = 1;
        if (!tern_expr_parse(text.data, &e, NULL) && !tern_expr_eval(e, all, 3, &value, NULL) &&
            !tern_expr_print_c(e, all, 1 + (size_t)(round % 3), &printed, NULL)) {
            char expected[32];
            if (round % 3 == 2) {
                tern_str_format(expected, sizeof expected, "%lld", (long long)value);
                assert_string_equal(printed.data, value == INT64_MIN ? "(-9223372036854775807 - 1)" : expected);
            }
            remove_all(printed.data, "(int64_t)", "");
            remove_all(printed.data, "tern_max_", "max");
            remove_all(printed.data, "tern_ceil_div_", "ceil_div");
            if (tern_expr_parse(printed.data, &back, NULL) || tern_expr_eval(back, later, 3, &again, NULL) || value != again)
                fail_msg("%s = %lld, printed %s = %lld", text.data, (long long)value, printed.data, (long long)again);
            values++;
        }
        tern_expr_free(e);
        tern_expr_free(back);
        tern_str_free(&text);
        tern_str_free(&printed);
    }
    assert_true(values > 5000);
}

/* Random bytes of the alphabet: no crash, no hang, and every refusal has a message. */
static void test_random_garbage(void **state) {
    (void)state;
    static const char alphabet[] = "MNKG_a019+-*/%<>=!?:(),. \t$";
    struct tern_random r;
    tern_random_init(&r, 2, "garbage");
    int parsed = 0, refused = 0;
    for (int round = 0; round < 100000; round++) {
        char text[24] = "";
        uint64_t length = tern_random_below(&r, sizeof text);
        for (uint64_t i = 0; i < length; i++)
            text[i] = alphabet[tern_random_below(&r, sizeof alphabet - 1)];
        struct tern_expr *e = NULL;
        struct tern_error err = {0};
        int64_t value;
        enum tern_status status = tern_expr_parse(text, &e, &err);
        parsed += !status;
        if (!status)
            status = tern_expr_eval(e, BOUND, BOUND_COUNT, &value, &err);
        if (status) {
            refused++;
            assert_int_equal(status, TERN_USAGE);
            assert_non_null(strstr(err.text, "column"));
        }
        tern_expr_free(e);
    }
    assert_true(parsed > 100 && refused > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_deep_nesting_is_an_error),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_print_errors),
        cmocka_unit_test(test_random_round_trips),
        cmocka_unit_test(test_random_garbage),
    };
    return cmocka_run_group_tests_name("expr", tests, NULL, NULL);
}
