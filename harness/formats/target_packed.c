/* Targets that hold any codes of 2, 3, 4 and 8 bits with their zero points: GPTQ, packed along K, and compressed-tensors, packed by
 * rows. Codes, zero points, groups and act-order stay as they are; ternary layers become symmetric ones of 2 bits (z = 2). */
#include "formats/linear_parts.h"
#include "formats/target.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Codes 0, 1, 2 around 1 become 1, 2, 3 around 2, the zero point of a symmetric layer of 2 bits. */
static void shift_ternary(struct tern_target_layer *layer) {
    layer->shift = layer->from->ternary ? 1 : 0;
    layer->sym = layer->from->sym && layer->from->zero + layer->shift == 1 << (layer->bits - 1);
}

/* Group of every k, [K] words. */
static enum tern_status write_index(const struct tern_target_layer *layer, int slot, struct tern_error *err) {
    const int64_t bytes = layer->from->k * (int64_t)sizeof(int32_t);
    int32_t *index = tern_alloc((size_t)bytes);
    tern_linear_group_index(layer->from, index);
    enum tern_status status = tern_new_file_write(layer->file, layer->tensors[slot], 0, index, bytes, err);
    free(index);
    return status;
}

// ---- GPTQ -----------------------------------------------------------------------------------------------------------------

enum { QWEIGHT, QZEROS, GPTQ_SCALES, G_IDX };

enum tern_status tern_target_gptq_check(struct tern_target_layer *layer, struct tern_error *err) {
    const struct tern_linear *from = layer->from;
    shift_ternary(layer);
    if (layer->target->planar && layer->bits == 3 && (from->n % 32 || from->k % 32))
        return tern_target_refuse(from, err,
                                  "planes hold 32 codes; N = %" PRId64 " and K = %" PRId64 " must be multiples of it",
                                  from->n, from->k);
    return TERN_OK;
}

void tern_target_gptq_plan(struct tern_target_layer *layer) {
    const struct tern_linear *from = layer->from;
    tern_target_add(layer, QWEIGHT, ".qweight", "I32", ceil_div(from->k * layer->bits, 32), from->n);
    tern_target_add(layer, QZEROS, ".qzeros", "I32", layer->groups, ceil_div(from->n * layer->bits, 32));
    tern_target_add(layer, GPTQ_SCALES, ".scales", layer->scale_dtype, layer->groups, from->n);
    tern_target_add(layer, G_IDX, ".g_idx", "I32", from->k, -1);
}

/* Words of 32 k at a time; each word row of the file gets the columns of these rows. */
static enum tern_status write_qweight(const struct tern_target_layer *layer, const struct tern_target_rows *rows,
                                      struct tern_error *err) {
    const int64_t k = layer->from->k, n = layer->from->n, word_rows = ceil_div(k * layer->bits, 32);
    uint32_t *columns = tern_alloc((size_t)(layer->bits * rows->count) * sizeof *columns);
    enum tern_status status = TERN_OK;
    for (int64_t block = 0; 32 * block < k && !status; block++) {
        const int64_t left = k - 32 * block;
        for (int64_t i = 0; i < rows->count; i++) {
            uint8_t codes[32] = {0};
            uint32_t words[8];
            memcpy(codes, rows->codes + i * k + 32 * block, left < 32 ? (size_t)left : 32);
            tern_pack32(codes, layer->bits, layer->target->planar, words);
            for (int w = 0; w < layer->bits; w++)
                columns[w * rows->count + i] = words[w];
        }
        for (int w = 0; w < layer->bits && block * layer->bits + w < word_rows && !status; w++)
            status =
                tern_new_file_write(layer->file, layer->tensors[QWEIGHT], 4 * ((block * layer->bits + w) * n + rows->first),
                                    columns + w * rows->count, 4 * rows->count, err);
    }
    free(columns);
    return status;
}

/* Zero points and scales of one group, packed along N: `first` is a multiple of 32, so no word is shared with other blocks. */
static enum tern_status write_group(const struct tern_target_layer *layer, const struct tern_target_rows *rows, int64_t g,
                                    uint32_t *words, uint8_t *scales, struct tern_error *err) {
    const int64_t n = layer->from->n, size = tern_target_scale_bytes(layer);
    const int64_t row_words = ceil_div(n * layer->bits, 32), count = ceil_div(rows->count * layer->bits, 32);
    const uint8_t mask = (uint8_t)((1 << layer->bits) - 1);
    for (int64_t block = 0; 32 * block < rows->count; block++) {
        uint8_t zeros[32] = {0};
        for (int64_t i = 32 * block; i < rows->count && i < 32 * block + 32; i++)
            zeros[i % 32] = (uint8_t)(rows->zeros[i * layer->groups + g] - layer->target->zero_offset) & mask;
        tern_pack32(zeros, layer->bits, layer->target->planar, words + block * layer->bits);
    }
    for (int64_t i = 0; i < rows->count; i++)
        tern_target_put_scale(layer, rows->scales[i * layer->groups + g], scales + i * size);
    enum tern_status status = tern_new_file_write(
        layer->file, layer->tensors[QZEROS], 4 * (g * row_words + rows->first * layer->bits / 32), words, 4 * count, err);
    return status ? status
                  : tern_new_file_write(layer->file, layer->tensors[GPTQ_SCALES], size * (g * n + rows->first), scales,
                                        size * rows->count, err);
}

