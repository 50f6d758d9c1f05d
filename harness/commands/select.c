/* `tune select`: what the exported table answers for one problem, without compiling it. */
#include "commands/commands.h"

#include "commands/dispatch.h"
#include "commands/export_times.h"
#include "config/gpu.h"
#include "core/activation.h"
#include "core/options.h"
#include "formats/format.h"
#include "output/select.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct select_options {
    const char *gpu, *shapes, *db, *format, *activations;
    enum tern_activation type;
    int64_t m, n, k;
    bool json;
};

#define SELECT_OPTION_COUNT 9

/* One table for parsing and help; the values point into o. */
static void list_options(struct select_options *o, struct tern_option list[SELECT_OPTION_COUNT]) {
    const struct tern_option options[SELECT_OPTION_COUNT] = {
        {"gpu", 'g', TERN_OPTION_TEXT, &o->gpu, "NAME", "GPU whose winners are asked (required)", 0, 0},
        {"format", 'f', TERN_OPTION_TEXT, &o->format, "NAME", "weight format, e.g. ternary-g128 (required)", 0, 0},
        {"m", 'm', TERN_OPTION_INT, &o->m, "M", "rows of activations (required)", 0, INT32_MAX},
        {"n", 'n', TERN_OPTION_INT, &o->n, "N", "output features (required)", 1, INT32_MAX},
        {"k", 'k', TERN_OPTION_INT, &o->k, "K", "input features (required)", 1, INT32_MAX},
        {"activations", 'a', TERN_OPTION_TEXT, &o->activations, "TYPE",
         "f16 (default) or bf16: type of x and y; int8, e4m3: x rounded", 0, 0},
        {"shapes", 's', TERN_OPTION_TEXT, &o->shapes, "NAME", "only the winners of this model (default: all)", 0, 0},
        {"db", 0, TERN_OPTION_TEXT, &o->db, "PATH", "database to read (default: " TERN_DEFAULT_DB ")", 0, 0},
        {"json", 0, TERN_OPTION_FLAG, &o->json, NULL, "print JSON", 0, 0},
    };
    memcpy(list, options, sizeof options);
}

static void select_help(void) {
    struct select_options o = {0};
    struct tern_option options[SELECT_OPTION_COUNT];
    list_options(&o, options);
    printf("usage: tune select --gpu NAME --format NAME --m M --n N --k K [options]\n\n"
           "Prints the kernel and launch that the exported header's tern_select() returns\n"
           "for this problem, and how good the match is: exact, between, near, default or\n"
           "none (exit 1).\n\n");
    tern_options_help(options, SELECT_OPTION_COUNT);
    printf("\nexample: tune select --gpu h200 --format ternary-g128 --m 5 --n 37888 --k 3584\n");
}

/* -1 stands for a size that was not given; M = 0 is a legal question. */
static enum tern_status parse(int argc, char **argv, struct select_options *o, struct tern_error *err) {
    struct tern_option options[SELECT_OPTION_COUNT];
    struct tern_format format;
    const char *unused[1];
    size_t count = 0;
    list_options(o, options);
    enum tern_status status = tern_options_parse(options, SELECT_OPTION_COUNT, argc, argv, unused, 0, &count, err);
    if (status)
        return status;
    const char *missing = !o->gpu      ? "--gpu"
                          : !o->format ? "--format"
                          : o->m < 0   ? "--m"
                          : o->n < 0   ? "--n"
                          : o->k < 0   ? "--k"
                                       : NULL;
    if (missing) {
        tern_error_set(err, TERN_USAGE, "select needs %s", missing);
        tern_error_hint(err, "for example: tune select --gpu h200 --format ternary-g128 --m 5 --n 37888 --k 3584");
        return TERN_USAGE;
    }
    status = tern_activation_parse(o->activations, &o->type, err);
    return status == TERN_OK ? tern_format_parse(o->format, &format, err) : status;
}

struct answer {
    const struct tern_result *row, *kernel; /* whose times, whose kernel; NULL: none */
    enum tern_selection_match match;
    bool use_cublas;
    struct tern_dispatch_geometry geometry;
};

