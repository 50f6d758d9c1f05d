/* What config.json says of a model's sizes, held against the layers that were found. Judges only what the file declares in the keys
 * that all Llama-like models share; a model with other parts (experts, latent attention) is not judged where they replace these. */
#include "formats/model.h"

#include "core/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct sizes {
    int64_t hidden, layers, heads, kv_heads, head_dim, intermediate; /* 0: not declared */
};

/* A size: 1 to 2^31 - 1; anything else is an error. Absent or null is 0, and so is a list with one for every block. */
static enum tern_status read_size(const char *path, const json_t *root, const char *key, int64_t *size,
                                  struct tern_error *err) {
    const json_t *value = json_object_get(root, key);
    *size = json_integer_value(value);
    if (!value || json_is_null(value) || json_is_array(value) ||
        (json_is_integer(value) && *size >= 1 && *size <= INT32_MAX))
        return TERN_OK;
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    tern_error_set(err, TERN_FAILED, "%s: '%s' of %.60s is no size", path, key, text ? text : "?");
    free(text);
    return TERN_FAILED;
}

static enum tern_status read_sizes(const char *path, const json_t *root, struct sizes *s, struct tern_error *err) {
    const struct {
        const char *key;
        int64_t *size;
    } keys[] = {{"hidden_size", &s->hidden},        {"num_hidden_layers", &s->layers},
                {"num_attention_heads", &s->heads}, {"num_key_value_heads", &s->kv_heads},
                {"head_dim", &s->head_dim},         {"intermediate_size", &s->intermediate}};
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !status; i++)
        status = read_size(path, root, keys[i].key, keys[i].size, err);
    if (!s->kv_heads)
        s->kv_heads = s->heads;
    if (!s->head_dim && s->heads)
        s->head_dim = s->hidden / s->heads;
    return status;
}

static bool has_any(const json_t *root, const char *const *keys) {
    bool found = false;
    for (; *keys; keys++)
        found = found || (json_object_get(root, *keys) && !json_is_null(json_object_get(root, *keys)));
    return found;
}

/* One layer against what is declared. */
static enum tern_status check_layer(const char *path, const struct tern_model_layer *layer, int64_t n, int64_t k,
                                    bool trust_tensors, struct tern_model *model, struct tern_error *err) {
    if (n <= 0 || k <= 0 || (layer->n == n && layer->k == k))
        return TERN_OK;
    struct tern_str text = {0};
    tern_str_printf(
        &text,
        "%s: sizes give layer %s N = %" PRId64 ", K = %" PRId64 "; its tensors ('%s'%s) have N = %" PRId64 ", K = %" PRId64,
        path, layer->name, n, k, layer->parts[0]->name, layer->part_count > 1 ? ", ..." : "", layer->n, layer->k);
    enum tern_status status = TERN_OK;
    if (trust_tensors) {
        tern_strs_add(&model->notes, text.data);
    } else {
        status = tern_error_set(err, TERN_FAILED, "%s", text.data);
        tern_error_hint(err, "`tune shapes --accept-suspect` writes what the tensors say");
    }
    tern_str_free(&text);
    return status;
}

static void count_blocks(const char *path, const struct sizes *s, const char *name, struct tern_model *model) {
    int64_t count = 0;
    for (size_t i = 0; i < model->count; i++)
        if (strncmp(model->layers[i].name, name, strlen(name)) == 0)
            count += model->layers[i].count;
    struct tern_str note = {0};
    tern_str_printf(&note, "%s: num_hidden_layers is %" PRId64 ", and %" PRId64 " layers are %s", path, s->layers, count,
                    name);
    if (s->layers && count && count != s->layers)
        tern_strs_add(&model->notes, note.data);
    tern_str_free(&note);
}

