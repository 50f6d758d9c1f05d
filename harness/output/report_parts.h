/* The parts of a report: one model's rows, its data files, its pictures, the page. Private to output/report*.c. */
#ifndef TERN_OUTPUT_REPORT_PARTS_H
#define TERN_OUTPUT_REPORT_PARTS_H

#include "core/str.h"
#include "output/report.h"

/* The rows of one model, a slice of the results; names are safe for files and for gnuplot's word(). */
struct report_model {
    const struct tern_report_gpu *gpu;
    const struct tern_result *rows;
    const double *bytes;
    size_t count;
    char name[40];                /* file-name form of the shapes name */
    bool planned;                 /* any row is: the pictures say so */
    struct tern_strs series;      /* formats (with the op where it is not linear-a16), in row order */
    struct tern_strs layers;      /* in row order */
    struct tern_strs model_m;     /* M values of the bar chart, at most four */
    bool has_speedup, has_totals; /* something for the heat map, for the bar chart */
};

struct report_picture {
    char file[160]; /* without suffix, relative to the page */
    char title[120];
    char about[400]; /* how to read it */
    size_t model;    /* index of its model */
};

struct report {
    const char *dir;
    const struct tern_report_gpu *gpu;
    const struct tern_results *results;
    struct report_model *models;
    size_t model_count;
    struct report_picture *pictures;
    size_t picture_count;
    bool planned;
};

/* us, or the prediction of a planned row; NAN if unknown. */
double report_time_us(const struct tern_result *row);
/* 100 * limit / time, of planned rows too. */
double report_percent(const struct tern_result *row);
/* "ternary-g128", "ternary-g128/linear-a8"; no blanks. */
void report_series(const struct tern_result *row, char *out, size_t size);
/* Letters, digits, '.', '-' and '_' only. */
void report_safe_name(const char *name, char *out, size_t size);

/* Writes data/NAME.tsv, data/NAME-heatmap.tsv and data/NAME-model.tsv; fills model_m and the has_ fields. */
enum tern_status report_write_data(const char *dir, struct report_model *model, struct tern_error *err);

/* Draws every picture of every model and appends it to report->pictures. TERN_MISSING without gnuplot. */
enum tern_status report_draw(struct report *report, struct tern_error *err);

/* Writes index.html with the pictures there are. */
enum tern_status report_write_page(const struct report *report, struct tern_error *err);

#endif
