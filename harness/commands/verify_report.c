/* Results of `tune verify` on stdout: a table of what was checked and the first mismatch of each failure, or JSON. No times.
 */
#include "commands/verify_internal.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tern_verify_is_bad(const struct verify_item *item) {
    if (!item->answered)
        return item->detail != NULL; /* an error on the way; NULL: an interruption came first */
    return item->outcome != TERN_OUTCOME_OK && item->outcome != TERN_OUTCOME_INVALID;
}

/* Sums over the candidates of one template and format. */
struct verify_row {
    const char *template_name, *format;
    size_t ok, bad, invalid;
    int64_t shapes, launches, checked;
    double worst;
};

/* The row that starts at item `from`; returns the first item behind it. */
static size_t sum_row(const struct verify *v, size_t from, struct verify_row *row) {
    const struct verify_item *first = &v->items[from];
    *row = (struct verify_row){.template_name = first->candidate.tmpl->name, .format = v->formats[first->format].name};
    size_t i = from;
    for (; i < v->item_count; i++) {
        const struct verify_item *item = &v->items[i];
        if (item->candidate.tmpl != first->candidate.tmpl || item->format != first->format) {
            break;
        }
        bool bad = tern_verify_is_bad(item);
        row->bad += bad;
        row->ok += item->answered && item->outcome == TERN_OUTCOME_OK;
        row->invalid += item->answered && item->outcome == TERN_OUTCOME_INVALID;
        row->shapes += item->shapes;
        row->launches += item->launches;
        row->checked += item->checked;
        row->worst = item->worst > row->worst ? item->worst : row->worst;
    }
    return i;
}

static size_t print_table(const struct verify *v) {
    size_t empty = 0;
    printf("%-14s %-20s %6s %6s %7s %8s %10s %6s\n", "template", "format", "ok", "failed", "unfit", "launches", "elements",
           "worst");
    for (size_t i = 0; i < v->item_count;) {
        struct verify_row row;
        i = sum_row(v, i, &row);
        printf("%-14s %-20s %6zu %6zu %7zu %8lld %10lld %6.2f\n", row.template_name, row.format, row.ok, row.bad,
               row.invalid, (long long)row.launches, (long long)row.checked, row.worst > 99.99 ? 99.99 : row.worst);
        empty += row.ok + row.bad == 0;
    }
    if (v->type != TERN_F16) {
        printf("activations: %s\n", v->options.activations);
    }
    puts("worst: largest |got - reference| over its bound; unfit: serves none of the small shapes");
    return empty;
}

static void print_failures(const struct verify *v) {
    for (size_t i = 0; i < v->item_count; i++) {
        const struct verify_item *item = &v->items[i];
        if (!tern_verify_is_bad(item)) {
            continue;
        }
        char params[512];
        tern_candidate_text(&item->candidate, params, sizeof params);
        printf("\nFAILED %s %s %s\n  %s: %s\n", item->candidate.tmpl->name, v->formats[item->format].name, params,
               item->answered ? tern_outcome_name(item->outcome) : "not checked", item->detail != NULL ? item->detail : "");
    }
}

static json_t *item_json(const struct verify *v, const struct verify_item *item) {
    char params[512];
    tern_candidate_text(&item->candidate, params, sizeof params);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:f}", "template", item->candidate.tmpl->name, "format",
                     v->formats[item->format].name, "params", params, "outcome",
                     item->answered ? tern_outcome_name(item->outcome) : "unchecked", "detail",
                     item->detail != NULL ? item->detail : "", "shapes", (json_int_t)item->shapes, "launches",
                     (json_int_t)item->launches, "elements", (json_int_t)item->checked, "worst", item->worst);
}

static size_t print_json(const struct verify *v) {
    json_t *list = json_array();
    size_t empty = 0;
    for (size_t i = 0; i < v->item_count;) {
        struct verify_row row;
        i = sum_row(v, i, &row);
        empty += row.ok + row.bad == 0;
    }
    for (size_t i = 0; i < v->item_count; i++) {
        json_array_append_new(list, item_json(v, &v->items[i]));
    }
    json_t *all = json_pack("{s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:o}", "backend", v->options.backend, "gpu",
                            v->options.gpu, "activations", v->options.activations, "order", v->options.order, "sanitize",
                            v->options.sanitize, "seed", (json_int_t)v->options.seed, "checked", (json_int_t)v->done,
                            "failed", (json_int_t)v->bad, "candidates", list);
    char *text = json_dumps(all, JSON_INDENT(2));
    puts(text);
    free(text);
    json_decref(all);
    return empty;
}

size_t tern_verify_print(const struct verify *v) {
    if (v->options.json) {
        return print_json(v);
    }
    size_t empty = print_table(v);
    print_failures(v);
    return empty;
}
