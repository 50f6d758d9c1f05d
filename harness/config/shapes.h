/* Shapes of a model's linear layers: configs/shapes/NAME.lua. */
#ifndef TERN_CONFIG_SHAPES_H
#define TERN_CONFIG_SHAPES_H

#include "core/error.h"
#include "core/str.h"
#include "formats/format.h"

#include <stdint.h>

#define TERN_MAX_LAYERS 64
#define TERN_MAX_M      64

struct tern_layer {
    char name[32]; /* qkv, o, gate_up, down, ... */
    int64_t n, k;
    int64_t count; /* occurrences in the model */
};

struct tern_shapes {
    char name[32];  /* file name without .lua */
    char title[64]; /* "Qwen2.5-7B" */
    char source[256];
    struct tern_layer layers[TERN_MAX_LAYERS];
    size_t layer_count;
    int64_t m[TERN_MAX_M]; /* ascending, decode then prefill, M >= 1 */
    size_t m_count;
    double weight
        [TERN_MAX_M]; /* `mix`: share of each M in the model's time; default decode (M <= 64) and prefill half each, even inside */
    struct tern_format formats[16]; /* default formats to tune */
    size_t format_count;
};

enum tern_status tern_shapes_load(const char *name, struct tern_shapes *shapes, struct tern_error *err);
enum tern_status tern_shapes_names(struct tern_strs *names, struct tern_error *err);

#endif
