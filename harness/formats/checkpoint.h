/* Checkpoints: the tensors that a file or folder holds, mapped read-only, whatever container they lie in.
 * Knows names, types, shapes and bytes; what tensors mean together is the business of linear.h.
 * A file is untrusted: every length is checked against it before use, and an error names file, tensor and fact (TERN_FAILED). */
#ifndef TERN_FORMATS_CHECKPOINT_H
#define TERN_FORMATS_CHECKPOINT_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_quant_config;

struct tern_mapping {
    char *path;
    const uint8_t *data; /* NULL when the file is empty */
    int64_t bytes;
    bool mapped; /* of a file; false: memory of the program */
};

#define TERN_TENSOR_DIMS 8

struct tern_tensor {
    char *name;                      /* UTF-8 */
    char dtype[16];                  /* as the container calls it: I32, F16, BF16, TQ2_0 */
    int dims;                        /* 0: one element */
    int64_t shape[TERN_TENSOR_DIMS]; /* slowest first: W is [N, K] in every container, also where the file lists K first */
    const struct tern_mapping *file;
    int64_t offset, bytes; /* of the data in the file; no alignment may be assumed */
};

struct tern_checkpoint {
    char *path;
    const char *container;       /* name of the container: safetensors, ... */
    struct tern_mapping **files; /* one, or the shards */
    size_t file_count;
    struct tern_tensor *tensors; /* sorted by name, no name twice */
    size_t tensor_count, tensor_capacity;
    struct tern_quant_config *config; /* what JSON files beside the weights declare; NULL where there are none */
};

/* One kind of file. A container is one file pair and one row of the table in checkpoint.c. */
struct tern_container {
    const char *name;
    const char *suffix; /* of its files, with the dot */
    /* True if the first bytes can only be of this container; NULL where it has no mark, and the suffix decides. */
    bool (*recognise)(const uint8_t *data, int64_t bytes);
    /* Checks the whole of `file` and adds its tensors with tern_checkpoint_add. */
    enum tern_status (*read)(struct tern_checkpoint *checkpoint, const struct tern_mapping *file, struct tern_error *err);
};

/* Opens a file, or a folder: its *.safetensors.index.json with all shards, else model.safetensors, else its only file of a
 * known container. TERN_USAGE if there is nothing to open at `path`. The caller closes it, also after an error. */
enum tern_status tern_checkpoint_open(const char *path, struct tern_checkpoint *checkpoint, struct tern_error *err);
void tern_checkpoint_close(struct tern_checkpoint *checkpoint);

/* NULL if there is no tensor of that name. */
const struct tern_tensor *tern_checkpoint_find(const struct tern_checkpoint *checkpoint, const char *name);
static inline const uint8_t *tern_tensor_data(const struct tern_tensor *tensor) {
    return tensor->file->data + tensor->offset;
}
/* Gives the pages of a tensor back to the page cache, so that a walk over a file does not make all of it resident. The bytes stay
 * readable. */
void tern_tensor_forget(const struct tern_tensor *tensor);
/* "[3, 5]"; returns out. */
const char *tern_tensor_shape_text(const struct tern_tensor *tensor, char *out, size_t size);

/* "FILE: tensor 'NAME': ..." with status TERN_FAILED, which is returned. */
enum tern_status tern_tensor_error(const struct tern_tensor *tensor, struct tern_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For containers. Copies the tensor with its name; dims, shape and byte range must have been checked. */
void tern_checkpoint_add(struct tern_checkpoint *checkpoint, const struct tern_tensor *tensor);
/* For containers: product of dims times `unit_bits`, in bits; false if a dimension is negative or 2^63 is passed. */
bool tern_tensor_bits(const struct tern_tensor *tensor, int64_t unit_bits, int64_t *bits);

#endif
