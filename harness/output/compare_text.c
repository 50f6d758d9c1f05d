/* Comparisons as a table for people, as JSON, and as Markdown for a release note. See compare.h. */
#include "output/compare_parts.h"

#include "output/report_parts.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

const struct tern_result *compare_either(const struct tern_compare_row *row) {
    return row->a ? row->a : row->b;
}

bool compare_same_block(const struct tern_compare_row *a, const struct tern_compare_row *b) {
    const struct tern_result *x = compare_either(a), *y = compare_either(b);
    return !strcmp(x->gpu, y->gpu) && !strcmp(x->shapes, y->shapes) && !strcmp(x->format, y->format) &&
           !strcmp(x->op, y->op);
}

static void show_us(char *out, size_t size, const struct tern_result *row) {
    if (!row || !(row->us > 0))
        tern_str_copy(out, size, "-");
    else
        tern_str_format(out, size, "%.*f", row->us < 10.0 ? 2 : row->us < 1000.0 ? 1 : 0, row->us);
}

/* "+3.4 %" and "+2.9 to +3.8": what B needs more. "-" where nothing was compared. */
static void show_change(char *change, size_t change_size, char *interval, size_t interval_size,
                        const struct tern_compare_row *row) {
    tern_str_copy(change, change_size, "-");
    tern_str_copy(interval, interval_size, "-");
    if (row->ratio > 0)
        tern_str_format(change, change_size, "%+.1f %%", 100 * (row->ratio - 1));
    if (row->lo > 0 && row->hi > 0)
        tern_str_format(interval, interval_size, "%+.1f to %+.1f", 100 * (row->lo - 1), 100 * (row->hi - 1));
}

static void print_row(FILE *out, const struct tern_compare_row *row) {
    const struct tern_result *problem = compare_either(row);
    char a[24], b[24], change[24], interval[40];
    show_us(a, sizeof a, row->a);
    show_us(b, sizeof b, row->b);
    show_change(change, sizeof change, interval, sizeof interval, row);
    fprintf(out, "  %-10.10s %5lld %8s %8s %9s %16s  %s\n", problem->layer, (long long)problem->m, a, b, change, interval,
            tern_compare_verdict_name(row->verdict));
}

/* "3 slower, 1 missing, 108 same": what there is, the worst first. */
static void add_counts(struct tern_str *out, const struct tern_compare *c) {
    static const enum tern_compare_verdict order[] = {
        TERN_COMPARE_SLOWER, TERN_COMPARE_MISSING, TERN_COMPARE_FASTER,       TERN_COMPARE_AMBIGUOUS,
        TERN_COMPARE_SAME,   TERN_COMPARE_NEW,     TERN_COMPARE_OTHER_POLICY, TERN_COMPARE_OTHER_DEVICE};
    size_t printed = 0;
    for (size_t i = 0; i < TERN_COMPARE_VERDICT_COUNT; i++)
        if (c->counts[order[i]])
            tern_str_printf(out, "%s%zu %s", printed++ ? ", " : "", c->counts[order[i]],
                            tern_compare_verdict_name(order[i]));
}

/* The noises that rows were judged with: "2 %" or "2 to 10 %". */
static void add_noise(struct tern_str *out, const struct tern_compare *c) {
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < c->count; i++)
        if (c->rows[i].noise >= 0) {
            low = fmin(low, c->rows[i].noise);
            high = fmax(high, c->rows[i].noise);
        }
    if (low < high)
        tern_str_printf(out, "%g to %g %%", 100 * low, 100 * high);
    else
        tern_str_printf(out, "%g %%", 100 * high);
}

static void add_summary(struct tern_str *out, const struct tern_compare *c) {
    tern_str_printf(out, "%zu problems: ", c->count);
    add_counts(out, c);
    if (isfinite(c->mean_ratio)) {
        tern_str_printf(out, ". Geometric mean of B's times over A's: %.3f; noise: ", c->mean_ratio);
        add_noise(out, c);
    }
    tern_str_append(out, ".");
}

/* Breaks a sentence at blanks before column 80. */
static void print_wrapped(FILE *out, const char *text) {
    size_t column = 0;
    for (const char *word = text; *word;) {
        size_t length = strcspn(word, " ");
        if (column && column + 1 + length > 79) {
            fputc('\n', out);
            column = 0;
        }
        column += (size_t)fprintf(out, "%s%.*s", column ? " " : "", (int)length, word);
        word += length + (word[length] == ' ');
    }
    fputc('\n', out);
}

static bool changed(const struct tern_compare_row *row) {
    return row->verdict != TERN_COMPARE_SAME && row->verdict != TERN_COMPARE_NEW;
}

