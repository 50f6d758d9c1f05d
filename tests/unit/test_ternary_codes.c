/* Decoders of packed ternary weights: bytes worked out by hand from the published layouts, and every element of random bytes
 * against the layout's formula, one element at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/half.h"
#include "formats/ternary_codes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void random_bytes(uint8_t *bytes, size_t count, uint64_t seed) {
    uint64_t x = seed * 2 + 1;
    for (size_t i = 0; i < count; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(x >> 56);
    }
}

/* q of five or four digits, first digit leading, by division: the inverse of the writer's ceil. */
static int tq1_digit_of(uint8_t byte, int digit) {
    static const int powers[5] = {81, 27, 9, 3, 1};
    return byte * 243 / 256 / powers[digit] % 3;
}

static void tq1_0_by_hand(void **state) {
    (void)state;
    uint8_t block[54], codes[256];
    float scale;
    memset(block, 0x80, 48); /* all weights 0: q 121, ceil(121 * 256 / 243) = 128 */
    memset(block + 48, 0x7F, 4);
    block[52] = 0x00;
    block[53] = 0x3C;
    block[5] = 0xAB;  /* digits 2 0 0 0 0 */
    block[40] = 0x31; /* digits 0 1 2 0 1 */
    tern_codes_tq1_0(block, 1, codes, &scale);
    assert_true(scale == 1.0F);
    static const uint8_t first[5] = {2, 0, 0, 0, 0}, second[5] = {0, 1, 2, 0, 1};
    for (int e = 0; e < 256; e++) {
        int expected = 1;
        if (e < 160 && e % 32 == 5)
            expected = first[e / 32];
        if (e >= 160 && e < 240 && (e - 160) % 16 == 8)
            expected = second[(e - 160) / 16];
        assert_int_equal(codes[e], expected);
    }
    assert_int_equal(tern_codes_tq1_0_odd_bytes(block, 1), 0);
}

/* All 243 patterns of five digits and all 81 of four, from the writer's formula, in every place of a block. */
static void tq1_0_every_pattern(void **state) {
    (void)state;
    uint8_t block[54] = {0}, codes[256];
    float scale;
    for (int q = 0; q < 243; q++) {
        memset(block, (q * 256 + 242) / 243, 48);
        memset(block + 48, (q / 3 * 3 * 256 + 242) / 243, 4);
        tern_codes_tq1_0(block, 1, codes, &scale);
        const int digits[5] = {q / 81, q / 27 % 3, q / 9 % 3, q / 3 % 3, q % 3};
        for (int e = 0; e < 160; e++)
            assert_int_equal(codes[e], digits[e / 32]);
        for (int e = 160; e < 240; e++)
            assert_int_equal(codes[e], digits[(e - 160) / 16]);
        for (int e = 240; e < 256; e++)
            assert_int_equal(codes[e], digits[(e - 240) / 4]);
        assert_int_equal(tern_codes_tq1_0_odd_bytes(block, 1), 0);
    }
}

static void tq1_0_bytes_that_no_writer_makes(void **state) {
    (void)state;
    static const uint8_t odd[] = {1, 20, 40, 60, 79, 99, 119, 138, 158, 178, 197, 217, 237};
    uint8_t block[54] = {0};
    size_t next = 0;
    for (int byte = 0; byte < 256; byte++) {
        block[17] = (uint8_t)byte;
        int expected = next < sizeof odd && odd[next] == byte;
        next += expected;
        assert_int_equal(tern_codes_tq1_0_odd_bytes(block, 1), expected);
    }
    assert_int_equal(next, sizeof odd);
    block[17] = 0;
    block[48] = 0x31; /* fifth digit 1 where only four are stored */
    assert_int_equal(tern_codes_tq1_0_odd_bytes(block, 1), 1);
}

static void tq1_0_random(void **state) {
    (void)state;
    uint8_t blocks[3 * 54], codes[3 * 256];
    float scales[3];
    random_bytes(blocks, sizeof blocks, 1);
    tern_codes_tq1_0(blocks, 3, codes, scales);
    for (int i = 0; i < 3 * 256; i++) {
        const uint8_t *b = blocks + i / 256 * 54;
        const int e = i % 256;
        int expected = e < 160   ? tq1_digit_of(b[e % 32], e / 32)
                       : e < 240 ? tq1_digit_of(b[32 + (e - 160) % 16], (e - 160) / 16)
                                 : tq1_digit_of(b[48 + (e - 240) % 4], (e - 240) / 4);
        assert_int_equal(codes[i], expected);
    }
}

