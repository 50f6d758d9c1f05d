/* Tables of the functions that Tern calls in libcuda, NVRTC, cuBLASLt and NVML: one X-macro row a function.
 * Rows are X(field, exported name, older exported name or NULL, result type, arguments). The exported names carry their
 * version suffix, because cuda.h's macros that add it do not reach a dlsym. Types come from the toolkit's headers. */
#ifndef TERN_DEVICE_CUDA_API_H
#define TERN_DEVICE_CUDA_API_H

#include "core/error.h"

#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>
#include <stddef.h>

/* clang-format off */
#define TERN_CUDA_SYMBOLS(X)                                                                                                   \
    X(init, "cuInit", NULL, CUresult, (unsigned int))                                                                          \
    X(error_name, "cuGetErrorName", NULL, CUresult, (CUresult, const char **))                                                 \
    X(error_string, "cuGetErrorString", NULL, CUresult, (CUresult, const char **))                                             \
    X(driver_version, "cuDriverGetVersion", NULL, CUresult, (int *))                                                           \
    X(device_count, "cuDeviceGetCount", NULL, CUresult, (int *))                                                               \
    X(device_get, "cuDeviceGet", NULL, CUresult, (CUdevice *, int))                                                            \
    X(device_name, "cuDeviceGetName", NULL, CUresult, (char *, int, CUdevice))                                                 \
    X(device_uuid, "cuDeviceGetUuid_v2", "cuDeviceGetUuid", CUresult, (CUuuid *, CUdevice))                                    \
    X(device_memory, "cuDeviceTotalMem_v2", NULL, CUresult, (size_t *, CUdevice))                                              \
    X(device_attribute, "cuDeviceGetAttribute", NULL, CUresult, (int *, CUdevice_attribute, CUdevice))                         \
    X(context_retain, "cuDevicePrimaryCtxRetain", NULL, CUresult, (CUcontext *, CUdevice))                                     \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", NULL, CUresult, (CUdevice))                                             \
    X(context_set, "cuCtxSetCurrent", NULL, CUresult, (CUcontext))                                                             \
    X(stream_create, "cuStreamCreate", NULL, CUresult, (CUstream *, unsigned int))                                             \
    X(stream_destroy, "cuStreamDestroy_v2", NULL, CUresult, (CUstream))                                                        \
    X(stream_synchronize, "cuStreamSynchronize", NULL, CUresult, (CUstream))                                                   \
    X(stream_begin_capture, "cuStreamBeginCapture_v2", NULL, CUresult, (CUstream, CUstreamCaptureMode))                        \
    X(stream_end_capture, "cuStreamEndCapture", NULL, CUresult, (CUstream, CUgraph *))                                         \
    X(event_create, "cuEventCreate", NULL, CUresult, (CUevent *, unsigned int))                                                \
    X(event_destroy, "cuEventDestroy_v2", NULL, CUresult, (CUevent))                                                           \
    X(event_record, "cuEventRecord", NULL, CUresult, (CUevent, CUstream))                                                      \
    X(event_synchronize, "cuEventSynchronize", NULL, CUresult, (CUevent))                                                      \
    X(event_elapsed, "cuEventElapsedTime_v2", "cuEventElapsedTime", CUresult, (float *, CUevent, CUevent))                     \
    X(memory_alloc, "cuMemAlloc_v2", NULL, CUresult, (CUdeviceptr *, size_t))                                                  \
    X(memory_free, "cuMemFree_v2", NULL, CUresult, (CUdeviceptr))                                                              \
    X(copy_to_device, "cuMemcpyHtoDAsync_v2", NULL, CUresult, (CUdeviceptr, const void *, size_t, CUstream))                   \
    X(copy_to_host, "cuMemcpyDtoHAsync_v2", NULL, CUresult, (void *, CUdeviceptr, size_t, CUstream))                           \
    X(copy_on_device, "cuMemcpyDtoDAsync_v2", NULL, CUresult, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                    \
    X(set_words, "cuMemsetD32Async", NULL, CUresult, (CUdeviceptr, unsigned int, size_t, CUstream))                            \
    X(module_load, "cuModuleLoadData", NULL, CUresult, (CUmodule *, const void *))                                             \
    X(module_unload, "cuModuleUnload", NULL, CUresult, (CUmodule))                                                             \
    X(module_function, "cuModuleGetFunction", NULL, CUresult, (CUfunction *, CUmodule, const char *))                          \
    X(function_attribute, "cuFuncGetAttribute", NULL, CUresult, (int *, CUfunction_attribute, CUfunction))                     \
    X(function_set, "cuFuncSetAttribute", NULL, CUresult, (CUfunction, CUfunction_attribute, int))                             \
    X(launch, "cuLaunchKernelEx", NULL, CUresult, (const CUlaunchConfig *, CUfunction, void **, void **))                      \
    X(graph_instantiate, "cuGraphInstantiateWithFlags", NULL, CUresult, (CUgraphExec *, CUgraph, unsigned long long))          \
    X(graph_upload, "cuGraphUpload", NULL, CUresult, (CUgraphExec, CUstream))                                                  \
    X(graph_launch, "cuGraphLaunch", NULL, CUresult, (CUgraphExec, CUstream))                                                  \
    X(graph_exec_destroy, "cuGraphExecDestroy", NULL, CUresult, (CUgraphExec))                                                 \
    X(graph_destroy, "cuGraphDestroy", NULL, CUresult, (CUgraph))

