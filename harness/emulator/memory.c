/* Memory of the emulated device: fenced buffers. */
#include "emulator/memory.h"

#include "core/str.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Depends on the address, so that a copied guard does not pass. */
static uint8_t guard_byte(const uint8_t *at) {
    return (uint8_t)(0xA5u ^ (unsigned)((uintptr_t)at * 29u & 0x7Fu));
}

static uint8_t *usable_begin(const struct tern_emu_region *region) {
    return region->map + page_bytes();
}
static uint8_t *usable_end(const struct tern_emu_region *region) {
    return region->map + region->map_bytes - page_bytes();
}

static void fill_guard(uint8_t *from, uint8_t *to) {
    for (uint8_t *at = from; at < to; at++) {
        *at = guard_byte(at);
    }
}

/* __asan_poison_memory_region or its opposite, if ASan is in the process; returns whether it is. */
static bool sanitizer_mark(const char *function, const uint8_t *from, const uint8_t *to) {
    void (*mark)(const volatile void *, size_t);
    *(void **)&mark = dlsym(RTLD_DEFAULT, function);
    if (mark == NULL) {
        return false;
    }
    mark(from, (size_t)(to - from));
    return true;
}

enum tern_status tern_emu_region_create(struct tern_emu_region *region, size_t bytes, size_t align, struct tern_error *err) {
    size_t page = page_bytes(), room = (bytes + align - 1) / align * align;
    size_t usable = (room + page - 1) / page * page;
    size_t total = usable + 2 * page;
    uint8_t *map =
        bytes > SIZE_MAX / 2 ? MAP_FAILED : mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        return tern_error_set(err, TERN_MISSING, "out of emulated device memory: %zu bytes", bytes);
    }
    *region = (struct tern_emu_region){.map = map, .data = map + page + usable - room, .map_bytes = total, .bytes = bytes};
    fill_guard(usable_begin(region), region->data);
    memset(region->data, 0xFF, bytes);
    fill_guard(region->data + bytes, usable_end(region));
    if (mprotect(map, page, PROT_NONE) != 0 || mprotect(map + total - page, page, PROT_NONE) != 0) {
        munmap(map, total);
        return tern_error_set(err, TERN_MISSING, "cannot fence emulated device memory (too many mappings?)");
    }
    region->poisoned = sanitizer_mark("__asan_poison_memory_region", usable_begin(region), region->data) &&
                       sanitizer_mark("__asan_poison_memory_region", region->data + bytes, usable_end(region));
    return TERN_OK;
}

void tern_emu_region_free(struct tern_emu_region *region) {
    if (region->map != NULL) {
        if (region->poisoned) {
            sanitizer_mark("__asan_unpoison_memory_region", usable_begin(region), usable_end(region));
        }
        munmap(region->map, region->map_bytes);
    }
    *region = (struct tern_emu_region){0};
}

/* Where `at` lies, in words. */
static void describe(const struct tern_emu_region *region, const char *what, const uint8_t *at, char *out, size_t size) {
    if (at < region->data) {
        tern_str_format(out, size, "%zu bytes before the start of %s of %zu bytes", (size_t)(region->data - at), what,
                        region->bytes);
    } else if (at >= region->data + region->bytes) {
        tern_str_format(out, size, "%zu bytes behind the end of %s of %zu bytes",
                        (size_t)(at - region->data - region->bytes), what, region->bytes);
    } else {
        tern_str_format(out, size, "byte %zu of %s of %zu bytes", (size_t)(at - region->data), what, region->bytes);
    }
}

static bool check_guards(const struct tern_emu_region *region, const char *what, char *out, size_t size) {
    const uint8_t *end = usable_end(region);
    for (const uint8_t *at = usable_begin(region); at < end; at++) {
        if (at == region->data) {
            at += region->bytes;
            if (at >= end) {
                break;
            }
        }
        if (*at != guard_byte(at)) {
            char where[200];
            describe(region, what, at, where, sizeof where);
            tern_str_format(out, size, "out of bounds: device code wrote %s", where);
            return false;
        }
    }
    return true;
}

/* ASan lets only us at the guard bytes, and only between these two calls. */
static void open_guards(const struct tern_emu_region *region) {
    if (region->poisoned) {
        sanitizer_mark("__asan_unpoison_memory_region", usable_begin(region), usable_end(region));
    }
}

static void close_guards(const struct tern_emu_region *region) {
    if (region->poisoned) {
        sanitizer_mark("__asan_poison_memory_region", usable_begin(region), region->data);
        sanitizer_mark("__asan_poison_memory_region", region->data + region->bytes, usable_end(region));
    }
}

bool tern_emu_region_check(const struct tern_emu_region *region, const char *what, char *out, size_t size) {
    open_guards(region);
    bool intact = check_guards(region, what, out, size);
    close_guards(region);
    return intact;
}

void tern_emu_region_repair(struct tern_emu_region *region) {
    open_guards(region);
    fill_guard(usable_begin(region), region->data);
    fill_guard(region->data + region->bytes, usable_end(region));
    close_guards(region);
}

bool tern_emu_region_describe(const struct tern_emu_region *region, const char *what, const void *address, char *out,
                              size_t size) {
    const uint8_t *at = address;
    if (at < region->map || at >= region->map + region->map_bytes) {
        return false;
    }
    describe(region, what, at, out, size);
    return true;
}
