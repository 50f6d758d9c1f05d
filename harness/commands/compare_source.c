/* Finds and reads a side of a comparison. See compare_source.h. */
#include "commands/compare_source.h"

#include "commands/dispatch.h"
#include "core/file.h"
#include "output/csv.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define RELEASES "results"

/* ---- the environment of a release ---- */

/* Fills a text field of every row that does not know it by itself. */
static void fill(struct tern_results *rows, size_t from, size_t offset, size_t size, const char *value) {
    for (size_t i = from; i < rows->count; i++) {
        char *field = (char *)&rows->rows[i] + offset;
        if (!field[0] && value)
            tern_str_copy(field, size, value);
    }
}
#define FILL(rows, from, field, value)                                                                                      \
    fill(rows, from, offsetof(struct tern_result, field), sizeof((struct tern_result *)0)->field, value)

/* Releases before winners.csv had a policy column say which policies the run used; of those for timing one alone is that of
 * every row. */
static const char *only_policy(const json_t *environment) {
    const char *found = NULL;
    size_t i, timed = 0;
    json_t *policy;
    json_t *policies = json_object_get(environment, "policies");
    json_array_foreach(policies, i, policy) {
        const char *name = json_string_value(policy);
        if (name && strncmp(name, "graph/", 6) == 0) {
            found = name;
            timed++;
        }
    }
    return timed == 1 ? found : NULL;
}

/* The version of each row's template; a release that saw two of one template does not say which. */
static void fill_template_hashes(struct tern_results *rows, size_t from, const json_t *templates) {
    for (size_t i = from; i < rows->count; i++) {
        const char *hash = json_string_value(json_object_get(templates, rows->rows[i].template_name));
        if (hash && strlen(hash) == TERN_HASH_CHARS - 1)
            tern_str_copy(rows->rows[i].template_hash, TERN_HASH_CHARS, hash);
    }
}

/* Device, driver and policy of rows[from..] out of DIR/environment.json, as far as the rows do not know them. */
static enum tern_status read_environment(const char *dir, struct tern_results *rows, size_t from, struct tern_error *err) {
    struct tern_str path = {0};
    json_error_t why;
    enum tern_status status = TERN_OK;
    tern_str_printf(&path, "%s/environment.json", dir);
    if (!tern_file_exists(path.data)) {
        tern_str_free(&path);
        return TERN_OK;
    }
    json_t *environment = json_load_file(path.data, JSON_REJECT_DUPLICATES, &why);
    if (environment) {
        const json_t *device = json_object_get(environment, "device");
        FILL(rows, from, gpu, json_string_value(json_object_get(device, "gpu")));
        FILL(rows, from, device, json_string_value(json_object_get(device, "name")));
        FILL(rows, from, driver, json_string_value(json_object_get(device, "driver")));
        FILL(rows, from, policy, only_policy(environment));
        fill_template_hashes(rows, from, json_object_get(environment, "templates"));
    } else {
        status = tern_error_set(err, TERN_INTERNAL, "%s, line %d: %s", path.data, why.line, why.text);
    }
    json_decref(environment);
    tern_str_free(&path);
    return status;
}

/* ---- files ---- */

static enum tern_status read_csv(const char *path, struct tern_results *rows, struct tern_strs *notes,
                                 struct tern_error *err) {
    struct tern_strs missing = {0};
    enum tern_status status = tern_csv_read(path, rows, &missing, err);
    if (!status && missing.count) {
        struct tern_str text = {0};
        tern_str_printf(&text, "%s comes from an older version, without", path);
        for (size_t i = 0; i < missing.count; i++)
            tern_str_printf(&text, "%s %s", i ? "," : "", missing.items[i]);
        tern_str_append(&text, ".");
        tern_strs_add(notes, text.data);
        tern_str_free(&text);
    }
    tern_strs_free(&missing);
    return status;
}

static bool has_winners(const char *dir) {
    struct tern_str path = {0};
    tern_str_printf(&path, "%s/winners.csv", dir);
    bool has = tern_file_exists(path.data);
    tern_str_free(&path);
    return has;
}

