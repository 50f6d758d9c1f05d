/* What a release is made of: parts that `export`, `report` and `compare` write and `release` needs as well. */
#ifndef TERN_COMMANDS_RELEASE_PARTS_H
#define TERN_COMMANDS_RELEASE_PARTS_H

#include "config/gpu.h"
#include "core/result.h"
#include "output/compare.h"

#include <stdbool.h>

/* export.c: writes DIR/tern_dispatch.h for rows of the database `db`, nothing else of what `tune export` writes. */
enum tern_status tern_command_export_header(const char *db, const char *dir, const struct tern_results *rows,
                                            const struct tern_gpu *gpu, struct tern_error *err);

/* report.c: the whole report, winners.csv included; puts the measured ceilings of the database, if there are any, into *gpu. */
enum tern_status tern_command_report_write(const char *db, const char *dir, const struct tern_results *rows,
                                           struct tern_gpu *gpu, struct tern_error *err);

/* report_release.c: the rows of a release, as compare_source.h reads them. A release that does not name its model takes name and
 * numbers of layers from `shapes`, a file or a name in configs/shapes. */
enum tern_status tern_release_rows(const char *release, const char *gpu, const char *shapes, struct tern_results *rows,
                                   struct tern_error *err);
/* Puts the measured ceilings of the release, if it has any for this GPU, into *gpu. */
enum tern_status tern_release_ceilings(const char *release, struct tern_gpu *gpu, bool *measured, struct tern_error *err);

/* compare.c: how results are compared. */
struct tern_compare_how {
    double threshold; /* a share that counts as noise; NAN: what the regimes of the rows say */
    bool json, changed;
    const char *output; /* folder for files, NULL: none */
};
/* Parses "2", "2.5" or "2%" into a share; NULL is NAN. */
enum tern_status tern_command_compare_threshold(const char *text, double *share, struct tern_error *err);
/* Compares, prints, writes. TERN_FAILED: something is slower or missing; TERN_USAGE: nothing could be compared. `c` brings names
 * and notes, and keeps the comparison; the caller frees it before the results. */
enum tern_status tern_command_compare_results(const struct tern_compare_how *how, const struct tern_results *a,
                                              const struct tern_results *b, struct tern_compare *c, struct tern_error *err);

/* release_verify.c: measures `sample` rows of the release in DIR again and compares. TERN_MISSING without the GPU. */
struct tern_release_verify {
    const char *name, *dir, *gpu, *shapes, *cache, *device, *replay;
    int64_t sample, seed;
    double threshold;
    bool json;
};
enum tern_status tern_release_verify(const struct tern_release_verify *v, struct tern_error *err);

/* release_environment.c: DIR/environment.json and DIR/ceilings.csv. commit: "" where it is not told. */
enum tern_status tern_release_environment(const char *db, const char *dir, const char *gpu, const char *shapes,
                                          const char *commit, struct tern_error *err);

#endif
