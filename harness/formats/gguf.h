/* GGUF container, versions 2 and 3: parses header, key-values and tensor table of a byte range (usually a mapped file).
 * Trusts no number of the file: each count, length and offset is checked against the range before it is used, and what was
 * checked is all that callers see. Reads nothing of the tensor data; assumes no alignment of `data`.
 * Source: ggml/docs/gguf.md; sizes of blocks: ggml-common.h. */
#ifndef TERN_FORMATS_GGUF_H
#define TERN_FORMATS_GGUF_H

#include "formats/checkpoint.h"

#define TERN_GGUF_MAX_DIMS 4

/* Ids of ggml types that Tern decodes. */
enum { TERN_GGML_TQ1_0 = 34, TERN_GGML_TQ2_0 = 35, TERN_GGML_Q2_0 = 42 };

/* How ggml stores a type: blocks of `weights` neighbours along ne[0], `bytes` each. */
struct tern_ggml_type {
    uint32_t id;
    const char *name;
    uint32_t weights, bytes;
};

/* NULL for ids that ggml never had, has removed, or that only forks use. */
const struct tern_ggml_type *tern_ggml_type_find(uint32_t id);
/* What such an id may mean elsewhere, NULL where nothing is known. */
const char *tern_ggml_type_foreign(uint32_t id);

struct tern_gguf_tensor {
    char *name; /* valid UTF-8 without control characters; owned by the table */
    const struct tern_ggml_type *type;
    uint32_t dims;                  /* 0 to 4; 0 is a scalar */
    int64_t ne[TERN_GGUF_MAX_DIMS]; /* ne[0] is the innermost: K of a weight [N][K] is ne[0], N is ne[1]; 1 behind dims */
    uint64_t offset, bytes;         /* of the data, offset from the start of the range; offset + bytes <= size */
};

/* One key with its value where it lies in the range; value types are numbered as in the file. */
struct tern_gguf_key {
    const uint8_t *name;
    uint64_t name_length;
    uint32_t type; /* 0 u8, 1 i8, 2 u16, 3 i16, 4 u32, 5 i32, 6 f32, 7 bool, 8 string, 9 array, 10 u64, 11 i64, 12 f64 */
    const uint8_t *value; /* first byte of the value, all of it inside the range */
};

struct tern_gguf {
    uint32_t version;
    uint64_t alignment; /* of tensor data: general.alignment, 32 where the file does not say */
    struct tern_gguf_key *keys;
    size_t key_count;
    struct tern_gguf_tensor *tensors; /* in the order of the file */
    size_t tensor_count;
};

/* Parses data[0..size). The keys point into the range, which must outlive *gguf. Tensors must tile the data section in units
 * of the alignment: overlaps, holes and bytes behind the last one are errors, and so are duplicate names or keys, unknown
 * types, and rows that are no whole number of blocks. TERN_FAILED with one line that names the tensor or key and the fact (the
 * caller adds the file); then *gguf holds nothing. */
enum tern_status tern_gguf_parse(const uint8_t *data, uint64_t size, struct tern_gguf *gguf, struct tern_error *err);
void tern_gguf_free(struct tern_gguf *gguf);

/* Copies the string value of a key; false where the key is absent, is no string, or does not fit. */
bool tern_gguf_string(const struct tern_gguf *gguf, const char *key, char *out, size_t size);

/* The container. Its layers are tern_checkpoint_gguf of linear_parts.h. */
extern const struct tern_container tern_container_gguf;

#endif
