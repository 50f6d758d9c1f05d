/* Layers of a model: fusion by the names that checkpoints use, and the weights of a fused layer. */
#include "formats/model.h"

#include "core/half.h"
#include "core/hash.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Last word of a module's name, the layer that it belongs to, and its place there; alone: it is the whole layer. */
static const struct role {
    const char *word, *layer;
    int part, parts;
} roles[] = {
    {"q_proj", "qkv", 0, 3},
    {"k_proj", "qkv", 1, 3},
    {"v_proj", "qkv", 2, 3},
    {"attn_q", "qkv", 0, 3},
    {"attn_k", "qkv", 1, 3},
    {"attn_v", "qkv", 2, 3},
    {"wq", "qkv", 0, 3},
    {"wk", "qkv", 1, 3},
    {"wv", "qkv", 2, 3},
    {"qkv_proj", "qkv", 0, 1},
    {"wqkv", "qkv", 0, 1},
    {"W_pack", "qkv", 0, 1},
    {"attn_qkv", "qkv", 0, 1},
    {"query_key_value", "qkv", 0, 1},
    {"o_proj", "o", 0, 1},
    {"attn_output", "o", 0, 1},
    {"wo", "o", 0, 1},
    {"gate_proj", "gate_up", 0, 2},
    {"up_proj", "gate_up", 1, 2},
    {"ffn_gate", "gate_up", 0, 2},
    {"ffn_up", "gate_up", 1, 2},
    {"w1", "gate_up", 0, 2},
    {"w3", "gate_up", 1, 2},
    {"gate_up_proj", "gate_up", 0, 1},
    {"w13", "gate_up", 0, 1},
    {"down_proj", "down", 0, 1},
    {"ffn_down", "down", 0, 1},
    {"w2", "down", 0, 1},
};
enum { ROLE_COUNT = sizeof roles / sizeof *roles };
static const char *const order[] = {"qkv", "o", "gate_up", "down"};

void tern_linear_format_name(const struct tern_linear *layer, char *out, size_t size) {
    char group[32] = "channel";
    if (layer->groups > 1)
        tern_str_format(group, sizeof group, "g%" PRId64, layer->group);
    if (layer->ternary)
        tern_str_format(out, size, "ternary-%s", layer->one_scale ? "tensor" : group);
    else
        tern_str_format(out, size, "gptq%d-%s%s%s", layer->bits, group, layer->sym ? "" : "-asym",
                        layer->act_order ? "-actorder" : "");
}

/* One module on its way into a layer. */
struct member {
    const struct tern_linear *linear;
    char *parent; /* the name without its last word */
    const char *word;
    const struct role *role; /* NULL: a layer of its own */
    size_t at;               /* place in the checkpoint */
};

static int by_layer(const void *a, const void *b) {
    const struct member *x = a, *y = b;
    int result = strcmp(x->parent, y->parent);
    if (result == 0)
        result = strcmp(x->role ? x->role->layer : x->word, y->role ? y->role->layer : y->word);
    if (result == 0 && x->role && y->role)
        result = x->role->part - y->role->part;
    return result ? result : (x->at > y->at) - (x->at < y->at);
}

static void split(const struct tern_linear *linear, size_t at, struct member *m) {
    const char *dot = strrchr(linear->name, '.');
    *m = (struct member){.linear = linear, .parent = tern_strdup(linear->name), .at = at};
    m->word = dot ? dot + 1 : linear->name;
    m->parent[dot ? dot - linear->name : 0] = '\0';
    for (size_t i = 0; i < ROLE_COUNT; i++)
        if (strcmp(roles[i].word, m->word) == 0)
            m->role = &roles[i];
}

/* The members [begin, end) that make one layer: all parts of it, each once. */
static bool complete(const struct member *members, size_t begin, size_t end) {
    const struct role *role = members[begin].role;
    if (!role || end - begin != (size_t)role->parts)
        return false;
    for (size_t i = begin; i < end; i++)
        if (members[i].role->part != (int)(i - begin) || members[i].role->parts != role->parts)
            return false;
    return true;
}

