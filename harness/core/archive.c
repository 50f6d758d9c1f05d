/* Archives of compiled kernels. Checks every number of a file before it follows it. See archive.h. */
#include "core/archive.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define MAGIC           "TERNKRN1"
#define HEADER_BYTES    16
#define INDEX_BYTES     88
#define NAME_BYTES      32
#define MAX_IMAGE_BYTES (UINT64_C(1) << 30)
#define LEVEL           19 /* packed once, loaded often */

static void put_number(struct tern_str *out, uint64_t value) {
    char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(value >> (8 * i));
    tern_str_append_bytes(out, bytes, sizeof bytes);
}

static uint64_t get_number(const unsigned char *at) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct tern_archive_image *)a)->name, ((const struct tern_archive_image *)b)->name);
}

/* One frame; zstd fails only without memory, as tern_alloc does. */
static void append_frame(struct tern_str *frames, const struct tern_archive_image *image) {
    size_t capacity = ZSTD_compressBound(image->bytes);
    char *frame = tern_alloc(capacity);
    size_t length = ZSTD_compress(frame, capacity, image->data, image->bytes, LEVEL);
    if (ZSTD_isError(length))
        abort();
    tern_str_append_bytes(frames, frame, length);
    free(frame);
}

void tern_archive_write(struct tern_archive_image *images, size_t count, struct tern_str *out) {
    struct tern_str frames = {0};
    const uint64_t first = HEADER_BYTES + (uint64_t)count * INDEX_BYTES;
    if (count)
        qsort(images, count, sizeof *images, by_name);
    tern_str_append_bytes(out, MAGIC, 8);
    put_number(out, count);
    for (size_t i = 0; i < count; i++) {
        char checksum[TERN_HASH_CHARS];
        size_t before = frames.length;
        tern_hash_bytes(images[i].data, images[i].bytes, checksum);
        append_frame(&frames, &images[i]);
        tern_str_append_bytes(out, images[i].name, NAME_BYTES);
        tern_str_append_bytes(out, checksum, NAME_BYTES);
        put_number(out, first + before);
        put_number(out, frames.length - before);
        put_number(out, images[i].bytes);
    }
    if (frames.length)
        tern_str_append_bytes(out, frames.data, frames.length);
    tern_str_free(&frames);
}

/* Unpacks the frame of one index entry; NULL with the reason. */
static void *unpack(const unsigned char *archive, uint64_t total, const unsigned char *entry, const char **reason) {
    const uint64_t offset = get_number(entry + 64), length = get_number(entry + 72), bytes = get_number(entry + 80);
    char checksum[TERN_HASH_CHARS];
    *reason = "its place is outside of the file";
    if (offset > total || length > total - offset || bytes > MAX_IMAGE_BYTES)
        return NULL;
    void *image = tern_alloc((size_t)bytes + 1);
    size_t got = ZSTD_decompress(image, (size_t)bytes, archive + offset, (size_t)length);
    *reason = "it does not decompress";
    if (!ZSTD_isError(got) && got == bytes) {
        tern_hash_bytes(image, got, checksum);
        *reason = "its checksum differs";
        if (memcmp(checksum, entry + NAME_BYTES, NAME_BYTES) == 0)
            return image;
    }
    free(image);
    return NULL;
}

enum tern_status tern_archive_read(const void *archive, size_t bytes, const char *name, void **image, size_t *image_bytes,
                                   bool *found, struct tern_error *err) {
    const unsigned char *at = archive;
    const char *reason = NULL;
    *image = NULL;
    *image_bytes = 0;
    *found = false;
    if (bytes < HEADER_BYTES || memcmp(at, MAGIC, 8) != 0)
        return tern_error_set(err, TERN_INTERNAL, "packed kernels: not an archive of kernels (%zu bytes)", bytes);
    uint64_t count = get_number(at + 8);
    if (count > (bytes - HEADER_BYTES) / INDEX_BYTES)
        return tern_error_set(err, TERN_INTERNAL, "packed kernels: cut short in the index, %zu bytes", bytes);
    for (uint64_t i = 0; i < count && strlen(name) <= NAME_BYTES; i++) {
        const unsigned char *entry = at + HEADER_BYTES + i * INDEX_BYTES;
        if (strncmp((const char *)entry, name, NAME_BYTES) != 0)
            continue;
        *image = unpack(archive, bytes, entry, &reason);
        *found = *image != NULL;
        *image_bytes = (size_t)get_number(entry + 80);
        return *found ? TERN_OK : tern_error_set(err, TERN_INTERNAL, "packed kernel %s is damaged: %s", name, reason);
    }
    return TERN_OK;
}
