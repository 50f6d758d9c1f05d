/* Dynamic libraries of CUDA: finds and opens them at run time and fills tables of function pointers.
 * Nothing of CUDA is linked. Libraries stay open until the process ends: those of CUDA do not survive dlclose. */
#ifndef TERN_DEVICE_LIBRARY_H
#define TERN_DEVICE_LIBRARY_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>

struct tern_symbol {
    const char *name;  /* as exported, version suffix spelled out */
    const char *older; /* what older libraries export with the same signature, or NULL */
    size_t offset;     /* of the pointer in the table that is filled */
};

struct tern_library {
    const char *title;
    const char *sonames[4]; /* tried in this order; NULL ends the list */
    bool driver;            /* belongs to the driver: only the dynamic linker's own search path */
    const char *hint;       /* remedy when it is missing */
    const struct tern_symbol *symbols;
    size_t symbol_count;
};

/* Opens the first of the library's files that is found and fills `api`. TERN_MISSING, with the remedy as hint, if there is
 * none or if a symbol is absent. `path` (may be NULL) receives where the library was found. */
enum tern_status tern_library_load(const struct tern_library *library, void *api, char *path, size_t path_size,
                                   struct tern_error *err);

/* Root `index` of the CUDA toolkits to look in: $CUDA_HOME, the toolkit of nvcc on PATH, /usr/local/cuda, .deps/cuda below
 * the program's home. False when there are no more; *out is "" for a root that does not exist here. */
bool tern_cuda_root(int index, char *out, size_t size);

#endif