static enum tern_status check_sizes(const char *path, const json_t *root, const struct sizes *s, bool trust_tensors,
                                    struct tern_model *model, struct tern_error *err) {
    static const char *const experts[] = {"num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size",
                                          NULL};
    static const char *const latent[] = {"q_lora_rank", "kv_lora_rank", "attn_output_gate", NULL};
    const bool plain_attention = !has_any(root, latent), plain_feed = !has_any(root, experts);
    const struct {
        const char *name;
        bool judged;
        int64_t n, k;
    } expected[] = {{"qkv", plain_attention, (s->heads + 2 * s->kv_heads) * s->head_dim, s->hidden},
                    {"o", plain_attention, s->hidden, s->heads * s->head_dim},
                    {"gate_up", plain_feed, 2 * s->intermediate, s->hidden},
                    {"down", plain_feed, s->hidden, s->intermediate}};
    enum tern_status status = TERN_OK;
    for (size_t e = 0; e < sizeof expected / sizeof *expected; e++) {
        const size_t length = strlen(expected[e].name);
        for (size_t i = 0; i < model->count && !status && expected[e].judged; i++) {
            const struct tern_model_layer *layer = &model->layers[i];
            if (strncmp(layer->name, expected[e].name, length) == 0 && (!layer->name[length] || layer->name[length] == '-'))
                status = check_layer(path, layer, expected[e].n, expected[e].k, trust_tensors, model, err);
        }
    }
    if (plain_attention)
        count_blocks(path, s, "qkv", model);
    return status;
}

/* The last part of a name like Qwen/Qwen2.5-7B; of a folder, too. */
static void set_title(const char *name, struct tern_model *model) {
    size_t length = strlen(name);
    while (length > 1 && name[length - 1] == '/')
        length--;
    size_t begin = length;
    while (begin > 0 && name[begin - 1] != '/')
        begin--;
    tern_str_format(model->title, sizeof model->title, "%.*s", (int)(length - begin < 60 ? length - begin : 60),
                    name + begin);
}

static void set_source(const struct sizes *s, struct tern_model *model) {
    const struct {
        const char *before, *after;
        int64_t size;
    } parts[] = {{"hidden ", "", s->hidden},
                 {"", " heads", s->heads},
                 {"", " key-value heads", s->kv_heads},
                 {"of ", "", s->head_dim},
                 {"intermediate ", "", s->intermediate},
                 {"", " layers", s->layers}};
    struct tern_str text = {0};
    tern_str_printf(&text, "config.json and tensors of %s:", model->title);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].size)
            tern_str_printf(&text, "%s%s%" PRId64 "%s",
                            parts[i].before[0] == 'o' || text.data[text.length - 1] == ':' ? " " : ", ", parts[i].before,
                            parts[i].size, parts[i].after);
    tern_str_copy(model->source, sizeof model->source, text.data);
    tern_str_free(&text);
}

enum tern_status tern_model_check_config(const char *model_path, bool trust_tensors, struct tern_model *model,
                                         struct tern_error *err) {
    char path[PATH_MAX];
    json_error_t where;
    struct sizes s = {0};
    set_title(model_path, model);
    tern_str_format(model->source, sizeof model->source, "tensors of %s", model->title);
    tern_str_format(path, sizeof path, "%s/config.json", model_path);
    if (!tern_file_exists(path))
        return TERN_OK;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return tern_error_set(err, TERN_FAILED, "%s: line %d: %s", path, where.line, where.text);
    const json_t *text = json_object_get(root, "text_config"); /* of a model that sees or hears as well */
    const char *name = json_string_value(json_object_get(root, "_name_or_path"));
    if (name && name[0] && name[strlen(name) - 1] != '/')
        set_title(name, model);
    enum tern_status status = read_sizes(path, json_is_object(text) ? text : root, &s, err);
    if (!status)
        status = check_sizes(path, json_is_object(text) ? text : root, &s, trust_tensors, model, err);
    if (!status && s.hidden)
        set_source(&s, model);
    json_decref(root);
    return status;
}
