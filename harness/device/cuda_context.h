/* The open CUDA device shared by the files of the cuda backend (cuda*.c, fixed_kernels.c): internal to device/. */
#ifndef TERN_DEVICE_CUDA_CONTEXT_H
#define TERN_DEVICE_CUDA_CONTEXT_H

#include "device/backend.h"
#include "device/cuda_api.h"
#include "device/cuda_timing.h"

/* The void *context of tern_backend_cuda. One work stream carries copies, fills, launches and graphs in order. */
struct tern_cuda {
    struct tern_cuda_api api;
    CUdevice device;
    CUcontext primary; /* the primary context: cuBLASLt lives in the same one */
    CUstream stream;
    CUevent events[TERN_MAX_REPLAYS + 2]; /* of tern_graph_times */
    double busy_s, rest_s;                /* see tern_cuda_busy_s, tern_cuda_rest_s */
    double heated_s;                      /* that the device ran before the next rest; 0: not known */
    int64_t idle_since_ns;                /* the device has had nothing to do since then; 0: it may be at work */
    int cc, driver_version, smem_optin_bytes;
    char uuid[48];           /* "GPU-..." */
    struct tern_fixed *late; /* of tern_cuda_launch_behind; NULL before the first */

    struct tern_nvml_api nvml;
    void *nvml_device;        /* NULL: no NVML, clocks are unknown */
    struct tern_watch *watch; /* thread that reads the clocks; NULL before the first tern_cuda_watch */

    struct tern_cublas_api cublas; /* filled by the first GEMM */
    cublasLtHandle_t cublas_handle;
    void *cublas_workspace; /* TERN_GEMM_WORKSPACE_BYTES, owned */
};

/* TERN_OK, or fills err with what was being done and the driver's name and words for the failure. Out of memory and a
 * missing or wedged device are TERN_MISSING, everything else TERN_FAILED. */
enum tern_status tern_cuda_check(const struct tern_cuda *cuda, CUresult result, const char *doing, struct tern_error *err);

/* A launch of a function with any argument struct, on the work stream; also inside a capture. */
enum tern_status tern_cuda_launch_raw(struct tern_cuda *cuda, const struct tern_launch *launch, void *arguments,
                                      struct tern_error *err);

/* A kernel with its prologue and struct tern_args, in the same way. `context` is a struct tern_cuda. */
enum tern_status tern_cuda_launch(void *context, const struct tern_launch *launch, struct tern_error *err);
/* launch_behind of the backend (cuda_late.c). */
enum tern_status tern_cuda_launch_behind(void *context, const struct tern_launch *launch, const struct tern_late *late,
                                         size_t count, struct tern_error *err);

/* Opens NVML for the device's uuid; leaves nvml_device NULL when that fails. Closing is safe in both cases. */
void tern_cuda_nvml_open(struct tern_cuda *cuda);
void tern_cuda_nvml_close(struct tern_cuda *cuda);
/* Fills driver_name, the clocks and the power limit. */
void tern_cuda_nvml_info(const struct tern_cuda *cuda, struct tern_device_info *info);

/* Capture of work on the stream into a graph: `body` enqueues the work. Used by launches and GEMMs alike. */
typedef enum tern_status (*tern_capture_body)(struct tern_cuda *cuda, void *user, size_t count, struct tern_error *err);
/* Captures `body` with `count` items. The caller frees *graph. */
enum tern_status tern_cuda_capture(struct tern_cuda *cuda, tern_capture_body body, void *user, size_t count,
                                   struct tern_graph **graph, struct tern_error *err);

/* Loads cuBLASLt, makes the handle and the workspace, once. */
enum tern_status tern_cuda_cublas_open(struct tern_cuda *cuda, struct tern_error *err);
void tern_cuda_cublas_close(struct tern_cuda *cuda);

#endif
