/* The linear layers of a model as an engine runs them: q, k, v of a block fused into one, gate and up into one; equal ones of all blocks
 * counted. Finds them by the names of modules, and holds them against config.json. */
#ifndef TERN_FORMATS_MODEL_H
#define TERN_FORMATS_MODEL_H

#include "formats/linear.h"
#include "formats/weights.h"

#define TERN_MODEL_PARTS 3

struct tern_model_layer {
    char name[32]; /* qkv, o, gate_up, down; else the last word of the module's name */
    int64_t n, k, count;
    char format[48];                                   /* canonical name; with -actorder, which no kernel serves */
    const struct tern_linear *parts[TERN_MODEL_PARTS]; /* of the first one, in the order of its rows */
    size_t part_count;
};

struct tern_model {
    struct tern_model_layer *layers; /* attention, then feed-forward, then others */
    size_t count;
    char title[64];         /* for people: what config.json or the folder calls it */
    char source[256];       /* what was read */
    struct tern_strs notes; /* what a user should know and contradicts nothing */
};

/* The canonical name of a layer's format (docs/formats.md). */
void tern_linear_format_name(const struct tern_linear *layer, char *out, size_t size);

/* Groups the layers of a checkpoint. TERN_FAILED: parts that belong together differ, or config.json gives other sizes than the
 * tensors (`trust_tensors`: a note instead), or a layer is broken. Layers and checkpoint must outlive the model. */
enum tern_status tern_model_find(const struct tern_checkpoint *checkpoint, const struct tern_linears *layers,
                                 bool trust_tensors, struct tern_model *model, struct tern_error *err);
void tern_model_free(struct tern_model *model);

/* A model with the checkpoint that it was found in. */
struct tern_model_file {
    struct tern_checkpoint checkpoint;
    struct tern_linears layers;
    struct tern_model model;
};
/* Opens a file or folder and finds its model; the caller closes it, also after an error. */
enum tern_status tern_model_open(const char *path, bool trust_tensors, struct tern_model_file *file, struct tern_error *err);
void tern_model_close(struct tern_model_file *file);
/* NULL if the model has no such layer. */
const struct tern_model_layer *tern_model_layer(const struct tern_model *model, const char *name);

/* Rows [first, first + rows) of a layer as canonical weights, decoded and fused; the caller frees them. `format` must be the layer's.
 * TERN_FAILED: act-order, a code that the format lacks, or a scale that is no binary16, which is what kernels read. */
enum tern_status tern_model_weights(const struct tern_model_layer *layer, const struct tern_format *format, int64_t first,
                                    int64_t rows, struct tern_weights *weights, struct tern_error *err);
/* Identity of the layer's bits: names, shapes and bytes of its tensors. */
void tern_model_layer_digest(const struct tern_model_layer *layer, char out[33]);

/* model_config.c: the sizes that config.json declares against those of the layers. No config.json: nothing to hold against. */
enum tern_status tern_model_check_config(const char *path, bool trust_tensors, struct tern_model *model,
                                         struct tern_error *err);

#endif
