/* Backends: one table of functions for everything that runs kernels. cuda (driver API by dlopen), emu (CPU).
 * A backend is used by worker processes only; the parent process never loads libcuda. */
#ifndef TERN_DEVICE_BACKEND_H
#define TERN_DEVICE_BACKEND_H

#include "core/error.h"
#include "tern/abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_device_info {
    char name[128], uuid[48];
    int cc; /* 10*major + minor */
    int64_t sms, l2_bytes, memory_bytes, smem_block_bytes, smem_sm_bytes, regs_sm, threads_sm, blocks_sm;
    int driver_version, runtime_version;               /* as the driver API reports: 13000 */
    char driver_name[64];                              /* "580.159.04" from NVML, "" if unknown */
    int sm_clock_mhz, memory_clock_mhz, power_limit_w; /* from NVML; 0 if unknown */
};

struct tern_launch {
    void *function; /* from module_load */
    int64_t grid[3], block, cluster, smem_bytes;
    bool dependent; /* programmatic: may start while the launch ahead of it is at work (tern/dependent.cuh) */
    void *prologue; /* another kernel of the module (module_function), launched before with the same args; NULL: none */
    int64_t prologue_grid, prologue_block;
    struct tern_args args;
};

/* What the launch ahead of a dependent one writes, as its last act: `from` (device memory, too), or where that is NULL `word` all
 * over. Whole words of 4 bytes. */
struct tern_late {
    void *to;
    const void *from;
    uint32_t word;
    size_t bytes;
};
#define TERN_MAX_LATE 3

/* Every call that can fail returns tern_status. A *sticky* failure (kernel fault) sets TERN_FAILED with the driver's error
 * name in err->text; the worker reports it and exits. Out of memory is TERN_MISSING. */
struct tern_backend {
    const char *name; /* "cuda", "emu" */
    bool fenced;      /* an access outside of an allocation is found without guard bytes, which would only hide it */
    enum tern_status (*open)(int ordinal, void **context, struct tern_error *err);
    void (*close)(void *context);
    enum tern_status (*info)(void *context, struct tern_device_info *out, struct tern_error *err);

    enum tern_status (*alloc)(void *context, size_t bytes, void **pointer, struct tern_error *err); /* >= 256-byte aligned */
    void (*release)(void *context, void *pointer);
    enum tern_status (*upload)(void *context, void *to, const void *from, size_t bytes, struct tern_error *err);
    enum tern_status (*download)(void *context, void *to, const void *from, size_t bytes, struct tern_error *err);
    enum tern_status (*copy)(void *context, void *to, const void *from, size_t bytes, struct tern_error *err);
    enum tern_status (*fill)(void *context, void *to, uint32_t word, size_t bytes,
                             struct tern_error *err); /* bytes % 4 == 0 */

    /* Loads a compiled image (cubin, or the path of a shared object for emu) and finds `entry`; raises the dynamic shared
     * memory limit to smem_bytes. Unload frees it. */
    enum tern_status (*module_load)(void *context, const void *image, size_t bytes, const char *entry, int64_t smem_bytes,
                                    void **module, void **function, struct tern_error *err);
    /* Another entry of a loaded module, without dynamic shared memory; goes with the module. */
    enum tern_status (*module_function)(void *context, void *module, const char *entry, void **function,
                                        struct tern_error *err);
    void (*module_unload)(void *context, void *module);

    /* Launches once, a prologue first; checks the launches' own return codes. */
    enum tern_status (*launch)(void *context, const struct tern_launch *launch, struct tern_error *err);
    /* Launches once, dependent on a launch that lets it start at once and writes `late` long after; what has a `from` is poisoned
     * before. So a kernel that touches any of it before it has waited gives wrong results. count <= TERN_MAX_LATE. */
    enum tern_status (*launch_behind)(void *context, const struct tern_launch *launch, const struct tern_late *late,
                                      size_t count, struct tern_error *err);
    /* Waits; reports faults of earlier launches. */
    enum tern_status (*synchronize)(void *context, struct tern_error *err);
};

/* How many devices tern_backend_cuda can be opened on: starts the driver, makes no context. */
enum tern_status tern_cuda_count(int *count, struct tern_error *err);

extern const struct tern_backend tern_backend_cuda;
extern const struct tern_backend tern_backend_emu;

#endif
