/* Layout frag16x128: bytes worked out by hand from layout.h's text, exact inverse over formats and shapes, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/file.h"
#include "formats/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tern_layout *frag(void) {
    const struct tern_layout *layout = tern_layout_find("frag16x128");
    assert_non_null(layout);
    return layout;
}

/* Weights of value 0 with scale 1, to be changed by a test. */
static struct tern_weights flat(const char *name, int64_t n, int64_t k) {
    struct tern_format format;
    struct tern_weights w;
    assert_int_equal(tern_format_parse(name, &format, NULL), TERN_OK);
    assert_int_equal(tern_weights_random(&format, n, k, 1, &w, NULL), TERN_OK);
    memset(w.codes, format.sym ? format.zero : 0, (size_t)(n * k));
    for (int64_t i = 0; i < w.groups * n; i++) {
        w.scales[i] = 0x3C00;
        if (w.zeros)
            w.zeros[i] = 0;
    }
    return w;
}

static struct tern_packed pack_ok(const struct tern_weights *w) {
    struct tern_packed packed;
    struct tern_error err = {0};
    if (tern_layout_pack(frag(), w, &packed, &err) != TERN_OK)
        fail_msg("%s", err.text);
    return packed;
}

static void expect_bytes(const struct tern_packed *packed, int64_t offset, const uint8_t *bytes, size_t count) {
    assert_true(offset + (int64_t)count <= packed->code_bytes);
    assert_memory_equal((const uint8_t *)packed->codes + offset, bytes, count);
}

static void names(void **state) {
    (void)state;
    assert_string_equal(tern_layout_name(frag()), "frag16x128");
    assert_null(tern_layout_find("frag16x12"));
    assert_null(tern_layout_find(""));
}

/* Lane 0 of 2-bit codes: word p has row 8 * (p & 1), k 2 * (p / 2) + e of step 0 in slot 0 and k 4 + 2 * (p / 2) + e, step
 * 1, in slot 4; all other codes are 1, so words are 0x5555 but for these slots. Word 0, low:  q[0][0]=0, q[0][4]=1<<8  =
 * 0x5554, high: q[0][1]=1, q[0][5]=2<<8  = 0x5655 Word 1, both: q[8][0]=2, q[8][4]=0     = 0x5456 Word 2, low:  q[0][2]=2,
 * q[0][6]=0     = 0x5456, high: q[0][3]=0, q[0][7]=1<<8  = 0x5554 Word 3 as word 1. */
static void first_word_of_ternary(void **state) {
    (void)state;
    struct tern_weights w = flat("ternary-channel", 16, 128);
    memcpy(w.codes, (uint8_t[]){0, 1, 2, 0, 1, 2, 0, 1}, 8);
    memcpy(w.codes + 8 * 128, (uint8_t[]){2, 2, 2, 2, 0, 0, 0, 0}, 8);
    struct tern_packed packed = pack_ok(&w);
    assert_int_equal(packed.code_bytes, 512);
    expect_bytes(&packed, 0, (uint8_t[]){0x54, 0x55, 0x55, 0x56, 0x56, 0x54, 0x56, 0x54}, 8);
    expect_bytes(&packed, 8, (uint8_t[]){0x56, 0x54, 0x54, 0x55, 0x56, 0x54, 0x56, 0x54}, 8);
    for (int i = 16; i < 512; i++)
        assert_int_equal(((uint8_t *)packed.codes)[i], 0x55);
    tern_packed_free(&packed);
    tern_weights_free(&w);
}

/* Row 13 = 5 + 8: g 5, p odd. k 77 = 32*2 + 8*1 + 4*1 + 2*0 + 1: step 2*2+1 = 5, t 1, p = 1, e 1. Lane 4*5+1 = 21, P = 4*5+1
 * = 21, piece 2, odd 1. 4 bit: word 4*(2/2) + 1 = 5, bit 16 + 4*(0 + 2) = 24; chunk 1, word 1 of it: 512 + 21*16 + 4 = 852.
 * 8 bit: word 10, bit 16 + 8*1 = 24; chunk 2, word 2: 1024 + 336 + 8 = 1368. */
