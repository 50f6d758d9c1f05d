/* compressed-tensors, pack-quantized: weight_packed I32 [N, words of K codes], weight_scale [N, G], weight_shape [2] = {N, K} in I32
 * or I64, weight_zero_point I32 [words of N codes, G] packed along N, weight_g_idx I32 [K] (-1: unset). A word holds floor(32/bits)
 * codes from bit 0; of 3-bit codes that is 10, with two bits unused, or, from newer writers, they run on across words (dense).
 * Codes and zero points are stored plus 2^(bits-1), which makes them the unsigned ones of the canonical form. */
#include "formats/linear_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PACKED, ZEROS, SCALES, SHAPE };

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* weight_shape is written as I64 by some and as I32 by others. */
static enum tern_status read_shape(struct tern_linear *layer, struct tern_error *err) {
    const struct tern_tensor *shape = layer->parts[SHAPE], *packed = layer->parts[PACKED];
    int64_t sizes[2];
    bool wide = shape && strcmp(shape->dtype, "I64") == 0;
    enum tern_status status = tern_linear_expect(shape, packed, ".weight_shape", wide ? "I64" : "I32", 2, -1, err);
    if (status)
        return status;
    if (wide)
        memcpy(sizes, tern_tensor_data(shape), sizeof sizes);
    for (int i = 0; !wide && i < 2; i++)
        sizes[i] = (int32_t)tern_tensor_word(shape, i);
    if (sizes[0] != packed->shape[0] || sizes[1] < 1 || sizes[1] > INT32_MAX)
        return tern_tensor_error(shape, err, "is {%" PRId64 ", %" PRId64 "} beside %" PRId64 " packed rows", sizes[0],
                                 sizes[1], packed->shape[0]);
    layer->n = sizes[0];
    layer->k = sizes[1];
    return TERN_OK;
}

/* Words that `count` codes take. */
static int64_t packed_words(int bits, bool dense, int64_t count) {
    return dense ? ceil_div(count * bits, 32) : ceil_div(count, 32 / bits);
}

/* Declared bits must give the width; undeclared ones must be the only ones that do. Of 3 bits the width must also tell which of the
 * two packings it is: it does for every K that is a multiple of 32. */
static enum tern_status find_bits(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    static const struct {
        int bits;
        bool dense;
    } packings[] = {{2, false}, {3, true}, {3, false}, {4, false}, {8, false}};
    const struct tern_tensor *packed = layer->parts[PACKED];
    int fitting = 0;
    for (size_t i = 0; i < sizeof packings / sizeof *packings; i++) {
        const int bits = packings[i].bits;
        if ((s->bits && s->bits != bits) || packed_words(bits, packings[i].dense, layer->k) != packed->shape[1])
            continue;
        fitting++;
        layer->bits = bits;
        layer->dense = packings[i].dense;
    }
    if (fitting == 1)
        return TERN_OK;
    if (s->bits && !fitting)
        return tern_tensor_error(packed, err,
                                 "%" PRId64 " words a row; K = %" PRId64 " of %" PRId64 " bits does not take that",
                                 packed->shape[1], layer->k, s->bits);
    return tern_tensor_error(packed, err, "%" PRId64 " words a row for K = %" PRId64 ": %s", packed->shape[1], layer->k,
                             !fitting  ? "no number of bits fits"
                             : s->bits ? "3-bit codes with unused bits or without, and nothing tells which"
                                       : "more than one packing fits, and no bits are declared");
}

static enum tern_status find_group(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    const struct tern_tensor *scales = layer->parts[SCALES];
    if (!scales || scales->dims != 2 || scales->shape[1] < 1)
        return tern_linear_expect(scales, layer->parts[PACKED], ".weight_scale", NULL, layer->n, 1, err);
    layer->groups = scales->shape[1];
    layer->group = s->group == -1 || (!s->group && layer->groups == 1) ? layer->k : s->group;
    if (!layer->group && layer->k % layer->groups == 0)
        layer->group = layer->k / layer->groups;
    if (layer->group < 1 || layer->groups != ceil_div(layer->k, layer->group))
        return tern_tensor_error(scales, err,
                                 "%" PRId64 " groups; K = %" PRId64 " in groups of %" PRId64 " takes another number",
                                 layer->groups, layer->k, layer->group);
    return tern_linear_expect(scales, layer->parts[PACKED], ".weight_scale", NULL, layer->n, layer->groups, err);
}

/* An index of nothing but -1 was allocated and never set: there is no act-order. */
static enum tern_status find_order(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    bool set = false;
    if (layer->g_idx && strcmp(layer->g_idx->dtype, "I32") == 0)
        for (int64_t k = 0; k < layer->g_idx->bytes / 4; k++)
            set = set || tern_tensor_word(layer->g_idx, k) != UINT32_MAX;
    if (layer->g_idx && !set)
        layer->g_idx = NULL;
    if (!layer->g_idx && s->act_order == TERN_DECLARED_YES && layer->groups > 1)
        return tern_tensor_error(layer->parts[PACKED], err, "actorder \"group\" is declared, and there is no weight_g_idx");
    if (!layer->g_idx)
        return TERN_OK;
    enum tern_status status = tern_linear_check_g_idx(layer, err);
    for (int64_t k = 0; !status && k < layer->k; k++)
        layer->act_order = layer->act_order || tern_tensor_word(layer->g_idx, k) != k / layer->group;
    if (layer->act_order && s->act_order == TERN_DECLARED_NO)
        tern_linear_warn(layer, "no actorder \"group\" is declared, but weight_g_idx is not k / group");
    return status;
}