/* Parts that are multiplied at once must agree in all but N. One scale each is then a scale for each row. */
static enum tern_status fuse(const struct member *members, size_t count, struct tern_model_layer *layer,
                             struct tern_error *err) {
    const struct tern_linear *first = members[0].linear;
    char format[sizeof layer->format];
    *layer = (struct tern_model_layer){.k = first->k, .count = 1, .part_count = count};
    tern_str_copy(layer->name, sizeof layer->name, members[0].role ? members[0].role->layer : members[0].word);
    tern_linear_format_name(first, layer->format, sizeof layer->format);
    for (size_t i = 0; i < count; i++) {
        const struct tern_linear *part = members[i].linear;
        tern_linear_format_name(part, format, sizeof format);
        if (part->k != first->k || strcmp(format, layer->format) != 0)
            return tern_error_set(err, TERN_FAILED,
                                  "%s: layers '%s' and '%s' are multiplied at once, but one is %s with K = %" PRId64
                                  ", the other %s with K = %" PRId64,
                                  part->parts[0]->file->path, first->name, part->name, layer->format, first->k, format,
                                  part->k);
        layer->parts[i] = part;
        layer->n += part->n;
    }
    if (count > 1 && strcmp(layer->format, "ternary-tensor") == 0)
        tern_str_copy(layer->format, sizeof layer->format, "ternary-channel");
    return TERN_OK;
}

/* Counts the layer, or adds it under a name that no other has. */
static void add(struct tern_model *model, const struct tern_model_layer *layer) {
    int same_name = 0;
    char base[sizeof layer->name];
    tern_str_copy(base, sizeof base, layer->name);
    for (size_t i = 0; i < model->count; i++) {
        struct tern_model_layer *have = &model->layers[i];
        const size_t length = strlen(base);
        if (strncmp(have->name, base, length) != 0 || (have->name[length] && have->name[length] != '-'))
            continue;
        same_name++;
        if (have->n == layer->n && have->k == layer->k && strcmp(have->format, layer->format) == 0) {
            have->count++;
            return;
        }
    }
    model->layers = tern_realloc(model->layers, (model->count + 1) * sizeof *model->layers);
    struct tern_model_layer *added = &model->layers[model->count++];
    *added = *layer;
    if (same_name)
        tern_str_format(added->name, sizeof added->name, "%.26s-%d", base, same_name + 1);
}

static size_t rank(const struct tern_model_layer *layer) {
    size_t i = 0;
    while (i < sizeof order / sizeof *order && strncmp(layer->name, order[i], strlen(order[i])) != 0)
        i++;
    return i;
}

static int by_rank(const void *a, const void *b) {
    const size_t x = rank(a), y = rank(b);
    return x != y ? (x < y ? -1 : 1)
                  : strcmp(((const struct tern_model_layer *)a)->name, ((const struct tern_model_layer *)b)->name);
}

static enum tern_status group(struct member *members, size_t count, struct tern_model *model, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    struct tern_model_layer layer;
    for (size_t begin = 0, end; begin < count && !status; begin = end) {
        const struct member *m = &members[begin];
        for (end = begin + 1; end < count && m->role && members[end].role && strcmp(members[end].parent, m->parent) == 0 &&
                              strcmp(members[end].role->layer, m->role->layer) == 0;)
            end++;
        if (complete(members, begin, end)) {
            status = fuse(m, end - begin, &layer, err);
            if (!status)
                add(model, &layer);
            continue;
        }
        for (size_t i = begin; i < end && !status; i++) {
            struct member alone = members[i]; /* under its own name: the rest of the layer is not here */
            alone.role = NULL;
            status = fuse(&alone, 1, &layer, err);
            if (!status)
                add(model, &layer);
        }
    }
    return status;
}

