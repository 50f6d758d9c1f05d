/* `tune reconcile`: the second decode on worked bytes, what it says of decoders and cuts that are wrong on purpose, and the shares of
 * ranks in numbers. */
#include "checkpoint_fixture.h"
#include "formats/census.h"
#include "formats/linear_parts.h"
#include "formats/literal.h"
#include "formats/shard_proof.h"
#include "formats/unpack_proof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

// ---- the specification, in worked bytes -------------------------------------------------------------------------------------

static void literal_words(void **state) {
    static const uint8_t eight[] = {0x88, 0xC6, 0xFA, 0x88, 0xC6, 0xFA, 0x88, 0xC6, 0xFA, 0x88, 0xC6, 0xFA};
    static const uint8_t planar[] = {0xE4, 0xE4, 0xE4, 0xE4, 0xE4, 0xE4, 0xE4, 0xE4, 0xF0, 0xF0, 0xF0, 0xF0};
    static const uint8_t awq[] = {0x20, 0x64, 0x31, 0x75}, four[] = {0x10, 0x32, 0x54, 0x76};
    static const uint8_t zeros3[] = {0xDB, 0xB6, 0x6D, 0xDB, 0xB6, 0x6D, 0xDB, 0xB6, 0x6D, 0xDB, 0xB6, 0x6D};
    static const uint32_t zeros4 = 0x7777777F;
    (void)state;
    struct tern_literal l = {
        .codes = eight, .n = 1, .k = 32, .group = 32, .groups = 1, .bits = 3, .format = TERN_LITERAL_GPTQ};
    for (int k = 0; k < 32; k++) {
        l.codes = eight;
        l.format = TERN_LITERAL_GPTQ;
        assert_int_equal(tern_literal_code(&l, 0, k), k % 8);
        l.codes = planar;
        l.format = TERN_LITERAL_GPTQ_PLANAR;
        assert_int_equal(tern_literal_code(&l, 0, k), k % 8);
    }
    l = (struct tern_literal){.codes = awq, .n = 8, .k = 1, .bits = 4, .format = TERN_LITERAL_AWQ};
    for (int n = 0; n < 8; n++)
        assert_int_equal(tern_literal_code(&l, n, 0), n);
    l = (struct tern_literal){.codes = four, .n = 1, .k = 8, .bits = 4, .code_words = 1, .format = TERN_LITERAL_PACKED};
    for (int k = 0; k < 8; k++)
        assert_int_equal(tern_literal_code(&l, 0, k), k);
    /* Zero points: lane by lane, modulo 2^bits. */
    l = (struct tern_literal){.zeros = (const uint8_t *)&zeros4, .n = 8, .bits = 4, .zero_words = 1, .zero_offset = 1};
    for (int n = 0; n < 8; n++)
        assert_int_equal(tern_literal_zero(&l, n, 0), n == 0 ? 0 : 8);
    l = (struct tern_literal){.zeros = zeros3, .n = 32, .bits = 3, .zero_words = 3, .zero_offset = 1};
    for (int n = 0; n < 32; n++)
        assert_int_equal(tern_literal_zero(&l, n, 0), 4);
}

static void literal_ternary(void **state) {
    static const uint8_t fields[] = {0x49, 0xAA, 0x80}, strided[] = {0x86, 0x18};
    static const int of_fields[] = {1, -1, 0, 1, -1, -1, -1, -1, 0, 0, 0, -1}, of_strided[] = {1, -1, 0, 1, -1, 0, 1, -1};
    uint8_t tile[128], block[66] = {0};
    (void)state;
    struct tern_literal l = {.codes = fields, .n = 1, .k = 12, .format = TERN_LITERAL_TERNARY_I};
    for (int k = 0; k < 12; k++)
        assert_int_equal(tern_literal_code(&l, 0, k) - 1, of_fields[k]);
    l = (struct tern_literal){.codes = strided, .n = 8, .k = 1, .format = TERN_LITERAL_BITNET};
    for (int n = 0; n < 8; n++)
        assert_int_equal(tern_literal_code(&l, n, 0) - 1, of_strided[n]);
    memset(tile, 0xAA, sizeof tile); /* weights 0, but w1 = +1 and w4 = +1 of the first word */
    tile[0] = 0xAE;
    tile[1] = 0xAB;
    l = (struct tern_literal){.codes = tile, .n = 16, .k = 32, .format = TERN_LITERAL_BITNET_GPU};
    for (int k = 0; k < 32; k++)
        assert_int_equal(tern_literal_code(&l, 0, k) - 1, k == 1 || k == 4);
    /* TQ2_0: one weight +1 at e = 1 is in byte 1 at shift 0. TQ1_0: 0xAB is 2 0 0 0 0, 0x31 is 0 1 2 0 1. */
    memset(block, 0x55, 64);
    block[1] = 0x56;
    l = (struct tern_literal){.codes = block, .n = 1, .k = 256, .format = TERN_LITERAL_TQ2_0};
    for (int k = 0; k < 256; k++)
        assert_int_equal(tern_literal_code(&l, 0, k) - 1, k == 1);
    static const int first[] = {2, 0, 0, 0, 0}, second[] = {0, 1, 2, 0, 1};
    block[0] = 0xAB;
    block[1] = 0x31;
    l.format = TERN_LITERAL_TQ1_0;
    for (int digit = 0; digit < 5; digit++) {
        assert_int_equal(tern_literal_code(&l, 0, 32 * digit), first[digit]);
        assert_int_equal(tern_literal_code(&l, 0, 32 * digit + 1), second[digit]);
    }
}

