/* GPU tests of the CUDA backend, timing, cuBLASLt and the fixed kernels. Exit 77 where there is no GPU.
 * Needs no test library: it runs on a bare machine with driver, NVRTC and cuBLASLt. Prints `N passed, N failed`. */
#include "device_fixture.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/half.h"
#include "core/str.h"
#include "device/backend.h"
#include "device/ceilings.h"
#include "device/compiler.h"
#include "device/cuda_timing.h"
#include "device/fixed_kernels.h"
#include "formats/layout.h"
#include "verify/guard.h"
#include "verify/quantise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_SKIPPED 77

static void test_memory(struct gpu *g) {
    enum { WORDS = 100003 };
    uint32_t *host = malloc(WORDS * 4), *back = malloc(WORDS * 4);
    struct tern_error err = {0};
    for (uint32_t i = 0; host && i < WORDS; i++)
        host[i] = i * 2654435761u;
    void *a = put(g, host, WORDS * 4), *c = put(g, NULL, WORDS * 4);
    bool right = host && back && (uintptr_t)a % 256 == 0 && (uintptr_t)c % 256 == 0;
    right = right && g->b->copy(g->context, c, a, WORDS * 4, &err) == TERN_OK;
    right = right && g->b->download(g->context, back, c, WORDS * 4, &err) == TERN_OK && memcmp(host, back, WORDS * 4) == 0;
    check(g, right, "upload, copy and download", err.text);
    right = right && g->b->fill(g->context, a, 0x12345678, 400, &err) == TERN_OK;
    right = right && g->b->download(g->context, back, a, WORDS * 4, &err) == TERN_OK;
    right = right && back[0] == 0x12345678 && back[99] == 0x12345678 && back[100] == host[100];
    check(g, right, "fill", err.text);
    void *huge = NULL;
    enum tern_status status = g->b->alloc(g->context, (size_t)1 << 46, &huge, &err);
    check(g, status == TERN_MISSING && strstr(err.text, "OUT_OF_MEMORY"), "out of memory is reported", err.text);
    g->b->release(g->context, a);
    g->b->release(g->context, c);
    free(host);
    free(back);
}

static const char cluster_kernel[] = "#include \"tern/abi.h\"\n"
                                     "extern \"C\" __global__ void cluster(tern_args a) { unsigned n, r; asm(\"mov.u32 %0, "
                                     "%%cluster_nctaid.x;\" : \"=r\"(n));\n"
                                     "  asm(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(r)); if (threadIdx.x == 0) "
                                     "((unsigned *)a.y)[blockIdx.x] = n * 100 + r; }\n";

static void test_launch(struct gpu *g) {
    struct tern_error err = {0};
    void *module = NULL, *function = NULL, *y = put(g, NULL, 256);
    int32_t out[8] = {0};
    int64_t smem = g->info.smem_block_bytes;
    struct tern_launch l = {.grid = {1, 1, 1}, .block = 32, .smem_bytes = smem, .args = {.y = y, .n = smem / 4}};
    bool right = load(g, kernels, g->arch, "shared", smem, &module, &l.function, &err);
    right = right && g->b->launch(g->context, &l, &err) == TERN_OK && g->b->download(g->context, out, y, 4, &err) == TERN_OK;
    check(g, right && out[0] == 7 + 31, "all of a block's shared memory", err.text);
    g->b->module_unload(g->context, module);
    right = load(g, kernels, g->arch, "shared", smem + 1024, &module, &function, &err);
    check(g, !right && err.status == TERN_FAILED, "too much shared memory is refused", err.text);
    if (g->info.cc >= 90) {
        l = (struct tern_launch){.grid = {8, 1, 1}, .block = 32, .cluster = 4, .args = {.y = y}};
        right = load(g, cluster_kernel, g->arch, "cluster", 0, &module, &l.function, &err);
        right = right && g->b->launch(g->context, &l, &err) == TERN_OK &&
                g->b->download(g->context, out, y, sizeof out, &err) == TERN_OK;
        check(g, right && out[0] == 400 && out[3] == 403 && out[5] == 401, "clusters", err.text);
        g->b->module_unload(g->context, module);
    }
    const char *other = g->info.cc >= 100 ? "sm_90" : "sm_120";
    right = load(g, kernels, other, "empty", 0, &module, &function, &err);
    check(g, !right && err.status == TERN_MISSING && strstr(err.text, other), "a cubin for another GPU is refused",
          err.text);
    right = load(g, kernels, g->arch, "absent", 0, &module, &function, &err);
    check(g, !right && strstr(err.text, "absent"), "an absent kernel is named", err.text);
    g->b->release(g->context, y);
}

