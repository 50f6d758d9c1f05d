/* `tune export`: the dispatch tables of one or several GPUs as a folder: header, packed cubins, manifest, README, example. */
#include "commands/commands.h"

#include "commands/dispatch.h"
#include "commands/export_parts.h"
#include "commands/release_parts.h"
#include "core/file.h"
#include "core/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT_OPTION_COUNT 10
#define EXPORT_MAX_GPUS     16

/* One table for parsing and help; the values point into o. */
static void list_options(struct tern_export_options *o, struct tern_option list[EXPORT_OPTION_COUNT]) {
    const struct tern_option options[EXPORT_OPTION_COUNT] = {
        {"gpu", 'g', TERN_OPTION_TEXT, &o->gpu, "NAMES", "GPUs whose winners are exported, e.g. h200,a100 (required)", 0, 0},
        {"shapes", 's', TERN_OPTION_TEXT, &o->shapes, "NAME", "only the winners of this model (default: all)", 0, 0},
        {"release", 0, TERN_OPTION_TEXT, &o->release, "NAME",
         "the winners of a release's text (results/NAME), without a database", 0, 0},
        {"db", 0, TERN_OPTION_TEXT, &o->db, "PATH", "database to read (default: " TERN_DEFAULT_DB ")", 0, 0},
        {"output", 'o', TERN_OPTION_TEXT, &o->output, "DIR", "folder to write into, made if missing (required)", 0, 0},
        {"check", 0, TERN_OPTION_TEXT, &o->check, "DIR",
         "write nothing: exit 1 unless DIR holds what would be written (instead of -o)", 0, 0},
        {"cache", 0, TERN_OPTION_TEXT, &o->cache, "DIR", "cubin cache (default: \"cache\" beside the database)", 0, 0},
        {"max-slowdown", 0, TERN_OPTION_TEXT, &o->slowdown, "RATIO",
         "fewest kernels that are within RATIO of the winners, e.g. 1.03 (default: every winner)", 0, 0},
        {"held-out", 0, TERN_OPTION_TEXT, &o->held_out, "M,...",
         "manifest: regret of the selection without these batch sizes (all: each in turn) and without each shape", 0, 0},
        {"allow-planned", 0, TERN_OPTION_FLAG, &o->allow_planned, NULL,
         "export choices that were predicted but never measured; the header says so", 0, 0},
    };
    memcpy(list, options, sizeof options);
}

static void export_help(void) {
    struct tern_export_options o = {0};
    struct tern_option options[EXPORT_OPTION_COUNT];
    list_options(&o, options);
    printf("usage: tune export --gpu NAMES -o DIR [options]\n\n"
           "Writes DIR/tern_dispatch.h, a C99 and C++11 header that answers which kernel to\n"
           "launch for a quantised linear layer, with tern_kernels.bin (the cubins),\n"
           "manifest.json (the evidence), README.md and example.c. Same rows, same bytes.\n"
           "Winners of templates that changed since are refused.\n\n");
    tern_options_help(options, EXPORT_OPTION_COUNT);
    printf("\nexample: tune export --gpu h200 --shapes qwen7b -o dispatch\n");
}

/* Required options are checked here, so that nothing is opened for an incomplete command. */
static enum tern_status parse(int argc, char **argv, struct tern_export_options *o, struct tern_error *err) {
    struct tern_option options[EXPORT_OPTION_COUNT];
    const char *unused[1];
    size_t count = 0;
    list_options(o, options);
    enum tern_status status = tern_options_parse(options, EXPORT_OPTION_COUNT, argc, argv, unused, 0, &count, err);
    if (status)
        return status;
    if (!o->gpu || (!o->output && !o->check)) {
        tern_error_set(err, TERN_USAGE, "export needs %s", o->gpu ? "-o DIR" : "--gpu NAME");
        tern_error_hint(err, "for example: tune export --gpu h200 -o dispatch");
        return TERN_USAGE;
    }
    if (o->output && o->check)
        return tern_error_set(err, TERN_USAGE, "export writes to -o DIR or compares with --check DIR, not both");
    if (o->release && (o->slowdown || o->held_out || o->allow_planned))
        return tern_error_set(err, TERN_USAGE,
                              "--release has the times of winners only: no --max-slowdown, --held-out or --allow-planned");
    if (o->slowdown &&
        !(tern_str_parse_double(o->slowdown, &o->max_slowdown) && o->max_slowdown >= 1.0 && o->max_slowdown <= 100.0))
        return tern_error_set(err, TERN_USAGE, "--max-slowdown takes a ratio from 1 to 100, such as 1.03, not '%s'",
                              o->slowdown);
    return TERN_OK;
}

/* The fixed parts of the header, from the program's data. */
struct texts {
    char *abi, *types, *select;
};

static enum tern_status read_texts(struct texts *texts, struct tern_error *err) {
    const struct {
        const char *name;
        char **into;
    } parts[] = {{"abi.h", &texts->abi}, {"dispatch.h", &texts->types}, {"dispatch_select.h", &texts->select}};
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && !status; i++) {
        char relative[96], path[4096];
        size_t bytes;
        tern_str_format(relative, sizeof relative, "templates/include/tern/%s", parts[i].name);
        status = tern_file_home_path(relative, path, sizeof path, err);
        if (!status)
            status = tern_file_read(path, parts[i].into, &bytes, err);
    }
    return status;
}

