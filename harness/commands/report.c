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
    const char *gpu, *shapes, *db, *release, *output;
};

#define REPORT_OPTION_COUNT 5

/* One table for parsing and help; the values point into o. */
static void list_options(struct report_options *o, struct tern_option list[REPORT_OPTION_COUNT]) {
    const struct tern_option options[REPORT_OPTION_COUNT] = {
        {"gpu", 'g', TERN_OPTION_TEXT, &o->gpu, "NAME", "GPU to report (default: the only one in the database)", 0, 0},
        {"shapes", 's', TERN_OPTION_TEXT, &o->shapes, "NAME", "only this model (default: all)", 0, 0},
        {"db", 0, TERN_OPTION_TEXT, &o->db, "PATH", "database to read (default: " TERN_DEFAULT_DB ")", 0, 0},
        {"release", 'r', TERN_OPTION_TEXT, &o->release, "NAME", "read this release instead of a database; it has no trials",
         0, 0},
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
    printf("\nexamples: tune report --gpu h200 --shapes qwen7b -o report\n"
           "          tune report --release v0.2 --shapes qwen7b -o report\n");
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

/* Hands description and evidence to the report, which may not include config/ or the store. */
static enum tern_status write_report(const char *dir, const struct tern_results *rows, const struct tern_gpu *gpu,
                                     bool measured, const struct tern_trials *trials, const struct tern_curves *curves,
                                     struct tern_error *err) {
    struct tern_report_gpu facts = {.memory_gbs = gpu->memory_gbs, .f16_tflops = gpu->f16_tflops, .measured = measured};
    double *bytes = NULL, *weights = NULL;
    tern_str_copy(facts.name, sizeof facts.name, gpu->name);
    tern_str_copy(facts.title, sizeof facts.title, gpu->title);
    enum tern_status status = row_bytes(rows, &bytes, &weights, err);
    const struct tern_report_evidence evidence = {bytes, weights, trials, curves};
    if (!status)
        status = tern_report_write(dir, &facts, rows, &evidence, err);
    free(bytes);
    free(weights);
    return status;
}

enum tern_status tern_command_report_write(const char *db, const char *dir, const struct tern_results *rows,
                                           struct tern_gpu *gpu, struct tern_error *err) {
    bool measured = false;
    struct tern_trials trials = {0};
    struct tern_curves curves = {0};
    enum tern_status status = apply_ceilings(db, gpu, &measured, err);
    if (!status)
        status = read_evidence(db, rows, &trials, &curves, err);
    if (!status)
        status = write_report(dir, rows, gpu, measured, &trials, &curves, err);
    tern_trials_free(&trials);
    tern_curves_free(&curves);
    return status;
}

/* The GPU of the rows, where --gpu does not say: one alone can be meant. */
static enum tern_status load_gpu(const struct report_options *o, const struct tern_results *rows, struct tern_gpu *gpu,
                                 struct tern_error *err) {
    if (o->gpu)
        return TERN_OK; /* loaded before the rows were read */
    if (!rows->rows[0].gpu[0])
        return tern_error_set(err, TERN_USAGE, "%s does not say which GPU it is of: add --gpu NAME", o->release);
    return tern_gpu_load(rows->rows[0].gpu, gpu, err);
}

static enum tern_status report_release(const struct report_options *o, struct tern_gpu *gpu, struct tern_results *rows,
                                       struct tern_error *err) {
    bool measured = false;
    enum tern_status status = tern_release_rows(o->release, o->gpu ? gpu->name : NULL, o->shapes, rows, err);
    if (!status)
        status = load_gpu(o, rows, gpu, err);
    if (!status)
        status = tern_release_ceilings(o->release, gpu, &measured, err);
    return status ? status : write_report(o->output, rows, gpu, measured, NULL, NULL, err);
}

static enum tern_status report_database(const struct report_options *o, struct tern_gpu *gpu, struct tern_results *rows,
                                        struct tern_error *err) {
    enum tern_status status = tern_dispatch_rows(o->db, o->gpu ? gpu->name : NULL, o->shapes, rows, err);
    if (!status)
        status = load_gpu(o, rows, gpu, err);
    return status ? status : tern_command_report_write(o->db, o->output, rows, gpu, err);
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
        status = o.release ? report_release(&o, &gpu, &rows, err) : report_database(&o, &gpu, &rows, err);
    if (!status)
        printf("%s/index.html\n", o.output);
    tern_results_free(&rows);
    tern_gpu_free(&gpu);
    return status;
}

const struct tern_command tern_command_report = {"report", "plots and a page of the results", report_run, report_help};
