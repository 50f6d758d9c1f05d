/* Ways to write a quantised layer: the targets of `tune convert`. A target says whether it can hold a layer without loss, which
 * tensors it takes, and writes them block by block of rows. A target is one row of the table in target.c. */
#ifndef TERN_FORMATS_TARGET_H
#define TERN_FORMATS_TARGET_H

#include "formats/linear.h"
#include "formats/safetensors_write.h"

#define TERN_TARGET_TENSORS 5

struct tern_target;

/* A layer on its way: what it was, and what it becomes. */
struct tern_target_layer {
    const struct tern_linear *from;
    const struct tern_target *target;
    struct tern_new_file *file;
    size_t tensors[TERN_TARGET_TENSORS]; /* the target's own meaning; indices of file->tensors */
    int bits;
    int shift;               /* added to codes and zero points: they become those of a symmetric layer */
    int64_t group, groups;   /* along K, in the output */
    bool sym, act_order;     /* of the output */
    const char *scale_dtype; /* of the output: that of the file, F32 where a divisor became a factor */
};

/* Rows in the target's terms. */
struct tern_target_rows {
    int64_t first, count;
    const uint8_t *codes, *zeros; /* [count][K], [count][groups] */
    const float *scales;          /* [count][groups] */
};

struct tern_target {
    const char *name, *help;
    bool ternary; /* codes are 0, 1, 2 with zero point 1 */
    int zero_offset;
    bool planar;
    /* Fills bits, group, groups, sym; TERN_FAILED with the reason, if what is known of the layer already says that it does not fit. */
    enum tern_status (*check)(struct tern_target_layer *layer, struct tern_error *err);
    /* Adds the layer's tensors to its file. */
    void (*plan)(struct tern_target_layer *layer);
    /* Writes rows; `first` is a multiple of 32, and so is `count` but in the last block. */
    enum tern_status (*write)(const struct tern_target_layer *layer, const struct tern_target_rows *rows,
                              struct tern_error *err);
};

extern const struct tern_target tern_targets[];
extern const size_t tern_target_count;
/* TERN_USAGE with a "did you mean" if there is none of that name. */
enum tern_status tern_target_find(const char *name, const struct tern_target **target, struct tern_error *err);

/* "LAYER: ..." with TERN_FAILED, which is returned. */
enum tern_status tern_target_refuse(const struct tern_linear *layer, struct tern_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Checks what every target asks for, then what this one does. `layer->from` and `target` must be set. */
enum tern_status tern_target_check(struct tern_target_layer *layer, struct tern_error *err);
/* Decodes, recodes and writes all rows. `stopped` (may be NULL) ends it with TERN_FAILED. */
enum tern_status tern_target_write(const struct tern_target_layer *layer, bool (*stopped)(void), struct tern_error *err);

// ---- for targets ----------------------------------------------------------------------------------------------------------

/* Adds PREFIX.suffix as tensor `slot` of the layer; cols -1: one dimension. */
void tern_target_add(struct tern_target_layer *layer, int slot, const char *suffix, const char *dtype, int64_t rows,
                     int64_t cols);
/* Inverse of tern_unpack32. */
void tern_pack32(const uint8_t codes[32], int bits, bool planar, uint32_t *words);
/* Bytes of one scale, and the scale in the type of the output: exact, as it came from there. */
int64_t tern_target_scale_bytes(const struct tern_target_layer *layer);
void tern_target_put_scale(const struct tern_target_layer *layer, float scale, void *out);

/* target_packed.c, target_ternary.c */
enum tern_status tern_target_gptq_check(struct tern_target_layer *layer, struct tern_error *err);
void tern_target_gptq_plan(struct tern_target_layer *layer);
enum tern_status tern_target_gptq_write(const struct tern_target_layer *layer, const struct tern_target_rows *rows,
                                        struct tern_error *err);
enum tern_status tern_target_compressed_check(struct tern_target_layer *layer, struct tern_error *err);
void tern_target_compressed_plan(struct tern_target_layer *layer);
enum tern_status tern_target_compressed_write(const struct tern_target_layer *layer, const struct tern_target_rows *rows,
                                              struct tern_error *err);
enum tern_status tern_target_ternary_check(struct tern_target_layer *layer, struct tern_error *err);
void tern_target_ternary_plan(struct tern_target_layer *layer);
enum tern_status tern_target_ternary_write(const struct tern_target_layer *layer, const struct tern_target_rows *rows,
                                           struct tern_error *err);

#endif
