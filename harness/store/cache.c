/* Cubin cache: one zstd frame a file, named by the hash of the raw image, which is checked on every read.
 * Owns files below its folder. Must not know what an image is. */
#include "store/cache.h"

#include "core/file.h"
#include "core/log.h"
#include "core/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#define LEVEL           3            /* a cubin shrinks to about a third; higher levels gain little */
#define MAX_IMAGE_BYTES (1ULL << 30) /* a frame that claims more is damaged */

struct tern_cache {
    char *dir;
};

/* The folder must take files: a run that cannot keep its builds should end before compiling. */
enum tern_status tern_cache_open(const char *dir, struct tern_cache **cache, struct tern_error *err) {
    *cache = NULL;
    enum tern_status status = tern_file_check_writable_dir(dir, err);
    if (status)
        return status;
    *cache = tern_alloc_zero(1, sizeof **cache);
    (*cache)->dir = tern_strdup(dir);
    return TERN_OK;
}

void tern_cache_close(struct tern_cache *cache) {
    if (!cache)
        return;
    free(cache->dir);
    free(cache);
}

/* Hashes come from databases that anybody may have written: only 32 lower-case hex digits become a path. */
static bool is_hash(const char *hash) {
    return strlen(hash) == TERN_HASH_CHARS - 1 && strspn(hash, "0123456789abcdef") == TERN_HASH_CHARS - 1;
}

enum tern_status tern_cache_path(const struct tern_cache *cache, const char *hash, char *out, size_t size,
                                 struct tern_error *err) {
    if (!is_hash(hash))
        return tern_error_set(err, TERN_INTERNAL, "%s: \"%.64s\" is not the name of a cached image", cache->dir, hash);
    if (strlen(cache->dir) + TERN_HASH_CHARS + 16 > size)
        return tern_error_set(err, TERN_INTERNAL, "%s: path is too long", cache->dir);
    tern_str_format(out, size, "%s/%.2s/%s.cubin.zst", cache->dir, hash, hash);
    return TERN_OK;
}

enum tern_status tern_cache_put(struct tern_cache *cache, const void *image, size_t bytes, char hash[TERN_HASH_CHARS],
                                struct tern_error *err) {
    char path[4096], folder[4096];
    tern_hash_bytes(image, bytes, hash);
    enum tern_status status = tern_cache_path(cache, hash, path, sizeof path, err);
    if (status)
        return status;
    tern_str_format(folder, sizeof folder, "%s/%.2s", cache->dir, hash);
    status = tern_file_make_dirs(folder, err);
    if (status)
        return status;
    size_t capacity = ZSTD_compressBound(bytes);
    void *frame = tern_alloc(capacity);
    size_t length = ZSTD_compress(frame, capacity, image, bytes, LEVEL);
    if (ZSTD_isError(length))
        status = tern_error_set(err, TERN_INTERNAL, "%s: cannot compress: %s", path, ZSTD_getErrorName(length));
    else /* also over an existing entry: it may be damaged, and the rename is atomic for whoever reads it now */
        status = tern_file_write(path, frame, length, err);
    free(frame);
    return status;
}

/* The image in a frame, or NULL with the reason why it cannot be the one of that name. Caller frees. */
static void *unpack(const void *frame, size_t length, const char *hash, size_t *bytes, const char **reason) {
    char actual[TERN_HASH_CHARS];
    unsigned long long claimed = ZSTD_getFrameContentSize(frame, length);
    *reason = "not a zstd frame";
    if (claimed == ZSTD_CONTENTSIZE_ERROR || claimed == ZSTD_CONTENTSIZE_UNKNOWN || claimed > MAX_IMAGE_BYTES)
        return NULL;
    void *image = tern_alloc((size_t)claimed + 1); /* + 1: an empty image is an image */
    size_t got = ZSTD_decompress(image, (size_t)claimed, frame, length);
    if (ZSTD_isError(got) || got != claimed) {
        *reason = "the frame does not decompress";
        free(image);
        return NULL;
    }
    tern_hash_bytes(image, got, actual);
    if (strcmp(actual, hash) != 0) {
        *reason = "its checksum differs from its name";
        free(image);
        return NULL;
    }
    *bytes = got;
    return image;
}

enum tern_status tern_cache_get(struct tern_cache *cache, const char *hash, void **image, size_t *bytes, bool *found,
                                struct tern_error *err) {
    char path[4096], *frame = NULL;
    const char *reason = NULL;
    size_t length = 0;
    *image = NULL;
    *bytes = 0;
    *found = false;
    enum tern_status status = tern_cache_path(cache, hash, path, sizeof path, err);
    if (status)
        return status;
    if (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return TERN_OK;
    status = tern_file_read(path, &frame, &length, err);
    if (status)
        return status;
    *image = unpack(frame, length, hash, bytes, &reason);
    *found = *image != NULL;
    free(frame);
    if (!*found) {
        tern_log_warn("nothing to do: it is removed and will be compiled again", "damaged cache entry %s: %s", path, reason);
        if (unlink(path) != 0 && errno != ENOENT)
            return tern_error_set(err, TERN_INTERNAL, "%s: cannot remove the damaged entry: %s", path, strerror(errno));
    }
    return TERN_OK;
}