/* One layer on the device: canonical and packed weights, activations, results, references. */
struct layer {
    struct tern_format format;
    enum tern_activation type; /* of x, y and w16 */
    struct tern_weights w;
    struct tern_packed packed;
    int64_t m;
    uint16_t *x;
    struct tern_reference_args ref;
    struct tern_args args; /* y is the result */
    void *w16;
};

static bool layer_open(struct gpu *g, const char *format, enum tern_activation type, int64_t m, int64_t n, int64_t k,
                       struct layer *l) {
    struct tern_error err = {0};
    *l = (struct layer){.type = type, .m = m, .x = tern_alloc((size_t)(m * k) * 2)};
    if (!run(g, tern_format_parse(format, &l->format, &err), format, &err) ||
        !run(g, tern_weights_random(&l->format, n, k, 11, &l->w, &err), format, &err) ||
        !run(g, tern_layout_pack(tern_layout_find("frag16x128"), &l->w, &l->packed, &err), format, &err))
        return false;
    tern_activations_random(type, m, k, 11, l->x);
    size_t groups = (size_t)l->w.groups, outputs = (size_t)(m * n);
    l->ref = (struct tern_reference_args){.x = put(g, l->x, (size_t)(m * k) * 2),
                                          .codes = put(g, l->w.codes, (size_t)(n * k)),
                                          .scales = put(g, l->w.scales, groups * (size_t)n * 2),
                                          .zeros = l->format.sym ? NULL : put(g, l->w.zeros, groups * (size_t)n),
                                          .y_ref = put(g, NULL, outputs * 8),
                                          .bound_scale = put(g, NULL, outputs * 4),
                                          .m = m,
                                          .n = n,
                                          .k = k,
                                          .group_size = tern_format_group_size(&l->format, k),
                                          .zero = l->format.zero,
                                          .bf16 = type == TERN_BF16};
    l->args =
        (struct tern_args){.x = l->ref.x,
                           .codes = put(g, l->packed.codes, (size_t)l->packed.code_bytes),
                           .scales = put(g, l->packed.scales, (size_t)l->packed.scale_bytes),
                           .zeros = l->packed.zero_bytes ? put(g, l->packed.zeros, (size_t)l->packed.zero_bytes) : NULL,
                           .y = put(g, NULL, outputs * 2),
                           .m = m,
                           .n = n,
                           .k = k,
                           .groups = l->w.groups,
                           .group_size = l->ref.group_size,
                           .multiprocessors = g->info.sms};
    l->w16 = put(g, NULL, (size_t)(n * k) * 2);
    return true;
}

static void layer_close(struct gpu *g, struct layer *l) {
    const void *const all[] = {l->ref.x,      l->ref.codes,   l->ref.scales, l->ref.zeros, l->ref.y_ref, l->ref.bound_scale,
                               l->args.codes, l->args.scales, l->args.zeros, l->args.y,    l->w16};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        g->b->release(g->context, (void *)(uintptr_t)all[i]);
    tern_packed_free(&l->packed);
    tern_weights_free(&l->w);
    free(l->x);
}

