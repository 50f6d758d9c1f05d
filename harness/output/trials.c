/* Lists of trials: order, table, CSV, JSON. See trials.h. */
#include "output/report_parts.h"
#include "output/trials_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void tern_trials_add(struct tern_trials *list, const struct tern_trial *trial) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? list->capacity * 2 : 256;
        list->rows = tern_realloc(list->rows, list->capacity * sizeof *list->rows);
    }
    list->rows[list->count++] = *trial;
}

void tern_trials_free(struct tern_trials *list) {
    free(list->rows);
    memset(list, 0, sizeof *list);
}

static int stage_rank(const char *stage) {
    static const char *const order[] = {"final", "sustained", "screen", "verify"};
    int rank = 0;
    while (rank < 4 && strcmp(order[rank], stage) != 0)
        rank++;
    return rank;
}

/* Total, so that qsort gives one order: what is equal in all of these prints the same. */
static int compare_trials(const void *left, const void *right) {
    const struct tern_trial *a = left, *b = right;
    if (a->problem != b->problem)
        return !a->problem ? 1 : !b->problem ? -1 : a->problem < b->problem ? -1 : 1;
    int order = stage_rank(a->stage) - stage_rank(b->stage);
    if (!order)
        order = (a->outcome != TERN_OUTCOME_OK) - (b->outcome != TERN_OUTCOME_OK);
    if (!order)
        order = (int)a->outcome - (int)b->outcome;
    if (!order && a->us != b->us && !isnan(a->us) && !isnan(b->us))
        order = a->us < b->us ? -1 : 1;
    if (!order)
        order = strcmp(a->template_name, b->template_name);
    return order ? order : strcmp(a->params, b->params);
}

void tern_trials_sort(struct tern_trials *list) {
    if (list->count > 1)
        qsort(list->rows, list->count, sizeof *list->rows, compare_trials);
}

const char *trials_us(char *out, size_t size, double us) {
    if (us >= 0)
        tern_str_format(out, size, "%.*f", us < 10.0 ? 2 : us < 1000.0 ? 1 : 0, us);
    else
        tern_str_copy(out, size, "-");
    return out;
}

const char *trials_fit(char *out, size_t size, const char *text, size_t width) {
    if (strlen(text) <= width)
        tern_str_copy(out, size, text);
    else
        tern_str_format(out, size, "%.*s..", (int)(width - 2), text);
    for (char *c = out; *c; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
    return out;
}

static void print_trial(FILE *out, const struct tern_trial *t) {
    char us[24], name[24], rest[64];
    bool ok = t->outcome == TERN_OUTCOME_OK;
    fprintf(out, "  %-9s %-8s %8s  %-14s %s\n", t->stage, tern_outcome_name(t->outcome), trials_us(us, sizeof us, t->us),
            trials_fit(name, sizeof name, t->template_name, 14),
            trials_fit(rest, sizeof rest, ok || !t->detail[0] ? t->params : t->detail, 34));
}

void tern_trials_table(FILE *out, const struct tern_trials *list) {
    const struct tern_result *last = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct tern_trial *t = &list->rows[i];
        const struct tern_result *p = t->problem;
        if (!p)
            continue;
        if (p != last) {
            char series[64];
            report_series(p, series, sizeof series);
            fprintf(out, "%s%s  %s  %s M=%lld  on %s\n", last ? "\n" : "", p->shapes, series, p->layer, (long long)p->m,
                    p->gpu);
            fprintf(out, "  %-9s %-8s %8s  %-14s %s\n", "stage", "outcome", "us", "template", "parameters, or why not");
        }
        print_trial(out, t);
        last = p;
    }
}

/* ---- CSV and JSON: one list of columns ---- */

