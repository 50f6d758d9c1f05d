/* Properties of formats and layouts over random shapes: every weight, scale and zero lies where layout.h's text says.
 * The address is computed here from that text (field by field, no tables), so that packer and test share no code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/random.h"
#include "formats/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* `bits` bits at bit `shift` of the lane's word `word` of a plane that starts at `plane`. */
static unsigned field(const uint8_t *plane, int lane, int word, int words, int shift, int bits) {
    int64_t at = words < 4 ? lane * 4 * words + 4 * word : (int64_t)(word / 4) * 512 + lane * 16 + 4 * (word % 4);
    uint32_t value =
        (uint32_t)plane[at] | (uint32_t)plane[at + 1] << 8 | (uint32_t)plane[at + 2] << 16 | (uint32_t)plane[at + 3] << 24;
    return (value >> shift) & ((1u << bits) - 1u);
}

/* The code of W[n][k], n and k inside the padded matrix. */
static unsigned code_at(const uint8_t *codes, int bits, int64_t k_total, int64_t n, int64_t k) {
    const uint8_t *tile = codes + ((n / 16) * ((k_total + 127) / 128) + k / 128) * bits * 256;
    int r = (int)(n % 16), c = (int)(k % 128);
    int g = r % 8, t = c % 32 / 8, step = 2 * (c / 32) + c % 8 / 4, p = r / 8 + 2 * (c % 4 / 2), e = c % 2;
    int lane = 4 * g + t, piece = step / 2, odd = step % 2;
    if (bits == 8)
        return field(tile, lane, 2 * step + p / 2, 16, 16 * e + 8 * (p % 2), 8);
    if (bits == 4)
        return field(tile, lane, 4 * (piece / 2) + p, 8, 16 * e + 4 * (piece % 2 + 2 * odd), 4);
    unsigned low = field(tile, lane, p, 4, 16 * e + 2 * (piece + 4 * odd), 2);
    if (bits == 2)
        return low;
    return low | field(tile + 512, lane, p / 2, 2, 16 * e + p % 2 + 2 * piece + 8 * odd, 1) << 2;
}

static void random_format(struct tern_random *random, int64_t k, struct tern_format *format) {
    static const char *const families[] = {"ternary", "gptq2", "gptq3", "gptq4", "gptq8"};
    char name[48], group[24] = "channel";
    size_t family = tern_random_below(random, 5), kind = tern_random_below(random, 4);
    if (kind == 0 && family == 0)
        snprintf(group, sizeof group, "tensor");
    else if (kind > 1)
        snprintf(group, sizeof group, "g%" PRIu64, 32 * (1 + tern_random_below(random, (uint64_t)k / 32)));
    snprintf(name, sizeof name, "%s-%s%s", families[family], group,
             family > 0 && tern_random_below(random, 2) ? "-asym" : "");
    assert_int_equal(tern_format_parse(name, format, NULL), TERN_OK);
    assert_string_equal(format->name, name);
}

/* Every place of the padded matrix: the code inside W, a weight of value 0 outside. */
static void check_codes(const struct tern_weights *w, const struct tern_packed *packed) {
    int64_t size = tern_format_group_size(&w->format, w->k);
    for (int64_t n = 0; n < (w->n + 15) / 16 * 16; n++) {
        for (int64_t k = 0; k < (w->k + 127) / 128 * 128; k++) {
            unsigned code = code_at(packed->codes, w->format.bits, w->k, n, k);
            int64_t group = k / size < w->groups ? k / size : w->groups - 1;
            unsigned zero = w->format.sym ? (unsigned)w->format.zero : n < w->n ? w->zeros[group * w->n + n] : 0;
            assert_int_equal(code, n < w->n && k < w->k ? w->codes[n * w->k + k] : zero);
        }
    }
}

static void check_scales(const struct tern_weights *w, const struct tern_packed *packed) {
    const uint16_t *scales = packed->scales;
    const uint8_t *zeros = packed->zeros;
    for (int64_t n = 0; n < (w->n + 15) / 16 * 16; n++) {
        for (int64_t group = 0; group < w->groups; group++) {
            int64_t at = ((n / 16 * w->groups + group) * 8 + n % 8) * 2 + n % 16 / 8;
            assert_int_equal(scales[at], n < w->n ? w->scales[group * w->n + n] : 0);
            if (!w->format.sym)
                assert_int_equal(zeros[at], n < w->n ? w->zeros[group * w->n + n] : 0);
        }
    }
}

