/* GPU descriptions: configs/gpus/NAME.lua. What planning and limits need to know of a device without having it. */
#ifndef TERN_CONFIG_GPU_H
#define TERN_CONFIG_GPU_H

#include "core/error.h"
#include "core/str.h"

#include <stdbool.h>
#include <stdint.h>

#define TERN_MAX_COLD_POINTS 16

struct tern_gpu {
    char name[32];  /* file name without .lua */
    char title[64]; /* "NVIDIA H200 SXM" */
    char arch[16];  /* NVRTC target with suffix: "sm_80", "sm_90a" */
    int cc;         /* 10*major + minor: 75, 80, 86, 89, 90, 100, 120 */
    int64_t sms, l2_bytes, memory_bytes;
    int64_t smem_block_bytes; /* most dynamic shared memory of one block (opt-in) */
    int64_t smem_sm_bytes, regs_sm, threads_sm, blocks_sm;
    double memory_gbs;          /* peak DRAM bandwidth, 1e9 bytes/s */
    double clock_mhz;           /* boost clock */
    double f16_tflops;          /* dense, fp32 accumulation, mma.sync where it differs */
    double s8_tops, f32_tflops; /* f32: CUDA cores */
    double launch_us;           /* shortest kernel as a graph node */
    /* cold read time of `bytes` inside a graph, microseconds, ascending; count 0: use memory_gbs */
    struct {
        double bytes, us;
    } cold_read[TERN_MAX_COLD_POINTS];
    int cold_points;
    struct tern_strs device_names; /* exact names the driver reports for it, e.g. "NVIDIA H200" */
    char source[512];              /* where the figures come from */
};

enum tern_status tern_gpu_load(const char *name, struct tern_gpu *gpu, struct tern_error *err);
/* Names of all descriptions in configs/gpus, sorted. */
enum tern_status tern_gpu_names(struct tern_strs *names, struct tern_error *err);
/* True if a device of this name and compute capability is the described GPU. */
bool tern_gpu_matches(const struct tern_gpu *gpu, const char *device_name, int cc, int64_t memory_bytes);
/* Cold read time of `bytes` in microseconds: interpolated points, beyond them and without them bytes / bandwidth + launch. */
double tern_gpu_read_us(const struct tern_gpu *gpu, double bytes);
void tern_gpu_free(struct tern_gpu *gpu);

#endif