// ---- wrong on purpose -------------------------------------------------------------------------------------------------------

#define N      16
#define K      64
#define GROUPS 2
#define HEADER                                                                                                              \
    "{\"a.qweight\":{\"dtype\":\"I32\",\"shape\":[8,16],\"data_offsets\":[0,512]},"                                         \
    "\"a.qzeros\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[512,528]},"                                          \
    "\"a.scales\":{\"dtype\":\"F16\",\"shape\":[2,16],\"data_offsets\":[528,592]}}"

/* What a decoder does wrong: in layers of fewer than `below` columns or rows only, so that cuts alone can be hit. */
static struct {
    int64_t k_below, n_below;
    int what; /* 0 code, 1 zero point, 2 scale */
    int64_t row, k;
} fault;
static const struct tern_checkpoint_format *original;

static void wrong_decode(const struct tern_linear *layer, struct tern_linear_rows *rows) {
    original->decode(layer, rows);
    const int64_t i = fault.row - rows->first;
    if (layer->k >= fault.k_below || layer->n >= fault.n_below || i < 0 || i >= rows->count)
        return;
    if (fault.what == 0)
        rows->codes[i * layer->k + fault.k] ^= 1;
    else if (fault.what == 1)
        rows->zeros[i * layer->groups] ^= 1;
    else
        rows->scales[i * layer->groups] *= 2;
}

struct opened {
    struct tern_checkpoint checkpoint;
    struct tern_linears layers;
};

static void open_wrong(const char *dir, struct opened *o) {
    static struct tern_checkpoint_format wrong;
    uint8_t data[592];
    struct tern_error err = {0};
    for (int i = 0; i < 512; i++)
        data[i] = (uint8_t)(i * 37 + i / 7);
    memset(data + 512, 0x77, 16);
    for (int i = 528; i < 592; i += 2)
        memcpy(data + i, &(uint16_t){(uint16_t)(0x3c00 + i)}, 2);
    assert_int_equal(
        tern_checkpoint_open(write_safetensors(dir, "w.safetensors", HEADER, data, sizeof data), &o->checkpoint, &err),
        TERN_OK);
    tern_linears_find(&o->checkpoint, &o->layers);
    assert_int_equal(o->layers.count, 1);
    assert_string_equal(o->layers.items[0].error, "");
    original = o->layers.items[0].family;
    wrong = *original;
    wrong.decode = wrong_decode;
    o->layers.items[0].family = &wrong;
}

static void close_opened(struct opened *o) {
    tern_linears_free(&o->layers);
    tern_checkpoint_close(&o->checkpoint);
}

/* Each kind of fault is found where it is, once, with both values. */
static void wrong_unpack(void **state) {
    static const char *const texts[] = {"tensor 'a.qweight', row 13, k 41: expected code ",
                                        "tensor 'a.qzeros', row 13, k 0: expected zero point 8, got 9",
                                        "tensor 'a.scales', row 13, k 0: expected scale "};
    struct opened o;
    struct tern_unpack_proof proof;
    open_wrong(*state, &o);
    fault.k_below = fault.n_below = 0;
    tern_unpack_prove(&o.checkpoint, &o.layers, NULL, &proof);
    assert_true(tern_unpack_proven(&proof));
    assert_int_equal(proof.weights, N * K);
    char right[TERN_HASH_CHARS], alone[TERN_HASH_CHARS];
    memcpy(right, proof.digest, sizeof right);
    tern_linear_digest(&o.layers.items[0], alone);
    assert_string_equal(alone, right);
    fault.k_below = fault.n_below = 1000;
    fault.row = 13;
    fault.k = 41;
    for (fault.what = 0; fault.what < 3; fault.what++) {
        struct tern_str text = {0};
        tern_unpack_prove(&o.checkpoint, &o.layers, NULL, &proof);
        assert_false(tern_unpack_proven(&proof));
        assert_int_equal(proof.difference.count, 1);
        assert_string_equal(proof.against, "the second decode");
        tern_difference_text(&proof.difference, &text);
        if (strncmp(text.data, texts[fault.what], strlen(texts[fault.what])) != 0)
            fail_msg("%s", text.data);
        assert_true(proof.difference.expected != proof.difference.got);
        assert_string_not_equal(proof.digest, right);
        tern_str_free(&text);
    }
    close_opened(&o);
}

