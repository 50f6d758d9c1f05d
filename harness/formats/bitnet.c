/* Layers of BitNet checkpoints in safetensors: X.weight beside X.weight_scale; the type of the weight tells the two families apart.
 *   Hugging Face: weight U8 [N/4, K], rows strided by N/4; weight_scale of one element, which divides where the declared linear_class
 *     is "bitlinear" (the default) and multiplies where it is "autobitlinear". The bits cannot tell, so a layer without that
 *     declaration is refused. A divisor becomes the float nearest to its reciprocal.
 *   microsoft/BitNet gpu: weight I8 [N, K/4] in tiles of 16 x 32; weight_scale BF16 [4], which multiplies: wqkv has one each for its K
 *     rows of q and the equal rests k and v (gpu/model.py: q has dim rows), w13 one for each half, others one. */
#include "formats/linear_parts.h"
#include "formats/ternary_codes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT, SCALE };

/* X.weight of that type, with an X.weight_scale of so many elements; fills what every BitNet layer has. */
static bool find_pair(const struct tern_checkpoint *checkpoint, const struct tern_tensor *tensor, const char *dtype,
                      int64_t scales, struct tern_linear *layer) {
    int64_t count;
    if (strcmp(tensor->dtype, dtype) != 0 || !tern_linear_module(tensor, ".weight", &layer->name))
        return false;
    layer->parts[WEIGHT] = tensor;
    layer->parts[SCALE] = tern_linear_sibling(checkpoint, layer->name, ".weight_scale");
    layer->ternary = layer->sym = true;
    layer->bits = 2;
    layer->zero = 1;
    layer->groups = 1;
    if (layer->parts[SCALE] && tern_tensor_bits(layer->parts[SCALE], 1, &count) && count == scales)
        return true;
    free(layer->name);
    return false;
}

// ---- Hugging Face ---------------------------------------------------------------------------------------------------------

#define STRIDED_FIELDS "fields 0 1 2 are -1 0 +1"

static const struct {
    const char *declared, *name, *why;
} linear_classes[] = {
    {"", "bitnet-divide", "no linear_class is declared, which means bitlinear: weight_scale divides; " STRIDED_FIELDS},
    {"bitlinear", "bitnet-divide", "linear_class bitlinear: weight_scale divides; " STRIDED_FIELDS},
    {"autobitlinear", "bitnet-multiply", "linear_class autobitlinear: weight_scale multiplies; " STRIDED_FIELDS},
};

/* Which way the scale goes. */
static enum tern_status read_class(const struct tern_checkpoint *checkpoint, struct tern_linear *layer,
                                   struct tern_error *err) {
    struct tern_quant_settings s;
    enum tern_status status = tern_quant_config_module(checkpoint->config, layer->name, &s, err);
    if (status)
        return status;
    if (strcmp(s.method, "bitnet") != 0)
        return tern_tensor_error(layer->parts[WEIGHT], err,
                                 "quant_method bitnet is not declared, so whether weight_scale multiplies or divides is "
                                 "unknown");
    for (size_t i = 0; i < sizeof linear_classes / sizeof *linear_classes; i++)
        if (strcmp(linear_classes[i].declared, s.linear_class) == 0) {
            layer->checkpoint_format = linear_classes[i].name;
            tern_str_copy(layer->why, sizeof layer->why, linear_classes[i].why);
            return TERN_OK;
        }
    return tern_tensor_error(layer->parts[WEIGHT], err, "linear_class '%s' is declared, known are bitlinear, autobitlinear",
                             s.linear_class);
}

/* N is 4 R. A packer that padded an N that is no multiple of 4 leaves rows of -1; only the bias tells then. */
static enum tern_status check_strided(const struct tern_checkpoint *checkpoint, struct tern_linear *layer,
                                      struct tern_error *err) {
    const struct tern_tensor *weight = layer->parts[WEIGHT];
    const struct tern_tensor *bias = tern_linear_sibling(checkpoint, layer->name, ".bias");
    enum tern_status status = tern_linear_expect_matrix(weight, "U8", err);
    if (status)
        return status;
    layer->n = 4 * weight->shape[0];
    layer->k = layer->group = weight->shape[1];
    layer->one_scale = true;
    layer->scale_dtype = layer->parts[SCALE]->dtype;
    if (!tern_tensor_holds_scales(layer->parts[SCALE]))
        return tern_tensor_error(layer->parts[SCALE], err, "is %s, expected F16, BF16 or F32", layer->scale_dtype);
    if (bias)
        status = tern_linear_expect(bias, weight, ".bias", NULL, layer->n, -1, err);
    return status ? status : read_class(checkpoint, layer, err);
}

static bool find_strided(const struct tern_checkpoint *checkpoint, const struct tern_tensor *tensor,
                         struct tern_linear *layer, enum tern_status *status, struct tern_error *err) {
    if (!find_pair(checkpoint, tensor, "U8", 1, layer))
        return false;
    layer->checkpoint_format = "bitnet";
    *status = check_strided(checkpoint, layer, err);
    return true;
}

