/* Layers in the project's own ternary layouts (ternary_layouts.h). Each is a row of a table; shapes are checked here, once. */
#include "formats/ternary_layouts.h"

#include "formats/scales.h"
#include "formats/ternary_codes.h"

#include <inttypes.h>
#include <string.h>

#define SCALE_GROUP 128

enum { PART_WEIGHT, PART_SCALES };
enum codes_kind { FIELDS_RESERVED, FIELDS_LEGAL, BYTES };

struct ternary_layout {
    const char *suffix, *dtype, *name, *why;
    enum codes_kind kind;
    int per_byte;
    bool grouped, channel; /* which scales it may have */
};

static const struct ternary_layout ternary_layouts[] = {
    {".packed_ternary_weight", "U8", "ternary-i", "packed_ternary_weight of U8: layout (i)", FIELDS_RESERVED, 4, true,
     false},
    {".packed_ternary_weight", "I8", "ternary-ii", "packed_ternary_weight of I8: layout (ii)", FIELDS_LEGAL, 4, false, true},
    {".ternary_weight", "I8", "ternary-iii", "ternary_weight of I8: layout (iii)", BYTES, 1, true, true},
};

static bool ends_with(const char *text, const char *suffix) {
    size_t length = strlen(text), end = strlen(suffix);
    return length > end && strcmp(text + length - end, suffix) == 0;
}

static const struct ternary_layout *find_ternary_layout(const struct tern_tensor *tensor, bool *named) {
    *named = false;
    for (size_t i = 0; i < sizeof ternary_layouts / sizeof ternary_layouts[0]; i++) {
        const struct ternary_layout *layout = &ternary_layouts[i];
        if (!ends_with(tensor->name, layout->suffix))
            continue;
        *named = true;
        if (strcmp(tensor->dtype, layout->dtype) == 0)
            return layout;
    }
    return NULL;
}

/* Scales [N, ceil(K/128)] or [N] or [N, 1], as the layout allows. With K up to 128 both are the same. */
static enum tern_status check_scales(const struct ternary_layout *layout, const struct tern_tensor *scales,
                                     struct tern_linear *layer, struct tern_error *err) {
    const int64_t groups = (layer->k + SCALE_GROUP - 1) / SCALE_GROUP, columns = scales->dims == 2 ? scales->shape[1] : 1;
    char shape[100];
    tern_tensor_shape_text(scales, shape, sizeof shape);
    bool rows = (scales->dims == 1 || scales->dims == 2) && scales->shape[0] == layer->n;
    if (!tern_scales_readable(scales))
        return tern_error_set(err, TERN_FAILED, "%s: tensor '%s': scales of %s, should be F16, BF16 or F32",
                              scales->file->path, scales->name, scales->dtype);
    if (rows && layout->channel && columns == 1)
        layer->group = layer->k;
    else if (rows && layout->grouped && columns == groups && scales->dims == 2)
        layer->group = SCALE_GROUP;
    else
        return tern_error_set(
            err, TERN_FAILED,
            "%s: tensor '%s': shape %s, should be [%" PRId64 ", %" PRId64 "] for W of %" PRId64 " x %" PRId64,
            scales->file->path, scales->name, shape, layer->n, layout->grouped ? groups : 1, layer->n, layer->k);
    layer->groups = columns;
    return TERN_OK;
}

static enum tern_status check_shapes(const struct tern_checkpoint *checkpoint, const struct ternary_layout *layout,
                                     struct tern_linear *layer, struct tern_error *err) {
    const struct tern_tensor *weight = layer->parts[PART_WEIGHT];
    char name[512], shape[100];
    tern_str_format(name, sizeof name, "%s.scales", layer->name);
    layer->parts[PART_SCALES] = tern_checkpoint_find(checkpoint, name);
    if (weight->dims != 2 || weight->shape[0] == 0 || weight->shape[1] == 0 || weight->shape[1] > INT64_MAX / 4)
        return tern_error_set(err, TERN_FAILED, "%s: tensor '%s': shape %s, should be [N, K%s]", weight->file->path,
                              weight->name, tern_tensor_shape_text(weight, shape, sizeof shape),
                              layout->per_byte == 4 ? "/4" : "");
    layer->n = weight->shape[0];
    layer->k = weight->shape[1] * layout->per_byte;
    if (!layer->parts[PART_SCALES])
        return tern_error_set(err, TERN_FAILED, "%s: tensor '%s': there is no '%s'", weight->file->path, weight->name, name);
    return check_scales(layout, layer->parts[PART_SCALES], layer, err);
}

static bool find_layer(const struct tern_checkpoint *checkpoint, const struct tern_tensor *tensor, struct tern_linear *layer,
                       enum tern_status *status, struct tern_error *err) {
    bool named;
    const struct ternary_layout *layout = find_ternary_layout(tensor, &named);
    if (!named)
        return false;
    layer->name = tern_strdup(tensor->name);
    *strrchr(layer->name, '.') = '\0';
    layer->checkpoint_format = layout ? layout->name : "ternary";
    layer->bits = 2;
    layer->sym = true;
    layer->zero = 1;
    layer->parts[PART_WEIGHT] = tensor;
    if (layout) {
        tern_str_copy(layer->why, sizeof layer->why, layout->why);
        *status = check_shapes(checkpoint, layout, layer, err);
    } else {
        *status = tern_error_set(err, TERN_FAILED, "%s: tensor '%s': %s, should be I8%s", tensor->file->path, tensor->name,
                                 tensor->dtype, ends_with(tensor->name, ".packed_ternary_weight") ? " or U8" : "");
    }
    return true;
}

static void decode_layer(const struct tern_linear *layer, struct tern_linear_rows *rows) {
    bool named;
    const struct ternary_layout *layout = find_ternary_layout(layer->parts[PART_WEIGHT], &named);
    const int64_t row_bytes = layer->k / layout->per_byte, bytes = rows->count * row_bytes;
    const int64_t scales = rows->count * layer->groups;
    const uint8_t *packed = tern_tensor_data(layer->parts[PART_WEIGHT]) + rows->first * row_bytes;
    if (layout->kind == BYTES)
        tern_codes_int8(packed, bytes, rows->codes);
    else
        tern_codes_fields(packed, bytes, layout->kind == FIELDS_RESERVED, rows->codes);
    tern_scales_read(layer->parts[PART_SCALES], rows->first * layer->groups, scales, rows->scales);
    memset(rows->zeros, layer->zero, (size_t)scales);
}

const struct tern_checkpoint_format tern_checkpoint_format_ternary = {"ternary", find_layer, decode_layer};