/* A decoder that is right on the whole layer and wrong on what one axis cuts. */
static void wrong_cuts(void **state) {
    static const int64_t ranks[] = {1, 2};
    struct opened o;
    struct tern_split_proof proofs[4];
    open_wrong(*state, &o);
    fault.k_below = fault.n_below = 0;
    tern_shards_prove(&o.checkpoint, &o.layers, ranks, 2, proofs);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(proofs[i].state, TERN_SPLIT_PROVEN);
        assert_int_equal(proofs[i].weights, N * K);
        assert_false(proofs[i].uneven);
    }
    for (int axis = 0; axis < 2; axis++)
        for (fault.what = 0; fault.what < 3; fault.what++) {
            fault.k_below = axis == TERN_SHARD_ROWS ? K : 1000;
            fault.n_below = axis == TERN_SHARD_COLUMNS ? N : 1000;
            fault.row = 5;
            fault.k = 7;
            tern_shards_prove(&o.checkpoint, &o.layers, ranks, 2, proofs);
            for (int i = 0; i < 4; i++)
                assert_int_equal(proofs[i].state, i == 2 + axis ? TERN_SPLIT_FAILED : TERN_SPLIT_PROVEN);
            const struct tern_difference *d = &proofs[2 + axis].difference;
            assert_int_equal(proofs[2 + axis].rank, 0);
            assert_int_equal(d->row, 5);
            assert_int_equal(d->k, fault.what == 0 ? 7 : 0);
            assert_string_equal(d->what, ((const char *[]){"code", "zero point", "scale"})[fault.what]);
            /* Both ranks are hit, and a wrong code or zero point spoils the integer sums as well. */
            assert_true(d->count >= (fault.what == 2 ? 2 : 4));
        }
    close_opened(&o);
}

// ---- shares -----------------------------------------------------------------------------------------------------------------

/* Where each rank ends along K; 0 ranks: refused, with a part of the text. */
static void shares(void **state) {
    static const struct {
        int64_t k, group;
        int bits, act_order;
        int64_t ranks, ends[4];
        const char *refusal;
    } rows[] = {
        {3712, 128, 4, 0, 2, {1920, 3712}, NULL},               /* 29 groups are 15 + 14 */
        {3712, 128, 4, 1, 2, {1856, 3712}, NULL},               /* act-order: scales are replicated, words alone bind */
        {896, 128, 4, 0, 2, {512, 896}, NULL},                  /* not 448 = 3.5 groups */
        {11008, 128, 4, 0, 4, {2816, 5632, 8320, 11008}, NULL}, /* not 2752 = 21.5 groups */
        {704, 128, 4, 0, 2, {384, 704}, NULL},                  /* the last group is short */
        {8192, 8192, 8, 0, 4, {2048, 4096, 6144, 8192}, NULL},  /* one group, one row of scales */
        {96, 96, 3, 0, 2, {64, 96}, NULL},                      /* 3 bits: borders every 32 codes */
        {64, 32, 4, 0, 4, {0}, "K = 64 is 2 units of 32 (groups of scales), fewer than 4 ranks"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tern_tensor tensor = {.dims = 2, .shape = {1, 64}};
        struct tern_linear layer = {.name = (char[]){"a"},
                                    .family = &tern_checkpoint_gptq,
                                    .n = 64,
                                    .k = rows[i].k,
                                    .bits = rows[i].bits,
                                    .group = rows[i].group,
                                    .groups = (rows[i].k + rows[i].group - 1) / rows[i].group,
                                    .act_order = rows[i].act_order,
                                    .parts = {&tensor, &tensor, &tensor}};
        struct tern_fusion fusion;
        struct tern_heads heads = {0};
        int64_t begin = 0;
        tern_fusion_find(&layer, &heads, &fusion);
        for (int64_t rank = 0; rank < rows[i].ranks; rank++) {
            struct tern_shard shard;
            struct tern_error err = {0};
            enum tern_status status = tern_shard_plan(&layer, &fusion, TERN_SHARD_ROWS, rows[i].ranks, rank, &shard, &err);
            assert_int_equal(status, rows[i].refusal ? TERN_FAILED : TERN_OK);
            if (rows[i].refusal) {
                assert_string_equal(err.text, rows[i].refusal);
                continue;
            }
            assert_int_equal(shard.k.begin, begin);
            assert_int_equal(shard.k.end, rows[i].ends[rank]);
            begin = shard.k.end;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literal_words),
        cmocka_unit_test(literal_ternary),
        cmocka_unit_test_setup_teardown(wrong_unpack, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(wrong_cuts, make_dir, remove_dir),
        cmocka_unit_test(shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
