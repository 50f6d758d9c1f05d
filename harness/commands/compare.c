/* `tune compare A B`: what became faster, slower or went missing between two sets of results; fails where something did. */
#include "commands/commands.h"

#include "commands/compare_source.h"
#include "commands/release_parts.h"
#include "config/gpu.h"
#include "core/file.h"
#include "core/options.h"
#include "formats/format.h"
#include "output/compare.h"
#include "space/cost.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NOISE     0.02 /* winners of two runs differed by more for 1 of 28 problems: results/v0.2/h200/runs/README.md */
#define NOISE_HOT 0.10 /* compute-bound on a hot card, at its power cap: the worst of 28 problems there */
#define HOT       "graph/cold"
#define BALANCE   200.0 /* operations a byte, where the GPU is not described: about that of H100 and H200 */

struct compare_options {
    const char *gpu, *shapes, *threshold, *output;
    bool json, changed;
};

#define COMPARE_OPTION_COUNT 6

/* One table for parsing and help; the values point into o. */
static void list_options(struct compare_options *o, struct tern_option list[COMPARE_OPTION_COUNT]) {
    const struct tern_option options[COMPARE_OPTION_COUNT] = {
        {"gpu", 'g', TERN_OPTION_TEXT, &o->gpu, "NAME", "only this GPU (default: all)", 0, 0},
        {"shapes", 's', TERN_OPTION_TEXT, &o->shapes, "NAME", "only this model (default: all)", 0, 0},
        {"threshold", 't', TERN_OPTION_TEXT, &o->threshold, "PERCENT",
         "what counts as noise (default: 2; 10 for compute-bound problems timed on a hot card, policy " HOT ")", 0, 0},
        {"changed", 0, TERN_OPTION_FLAG, &o->changed, NULL, "leave out of the table what is the same or new", 0, 0},
        {"json", 0, TERN_OPTION_FLAG, &o->json, NULL, "print JSON", 0, 0},
        {"output", 'o', TERN_OPTION_TEXT, &o->output, "DIR", "also write data/compare.tsv, compare.md and pictures there", 0,
         0},
    };
    memcpy(list, options, sizeof options);
}

static void compare_help(void) {
    struct compare_options o = {0};
    struct tern_option options[COMPARE_OPTION_COUNT];
    list_options(&o, options);
    printf("usage: tune compare A B [options]\n\n"
           "Compares the winners' times of two sets of results, problem by problem. A and B\n"
           "are databases, winners.csv files, folders with them, or releases in results/.\n"
           "Exit code 1 if something of A is slower in B beyond the noise, or missing.\n\n");
    tern_options_help(options, COMPARE_OPTION_COUNT);
    printf("\nexamples: tune compare v0.1 v0.2\n"
           "          tune compare v0.2 results/tern.db --gpu h200 --changed\n");
}

struct noise {
    double threshold; /* a share; NAN: the defaults */
    size_t hot;       /* rows that got NOISE_HOT */
};

/* Compute-bound by the data sheet, as when it was timed. */
static bool compute_bound(const struct tern_result *row) {
    struct tern_gpu gpu = {0};
    struct tern_format format;
    double balance = BALANCE;
    if (row->gpu[0] && tern_gpu_load(row->gpu, &gpu, NULL) == TERN_OK)
        balance = tern_cost_balance(&gpu);
    tern_gpu_free(&gpu);
    return tern_format_parse(row->format, &format, NULL) == TERN_OK &&
           tern_cost_compute_bound(balance, &format, row->m, row->n, row->k);
}

static double noise_of(void *user, const struct tern_result *a, const struct tern_result *b) {
    struct noise *noise = user;
    const char *policy = a->policy[0] ? a->policy : b->policy;
    if (!isnan(noise->threshold))
        return noise->threshold;
    size_t length = (size_t)(tern_conditions(policy) - policy);
    bool hot = (!length || (length == strlen(HOT) && !memcmp(policy, HOT, length))) && compute_bound(a);
    noise->hot += hot;
    return hot ? NOISE_HOT : NOISE;
}

static void note_hot(const struct noise *noise, struct tern_compare *c) {
    struct tern_str text = {0};
    if (!noise->hot)
        return;
    tern_str_printf(&text,
                    "%zu compute-bound problems were timed on a hot card, whose clock differs from run to run: up to "
                    "%g %% counts as noise there.",
                    noise->hot, 100 * NOISE_HOT);
    tern_strs_add(&c->notes, text.data);
    tern_str_free(&text);
}

