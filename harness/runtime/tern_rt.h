/* tern_rt: launches the kernels of an exported table. One struct tern_rt is one device with one table; a process may have
 * several, and any number of threads may select and launch on each. Nothing is compiled, allocated, locked or waited for on
 * the launch path, so that launches can be captured into CUDA graphs.
 *
 *     tern_rt_open            once a device: chooses the table by what the driver says, loads its kernels
 *     tern_rt_layer           once a layer: names the problem; its packed weights serve every m
 *     tern_rt_pack            offline or at load: canonical weights to what the kernels read, on the host
 *     tern_rt_pack_on         the same on the device
 *     tern_rt_launch          y[m,n] = x[m,k] * W[n,k]^T (+ bias), on the caller's stream
 *
 * Pointers for device memory are the caller's: the runtime owns kernels and pooled workspaces only. x, y and bias are binary16
 * in layers of op "linear-a16", "linear-a8" and "linear-e4m3" (x rounded to int8 or e4m3 by the launch), bfloat16 in those of "linear-bf16"; the table must
 * hold the op. A process that runs out of host memory while packing is aborted. */
#ifndef TERN_RT_H
#define TERN_RT_H

#include "tern/abi.h"
#include "tern/dispatch.h"

#if TERN_ABI_VERSION != 5
#error "tern_dispatch.h was exported by another version of Tern than this tern_rt.h is of: export again"
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_RT_API __attribute__((visibility("default")))

#define TERN_RT_STATUSES(X)                                                                                                 \
    X(OK, "done")                                                                                                           \
    X(ARGUMENT, "a size, pointer or format that cannot be: misaligned, too short, unknown")                                 \
    X(NO_DRIVER, "no NVIDIA driver, or no such device")                                                                     \
    X(OTHER_GPU, "the tables are for other GPUs, or match this one worse than asked for")                                   \
    X(NO_KERNEL, "no kernel of the table serves the problem, or its image is not in the archive")                           \
    X(DAMAGED, "an archive or a kernel in it is damaged")                                                                   \
    X(WORKSPACE, "the workspace is too small, or the stream has none")                                                      \
    X(STREAM, "the stream belongs to another device or context")                                                            \
    X(DEVICE, "the driver reports a failure")
#define TERN_RT_ENUM(name, meaning) TERN_RT_##name,
enum tern_rt_status { TERN_RT_STATUSES(TERN_RT_ENUM) };
#undef TERN_RT_ENUM

/* Filled where a call fails; every err below may be NULL. */
struct tern_rt_error {
    enum tern_rt_status status;
    char text[512]; /* what happened, with the offending value */
};
/* "OK", "ARGUMENT", ...: the names above. */
TERN_RT_API const char *tern_rt_status_name(enum tern_rt_status status);

struct tern_rt;
struct tern_rt_driver; /* driver.h: another machine to run on than CUDA, for tests */

struct tern_rt_options {
    const struct tern_table *tables; /* tern_tables() of an exported header; must outlive the runtime */
    int table_count;
    const void *kernels; /* content of tern_kernels.bin, needed during the call only; or NULL and */
    size_t kernels_bytes;
    const char *kernels_path; /* its path */
    int device;               /* ordinal as CUDA counts */
    enum tern_match worst;    /* EXACT: this GPU model only; NEAR: the same compute capability; else what can load them */
    const struct tern_rt_driver *driver; /* NULL: CUDA */
};
/* Loads every kernel of the table that fits the device best. OTHER_GPU, NO_DRIVER, DAMAGED, NO_KERNEL, DEVICE. The device's
 * primary context is used: the one of the CUDA runtime, PyTorch and cuBLAS. */
TERN_RT_API enum tern_rt_status tern_rt_open(const struct tern_rt_options *options, struct tern_rt **rt,
                                             struct tern_rt_error *err);
/* The same for a folder of `tune export` in which the header was compiled to a shared object:
 * cc -shared -fPIC -x c -DTERN_DISPATCH_IMPLEMENTATION tern_dispatch.h -o libtern_dispatch.so */
TERN_RT_API enum tern_rt_status tern_rt_open_folder(const char *folder, int device, enum tern_match worst,
                                                    struct tern_rt **rt, struct tern_rt_error *err);
/* No launch may be running or come later. NULL is legal. */
TERN_RT_API void tern_rt_close(struct tern_rt *rt);
/* The table in use, and how well it fits the device. */
TERN_RT_API const struct tern_table *tern_rt_table(const struct tern_rt *rt, enum tern_match *match);

