/* Captured graphs and their timing: one replay between two events is one sample.
 * A sample must not hold the time the host takes to submit the graph. Therefore all replays of a call are submitted at once
 * behind a run-in on the same stream: the GPU is busy while the host submits. The run-in is the first graph itself, which
 * also leaves the L2 as the rotation leaves it. */
#include "device/cuda_context.h"
#include "device/cuda_timing.h"

#include "core/str.h"

#include <stdlib.h>

struct tern_graph {
    CUgraphExec exec;
    size_t count; /* items */
};

/* Captures `count` items of `body` and makes them ready to replay; *exec is owned by the caller, also after a failure. */
static enum tern_status capture_once(struct tern_cuda *cuda, tern_capture_body body, void *user, size_t count,
                                     CUgraphExec *exec, struct tern_error *err) {
    CUgraph graph = NULL;
    /* Relaxed: libraries may allocate or load code lazily while their calls are captured. */
    CUresult result = cuda->api.stream_begin_capture(cuda->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    enum tern_status status = tern_cuda_check(cuda, result, "beginning a capture", err);
    if (status != TERN_OK)
        return status;
    status = body(cuda, user, count, err);
    result =
        cuda->api.stream_end_capture(cuda->stream, &graph); /* also after a failure: the stream must leave capture mode */
    if (status == TERN_OK)
        status = tern_cuda_check(cuda, result, "ending a capture", err);
    if (status == TERN_OK)
        status = tern_cuda_check(cuda, cuda->api.graph_instantiate(exec, graph, 0), "instantiating a graph", err);
    if (status == TERN_OK)
        status = tern_cuda_check(cuda, cuda->api.graph_upload(*exec, cuda->stream), "uploading a graph", err);
    if (graph)
        (void)cuda->api.graph_destroy(graph);
    return status;
}

enum tern_status tern_cuda_capture(struct tern_cuda *cuda, tern_capture_body body, void *user, size_t count,
                                   struct tern_graph **graph, struct tern_error *err) {
    *graph = NULL;
    if (count == 0)
        return tern_error_set(err, TERN_INTERNAL, "a graph of no launches cannot be timed");
    struct tern_graph *made = tern_alloc_zero(1, sizeof *made);
    made->count = count;
    enum tern_status status = capture_once(cuda, body, user, count, &made->exec, err);
    if (status == TERN_OK)
        status = tern_cuda_check(cuda, cuda->api.stream_synchronize(cuda->stream), "uploading a graph", err);
    if (status != TERN_OK) {
        tern_graph_free(cuda, made);
        return status;
    }
    *graph = made;
    return TERN_OK;
}

/* Capture body of plain launches: user is an array of them. */
static enum tern_status launch_all(struct tern_cuda *cuda, void *user, size_t count, struct tern_error *err) {
    const struct tern_launch *launches = user;
    for (size_t i = 0; i < count; i++) {
        struct tern_args args = launches[i].args;
        enum tern_status status = tern_cuda_launch_raw(cuda, &launches[i], &args, err);
        if (status != TERN_OK)
            return status;
    }
    return TERN_OK;
}

enum tern_status tern_graph_capture(void *context, const struct tern_launch *launches, size_t count,
                                    struct tern_graph **graph, struct tern_error *err) {
    return tern_cuda_capture(context, launch_all, (void *)(uintptr_t)launches, count, graph, err);
}

/* Events in front of the run-in and behind it and behind each sample. */
static CUresult replay_all(struct tern_cuda *cuda, struct tern_graph *const *graphs, size_t count) {
    const struct tern_cuda_api *api = &cuda->api;
    CUresult result = api->event_record(cuda->events[0], cuda->stream);
    for (size_t i = 0; i <= count && result == CUDA_SUCCESS; i++) {
        result = api->graph_launch(graphs[i == 0 ? 0 : i - 1]->exec, cuda->stream);
        if (result == CUDA_SUCCESS)
            result = api->event_record(cuda->events[i + 1], cuda->stream);
    }
    return result == CUDA_SUCCESS ? api->event_synchronize(cuda->events[count + 1]) : result;
}

enum tern_status tern_graph_times(void *context, struct tern_graph *const *graphs, size_t count, double *us,
                                  struct tern_error *err) {
    struct tern_cuda *cuda = context;
    float elapsed_ms = 0;
    if (count == 0 || count > TERN_MAX_REPLAYS)
        return tern_error_set(err, TERN_INTERNAL, "%zu replays at once; 1 to %d can be timed", count, TERN_MAX_REPLAYS);
    CUresult result = replay_all(cuda, graphs, count);
    for (size_t i = 0; i <= count && result == CUDA_SUCCESS; i++) {
        result = cuda->api.event_elapsed(&elapsed_ms, cuda->events[i], cuda->events[i + 1]);
        if (result != CUDA_SUCCESS)
            break;
        /* Nothing takes no time: such a sample says that nothing ran. */
        if (!(elapsed_ms > 0))
            return tern_error_set(err, TERN_FAILED, "the GPU's clock says that %zu launches took %g ms",
                                  graphs[i == 0 ? 0 : i - 1]->count, elapsed_ms);
        cuda->busy_s += 1e-3 * elapsed_ms;
        if (i > 0)
            us[i - 1] = 1000.0 * elapsed_ms / (double)graphs[i - 1]->count;
    }
    return tern_cuda_check(cuda, result, "timing a graph", err);
}

enum tern_status tern_graph_time(void *context, struct tern_graph *graph, double *us, struct tern_error *err) {
    return tern_graph_times(context, &graph, 1, us, err);
}

double tern_cuda_busy_s(const void *context) {
    return ((const struct tern_cuda *)context)->busy_s;
}

void tern_graph_free(void *context, struct tern_graph *graph) {
    struct tern_cuda *cuda = context;
    if (!graph)
        return;
    if (graph->exec)
        (void)cuda->api.graph_exec_destroy(graph->exec);
    free(graph);
}
