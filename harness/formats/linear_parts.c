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

/* Fields of `width` bits, none across a word; adds them to the codes at bit `at`. */
static inline void unpack_plane(const uint32_t *words, int width, int at, uint8_t codes[32]) {
    const int in_word = 32 / width;
    const uint32_t mask = (1U << width) - 1;
    for (int i = 0; i < width; i++)
        for (int lane = 0; lane < in_word; lane++)
            codes[i * in_word + lane] |= (uint8_t)((words[i] >> (width * lane) & mask) << at);
}

void tern_unpack32(const uint32_t *words, int bits, bool planar, uint8_t codes[32]) {
    memset(codes, 0, 32);
    if (bits == 2)
        unpack_plane(words, 2, 0, codes);
    else if (bits == 4)
        unpack_plane(words, 4, 0, codes);
    else if (bits == 8)
        unpack_plane(words, 8, 0, codes);
    else if (planar) {
        unpack_plane(words, 2, 0, codes);
        unpack_plane(words + 2, 1, 2, codes);
    } else {
        for (int j = 0; j < 32; j++) { /* lanes 10 and 21 lie across words */
            const int word = 3 * j / 32, shift = 3 * j % 32;
            uint64_t pair = words[word] | (uint64_t)(word < 2 ? words[word + 1] : 0) << 32;
            codes[j] = pair >> shift & 7;
        }
    }
}
