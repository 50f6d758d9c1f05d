/* Parts of `tune verify`: what is selected (verify_select.c), compute-sanitizer (verify_sanitize.c), and how results are shown
 * (verify_report.c). */
#ifndef TERN_COMMANDS_VERIFY_INTERNAL_H
#define TERN_COMMANDS_VERIFY_INTERNAL_H

#include "core/outcome.h"
#include "core/result.h"
#include "core/str.h"
#include "space/grid.h"
#include "worker/pool.h"

#include <stdbool.h>
#include <stdint.h>

struct verify_options {
    const char *backend, *gpu, *activations, *templates, *formats, *order, *launch, *cache,
        *db; /* db NULL: candidates of the grids */
    int64_t per_template, jobs, seed, shapes;
    bool all, sanitize, json;
};

struct verify_item { /* one candidate of one format */
    struct tern_candidate candidate;
    size_t format;
    int64_t m, k; /* of a problem that a winner won; 0: a candidate of the grid */
    enum tern_outcome outcome;
    bool answered;
    char *detail; /* owned; NULL when OK */
    int64_t shapes, launches, checked;
    double worst;
};

struct verify {
    struct verify_options options;
    enum tern_activation type; /* of x and y */
    struct tern_gpu gpu;
    struct tern_template *templates;
    size_t template_count;
    bool *selected; /* by template */
    struct tern_format *formats;
    size_t format_count;
    struct tern_results winners; /* of options.db */
    struct verify_item *items;   /* sorted by template, then format */
    size_t item_count, item_capacity;
    char **kernels;  /* text of kernel.cu, by template; loaded when first needed */
    char **closures; /* their includes */
    char compiler_identity[TERN_HASH_CHARS];
    char sanitizer[1024];    /* path of compute-sanitizer; "" unless it is wanted */
    const char *tool;        /* of compute-sanitizer that is running */
    size_t done, bad;        /* answers so far, of this tool; candidates that failed */
    enum tern_status status; /* first error that is no candidate's fault */
    struct tern_error *err;
};

/* Fills gpu, templates, formats and items from the options. TERN_USAGE if nothing is selected. */
enum tern_status tern_verify_select(struct verify *v, struct tern_error *err);
void tern_verify_free(struct verify *v);
/* Notes a failure; the first one of a candidate stays. `detail` is copied. */
void tern_verify_fail(struct verify *v, struct verify_item *item, enum tern_outcome outcome, const char *detail);
/* Runs the pool once under each tool of compute-sanitizer. */
enum tern_status tern_verify_sanitized(struct verify *v, struct tern_pool_work *work, struct tern_error *err);
/* True if the outcome counts as a failure of the check. INVALID does not: such a candidate serves none of the shapes. */
bool tern_verify_is_bad(const struct verify_item *item);
/* Table and list of failures, or JSON, on stdout. Returns how many template and format pairs had no candidate checked. */
size_t tern_verify_print(const struct verify *v);

#endif
