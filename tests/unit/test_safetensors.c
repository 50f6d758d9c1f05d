/* safetensors: what is read, and that each broken header, index or folder is refused with the fact that is wrong. */
#include "checkpoint_fixture.h"
#include "formats/checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void assert_refused(const char *path, enum tern_status status, const char *fact) {
    struct tern_checkpoint checkpoint;
    struct tern_error err = {0};
    enum tern_status got = tern_checkpoint_open(path, &checkpoint, &err);
    tern_checkpoint_close(&checkpoint);
    if (got != status || !strstr(err.text, fact) || !strstr(err.text, path))
        fail_msg("%s: status %d, '%s'; expected %d and '%s'", path, got, err.text, status, fact);
}

/* The two byte samples of the reference: one tensor, and none. */
static void reference_samples(void **state) {
    static const char one[] = "\x38\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_offsets\":[0,1]}} ";
    static const char none[] = "\x08\0\0\0\0\0\0\0{}      ";
    struct tern_checkpoint c;
    struct tern_error err;
    assert_int_equal(sizeof one, 65); /* its NUL is the data */
    assert_int_equal(tern_checkpoint_open(write_bytes(*state, "one.safetensors", one, sizeof one), &c, &err), TERN_OK);
    assert_int_equal(c.tensor_count, 1);
    assert_string_equal(c.container, "safetensors");
    assert_string_equal(c.tensors[0].name, "w");
    assert_string_equal(c.tensors[0].dtype, "U8");
    assert_int_equal(c.tensors[0].dims, 2);
    assert_int_equal(c.tensors[0].bytes, 1);
    assert_int_equal(c.tensors[0].offset, 64);
    assert_int_equal(*tern_tensor_data(&c.tensors[0]), 0);
    assert_null(tern_checkpoint_find(&c, "v"));
    tern_checkpoint_close(&c);
    assert_int_equal(tern_checkpoint_open(write_bytes(*state, "none.safetensors", none, sizeof none - 1), &c, &err),
                     TERN_OK);
    assert_int_equal(c.tensor_count, 0);
    tern_checkpoint_close(&c);
}

/* An odd header and an odd U8 tensor in front: nothing may assume alignment. Scalars, empty tensors, metadata, any order. */
static void unusual_but_legal(void **state) {
    static const uint8_t data[] = {7, 8, 9, 0x00, 0x00, 0x80, 0x3f};
    struct tern_checkpoint c;
    struct tern_error err;
    const char *path = write_safetensors(*state, "odd.safetensors",
                                         " {\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[3,7]},"
                                         "\"__metadata__\":{\"format\":\"pt\"},"
                                         "\"e\":{\"dtype\":\"I64\",\"shape\":[0,9],\"data_offsets\":[3,3]},"
                                         "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}",
                                         data, sizeof data);
    assert_int_equal(tern_checkpoint_open(path, &c, &err), TERN_OK);
    assert_int_equal(c.tensor_count, 3);
    float value;
    memcpy(&value, tern_tensor_data(tern_checkpoint_find(&c, "b")), sizeof value);
    assert_true(value == 1.0F);
    assert_int_equal(tern_tensor_data(tern_checkpoint_find(&c, "a"))[2], 9);
    assert_int_equal(tern_checkpoint_find(&c, "e")->bytes, 0);
    tern_checkpoint_close(&c);
}

#define ENTRY(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets)   "{\"w\":" ENTRY(dtype, shape, offsets) "}"

