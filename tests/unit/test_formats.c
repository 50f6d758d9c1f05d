/* Format names, shapes, and random weights: what a user may write and what a group may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/half.h"
#include "formats/format.h"
#include "formats/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tern_format parse_ok(const char *name) {
    struct tern_format format;
    struct tern_error err = {0};
    if (tern_format_parse(name, &format, &err) != TERN_OK)
        fail_msg("%s: %s", name, err.text);
    return format;
}

static struct tern_error parse_bad(const char *name) {
    struct tern_format format = {.bits = 77};
    struct tern_error err = {0};
    assert_int_equal(tern_format_parse(name, &format, &err), TERN_USAGE);
    assert_int_equal(format.bits, 77); /* untouched on error */
    assert_non_null(strstr(err.text, name));
    assert_true(err.hint[0] != '\0');
    return err;
}

static void examples_round_trip(void **state) {
    (void)state;
    assert_true(tern_format_example_count > 10);
    for (size_t i = 0; i < tern_format_example_count; i++)
        assert_string_equal(parse_ok(tern_format_examples[i]).name, tern_format_examples[i]);
}

static void every_legal_name_round_trips(void **state) {
    (void)state;
    char name[64];
    int bits[] = {2, 3, 4, 8};
    for (int b = 0; b < 4; b++) {
        for (int group = 32; group <= 4096; group += 32) {
            for (int asym = 0; asym < 2; asym++) {
                snprintf(name, sizeof name, "gptq%d-g%d%s", bits[b], group, asym ? "-asym" : "");
                struct tern_format format = parse_ok(name);
                assert_string_equal(format.name, name);
                assert_int_equal(format.bits, bits[b]);
                assert_int_equal(format.group, group);
                assert_int_equal(format.sym, !asym);
                if (!asym)
                    assert_int_equal(format.zero, 1 << (bits[b] - 1));
            }
        }
    }
}

static void ternary_is_two_bits_with_zero_one(void **state) {
    (void)state;
    struct tern_format format = parse_ok("ternary-g128");
    assert_int_equal(format.family, TERN_FAMILY_TERNARY);
    assert_int_equal(format.bits, 2);
    assert_int_equal(format.zero, 1);
    assert_true(format.sym);
    assert_int_equal(format.group, 128);
    assert_int_equal(parse_ok("ternary-channel").group, TERN_GROUP_CHANNEL);
    assert_int_equal(parse_ok("ternary-tensor").group, TERN_GROUP_TENSOR);
    assert_string_equal(tern_family_name(TERN_FAMILY_TERNARY), "ternary");
    assert_string_equal(tern_family_name(TERN_FAMILY_GPTQ), "gptq");
}

static void wrong_names_get_a_suggestion(void **state) {
    (void)state;
    assert_non_null(strstr(parse_bad("ternary-g12").text, "multiple of 32"));
    assert_non_null(strstr(parse_bad("ternry-g128").hint, "did you mean 'ternary-g128'"));
    assert_non_null(strstr(parse_bad("gptq4-g128-asy").hint, "did you mean 'gptq4-g128-asym'"));
    assert_non_null(strstr(parse_bad("gptq4-chanel").hint, "did you mean 'gptq4-channel'"));
    assert_non_null(strstr(parse_bad("gptq5-g128").hint, "did you mean 'gptq"));
    assert_non_null(strstr(parse_bad("nonsense").hint, "formats are"));
}

static void parts_that_do_not_fit_are_refused(void **state) {
    (void)state;
    assert_non_null(strstr(parse_bad("gptq4-g16").text, "16 is not a multiple of 32"));
    assert_non_null(strstr(parse_bad("ternary-g128-asym").text, "zero points"));
    assert_non_null(strstr(parse_bad("gptq4-tensor").hint, "gptq4-channel"));
    assert_non_null(strstr(parse_bad("gptq4-g128-actorder").text, "act-order"));
    const char *bad[] = {
        "gptq4",       "gptq4-", "gptq4-g",           "gptq4-g-128", "gptq4-g0128", "gptq4-g0",   "gptq4-128",
        "gptq4-g128-", "-g128",  "gptq4-g128-asym-x", "gptq4-G128",  "gptq16-g128", "gptq4-g1e2", "gptq4-g4294967328",
        "gptq4-g128 "};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        parse_bad(bad[i]);
    struct tern_format format;
    assert_int_equal(tern_format_parse("", &format, NULL), TERN_USAGE); /* no error wanted is fine too */
}

