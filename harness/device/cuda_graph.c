/* Captured graphs and their timing: one replay between two events is one sample.
 * A sample must not hold the time the host takes to submit the graph. Therefore all replays of a call are submitted at once
 * behind a run-in on the same stream: the GPU is busy while the host submits. The run-in is the first graph itself, which
 * also leaves the L2 as the rotation leaves it; on a cool device it is a read that empties the L2, which heats nothing. */
#include "device/cuda_context.h"
#include "device/cuda_timing.h"

#include "core/clock.h"
#include "core/str.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

/* Before a cool replay the device rests REST_FACTOR times as long as the last one ran: at most a fifth of the time it works,
 * far from any power cap. Behind a load of LOADED_S or more it takes longer until the clocks are back: on an H200 the first screens
 * behind one were up to 19 % too slow, those 75 ms later by 0.4 %. */
#define REST_FACTOR   4.0
#define REST_MIN_S    0.001
#define REST_MAX_S    0.004
#define LOADED_S      0.02
#define REST_LOADED_S 0.1

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
    int64_t idle_since_ns = cuda->idle_since_ns; /* captured launches do not run */
    made->count = count;
    enum tern_status status = capture_once(cuda, body, user, count, &made->exec, err);
    if (status == TERN_OK)
        status = tern_cuda_check(cuda, cuda->api.stream_synchronize(cuda->stream), "uploading a graph", err);
    cuda->idle_since_ns = idle_since_ns;
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
        enum tern_status status = tern_cuda_launch(cuda, &launches[i], err);
        if (status != TERN_OK)
            return status;
    }
    return TERN_OK;
}

enum tern_status tern_graph_capture(void *context, const struct tern_launch *launches, size_t count,
                                    struct tern_graph **graph, struct tern_error *err) {
    return tern_cuda_capture(context, launch_all, (void *)(uintptr_t)launches, count, graph, err);
}

/* Seconds between events `from` and the next one, which ends `launches` items. Nothing takes no time: such a sample says that
 * nothing ran. */
static enum tern_status elapsed(struct tern_cuda *cuda, size_t from, size_t launches, double *seconds,
                                struct tern_error *err) {
    float ms = 0;
    CUresult result = cuda->api.event_elapsed(&ms, cuda->events[from], cuda->events[from + 1]);
    if (result != CUDA_SUCCESS)
        return tern_cuda_check(cuda, result, "timing a graph", err);
    if (!(ms > 0))
        return tern_error_set(err, TERN_FAILED, "the GPU's clock says that %zu launches took %g ms", launches, ms);
    *seconds = 1e-3 * ms;
    cuda->busy_s += *seconds;
    return TERN_OK;
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
    double seconds = 0;
    if (count == 0 || count > TERN_MAX_REPLAYS)
        return tern_error_set(err, TERN_INTERNAL, "%zu replays at once; 1 to %d can be timed", count, TERN_MAX_REPLAYS);
    enum tern_status status = tern_cuda_check(cuda, replay_all(cuda, graphs, count), "timing a graph", err);
    cuda->idle_since_ns = tern_clock_now_ns();
    for (size_t i = 0; i <= count && status == TERN_OK; i++) {
        const struct tern_graph *graph = graphs[i == 0 ? 0 : i - 1];
        status = elapsed(cuda, i, graph->count, &seconds, err);
        if (i > 0)
            us[i - 1] = 1e6 * seconds / (double)graph->count;
    }
    return status;
}

/* The host sleeps for what is left of the rest since the device became idle: it has submitted nothing. */
static void rest(struct tern_cuda *cuda) {
    double seconds = cuda->heated_s > 0 ? fmin(fmax(REST_FACTOR * cuda->heated_s, REST_MIN_S), REST_MAX_S) : REST_MAX_S;
    if (cuda->heated_s >= LOADED_S)
        seconds = REST_LOADED_S;
    int64_t now_ns = tern_clock_now_ns(), from_ns = cuda->idle_since_ns > 0 ? cuda->idle_since_ns : now_ns;
    int64_t end_ns = from_ns + (int64_t)(seconds * 1e9);
    const struct timespec pause = {0, (long)(end_ns - now_ns)};
    if (end_ns > now_ns)
        (void)nanosleep(&pause, NULL);
    cuda->rest_s += end_ns > now_ns ? (double)(tern_clock_now_ns() - from_ns) * 1e-9 : seconds;
}