static void free_texts(struct texts *texts) {
    free(texts->abi);
    free(texts->types);
    free(texts->select);
}

enum tern_status tern_command_export_header(const char *db, const char *dir, const struct tern_results *rows,
                                            const struct tern_gpu *gpu, struct tern_error *err) {
    const struct tern_export_options o = {.db = db, .max_slowdown = 1.0};
    struct tern_export_source source = {.gpu = *gpu}; /* stays the caller's */
    struct tern_export_file file = {"tern_dispatch.h", {0}};
    struct texts texts = {0};
    for (size_t i = 0; i < rows->count; i++)
        tern_results_add(&source.rows, &rows->rows[i]);
    enum tern_status status = tern_export_source_prepare(&o, &source, err);
    if (!status)
        status = read_texts(&texts, err);
    if (!status) {
        const struct tern_export_gpu table = tern_export_source_gpu(&source);
        const struct tern_export input = {&table, 1, texts.abi, texts.types, texts.select, 1.0, NULL, 0};
        tern_export_header(&input, &file.text);
        status = tern_export_write(dir, &file, 1, err);
    }
    tern_export_source_release(&source);
    tern_results_free(&source.rows);
    tern_str_free(&file.text);
    free_texts(&texts);
    return status;
}

/* Builds all files in memory, then writes or compares them: what cannot be built whole leaves nothing behind. */
static enum tern_status produce(const struct tern_export_options *o, const struct tern_export *input,
                                struct tern_error *err) {
    struct tern_export_file files[] = {
        {"tern_dispatch.h", {0}}, {"manifest.json", {0}}, {"README.md", {0}}, {"example.c", {0}}, {"tern_kernels.bin", {0}}};
    size_t count = sizeof files / sizeof files[0], missing = 0;
    struct tern_str *kernels = &files[count - 1].text;
    enum tern_status status = tern_export_pack(o, input, kernels, &missing, err);
    if (!status) {
        tern_export_header(input, &files[0].text);
        tern_export_manifest(input, kernels->length, missing, &files[1].text);
        tern_export_readme(input, &files[2].text);
        tern_str_append(&files[3].text, tern_export_example);
        const size_t present = kernels->length ? count : count - 1;
        status = o->check ? tern_export_compare(o->check, files, present, err)
                          : tern_export_write(o->output, files, present, err);
    }
    for (size_t i = 0; i < count; i++)
        tern_str_free(&files[i].text);
    return status;
}

/* The loaded sources as the writer's input. */
static enum tern_status export_sources(const struct tern_export_options *o, const struct tern_export_source *sources,
                                       size_t count, struct tern_error *err) {
    struct texts texts = {0};
    struct tern_export_gpu gpus[EXPORT_MAX_GPUS];
    struct tern_export_regret regrets[TERN_EXPORT_REGRETS * EXPORT_MAX_GPUS];
    for (size_t i = 0; i < count; i++) {
        gpus[i] = tern_export_source_gpu(&sources[i]);
        memcpy(&regrets[TERN_EXPORT_REGRETS * i], sources[i].regrets, sizeof sources[i].regrets);
    }
    enum tern_status status = read_texts(&texts, err);
    if (!status) {
        const struct tern_export input = {
            gpus,         count,           texts.abi, texts.types,
            texts.select, o->max_slowdown, regrets,   o->held_out ? TERN_EXPORT_REGRETS * count : 0};
        status = produce(o, &input, err);
    }
    free_texts(&texts);
    return status;
}

/* Everything that can be refused is checked before the first byte is written. */
static enum tern_status export_run(int argc, char **argv, struct tern_error *err) {
    struct tern_export_options o = {.db = TERN_DEFAULT_DB, .max_slowdown = 1.0};
    struct tern_strs names = {0};
    enum tern_status status = parse(argc, argv, &o, err);
    if (status)
        return status;
    tern_strs_split(&names, o.gpu, ',');
    if (!names.count || names.count > EXPORT_MAX_GPUS)
        status = tern_error_set(err, TERN_USAGE, "--gpu '%s' names %zu GPUs; 1 to %d are possible", o.gpu, names.count,
                                EXPORT_MAX_GPUS);
    struct tern_export_source *sources = tern_alloc_zero(EXPORT_MAX_GPUS, sizeof *sources);
    size_t loaded = 0;
    for (; loaded < names.count && !status; loaded++) {
        status = tern_export_source_load(&o, names.items[loaded], &sources[loaded], err);
        for (size_t i = 0; i < loaded && !status; i++)
            if (!strcmp(sources[i].gpu.name, sources[loaded].gpu.name))
                status = tern_error_set(err, TERN_USAGE, "--gpu names %s twice", sources[i].gpu.name);
    }
    if (!status && o.output)
        status = tern_file_check_writable_dir(o.output, err);
    if (!status)
        status = export_sources(&o, sources, loaded, err);
    /* The path alone on stdout: for scripts. */
    if (!status)
        printf("%s/tern_dispatch.h\n", o.check ? o.check : o.output);
    for (size_t i = 0; i < loaded; i++)
        tern_export_source_free(&sources[i]);
    free(sources);
    tern_strs_free(&names);
    return status;
}

const struct tern_command tern_command_export = {"export", "write the dispatch table as a C header", export_run,
                                                 export_help};
