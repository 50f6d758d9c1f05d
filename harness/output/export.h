/* Export: the dispatch tables of one or several GPUs as a folder that needs nothing else of Tern: tern_dispatch.h,
 * tern_kernels.bin (core/archive.h), manifest.json, README.md, example.c. Deterministic: same rows, same bytes. What is in
 * it: docs/dispatch.md. */
#ifndef TERN_OUTPUT_EXPORT_H
#define TERN_OUTPUT_EXPORT_H

#include "core/error.h"
#include "core/result.h"
#include "core/str.h"
#include "output/select.h"

#include <stdbool.h>

/* One row's launch as C expressions of type int64_t over m, n, k, groups, group_size, sms; parameters are numbers already.
 * They may call tern_min_, tern_max_, tern_ceil_div_. Nothing appended: absent (grid and cluster 1, bytes and prologue 0). */
struct tern_export_launch {
    struct tern_str grid[3], block, smem, workspace, cluster, prologue_grid, prologue_block;
    int64_t group_size; /* weights along K that share a scale; 0: a whole row */
};
void tern_export_launch_free(struct tern_export_launch *launch);

/* The kernel that serves an entry of the table, where it is not the row's own winner (--max-slowdown). */
struct tern_export_stand_in {
    const struct tern_result *kernel; /* another row of the same results; NULL: the row's own */
    double slowdown;                  /* its time over the winner's on this problem; 1 for the row's own */
};

/* One GPU's table. */
struct tern_export_gpu {
    const struct tern_results *results;           /* of this GPU */
    const struct tern_export_launch *launches;    /* one a row */
    const struct tern_export_stand_in *stand_ins; /* one a row, or NULL */
    const struct tern_selection_stairs *stairs;   /* one a row, or NULL: struct tern_selection_table */
    const char *title;                            /* "NVIDIA H200 SXM" */
    const char *devices;                          /* names that the driver reports, separated by | */
    int cc;
    int64_t sms, smem_bytes;                  /* multiprocessors; most shared memory of one block, dynamic and static */
    const char *device_name, *driver, *nvrtc; /* where it was measured, what compiled it; "" if unknown. For the manifest */
};

#define TERN_EXPORT_REGRETS 3
/* Held-out evaluation of the selection, over the problems of one kind. Regret: time of the kernel that is selected without
 * the problem's row over the best kernel's, less 1. */
struct tern_export_regret {
    const char *kind; /* "m": M left out; all rows of an (N, K) left out: "shape-near", "shape-default" by the match */
    char left_out[128];
    size_t count, bounded, unknown; /* problems judged; of these by an upper bound; those of which nothing is known */
    double geomean, worst;          /* NAN if count is 0 */
    double measured_geomean, measured_worst; /* of those that are no upper bounds; NAN if there is none */
    char worst_problem[128];
};

struct tern_export {
    const struct tern_export_gpu *gpus;
    size_t gpu_count;
    const char *abi, *types, *select; /* texts of tern/abi.h, dispatch.h, dispatch_select.h, copied into the header */
    double max_slowdown;              /* 1: every winner */
    const struct tern_export_regret *regrets;
    size_t regret_count;
};

/* What can be refused before any work: no rows, rows of several GPUs (TERN_USAGE), planned rows without allow_planned
 * (TERN_FAILED). */
enum tern_status tern_export_check(const struct tern_results *results, bool allow_planned, struct tern_error *err);

/* Appends the header's text, the manifest. Every GPU has at least one winner. */
void tern_export_header(const struct tern_export *input, struct tern_str *out);
/* kernel_bytes: of the archive, 0 if there is none. missing: kernels that the archive lacks. */
void tern_export_manifest(const struct tern_export *input, size_t kernel_bytes, size_t missing, struct tern_str *out);
void tern_export_readme(const struct tern_export *input, struct tern_str *out);
extern const char *const tern_export_example; /* text of example.c */

/* Distinct cubins that the tables name, sorted. */
void tern_export_cubins(const struct tern_export *input, struct tern_strs *hashes);

/* Rows whose kernels the table names, in its order, some of them several times: of its entries, then of their steps. The caller frees rows. */
struct tern_export_kernels {
    const struct tern_result **rows;
    size_t count;
};
void tern_export_kernels(const struct tern_export_gpu *gpu, const struct tern_selection_table *table,
                         struct tern_export_kernels *out);

/* The row whose kernel serves a row of the results. */
const struct tern_result *tern_export_kernel(const struct tern_export_gpu *gpu, const struct tern_result *row,
                                             double *slowdown);

/* ---- shared by export*.c ---- */
/* A C string literal, and text inside a comment that cannot end it. */
void tern_export_literal(struct tern_str *out, const char *text);
void tern_export_comment(struct tern_str *out, const char *text);
/* Launch functions, kernels, entries, groups and families of table `index`. */
void tern_export_table(const struct tern_export_gpu *gpu, const struct tern_selection_table *table, size_t index,
                       struct tern_str *out);
bool tern_export_planned(const struct tern_export_gpu *gpu);

/* ---- the folder ---- */
struct tern_export_file {
    const char *name;
    struct tern_str text; /* owned */
};
/* Writes each file atomically; dir is made if missing. */
enum tern_status tern_export_write(const char *dir, const struct tern_export_file *files, size_t count,
                                   struct tern_error *err);
/* TERN_FAILED with the first difference (file, line of text files) unless the folder holds these very bytes. */
enum tern_status tern_export_compare(const char *dir, const struct tern_export_file *files, size_t count,
                                     struct tern_error *err);

#endif
