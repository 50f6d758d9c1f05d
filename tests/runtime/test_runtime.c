/* tern_rt on a table of real kernels: 8 threads select and launch while workspaces are added, and every bad input is refused
 * with its status. Run under ThreadSanitizer as well. Launches go to the emulator, and to a machine without any lock, which
 * only counts, so that no lock of a machine hides a race of the runtime's.
 * usage: test_runtime FOLDER [timed]. The header is compiled in. */
#define TERN_DISPATCH_IMPLEMENTATION
#include "tern_dispatch.h"

#include "emulated.h"

#include "core/activation.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS   8
#define OWN_BYTES 8192

static int failures;

static void expect(int ok, const char *what, const struct tern_rt_error *err) {
    printf("%s %s%s%s\n", ok ? "ok" : "not ok", what, err && err->text[0] ? ": " : "", err ? err->text : "");
    failures += !ok;
}

/* ---- a machine that does nothing, and says of itself what the test wants ---- */

static struct tern_rt_device pretended;
static _Thread_local long counted;
static _Thread_local void *workspace; /* of the last launch */
static _Thread_local int dependent;

static enum tern_rt_status counting_open(int device, void **context, struct tern_rt_device *info,
                                         struct tern_rt_error *err) {
    (void)device, (void)err;
    *info = pretended;
    *context = &pretended;
    return TERN_RT_OK;
}
static void counting_close(void *context) {
    (void)context;
}
static enum tern_rt_status counting_load(void *context, const void *image, size_t bytes, const char *entry,
                                         int64_t smem_bytes, void **module, void **function, struct tern_rt_error *err) {
    (void)context, (void)image, (void)bytes, (void)smem_bytes, (void)err;
    *module = *function = (void *)(uintptr_t)entry;
    return TERN_RT_OK;
}
static enum tern_rt_status counting_find(void *context, void *module, const char *entry, void **function,
                                         struct tern_rt_error *err) {
    (void)context, (void)module, (void)err;
    *function = (void *)(uintptr_t)entry;
    return TERN_RT_OK;
}
static void counting_unload(void *context, void *module) {
    (void)context, (void)module;
}
static enum tern_rt_status counting_launch(void *context, const struct tern_rt_work *work, struct tern_rt_error *err) {
    (void)context, (void)err;
    counted++;
    workspace = work->args->workspace;
    dependent = work->dependent;
    return TERN_RT_OK;
}
static enum tern_rt_status counting_run(void *context, const struct tern_rt_run *run, struct tern_rt_error *err) {
    (void)context, (void)run, (void)err;
    counted++;
    return TERN_RT_OK;
}
static enum tern_rt_status counting_alloc(void *context, int64_t bytes, void **pointer, struct tern_rt_error *err) {
    (void)context, (void)err;
    *pointer = aligned_alloc(256, (size_t)(bytes + 255) / 256 * 256);
    return TERN_RT_OK;
}
static void counting_release(void *context, void *pointer) {
    (void)context;
    free(pointer);
}
static const struct tern_rt_driver counting = {counting_open, counting_close,  counting_load,
                                               counting_find, counting_unload, counting_launch,
                                               counting_run,  counting_alloc,  counting_release};

/* ---- one runtime with one layer ---- */

struct setting {
    const char *kernels;
    const struct tern_rt_driver *driver;
    struct tern_rt *rt;
    struct tern_rt_layer layer;
    void *x, *y;
    uint16_t *want; /* y of one launch, [m][n] */
    int64_t m;
    int64_t launches; /* of each thread */
};

static enum tern_rt_status open_with(const struct setting *s, enum tern_match worst, struct tern_rt **rt,
                                     struct tern_rt_error *err) {
    struct tern_rt_options o = {.kernels_path = s->kernels, .worst = worst, .driver = s->driver};
    o.tables = tern_tables(&o.table_count);
    *err = (struct tern_rt_error){0};
    return tern_rt_open(&o, rt, err);
}

