/* From the layers of a checkpoint to shapes, and from shapes to the text of a shapes file. */
#include "commands/model_shapes.h"

#include <inttypes.h>
#include <string.h>

/* Batch sizes of a new shapes file: those of configs/shapes/qwen7b.lua. The first ones are decode. */
static const int64_t batch_sizes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
enum { BATCH_SIZE_COUNT = sizeof batch_sizes / sizeof *batch_sizes, DECODE_COUNT = 7 };

static void note(struct tern_strs *notes, const struct tern_model_layer *layer, const char *why) {
    struct tern_str text = {0};
    tern_str_printf(&text, "%s (%s, N = %" PRId64 ", K = %" PRId64 ") is left out: %s", layer->name, layer->format, layer->n,
                    layer->k, why);
    tern_strs_add(notes, text.data);
    tern_str_free(&text);
}

/* The layer's format, if kernels can have the layer; else `why` not. */
static bool served(const struct tern_model_layer *layer, struct tern_format *format, char *why, size_t size) {
    struct tern_error err = {0};
    why[0] = '\0';
    if (strstr(layer->format, "-actorder"))
        tern_str_copy(why, size, "no kernel serves act-order");
    else if (tern_format_parse(layer->format, format, &err) != TERN_OK ||
             tern_format_check_shape(format, layer->n, layer->k, true, &err) != TERN_OK)
        tern_str_copy(why, size, err.text);
    return !why[0];
}

static bool add_format(struct tern_shapes *shapes, const struct tern_format *format) {
    for (size_t i = 0; i < shapes->format_count; i++)
        if (strcmp(shapes->formats[i].name, format->name) == 0)
            return true;
    if (shapes->format_count == sizeof shapes->formats / sizeof *shapes->formats)
        return false;
    shapes->formats[shapes->format_count++] = *format;
    return true;
}

static bool add_layer(struct tern_shapes *shapes, const struct tern_model_layer *layer) {
    if (shapes->layer_count == TERN_MAX_LAYERS)
        return false;
    struct tern_layer *to = &shapes->layers[shapes->layer_count++];
    *to = (struct tern_layer){.n = layer->n, .k = layer->k, .count = layer->count < 100000 ? layer->count : 100000};
    tern_str_copy(to->name, sizeof to->name, layer->name);
    return true;
}

enum tern_status tern_model_shapes(const struct tern_model_file *file, struct tern_shapes *shapes, struct tern_strs *notes,
                                   struct tern_error *err) {
    const struct tern_model *model = &file->model;
    char why[1024] = "";
    *shapes = (struct tern_shapes){.m_count = BATCH_SIZE_COUNT};
    tern_str_copy(shapes->title, sizeof shapes->title, model->title);
    tern_str_copy(shapes->source, sizeof shapes->source, model->source);
    for (size_t i = 0; i < BATCH_SIZE_COUNT; i++) {
        shapes->m[i] = batch_sizes[i];
        shapes->weight[i] = 0.5 / (i < DECODE_COUNT ? DECODE_COUNT : BATCH_SIZE_COUNT - DECODE_COUNT);
    }
    for (size_t i = 0; i < model->count; i++) {
        struct tern_format format;
        if (!served(&model->layers[i], &format, why, sizeof why))
            note(notes, &model->layers[i], why);
        else if (!add_format(shapes, &format) || !add_layer(shapes, &model->layers[i]))
            note(notes, &model->layers[i], "a shapes file has no room for more layers or formats");
    }
    if (shapes->layer_count)
        return TERN_OK;
    return tern_error_set(err, TERN_FAILED, "%s: none of its layers can be served; the last, %s in %s: %s",
                          file->checkpoint.path, model->layers[model->count - 1].name,
                          model->layers[model->count - 1].format, why);
}

/* A Lua string: what a name holds must stay text, so all but plain ASCII is spelled as numbers. */
static void append_quoted(struct tern_str *out, const char *text) {
    tern_str_append(out, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c == '"' || *c == '\\')
            tern_str_printf(out, "\\%c", *c);
        else if (*c < 0x20 || *c >= 0x7f)
            tern_str_printf(out, "\\%03d", *c);
        else
            tern_str_printf(out, "%c", *c);
    tern_str_append(out, "\"");
}

static void append_numbers(struct tern_str *out, const char *key, const int64_t *numbers, size_t count) {
    tern_str_printf(out, "    %s = { ", key);
    for (size_t i = 0; i < count; i++)
        tern_str_printf(out, "%s%" PRId64, i ? ", " : "", numbers[i]);
    tern_str_append(out, " },\n");
}

void tern_shapes_text(const struct tern_shapes *shapes, struct tern_str *out) {
    tern_str_append(
        out,
        "-- Linear layers of a model, made by `tune shapes`. N = rows of the weight, K = columns; q, k, v are one product,\n"
        "-- gate and up are one.\n"
        "return {\n    title = ");
    append_quoted(out, shapes->title);
    tern_str_append(out, ",\n    source = ");
    append_quoted(out, shapes->source);
    tern_str_append(out, ",\n    layers = {\n");
    for (size_t i = 0; i < shapes->layer_count; i++) {
        const struct tern_layer *l = &shapes->layers[i];
        tern_str_append(out, "        { name = ");
        append_quoted(out, l->name);
        tern_str_printf(out, ", n = %" PRId64 ", k = %" PRId64 ", count = %" PRId64 " },\n", l->n, l->k, l->count);
    }
    tern_str_append(out, "    },\n");
    append_numbers(out, "decode", shapes->m, DECODE_COUNT);
    append_numbers(out, "prefill", shapes->m + DECODE_COUNT, shapes->m_count - DECODE_COUNT);
    tern_str_append(out, "    formats = { ");
    for (size_t i = 0; i < shapes->format_count; i++) {
        tern_str_append(out, i ? ", " : "");
        append_quoted(out, shapes->formats[i].name);
    }
    tern_str_append(out, " },\n}\n");
}
