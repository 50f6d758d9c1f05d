/* GGUF container: what is read of a file, and that each wrong number in it is refused with the fact, whatever else it holds. */
#include "checkpoint_fixture.h"
#include "formats/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdint.h>

/* The sample below, and where its fields lie. */
static struct tern_str sample;
static struct {
    size_t version, tensors, keys, key_name, bool_value, array_type, array_count, string_length, alignment_type, alignment,
        last_key, last_type, a_name, a_dims, a_k, a_n, a_type, a_offset, b_name, b_offset, c_k, c_offset, data;
} at;

/* Little-endian, as the machines are that run tests. */
static void put(uint64_t value, int bytes) {
    tern_str_append_bytes(&sample, &value, (size_t)bytes);
}
static size_t put_text(const char *text) {
    put(strlen(text), 8);
    tern_str_append(&sample, text);
    return sample.length - strlen(text);
}
static size_t mark(void) {
    return sample.length;
}

static void put_keys(void) {
    at.key_name = put_text("general.architecture");
    put(8, 4);
    put_text("llama");
    put_text("a.bool");
    put(7, 4);
    at.bool_value = mark();
    put(1, 1);
    put_text("tokens");
    put(9, 4);
    at.array_type = mark();
    put(8, 4);
    at.array_count = mark();
    put(2, 8);
    put_text("<s>");
    at.string_length = mark();
    put_text("two");
    put_text("scores");
    put(9, 4);
    put(6, 4);
    put(3, 8);
    put(0, 8);
    put(0, 4);
    put_text("general.alignment");
    at.alignment_type = mark();
    put(4, 4);
    at.alignment = mark();
    put(64, 4);
    at.last_key = put_text("z.count");
    at.last_type = mark();
    put(10, 4);
    put(5, 8);
}

/* Three tensors at alignment 64: TQ2_0 [2][256] of 132 bytes, F32 [3], Q2_0 [1][2][64] of 36. */
static void put_tensors(void) {
    at.a_name = put_text("a.weight");
    at.a_dims = mark();
    put(2, 4);
    at.a_k = mark();
    put(256, 8);
    at.a_n = mark();
    put(2, 8);
    at.a_type = mark();
    put(TERN_GGML_TQ2_0, 4);
    at.a_offset = mark();
    put(0, 8);
    at.b_name = put_text("b.weight");
    put(1, 4);
    put(3, 8);
    put(0, 4);
    at.b_offset = mark();
    put(192, 8);
    put_text("c.weight");
    put(3, 4);
    at.c_k = mark();
    put(64, 8);
    put(2, 8);
    put(1, 8);
    put(TERN_GGML_Q2_0, 4);
    at.c_offset = mark();
    put(256, 8);
}

static int build_sample(void **state) {
    tern_str_append(&sample, "GGUF");
    at.version = mark();
    put(3, 4);
    at.tensors = mark();
    put(3, 8);
    at.keys = mark();
    put(6, 8);
    put_keys();
    put_tensors();
    while (sample.length % 64 != 0)
        put(0, 1);
    at.data = mark();
    for (int i = 0; i < 256 + 36; i++)
        put((uint64_t)(i % 251), 1);
    return make_dir(state);
}

static int free_sample(void **state) {
    tern_str_free(&sample);
    return remove_dir(state);
}

/* Parses a copy of exactly `size` bytes, so that a sanitizer sees any step outside. */
static enum tern_status parse(const void *bytes, size_t size, struct tern_gguf *gguf, uint8_t **copy,
                              struct tern_error *err) {
    *copy = malloc(size ? size : 1);
    memcpy(*copy, bytes, size);
    return tern_gguf_parse(*copy, size, gguf, err);
}

static void assert_refused(const void *bytes, size_t size, const char *fact) {
    struct tern_gguf gguf;
    struct tern_error err = {0};
    uint8_t *copy;
    enum tern_status status = parse(bytes, size, &gguf, &copy, &err);
    free(copy);
    if (status != TERN_FAILED || !strstr(err.text, fact) || strchr(err.text, '\n'))
        fail_msg("status %d, '%s'; expected '%s'", status, err.text, fact);
    assert_null(gguf.tensors);
}

