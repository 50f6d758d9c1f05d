/* Finds quantised layers by the table of checkpoint formats, and lends each family's decoder its buffers. */
#include "formats/linear.h"

#include "formats/linear_parts.h"

#include <stdlib.h>
#include <string.h>

/* Every way of storing layers that can be read; the first that claims a tensor has it. The list ends in NULL. */
static const struct tern_checkpoint_format *const families[] = {
    &tern_checkpoint_awq,     &tern_checkpoint_gptq,   &tern_checkpoint_compressed_tensors, &tern_checkpoint_gguf,
    &tern_checkpoint_ternary, &tern_checkpoint_bitnet, &tern_checkpoint_bitnet_gpu,         NULL,
};

#define BLOCK_BYTES     ((int64_t)1 << 20)
#define SCATTERED_BYTES ((int64_t)3 << 20)  /* longer runs of words outweigh the cache */
#define BEHIND_BYTES    ((int64_t)16 << 20) /* of weights, after which pages are given back */
#define LINE_ROWS       16                  /* of GPTQ, in a cache line of 32-bit words */

void tern_linears_find(const struct tern_checkpoint *checkpoint, struct tern_linears *layers) {
    *layers = (struct tern_linears){0};
    for (size_t i = 0; i < checkpoint->tensor_count; i++)
        for (const struct tern_checkpoint_format *const *family = families; *family; family++) {
            struct tern_linear layer = {.family = *family};
            struct tern_error err = {0};
            enum tern_status status = TERN_OK;
            if (!(*family)->find(checkpoint, &checkpoint->tensors[i], &layer, &status, &err))
                continue;
            if (status)
                tern_str_copy(layer.error, sizeof layer.error, err.text);
            layers->items = tern_realloc(layers->items, (layers->count + 1) * sizeof *layers->items);
            layers->items[layers->count++] = layer;
            break;
        }
}

void tern_linears_free(struct tern_linears *layers) {
    for (size_t i = 0; i < layers->count; i++) {
        free(layers->items[i].name);
        tern_strs_free(&layers->items[i].warnings);
    }
    free(layers->items);
    *layers = (struct tern_linears){0};
}

void tern_linear_rows_alloc(const struct tern_linear *layer, int64_t capacity, struct tern_linear_rows *rows) {
    const size_t count = (size_t)capacity, groups = (size_t)layer->groups;
    *rows = (struct tern_linear_rows){.capacity = capacity};
    rows->codes = tern_alloc_zero(count, (size_t)layer->k);
    rows->scales = tern_alloc_zero(count, groups * sizeof *rows->scales);
    rows->zeros = tern_alloc_zero(count, groups);
}

void tern_linear_rows_free(struct tern_linear_rows *rows) {
    free(rows->codes);
    free(rows->scales);
    free(rows->zeros);
    *rows = (struct tern_linear_rows){0};
}

int64_t tern_linear_block_rows(const struct tern_linear *layer) {
    const int64_t bytes = layer->family->scattered ? SCATTERED_BYTES : BLOCK_BYTES;
    int64_t rows = bytes / (layer->k + 5 * layer->groups);
    if (rows > LINE_ROWS)
        rows -= rows % LINE_ROWS;
    return rows < 1 ? 1 : rows > layer->n ? layer->n : rows;
}

void tern_linear_decode(const struct tern_linear *layer, int64_t n0, int64_t n1, struct tern_linear_rows *rows) {
    rows->first = n0;
    rows->count = n1 - n0;
    rows->odd = 0;
    layer->family->decode(layer, rows);
}

void tern_linear_forget(const struct tern_linear *layer) {
    for (int i = 0; i < TERN_LINEAR_PARTS; i++)
        if (layer->parts[i])
            tern_tensor_forget(layer->parts[i]);
}

void tern_linear_forget_behind(const struct tern_linear *layer, int64_t n, int64_t block) {
    const double row_bytes = (double)layer->parts[0]->bytes / (double)layer->n;
    const int64_t blocks = (int64_t)((double)BEHIND_BYTES / (row_bytes * (double)block)) + 1;
    if (!layer->family->scattered && n / block % blocks == 0)
        tern_linear_forget(layer);
}

void tern_linear_group_index(const struct tern_linear *layer, int32_t *index) {
    if (layer->g_idx)
        memcpy(index, tern_tensor_data(layer->g_idx), (size_t)layer->k * sizeof *index);
    else
        for (int64_t k = 0; k < layer->k; k++)
            index[k] = (int32_t)(k / layer->group);
}
