/* `tune export`: the dispatch table of one GPU as a C header, with the cubins that it names. */
#include "commands/commands.h"

#include "commands/dispatch.h"
#include "commands/release_parts.h"
#include "config/gpu.h"
#include "core/file.h"
#include "core/log.h"
#include "core/options.h"
#include "store/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct export_options {
    const char *gpu, *shapes, *db, *output, *cache;
    bool allow_planned;
};

#define EXPORT_OPTION_COUNT 6

/* One table for parsing and help; the values point into o. */
static void list_options(struct export_options *o, struct tern_option list[EXPORT_OPTION_COUNT]) {
    const struct tern_option options[EXPORT_OPTION_COUNT] = {
        {"gpu", 'g', TERN_OPTION_TEXT, &o->gpu, "NAME", "GPU whose winners are exported (required)", 0, 0},
        {"shapes", 's', TERN_OPTION_TEXT, &o->shapes, "NAME", "only the winners of this model (default: all)", 0, 0},
        {"db", 0, TERN_OPTION_TEXT, &o->db, "PATH", "database to read (default: " TERN_DEFAULT_DB ")", 0, 0},
        {"output", 'o', TERN_OPTION_TEXT, &o->output, "DIR", "folder to write into, made if missing (required)", 0, 0},
        {"cache", 0, TERN_OPTION_TEXT, &o->cache, "DIR", "cubin cache (default: \"cache\" beside the database)", 0, 0},
        {"allow-planned", 0, TERN_OPTION_FLAG, &o->allow_planned, NULL,
         "export choices that were predicted but never measured; the header says so", 0, 0},
    };
    memcpy(list, options, sizeof options);
}

static void export_help(void) {
    struct export_options o = {0};
    struct tern_option options[EXPORT_OPTION_COUNT];
    list_options(&o, options);
    printf("usage: tune export --gpu NAME -o DIR [options]\n\n"
           "Writes DIR/tern_dispatch.h, a C99 and C++11 header that answers which kernel to launch for a\n"
           "quantised linear layer, and DIR/kernels/HASH.cubin, the kernels it names. Same rows, same bytes.\n\n");
    tern_options_help(options, EXPORT_OPTION_COUNT);
    printf("\nexample: tune export --gpu h200 --shapes qwen7b -o dispatch\n");
}

/* Required options are checked here, so that nothing is opened for an incomplete command. */
static enum tern_status parse(int argc, char **argv, struct export_options *o, struct tern_error *err) {
    struct tern_option options[EXPORT_OPTION_COUNT];
    const char *unused[1];
    size_t count = 0;
    list_options(o, options);
    enum tern_status status = tern_options_parse(options, EXPORT_OPTION_COUNT, argc, argv, unused, 0, &count, err);
    if (status)
        return status;
    if (!o->gpu || !o->output) {
        tern_error_set(err, TERN_USAGE, "export needs %s", o->gpu ? "-o DIR" : "--gpu NAME");
        tern_error_hint(err, "for example: tune export --gpu h200 -o dispatch");
        return TERN_USAGE;
    }
    return TERN_OK;
}

/* "cache" in the folder of the database, unless the user named one. */
static void cache_path(const struct export_options *o, struct tern_str *out) {
    const char *slash = strrchr(o->db, '/');
    if (o->cache)
        tern_str_append(out, o->cache);
    else
        tern_str_printf(out, "%.*scache", slash ? (int)(slash - o->db + 1) : 0, o->db);
}

/* Writes one cubin; *found false when the cache lacks it. */
static enum tern_status copy_cubin(struct tern_cache *cache, const char *dir, const char *hash, bool *found,
                                   struct tern_error *err) {
    void *image = NULL;
    size_t bytes = 0;
    struct tern_str path = {0};
    *found = false;
    enum tern_status status = hash[0] ? tern_cache_get(cache, hash, &image, &bytes, found, err) : TERN_OK;
    if (!status && *found) {
        tern_str_printf(&path, "%s/kernels/%s.cubin", dir, hash);
        status = tern_file_write(path.data, image, bytes, err);
    }
    free(image);
    tern_str_free(&path);
    return status;
}

