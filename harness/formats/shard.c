/* Plans of tensor parallelism, and cuts. One table says along what each tensor of each family lies. */
#include "formats/shard.h"

#include "formats/linear_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What a dimension of a stored tensor counts. */
enum along { FIXED, ALONG_N, ALONG_K, ALONG_GROUPS };
/* Values that one stored element holds, beside plain numbers. */
enum { PACKED = -1, BLOCK = -2, FIELDS = -3 };

struct dimension {
    enum along along;
    int64_t values;
};
static const struct tensor_row {
    const struct tern_checkpoint_format *family;
    int part;
    struct dimension dims[2];
} tensors[] = {
    {&tern_checkpoint_gptq, 0, {{ALONG_K, PACKED}, {ALONG_N, 1}}},
    {&tern_checkpoint_gptq, 1, {{ALONG_GROUPS, 1}, {ALONG_N, PACKED}}},
    {&tern_checkpoint_gptq, 2, {{ALONG_GROUPS, 1}, {ALONG_N, 1}}},
    {&tern_checkpoint_awq, 0, {{ALONG_K, 1}, {ALONG_N, 8}}},
    {&tern_checkpoint_awq, 1, {{ALONG_GROUPS, 1}, {ALONG_N, 8}}},
    {&tern_checkpoint_awq, 2, {{ALONG_GROUPS, 1}, {ALONG_N, 1}}},
    {&tern_checkpoint_compressed_tensors, 0, {{ALONG_N, 1}, {ALONG_K, PACKED}}},
    {&tern_checkpoint_compressed_tensors, 1, {{ALONG_N, PACKED}, {ALONG_GROUPS, 1}}},
    {&tern_checkpoint_compressed_tensors, 2, {{ALONG_N, 1}, {ALONG_GROUPS, 1}}},
    {&tern_checkpoint_ternary, 0, {{ALONG_N, 1}, {ALONG_K, FIELDS}}},
    {&tern_checkpoint_ternary, 1, {{ALONG_N, 1}, {ALONG_GROUPS, 1}}},
    {&tern_checkpoint_gguf, 0, {{ALONG_N, 1}, {ALONG_K, BLOCK}}},
    {&tern_checkpoint_bitnet, 0, {{ALONG_N, 4}, {ALONG_K, 1}}}, /* strided: cut_strided */
    {&tern_checkpoint_bitnet, 1, {{FIXED, 1}, {FIXED, 1}}},
    {&tern_checkpoint_bitnet_gpu, 0, {{ALONG_N, 16}, {ALONG_K, 32}}},
    {&tern_checkpoint_bitnet_gpu, 1, {{FIXED, 1}, {FIXED, 1}}},
};
#define TENSOR_COUNT (sizeof tensors / sizeof *tensors)

/* `values` of the axis take `elements` of the tensor; no fewer can be cut off. */
struct unit {
    int64_t values, elements;
};

static bool is_of(const struct tern_linear *layer, const struct tern_checkpoint_format *family) {
    return strcmp(layer->family->name, family->name) == 0;
}

