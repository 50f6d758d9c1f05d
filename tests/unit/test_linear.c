/* Layers of a checkpoint: names and rules, the census of a layer, and files broken at random, which must be refused or decode
 * within their buffers (the sanitizers watch). */
#include "checkpoint_fixture.h"
#include "core/random.h"
#include "formats/census.h"
#include "formats/name_rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void name_rules(void **state) {
    static const struct {
        const char *rule, *name;
        int expected; /* 1 match, 0 none, -1 refused */
    } cases[] = {
        {"a", "abc", 1},
        {"b", "abc", 0},
        {"a|b", "b", 1},
        {"^a$", "abc", 0},
        {".*\\.0\\..*", "m.0.x", 1},
        {".*\\.0\\..*", "m.10.x", 0},
        {"m\\.\\d+?\\.[\\w.]*_proj$", "m.17.mlp.up_proj", 1},
        {"(?:m|n)\\.[^.]+\\.x", "n.5.x", 1},
        {"[[]", "[", 1},
        {"m{2,3}?x", "mmx", 1},
        {"(?=a)", "a", -1},
        {"(?P<n>a)", "a", -1},
        {"a*+", "a", -1},
        {"\\bword", "word", -1},
        {"(a)\\1", "aa", -1},
        {"(a", "a", -1},
        {"a\\", "a", -1},
        {"[\\", "a", -1},
        {"a\\\\(b)", "a\\b", 1},
        {"(a*|b+)?c{2}", "bbcc", 1},
        {"((a*)*)*b", "aab", 1},
        /* what takes a compiler of expressions exponential time or memory */
        {".*4**********************************", "4", -1},
        {"a+?*", "a", -1},
        {"*a", "a", -1},
        {"(|*)", "a", -1},
        {"((((((a*)*)*)*)*)*)*", "a", -1},
        {"(a{60}){60}", "a", -1},
        {"a{99999999999999999999}", "a", -1},
        {"a{7,}b{99999999999999999999,}", "a", -1},
        {"a{1", "a", -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tern_error err = {0};
        bool matches = false;
        enum tern_status status = tern_name_rule_match(cases[i].rule, cases[i].name, &matches, &err);
        int got = status ? -1 : matches;
        if (got != cases[i].expected)
            fail_msg("'%s' on '%s': %d, expected %d", cases[i].rule, cases[i].name, got, cases[i].expected);
    }
}

#define HEADER                                                                                                              \
    "{\"a.g_idx\":{\"dtype\":\"I32\",\"shape\":[32],\"data_offsets\":[0,128]},"                                             \
    "\"a.qweight\":{\"dtype\":\"I32\",\"shape\":[4,8],\"data_offsets\":[128,256]},"                                         \
    "\"a.qzeros\":{\"dtype\":\"I32\",\"shape\":[2,1],\"data_offsets\":[256,264]},"                                          \
    "\"a.scales\":{\"dtype\":\"F16\",\"shape\":[2,8],\"data_offsets\":[264,296]}}"
#define DATA_BYTES 296

/* 8 x 32 codes of 4 bits in two groups: zero points 8, scales 1, all codes 8 but for what a test writes. */
static void fill(uint8_t data[DATA_BYTES]) {
    static const uint16_t one = 0x3c00;
    for (int k = 0; k < 32; k++) {
        int32_t group = k / 16;
        memcpy(data + 4 * k, &group, sizeof group);
    }
    memset(data + 128, 0x88, 128);
    memset(data + 256, 0x77, 8);
    for (int i = 0; i < 16; i++)
        memcpy(data + 264 + 2 * i, &one, sizeof one);
}

