/* Shapes of a model's linear layers: loading configs/shapes/NAME.lua. */
#include "config/shapes.h"

#include "config/fields.h"
#include "config/find.h"
#include "config/sandbox.h"

#include <limits.h>
#include <lua.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Batch sizes up to this one count as decode in the default mix. */
#define SHAPES_DECODE_M  64
#define SHAPES_M_LARGEST INT64_C(1048576)

static const char *const shapes_keys[] = {"title", "source", "layers", "decode", "prefill", "mix", "formats"};
static const char *const layer_keys[] = {"name", "n", "k", "count"};

static void shapes_read_layer(struct tern_fields *parent, int64_t index, struct tern_shapes *shapes) {
    struct tern_layer *layer = &shapes->layers[shapes->layer_count];
    struct tern_fields f;
    char where[64];
    tern_str_format(where, sizeof(where), "layers[%d].", (int)index);
    tern_fields_begin(&f, parent->lua, parent->path, where, parent->err);
    tern_fields_known(&f, layer_keys, sizeof(layer_keys) / sizeof(*layer_keys));
    tern_fields_text(&f, "name", layer->name, sizeof(layer->name), TERN_REQUIRED);
    tern_fields_int(&f, "n", 8, INT32_MAX, &layer->n, TERN_REQUIRED);
    tern_fields_int(&f, "k", 32, INT32_MAX, &layer->k, TERN_REQUIRED);
    layer->count = 1;
    tern_fields_int(&f, "count", 1, 100000, &layer->count, TERN_OPTIONAL);
    if (f.status == TERN_OK && layer->n % 8 != 0)
        tern_fields_fail(&f, "n", "must be a multiple of 8, not %lld", (long long)layer->n);
    if (f.status == TERN_OK && layer->k % 32 != 0)
        tern_fields_fail(&f, "k", "must be a multiple of 32, not %lld", (long long)layer->k);
    for (size_t i = 0; i < shapes->layer_count; i++)
        if (strcmp(shapes->layers[i].name, layer->name) == 0)
            tern_fields_fail(&f, "name", "is used twice: '%s'", layer->name);
    parent->status = f.status;
}

static void shapes_read_layers(struct tern_fields *f, struct tern_shapes *shapes) {
    int64_t length = tern_fields_push_table(f, "layers", TERN_REQUIRED);
    if (length < 0)
        return;
    if (length == 0 || length > TERN_MAX_LAYERS)
        tern_fields_fail(f, "layers", "must be a list of 1 to %d layers", TERN_MAX_LAYERS);
    for (int64_t i = 0; i < length && tern_fields_push_entry(f, "layers", i + 1); i++) {
        shapes_read_layer(f, i + 1, shapes);
        shapes->layer_count++;
        tern_fields_pop(f, 1);
    }
    tern_fields_pop(f, 1);
}

static int shapes_compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* decode and prefill together are the batch sizes; the split is for the reader of the file. */
static void shapes_read_m(struct tern_fields *f, struct tern_shapes *shapes) {
    size_t decode = 0, prefill = 0;
    tern_fields_ints(f, "decode", 1, SHAPES_M_LARGEST, shapes->m, TERN_MAX_M, &decode, TERN_OPTIONAL);
    if (f->status == TERN_OK && decode < TERN_MAX_M)
        tern_fields_ints(f, "prefill", 1, SHAPES_M_LARGEST, shapes->m + decode, TERN_MAX_M - decode, &prefill,
                         TERN_OPTIONAL);
    shapes->m_count = decode + prefill;
    if (shapes->m_count == 0) {
        tern_fields_fail(f, "decode", "or 'prefill' must list at least one M");
        return;
    }
    qsort(shapes->m, shapes->m_count, sizeof(*shapes->m), shapes_compare);
    for (size_t i = 1; i < shapes->m_count; i++)
        if (shapes->m[i] == shapes->m[i - 1])
            tern_fields_fail(f, "decode", "and 'prefill' name M = %lld twice", (long long)shapes->m[i]);
}

