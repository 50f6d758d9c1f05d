/* Core: strings, errors, outcomes, half types, hashes, random numbers, results. */
#include "core/activation.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/half.h"
#include "core/hash.h"
#include "core/outcome.h"
#include "core/random.h"
#include "core/result.h"
#include "core/str.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void error_keeps_origin(void **state) {
    (void)state;
    struct tern_error err;
    memset(&err, 'x', sizeof(err));
    assert_int_equal(tern_error_set(&err, TERN_USAGE, "M is %d\n", 0), TERN_USAGE);
    assert_int_equal(err.status, TERN_USAGE);
    assert_string_equal(err.text, "M is 0");
    assert_string_equal(err.hint, "");
    tern_error_hint(&err, "use M >= %d", 1);
    tern_error_prefix(&err, "file %s", "a.lua");
    assert_string_equal(err.text, "file a.lua: M is 0");
    assert_string_equal(err.hint, "use M >= 1");
    tern_error_set(&err, TERN_FAILED, "again: %s", err.text); /* its own text as argument */
    assert_string_equal(err.text, "again: file a.lua: M is 0");
    assert_string_equal(err.hint, "");
    tern_error_set(&err, TERN_FAILED, "esc \x1b[31m");
    assert_string_equal(err.text, "esc ?[31m");
    assert_int_equal(tern_error_set(NULL, TERN_MISSING, "nobody listens"), TERN_MISSING);
}

