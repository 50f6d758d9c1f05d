/* GGUF container: one cursor over the bytes, every read checked; then the key and tensor tables checked as a whole.
 * Knows nothing of files, and nothing of what the blocks mean (ternary.c). */
#include "formats/gguf.h"

#include "core/str.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_U32 = 4, VALUE_BOOL = 7, VALUE_STRING = 8, VALUE_ARRAY = 9, VALUE_TYPES = 13 };

/* Bytes of a value of each type; 0 for string and array. */
static const uint8_t value_bytes[VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

#define MAX_KEY_BYTES       65535
#define MAX_NAME_BYTES      64
#define DEFAULT_ALIGNMENT   32
#define MAX_ALIGNMENT       (1u << 20)
#define KEY_BYTES_AT_LEAST  13 /* length, type and one byte of value */
#define INFO_BYTES_AT_LEAST 24 /* length, dims, type, offset */

// ---- cursor ---------------------------------------------------------------------------------------------------------------

struct cursor {
    const uint8_t *data;
    uint64_t size, at;
    const char *part; /* what is being read, for errors: "key" or "tensor" */
    uint64_t index;   /* which of them */
    struct tern_error *err;
};

static enum tern_status truncated(struct cursor *c, const char *what, uint64_t need) {
    return tern_error_set(c->err, TERN_FAILED,
                          "%s %" PRIu64 ": %s needs %" PRIu64 " bytes at offset %" PRIu64 ", but the file has %" PRIu64
                          " bytes",
                          c->part, c->index, what, need, c->at, c->size);
}

static enum tern_status take(struct cursor *c, const char *what, uint64_t bytes, const uint8_t **out) {
    if (bytes > c->size - c->at)
        return truncated(c, what, bytes);
    *out = c->data + c->at;
    c->at += bytes;
    return TERN_OK;
}

static uint64_t little_endian(const uint8_t *bytes, int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static enum tern_status take_u32(struct cursor *c, const char *what, uint32_t *out) {
    const uint8_t *bytes;
    enum tern_status status = take(c, what, 4, &bytes);
    if (status == TERN_OK)
        *out = (uint32_t)little_endian(bytes, 4);
    return status;
}

static enum tern_status take_u64(struct cursor *c, const char *what, uint64_t *out) {
    const uint8_t *bytes;
    enum tern_status status = take(c, what, 8, &bytes);
    if (status == TERN_OK)
        *out = little_endian(bytes, 8);
    return status;
}

static enum tern_status take_string(struct cursor *c, const char *what, const uint8_t **text, uint64_t *length) {
    enum tern_status status = take_u64(c, what, length);
    return status == TERN_OK ? take(c, what, *length, text) : status;
}

/* Bytes of the UTF-8 character at text, 0 if it is none or a control character (it could not be printed on one line). */
static uint64_t character_bytes(const uint8_t *text, uint64_t left) {
    static const uint32_t least[] = {0, 0x20, 0x80, 0x800, 0x10000};
    uint64_t count = text[0] < 0x80 ? 1 : text[0] >> 5 == 6 ? 2 : text[0] >> 4 == 14 ? 3 : text[0] >> 3 == 30 ? 4 : 0;
    if (count == 0 || count > left)
        return 0;
    uint32_t code = count == 1 ? text[0] : text[0] & (0x7Fu >> count);
    for (uint64_t i = 1; i < count; i++) {
        if (text[i] >> 6 != 2)
            return 0;
        code = code << 6 | (text[i] & 0x3F);
    }
    bool legal =
        code >= least[count] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF) && (code < 0x7F || code > 0x9F);
    return legal ? count : 0;
}

/* A key or tensor name: not empty, at most `max` bytes, printable UTF-8. */
static enum tern_status take_name(struct cursor *c, uint64_t max, const uint8_t **text, uint64_t *length) {
    enum tern_status status = take_string(c, "its name", text, length);
    if (status != TERN_OK)
        return status;
    if (*length == 0 || *length > max)
        return tern_error_set(c->err, TERN_FAILED,
                              "%s %" PRIu64 ": its name has %" PRIu64 " bytes, should have 1 to %" PRIu64, c->part, c->index,
                              *length, max);
    uint64_t count;
    for (uint64_t i = 0; i < *length; i += count) {
        count = character_bytes(*text + i, *length - i);
        if (count == 0)
            return tern_error_set(c->err, TERN_FAILED,
                                  "%s %" PRIu64 ": its name is not printable UTF-8 (byte 0x%02X at %" PRIu64 ")", c->part,
                                  c->index, (*text)[i], i);
    }
    return TERN_OK;
}

// ---- key-values -----------------------------------------------------------------------------------------------------------

static enum tern_status unknown_value(struct cursor *c, const char *what, uint32_t type) {
    return tern_error_set(c->err, TERN_FAILED, "key %" PRIu64 ": %s %" PRIu32 " is unknown (0 to 12 are known)", c->index,
                          what, type);
}

static enum tern_status skip_strings(struct cursor *c, uint64_t count) {
    enum tern_status status = TERN_OK;
    const uint8_t *text;
    uint64_t length;
    for (uint64_t i = 0; i < count && status == TERN_OK; i++)
        status = take_string(c, "a string of its array", &text, &length);
    return status;
}

static enum tern_status skip_array(struct cursor *c) {
    uint32_t type = 0;
    uint64_t count = 0;
    enum tern_status status = take_u32(c, "the type of its array", &type);
    if (status == TERN_OK)
        status = take_u64(c, "the length of its array", &count);
    if (status != TERN_OK)
        return status;
    if (type >= VALUE_TYPES)
        return unknown_value(c, "array type", type);
    if (type == VALUE_ARRAY)
        return tern_error_set(c->err, TERN_FAILED, "key %" PRIu64 ": an array of arrays, which no writer makes", c->index);
    uint64_t least = type == VALUE_STRING ? 8 : value_bytes[type];
    if (count > (c->size - c->at) / least)
        return tern_error_set(c->err, TERN_FAILED,
                              "key %" PRIu64 ": its array has %" PRIu64 " items of at least %" PRIu64 " bytes, but %" PRIu64
                              " bytes of the file are left",
                              c->index, count, least, c->size - c->at);
    if (type == VALUE_STRING)
        return skip_strings(c, count);
    c->at += count * least;
    return TERN_OK;
}

static enum tern_status skip_value(struct cursor *c, uint32_t type) {
    const uint8_t *bytes;
    uint64_t length;
    if (type >= VALUE_TYPES)
        return unknown_value(c, "value type", type);
    if (type == VALUE_STRING)
        return take_string(c, "its string", &bytes, &length);
    if (type == VALUE_ARRAY)
        return skip_array(c);
    enum tern_status status = take(c, "its value", value_bytes[type], &bytes);
    if (status == TERN_OK && type == VALUE_BOOL && bytes[0] > 1)
        return tern_error_set(c->err, TERN_FAILED, "key %" PRIu64 ": a bool of value %d, should be 0 or 1", c->index,
                              bytes[0]);
    return status;
}

static enum tern_status take_key(struct cursor *c, struct tern_gguf_key *key) {
    enum tern_status status = take_name(c, MAX_KEY_BYTES, &key->name, &key->name_length);
    if (status == TERN_OK)
        status = take_u32(c, "its value type", &key->type);
    if (status != TERN_OK)
        return status;
    key->value = c->data + c->at;
    return skip_value(c, key->type);
}

static int compare_keys(const void *a, const void *b) {
    const struct tern_gguf_key *x = a, *y = b;
    uint64_t shorter = x->name_length < y->name_length ? x->name_length : y->name_length;
    int order = memcmp(x->name, y->name, shorter);
    return order ? order : (x->name_length > y->name_length) - (x->name_length < y->name_length);
}

/* Keys are looked up by name only, so they are kept sorted. */
static enum tern_status take_keys(struct cursor *c, struct tern_gguf *gguf) {
    enum tern_status status = TERN_OK;
    c->part = "key";
    for (c->index = 0; c->index < gguf->key_count && status == TERN_OK; c->index++)
        status = take_key(c, &gguf->keys[c->index]);
    if (status != TERN_OK || gguf->key_count == 0)
        return status;
    qsort(gguf->keys, gguf->key_count, sizeof *gguf->keys, compare_keys);
    for (size_t i = 1; i < gguf->key_count; i++)
        if (compare_keys(&gguf->keys[i - 1], &gguf->keys[i]) == 0)
            return tern_error_set(c->err, TERN_FAILED, "duplicate key '%.*s'", (int)gguf->keys[i].name_length,
                                  (const char *)gguf->keys[i].name);
    return TERN_OK;
}

static const struct tern_gguf_key *find_key(const struct tern_gguf *gguf, const char *name) {
    struct tern_gguf_key wanted = {.name = (const uint8_t *)name, .name_length = strlen(name)};
    if (gguf->key_count == 0)
        return NULL;
    return bsearch(&wanted, gguf->keys, gguf->key_count, sizeof *gguf->keys, compare_keys);
}

bool tern_gguf_string(const struct tern_gguf *gguf, const char *key, char *out, size_t size) {
    const struct tern_gguf_key *found = find_key(gguf, key);
    if (!found || found->type != VALUE_STRING)
        return false;
    uint64_t length = little_endian(found->value, 8);
    if (length >= size)
        return false;
    memcpy(out, found->value + 8, length);
    out[length] = '\0';
    return true;
}

/* general.alignment: u32, a multiple of 8 (gguf.md); the upper bound keeps padding sums far from overflow. */
static enum tern_status read_alignment(struct tern_gguf *gguf, struct tern_error *err) {
    const struct tern_gguf_key *key = find_key(gguf, "general.alignment");
    gguf->alignment = DEFAULT_ALIGNMENT;
    if (!key)
        return TERN_OK;
    if (key->type != VALUE_U32)
        return tern_error_set(err, TERN_FAILED, "general.alignment has value type %" PRIu32 ", should be 4 (u32)",
                              key->type);
    gguf->alignment = little_endian(key->value, 4);
    if (gguf->alignment == 0 || gguf->alignment % 8 != 0 || gguf->alignment > MAX_ALIGNMENT)
        return tern_error_set(err, TERN_FAILED, "general.alignment is %" PRIu64 ", should be a multiple of 8 from 8 to %u",
                              gguf->alignment, MAX_ALIGNMENT);
    return TERN_OK;
}

// ---- tensors --------------------------------------------------------------------------------------------------------------

static enum tern_status unknown_type(const char *name, uint32_t id, struct tern_error *err) {
    const char *foreign = tern_ggml_type_foreign(id);
    return tern_error_set(err, TERN_FAILED, "tensor '%s': unknown ggml type %" PRIu32 "%s%s%s", name, id,
                          foreign ? " (" : "", foreign ? foreign : "", foreign ? ")" : "");
}

/* Bytes of the tensor from its shape, 64-bit all the way. */
static enum tern_status measure(struct tern_gguf_tensor *tensor, struct tern_error *err) {
    uint64_t weights = 1, blocks;
    if (tensor->ne[0] % tensor->type->weights != 0)
        return tern_error_set(err, TERN_FAILED,
                              "tensor '%s': rows of %" PRId64 " are no whole number of %s blocks of %" PRIu32, tensor->name,
                              tensor->ne[0], tensor->type->name, tensor->type->weights);
    for (uint32_t i = 0; i < tensor->dims; i++)
        if (__builtin_mul_overflow(weights, (uint64_t)tensor->ne[i], &weights))
            return tern_error_set(err, TERN_FAILED, "tensor '%s': its dimensions multiply to 2^64 or more", tensor->name);
    blocks = weights / tensor->type->weights;
    if (__builtin_mul_overflow(blocks, (uint64_t)tensor->type->bytes, &tensor->bytes))
        return tern_error_set(err, TERN_FAILED, "tensor '%s': its bytes come to 2^64 or more", tensor->name);
    return TERN_OK;
}

static enum tern_status take_dims(struct cursor *c, struct tern_gguf_tensor *tensor) {
    enum tern_status status = take_u32(c, "its number of dimensions", &tensor->dims);
    if (status == TERN_OK && tensor->dims > TERN_GGUF_MAX_DIMS)
        return tern_error_set(c->err, TERN_FAILED, "tensor '%s': %" PRIu32 " dimensions, at most %d are legal", tensor->name,
                              tensor->dims, TERN_GGUF_MAX_DIMS);
    for (uint32_t i = 0; i < TERN_GGUF_MAX_DIMS; i++)
        tensor->ne[i] = 1;
    for (uint32_t i = 0; i < tensor->dims && status == TERN_OK; i++) {
        uint64_t dim = 0;
        status = take_u64(c, "a dimension", &dim);
        if (status == TERN_OK && (dim == 0 || dim > INT64_MAX))
            return tern_error_set(c->err, TERN_FAILED, "tensor '%s': dimension %" PRIu32 " is %" PRIu64, tensor->name, i,
                                  dim);
        tensor->ne[i] = (int64_t)dim;
    }
    return status;
}

static enum tern_status take_tensor(struct cursor *c, struct tern_gguf_tensor *tensor) {
    const uint8_t *name;
    uint64_t length;
    uint32_t type = 0;
    enum tern_status status = take_name(c, MAX_NAME_BYTES, &name, &length);
    if (status != TERN_OK)
        return status;
    tensor->name = tern_alloc_zero(length + 1, 1);
    memcpy(tensor->name, name, length);
    status = take_dims(c, tensor);
    if (status == TERN_OK)
        status = take_u32(c, "its type", &type);
    if (status == TERN_OK)
        status = take_u64(c, "its offset", &tensor->offset);
    if (status != TERN_OK)
        return status;
    tensor->type = tern_ggml_type_find(type);
    return tensor->type ? measure(tensor, c->err) : unknown_type(tensor->name, type, c->err);
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(struct tern_gguf_tensor *const *)a)->name, (*(struct tern_gguf_tensor *const *)b)->name);
}

