/* State of a GPU worker: the open device and the layer it has prepared. Shared by the gpu*.c files of this folder only. */
#ifndef TERN_WORKER_GPU_SESSION_H
#define TERN_WORKER_GPU_SESSION_H

#include "config/template.h"
#include "device/backend.h"
#include "device/cuda_timing.h"
#include "device/fixed_kernels.h"
#include "device/flush.h"
#include "formats/layout.h"
#include "space/grid.h"
#include "store/cache.h"
#include "worker/check.h"
#include "worker/gpu.h"
#include "worker/gpu_modules.h"

#include <jansson.h>

#define GPU_MAX_PACKS   8
#define GPU_INPUTS      2 /* sets of activations: the one that is timed, and another for verification */
#define GPU_MAX_BENCHES 32

/* Device memory with guard bytes in front and behind; `at` is what kernels see. The guard behind moves to where the user of
 * the moment must stop, since the memory is as large as the largest of them. */
struct gpu_guarded {
    void *base, *at;
    int64_t bytes, used; /* room; where the guard behind begins, -1 when the guards must be written anew */
};

/* One set of activations and what they must give by each arithmetic (made when a candidate of it first comes), m_max rows each,
 * on the device. */
struct gpu_input {
    void *x, *y_ref[TERN_ARITHMETICS], *bound_scale[TERN_ARITHMETICS];
};

/* Checksum of what candidates of one layout only read: all copies of the weights, and x of both sets up to row m. */
struct gpu_checksum {
    int64_t m; /* 0: not known */
    uint64_t sum;
};

/* Packed weights in one layout, in enough copies to be cold. */
struct gpu_pack {
    const struct tern_layout *layout;
    size_t copies;
    void *weights;                     /* copies * stride: codes, scales, zeros, each 256-byte aligned */
    int64_t stride, scale_at, zero_at; /* bytes */
};

/* One (format, type of x and y, N, K): weights, x, y, FP64 reference; packed when a candidate of a layout first comes. */
struct gpu_layer {
    bool ready;
    struct tern_weights weights; /* canonical, on the host */
    enum tern_activation type;   /* of x and y */
    int64_t m_max;
    struct gpu_pack packs[GPU_MAX_PACKS];
    struct gpu_checksum checksums[GPU_MAX_PACKS]; /* by pack */
    size_t pack_count;
    struct gpu_input inputs[GPU_INPUTS]; /* the first is timed */
    struct gpu_guarded y, workspace;     /* workspace grows on demand */
    void *late_x;                        /* x of dependent launches that are verified; made by the first */
    void *dense;                         /* weights of that type for the baselines: dense_copies * N*K, cold as well */
    size_t dense_copies;
    void *scratch; /* dense weights of one copy, written by the dequantise baselines; made by the first final */
    void *e4m3_x;  /* x in e4m3 and its scales, written by one of them; made by the first final that has it */
};

/* Check problems of one (format, type of x and y, layout), kept for the hundreds of candidates that share them. */
struct gpu_bench {
    char format[40];
    enum tern_activation type;
    const struct tern_layout *layout;
    struct tern_check_bench *bench;
};

struct gpu_session {
    const struct tern_backend *backend;
    void *context; /* NULL until hello */
    struct tern_device_info info;
    struct tern_template *templates;
    size_t template_count;
    struct tern_cache *cache;
    struct tern_fixed *fixed;
    struct gpu_bench benches[GPU_MAX_BENCHES];
    size_t bench_count;
    struct tern_gpu gpu; /* facts of the device, as valid() of a template asks for them */
    struct gpu_modules modules;
    struct gpu_layer layer;
    int64_t seed;
    bool cool;                      /* the request at hand is timed on a cool device */
    struct tern_flush flush;        /* opened by the first such request */
    bool sticky;                    /* the context is lost, or the weights are damaged: answer and end */
    double seconds[TERN_GPU_TIMES]; /* so far; launches and rests are the context's (gpu.c) */
    struct gpu_inbox *inbox;        /* NULL: messages are read by the caller, and nothing is loaded ahead */
};

/* A candidate loaded for the prepared layer at one M. */
struct gpu_kernel {
    struct tern_candidate candidate;
    const struct gpu_pack *pack;
    void *module, *function, *prologue; /* prologue NULL: none */
    struct tern_geometry geometry;
    enum tern_arithmetic arithmetic;
    enum tern_exactness exactness; /* of the weights (verify/reference.h) */
};

/* Adds the time since start_ns to an account. */
void gpu_spent(struct gpu_session *s, enum tern_gpu_time account, int64_t start_ns);

enum tern_status gpu_session_hello(struct gpu_session *s, const json_t *request, struct tern_error *err);
enum tern_status gpu_session_prepare(struct gpu_session *s, const json_t *request, struct tern_error *err);
void gpu_session_close(struct gpu_session *s);

