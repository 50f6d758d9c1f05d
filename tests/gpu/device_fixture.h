/* What the GPU tests share: the open device, checks that are counted and printed, memory, and kernels made on the spot. */
#ifndef TERN_TESTS_GPU_DEVICE_FIXTURE_H
#define TERN_TESTS_GPU_DEVICE_FIXTURE_H

#include "core/file.h"
#include "core/str.h"
#include "device/backend.h"
#include "device/compiler.h"
#include "device/fixed_kernels.h"
#include "verify/guard.h"

#include <stdio.h>

struct gpu {
    const struct tern_backend *b;
    void *context;
    struct tern_device_info info;
    struct tern_fixed *fixed;
    char arch[16];
    int passed, failed;
};

/* test_timing.c: graphs, and the regimes in which they are timed. */
void test_timing(struct gpu *g);

static inline void check(struct gpu *g, bool right, const char *what, const char *detail) {
    if (right)
        g->passed++;
    else
        g->failed++;
    printf("%s %s%s%s\n", right ? "ok" : "not ok", what, *detail ? ": " : "", detail);
    fflush(stdout);
}

/* A call that must succeed; its error is the detail. */
static inline bool run(struct gpu *g, enum tern_status status, const char *what, const struct tern_error *err) {
    if (status != TERN_OK)
        check(g, false, what, err->text);
    return status == TERN_OK;
}

static inline void *put(struct gpu *g, const void *from, size_t bytes) {
    void *to = NULL;
    struct tern_error err = {0};
    if (!run(g, g->b->alloc(g->context, bytes, &to, &err), "alloc", &err))
        return NULL;
    if (from)
        run(g, g->b->upload(g->context, to, from, bytes, &err), "upload", &err);
    else
        run(g, g->b->fill(g->context, to, TERN_POISON_WORD, (bytes + 3) / 4 * 4, &err), "fill", &err);
    return to;
}

/* Loads `entry` of a source that takes struct tern_args. */
static inline bool load(struct gpu *g, const char *source, const char *arch, const char *entry, int64_t smem, void **module,
                        void **function, struct tern_error *err) {
    char includes[4096];
    const char *const dirs[] = {includes};
    struct tern_compiled compiled = {0};
    enum tern_status status = tern_file_home_path("templates/include", includes, sizeof includes, err);
    if (status == TERN_OK)
        status = tern_nvrtc_compile(source, "test.cu", arch, dirs, 1, entry, &compiled, err);
    if (status == TERN_OK && !compiled.ok)
        status = tern_error_set(err, TERN_INTERNAL, "%.800s", tern_str_text(&compiled.log));
    if (status == TERN_OK)
        status = g->b->module_load(g->context, compiled.image, compiled.image_bytes, entry, smem, module, function, err);
    tern_compiled_free(&compiled);
    return status == TERN_OK;
}

static const char kernels[] =
    "#include \"tern/abi.h\"\n"
    "extern \"C\" __global__ void copy(tern_args a) { long long i = blockIdx.x * 256ll + threadIdx.x;\n"
    "  if (i < a.n) ((uint4 *)a.y)[i] = ((const uint4 *)a.x)[i]; }\n"
    "extern \"C\" __global__ void empty(tern_args a) { }\n"
    "extern \"C\" __global__ void shared(tern_args a) { extern __shared__ int s[]; s[a.n - 1 - threadIdx.x] = 7 + "
    "threadIdx.x;\n"
    "  __syncthreads(); if (threadIdx.x == 0) ((int *)a.y)[0] = s[a.n - 1 - 31]; }\n"
    "extern \"C\" __global__ void fault(tern_args a) { *(volatile int *)16 = 1; }\n";

#endif
