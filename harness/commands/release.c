/* `tune release NAME`: freezes the winners of one GPU as text that can be committed, or measures some of them again. */
#include "commands/commands.h"

#include "commands/dispatch.h"
#include "commands/release_parts.h"
#include "core/file.h"
#include "core/options.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct release_options {
    const char *gpu, *shapes, *db, *output, *commit, *cache, *device, *threshold, *replay;
    int64_t sample, seed;
    bool verify, json;
};

#define RELEASE_OPTION_COUNT 13
#define HIDDEN_OPTIONS       1 /* the last of them: for tests, not for people */

/* One table for parsing and help; the values point into o. */
static void list_options(struct release_options *o, struct tern_option list[RELEASE_OPTION_COUNT]) {
    const struct tern_option options[RELEASE_OPTION_COUNT] = {
        {"gpu", 'g', TERN_OPTION_TEXT, &o->gpu, "NAME", "GPU whose winners are meant (required)", 0, 0},
        {"shapes", 's', TERN_OPTION_TEXT, &o->shapes, "NAME", "only this model (default: all)", 0, 0},
        {"db", 0, TERN_OPTION_TEXT, &o->db, "PATH", "database to freeze (default: " TERN_DEFAULT_DB ")", 0, 0},
        {"output", 'o', TERN_OPTION_TEXT, &o->output, "DIR", "folder of releases (default: results)", 0, 0},
        {"commit", 0, TERN_OPTION_TEXT, &o->commit, "TEXT", "state of the tree that was measured, for the record", 0, 0},
        {"verify", 0, TERN_OPTION_FLAG, &o->verify, NULL,
         "measure a random sample of the release again on the GPU, and say whether it still holds", 0, 0},
        {"sample", 0, TERN_OPTION_INT, &o->sample, "N", "with --verify: rows to measure (default 8)", 1, 100000},
        {"seed", 0, TERN_OPTION_INT, &o->seed, "N", "with --verify: which rows (default 1)", 0, INT64_MAX},
        {"threshold", 't', TERN_OPTION_TEXT, &o->threshold, "PERCENT", "with --verify: what counts as noise, as for compare",
         0, 0},
        {"device", 'd', TERN_OPTION_TEXT, &o->device, "LIST", "with --verify: CUDA devices, as for run (default 0)", 0, 0},
        {"cache", 0, TERN_OPTION_TEXT, &o->cache, "DIR", "with --verify: compiled kernels (default results/cache)", 0, 0},
        {"json", 0, TERN_OPTION_FLAG, &o->json, NULL, "with --verify: print JSON, the keys of `tune compare --json`", 0, 0},
        {"replay", 0, TERN_OPTION_TEXT, &o->replay, "FILE", "with --verify: a recording answers instead of a GPU", 0, 0},
    };
    memcpy(list, options, sizeof options);
}

static void set_defaults(struct release_options *o) {
    *o = (struct release_options){.db = TERN_DEFAULT_DB,
                                  .output = "results",
                                  .commit = "",
                                  .cache = "results/cache",
                                  .device = "0",
                                  .sample = 8,
                                  .seed = 1};
}

static void release_help(void) {
    struct release_options o;
    struct tern_option options[RELEASE_OPTION_COUNT];
    set_defaults(&o);
    list_options(&o, options);
    printf("usage: tune release NAME --gpu GPU [options]\n"
           "       tune release NAME --gpu GPU --verify [options]\n\n"
           "Writes results/NAME/GPU: winners.csv, ceilings.csv, environment.json, the\n"
           "exported header, plots and a page. Same database, same bytes, so that releases\n"
           "can be committed and compared. With --verify nothing is written: rows of the\n"
           "release are measured again; exit 1 if one does not hold, 3 without the GPU.\n\n");
    tern_options_help(options, RELEASE_OPTION_COUNT - HIDDEN_OPTIONS);
    printf("\nexamples: tune release v0.3 --gpu h200 --shapes qwen7b --commit 1a2b3c4\n"
           "          tune release v0.3 --gpu h200 --verify --sample 16\n");
}

