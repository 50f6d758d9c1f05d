/* Detection of the NVIDIA driver, its GPUs, NVML and cuBLASLt in a forked child, so that the calling process never loads
 * them. */
#ifndef TERN_DEVICE_DETECT_H
#define TERN_DEVICE_DETECT_H

#include "device/backend.h"

#define TERN_DETECT_MAX_GPUS 16

/* One part: found, or what is wrong with it and the remedy. */
struct tern_detected {
    bool found;
    char detail[320]; /* version and path when found, else the reason */
    char hint[320];
};

struct tern_detection {
    struct tern_detected driver, nvml, cublas;
    int gpu_count;                                   /* entries of gpus */
    struct tern_detected gpus[TERN_DETECT_MAX_GPUS]; /* a GPU that cannot be opened is there with the reason */
};

/* Waits at most `seconds` for the child, then kills it: a wedged driver is a finding, not a hang. TERN_INTERNAL only if no
 * child can be made. */
enum tern_status tern_cuda_detect(double seconds, struct tern_detection *out, struct tern_error *err);

#endif