static CUresult replay_cool(struct tern_cuda *cuda, const struct tern_graph *flush, const struct tern_graph *graph) {
    const struct tern_cuda_api *api = &cuda->api;
    const CUgraphExec order[] = {flush->exec, graph->exec};
    CUresult result = api->event_record(cuda->events[0], cuda->stream);
    for (size_t i = 0; i < 2 && result == CUDA_SUCCESS; i++) {
        result = api->graph_launch(order[i], cuda->stream);
        if (result == CUDA_SUCCESS)
            result = api->event_record(cuda->events[i + 1], cuda->stream);
    }
    return result == CUDA_SUCCESS ? api->event_synchronize(cuda->events[2]) : result;
}

enum tern_status tern_graph_times_cool(void *context, struct tern_graph *flush, struct tern_graph *const *graphs,
                                       size_t count, double *us, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < count && status == TERN_OK; i++) {
        double flush_s = 0;
        rest(cuda);
        status = tern_cuda_check(cuda, replay_cool(cuda, flush, graphs[i]), "timing a graph", err);
        cuda->idle_since_ns = tern_clock_now_ns();
        if (status == TERN_OK)
            status = elapsed(cuda, 0, flush->count, &flush_s, err);
        if (status == TERN_OK)
            status = elapsed(cuda, 1, graphs[i]->count, &cuda->heated_s, err);
        us[i] = 1e6 * cuda->heated_s / (double)graphs[i]->count;
    }
    return status;
}

/* `times` replays, then event number `event`. */
static CUresult replay_often(struct tern_cuda *cuda, const struct tern_graph *graph, size_t times, size_t event) {
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < times && result == CUDA_SUCCESS; i++)
        result = cuda->api.graph_launch(graph->exec, cuda->stream);
    return result == CUDA_SUCCESS ? cuda->api.event_record(cuda->events[event], cuda->stream) : result;
}

enum tern_status tern_graph_times_loaded(void *context, struct tern_graph *graph, double warm_s, double measure_s,
                                         size_t count, double *us, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    double seconds = 0;
    if (count == 0 || count > TERN_MAX_REPLAYS)
        return tern_error_set(err, TERN_INTERNAL, "%zu samples at once; 1 to %d can be timed", count, TERN_MAX_REPLAYS);
    enum tern_status status = tern_graph_time(cuda, graph, &seconds, err);
    double replay_s = 1e-6 * seconds * (double)graph->count;
    if (status != TERN_OK)
        return status;
    size_t warm = (size_t)(warm_s / replay_s) + 1, each = (size_t)(measure_s / replay_s / (double)count) + 1;
    CUresult result = cuda->api.event_record(cuda->events[0], cuda->stream);
    for (size_t i = 0; i <= count && result == CUDA_SUCCESS; i++)
        result = replay_often(cuda, graph, i == 0 ? warm : each, i + 1);
    if (result == CUDA_SUCCESS)
        result = cuda->api.event_synchronize(cuda->events[count + 1]);
    status = tern_cuda_check(cuda, result, "timing a graph under load", err);
    cuda->idle_since_ns = tern_clock_now_ns();
    cuda->heated_s = warm_s + measure_s;
    for (size_t i = 0; i <= count && status == TERN_OK; i++) {
        status = elapsed(cuda, i, graph->count, &seconds, err);
        if (i > 0)
            us[i - 1] = 1e6 * seconds / (double)(each * graph->count);
    }
    return status;
}

enum tern_status tern_graph_time(void *context, struct tern_graph *graph, double *us, struct tern_error *err) {
    return tern_graph_times(context, &graph, 1, us, err);
}

double tern_cuda_busy_s(const void *context) {
    return ((const struct tern_cuda *)context)->busy_s;
}

double tern_cuda_rest_s(const void *context) {
    return ((const struct tern_cuda *)context)->rest_s;
}

void tern_graph_free(void *context, struct tern_graph *graph) {
    struct tern_cuda *cuda = context;
    if (!graph)
        return;
    if (graph->exec)
        (void)cuda->api.graph_exec_destroy(graph->exec);
    free(graph);
}
