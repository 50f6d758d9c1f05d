/* What the bits of a layer are, counted: codes, scales, and what a configuration cannot know. */
#ifndef TERN_FORMATS_CENSUS_H
#define TERN_FORMATS_CENSUS_H

#include "formats/linear.h"

struct tern_census {
    int64_t codes[256]; /* weights by code */
    struct {
        int64_t count, zero, nan, inf, negative, denormal; /* denormal in the type of the file */
        float min, max;                                    /* over finite ones; NaN if there is none */
    } scales;
    struct {
        int64_t count, n, k; /* how many, and where the first is */
        int code;
    } illegal;    /* codes other than 0, 1, 2 in a format that has no others */
    int64_t odd;  /* what layer->odd says */
    bool ternary; /* every weight is -1, 0 or 1 times its scale */
};

enum tern_layer_status { TERN_LAYER_OK, TERN_LAYER_SUSPECT, TERN_LAYER_ERROR };
const char *tern_layer_status_name(enum tern_layer_status status);

/* Counts block by block: begin, then each block of rows; `index` is the group of each k. */
void tern_census_begin(struct tern_census *census);
void tern_census_rows(const struct tern_linear *layer, const struct tern_linear_rows *rows, const int32_t *index,
                      struct tern_census *census);
/* Decodes and counts every layer that can be decoded, on all cores; results[i] belongs to layers->items[i] and is all zero for
 * a broken one. Memory: up to 4 MiB a thread; pages of the file are given back behind. */
void tern_census_take(const struct tern_linears *layers, struct tern_census *results);

/* Error: the layer cannot be decoded, codes are illegal, or scales are NaN or Inf. Suspect: it has warnings, or bits that should
 * not occur. `detail` gets the facts. */
enum tern_layer_status tern_census_judge(const struct tern_linear *layer, const struct tern_census *census,
                                         struct tern_str *detail);

#endif
