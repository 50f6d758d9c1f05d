/* Text and JSON of `tune inspect`. Computes nothing but shares of counts. */
#include "commands/inspect_report.h"

#include "formats/model.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS 80
#define BUCKETS 16

/* Words of `text` in lines of at most 80 columns behind `lead`; a longer word has a line of its own. */
static void print_wrapped(const char *lead, const char *text) {
    size_t column = strlen(lead);
    bool first = true;
    fputs(lead, stdout);
    while (*text) {
        size_t length = strcspn(text, " ");
        if (!first && column + 1 + length > COLUMNS) {
            printf("\n    ");
            column = 4;
        } else if (!first) {
            putchar(' ');
            column++;
        }
        for (size_t i = 0; i < length; i++) /* names come from the file: nothing that steers a terminal */
            putchar((unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i]);
        column += length;
        text += length + (text[length] == ' ');
        first = false;
    }
    putchar('\n');
}

/* Shares of the codes in percent; 8-bit codes in 16 equal ranges. */
static void print_codes(const struct tern_linear *layer, const struct tern_census *c) {
    const int codes = 1 << layer->bits, shown = codes < BUCKETS ? codes : BUCKETS, width = codes / shown;
    const double all = (double)layer->n * (double)layer->k;
    struct tern_str text = {0};
    for (int i = 0; i < shown; i++) {
        int64_t count = 0;
        for (int j = 0; j < width; j++)
            count += c->codes[i * width + j];
        tern_str_printf(&text, "%s%.1f", i ? " " : "", 100.0 * (double)count / all);
    }
    char lead[64];
    tern_str_format(lead, sizeof lead, width > 1 ? "  codes %% by %d:  " : "  codes %%:  ", width);
    print_wrapped(lead, tern_str_text(&text));
    tern_str_free(&text);
}

