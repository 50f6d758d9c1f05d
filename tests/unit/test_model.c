/* Fused layers of a model: rows, scales and zero points of parts in their order, refusals; and the writer of safetensors files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "checkpoint_fixture.h"
#include "core/half.h"
#include "formats/linear_parts.h"
#include "formats/model.h"
#include "formats/safetensors_write.h"
#include "formats/target.h"

#define K     64
#define GROUP 32

/* Code of weight (n, k) of a part, its zero point and scale: any that differ from place to place. */
static uint8_t code_at(int part, int64_t n, int64_t k) {
    return (uint8_t)((5 * n + 3 * k + k / 7 + part) % 16);
}
static uint8_t zero_at(int part, int64_t n, int64_t g) {
    return (uint8_t)((n + 2 * g + part) % 16);
}
static uint16_t scale_at(int part, int64_t n, int64_t g) {
    return tern_half_from_double(0.5 + (double)n / 64 + (double)g / 8 + part);
}

/* One GPTQ layer of version 2, 4 bits, N a multiple of 32. */
static void add_layer(struct tern_new_file *file, const char *name, int64_t n, size_t at[3]) {
    char text[64];
    const int64_t qweight[2] = {K / 8, n}, qzeros[2] = {K / GROUP, n / 8}, scales[2] = {K / GROUP, n};
    tern_str_format(text, sizeof text, "%s.qweight", name);
    at[0] = tern_new_file_add(file, text, "I32", 2, qweight);
    tern_str_format(text, sizeof text, "%s.qzeros", name);
    at[1] = tern_new_file_add(file, text, "I32", 2, qzeros);
    tern_str_format(text, sizeof text, "%s.scales", name);
    at[2] = tern_new_file_add(file, text, "F16", 2, scales);
}

static void write_layer(const struct tern_new_file *file, int part, int64_t n, const size_t at[3]) {
    uint8_t lanes[32];
    uint32_t words[4];
    for (int64_t row = 0; row < n; row++)
        for (int64_t k = 0; k < K; k += 32) {
            for (int i = 0; i < 32; i++)
                lanes[i] = code_at(part, row, k + i);
            tern_pack32(lanes, 4, false, words);
            for (int w = 0; w < 4; w++)
                assert_int_equal(tern_new_file_write(file, at[0], 4 * ((k / 8 + w) * n + row), &words[w], 4, NULL), TERN_OK);
        }
    for (int64_t g = 0; g < K / GROUP; g++)
        for (int64_t row = 0; row < n; row += 32) {
            uint16_t scales[32];
            for (int i = 0; i < 32; i++) {
                lanes[i] = zero_at(part, row + i, g);
                scales[i] = scale_at(part, row + i, g);
            }
            tern_pack32(lanes, 4, false, words);
            assert_int_equal(tern_new_file_write(file, at[1], 4 * (g * (n / 8) + row / 8), words, 16, NULL), TERN_OK);
            assert_int_equal(tern_new_file_write(file, at[2], 2 * (g * n + row), scales, 64, NULL), TERN_OK);
        }
}

/* q, k, v of 32, 64, 32 rows. The files come in another order than the parts. */
static const char *write_model(const char *dir, char path[PATH_MAX]) {
    static const struct {
        const char *name;
        int part;
        int64_t n;
    } parts[] = {{"m.0.v_proj", 2, 32}, {"m.0.q_proj", 0, 32}, {"m.0.k_proj", 1, 64}};
    static const char config[] = "{\"bits\": 4, \"group_size\": 32, \"sym\": false, \"checkpoint_format\": \"gptq_v2\"}";
    struct tern_new_file file = {0};
    struct tern_error err;
    size_t at[3][3];
    for (int i = 0; i < 3; i++)
        add_layer(&file, parts[i].name, parts[i].n, at[i]);
    tern_str_format(path, PATH_MAX, "%s/model.safetensors", dir);
    assert_int_equal(tern_new_file_create(&file, path, NULL, &err), TERN_OK);
    for (int i = 0; i < 3; i++)
        write_layer(&file, parts[i].part, parts[i].n, at[i]);
    assert_int_equal(tern_new_file_close(&file, &err), TERN_OK);
    tern_new_file_free(&file);
    assert_non_null(write_bytes(dir, "quantize_config.json", config, sizeof config - 1));
    return path;
}

static void test_fused_rows(void **state) {
    char path[PATH_MAX];
    static const int64_t first_row[] = {0, 32, 96, 128};
    struct tern_model_file file;
    struct tern_format format;
    struct tern_error err;
    write_model(*state, path);
    assert_int_equal(tern_model_open(*state, false, &file, &err), TERN_OK);
    assert_int_equal(file.model.count, 1);
    const struct tern_model_layer *layer = tern_model_layer(&file.model, "qkv");
    assert_non_null(layer);
    assert_int_equal(layer->n, 128);
    assert_string_equal(layer->format, "gptq4-g32-asym");
    assert_int_equal(tern_format_parse(layer->format, &format, &err), TERN_OK);
    static const int64_t ranges[][2] = {{0, 128}, {24, 16}, {24, 80}, {120, 8}};
    for (size_t r = 0; r < 4; r++) {
        struct tern_weights w;
        assert_int_equal(tern_model_weights(layer, &format, ranges[r][0], ranges[r][1], &w, &err), TERN_OK);
        for (int64_t i = 0; i < w.n; i++) {
            const int64_t row = ranges[r][0] + i;
            const int part = row < 32 ? 0 : row < 96 ? 1 : 2;
            for (int64_t k = 0; k < K; k++)
                assert_int_equal(w.codes[i * K + k], code_at(part, row - first_row[part], k));
            for (int64_t g = 0; g < w.groups; g++) {
                assert_int_equal(w.scales[g * w.n + i], scale_at(part, row - first_row[part], g));
                assert_int_equal(w.zeros[g * w.n + i], zero_at(part, row - first_row[part], g));
            }
        }
        tern_weights_free(&w);
    }
    tern_model_close(&file);
}

