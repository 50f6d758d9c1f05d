/* Selection: which tuned row answers for a problem that may never have been tuned. Pure functions of result rows.
 * Exported headers hold its twin (templates/include/tern/dispatch_select.h); a test compares the two on random problems.
 * Everything is integer arithmetic, so that host and exported table agree bit for bit. */
#ifndef TERN_OUTPUT_SELECT_H
#define TERN_OUTPUT_SELECT_H

#include "core/result.h"

/* The ratio of N or K up to which a neighbouring shape's choice still means something: 2 octaves. */
#define TERN_SELECT_NEAR_RATIO 4

/* How good the answer is; the numbers are those of enum tern_match in the exported header. */
enum tern_selection_match {
    TERN_SELECTION_NONE,    /* nothing in the table can serve it */
    TERN_SELECTION_EXACT,   /* this (format, N, K, M) was tuned */
    TERN_SELECTION_BETWEEN, /* this (format, N, K) was tuned at other M */
    TERN_SELECTION_NEAR,    /* the nearest tuned (N, K), at most 4x away in either */
    TERN_SELECTION_DEFAULT, /* the nearest tuned (N, K), farther away: a working kernel, no claim about its speed */
};
const char *tern_selection_match_name(enum tern_selection_match match);

/* The rows of one (op, format, N, K), ascending in M, each M once. */
struct tern_selection_group {
    const char *op, *format; /* point into the rows */
    int64_t n, k;
    const struct tern_result **rows;
    size_t count;
};

/* The kernel for sizes up to this one, from behind the step before. */
struct tern_selection_step {
    int64_t size;
    const struct tern_result *kernel; /* of this row of the results */
};
struct tern_selection_steps {
    struct tern_selection_step *items; /* ascending in size */
    size_t count;
};
/* For shapes with K up to this one, from behind the band before: steps by N, one at least. */
struct tern_selection_band {
    int64_t k;
    struct tern_selection_steps steps;
};
/* Of a row: its kernels for the M between it and the next smaller one of its group, and for shapes that nobody tuned. The last step of a
 * band serves all larger N, the last band all larger K. */
struct tern_selection_stairs {
    struct tern_selection_steps between;
    struct tern_selection_band *bands; /* ascending in k */
    size_t band_count;
};

/* Groups sorted by op, format, n, k. Pointers refer to the results, which must outlive the table unchanged. */
struct tern_selection_table {
    struct tern_selection_group *groups;
    size_t count;
    const struct tern_results *results;
    /* One a row of the results, or NULL. Owned by the caller, who may set it after building. */
    const struct tern_selection_stairs *stairs;
};

/* Rows without a template and runners-up are left out. Where several models or layers hold the same (op, format, N, K), one of them gives
 * all rows of the group (the one with the most M, then the first by shapes and layer name): their layouts may differ, and an
 * engine keeps one copy of the weights. */
struct tern_selection_table tern_selection_build(const struct tern_results *results);
void tern_selection_free(struct tern_selection_table *table);

/* Whole nanoseconds of a row, measured or (planned) predicted; INT64_MAX / 4 where neither is known. */
int64_t tern_selection_ns(const struct tern_result *row);
/* True where cuBLASLt on FP16 weights was measured and is faster than the winner. */
bool tern_selection_use_cublas(const struct tern_result *row);
/* Where dequantising the layer each time, with cuBLASLt behind it, was: 1 in FP16, 2 in e4m3 (x quantised as well); 0 where neither
 * was. The faster of two. */
int tern_selection_use_dequant(const struct tern_result *row);

/* Sizes from here on are not served: below it, no launch arithmetic of a template can overflow 64 bits. */
#define TERN_SELECT_SIZE_END (INT64_C(1) << 24)

struct tern_selection_problem {
    const char *op, *format; /* op NULL: "linear-a16" */
    int64_t m, n, k;
};

/* Whether the row's kernel can be launched for this problem: grid, block and shared memory within the device's limits. */
typedef bool tern_selection_fits(void *user, const struct tern_result *row, const struct tern_selection_problem *problem);

struct tern_selection_answer {
    const struct tern_result *row;    /* whose times and baseline it rests on; NULL: none */
    const struct tern_result *kernel; /* whose kernel is launched: the row itself, but for steps */
    enum tern_selection_match match;
};
/* The same as tern_selection_find below, with the kernel. */
struct tern_selection_answer tern_selection_ask(const struct tern_selection_table *table,
                                                const struct tern_selection_problem *problem, tern_selection_fits *fits,
                                                void *user);

/* The row to use for a problem, or NULL with match NONE: unknown format, M <= 0, a size out of range, N no multiple of 8 or
 * K of 32, or no kernel of the group takes this M. fits NULL: only the range of M is checked. */
const struct tern_result *tern_selection_find(const struct tern_selection_table *table,
                                              const struct tern_selection_problem *problem, tern_selection_fits *fits,
                                              void *user, enum tern_selection_match *match);

#endif
