/* safetensors: the container of 8-byte length, JSON header and data; and the index that spreads a model over several files. */
#ifndef TERN_FORMATS_SAFETENSORS_H
#define TERN_FORMATS_SAFETENSORS_H

#include "core/str.h"
#include "formats/checkpoint.h"

/* Its reader refuses what the reference reader refuses, and duplicate keys. */
extern const struct tern_container tern_container_safetensors;

/* Bits of one element; 0 if the container has no such type. */
int tern_safetensors_dtype_bits(const char *dtype);

/* Which file holds which tensor. */
struct tern_safetensors_index {
    char *path;
    void *weight_map; /* JSON object: tensor name to file name */
};

/* Reads an index; `files` gets the name of each file once, sorted. Names with a folder in them are refused. */
enum tern_status tern_safetensors_index_read(const char *path, struct tern_safetensors_index *index, struct tern_strs *files,
                                             struct tern_error *err);
/* Checks that each listed tensor is in its file, and drops from the checkpoint the ones that the index places elsewhere or does
 * not list. For use before the tensors are sorted. */
enum tern_status tern_safetensors_index_apply(const struct tern_safetensors_index *index, struct tern_checkpoint *checkpoint,
                                              struct tern_error *err);
void tern_safetensors_index_free(struct tern_safetensors_index *index);

#endif