static void print_heading(FILE *out, const struct tern_result *row) {
    char series[64];
    report_series(row, series, sizeof series);
    fprintf(out, "\n%s%s%s  on %s\n", row->shapes, row->shapes[0] ? "  " : "", series,
            row->gpu[0] ? row->gpu : "a GPU that is not stated");
    fprintf(out, "  %-10s %5s %8s %8s %9s %16s  %s\n", "layer", "M", "A us", "B us", "change", "95 % interval", "verdict");
}

void tern_compare_table(FILE *out, const struct tern_compare *c, bool changed_only) {
    const struct tern_compare_row *last = NULL;
    struct tern_str summary = {0};
    fprintf(out, "A: %s\nB: %s\n", c->a, c->b);
    for (size_t i = 0; i < c->count; i++) {
        const struct tern_compare_row *row = &c->rows[i];
        if (changed_only && !changed(row))
            continue;
        if (!last || !compare_same_block(last, row))
            print_heading(out, compare_either(row));
        else if (strcmp(compare_either(last)->layer, compare_either(row)->layer))
            fputc('\n', out);
        print_row(out, row);
        last = row;
    }
    fputc('\n', out);
    add_summary(&summary, c);
    print_wrapped(out, summary.data);
    for (size_t i = 0; i < c->notes.count; i++)
        print_wrapped(out, c->notes.items[i]);
    tern_str_free(&summary);
}

/* ---- JSON ---- */

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *text(const char *value) {
    json_t *string = json_string(value);
    return string ? string : json_string("?"); /* not UTF-8 */
}

static json_t *side(const struct tern_result *row) {
    return row ? json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "template", text(row->template_name), "params",
                           text(row->params), "policy", row->policy[0] ? text(row->policy) : json_null(), "us",
                           number(row->us), "us_lo", number(row->us_lo), "us_hi", number(row->us_hi))
               : json_null();
}

static json_t *row_json(const struct tern_compare_row *row) {
    const struct tern_result *p = compare_either(row);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "gpu", text(p->gpu),
                     "shapes", p->shapes[0] ? text(p->shapes) : json_null(), "layer", text(p->layer), "format",
                     text(p->format), "op", text(p->op), "m", (json_int_t)p->m, "n", (json_int_t)p->n, "k", (json_int_t)p->k,
                     "verdict", tern_compare_verdict_name(row->verdict), "ratio", number(row->ratio), "ratio_lo",
                     number(row->lo), "ratio_hi", number(row->hi), "noise", number(row->noise), "a", side(row->a), "b",
                     side(row->b));
}

void tern_compare_json(FILE *out, const struct tern_compare *c) {
    json_t *counts = json_object(), *rows = json_array(), *notes = json_array();
    for (int i = 0; i < TERN_COMPARE_VERDICT_COUNT; i++)
        json_object_set_new(counts, tern_compare_verdict_name((enum tern_compare_verdict)i),
                            json_integer((json_int_t)c->counts[i]));
    for (size_t i = 0; i < c->count; i++)
        json_array_append_new(rows, row_json(&c->rows[i]));
    for (size_t i = 0; i < c->notes.count; i++)
        json_array_append_new(notes, text(c->notes.items[i]));
    json_t *root = json_pack("{s:o, s:o, s:b, s:o, s:o, s:o, s:o}", "a", text(c->a), "b", text(c->b), "passed",
                             tern_compare_failed(c) == 0, "counts", counts, "mean_ratio", number(c->mean_ratio), "notes",
                             notes, "problems", rows);
    json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(root);
}

/* ---- Markdown ---- */

void compare_markdown(struct tern_str *out, const struct tern_compare *c) {
    tern_str_printf(out, "# %s against %s\n\nA: %s. B: %s. ", c->b, c->a, c->a, c->b);
    add_summary(out, c);
    tern_str_append(out, "\n");
    for (size_t i = 0; i < c->notes.count; i++)
        tern_str_printf(out, "%s\n", c->notes.items[i]);
    for (size_t i = 0, printed = 0; i < c->count; i++) {
        const struct tern_compare_row *row = &c->rows[i];
        char a[24], b[24], change[24], interval[40], series[64];
        if (!changed(row))
            continue;
        if (!printed++)
            tern_str_append(out, "\n| format | layer | M | A, us | B, us | change | 95 % interval | |\n"
                                 "|---|---|---:|---:|---:|---:|---:|---|\n");
        show_us(a, sizeof a, row->a);
        show_us(b, sizeof b, row->b);
        show_change(change, sizeof change, interval, sizeof interval, row);
        report_series(compare_either(row), series, sizeof series);
        tern_str_printf(out, "| %s | %s | %lld | %s | %s | %s | %s | %s |\n", series, compare_either(row)->layer,
                        (long long)compare_either(row)->m, a, b, change, interval, tern_compare_verdict_name(row->verdict));
    }
}
