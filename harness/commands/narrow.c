/* Narrowing of a model to the problems that are named by --formats, --layers and --m. See narrow.h. */
#include "commands/narrow.h"

#include "core/str.h"

#include <stdlib.h>
#include <string.h>

/* Keeps the formats named by --formats instead of the file's. */
static enum tern_status select_formats(const char *list, struct tern_shapes *s, struct tern_error *err) {
    if (!list)
        return TERN_OK;
    struct tern_strs names = {0};
    enum tern_status status = TERN_OK;
    tern_strs_split(&names, list, ',');
    s->format_count = 0;
    const size_t room = sizeof s->formats / sizeof s->formats[0];
    if (names.count == 0 || names.count > room)
        status = tern_error_set(err, TERN_USAGE, "--formats '%s' names %zu formats; 1 to %zu are possible", list,
                                names.count, room);
    for (size_t i = 0; i < names.count && status == TERN_OK; i++) {
        struct tern_format format;
        status = tern_format_parse(names.items[i], &format, err);
        bool again = false;
        for (size_t j = 0; j < s->format_count; j++)
            again = again || strcmp(s->formats[j].name, format.name) == 0;
        if (status == TERN_OK && !again)
            s->formats[s->format_count++] = format;
    }
    tern_strs_free(&names);
    return status;
}

static void hint_layers(const struct tern_shapes *s, struct tern_error *err) {
    struct tern_str all = {0};
    for (size_t i = 0; i < s->layer_count; i++)
        tern_str_printf(&all, "%s%s", i ? ", " : "", s->layers[i].name);
    tern_error_hint(err, "its layers: %s", tern_str_text(&all));
    tern_str_free(&all);
}

static enum tern_status select_layers(const char *list, struct tern_shapes *s, struct tern_error *err) {
    if (!list)
        return TERN_OK;
    struct tern_strs wanted = {0}, known = {0};
    enum tern_status status = TERN_OK;
    size_t kept = 0;
    tern_strs_split(&wanted, list, ',');
    for (size_t i = 0; i < s->layer_count; i++)
        tern_strs_add(&known, s->layers[i].name);
    for (size_t w = 0; w < wanted.count && status == TERN_OK; w++) {
        bool found = false;
        for (size_t i = 0; i < known.count; i++)
            found = found || strcmp(known.items[i], wanted.items[w]) == 0;
        if (!found) {
            status = tern_error_set(err, TERN_USAGE, "%s has no layer '%s'", s->name, wanted.items[w]);
            const char *near = tern_str_suggest(wanted.items[w], &known);
            if (near)
                tern_error_hint(err, "did you mean '%s'?", near);
            else
                hint_layers(s, err);
        }
    }
    for (size_t i = 0; i < s->layer_count && status == TERN_OK; i++)
        for (size_t w = 0; w < wanted.count; w++)
            if (strcmp(wanted.items[w], s->layers[i].name) == 0) {
                s->layers[kept++] = s->layers[i];
                break;
            }
    if (status == TERN_OK) {
        s->layer_count = kept;
        if (kept == 0)
            status = tern_error_set(err, TERN_USAGE, "--layers '%s' selects nothing", list);
    }
    tern_strs_free(&wanted);
    tern_strs_free(&known);
    return status;
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Batch sizes of --m need not stand in the shapes file; they share its weight evenly. */
static enum tern_status select_m(const char *list, struct tern_shapes *s, struct tern_error *err) {
    if (!list)
        return TERN_OK;
    struct tern_strs wanted = {0};
    enum tern_status status = TERN_OK;
    tern_strs_split(&wanted, list, ',');
    if (wanted.count == 0 || wanted.count > TERN_MAX_M)
        status = tern_error_set(err, TERN_USAGE, "--m '%s' names %zu batch sizes; 1 to %d are possible", list, wanted.count,
                                TERN_MAX_M);
    s->m_count = 0;
    for (size_t i = 0; i < wanted.count && status == TERN_OK; i++) {
        int64_t m;
        if (!tern_str_parse_int(wanted.items[i], 1, INT32_MAX, &m))
            status =
                tern_error_set(err, TERN_USAGE, "--m: '%s' is no batch size; whole numbers from 1 are", wanted.items[i]);
        else
            s->m[s->m_count++] = m;
    }
    qsort(s->m, s->m_count, sizeof s->m[0], by_value);
    size_t kept = 0;
    for (size_t i = 0; i < s->m_count; i++)
        if (kept == 0 || s->m[kept - 1] != s->m[i])
            s->m[kept++] = s->m[i];
    s->m_count = kept;
    for (size_t i = 0; i < kept; i++)
        s->weight[i] = 1.0 / (double)kept;
    tern_strs_free(&wanted);
    return status;
}

enum tern_status tern_narrow_shapes(const struct tern_narrow_lists *lists, struct tern_shapes *shapes,
                                    struct tern_error *err) {
    enum tern_status status = select_formats(lists->formats, shapes, err);
    if (status == TERN_OK)
        status = select_layers(lists->layers, shapes, err);
    return status == TERN_OK ? select_m(lists->m, shapes, err) : status;
}

enum tern_status tern_narrow_check(const struct tern_narrow_lists *lists, const char *shapes, struct tern_error *err) {
    if (!shapes && (lists->formats || lists->layers || lists->m))
        return tern_error_set(err, TERN_USAGE, "--formats, --layers and --m need --shapes");
    return TERN_OK;
}

bool tern_narrow_holds(const struct tern_narrow_lists *lists, const struct tern_shapes *shapes, const char *format,
                       int64_t m, int64_t n, int64_t k) {
    bool named = !lists->formats, size = !lists->m, layer = false;
    for (size_t i = 0; i < shapes->format_count && !named; i++)
        named = strcmp(shapes->formats[i].name, format) == 0;
    for (size_t i = 0; i < shapes->m_count && !size; i++)
        size = shapes->m[i] == m;
    for (size_t i = 0; i < shapes->layer_count && !layer; i++)
        layer = shapes->layers[i].n == n && shapes->layers[i].k == k;
    return named && size && layer;
}
