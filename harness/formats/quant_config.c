/* Reads declarations of quantisation: every spelling of a key, rules on names, and fused modules. Guesses nothing: two
 * spellings that disagree are an error. */
#include "formats/quant_config.h"

#include "core/file.h"
#include "core/str.h"
#include "formats/name_rule.h"

#include <ctype.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct tern_quant_config {
    char path[PATH_MAX];
    json_t *root; /* the object that holds quant_method */
};

/* Files in the order in which they are looked for; `key` holds the object, NULL: the whole file. */
static const struct {
    const char *file, *key;
} sources[] = {{"quantize_config.json", NULL}, {"quant_config.json", NULL}, {"config.json", "quantization_config"}};

enum tern_status tern_quant_config_find(const char *folder, struct tern_quant_config **config, struct tern_error *err) {
    *config = NULL;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        char path[PATH_MAX];
        json_error_t where;
        tern_str_format(path, sizeof path, "%s/%s", folder, sources[i].file);
        if (!tern_file_exists(path))
            continue;
        json_t *file = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
        if (!file)
            return tern_error_set(err, TERN_FAILED, "%s: line %d: %s", path, where.line, where.text);
        json_t *root = sources[i].key ? json_incref(json_object_get(file, sources[i].key)) : json_incref(file);
        json_decref(file);
        if (!root)
            continue;
        if (!json_is_object(root)) {
            json_decref(root);
            return tern_error_set(err, TERN_FAILED, "%s: the declaration of quantisation is not an object", path);
        }
        *config = tern_alloc_zero(1, sizeof **config);
        tern_str_copy((*config)->path, sizeof(*config)->path, path);
        (*config)->root = root;
        return TERN_OK;
    }
    return TERN_OK;
}

void tern_quant_config_free(struct tern_quant_config *config) {
    if (config)
        json_decref(config->root);
    free(config);
}

/* ---- keys ------------------------------------------------------------------------------------------------------------------- */

enum field {
    FIELD_METHOD,
    FIELD_FORMAT,
    FIELD_VERSION,
    FIELD_BITS,
    FIELD_GROUP,
    FIELD_SYM,
    FIELD_ASYM,
    FIELD_ACT_ORDER,
    FIELD_PACK,
    FIELD_LINEAR_CLASS
};

/* Every spelling that writers use. */
static const struct {
    const char *key;
    enum field field;
} keys[] = {
    {"quant_method", FIELD_METHOD},
    {"method", FIELD_METHOD},
    {"checkpoint_format", FIELD_FORMAT},
    {"format", FIELD_FORMAT},
    {"version", FIELD_VERSION},
    {"bits", FIELD_BITS},
    {"w_bit", FIELD_BITS},
    {"wbits", FIELD_BITS},
    {"num_bits", FIELD_BITS},
    {"group_size", FIELD_GROUP},
    {"q_group_size", FIELD_GROUP},
    {"sym", FIELD_SYM},
    {"symmetric", FIELD_SYM},
    {"zero_point", FIELD_ASYM},
    {"desc_act", FIELD_ACT_ORDER},
    {"pack_dtype", FIELD_PACK},
    {"linear_class", FIELD_LINEAR_CLASS},
};

static bool set_text(char *out, size_t size, const json_t *value) {
    const char *text = json_string_value(value);
    if (!text || (out[0] && strcmp(out, text) != 0))
        return false;
    tern_str_copy(out, size, text);
    return true;
}

/* -1, where it is legal, or 1 to 2^31 - 1. */
static bool set_number(int64_t *out, const json_t *value, bool minus_one) {
    const int64_t number = json_integer_value(value);
    if (!json_is_integer(value) || number > INT32_MAX || (number < 1 && !(minus_one && number == -1)))
        return false;
    bool agrees = *out == 0 || *out == number;
    *out = number;
    return agrees;
}

static bool set_choice(enum tern_declared *out, const json_t *value, bool inverted) {
    if (!json_is_boolean(value))
        return false;
    enum tern_declared choice = json_is_true(value) != inverted ? TERN_DECLARED_YES : TERN_DECLARED_NO;
    bool agrees = *out == TERN_UNDECLARED || *out == choice;
    *out = choice;
    return agrees;
}

