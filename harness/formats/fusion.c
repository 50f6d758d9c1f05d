/* Parts of fused layers, from names and from the head counts of config.json. Knows nothing of bits. */
#include "formats/fusion.h"

#include "core/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum kind { Q, KV, QKV, GATE_UP, INTERLEAVED };

static const struct {
    const char *word; /* last of a layer's name */
    enum kind kind;
} names[] = {
    {"q_proj", Q},         {"k_proj", KV},
    {"v_proj", KV},        {"qkv_proj", QKV},
    {"wqkv", QKV},         {"attn_qkv", QKV},
    {"W_pack", QKV},       {"c_attn", QKV},
    {"w13", GATE_UP},      {"gate_up_proj", GATE_UP},
    {"Wqkv", INTERLEAVED}, {"query_key_value", INTERLEAVED},
};

static int64_t whole(const json_t *config, const char *key) {
    const json_t *value = json_object_get(config, key);
    return json_is_integer(value) && json_integer_value(value) > 0 && json_integer_value(value) <= INT32_MAX
               ? (int64_t)json_integer_value(value)
               : 0;
}

/* Models that see and hear keep the numbers of their text part in text_config. */
static void read_config(const json_t *root, struct tern_heads *heads) {
    const json_t *text = json_object_get(root, "text_config");
    const json_t *config = whole(root, "num_attention_heads") || !text ? root : text;
    heads->heads = whole(config, "num_attention_heads");
    heads->kv_heads = whole(config, "num_key_value_heads");
    heads->head_rows = whole(config, "head_dim");
    if (!heads->kv_heads)
        heads->kv_heads = heads->heads;
    if (!heads->head_rows && heads->heads)
        heads->head_rows = whole(config, "hidden_size") / heads->heads;
}

void tern_heads_read(const struct tern_checkpoint *checkpoint, struct tern_heads *heads) {
    char path[PATH_MAX], *text = NULL;
    size_t length = 0;
    const char *slash = strrchr(checkpoint->path, '/');
    *heads = (struct tern_heads){0};
    if (tern_file_is_dir(checkpoint->path))
        tern_str_format(path, sizeof path, "%s/config.json", checkpoint->path);
    else
        tern_str_format(path, sizeof path, "%.*sconfig.json", slash ? (int)(slash + 1 - checkpoint->path) : 0,
                        checkpoint->path);
    if (!tern_file_exists(path) || tern_file_read(path, &text, &length, NULL) != TERN_OK)
        return;
    json_t *root =
        json_loadb(text, length, 0, NULL); /* what is no JSON has been refused with the checkpoint, or declares nothing */
    read_config(root, heads);
    json_decref(root);
    free(text);
}

/* q, k and v one behind the other. The GPU layers of microsoft/BitNet have K rows of q by definition. */
static void find_qkv(const struct tern_linear *layer, const struct tern_heads *heads, struct tern_fusion *fusion) {
    const bool fixed = strcmp(layer->checkpoint_format, "bitnet-gpu") == 0;
    const int64_t q = fixed ? layer->k : heads->heads * heads->head_rows;
    const int64_t kv = fixed ? (layer->n - layer->k) / 2 : heads->kv_heads * heads->head_rows;
    fusion->count = 3;
    for (int i = 0; i < 3; i++) {
        fusion->parts[i].rows = i == 0 ? q : kv;
        fusion->parts[i].heads = i == 0 ? heads->heads : heads->kv_heads;
        if (fixed && heads->head_rows * fusion->parts[i].heads != fusion->parts[i].rows)
            fusion->parts[i].heads = 0;
    }
    if (!fixed && (!heads->heads || !heads->head_rows))
        tern_str_copy(fusion->unknown, sizeof fusion->unknown,
                      "the sizes of q, k and v are unknown: no config.json with num_attention_heads");
    else if (q + 2 * kv != layer->n)
        tern_str_format(fusion->unknown, sizeof fusion->unknown,
                        "config.json makes q %" PRId64 " rows, k and v %" PRId64 " each, but N = %" PRId64, q, kv, layer->n);
}

static void one_part(int64_t rows, int64_t heads, struct tern_fusion *fusion) {
    fusion->count = 1;
    fusion->parts[0].rows = rows;
    fusion->parts[0].heads = heads;
}

void tern_fusion_find(const struct tern_linear *layer, const struct tern_heads *heads, struct tern_fusion *fusion) {
    const char *dot = strrchr(layer->name, '.'), *word = dot ? dot + 1 : layer->name;
    *fusion = (struct tern_fusion){0};
    one_part(layer->n, 0, fusion);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].word, word) != 0)
            continue;
        const int64_t count = names[i].kind == Q ? heads->heads : heads->kv_heads;
        if (names[i].kind <= KV && count * heads->head_rows == layer->n)
            one_part(layer->n, count, fusion);
        else if (names[i].kind == QKV)
            find_qkv(layer, heads, fusion);
        else if (names[i].kind == GATE_UP) {
            fusion->count = 2;
            fusion->parts[0].rows = fusion->parts[1].rows = layer->n / 2;
            if (layer->n % 2)
                tern_str_format(fusion->unknown, sizeof fusion->unknown, "gate and up are halves, but N = %" PRId64,
                                layer->n);
        } else if (names[i].kind == INTERLEAVED)
            tern_str_format(fusion->unknown, sizeof fusion->unknown,
                            "rows of %s may lie head by head or part by part, and nothing tells which", word);
    }
}