static void one_weight_of_four_and_eight_bits(void **state) {
    (void)state;
    struct tern_weights w = flat("gptq4-g128", 16, 128);
    w.codes[13 * 128 + 77] = 15;
    struct tern_packed packed = pack_ok(&w);
    assert_int_equal(packed.code_bytes, 1024);
    expect_bytes(&packed, 852, (uint8_t[]){0x88, 0x88, 0x88, 0x8F}, 4);
    ((uint8_t *)packed.codes)[855] = 0x88;
    for (int i = 0; i < 1024; i++)
        assert_int_equal(((uint8_t *)packed.codes)[i], 0x88);
    tern_packed_free(&packed);
    tern_weights_free(&w);

    w = flat("gptq8-channel", 16, 128);
    w.codes[13 * 128 + 77] = 0x5A;
    packed = pack_ok(&w);
    assert_int_equal(packed.code_bytes, 2048);
    expect_bytes(&packed, 1368, (uint8_t[]){0x80, 0x80, 0x80, 0x5A}, 4);
    tern_packed_free(&packed);
    tern_weights_free(&w);
}

/* The same weight in 3 bits, code 3 (zero 4 = low 0, high 1). Low plane: word 1, bit 16 + 2*(2 + 4) = 28, at 21*16 + 4 =
 * 340. High plane at 512: word 0, bit 16 + (1 + 2*2 + 8) = 29, two words a lane: 512 + 21*8 = 680. */
static void one_weight_of_three_bits(void **state) {
    (void)state;
    struct tern_weights w = flat("gptq3-g128", 16, 128);
    w.codes[13 * 128 + 77] = 3;
    struct tern_packed packed = pack_ok(&w);
    assert_int_equal(packed.code_bytes, 768);
    expect_bytes(&packed, 340, (uint8_t[]){0x00, 0x00, 0x00, 0x30}, 4);
    expect_bytes(&packed, 680, (uint8_t[]){0xFF, 0xFF, 0xFF, 0xDF}, 4);
    for (int i = 0; i < 512; i++)
        assert_int_equal(((uint8_t *)packed.codes)[i], i == 343 ? 0x30 : 0);
    for (int i = 512; i < 768; i++)
        assert_int_equal(((uint8_t *)packed.codes)[i], i == 683 ? 0xDF : 0xFF);
    tern_packed_free(&packed);
    tern_weights_free(&w);
}

/* N 24, K 160: 2 x 2 tiles. Row 17, k 130 is tile 1*2+1 = 3, row 1, k 2 there: lane 4, P = 2, word 2, e 0: 3*1024 + 4*16 +
 * 8, bit 0. */
static void tiles_are_row_tile_major(void **state) {
    (void)state;
    struct tern_weights w = flat("gptq4-g32", 24, 160);
    w.codes[17 * 160 + 130] = 3;
    w.scales[3 * 24 + 18] = 0x1234; /* group 3, row 18: tile 1, g 2, h 0: ((1*5)+3)*16 + 4 = 132 */
    w.scales[4 * 24 + 13] = 0x4321; /* group 4, row 13: tile 0, g 5, h 1: 4*16 + 11 = 75 */
    struct tern_packed packed = pack_ok(&w);
    assert_int_equal(packed.code_bytes, 4 * 1024);
    assert_int_equal(packed.scale_bytes, 2 * 5 * 16 * 2);
    assert_int_equal(packed.zero_bytes, 0);
    assert_null(packed.zeros);
    expect_bytes(&packed, 3144, (uint8_t[]){0x83, 0x88, 0x88, 0x88}, 4);
    const uint16_t *scales = packed.scales;
    assert_int_equal(scales[132], 0x1234);
    assert_int_equal(scales[75], 0x4321);
    assert_int_equal(scales[133], 0); /* h 1 of tile 1: row 26, padding */
    assert_int_equal(scales[134], 0x3C00);
    tern_packed_free(&packed);
    tern_weights_free(&w);
}