static void decode_strided(const struct tern_linear *layer, struct tern_linear_rows *rows) {
    const uint8_t *packed = tern_tensor_data(layer->parts[WEIGHT]);
    const int64_t stride = layer->n / 4;
    float scale = tern_tensor_scale(layer->parts[SCALE], 0);
    if (strcmp(layer->checkpoint_format, "bitnet-divide") == 0)
        scale = (float)(1.0 / scale);
    for (int64_t i = 0; i < rows->count; i++) {
        const int64_t row = rows->first + i;
        tern_codes_bitnet(packed + row % stride * layer->k, layer->k, (int)(row / stride), rows->codes + i * layer->k);
        rows->scales[i] = scale;
        rows->zeros[i] = (uint8_t)layer->zero;
    }
}

const struct tern_checkpoint_format tern_checkpoint_bitnet = {"bitnet", find_strided, decode_strided, false};

// ---- microsoft/BitNet gpu -------------------------------------------------------------------------------------------------

#define GPU_SCALES 4

/* Fused parts by the last word of the module's name. */
static int fused_parts(const struct tern_linear *layer) {
    const char *dot = strrchr(layer->name, '.'), *last = dot ? dot + 1 : layer->name;
    return strcmp(last, "wqkv") == 0 ? 3 : strcmp(last, "w13") == 0 ? 2 : 1;
}

/* Rows are cut by the sizes of the parts, never into equal shares of N. */
static void set_parts(struct tern_linear *layer, int parts) {
    const int64_t first = parts == 3 ? layer->k : parts == 2 ? layer->n / 2 : layer->n, rest = layer->n - first;
    layer->fused_rows[0] = first;
    layer->fused_rows[1] = parts == 3 ? rest / 2 : rest;
    layer->fused_rows[2] = parts == 3 ? rest / 2 : 0;
}

/* Part that a row belongs to. */
static int part_of(const struct tern_linear *layer, int64_t row) {
    return row < layer->fused_rows[0] ? 0 : row < layer->fused_rows[0] + layer->fused_rows[1] ? 1 : 2;
}

static enum tern_status check_gpu_scales(const struct tern_linear *layer, int parts, struct tern_error *err) {
    for (int i = parts; i < GPU_SCALES; i++) {
        const float scale = tern_tensor_scale(layer->parts[SCALE], i);
        if (!(scale == 0))
            return tern_tensor_error(layer->parts[SCALE], err, "scale %d is %g, expected 0 in a layer of %d part%s", i,
                                     (double)scale, parts, parts > 1 ? "s" : "");
    }
    return TERN_OK;
}

static enum tern_status check_gpu(struct tern_linear *layer, struct tern_error *err) {
    const struct tern_tensor *weight = layer->parts[WEIGHT];
    const int parts = fused_parts(layer);
    enum tern_status status = tern_linear_expect_matrix(weight, "I8", err);
    if (!status)
        status = tern_linear_expect(layer->parts[SCALE], weight, ".weight_scale", "BF16", GPU_SCALES, -1, err);
    if (status)
        return status;
    layer->n = weight->shape[0];
    layer->k = layer->group = 4 * weight->shape[1];
    layer->scale_dtype = layer->parts[SCALE]->dtype;
    tern_str_format(layer->why, sizeof layer->why,
                    "weight of I8, weight_scale of 4; %d part%s by name; fields 1 2 3 are -1 0 +1", parts,
                    parts > 1 ? "s" : "");
    set_parts(layer, parts);
    if (layer->k > INT32_MAX)
        return tern_tensor_error(weight, err, "K = %" PRId64 ", at most 2^31 - 1", layer->k);
    if (layer->n % 16 != 0 || layer->k % 32 != 0)
        return tern_tensor_error(weight, err, "N = %" PRId64 ", K = %" PRId64 ": no whole number of tiles of 16 x 32",
                                 layer->n, layer->k);
    if (parts == 2 || (parts == 3 && layer->n > layer->k && (layer->n - layer->k) % 2 == 0) || parts == 1)
        return check_gpu_scales(layer, parts, err);
    return tern_tensor_error(weight, err, "N = %" PRId64 " rows, expected K = %" PRId64 " of q and as many of k as of v",
                             layer->n, layer->k);
}

static bool find_gpu(const struct tern_checkpoint *checkpoint, const struct tern_tensor *tensor, struct tern_linear *layer,
                     enum tern_status *status, struct tern_error *err) {
    if (!find_pair(checkpoint, tensor, "I8", GPU_SCALES, layer))
        return false;
    layer->checkpoint_format = "bitnet-gpu";
    *status = check_gpu(layer, err);
    return true;
}

static void decode_gpu(const struct tern_linear *layer, struct tern_linear_rows *rows) {
    const uint8_t *packed = tern_tensor_data(layer->parts[WEIGHT]);
    for (int64_t i = 0; i < rows->count; i++) {
        tern_codes_bitnet_gpu(packed, layer->k, rows->first + i, rows->codes + i * layer->k);
        rows->scales[i] = tern_tensor_scale(layer->parts[SCALE], part_of(layer, rows->first + i));
        rows->zeros[i] = (uint8_t)layer->zero;
    }
}

const struct tern_checkpoint_format tern_checkpoint_bitnet_gpu = {"bitnet gpu", find_gpu, decode_gpu, false};
