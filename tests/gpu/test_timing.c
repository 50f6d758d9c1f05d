/* GPU tests of timing: graphs against the host's clock, and the regimes in which they are timed. Part of test_device. */
#include "device_fixture.h"

#include "core/clock.h"
#include "device/cuda_timing.h"
#include "device/flush.h"
#include "measure/stats.h"

/* Bandwidth of the copy kernel in a graph against the driver's own copies timed by the host. */
static void test_graph(struct gpu *g) {
    enum { MB = 64, NODES = 20, COPIES = 40 };
    const size_t bytes = (size_t)MB << 20;
    struct tern_error err = {0};
    struct tern_graph *graph = NULL;
    struct tern_launch launches[NODES];
    void *module = NULL, *function = NULL;
    double us = 0;
    char text[128];
    void *x = put(g, NULL, bytes), *y = put(g, NULL, bytes);
    if (!run(g, load(g, kernels, g->arch, "copy", 0, &module, &function, &err) ? TERN_OK : TERN_FAILED, "copy kernel", &err))
        return;
    for (int i = 0; i < NODES; i++)
        launches[i] = (struct tern_launch){.function = function,
                                           .grid = {(int64_t)(bytes / 16 / 256), 1, 1},
                                           .block = 256,
                                           .args = {.x = i % 2 ? x : y, .y = i % 2 ? y : x, .n = (long long)(bytes / 16)}};
    if (!run(g, tern_graph_capture(g->context, launches, NODES, &graph, &err), "capture", &err))
        return;
    bool right = true;
    for (int i = 0; i < 5; i++)
        right = right && tern_graph_time(g->context, graph, &us, &err) == TERN_OK;
    int64_t start_ns = tern_clock_now_ns();
    for (int i = 0; i < COPIES; i++)
        right = right && g->b->copy(g->context, i % 2 ? x : y, i % 2 ? y : x, bytes, &err) == TERN_OK;
    right = right && g->b->synchronize(g->context, &err) == TERN_OK;
    double host_us = (double)(tern_clock_now_ns() - start_ns) / 1e3 / COPIES;
    tern_str_format(text, sizeof text, "graph %.2f us, driver's copy %.2f us, %.2f TB/s %s", us, host_us,
                    2.0 * (double)bytes / us * 1e-6, err.text);
    check(g, right && us > 0.25 * host_us && us < 3.3 * host_us, "a copy of 64 MB is timed plausibly", text);
    tern_graph_free(g->context, graph);
    g->b->module_unload(g->context, module);
    g->b->release(g->context, x);
    g->b->release(g->context, y);
}

static double median_of(const double *us, size_t count) {
    struct tern_stats stats;
    tern_stats_compute(us, count, &stats);
    return stats.median;
}

/* A copy that fits into the L2, over and over: hot on a busy device and under its own load, cold behind a flush. A busy sample of
 * one node holds its events, so that the loaded time is the hot one: 6.2 us against 9.0 cold on an H200. */
static void test_regimes(struct gpu *g) {
    enum { MB = 16, SAMPLES = 9 };
    const size_t bytes = (size_t)MB << 20;
    struct tern_error err = {0};
    struct tern_graph *graph = NULL, *same[SAMPLES];
    struct tern_flush flush = {0};
    void *module = NULL, *function = NULL;
    double busy[SAMPLES], cool[SAMPLES], loaded[SAMPLES];
    char text[160];
    void *x = put(g, NULL, bytes), *y = put(g, NULL, bytes);
    if (!run(g, load(g, kernels, g->arch, "copy", 0, &module, &function, &err) ? TERN_OK : TERN_FAILED, "copy kernel", &err))
        return;
    const struct tern_launch launch = {.function = function,
                                       .grid = {(int64_t)(bytes / 16 / 256), 1, 1},
                                       .block = 256,
                                       .args = {.x = x, .y = y, .n = (long long)(bytes / 16)}};
    const double rest_s = tern_cuda_rest_s(g->context);
    bool right = tern_graph_capture(g->context, &launch, 1, &graph, &err) == TERN_OK;
    for (size_t i = 0; i < SAMPLES; i++)
        same[i] = graph;
    right = right && tern_flush_open(g->context, g->fixed, &flush, &err) == TERN_OK;
    right = right && tern_graph_times(g->context, same, SAMPLES, busy, &err) == TERN_OK;
    right = right && tern_graph_times_cool(g->context, flush.graph, same, SAMPLES, cool, &err) == TERN_OK;
    right = right && tern_graph_times_loaded(g->context, graph, 0.002, 0.002, SAMPLES, loaded, &err) == TERN_OK;
    if (!run(g, right ? TERN_OK : TERN_FAILED, "busy, cool and loaded times", &err))
        return;
    const double b = median_of(busy, SAMPLES), c = median_of(cool, SAMPLES), l = median_of(loaded, SAMPLES);
    tern_str_format(text, sizeof text, "busy %.2f us, cool %.2f us, loaded %.2f us", b, c, l);
    check(g, c > 1.2 * l, "a flush leaves nothing in the L2", text);
    check(g, l > 0.5 * b && l < 1.5 * b, "load is of the same launches", text);
    check(g, tern_cuda_rest_s(g->context) - rest_s >= 0.001 * SAMPLES, "the device rests before each cool replay", "");
    tern_flush_close(g->context, &flush);
    tern_graph_free(g->context, graph);
    g->b->module_unload(g->context, module);
    g->b->release(g->context, x);
    g->b->release(g->context, y);
}

static void test_empty_graph(struct gpu *g) {
    enum { NODES = 50 };
    struct tern_error err = {0};
    struct tern_graph *graph = NULL;
    struct tern_launch launches[NODES];
    void *module = NULL, *function = NULL;
    double us = 0;
    char text[64];
    if (!run(g, load(g, kernels, g->arch, "empty", 0, &module, &function, &err) ? TERN_OK : TERN_FAILED, "empty kernel",
             &err))
        return;
    for (int i = 0; i < NODES; i++)
        launches[i] = (struct tern_launch){.function = function, .grid = {1, 1, 1}, .block = 32};
    bool right = tern_graph_capture(g->context, launches, NODES, &graph, &err) == TERN_OK;
    for (int i = 0; i < 5; i++)
        right = right && tern_graph_time(g->context, graph, &us, &err) == TERN_OK;
    tern_str_format(text, sizeof text, "%.3f us a node %s", us, err.text);
    check(g, right && us > 0.1 && us < 6, "empty kernels in a graph", text);
    struct tern_launch none = {.function = function, .grid = {0, 1, 1}, .block = 32};
    check(g, g->b->launch(g->context, &none, &err) == TERN_FAILED, "an empty grid is refused", err.text);
    tern_graph_free(g->context, graph);
    g->b->module_unload(g->context, module);
}

void test_timing(struct gpu *g) {
    test_graph(g);
    test_regimes(g);
    test_empty_graph(g);
}
