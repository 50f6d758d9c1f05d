/* What finalists are compared with: cuBLASLt on dense weights, and dequantise + cuBLASLt, captured over cold weights. Part of a GPU
 * worker. */
#ifndef TERN_WORKER_GPU_BASELINES_H
#define TERN_WORKER_GPU_BASELINES_H

#include "worker/gpu_session.h"

enum gpu_baseline {
    GPU_BASELINE_DEFAULT, /* the first heuristic of cuBLASLt FP16 (BF16) */
    GPU_BASELINE_BEST,    /* the fastest of its first 16 */
    GPU_BASELINE_DEQUANT, /* dequantised to that type, with that algorithm behind it */
    GPU_BASELINE_DEQUANT_E4M3 /* op linear-e4m3: x quantised, W dequantised to e4m3, with the fastest of cuBLASLt FP8 behind them */
};
#define GPU_BASELINES 4

/* One product of cuBLASLt and its fastest algorithm. */
struct gpu_gemm {
    struct tern_gemm *gemm; /* NULL: none */
    int algorithms, best;
};

struct gpu_baselines {
    struct gpu_session *s;
    int64_t m;
    struct gpu_gemm dense, e4m3;
    struct tern_graph *graphs[GPU_BASELINES]; /* NULL: not there */
    char why_not[300];                        /* the last, of a layer in e4m3; "" when it is */
};

/* "cublaslt-default", ... as the store has it. */
const char *gpu_baseline_name(enum gpu_baseline which);
/* "algorithm 3 of 8, workspace 135790592 bytes": what it ran with. */
void gpu_baseline_detail(const struct gpu_baselines *b, enum gpu_baseline which, char *text, size_t size);

/* Captures them for the prepared layer at m rows. The last is right by the bound of the op's kernels, or is not there. Free after
 * errors too, but not behind a sticky one. */
enum tern_status gpu_baselines_open(struct gpu_session *s, int64_t m, struct gpu_baselines *b, struct tern_error *err);
void gpu_baselines_close(struct gpu_baselines *b);

#endif