static void every_place_is_where_the_text_says(void **state) {
    (void)state;
    const struct tern_layout *layout = tern_layout_find("frag16x128");
    struct tern_random random;
    tern_random_init(&random, 2024, "test-layout-shapes");
    for (int trial = 0; trial < 150; trial++) {
        int64_t n = 8 * (1 + (int64_t)tern_random_below(&random, 9)), k = 32 * (1 + (int64_t)tern_random_below(&random, 20));
        struct tern_format format;
        struct tern_weights w, back;
        struct tern_packed packed;
        random_format(&random, k, &format);
        assert_int_equal(tern_weights_random(&format, n, k, (uint64_t)trial, &w, NULL), TERN_OK);
        assert_int_equal(tern_layout_pack(layout, &w, &packed, NULL), TERN_OK);
        check_codes(&w, &packed);
        check_scales(&w, &packed);
        assert_int_equal(tern_layout_unpack(layout, &format, n, k, &packed, &back, NULL), TERN_OK);
        assert_memory_equal(w.codes, back.codes, (size_t)(n * k));
        tern_packed_free(&packed);
        tern_weights_free(&w);
        tern_weights_free(&back);
    }
}

/* No bit of the packed codes is unused: any flipped bit changes a weight or is reported. */
static void every_bit_matters(void **state) {
    (void)state;
    static const char *const names[] = {"ternary-g32", "gptq2-g96", "gptq3-g32-asym", "gptq4-channel", "gptq8-g64-asym"};
    const struct tern_layout *layout = tern_layout_find("frag16x128");
    for (int f = 0; f < 5; f++) {
        struct tern_format format;
        struct tern_weights w, back;
        struct tern_packed packed;
        assert_int_equal(tern_format_parse(names[f], &format, NULL), TERN_OK);
        assert_int_equal(tern_weights_random(&format, 8, 96, 5, &w, NULL), TERN_OK);
        assert_int_equal(tern_layout_pack(layout, &w, &packed, NULL), TERN_OK);
        for (int64_t bit = 0; bit < packed.code_bytes * 8; bit++) {
            ((uint8_t *)packed.codes)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            if (tern_layout_unpack(layout, &format, 8, 96, &packed, &back, NULL) == TERN_OK) {
                int64_t changed = 0;
                for (int64_t i = 0; i < 8 * 96; i++)
                    changed += w.codes[i] != back.codes[i];
                assert_int_equal(changed, 1);
                tern_weights_free(&back);
            }
            ((uint8_t *)packed.codes)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        }
        tern_packed_free(&packed);
        tern_weights_free(&w);
    }
}

/* Damaged names either are refused with an error or are the canonical name of what they give. */
static void damaged_names_never_parse_to_another(void **state) {
    (void)state;
    static const char letters[] = "-gasymtenrchlpq0123456789 GX";
    struct tern_random random;
    int refused = 0;
    tern_random_init(&random, 77, "test-names");
    for (int trial = 0; trial < 20000; trial++) {
        struct tern_format format;
        struct tern_error err = {0};
        char name[64];
        snprintf(name, sizeof name, "%s", tern_format_examples[tern_random_below(&random, tern_format_example_count)]);
        for (uint64_t edits = 1 + tern_random_below(&random, 3); edits > 0; edits--)
            name[tern_random_below(&random, strlen(name))] = letters[tern_random_below(&random, sizeof letters - 1)];
        if (tern_format_parse(name, &format, &err) == TERN_OK) {
            assert_string_equal(format.name, name);
        } else {
            assert_true(err.status == TERN_USAGE && err.text[0] != '\0');
            refused++;
        }
    }
    assert_true(refused > 10000 && refused < 20000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_place_is_where_the_text_says),
        cmocka_unit_test(every_bit_matters),
        cmocka_unit_test(damaged_names_never_parse_to_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
