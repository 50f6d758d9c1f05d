/* Empties the L2 by reading. See flush.h. */
#include "device/flush.h"

#include "device/cuda_context.h"

#define L2_FACTOR 2.5
#define UNIT      ((size_t)1 << 20)
#define BLOCK     512 /* threads; with two blocks a multiprocessor among the fastest reads of ceilings.c */
#define BLOCKS_SM 2

struct read {
    struct tern_launch launch;
    struct tern_probe_args args;
};

static enum tern_status enqueue(struct tern_cuda *cuda, void *user, size_t count, struct tern_error *err) {
    struct read *read = user;
    (void)count; /* 1 */
    return tern_cuda_launch_raw(cuda, &read->launch, &read->args, err);
}

enum tern_status tern_flush_open(void *context, struct tern_fixed *fixed, struct tern_flush *flush, struct tern_error *err) {
    const struct tern_backend *b = &tern_backend_cuda;
    struct tern_device_info info;
    *flush = (struct tern_flush){0};
    enum tern_status status = b->info(context, &info, err);
    if (status != TERN_OK)
        return status;
    size_t bytes = ((size_t)(L2_FACTOR * (double)info.l2_bytes) / UNIT + 1) * UNIT;
    struct read read = {.launch = {.grid = {BLOCKS_SM * info.sms, 1, 1}, .block = BLOCK},
                        .args = {.count = (int64_t)bytes / 16}};
    status = b->alloc(context, bytes, &flush->memory, err);
    if (status == TERN_OK)
        status = b->fill(context, flush->memory, 0, bytes, err);
    read.args.data = flush->memory;
    if (status == TERN_OK)
        status = tern_fixed_probe(fixed, TERN_FIXED_READ_8, &read.launch.function, err);
    return status == TERN_OK ? tern_cuda_capture(context, enqueue, &read, 1, &flush->graph, err) : status;
}

void tern_flush_close(void *context, struct tern_flush *flush) {
    tern_graph_free(context, flush->graph);
    if (flush->memory)
        tern_backend_cuda.release(context, flush->memory);
    *flush = (struct tern_flush){0};
}