static bool set_field(struct tern_quant_settings *s, enum field field, const json_t *value) {
    switch (field) {
    case FIELD_METHOD:
        return set_text(s->method, sizeof s->method, value);
    case FIELD_FORMAT:
        return set_text(s->format, sizeof s->format, value);
    case FIELD_VERSION: /* of the format in AWQ (gemm), of the writer in compressed-tensors (0.11.0) */
        return json_is_string(value) &&
               (isdigit((unsigned char)*json_string_value(value)) || set_text(s->format, sizeof s->format, value));
    case FIELD_BITS:
        return set_number(&s->bits, value, false);
    case FIELD_GROUP:
        return set_number(&s->group, value, true);
    case FIELD_SYM:
        return set_choice(&s->sym, value, false);
    case FIELD_ASYM:
        return set_choice(&s->sym, value, true);
    case FIELD_ACT_ORDER:
        return set_choice(&s->act_order, value, false);
    case FIELD_LINEAR_CLASS:
        return set_text(s->linear_class, sizeof s->linear_class, value);
    case FIELD_PACK:
        return json_is_string(value) && strstr(json_string_value(value), "int32") != NULL;
    }
    return false;
}

/* Fields of one object. Two spellings of a field must agree. */
static enum tern_status read_fields(const struct tern_quant_config *config, const json_t *object,
                                    struct tern_quant_settings *s, struct tern_error *err) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(object, keys[i].key);
        if (!value || json_is_null(value) || set_field(s, keys[i].field, value))
            continue;
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        tern_error_set(err, TERN_FAILED, "%s: '%s' of %.60s: not a legal value, or another spelling of it says otherwise",
                       config->path, keys[i].key, text ? text : "?");
        free(text);
        return TERN_FAILED;
    }
    if (json_is_true(json_object_get(object, "is_marlin_format")))
        tern_str_copy(s->format, sizeof s->format, "marlin");
    return TERN_OK;
}

/* Fields of `over` that are declared replace those of `s`. */
static void override(struct tern_quant_settings *s, const struct tern_quant_settings *over) {
    if (over->method[0])
        tern_str_copy(s->method, sizeof s->method, over->method);
    if (over->format[0])
        tern_str_copy(s->format, sizeof s->format, over->format);
    if (over->bits)
        s->bits = over->bits;
    if (over->group)
        s->group = over->group;
    if (over->sym != TERN_UNDECLARED)
        s->sym = over->sym;
    if (over->act_order != TERN_UNDECLARED)
        s->act_order = over->act_order;
}

/* ---- rules ------------------------------------------------------------------------------------------------------------------ */

/* `dynamic`: "-:RULE" leaves modules out and goes first; "+:RULE" and "RULE" override, first match wins. */
static enum tern_status apply_dynamic(const struct tern_quant_config *config, const char *module,
                                      struct tern_quant_settings *s, bool *named, struct tern_error *err) {
    json_t *rules = json_object_get(config->root, "dynamic"), *value;
    const char *key;
    for (int negative = 1; negative >= 0; negative--) {
        json_object_foreach(rules, key, value) {
            bool is_negative = strncmp(key, "-:", 2) == 0, matches = false;
            if (is_negative != (negative == 1))
                continue;
            const char *rule = is_negative || strncmp(key, "+:", 2) == 0 ? key + 2 : key;
            enum tern_status status = tern_name_rule_match(rule, module, &matches, err);
            if (status) {
                tern_error_prefix(err, "%s", config->path);
                return status;
            }
            if (!matches)
                continue;
            struct tern_quant_settings over = {0};
            *named = true;
            s->skip = is_negative;
            status = is_negative ? TERN_OK : read_fields(config, value, &over, err);
            override(s, &over);
            return status;
        }
    }
    return TERN_OK;
}

/* A list of module names: exact, the last part of a name path, or "re:RULE". */
static enum tern_status list_holds(const json_t *list, const char *module, bool *holds, struct tern_error *err) {
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)list, i, item) {
        const char *text = json_is_string(item) ? json_string_value(item) : "";
        size_t length = strlen(text), all = strlen(module);
        if (strncmp(text, "re:", 3) == 0) {
            enum tern_status status = tern_name_rule_match(text + 3, module, holds, err);
            if (status || *holds)
                return status;
        } else if (length && length <= all && strcmp(module + all - length, text) == 0 &&
                   (length == all || module[all - length - 1] == '.')) {
            *holds = true;
            return TERN_OK;
        }
    }
    return TERN_OK;
}

static bool names_class(const json_t *targets) {
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const char *target = json_string_value(json_array_get(targets, i));
        if (target && strcmp(target, "Linear") == 0)
            return true;
    }
    return false;
}

