/* What tern_rt adds to a launch, and what a captured layer takes, on a GPU. usage: launch_cost FOLDER FORMAT M N K
 * Host time of tern_rt_launch against cuLaunchKernelEx alone with the same arguments (medians of interleaved batches, the stream
 * drained in between), then microseconds of the layer in a graph of launches over rotating weight copies, x hot, each replay
 * behind another one, so that it holds no time of the host. Prints "overhead_ns N" and "graph_us N". The header is compiled in. */
#define TERN_DISPATCH_IMPLEMENTATION
#include "tern_dispatch.h"

#include "core/archive.h"
#include "core/file.h"
#include "device.h"
#include "tern_rt.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCHES 201
#define CALLS   64
#define NODES   20        /* at least */
#define MOST    64        /* copies of the weights, and nodes, for small layers */
#define COLD    160000000 /* bytes of all copies: no L2 holds what comes round again */

/* clang-format off */
#define DRIVER(X)                                                                                                            \
    X(cuStreamCreate) X(cuStreamSynchronize) X(cuLaunchKernelEx) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch)             \
    X(cuEventCreate) X(cuEventRecord) X(cuStreamEndCapture) X(cuEventSynchronize)                                            \
    X(cuModuleLoadData) X(cuModuleGetFunction) X(cuFuncSetAttribute)
/* clang-format on */

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void require(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

#define MEMBER(name) __typeof__(&name) name##_;
static struct {
    DRIVER(MEMBER)
    CUresult (*begin)(CUstream, CUstreamCaptureMode);
    CUresult (*elapsed)(float *, CUevent, CUevent);
} api;

static void load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
#define FIND(name) require((*(void **)&api.name##_ = dlsym(library, #name)) != NULL, #name);
    DRIVER(FIND)
    require((*(void **)&api.begin = dlsym(library, "cuStreamBeginCapture_v2")) != NULL, "cuStreamBeginCapture");
    require((*(void **)&api.elapsed = dlsym(library, "cuEventElapsedTime")) != NULL, "cuEventElapsedTime");
}

/* Both sides launch the same kernel with the same arguments; batches are short enough never to fill the stream's queue. */
static void time_overhead(struct tern_rt *rt, const struct tern_rt_layer *layer, const struct tern_rt_call *call,
                          CUfunction function, CUstream stream) {
    const struct tern_choice c = tern_rt_choice(rt, layer, call->m);
    struct tern_args args = {.x = call->x,
                             .codes = layer->codes,
                             .scales = layer->scales,
                             .zeros = layer->zeros,
                             .y = call->y,
                             .workspace = call->workspace,
                             .m = call->m,
                             .n = layer->n,
                             .k = layer->k,
                             .groups = layer->groups,
                             .group_size = layer->group_size,
                             .multiprocessors = tern_rt_table(rt, NULL)->sms};
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    cluster.value.clusterDim.x = (unsigned)c.cluster, cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
    CUlaunchConfig config = {(unsigned)c.grid[0],
                             (unsigned)c.grid[1],
                             (unsigned)c.grid[2],
                             (unsigned)c.block,
                             1,
                             1,
                             (unsigned)c.smem_bytes,
                             stream,
                             &cluster,
                             c.cluster > 1};
    void *parameters[] = {&args};
    double ours[BATCHES], bare[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        double start = now_ns();
        for (int i = 0; i < CALLS; i++)
            require(tern_rt_launch(rt, layer, call, NULL) == TERN_RT_OK, "tern_rt_launch");
        ours[b] = (now_ns() - start) / CALLS;
        require(api.cuStreamSynchronize_(stream) == CUDA_SUCCESS, "synchronising");
        start = now_ns();
        for (int i = 0; i < CALLS; i++)
            require(api.cuLaunchKernelEx_(&config, function, parameters, NULL) == CUDA_SUCCESS, "cuLaunchKernelEx");
        bare[b] = (now_ns() - start) / CALLS;
        require(api.cuStreamSynchronize_(stream) == CUDA_SUCCESS, "synchronising");
    }
    double a = median(ours, BATCHES), z = median(bare, BATCHES);
    printf("launch_ns %.0f\nbare_ns %.0f\noverhead_ns %.0f\n", a, z, a - z);
}

/* Captures a launch for each copy of the weights, NODES at least, and replays the graph. */
static void time_graph(struct tern_rt *rt, const struct tern_rt_layer *copies, int count, const struct tern_rt_call *call,
                       CUstream stream) {
    const int nodes = count < NODES ? NODES : count;
    CUgraph graph;
    CUgraphExec exec;
    CUevent from, to;
    double us[BATCHES];
    require(api.begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS, "capture");
    for (int i = 0; i < nodes; i++)
        require(tern_rt_launch(rt, &copies[i % count], call, NULL) == TERN_RT_OK, "a captured launch");
    require(api.cuStreamEndCapture_(stream, &graph) == CUDA_SUCCESS, "end of capture");
    require(api.cuGraphInstantiateWithFlags_(&exec, graph, 0) == CUDA_SUCCESS, "instantiating");
    require(api.cuEventCreate_(&from, 0) == CUDA_SUCCESS && api.cuEventCreate_(&to, 0) == CUDA_SUCCESS, "events");
    for (int b = 0; b < BATCHES; b++) {
        float ms = 0;
        require(api.cuGraphLaunch_(exec, stream) == CUDA_SUCCESS && api.cuEventRecord_(from, stream) == CUDA_SUCCESS &&
                    api.cuGraphLaunch_(exec, stream) == CUDA_SUCCESS && api.cuEventRecord_(to, stream) == CUDA_SUCCESS &&
                    api.cuEventSynchronize_(to) == CUDA_SUCCESS,
                "replaying");
        require(api.elapsed(&ms, from, to) == CUDA_SUCCESS, "timing");
        us[b] = 1e3 * (double)ms / nodes;
    }
    printf("graph_us %.3f\n", median(us, BATCHES));
}

