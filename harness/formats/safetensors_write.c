/* Writes safetensors files. The header is padded with blanks to a multiple of 8 and data lie in the order of the reference writer,
 * widest type first, then by name, so that every tensor is aligned to its element. */
#include "formats/safetensors_write.h"

#include "core/str.h"
#include "formats/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH_BYTES 8

size_t tern_new_file_add(struct tern_new_file *file, const char *name, const char *dtype, int dims, const int64_t *shape) {
    if (file->count == file->capacity) {
        file->capacity = file->capacity ? 2 * file->capacity : 64;
        file->tensors = tern_realloc(file->tensors, file->capacity * sizeof *file->tensors);
    }
    struct tern_new_tensor *t = &file->tensors[file->count];
    *t = (struct tern_new_tensor){.name = tern_strdup(name), .dims = dims};
    tern_str_copy(t->dtype, sizeof t->dtype, dtype);
    int64_t bits = tern_safetensors_dtype_bits(dtype);
    for (int i = 0; i < dims; i++) {
        t->shape[i] = shape[i];
        bits *= shape[i];
    }
    t->bytes = bits / 8;
    return file->count++;
}

static int by_width_and_name(const void *a, const void *b) {
    const struct tern_new_tensor *x = *(const struct tern_new_tensor *const *)a;
    const struct tern_new_tensor *y = *(const struct tern_new_tensor *const *)b;
    const int wide = tern_safetensors_dtype_bits(x->dtype), other = tern_safetensors_dtype_bits(y->dtype);
    return wide != other ? (wide < other ? 1 : -1) : strcmp(x->name, y->name);
}

/* The metadata of `like`, whose header its reader has checked; loaders want to find {"format": "pt"} in any case. */
static json_t *metadata_like(const struct tern_mapping *like) {
    json_t *metadata = NULL;
    uint64_t length = 0;
    if (like && like->bytes > LENGTH_BYTES)
        for (int i = 0; i < LENGTH_BYTES; i++)
            length |= (uint64_t)like->data[i] << (8 * i);
    if (length > 0 && length <= (uint64_t)(like->bytes - LENGTH_BYTES)) {
        json_t *header = json_loadb((const char *)like->data + LENGTH_BYTES, (size_t)length, 0, NULL);
        metadata = json_incref(json_object_get(header, "__metadata__"));
        json_decref(header);
    }
    if (!json_is_object(metadata)) {
        json_decref(metadata);
        metadata = json_object();
    }
    if (!json_object_get(metadata, "format"))
        json_object_set_new(metadata, "format", json_string("pt"));
    return metadata;
}

/* The header as JSON; offsets of the tensors then count from the start of the data. */
static enum tern_status make_header(struct tern_new_file *file, const struct tern_mapping *like, json_t *header,
                                    int64_t *data_bytes, struct tern_error *err) {
    struct tern_new_tensor **order = tern_alloc((file->count + 1) * sizeof(struct tern_new_tensor *));
    enum tern_status status = TERN_OK;
    int64_t at = 0;
    for (size_t i = 0; i < file->count; i++)
        order[i] = &file->tensors[i];
    qsort(order, file->count, sizeof *order, by_width_and_name);
    json_object_set_new(header, "__metadata__", metadata_like(like));
    for (size_t i = 0; i < file->count && !status; i++) {
        struct tern_new_tensor *t = order[i];
        json_t *shape = json_array();
        for (int d = 0; d < t->dims; d++)
            json_array_append_new(shape, json_integer(t->shape[d]));
        if (json_object_get(header, t->name)) {
            json_decref(shape);
            status = tern_error_set(err, TERN_FAILED, "%s: two tensors would be called '%s'", file->path, t->name);
            break;
        }
        t->offset = at;
        json_object_set_new(header, t->name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape, "data_offsets",
                                      (json_int_t)at, (json_int_t)(at + t->bytes)));
        at += t->bytes;
    }
    *data_bytes = at;
    free(order);
    return status;
}