static void whole(void **state) {
    (void)state;
    struct tern_gguf gguf;
    struct tern_error err = {0};
    uint8_t *copy;
    char text[8];
    if (parse(sample.data, sample.length, &gguf, &copy, &err))
        fail_msg("%s", err.text);
    assert_int_equal(gguf.version, 3);
    assert_int_equal(gguf.alignment, 64);
    assert_int_equal(gguf.key_count, 6);
    assert_int_equal(gguf.tensor_count, 3);
    const struct tern_gguf_tensor *a = &gguf.tensors[0], *b = &gguf.tensors[1], *c = &gguf.tensors[2];
    assert_string_equal(a->name, "a.weight");
    assert_string_equal(a->type->name, "TQ2_0");
    assert_int_equal(a->dims, 2);
    assert_int_equal(a->ne[0], 256);
    assert_int_equal(a->ne[1], 2);
    assert_int_equal(a->ne[2], 1);
    assert_int_equal(a->offset, at.data);
    assert_int_equal(a->bytes, 132);
    assert_int_equal(b->offset, at.data + 192);
    assert_int_equal(b->bytes, 12);
    assert_int_equal(c->bytes, 36);
    assert_int_equal(c->offset + c->bytes, sample.length);
    assert_true(tern_gguf_string(&gguf, "general.architecture", text, sizeof text));
    assert_string_equal(text, "llama");
    assert_false(tern_gguf_string(&gguf, "general.architecture", text, 5)); /* does not fit */
    assert_false(tern_gguf_string(&gguf, "a.bool", text, sizeof text));
    assert_false(tern_gguf_string(&gguf, "no.such", text, sizeof text));
    tern_gguf_free(&gguf);
    free(copy);
}

/* Each prefix of a file is refused. */
static void truncated_at_every_byte(void **state) {
    (void)state;
    for (size_t size = 0; size < sample.length; size++)
        assert_refused(sample.data, size, size < at.tensors ? "header 0" : "file");
}

