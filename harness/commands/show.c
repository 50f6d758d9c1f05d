/* `tune show`: the winners that a database holds, as a table, JSON or CSV, and what stands behind them: trials, outcomes, the
 * search, and why. */
#include "commands/commands.h"

#include "commands/dispatch.h"
#include "commands/narrow.h"
#include "commands/show_search.h"
#include "commands/show_trials.h"
#include "core/file.h"
#include "core/options.h"
#include "output/csv.h"
#include "output/table.h"

#include <stdio.h>
#include <string.h>

struct show_options {
    const char *gpu, *shapes, *db, *output;
    struct tern_narrow_lists lists;
    bool json, csv, search, trials, outcomes, why;
    enum show_what what;
    enum show_form form;
    const char *layer; /* of --why */
    int64_t m;
};

#define SHOW_OPTION_COUNT 13

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
        {"trials", 0, TERN_OPTION_FLAG, &o->trials, NULL, "print every trial of the problems", 0, 0},
        {"outcomes", 0, TERN_OPTION_FLAG, &o->outcomes, NULL, "print what became of the candidates, and why", 0, 0},
        {"why", 0, TERN_OPTION_FLAG, &o->why, NULL,
         "LAYER M: print the finalists with their intervals, what was pruned by which rule, the compiler's resources", 0, 0},
        {"output", 'o', TERN_OPTION_TEXT, &o->output, "DIR", "with --search: also write curves and pictures there", 0, 0},
    };
    memcpy(list, options, sizeof options);
}

static void show_help(void) {
    struct show_options o = {0};
    struct tern_option options[SHOW_OPTION_COUNT];
    list_options(&o, options);
    printf("usage: tune show [options]\n"
           "       tune show [options] --why LAYER M\n\n"
           "Prints the winner of every problem in the database, or what stands behind it.\n\n");
    tern_options_help(options, SHOW_OPTION_COUNT);
    printf("\nexamples: tune show --gpu h200 --shapes qwen7b\n"
           "          tune show --gpu h200 --shapes qwen7b --layers qkv --search -o search\n"
           "          tune show --gpu h200 --formats ternary-g128 --why qkv 16\n");
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

/* Keeps the rows of one layer and M. */
static enum tern_status narrow_why(const struct show_options *o, struct tern_results *rows, struct tern_error *err) {
    struct tern_strs layers = {0};
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++)
        tern_strs_add(&layers, rows->rows[i].layer);
    for (size_t i = 0; i < rows->count; i++)
        if (!strcmp(rows->rows[i].layer, o->layer) && rows->rows[i].m == o->m)
            rows->rows[kept++] = rows->rows[i];
    rows->count = kept;
    const char *near = tern_str_suggest(o->layer, &layers);
    if (!kept)
        tern_error_set(err, TERN_USAGE, "%s holds no winner of %s M=%lld for this selection", o->db, o->layer,
                       (long long)o->m);
    if (!kept && near && strcmp(near, o->layer) != 0)
        tern_error_hint(err, "did you mean %s?", near);
    else if (!kept)
        tern_error_hint(err, "`tune show` lists what there is");
    tern_strs_free(&layers);
    return kept ? TERN_OK : TERN_USAGE;
}

/* One thing is shown, in one form. */
static enum tern_status choose(struct show_options *o, struct tern_error *err) {
    if (o->search + o->trials + o->outcomes + o->why > 1)
        return tern_error_set(err, TERN_USAGE, "--search, --trials, --outcomes and --why exclude each other");
    o->what = o->search     ? SHOW_SEARCH
              : o->trials   ? SHOW_TRIALS
              : o->outcomes ? SHOW_OUTCOMES
              : o->why      ? SHOW_WHY
                            : SHOW_WINNERS;
    if (o->json && o->csv)
        return tern_error_set(err, TERN_USAGE, "--json and --csv exclude each other");
    if (o->search && o->csv)
        return tern_error_set(err, TERN_USAGE, "--search and --csv exclude each other; -o DIR writes a table of the curves");
    if (o->csv && (o->outcomes || o->why))
        return tern_error_set(err, TERN_USAGE, "--csv is of winners and of --trials");
    if (o->output && !o->search)
        return tern_error_set(err, TERN_USAGE, "-o needs --search");
    o->form = o->json ? SHOW_JSON : o->csv ? SHOW_CSV : SHOW_TABLE;
    return TERN_OK;
}

static enum tern_status parse(int argc, char **argv, struct show_options *o, struct tern_error *err) {
    struct tern_option options[SHOW_OPTION_COUNT];
    const char *words[2];
    size_t count = 0;
    list_options(o, options);
    enum tern_status status = tern_options_parse(options, SHOW_OPTION_COUNT, argc, argv, words, 2, &count, err);
    if (status)
        return status;
    if (!o->why && count) {
        tern_error_set(err, TERN_USAGE, "unexpected argument '%s'", words[0]);
        tern_error_hint(err, "'tune help show' shows the usage");
        return TERN_USAGE;
    }
    if (o->why && (count < 2 || !tern_str_parse_int(words[1], 0, INT32_MAX, &o->m))) {
        tern_error_set(err, TERN_USAGE, "--why needs a layer and a batch size");
        tern_error_hint(err, "for example: tune show --why qkv 16");
        return TERN_USAGE;
    }
    o->layer = o->why ? words[0] : NULL;
    status = choose(o, err);
    return status ? status : tern_narrow_check(&o->lists, o->shapes, err);
}

static enum tern_status print_what(const struct show_options *o, struct tern_results *rows, struct tern_error *err) {
    enum tern_status status = o->form == SHOW_TABLE || o->what == SHOW_SEARCH ? TERN_OK : one_gpu(rows, err);
    if (!status && o->what == SHOW_WHY)
        status = narrow_why(o, rows, err);
    if (status)
        return status;
    switch (o->what) {
    case SHOW_SEARCH:
        return print_search(o, rows, err);
    case SHOW_TRIALS:
    case SHOW_OUTCOMES:
        return tern_show_trials(o->db, rows, o->what, o->form, err);
    case SHOW_WHY:
        return tern_show_why(o->db, rows, o->form, err);
    default:
        return print(o, rows, err);
    }
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
        status = print_what(&o, &rows, err);
    tern_results_free(&rows);
    return status;
}

const struct tern_command tern_command_show = {"show", "winners of a database, trials, and why", show_run, show_help};
