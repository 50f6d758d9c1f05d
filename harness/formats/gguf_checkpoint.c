/* GGUF as a container of checkpoints, and its ternary block types as layers. Parsing is gguf.c's, decoding ternary_codes.c's. */
#include "formats/gguf.h"

#include "formats/linear_parts.h"
#include "formats/ternary_codes.h"

#include <inttypes.h>
#include <string.h>

/* Every value of the first eight bytes is too long a header for safetensors, so the mark is safe. */
static bool recognise(const uint8_t *data, int64_t bytes) {
    return bytes >= 4 && memcmp(data, "GGUF", 4) == 0;
}

/* ne lists K first; a checkpoint's shape lists it last. */
static enum tern_status read_gguf(struct tern_checkpoint *checkpoint, const struct tern_mapping *file,
                                  struct tern_error *err) {
    struct tern_gguf gguf;
    enum tern_status status = tern_gguf_parse(file->data, (uint64_t)file->bytes, &gguf, err);
    if (status) {
        tern_error_prefix(err, "%s", file->path);
        return status;
    }
    for (size_t i = 0; i < gguf.tensor_count; i++) {
        const struct tern_gguf_tensor *from = &gguf.tensors[i];
        struct tern_tensor tensor = {.name = from->name, .dims = (int)from->dims, .file = file};
        for (uint32_t d = 0; d < from->dims; d++)
            tensor.shape[d] = from->ne[from->dims - 1 - d];
        tern_str_copy(tensor.dtype, sizeof tensor.dtype, from->type->name);
        tensor.offset = (int64_t)from->offset;
        tensor.bytes = (int64_t)from->bytes;
        tern_checkpoint_add(checkpoint, &tensor);
    }
    tern_gguf_free(&gguf);
    return TERN_OK;
}

const struct tern_container tern_container_gguf = {"gguf", ".gguf", recognise, read_gguf};

// ---- layers ---------------------------------------------------------------------------------------------------------------

/* Q2_0 may hold the weight +2, so it is ternary only if its codes are. */
static const struct block_format {
    const char *dtype, *name, *map;
    int64_t weights, bytes;
    bool ternary;
    void (*decode)(const uint8_t *packed, int64_t blocks, uint8_t *codes, float *scales);
    int64_t (*odd)(const uint8_t *packed, int64_t blocks);
} block_formats[] = {
    {"TQ1_0", "gguf-tq1_0", "digits 0 1 2 are -1 0 +1", TERN_TQ_WEIGHTS, 54, true, tern_codes_tq1_0,
     tern_codes_tq1_0_odd_bytes},
    {"TQ2_0", "gguf-tq2_0", "fields 0 1 2 are -1 0 +1", TERN_TQ_WEIGHTS, 66, true, tern_codes_tq2_0, NULL},
    {"Q2_0", "gguf-q2_0", "fields 0 1 2 3 are -1 0 +1 +2", TERN_Q2_0_WEIGHTS, 18, false, tern_codes_q2_0, NULL},
};

static const struct block_format *find_block_format(const struct tern_tensor *tensor) {
    for (size_t i = 0; i < sizeof block_formats / sizeof block_formats[0]; i++)
        if (strcmp(tensor->dtype, block_formats[i].dtype) == 0)
            return &block_formats[i];
    return NULL;
}

/* A tensor of experts, [E][N][K], is read as one layer of E * N rows: rows do not care. */
static enum tern_status check(const struct block_format *format, struct tern_linear *layer, struct tern_error *err) {
    const struct tern_tensor *weight = layer->parts[0];
    if (weight->dims < 2)
        return tern_tensor_error(weight, err, "%d dimensions, expected [N, K]", weight->dims);
    layer->k = weight->shape[weight->dims - 1];
    layer->group = format->weights;
    layer->groups = layer->k / format->weights;
    layer->n = weight->bytes / (layer->groups * format->bytes);
    layer->scale_dtype = "F16";
    if (layer->k > INT32_MAX || layer->n > INT32_MAX)
        return tern_tensor_error(weight, err, "N = %" PRId64 ", K = %" PRId64 ", each at most 2^31 - 1", layer->n, layer->k);
    return TERN_OK;
}

static bool find(const struct tern_checkpoint *checkpoint, const struct tern_tensor *tensor, struct tern_linear *layer,
                 enum tern_status *status, struct tern_error *err) {
    const struct block_format *format = strcmp(checkpoint->container, "gguf") == 0 ? find_block_format(tensor) : NULL;
    if (!format)
        return false;
    if (!tern_linear_module(tensor, ".weight", &layer->name))
        layer->name = tern_strdup(tensor->name);
    layer->checkpoint_format = format->name;
    tern_str_format(layer->why, sizeof layer->why, "ggml type %s; %s", format->dtype, format->map);
    layer->ternary = layer->sym = format->ternary;
    layer->bits = 2;
    layer->zero = 1;
    layer->odd = "bytes that no writer of TQ1_0 makes; read all the same";
    layer->parts[0] = tensor;
    *status = check(format, layer, err);
    return true;
}

static void decode(const struct tern_linear *layer, struct tern_linear_rows *rows) {
    const struct block_format *format = find_block_format(layer->parts[0]);
    const int64_t blocks = rows->count * layer->groups;
    const uint8_t *packed = tern_tensor_data(layer->parts[0]) + rows->first * layer->groups * format->bytes;
    format->decode(packed, blocks, rows->codes, rows->scales);
    if (format->odd)
        rows->odd += format->odd(packed, blocks);
    memset(rows->zeros, layer->zero, (size_t)blocks);
}

const struct tern_checkpoint_format tern_checkpoint_gguf = {"gguf", find, decode, false};