static enum tern_status write_failed(const struct tern_new_file *file, struct tern_error *err) {
    const int code = errno;
    tern_error_set(err, TERN_INTERNAL, "cannot write %s: %s", file->path, strerror(code));
    if (code == ENOSPC || code == EDQUOT)
        tern_error_hint(err, "free some space, or name another place");
    return TERN_INTERNAL;
}

static enum tern_status write_at(const struct tern_new_file *file, int64_t at, const void *data, int64_t bytes,
                                 struct tern_error *err) {
    const char *from = data;
    while (bytes > 0) {
        ssize_t put = pwrite(file->fd, from, (size_t)bytes, at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return write_failed(file, err);
        from += put;
        at += put;
        bytes -= put;
    }
    return TERN_OK;
}

/* Room on the disk before long work; file systems that cannot reserve run out later, if they do. */
static enum tern_status reserve(const struct tern_new_file *file, int64_t bytes, struct tern_error *err) {
    if (fallocate(file->fd, 0, 0, bytes) == 0)
        return TERN_OK;
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR)
        return write_failed(file, err);
    return ftruncate(file->fd, bytes) == 0 ? TERN_OK : write_failed(file, err);
}

enum tern_status tern_new_file_create(struct tern_new_file *file, const char *path, const struct tern_mapping *like,
                                      struct tern_error *err) {
    struct tern_str text = {0};
    json_t *header = json_object();
    uint8_t length[LENGTH_BYTES];
    int64_t data_bytes = 0;
    file->path = tern_strdup(path);
    file->fd = -1;
    enum tern_status status = make_header(file, like, header, &data_bytes, err);
    char *json = status ? NULL : json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (!status && !json)
        status = tern_error_set(err, TERN_FAILED, "%s: a name of a tensor is not UTF-8", path);
    if (status)
        return status;
    tern_str_append(&text, json);
    free(json);
    while (text.length % 8)
        tern_str_append(&text, " ");
    for (int i = 0; i < LENGTH_BYTES; i++)
        length[i] = (uint8_t)((uint64_t)text.length >> (8 * i));
    const int64_t data_start = LENGTH_BYTES + (int64_t)text.length;
    for (size_t i = 0; i < file->count; i++)
        file->tensors[i].offset += data_start;
    file->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    status = file->fd < 0 ? write_failed(file, err) : reserve(file, data_start + data_bytes, err);
    if (!status)
        status = write_at(file, 0, length, LENGTH_BYTES, err);
    if (!status)
        status = write_at(file, LENGTH_BYTES, text.data, (int64_t)text.length, err);
    tern_str_free(&text);
    return status;
}

enum tern_status tern_new_file_write(const struct tern_new_file *file, size_t tensor, int64_t at, const void *data,
                                     int64_t bytes, struct tern_error *err) {
    const struct tern_new_tensor *t = &file->tensors[tensor];
    if (at < 0 || bytes < 0 || at > t->bytes - bytes)
        return tern_error_set(err, TERN_INTERNAL, "%s: tensor '%s': %" PRId64 " bytes at %" PRId64 " pass its end",
                              file->path, t->name, bytes, at);
    return write_at(file, t->offset + at, data, bytes, err);
}

enum tern_status tern_new_file_close(struct tern_new_file *file, struct tern_error *err) {
    enum tern_status status = fsync(file->fd) == 0 ? TERN_OK : write_failed(file, err);
    if (close(file->fd) != 0 && !status)
        status = write_failed(file, err);
    file->fd = -1;
    return status;
}

void tern_new_file_free(struct tern_new_file *file) {
    if (file->path && file->fd >= 0)
        close(file->fd);
    for (size_t i = 0; i < file->count; i++)
        free(file->tensors[i].name);
    free(file->tensors);
    free(file->path);
    *file = (struct tern_new_file){0};
}
