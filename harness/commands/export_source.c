/* What `tune export` reads: the winners of a GPU with their launches, where they come from, and the cubins. */
#include "commands/export_parts.h"

#include "commands/dispatch.h"
#include "commands/export_times.h"
#include "core/file.h"
#include "core/log.h"
#include "device/compiler.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

/* Device and compiler of the rows, for the manifest; "" where the database does not say. Several compilers: the newest name. */
static enum tern_status read_origin(const char *db, struct tern_export_source *s, struct tern_error *err) {
    struct tern_store *store = NULL;
    struct tern_store_device device;
    int64_t id;
    bool found = false;
    enum tern_status status = tern_store_open(db, TERN_STORE_READ, &store, err);
    if (!status)
        status = tern_store_measured_device(store, s->gpu.name, &device, &id, &found, err);
    if (!status && found) {
        tern_str_copy(s->device_name, sizeof s->device_name, device.name);
        tern_str_copy(s->driver, sizeof s->driver, device.driver);
    }
    for (size_t i = 0; i < s->rows.count && !status; i++) {
        struct tern_store_build build;
        status = tern_store_build_find(store, s->rows.rows[i].build_key, &build, &found, err);
        if (!status && found && strcmp(build.nvrtc, s->nvrtc) > 0)
            tern_str_copy(s->nvrtc, sizeof s->nvrtc, build.nvrtc);
    }
    tern_store_close(store);
    return status;
}

/* "cache" in the folder of the database, unless the user named one. */
static void cache_path(const struct tern_export_options *o, struct tern_str *out) {
    const char *slash = strrchr(o->db, '/');
    if (o->cache)
        tern_str_append(out, o->cache);
    else
        tern_str_printf(out, "%.*scache", slash ? (int)(slash - o->db + 1) : 0, o->db);
}

/* What compiled a release's cubins, just now. */
static enum tern_status read_nvrtc(struct tern_export_source *s, struct tern_error *err) {
    int major, minor;
    char path[512];
    enum tern_status status = tern_nvrtc_version(&major, &minor, path, sizeof path, err);
    if (!status)
        tern_str_format(s->nvrtc, sizeof s->nvrtc, "%d.%d", major, minor);
    return status;
}

static void join_devices(struct tern_export_source *s) {
    struct tern_str names = {0};
    for (size_t i = 0; i < s->gpu.device_names.count; i++)
        tern_str_printf(&names, "%s%s", i ? "|" : "", s->gpu.device_names.items[i]);
    tern_str_copy(s->devices, sizeof s->devices, tern_str_text(&names));
    tern_str_free(&names);
}

static enum tern_status load_times(const struct tern_export_options *o, const struct tern_export_source *s,
                                   struct tern_times **times, struct tern_error *err) {
    if (!o->release)
        return tern_times_load(o->db, &s->gpu, &s->rows, times, err);
    *times = tern_times_of_rows(&s->rows);
    return TERN_OK;
}

/* What the times of the other candidates tell: stand-ins, else runners-up; kernels between tuned M and for other shapes. */
static void use_times(const struct tern_export_options *o, const struct tern_times *times,
                      const struct tern_dispatch_limits *limits, struct tern_export_source *s) {
    if (o->max_slowdown > 1.0) { /* the fewest kernels */
        s->stand_ins = tern_alloc_zero(s->rows.count, sizeof *s->stand_ins);
        tern_times_cover(times, &s->rows, o->max_slowdown, s->stand_ins);
    } else {
        tern_times_runners_up(times, &s->rows);
    }
    struct tern_selection_table table = tern_selection_build(&s->rows);
    s->stairs = tern_times_stairs(times, &table, s->stand_ins, limits);
    tern_selection_free(&table);
}

static enum tern_status launches(struct tern_export_source *s, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    s->launches = tern_alloc_zero(s->rows.count, sizeof *s->launches);
    for (size_t i = 0; i < s->rows.count && !status; i++)
        if (s->rows.rows[i].template_name[0])
            status = tern_dispatch_launch(&s->rows.rows[i], &s->launches[i], err);
    return status;
}

enum tern_status tern_export_source_load(const struct tern_export_options *o, const char *gpu,
                                         struct tern_export_source *source, struct tern_error *err) {
    struct tern_str cache = {0};
    enum tern_status status = tern_gpu_load(gpu, &source->gpu, err);
    if (!status && o->release) {
        cache_path(o, &cache);
        status = tern_export_release_rows(o, &source->gpu, cache.data, &source->rows, err);
        tern_str_free(&cache);
        return status ? status : tern_export_source_prepare(o, source, err);
    }
    if (!status)
        status = tern_dispatch_rows(o->db, source->gpu.name, o->shapes, &source->rows, err);
    if (!status && !o->shapes)
        tern_dispatch_leave_out_others(&source->rows);
    if (!status)
        status = tern_export_check(&source->rows, o->allow_planned, err);
    if (!status)
        status = tern_export_check_fresh(&source->rows, err);
    return status ? status : tern_export_source_prepare(o, source, err);
}

