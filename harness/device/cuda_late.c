/* A dependent launch that is checked: behind a kernel that lets it start at once and writes what it reads much later. */
#include "device/cuda_context.h"
#include "device/fixed_kernels.h"

#include "verify/guard.h"

#define LATE_BLOCKS  32
#define LATE_THREADS 256    /* of kernels/late.cu */
#define LATE_NS      100000 /* a launch starts within some microseconds, if the host is not slow to submit it */

/* Poison where `from` goes, and the arguments of the kernel ahead. */
static enum tern_status prepare(struct tern_cuda *cuda, const struct tern_late *late, size_t count,
                                struct tern_late_args *args, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    *args = (struct tern_late_args){.wait_ns = LATE_NS};
    if (count > TERN_LATE_RANGES)
        return tern_error_set(err, TERN_INTERNAL, "%zu late ranges; %d fit", count, TERN_LATE_RANGES);
    for (size_t i = 0; i < count && status == TERN_OK; i++) {
        args->ranges[i].to = late[i].to;
        args->ranges[i].from = late[i].from;
        args->ranges[i].word = late[i].word;
        args->ranges[i].words = (long long)(late[i].bytes / 4);
        if (late[i].from)
            status = tern_backend_cuda.fill(cuda, late[i].to, TERN_POISON_WORD, late[i].bytes, err);
    }
    return status;
}

enum tern_status tern_cuda_launch_behind(void *context, const struct tern_launch *launch, const struct tern_late *late,
                                         size_t count, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    struct tern_launch ahead = {.grid = {LATE_BLOCKS, 1, 1}, .block = LATE_THREADS}, behind = *launch;
    struct tern_late_args args;
    behind.dependent = true;
    enum tern_status status = cuda->late ? TERN_OK : tern_fixed_open(cuda, NULL, &cuda->late, err);
    if (status == TERN_OK)
        status = tern_fixed_late(cuda->late, &ahead.function, err);
    if (status == TERN_OK)
        status = prepare(cuda, late, count, &args, err);
    if (status == TERN_OK)
        status = tern_cuda_launch_raw(cuda, &ahead, &args, err);
    return status == TERN_OK ? tern_cuda_launch_raw(cuda, &behind, &behind.args, err) : status;
}