/* One GPU of a release: DIR/winners.csv with what DIR/environment.json says of it. */
static enum tern_status read_folder(const char *dir, struct tern_results *rows, struct tern_strs *notes,
                                    struct tern_error *err) {
    struct tern_str path = {0};
    size_t from = rows->count;
    tern_str_printf(&path, "%s/winners.csv", dir);
    enum tern_status status = read_csv(path.data, rows, notes, err);
    if (!status)
        status = read_environment(dir, rows, from, err);
    tern_str_free(&path);
    return status;
}

/* One winners.csv by its own name, with what lies beside it. */
static enum tern_status read_file(const char *path, struct tern_results *rows, struct tern_strs *notes,
                                  struct tern_error *err) {
    struct tern_str dir = {0};
    const char *slash = strrchr(path, '/');
    tern_str_printf(&dir, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    enum tern_status status = read_csv(path, rows, notes, err);
    if (!status)
        status = read_environment(dir.data, rows, 0, err);
    tern_str_free(&dir);
    return status;
}

/* All GPUs of a release: the folders in DIR that hold winners. */
static enum tern_status read_release(const char *dir, struct tern_results *rows, struct tern_strs *notes,
                                     struct tern_error *err) {
    struct tern_strs names = {0};
    size_t found = 0;
    enum tern_status status = tern_file_list(dir, "", &names, err);
    for (size_t i = 0; i < names.count && !status; i++) {
        struct tern_str path = {0};
        size_t from = rows->count;
        tern_str_printf(&path, "%s/%s", dir, names.items[i]);
        if (tern_file_is_dir(path.data) && has_winners(path.data)) {
            status = read_folder(path.data, rows, notes, err);
            FILL(rows, from, gpu, names.items[i]);
            found++;
        }
        tern_str_free(&path);
    }
    tern_strs_free(&names);
    if (!status && !found)
        status = tern_error_set(err, TERN_USAGE, "%s holds no winners.csv, nor does a folder in it", dir);
    return status;
}

static bool is_database(const char *path) {
    static const char magic[] = "SQLite format 3";
    char start[sizeof magic] = "";
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    bool is = fread(start, 1, sizeof start, file) == sizeof start && memcmp(start, magic, sizeof magic) == 0;
    fclose(file);
    return is;
}

static enum tern_status no_such(const char *name, struct tern_error *err) {
    struct tern_strs names = {0};
    tern_error_set(err, TERN_USAGE, "'%s' is no file, no folder and no release in " RELEASES "/", name);
    tern_file_list(RELEASES, "", &names, NULL);
    const char *near = tern_str_suggest(name, &names);
    if (near)
        tern_error_hint(err, "did you mean '%s'?", near);
    else
        tern_error_hint(err, "name a release, a database or a winners.csv, for example: tune compare v0.1 results/tern.db");
    tern_strs_free(&names);
    return TERN_USAGE;
}

/* Keeps the rows of a GPU and a model; rows that do not know theirs stay. */
static void select_rows(struct tern_results *rows, const char *gpu, const char *shapes) {
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const struct tern_result *row = &rows->rows[i];
        if ((!gpu || !row->gpu[0] || !strcmp(row->gpu, gpu)) && (!shapes || !row->shapes[0] || !strcmp(row->shapes, shapes)))
            rows->rows[kept++] = *row;
    }
    rows->count = kept;
}

enum tern_status tern_compare_source(const char *name, const char *gpu, const char *shapes, struct tern_results *rows,
                                     struct tern_strs *notes, struct tern_error *err) {
    struct tern_str path = {0};
    enum tern_status status;
    tern_str_append(&path, name);
    if (!tern_file_exists(name)) {
        tern_str_free(&path);
        tern_str_printf(&path, RELEASES "/%s", name);
    }
    if (!tern_file_exists(path.data))
        status = no_such(name, err);
    else if (tern_file_is_dir(path.data) && has_winners(path.data))
        status = read_folder(path.data, rows, notes, err);
    else if (tern_file_is_dir(path.data))
        status = read_release(path.data, rows, notes, err);
    else if (is_database(path.data))
        status = tern_dispatch_rows(path.data, gpu, shapes, rows, err);
    else
        status = read_file(path.data, rows, notes, err);
    if (!status)
        select_rows(rows, gpu, shapes);
    if (!status && !rows->count)
        status = tern_error_set(err, TERN_USAGE, "%s holds no winner for gpu %s, shapes %s", path.data, gpu ? gpu : "(any)",
                                shapes ? shapes : "(any)");
    tern_results_sort(rows);
    tern_str_free(&path);
    return status;
}
