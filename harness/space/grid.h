/* The parameter grid of a template: enumeration, constraints with counted reasons, launch geometry, text form of candidates.
 */
#ifndef TERN_SPACE_GRID_H
#define TERN_SPACE_GRID_H

#include "config/template.h"

#include <stdint.h>

struct tern_candidate {
    const struct tern_template *tmpl;
    int64_t values[TERN_MAX_PARAMS]; /* declared order */
    bool dependent;                  /* built for, and launched by, programmatic dependent launch */
};

struct tern_candidates {
    struct tern_candidate *items;
    size_t count, capacity;
};

struct tern_exclusion { /* why grid points were dropped */
    char reason[120];
    int64_t count;
};
struct tern_exclusions {
    struct tern_exclusion items[32]; /* further reasons are pooled in the last */
    size_t count;
};

/* Appends every candidate of `t` that is valid for the problem, the default candidate first if valid; dependent ones alone where
 * the problem says so and the template can. Also checks the hardware limits known before compiling: threads a block <= 1024, shared memory <= gpu->smem_block_bytes, grid limits. */
enum tern_status tern_grid_enumerate(const struct tern_template *t, const struct tern_problem_shape *problem,
                                     const struct tern_gpu *gpu, struct tern_candidates *out, struct tern_exclusions *why,
                                     struct tern_error *err);
void tern_candidates_free(struct tern_candidates *list);

/* "BLOCK_M=16 STAGES=4": declared order, " DEPENDENT=1" behind them if it is; and back. */
void tern_candidate_text(const struct tern_candidate *c, char *out, size_t size);
enum tern_status tern_candidate_parse(const struct tern_template *t, const char *text, struct tern_candidate *c,
                                      struct tern_error *err);
/* True if every parameter has its fallback value, dependent or not. */
bool tern_candidate_is_default(const struct tern_candidate *c);
bool tern_candidate_equal(const struct tern_candidate *a, const struct tern_candidate *b);

struct tern_geometry {
    int64_t grid[3], block, cluster; /* cluster: CTAs along x, 1 for none */
    int64_t smem_bytes, workspace_bytes;
    int64_t prologue_grid, prologue_block; /* 0 without a prologue */
    int64_t busiest; /* elements of y of the block with most to do, times its share of K; 0: the template does not say */
};
/* Evaluates the launch expressions; errors name the expression. M = 0 gives grid 0. */
enum tern_status tern_candidate_geometry(const struct tern_candidate *c, const struct tern_problem_shape *problem,
                                         int64_t sms, struct tern_geometry *out, struct tern_error *err);

/* Source text that defines a candidate for a format: constexpr integers for each parameter, then BITS, ZERO (constant zero
 * point of sym formats), HAS_ZEROS (0/1), GROUP (k per group; 0: one scale a row), BF16 (type of x and y: 0 binary16, 1
 * bfloat16), DEPENDENT (0/1). Prepended to kernel.cu for NVRTC and the emulator; ends with a #line directive. */
void tern_candidate_preamble(const struct tern_candidate *c, const struct tern_format *format, enum tern_activation type,
                             struct tern_str *out);

#endif
