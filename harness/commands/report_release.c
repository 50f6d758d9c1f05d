/* What `tune report --release` reads: rows and ceilings of a release, with what old ones do not say filled in. */
#include "commands/release_parts.h"

#include "commands/compare_source.h"
#include "config/ceilings.h"
#include "config/shapes.h"
#include "core/file.h"
#include "core/log.h"
#include "core/str.h"

#include <stdlib.h>
#include <string.h>

/* Name and number of each layer, where the file has no column for them. */
static enum tern_status fill_model(const char *name, struct tern_results *rows, struct tern_error *err) {
    struct tern_shapes *shapes = tern_alloc_zero(1, sizeof *shapes);
    enum tern_status status = tern_shapes_load(name, shapes, err);
    for (size_t i = 0; i < rows->count && !status; i++) {
        struct tern_result *row = &rows->rows[i];
        if (row->shapes[0])
            continue;
        tern_str_copy(row->shapes, sizeof row->shapes, shapes->name);
        for (size_t l = 0; l < shapes->layer_count; l++)
            if (!strcmp(shapes->layers[l].name, row->layer) && shapes->layers[l].n == row->n &&
                shapes->layers[l].k == row->k)
                row->layer_count = shapes->layers[l].count;
    }
    free(shapes);
    return status;
}

enum tern_status tern_release_rows(const char *release, const char *gpu, const char *shapes, struct tern_results *rows,
                                   struct tern_error *err) {
    struct tern_strs notes = {0};
    enum tern_status status = tern_compare_source(release, gpu, shapes, rows, &notes, err);
    if (!status && shapes)
        status = fill_model(shapes, rows, err);
    for (size_t i = 0; i < notes.count && !status; i++)
        tern_log_note("%s", notes.items[i]);
    for (size_t i = 0; i < rows->count && !status; i++)
        if (!rows->rows[i].shapes[0]) {
            tern_log_warn("name it with --shapes", "%s does not name its model: no sums over its layers", release);
            break;
        }
    tern_strs_free(&notes);
    return status;
}

/* "kind,argument,value,unit,sm_mhz" as release_environment.c writes it. */
static bool read_line(const char *line, struct tern_ceilings *c) {
    struct tern_strs fields = {0};
    double argument = 0, value = 0;
    tern_strs_split(&fields, line, ',');
    bool good = fields.count == 5 && tern_str_parse_double(fields.items[1], &argument) &&
                tern_str_parse_double(fields.items[2], &value) && value > 0;
    struct tern_ceiling *row = good ? tern_ceilings_add(c, fields.items[0], argument, fields.items[3]) : NULL;
    if (row)
        row->value = value;
    tern_strs_free(&fields);
    return row != NULL;
}

/* NAME, NAME/GPU or results/NAME/GPU, whichever holds the file; false if none does. */
static bool find_ceilings(const char *release, const char *gpu, struct tern_str *path) {
    for (int i = 0; i < 4; i++) {
        const char *folder = i < 2 ? "" : "results/";
        tern_str_free(path);
        if (i % 2)
            tern_str_printf(path, "%s%s/%s/ceilings.csv", folder, release, gpu);
        else
            tern_str_printf(path, "%s%s/ceilings.csv", folder, release);
        if (tern_file_exists(path->data))
            return true;
    }
    return false;
}

enum tern_status tern_release_ceilings(const char *release, struct tern_gpu *gpu, bool *measured, struct tern_error *err) {
    struct tern_str path = {0};
    struct tern_strs lines = {0};
    char *text = NULL;
    size_t length = 0;
    enum tern_status status = TERN_OK;
    struct tern_ceilings *c = tern_alloc_zero(1, sizeof *c);
    *measured = false;
    if (!find_ceilings(release, gpu->name, &path))
        goto out;
    status = tern_file_read(path.data, &text, &length, err);
    if (status)
        goto out;
    tern_strs_split(&lines, text, '\n');
    for (size_t i = 1; i < lines.count && !status; i++)
        if (!read_line(lines.items[i], c))
            status =
                tern_error_set(err, TERN_INTERNAL, "%s, line %zu: '%s' is no ceiling", path.data, i + 1, lines.items[i]);
    *measured = !status && c->count > 0;
    if (*measured)
        tern_gpu_apply_ceilings(gpu, c, 0);
out:
    free(text);
    free(c);
    tern_strs_free(&lines);
    tern_str_free(&path);
    return status;
}
