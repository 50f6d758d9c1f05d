/* Finding config files by path or by name, with "did you mean". Knows nothing of their content. */
#include "config/find.h"
#include "config/sandbox.h"

#include "core/file.h"

#include <limits.h>
#include <string.h>

void tern_config_base_name(const char *path, char *out, size_t size) {
    const char *slash = strrchr(path, '/');
    tern_str_copy(out, size, slash ? slash + 1 : path);
    char *dot = strrchr(out, '.');
    if (dot != NULL && dot != out && strcmp(dot, ".lua") == 0)
        *dot = '\0';
}

enum tern_status tern_config_names(const char *kind, struct tern_strs *names, struct tern_error *err) {
    char relative[128], dir[PATH_MAX];
    tern_str_format(relative, sizeof(relative), "configs/%s", kind);
    enum tern_status status = tern_file_home_path(relative, dir, sizeof(dir), err);
    if (status != TERN_OK)
        return status;
    struct tern_strs files = {0};
    status = tern_file_list(dir, ".lua", &files, err);
    for (size_t i = 0; i < files.count; i++) {
        char name[NAME_MAX + 1];
        tern_config_base_name(files.items[i], name, sizeof(name));
        tern_strs_add(names, name);
    }
    tern_strs_sort(names);
    tern_strs_free(&files);
    return status;
}

static enum tern_status find_fail(const char *kind, const char *name, struct tern_error *err) {
    struct tern_strs names = {0};
    enum tern_status status = tern_config_names(kind, &names, err);
    if (status != TERN_OK)
        return status;
    char base[NAME_MAX + 1];
    tern_config_base_name(name, base, sizeof(base));
    const char *near = tern_str_suggest(base, &names);
    struct tern_str all = {0};
    for (size_t i = 0; i < names.count; i++)
        tern_str_printf(&all, "%s%s", i ? ", " : "", names.items[i]);
    /* "gpus" -> "GPU", "shapes" -> "shapes": what a user calls it */
    tern_error_set(err, TERN_USAGE, "unknown %s '%s': no such file, and not in configs/%s",
                   strcmp(kind, "gpus") == 0 ? "GPU" : kind, name, kind);
    if (near != NULL)
        tern_error_hint(err, "did you mean %s?", near);
    else
        tern_error_hint(err, "known: %s", tern_str_text(&all));
    tern_str_free(&all);
    tern_strs_free(&names);
    return TERN_USAGE;
}

static bool find_is_file(const char *path) {
    return tern_file_exists(path) && !tern_file_is_dir(path);
}

enum tern_status tern_config_find(const char *kind, const char *name, char *path, unsigned long size,
                                  struct tern_error *err) {
    if (find_is_file(name)) {
        if (strlen(name) >= size)
            return tern_error_set(err, TERN_USAGE, "path is too long: %.200s...", name);
        tern_str_copy(path, size, name);
        return TERN_OK;
    }
    static const char *const suffixes[] = {"", ".lua"};
    for (size_t i = 0; i < 2 && strchr(name, '/') == NULL && name[0] != '\0'; i++) {
        char relative[NAME_MAX + 64];
        tern_str_format(relative, sizeof(relative), "configs/%s/%s%s", kind, name, suffixes[i]);
        enum tern_status status = tern_file_home_path(relative, path, size, err);
        if (status != TERN_OK)
            return status;
        if (find_is_file(path))
            return TERN_OK;
    }
    return find_fail(kind, name, err);
}