static void fill(struct setting *s) {
    const int64_t n = s->layer.n, k = s->layer.k, entries = s->layer.groups * n;
    struct tern_rt_weights w = {.code_bytes = n * k, .scale_bytes = 2 * entries};
    struct tern_rt_error err;
    w.codes = malloc((size_t)(n * k));
    w.scales = malloc((size_t)(2 * entries));
    for (int64_t i = 0; i < n * k; i++)
        w.codes[i] = (uint8_t)(i * 7 % 11 % 3);
    for (int64_t i = 0; i < entries; i++)
        w.scales[i] = (uint16_t)(0x3400 + i % 64);
    void *codes = tern_emulated_alloc((size_t)s->layer.code_bytes),
         *scales = tern_emulated_alloc((size_t)s->layer.scale_bytes);
    expect(tern_rt_pack(&s->layer, &w, codes, scales, NULL, &err) == TERN_RT_OK, "weights are packed", NULL);
    s->layer.codes = codes;
    s->layer.scales = scales;
    s->x = tern_emulated_alloc((size_t)(2 * s->m * k));
    s->y = tern_emulated_alloc((size_t)(2 * s->m * n));
    for (int64_t i = 0; i < s->m * k; i++)
        ((uint16_t *)s->x)[i] = (uint16_t)(0x3000 + i % 512);
    free(w.codes);
    free(w.scales);
}

struct worker {
    struct setting *s;
    int index;
    void *y, *own;
    long wrong, launched;
};

/* Each thread brings its workspace until it adds one for a stream of its own, in the middle of the others' launches. */
static void *work(void *opaque) {
    struct worker *w = opaque;
    const struct setting *s = w->s;
    const long before = counted;
    void *stream = &w->index;
    struct tern_rt_error err;
    struct tern_rt_call call = {.x = s->x, .y = w->y, .stream = stream};
    const int64_t added = s->launches * (w->index + 1) / (THREADS + 1);
    for (int64_t i = 0; i < s->launches; i++) {
        if (i == added)
            w->wrong += tern_rt_pool_add(s->rt, stream, OWN_BYTES, &err) != TERN_RT_OK;
        call.workspace = i < added ? w->own : NULL;
        call.workspace_bytes = OWN_BYTES;
        call.m = s->want ? s->m : 1 + i % s->m;
        enum tern_rt_status status = tern_rt_launch(s->rt, &s->layer, &call, &err);
        w->wrong += status != TERN_RT_OK;
        w->launched++;
        if (s->want)
            w->wrong += memcmp(w->y, s->want, (size_t)(2 * s->m * s->layer.n)) != 0;
    }
    if (s->driver == &counting)
        w->wrong += counted - before != w->launched;
    return NULL;
}

static void run_threads(struct setting *s, const char *what) {
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    char line[160];
    long wrong = 0, launched = 0;
    for (int i = 0; i < THREADS; i++) {
        workers[i] =
            (struct worker){s, i, tern_emulated_alloc((size_t)(2 * s->m * s->layer.n)), aligned_alloc(256, OWN_BYTES), 0, 0};
        if (pthread_create(&threads[i], NULL, work, &workers[i]))
            abort();
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        wrong += workers[i].wrong;
        launched += workers[i].launched;
        free(workers[i].own);
    }
    snprintf(line, sizeof line, "%d threads, %ld launches on %s, %ld wrong", THREADS, launched, what, wrong);
    expect(wrong == 0 && launched > 0, line, NULL);
}