/* Code `index` of a packed run whose words start at `start` and lie `stride` apart. */
static uint8_t code_at(const struct tern_linear *layer, const struct tern_tensor *tensor, int64_t start, int64_t stride,
                       int64_t index) {
    const int bits = layer->bits, in_word = 32 / bits;
    const int64_t bit = layer->dense ? index * bits : index / in_word * 32 + index % in_word * bits;
    const int shift = (int)(bit % 32);
    uint32_t code = tern_tensor_word(tensor, start + bit / 32 * stride) >> shift;
    if (shift + bits > 32)
        code |= tern_tensor_word(tensor, start + (bit / 32 + 1) * stride) << (32 - shift);
    return (uint8_t)(code & ((1U << bits) - 1));
}

/* Zero point of row n in group g, as an unsigned code. */
static uint8_t zero_of(const struct tern_linear *layer, int64_t n, int64_t g) {
    const struct tern_tensor *zeros = layer->parts[ZEROS];
    return zeros ? code_at(layer, zeros, g, layer->groups, n) : (uint8_t)layer->zero;
}

/* Without a tensor of zero points a layer is symmetric, unless it says that it is not. */
static enum tern_status find_zeros(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    layer->zero = 1 << (layer->bits - 1);
    layer->sym = true;
    if (!layer->parts[ZEROS] && s->sym != TERN_DECLARED_NO)
        return TERN_OK;
    enum tern_status status = tern_linear_expect(layer->parts[ZEROS], layer->parts[PACKED], ".weight_zero_point", "I32",
                                                 packed_words(layer->bits, layer->dense, layer->n), layer->groups, err);
    for (int64_t n = 0; !status && n < layer->n; n++)
        for (int64_t g = 0; g < layer->groups; g++)
            layer->sym = layer->sym && zero_of(layer, n, g) == layer->zero;
    if (!status && !layer->sym && s->sym == TERN_DECLARED_YES)
        status = tern_tensor_error(layer->parts[ZEROS], err, "symmetric=true is declared, but zero points are not all 0");
    return status;
}

static enum tern_status check(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    enum tern_status status = tern_linear_expect_matrix(layer->parts[PACKED], "I32", err);
    if (!status && s->format[0] && strcmp(s->format, "pack-quantized") != 0)
        status = tern_tensor_error(layer->parts[PACKED], err, "format '%s' is declared, expected pack-quantized", s->format);
    if (!status)
        status = read_shape(layer, err);
    if (!status)
        status = find_bits(layer, s, err);
    if (!status)
        status = find_group(layer, s, err);
    if (!status)
        status = find_order(layer, s, err);
    if (!status)
        status = find_zeros(layer, s, err);
    if (!status)
        tern_linear_checked(layer, layer->parts[SCALES], s);
    return status;
}

static bool find(const struct tern_checkpoint *checkpoint, const struct tern_tensor *tensor, struct tern_linear *layer,
                 enum tern_status *status, struct tern_error *err) {
    struct tern_quant_settings settings;
    if (!tern_linear_module(tensor, ".weight_packed", &layer->name))
        return false;
    layer->checkpoint_format = "pack-quantized";
    tern_str_copy(layer->why, sizeof layer->why, "weight_packed, weight_scale, weight_shape");
    layer->parts[PACKED] = tensor;
    layer->parts[ZEROS] = tern_linear_sibling(checkpoint, layer->name, ".weight_zero_point");
    layer->parts[SCALES] = tern_linear_sibling(checkpoint, layer->name, ".weight_scale");
    layer->parts[SHAPE] = tern_linear_sibling(checkpoint, layer->name, ".weight_shape");
    layer->g_idx = tern_linear_sibling(checkpoint, layer->name, ".weight_g_idx");
    *status = tern_quant_config_module(checkpoint->config, layer->name, &settings, err);
    if (!*status)
        *status = check(layer, &settings, err);
    return true;
}

/* Codes of row n: 32 at a time from `bits` words, but for 3-bit codes with unused bits between them, and for the last ones. */
TERN_VECTOR static void decode_row(const struct tern_linear *layer, int64_t n, uint8_t *codes) {
    const struct tern_tensor *packed = layer->parts[PACKED];
    const bool gaps = layer->bits == 3 && !layer->dense;
    const int64_t first = n * packed->shape[1], whole = gaps ? 0 : layer->k / 32;
    for (int64_t block = 0; block < whole; block++) {
        uint32_t words[8];
        memcpy(words, tern_tensor_data(packed) + 4 * (first + block * layer->bits), 4 * (size_t)layer->bits);
        tern_unpack32(words, layer->bits, false, codes + 32 * block);
    }
    for (int64_t k = 32 * whole; k < layer->k; k++)
        codes[k] = code_at(layer, packed, first, 1, k);
}

static void decode(const struct tern_linear *layer, struct tern_linear_rows *rows) {
    for (int64_t i = 0; i < rows->count; i++) {
        const int64_t n = rows->first + i;
        decode_row(layer, n, rows->codes + i * layer->k);
        for (int64_t g = 0; g < layer->groups; g++)
            rows->zeros[i * layer->groups + g] = zero_of(layer, n, g);
    }
    tern_tensor_scales(layer->parts[SCALES], rows->first * layer->groups, rows->count * layer->groups, rows->scales);
}

const struct tern_checkpoint_format tern_checkpoint_compressed_tensors = {"compressed-tensors", find, decode, false};
