/* libFuzzer target: each decoder on tensors of right shapes, so that mutations reach the bits and not the header. Input: family, a byte
 * of settings, N, K and group in steps, then the bytes of all tensors.
 * Every weight must be counted once, whatever its bits are. */
#include "formats/census.h"
#include "formats/linear_parts.h"
#include "formats/quant_config.h"
#include "fuzz.h"

#include <string.h>

/* A checkpoint that is put together by hand over the input. */
struct built {
    struct tern_checkpoint checkpoint;
    struct tern_mapping file;
    uint8_t *bytes;
    int64_t at;
};

static void add(struct built *b, const char *name, const char *dtype, int64_t rows, int64_t cols, int64_t bytes) {
    struct tern_tensor t = {
        .name = (char *)name, .dims = cols < 0 ? 1 : 2, .shape = {rows, cols < 0 ? 0 : cols}, .file = &b->file};
    tern_str_copy(t.dtype, sizeof t.dtype, dtype);
    t.offset = b->at;
    t.bytes = bytes;
    b->at += bytes;
    tern_checkpoint_add(&b->checkpoint, &t);
}

/* Names in the order of the alphabet, as tern_checkpoint_find searches. */
static void build(struct built *b, int family, int settings, int64_t n, int64_t k, int64_t group) {
    static const int widths[] = {2, 3, 4, 8};
    const int bits = widths[settings & 3];
    const int64_t groups = (k + group - 1) / group, lanes = 32 / bits;
    switch (family % 8) {
    case 0:
        if (settings & 4)
            add(b, "a.g_idx", "I32", k, -1, 4 * k);
        add(b, "a.qweight", "I32", (k * bits + 31) / 32, n, 4 * ((k * bits + 31) / 32) * n);
        add(b, "a.qzeros", "I32", groups, (n * bits + 31) / 32, 4 * groups * ((n * bits + 31) / 32));
        add(b, "a.scales", "F16", groups, n, 2 * groups * n);
        break;
    case 1:
        add(b, "a.qweight", "I32", k, n / 8, 4 * k * (n / 8));
        add(b, "a.qzeros", "I32", groups, n / 8, 4 * groups * (n / 8));
        add(b, "a.scales", "F16", groups, n, 2 * groups * n);
        break;
    case 2:
        add(b, "a.weight_packed", "I32", n, (k + lanes - 1) / lanes, 4 * n * ((k + lanes - 1) / lanes));
        add(b, "a.weight_scale", "BF16", n, groups, 2 * n * groups);
        add(b, "a.weight_shape", "I64", 2, -1, 16);
        memcpy(b->bytes + b->at - 16, (int64_t[]){n, k}, 16);
        if (settings & 4)
            add(b, "a.weight_zero_point", "I32", (n + lanes - 1) / lanes, groups, 4 * ((n + lanes - 1) / lanes) * groups);
        break;
    case 3:
        add(b, "a.packed_ternary_weight", settings & 1 ? "U8" : "I8", n, k / 4, n * (k / 4));
        add(b, "a.scales", "F16", n, settings & 1 ? (k + 127) / 128 : 1, 2 * n * (settings & 1 ? (k + 127) / 128 : 1));
        break;
    case 4:
        add(b, "a.scales", "F32", n, -1, 4 * n);
        add(b, "a.ternary_weight", "I8", n, k, n * k);
        break;
    case 5:
        add(b, "a.weight", "U8", n / 4, k, n / 4 * k);
        add(b, "a.weight_scale", settings & 1 ? "F16" : "F32", 1, -1, settings & 1 ? 2 : 4);
        break;
    case 6:
        add(b, settings & 1 ? "a.weight" : "wqkv.weight", "I8", n, k / 4, n * (k / 4));
        add(b, settings & 1 ? "a.weight_scale" : "wqkv.weight_scale", "BF16", 4, -1, 8);
        break;
    default:
        add(b, "a.weight",
            settings & 2   ? "Q2_0"
            : settings & 1 ? "TQ1_0"
                           : "TQ2_0",
            n, (k + 255) / 256 * 256,
            n * ((k + 255) / 256) *
                (settings & 2   ? 72
                 : settings & 1 ? 54
                                : 66));
    }
}

/* Declarations by the upper bits of the settings; they stay for the whole run. */
static const struct tern_quant_config *declared(int settings) {
    static const char *const texts[] = {"{}",
                                        "{\"quant_method\": \"bitnet\"}",
                                        "{\"quant_method\": \"bitnet\", \"linear_class\": \"autobitlinear\"}",
                                        "{\"checkpoint_format\": \"gptq_v2\"}",
                                        "{\"checkpoint_format\": \"gptq_p\"}",
                                        "{\"quant_method\": \"awq\", \"version\": \"gemm\", \"w_bit\": 4}",
                                        "{\"sym\": true}",
                                        "{\"sym\": false, \"desc_act\": true}"};
    static struct tern_quant_config *configs[8];
    const int i = settings >> 4 & 7;
    struct tern_error err;
    char path[PATH_MAX];
    if (!configs[i]) {
        fuzz_write("quantize_config.json", (const uint8_t *)texts[i], strlen(texts[i]), path);
        if (tern_quant_config_find(getenv("FUZZ_DIR"), &configs[i], &err) != TERN_OK)
            abort();
    }
    return configs[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct built b = {0};
    struct tern_linears layers;
    if (size < 5)
        return 0;
    const int64_t n = 1 + data[2] % 64, k = 1 + data[3], group = 1 + data[4] % 160;
    b.bytes = tern_alloc_zero(1 << 17, 1);
    memcpy(b.bytes, data + 5, size - 5 < 1 << 16 ? size - 5 : 1 << 16);
    b.file = (struct tern_mapping){(char *)"input", b.bytes, 1 << 17};
    b.checkpoint.path = tern_strdup("input");
    b.checkpoint.container = data[0] % 8 == 7 ? "gguf" : "safetensors";
    build(&b, data[0], data[1], n, k, group);
    if (b.at > 1 << 17)
        abort();
    b.file.bytes = b.at;
    b.checkpoint.config = (struct tern_quant_config *)declared(data[1]);
    tern_linears_find(&b.checkpoint, &layers);
    for (size_t i = 0; i < layers.count; i++) {
        struct tern_linears one = {&layers.items[i], 1};
        struct tern_census census;
        struct tern_str detail = {0};
        tern_census_take(&one, &census);
        if (tern_census_judge(&layers.items[i], &census, &detail) != TERN_LAYER_OK && !detail.length)
            abort(); /* a verdict without a fact */
        int64_t counted = census.illegal.count;
        for (int q = 0; q < 256; q++)
            counted += layers.items[i].ternary && q > 2 ? 0 : census.codes[q];
        if (!layers.items[i].error[0] && counted != layers.items[i].n * layers.items[i].k)
            abort(); /* a weight that is not counted */
        tern_str_free(&detail);
    }
    tern_linears_free(&layers);
    b.checkpoint.config = NULL;
    tern_checkpoint_close(&b.checkpoint);
    free(b.bytes);
    return 0;
}
