/* Writes a safetensors file whose tensors are known before their bytes are: the header first, then data in any order.
 * Owns the open file. Knows nothing of what the tensors mean; who calls it renames the finished file or its folder into place. */
#ifndef TERN_FORMATS_SAFETENSORS_WRITE_H
#define TERN_FORMATS_SAFETENSORS_WRITE_H

#include "formats/checkpoint.h"

struct tern_new_tensor {
    char *name;
    char dtype[16];
    int dims;
    int64_t shape[TERN_TENSOR_DIMS];
    int64_t offset, bytes; /* in the file; offset once it is created */
};

struct tern_new_file {
    char *path;
    int fd; /* -1: not open */
    struct tern_new_tensor *tensors;
    size_t count, capacity;
};

/* Adds a tensor and returns its index, which stays. The dtype must be one of the container's. */
size_t tern_new_file_add(struct tern_new_file *file, const char *name, const char *dtype, int dims, const int64_t *shape);

/* Creates `path`, writes the header and reserves room for all data, which is zero until written. `like` (NULL: none) is a file
 * whose __metadata__ is carried over. TERN_FAILED if a name comes twice; TERN_INTERNAL if there is no room. */
enum tern_status tern_new_file_create(struct tern_new_file *file, const char *path, const struct tern_mapping *like,
                                      struct tern_error *err);
/* Writes bytes [at, at + bytes) of a tensor's data. */
enum tern_status tern_new_file_write(const struct tern_new_file *file, size_t tensor, int64_t at, const void *data,
                                     int64_t bytes, struct tern_error *err);
/* Syncs and closes. */
enum tern_status tern_new_file_close(struct tern_new_file *file, struct tern_error *err);
/* Closes what is open and frees all; removes nothing. */
void tern_new_file_free(struct tern_new_file *file);

#endif