static void error_long_text_is_cut(void **state) {
    (void)state;
    struct tern_error err;
    char text[3000];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    tern_error_set(&err, TERN_FAILED, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    tern_error_prefix(&err, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

static void outcome_names_round_trip(void **state) {
    (void)state;
    char letters[TERN_OUTCOME_COUNT + 1] = "";
    for (int i = 0; i < TERN_OUTCOME_COUNT; i++) {
        enum tern_outcome back = TERN_OUTCOME_COUNT;
        assert_true(tern_outcome_parse(tern_outcome_name((enum tern_outcome)i), &back));
        assert_int_equal(back, i);
        assert_null(strchr(letters, tern_outcome_letter((enum tern_outcome)i))); /* letters are unique */
        letters[i] = tern_outcome_letter((enum tern_outcome)i);
        assert_true(strlen(tern_outcome_meaning((enum tern_outcome)i)) > 5);
    }
    enum tern_outcome none;
    assert_false(tern_outcome_parse("okay", &none));
    assert_string_equal(tern_outcome_name(TERN_OUTCOME_COUNT), "unknown");
}

static void str_grows_and_formats(void **state) {
    (void)state;
    struct tern_str s = {0};
    assert_string_equal(tern_str_text(&s), "");
    for (int i = 0; i < 1000; i++)
        tern_str_printf(&s, "%d,", i);
    assert_int_equal(s.length, strlen(s.data));
    assert_int_equal(s.length, 10 * 2 + 90 * 3 + 900 * 4);
    tern_str_append_bytes(&s, "a\0b", 3);
    assert_int_equal(s.length, 3893);
    assert_int_equal(s.data[3893], 0);
    tern_str_free(&s);
    assert_null(s.data);
    char out[5];
    tern_str_copy(out, sizeof(out), "abcdefgh");
    assert_string_equal(out, "abcd");
    tern_str_format(out, sizeof(out), "%d", 1234567);
    assert_string_equal(out, "1234");
}

static void strs_split_trims(void **state) {
    (void)state;
    struct tern_strs list = {0};
    tern_strs_split(&list, " b , a,, c\t,", ',');
    assert_int_equal(list.count, 3);
    tern_strs_sort(&list);
    assert_string_equal(list.items[0], "a");
    assert_string_equal(list.items[1], "b");
    assert_string_equal(list.items[2], "c");
    tern_strs_split(&list, "", ',');
    assert_int_equal(list.count, 3);
    tern_strs_free(&list);
    assert_int_equal(list.count, 0);
}

static void suggest_finds_slips_only(void **state) {
    (void)state;
    struct tern_strs names = {0};
    tern_strs_split(&names, "a100 h100 h200 l40s rtx4090 rtx5090 t4 qwen7b llama3-70b", ' ');
    assert_string_equal(tern_str_suggest("h20", &names), "h200");
    assert_string_equal(tern_str_suggest("H200", &names), "h200");
    assert_string_equal(tern_str_suggest("rtx4900", &names), "rtx4090");
    assert_string_equal(tern_str_suggest("qwne7b", &names), "qwen7b");
    assert_string_equal(tern_str_suggest("llama3", &names), "llama3-70b"); /* a beginning */
    assert_null(tern_str_suggest("mi300x", &names));
    assert_null(tern_str_suggest("", &names));
    char longest[300];
    memset(longest, 'h', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_null(tern_str_suggest(longest, &names));
    tern_strs_free(&names);
    assert_null(tern_str_suggest("h200", &names));
}

static void numbers_are_strict(void **state) {
    (void)state;
    int64_t i = 7;
    assert_true(tern_str_parse_int("-12", -100, 100, &i) && i == -12);
    assert_true(tern_str_parse_int("9223372036854775807", 0, INT64_MAX, &i) && i == INT64_MAX);
    static const char *const bad[] = {"", "-", "1x", " 1", "1 ", "+1", "0x10", "1.0", "9223372036854775808", "101"};
    for (size_t n = 0; n < sizeof(bad) / sizeof(*bad); n++)
        assert_false(tern_str_parse_int(bad[n], -100, n == 8 ? INT64_MAX : 100, &i));
    double d = 0;
    assert_true(tern_str_parse_double("-2.5e3", &d) && d == -2500);
    assert_true(tern_str_parse_double(".5", &d) && d == 0.5);
    static const char *const bad_doubles[] = {"", "nan", "inf", "0x1p3", " 1", "1 ", "1e999", ".", "-"};
    for (size_t n = 0; n < sizeof(bad_doubles) / sizeof(*bad_doubles); n++)
        assert_false(tern_str_parse_double(bad_doubles[n], &d));
}

/* Independent check: the nearest of all 65536 halves, by search over their exact values. */
static uint16_t half_by_search(double value) {
    uint16_t best = 0;
    double distance = INFINITY;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double d = fabs((double)tern_half_to_float((uint16_t)h) - fabs(value));
        if (d < distance || (d == distance && (h & 1) == 0)) {
            distance = d;
            best = (uint16_t)h;
        }
    }
    if (fabs(value) >= 65520.0)
        best = 0x7c00;
    return (uint16_t)(best | (signbit(value) ? 0x8000 : 0));
}

static void half_round_trips_all(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = tern_half_to_float((uint16_t)h);
        uint16_t back = tern_half_from_double(f);
        if (isnan(f))
            assert_true((back & 0x7c00) == 0x7c00 && (back & 0x3ff) != 0);
        else
            assert_int_equal(back, h);
    }
    assert_true(tern_half_to_float(0x3c00) == 1.0f);
    assert_true(tern_half_to_float(0x0001) == 0x1p-24f);
    assert_true(tern_half_to_float(0x7bff) == 65504.0f);
    assert_true(isinf(tern_half_to_float(0xfc00)));
}

static void half_rounds_to_nearest_even(void **state) {
    (void)state;
    static const double edges[] = {0.0,         -0.0,           0x1p-25,       0x1.8p-25,       0x1.0000001p-25,
                                   0x1p-26,     0x1p-24,        0x1.8p-24,     65519.9,         65520.0,
                                   65504.0,     65519.99999999, 1.0 + 0x1p-11, 1.0 + 0x1.8p-10, 0x1.ffcp-15,
                                   0x1.ffep-15, 0x1.ffffp-15,   1e300,         5e-324,          1.0 + 0x1p-11 + 0x1p-40};
    for (size_t i = 0; i < sizeof(edges) / sizeof(*edges); i++) {
        assert_int_equal(tern_half_from_double(edges[i]), half_by_search(edges[i]));
        assert_int_equal(tern_half_from_double(-edges[i]), half_by_search(-edges[i]));
    }
    struct tern_random r;
    tern_random_init(&r, 1, "half");
    for (int i = 0; i < 300; i++) {
        double value = ldexp(tern_random_normal(&r), (int)tern_random_below(&r, 44) - 27);
        assert_int_equal(tern_half_from_double(value), half_by_search(value));
    }
    assert_int_equal(tern_half_from_double(INFINITY), 0x7c00);
    assert_true((tern_half_from_double(NAN) & 0x7fff) > 0x7c00);
}

static void bf16_rounds(void **state) {
    (void)state;
    assert_int_equal(tern_bf16_from_double(1.0), 0x3f80);
    assert_int_equal(tern_bf16_from_double(1.0 + 0x1p-8), 0x3f80);           /* tie to even */
    assert_int_equal(tern_bf16_from_double(1.0 + 0x1p-8 + 0x1p-40), 0x3f81); /* above the tie */
    assert_int_equal(tern_bf16_from_double(1.0 + 0x1.8p-7), 0x3f82);         /* tie to even, upwards */
    assert_int_equal(tern_bf16_from_double(-3.4028234e38), 0xff80);          /* rounds to infinity */
    assert_int_equal(tern_bf16_from_double(0x1.fefffp127), 0x7f7f);          /* the largest */
    assert_int_equal(tern_bf16_from_double(0x1p-133), 1);
    assert_int_equal(tern_bf16_from_double(0x1p-134), 0); /* half a step: tie to even */
    assert_int_equal(tern_bf16_from_double(-0x1.1p-134), 0x8001);
    assert_true(isnan(tern_bf16_to_float(tern_bf16_from_double((double)NAN))));
    assert_true(tern_bf16_to_float(0xc040) == -3.0f);
}

static void activations_have_one_op_each(void **state) {
    (void)state;
    struct tern_error err = {0};
    for (int i = 0; i < TERN_ACTIVATION_COUNT; i++) {
        enum tern_activation parsed = TERN_ACTIVATION_COUNT, of_op = TERN_ACTIVATION_COUNT, a = (enum tern_activation)i;
        assert_int_equal(tern_activation_parse(tern_activation_name(a), &parsed, &err), TERN_OK);
        assert_true(tern_activation_of_op(tern_activation_op(a), &of_op));
        assert_true(parsed == a && of_op == a);
        assert_true(tern_activation_to_double(a, tern_activation_from_double(a, -1.5)) == -1.5);
    }
    enum tern_activation a;
    assert_false(tern_activation_of_op("linear-a4", &a));
    assert_int_equal(tern_activation_parse("fp16", &a, &err), TERN_USAGE);
    assert_string_equal(err.text, "'fp16' is no type of activations: f16, bf16, int8 or e4m3");
    assert_int_equal(tern_activation_from_double(TERN_BF16, 70000), 0x4789); /* no infinity, as in binary16 */
    assert_int_equal(tern_activation_from_double(TERN_F16, 70000), 0x7C00);
}

/* All numbers of e4m3 in order, by its definition: they stay as they are, and between two the nearest one wins, of equally near
 * ones that with an even last bit. */
static void e4m3_rounds_to_nearest_even(void **state) {
    (void)state;
    double number[127];
    for (int code = 0; code < 127; code++)
        number[code] = code < 8 ? ldexp(code, -9) : ldexp(8 + code % 8, code / 8 - 10);
    assert_true(number[126] == 448.0);
    for (int code = 0; code < 127; code++) {
        assert_true(tern_e4m3_round(number[code]) == number[code]);
        assert_true(tern_e4m3_round(-number[code]) == -number[code]);
        assert_true(signbit(tern_e4m3_round(-number[code])));
        if (code == 126)
            break;
        const double middle = (number[code] + number[code + 1]) / 2, even = number[code + code % 2];
        assert_true(tern_e4m3_round(middle) == even);
        assert_true(tern_e4m3_round(-middle) == -even);
        assert_true(tern_e4m3_round(nextafter(middle, 0)) == number[code]);
        assert_true(tern_e4m3_round(nextafter(middle, 500)) == number[code + 1]);
    }
    assert_true(tern_e4m3_round(464.0) == 448.0 && tern_e4m3_round(-INFINITY) == -448.0); /* no infinity */
    assert_true(isnan(tern_e4m3_round(NAN)));
}

static void hash_is_stable_and_framed(void **state) {
    (void)state;
    char a[TERN_HASH_CHARS], b[TERN_HASH_CHARS];
    tern_hash_bytes("", 0, a);
    assert_string_equal(a, "99aa06d3014798d86001c324468d497f"); /* published value of XXH3-128 of nothing */
    tern_hash_bytes("abc", 3, a);
    tern_hash_bytes("abd", 3, b);
    assert_string_not_equal(a, b);
    struct tern_hash_state *one = tern_hash_new(), *two = tern_hash_new();
    tern_hash_add_text(one, "ab");
    tern_hash_add_text(one, "c");
    tern_hash_add_text(two, "a");
    tern_hash_add_text(two, "bc");
    tern_hash_end(one, a);
    tern_hash_end(two, b);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 32);
}

static void random_streams_are_fixed(void **state) {
    (void)state;
    struct tern_random a, b, c;
    tern_random_init(&a, 42, "weights");
    tern_random_init(&b, 42, "weights");
    tern_random_init(&c, 42, "activations");
    int same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = tern_random_u64(&a);
        assert_true(x == tern_random_u64(&b));
        same += x == tern_random_u64(&c);
    }
    assert_int_equal(same, 0);
    /* The generator itself: state {1,2,3,4} gives these first values in the authors' reference code. */
    struct tern_random known = {.state = {1, 2, 3, 4}};
    assert_true(tern_random_u64(&known) == 11520);
    assert_true(tern_random_u64(&known) == 0);
    assert_true(tern_random_u64(&known) == 1509978240);
    assert_true(tern_random_u64(&known) == UINT64_C(1215971899390074240));
}

