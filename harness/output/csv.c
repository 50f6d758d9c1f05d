/* winners.csv, written and read. See csv.h. */
#include "output/csv.h"

#include "core/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind { TEXT, INTEGER, NUMBER };

#define REQUIRED true
#define COLUMN(field, kind, required)                                                                                       \
    { #field, kind, offsetof(struct tern_result, field), sizeof((struct tern_result *)0)->field, required }
static const struct column {
    const char *name;
    enum kind kind;
    size_t offset, size;
    bool required; /* a row says nothing without it */
} columns[] = {
    COLUMN(format, TEXT, REQUIRED),
    COLUMN(op, TEXT, REQUIRED),
    COLUMN(layer, TEXT, REQUIRED),
    COLUMN(n, INTEGER, REQUIRED),
    COLUMN(k, INTEGER, REQUIRED),
    COLUMN(m, INTEGER, REQUIRED),
    {"template", TEXT, offsetof(struct tern_result, template_name), sizeof((struct tern_result *)0)->template_name, false},
    COLUMN(params, TEXT, false),
    COLUMN(us, NUMBER, REQUIRED),
    COLUMN(us_lo, NUMBER, false),
    COLUMN(us_hi, NUMBER, false),
    COLUMN(baseline, TEXT, false),
    COLUMN(baseline_us, NUMBER, false),
    COLUMN(speedup, NUMBER, false),
    COLUMN(limit_us, NUMBER, false),
    COLUMN(pct_of_limit, NUMBER, false),
    COLUMN(p_best, NUMBER, false),
    COLUMN(regret, NUMBER, false),
    COLUMN(sustained_us, NUMBER, false),
    COLUMN(sustained_speedup, NUMBER, false),
    COLUMN(shapes, TEXT, false),
    COLUMN(layer_count, INTEGER, false),
    COLUMN(policy, TEXT, false),
};
enum { COLUMN_COUNT = sizeof columns / sizeof columns[0] };

/* ---- writing ---- */

/* RFC 4180: quoted only where needed. */
static void add_text(struct tern_str *out, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        tern_str_append(out, text);
        return;
    }
    tern_str_append(out, "\"");
    for (; *text; text++)
        tern_str_append_bytes(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    tern_str_append(out, "\"");
}

/* Six significant digits of a number; an empty field where nothing is known. */
static void add_field(struct tern_str *out, const struct tern_result *row, const struct column *c) {
    const void *field = (const char *)row + c->offset;
    if (c->kind == TEXT)
        add_text(out, field);
    else if (c->kind == INTEGER)
        tern_str_printf(out, "%lld", (long long)*(const int64_t *)field);
    else if (isfinite(*(const double *)field))
        tern_str_printf(out, "%.6g", *(const double *)field);
}

void tern_output_csv_text(struct tern_str *out, const struct tern_results *results) {
    for (size_t c = 0; c < COLUMN_COUNT; c++)
        tern_str_printf(out, "%s%s", c ? "," : "", columns[c].name);
    tern_str_append(out, "\n");
    for (size_t i = 0; i < results->count; i++) {
        for (size_t c = 0; c < COLUMN_COUNT; c++) {
            if (c)
                tern_str_append(out, ",");
            add_field(out, &results->rows[i], &columns[c]);
        }
        tern_str_append(out, "\n");
    }
}

enum tern_status tern_output_csv(const char *path, const struct tern_results *results, struct tern_error *err) {
    struct tern_str text = {0};
    tern_output_csv_text(&text, results);
    enum tern_status status = tern_file_write(path, text.data, text.length, err);
    tern_str_free(&text);
    return status;
}

/* ---- reading ---- */

/* One record from *at on, which moves behind it; a quoted field may hold line ends. False at the end or on a quote that nothing
 * closes, and then *at stays. */
static bool read_record(const char **at, struct tern_strs *fields) {
    const char *c = *at;
    struct tern_str field = {0};
    bool quoted = false, open = *c != 0;
    tern_strs_free(fields);
    while (open) {
        if (quoted && *c == '"' && c[1] == '"') {
            tern_str_append(&field, "\"");
            c += 2;
        } else if (*c == '"') {
            quoted = !quoted;
            c++;
        } else if (*c && (quoted || (*c != ',' && *c != '\n'))) {
            if (quoted || *c != '\r')
                tern_str_append_bytes(&field, c, 1);
            c++;
        } else {
            tern_strs_add(fields, tern_str_text(&field));
            tern_str_free(&field);
            open = *c == ',';
            c += *c != 0;
        }
        if (!*c && quoted) /* before the next step, which would run past the end */
            break;
    }
    tern_str_free(&field);
    if (quoted || c == *at)
        return false;
    *at = c;
    return true;
}

/* Stores the text of one field; an empty number stays unknown. */
static bool store(struct tern_result *row, const struct column *c, const char *text) {
    void *field = (char *)row + c->offset;
    if (c->kind == TEXT) {
        tern_str_copy(field, c->size, text);
        return strlen(text) < c->size;
    }
    if (!text[0])
        return c->kind == NUMBER;
    return c->kind == INTEGER ? tern_str_parse_int(text, 0, INT64_MAX, field) : tern_str_parse_double(text, field);
}

static enum tern_status read_row(const struct tern_strs *fields, const int *place, struct tern_result *row,
                                 struct tern_error *err) {
    memset(row, 0, sizeof *row);
    for (size_t c = 0; c < COLUMN_COUNT; c++)
        if (columns[c].kind == NUMBER)
            *(double *)(void *)((char *)row + columns[c].offset) = (double)NAN;
    row->default_us = row->dequant_us = row->dequant_e4m3_us = row->speedup_lo = row->speedup_hi = row->predicted_us =
        (double)NAN;
    for (size_t c = 0; c < COLUMN_COUNT; c++) {
        if (place[c] < 0)
            continue;
        if ((size_t)place[c] >= fields->count)
            return tern_error_set(err, TERN_INTERNAL, "%zu fields, fewer than its heading names", fields->count);
        if (!store(row, &columns[c], fields->items[place[c]]))
            return tern_error_set(err, TERN_INTERNAL, "%s is '%s'", columns[c].name, fields->items[place[c]]);
    }
    row->planned = !(row->us > 0);
    return TERN_OK;
}

/* place[c]: index of column c in the file, -1 where there is none. */
static enum tern_status read_heading(const struct tern_strs *heading, int *place, struct tern_strs *missing,
                                     struct tern_error *err) {
    for (size_t c = 0; c < COLUMN_COUNT; c++) {
        place[c] = -1;
        for (size_t i = 0; i < heading->count; i++)
            if (strcmp(heading->items[i], columns[c].name) == 0)
                place[c] = (int)i;
        if (place[c] < 0 && columns[c].required)
            return tern_error_set(err, TERN_INTERNAL, "no column '%s': not a winners.csv", columns[c].name);
        if (place[c] < 0 && missing)
            tern_strs_add(missing, columns[c].name);
    }
    return TERN_OK;
}

enum tern_status tern_csv_read(const char *path, struct tern_results *rows, struct tern_strs *missing,
                               struct tern_error *err) {
    char *text = NULL;
    size_t length = 0, line = 1;
    int place[COLUMN_COUNT];
    struct tern_strs fields = {0};
    enum tern_status status = tern_file_read(path, &text, &length, err);
    if (status)
        return status;
    const char *at = text;
    read_record(&at, &fields);
    status = read_heading(&fields, place, missing, err);
    while (!status && read_record(&at, &fields)) {
        struct tern_result row;
        line++;
        status = read_row(&fields, place, &row, err);
        if (!status)
            tern_results_add(rows, &row);
    }
    if (!status && (size_t)(at - text) != length)
        status = tern_error_set(err, TERN_INTERNAL, "a quote that nothing closes, or a NUL byte");
    if (status)
        tern_error_prefix(err, "%s, row %zu", path, line);
    tern_strs_free(&fields);
    free(text);
    return status;
}
