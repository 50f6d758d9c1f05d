/* Export: the files of the folder, written or compared. */
#include "output/export.h"

#include "core/file.h"

#include <stdlib.h>
#include <string.h>

enum tern_status tern_export_write(const char *dir, const struct tern_export_file *files, size_t count,
                                   struct tern_error *err) {
    enum tern_status status = tern_file_make_dirs(dir, err);
    for (size_t i = 0; i < count && !status; i++) {
        struct tern_str path = {0};
        tern_str_printf(&path, "%s/%s", dir, files[i].name);
        status = tern_file_write(path.data, tern_str_text(&files[i].text), files[i].text.length, err);
        tern_str_free(&path);
    }
    return status;
}

/* 1 + line breaks before the first byte that differs. */
static size_t first_line(const char *a, const char *b, size_t length) {
    size_t line = 1;
    for (size_t i = 0; i < length && a[i] == b[i]; i++)
        line += a[i] == '\n';
    return line;
}

static enum tern_status compare_one(const char *path, const struct tern_export_file *file, struct tern_error *err) {
    char *have = NULL;
    size_t length = 0;
    if (!tern_file_exists(path))
        return tern_error_set(err, TERN_FAILED, "%s is missing", path);
    enum tern_status status = tern_file_read(path, &have, &length, err);
    const char *want = tern_str_text(&file->text);
    if (!status && (length != file->text.length || memcmp(have, want, length) != 0)) {
        size_t shorter = length < file->text.length ? length : file->text.length;
        if (strstr(file->name, ".bin"))
            status = tern_error_set(err, TERN_FAILED, "%s differs from what this database gives (%zu bytes, now %zu)", path,
                                    length, file->text.length);
        else
            status = tern_error_set(err, TERN_FAILED, "%s differs from what this database gives, from line %zu on", path,
                                    first_line(have, want, shorter));
    }
    free(have);
    return status;
}

enum tern_status tern_export_compare(const char *dir, const struct tern_export_file *files, size_t count,
                                     struct tern_error *err) {
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < count && !status; i++) {
        struct tern_str path = {0};
        tern_str_printf(&path, "%s/%s", dir, files[i].name);
        status = compare_one(path.data, &files[i], err);
        tern_str_free(&path);
    }
    if (status == TERN_FAILED)
        tern_error_hint(err, "export again without --check to renew it");
    return status;
}
