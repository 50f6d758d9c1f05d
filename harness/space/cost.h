/* Cost model: limits from ceilings, and the order in which candidates are tried. */
#ifndef TERN_SPACE_COST_H
#define TERN_SPACE_COST_H

#include "space/grid.h"

/* Bytes one launch must move at least: packed codes + scales + zeros, x once, y once. */
double tern_cost_bytes(const struct tern_format *format, int64_t m, int64_t n, int64_t k);
/* Limit of a problem in microseconds: max(cold read time of its weights, 2MNK / peak rate of the tensor cores for f16
 * (bf16 is the same) or s8, shortest launch). */
double tern_cost_limit_us(const struct tern_gpu *gpu, enum tern_activation type, const struct tern_format *format, int64_t m,
                          int64_t n, int64_t k);

/* True where arithmetic bounds the problem: 2MNK over its bytes is more than `balance`, the data sheet's f16 rate over its
 * bandwidth (tern_cost_balance, before ceilings replace the figures: no measurement may change the policy of a row). */
bool tern_cost_compute_bound(double balance, const struct tern_format *format, int64_t m, int64_t n, int64_t k);
double tern_cost_balance(const struct tern_gpu *gpu); /* operations a byte */

struct tern_resources { /* from the compiler; zero when not built yet */
    int64_t registers, static_smem_bytes, spill_bytes;
};
/* Blocks of one candidate that fit on a multiprocessor: registers in units of 256 a warp from the warp's quarter of the
 * file, shared memory in units of 128 bytes with 1 KiB reserved a block (compute capability >= 8.0). 0: cannot launch. */
int64_t tern_cost_occupancy(const struct tern_gpu *gpu, const struct tern_geometry *geometry,
                            const struct tern_resources *resources);
/* Predicted time: roofline time / efficiency prior, wave quantisation, tail tiles, too few bytes in flight, spills. A prior
 * for ordering and for planned rows, not a claim. INFINITY if it cannot launch. */
double tern_cost_predict_us(const struct tern_gpu *gpu, const struct tern_candidate *c,
                            const struct tern_problem_shape *problem, const struct tern_geometry *geometry,
                            const struct tern_resources *resources);

#endif