/* For people; sizes in bytes, times in microseconds. */
static void print_text(const struct answer *a) {
    const struct tern_result *row = a->row;
    const struct tern_dispatch_geometry *g = &a->geometry;
    printf("match      %s\n", tern_selection_match_name(a->match));
    printf("use cublas %s\n", a->use_cublas ? "yes" : "no");
    if (!row)
        return;
    printf("template   %s\nparams     %s\nlayout     %s\nentry      %s\ncubin      %s\n", a->kernel->template_name,
           a->kernel->params, a->kernel->layout, a->kernel->entry, a->kernel->cubin_hash);
    printf("grid       %lld %lld %lld\nblock      %lld\ncluster    %lld\n", (long long)g->grid[0], (long long)g->grid[1],
           (long long)g->grid[2], (long long)g->block, (long long)g->cluster);
    if (a->kernel->prologue[0])
        printf("prologue   %s, grid %lld, block %lld: launched first\n", a->kernel->prologue, (long long)g->prologue_grid,
               (long long)g->prologue_block);
    printf("smem       %lld bytes\nworkspace  %lld bytes\n", (long long)g->smem_bytes, (long long)g->workspace_bytes);
    printf("tuned at   %s M=%lld N=%lld K=%lld: ", row->layer, (long long)row->m, (long long)row->n, (long long)row->k);
    if (row->planned)
        printf("predicted %.2f us, not measured\n", row->predicted_us);
    else if (isfinite(row->baseline_us))
        printf("%.2f us [%.2f, %.2f], %s %.2f us\n", row->us, row->us_lo, row->us_hi, row->baseline, row->baseline_us);
    else
        printf("%.2f us [%.2f, %.2f], no baseline\n", row->us, row->us_lo, row->us_hi);
}

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* The same for machines; kernel and tuned are null where nothing serves the problem. */
static void print_json(const struct answer *a) {
    const struct tern_result *row = a->row;
    const struct tern_dispatch_geometry *g = &a->geometry;
    json_t *kernel = json_null(), *tuned = json_null();
    if (row) {
        const struct tern_result *k = a->kernel;
        kernel = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:[I,I,I],s:I,s:I,s:I,s:I}", "op", k->op, "template", k->template_name,
                           "params", k->params, "layout", k->layout, "entry", k->entry, "cubin", k->cubin_hash, "grid",
                           (json_int_t)g->grid[0], (json_int_t)g->grid[1], (json_int_t)g->grid[2], "block",
                           (json_int_t)g->block, "cluster", (json_int_t)g->cluster, "smem_bytes", (json_int_t)g->smem_bytes,
                           "workspace_bytes", (json_int_t)g->workspace_bytes);
        if (k->prologue[0])
            json_object_set_new(kernel, "prologue",
                                json_pack("{s:s,s:I,s:I}", "entry", k->prologue, "grid", (json_int_t)g->prologue_grid,
                                          "block", (json_int_t)g->prologue_block));
        tuned = json_pack("{s:s,s:I,s:I,s:I,s:b,s:o,s:o}", "layer", row->layer, "m", (json_int_t)row->m, "n",
                          (json_int_t)row->n, "k", (json_int_t)row->k, "planned", row->planned, "us", number(row->us),
                          "predicted_us", number(row->predicted_us));
    }
    json_t *root = json_pack("{s:s,s:b,s:o,s:o}", "match", tern_selection_match_name(a->match), "use_cublas", a->use_cublas,
                             "kernel", kernel, "tuned", tuned);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
}

/* Asks the table exactly as the exported header does, limits of the device included. */
static enum tern_status answer_of(const struct select_options *o, const struct tern_selection_table *table,
                                  const struct tern_gpu *gpu, struct answer *a, struct tern_error *err) {
    const struct tern_selection_problem problem = {tern_activation_op(o->type), o->format, o->m, o->n, o->k};
    struct tern_dispatch_limits limits = {gpu->sms, gpu->smem_block_bytes};
    const struct tern_selection_answer found = tern_selection_ask(table, &problem, tern_dispatch_fits, &limits);
    a->row = found.row;
    a->kernel = found.kernel;
    a->match = found.match;
    a->use_cublas = a->row ? tern_selection_use_cublas(a->row) : o->m > 0;
    return a->row ? tern_dispatch_geometry(a->kernel, o->m, o->n, o->k, gpu->sms, &a->geometry, err) : TERN_OK;
}

static enum tern_status select_run(int argc, char **argv, struct tern_error *err) {
    struct select_options o = {.db = TERN_DEFAULT_DB, .activations = "f16", .m = -1, .n = -1, .k = -1};
    struct tern_results rows = {0};
    struct tern_selection_table table = {0};
    struct tern_gpu gpu = {0};
    struct answer answer = {0};
    struct tern_times *times = NULL;
    struct tern_selection_stairs *stairs = NULL;
    enum tern_status status = parse(argc, argv, &o, err);
    if (status)
        return status;
    status = tern_gpu_load(o.gpu, &gpu, err);
    if (!status)
        status = tern_dispatch_rows(o.db, gpu.name, o.shapes, &rows, err);
    if (!status && !o.shapes)
        tern_dispatch_leave_out_others(&rows);
    if (status)
        goto out;
    status = tern_times_load(o.db, &gpu, &rows, &times, err);
    if (status)
        goto out;
    tern_times_runners_up(times, &rows);
    table = tern_selection_build(&rows);
    const struct tern_dispatch_limits limits = {gpu.sms, gpu.smem_block_bytes};
    stairs = tern_times_stairs(times, &table, NULL, &limits);
    table.stairs = stairs;
    status = answer_of(&o, &table, &gpu, &answer, err);
    if (status)
        goto out;
    if (o.json)
        print_json(&answer);
    else
        print_text(&answer);
    /* The answer "none" is printed and is a failure; M = 0 asks for nothing and gets it. */
    if (!answer.row && o.m > 0)
        status = tern_error_set(err, TERN_FAILED, "nothing in the table serves %s M=%lld N=%lld K=%lld", o.format,
                                (long long)o.m, (long long)o.n, (long long)o.k);
out:
    tern_times_free(times);
    tern_times_stairs_free(stairs, rows.count);
    tern_selection_free(&table);
    tern_results_free(&rows);
    tern_gpu_free(&gpu);
    return status;
}

const struct tern_command tern_command_select = {"select", "print what the dispatch table answers for one problem",
                                                 select_run, select_help};
