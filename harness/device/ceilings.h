/* Ceilings of a CUDA device: cold reads, copies, launches and matrix rates, measured with the probes of kernels/ceiling.cu.
 * ceilings.c measures memory and launches, ceilings_matrix.c the matrix units; a little of both makes control times. */
#ifndef TERN_DEVICE_CEILINGS_H
#define TERN_DEVICE_CEILINGS_H

#include "core/ceiling.h"
#include "device/cuda_timing.h"
#include "device/fixed_kernels.h"
#include "measure/control.h"

/* Measures everything that the device has, under 20 s; `sustained_s` seconds of load a matrix type (0: cool bursts only).
 * Rows are as in core/ceiling.h. Takes up to 2 GiB of device memory and frees it. TERN_FAILED if a probe did not do its
 * work: a ceiling is never taken from a kernel that did not run. */
enum tern_status tern_ceilings_measure(void *context, struct tern_fixed *fixed, double sustained_s,
                                       struct tern_ceilings *out, struct tern_error *err);

/* What tells devices of one model apart, in a second: a cold read and a matrix burst on a cool device, always of the same size.
 * TERN_FAILED if a probe did not do its work. */
enum tern_status tern_control_measure(void *context, struct tern_fixed *fixed, struct tern_control *out,
                                      struct tern_error *err);

/* Private to device/ceilings*.c. */
struct tern_ceiling_run {
    void *context; /* of tern_backend_cuda */
    struct tern_fixed *fixed;
    struct tern_device_info info;
    struct tern_ceilings *out;
    char *pool; /* random data, read cold */
    size_t pool_bytes;
    unsigned int mebibyte_sum; /* of the words of each MiB of it */
    unsigned int *result;      /* device: tern_probe_args.result */
};
/* A graph of `nodes` launches of one probe; node i reads a.data + (i % copies) * stride. */
struct tern_ceiling_nodes {
    struct tern_launch launch;
    struct tern_probe_args args;
    size_t copies, stride;
};
enum tern_status tern_ceiling_capture(struct tern_ceiling_run *r, struct tern_ceiling_nodes *nodes, size_t count,
                                      struct tern_graph **graph, struct tern_error *err);
/* `count` samples behind one that warms up; *median of them. Microseconds a node. */
enum tern_status tern_ceiling_samples(struct tern_ceiling_run *r, struct tern_graph *graph, size_t count, double *samples,
                                      double *median, struct tern_error *err);
/* Launches a probe once with `check` and reads back both words of its result. */
enum tern_status tern_ceiling_once(struct tern_ceiling_run *r, const struct tern_ceiling_nodes *nodes,
                                   unsigned int result[2], struct tern_error *err);
/* Adds a row with its samples and the clock. */
enum tern_status tern_ceiling_add(struct tern_ceiling_run *r, const char *kind, double argument, double value,
                                  const char *unit, const double *samples, size_t count, struct tern_error *err);
enum tern_status tern_ceilings_matrix(struct tern_ceiling_run *r, double sustained_s, struct tern_error *err);
/* Median of cool bursts of a fixed number of steps, behind a proof that they ran; 0 before compute capability 8.0. */
enum tern_status tern_ceiling_control_burst(struct tern_ceiling_run *r, double *us, struct tern_error *err);

#endif
