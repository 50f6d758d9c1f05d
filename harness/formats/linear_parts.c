/* Shared by the families of layers: siblings, shapes, words, scales. Reads tensors byte by byte, whatever their alignment. */
#include "formats/linear_parts.h"

#include "core/half.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tern_linear_module(const struct tern_tensor *tensor, const char *suffix, char **module) {
    size_t length = strlen(tensor->name), end = strlen(suffix);
    if (length <= end || strcmp(tensor->name + length - end, suffix) != 0)
        return false;
    *module = tern_strdup(tensor->name);
    (*module)[length - end] = '\0';
    return true;
}

const struct tern_tensor *tern_linear_sibling(const struct tern_checkpoint *checkpoint, const char *module,
                                              const char *suffix) {
    struct tern_str name = {0};
    tern_str_printf(&name, "%s%s", module, suffix);
    const struct tern_tensor *found = tern_checkpoint_find(checkpoint, name.data);
    tern_str_free(&name);
    return found;
}

bool tern_tensor_holds_scales(const struct tern_tensor *tensor) {
    const char *dtype = tensor->dtype;
    return strcmp(dtype, "F16") == 0 || strcmp(dtype, "BF16") == 0 || strcmp(dtype, "F32") == 0;
}

enum tern_status tern_linear_expect(const struct tern_tensor *tensor, const struct tern_tensor *beside, const char *suffix,
                                    const char *dtype, int64_t rows, int64_t cols, struct tern_error *err) {
    const int dims = cols < 0 ? 1 : 2;
    char shape[200];
    if (!tensor)
        return tern_tensor_error(beside, err, "there is no %s beside it", suffix + 1);
    if (dtype ? strcmp(tensor->dtype, dtype) != 0 : !tern_tensor_holds_scales(tensor))
        return tern_tensor_error(tensor, err, "is %s, expected %s", tensor->dtype, dtype ? dtype : "F16, BF16 or F32");
    if (tensor->dims == dims && tensor->shape[0] == rows && (dims == 1 || tensor->shape[1] == cols))
        return TERN_OK;
    tern_tensor_shape_text(tensor, shape, sizeof shape);
    if (dims == 1)
        return tern_tensor_error(tensor, err, "shape %s, expected [%" PRId64 "]", shape, rows);
    return tern_tensor_error(tensor, err, "shape %s, expected [%" PRId64 ", %" PRId64 "]", shape, rows, cols);
}

enum tern_status tern_linear_expect_matrix(const struct tern_tensor *tensor, const char *dtype, struct tern_error *err) {
    char shape[200];
    if (strcmp(tensor->dtype, dtype) != 0)
        return tern_tensor_error(tensor, err, "is %s, expected %s", tensor->dtype, dtype);
    if (tensor->dims == 2 && tensor->shape[0] > 0 && tensor->shape[1] > 0 && tensor->shape[0] <= INT32_MAX &&
        tensor->shape[1] <= INT32_MAX)
        return TERN_OK;
    tern_tensor_shape_text(tensor, shape, sizeof shape);
    return tern_tensor_error(tensor, err, "shape %s, expected two dimensions from 1 to 2^31 - 1", shape);
}

enum tern_status tern_linear_check_g_idx(const struct tern_linear *layer, struct tern_error *err) {
    enum tern_status status = tern_linear_expect(layer->g_idx, layer->parts[0], ".g_idx", "I32", layer->k, -1, err);
    for (int64_t k = 0; !status && k < layer->k; k++) {
        int32_t group = (int32_t)tern_tensor_word(layer->g_idx, k);
        if (group < 0 || group >= layer->groups)
            status = tern_tensor_error(layer->g_idx, err, "group %d at k = %" PRId64 ", expected 0 to %" PRId64, group, k,
                                       layer->groups - 1);
    }
    return status;
}

void tern_linear_warn(struct tern_linear *layer, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tern_strs_add(&layer->warnings, text);
}

void tern_linear_checked(struct tern_linear *layer, const struct tern_tensor *scales, const struct tern_quant_settings *s) {
    layer->scale_dtype = scales->dtype;
    if (s->skip)
        tern_linear_warn(layer, "declared as not quantised");
}

uint32_t tern_tensor_word(const struct tern_tensor *tensor, int64_t index) {
    uint32_t word;
    memcpy(&word, tern_tensor_data(tensor) + 4 * index, sizeof word);
    return word;
}

float tern_tensor_scale(const struct tern_tensor *tensor, int64_t index) {
    uint16_t half;
    float value;
    if (tensor->dtype[0] == 'F' && tensor->dtype[1] == '3') {
        memcpy(&value, tern_tensor_data(tensor) + 4 * index, sizeof value);
        return value;
    }
    memcpy(&half, tern_tensor_data(tensor) + 2 * index, sizeof half);
    return tensor->dtype[0] == 'B' ? tern_bf16_to_float(half) : tern_half_to_float(half);
}

/* Exponent and fraction moved into place make a number 2^-112 times too small, also of subnormals; Inf and NaN keep their exponent. */
static inline float widen(uint16_t half) {
    const uint32_t magnitude = (uint32_t)(half & 0x7FFF) << 13, sign = (uint32_t)(half & 0x8000) << 16;
    float value;
    uint32_t bits;
    memcpy(&value, &magnitude, sizeof value);
    value *= 0x1p112F;
    memcpy(&bits, &value, sizeof bits);
    bits = ((half & 0x7C00) == 0x7C00 ? magnitude | 0x7F800000 : bits) | sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void tern_tensor_scales(const struct tern_tensor *tensor, int64_t first, int64_t count, float *out) {
    const uint8_t *halves = tern_tensor_data(tensor) + 2 * first;
    const bool f16 = strcmp(tensor->dtype, "F16") == 0;
    for (int64_t i = 0; i < count && !f16; i++)
        out[i] = tern_tensor_scale(tensor, first + i);
    for (int64_t i = 0; i < count && f16; i++) {
        uint16_t half;
        memcpy(&half, halves + 2 * i, sizeof half);
        out[i] = widen(half);
    }
}
