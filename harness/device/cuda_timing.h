/* Timing on a CUDA device: captured graphs over rotated weight copies, cuBLASLt FP16 baselines, clocks.
 * Beside backend.h because no other backend may produce a time. Contexts are those of tern_backend_cuda. */
#ifndef TERN_DEVICE_CUDA_TIMING_H
#define TERN_DEVICE_CUDA_TIMING_H

#include "core/activation.h"
#include "device/backend.h"

#define TERN_MAX_COPIES 256

/* A captured graph of several launches, instantiated; replaying it is one sample. */
struct tern_graph;

/* Captures `count` launches in order (a rotation over weight copies makes them cold). */
enum tern_status tern_graph_capture(void *context, const struct tern_launch *launches, size_t count,
                                    struct tern_graph **graph, struct tern_error *err);
#define TERN_MAX_REPLAYS 32
/* Replays the graphs in order, each between two events; us[i] = elapsed / items of graphs[i] (an item is a launch, a GEMM, or
 * both together). The same graph may come several times. Behind a run-in (graphs[0] once more) all are submitted at once, so
 * that no sample holds the host's submission. count: 1 to TERN_MAX_REPLAYS. Waits, and checks errors. */
enum tern_status tern_graph_times(void *context, struct tern_graph *const *graphs, size_t count, double *us,
                                  struct tern_error *err);
/* The same on a cool device: before each graph the device rests, the longer the longer the last one ran (1 to 4 ms), and then
 * runs `flush` (tern_flush_open), behind which the host submits. Any count. */
enum tern_status tern_graph_times_cool(void *context, struct tern_graph *flush, struct tern_graph *const *graphs,
                                       size_t count, double *us, struct tern_error *err);
/* The same under load: one graph back to back, `warm_s` that do not count and then `measure_s` in `count` samples of as many
 * replays each; 1 to TERN_MAX_REPLAYS. */
enum tern_status tern_graph_times_loaded(void *context, struct tern_graph *graph, double warm_s, double measure_s,
                                         size_t count, double *us, struct tern_error *err);
/* One sample of one graph, with its run-in. */
enum tern_status tern_graph_time(void *context, struct tern_graph *graph, double *us, struct tern_error *err);
/* Seconds that the device spent in replays since the context was opened, run-ins included; and that it rested before cool ones.
 */
double tern_cuda_busy_s(const void *context);
double tern_cuda_rest_s(const void *context);
void tern_graph_free(void *context, struct tern_graph *graph);

/* cuBLASLt GEMM y[M,N] = x[M,K] * W[N,K]^T with FP32 accumulation; x, W and y are bfloat16 (TERN_BF16) or binary16. */
struct tern_gemm;
#define TERN_GEMM_WORKSPACE_BYTES (32u << 20) /* at most, of one context */
/* Finds up to 16 heuristic algorithms; fails with TERN_MISSING and a remedy when cuBLASLt is absent. */
enum tern_status tern_gemm_open(void *context, enum tern_activation type, int64_t m, int64_t n, int64_t k,
                                struct tern_gemm **gemm, int *algorithms, struct tern_error *err);
/* The same with x and W in e4m3 and y binary16, by FP8 of cuBLASLt 12.9 and later on compute capability 9.0. TERN_FAILED where it has no
 * algorithm for this. Scales are device memory, binary32: one for 128 k of a row, [ceil(K/128)][M] and [N], or one a row, [M] and
 * [N]. */
struct tern_gemm_scales {
    const void *x, *w;
    bool per_row;
};
enum tern_status tern_gemm_open_e4m3(void *context, int64_t m, int64_t n, int64_t k, const struct tern_gemm_scales *scales,
                                     struct tern_gemm **gemm, int *algorithms, struct tern_error *err);
/* Captures a graph of `count` GEMMs with algorithm `index` (0 is cuBLASLt's default), one for each w[i]. */
enum tern_status tern_gemm_capture(void *context, struct tern_gemm *gemm, int index, const void *x, const void *const *w,
                                   void *y, size_t count, struct tern_graph **graph, struct tern_error *err);
/* Captures a graph in which each GEMM is preceded by a launch (dequantise into w_scratch, then multiply): dequantise +
 * cuBLASLt. `before` holds `count` launches, one for each copy of the packed weights; every one writes w_scratch. */
enum tern_status tern_gemm_capture_after(void *context, struct tern_gemm *gemm, int index, const struct tern_launch *before,
                                         size_t count, const void *x, const void *w_scratch, void *y,
                                         struct tern_graph **graph, struct tern_error *err);
void tern_gemm_close(void *context, struct tern_gemm *gemm);

/* Makes the context that of the calling thread, which did not open it. */
enum tern_status tern_cuda_enter(void *context, struct tern_error *err);

/* Runs a load of about `seconds` so that clocks settle. */
enum tern_status tern_cuda_settle(void *context, double seconds, struct tern_error *err);

struct tern_clocks { /* NVML; -1 where unknown */
    int sm_mhz, memory_mhz, temperature_c, power_w;
    uint64_t throttle_reasons; /* nvmlClocksEventReasons bits */
    int other_processes;       /* other compute processes on the device */
};
/* At this moment. Takes some milliseconds: nothing to call between samples. */
void tern_cuda_clocks(void *context, struct tern_clocks *out);
/* Since the last call: lowest SM clock, highest temperature, power and number of other processes, all reasons together, as a
 * thread beside has read them about every 20 ms; without a reading in between, the latest. The first call starts the
 * thread, which ends with the context. */
void tern_cuda_watch(void *context, struct tern_clocks *out);
/* Adds `more` to what was seen: lowest clocks, highest temperature, power and number of processes, all reasons together. */
void tern_clocks_merge(struct tern_clocks *seen, const struct tern_clocks *more);
/* True if the device was throttled for heat or by its hardware, or other processes computed on it. The power cap alone is no
 * disturbance: large products run there by design (docs/measuring.md). */
bool tern_clocks_disturbed(const struct tern_clocks *clocks);

#endif
