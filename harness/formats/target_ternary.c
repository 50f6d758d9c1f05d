/* Targets in the project's three ternary layouts. Any layer whose weights are all -1, 0 or 1 times a scale fits, if its scales do:
 * one for each 128 along K in (i), one a row in (ii), either in (iii). */
#include "formats/target.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SCALE_GROUP 128

enum { WEIGHT, SCALES };
enum layout { LAYOUT_I, LAYOUT_II, LAYOUT_III };

/* Bits of field q: 0 is weight 0, 1 is +1, 2 is -1; codes 0, 1, 2 are weights -1, 0, +1. */
static const uint8_t fields[3] = {2, 0, 1};

static enum layout layout_of(const struct tern_target_layer *layer) {
    const char *name = layer->target->name;
    return strcmp(name, "ternary-i") == 0 ? LAYOUT_I : strcmp(name, "ternary-ii") == 0 ? LAYOUT_II : LAYOUT_III;
}

enum tern_status tern_target_ternary_check(struct tern_target_layer *layer, struct tern_error *err) {
    const struct tern_linear *from = layer->from;
    const enum layout layout = layout_of(layer);
    const bool channel = layout == LAYOUT_II || (layout == LAYOUT_III && from->groups == 1);
    if (from->act_order)
        return tern_target_refuse(from, err, "act-order: its groups are not runs along K, which %s needs",
                                  layer->target->name);
    if (layout != LAYOUT_III && from->k % 4)
        return tern_target_refuse(from, err, "K = %" PRId64 " is no multiple of 4, the weights of a byte", from->k);
    layer->bits = 2;
    layer->sym = true;
    layer->group = channel ? from->k : SCALE_GROUP;
    layer->groups = channel ? 1 : (from->k + SCALE_GROUP - 1) / SCALE_GROUP;
    return TERN_OK;
}

/* Scales of one group keep the shape [N, 1] or [N] that they had in another of the three layouts. */
static bool flat_scales(const struct tern_target_layer *layer) {
    const struct tern_linear *from = layer->from;
    if (layer->groups > 1 || layout_of(layer) == LAYOUT_I)
        return false;
    return strncmp(from->checkpoint_format, "ternary-", 8) != 0 || layout_of(layer) == LAYOUT_II ||
           from->parts[SCALES]->dims == 1;
}

void tern_target_ternary_plan(struct tern_target_layer *layer) {
    const struct tern_linear *from = layer->from;
    const enum layout layout = layout_of(layer);
    tern_target_add(layer, WEIGHT, layout == LAYOUT_III ? ".ternary_weight" : ".packed_ternary_weight",
                    layout == LAYOUT_I ? "U8" : "I8", from->n, layout == LAYOUT_III ? from->k : from->k / 4);
    tern_target_add(layer, SCALES, ".scales", layer->scale_dtype, from->n, flat_scales(layer) ? -1 : layer->groups);
}

static void pack(const uint8_t *codes, int64_t count, bool bytes, uint8_t *out) {
    if (bytes)
        for (int64_t i = 0; i < count; i++)
            out[i] = (uint8_t)(codes[i] - 1);
    else
        for (int64_t i = 0; i < count; i += 4)
            out[i / 4] = (uint8_t)(fields[codes[i]] | fields[codes[i + 1]] << 2 | fields[codes[i + 2]] << 4 |
                                   fields[codes[i + 3]] << 6);
}

enum tern_status tern_target_ternary_write(const struct tern_target_layer *layer, const struct tern_target_rows *rows,
                                           struct tern_error *err) {
    const bool plain = layout_of(layer) == LAYOUT_III;
    const int64_t weights = rows->count * layer->from->k, bytes = plain ? weights : weights / 4;
    const int64_t size = tern_target_scale_bytes(layer), scale_count = rows->count * layer->groups;
    uint8_t *packed = tern_alloc((size_t)bytes), *scales = tern_alloc((size_t)(scale_count * size));
    pack(rows->codes, weights, plain, packed);
    for (int64_t i = 0; i < scale_count; i++)
        tern_target_put_scale(layer, rows->scales[i], scales + i * size);
    enum tern_status status =
        tern_new_file_write(layer->file, layer->tensors[WEIGHT], rows->first * (plain ? layer->from->k : layer->from->k / 4),
                            packed, bytes, err);
    if (!status)
        status = tern_new_file_write(layer->file, layer->tensors[SCALES], size * rows->first * layer->groups, scales,
                                     size * scale_count, err);
    free(packed);
    free(scales);
    return status;
}