static int compare_offsets(const void *a, const void *b) {
    const struct tern_gguf_tensor *x = *(struct tern_gguf_tensor *const *)a, *y = *(struct tern_gguf_tensor *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static enum tern_status check_names(struct tern_gguf_tensor **sorted, size_t count, struct tern_error *err) {
    qsort(sorted, count, sizeof *sorted, compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            return tern_error_set(err, TERN_FAILED, "duplicate tensor '%s'", sorted[i]->name);
    return TERN_OK;
}

static uint64_t pad(uint64_t bytes, uint64_t alignment) {
    return (bytes + alignment - 1) / alignment * alignment;
}

/* A tensor must begin where the one before it ends, padded. Q2_0 also exists with blocks of 128 weights in 34 bytes under the
 * same id; then the next tensor begins just where those would end. */
static enum tern_status check_begin(const struct tern_gguf_tensor *before, const struct tern_gguf_tensor *tensor,
                                    uint64_t begin, uint64_t alignment, struct tern_error *err) {
    if (tensor->offset == begin)
        return TERN_OK;
    if (tensor->offset > begin)
        return tern_error_set(err, TERN_FAILED,
                              "tensor '%s': begins at offset %" PRIu64 " of the data, %" PRIu64
                              " bytes of no tensor before it",
                              tensor->name, tensor->offset, tensor->offset - begin);
    tern_error_set(err, TERN_FAILED,
                   "tensor '%s': begins at offset %" PRIu64 " of the data and overlaps '%s', which takes %" PRIu64
                   " bytes from %" PRIu64,
                   tensor->name, tensor->offset, before->name, before->bytes, before->offset);
    if (before->type->id == TERN_GGML_Q2_0 && before->offset + pad(before->bytes / 36 * 34, alignment) == tensor->offset)
        tern_error_hint(err, "'%s' seems to hold Q2_0 blocks of 128 weights (a fork's); Tern reads blocks of 64",
                        before->name);
    return TERN_FAILED;
}

/* Checks that the tensors, by offset, tile the data section that starts at `data_offset`; makes offsets absolute. */
static enum tern_status check_offsets(struct tern_gguf *gguf, struct tern_gguf_tensor **sorted, uint64_t data_offset,
                                      uint64_t size, struct tern_error *err) {
    uint64_t room = size > data_offset ? size - data_offset : 0, begin = 0;
    qsort(sorted, gguf->tensor_count, sizeof *sorted, compare_offsets);
    for (size_t i = 0; i < gguf->tensor_count; i++) {
        struct tern_gguf_tensor *tensor = sorted[i];
        if (tensor->offset % gguf->alignment != 0)
            return tern_error_set(err, TERN_FAILED,
                                  "tensor '%s': offset %" PRIu64 " is no multiple of the alignment %" PRIu64, tensor->name,
                                  tensor->offset, gguf->alignment);
        if (tensor->offset > room || tensor->bytes > room - tensor->offset)
            return tern_error_set(err, TERN_FAILED,
                                  "tensor '%s': %" PRIu64 " bytes at offset %" PRIu64
                                  " of the data, but the file has %" PRIu64 " bytes of data",
                                  tensor->name, tensor->bytes, tensor->offset, room);
        enum tern_status status = check_begin(i ? sorted[i - 1] : tensor, tensor, begin, gguf->alignment, err);
        if (status != TERN_OK)
            return status;
        begin = pad(tensor->offset + tensor->bytes, gguf->alignment);
    }
    if (room > begin)
        return tern_error_set(err, TERN_FAILED, "%" PRIu64 " bytes of no tensor behind the last one", room - begin);
    for (size_t i = 0; i < gguf->tensor_count; i++)
        gguf->tensors[i].offset += data_offset;
    return TERN_OK;
}

static enum tern_status take_tensors(struct cursor *c, struct tern_gguf *gguf) {
    enum tern_status status = TERN_OK;
    c->part = "tensor";
    for (c->index = 0; c->index < gguf->tensor_count && status == TERN_OK; c->index++)
        status = take_tensor(c, &gguf->tensors[c->index]);
    if (status != TERN_OK)
        return status;
    struct tern_gguf_tensor **sorted = tern_alloc((gguf->tensor_count + 1) * sizeof(struct tern_gguf_tensor *));
    for (size_t i = 0; i < gguf->tensor_count; i++)
        sorted[i] = &gguf->tensors[i];
    status = check_names(sorted, gguf->tensor_count, c->err);
    if (status == TERN_OK)
        status = check_offsets(gguf, sorted, pad(c->at, gguf->alignment), c->size, c->err);
    free(sorted);
    return status;
}

// ---- file -----------------------------------------------------------------------------------------------------------------

static enum tern_status check_version(uint32_t version, struct tern_error *err) {
    if (version == 2 || version == 3)
        return TERN_OK;
    uint32_t swapped = __builtin_bswap32(version);
    if (swapped > 0 && swapped <= 0xFFFF)
        return tern_error_set(err, TERN_FAILED,
                              "GGUF of a big-endian machine (version %" PRIu32 " in that byte order); only "
                              "little-endian files are read",
                              swapped);
    return tern_error_set(err, TERN_FAILED, "GGUF version %" PRIu32 ", only 2 and 3 are read", version);
}

/* A count may not exceed what the rest of the file could hold, so that tables are never larger than the file. */
static enum tern_status check_count(struct cursor *c, const char *what, uint64_t count, uint64_t least) {
    if (count <= (c->size - c->at) / least)
        return TERN_OK;
    return tern_error_set(c->err, TERN_FAILED,
                          "%" PRIu64 " %s of at least %" PRIu64 " bytes each, but the file has %" PRIu64 " bytes", count,
                          what, least, c->size);
}

static enum tern_status take_header(struct cursor *c, struct tern_gguf *gguf) {
    const uint8_t *magic;
    uint64_t tensors = 0, keys = 0;
    c->part = "header";
    enum tern_status status = take(c, "the magic", 4, &magic);
    if (status != TERN_OK)
        return status;
    if (memcmp(magic, "GGUF", 4) != 0)
        return tern_error_set(c->err, TERN_FAILED, "no GGUF: begins with %02X %02X %02X %02X, should be 47 47 55 46",
                              magic[0], magic[1], magic[2], magic[3]);
    if ((status = take_u32(c, "the version", &gguf->version)) != TERN_OK ||
        (status = check_version(gguf->version, c->err)) != TERN_OK ||
        (status = take_u64(c, "the number of tensors", &tensors)) != TERN_OK ||
        (status = take_u64(c, "the number of keys", &keys)) != TERN_OK ||
        (status = check_count(c, "tensors", tensors, INFO_BYTES_AT_LEAST)) != TERN_OK ||
        (status = check_count(c, "keys", keys, KEY_BYTES_AT_LEAST)) != TERN_OK)
        return status;
    gguf->key_count = (size_t)keys;
    gguf->tensor_count = (size_t)tensors;
    gguf->keys = tern_alloc_zero(gguf->key_count + 1, sizeof *gguf->keys);
    gguf->tensors = tern_alloc_zero(gguf->tensor_count + 1, sizeof *gguf->tensors);
    return TERN_OK;
}

enum tern_status tern_gguf_parse(const uint8_t *data, uint64_t size, struct tern_gguf *gguf, struct tern_error *err) {
    struct cursor c = {.data = data, .size = size, .err = err};
    memset(gguf, 0, sizeof *gguf);
    enum tern_status status = take_header(&c, gguf);
    if (status == TERN_OK)
        status = take_keys(&c, gguf);
    if (status == TERN_OK)
        status = read_alignment(gguf, err);
    if (status == TERN_OK)
        status = take_tensors(&c, gguf);
    if (status != TERN_OK)
        tern_gguf_free(gguf);
    return status;
}

void tern_gguf_free(struct tern_gguf *gguf) {
    for (size_t i = 0; i < gguf->tensor_count; i++)
        free(gguf->tensors[i].name);
    free(gguf->tensors);
    free(gguf->keys);
    memset(gguf, 0, sizeof *gguf);
}
