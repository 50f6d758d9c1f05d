/* Reads safetensors headers. Refuses what the reference reader refuses, in its order, and names the tensor and the numbers.
 * Data may lie at any alignment: nothing here or above may cast a pointer into it. */
#include "formats/safetensors.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES     8
#define MAX_HEADER_BYTES 100000000

static const struct {
    const char *name;
    int bits;
} dtypes[] = {
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
};

int tern_safetensors_dtype_bits(const char *dtype) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, dtype) == 0)
            return dtypes[i].bits;
    return 0;
}

/* A length, offset or dimension: an integer of at most 63 bits and no sign. Booleans, reals and text are none. */
static bool read_size(const json_t *value, int64_t *size) {
    *size = json_integer_value(value);
    return json_is_integer(value) && *size >= 0;
}

static enum tern_status read_shape(const json_t *shape, struct tern_tensor *tensor, struct tern_error *err) {
    if (!json_is_array(shape))
        return tern_tensor_error(tensor, err, "no shape");
    if (json_array_size(shape) > TERN_TENSOR_DIMS)
        return tern_tensor_error(tensor, err, "%zu dimensions, at most %d", json_array_size(shape), TERN_TENSOR_DIMS);
    tensor->dims = (int)json_array_size(shape);
    for (int i = 0; i < tensor->dims; i++)
        if (!read_size(json_array_get(shape, (size_t)i), &tensor->shape[i]))
            return tern_tensor_error(tensor, err, "dimension %d is not an integer from 0 to 2^63 - 1", i);
    return TERN_OK;
}

/* Bits of one element of the tensor's type. */
static enum tern_status read_dtype(const json_t *dtype, struct tern_tensor *tensor, int *bits, struct tern_error *err) {
    if (!json_is_string(dtype))
        return tern_tensor_error(tensor, err, "no dtype");
    *bits = tern_safetensors_dtype_bits(json_string_value(dtype));
    if (*bits == 0)
        return tern_tensor_error(tensor, err, "unknown dtype '%.40s'", json_string_value(dtype));
    tern_str_copy(tensor->dtype, sizeof tensor->dtype, json_string_value(dtype));
    return TERN_OK;
}

/* One entry of the header. `offset` of the result still counts from the start of the data. */
static enum tern_status read_entry(const struct tern_mapping *file, const char *name, const json_t *entry,
                                   struct tern_tensor *tensor, struct tern_error *err) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    int64_t end, bits;
    int unit = 0;
    *tensor = (struct tern_tensor){.name = (char *)name, .file = file};
    if (!json_is_object(entry))
        return tern_tensor_error(tensor, err, "its header entry is not an object");
    enum tern_status status = read_dtype(json_object_get(entry, "dtype"), tensor, &unit, err);
    if (!status)
        status = read_shape(json_object_get(entry, "shape"), tensor, err);
    if (status)
        return status;
    if (json_array_size(offsets) != 2 || !read_size(json_array_get(offsets, 0), &tensor->offset) ||
        !read_size(json_array_get(offsets, 1), &end))
        return tern_tensor_error(tensor, err, "data_offsets are not two integers from 0 to 2^63 - 1");
    if (end < tensor->offset)
        return tern_tensor_error(tensor, err, "data ends at %" PRId64 ", before it begins at %" PRId64, end, tensor->offset);
    char shape[200];
    tern_tensor_shape_text(tensor, shape, sizeof shape);
    if (!tern_tensor_bits(tensor, unit, &bits))
        return tern_tensor_error(tensor, err, "shape %s of %s passes 2^63 bits", shape, tensor->dtype);
    if (bits % 8 != 0)
        return tern_tensor_error(tensor, err, "shape %s of %s is no whole number of bytes", shape, tensor->dtype);
    tensor->bytes = end - tensor->offset;
    if (tensor->bytes != bits / 8)
        return tern_tensor_error(tensor, err, "shape %s of %s takes %" PRId64 " bytes, data_offsets hold %" PRId64, shape,
                                 tensor->dtype, bits / 8, tensor->bytes);
    return TERN_OK;
}

static int by_offset(const void *a, const void *b) {
    const struct tern_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Sorted by offset, the tensors must cover the data without a hole or an overlap, from its first byte to its last. */
static enum tern_status check_cover(const struct tern_mapping *file, const struct tern_tensor *tensors, size_t count,
                                    int64_t data_bytes, struct tern_error *err) {
    int64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const struct tern_tensor *t = &tensors[i];
        if (t->offset > end)
            return tern_tensor_error(t, err, "a hole: data begins at %" PRId64 ", the data before ends at %" PRId64,
                                     t->offset, end);
        if (t->offset < end)
            return tern_tensor_error(t, err,
                                     "overlaps '%.100s': data begins at %" PRId64 ", the data before ends at %" PRId64,
                                     tensors[i - 1].name, t->offset, end);
        end = t->offset + t->bytes; /* both from one pair of 63-bit numbers: no overflow */
    }
    if (end > data_bytes)
        return tern_tensor_error(&tensors[count - 1], err,
                                 "data ends at %" PRId64 ", the file holds %" PRId64 " bytes of data: truncated", end,
                                 data_bytes);
    if (end < data_bytes)
        return tern_error_set(err, TERN_FAILED, "%s: %" PRId64 " bytes behind the last tensor", file->path,
                              data_bytes - end);
    return TERN_OK;
}

static enum tern_status check_metadata(const struct tern_mapping *file, const json_t *metadata, struct tern_error *err) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return tern_error_set(err, TERN_FAILED, "%s: __metadata__ is not an object", file->path);
    json_object_foreach((json_t *)metadata, key, value) if (!json_is_string(value)) return tern_error_set(
        err, TERN_FAILED, "%s: __metadata__ '%s' is not text", file->path, key);
    return TERN_OK;
}

