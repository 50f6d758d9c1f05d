/* GGUF as a container of checkpoints, and its ternary block types as layers. Parsing is gguf.c's, decoding ternary_codes.c's. */
#include "formats/gguf.h"

#include "formats/ternary_codes.h"

#include <inttypes.h>
#include <stdlib.h>
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

struct block_format {
    const char *dtype, *name;
    int64_t weights, bytes;
    void (*decode)(const uint8_t *packed, int64_t blocks, uint8_t *codes, float *scales);
};

static const struct block_format block_formats[] = {
    {"TQ1_0", "gguf-tq1_0", TERN_TQ_WEIGHTS, 54, tern_codes_tq1_0},
    {"TQ2_0", "gguf-tq2_0", TERN_TQ_WEIGHTS, 66, tern_codes_tq2_0},
    {"Q2_0", "gguf-q2_0", TERN_Q2_0_WEIGHTS, 18, tern_codes_q2_0},
};

static const struct block_format *find_block_format(const struct tern_tensor *tensor) {
    for (size_t i = 0; i < sizeof block_formats / sizeof block_formats[0]; i++)
        if (strcmp(tensor->dtype, block_formats[i].dtype) == 0)
            return &block_formats[i];
    return NULL;
}

static char *module_name(const char *tensor) {
    static const char suffix[] = ".weight";
    char *name = tern_strdup(tensor);
    size_t length = strlen(name);
    if (length > sizeof suffix - 1 && strcmp(name + length - (sizeof suffix - 1), suffix) == 0)
        name[length - (sizeof suffix - 1)] = '\0';
    return name;
}

/* A tensor of experts, [E][N][K], is read as one layer of E * N rows: rows do not care. */
static bool find_layer(const struct tern_checkpoint *checkpoint, const struct tern_tensor *tensor, struct tern_linear *layer,
                       enum tern_status *status, struct tern_error *err) {
    const struct block_format *format = strcmp(checkpoint->container, "gguf") == 0 ? find_block_format(tensor) : NULL;
    if (!format)
        return false;
    layer->name = module_name(tensor->name);
    layer->checkpoint_format = format->name;
    tern_str_format(layer->why, sizeof layer->why, "ggml type %s: blocks of %" PRId64 " weights along K", format->dtype,
                    format->weights);
    layer->bits = 2;
    layer->sym = true;
    layer->zero = 1;
    layer->group = format->weights;
    layer->parts[0] = tensor;
    if (tensor->dims < 2) {
        *status = tern_error_set(err, TERN_FAILED, "%s: tensor '%s': %d dimensions, a layer has [N, K]", tensor->file->path,
                                 tensor->name, tensor->dims);
        return true;
    }
    layer->k = tensor->shape[tensor->dims - 1];
    layer->groups = layer->k / format->weights;
    layer->n = tensor->bytes / (layer->groups * format->bytes);
    return true;
}

static void decode_layer(const struct tern_linear *layer, struct tern_linear_rows *rows) {
    const struct block_format *format = find_block_format(layer->parts[0]);
    const uint8_t *packed = tern_tensor_data(layer->parts[0]) + rows->first * layer->groups * format->bytes;
    format->decode(packed, rows->count * layer->groups, rows->codes, rows->scales);
    memset(rows->zeros, layer->zero, (size_t)(rows->count * layer->groups));
}

const struct tern_checkpoint_format tern_checkpoint_format_gguf = {"gguf ternary", find_layer, decode_layer};