/* Padded columns carry their row's last zero point, padded rows code 0 and zero 0: both are weights of value 0. */
static void asymmetric_padding(void **state) {
    (void)state;
    struct tern_weights w = flat("gptq8-g32-asym", 8, 64);
    memset(w.codes, 200, 8 * 64);
    memset(w.zeros, 17, 8);
    memset(w.zeros + 8, 99, 8);
    struct tern_packed packed = pack_ok(&w);
    assert_int_equal(packed.zero_bytes, 2 * 16);
    /* lane 0: chunk 0 is k 0..7: row 0 and 8, words P0 P1 = (row 0, row 8), (row 0, row 8); k 96: step 6, word 12, chunk 3
     */
    expect_bytes(&packed, 0, (uint8_t[]){200, 0, 200, 0, 200, 0, 200, 0}, 8);
    expect_bytes(&packed, 3 * 512, (uint8_t[]){99, 0, 99, 0, 99, 0, 99, 0}, 8);
    const uint8_t *zeros = packed.zeros;
    for (int i = 0; i < 32; i++)
        assert_int_equal(zeros[i], i % 2 ? 0 : i < 16 ? 17 : 99);
    tern_packed_free(&packed);
    tern_weights_free(&w);
}

static void check_round_trip(const char *name, int64_t n, int64_t k, uint64_t seed) {
    struct tern_format format;
    struct tern_weights in, out;
    struct tern_packed packed;
    struct tern_error err = {0};
    int64_t code_bytes, scale_bytes, zero_bytes;
    assert_int_equal(tern_format_parse(name, &format, NULL), TERN_OK);
    assert_int_equal(tern_weights_random(&format, n, k, seed, &in, &err), TERN_OK);
    packed = pack_ok(&in);
    tern_layout_sizes(frag(), &format, n, k, &code_bytes, &scale_bytes, &zero_bytes);
    assert_int_equal(packed.code_bytes, code_bytes);
    assert_int_equal(packed.scale_bytes, scale_bytes);
    assert_int_equal(packed.zero_bytes, zero_bytes);
    assert_int_equal(code_bytes, (n + 15) / 16 * ((k + 127) / 128) * 256 * format.bits);
    if (tern_layout_unpack(frag(), &format, n, k, &packed, &out, &err) != TERN_OK)
        fail_msg("%s %d x %d: %s", name, (int)n, (int)k, err.text);
    assert_int_equal(out.groups, in.groups);
    assert_memory_equal(in.codes, out.codes, (size_t)(n * k));
    assert_memory_equal(in.scales, out.scales, (size_t)(n * in.groups) * 2);
    if (in.zeros)
        assert_memory_equal(in.zeros, out.zeros, (size_t)(n * in.groups));
    else
        assert_null(out.zeros);
    tern_packed_free(&packed);
    tern_weights_free(&in);
    tern_weights_free(&out);
}

static void every_format_and_shape_round_trips(void **state) {
    (void)state;
    static const char *const families[] = {"ternary", "gptq2", "gptq3", "gptq4", "gptq8"};
    static const char *const groups[] = {"g32", "g64", "g96", "g128", "g160", "channel", "tensor"};
    static const int64_t ns[] = {8, 24, 2880}, ks[] = {32, 96, 160, 704};
    int checked = 0;
    for (int f = 0; f < 5; f++) {
        for (int g = 0; g < 7; g++) {
            for (int shape = 0; shape < 12; shape++) {
                int64_t n = ns[shape % 3], k = ks[shape / 3];
                char name[48];
                if ((g == 6 && f > 0) || (groups[g][0] == 'g' && atoll(groups[g] + 1) > k))
                    continue; /* not a legal format, or a group beyond K */
                snprintf(name, sizeof name, "%s-%s", families[f], groups[g]);
                check_round_trip(name, n, k, (uint64_t)(100 * f + g));
                if (f > 0) {
                    snprintf(name, sizeof name, "%s-%s-asym", families[f], groups[g]);
                    check_round_trip(name, n, k, (uint64_t)(1000 * f + g));
                }
                checked++;
            }
        }
    }
    assert_int_equal(checked,
                     5 * 3 * (1 + 3 + 5 + 5 + 4) + 12); /* legal (group or channel, K) pairs: 18 a family, + tensor */
}

static void illegal_weights_are_refused(void **state) {
    (void)state;
    struct tern_packed packed;
    struct tern_error err = {0};
    struct tern_weights w = flat("ternary-g32", 40, 96);
    w.codes[37 * 96 + 95] = 3;
    assert_int_equal(tern_layout_pack(frag(), &w, &packed, &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "code 3 at row 37, k 95"));
    assert_null(packed.codes);
    tern_weights_free(&w);
    w = flat("gptq3-channel", 8, 32);
    w.codes[0] = 8;
    assert_int_equal(tern_layout_pack(frag(), &w, &packed, &err), TERN_USAGE);
    tern_weights_free(&w);
    w = flat("gptq4-g32-asym", 8, 64);
    w.zeros[8 + 3] = 16;
    assert_int_equal(tern_layout_pack(frag(), &w, &packed, &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "row 3, group 1"));
    tern_weights_free(&w);
    w = flat("ternary-tensor", 8, 64);
    w.scales[5] = 0x3C01;
    assert_int_equal(tern_layout_pack(frag(), &w, &packed, &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "row 5"));
    tern_weights_free(&w);
}