/* Copies each distinct cubin of the rows; what is missing is counted and told, not an error: the header stands by itself. */
static enum tern_status copy_cubins(const struct export_options *o, const struct tern_results *rows,
                                    struct tern_error *err) {
    struct tern_str path = {0}, kernels = {0};
    struct tern_cache *cache = NULL;
    struct tern_strs hashes = {0};
    size_t missing = 0, written = 0;
    enum tern_status status = TERN_OK;
    cache_path(o, &path);
    if (!tern_file_is_dir(path.data)) {
        tern_log_note("no cubins written: there is no cache at %s (name it with --cache DIR)", path.data);
        goto out;
    }
    status = tern_cache_open(path.data, &cache, err);
    if (status)
        goto out;
    tern_str_printf(&kernels, "%s/kernels", o->output);
    status = tern_file_make_dirs(kernels.data, err);
    for (size_t i = 0; i < rows->count; i++)
        tern_strs_add(&hashes, rows->rows[i].cubin_hash);
    /* Many rows share a cubin: sorted, so that repeats stand together. */
    tern_strs_sort(&hashes);
    for (size_t i = 0; i < hashes.count && !status; i++) {
        bool found = false;
        if (i && !strcmp(hashes.items[i], hashes.items[i - 1]))
            continue;
        status = copy_cubin(cache, o->output, hashes.items[i], &found, err);
        written += found;
        missing += !found;
    }
    if (!status && missing)
        tern_log_warn("run the same `tune` command again, which rebuilds them, then export again",
                      "%zu of %zu cubins are not in the cache %s", missing, missing + written, path.data);
out:
    tern_cache_close(cache);
    tern_strs_free(&hashes);
    tern_str_free(&path);
    tern_str_free(&kernels);
    return status;
}

enum tern_status tern_command_export_header(const char *dir, const struct tern_results *rows, const struct tern_gpu *gpu,
                                            bool allow_planned, struct tern_error *err) {
    struct tern_export_launch *launches = tern_alloc_zero(rows->count, sizeof *launches);
    char abi_path[4096], *abi = NULL;
    size_t abi_bytes = 0;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < rows->count && !status; i++)
        if (rows->rows[i].template_name[0])
            status = tern_dispatch_launch(&rows->rows[i], &launches[i], err);
    if (!status)
        status = tern_file_home_path("templates/include/tern/abi.h", abi_path, sizeof abi_path, err);
    if (!status)
        status = tern_file_read(abi_path, &abi, &abi_bytes, err);
    if (!status) {
        const struct tern_export input = {rows, launches, gpu->title, gpu->sms, gpu->smem_block_bytes, abi, allow_planned};
        status = tern_export_header(dir, &input, err);
    }
    for (size_t i = 0; i < rows->count; i++)
        tern_export_launch_free(&launches[i]);
    free(launches);
    free(abi);
    return status;
}

/* Everything that can be refused is checked before the first byte is written. */
static enum tern_status export_run(int argc, char **argv, struct tern_error *err) {
    struct export_options o = {.db = TERN_DEFAULT_DB};
    struct tern_results rows = {0};
    struct tern_gpu gpu = {0};
    enum tern_status status = parse(argc, argv, &o, err);
    if (status)
        return status;
    status = tern_gpu_load(o.gpu, &gpu, err);
    if (!status)
        status = tern_dispatch_rows(o.db, gpu.name, o.shapes, &rows, err);
    if (!status && !o.shapes)
        tern_dispatch_leave_out_real(&rows);
    if (!status)
        status = tern_export_check(&rows, o.allow_planned, err);
    if (!status)
        status = tern_file_check_writable_dir(o.output, err);
    if (!status)
        status = tern_command_export_header(o.output, &rows, &gpu, o.allow_planned, err);
    if (!status)
        status = copy_cubins(&o, &rows, err);
    /* The path alone on stdout: for scripts. */
    if (!status)
        printf("%s/tern_dispatch.h\n", o.output);
    tern_results_free(&rows);
    tern_gpu_free(&gpu);
    return status;
}

const struct tern_command tern_command_export = {"export", "write the dispatch table as a C header", export_run,
                                                 export_help};
