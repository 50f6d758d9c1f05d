/* The table of targets, and what they share: the exact way from a decoded layer to codes, zero points and scales of the output.
 * Everything that would lose a bit is refused here or by the target, with the first place. */
#include "formats/target.h"

#include "core/half.h"
#include "formats/linear_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPTQ .check = tern_target_gptq_check, .plan = tern_target_gptq_plan, .write = tern_target_gptq_write
#define TERNARY                                                                                                             \
    .ternary = true, .check = tern_target_ternary_check, .plan = tern_target_ternary_plan, .write = tern_target_ternary_write

const struct tern_target tern_targets[] = {
    {.name = "gptq", .help = "GPTQ version 1: zero points minus 1", .zero_offset = 1, GPTQ},
    {.name = "gptq_v2", .help = "GPTQ version 2: zero points as they are", GPTQ},
    {.name = "gptq_p", .help = "GPTQ of bit planes (differs from gptq_v2 in 3 bits)", .planar = true, GPTQ},
    {.name = "pack-quantized",
     .help = "compressed-tensors; 2, 4 and 8 bits",
     .check = tern_target_compressed_check,
     .plan = tern_target_compressed_plan,
     .write = tern_target_compressed_write},
    {.name = "ternary-i", .help = "2 bits a weight, a scale for 128 along K", TERNARY},
    {.name = "ternary-ii", .help = "2 bits a weight, a scale a row", TERNARY},
    {.name = "ternary-iii", .help = "a byte a weight, scales as in i or ii", TERNARY},
};
const size_t tern_target_count = sizeof tern_targets / sizeof *tern_targets;

enum tern_status tern_target_find(const char *name, const struct tern_target **target, struct tern_error *err) {
    struct tern_strs names = {0};
    for (size_t i = 0; i < tern_target_count; i++) {
        tern_strs_add(&names, tern_targets[i].name);
        if (strcmp(tern_targets[i].name, name) == 0)
            *target = &tern_targets[i];
    }
    enum tern_status status = TERN_OK;
    const char *near = tern_str_suggest(name, &names);
    if (!*target) {
        status = tern_error_set(err, TERN_USAGE, "--to: no layers are written as '%s'", name);
        tern_error_hint(err, near ? "did you mean %s?" : "`tune help convert` lists the formats%s", near ? near : "");
    }
    tern_strs_free(&names);
    return status;
}

enum tern_status tern_target_refuse(const struct tern_linear *layer, struct tern_error *err, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return tern_error_set(err, TERN_FAILED, "%s: layer '%s': %s", layer->parts[0]->file->path, layer->name, text);
}

/* A divisor d became the factor nearest to 1 / d. No bit is lost if d is the nearest of its type to the inverse of that. */
static enum tern_status check_divisor(struct tern_target_layer *layer, struct tern_error *err) {
    const struct tern_tensor *scale = layer->from->parts[1];
    const float divisor = tern_tensor_scale(scale, 0), factor = (float)(1.0 / (double)divisor);
    const double back = 1.0 / (double)factor;
    const float again = strcmp(scale->dtype, "F16") == 0    ? tern_half_to_float(tern_half_from_double(back))
                        : strcmp(scale->dtype, "BF16") == 0 ? tern_bf16_to_float(tern_bf16_from_double(back))
                                                            : (float)back;
    layer->scale_dtype = "F32";
    if (again == divisor)
        return TERN_OK;
    return tern_target_refuse(layer->from, err, "weight_scale divides by %.9g, which no F32 factor gives back exactly",
                              (double)divisor);
}

enum tern_status tern_target_check(struct tern_target_layer *layer, struct tern_error *err) {
    const struct tern_linear *from = layer->from;
    layer->bits = from->bits;
    layer->group = from->group;
    layer->groups = from->groups;
    layer->sym = from->sym;
    layer->act_order = from->act_order;
    layer->scale_dtype = from->scale_dtype;
    enum tern_status status = TERN_OK;
    if (strcmp(from->checkpoint_format, "bitnet-divide") == 0)
        status = check_divisor(layer, err);
    return status ? status : layer->target->check(layer, err);
}

void tern_target_add(struct tern_target_layer *layer, int slot, const char *suffix, const char *dtype, int64_t rows,
                     int64_t cols) {
    struct tern_str name = {0};
    const int64_t shape[2] = {rows, cols};
    tern_str_printf(&name, "%s%s", layer->from->name, suffix);
    layer->tensors[slot] = tern_new_file_add(layer->file, name.data, dtype, cols < 0 ? 1 : 2, shape);
    tern_str_free(&name);
}

static void pack_plane(const uint8_t codes[32], int width, int at, uint32_t *words) {
    const int in_word = 32 / width;
    const uint32_t mask = (1U << width) - 1;
    for (int i = 0; i < width; i++) {
        words[i] = 0;
        for (int lane = 0; lane < in_word; lane++)
            words[i] |= ((uint32_t)codes[i * in_word + lane] >> at & mask) << (width * lane);
    }
}

