/* Export: a generated C header with the dispatch table. Deterministic: same rows, same bytes. What is in it:
 * docs/dispatch.md. */
#ifndef TERN_OUTPUT_EXPORT_H
#define TERN_OUTPUT_EXPORT_H

#include "core/error.h"
#include "core/result.h"
#include "core/str.h"

#include <stdbool.h>

/* One row's launch as C expressions of type int64_t over m, n, k, groups, group_size, sms; parameters are numbers already.
 * They may call tern_min_, tern_max_, tern_ceil_div_. Nothing appended: absent (grid and cluster 1, bytes 0). */
struct tern_export_launch {
    struct tern_str grid[3], block, smem, workspace, cluster;
    int64_t group_size; /* weights along K that share a scale; 0: a whole row */
};
void tern_export_launch_free(struct tern_export_launch *launch);

struct tern_export {
    const struct tern_results *results;        /* of one GPU */
    const struct tern_export_launch *launches; /* one a row */
    const char *gpu_title;                     /* "NVIDIA H200 SXM" */
    int64_t sms;                               /* multiprocessors of that GPU */
    int64_t smem_bytes;                        /* most shared memory of one block there, dynamic and static */
    const char *abi;                           /* text of tern/abi.h, copied into the header */
    bool allow_planned;
};

/* What can be refused before any work: no rows, rows of several GPUs (TERN_USAGE), planned rows without allow_planned
 * (TERN_FAILED). */
enum tern_status tern_export_check(const struct tern_results *results, bool allow_planned, struct tern_error *err);

/* Appends the header's text. The same checks. */
enum tern_status tern_export_text(const struct tern_export *input, struct tern_str *out, struct tern_error *err);

/* Writes DIR/tern_dispatch.h, atomically; DIR is made if missing. */
enum tern_status tern_export_header(const char *dir, const struct tern_export *input, struct tern_error *err);

/* The fixed part of the header: declarations, and the selection (the twin of output/select.c). */
extern const char *const tern_export_declarations[];
extern const char *const tern_export_algorithm[];

#endif
