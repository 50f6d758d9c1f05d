/* Declarations of quantisation for converted checkpoints, in the keys that the format's usual loaders read: what most layers are,
 * and rules for those that differ. */
#include "formats/convert_plan.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static int64_t declared_group(const struct tern_target_layer *layer) {
    return layer->groups == 1 ? -1 : layer->group;
}

static bool alike(const struct tern_target_layer *a, const struct tern_target_layer *b) {
    return a->bits == b->bits && declared_group(a) == declared_group(b) && a->sym == b->sym && a->act_order == b->act_order;
}

/* Modules with a plain matrix, which loaders would take for quantised: linear ones that were left out. */
static void list_plain(const struct tern_convert_plan *plan, struct tern_strs *names) {
    static const char *const no_linear[] = {"embed", "norm", "conv", "wte", "wpe"};
    for (size_t i = 0; i < plan->in.tensor_count; i++) {
        const struct tern_tensor *t = &plan->in.tensors[i];
        const size_t length = strlen(t->name), end = strlen(".weight");
        bool linear = !plan->belongs[i] && t->dims == 2 && length > end && strcmp(t->name + length - end, ".weight") == 0;
        for (size_t j = 0; j < sizeof no_linear / sizeof *no_linear; j++)
            linear = linear && !strstr(t->name, no_linear[j]);
        if (!linear)
            continue;
        char *module = tern_strdup(t->name);
        module[length - end] = '\0';
        tern_strs_add(names, module);
        free(module);
    }
}

static bool quantises_head(const struct tern_convert_plan *plan) {
    bool found = false;
    for (size_t i = 0; i < plan->found.count; i++)
        found = found || strcmp(plan->found.items[i].name, "lm_head") == 0;
    return found;
}

// ---- GPTQ -----------------------------------------------------------------------------------------------------------------

/* PREFIX and a rule that matches this name only. */
static void exact_rule(struct tern_str *rule, const char *prefix, const char *name) {
    tern_str_append(rule, prefix);
    for (const char *c = name; *c; c++)
        tern_str_printf(rule, isalnum((unsigned char)*c) || *c == '_' || (unsigned char)*c >= 0x80 ? "%c" : "\\%c", *c);
    tern_str_append(rule, "$");
}

static json_t *gptq_settings(const struct tern_target_layer *layer) {
    return json_pack("{s:i, s:I, s:b, s:b}", "bits", layer->bits, "group_size", (json_int_t)declared_group(layer), "sym",
                     layer->sym, "desc_act", layer->act_order);
}

static json_t *declare_gptq(const struct tern_convert_plan *plan) {
    const struct tern_target_layer *base = &plan->layers[0];
    json_t *root = gptq_settings(base), *dynamic = json_object();
    struct tern_strs plain = {0};
    list_plain(plan, &plain);
    json_object_set_new(root, "quant_method", json_string("gptq"));
    json_object_set_new(root, "checkpoint_format", json_string(plan->target->name));
    json_object_set_new(root, "pack_dtype", json_string("int32"));
    json_object_set_new(root, "static_groups", json_false());
    json_object_set_new(root, "true_sequential", json_true());
    json_object_set_new(root, "lm_head", json_boolean(quantises_head(plan)));
    for (size_t i = 0; i < plain.count; i++) {
        struct tern_str rule = {0};
        exact_rule(&rule, "-:", plain.items[i]);
        if (strcmp(plain.items[i], "lm_head") != 0)
            json_object_set_new(dynamic, rule.data, json_object());
        tern_str_free(&rule);
    }
    for (size_t i = 1; i < plan->found.count; i++) {
        struct tern_str rule = {0};
        exact_rule(&rule, "+:", plan->found.items[i].name);
        if (!alike(&plan->layers[i], base))
            json_object_set_new(dynamic, rule.data, gptq_settings(&plan->layers[i]));
        tern_str_free(&rule);
    }
    if (json_object_size(dynamic))
        json_object_set(root, "dynamic", dynamic);
    json_decref(dynamic);
    tern_strs_free(&plain);
    return root;
}

// ---- compressed-tensors ---------------------------------------------------------------------------------------------------

static json_t *compressed_weights(const struct tern_target_layer *layer) {
    const bool channel = layer->groups == 1;
    json_t *weights = json_pack("{s:i, s:s, s:b, s:s, s:b}", "num_bits", layer->bits, "type", "int", "symmetric", layer->sym,
                                "strategy", channel ? "channel" : "group", "dynamic", 0);
    json_object_set_new(weights, "group_size", channel ? json_null() : json_integer(layer->group));
    json_object_set_new(weights, "actorder", layer->act_order ? json_string("group") : json_null());
    return weights;
}

/* One group for all layers names their class; several name their modules. */
static json_t *compressed_groups(const struct tern_convert_plan *plan) {
    json_t *groups = json_object();
    bool *done = tern_alloc_zero(plan->found.count, sizeof *done);
    size_t same = 0;
    for (size_t i = 0; i < plan->found.count; i++)
        same += alike(&plan->layers[i], &plan->layers[0]);
    for (size_t i = 0; i < plan->found.count; i++) {
        json_t *targets = json_array();
        char name[32];
        if (same == plan->found.count)
            json_array_append_new(targets, json_string("Linear"));
        for (size_t j = i; j < plan->found.count; j++)
            if (!done[j] && alike(&plan->layers[j], &plan->layers[i])) {
                done[j] = true;
                if (same != plan->found.count)
                    json_array_append_new(targets, json_string(plan->found.items[j].name));
            }
        tern_str_format(name, sizeof name, "group_%zu", json_object_size(groups));
        json_object_set_new(groups, name,
                            json_pack("{s:o, s:o, s:n, s:n}", "targets", targets, "weights",
                                      compressed_weights(&plan->layers[i]), "input_activations", "output_activations"));
        while (i + 1 < plan->found.count && done[i + 1])
            i++;
    }
    free(done);
    return groups;
}

static json_t *declare_compressed(const struct tern_convert_plan *plan) {
    json_t *ignore = json_array();
    struct tern_strs plain = {0};
    list_plain(plan, &plain);
    bool head = quantises_head(plan);
    for (size_t i = 0; i < plain.count; i++) {
        head = head || strcmp(plain.items[i], "lm_head") == 0;
        json_array_append_new(ignore, json_string(plain.items[i]));
    }
    if (!head) /* tied to the embedding, but a module all the same */
        json_array_append_new(ignore, json_string("lm_head"));
    tern_strs_free(&plain);
    return json_pack("{s:s, s:s, s:o, s:o, s:n, s:s}", "quant_method", "compressed-tensors", "format", "pack-quantized",
                     "config_groups", compressed_groups(plan), "ignore", ignore, "kv_cache_scheme", "quantization_status",
                     "compressed");
}

void *tern_convert_declaration(const struct tern_convert_plan *plan) {
    if (plan->target->ternary)
        return json_pack("{s:s, s:s, s:i}", "quant_method", "ternary", "format", plan->target->name, "bits", 2);
    return strcmp(plan->target->name, "pack-quantized") == 0 ? declare_compressed(plan) : declare_gptq(plan);
}
