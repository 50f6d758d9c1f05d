/* Cubin cache: content-addressed files DIR/ab/abcdef....cubin.zst with their checksum; written temp + fsync + rename.
 * A damaged entry is found by its checksum, removed and rebuilt. */
#ifndef TERN_STORE_CACHE_H
#define TERN_STORE_CACHE_H

#include "core/error.h"
#include "core/hash.h"

#include <stdbool.h>
#include <stddef.h>

struct tern_cache; /* a folder */

enum tern_status tern_cache_open(const char *dir, struct tern_cache **cache, struct tern_error *err);
void tern_cache_close(struct tern_cache *cache);
/* Content hash of the image names the file. */
enum tern_status tern_cache_put(struct tern_cache *cache, const void *image, size_t bytes, char hash[TERN_HASH_CHARS],
                                struct tern_error *err);
/* *found false: absent, or damaged (then removed, with a warning). Caller frees *image. */
enum tern_status tern_cache_get(struct tern_cache *cache, const char *hash, void **image, size_t *bytes, bool *found,
                                struct tern_error *err);

/* File of an image, whether it exists or not: DIR/ab/abcdef....cubin.zst. Refuses what is not a hash. */
enum tern_status tern_cache_path(const struct tern_cache *cache, const char *hash, char *out, size_t size,
                                 struct tern_error *err);

#endif