static void random_moments(void **state) {
    (void)state;
    struct tern_random r;
    tern_random_init(&r, 7, "moments");
    double sum = 0, square = 0;
    int counts[3] = {0};
    enum { N = 200000 };
    for (int i = 0; i < N; i++) {
        double x = tern_random_normal(&r);
        sum += x;
        square += x * x;
        counts[tern_random_below(&r, 3)]++;
        double u = tern_random_unit(&r);
        assert_true(u >= 0 && u < 1);
    }
    assert_true(fabs(sum / N) < 0.01);
    assert_true(fabs(square / N - 1) < 0.02);
    for (int i = 0; i < 3; i++)
        assert_true(abs(counts[i] - N / 3) < 1000);
}

static void results_sort_by_layer_order(void **state) {
    (void)state;
    struct tern_results list = {0};
    static const char *const layers[] = {"qkv", "o", "gate_up", "down"};
    static const char *const formats[] = {"ternary-g128", "gptq4-g128"};
    for (int m = 4; m >= 1; m--)
        for (int f = 0; f < 2; f++)
            for (int l = 0; l < 4; l++) {
                struct tern_result row = {.m = m};
                tern_str_copy(row.format, sizeof(row.format), formats[f]);
                tern_str_copy(row.layer, sizeof(row.layer), layers[l]);
                tern_results_add(&list, &row);
            }
    tern_results_sort(&list);
    assert_int_equal(list.count, 32);
    for (size_t i = 0; i < 32; i++) {
        assert_string_equal(list.rows[i].format, i < 16 ? "gptq4-g128" : "ternary-g128");
        assert_string_equal(list.rows[i].layer, layers[i / 4 % 4]);
        assert_int_equal(list.rows[i].m, (int)(i % 4 + 1));
    }
    tern_results_free(&list);
    tern_results_sort(&list);
    assert_int_equal(list.count, 0);
}

