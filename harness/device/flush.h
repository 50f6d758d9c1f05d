/* Empties the L2 by reading: what was there is evicted, and nothing is left to be written back. */
#ifndef TERN_DEVICE_FLUSH_H
#define TERN_DEVICE_FLUSH_H

#include "device/cuda_timing.h"
#include "device/fixed_kernels.h"

struct tern_flush {
    void *memory;             /* 2.5 times the L2 */
    struct tern_graph *graph; /* reads it once; some 40 us on an H200 */
};

/* For tern_graph_times_cool. Closing is safe in any state. */
enum tern_status tern_flush_open(void *context, struct tern_fixed *fixed, struct tern_flush *flush, struct tern_error *err);
void tern_flush_close(void *context, struct tern_flush *flush);

#endif
