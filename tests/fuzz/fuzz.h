/* What fuzz targets share: the entry that libFuzzer calls, files in $FUZZ_DIR, and a stop when an error has no fact. */
#ifndef TERN_TESTS_FUZZ_H
#define TERN_TESTS_FUZZ_H

#include "core/error.h"
#include "core/str.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* $FUZZ_DIR is an empty folder, best in memory. */
static inline void fuzz_path(const char *name, char path[PATH_MAX]) {
    tern_str_format(path, PATH_MAX, "%s/%s", getenv("FUZZ_DIR"), name);
}

static inline void fuzz_write(const char *name, const uint8_t *data, size_t size, char path[PATH_MAX]) {
    fuzz_path(name, path);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
}

/* Two bytes with the length of the first part, the first part, the second. False if there are no two bytes. */
static inline bool fuzz_split(const uint8_t **data, size_t *size, size_t *first) {
    if (*size < 2)
        return false;
    *first = (*data)[0] | (size_t)(*data)[1] << 8;
    *data += 2;
    *size -= 2;
    *first = *first < *size ? *first : *size;
    return true;
}

/* Input may be wrong (exit 1) or not be there (2); anything else is our fault, and so is an error without a text. */
static inline void fuzz_judge(enum tern_status status, const struct tern_error *err) {
    if (status != TERN_OK && ((status != TERN_FAILED && status != TERN_USAGE) || !err->text[0])) {
        fprintf(stderr, "status %d: %s\n", (int)status, err->text);
        abort();
    }
}

#endif