/* The launch that makes w16 from the packed weights, run once. */
static bool dequantise(struct gpu *g, struct layer *l, struct tern_launch *launch, struct tern_error *err) {
    struct tern_args args = l->args;
    args.y = l->w16;
    return tern_fixed_dequantise(g->fixed, &l->format, l->type, &args, launch, err) == TERN_OK &&
           g->b->launch(g->context, launch, err) == TERN_OK && g->b->synchronize(g->context, err) == TERN_OK;
}

static void test_dequantise(struct gpu *g, const char *format, enum tern_activation type, int64_t n, int64_t k) {
    struct layer l;
    struct tern_launch launch;
    struct tern_error err = {0};
    if (layer_open(g, format, type, 1, n, k, &l)) {
        uint16_t *w = tern_alloc((size_t)(n * k) * 2);
        bool right =
            dequantise(g, &l, &launch, &err) && g->b->download(g->context, w, l.w16, (size_t)(n * k) * 2, &err) == TERN_OK;
        for (int64_t i = 0; right && i < n * k; i++)
            right =
                tern_activation_to_double(type, w[i]) ==
                tern_activation_to_double(type, tern_activation_from_double(type, tern_weights_value(&l.w, i / k, i % k)));
        char what[96];
        tern_str_format(what, sizeof what, "dequantise %s %s %lldx%lld", format, tern_activation_name(type), (long long)n,
                        (long long)k);
        check(g, right, what, err.text);
        free(w);
    }
    layer_close(g, &l);
}

static void test_reference(struct gpu *g, const char *format, enum tern_activation type, int64_t m, int64_t n, int64_t k) {
    struct layer l;
    struct tern_error err = {0};
    size_t count = (size_t)(m * n);
    if (layer_open(g, format, type, m, n, k, &l)) {
        double *ref = tern_alloc(count * 8), *scale = tern_alloc(count * 8), *got = tern_alloc(count * 8);
        float *got_scale = tern_alloc(count * 4);
        int64_t *index = tern_alloc((size_t)(m > n ? m : n) * sizeof *index);
        for (int64_t i = 0; i < (m > n ? m : n); i++)
            index[i] = i;
        tern_reference_compute(&l.w, type, l.x, index, m, index, n, ref, scale);
        bool right = tern_fixed_reference(g->fixed, &l.ref, &err) == TERN_OK &&
                     g->b->download(g->context, got, l.ref.y_ref, count * 8, &err) == TERN_OK &&
                     g->b->download(g->context, got_scale, l.ref.bound_scale, count * 4, &err) == TERN_OK;
        for (size_t i = 0; right && i < count; i++)
            right = fabs(got[i] - ref[i]) <= 1e-13 * scale[i] && fabs((double)got_scale[i] - scale[i]) <= 1e-4 * scale[i];
        char what[96];
        tern_str_format(what, sizeof what, "reference %s %s M=%lld N=%lld K=%lld", format, tern_activation_name(type),
                        (long long)m, (long long)n, (long long)k);
        check(g, right, what, err.text);
        free(ref);
        free(scale);
        free(got);
        free(got_scale);
        free(index);
    }
    layer_close(g, &l);
}

static bool compare(struct gpu *g, const struct layer *l, struct tern_mismatch *mismatch, int64_t *poisoned,
                    struct tern_error *err) {
    const struct tern_precision precision = {l->w.k, l->type, TERN_ROUNDED_WEIGHTS};
    return tern_fixed_compare(g->fixed, l->args.y, l->ref.y_ref, l->ref.bound_scale, l->m, l->w.n, &precision, mismatch,
                              poisoned, err) == TERN_OK;
}

static bool poison(struct gpu *g, const struct layer *l, struct tern_error *err) {
    return g->b->fill(g->context, l->args.y, TERN_POISON_WORD, (size_t)(l->m * l->w.n) * 2, err) == TERN_OK;
}