/* Ternary until one code says otherwise; each kind of scale is counted once. */
static void census(void **state) {
    static const uint16_t kinds[] = {0x0000, 0x7e00, 0x7c00, 0xfc00, 0xbc00, 0x0001, 0x4000}; /* 0 NaN Inf -Inf -1 2^-24 2 */
    uint8_t data[DATA_BYTES];
    fill(data);
    data[128] = 0x97; /* codes 7 and 9 */
    for (int round = 0; round < 2; round++) {
        struct tern_checkpoint checkpoint;
        struct tern_linears layers;
        struct tern_census c;
        struct tern_str detail = {0};
        struct tern_error err = {0};
        const char *path = write_safetensors(*state, "w.safetensors", HEADER, data, DATA_BYTES);
        assert_int_equal(tern_checkpoint_open(path, &checkpoint, &err), TERN_OK);
        tern_linears_find(&checkpoint, &layers);
        assert_int_equal(layers.count, 1);
        assert_string_equal(layers.items[0].error, "");
        tern_census_take(&layers, &c);
        assert_int_equal(c.ternary, round == 0);
        assert_int_equal(c.codes[7], 1);
        assert_int_equal(c.codes[8], 254 - round);
        assert_int_equal(c.codes[9], 1);
        assert_int_equal(c.codes[10], round);
        enum tern_layer_status status = tern_census_judge(&layers.items[0], &c, &detail);
        assert_int_equal(c.scales.count, 16);
        if (round == 0) {
            assert_int_equal(status, TERN_LAYER_OK);
            assert_true(c.scales.min == 1.0F && c.scales.max == 1.0F);
        } else {
            assert_int_equal(status, TERN_LAYER_ERROR);
            assert_string_equal(detail.data, "scales: 1 NaN, 2 Inf");
            assert_int_equal(c.scales.zero, 1);
            assert_int_equal(c.scales.negative, 2);
            assert_int_equal(c.scales.denormal, 1);
            assert_true(c.scales.min == -1.0F && c.scales.max == 2.0F);
        }
        tern_str_free(&detail);
        tern_linears_free(&layers);
        tern_checkpoint_close(&checkpoint);
        memcpy(data + 264, kinds, sizeof kinds);
        data[129] = 0xa8; /* codes 8 and 10 */
    }
}

/* Opens and, where it can be, decodes everything. Returns the number of layers without an error. */
static int read_all(const char *path) {
    struct tern_checkpoint checkpoint;
    struct tern_linears layers = {0};
    struct tern_error err = {0};
    int good = 0;
    if (tern_checkpoint_open(path, &checkpoint, &err) == TERN_OK)
        tern_linears_find(&checkpoint, &layers);
    else
        assert_true(err.text[0] != '\0');
    struct tern_census *results = tern_alloc_zero(layers.count + 1, sizeof *results);
    tern_census_take(&layers, results);
    for (size_t i = 0; i < layers.count; i++)
        good += layers.items[i].error[0] == '\0';
    free(results);
    tern_linears_free(&layers);
    tern_checkpoint_close(&checkpoint);
    return good;
}

/* One to three bytes of header, data or configuration changed, often to digits and to marks of JSON. */
static void random_damage(void **state) {
    static const char marks[] = "0123456789012345678901234567890123456789-.,:[]{}\"eEgqaIF";
    static const char config[] = "{\"bits\":4,\"group_size\":16,\"sym\":true,\"dynamic\":{\"a.*\":{\"bits\":4}}}";
    struct tern_random random;
    int good = 0, rounds = 3000;
    tern_random_init(&random, 6, "damage");
    for (int round = 0; round < rounds; round++) {
        char header[] = HEADER, settings[sizeof config];
        uint8_t data[DATA_BYTES];
        fill(data);
        memcpy(settings, config, sizeof config);
        for (uint64_t changes = 1 + tern_random_below(&random, 3); changes > 0; changes--) {
            const char mark = marks[tern_random_below(&random, sizeof marks - 1)];
            switch (tern_random_below(&random, 3)) {
            case 0:
                header[tern_random_below(&random, sizeof header - 1)] = mark;
                break;
            case 1:
                data[tern_random_below(&random, DATA_BYTES)] = (uint8_t)tern_random_below(&random, 256);
                break;
            default:
                settings[tern_random_below(&random, sizeof settings - 1)] = mark;
                break;
            }
        }
        assert_non_null(write_bytes(*state, "quantize_config.json", settings, sizeof settings - 1));
        good += read_all(write_safetensors(*state, "w.safetensors", header, data, DATA_BYTES));
    }
    assert_in_range(good, 1, rounds - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_rules),
        cmocka_unit_test_setup_teardown(census, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(random_damage, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