/* What a launch costs in this library: processor time of this thread on the machine that only counts. */
static void time_launches(struct setting *s) {
    struct tern_rt_call call = {.x = s->x, .y = s->y};
    struct timespec from, to;
    char line[120];
    const int count = 200000;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (int i = 0; i < count; i++) {
        call.m = 1 + i % s->m;
        failures += tern_rt_launch(s->rt, &s->layer, &call, NULL) != TERN_RT_OK;
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    double ns = (1e9 * (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec)) / count;
    snprintf(line, sizeof line, "%.0f ns of a launch outside of the driver, at most 300", ns);
    expect(ns <= 300.0, line, NULL);
}

/* ---- what is refused ---- */

static void check_launches(struct setting *s) {
    struct tern_rt_error err = {0};
    const struct tern_rt_call good = {.x = s->x, .y = s->y, .m = 1};
    struct tern_rt_call call = good;
    struct tern_rt_layer layer = s->layer;
    call.m = 0, call.x = NULL;
    expect(tern_rt_launch(s->rt, &layer, &call, &err) == TERN_RT_OK, "m = 0 returns at once", NULL);
    call = good, call.m = -1;
    expect(tern_rt_launch(s->rt, &layer, &call, &err) == TERN_RT_ARGUMENT, "negative m", &err);
    call = good, call.m = (int64_t)1 << 40;
    expect(tern_rt_launch(s->rt, &layer, &call, &err) == TERN_RT_NO_KERNEL, "m of 2^40", &err);
    call = good, call.x = (char *)s->x + 2;
    expect(tern_rt_launch(s->rt, &layer, &call, &err) == TERN_RT_ARGUMENT, "misaligned x", &err);
    call = good, call.y = NULL;
    expect(tern_rt_launch(s->rt, &layer, &call, &err) == TERN_RT_ARGUMENT, "no y", &err);
    layer.codes = (const char *)layer.codes + 16;
    expect(tern_rt_launch(s->rt, &layer, &good, &err) == TERN_RT_ARGUMENT, "misaligned weights", &err);
    expect(tern_rt_pool_add(s->rt, NULL, 4096, &err) == TERN_RT_OK, "a workspace for the default stream", NULL);
    expect(tern_rt_pool_add(s->rt, NULL, 4096, &err) == TERN_RT_ARGUMENT, "a second workspace for a stream", &err);
    expect(tern_rt_pool_add(s->rt, s, 0, &err) == TERN_RT_ARGUMENT, "a workspace of no bytes", &err);
}

/* A copy of the first table whose kernels want workspace, to see who brings it; much of it where M is large. */
static void fat_launch(struct tern_choice *c, int64_t m, int64_t n, int64_t k) {
    (void)n, (void)k;
    c->grid[0] = c->grid[1] = c->grid[2] = c->block = c->cluster = 1;
    c->smem_bytes = 0;
    c->workspace_bytes = m > 17 ? 4096 + m : 4096;
}

static void check_workspace(struct setting *s) {
    struct tern_rt_error err = {0};
    int count;
    struct tern_table table = *tern_tables(&count);
    struct tern_kernel_ *kernels = malloc((size_t)table.kernel_count * sizeof *kernels);
    static char memory[8192] __attribute__((aligned(256)));
    struct tern_rt_options o = {.tables = &table, .table_count = 1, .kernels_path = s->kernels, .driver = &counting};
    struct tern_rt *rt = NULL;
    struct tern_rt_call call = {.x = s->x, .y = s->y, .m = 1};
    memcpy(kernels, table.kernels, (size_t)table.kernel_count * sizeof *kernels);
    for (int i = 0; i < table.kernel_count; i++)
        kernels[i].launch = fat_launch;
    table.kernels = kernels;
    expect(tern_rt_open(&o, &rt, &err) == TERN_RT_OK, "a table that wants workspace", NULL);
    expect(tern_rt_workspace_bytes(rt, &s->layer, 17) == 4096, "says how much", NULL);
    expect(tern_rt_workspace_bytes(rt, &s->layer, 64) == 4160, "case 67: by the M of the call", NULL);
    expect(tern_rt_launch(rt, &s->layer, &call, &err) == TERN_RT_WORKSPACE, "nobody brings it", &err);
    call.workspace = memory, call.workspace_bytes = 4095;
    expect(tern_rt_launch(rt, &s->layer, &call, &err) == TERN_RT_WORKSPACE, "workspace too small", &err);
    struct setting threaded = *s;
    threaded.rt = rt, threaded.want = NULL, threaded.launches = 20000;
    run_threads(&threaded, "workspaces of streams");
    call.workspace = memory + 8, call.workspace_bytes = 4096;
    expect(tern_rt_launch(rt, &s->layer, &call, &err) == TERN_RT_ARGUMENT, "workspace misaligned", &err);
    call.workspace = memory;
    expect(tern_rt_launch(rt, &s->layer, &call, &err) == TERN_RT_OK, "the caller brings it", NULL);
    call.workspace = NULL, call.stream = &err;
    expect(tern_rt_pool_add(rt, &err, 2048, &err) == TERN_RT_OK &&
               tern_rt_launch(rt, &s->layer, &call, &err) == TERN_RT_WORKSPACE,
           "the stream's is too small", &err);
    call.stream = &call;
    expect(tern_rt_pool_add(rt, &call, 4096, &err) == TERN_RT_OK &&
               tern_rt_launch(rt, &s->layer, &call, &err) == TERN_RT_OK && workspace && workspace != memory,
           "the stream brings it", NULL);
    tern_rt_close(rt);
    free(kernels);
}

static void check_layers(struct setting *s) {
    struct tern_rt_error err = {0};
    struct tern_rt_layer layer = {0};
    static const struct {
        const char *format, *what;
        int64_t n, k;
        enum tern_rt_status status;
    } bad[] = {{"ternery", "unknown format", 384, 256, TERN_RT_ARGUMENT},
               {"ternary-g128", "n that is no multiple of 8", 380, 256, TERN_RT_ARGUMENT},
               {"ternary-g128", "k of 0", 384, 0, TERN_RT_ARGUMENT},
               {"ternary-g128", "group larger than k", 384, 96, TERN_RT_ARGUMENT},
               {"gptq8-channel", "format that the table lacks", 384, 256, TERN_RT_NO_KERNEL}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect(tern_rt_layer(s->rt, bad[i].format, NULL, bad[i].n, bad[i].k, &layer, &err) == bad[i].status, bad[i].what,
               &err);
    uint8_t codes[16] = {0};
    uint16_t scales[16] = {0};
    struct tern_rt_weights w = {codes, scales, NULL, s->layer.n * s->layer.k - 1, 2 * s->layer.groups * s->layer.n, 0};
    expect(tern_rt_pack(&s->layer, &w, codes, scales, NULL, &err) == TERN_RT_ARGUMENT, "codes too short", &err);
    w.code_bytes++, w.scale_bytes -= 2;
    expect(tern_rt_pack(&s->layer, &w, codes, scales, NULL, &err) == TERN_RT_ARGUMENT, "scales of another group", &err);
    w.scale_bytes += 2, w.scales = (uint16_t *)(void *)((char *)scales + 1);
    expect(tern_rt_pack(&s->layer, &w, codes, scales, NULL, &err) == TERN_RT_ARGUMENT, "scales misaligned", &err);
}

/* The counting machine as GPUs of several kinds. */
static void check_devices(struct setting *s) {
    static const struct {
        const char *name, *what;
        int cc;
        int64_t sms;
        enum tern_match worst, match; /* NONE: refused */
    } gpus[] = {{"NVIDIA H200", "the GPU itself", 90, 132, TERN_MATCH_EXACT, TERN_MATCH_EXACT},
                {"NVIDIA H100 PCIe", "a GPU of the same capability", 90, 114, TERN_MATCH_NEAR, TERN_MATCH_NEAR},
                {"NVIDIA H100 PCIe", "the same where only exact is wanted", 90, 114, TERN_MATCH_EXACT, TERN_MATCH_NONE},
                {"NVIDIA B200", "another family", 100, 148, TERN_MATCH_NONE, TERN_MATCH_NONE},
                {"NVIDIA A100", "an older one", 80, 108, TERN_MATCH_NONE, TERN_MATCH_NONE}};
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        struct tern_rt *rt = NULL;
        struct tern_rt_error err;
        enum tern_match match = TERN_MATCH_NONE;
        pretended = (struct tern_rt_device){"", gpus[i].cc, gpus[i].sms, 232448};
        snprintf(pretended.name, sizeof pretended.name, "%s", gpus[i].name);
        enum tern_rt_status status = open_with(s, gpus[i].worst, &rt, &err);
        if (rt)
            (void)tern_rt_table(rt, &match);
        expect(match == gpus[i].match && (status == TERN_RT_OK ? match != TERN_MATCH_NONE : status == TERN_RT_OTHER_GPU),
               gpus[i].what, &err);
        tern_rt_close(rt);
    }
}

/* A launch is dependent if the caller wants it and the kernel was tuned so. */
static void check_dependent(const struct setting *s) {
    struct tern_rt_options o = {.kernels_path = s->kernels, .driver = s->driver};
    struct tern_rt_call call = {.x = s->x, .y = s->y, .m = s->m, .stream = &o};
    struct tern_table table = *tern_tables(&o.table_count);
    struct tern_kernel_ *kernels = malloc((size_t)table.kernel_count * sizeof *kernels);
    struct tern_rt_error err;
    memcpy(kernels, table.kernels, (size_t)table.kernel_count * sizeof *kernels);
    table.kernels = kernels;
    o.tables = &table, o.table_count = 1;
    for (int can = 0; can < 2; can++) {
        struct tern_rt *rt = NULL;
        for (int i = 0; i < table.kernel_count; i++)
            kernels[i].kernel.dependent = can;
        expect(tern_rt_open(&o, &rt, &err) == TERN_RT_OK && tern_rt_pool_add(rt, &o, OWN_BYTES, &err) == TERN_RT_OK,
               can ? "a table of dependent kernels" : "a table of plain kernels", &err);
        for (call.dependent = 0; call.dependent < 2; call.dependent++) {
            dependent = -1;
            expect(tern_rt_launch(rt, &s->layer, &call, &err) == TERN_RT_OK && dependent == (can && call.dependent),
                   call.dependent ? "launched where dependence is allowed" : "launched where it is not", &err);
        }
        tern_rt_close(rt);
    }
    free(kernels);
}

/* Archives that are missing, not archives, or damaged in the middle. */
static void check_archives(struct setting *s) {
    struct tern_rt *rt = NULL;
    struct tern_rt_error err;
    struct tern_rt_options o = {.driver = s->driver};
    char *data = malloc(1 << 24);
    FILE *file = fopen(s->kernels, "rb");
    size_t bytes = file ? fread(data, 1, 1 << 24, file) : 0;
    o.tables = tern_tables(&o.table_count);
    o.kernels = data, o.kernels_bytes = bytes;
    expect(bytes > 100, "the packed kernels are there", NULL);
    data[bytes - 1] ^= 1;
    expect(tern_rt_open(&o, &rt, &err) == TERN_RT_DAMAGED && !rt, "a damaged kernel", &err);
    o.kernels_bytes = 40;
    expect(tern_rt_open(&o, &rt, &err) == TERN_RT_DAMAGED, "a file cut short", &err);
    o.kernels = "TERNKRN1\0\0\0\0\0\0\0", o.kernels_bytes = 16;
    expect(tern_rt_open(&o, &rt, &err) == TERN_RT_NO_KERNEL, "an archive that lacks the kernels", &err);
    o.kernels = NULL, o.kernels_path = "/nowhere/tern_kernels.bin";
    expect(tern_rt_open(&o, &rt, &err) == TERN_RT_ARGUMENT, "no file", &err);
    o.tables = NULL;
    expect(tern_rt_open(&o, &rt, NULL) == TERN_RT_ARGUMENT, "no tables, and nobody who wants to know", NULL);
    expect(tern_rt_open_folder("/nowhere", 0, TERN_MATCH_NONE, &rt, &err) == TERN_RT_ARGUMENT, "no folder", &err);
    fclose(file);
    free(data);
}

/* A layer of bfloat16 with the same packed weights: row 0 of x is 2^100 at one k, which binary16 cannot hold, row 1 is zero. */
static void check_bf16(struct setting *s) {
    enum { HOT = 77 };
    struct tern_rt_layer layer;
    struct tern_rt_error err = {0};
    const int64_t n = s->layer.n, k = s->layer.k;
    uint16_t *x = tern_emulated_alloc((size_t)(4 * k)), *y = tern_emulated_alloc((size_t)(4 * n)),
             *bias = tern_emulated_alloc((size_t)(2 * n));
    const struct tern_rt_call call = {.x = x, .y = y, .m = 2};
    expect(tern_rt_layer(s->rt, "ternary-g128", "linear-bf16", n, k, &layer, &err) == TERN_RT_OK, "a layer of bfloat16",
           &err);
    layer.codes = s->layer.codes, layer.scales = s->layer.scales, layer.bias = bias;
    memset(x, 0, (size_t)(4 * k));
    x[HOT] = tern_activation_from_double(TERN_BF16, 0x1p100);
    for (int64_t i = 0; i < n; i++)
        bias[i] = tern_activation_from_double(TERN_BF16, (double)(i % 7) * (i % 2 ? 1 : 0x1p97));
    expect(tern_rt_launch(s->rt, &layer, &call, &err) == TERN_RT_OK, "one launch in bfloat16", &err);
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        const double scale =
            tern_activation_to_double(TERN_F16, (uint16_t)(0x3400 + i % 64)); /* as fill() made it: group 0 */
        const double product = scale * (double)((i * k + HOT) * 7 % 11 % 3 - 1) * 0x1p100;
        const double add = tern_activation_to_double(TERN_BF16, bias[i]);
        wrong += y[i] != tern_activation_from_double(TERN_BF16, (double)(float)(product + add)); /* the sum is fp32 */
        wrong += !(tern_activation_to_double(TERN_BF16, y[n + i]) == add);
    }
    expect(wrong == 0, "y and bias in bfloat16", &err);
}