/* Every algorithm of cuBLASLt against the FP64 reference; then errors are planted into the last result. */
static void test_gemm(struct gpu *g, const char *format, enum tern_activation type, int64_t m, int64_t n, int64_t k) {
    struct layer l;
    struct tern_launch launch = {0};
    struct tern_error err = {0};
    struct tern_gemm *gemm = NULL;
    struct tern_mismatch bad = {0};
    int algorithms = 0, ran = 0, wrong = 0;
    int64_t poisoned = 0;
    double us = 0;
    char text[512];
    if (!layer_open(g, format, type, m, n, k, &l) ||
        !run(g, dequantise(g, &l, &launch, &err) ? TERN_OK : TERN_FAILED, "dequantise", &err) ||
        !run(g, tern_fixed_reference(g->fixed, &l.ref, &err), "reference", &err) ||
        !run(g, tern_gemm_open(g->context, type, m, n, k, &gemm, &algorithms, &err), "cuBLASLt", &err))
        goto out;
    const void *weights[4] = {l.w16, l.w16, l.w16, l.w16};
    for (int i = 0; i < algorithms; i++) {
        struct tern_graph *graph = NULL;
        if (!poison(g, &l, &err) ||
            tern_gemm_capture(g->context, gemm, i, l.ref.x, weights, l.args.y, 4, &graph, &err) != TERN_OK)
            continue; /* an algorithm that the heuristic offers may not run */
        ran++;
        bool right = tern_graph_time(g->context, graph, &us, &err) == TERN_OK && compare(g, &l, &bad, &poisoned, &err);
        wrong += !(right && bad.count == 0 && bad.checked == m * n && poisoned == 0 && us > 0);
        tern_graph_free(g->context, graph);
    }
    tern_str_format(text, sizeof text,
                    "%s %s M=%lld N=%lld K=%lld: %d of %d algorithms ran, %d wrong, last worst %.3f, %.2f us %.200s", format,
                    tern_activation_name(type), (long long)m, (long long)n, (long long)k, ran, algorithms, wrong, bad.worst,
                    us, err.text);
    check(g, ran > 0 && wrong == 0, "cuBLASLt", text);

    struct tern_launch before[3] = {launch, launch, launch};
    struct tern_graph *graph = NULL;
    bool right =
        poison(g, &l, &err) && g->b->fill(g->context, l.w16, TERN_POISON_WORD, (size_t)(n * k) * 2, &err) == TERN_OK;
    right =
        right && tern_gemm_capture_after(g->context, gemm, 0, before, 3, l.ref.x, l.w16, l.args.y, &graph, &err) == TERN_OK;
    right = right && tern_graph_time(g->context, graph, &us, &err) == TERN_OK && compare(g, &l, &bad, &poisoned, &err);
    check(g, right && bad.count == 0 && poisoned == 0, "dequantise + cuBLASLt", err.text);
    tern_graph_free(g->context, graph);

    uint16_t y[2];
    uint16_t *at = (uint16_t *)l.args.y + (m * n / 2 - 1);
    right = g->b->download(g->context, y, at, sizeof y, &err) == TERN_OK;
    y[0] = (uint16_t)(y[0] ^ 0x0800); /* two binades away, or 16 */
    y[1] = 0xFFFF;
    right = right && g->b->upload(g->context, at, y, sizeof y, &err) == TERN_OK && compare(g, &l, &bad, &poisoned, &err);
    right = right && bad.count == 2 && poisoned == 1 && isinf(bad.worst) && bad.row * n + bad.col == m * n / 2 - 1 &&
            fabs(bad.got - bad.expected) > bad.tolerance;
    tern_str_format(text, sizeof text, "%lld wrong, first (%lld,%lld) got %g expected %g %.200s", (long long)bad.count,
                    (long long)bad.row, (long long)bad.col, bad.got, bad.expected, err.text);
    check(g, right, "a planted error and a NaN are found", text);
out:
    tern_gemm_close(g->context, gemm);
    layer_close(g, &l);
}