/* A release is a folder: its name is no path and hides nothing. */
static enum tern_status check_name(const char *name, struct tern_error *err) {
    bool good = isalnum((unsigned char)name[0]) && strlen(name) < 64;
    for (const char *c = name; *c && good; c++)
        good = isalnum((unsigned char)*c) || strchr(".-_", *c);
    if (good)
        return TERN_OK;
    tern_error_set(err, TERN_USAGE, "'%s' is no name for a release", name);
    tern_error_hint(err, "letters, digits, '.', '-' and '_', for example v0.3; -o DIR chooses another folder");
    return TERN_USAGE;
}

static enum tern_status parse(int argc, char **argv, struct release_options *o, const char **name, struct tern_error *err) {
    struct tern_option options[RELEASE_OPTION_COUNT];
    size_t count = 0;
    set_defaults(o);
    list_options(o, options);
    enum tern_status status = tern_options_parse(options, RELEASE_OPTION_COUNT, argc, argv, name, 1, &count, err);
    if (status)
        return status;
    if (count < 1 || !o->gpu) {
        tern_error_set(err, TERN_USAGE, "release needs %s", count < 1 ? "a name" : "--gpu NAME");
        tern_error_hint(err, "for example: tune release v0.3 --gpu h200");
        return TERN_USAGE;
    }
    if (!o->verify && (o->replay || o->threshold || o->json))
        return tern_error_set(err, TERN_USAGE, "--threshold, --json and --replay need --verify");
    return check_name(*name, err);
}

/* A release states what was measured: planned rows have no place in it. */
static enum tern_status freeze(const struct release_options *o, const char *dir, struct tern_gpu *gpu,
                               struct tern_error *err) {
    struct tern_results rows = {0};
    enum tern_status status = tern_dispatch_rows(o->db, gpu->name, o->shapes, &rows, err);
    if (!status)
        status = tern_export_check(&rows, false, err);
    if (!status)
        status = tern_file_check_writable_dir(dir, err);
    if (!status)
        status = tern_release_environment(o->db, dir, gpu->name, o->shapes, o->commit, err);
    if (!status)
        status = tern_command_export_header(o->db, dir, &rows, gpu, err);
    if (!status) /* last: without gnuplot all but the pictures is there */
        status = tern_command_report_write(o->db, dir, &rows, gpu, err);
    if (!status)
        printf("%s: %zu winners\n", dir, rows.count);
    tern_results_free(&rows);
    return status;
}

static enum tern_status release_run(int argc, char **argv, struct tern_error *err) {
    struct release_options o;
    struct tern_gpu gpu = {0};
    struct tern_str dir = {0};
    const char *name = NULL;
    enum tern_status status = parse(argc, argv, &o, &name, err);
    if (!status)
        status = tern_gpu_load(o.gpu, &gpu, err);
    if (status)
        goto out;
    tern_str_printf(&dir, "%s/%s/%s", o.output, name, gpu.name);
    if (!o.verify) {
        status = freeze(&o, dir.data, &gpu, err);
        goto out;
    }
    struct tern_release_verify v = {.name = name,
                                    .dir = dir.data,
                                    .gpu = o.gpu,
                                    .shapes = o.shapes,
                                    .cache = o.cache,
                                    .device = o.device,
                                    .replay = o.replay,
                                    .sample = o.sample,
                                    .seed = o.seed,
                                    .json = o.json};
    status = tern_command_compare_threshold(o.threshold, &v.threshold, err);
    if (!status)
        status = tern_release_verify(&v, err);
out:
    tern_str_free(&dir);
    tern_gpu_free(&gpu);
    return status;
}

const struct tern_command tern_command_release = {"release", "freeze winners as text, or measure a sample again",
                                                  release_run, release_help};