#define TERN_NVRTC_SYMBOLS(X)                                                                                                  \
    X(version, "nvrtcVersion", NULL, nvrtcResult, (int *, int *))                                                              \
    X(error_string, "nvrtcGetErrorString", NULL, const char *, (nvrtcResult))                                                  \
    X(arch_count, "nvrtcGetNumSupportedArchs", NULL, nvrtcResult, (int *))                                                     \
    X(arch_list, "nvrtcGetSupportedArchs", NULL, nvrtcResult, (int *))                                                         \
    X(create, "nvrtcCreateProgram", NULL, nvrtcResult,                                                                         \
      (nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *))                             \
    X(destroy, "nvrtcDestroyProgram", NULL, nvrtcResult, (nvrtcProgram *))                                                     \
    X(compile, "nvrtcCompileProgram", NULL, nvrtcResult, (nvrtcProgram, int, const char *const *))                             \
    X(log_size, "nvrtcGetProgramLogSize", NULL, nvrtcResult, (nvrtcProgram, size_t *))                                         \
    X(log, "nvrtcGetProgramLog", NULL, nvrtcResult, (nvrtcProgram, char *))                                                    \
    X(cubin_size, "nvrtcGetCUBINSize", NULL, nvrtcResult, (nvrtcProgram, size_t *))                                            \
    X(cubin, "nvrtcGetCUBIN", NULL, nvrtcResult, (nvrtcProgram, char *))

#define TERN_CUBLAS_SYMBOLS(X)                                                                                                 \
    X(create, "cublasLtCreate", NULL, cublasStatus_t, (cublasLtHandle_t *))                                                    \
    X(destroy, "cublasLtDestroy", NULL, cublasStatus_t, (cublasLtHandle_t))                                                    \
    X(version, "cublasLtGetVersion", NULL, size_t, (void))                                                                     \
    X(status_name, "cublasLtGetStatusName", NULL, const char *, (cublasStatus_t))                                              \
    X(matmul, "cublasLtMatmul", NULL, cublasStatus_t,                                                                          \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *, cublasLtMatrixLayout_t, const void *,               \
       cublasLtMatrixLayout_t, const void *, const void *, cublasLtMatrixLayout_t, void *, cublasLtMatrixLayout_t,             \
       const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t))                                                            \
    X(desc_create, "cublasLtMatmulDescCreate", NULL, cublasStatus_t,                                                           \
      (cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t))                                                           \
    X(desc_destroy, "cublasLtMatmulDescDestroy", NULL, cublasStatus_t, (cublasLtMatmulDesc_t))                                 \
    X(desc_set, "cublasLtMatmulDescSetAttribute", NULL, cublasStatus_t,                                                        \
      (cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *, size_t))                                            \
    X(layout_create, "cublasLtMatrixLayoutCreate", NULL, cublasStatus_t,                                                       \
      (cublasLtMatrixLayout_t *, cudaDataType, uint64_t, uint64_t, int64_t))                                                   \
    X(layout_destroy, "cublasLtMatrixLayoutDestroy", NULL, cublasStatus_t, (cublasLtMatrixLayout_t))                           \
    X(preference_create, "cublasLtMatmulPreferenceCreate", NULL, cublasStatus_t, (cublasLtMatmulPreference_t *))               \
    X(preference_destroy, "cublasLtMatmulPreferenceDestroy", NULL, cublasStatus_t, (cublasLtMatmulPreference_t))               \
    X(preference_set, "cublasLtMatmulPreferenceSetAttribute", NULL, cublasStatus_t,                                            \
      (cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t))                                \
    X(heuristic, "cublasLtMatmulAlgoGetHeuristic", NULL, cublasStatus_t,                                                       \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,         \
       cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t[], int *))

