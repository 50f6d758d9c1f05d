/* What `tune export` refuses: winners of templates that have changed since, and damaged or foreign command arguments. */
#include "commands/export_parts.h"

#include "config/template.h"
#include "core/file.h"
#include "core/log.h"

#include <stdlib.h>
#include <string.h>

/* Hash of today's template of that name; *found false where there is no such folder. */
static enum tern_status hash_today(const char *name, char hash[TERN_HASH_CHARS], bool *found, struct tern_error *err) {
    char relative[96], dir[4096];
    struct tern_template tmpl;
    tern_str_format(relative, sizeof relative, "templates/%s", name);
    enum tern_status status = tern_file_home_path(relative, dir, sizeof dir, err);
    *found = !status && !strchr(name, '/') && tern_file_is_dir(dir);
    if (status || !*found)
        return status;
    status = tern_template_load(dir, &tmpl, err);
    if (status)
        return status;
    tern_str_copy(hash, TERN_HASH_CHARS, tmpl.hash);
    tern_template_free(&tmpl);
    return TERN_OK;
}

/* Winners of one template; names[] holds those that were looked at. A template that is not here cannot be compared. */
static enum tern_status count_stale(const struct tern_results *rows, const char *name, size_t *stale,
                                    struct tern_error *err) {
    char hash[TERN_HASH_CHARS];
    bool found = false;
    enum tern_status status = hash_today(name, hash, &found, err);
    if (status)
        return status;
    if (!found)
        tern_log_note("template %s is not here: whether its winners are of today's version is not known", name);
    for (size_t i = 0; i < rows->count && found; i++)
        *stale += !strcmp(rows->rows[i].template_name, name) && strcmp(rows->rows[i].template_hash, hash) != 0;
    return TERN_OK;
}

enum tern_status tern_export_check_fresh(const struct tern_results *rows, struct tern_error *err) {
    struct tern_strs names = {0};
    struct tern_str list = {0};
    size_t stale = 0;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < rows->count; i++)
        if (rows->rows[i].template_name[0])
            tern_strs_add(&names, rows->rows[i].template_name);
    tern_strs_sort(&names);
    for (size_t i = 0; i < names.count && !status; i++) {
        size_t before = stale;
        if (i && !strcmp(names.items[i], names.items[i - 1]))
            continue;
        status = count_stale(rows, names.items[i], &stale, err);
        if (stale > before)
            tern_str_printf(&list, "%s%s", list.length ? ", " : "", names.items[i]);
    }
    if (!status && stale) {
        status = tern_error_set(err, TERN_FAILED, "%zu of %zu winners are stale: %s changed since they were measured", stale,
                                rows->count, tern_str_text(&list));
        tern_error_hint(err, "run the same `tune` command again, which measures what changed, then export again");
    }
    tern_strs_free(&names);
    tern_str_free(&list);
    return status;
}