static void broken_headers(void **state) {
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *fact;
    } cases[] = {
        {"{\"w\":", 0, "header is not right JSON"},
        {"[]", 0, "header is not a JSON object"},
        {"{\"w\xff\":1}", 0, "header is not UTF-8"},
        {"{\"w\":3}", 0, "tensor 'w': its header entry is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__ 'a' is not text"},
        {"{\"w\":" ENTRY("U8", "[1]", "[0,1]") ",\"w\":" ENTRY("U8", "[1]", "[1,2]") "}", 2, "duplicate object key"},
        {ONE("I3", "[1]", "[0,1]"), 1, "tensor 'w': unknown dtype 'I3'"},
        {ONE("U8", "7", "[0,1]"), 1, "tensor 'w': no shape"},
        {ONE("U8", "[-1]", "[0,1]"), 1, "dimension 0 is not an integer from 0"},
        {ONE("U8", "[1,1.0]", "[0,1]"), 1, "dimension 1 is not an integer from 0"},
        {ONE("U8", "[1]", "[0,1e0]"), 1, "data_offsets are not two integers"},
        {ONE("U8", "[1]", "[0]"), 1, "data_offsets are not two integers"},
        {ONE("U8", "[1]", "[0,9223372036854775808]"), 1, "too big integer"},
        {ONE("U8", "[1]", "[-1,0]"), 1, "data_offsets are not two integers"},
        {ONE("U8", "[1]", "[1,0]"), 1, "data ends at 0, before it begins at 1"},
        {ONE("U8", "[1]", "[0,9007199254740993]"), 1, "takes 1 bytes, data_offsets hold 9007199254740993"},
        {ONE("U8", "[4398046511104,4398046511104]", "[0,1]"), 1, "passes 2^63 bits"},
        {ONE("U8", "[4398046511104]", "[0,4398046511104]"), 1, "the file holds 1 bytes of data: truncated"},
        {ONE("F4", "[3]", "[0,1]"), 1, "no whole number of bytes"},
        {ONE("F32", "[3,2]", "[0,12]"), 12, "shape [3, 2] of F32 takes 24 bytes, data_offsets hold 12"},
        {ONE("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "9 dimensions, at most 8"},
        {ONE("U8", "[4]", "[1,5]"), 5, "tensor 'w': a hole: data begins at 1"},
        {ONE("U8", "[4]", "[0,4]"), 5, "1 bytes behind the last tensor"},
        {ONE("U8", "[4]", "[0,4]"), 3, "truncated"},
        {"{}", 1, "1 bytes behind the last tensor"},
        {"{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"b\":" ENTRY("U8", "[4]", "[2,6]") "}", 6, "tensor 'b': overlaps 'a'"},
        {"{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"b\":" ENTRY("U8", "[4]", "[0,4]") "}", 4, "overlaps"},
        {"{\"a\":" ENTRY("U8", "[1]", "[0,1]") ",\"b\":" ENTRY("U8", "[1]", "[2,3]") "}", 3, "tensor 'b': a hole"},
    };
    static const uint8_t data[16];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(write_safetensors(*state, "w.safetensors", cases[i].header, data, cases[i].data_bytes), TERN_FAILED,
                       cases[i].fact);
}

/* Case 107: the limit and the size are named. Case 114: a git-lfs pointer. Then every truncation of a good file. */
static void broken_lengths(void **state) {
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    static const char good[] = "\x37\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}  AB";
    assert_refused(write_bytes(*state, "p.safetensors", pointer, sizeof pointer - 1), TERN_FAILED, "git-lfs pointer");
    assert_refused(write_bytes(*state, "big.safetensors", "\x40\x9d\xdf\x07\0\0\0\0", 8), TERN_FAILED,
                   "header of 132095296 bytes, at most 100000000");
    assert_refused(write_bytes(*state, "max.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff", 8), TERN_FAILED,
                   "header of 18446744073709551615 bytes");
    struct tern_checkpoint c;
    struct tern_error err;
    assert_int_equal(tern_checkpoint_open(write_bytes(*state, "cut.safetensors", good, sizeof good - 1), &c, &err), TERN_OK);
    tern_checkpoint_close(&c);
    for (size_t length = 0; length < sizeof good - 1; length++)
        assert_refused(write_bytes(*state, "cut.safetensors", good, length), TERN_FAILED,
                       length < 8 ? "too few for a header length" : "truncated");
}

#define INDEX  "model.safetensors.index.json"
#define SHARD1 "model-00001-of-00002.safetensors"
#define SHARD2 "model-00002-of-00002.safetensors"
#define TWO    "{\"a\":" ENTRY("U8", "[1]", "[0,1]") ",\"b\":" ENTRY("U8", "[1]", "[1,2]") "}"

static void write_index(const char *dir, const char *text) {
    assert_non_null(write_bytes(dir, INDEX, text, strlen(text)));
}

/* The index decides where a tensor is, a file it does not name is ignored, and what it names must be there. */
static void sharded(void **state) {
    const char *dir = *state;
    struct tern_checkpoint c;
    struct tern_error err;
    assert_refused(dir, TERN_USAGE, "holds no file of weights");
    write_safetensors(dir, SHARD1, TWO, "12", 2);
    write_safetensors(dir, SHARD2, TWO, "34", 2);
    assert_refused(dir, TERN_USAGE, "holds 2 files of weights and no *.safetensors.index.json");
    write_bytes(dir, "stray.safetensors", "x", 1);
    write_index(dir, "{\"metadata\":{\"total_size\":2},\"weight_map\":{\"a\":\"" SHARD1 "\",\"b\":\"" SHARD2 "\"}}");
    assert_int_equal(tern_checkpoint_open(dir, &c, &err), TERN_OK);
    assert_int_equal(c.file_count, 2);
    assert_int_equal(c.tensor_count, 2);
    assert_int_equal(*tern_tensor_data(tern_checkpoint_find(&c, "a")), '1');
    assert_int_equal(*tern_tensor_data(tern_checkpoint_find(&c, "b")), '4');
    tern_checkpoint_close(&c);
    /* Case 116: listed, but absent from its shard. */
    write_index(dir, "{\"weight_map\":{\"a\":\"" SHARD1 "\",\"c\":\"" SHARD2 "\"}}");
    assert_refused(dir, TERN_FAILED, "tensor 'c' is not in " SHARD2);
    write_index(dir, "{\"weight_map\":{\"a\":\"model-3.safetensors\"}}");
    assert_refused(dir, TERN_FAILED, "shard model-3.safetensors is missing");
    write_index(dir, "{\"weight_map\":{\"a\":\"../a.safetensors\"}}");
    assert_refused(dir, TERN_FAILED, "not a plain file name");
    write_index(dir, "{\"weight_map\":{\"a\":1}}");
    assert_refused(dir, TERN_FAILED, "not a plain file name");
    write_index(dir, "{\"weight_map\":{}}");
    assert_refused(dir, TERN_FAILED, "weight_map names no tensor");
    write_index(dir, "{\"weight_map\":{\"a\":\"" SHARD1 "\",\"a\":\"" SHARD2 "\"}}");
    assert_refused(dir, TERN_FAILED, "duplicate object key");
}

/* Offsets past 2^32, in a sparse file: nothing but the header and the bytes asked for is read. */
static void larger_than_4_gib(void **state) {
    static const int64_t big = (int64_t)5 << 30;
    struct tern_checkpoint c;
    struct tern_error err;
    const char *path = write_safetensors(
        *state, "sparse.safetensors",
        "{\"a\":" ENTRY("I8", "[5,1073741824]", "[0,5368709120]") ","
                                                                  "\"b\":" ENTRY("U8", "[3]", "[5368709120,5368709123]") "}",
        NULL, 0);
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    int64_t start = ftell(file);
    assert_int_equal(ftruncate(fileno(file), start + big), 0);
    fwrite("xyz", 1, 3, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(tern_checkpoint_open(path, &c, &err), TERN_OK);
    assert_int_equal(tern_checkpoint_find(&c, "a")->bytes, big);
    assert_int_equal(tern_checkpoint_find(&c, "b")->offset, start + big);
    assert_memory_equal(tern_tensor_data(tern_checkpoint_find(&c, "b")), "xyz", 3);
    tern_checkpoint_close(&c);
}

static void nothing_there(void **state) {
    char path[PATH_MAX];
    tern_str_format(path, sizeof path, "%s/none.safetensors", (char *)*state);
    assert_refused(path, TERN_USAGE, "No such file");
    assert_refused(write_bytes(*state, "a.bin", "abc", 3), TERN_FAILED, "not a known container");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reference_samples, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(unusual_but_legal, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(broken_headers, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(broken_lengths, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(sharded, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(larger_than_4_gib, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(nothing_there, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