static void shapes_are_checked(void **state) {
    (void)state;
    struct tern_format g128 = parse_ok("gptq4-g128"), channel = parse_ok("gptq4-channel");
    struct tern_error err = {0};
    assert_int_equal(tern_format_check_shape(&g128, 8, 128, false, &err), TERN_OK);
    assert_int_equal(tern_format_check_shape(&channel, 8, 32, false, &err), TERN_OK);
    struct {
        int64_t n, k;
        const char *word;
    } bad[] = {{0, 128, "N = 0"},
               {-8, 128, "N = -8"},
               {12, 128, "N = 12"},
               {8, 0, "K = 0"},
               {8, 130, "K = 130"},
               {8, -32, "K = -32"},
               {2147483648, 128, "2147483648"},
               {8, 4294967296, "4294967296"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(tern_format_check_shape(&g128, bad[i].n, bad[i].k, true, &err), TERN_USAGE);
        assert_non_null(strstr(err.text, bad[i].word));
    }
}

static void a_group_must_divide_k_unless_short_ones_are_allowed(void **state) {
    (void)state;
    struct tern_format g128 = parse_ok("gptq4-g128");
    struct tern_error err = {0};
    assert_int_equal(tern_format_check_shape(&g128, 8, 704, false, &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "704"));
    assert_non_null(strstr(err.text, "128"));
    assert_int_equal(tern_format_check_shape(&g128, 8, 704, true, &err), TERN_OK);
    assert_int_equal(tern_format_groups(&g128, 704), 6);
    assert_int_equal(tern_format_check_shape(&g128, 8, 96, true, &err), TERN_USAGE); /* a group exceeds K */
    assert_non_null(strstr(err.text, "96"));
}

static void groups_are_counted(void **state) {
    (void)state;
    struct tern_format g96 = parse_ok("gptq3-g96"), channel = parse_ok("gptq3-channel"), tensor = parse_ok("ternary-tensor");
    assert_int_equal(tern_format_groups(&g96, 96), 1);
    assert_int_equal(tern_format_groups(&g96, 128), 2);
    assert_int_equal(tern_format_groups(&channel, 3584), 1);
    assert_int_equal(tern_format_groups(&tensor, 3584), 1);
    assert_int_equal(tern_format_group_size(&g96, 3584), 96);
    assert_int_equal(tern_format_group_size(&channel, 3584), 3584);
    assert_int_equal(tern_format_group_size(&tensor, 3584), 3584);
}

/* Every legal code about equally often: chi-square below the 1 - 1e-6 quantile of up to 255 degrees of freedom (~380). */
static void random_codes_are_legal_and_uniform(void **state) {
    (void)state;
    const char *names[] = {"ternary-g128", "gptq2-g64", "gptq3-g128-asym", "gptq4-g128", "gptq8-channel"};
    for (size_t f = 0; f < 5; f++) {
        struct tern_format format = parse_ok(names[f]);
        struct tern_weights w;
        int64_t counts[256] = {0}, total = 64 * 1024, legal = f == 0 ? 3 : 1 << format.bits;
        assert_int_equal(tern_weights_random(&format, 64, 1024, 7, &w, NULL), TERN_OK);
        for (int64_t i = 0; i < total; i++)
            counts[w.codes[i]]++;
        double expected = (double)total / (double)legal, chi2 = 0;
        for (int64_t c = 0; c < 256; c++) {
            if (c >= legal)
                assert_int_equal(counts[c], 0);
            else
                chi2 += ((double)counts[c] - expected) * ((double)counts[c] - expected) / expected;
        }
        assert_true(chi2 < 380 && chi2 < (double)legal + 6 * sqrt(2.0 * (double)legal) + 12);
        tern_weights_free(&w);
    }
}

static void random_weights_depend_on_the_seed_only(void **state) {
    (void)state;
    struct tern_format format = parse_ok("gptq4-g32-asym");
    struct tern_weights a, b, c;
    assert_int_equal(tern_weights_random(&format, 40, 352, 1, &a, NULL), TERN_OK);
    assert_int_equal(tern_weights_random(&format, 40, 352, 1, &b, NULL), TERN_OK);
    assert_int_equal(tern_weights_random(&format, 40, 352, 2, &c, NULL), TERN_OK);
    assert_int_equal(a.groups, 11);
    assert_memory_equal(a.codes, b.codes, 40 * 352);
    assert_memory_equal(a.scales, b.scales, 40 * 11 * 2);
    assert_memory_equal(a.zeros, b.zeros, 40 * 11);
    assert_memory_not_equal(a.codes, c.codes, 40 * 352);
    assert_memory_not_equal(a.scales, c.scales, 40 * 11 * 2);
    assert_memory_not_equal(a.zeros, c.zeros, 40 * 11);
    assert_memory_not_equal(a.codes, a.codes + 352, 352); /* rows differ */
    int seen_zero = 0, seen_top = 0;
    for (int i = 0; i < 40 * 11; i++) {
        assert_true(a.zeros[i] < 16);
        seen_zero += a.zeros[i] == 0;
        seen_top += a.zeros[i] == 15;
        double scale = (double)tern_half_to_float(a.scales[i]) * sqrt(352.0);
        assert_true(scale > 0.25 && scale < 4.0);
    }
    assert_true(seen_zero > 0 && seen_top > 0);
    tern_weights_free(&a);
    tern_weights_free(&b);
    tern_weights_free(&c);
}

static void tensor_scales_are_all_equal(void **state) {
    (void)state;
    struct tern_format format = parse_ok("ternary-tensor");
    struct tern_weights w;
    assert_int_equal(tern_weights_random(&format, 24, 64, 3, &w, NULL), TERN_OK);
    for (int i = 0; i < 24; i++)
        assert_int_equal(w.scales[i], w.scales[0]);
    tern_weights_free(&w);
    assert_null(w.codes);
    struct tern_error err = {0};
    assert_int_equal(tern_weights_random(&format, 12, 64, 3, &w, &err), TERN_USAGE);
    assert_null(w.codes);
}

/* gptq4 asymmetric, code 13, zero 15, scale 0.5: (13 - 15) / 2. */
static void values_follow_the_formula(void **state) {
    (void)state;
    struct tern_format format = parse_ok("gptq4-g32-asym");
    struct tern_weights w;
    assert_int_equal(tern_weights_random(&format, 8, 64, 3, &w, NULL), TERN_OK);
    w.codes[5 * 64 + 40] = 13;
    w.zeros[1 * 8 + 5] = 15;
    w.scales[1 * 8 + 5] = 0x3800;
    assert_true(tern_weights_value(&w, 5, 40) == -1.0);
    tern_weights_free(&w);
    format = parse_ok("ternary-channel");
    assert_int_equal(tern_weights_random(&format, 8, 64, 3, &w, NULL), TERN_OK);
    w.codes[3 * 64 + 63] = 0;
    w.scales[3] = 0x4000;
    assert_true(tern_weights_value(&w, 3, 63) == -2.0);
    tern_weights_free(&w);
}

static void activations_are_normal_and_prefix_stable(void **state) {
    (void)state;
    enum { M = 200, K = 1056 };
    uint16_t *x = malloc(2 * M * K), *few = malloc(2 * 3 * K);
    tern_activations_random(TERN_F16, M, K, 11, x);
    tern_activations_random(TERN_F16, 3, K, 11, few); /* small calls take the path without a table */
    assert_memory_equal(x, few, 2 * 3 * K);
    tern_activations_random(TERN_F16, 3, K, 12, few);
    assert_memory_not_equal(x, few, 2 * 3 * K);
    double sum = 0, squares = 0, fourths = 0, within = 0;
    for (int i = 0; i < M * K; i++) {
        double v = (double)tern_half_to_float(x[i]);
        assert_true(fabs(v) < 4.5);
        sum += v;
        squares += v * v;
        fourths += v * v * v * v;
        within += fabs(v) < 1.0;
    }
    double n = (double)M * K; /* 211200 draws: five standard errors */
    assert_true(fabs(sum / n) < 0.011);
    assert_true(fabs(squares / n - 1.0) < 0.016);
    assert_true(fabs(fourths / n - 3.0) < 0.11);
    assert_true(fabs(within / n - 0.682689) < 0.0051);
    free(x);
    free(few);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_round_trip),
        cmocka_unit_test(every_legal_name_round_trips),
        cmocka_unit_test(ternary_is_two_bits_with_zero_one),
        cmocka_unit_test(wrong_names_get_a_suggestion),
        cmocka_unit_test(parts_that_do_not_fit_are_refused),
        cmocka_unit_test(shapes_are_checked),
        cmocka_unit_test(a_group_must_divide_k_unless_short_ones_are_allowed),
        cmocka_unit_test(groups_are_counted),
        cmocka_unit_test(random_codes_are_legal_and_uniform),
        cmocka_unit_test(random_weights_depend_on_the_seed_only),
        cmocka_unit_test(tensor_scales_are_all_equal),
        cmocka_unit_test(values_follow_the_formula),
        cmocka_unit_test(activations_are_normal_and_prefix_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