static void test_refusals(void **state) {
    char path[PATH_MAX], digest[33], other[33];
    struct tern_model_file file;
    struct tern_weights w;
    struct tern_format format;
    struct tern_error err;
    write_model(*state, path);
    assert_int_equal(tern_model_open(path, false, &file, &err), TERN_OK);
    const struct tern_model_layer *layer = tern_model_layer(&file.model, "qkv");
    assert_int_equal(tern_format_parse("gptq4-g32", &format, &err), TERN_OK);
    assert_int_equal(tern_model_weights(layer, &format, 0, 8, &w, &err), TERN_FAILED);
    assert_non_null(strstr(err.text, "layer 'm.0.q_proj' is gptq4-g32-asym, not gptq4-g32"));
    assert_int_equal(tern_format_parse("gptq4-g32-asym", &format, &err), TERN_OK);
    assert_int_equal(tern_model_weights(layer, &format, 128, 8, &w, &err), TERN_INTERNAL);
    assert_int_equal(tern_model_weights(layer, &format, 0, 12, &w, &err), TERN_USAGE);
    assert_null(tern_model_layer(&file.model, "qk"));
    tern_model_layer_digest(layer, digest);
    tern_model_close(&file);
    FILE *handle = fopen(path, "r+b"); /* one bit of the last byte: another identity */
    assert_int_equal(fseek(handle, -1, SEEK_END), 0);
    assert_int_not_equal(fputc(0, handle), EOF);
    assert_int_equal(fclose(handle), 0);
    assert_int_equal(tern_model_open(path, false, &file, &err), TERN_OK);
    tern_model_layer_digest(tern_model_layer(&file.model, "qkv"), other);
    assert_string_not_equal(digest, other);
    tern_model_close(&file);
}

static void test_writer(void **state) {
    char path[PATH_MAX];
    struct tern_new_file file = {0};
    struct tern_error err;
    const int64_t shape[1] = {3};
    tern_str_format(path, sizeof path, "%s/w.safetensors", (char *)*state);
    assert_int_equal(tern_new_file_add(&file, "a", "U8", 1, shape), 0);
    assert_int_equal(tern_new_file_add(&file, "b", "F32", 1, shape), 1);
    assert_int_equal(tern_new_file_create(&file, path, NULL, &err), TERN_OK);
    assert_int_equal(file.tensors[1].offset % 8, 0); /* wide types come first */
    assert_int_equal(file.tensors[0].offset, file.tensors[1].offset + 12);
    assert_int_equal(tern_new_file_write(&file, 0, 1, "xy", 2, &err), TERN_OK);
    assert_int_equal(tern_new_file_write(&file, 0, 2, "xy", 2, &err), TERN_INTERNAL);
    assert_int_equal(tern_new_file_write(&file, 0, -1, "xy", 2, &err), TERN_INTERNAL);
    assert_int_equal(tern_new_file_close(&file, &err), TERN_OK);
    tern_new_file_free(&file);
    struct tern_checkpoint back;
    assert_int_equal(tern_checkpoint_open(path, &back, &err), TERN_OK);
    assert_memory_equal(tern_tensor_data(tern_checkpoint_find(&back, "a")), "\0xy", 3);
    tern_checkpoint_close(&back);
    tern_new_file_add(&file, "a", "U8", 1, shape);
    assert_int_equal(tern_new_file_create(&file, path, NULL, &err), TERN_INTERNAL); /* never over a file that is there */
    tern_new_file_free(&file);
    tern_new_file_add(&file, "a", "U8", 1, shape);
    tern_new_file_add(&file, "a", "I8", 1, shape);
    tern_str_format(path, sizeof path, "%s/twice.safetensors", (char *)*state);
    assert_int_equal(tern_new_file_create(&file, path, NULL, &err), TERN_FAILED);
    assert_non_null(strstr(err.text, "two tensors would be called 'a'"));
    tern_new_file_free(&file);
}

static void test_pack_is_inverse(void **state) {
    (void)state;

    static const int widths[] = {2, 3, 4, 8};
    uint32_t seed = 1;
    for (int i = 0; i < 4000; i++) {
        uint8_t codes[32], back[32];
        uint32_t words[8];
        const int bits = widths[i % 4];
        for (int j = 0; j < 32; j++) {
            seed = seed * 1664525 + 1013904223;
            codes[j] = (uint8_t)(seed >> 24) & (uint8_t)((1 << bits) - 1);
        }
        tern_pack32(codes, bits, i % 8 >= 4, words);
        tern_unpack32(words, bits, i % 8 >= 4, back);
        assert_memory_equal(codes, back, 32);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fused_rows, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_refusals, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_writer, make_dir, remove_dir),
        cmocka_unit_test(test_pack_is_inverse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