/* Unpack of a changed byte in padding, of an illegal ternary code, of a padded row's scale, and of a wrong size. */
static void damaged_packs_are_refused(void **state) {
    (void)state;
    struct tern_weights w = flat("ternary-g32", 24, 96), out;
    struct tern_error err = {0};
    struct tern_packed packed = pack_ok(&w);
    uint8_t *codes = packed.codes;
    uint16_t *scales = packed.scales;
    codes[0] = 0x57; /* row 8, k 0: code 1 stays, row 0 k 0 becomes 3 */
    assert_int_equal(tern_layout_unpack(frag(), &w.format, 24, 96, &packed, &out, &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "row 0, k 0"));
    assert_null(out.codes);
    codes[0] = 0x55;
    codes[516] = 0x56; /* tile 1, word 1, row 24: padding */
    assert_int_equal(tern_layout_unpack(frag(), &w.format, 24, 96, &packed, &out, &err), TERN_INTERNAL);
    assert_non_null(strstr(err.text, "padding"));
    codes[516] = 0x55;
    scales[3 * 16 + 1] = 1; /* tile 1, group 0, row 24 */
    assert_int_equal(tern_layout_unpack(frag(), &w.format, 24, 96, &packed, &out, &err), TERN_INTERNAL);
    scales[3 * 16 + 1] = 0;
    packed.code_bytes -= 4;
    assert_int_equal(tern_layout_unpack(frag(), &w.format, 24, 96, &packed, &out, &err), TERN_INTERNAL);
    packed.code_bytes += 4;
    assert_int_equal(tern_layout_unpack(frag(), &w.format, 24, 96, &packed, &out, &err), TERN_OK);
    tern_weights_free(&out);
    tern_packed_free(&packed);
    tern_weights_free(&w);
}

/* Lines of docs/formats.md that look like "| gptq4-g128 | 16 x 128 | q[13][77] = 15 | 852 | 88 88 F8 88 |". */
static int check_documented_line(const char *line) {
    char name[40];
    int n, k, row, col, code, offset;
    unsigned bytes[4];
    if (sscanf(line, "| `%39[a-z0-9-]` | %d x %d | q[%d][%d] = %d | %d | %x %x %x %x |", name, &n, &k, &row, &col, &code,
               &offset, &bytes[0], &bytes[1], &bytes[2], &bytes[3]) != 11)
        return 0;
    struct tern_weights w = flat(name, n, k);
    w.codes[row * k + col] = (uint8_t)code;
    struct tern_packed packed = pack_ok(&w);
    expect_bytes(&packed, offset, (uint8_t[]){(uint8_t)bytes[0], (uint8_t)bytes[1], (uint8_t)bytes[2], (uint8_t)bytes[3]},
                 4);
    tern_packed_free(&packed);
    tern_weights_free(&w);
    return 1;
}

static void documented_bytes_are_true(void **state) {
    (void)state;
    char path[4096], *text = NULL, *rest, *line;
    size_t length;
    int checked = 0;
    struct tern_error err = {0};
    assert_int_equal(tern_file_home_path("docs/formats.md", path, sizeof path, &err), TERN_OK);
    assert_int_equal(tern_file_read(path, &text, &length, &err), TERN_OK);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        checked += check_documented_line(line);
    assert_int_equal(checked, 7);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(first_word_of_ternary),
        cmocka_unit_test(one_weight_of_four_and_eight_bits),
        cmocka_unit_test(one_weight_of_three_bits),
        cmocka_unit_test(tiles_are_row_tile_major),
        cmocka_unit_test(asymmetric_padding),
        cmocka_unit_test(every_format_and_shape_round_trips),
        cmocka_unit_test(illegal_weights_are_refused),
        cmocka_unit_test(damaged_packs_are_refused),
        cmocka_unit_test(documented_bytes_are_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