enum tern_status tern_target_gptq_write(const struct tern_target_layer *layer, const struct tern_target_rows *rows,
                                        struct tern_error *err) {
    uint32_t *words = tern_alloc((size_t)(ceil_div(rows->count, 32) * layer->bits) * sizeof *words);
    uint8_t *scales = tern_alloc((size_t)(rows->count * tern_target_scale_bytes(layer)));
    enum tern_status status = rows->first == 0 ? write_index(layer, G_IDX, err) : TERN_OK;
    if (!status)
        status = write_qweight(layer, rows, err);
    for (int64_t g = 0; g < layer->groups && !status; g++)
        status = write_group(layer, rows, g, words, scales, err);
    free(words);
    free(scales);
    return status;
}

// ---- compressed-tensors ---------------------------------------------------------------------------------------------------

enum { PACKED, SCALES, SHAPE, ZEROS, WEIGHT_G_IDX };

enum tern_status tern_target_compressed_check(struct tern_target_layer *layer, struct tern_error *err) {
    shift_ternary(layer);
    if (layer->bits == 3)
        return tern_target_refuse(layer->from, err, "3 bits: loaders of pack-quantized disagree on how they are packed");
    return TERN_OK;
}

void tern_target_compressed_plan(struct tern_target_layer *layer) {
    const struct tern_linear *from = layer->from;
    tern_target_add(layer, PACKED, ".weight_packed", "I32", from->n, ceil_div(from->k, 32 / layer->bits));
    tern_target_add(layer, SCALES, ".weight_scale", layer->scale_dtype, from->n, layer->groups);
    tern_target_add(layer, SHAPE, ".weight_shape", "I64", 2, -1);
    if (!layer->sym)
        tern_target_add(layer, ZEROS, ".weight_zero_point", "I32", ceil_div(from->n, 32 / layer->bits), layer->groups);
    if (layer->act_order)
        tern_target_add(layer, WEIGHT_G_IDX, ".weight_g_idx", "I32", from->k, -1);
}

static enum tern_status write_rows(const struct tern_target_layer *layer, const struct tern_target_rows *rows,
                                   struct tern_error *err) {
    const int64_t k = layer->from->k, in_word = 32 / layer->bits, row_words = ceil_div(k, in_word);
    const int64_t size = tern_target_scale_bytes(layer), scale_count = rows->count * layer->groups;
    uint32_t *words = tern_alloc_zero((size_t)(rows->count * row_words), sizeof *words);
    uint8_t *scales = tern_alloc((size_t)(scale_count * size));
    for (int64_t i = 0; i < rows->count; i++)
        for (int64_t j = 0; j < k; j++)
            words[i * row_words + j / in_word] |= (uint32_t)rows->codes[i * k + j] << (layer->bits * (j % in_word));
    for (int64_t i = 0; i < scale_count; i++)
        tern_target_put_scale(layer, rows->scales[i], scales + i * size);
    enum tern_status status = tern_new_file_write(layer->file, layer->tensors[PACKED], 4 * rows->first * row_words, words,
                                                  4 * rows->count * row_words, err);
    if (!status)
        status = tern_new_file_write(layer->file, layer->tensors[SCALES], size * rows->first * layer->groups, scales,
                                     size * scale_count, err);
    free(words);
    free(scales);
    return status;
}

/* Packed along N: word [n / lanes][g]. */
static enum tern_status write_zeros(const struct tern_target_layer *layer, const struct tern_target_rows *rows,
                                    struct tern_error *err) {
    const int64_t lanes = 32 / layer->bits, count = ceil_div(rows->count, lanes) * layer->groups;
    uint32_t *words = tern_alloc_zero((size_t)count, sizeof *words);
    for (int64_t i = 0; i < rows->count; i++)
        for (int64_t g = 0; g < layer->groups; g++)
            words[i / lanes * layer->groups + g] |= (uint32_t)rows->zeros[i * layer->groups + g]
                                                    << (layer->bits * (i % lanes));
    enum tern_status status = tern_new_file_write(layer->file, layer->tensors[ZEROS],
                                                  4 * (rows->first / lanes) * layer->groups, words, 4 * count, err);
    free(words);
    return status;
}

enum tern_status tern_target_compressed_write(const struct tern_target_layer *layer, const struct tern_target_rows *rows,
                                              struct tern_error *err) {
    const int64_t shape[2] = {layer->from->n, layer->from->k};
    enum tern_status status = write_rows(layer, rows, err);
    if (!status && !layer->sym)
        status = write_zeros(layer, rows, err);
    if (!status && rows->first == 0)
        status = tern_new_file_write(layer->file, layer->tensors[SHAPE], 0, shape, sizeof shape, err);
    if (!status && rows->first == 0 && layer->act_order)
        status = write_index(layer, WEIGHT_G_IDX, err);
    return status;
}
