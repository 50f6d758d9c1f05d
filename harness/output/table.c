/* Result tables for people (80 columns). Pure functions of result rows. */
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

/* A winner's name, cut to `width`, or "none". */
static const char *show_winner(char *out, size_t size, const struct tern_result *row, size_t width) {
    if (!row->template_name[0])
        tern_str_copy(out, size, "none");
    else if (tern_rounds_scales(row->params))
        tern_str_format(out, size, "%s*", fit((char[40]){0}, 40, row->template_name, width - 1));
    else
        fit(out, size, row->template_name, width);
    return out;
}

/* Rows under one heading. Planned and measured ones never share it. */
static bool same_block(const struct tern_result *a, const struct tern_result *b) {
    return a->planned == b->planned && !strcmp(a->gpu, b->gpu) && !strcmp(a->shapes, b->shapes) &&
           !strcmp(a->format, b->format) && !strcmp(a->op, b->op);
}

/* The heading says once what holds for all its rows: model, format, GPU, and whether anything was measured. */
static void print_heading(FILE *out, const struct tern_result *row, bool rounded) {
    fprintf(out, "%s  %s  on %s (%s)%s\n", row->shapes, row->format, row->gpu, row->arch, row->planned ? "  PLANNED" : "");
    if (strcmp(row->op, "linear-a16"))
        fprintf(out, "%s: %s\n%s", row->op,
                strcmp(row->op, "linear-bf16") ? "activations are quantised to 8 bits first" : "x and y in bfloat16",
                rounded ? "*: group scales are rounded to 7 bits of the largest of their row\n" : "");
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
            show_winner(winner, sizeof winner, row, CHOICE_WIDTH), show_us(us, sizeof us, "~", row->predicted_us),
            show_us(limit, sizeof limit, "", row->limit_us), show_scaled(percent, sizeof percent, "%", share));
}

static void print_measured(FILE *out, const struct tern_result *row) {
    char name[16], winner[32], us[24], baseline[24], speedup[24], sustained[24], percent[24];
    fprintf(out, "  %-10s %5lld  %-13s %8s %9s %8s %9s %7s\n", fit(name, sizeof name, row->layer, NAME_WIDTH),
            (long long)row->m, show_winner(winner, sizeof winner, row, WINNER_WIDTH), show_us(us, sizeof us, "", row->us),
            show_us(baseline, sizeof baseline, "", row->baseline_us),
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
            bool rounded = false;
            for (size_t j = i; j < results->count && same_block(row, &results->rows[j]); j++)
                rounded = rounded || tern_rounds_scales(results->rows[j].params);
            print_heading(out, row, rounded);
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
