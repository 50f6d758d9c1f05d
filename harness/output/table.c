/* Result tables for people (80 columns) and winners.csv. Pure functions of result rows. */
#include "output/table.h"

#include "core/file.h"

#include <math.h>
#include <string.h>

#define NAME_WIDTH   10
#define WINNER_WIDTH 13
#define CHOICE_WIDTH 22 /* of a planned row, which has fewer columns */

/* Three to four significant digits in at most 9 characters; "-" where the number is unknown. */
static const char *show_us(char *out, size_t size, const char *mark, double us) {
    if (!(us >= 0.0))
        tern_str_copy(out, size, "-");
    else
        tern_str_format(out, size, "%s%.*f", mark, us < 10.0 ? 2 : us < 1000.0 ? 1 : 0, us);
    return out;
}

/* "2.53x" or "76%". */
static const char *show_scaled(char *out, size_t size, const char *format, double value) {
    if (isnan(value))
        tern_str_copy(out, size, "-");
    else if (!strcmp(format, "x"))
        tern_str_format(out, size, "%.2fx", value);
    else
        tern_str_format(out, size, "%.0f%%", value);
    return out;
}

/* A name cut to `width` characters, the last two dots where something is missing. */
static const char *fit(char *out, size_t size, const char *name, size_t width) {
    if (strlen(name) <= width)
        tern_str_copy(out, size, name);
    else
        tern_str_format(out, size, "%.*s..", (int)(width - 2), name);
    return out;
}

/* Rows under one heading. Planned and measured ones never share it. */
static bool same_block(const struct tern_result *a, const struct tern_result *b) {
    return a->planned == b->planned && !strcmp(a->gpu, b->gpu) && !strcmp(a->shapes, b->shapes) &&
           !strcmp(a->format, b->format) && !strcmp(a->op, b->op);
}

/* The heading says once what holds for all its rows: model, format, GPU, and whether anything was measured. */
static void print_heading(FILE *out, const struct tern_result *row) {
    fprintf(out, "%s  %s  on %s (%s)%s\n", row->shapes, row->format, row->gpu, row->arch, row->planned ? "  PLANNED" : "");
    if (strcmp(row->op, "linear-a16"))
        fprintf(out, "%s: activations are quantised to 8 bits first\n", row->op);
    if (row->planned) {
        fprintf(out, "Compiled and ranked without a GPU. Times are predictions; nothing was measured.\n");
        fprintf(out, "  %-10s %5s  %-22s %12s %9s %7s\n", "layer", "M", "first choice", "predicted us", "limit us",
                "% limit");
    } else {
        fprintf(out, "  %-10s %5s  %-13s %8s %9s %8s %9s %7s\n", "layer", "M", "winner", "us", "cuBLASLt", "speed-up",
                "sustained", "% limit");
    }
}

/* "~" marks each prediction, so that a copied line cannot pass for a measurement. */
static void print_planned(FILE *out, const struct tern_result *row) {
    char name[16], winner[32], us[24], limit[24], percent[24];
    double share = row->predicted_us > 0.0 ? 100.0 * row->limit_us / row->predicted_us : (double)NAN;
    fprintf(out, "  %-10s %5lld  %-22s %12s %9s %7s\n", fit(name, sizeof name, row->layer, NAME_WIDTH), (long long)row->m,
            row->template_name[0] ? fit(winner, sizeof winner, row->template_name, CHOICE_WIDTH) : "none",
            show_us(us, sizeof us, "~", row->predicted_us), show_us(limit, sizeof limit, "", row->limit_us),
            show_scaled(percent, sizeof percent, "%", share));
}

static void print_measured(FILE *out, const struct tern_result *row) {
    char name[16], winner[32], us[24], baseline[24], speedup[24], sustained[24], percent[24];
    fprintf(out, "  %-10s %5lld  %-13s %8s %9s %8s %9s %7s\n", fit(name, sizeof name, row->layer, NAME_WIDTH),
            (long long)row->m, row->template_name[0] ? fit(winner, sizeof winner, row->template_name, WINNER_WIDTH) : "none",
            show_us(us, sizeof us, "", row->us), show_us(baseline, sizeof baseline, "", row->baseline_us),
            show_scaled(speedup, sizeof speedup, "x", row->speedup),
            show_scaled(sustained, sizeof sustained, "x", row->sustained_speedup),
            show_scaled(percent, sizeof percent, "%", row->pct_of_limit));
}

void tern_output_table(FILE *out, const struct tern_results *results) {
    const struct tern_result *last = NULL;
    for (size_t i = 0; i < results->count; i++) {
        const struct tern_result *row = &results->rows[i];
        if (!last || !same_block(last, row)) {
            if (last)
                fputc('\n', out);
            print_heading(out, row);
        } else if (strcmp(last->layer, row->layer)) {
            fputc('\n', out);
        }
        if (row->planned)
            print_planned(out, row);
        else
            print_measured(out, row);
        last = row;
    }
}

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

/* Six significant digits; an empty field where nothing is known. */
static void add_number(struct tern_str *out, double value) {
    if (isfinite(value))
        tern_str_printf(out, "%.6g", value);
}

void tern_output_csv_text(struct tern_str *out, const struct tern_results *results) {
    tern_str_append(out, "format,op,layer,n,k,m,template,params,us,us_lo,us_hi,baseline,baseline_us,speedup,limit_us,"
                         "pct_of_limit,p_best,regret,sustained_us,sustained_speedup\n");
    for (size_t i = 0; i < results->count; i++) {
        const struct tern_result *row = &results->rows[i];
        const char *const texts[] = {row->format, row->op, row->layer};
        for (size_t t = 0; t < 3; t++) {
            add_text(out, texts[t]);
            tern_str_append(out, ",");
        }
        tern_str_printf(out, "%lld,%lld,%lld,", (long long)row->n, (long long)row->k, (long long)row->m);
        add_text(out, row->template_name);
        tern_str_append(out, ",");
        add_text(out, row->params);
        const double times[] = {row->us, row->us_lo, row->us_hi};
        for (size_t t = 0; t < 3; t++) {
            tern_str_append(out, ",");
            add_number(out, times[t]);
        }
        tern_str_append(out, ",");
        add_text(out, row->baseline);
        const double rest[] = {row->baseline_us, row->speedup, row->limit_us,     row->pct_of_limit,
                               row->p_best,      row->regret,  row->sustained_us, row->sustained_speedup};
        for (size_t t = 0; t < sizeof rest / sizeof rest[0]; t++) {
            tern_str_append(out, ",");
            add_number(out, rest[t]);
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