/* The kernel once more, by hand, out of the same archive. */
static CUfunction load_bare(const char *kernels_path, const struct tern_kernel *kernel) {
    struct tern_error why;
    char *archive = NULL;
    size_t archive_bytes, bytes;
    void *image = NULL;
    bool found = false;
    CUmodule module;
    CUfunction function;
    require(tern_file_read(kernels_path, &archive, &archive_bytes, &why) == TERN_OK, kernels_path);
    require(tern_archive_read(archive, archive_bytes, kernel->cubin_hash, &image, &bytes, &found, &why) == TERN_OK && found,
            kernel->cubin_hash);
    require(api.cuModuleLoadData_(&module, image) == CUDA_SUCCESS &&
                api.cuModuleGetFunction_(&function, module, kernel->entry) == CUDA_SUCCESS,
            "loading");
    (void)api.cuFuncSetAttribute_(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    (void)api.cuFuncSetAttribute_(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  (int)(tern_tables(&(int){0})->smem_bytes - kernel->static_smem_bytes));
    free(image);
    free(archive);
    return function;
}

/* A copy of the layer's weights: random bits in all three arrays. Any codes are weights; scales are made small and finite. */
static void make_weights(struct tern_rt_layer *layer) {
    const int ternary = strncmp(layer->format, "ternary", 7) == 0;
    uint16_t *bits = malloc((size_t)(layer->code_bytes + layer->scale_bytes));
    for (int64_t b = 0; b < layer->code_bytes / 2; b++) {
        uint16_t fields = (uint16_t)(rand() >> 3);
        bits[b] = ternary ? (uint16_t)(fields & 0x5555) : fields; /* never the field 3 */
    }
    layer->codes = device_alloc((size_t)layer->code_bytes);
    device_upload((void *)(uintptr_t)layer->codes, bits, (size_t)layer->code_bytes);
    for (int64_t b = 0; b < layer->scale_bytes / 2; b++)
        bits[b] = (uint16_t)(0x2000 + rand() % 1024);
    layer->scales = device_alloc((size_t)layer->scale_bytes);
    device_upload((void *)(uintptr_t)layer->scales, bits, (size_t)layer->scale_bytes);
    layer->zeros = layer->zero_bytes ? device_alloc((size_t)layer->zero_bytes) : NULL;
    free(bits);
}

int main(int argc, char **argv) {
    struct tern_rt *rt;
    struct tern_rt_error err = {0};
    struct tern_rt_layer copies[MOST];
    char kernels[4096];
    CUstream stream;
    require(argc == 6, "usage: launch_cost FOLDER FORMAT M N K");
    const int64_t m = atoll(argv[3]), n = atoll(argv[4]), k = atoll(argv[5]);
    device_open(0);
    load();
    snprintf(kernels, sizeof kernels, "%s/tern_kernels.bin", argv[1]);
    struct tern_rt_options options = {.kernels_path = kernels};
    options.tables = tern_tables(&options.table_count);
    require(tern_rt_open(&options, &rt, &err) == TERN_RT_OK, err.text);
    require(tern_rt_layer(rt, argv[2], NULL, n, k, &copies[0], &err) == TERN_RT_OK, err.text);
    const int64_t cold = COLD / copies[0].code_bytes + 1, count = cold < MOST ? cold : MOST;
    for (int i = 0; i < count; i++) {
        copies[i] = copies[0];
        make_weights(&copies[i]);
    }
    require(api.cuStreamCreate_(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS, "a stream");
    uint16_t *x = malloc((size_t)(2 * m * k));
    for (int64_t i = 0; i < m * k; i++)
        x[i] = (uint16_t)((rand() & 0x8000) | (0x3400 + rand() % 2048));
    struct tern_rt_call call = {.m = m, .stream = stream};
    call.x = device_alloc((size_t)(2 * m * k));
    device_upload((void *)(uintptr_t)call.x, x, (size_t)(2 * m * k));
    call.y = device_alloc((size_t)(2 * m * n));
    call.workspace_bytes = tern_rt_workspace_bytes(rt, &copies[0], m);
    call.workspace = call.workspace_bytes ? device_alloc((size_t)call.workspace_bytes) : NULL;
    time_graph(rt, copies, (int)count, &call, stream);
    time_overhead(rt, &copies[0], &call, load_bare(kernels, tern_rt_choice(rt, &copies[0], m).kernel), stream);
    tern_rt_close(rt);
    return 0;
}