enum tern_status tern_export_source_prepare(const struct tern_export_options *o, struct tern_export_source *source,
                                            struct tern_error *err) {
    struct tern_times *times = NULL;
    struct tern_dispatch_limits limits = {source->gpu.sms, source->gpu.smem_block_bytes};
    join_devices(source);
    enum tern_status status = load_times(o, source, &times, err);
    if (!status) {
        use_times(o, times, &limits, source);
        status = launches(source, err);
    }
    if (!status && o->held_out)
        status = tern_times_held_out(times, &source->rows, o->held_out, &limits, source->regrets, err);
    tern_times_free(times);
    if (!status && o->release) {
        tern_str_copy(source->device_name, sizeof source->device_name, source->rows.rows[0].device);
        tern_str_copy(source->driver, sizeof source->driver, source->rows.rows[0].driver);
        status = read_nvrtc(source, err);
    } else if (!status) {
        status = read_origin(o->db, source, err);
    }
    return status;
}

void tern_export_source_release(struct tern_export_source *source) {
    for (size_t i = 0; i < source->rows.count && source->launches; i++)
        tern_export_launch_free(&source->launches[i]);
    free(source->launches);
    free(source->stand_ins);
    tern_times_stairs_free(source->stairs, source->rows.count);
}

void tern_export_source_free(struct tern_export_source *source) {
    tern_export_source_release(source);
    tern_results_free(&source->rows);
    tern_gpu_free(&source->gpu);
}

struct tern_export_gpu tern_export_source_gpu(const struct tern_export_source *s) {
    return (struct tern_export_gpu){.results = &s->rows,
                                    .launches = s->launches,
                                    .stand_ins = s->stand_ins,
                                    .stairs = s->stairs,
                                    .title = s->gpu.title,
                                    .devices = s->devices,
                                    .cc = s->gpu.cc,
                                    .sms = s->gpu.sms,
                                    .smem_bytes = s->gpu.smem_block_bytes,
                                    .device_name = s->device_name,
                                    .driver = s->driver,
                                    .nvrtc = s->nvrtc};
}

/* ---- cubins ---- */

/* Fills images[*count] for what the cache has; the caller frees their data. */
static enum tern_status read_images(const char *dir, const struct tern_strs *hashes, struct tern_archive_image *images,
                                    size_t *count, struct tern_error *err) {
    struct tern_cache *cache = NULL;
    enum tern_status status = tern_cache_open(dir, &cache, err);
    for (size_t i = 0; i < hashes->count && !status; i++) {
        void *data = NULL;
        bool found = false;
        struct tern_archive_image *image = &images[*count];
        if (hashes->items[i][0])
            status = tern_cache_get(cache, hashes->items[i], &data, &image->bytes, &found, err);
        if (status || !found)
            continue;
        tern_str_copy(image->name, sizeof image->name, hashes->items[i]);
        image->data = data;
        ++*count;
    }
    tern_cache_close(cache);
    return status;
}

enum tern_status tern_export_pack(const struct tern_export_options *o, const struct tern_export *input, struct tern_str *out,
                                  size_t *missing, struct tern_error *err) {
    struct tern_strs hashes = {0};
    struct tern_str path = {0};
    size_t count = 0;
    enum tern_status status = TERN_OK;
    cache_path(o, &path);
    tern_export_cubins(input, &hashes);
    struct tern_archive_image *images = tern_alloc_zero(hashes.count + input->gpu_count, sizeof *images);
    if (!tern_file_is_dir(path.data))
        tern_log_note("no kernels are packed: there is no cache at %s (name it with --cache DIR)", path.data);
    else
        status = read_images(path.data, &hashes, images, &count, err);
    *missing = hashes.count - count;
    if (!status && *missing && tern_file_is_dir(path.data))
        tern_log_warn("run the same `tune` command again, which rebuilds them, then export again",
                      "%zu of %zu cubins are not in the cache %s", *missing, hashes.count, path.data);
    if (!status && count)
        status = tern_export_packing(path.data, input, images, &count, err);
    if (!status && count)
        tern_archive_write(images, count, out);
    for (size_t i = 0; i < count; i++)
        free((void *)images[i].data);
    free(images);
    tern_strs_free(&hashes);
    tern_str_free(&path);
    return status;
}
