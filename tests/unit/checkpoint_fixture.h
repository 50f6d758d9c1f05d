/* For tests of checkpoints: a folder of its own, and safetensors files from a header and data. */
#ifndef TERN_TESTS_CHECKPOINT_FIXTURE_H
#define TERN_TESTS_CHECKPOINT_FIXTURE_H

#include "core/file.h"
#include "core/str.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int make_dir(void **state) {
    char *dir = tern_strdup("/tmp/tern-test-XXXXXX");
    *state = dir;
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state) {
    char *dir = *state, path[PATH_MAX];
    struct tern_strs names = {0};
    if (tern_file_list(dir, "", &names, NULL) == TERN_OK)
        for (size_t i = 0; i < names.count; i++) {
            tern_str_format(path, sizeof path, "%s/%s", dir, names.items[i]);
            unlink(path);
        }
    tern_strs_free(&names);
    int failed = rmdir(dir);
    free(dir);
    return failed;
}

/* Writes dir/name; the path is static storage until the next call. */
static const char *write_bytes(const char *dir, const char *name, const void *data, size_t length) {
    static char path[PATH_MAX];
    tern_str_format(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb"); /* not tern_file_write: thousands of files need not reach the disk */
    if (!file)
        return NULL;
    bool good = fwrite(data, 1, length, file) == length;
    return fclose(file) == 0 && good ? path : NULL;
}

/* A safetensors file: the length of `header`, the header, then the data. */
static inline const char *write_safetensors(const char *dir, const char *name, const char *header, const void *data,
                                            size_t data_bytes) {
    struct tern_str file = {0};
    uint64_t length = strlen(header);
    tern_str_append_bytes(&file, &length, sizeof length); /* tests run on little-endian machines */
    tern_str_append(&file, header);
    tern_str_append_bytes(&file, data, data_bytes);
    const char *path = write_bytes(dir, name, file.data, file.length);
    tern_str_free(&file);
    return path;
}

#endif
