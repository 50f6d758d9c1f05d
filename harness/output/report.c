/* Report: data files, pictures and page of one GPU's winners, one section a model. */
#include "output/report.h"

#include "core/file.h"
#include "output/report_parts.h"
#include "output/csv.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double report_time_us(const struct tern_result *row) {
    return row->planned ? row->predicted_us : row->us;
}

double report_percent(const struct tern_result *row) {
    double us = report_time_us(row);
    return us > 0.0 ? 100.0 * row->limit_us / us : (double)NAN;
}

void report_safe_name(const char *name, char *out, size_t size) {
    tern_str_copy(out, size, name[0] ? name : "unnamed");
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr(".-_", *c))
            *c = '_';
}

void report_series(const struct tern_result *row, char *out, size_t size) {
    char format[40], op[16];
    report_safe_name(row->format, format, sizeof format);
    report_safe_name(row->op, op, sizeof op);
    if (strcmp(row->op, "linear-a16"))
        tern_str_format(out, size, "%s/%s", format, op);
    else
        tern_str_copy(out, size, format);
}

void report_add_once(struct tern_strs *list, const char *text) {
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->items[i], text))
            return;
    tern_strs_add(list, text);
}

/* Cuts the sorted results into models. Rows without a winner stay in: the page shows them, the pictures do not. */
static void split_models(struct report *report) {
    const struct tern_results *results = report->results;
    report->models = tern_alloc_zero(results->count, sizeof *report->models);
    for (size_t i = 0; i < results->count; i++) {
        const struct tern_result *row = &results->rows[i];
        char name[64];
        if (!i || strcmp(row[-1].shapes, row->shapes)) {
            struct report_model *fresh = &report->models[report->model_count++];
            fresh->gpu = report->gpu;
            fresh->rows = row;
            fresh->bytes = report->evidence->bytes + i;
            fresh->weight_bytes = report->evidence->weight_bytes + i;
            report_safe_name(row->shapes, fresh->name, sizeof fresh->name);
        }
        struct report_model *model = &report->models[report->model_count - 1];
        model->count++;
        model->planned = model->planned || row->planned;
        model->has_sustained = model->has_sustained || row->sustained_speedup > 0;
        report->planned = report->planned || row->planned;
        report_series(row, name, sizeof name);
        report_add_once(&model->series, name);
        report_safe_name(row->layer, name, sizeof name);
        report_add_once(&model->layers, name);
    }
}

/* Rows and bytes belong to the caller. */
static void free_report(struct report *report) {
    for (size_t i = 0; i < report->model_count; i++) {
        tern_strs_free(&report->models[i].series);
        tern_strs_free(&report->models[i].layers);
        tern_strs_free(&report->models[i].model_m);
        tern_strs_free(&report->models[i].barred);
        tern_strs_free(&report->models[i].space);
    }
    free(report->models);
    free(report->pictures);
}

/* One GPU a report: its ceilings and its name stand on every picture. */
static enum tern_status check_rows(const struct tern_results *results, struct tern_error *err) {
    if (!results->count) {
        tern_error_set(err, TERN_USAGE, "no winner matches the selection; nothing to report");
        tern_error_hint(err, "`tune show` lists what the database holds");
        return TERN_USAGE;
    }
    for (size_t i = 1; i < results->count; i++) {
        if (strcmp(results->rows[i].gpu, results->rows[0].gpu)) {
            tern_error_set(err, TERN_USAGE, "the selection holds rows of %s and of %s", results->rows[0].gpu,
                           results->rows[i].gpu);
            tern_error_hint(err, "a report shows one GPU: choose it with --gpu %s", results->rows[0].gpu);
            return TERN_USAGE;
        }
    }
    return TERN_OK;
}

/* Tables that pictures are drawn from, and winners.csv. */
static enum tern_status write_data(struct report *report, struct tern_error *err) {
    struct tern_str path = {0};
    const struct tern_trials *trials = report->evidence->trials;
    tern_str_printf(&path, "%s/data", report->dir);
    enum tern_status status = tern_file_check_writable_dir(path.data, err);
    for (size_t i = 0; i < report->model_count && !status; i++)
        status = report_write_data(report->dir, &report->models[i], err);
    for (size_t i = 0; i < report->model_count && trials && !status; i++)
        status = report_write_space(report->dir, &report->models[i], trials, err);
    tern_str_free(&path);
    tern_str_printf(&path, "%s/winners.csv", report->dir);
    if (!status)
        status = tern_output_csv(path.data, report->results, err);
    tern_str_free(&path);
    return status;
}

/* Data first: pictures and page are made from it, and it is all that is left where gnuplot fails. A missing gnuplot is told at
 * the end: data and page are of use without pictures. Its error outlives the page's success. */
enum tern_status tern_report_write(const char *dir, const struct tern_report_gpu *gpu, const struct tern_results *results,
                                   const struct tern_report_evidence *evidence, struct tern_error *err) {
    struct report report = {.dir = dir, .gpu = gpu, .results = results, .evidence = evidence};
    enum tern_status drawn = TERN_OK, status = check_rows(results, err);
    if (status)
        return status;
    split_models(&report);
    status = write_data(&report, err);
    if (!status) {
        drawn = report_draw(&report, err);
        status = report_write_page(&report, drawn ? NULL : err);
    }
    if (!status)
        status = report_write_markdown(&report, drawn ? NULL : err);
    free_report(&report);
    return drawn ? drawn : status;
}
