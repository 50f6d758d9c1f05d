/* Archives of compiled kernels: images in one file, each a zstd frame with its name and checksum. Same images, same bytes.
 * All numbers are little-endian:
 *   header  "TERNKRN1", u64 count
 *   index   per image, ascending by name: char name[32] (filled with zeros), char checksum[32] (XXH3-128 of the image, hex), u64 offset of the
 *           frame from the start of the file, u64 bytes of the frame, u64 bytes of the image
 *   frames  one behind the other */
#ifndef TERN_CORE_ARCHIVE_H
#define TERN_CORE_ARCHIVE_H

#include "core/error.h"
#include "core/hash.h"
#include "core/str.h"

#include <stdbool.h>
#include <stdint.h>

/* Image of the packing kernels (kernels/pack.cu): this and the architecture, "pack-sm_90a". */
#define TERN_PACKING_IMAGE "pack-"

struct tern_archive_image {
    char name[TERN_HASH_CHARS]; /* of a cubin: its checksum; zeros behind the end */
    const void *data;
    size_t bytes;
};

/* Appends the archive to *out; sorts the images. Names must differ. */
void tern_archive_write(struct tern_archive_image *images, size_t count, struct tern_str *out);

/* Finds an image and unpacks it; *found false if there is none of that name. Caller frees *image. TERN_INTERNAL: no archive,
 * cut short, or the image is not what was packed. */
enum tern_status tern_archive_read(const void *archive, size_t bytes, const char *name, void **image, size_t *image_bytes,
                                   bool *found, struct tern_error *err);

#endif