/* Length, limits and JSON of the header; *header is a new reference. */
static enum tern_status load_header(const struct tern_mapping *file, json_t **header, int64_t *data_start,
                                    struct tern_error *err) {
    uint64_t length = 0;
    json_error_t where;
    if (file->bytes < LENGTH_BYTES)
        return tern_error_set(err, TERN_FAILED, "%s: %" PRId64 " bytes, too few for a header length", file->path,
                              file->bytes);
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)file->data[i] << (8 * i);
    if (length > MAX_HEADER_BYTES)
        return tern_error_set(err, TERN_FAILED, "%s: header of %" PRIu64 " bytes, at most %d", file->path, length,
                              MAX_HEADER_BYTES);
    if ((int64_t)length > file->bytes - LENGTH_BYTES)
        return tern_error_set(err, TERN_FAILED, "%s: header of %" PRIu64 " bytes in a file of %" PRId64 ": truncated",
                              file->path, length, file->bytes);
    *data_start = LENGTH_BYTES + (int64_t)length;
    *header = json_loadb((const char *)file->data + LENGTH_BYTES, (size_t)length, JSON_REJECT_DUPLICATES, &where);
    if (!*header) {
        bool utf8 = json_error_code(&where) != json_error_invalid_utf8;
        return tern_error_set(err, TERN_FAILED, "%s: header is not %s, byte %d: %s", file->path,
                              utf8 ? "right JSON" : "UTF-8", LENGTH_BYTES + where.position, where.text);
    }
    if (!json_is_object(*header))
        return tern_error_set(err, TERN_FAILED, "%s: header is not a JSON object", file->path);
    return TERN_OK;
}

static enum tern_status read_header(struct tern_checkpoint *checkpoint, const struct tern_mapping *file,
                                    struct tern_error *err) {
    json_t *header = NULL, *entry;
    struct tern_tensor *tensors = NULL;
    const char *name;
    size_t count = 0;
    int64_t data_start = 0;
    enum tern_status status = load_header(file, &header, &data_start, err);
    if (status)
        goto out;
    tensors = tern_alloc((json_object_size(header) + 1) * sizeof *tensors);
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0)
            status = check_metadata(file, entry, err);
        else
            status = read_entry(file, name, entry, &tensors[count++], err);
        if (status)
            goto out;
    }
    qsort(tensors, count, sizeof *tensors, by_offset);
    status = check_cover(file, tensors, count, file->bytes - data_start, err);
    for (size_t i = 0; !status && i < count; i++) {
        tensors[i].offset += data_start;
        tern_checkpoint_add(checkpoint, &tensors[i]);
    }
out:
    free(tensors);
    json_decref(header);
    return status;
}

const struct tern_container tern_container_safetensors = {"safetensors", ".safetensors", NULL, read_header};

/* ---- index ------------------------------------------------------------------------------------------------------------------ */

/* Sorts, and drops what comes again. */
static void make_unique(struct tern_strs *list) {
    size_t kept = 0;
    tern_strs_sort(list);
    for (size_t i = 0; i < list->count; i++) {
        if (kept && strcmp(list->items[kept - 1], list->items[i]) == 0)
            free(list->items[i]);
        else
            list->items[kept++] = list->items[i];
    }
    list->count = kept;
}

enum tern_status tern_safetensors_index_read(const char *path, struct tern_safetensors_index *index, struct tern_strs *files,
                                             struct tern_error *err) {
    json_error_t where;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where), *file;
    json_t *map = json_object_get(root, "weight_map");
    const char *name;
    enum tern_status status = TERN_OK;
    if (!root)
        status = tern_error_set(err, TERN_FAILED, "%s: line %d: %s", path, where.line, where.text);
    else if (!json_is_object(map) || json_object_size(map) == 0)
        status = tern_error_set(err, TERN_FAILED, "%s: weight_map names no tensor", path);
    json_object_foreach(map, name, file) {
        const char *text = json_string_value(file);
        if (!text || !text[0] || strchr(text, '/')) {
            status = tern_error_set(err, TERN_FAILED, "%s: tensor '%s': its file '%s' is not a plain file name", path, name,
                                    text ? text : "");
            break;
        }
        tern_strs_add(files, text);
    }
    make_unique(files);
    if (!status) {
        index->path = tern_strdup(path);
        index->weight_map = json_incref(map);
    }
    json_decref(root);
    return status;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Names that are kept are counted against the map: what is missing then is looked up by name, for the message. */
enum tern_status tern_safetensors_index_apply(const struct tern_safetensors_index *index, struct tern_checkpoint *checkpoint,
                                              struct tern_error *err) {
    json_t *found = json_object(), *file;
    const char *name;
    size_t kept = 0;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        struct tern_tensor *t = &checkpoint->tensors[i];
        const char *listed = json_string_value(json_object_get(index->weight_map, t->name));
        if (listed && strcmp(listed, base_name(t->file->path)) == 0) {
            json_object_set_new(found, t->name, json_true());
            checkpoint->tensors[kept++] = *t;
        } else {
            free(t->name);
        }
    }
    checkpoint->tensor_count = kept;
    json_object_foreach(index->weight_map, name, file) {
        if (!json_object_get(found, name)) {
            status = tern_error_set(err, TERN_FAILED, "%s: tensor '%s' is not in %s, which the index names", index->path,
                                    name, json_string_value(file));
            break;
        }
    }
    json_decref(found);
    return status;
}

void tern_safetensors_index_free(struct tern_safetensors_index *index) {
    json_decref(index->weight_map);
    free(index->path);
    *index = (struct tern_safetensors_index){0};
}