/* NVML has no header in the toolkit's wheels; these few prototypes are its documented interface, 0 is success. */
struct tern_nvml_process {
    unsigned int pid;
    unsigned long long used_bytes;
    unsigned int gpu_instance, compute_instance;
};
#define TERN_NVML_CLOCK_SM          1
#define TERN_NVML_CLOCK_MEMORY      2
#define TERN_NVML_TEMPERATURE_GPU   0
#define TERN_NVML_INSUFFICIENT_SIZE 7

#define TERN_NVML_SYMBOLS(X)                                                                                                   \
    X(init, "nvmlInit_v2", NULL, int, (void))                                                                                  \
    X(shutdown, "nvmlShutdown", NULL, int, (void))                                                                             \
    X(error_string, "nvmlErrorString", NULL, const char *, (int))                                                              \
    X(driver_name, "nvmlSystemGetDriverVersion", NULL, int, (char *, unsigned int))                                            \
    X(device_by_uuid, "nvmlDeviceGetHandleByUUID", NULL, int, (const char *, void **))                                         \
    X(clock, "nvmlDeviceGetClockInfo", NULL, int, (void *, int, unsigned int *))                                               \
    X(max_clock, "nvmlDeviceGetMaxClockInfo", NULL, int, (void *, int, unsigned int *))                                        \
    X(temperature, "nvmlDeviceGetTemperature", NULL, int, (void *, int, unsigned int *))                                       \
    X(power_mw, "nvmlDeviceGetPowerUsage", NULL, int, (void *, unsigned int *))                                                \
    X(power_limit_mw, "nvmlDeviceGetEnforcedPowerLimit", NULL, int, (void *, unsigned int *))                                  \
    X(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetCurrentClocksEventReasons", int,                    \
      (void *, unsigned long long *))                                                                                          \
    X(processes, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", int,                    \
      (void *, unsigned int *, struct tern_nvml_process *))
/* clang-format on */

#define TERN_API_MEMBER(field, name, older, result, arguments) result(*field) arguments;
struct tern_cuda_api {
    TERN_CUDA_SYMBOLS(TERN_API_MEMBER)
};
struct tern_nvrtc_api {
    TERN_NVRTC_SYMBOLS(TERN_API_MEMBER)
};
struct tern_cublas_api {
    TERN_CUBLAS_SYMBOLS(TERN_API_MEMBER)
};
struct tern_nvml_api {
    TERN_NVML_SYMBOLS(TERN_API_MEMBER)
};
#undef TERN_API_MEMBER

/* Each fills its table, or returns TERN_MISSING with the remedy. `path` (may be NULL) receives the file. Loading libcuda
 * does not start the driver: only cuInit does, and only the GPU worker and doctor's child call it. */
enum tern_status tern_cuda_api_load(struct tern_cuda_api *api, char *path, size_t size, struct tern_error *err);
enum tern_status tern_nvrtc_api_load(struct tern_nvrtc_api *api, char *path, size_t size, struct tern_error *err);
enum tern_status tern_cublas_api_load(struct tern_cublas_api *api, char *path, size_t size, struct tern_error *err);
enum tern_status tern_nvml_api_load(struct tern_nvml_api *api, char *path, size_t size, struct tern_error *err);

#endif
