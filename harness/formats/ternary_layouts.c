/* Layers in the project's own three ternary layouts, in safetensors:
 *   (i)   PREFIX.packed_ternary_weight U8 [N, K/4], PREFIX.scales [N, ceil(K/128)]; field 3 is reserved and reads as weight 0
 *   (ii)  PREFIX.packed_ternary_weight I8 [N, K/4], PREFIX.scales [N] or [N, 1]; field 3 is illegal
 *   (iii) PREFIX.ternary_weight I8 [N, K], PREFIX.scales as in (i) or (ii); values other than -1, 0, 1 are illegal */
#include "formats/linear_parts.h"
#include "formats/ternary_codes.h"

#include <inttypes.h>
#include <string.h>

#define SCALE_GROUP 128

enum { WEIGHT, SCALES };
enum storage { FIELDS_RESERVED, FIELDS, BYTES };

static const struct ternary_layout {
    const char *suffix, *dtype, *name, *map;
    enum storage storage;
    bool grouped, channel; /* the scales that it may have */
} ternary_layouts[] = {
    {".packed_ternary_weight", "U8", "ternary-i", "; fields 0 1 2 are 0 +1 -1", FIELDS_RESERVED, true, false},
    {".packed_ternary_weight", "I8", "ternary-ii", "; fields 0 1 2 are 0 +1 -1", FIELDS, false, true},
    {".ternary_weight", "I8", "ternary-iii", "", BYTES, true, true},
};

/* The row of the tensor's name and type; of its name only (`dtype` false). NULL if there is none. */
static const struct ternary_layout *find_row(const struct tern_tensor *tensor, bool dtype, char **module) {
    for (size_t i = 0; i < sizeof ternary_layouts / sizeof *ternary_layouts; i++)
        if ((!dtype || strcmp(ternary_layouts[i].dtype, tensor->dtype) == 0) &&
            tern_linear_module(tensor, ternary_layouts[i].suffix, module))
            return &ternary_layouts[i];
    return NULL;
}

/* Scales by row, or by row and group. With K up to 128 both are one and the same. */
static enum tern_status check_scales(const struct ternary_layout *layout, struct tern_linear *layer,
                                     struct tern_error *err) {
    const struct tern_tensor *scales = layer->parts[SCALES];
    const int64_t groups = (layer->k + SCALE_GROUP - 1) / SCALE_GROUP;
    const bool one = scales && (scales->dims == 1 || (scales->dims == 2 && scales->shape[1] == 1));
    const bool channel = layout->channel && (one || !layout->grouped);
    layer->group = channel ? layer->k : SCALE_GROUP;
    layer->groups = channel ? 1 : groups;
    return tern_linear_expect(scales, layer->parts[WEIGHT], ".scales", NULL, layer->n,
                              channel && scales && scales->dims == 1 ? -1 : layer->groups, err);
}

static enum tern_status check(const struct ternary_layout *layout, struct tern_linear *layer, struct tern_error *err) {
    const struct tern_tensor *weight = layer->parts[WEIGHT];
    enum tern_status status = tern_linear_expect_matrix(weight, layout->dtype, err);
    if (status)
        return status;
    layer->n = weight->shape[0];
    layer->k = weight->shape[1] * (layout->storage == BYTES ? 1 : 4);
    if (layer->k > INT32_MAX)
        return tern_tensor_error(weight, err, "K = %" PRId64 ", at most 2^31 - 1", layer->k);
    status = check_scales(layout, layer, err);
    if (!status)
        layer->scale_dtype = layer->parts[SCALES]->dtype;
    return status;
}

static bool find(const struct tern_checkpoint *checkpoint, const struct tern_tensor *tensor, struct tern_linear *layer,
                 enum tern_status *status, struct tern_error *err) {
    const struct ternary_layout *layout = find_row(tensor, true, &layer->name);
    if (!layout && !find_row(tensor, false, &layer->name))
        return false;
    layer->checkpoint_format = layout ? layout->name : "ternary";
    layer->ternary = layer->sym = true;
    layer->bits = 2;
    layer->zero = 1;
    layer->odd = "fields of value 3, which is reserved; read as weight 0";
    layer->parts[WEIGHT] = tensor;
    layer->parts[SCALES] = tern_linear_sibling(checkpoint, layer->name, ".scales");
    tern_str_format(layer->why, sizeof layer->why, "%s of %s, scales%s", tensor->name + strlen(layer->name) + 1,
                    tensor->dtype, layout ? layout->map : "");
    *status = layout ? check(layout, layer, err) : tern_tensor_error(tensor, err, "is %s, expected I8 or U8", tensor->dtype);
    return true;
}

static void decode(const struct tern_linear *layer, struct tern_linear_rows *rows) {
    const bool bytes = layer->parts[WEIGHT]->shape[1] == layer->k, reserved = layer->parts[WEIGHT]->dtype[0] == 'U';
    const int64_t row_bytes = layer->parts[WEIGHT]->shape[1], scales = rows->count * layer->groups;
    const uint8_t *packed = tern_tensor_data(layer->parts[WEIGHT]) + rows->first * row_bytes;
    if (bytes)
        tern_codes_int8(packed, rows->count * row_bytes, rows->codes);
    else
        tern_codes_fields(packed, rows->count * row_bytes, reserved, rows->codes);
    if (reserved)
        rows->odd += tern_codes_count_3(packed, rows->count * row_bytes);
    tern_tensor_scales(layer->parts[SCALES], rows->first * layer->groups, scales, rows->scales);
    memset(rows->zeros, layer->zero, (size_t)scales);
}

const struct tern_checkpoint_format tern_checkpoint_ternary = {"ternary", find, decode, false};
