/* Memory of the emulated device: every buffer lies between inaccessible pages, flush with the one behind it as far as its
 * alignment allows, and the rest of its pages is filled with guard bytes (poisoned under ASan). */
#ifndef TERN_EMULATOR_MEMORY_H
#define TERN_EMULATOR_MEMORY_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_emu_region {
    uint8_t *map, *data; /* map: first inaccessible page; data: what device code gets */
    size_t map_bytes, bytes;
    bool poisoned; /* ASan watches the guard bytes itself */
};

/* data is a multiple of `align` (a power of two, at most a page) and filled with poison (0xFF: NaN). */
enum tern_status tern_emu_region_create(struct tern_emu_region *region, size_t bytes, size_t align, struct tern_error *err);
void tern_emu_region_free(struct tern_emu_region *region);
/* Compares the guard bytes; if one changed, describes it in out ("wrote 4 bytes behind the end ...") and returns false. */
bool tern_emu_region_check(const struct tern_emu_region *region, const char *what, char *out, size_t size);
/* Writes the guard bytes anew after a damage was reported. */
void tern_emu_region_repair(struct tern_emu_region *region);
/* If `address` lies within the region's mapping, says where relative to the buffer and returns true. */
bool tern_emu_region_describe(const struct tern_emu_region *region, const char *what, const void *address, char *out,
                              size_t size);

#endif