static void conditions_follow_the_name(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"graph/cold", ""},
                                           {"graph/cold/dependent", "/dependent"},
                                           {"graph/cold@12ab", "@12ab"},
                                           {"qwen7b+dependent@12ab", "+dependent@12ab"},
                                           {"a@+dependent", "@+dependent"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(tern_conditions(cases[i][0]), cases[i][1]);
}

static void clock_moves(void **state) {
    (void)state;
    int64_t before = tern_clock_now_ns();
    char utc[24];
    tern_clock_utc(utc);
    assert_int_equal(strlen(utc), 20);
    assert_int_equal(utc[10], 'T');
    assert_int_equal(utc[19], 'Z');
    assert_true(tern_clock_now_ns() >= before && before > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_keeps_origin),
        cmocka_unit_test(error_long_text_is_cut),
        cmocka_unit_test(outcome_names_round_trip),
        cmocka_unit_test(str_grows_and_formats),
        cmocka_unit_test(strs_split_trims),
        cmocka_unit_test(suggest_finds_slips_only),
        cmocka_unit_test(numbers_are_strict),
        cmocka_unit_test(half_round_trips_all),
        cmocka_unit_test(half_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds),
        cmocka_unit_test(activations_have_one_op_each),
        cmocka_unit_test(e4m3_rounds_to_nearest_even),
        cmocka_unit_test(hash_is_stable_and_framed),
        cmocka_unit_test(random_streams_are_fixed),
        cmocka_unit_test(random_moments),
        cmocka_unit_test(results_sort_by_layer_order),
        cmocka_unit_test(conditions_follow_the_name),
        cmocka_unit_test(clock_moves),
    };
    return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