/* Candidate named by a request's "template" and "params". */
enum tern_status gpu_candidate(struct gpu_session *s, const json_t *request, struct tern_candidate *c,
                               struct tern_error *err);
/* Image of a cubin in the cache, freed by the caller; a missing one is TERN_INTERNAL. */
enum tern_status gpu_cubin(struct gpu_session *s, const char *hash, void **image, size_t *bytes, struct tern_error *err);
/* Loads a request's cubin for the layer at m. A refusal of the driver is TERN_FAILED (an outcome), a missing cubin
 * TERN_INTERNAL. */
enum tern_status gpu_kernel_load(struct gpu_session *s, const json_t *request, int64_t m, struct gpu_kernel *kernel,
                                 struct tern_error *err);
/* Launch of the kernel on weight copy `copy`. */
struct tern_launch gpu_kernel_launch(const struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, size_t copy);

/* The layer's weights in a layout, packed and uploaded when first asked for. */
enum tern_status gpu_pack(struct gpu_session *s, const char *layout, const struct gpu_pack **pack, struct tern_error *err);
void gpu_reference_free(struct gpu_session *s, struct gpu_input *input, enum tern_arithmetic arithmetic);
/* gpu_reference.c: the FP64 references of the layer's inputs by an arithmetic, computed when first asked for. */
enum tern_status gpu_references(struct gpu_session *s, enum tern_arithmetic arithmetic, struct tern_error *err);
/* Arguments of a launch on weight copy `copy`. */
struct tern_args gpu_layer_args(const struct gpu_session *s, const struct gpu_pack *pack, int64_t m, size_t copy);

enum tern_status gpu_guarded_alloc(struct gpu_session *s, int64_t bytes, struct gpu_guarded *g, struct tern_error *err);
void gpu_guarded_free(struct gpu_session *s, struct gpu_guarded *g);
/* Poisons the first `used` bytes (rounded up to 16) and puts the guard behind them. Without effect on memory that is not
 * allocated. */
enum tern_status gpu_guarded_poison(struct gpu_session *s, struct gpu_guarded *g, int64_t used, struct tern_error *err);
/* Compares both guards exactly; damaged ones are written anew at the next poisoning. */
enum tern_status gpu_guarded_check(struct gpu_session *s, struct gpu_guarded *g, bool *intact, struct tern_error *err);

/* How many launches at batch size m a graph holds: as many copies as keep each launch's weights cold, and enough that no
 * sample is shorter than the clock can see. */
size_t gpu_graph_launches(const struct gpu_session *s, int64_t weight_bytes, size_t copies, int64_t m, double expected_us);

/* gpu_regime.c. In which regime the request wants its times ("cool"), until the next one. */
enum tern_status gpu_regime_enter(struct gpu_session *s, const json_t *request, struct tern_error *err);
/* Samples in that regime, each a replay; count at most TERN_MAX_REPLAYS. */
enum tern_status gpu_times(struct gpu_session *s, struct tern_graph *const *graphs, size_t count, double *us,
                           struct tern_error *err);
#define GPU_LOADED_SAMPLES 16
/* GPU_LOADED_SAMPLES samples of one graph under its own load. */
enum tern_status gpu_times_loaded(struct gpu_session *s, struct tern_graph *graph, double *us, struct tern_error *err);

/* gpu_verify.c. An error is one of the machine; whatever the candidate does is the verdict. s->sticky after a fault, and
 * when the candidate wrote to its inputs. */
struct gpu_verdict {
    enum tern_outcome outcome; /* OK, RESOURCES, FAULT, WRONG, NONDET */
    char detail[400];
};
/* Before a candidate is timed: one launch on the second input; every element of y, and the guards. */
enum tern_status gpu_verify_before(struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, struct gpu_verdict *v,
                                   struct tern_error *err);
/* Behind the timing, on the timed input: every element of y (in_place: as the last timed launch left it; else of a new
 * launch), a repeat that must be bitwise the same, guards and inputs. */
enum tern_status gpu_verify_after(struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, bool in_place,
                                  struct gpu_verdict *v, struct tern_error *err);

/* gpu_check.c: the candidate on small odd shapes against the host's FP64. */
enum tern_status gpu_check(struct gpu_session *s, const json_t *request, struct tern_check_result *result,
                           struct tern_error *err);

json_t *gpu_trial(struct gpu_session *s, const json_t *request);
json_t *gpu_final(struct gpu_session *s, const json_t *request);
json_t *gpu_control(struct gpu_session *s);
json_t *gpu_calibrate(struct gpu_session *s, const json_t *request);

#endif
