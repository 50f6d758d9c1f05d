/* `tune show`: the winners that a database holds, as a table, JSON or CSV; with --search, how they were found. */
#include "commands/commands.h"

#include "commands/dispatch.h"
#include "commands/narrow.h"
#include "commands/show_search.h"
#include "core/file.h"
#include "core/options.h"
#include "output/csv.h"
#include "output/table.h"

#include <stdio.h>
#include <string.h>

struct show_options {
    const char *gpu, *shapes, *db, *output;
    struct tern_narrow_lists lists;
    bool json, csv, search;
};

#define SHOW_OPTION_COUNT 10

/* One table for parsing and help; the values point into o. */
static void list_options(struct show_options *o, struct tern_option list[SHOW_OPTION_COUNT]) {
    const struct tern_option options[SHOW_OPTION_COUNT] = {
        {"gpu", 'g', TERN_OPTION_TEXT, &o->gpu, "NAME", "only this GPU (default: all)", 0, 0},
        {"shapes", 's', TERN_OPTION_TEXT, &o->shapes, "NAME", "only this model (default: all)", 0, 0},
        {"formats", 'f', TERN_OPTION_TEXT, &o->lists.formats, "LIST", "with --shapes: only these weight formats", 0, 0},
        {"layers", 'l', TERN_OPTION_TEXT, &o->lists.layers, "LIST", "with --shapes: only these layers", 0, 0},
        {"m", 'm', TERN_OPTION_TEXT, &o->lists.m, "LIST", "with --shapes: only these batch sizes", 0, 0},
        {"db", 0, TERN_OPTION_TEXT, &o->db, "PATH", "database to read (default: " TERN_DEFAULT_DB ")", 0, 0},
        {"json", 0, TERN_OPTION_FLAG, &o->json, NULL, "print JSON, the same keys as `tune run --json`", 0, 0},
        {"csv", 0, TERN_OPTION_FLAG, &o->csv, NULL, "print CSV, with parameters and intervals", 0, 0},
        {"search", 0, TERN_OPTION_FLAG, &o->search, NULL, "print how fast each best candidate was found, over GPU seconds",
         0, 0},
        {"output", 'o', TERN_OPTION_TEXT, &o->output, "DIR", "with --search: also write curves and pictures there", 0, 0},
    };
    memcpy(list, options, sizeof options);
}

static void show_help(void) {
    struct show_options o = {0};
    struct tern_option options[SHOW_OPTION_COUNT];
    list_options(&o, options);
    printf("usage: tune show [options]\n\n"
           "Prints the winner of every problem in the database, or with --search how it was\nfound.\n\n");
    tern_options_help(options, SHOW_OPTION_COUNT);
    printf("\nexamples: tune show --gpu h200 --shapes qwen7b\n"
           "          tune show --gpu h200 --shapes qwen7b --layers qkv --search -o search\n");
}

/* The JSON's mode: measured as soon as one row was; each problem has its own status. */
static bool all_planned(const struct tern_results *rows) {
    for (size_t i = 0; i < rows->count; i++)
        if (!rows->rows[i].planned)
            return false;
    return true;
}

/* JSON names one GPU at its top and CSV none: neither can hold rows of two. */
static enum tern_status one_gpu(const struct tern_results *rows, struct tern_error *err) {
    for (size_t i = 1; i < rows->count; i++) {
        if (strcmp(rows->rows[i].gpu, rows->rows[0].gpu)) {
            tern_error_set(err, TERN_USAGE, "the database holds rows of %s and of %s", rows->rows[0].gpu, rows->rows[i].gpu);
            tern_error_hint(err, "JSON and CSV describe one GPU: add --gpu %s", rows->rows[0].gpu);
            return TERN_USAGE;
        }
    }
    return TERN_OK;
}

/* The table for people may mix GPUs: each has its heading. */
static enum tern_status print(const struct show_options *o, const struct tern_results *rows, struct tern_error *err) {
    if (!o->json && !o->csv) {
        tern_output_table(stdout, rows);
        return TERN_OK;
    }
    enum tern_status status = one_gpu(rows, err);
    if (status)
        return status;
    if (o->json) {
        tern_output_run_json(stdout, rows->rows[0].gpu, all_planned(rows), o->db, rows, NULL);
    } else {
        struct tern_str text = {0};
        tern_output_csv_text(&text, rows);
        fputs(tern_str_text(&text), stdout);
        tern_str_free(&text);
    }
    return TERN_OK;
}

static enum tern_status print_search(const struct show_options *o, const struct tern_results *rows, struct tern_error *err) {
    struct tern_curves all = {0};
    enum tern_status status = o->json || o->output ? one_gpu(rows, err) : TERN_OK;
    if (!status)
        status = tern_show_search(o->db, rows, &all, err);
    if (!status && o->json)
        tern_curve_json(stdout, o->db, &all);
    else if (!status)
        tern_curve_table(stdout, &all);
    if (!status && o->output)
        status = tern_curve_write(o->output, &all, err);
    tern_curves_free(&all);
    return status;
}

/* Keeps the rows that the lists select. */
static enum tern_status narrow(const struct show_options *o, struct tern_results *rows, struct tern_error *err) {
    struct tern_shapes shapes;
    size_t kept = 0;
    enum tern_status status = tern_shapes_load(o->shapes, &shapes, err);
    if (!status)
        status = tern_narrow_shapes(&o->lists, &shapes, err);
    for (size_t i = 0; i < rows->count && !status; i++) {
        const struct tern_result *row = &rows->rows[i];
        if (tern_narrow_holds(&o->lists, &shapes, row->format, row->m, row->n, row->k))
            rows->rows[kept++] = *row;
    }
    rows->count = kept;
    return status || kept ? status : tern_error_set(err, TERN_USAGE, "%s holds no winner for this selection", o->db);
}

static enum tern_status parse(int argc, char **argv, struct show_options *o, struct tern_error *err) {
    struct tern_option options[SHOW_OPTION_COUNT];
    const char *unused[1];
    size_t count = 0;
    list_options(o, options);
    enum tern_status status = tern_options_parse(options, SHOW_OPTION_COUNT, argc, argv, unused, 0, &count, err);
    if (status)
        return status;
    if (o->json && o->csv)
        return tern_error_set(err, TERN_USAGE, "--json and --csv exclude each other");
    if (o->search && o->csv)
        return tern_error_set(err, TERN_USAGE, "--search and --csv exclude each other; -o DIR writes a table of the curves");
    if (o->output && !o->search)
        return tern_error_set(err, TERN_USAGE, "-o needs --search");
    return tern_narrow_check(&o->lists, o->shapes, err);
}

static enum tern_status show_run(int argc, char **argv, struct tern_error *err) {
    struct show_options o = {.db = TERN_DEFAULT_DB};
    struct tern_results rows = {0};
    enum tern_status status = parse(argc, argv, &o, err);
    if (!status && o.output) /* first: nothing is read for what cannot be written */
        status = tern_file_check_writable_dir(o.output, err);
    if (!status)
        status = tern_dispatch_rows(o.db, o.gpu, o.shapes, &rows, err);
    if (!status && (o.lists.formats || o.lists.layers || o.lists.m))
        status = narrow(&o, &rows, err);
    if (!status)
        status = o.search ? print_search(&o, &rows, err) : print(&o, &rows, err);
    tern_results_free(&rows);
    return status;
}

const struct tern_command tern_command_show = {"show", "print the winners of a database", show_run, show_help};
