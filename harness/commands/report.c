/* `tune report`: pictures, data files and a page of one GPU's winners. */
#include "commands/commands.h"

#include "commands/ceilings.h"
#include "commands/dispatch.h"
#include "commands/release_parts.h"
#include "commands/show_search.h"
#include "commands/show_trials.h"
#include "config/gpu.h"
#include "core/file.h"
#include "core/options.h"
#include "formats/format.h"
#include "output/report.h"
#include "space/cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct report_options {
    const char *gpu, *shapes, *db, *output;
};

#define REPORT_OPTION_COUNT 4

/* One table for parsing and help; the values point into o. */
static void list_options(struct report_options *o, struct tern_option list[REPORT_OPTION_COUNT]) {
    const struct tern_option options[REPORT_OPTION_COUNT] = {
        {"gpu", 'g', TERN_OPTION_TEXT, &o->gpu, "NAME", "GPU to report (default: the only one in the database)", 0, 0},
        {"shapes", 's', TERN_OPTION_TEXT, &o->shapes, "NAME", "only this model (default: all)", 0, 0},
        {"db", 0, TERN_OPTION_TEXT, &o->db, "PATH", "database to read (default: " TERN_DEFAULT_DB ")", 0, 0},
        {"output", 'o', TERN_OPTION_TEXT, &o->output, "DIR", "folder to write into, made if missing (required)", 0, 0},
    };
    memcpy(list, options, sizeof options);
}

static void report_help(void) {
    struct report_options o = {0};
    struct tern_option options[REPORT_OPTION_COUNT];
    list_options(&o, options);
    printf("usage: tune report -o DIR [options]\n\n"
           "Writes DIR/index.html, a page that needs no network, report.md, the same for a\n"
           "release note, winners.csv, pictures of totals, speed-ups, latency, limits, load\n"
           "and search (SVG and PNG, by gnuplot) and their data (DIR/data). Without gnuplot\n"
           "data and pages are still written, and the exit code is 3.\n\n");
    tern_options_help(options, REPORT_OPTION_COUNT);
    printf("\nexample: tune report --gpu h200 --shapes qwen7b -o report\n");
}

/* Least bytes of each row, and its weights' alone; the caller frees. */
static enum tern_status row_bytes(const struct tern_results *rows, double **bytes, double **weights,
                                  struct tern_error *err) {
    enum tern_status status = TERN_OK;
    *bytes = tern_alloc_zero(rows->count, sizeof **bytes);
    *weights = tern_alloc_zero(rows->count, sizeof **weights);
    for (size_t i = 0; i < rows->count && !status; i++) {
        const struct tern_result *row = &rows->rows[i];
        struct tern_format format;
        status = tern_format_parse(row->format, &format, err);
        if (!status) {
            (*bytes)[i] = tern_cost_bytes(&format, row->m, row->n, row->k);
            (*weights)[i] = tern_cost_bytes(&format, 0, row->n, row->k);
        }
    }
    return status;
}

/* Trials and searches behind the rows; none for planned ones, which is no error here. */
static enum tern_status read_evidence(const char *db, const struct tern_results *rows, struct tern_trials *trials,
                                      struct tern_curves *curves, struct tern_error *err) {
    struct tern_store *store = NULL;
    enum tern_status status = tern_store_open(db, TERN_STORE_READ, &store, err);
    if (!status)
        status = tern_show_read_trials(store, rows, trials, err);
    tern_store_close(store);
    return status || !trials->count ? status : tern_show_search(db, rows, curves, err);
}

/* Ceilings measured on such a GPU, where the database has them, in the place of the description's. */
static enum tern_status apply_ceilings(const char *db, struct tern_gpu *gpu, bool *found, struct tern_error *err) {
    struct tern_store *store = NULL;
    enum tern_status status = tern_store_open(db, TERN_STORE_READ, &store, err);
    if (!status)
        status = tern_command_ceilings_apply(store, 0, gpu, found, err);
    tern_store_close(store);
    return status;
}

/* Hands the ceilings of the GPU description to the report, which may not include config/. */
enum tern_status tern_command_report_write(const char *db, const char *dir, const struct tern_results *rows,
                                           struct tern_gpu *gpu, struct tern_error *err) {
    bool measured = false;
    double *bytes = NULL, *weights = NULL;
    struct tern_trials trials = {0};
    struct tern_curves curves = {0};
    enum tern_status status = apply_ceilings(db, gpu, &measured, err);
    struct tern_report_gpu facts = {.memory_gbs = gpu->memory_gbs, .f16_tflops = gpu->f16_tflops, .measured = measured};
    tern_str_copy(facts.name, sizeof facts.name, gpu->name);
    tern_str_copy(facts.title, sizeof facts.title, gpu->title);
    if (!status)
        status = row_bytes(rows, &bytes, &weights, err);
    if (!status)
        status = read_evidence(db, rows, &trials, &curves, err);
    if (!status) {
        const struct tern_report_evidence evidence = {bytes, weights, &trials, &curves};
        status = tern_report_write(dir, &facts, rows, &evidence, err);
    }
    tern_trials_free(&trials);
    tern_curves_free(&curves);
    free(bytes);
    free(weights);
    return status;
}

static enum tern_status report_run(int argc, char **argv, struct tern_error *err) {
    struct report_options o = {.db = TERN_DEFAULT_DB};
    struct tern_option options[REPORT_OPTION_COUNT];
    struct tern_results rows = {0};
    struct tern_gpu gpu = {0};
    const char *unused[1];
    size_t count = 0;
    list_options(&o, options);
    enum tern_status status = tern_options_parse(options, REPORT_OPTION_COUNT, argc, argv, unused, 0, &count, err);
    if (status)
        return status;
    if (!o.output) {
        tern_error_set(err, TERN_USAGE, "report needs -o DIR");
        tern_error_hint(err, "for example: tune report -o report");
        return TERN_USAGE;
    }
    /* The folder first: nothing is read for a report that cannot be written. */
    status = tern_file_check_writable_dir(o.output, err);
    if (!status && o.gpu)
        status = tern_gpu_load(o.gpu, &gpu, err);
    if (!status)
        status = tern_dispatch_rows(o.db, o.gpu ? gpu.name : NULL, o.shapes, &rows, err);
    /* Without --gpu the rows say which one; several are refused by the report. */
    if (!status && !o.gpu)
        status = tern_gpu_load(rows.rows[0].gpu, &gpu, err);
    if (!status)
        status = tern_command_report_write(o.db, o.output, &rows, &gpu, err);
    if (!status)
        printf("%s/index.html\n", o.output);
    tern_results_free(&rows);
    tern_gpu_free(&gpu);
    return status;
}

const struct tern_command tern_command_report = {"report", "plots and a page of the results", report_run, report_help};
