/* Opening of CUDA's libraries at run time. Owns the search order; knows no function of any library. */
#include "device/library.h"

#include "core/file.h"
#include "core/str.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* The toolkit that holds nvcc: two folders up from the file that the name on PATH leads to. */
static void nvcc_root(char *out, size_t size) {
    char program[PATH_MAX], real[PATH_MAX];
    out[0] = '\0';
    if (!tern_file_find_program("nvcc", program, sizeof program) || !realpath(program, real))
        return;
    for (int level = 0; level < 2; level++) {
        char *slash = strrchr(real, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
    tern_str_copy(out, size, real);
}

/* The same order as scripts/find-cuda.sh, so that build and run find the same toolkit. */
bool tern_cuda_root(int index, char *out, size_t size) {
    const char *home = getenv("CUDA_HOME");
    switch (index) {
    case 0:
        tern_str_copy(out, size, home ? home : "");
        return true;
    case 1:
        nvcc_root(out, size);
        return true;
    case 2:
        tern_str_copy(out, size, "/usr/local/cuda");
        return true;
    case 3:
        if (tern_file_home_path(".deps/cuda", out, size, NULL) != TERN_OK)
            out[0] = '\0';
        return true;
    default:
        return false;
    }
}

/* Opens one of the sonames in `dir`, or on the linker's own path when dir is "". */
static void *open_in(const struct tern_library *library, const char *dir) {
    for (size_t i = 0; i < sizeof library->sonames / sizeof *library->sonames && library->sonames[i]; i++) {
        char path[PATH_MAX];
        tern_str_format(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", library->sonames[i]);
        if (*dir && !tern_file_exists(path))
            continue;
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (handle)
            return handle;
    }
    return NULL;
}

/* $CUDA_HOME comes before the linker's path because somebody set it on purpose; the other toolkits come after. */
static void *open_library(const struct tern_library *library) {
    static const char *const folders[] = {"lib64", "lib", "lib/x86_64-linux-gnu"};
    if (library->driver)
        return open_in(library, "");
    char root[PATH_MAX], dir[PATH_MAX];
    for (int index = 0; tern_cuda_root(index, root, sizeof root); index++) {
        void *handle = NULL;
        for (size_t f = 0; *root && f < sizeof folders / sizeof *folders && !handle; f++) {
            tern_str_format(dir, sizeof dir, "%s/%s", root, folders[f]);
            handle = open_in(library, dir);
        }
        /* The linker's path comes second, after the root that was set on purpose. */
        if (!handle && index == 0)
            handle = open_in(library, "");
        if (handle)
            return handle;
    }
    return NULL;
}

/* The handle is not kept: the library stays open, and a second call finds the same one. */
enum tern_status tern_library_load(const struct tern_library *library, void *api, char *path, size_t path_size,
                                   struct tern_error *err) {
    void *handle = open_library(library);
    if (!handle) {
        tern_error_set(err, TERN_MISSING, "%s not found: %s cannot be loaded", library->title, library->sonames[0]);
        tern_error_hint(err, "%s", library->hint);
        return TERN_MISSING;
    }
    struct link_map *map = NULL;
    const char *found = library->sonames[0];
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name)
        found = map->l_name;
    if (path)
        tern_str_copy(path, path_size, found);
    for (size_t i = 0; i < library->symbol_count; i++) {
        const struct tern_symbol *symbol = &library->symbols[i];
        void *address = dlsym(handle, symbol->name);
        if (!address && symbol->older)
            address = dlsym(handle, symbol->older);
        if (!address) {
            tern_error_set(err, TERN_MISSING, "%s in %s has no function %s: it is too old", library->title, found,
                           symbol->name);
            tern_error_hint(err, "%s", library->hint);
            return TERN_MISSING;
        }
        /* Every table member is one function pointer, as wide as a void pointer on every system that has CUDA. */
        memcpy((char *)api + symbol->offset, &address, sizeof address);
    }
    return TERN_OK;
}
