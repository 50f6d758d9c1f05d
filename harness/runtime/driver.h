/* What tern_rt asks of a machine: one table of functions, for CUDA (driver_cuda.c) and for tests on the emulator. All but open
 * and close may be called by several threads at once. */
#ifndef TERN_RUNTIME_DRIVER_H
#define TERN_RUNTIME_DRIVER_H

#include "core/activation.h"
#include "runtime/tern_rt.h"

struct tern_rt_device {
    char name[256];          /* as the driver gives it */
    int cc;                  /* 10 * major + minor */
    int64_t sms, smem_bytes; /* multiprocessors; most shared memory of one block */
};

struct tern_rt_work {
    void *function, *prologue; /* prologue: launched first, NULL if there is none */
    const struct tern_choice *choice;
    const struct tern_args *args;
    void *stream;
    int dependent; /* 1: programmatic stream serialization */
};

/* A launch of one of Tern's fixed kernels: one struct of arguments, a grid of one dimension, no shared memory. */
struct tern_rt_run {
    void *function;
    int64_t grid;
    int block;
    void *args;
    size_t arg_bytes;
    void *stream;
};

struct tern_rt_driver {
    enum tern_rt_status (*open)(int device, void **context, struct tern_rt_device *info, struct tern_rt_error *err);
    void (*close)(void *context);
    /* Loads an image and finds the entry; allows smem_bytes of dynamic shared memory. */
    enum tern_rt_status (*load)(void *context, const void *image, size_t bytes, const char *entry, int64_t smem_bytes,
                                void **module, void **function, struct tern_rt_error *err);
    /* Another kernel of the module, of no dynamic shared memory. */
    enum tern_rt_status (*find)(void *context, void *module, const char *entry, void **function, struct tern_rt_error *err);
    void (*unload)(void *context, void *module);
    enum tern_rt_status (*launch)(void *context, const struct tern_rt_work *work, struct tern_rt_error *err);
    enum tern_rt_status (*run)(void *context, const struct tern_rt_run *run, struct tern_rt_error *err);
    enum tern_rt_status (*alloc)(void *context, int64_t bytes, void **pointer, struct tern_rt_error *err);
    void (*release)(void *context, void *pointer);
};

extern const struct tern_rt_driver tern_rt_driver_cuda;

/* The kernels of kernels/pack.cu; all NULL where the archive has none for the table's architecture. */
struct tern_rt_packing {
    void *module, *pack, *unpack_scales, *unpack;
};
const struct tern_rt_packing *tern_rt_packing(const struct tern_rt *rt);
enum tern_rt_status tern_rt_run(struct tern_rt *rt, const struct tern_rt_run *run, struct tern_rt_error *err);
/* weights.c: sizes of what the caller brings, against what the layer has. */
enum tern_rt_status tern_rt_check_weights(const struct tern_rt_layer *layer, const struct tern_rt_weights *w,
                                          struct tern_rt_error *err);

/* Fills err, which may be NULL, and returns the status. */
enum tern_rt_status tern_rt_fail(struct tern_rt_error *err, enum tern_rt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
