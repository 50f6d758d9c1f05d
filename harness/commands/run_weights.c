/* `tune run --weights`: the problems are the layers of a checkpoint, and their weights its weights. */
#include "commands/run_internal.h"

#include "commands/model_shapes.h"
#include "core/hash.h"
#include "core/log.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define ID_DIGITS  8
#define CHECK_ROWS 1024 /* decoded at a time, to see that kernels can have them */

/* What a layer's name and digest are; every request for its weights carries them. */
static const struct run_real_layer *find_real(const struct run *run, const char *name) {
    for (size_t i = 0; i < run->real_count; i++)
        if (strcmp(run->real[i].name, name) == 0)
            return &run->real[i];
    return NULL;
}

void tern_run_weights_request(const struct run *run, const struct run_problem *p, json_t *request) {
    const char *name = run->shapes.layers[p->layer].name;
    const struct run_real_layer *real = run->options.weights ? find_real(run, name) : NULL;
    if (!real)
        return;
    json_object_set_new(request, "weights", json_string(run->options.weights));
    json_object_set_new(request, "layer", json_string(name));
    json_object_set_new(request, "digest", json_string(real->digest));
}

/* Exactly one format: problems are formats times layers, and a layer has one. */
static enum tern_status choose_format(const struct run_options *o, struct tern_shapes *s, struct tern_error *err) {
    struct tern_str all = {0};
    struct tern_format wanted;
    enum tern_status status = TERN_OK;
    size_t at = 0;
    for (size_t i = 0; i < s->format_count; i++)
        tern_str_printf(&all, "%s%s", i ? ", " : "", s->formats[i].name);
    if (!o->formats && s->format_count > 1) {
        status = tern_error_set(err, TERN_USAGE, "%s: its layers are in several formats: %s", o->weights, all.data);
        tern_error_hint(err, "choose one: --formats %s", s->formats[0].name);
    } else if (o->formats) {
        status = tern_format_parse(o->formats, &wanted, err);
        while (!status && at < s->format_count && strcmp(s->formats[at].name, wanted.name) != 0)
            at++;
        if (!status && at == s->format_count)
            status =
                tern_error_set(err, TERN_USAGE, "%s: no layer is in %s; there is %s", o->weights, wanted.name, all.data);
    }
    s->formats[0] = s->formats[at < s->format_count ? at : 0];
    s->format_count = 1;
    tern_str_free(&all);
    return status;
}

/* The layers in the chosen format stay. */
static void keep_format(const struct tern_model *model, struct tern_shapes *s) {
    size_t kept = 0;
    for (size_t i = 0; i < s->layer_count; i++) {
        const struct tern_model_layer *layer = tern_model_layer(model, s->layers[i].name);
        if (strcmp(layer->format, s->formats[0].name) == 0)
            s->layers[kept++] = s->layers[i];
    }
    s->layer_count = kept;
}

/* Layers of a shapes file must be layers of the checkpoint, of the same size; batch sizes and their shares are the file's. */
static enum tern_status match_shapes(const struct run *run, const struct tern_model *model, struct tern_shapes *own,
                                     struct tern_error *err) {
    const struct tern_shapes *file = &run->shapes;
    for (size_t i = 0; i < file->layer_count; i++) {
        const struct tern_layer *want = &file->layers[i];
        const struct tern_model_layer *have = tern_model_layer(model, want->name);
        if (!have || have->n != want->n || have->k != want->k)
            return tern_error_set(err, TERN_FAILED,
                                  "%s: layer %s of %s has N = %" PRId64 ", K = %" PRId64
                                  "; the checkpoint's has N = %" PRId64 ", K = %" PRId64,
                                  run->options.weights, want->name, file->name, want->n, want->k, have ? have->n : 0,
                                  have ? have->k : 0);
    }
    size_t kept = 0;
    for (size_t i = 0; i < own->layer_count; i++)
        for (size_t j = 0; j < file->layer_count; j++)
            if (strcmp(own->layers[i].name, file->layers[j].name) == 0)
                own->layers[kept++] = own->layers[i];
    own->layer_count = kept;
    memcpy(own->m, file->m, sizeof own->m);
    memcpy(own->weight, file->weight, sizeof own->weight);
    own->m_count = file->m_count;
    tern_str_copy(own->name, sizeof own->name, file->name);
    return TERN_OK;
}

/* Every row is decoded once before long work begins: a scale that is no binary16 is found here. */
static enum tern_status check_rows(const struct tern_model_layer *layer, const struct tern_format *format,
                                   struct tern_error *err) {
    enum tern_status status = TERN_OK;
    for (int64_t n = 0; n < layer->n && !status; n += CHECK_ROWS) {
        struct tern_weights weights;
        status = tern_model_weights(layer, format, n, layer->n - n < CHECK_ROWS ? layer->n - n : CHECK_ROWS, &weights, err);
        if (!status)
            tern_weights_free(&weights);
    }
    return status;
}

/* Identity of all layers together; rows of the database carry it. */
static enum tern_status identify(struct run *run, const struct tern_model *model, char *identity, size_t size,
                                 struct tern_error *err) {
    struct tern_shapes *s = &run->shapes;
    char all[TERN_HASH_CHARS];
    enum tern_status status = TERN_OK;
    struct tern_hash_state *state = tern_hash_new();
    for (size_t i = 0; i < s->layer_count && !status; i++) {
        const struct tern_model_layer *layer = tern_model_layer(model, s->layers[i].name);
        struct run_real_layer *real = &run->real[run->real_count++];
        tern_str_copy(real->name, sizeof real->name, layer->name);
        tern_model_layer_digest(layer, real->digest);
        tern_hash_add_text(state, real->name);
        tern_hash_add_text(state, real->digest);
        status = check_rows(layer, &s->formats[0], err);
    }
    tern_hash_end(state, all);
    tern_str_format(identity, size, "@%.*s", ID_DIGITS, all);
    return status;
}

/* A name for --shapes of other commands: letters, digits and what else a file's name usually has. */
static void name_shapes(struct tern_shapes *s) {
    size_t length = 0;
    for (const char *c = s->title; *c && length + 1 < sizeof s->name; c++)
        s->name[length++] = (char)(isalnum((unsigned char)*c) || strchr("._-", *c) ? tolower((unsigned char)*c) : '-');
    s->name[length] = '\0';
    if (length == 0)
        tern_str_copy(s->name, sizeof s->name, "model");
}

enum tern_status tern_run_weights(struct run *run, char *identity, size_t size, struct tern_error *err) {
    struct tern_model_file file;
    struct tern_shapes own;
    struct tern_strs notes = {0};
    enum tern_status status = tern_model_open(run->options.weights, false, &file, err);
    if (!status)
        status = tern_model_shapes(&file, &own, &notes, err);
    for (size_t i = 0; i < file.model.notes.count; i++)
        tern_log_warn(NULL, "%s", file.model.notes.items[i]);
    for (size_t i = 0; i < notes.count; i++)
        tern_log_warn(NULL, "%s", notes.items[i]);
    if (!status)
        status = choose_format(&run->options, &own, err);
    if (!status) {
        name_shapes(&own);
        keep_format(&file.model, &own);
        status = run->options.shapes ? match_shapes(run, &file.model, &own, err) : TERN_OK;
    }
    if (!status && own.layer_count == 0)
        status = tern_error_set(err, TERN_USAGE, "%s: no layer of %s is in %s", run->options.weights, run->options.shapes,
                                own.formats[0].name);
    if (!status) {
        run->shapes = own;
        status = identify(run, &file.model, identity, size, err);
    }
    tern_strs_free(&notes);
    tern_model_close(&file);
    return status;
}