/* One field changed, of 1, 4 or 8 bytes: the fact that must be named. */
static void one_field_wrong(void **state) {
    (void)state;
    const struct {
        size_t at;
        int bytes;
        uint64_t value;
        const char *fact;
    } cases[] = {
        {0, 1, 'g', "begins with 67 47 55 46"},
        {at.version, 4, 0, "GGUF version 0, only 2 and 3"},
        {at.version, 4, 1, "GGUF version 1, only 2 and 3"},
        {at.version, 4, 4, "GGUF version 4, only 2 and 3"},
        {at.version, 4, 0x03000000, "big-endian machine (version 3"},
        {at.tensors, 8, 1000, "1000 tensors of at least 24 bytes"},
        {at.tensors, 8, UINT64_MAX, "18446744073709551615 tensors"},
        {at.tensors, 8, 4, "tensor 3: "},
        {at.keys, 8, UINT64_MAX / 2, "9223372036854775807 keys of at least 13 bytes"},
        {at.key_name, 1, '\n', "key 0: its name is not printable UTF-8 (byte 0x0A at 0)"},
        {at.key_name + 3, 1, 0xFF, "key 0: its name is not printable UTF-8 (byte 0xFF at 3)"},
        {at.key_name - 8, 8, 0, "key 0: its name has 0 bytes"},
        {at.key_name - 8, 8, UINT64_MAX, "key 0: its name needs 18446744073709551615 bytes at offset 32"},
        {at.bool_value, 1, 2, "key 1: a bool of value 2"},
        {at.array_type, 4, 13, "key 2: array type 13 is unknown"},
        {at.array_type, 4, 9, "key 2: an array of arrays"},
        {at.array_count, 8, UINT64_MAX, "key 2: its array has 18446744073709551615 items of at least 8 bytes"},
        {at.string_length, 8, UINT64_MAX - 3, "key 2: a string of its array needs 18446744073709551612 bytes"},
        {at.alignment_type, 4, 5, "general.alignment has value type 5, should be 4"},
        {at.alignment, 4, 0, "general.alignment is 0"},
        {at.alignment, 4, 12, "general.alignment is 12, should be a multiple of 8"},
        {at.alignment, 4, 0xFFFFFFF8, "general.alignment is 4294967288"},
        {at.alignment, 4, 32, "'b.weight': begins at offset 192 of the data, 32 bytes of no tensor before it"},
        {at.last_type, 4, 13, "key 5: value type 13 is unknown"},
        {at.a_name - 8, 8, 65, "tensor 0: its name has 65 bytes, should have 1 to 64"},
        {at.a_name, 1, 0x1B, "tensor 0: its name is not printable UTF-8 (byte 0x1B at 0)"},
        {at.b_name, 1, 'a', "duplicate tensor 'a.weight'"},
        {at.a_dims, 4, 5, "'a.weight': 5 dimensions, at most 4"},
        {at.a_k, 8, 0, "'a.weight': dimension 0 is 0"},
        {at.a_k, 8, UINT64_MAX, "'a.weight': dimension 0 is 18446744073709551615"},
        {at.a_k, 8, 3200, "'a.weight': rows of 3200 are no whole number of TQ2_0 blocks of 256"}, /* llama.cpp#8151 */
        {at.a_n, 8, (uint64_t)1 << 42, "'a.weight': 290271069732864 bytes at offset 0"},
        {at.a_n, 8, (uint64_t)1 << 62, "'a.weight': its dimensions multiply to 2^64 or more"},
        {at.a_k, 8, ((uint64_t)1 << 32) + 256,
         "'a.weight': 2214592644 bytes"}, /* K is never narrowed: vllm-gguf-plugin#127 */
        {at.c_k, 8, (uint64_t)1 << 62, "'c.weight': 2594073385365405696 bytes"},
        {at.a_type, 4, 36, "'a.weight': unknown ggml type 36 (I2_S of bitnet.cpp?"}, /* llama.cpp#12997 */
        {at.a_type, 4, 38, "'a.weight': unknown ggml type 38 (TL1 of bitnet.cpp?"},
        {at.a_type, 4, 4000, "'a.weight': unknown ggml type 4000"},
        {at.b_offset, 8, 200, "'b.weight': offset 200 is no multiple of the alignment 64"}, /* ollama#8456 */
        {at.b_offset, 8, 128,
         "'b.weight': begins at offset 128 of the data and overlaps 'a.weight', which takes 132 bytes from 0"},
        {at.b_offset, 8, 0, "overlaps"},
        {at.a_offset, 8, 64, "'a.weight': begins at offset 64 of the data, 64 bytes of no tensor before it"},
        {at.c_offset, 8, 320, "'c.weight': 36 bytes at offset 320 of the data, but the file has 292"},
        {at.c_offset, 8, UINT64_MAX - 63, "'c.weight': 36 bytes at offset 18446744073709551552"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bytes = malloc(sample.length);
        memcpy(bytes, sample.data, sample.length);
        memcpy(bytes + cases[i].at, &cases[i].value, (size_t)cases[i].bytes);
        assert_refused(bytes, sample.length, cases[i].fact);
        free(bytes);
    }
}

static void duplicate_key_and_tail(void **state) {
    (void)state;
    struct tern_str more = {0};
    char *bytes = malloc(sample.length);
    memcpy(bytes, sample.data, sample.length);
    memcpy(bytes + at.last_key, "a.boola", 7);
    memcpy(bytes + at.last_key - 8, &(uint64_t){6}, 8);
    memmove(bytes + at.last_key + 6, bytes + at.last_key + 7, sample.length - at.last_key - 7);
    assert_refused(bytes, sample.length - 1, "duplicate key 'a.bool'");
    free(bytes);
    tern_str_append_bytes(&more, sample.data, sample.length);
    while (more.length % 64 != at.data % 64) /* padding behind the last tensor is legal */
        tern_str_append_bytes(&more, "", 1);
    struct tern_gguf gguf;
    assert_int_equal(tern_gguf_parse((uint8_t *)more.data, more.length, &gguf, NULL), TERN_OK);
    tern_gguf_free(&gguf);
    tern_str_append(&more, "GGUF"); /* another file behind it is not (ollama#8456) */
    assert_refused(more.data, more.length, "4 bytes of no tensor behind the last one");
    tern_str_free(&more);
}

/* A file of version 2 has the same bytes; one without any key or tensor is legal. */
static void version_2_and_empty(void **state) {
    (void)state;
    struct tern_gguf gguf;
    char *bytes = malloc(sample.length);
    memcpy(bytes, sample.data, sample.length);
    bytes[at.version] = 2;
    assert_int_equal(tern_gguf_parse((uint8_t *)bytes, sample.length, &gguf, NULL), TERN_OK);
    assert_int_equal(gguf.version, 2);
    tern_gguf_free(&gguf);
    free(bytes);
    static const uint8_t empty[24] = "GGUF\3";
    assert_int_equal(tern_gguf_parse(empty, sizeof empty, &gguf, NULL), TERN_OK);
    assert_int_equal(gguf.tensor_count, 0);
    assert_int_equal(gguf.alignment, 32);
    tern_gguf_free(&gguf);
}

/* Each bit of header and tables flipped, and each byte set to extremes: read or refused, never a step outside. */
static void any_byte_wrong(void **state) {
    (void)state;
    int refused = 0;
    for (size_t i = 0; i < at.data; i++)
        for (int change = 0; change < 10; change++) {
            struct tern_gguf gguf;
            struct tern_error err = {0};
            uint8_t *copy = malloc(sample.length);
            memcpy(copy, sample.data, sample.length);
            copy[i] = change < 8 ? copy[i] ^ (uint8_t)(1 << change) : change == 8 ? 0 : 0xFF;
            enum tern_status status = tern_gguf_parse(copy, sample.length, &gguf, &err);
            assert_true(status == TERN_OK || (status == TERN_FAILED && err.text[0]));
            refused += status == TERN_FAILED;
            tern_gguf_free(&gguf);
            free(copy);
        }
    assert_true(refused > 1000);
}

/* The fork's Q2_0 has 34 bytes for 128 weights: then the next tensor begins too early, and the hint says why. */
static void q2_0_of_a_fork(void **state) {
    (void)state;
    struct tern_str file = {0};
    struct tern_gguf gguf;
    struct tern_error err = {0};
    uint64_t zero = 0;
    tern_str_append_bytes(&file, "GGUF\3\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    for (uint64_t i = 0; i < 2; i++) {
        tern_str_append_bytes(&file, "\1\0\0\0\0\0\0\0", 8);
        tern_str_append(&file, i ? "b" : "a");
        tern_str_append_bytes(&file, "\2\0\0\0", 4);
        tern_str_append_bytes(&file, &(uint64_t){128}, 8);
        tern_str_append_bytes(&file, &(uint64_t){16}, 8);
        tern_str_append_bytes(&file, &(uint32_t){TERN_GGML_Q2_0}, 4);
        tern_str_append_bytes(&file, &(uint64_t){i * 544}, 8);
    }
    while (file.length % 32)
        tern_str_append_bytes(&file, &zero, 1);
    for (int i = 0; i < 2 * 576; i++)
        tern_str_append_bytes(&file, &zero, 1);
    assert_int_equal(tern_gguf_parse((uint8_t *)file.data, file.length, &gguf, &err), TERN_FAILED);
    assert_non_null(strstr(err.text, "tensor 'b': begins at offset 544"));
    assert_non_null(strstr(err.hint, "blocks of 128 weights"));
    tern_str_free(&file);
}

/* As a checkpoint: the container is known by its first bytes, shapes list K last, and errors name the file. */
static void as_a_checkpoint(void **state) {
    struct tern_checkpoint c;
    struct tern_error err = {0};
    const char *path = write_bytes(*state, "sample.bin", sample.data, sample.length);
    if (tern_checkpoint_open(path, &c, &err))
        fail_msg("%s", err.text);
    assert_string_equal(c.container, "gguf");
    assert_int_equal(c.tensor_count, 3);
    const struct tern_tensor *t = tern_checkpoint_find(&c, "c.weight");
    assert_int_equal(t->dims, 3);
    assert_int_equal(t->shape[0], 1);
    assert_int_equal(t->shape[1], 2);
    assert_int_equal(t->shape[2], 64);
    assert_int_equal(tern_tensor_data(t)[1], 257 % 251);
    tern_checkpoint_close(&c);
    path = write_bytes(*state, "cut.gguf", sample.data, sample.length - 1);
    assert_int_equal(tern_checkpoint_open(path, &c, &err), TERN_FAILED);
    tern_checkpoint_close(&c);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "tensor 'c.weight': 36 bytes"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),
        cmocka_unit_test(truncated_at_every_byte),
        cmocka_unit_test(one_field_wrong),
        cmocka_unit_test(duplicate_key_and_tail),
        cmocka_unit_test(version_2_and_empty),
        cmocka_unit_test(any_byte_wrong),
        cmocka_unit_test(q2_0_of_a_fork),
        cmocka_unit_test(as_a_checkpoint),
    };
    return cmocka_run_group_tests(tests, build_sample, free_sample);
}
