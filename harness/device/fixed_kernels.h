/* Fixed device code (kernels/) on a CUDA context: reference GEMM, comparison, dequantisation, control.
 * Compiled by NVRTC on first use, so that a respawned worker pays only for what it needs. Contexts are those of
 * tern_backend_cuda. */
#ifndef TERN_DEVICE_FIXED_KERNELS_H
#define TERN_DEVICE_FIXED_KERNELS_H

#include "../kernels/kernels.h"
#include "core/str.h"
#include "device/backend.h"
#include "formats/format.h"
#include "verify/reference.h"

struct tern_fixed;

/* `arch` as for tern_nvrtc_compile; NULL for the device's own. Compiles nothing yet. The context must outlive *fixed. */
enum tern_status tern_fixed_open(void *context, const char *arch, struct tern_fixed **fixed, struct tern_error *err);
void tern_fixed_close(struct tern_fixed *fixed);
/* Builds ahead what checking and timing layers of a format take: seconds of the compiler, not of the device. Not while another
 * thread uses `fixed`. */
enum tern_status tern_fixed_build(struct tern_fixed *fixed, const struct tern_format *format, enum tern_activation type,
                                  struct tern_error *err);

/* Enqueues the FP64 reference; every pointer of args is device memory. Any m, n, k > 0. The same stream orders what follows.
 */
enum tern_status tern_fixed_reference(struct tern_fixed *fixed, const struct tern_reference_args *args,
                                      struct tern_error *err);

/* Compares y (device, [M][N] of the precision's type) with a reference computed by tern_fixed_reference, all elements, under the bound of
 * verify/reference.h; waits. Replaces *mismatch; *poisoned (may be NULL) counts elements that still hold the poison 0xFFFF.
 * TERN_OK also when elements differ: mismatch->count says so. The caller must treat count > 0 and checked == 0 as wrong. */
enum tern_status tern_fixed_compare(struct tern_fixed *fixed, const void *y, const double *y_ref, const float *bound_scale,
                                    int64_t m, int64_t n, const struct tern_precision *precision,
                                    struct tern_mismatch *mismatch, int64_t *poisoned, struct tern_error *err);

struct tern_memory_range {
    const void *at; /* device memory, 8-byte aligned */
    int64_t bytes;  /* a multiple of 8 */
};
/* Checksum of all ranges together; waits. Equal sums: the same bytes in the same ranges. */
enum tern_status tern_fixed_checksum(struct tern_fixed *fixed, const struct tern_memory_range *ranges, size_t count,
                                     uint64_t *sum, struct tern_error *err);

/* Makes the launch that dequantises packed weights (layout frag16x128) into args->y = W [N][K] of the type; for one launch or
 * for tern_gemm_capture_after. Of args: codes, scales, zeros, y, n, k, groups, group_size. The function stays owned by
 * `fixed`. */
enum tern_status tern_fixed_dequantise(struct tern_fixed *fixed, const struct tern_format *format, enum tern_activation type,
                                       const struct tern_args *args, struct tern_launch *launch, struct tern_error *err);

/* The same in e4m3, for cuBLASLt's FP8 with a scale for 128 k: a launch that dequantises to args->y, and its prologue, which quantises args->x
 * to args->workspace (kernels.h: TERN_E4M3_MATRIX_BYTES of n and of m rows). Of args also x, workspace and m. TERN_USAGE where the
 * format has no such form. */
enum tern_status tern_fixed_to_e4m3(struct tern_fixed *fixed, const struct tern_format *format, const struct tern_args *args,
                                    struct tern_launch *launch, struct tern_error *err);

/* Runs the control kernel and checks every result: TERN_FAILED if the device computes wrongly, or its own error. */
enum tern_status tern_fixed_control(struct tern_fixed *fixed, struct tern_error *err);

/* The function of kernels/late.cu, for tern_cuda_launch_raw with struct tern_late_args; stays owned by `fixed`. */
enum tern_status tern_fixed_late(struct tern_fixed *fixed, void **function, struct tern_error *err);

/* Builds of kernels/ceiling.cu. The matrix probes are four each, in the order of TERN_PROBE_F16 ... TERN_PROBE_E4M3. */
enum tern_fixed_probe {
    TERN_FIXED_EMPTY,
    TERN_FIXED_READ_4,
    TERN_FIXED_READ_8,
    TERN_FIXED_BULK,
    TERN_FIXED_COPY,
    TERN_FIXED_MMA,
    TERN_FIXED_WGMMA = TERN_FIXED_MMA + 4,
    TERN_FIXED_WGMMA_SHARED = TERN_FIXED_WGMMA + 4,
    TERN_PROBE_COUNT = TERN_FIXED_WGMMA_SHARED + 4
};
/* The function of a probe, for tern_cuda_launch_raw with struct tern_probe_args; stays owned by `fixed`. The caller knows
 * which probes the device has the instructions for. */
enum tern_status tern_fixed_probe(struct tern_fixed *fixed, int probe, void **function, struct tern_error *err);

/* Source of a fixed kernel with its macros in front, for tests that compile all of them: index 0.. until false. The caller
 * frees *source; *entry is a constant. */
bool tern_fixed_source(int index, struct tern_str *source, const char **entry, struct tern_error *err);

#endif