static enum tern_status find_layers(const struct tern_linears *layers, struct tern_model *model, struct tern_error *err) {
    struct member *members = tern_alloc((layers->count + 1) * sizeof *members);
    enum tern_status status = TERN_OK;
    size_t count = 0;
    for (size_t i = 0; i < layers->count && !status; i++)
        if (layers->items[i].error[0])
            status = tern_error_set(err, TERN_FAILED, "%s", layers->items[i].error);
        else
            split(&layers->items[i], i, &members[count++]);
    qsort(members, count, sizeof *members, by_layer);
    if (!status)
        status = group(members, count, model, err);
    for (size_t i = 0; i < count; i++)
        free(members[i].parent);
    free(members);
    if (!status)
        qsort(model->layers, model->count, sizeof *model->layers, by_rank);
    return status;
}

enum tern_status tern_model_find(const struct tern_checkpoint *checkpoint, const struct tern_linears *layers,
                                 bool trust_tensors, struct tern_model *model, struct tern_error *err) {
    *model = (struct tern_model){0};
    if (layers->count == 0)
        return tern_error_set(err, TERN_FAILED, "%s: none of its %zu tensors is a quantised layer that can be read",
                              checkpoint->path, checkpoint->tensor_count);
    enum tern_status status = find_layers(layers, model, err);
    return status ? status : tern_model_check_config(checkpoint->path, trust_tensors, model, err);
}

void tern_model_free(struct tern_model *model) {
    free(model->layers);
    tern_strs_free(&model->notes);
    *model = (struct tern_model){0};
}

enum tern_status tern_model_open(const char *path, bool trust_tensors, struct tern_model_file *file,
                                 struct tern_error *err) {
    *file = (struct tern_model_file){0};
    enum tern_status status = tern_checkpoint_open(path, &file->checkpoint, err);
    if (status)
        return status;
    tern_linears_find(&file->checkpoint, &file->layers);
    return tern_model_find(&file->checkpoint, &file->layers, trust_tensors, &file->model, err);
}

void tern_model_close(struct tern_model_file *file) {
    tern_model_free(&file->model);
    tern_linears_free(&file->layers);
    tern_checkpoint_close(&file->checkpoint);
}

const struct tern_model_layer *tern_model_layer(const struct tern_model *model, const char *name) {
    for (size_t i = 0; i < model->count; i++)
        if (strcmp(model->layers[i].name, name) == 0)
            return &model->layers[i];
    return NULL;
}

/* ---- weights ---------------------------------------------------------------------------------------------------------------- */

/* One decoded row of a part becomes row `to` of the weights. */
static enum tern_status put_row(const struct tern_linear *part, const struct tern_linear_rows *rows, int64_t i,
                                struct tern_weights *w, int64_t to, struct tern_error *err) {
    const int limit = w->format.family == TERN_FAMILY_TERNARY ? 3 : 1 << w->format.bits;
    memcpy(w->codes + to * w->k, rows->codes + i * w->k, (size_t)w->k);
    for (int64_t k = 0; k < w->k; k++)
        if (rows->codes[i * w->k + k] >= limit)
            return tern_error_set(err, TERN_FAILED, "%s: layer '%s': code %d at n = %" PRId64 ", k = %" PRId64 " is illegal",
                                  part->parts[0]->file->path, part->name, rows->codes[i * w->k + k], rows->first + i, k);
    for (int64_t g = 0; g < w->groups; g++) {
        const float scale = rows->scales[i * w->groups + g];
        const uint16_t half = tern_half_from_double((double)scale);
        if (!isfinite(scale) || !(tern_half_to_float(half) == scale))
            return tern_error_set(err, TERN_FAILED,
                                  "%s: layer '%s': scale %.9g of row %" PRId64 ", group %" PRId64
                                  " (%s) is no finite binary16, which kernels read",
                                  part->parts[0]->file->path, part->name, (double)scale, rows->first + i, g,
                                  part->scale_dtype);
        w->scales[g * w->n + to] = half;
        if (w->zeros)
            w->zeros[g * w->n + to] = rows->zeros[i * w->groups + g];
    }
    return TERN_OK;
}