enum tern_status tern_command_compare_threshold(const char *text, double *share, struct tern_error *err) {
    char number[32];
    double percent = 0;
    *share = (double)NAN;
    if (!text)
        return TERN_OK;
    tern_str_copy(number, sizeof number, text);
    size_t length = strlen(number);
    if (length && number[length - 1] == '%')
        number[length - 1] = 0;
    if (!tern_str_parse_double(number, &percent) || !(percent >= 0 && percent <= 100))
        return tern_error_set(err, TERN_USAGE, "--threshold takes a percentage from 0 to 100, not '%s'", text);
    *share = percent / 100;
    return TERN_OK;
}

/* Exit codes: a comparison of nothing is a mistake in the command; what failed says how often. */
static enum tern_status judge(const struct tern_compare *c, struct tern_error *err) {
    size_t slower = c->counts[TERN_COMPARE_SLOWER], missing = c->counts[TERN_COMPARE_MISSING];
    if (tern_compare_failed(c) > 0) {
        tern_error_set(err, TERN_FAILED, "%zu of %zu problems are slower, %zu missing", slower, c->count, missing);
        tern_error_hint(err, "measure B again before you believe it; --threshold sets what counts as noise");
        return TERN_FAILED;
    }
    if (tern_compare_judged(c) > 0)
        return TERN_OK;
    tern_error_set(err, TERN_USAGE, "nothing could be compared: no problem of A and B was timed alike");
    tern_error_hint(err, "compare results of one GPU and one policy; `tune show` lists what a database holds");
    return TERN_USAGE;
}

/* A picture that cannot be drawn does not hide a regression. */
static enum tern_status tell(const struct tern_compare_how *how, const struct tern_compare *c, struct tern_error *err) {
    if (how->json)
        tern_compare_json(stdout, c);
    else
        tern_compare_table(stdout, c, how->changed);
    enum tern_status written = how->output ? tern_compare_write(how->output, c, err) : TERN_OK;
    struct tern_error why = {0};
    enum tern_status judged = judge(c, &why);
    if (judged && err)
        *err = why;
    return judged ? judged : written;
}

enum tern_status tern_command_compare_results(const struct tern_compare_how *how, const struct tern_results *a,
                                              const struct tern_results *b, struct tern_compare *c, struct tern_error *err) {
    struct noise noise = {.threshold = how->threshold};
    tern_compare(a, b, noise_of, &noise, c);
    note_hot(&noise, c);
    return tell(how, c, err);
}

/* Required arguments are checked here, so that nothing is read for an incomplete command. */
static enum tern_status parse(int argc, char **argv, struct compare_options *o, const char *names[2],
                              struct tern_compare_how *how, struct tern_error *err) {
    struct tern_option options[COMPARE_OPTION_COUNT];
    size_t count = 0;
    list_options(o, options);
    enum tern_status status = tern_options_parse(options, COMPARE_OPTION_COUNT, argc, argv, names, 2, &count, err);
    if (status)
        return status;
    if (count < 2) {
        tern_error_set(err, TERN_USAGE, "compare needs two sets of results");
        tern_error_hint(err, "for example: tune compare v0.1 v0.2");
        return TERN_USAGE;
    }
    *how = (struct tern_compare_how){.json = o->json, .changed = o->changed, .output = o->output};
    return tern_command_compare_threshold(o->threshold, &how->threshold, err);
}

static enum tern_status compare_run(int argc, char **argv, struct tern_error *err) {
    struct compare_options o = {0};
    struct tern_compare_how how;
    struct tern_results a = {0}, b = {0};
    struct tern_compare compared = {0};
    const char *names[2];
    enum tern_status status = parse(argc, argv, &o, names, &how, err);
    if (!status && o.output)
        status = tern_file_check_writable_dir(o.output, err);
    if (!status)
        status = tern_compare_source(names[0], o.gpu, o.shapes, &a, &compared.notes, err);
    if (!status)
        status = tern_compare_source(names[1], o.gpu, o.shapes, &b, &compared.notes, err);
    if (!status) {
        tern_str_copy(compared.a, sizeof compared.a, names[0]);
        tern_str_copy(compared.b, sizeof compared.b, names[1]);
        status = tern_command_compare_results(&how, &a, &b, &compared, err);
    }
    tern_compare_free(&compared);
    tern_results_free(&a);
    tern_results_free(&b);
    return status;
}

const struct tern_command tern_command_compare = {"compare", "what became faster or slower between two results", compare_run,
                                                  compare_help};
