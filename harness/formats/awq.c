/* AWQ layers of version GEMM, 4 bits: qweight I32 [K, N/8], qzeros I32 [K/group, N/8], scales [K/group, N]. A word holds eight
 * columns, not eight k as in GPTQ, and in the order 0 2 4 6 1 3 5 7; zero points are stored as they are. */
#include "formats/linear_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { QWEIGHT, QZEROS, SCALES };
enum { BITS = 4, IN_WORD = 8, MIDDLE = 8 };

static const int nibble_of_column[IN_WORD] = {0, 4, 1, 5, 2, 6, 3, 7};

/* Code of column n in row `row` of words. */
static uint8_t lane(const struct tern_tensor *tensor, int64_t row, int64_t n) {
    uint32_t word = tern_tensor_word(tensor, row * tensor->shape[1] + n / IN_WORD);
    return word >> (BITS * nibble_of_column[n % IN_WORD]) & 0xF;
}

/* Declared, or, where the method tells nothing of the packing, a scale for each of the eight columns of a word. */
static bool is_awq(const struct tern_quant_settings *s, const struct tern_linear *layer) {
    const struct tern_tensor *qweight = layer->parts[QWEIGHT], *scales = layer->parts[SCALES];
    if (strcmp(s->method, "awq") == 0 || strcmp(s->method, "gptq") == 0)
        return s->method[0] == 'a';
    return scales && scales->dims == 2 && qweight->dims == 2 && scales->shape[1] / IN_WORD == qweight->shape[1];
}

static enum tern_status find_group(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    const struct tern_tensor *scales = layer->parts[SCALES];
    if (s->group)
        layer->group = s->group == -1 ? layer->k : s->group;
    else if (scales && scales->dims == 2 && scales->shape[0] > 0)
        layer->group = layer->k / scales->shape[0];
    if (layer->group < 1 || layer->k % layer->group)
        return tern_tensor_error(layer->parts[QWEIGHT], err, "K = %" PRId64 " is no multiple of the group, %" PRId64,
                                 layer->k, layer->group);
    layer->groups = layer->k / layer->group;
    return TERN_OK;
}

static enum tern_status find_zeros(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    layer->sym = true;
    layer->zero = MIDDLE;
    for (int64_t g = 0; g < layer->groups; g++)
        for (int64_t n = 0; n < layer->n && layer->sym; n++)
            layer->sym = lane(layer->parts[QZEROS], g, n) == MIDDLE;
    if (!layer->sym && s->sym == TERN_DECLARED_YES)
        return tern_tensor_error(layer->parts[QZEROS], err, "zero_point=false is declared, but zero points are not all 8");
    return TERN_OK;
}

static enum tern_status check(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    const struct tern_tensor *qweight = layer->parts[QWEIGHT];
    enum tern_status status = tern_linear_expect_matrix(qweight, "I32", err);
    if (!status && s->bits && s->bits != BITS)
        status = tern_tensor_error(qweight, err, "%" PRId64 " bits are declared, AWQ has 4", s->bits);
    if (!status && s->format[0] && strcmp(s->format, "gemm") != 0)
        status = tern_tensor_error(qweight, err, "AWQ version '%s' is not read, only gemm", s->format);
    if (!status && qweight->shape[1] > INT32_MAX / IN_WORD)
        status = tern_tensor_error(qweight, err, "N is at most 2^31 - 1");
    if (status)
        return status;
    layer->bits = BITS;
    layer->k = qweight->shape[0];
    layer->n = qweight->shape[1] * IN_WORD;
    status = find_group(layer, s, err);
    if (!status)
        status = tern_linear_expect(layer->parts[SCALES], qweight, ".scales", NULL, layer->groups, layer->n, err);
    if (!status)
        status = tern_linear_expect(layer->parts[QZEROS], qweight, ".qzeros", "I32", layer->groups, qweight->shape[1], err);
    if (!status)
        status = find_zeros(layer, s, err);
    if (!status)
        layer->scale_dtype = layer->parts[SCALES]->dtype;
    if (!status && s->skip)
        tern_linear_warn(layer, "declared as not quantised");
    return status;
}

static bool find(const struct tern_checkpoint *checkpoint, const struct tern_tensor *tensor, struct tern_linear *layer,
                 enum tern_status *status, struct tern_error *err) {
    struct tern_quant_settings settings;
    if (!tern_linear_module(tensor, ".qweight", &layer->name))
        return false;
    layer->parts[QWEIGHT] = tensor;
    layer->parts[QZEROS] = tern_linear_sibling(checkpoint, layer->name, ".qzeros");
    layer->parts[SCALES] = tern_linear_sibling(checkpoint, layer->name, ".scales");
    /* A declaration that cannot be read is reported by the family that takes what is left. */
    if (tern_quant_config_module(checkpoint->config, layer->name, &settings, err) || !is_awq(&settings, layer)) {
        free(layer->name);
        return false;
    }
    layer->checkpoint_format = "awq";
    tern_str_format(layer->why, sizeof layer->why, "qweight, qzeros, scales; %s",
                    strcmp(settings.method, "awq") == 0 ? "declared" : "eight scales a word of qweight");
    *status = check(layer, &settings, err);
    return true;
}

static void decode(const struct tern_linear *layer, struct tern_linear_rows *rows) {
    for (int64_t k = 0; k < layer->k; k++)
        for (int64_t i = 0; i < rows->count; i++)
            rows->codes[i * layer->k + k] = lane(layer->parts[QWEIGHT], k, rows->first + i);
    for (int64_t g = 0; g < layer->groups; g++)
        for (int64_t i = 0; i < rows->count; i++) {
            const int64_t n = rows->first + i;
            rows->zeros[i * layer->groups + g] = lane(layer->parts[QZEROS], g, n);
            rows->scales[i * layer->groups + g] = tern_tensor_scale(layer->parts[SCALES], g * layer->n + n);
        }
}

const struct tern_checkpoint_format tern_checkpoint_awq = {"awq", find, decode};