/* The same threads on the emulator: every y must be that of a launch alone. */
static void check_emulator(struct setting *s) {
    struct tern_rt_call call = {.x = s->x, .y = s->y, .m = s->m};
    const size_t bytes = (size_t)(2 * s->m * s->layer.n);
    struct tern_rt_error err;
    s->driver = &tern_rt_driver_emulated;
    expect(open_with(s, TERN_MATCH_NONE, &s->rt, &err) == TERN_RT_OK, "the emulator", &err);
    expect(tern_rt_launch(s->rt, &s->layer, &call, &err) == TERN_RT_OK, "one launch", &err);
    s->want = malloc(bytes);
    memcpy(s->want, s->y, bytes);
    s->launches = 6;
    run_threads(s, "the emulator");
    check_bf16(s);
    call.stream = (void *)(uintptr_t)tern_emulated_foreign_stream;
    expect(tern_rt_launch(s->rt, &s->layer, &call, &err) == TERN_RT_STREAM, "a stream of another device", &err);
    tern_rt_close(s->rt);
    free(s->want);
    s->driver = &counting;
}

int main(int argc, char **argv) {
    struct setting s = {.driver = &counting, .m = 17, .launches = 20000};
    struct tern_rt_error err;
    char kernels[4096];
    if (argc < 2)
        return 2;
    snprintf(kernels, sizeof kernels, "%s/tern_kernels.bin", argv[1]);
    s.kernels = kernels;
    pretended = (struct tern_rt_device){"NVIDIA H200", 90, 132, 232448};
    if (open_with(&s, TERN_MATCH_EXACT, &s.rt, &err) ||
        tern_rt_layer(s.rt, "ternary-g128", NULL, 384, 256, &s.layer, &err)) {
        printf("not ok %s\n", err.text);
        return 1;
    }
    fill(&s);
    run_threads(&s, "a machine that counts");
    if (argc > 2) /* not under ThreadSanitizer, which makes it slow */
        time_launches(&s);
    check_launches(&s);
    check_workspace(&s);
    check_layers(&s);
    check_dependent(&s);
    check_archives(&s);
    tern_rt_close(s.rt);
    check_emulator(&s);
    check_devices(&s);
    return failures != 0;
}
