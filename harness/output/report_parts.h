/* The parts of a report: one model's rows, its data files, its pictures, the page. Private to output/report*.c. */
#ifndef TERN_OUTPUT_REPORT_PARTS_H
#define TERN_OUTPUT_REPORT_PARTS_H

#include "core/str.h"
#include "output/report.h"

/* The rows of one model, a slice of the results; names are safe for files and for gnuplot's word(). */
struct report_model {
    const struct tern_report_gpu *gpu;
    const struct tern_result *rows;
    const double *bytes, *weight_bytes;
    size_t count;
    char name[40];                /* file-name form of the shapes name */
    bool planned;                 /* any row is: the pictures say so */
    struct tern_strs series;      /* formats (with the op where it is not linear-a16), in row order */
    struct tern_strs layers;      /* in row order */
    struct tern_strs model_m;     /* M values of the bar chart, at most four, */
    struct tern_strs barred;      /* and its series: those that were tuned for every layer at one of them */
    struct tern_strs space;       /* series that have a tuning space to show: trials of one of their problems */
    bool has_speedup, has_totals; /* something for the heat map, for the bar chart */
    bool has_sustained, has_search;
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
    const struct tern_report_evidence *evidence;
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
/* Appends a word once: first appearances stay in order, so layers stay in model order. */
void report_add_once(struct tern_strs *list, const char *text);
/* Letters, digits, '.', '-' and '_' only. */
void report_safe_name(const char *name, char *out, size_t size);

/* Writes data/NAME.tsv, data/NAME-heatmap.tsv and data/NAME-model.tsv; fills model_m, barred and the has_ fields. */
enum tern_status report_write_data(const char *dir, struct report_model *model, struct tern_error *err);

/* data/NAME-space.tsv: the trials of one problem of each series, the one that was tried most; fills model->space. Writes nothing
 * where nothing was tried. */
enum tern_status report_write_space(const char *dir, struct report_model *model, const struct tern_trials *trials,
                                    struct tern_error *err);
/* The problem that the tuning space of a series shows; NULL if there is none. */
const struct tern_result *report_space_problem(const struct report_model *model, const char *series,
                                               const struct tern_trials *trials);

/* Geometric mean of the speed-ups of one series with M in [low, high]; NAN if there is none. */
double report_mean_speedup(const struct report_model *model, const char *series, int64_t low, int64_t high);
/* Bytes of the weights of all linear layers of the model in one series, of FP16 where it is NULL; NAN if a layer is missing. */
double report_model_bytes(const struct report_model *model, const char *series);
/* Ranges of M that means are told for. */
struct report_range {
    const char *name;
    int64_t low, high;
};
#define REPORT_RANGES 3
extern const struct report_range report_ranges[REPORT_RANGES];

/* report.md: the page for a release note. */
enum tern_status report_write_markdown(const struct report *report, struct tern_error *err);

/* Draws every picture of every model and appends it to report->pictures. TERN_MISSING without gnuplot. */
enum tern_status report_draw(struct report *report, struct tern_error *err);

/* Writes index.html with the pictures there are. */
enum tern_status report_write_page(const struct report *report, struct tern_error *err);

#endif
