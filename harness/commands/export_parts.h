/* Steps of `tune export`: internal to export*.c. */
#ifndef TERN_COMMANDS_EXPORT_PARTS_H
#define TERN_COMMANDS_EXPORT_PARTS_H

#include "config/gpu.h"
#include "core/archive.h"
#include "output/export.h"
#include "store/cache.h"

#include <stdbool.h>

struct tern_export_options {
    const char *gpu, *shapes, *release, *db, *output, *check, *cache, *held_out, *slowdown;
    bool allow_planned;
    double max_slowdown; /* of `slowdown`; 1 without */
};

/* TERN_FAILED where a winner's template (kernel.cu, space.lua) is not the one that was measured; says which. */
enum tern_status tern_export_check_fresh(const struct tern_results *rows, struct tern_error *err);

/* One GPU of the export, with all that its table points into. */
struct tern_export_source {
    struct tern_gpu gpu;
    struct tern_results rows;
    struct tern_export_launch *launches;
    struct tern_export_stand_in *stand_ins;
    struct tern_selection_stairs *stairs;
    char devices[512], device_name[128], driver[64], nvrtc[32];
    struct tern_export_regret regrets[TERN_EXPORT_REGRETS];
};

/* Reads the winners of one GPU, checks them and prepares their launches, stand-ins and held-out regrets. */
enum tern_status tern_export_source_load(const struct tern_export_options *o, const char *gpu,
                                         struct tern_export_source *source, struct tern_error *err);
/* The second half of it: of a source that has its rows and GPU. */
enum tern_status tern_export_source_prepare(const struct tern_export_options *o, struct tern_export_source *source,
                                            struct tern_error *err);
void tern_export_source_free(struct tern_export_source *source);
/* The same without rows and GPU, which belong to somebody else. */
void tern_export_source_release(struct tern_export_source *source);
struct tern_export_gpu tern_export_source_gpu(const struct tern_export_source *source);

/* export_release.c: the rows of --release, complete, in the place of a database's; their cubins are in `cache` then. */
enum tern_status tern_export_release_rows(const struct tern_export_options *o, const struct tern_gpu *gpu, const char *cache,
                                          struct tern_results *rows, struct tern_error *err);

/* The archive of the cubins that the tables name, out of the cache. What the cache lacks is counted and told, not an error:
 * the header stands by itself. Nothing is appended where there is no cubin at all. */
enum tern_status tern_export_pack(const struct tern_export_options *o, const struct tern_export *input, struct tern_str *out,
                                  size_t *missing, struct tern_error *err);
/* Fills images[*count] for the packing kernels of each architecture, compiled into the cache by a worker: at most one a GPU; the caller frees
 * their data. Where they cannot be compiled that is told, not an error. */
enum tern_status tern_export_packing(const char *cache, const struct tern_export *input, struct tern_archive_image *images,
                                     size_t *count, struct tern_error *err);

#endif