void tern_pack32(const uint8_t codes[32], int bits, bool planar, uint32_t *words) {
    if (bits != 3) {
        pack_plane(codes, bits, 0, words);
    } else if (planar) {
        pack_plane(codes, 2, 0, words);
        pack_plane(codes, 1, 2, words + 2);
    } else {
        words[0] = words[1] = words[2] = 0;
        for (int j = 0; j < 32; j++) { /* lanes 10 and 21 lie across words */
            const int word = 3 * j / 32, shift = 3 * j % 32;
            const uint64_t code = (uint64_t)(codes[j] & 7) << shift;
            words[word] |= (uint32_t)code;
            if (code >> 32)
                words[word + 1] |= (uint32_t)(code >> 32);
        }
    }
}

int64_t tern_target_scale_bytes(const struct tern_target_layer *layer) {
    return strcmp(layer->scale_dtype, "F32") == 0 ? 4 : 2;
}

void tern_target_put_scale(const struct tern_target_layer *layer, float scale, void *out) {
    uint16_t half =
        layer->scale_dtype[0] == 'B' ? tern_bf16_from_double((double)scale) : tern_half_from_double((double)scale);
    if (tern_target_scale_bytes(layer) == 4)
        memcpy(out, &scale, sizeof scale);
    else
        memcpy(out, &half, sizeof half);
}

/* ---- recoding --------------------------------------------------------------------------------------------------------------- */

static bool same_bits(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

/* Weights of a row as codes 0, 1, 2. */
static enum tern_status make_ternary(const struct tern_linear *from, struct tern_linear_rows *rows, int64_t i,
                                     struct tern_error *err) {
    uint8_t *codes = rows->codes + i * from->k;
    const uint8_t *zeros = rows->zeros + i * from->groups;
    for (int64_t g = 0; g < from->groups; g++) {
        const int64_t end = (g + 1) * from->group < from->k ? (g + 1) * from->group : from->k;
        for (int64_t k = g * from->group; k < end; k++) {
            const int code = codes[k] - zeros[g] + 1;
            if ((unsigned)code > 2)
                return tern_target_refuse(from, err,
                                          "weight n = %" PRId64 ", k = %" PRId64 " is %d times its scale: not ternary",
                                          rows->first + i, k, code - 1);
            codes[k] = (uint8_t)code;
        }
    }
    return TERN_OK;
}

/* Scales of a row in the groups of the output, each of which must lie in groups of one and the same scale. */
static enum tern_status regroup(const struct tern_target_layer *layer, const struct tern_linear_rows *rows, int64_t i,
                                float *out, struct tern_error *err) {
    const struct tern_linear *from = layer->from;
    const float *scales = rows->scales + i * from->groups;
    for (int64_t t = 0; t < layer->groups; t++) {
        const int64_t end = (t + 1) * layer->group < from->k ? (t + 1) * layer->group : from->k;
        const int64_t first = t * layer->group / from->group, last = (end - 1) / from->group;
        out[t] = scales[first];
        for (int64_t g = first + 1; g <= last; g++)
            if (!same_bits(scales[g], scales[first]))
                return tern_target_refuse(from, err,
                                          "row %" PRId64 " has scales %.9g and %.9g in groups %" PRId64 " and %" PRId64
                                          "; %s holds one for k = %" PRId64 " to %" PRId64,
                                          rows->first + i, (double)scales[first], (double)scales[g], first, g,
                                          layer->target->name, t * layer->group, end - 1);
    }
    return TERN_OK;
}

/* Decoded rows become rows of the target; `scales` has room for those of the output. */
static enum tern_status recode(const struct tern_target_layer *layer, struct tern_linear_rows *rows, float *scales,
                               struct tern_target_rows *out, struct tern_error *err) {
    const struct tern_linear *from = layer->from;
    enum tern_status status = TERN_OK;
    *out = (struct tern_target_rows){rows->first, rows->count, rows->codes, rows->zeros, rows->scales};
    if (layer->target->ternary) {
        out->scales = scales;
        for (int64_t i = 0; i < rows->count && !status; i++) {
            status = make_ternary(from, rows, i, err);
            if (!status)
                status = regroup(layer, rows, i, scales + i * layer->groups, err);
        }
    } else if (layer->shift) {
        for (int64_t i = 0; i < rows->count * from->k; i++)
            rows->codes[i] = (uint8_t)(rows->codes[i] + layer->shift);
        for (int64_t i = 0; i < rows->count * from->groups; i++)
            rows->zeros[i] = (uint8_t)(rows->zeros[i] + layer->shift);
    }
    return status;
}

enum tern_status tern_target_write(const struct tern_target_layer *layer, bool (*stopped)(void), struct tern_error *err) {
    const struct tern_linear *from = layer->from;
    struct tern_linear_rows rows;
    struct tern_target_rows out;
    int64_t block = tern_linear_block_rows(from) / 32 * 32;
    block = block < 32 ? 32 : block; /* zero points of 32 rows share words */
    block = block < from->n ? block : from->n;
    tern_linear_rows_alloc(from, block, &rows);
    float *scales = tern_alloc((size_t)(block * layer->groups) * sizeof *scales);
    enum tern_status status = TERN_OK;
    for (int64_t n = 0; n < from->n && !status; n += block) {
        tern_linear_decode(from, n, n + block < from->n ? n + block : from->n, &rows);
        status = recode(layer, &rows, scales, &out, err);
        if (!status)
            status = layer->target->write(layer, &out, err);
        if (!status && stopped && stopped())
            status = tern_error_set(err, TERN_FAILED, "interrupted: nothing is left of the output");
    }
    free(scales);
    tern_linear_rows_free(&rows);
    return status;
}