static void shapes_default_mix(struct tern_shapes *shapes) {
    size_t decode = 0;
    for (size_t i = 0; i < shapes->m_count; i++)
        decode += shapes->m[i] <= SHAPES_DECODE_M;
    size_t prefill = shapes->m_count - decode;
    double half = decode > 0 && prefill > 0 ? 0.5 : 1.0;
    for (size_t i = 0; i < shapes->m_count; i++)
        shapes->weight[i] = half / (double)(shapes->m[i] <= SHAPES_DECODE_M ? decode : prefill);
}

/* mix = { [M] = share, ... }: shares > 0 of the M in the model's time, scaled to sum 1; M without one count nothing. */
static void shapes_read_mix(struct tern_fields *f, struct tern_shapes *shapes) {
    if (f->status != TERN_OK)
        return;
    shapes_default_mix(shapes);
    if (tern_fields_push_table(f, "mix", TERN_OPTIONAL) < 0)
        return;
    double sum = 0;
    size_t matched = 0, entries = 0;
    for (size_t i = 0; i < shapes->m_count; i++) {
        lua_rawgeti(f->lua, -1, shapes->m[i]);
        double share = lua_type(f->lua, -1) == LUA_TNUMBER ? lua_tonumber(f->lua, -1) : NAN;
        bool absent = lua_isnil(f->lua, -1);
        lua_pop(f->lua, 1);
        if (!absent && !(share > 0 && isfinite(share)))
            tern_fields_fail(f, "mix", "must give M = %lld a number > 0", (long long)shapes->m[i]);
        shapes->weight[i] = absent ? 0 : share;
        sum += shapes->weight[i];
        matched += !absent;
    }
    for (lua_pushnil(f->lua); lua_next(f->lua, -2); lua_pop(f->lua, 1))
        entries++;
    if (entries == 0 || entries != matched)
        tern_fields_fail(f, "mix", "must name at least one M, and only those in 'decode' and 'prefill'");
    for (size_t i = 0; i < shapes->m_count; i++)
        shapes->weight[i] /= sum;
    tern_fields_pop(f, 1);
}

static void shapes_read_formats(struct tern_fields *f, struct tern_shapes *shapes) {
    const size_t most = sizeof(shapes->formats) / sizeof(*shapes->formats);
    int64_t length = tern_fields_push_table(f, "formats", TERN_REQUIRED);
    if (length < 0)
        return;
    if (length == 0 || (size_t)length > most)
        tern_fields_fail(f, "formats", "must be a list of 1 to %zu formats", most);
    char name[64];
    for (int64_t i = 0; i < length && tern_fields_entry_text(f, "formats", i + 1, name, sizeof(name)); i++) {
        f->status = tern_format_parse(name, &shapes->formats[shapes->format_count++], f->err);
        if (f->status != TERN_OK)
            tern_error_prefix(f->err, "%s: key 'formats[%d]'", f->path, (int)i + 1);
    }
    tern_fields_pop(f, 1);
}

enum tern_status tern_shapes_load(const char *name, struct tern_shapes *shapes, struct tern_error *err) {
    *shapes = (struct tern_shapes){0};
    char path[PATH_MAX];
    struct tern_sandbox *sandbox = NULL;
    enum tern_status status = tern_config_find("shapes", name, path, sizeof(path), err);
    if (status == TERN_OK)
        status = tern_sandbox_load(path, &sandbox, err);
    if (status != TERN_OK)
        return status;
    tern_config_base_name(path, shapes->name, sizeof(shapes->name));
    struct tern_fields f;
    tern_fields_begin(&f, tern_sandbox_state(sandbox), path, "", err);
    tern_fields_known(&f, shapes_keys, sizeof(shapes_keys) / sizeof(*shapes_keys));
    tern_fields_text(&f, "title", shapes->title, sizeof(shapes->title), TERN_REQUIRED);
    tern_fields_text(&f, "source", shapes->source, sizeof(shapes->source), TERN_REQUIRED);
    shapes_read_layers(&f, shapes);
    shapes_read_m(&f, shapes);
    shapes_read_mix(&f, shapes);
    shapes_read_formats(&f, shapes);
    tern_sandbox_free(sandbox);
    return f.status;
}

enum tern_status tern_shapes_names(struct tern_strs *names, struct tern_error *err) {
    return tern_config_names("shapes", names, err);
}