static struct unit unit_of(const struct tern_linear *layer, const struct dimension *d) {
    const bool run_on = layer->bits == 3 && (is_of(layer, &tern_checkpoint_gptq) || layer->dense);
    switch (d->values) {
    case PACKED: /* 3-bit codes that go on from word to word, or lie in planes, meet a border every 32 codes */
        return run_on ? (struct unit){32, 3} : (struct unit){32 / layer->bits, 1};
    case BLOCK:
        return (struct unit){layer->group, 1};
    case FIELDS: /* layout (iii) has a byte a weight */
        return (struct unit){layer->parts[0]->shape[1] == layer->k ? 1 : 4, 1};
    default:
        return (struct unit){d->values, 1};
    }
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t lowest_common(int64_t a, int64_t b) {
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* True if scales and zero points are cut with K: several groups, in their plain order. */
static bool groups_are_cut(const struct tern_linear *layer) {
    return layer->groups > 1 && !layer->act_order;
}

static int64_t unit_along(const struct tern_linear *layer, enum along along) {
    int64_t unit = along == ALONG_K && groups_are_cut(layer) ? layer->group : 1;
    for (size_t i = 0; i < TENSOR_COUNT; i++)
        for (int d = 0; d < 2 && is_of(layer, tensors[i].family) && layer->parts[tensors[i].part]; d++)
            if (tensors[i].dims[d].along == along)
                unit = lowest_common(unit, unit_of(layer, &tensors[i].dims[d]).values);
    return unit;
}

int64_t tern_shard_row_unit(const struct tern_linear *layer) {
    return unit_along(layer, ALONG_N);
}

// ---- plans ----------------------------------------------------------------------------------------------------------------

/* The rank's share of `length` values from `first` that come in units; the first ranks get one more where units do not divide. */
static enum tern_status share(const char *what, const char *kind, int64_t length, int64_t unit, int64_t ranks, int64_t rank,
                              struct tern_range *out, bool *uneven, struct tern_error *err) {
    const int64_t units = ceil_div(length, unit), least = units / ranks, more = units % ranks;
    if (least == 0)
        return tern_error_set(err, TERN_FAILED,
                              "%s = %" PRId64 " is %" PRId64 " unit%s of %" PRId64 " (%s), fewer than %" PRId64 " ranks",
                              what, length, units, units > 1 ? "s" : "", unit, kind, ranks);
    out->begin = (rank * least + (rank < more ? rank : more)) * unit;
    out->end = out->begin + (least + (rank < more)) * unit;
    out->end = out->end < length ? out->end : length;
    *uneven = *uneven || (ranks > 1 && (more || length % unit));
    return TERN_OK;
}

/* Whole heads for each rank; with fewer heads than ranks, one head for several ranks. */
static enum tern_status share_heads(int64_t rows, int64_t heads, int64_t ranks, int64_t rank, struct tern_range *out,
                                    bool *replicated, struct tern_error *err) {
    const int64_t head_rows = rows / heads;
    if (heads % ranks != 0 && ranks % heads != 0)
        return tern_error_set(err, TERN_FAILED,
                              "%" PRId64 " heads of %" PRId64 " rows do not divide among %" PRId64 " ranks", heads,
                              head_rows, ranks);
    const int64_t each = heads < ranks ? 1 : heads / ranks, first = heads < ranks ? rank / (ranks / heads) : rank * each;
    *out = (struct tern_range){first * head_rows, (first + each) * head_rows};
    *replicated = *replicated || heads < ranks;
    return TERN_OK;
}

static enum tern_status plan_columns(const struct tern_linear *layer, const struct tern_fusion *fusion, int64_t ranks,
                                     int64_t rank, struct tern_shard *shard, struct tern_error *err) {
    const int64_t unit = unit_along(layer, ALONG_N);
    int64_t first = 0;
    if (ranks > 1 && fusion->unknown[0])
        return tern_error_set(err, TERN_FAILED, "%s", fusion->unknown);
    shard->parts = ranks > 1 ? fusion->count : 1;
    for (int p = 0; p < shard->parts; p++) {
        const int64_t rows = ranks > 1 ? fusion->parts[p].rows : layer->n, heads = ranks > 1 ? fusion->parts[p].heads : 0;
        struct tern_range *range = &shard->rows[p];
        enum tern_status status =
            heads ? share_heads(rows, heads, ranks, rank, range, &shard->replicated, err)
                  : share("N", "rows packed together", rows, unit, ranks, rank, range, &shard->uneven, err);
        if (status)
            return status;
        range->begin += first;
        range->end += first;
        first += rows;
        if (range->begin % unit != 0 || (range->end % unit != 0 && range->end != layer->n))
            return tern_error_set(err, TERN_FAILED,
                                  "rows %" PRId64 " to %" PRId64 " of rank %" PRId64 " cut a unit of %" PRId64
                                  " packed rows",
                                  range->begin, range->end, rank, unit);
    }
    return TERN_OK;
}

enum tern_status tern_shard_plan(const struct tern_linear *layer, const struct tern_fusion *fusion,
                                 enum tern_shard_axis axis, int64_t ranks, int64_t rank, struct tern_shard *shard,
                                 struct tern_error *err) {
    *shard = (struct tern_shard){.rows = {{0, layer->n}}, .parts = 1, .k = {0, layer->k}};
    if (axis == TERN_SHARD_COLUMNS)
        return plan_columns(layer, fusion, ranks, rank, shard, err);
    const int64_t unit = unit_along(layer, ALONG_K);
    const bool group = groups_are_cut(layer) && unit == layer->group;
    return share("K",
                 group                   ? "groups of scales"
                 : groups_are_cut(layer) ? "groups and packed words"
                                         : "k packed together",
                 layer->k, unit, ranks, rank, &shard->k, &shard->uneven, err);
}

// ---- cuts -----------------------------------------------------------------------------------------------------------------

struct ranges {
    struct tern_range items[TERN_FUSION_PARTS];
    int count;
};

/* Stored elements of the values that a cut takes along one dimension; returns how many there are in the whole tensor. */
static int64_t elements_of(const struct tern_linear *layer, const struct dimension *d, const struct ranges *rows,
                           struct tern_range k, struct tern_range groups, struct ranges *out) {
    const struct unit unit = unit_of(layer, d);
    const int64_t whole = d->along == ALONG_N        ? layer->n
                          : d->along == ALONG_K      ? layer->k
                          : d->along == ALONG_GROUPS ? layer->groups
                                                     : 1;
    *out = d->along == ALONG_N ? *rows : (struct ranges){{{0, 1}}, 1};
    if (d->along == ALONG_K)
        out->items[0] = k;
    if (d->along == ALONG_GROUPS)
        out->items[0] = groups;
    for (int i = 0; i < out->count; i++) {
        out->items[i].begin = out->items[i].begin * unit.elements / unit.values;
        out->items[i].end = ceil_div(out->items[i].end * unit.elements, unit.values);
    }
    return ceil_div(whole * unit.elements, unit.values);
}

static int64_t total(const struct ranges *r) {
    int64_t sum = 0;
    for (int i = 0; i < r->count; i++)
        sum += r->items[i].end - r->items[i].begin;
    return sum;
}

/* Makes tensor `slot` of the cut, of `bytes` in memory, like `from`. */
static uint8_t *new_tensor(struct tern_cut *cut, int slot, const struct tern_tensor *from, int64_t bytes) {
    uint8_t *data = tern_alloc((size_t)bytes + 1);
    cut->memory[slot] = (struct tern_mapping){.path = from->file->path, .data = data, .bytes = bytes};
    cut->tensors[slot] = *from;
    cut->tensors[slot].file = &cut->memory[slot];
    cut->tensors[slot].offset = 0;
    cut->tensors[slot].bytes = bytes;
    return data;
}

static void cut_tensor(const struct tern_linear *layer, const struct tensor_row *row, const struct ranges *rows,
                       struct tern_range k, struct tern_range groups, struct tern_cut *cut) {
    const struct tern_tensor *from = layer->parts[row->part];
    struct ranges outer, inner;
    const int64_t outer_all = elements_of(layer, &row->dims[0], rows, k, groups, &outer);
    const int64_t inner_all = elements_of(layer, &row->dims[1], rows, k, groups, &inner);
    const int64_t element = from->bytes / (outer_all * inner_all);
    const uint8_t *source = tern_tensor_data(from);
    uint8_t *to = new_tensor(cut, row->part, from, total(&outer) * total(&inner) * element);
    for (int o = 0; o < outer.count; o++)
        for (int64_t i = outer.items[o].begin; i < outer.items[o].end; i++)
            for (int in = 0; in < inner.count; in++) {
                const int64_t bytes = (inner.items[in].end - inner.items[in].begin) * element;
                memcpy(to, source + (i * inner_all + inner.items[in].begin) * element, (size_t)bytes);
                to += bytes;
            }
    cut->tensors[row->part].shape[0] = total(&outer);
    cut->tensors[row->part].shape[1] = total(&inner) * from->shape[from->dims - 1] / (inner_all ? inner_all : 1);
    cut->layer.parts[row->part] = &cut->tensors[row->part];
}

/* Rows of a byte row lie N/4 apart: a cut has its own N, so its rows are packed anew, field by field. */
static void cut_strided(const struct tern_linear *layer, const struct ranges *rows, struct tern_range k,
                        struct tern_cut *cut) {
    const uint8_t *source = tern_tensor_data(layer->parts[0]);
    const int64_t width = k.end - k.begin, stride = layer->n / 4, own = total(rows) / 4;
    uint8_t *to = new_tensor(cut, 0, layer->parts[0], own * width);
    int64_t row = 0;
    memset(to, 0, (size_t)(own * width));
    for (int r = 0; r < rows->count; r++)
        for (int64_t n = rows->items[r].begin; n < rows->items[r].end; n++, row++) {
            const uint8_t *from = source + n % stride * layer->k + k.begin;
            uint8_t *out = to + row % own * width;
            const int shift = (int)(2 * (n / stride)), at = (int)(2 * (row / own));
            for (int64_t i = 0; i < width; i++)
                out[i] |= (uint8_t)((from[i] >> shift & 3) << at);
        }
    cut->tensors[0].shape[0] = own;
    cut->tensors[0].shape[1] = width;
    cut->layer.parts[0] = &cut->tensors[0];
}

/* Of an act-order layer the numbers stay those of the whole layer, whose scales every rank keeps; else they begin at the cut's. */
static void cut_index(const struct tern_linear *layer, struct tern_range k, int64_t first_group, struct tern_cut *cut) {
    const int64_t count = k.end - k.begin;
    uint8_t *to = new_tensor(cut, TERN_LINEAR_PARTS, layer->g_idx, 4 * count);
    for (int64_t i = 0; i < count; i++) {
        uint32_t group = tern_tensor_word(layer->g_idx, k.begin + i) - (uint32_t)first_group;
        memcpy(to + 4 * i, &group, sizeof group);
    }
    cut->tensors[TERN_LINEAR_PARTS].shape[0] = count;
    cut->layer.g_idx = &cut->tensors[TERN_LINEAR_PARTS];
}

/* Sizes of the cut: a group of several keeps its size, the only group of a layer is as long as the cut. */
static struct tern_range cut_groups(const struct tern_linear *layer, struct tern_range k, struct tern_linear *cut) {
    cut->k = k.end - k.begin;
    if (!groups_are_cut(layer)) {
        cut->group = layer->groups > 1 ? layer->group : cut->k;
        return (struct tern_range){0, layer->groups};
    }
    const struct tern_range groups = {k.begin / layer->group, ceil_div(k.end, layer->group)};
    cut->groups = groups.end - groups.begin;
    return groups;
}

/* Rows of the fused parts (BitNet gpu) that the cut has of each. */
static void cut_fused(const struct tern_linear *layer, const struct ranges *rows, struct tern_linear *cut) {
    int64_t first = 0;
    for (int p = 0; p < TERN_LINEAR_FUSED; first += layer->fused_rows[p++]) {
        cut->fused_rows[p] = 0;
        for (int r = 0; r < rows->count; r++) {
            const int64_t end = first + layer->fused_rows[p];
            const int64_t from = rows->items[r].begin > first ? rows->items[r].begin : first;
            const int64_t to = rows->items[r].end < end ? rows->items[r].end : end;
            cut->fused_rows[p] += to > from ? to - from : 0;
        }
    }
}

void tern_shard_cut(const struct tern_linear *layer, const struct tern_range *rows, int parts, struct tern_range k,
                    struct tern_cut *cut) {
    struct ranges list = {.count = parts};
    memcpy(list.items, rows, (size_t)parts * sizeof *rows);
    memset(cut, 0, sizeof *cut);
    cut->layer = *layer;
    cut->layer.warnings = (struct tern_strs){0};
    cut->layer.n = total(&list);
    const struct tern_range groups = cut_groups(layer, k, &cut->layer);
    cut_fused(layer, &list, &cut->layer);
    for (size_t i = 0; i < TENSOR_COUNT; i++)
        if (is_of(layer, tensors[i].family) && layer->parts[tensors[i].part]) {
            if (is_of(layer, &tern_checkpoint_bitnet) && tensors[i].part == 0)
                cut_strided(layer, &list, k, cut);
            else
                cut_tensor(layer, &tensors[i], &list, k, groups, cut);
        }
    if (layer->g_idx)
        cut_index(layer, k, groups.begin, cut);
}

void tern_cut_free(struct tern_cut *cut) {
    for (int i = 0; i <= TERN_LINEAR_PARTS; i++)
        free((void *)cut->memory[i].data);
    memset(cut, 0, sizeof *cut);
}