/* x and W quantised to e4m3 and every algorithm of cuBLASLt FP8, by the reference and the bound that kernels of linear-e4m3 must keep. */
static void test_gemm_e4m3(struct gpu *g, const char *format, int64_t m, int64_t n, int64_t k) {
    struct layer l;
    struct tern_launch launch;
    struct tern_error err = {0};
    struct tern_gemm *gemm = NULL;
    struct tern_mismatch bad = {0};
    const struct tern_precision precision = {k, TERN_E4M3, TERN_E4M3_SUMS};
    int algorithms = 0, ran = 0, wrong = 0;
    double us = 0, worst = 0;
    char text[512];
    uint16_t *codes = tern_alloc((size_t)(m * k) * 2);
    float *scales = tern_alloc((size_t)m * sizeof *scales);
    if (!layer_open(g, format, TERN_E4M3, m, n, k, &l))
        goto out;
    tern_quantise_activations(TERN_ARITHMETIC_E4M3, l.x, m, k, codes, scales);
    void *x = put(g, codes, (size_t)(m * k) * 2), *units = put(g, scales, (size_t)m * sizeof *scales);
    char *e4m3 = put(g, NULL, (size_t)TERN_E4M3_MATRIX_BYTES(m, k));
    struct tern_reference_args ref = l.ref;
    ref.x = x;
    ref.x_units = units;
    struct tern_args args = l.args;
    args.y = l.w16; /* twice as large as it must be */
    args.workspace = e4m3;
    args.m = m;
    const struct tern_gemm_scales at = {e4m3 + TERN_E4M3_SCALES_AT(m, k), (char *)l.w16 + TERN_E4M3_SCALES_AT(n, k),
                                        l.w.groups == 1};
    if (run(g, tern_fixed_reference(g->fixed, &ref, &err), "reference", &err) &&
        run(g, tern_fixed_to_e4m3(g->fixed, &l.format, &args, &launch, &err), "dequantise to e4m3", &err) &&
        run(g, tern_gemm_open_e4m3(g->context, m, n, k, &at, &gemm, &algorithms, &err), "cuBLASLt FP8", &err)) {
        const struct tern_launch before[3] = {launch, launch, launch};
        for (int i = 0; i < algorithms; i++) {
            struct tern_graph *graph = NULL;
            if (!poison(g, &l, &err) ||
                tern_gemm_capture_after(g->context, gemm, i, before, 3, e4m3, l.w16, l.args.y, &graph, &err) != TERN_OK)
                continue;
            ran++;
            bool right = tern_graph_time(g->context, graph, &us, &err) == TERN_OK &&
                         tern_fixed_compare(g->fixed, l.args.y, l.ref.y_ref, l.ref.bound_scale, m, n, &precision, &bad, NULL,
                                            &err) == TERN_OK;
            wrong += !(right && bad.count == 0 && bad.checked == m * n);
            worst = bad.worst > worst ? bad.worst : worst;
            tern_graph_free(g->context, graph);
        }
        tern_str_format(text, sizeof text,
                        "%s M=%lld N=%lld K=%lld: %d of %d algorithms ran, %d wrong, worst %.3f, last %.2f us %.200s",
                        format, (long long)m, (long long)n, (long long)k, ran, algorithms, wrong, worst, us, err.text);
        check(g, ran > 0 && wrong == 0, "e4m3 and cuBLASLt FP8", text);
    }
    void *const mine[] = {x, units, e4m3};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        g->b->release(g->context, mine[i]);
out:
    tern_gemm_close(g->context, gemm);
    layer_close(g, &l);
    free(codes);
    free(scales);
}