/* Not four neighbours a byte (llama.cpp#28769): the only +1 at e = 1 is byte 1, bits 0 and 1. */
static void tq2_0_by_hand(void **state) {
    (void)state;
    uint8_t block[66], codes[256];
    float scale;
    memset(block, 0x55, 64);
    block[1] = 0x56;
    block[64] = 0x00;
    block[65] = 0xC0;
    tern_codes_tq2_0(block, 1, codes, &scale);
    assert_true(scale == -2.0F);
    for (int e = 0; e < 256; e++)
        assert_int_equal(codes[e], e == 1 ? 2 : 1);
}

static void tq2_0_random(void **state) {
    (void)state;
    uint8_t blocks[3 * 66], codes[3 * 256];
    float scales[3];
    random_bytes(blocks, sizeof blocks, 2);
    tern_codes_tq2_0(blocks, 3, codes, scales);
    for (int i = 0; i < 3 * 256; i++) {
        const int e = i % 256;
        const uint8_t *b = blocks + i / 256 * 66;
        assert_int_equal(codes[i], b[32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3);
    }
    for (int b = 0; b < 3; b++) {
        float expected = tern_half_to_float((uint16_t)(blocks[b * 66 + 64] | blocks[b * 66 + 65] << 8));
        assert_memory_equal(&scales[b], &expected, sizeof expected);
    }
}

static void q2_0_by_hand(void **state) {
    (void)state;
    uint8_t blocks[36], codes[128];
    float scales[2];
    memset(blocks, 0x55, sizeof blocks);
    blocks[0] = 0x00;
    blocks[1] = 0x38;  /* d 0.5 comes first */
    blocks[2] = 0x92;  /* 1, -1, 0, 1 */
    blocks[18] = 0x01; /* least subnormal */
    blocks[19] = 0x00;
    blocks[35] = 0xD5; /* the last weight is +2: legal here */
    tern_codes_q2_0(blocks, 2, codes, scales);
    assert_true(scales[0] == 0.5F);
    assert_true(scales[1] == 0x1p-24F);
    assert_memory_equal(codes, ((uint8_t[]){2, 0, 1, 2, 1}), 5);
    assert_int_equal(codes[127], 3);
    for (int e = 5; e < 127; e++)
        assert_int_equal(codes[e], 1);
}

static void fields_by_hand(void **state) {
    (void)state;
    static const uint8_t packed[] = {0x49, 0xAA, 0x80, 0xE4}; /* read as signed, the middle two are negative */
    static const uint8_t expected[] = {2, 0, 1, 2, 0, 0, 0, 0, 1, 1, 1, 0, 1, 2, 0};
    uint8_t codes[16];
    tern_codes_fields(packed, 4, 1, codes);
    assert_memory_equal(codes, expected, 15);
    assert_int_equal(codes[15], 1);
    tern_codes_fields(packed, 4, 0, codes);
    assert_memory_equal(codes, expected, 15);
    assert_int_equal(codes[15], 3);
}

/* Odd lengths and addresses: no code behind the end is written, none before the start is read. */
static void fields_random(void **state) {
    (void)state;
    static const uint8_t legal[4] = {1, 2, 0, 3}, reserved[4] = {1, 2, 0, 1};
    for (int64_t bytes = 0; bytes < 70; bytes++) {
        uint8_t *packed = malloc((size_t)bytes + 1), *codes = malloc((size_t)bytes * 4 + 1);
        random_bytes(packed, (size_t)bytes + 1, (uint64_t)bytes);
        int64_t threes = 0;
        for (int kind = 0; kind < 2; kind++) {
            codes[bytes * 4] = 77;
            tern_codes_fields(packed + 1, bytes, kind, codes);
            threes = 0;
            for (int64_t i = 0; i < bytes * 4; i++) {
                int field = packed[1 + i / 4] >> 2 * (i % 4) & 3;
                threes += field == 3;
                assert_int_equal(codes[i], kind ? reserved[field] : legal[field]);
            }
            assert_int_equal(codes[bytes * 4], 77);
        }
        assert_int_equal(tern_codes_count_3(packed + 1, bytes), threes);
        free(packed);
        free(codes);
    }
}

static void int8_values(void **state) {
    (void)state;
    uint8_t all[256], codes[256];
    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    tern_codes_int8(all, 256, codes);
    for (int i = 0; i < 256; i++) {
        int value = i < 128 ? i : i - 256;
        bool legal = value >= -1 && value <= 1;
        assert_int_equal(codes[i] <= 2, legal);
        if (legal)
            assert_int_equal(codes[i] - 1, value);
    }
}

/* N = 8, one column 1 -1 0 1 -1 0 1 -1: byte row 0 holds rows 0 2 4 6, byte row 1 holds rows 1 3 5 7. */
static void bitnet_by_hand(void **state) {
    (void)state;
    static const uint8_t packed[2] = {0x86, 0x18};
    static const int expected[8] = {1, -1, 0, 1, -1, 0, 1, -1};
    for (int n = 0; n < 8; n++) {
        uint8_t code;
        tern_codes_bitnet(&packed[n % 2], 1, n / 2, &code);
        assert_int_equal(code - 1, expected[n]);
    }
}

/* The first word of the first tile is row 0, k 0..15; the words published for four rows of 16 weights. */
static void bitnet_gpu_by_hand(void **state) {
    (void)state;
    static const struct {
        uint32_t word;
        int k, weight;
    } samples[] = {{0xAAAAAAAA, 0, 0}, {0xAAAAABAA, 1, 1}, {0xAAAAAAAE, 4, 1}};
    static const uint8_t repeated[4] = {0, 1, 2, 1};
    uint8_t tile[128], codes[32];
    for (size_t s = 0; s < sizeof samples / sizeof *samples; s++) {
        memset(tile, 0xAA, sizeof tile);
        memcpy(tile, &samples[s].word, 4); /* tests run on little-endian machines */
        tern_codes_bitnet_gpu(tile, 32, 0, codes);
        for (int k = 0; k < 32; k++)
            assert_int_equal(codes[k] - 1, k == samples[s].k ? samples[s].weight : 0);
    }
    memcpy(tile, &(uint32_t){0xAAFFAA55}, 4);
    tern_codes_bitnet_gpu(tile, 32, 0, codes);
    for (int k = 0; k < 16; k++)
        assert_int_equal(codes[k], repeated[k % 4]);
    tile[0] = 0xA8;
    tern_codes_bitnet_gpu(tile, 32, 0, codes);
    assert_int_equal(codes[0], 255);
}

static void bitnet_gpu_random(void **state) {
    (void)state;
    enum { N = 32, K = 96 };
    static uint8_t packed[N * K / 4];
    uint8_t codes[K];
    random_bytes(packed, sizeof packed, 4);
    for (int n = 0; n < N; n++) {
        tern_codes_bitnet_gpu(packed, K, n, codes);
        for (int k = 0; k < K; k++) {
            int tile = n / 16 * (K / 32) + k / 32, t = n % 16 / 8 * 16 + k % 32 / 16 * 8 + n % 8, e = k % 16;
            int field = packed[tile * 128 + 4 * t + e % 4] >> 2 * (e / 4) & 3;
            assert_int_equal(codes[k], (uint8_t)(field - 1));
        }
    }
}

static void counts(void **state) {
    (void)state;
    enum { COUNT = 40007 };
    static uint8_t codes[COUNT];
    int64_t got[3] = {5, 0, 0}, expected[256] = {5};
    random_bytes(codes, COUNT, 9);
    for (int i = 0; i < COUNT; i++) {
        codes[i] = i % 97 ? codes[i] % 3 : codes[i];
        expected[codes[i]]++;
    }
    int64_t more = tern_codes_count(codes, COUNT, got);
    assert_memory_equal(got, expected, sizeof got);
    assert_int_equal(got[0] + got[1] + got[2] + more, COUNT + 5);
    assert_true(more > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tq1_0_by_hand),
        cmocka_unit_test(tq1_0_every_pattern),
        cmocka_unit_test(tq1_0_bytes_that_no_writer_makes),
        cmocka_unit_test(tq1_0_random),
        cmocka_unit_test(tq2_0_by_hand),
        cmocka_unit_test(tq2_0_random),
        cmocka_unit_test(q2_0_by_hand),
        cmocka_unit_test(fields_by_hand),
        cmocka_unit_test(fields_random),
        cmocka_unit_test(int8_values),
        cmocka_unit_test(bitnet_by_hand),
        cmocka_unit_test(bitnet_gpu_by_hand),
        cmocka_unit_test(bitnet_gpu_random),
        cmocka_unit_test(counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