/* Rows [begin, end) of a part become rows `to` and on. */
static enum tern_status put_rows(const struct tern_linear *part, int64_t begin, int64_t end, struct tern_weights *w,
                                 int64_t to, struct tern_error *err) {
    const int64_t block = tern_linear_block_rows(part);
    struct tern_linear_rows rows;
    enum tern_status status = TERN_OK;
    tern_linear_rows_alloc(part, block, &rows);
    for (int64_t n = begin; n < end && !status; n += block) {
        tern_linear_decode(part, n, n + block < end ? n + block : end, &rows);
        for (int64_t i = 0; i < rows.count && !status; i++)
            status = put_row(part, &rows, i, w, to + n - begin + i, err);
    }
    tern_linear_rows_free(&rows);
    return status;
}

enum tern_status tern_model_weights(const struct tern_model_layer *layer, const struct tern_format *format, int64_t first,
                                    int64_t rows, struct tern_weights *w, struct tern_error *err) {
    *w = (struct tern_weights){0};
    /* Builds for one scale of W are builds for one a row. */
    const bool repeated = strcmp(layer->format, "ternary-tensor") == 0 && strcmp(format->name, "ternary-channel") == 0;
    if (!repeated && strcmp(layer->format, format->name) != 0)
        return tern_error_set(err, TERN_FAILED, "%s: layer '%s' is %s, not %s", layer->parts[0]->parts[0]->file->path,
                              layer->parts[0]->name, layer->format, format->name);
    enum tern_status status = tern_format_check_shape(format, rows, layer->k, true, err);
    if (status)
        return status;
    w->format = *format;
    w->n = rows;
    w->k = layer->k;
    w->groups = tern_format_groups(format, layer->k);
    const size_t entries = (size_t)w->groups * (size_t)rows;
    w->codes = tern_alloc((size_t)rows * (size_t)w->k);
    w->scales = tern_alloc(entries * sizeof *w->scales);
    w->zeros = format->sym ? NULL : tern_alloc(entries);
    int64_t at = 0; /* first row of the part in the layer */
    for (size_t p = 0; p < layer->part_count && !status; p++) {
        const struct tern_linear *part = layer->parts[p];
        const int64_t begin = first > at ? first - at : 0, stop = first + rows - at, end = stop < part->n ? stop : part->n;
        if (begin < end)
            status = put_rows(part, begin, end, w, at + begin - first, err);
        at += part->n;
    }
    if (!status && first + rows > at)
        status = tern_error_set(err, TERN_INTERNAL, "layer '%s' has %" PRId64 " rows", layer->name, at);
    if (status)
        tern_weights_free(w);
    return status;
}

static void hash_tensor(struct tern_hash_state *state, const struct tern_tensor *t) {
    char shape[200];
    tern_hash_add_text(state, t->name);
    tern_hash_add_text(state, t->dtype);
    tern_hash_add_text(state, tern_tensor_shape_text(t, shape, sizeof shape));
    tern_hash_add(state, tern_tensor_data(t), (size_t)t->bytes);
}

void tern_model_layer_digest(const struct tern_model_layer *layer, char out[33]) {
    struct tern_hash_state *state = tern_hash_new();
    tern_hash_add_text(state, layer->format);
    for (size_t p = 0; p < layer->part_count; p++) {
        tern_hash_add_text(state, layer->parts[p]->checkpoint_format);
        for (int i = 0; i < TERN_LINEAR_PARTS; i++)
            if (layer->parts[p]->parts[i])
                hash_tensor(state, layer->parts[p]->parts[i]);
    }
    tern_hash_end(state, out);
}