/* The largest reference of Qwen2.5-7B; buffers keep whatever was in memory, except finite scales. */
static void test_reference_speed(struct gpu *g) {
    const int64_t m = 8192, n = 37888, k = 3584;
    struct tern_error err = {0};
    char text[96];
    if (g->info.memory_bytes < (int64_t)24 << 30)
        return;
    struct tern_reference_args a = {.m = m, .n = n, .k = k, .group_size = 128, .zero = 1};
    void *x = put(g, NULL, (size_t)(m * k) * 2), *codes = put(g, NULL, (size_t)(n * k)),
         *scales = put(g, NULL, (size_t)(28 * n) * 2);
    a.x = x, a.codes = codes, a.scales = scales;
    a.y_ref = put(g, NULL, (size_t)(m * n) * 8);
    a.bound_scale = put(g, NULL, (size_t)(m * n) * 4);
    bool right = g->b->fill(g->context, x, 0x3c01bc01, (size_t)(m * k) * 2, &err) == TERN_OK &&
                 g->b->fill(g->context, codes, 0x02010002, (size_t)(n * k), &err) == TERN_OK &&
                 g->b->fill(g->context, scales, 0x24002400, (size_t)(28 * n) * 2, &err) == TERN_OK;
    right = right && tern_fixed_reference(g->fixed, &a, &err) == TERN_OK && g->b->synchronize(g->context, &err) == TERN_OK;
    int64_t start_ns = tern_clock_now_ns();
    right = right && tern_fixed_reference(g->fixed, &a, &err) == TERN_OK && g->b->synchronize(g->context, &err) == TERN_OK;
    double seconds = (double)(tern_clock_now_ns() - start_ns) * 1e-9;
    tern_str_format(text, sizeof text, "%.3f s %s", seconds, err.text);
    check(g, right && seconds < 20, "reference of gate_up at M=8192", text);
    void *const all[] = {x, codes, scales, a.y_ref, a.bound_scale};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        g->b->release(g->context, all[i]);
}

static void test_clocks(struct gpu *g) {
    struct tern_clocks clocks;
    struct tern_error err = {0};
    char text[160];
    enum tern_status status = tern_cuda_settle(g->context, 0.5, &err);
    tern_cuda_clocks(g->context, &clocks);
    tern_str_format(text, sizeof text, "SM %d MHz, memory %d MHz, %d C, %d W, reasons 0x%llx, %d other processes %.60s",
                    clocks.sm_mhz, clocks.memory_mhz, clocks.temperature_c, clocks.power_w,
                    (unsigned long long)clocks.throttle_reasons, clocks.other_processes, err.text);
    check(g, status == TERN_OK && (clocks.sm_mhz == -1 || (clocks.sm_mhz > 100 && clocks.sm_mhz < 5000)),
          "settle and clocks", text);
}

/* They tell devices apart by less than what they differ by on one. */
static void test_control_times(struct gpu *g) {
    struct tern_control c[2];
    struct tern_error err = {0};
    char text[160];
    bool keep[2], right = tern_control_measure(g->context, g->fixed, &c[0], &err) == TERN_OK &&
                          tern_control_measure(g->context, g->fixed, &c[1], &err) == TERN_OK;
    tern_str_format(text, sizeof text, "read %.3f and %.3f us, burst %.2f and %.2f us %.60s", c[0].read_us, c[1].read_us,
                    c[0].burst_us, c[1].burst_us, err.text);
    check(g, right && tern_control_choose(c, 2, TERN_CONTROL_TOLERANCE, keep) == 2, "control times repeat", text);
}

/* Last: the context is lost afterwards. */
static void test_fault(struct gpu *g) {
    struct tern_error err = {0};
    void *module = NULL;
    struct tern_launch l = {.grid = {1, 1, 1}, .block = 1};
    bool right =
        load(g, kernels, g->arch, "fault", 0, &module, &l.function, &err) && g->b->launch(g->context, &l, &err) == TERN_OK;
    enum tern_status status = right ? g->b->synchronize(g->context, &err) : TERN_INTERNAL;
    check(g, status == TERN_FAILED && strstr(err.text, "CUDA_ERROR_"), "a fault is reported by name", err.text);
    status = g->b->synchronize(g->context, &err);
    check(g, status == TERN_FAILED, "a fault is sticky", err.text);
}