/* One linear layer. Filled by tern_rt_layer, the device pointers by the caller; plain data, to be copied freely. */
struct tern_rt_layer {
    char format[40], op[16];
    int64_t n, k, groups, group_size;
    int64_t code_bytes, scale_bytes, zero_bytes; /* of the packed weights; zero_bytes 0: no zero points */
    char layout[32];
    const void *codes, *scales, *zeros; /* packed, in device memory, 256-byte aligned */
    const void *bias;                   /* [n] of the type of y in device memory, added to the fp32 sums; or NULL */
};
/* op NULL: "linear-a16". ARGUMENT: unknown format, n or k that the formats do not allow; NO_KERNEL. */
TERN_RT_API enum tern_rt_status tern_rt_layer(const struct tern_rt *rt, const char *format, const char *op, int64_t n,
                                              int64_t k, struct tern_rt_layer *layer, struct tern_rt_error *err);

/* Canonical weights: W[n][k] = scale * (code - zero). Sizes in bytes are what the caller has, and are checked. */
struct tern_rt_weights {
    uint8_t *codes;   /* [n][k], one byte a weight */
    uint16_t *scales; /* [groups][n] binary16 */
    uint8_t *zeros;   /* [groups][n], NULL for symmetric formats */
    int64_t code_bytes, scale_bytes, zero_bytes;
};
/* Host to host: codes, scales, zeros have the layer's sizes. ARGUMENT: too short, or a code that the format does not have. */
TERN_RT_API enum tern_rt_status tern_rt_pack(const struct tern_rt_layer *layer, const struct tern_rt_weights *weights,
                                             void *codes, void *scales, void *zeros, struct tern_rt_error *err);
/* Exact inverse, host to host. DAMAGED: padding that pack does not write. */
TERN_RT_API enum tern_rt_status tern_rt_unpack(const struct tern_rt_layer *layer, const void *codes, const void *scales,
                                               const void *zeros, struct tern_rt_weights *weights,
                                               struct tern_rt_error *err);

/* The packed arrays of a layer in device memory, of its sizes: codes 4-byte aligned, scales 2. */
struct tern_rt_packed {
    void *codes, *scales, *zeros;
    unsigned long long *wrong; /* NULL, or a counter in device memory, 8-byte aligned, set by the caller; see below */
};
/* The same two on the device: the arrays of `weights` are device memory as well, and kernels are enqueued on the stream. What the host
 * refuses (codes, zero points and scales that the format does not have, foreign padding) is added up in *packed->wrong: look at it
 * when the stream is done. ARGUMENT; NO_KERNEL: the export has no packing kernels. */
TERN_RT_API enum tern_rt_status tern_rt_pack_on(struct tern_rt *rt, const struct tern_rt_layer *layer,
                                                const struct tern_rt_weights *weights, const struct tern_rt_packed *packed,
                                                void *stream, struct tern_rt_error *err);
TERN_RT_API enum tern_rt_status tern_rt_unpack_on(struct tern_rt *rt, const struct tern_rt_layer *layer,
                                                  const struct tern_rt_packed *packed, const struct tern_rt_weights *weights,
                                                  void *stream, struct tern_rt_error *err);

/* What a launch with m rows would do; kernel NULL: nothing serves it. use_cublas tells where cuBLASLt in the
 * type of x was faster. */
TERN_RT_API struct tern_choice tern_rt_choice(const struct tern_rt *rt, const struct tern_rt_layer *layer, int64_t m);
/* Most workspace that any m in 1..max_m needs: some 30 ns a row, so once a layer. */
TERN_RT_API int64_t tern_rt_workspace_bytes(const struct tern_rt *rt, const struct tern_rt_layer *layer, int64_t max_m);
/* Gives a stream a workspace of its own, for launches that bring none; not on the launch path. A second call for a stream
 * fails. Graphs captured on a stream keep its workspace: replay them there, or bring one. At most 64 streams. */
TERN_RT_API enum tern_rt_status tern_rt_pool_add(struct tern_rt *rt, void *stream, int64_t bytes, struct tern_rt_error *err);

struct tern_rt_call {
    const void *x;   /* [m][k], contiguous, 256-byte aligned */
    void *y;         /* [m][n], contiguous, 16-byte aligned */
    int64_t m;       /* 0 returns at once */
    void *workspace; /* 256-byte aligned; NULL: the stream's own */
    int64_t workspace_bytes;
    void *stream; /* CUstream or cudaStream_t; NULL: the default stream */
    int dependent; /* 1: a kernel that can (tern_kernel.dependent) starts while the one ahead of it in the stream is at work. That
                    * one, and every one before it that may then still be at work, must not write codes, scales, zeros or bias */
};
/* Enqueues one kernel, behind its prologue if it has one. */
TERN_RT_API enum tern_rt_status tern_rt_launch(struct tern_rt *rt, const struct tern_rt_layer *layer,
                                               const struct tern_rt_call *call, struct tern_rt_error *err);

#ifdef __cplusplus
}
#endif

#endif
