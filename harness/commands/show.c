/* `tune show`: the winners that a database holds, as a table, JSON or CSV. */
#include "commands/commands.h"

#include "commands/dispatch.h"
#include "core/options.h"
#include "output/table.h"

#include <stdio.h>
#include <string.h>

struct show_options {
    const char *gpu, *shapes, *db;
    bool json, csv;
};

#define SHOW_OPTION_COUNT 5

/* One table for parsing and help; the values point into o. */
static void list_options(struct show_options *o, struct tern_option list[SHOW_OPTION_COUNT]) {
    const struct tern_option options[SHOW_OPTION_COUNT] = {
        {"gpu", 'g', TERN_OPTION_TEXT, &o->gpu, "NAME", "only this GPU (default: all)", 0, 0},
        {"shapes", 's', TERN_OPTION_TEXT, &o->shapes, "NAME", "only this model (default: all)", 0, 0},
        {"db", 0, TERN_OPTION_TEXT, &o->db, "PATH", "database to read (default: " TERN_DEFAULT_DB ")", 0, 0},
        {"json", 0, TERN_OPTION_FLAG, &o->json, NULL, "print JSON, the same keys as `tune run --json`", 0, 0},
        {"csv", 0, TERN_OPTION_FLAG, &o->csv, NULL, "print CSV, with parameters and intervals", 0, 0},
    };
    memcpy(list, options, sizeof options);
}

static void show_help(void) {
    struct show_options o = {0};
    struct tern_option options[SHOW_OPTION_COUNT];
    list_options(&o, options);
    printf("usage: tune show [options]\n\nPrints the winner of every problem in the database.\n\n");
    tern_options_help(options, SHOW_OPTION_COUNT);
    printf("\nexample: tune show --gpu h200 --shapes qwen7b\n");
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

static enum tern_status show_run(int argc, char **argv, struct tern_error *err) {
    struct show_options o = {.db = TERN_DEFAULT_DB};
    struct tern_option options[SHOW_OPTION_COUNT];
    struct tern_results rows = {0};
    const char *unused[1];
    size_t count = 0;
    list_options(&o, options);
    enum tern_status status = tern_options_parse(options, SHOW_OPTION_COUNT, argc, argv, unused, 0, &count, err);
    if (status)
        return status;
    if (o.json && o.csv)
        return tern_error_set(err, TERN_USAGE, "--json and --csv exclude each other");
    status = tern_dispatch_rows(o.db, o.gpu, o.shapes, &rows, err);
    if (!status)
        status = print(&o, &rows, err);
    tern_results_free(&rows);
    return status;
}

const struct tern_command tern_command_show = {"show", "print the winners of a database", show_run, show_help};