static void test_all(struct gpu *g) {
    struct tern_error err = {0};
    test_memory(g);
    check(g, tern_fixed_control(g->fixed, &err) == TERN_OK, "control kernel", err.text);
    test_launch(g);
    test_timing(g);
    static const char *const formats[] = {"ternary-g128",   "ternary-channel", "ternary-tensor", "gptq2-g64",
                                          "gptq3-g128",     "gptq4-g128",      "gptq8-channel",  "gptq2-g32-asym",
                                          "gptq3-g96-asym", "gptq4-g128-asym", "gptq8-g64-asym"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        test_dequantise(g, formats[i], TERN_F16, 520, 1056);
        test_reference(g, formats[i], TERN_F16, 5, 136, 288);
    }
    test_dequantise(g, "ternary-g128", TERN_F16, 4608, 3584);
    test_dequantise(g, "ternary-g128", TERN_BF16, 520, 1056);
    test_dequantise(g, "gptq8-g64-asym", TERN_BF16, 520, 1056);
    test_reference(g, "ternary-g128", TERN_F16, 70, 200, 3584);
    test_reference(g, "gptq4-g128-asym", TERN_BF16, 5, 136, 288);
    test_gemm(g, "ternary-g128", TERN_F16, 1, 4608, 3584);
    test_gemm(g, "gptq4-g128-asym", TERN_F16, 64, 3584, 3584);
    test_gemm(g, "gptq4-g128-asym", TERN_BF16, 64, 3584, 3584);
    test_gemm(g, "gptq3-g128", TERN_F16, 333, 1032, 992);
    if (g->info.cc == 90) {
        test_gemm_e4m3(g, "ternary-g128", 128, 4608, 3584);
        test_gemm_e4m3(g, "ternary-tensor", 37, 520, 1056);
        test_gemm_e4m3(g, "gptq4-channel", 512, 3584, 18944);
        test_gemm_e4m3(g, "gptq4-g128-asym", 132, 1032, 992);
        test_gemm_e4m3(g, "gptq3-g256", 64, 3584, 3584);
    }
    test_reference_speed(g);
    test_clocks(g);
    test_control_times(g);
    test_fault(g);
}

int main(void) {
    struct gpu g = {.b = &tern_backend_cuda};
    struct tern_error err = {0};
    if (g.b->open(0, &g.context, &err) != TERN_OK) {
        printf("skipped: %s\n", err.text);
        return EXIT_SKIPPED;
    }
    if (run(&g, g.b->info(g.context, &g.info, &err), "device", &err)) {
        const struct tern_device_info *i = &g.info;
        printf("%s, sm_%d, %lld SMs, L2 %lld, smem %lld/%lld, regs %lld, threads %lld, blocks %lld, driver %d %s, %d/%d "
               "MHz, %d W, %s\n",
               i->name, i->cc, (long long)i->sms, (long long)i->l2_bytes, (long long)i->smem_block_bytes,
               (long long)i->smem_sm_bytes, (long long)i->regs_sm, (long long)i->threads_sm, (long long)i->blocks_sm,
               i->driver_version, i->driver_name, i->sm_clock_mhz, i->memory_clock_mhz, i->power_limit_w, i->uuid);
        tern_str_format(g.arch, sizeof g.arch, "sm_%d", i->cc);
        if (run(&g, tern_fixed_open(g.context, g.arch, &g.fixed, &err), "fixed kernels", &err))
            test_all(&g);
        tern_fixed_close(g.fixed);
    }
    g.b->close(g.context);
    printf("%d passed, %d failed\n", g.passed, g.failed);
    return g.failed == 0 && g.passed > 0 ? 0 : 1;
}