/* compressed-tensors: the group whose targets name the module, else the one for its class. */
static enum tern_status apply_groups(const struct tern_quant_config *config, const char *module,
                                     struct tern_quant_settings *s, bool *named, struct tern_error *err) {
    json_t *groups = json_object_get(config->root, "config_groups"), *group, *chosen = NULL;
    const char *key;
    json_object_foreach(groups, key, group) {
        bool by_name = false;
        const json_t *targets = json_object_get(group, "targets");
        enum tern_status status = list_holds(targets, module, &by_name, err);
        if (status) {
            tern_error_prefix(err, "%s", config->path);
            return status;
        }
        if (by_name || (!chosen && names_class(targets)))
            chosen = group;
        if (by_name) {
            *named = true;
            break;
        }
    }
    struct tern_quant_settings over = {0};
    const json_t *weights = json_object_get(chosen, "weights");
    const char *actorder = json_string_value(json_object_get(weights, "actorder"));
    const char *strategy = json_string_value(json_object_get(weights, "strategy"));
    const char *format = json_string_value(json_object_get(chosen, "format")); /* of a mixed model */
    enum tern_status status = read_fields(config, weights, &over, err);
    if (format)
        tern_str_copy(over.format, sizeof over.format, format);
    if (weights && !over.group && strategy && strcmp(strategy, "group") != 0)
        over.group = -1;
    if (weights)
        over.act_order = actorder && strcmp(actorder, "group") == 0 ? TERN_DECLARED_YES : TERN_DECLARED_NO;
    override(s, &over);
    return status;
}

/* Settings by this very name; *named: a rule speaks of it. */
static enum tern_status lookup(const struct tern_quant_config *config, const char *module, struct tern_quant_settings *s,
                               bool *named, struct tern_error *err) {
    static const char *const left_out[] = {"modules_to_not_convert", "ignore"};
    memset(s, 0, sizeof *s);
    enum tern_status status = read_fields(config, config->root, s, err);
    if (!status)
        status = apply_groups(config, module, s, named, err);
    for (size_t i = 0; !status && i < sizeof left_out / sizeof *left_out; i++) {
        status = list_holds(json_object_get(config->root, left_out[i]), module, &s->skip, err);
        *named = *named || s->skip;
    }
    if (!status)
        status = apply_dynamic(config, module, s, named, err);
    return status;
}

/* Modules that hold several of the checkpoint's usual ones. */
static const struct {
    const char *fused, *parts[4];
} fusions[] = {{"qkv_proj", {"q_proj", "k_proj", "v_proj"}}, {"gate_up_proj", {"gate_proj", "up_proj"}}};

static bool same(const struct tern_quant_settings *a, const struct tern_quant_settings *b) {
    return strcmp(a->format, b->format) == 0 && a->bits == b->bits && a->group == b->group && a->sym == b->sym &&
           a->act_order == b->act_order && a->skip == b->skip;
}

/* What the parts get, if they agree. */
static enum tern_status lookup_parts(const struct tern_quant_config *config, const char *module, const char *const *parts,
                                     struct tern_quant_settings *s, struct tern_error *err) {
    const char *dot = strrchr(module, '.');
    int prefix = dot ? (int)(dot + 1 - module) : 0;
    for (size_t i = 0; parts[i]; i++) {
        struct tern_quant_settings part;
        char name[512];
        bool named = false;
        tern_str_format(name, sizeof name, "%.*s%s", prefix, module, parts[i]);
        enum tern_status status = lookup(config, name, &part, &named, err);
        if (status)
            return status;
        if (i > 0 && !same(s, &part))
            return tern_error_set(err, TERN_FAILED, "%s: rules give the parts %s and %s of %s different settings",
                                  config->path, parts[0], parts[i], module);
        *s = part;
    }
    return TERN_OK;
}

enum tern_status tern_quant_config_module(const struct tern_quant_config *config, const char *module,
                                          struct tern_quant_settings *s, struct tern_error *err) {
    bool named = false;
    memset(s, 0, sizeof *s);
    if (!config)
        return TERN_OK;
    enum tern_status status = lookup(config, module, s, &named, err);
    const char *dot = strrchr(module, '.');
    for (size_t i = 0; !status && !named && i < sizeof fusions / sizeof *fusions; i++)
        if (strcmp(dot ? dot + 1 : module, fusions[i].fused) == 0)
            return lookup_parts(config, module, fusions[i].parts, s, err);
    return status;
}
