/* Captured graphs and their timing: one replay between two events is one sample.
 * A sample must not hold the time the host takes to submit the graph. Therefore each is preceded by a run-in on the same
 * stream, which keeps the GPU busy while the host submits the events and the replay: the same graph where that is short
 * (which also leaves the L2 as the rotation leaves it), else a graph of its first item only. */
#include "device/cuda_context.h"
#include "device/cuda_timing.h"

#include "core/str.h"

#include <stdlib.h>

/* Graphs up to this long are their own run-in. Longer ones have items of 15 us or more (at most TERN_MAX_COPIES of them),
 * which is about what a submission takes: what may still leak into a sample is then far below 1 % of it. */
#define RUN_IN_WHOLE_US 4000.0

struct tern_graph {
    CUgraphExec whole, first; /* first: of one item, NULL if whole is no longer than that */
    size_t count;
    double last_us; /* whole graph, of the last replay; 0 before the first */
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
    enum tern_status status = capture_once(cuda, body, user, count, &made->whole, err);
    if (status == TERN_OK && count > 1)
        status = capture_once(cuda, body, user, 1, &made->first, err);
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

enum tern_status tern_graph_time(void *context, struct tern_graph *graph, double *us, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    const struct tern_cuda_api *api = &cuda->api;
    float elapsed_ms = 0;
    bool whole = !graph->first || graph->last_us <= RUN_IN_WHOLE_US;
    CUresult result = api->graph_launch(whole ? graph->whole : graph->first, cuda->stream);
    if (result == CUDA_SUCCESS)
        result = api->event_record(cuda->start, cuda->stream);
    if (result == CUDA_SUCCESS)
        result = api->graph_launch(graph->whole, cuda->stream);
    if (result == CUDA_SUCCESS)
        result = api->event_record(cuda->stop, cuda->stream);
    if (result == CUDA_SUCCESS)
        result = api->event_synchronize(cuda->stop);
    if (result == CUDA_SUCCESS)
        result = api->event_elapsed(&elapsed_ms, cuda->start, cuda->stop);
    enum tern_status status = tern_cuda_check(cuda, result, "timing a graph", err);
    if (status != TERN_OK)
        return status;
    /* Nothing takes no time: such a sample says that nothing ran. */
    if (!(elapsed_ms > 0))
        return tern_error_set(err, TERN_FAILED, "the GPU's clock says that %zu launches took %g ms", graph->count,
                              elapsed_ms);
    graph->last_us = 1000.0 * elapsed_ms;
    *us = graph->last_us / (double)graph->count;
    return TERN_OK;
}

void tern_graph_free(void *context, struct tern_graph *graph) {
    struct tern_cuda *cuda = context;
    if (!graph)
        return;
    if (graph->whole)
        (void)cuda->api.graph_exec_destroy(graph->whole);
    if (graph->first)
        (void)cuda->api.graph_exec_destroy(graph->first);
    free(graph);
}