static void print_scales(const struct tern_linear *layer, const struct tern_census *c) {
    struct tern_str text = {0};
    tern_str_printf(&text, "%" PRId64 " %s, %.4g to %.4g", c->scales.count, layer->scale_dtype, (double)c->scales.min,
                    (double)c->scales.max);
    const struct {
        const char *name;
        int64_t count;
    } facts[] = {{"zero", c->scales.zero},
                 {"NaN", c->scales.nan},
                 {"Inf", c->scales.inf},
                 {"negative", c->scales.negative},
                 {"denormal", c->scales.denormal}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (facts[i].count)
            tern_str_printf(&text, ", %" PRId64 " %s", facts[i].count, facts[i].name);
    print_wrapped("  scales:  ", tern_str_text(&text));
    tern_str_free(&text);
}

static void print_layer(const struct tern_linear *layer, const struct tern_census *c) {
    struct tern_str detail = {0};
    char format[64];
    enum tern_layer_status status = tern_census_judge(layer, c, &detail);
    print_wrapped("", layer->name);
    if (!layer->error[0]) {
        tern_linear_format_name(layer, format, sizeof format);
        printf("  %s  N=%" PRId64 " K=%" PRId64 "  %d bits, group %" PRId64 ", %s%s%s\n", format, layer->n, layer->k,
               layer->bits, layer->group, layer->sym ? "symmetric" : "asymmetric", layer->act_order ? ", act-order" : "",
               c->ternary ? ", ternary" : "");
        struct tern_str why = {0};
        tern_str_printf(&why, "%s (%s)", layer->checkpoint_format, layer->why);
        print_wrapped("  read as  ", tern_str_text(&why));
        tern_str_free(&why);
        print_codes(layer, c);
        print_scales(layer, c);
    }
    if (detail.length) {
        char lead[32];
        tern_str_format(lead, sizeof lead, "  %s:  ", tern_layer_status_name(status));
        print_wrapped(lead, detail.data);
    }
    tern_str_free(&detail);
}

void tern_inspect_print_text(const struct tern_checkpoint *checkpoint, const struct tern_linears *layers,
                             const struct tern_census *census) {
    int64_t counts[3] = {0};
    for (size_t i = 0; i < layers->count; i++) {
        struct tern_str detail = {0};
        counts[tern_census_judge(&layers->items[i], &census[i], &detail)]++;
        tern_str_free(&detail);
        print_layer(&layers->items[i], &census[i]);
    }
    printf("%s: %zu %s, %zu tensors, %zu quantised %s: %" PRId64 " ok, %" PRId64 " suspect, %" PRId64 " wrong\n",
           checkpoint->container, checkpoint->file_count, checkpoint->file_count == 1 ? "file" : "files",
           checkpoint->tensor_count, layers->count, layers->count == 1 ? "layer" : "layers", counts[TERN_LAYER_OK],
           counts[TERN_LAYER_SUSPECT], counts[TERN_LAYER_ERROR]);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------------------- */

/* A path need not be UTF-8, and JSON cannot hold it then. */
static json_t *text_or_null(const char *text) {
    json_t *string = json_string(text);
    return string ? string : json_null();
}

static json_t *number(float value) {
    return isfinite(value) ? json_real((double)value) : json_null();
}

/* Keys that only a layer which was decoded has; null in the others. */
static void add_facts(json_t *object, const struct tern_linear *layer, const struct tern_census *c) {
    json_t *codes = json_array();
    char format[64];
    tern_linear_format_name(layer, format, sizeof format);
    for (int i = 0; i < 1 << layer->bits; i++)
        json_array_append_new(codes, json_integer(c->codes[i]));
    json_object_set_new(object, "format", json_string(format));
    json_object_set_new(object, "n", json_integer(layer->n));
    json_object_set_new(object, "k", json_integer(layer->k));
    json_object_set_new(object, "bits", json_integer(layer->bits));
    json_object_set_new(object, "group", json_integer(layer->group));
    json_object_set_new(object, "sym", json_boolean(layer->sym));
    json_object_set_new(object, "act_order", json_boolean(layer->act_order));
    json_object_set_new(object, "ternary", json_boolean(c->ternary));
    json_object_set_new(object, "codes", codes);
    json_object_set_new(object, "scales",
                        json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o}", "dtype", layer->scale_dtype, "count",
                                  (json_int_t)c->scales.count, "zero", (json_int_t)c->scales.zero, "nan",
                                  (json_int_t)c->scales.nan, "inf", (json_int_t)c->scales.inf, "negative",
                                  (json_int_t)c->scales.negative, "denormal", (json_int_t)c->scales.denormal, "min",
                                  number(c->scales.min), "max", number(c->scales.max)));
}

static json_t *layer_json(const struct tern_linear *layer, const struct tern_census *c) {
    static const char *const facts[] = {"format", "n",         "k",       "bits",  "group",
                                        "sym",    "act_order", "ternary", "codes", "scales"};
    struct tern_str detail = {0};
    enum tern_layer_status status = tern_census_judge(layer, c, &detail);
    json_t *object =
        json_pack("{s:s,s:s,s:s}", "name", layer->name, "checkpoint_format", layer->checkpoint_format, "why", layer->why);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        json_object_set_new(object, facts[i], json_null());
    if (!layer->error[0])
        add_facts(object, layer, c);
    json_object_set_new(object, "status", json_string(tern_layer_status_name(status)));
    json_object_set_new(object, "detail", text_or_null(tern_str_text(&detail)));
    tern_str_free(&detail);
    return object;
}

void tern_inspect_print_json(const struct tern_checkpoint *checkpoint, const struct tern_linears *layers,
                             const struct tern_census *census) {
    json_t *tensors = json_array();
    for (size_t i = 0; i < layers->count; i++)
        json_array_append_new(tensors, layer_json(&layers->items[i], &census[i]));
    json_t *root = json_pack("{s:o,s:s,s:o}", "path", text_or_null(checkpoint->path), "container", checkpoint->container,
                             "tensors", tensors);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
}