#define AT(field) offsetof(struct tern_trial, field)
static const struct {
    const char *name;
    char kind; /* t text, d double, i int64_t */
    size_t at;
} columns[] = {{"stage", 't', AT(stage)},
               {"policy", 't', AT(policy)},
               {"us", 'd', AT(us)},
               {"us_lo", 'd', AT(us_lo)},
               {"us_hi", 'd', AT(us_hi)},
               {"samples", 'i', AT(samples)},
               {"gpu_seconds", 'd', AT(gpu_seconds)},
               {"predicted_us", 'd', AT(predicted_us)},
               {"registers", 'i', AT(registers)},
               {"static_smem_bytes", 'i', AT(static_smem_bytes)},
               {"spill_bytes", 'i', AT(spill_bytes)},
               {"template", 't', AT(template_name)},
               {"params", 't', AT(params)},
               {"detail", 't', AT(detail)}};
enum { COLUMN_COUNT = sizeof columns / sizeof columns[0] };

static void print_text(FILE *out, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++)
        fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', out);
}

void tern_trials_csv(FILE *out, const struct tern_trials *list) {
    fputs("format,op,layer,n,k,m,outcome,sm_mhz", out);
    for (size_t c = 0; c < COLUMN_COUNT; c++)
        fprintf(out, ",%s", columns[c].name);
    fputc('\n', out);
    for (size_t i = 0; i < list->count; i++) {
        const struct tern_trial *t = &list->rows[i];
        const struct tern_result *p = t->problem;
        if (!p)
            continue;
        fprintf(out, "%s,%s,%s,%lld,%lld,%lld,%s,%d", p->format, p->op, p->layer, (long long)p->n, (long long)p->k,
                (long long)p->m, tern_outcome_name(t->outcome), t->sm_mhz);
        for (size_t c = 0; c < COLUMN_COUNT; c++) {
            const void *field = (const char *)t + columns[c].at;
            fputc(',', out);
            if (columns[c].kind == 't')
                print_text(out, field);
            else if (columns[c].kind == 'i')
                fprintf(out, "%lld", (long long)*(const int64_t *)field);
            else if (isfinite(*(const double *)field))
                fprintf(out, "%.6g", *(const double *)field);
        }
        fputc('\n', out);
    }
}

json_t *trials_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *trials_text(const char *value) {
    json_t *string = json_string(value);
    return string ? string : json_string("?"); /* not UTF-8 */
}

json_t *trials_one_json(const struct tern_trial *t) {
    json_t *object = json_pack("{s:s, s:i}", "outcome", tern_outcome_name(t->outcome), "sm_mhz", t->sm_mhz);
    for (size_t c = 0; c < COLUMN_COUNT; c++) {
        const void *field = (const char *)t + columns[c].at;
        json_object_set_new(object, columns[c].name,
                            columns[c].kind == 't'   ? trials_text(field)
                            : columns[c].kind == 'i' ? json_integer((json_int_t) * (const int64_t *)field)
                                                     : trials_number(*(const double *)field));
    }
    return object;
}

void trials_add_problem(json_t *object, const struct tern_result *p) {
    json_object_set_new(object, "shapes", trials_text(p->shapes));
    json_object_set_new(object, "layer", trials_text(p->layer));
    json_object_set_new(object, "format", trials_text(p->format));
    json_object_set_new(object, "op", trials_text(p->op));
    json_object_set_new(object, "m", json_integer(p->m));
    json_object_set_new(object, "n", json_integer(p->n));
    json_object_set_new(object, "k", json_integer(p->k));
}

void trials_print_json(FILE *out, const char *gpu, const char *db, const char *key, json_t *list) {
    json_t *root = json_pack("{s:o, s:o, s:o}", "gpu", trials_text(gpu), "db", trials_text(db), key, list);
    json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(root);
}

void tern_trials_json(FILE *out, const char *gpu, const char *db, const struct tern_trials *list) {
    json_t *rows = json_array();
    for (size_t i = 0; i < list->count; i++) {
        if (!list->rows[i].problem)
            continue;
        json_t *row = trials_one_json(&list->rows[i]);
        trials_add_problem(row, list->rows[i].problem);
        json_array_append_new(rows, row);
    }
    trials_print_json(out, gpu, db, "trials", rows);
}
