/* Check of one candidate on a small problem, on any backend: is every element of y right, is nothing else touched, is it the
 * same twice. A check problem (weights, packed buffers, FP64 references) is prepared once and serves every candidate of the
 * same layout and format; a candidate then costs four launches. */
#ifndef TERN_WORKER_CHECK_H
#define TERN_WORKER_CHECK_H

#include "core/outcome.h"
#include "device/backend.h"
#include "formats/layout.h"
#include "space/grid.h"
#include "verify/quantise.h"
#include "verify/reference.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_check_shape {
    int64_t m, n, k;
};

/* Odd shapes that cost little: M and N off every tile size, K with short last tiles and groups. Ordered by cost. */
extern const struct tern_check_shape tern_check_shapes[];
extern const size_t tern_check_shape_count;

/* True if the format can have this shape and the template serves its M (m_min..m_max). */
bool tern_check_shape_fits(const struct tern_check_shape *shape, const struct tern_format *format,
                           const struct tern_template *t);

struct tern_check_problem; /* host data and device buffers of one (format, type of x and y, layout, shape) */

/* Takes two sets of weights, `given` or (NULL) random ones from `seed` and a second seed; packs and uploads them, computes references for every
 * element. The problem belongs to this context; free it before the context closes. */
enum tern_status tern_check_problem_create(const struct tern_backend *backend, void *context,
                                           const struct tern_format *format, enum tern_activation type,
                                           enum tern_arithmetic arithmetic, const struct tern_layout *layout,
                                           const struct tern_check_shape *shape, uint64_t seed, struct tern_weights *given,
                                           struct tern_check_problem **problem, struct tern_error *err);
void tern_check_problem_free(struct tern_check_problem *problem);

struct tern_check_result {
    enum tern_outcome outcome; /* OK, WRONG, NONDET, FAULT, RESOURCES, INVALID */
    bool sticky;               /* FAULT of a real device: the context is lost, the worker must end */
    char detail[640];          /* "" when OK; else the first thing that was wrong, with numbers */
    struct tern_mismatch
        mismatch; /* summed over all comparisons with the FP64 reference; worst shows how near the bound is */
    int64_t launches;
    double device_seconds; /* poisoning, launches and reading back, without the host's comparisons */
};

/* Runs the loaded candidate on the problem: random weights with NaN poison, again with other poison (bitwise equal), second
 * weights, then one-hot activations that read single weights back exactly. `function` comes from backend->module_load with
 * the candidate's entry and the shared memory of tern_candidate_geometry for this shape, `prologue` (NULL: none) from
 * module_function. sms: multiprocessors of the device.
 * Everything that is the candidate's doing is an outcome; an error return means that the check itself could not be done. */
enum tern_status tern_check_run(struct tern_check_problem *problem, const struct tern_candidate *candidate, void *function,
                                void *prologue, int64_t sms, struct tern_check_result *result, struct tern_error *err);

/* A bench keeps the check problems of one (format, type of x and y, layout, seed) for every standard shape, made when first needed. */
struct tern_check_bench;
struct tern_check_bench *tern_check_bench_create(const struct tern_backend *backend, void *context,
                                                 const struct tern_format *format, enum tern_activation type,
                                                 const struct tern_layout *layout, uint64_t seed);
void tern_check_bench_free(struct tern_check_bench *bench);
/* Loads the image (cubin, or path of a shared object) and checks it on up to max_shapes (0: all) standard shapes for which
 * valid() of the template holds on `gpu` (NULL: not asked); stops at the first that is not OK; detail then starts with the
 * shape. A candidate that serves no standard shape is checked on `own` (may be NULL; tern_check_own_shape of the problem it
 * is wanted for), and is INVALID if it does not serve that either. *shapes (may be NULL) counts those that were checked. */
enum tern_status tern_check_candidate(struct tern_check_bench *bench, const struct tern_candidate *candidate,
                                      const void *image, size_t image_bytes, int64_t sms, const struct tern_gpu *gpu,
                                      size_t max_shapes, const struct tern_check_shape *own,
                                      struct tern_check_result *result, int64_t *shapes, struct tern_error *err);
/* The same on rows of real weights: `weights` is two sets of one shape, which are taken over. A candidate that does not serve the shape
 * is OK with *checked false. */
enum tern_status tern_check_real(struct tern_check_bench *bench, const struct tern_candidate *candidate, const void *image,
                                 size_t image_bytes, int64_t sms, const struct tern_gpu *gpu, int64_t m,
                                 struct tern_weights weights[2], struct tern_check_result *result, bool *checked,
                                 struct tern_error *err);
/* The problem's M and K with few columns, so that a check stays cheap. */
struct tern_check_shape tern_check_own_shape(int64_t m, int64_t k);

/* What the candidate multiplies, of a problem of that type: ROUND_SCALES=1 rounds the scales of W as well. */
enum tern_arithmetic tern_check_arithmetic(const struct tern_candidate *candidate, enum tern_activation type);
/* Whether the candidate's weights are exact or rounded once: the template's word, or ROUND_WEIGHTS=1. Sums of int8 are exact. */
enum tern_exactness tern_check_exactness(const struct tern_candidate *candidate, enum tern_activation type);

#endif
