/* Quantised linear layers found in a checkpoint, decoded by blocks of rows into one canonical form.
 * W[n][k] = scales[n][g] * (codes[n][k] - zeros[n][g]), g = group index of k. */
#ifndef TERN_FORMATS_LINEAR_H
#define TERN_FORMATS_LINEAR_H

#include "core/str.h"
#include "formats/checkpoint.h"

#define TERN_LINEAR_PARTS 4
#define TERN_LINEAR_FUSED 3

struct tern_checkpoint_format;

struct tern_linear {
    char *name;                                  /* module name in the checkpoint: model.layers.0.mlp.up_proj */
    const struct tern_checkpoint_format *family; /* how to decode it */
    const char *checkpoint_format;               /* gptq (v1), gptq_v2, ... */
    char why[160];                               /* what made it that format */
    bool ternary;                                /* every code but 0, 1 and 2 is an error */
    int64_t n, k;                                /* out_features, in_features; 0 if unknown */
    int bits;
    int64_t group, groups;   /* k that share a scale (K for one group); groups along K, the last one may be short */
    bool sym, act_order;     /* sym: one zero point for the layer; act_order: the group index is not k / group */
    bool one_scale;          /* the same scale for all of W */
    const char *scale_dtype; /* of the file: F16, BF16, F32 */
    int zero;                /* sym: the zero point as an unsigned code */
    int zero_offset;         /* stored zero point + zero_offset, modulo 2^bits, is the zero point (1 in GPTQ v1) */
    bool planar;             /* codes lie in bit planes, not one after the other */
    bool dense;              /* compressed-tensors of 3 bits: codes run on across words, no bit is unused */
    int64_t fused_rows[TERN_LINEAR_FUSED]; /* bitnet-gpu: rows of each part, which has a scale of its own; else 0 */
    const struct tern_tensor *parts[TERN_LINEAR_PARTS]; /* the family's own meaning */
    const struct tern_tensor *g_idx;                    /* I32 [K], in [0, groups): checked; NULL: k / group */
    const char *odd;                                    /* what tern_linear_rows.odd counts; NULL: nothing */
    char error[512];                                    /* why it cannot be decoded; empty if it can */
    struct tern_strs warnings;                          /* what the files declare against what the bits say */
};

/* Rows [first, first + count) of a layer; buffers of tern_linear_rows_alloc. */
struct tern_linear_rows {
    int64_t first, count, capacity;
    uint8_t *codes; /* [count][K] */
    float *scales;  /* [count][groups]: the exact value of the file's bits */
    uint8_t *zeros; /* [count][groups] */
    int64_t odd;    /* bits that have a meaning and should not occur, in these rows; the layer says what they are */
};

/* A way to store quantised layers. A family is one file and one row of the table in linear.c. */
struct tern_checkpoint_format {
    const char *name;
    /* If `tensor` is the one that marks a layer of this family (.qweight, ...), fills the layer and says so. A layer that is
     * broken is found too: status TERN_FAILED with the fact in err, and what is known of it filled in. */
    bool (*find)(const struct tern_checkpoint *checkpoint, const struct tern_tensor *tensor, struct tern_linear *layer,
                 enum tern_status *status, struct tern_error *err);
    /* Decodes rows->first .. first + count of a layer that was found without error. Cannot fail. */
    void (*decode)(const struct tern_linear *layer, struct tern_linear_rows *rows);
    bool scattered; /* the words of a row lie apart, so that every block of rows touches every page */
};

struct tern_linears {
    struct tern_linear *items; /* in the order of their names */
    size_t count;
};

/* All quantised layers of a checkpoint; broken ones have `error` set. The checkpoint must outlive the list. */
void tern_linears_find(const struct tern_checkpoint *checkpoint, struct tern_linears *layers);
void tern_linears_free(struct tern_linears *layers);

/* Buffers for up to `capacity` rows of a layer; the caller frees them. */
void tern_linear_rows_alloc(const struct tern_linear *layer, int64_t capacity, struct tern_linear_rows *rows);
void tern_linear_rows_free(struct tern_linear_rows *rows);
/* Rows of one block such that it stays in a core's cache, about 1 MiB (3 MiB where its words lie apart): at least 1, at
 * most N. */
int64_t tern_linear_block_rows(const struct tern_linear *layer);
/* Decodes rows [n0, n1); n1 - n0 must not pass the capacity, layer->error must be empty. */
void tern_linear_decode(const struct tern_linear *layer, int64_t n0, int64_t n1, struct tern_linear_rows *rows);
/* Gives the pages of a layer's tensors back to the page cache. */
void tern_linear_forget(const struct tern_linear *layer);
/* The same while rows below `n` were decoded in blocks of `block`: now and then, and not where the next block needs the pages. */
void tern_linear_forget_behind(const struct tern_linear *layer, int64_t n, int64_t block);
/* Group of each k, [K]. */
void tern_linear_group_index(const struct tern_linear *layer, int32_t *index);

#endif
