/* Bench of unit.cu: random ternary weights in one of its three forms, each kernel checked against FP64 and timed as `tune` times: a graph
 * of at least 20 launches over copies of the weights that together are 2.5 times the L2, the median of 31 replays.
 * usage: bench compile|emu|gpu LIST. A line of LIST: FORM R WARPS TILES STAGES BULK DEPENDENT N K BLOCKS. compile writes
 * cubins/FORM-R-... beside unit.cu (no GPU needed), gpu runs them, emu compiles and runs on the CPU. Links with build/libtern.a. */
#include "core/file.h"
#include "core/half.h"
#include "core/str.h"
#include "device/compiler.h"
#include "device/cuda_timing.h"
#include "device/emu.h"
#include "measure/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER     "results/v0.4/h200/bench/base3/"
#define SAMPLES    31
#define MAX_COPIES 256
#define COLD_BYTES (2.5 * 60 * 1048576)

struct line {
    int form, r, warps, tiles, stages, bulk, dependent;
    long long n, k, blocks;
};

/* Codes 0, 1, 2 [N][K]; scales binary16 [N][K/128]; x binary16 [K]; what y should be and the sum of |x w scale|, both FP64. */
struct problem {
    long long n, k;
    uint8_t *code;
    uint16_t *scale, *x;
    double *want, *magnitude;
    uint8_t *packed; /* in this form */
    int form, r;
};

struct bench {
    const struct tern_backend *backend;
    void *context;
    bool gpu;
    struct problem p;
};

static struct tern_error err;

static void check(enum tern_status status) {
    if (status == TERN_OK)
        return;
    printf("%s\n", err.text);
    exit(1);
}

static uint64_t state = 88172645463325252ull;
static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}
static double uniform(void) {
    return (double)(next_random() >> 11) * 0x1p-53;
}
static double normal(void) {
    const double u = uniform() + 0x1p-53, v = uniform();
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* Bytes of a unit of 16 R rows and 128 k: codes, then scales. */
static size_t code_bytes(const struct line *l) {
    return l->form == 2 ? 512 * (size_t)l->r : l->form == 53 ? 1280 : 2048;
}
static size_t entry_bytes(const struct line *l) {
    return code_bytes(l) + 32 * (size_t)l->r;
}
static long long units_of(const struct line *l) {
    return (l->n + 16 * l->r - 1) / (16 * l->r);
}

static int64_t shared_bytes(const struct line *l) {
    const long long most = (units_of(l) + l->blocks - 1) / l->blocks, per_warp = (most + l->warps - 1) / l->warps + 1;
    return l->warps * l->stages * (l->tiles * (long long)entry_bytes(l) + 8) + l->k * 2 + 6 * (l->k + 16) + l->k / 128 * 16 +
           l->warps * per_warp * l->r * 60 * 4;
}

/* One byte's worth of the R row tiles: codes q of the same place in each. */
static void pack_byte(const struct line *l, const int *q, uint8_t *entry, int lane, int p, int i, int b) {
    uint8_t *at = entry + lane * 16 + i * 4 + b;
    if (l->form == 2)
        for (int r = 0; r < l->r; r++)
            at[r * 512] |= (uint8_t)(q[r] << 2 * p);
    if (l->form == 85)
        at[p * 512] = (uint8_t)(81 * q[0] + 27 * q[1] + 9 * q[2] + 3 * q[3] + q[4]);
    if (l->form == 53) { /* fields A and B, bit C: unit.cu, unit_53 */
        int a = 3, bb = q[0], c = 0;
        if (q[2] < 2)
            a = q[0], bb = q[1], c = q[2];
        else if (q[1] < 2)
            a = q[0], bb = 3, c = q[1];
        at[0] |= (uint8_t)(a << 2 * p);
        at[512] |= (uint8_t)(bb << 2 * p);
        entry[1024 + lane * 8 + i / 2 * 4 + b] |= (uint8_t)(c << (2 * p + i % 2));
    }
}

static void pack_entry(const struct line *l, const struct problem *w, long long unit, long long tile, uint8_t *entry) {
    uint16_t *scales = (uint16_t *)(void *)(entry + code_bytes(l));
    memset(entry, 0, entry_bytes(l));
    for (int place = 0; place < 32 * 64; place++) {
        const int lane = place / 64, p = place / 16 % 4, i = place / 4 % 4, b = place % 4;
        const long long k = tile * 128 + p * 32 + i / 2 * 16 + lane % 4 * 4 + b;
        int q[5];
        for (int r = 0; r < l->r; r++) {
            const long long row = (unit * l->r + r) * 16 + lane / 4 + 8 * (i & 1);
            q[r] = row < l->n ? w->code[row * l->k + k] : 1;
        }
        pack_byte(l, q, entry, lane, p, i, b);
    }
    for (int place = 0; place < 16 * l->r; place++) {
        const long long row = (unit * l->r + place / 16) * 16 + place % 16 / 2 + 8 * (place % 2);
        scales[place] = row < l->n ? w->scale[row * (l->k / 128) + tile] : 0;
    }
}

static size_t pack(const struct line *l, struct problem *w) {
    const long long tiles = l->k / 128, entries = units_of(l) * tiles;
    const size_t bytes = (size_t)entries * entry_bytes(l);
    if (w->packed && w->form == l->form && w->r == l->r)
        return bytes;
    free(w->packed);
    w->packed = malloc(bytes);
    w->form = l->form, w->r = l->r;
#pragma omp parallel for
    for (long long e = 0; e < entries; e++)
        pack_entry(l, w, e / tiles, e % tiles, w->packed + (size_t)e * entry_bytes(l));
    return bytes;
}

static void reference(struct problem *w, const double *x) {
    const long long tiles = w->k / 128;
#pragma omp parallel for
    for (long long n = 0; n < w->n; n++) {
        double sum = 0, magnitude = 0;
        for (long long t = 0; t < tiles; t++) {
            const double scale = tern_half_to_float(w->scale[n * tiles + t]);
            double part = 0, parts = 0;
            for (long long k = t * 128; k < t * 128 + 128; k++) {
                const int q = w->code[n * w->k + k] - 1;
                part += q * x[k];
                parts += q ? fabs(x[k]) : 0;
            }
            sum += part * scale;
            magnitude += parts * scale;
        }
        w->want[n] = sum;
        w->magnitude[n] = magnitude;
    }
}

static void make_problem(struct problem *w, long long n, long long k) {
    void *const old[] = {w->code, w->scale, w->x, w->want, w->magnitude, w->packed};
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++)
        free(old[i]);
    *w = (struct problem){.n = n,
                          .k = k,
                          .code = malloc((size_t)(n * k)),
                          .scale = malloc((size_t)(n * k / 128 * 2)),
                          .x = malloc((size_t)k * 2),
                          .want = malloc((size_t)n * 8),
                          .magnitude = malloc((size_t)n * 8)};
    double *x = malloc((size_t)k * 8);
    for (long long i = 0; i < n * k; i += 16) {
        uint64_t bits = next_random();
        for (int j = 0; j < 16; j++, bits >>= 4)
            w->code[i + j] = (uint8_t)((bits & 15) % 3);
    }
    for (long long i = 0; i < n * k / 128; i++)
        w->scale[i] = tern_half_from_double(0.01 + 0.02 * uniform());
    for (long long i = 0; i < k; i++) {
        w->x[i] = tern_half_from_double(normal());
        x[i] = tern_half_to_float(w->x[i]);
    }
    reference(w, x);
    free(x);
}

/* The image of a line's kernel; NULL where it was only compiled. */
static void *image_of(const struct bench *b, const char *mode, const struct line *l, const char *text, size_t *bytes) {
    struct tern_str source = {0}, log = {0};
    struct tern_compiled c = {0};
    char name[256], path[1200], include[1024], cuda[1024], *kernel = NULL;
    size_t length = 0;
    int ok = 0;
    tern_str_format(name, sizeof name, FOLDER "cubins/%d-%d-%d-%d-%d-%d-%d", l->form, l->r, l->warps, l->tiles, l->stages,
                    l->bulk, l->dependent);
    tern_str_format(path, sizeof path, "%s%s", name, ".cubin");
    if (b->gpu) {
        check(tern_file_read(path, &kernel, bytes, &err));
        return kernel;
    }
    tern_str_printf(&source,
                    "constexpr int FORM = %d, R = %d, WARPS = %d, TILES = %d, STAGES = %d, BULK = %d, DEPENDENT = %d;\n",
                    l->form, l->r, l->warps, l->tiles, l->stages, l->bulk, l->dependent);
    tern_str_append(&source, "constexpr int BITS = 2, ZERO = 1, HAS_ZEROS = 0, GROUP = 128;\n");
    check(tern_file_read(FOLDER "unit.cu", &kernel, &length, &err));
    tern_str_append_bytes(&source, kernel, length);
    free(kernel);
    if (strcmp(mode, "emu") == 0) {
        check(tern_file_home_path(name, include, sizeof include, &err));
        tern_str_format(path, sizeof path, "%s.so", include);
        check(tern_emu_compile(tern_str_text(&source), "unit", path, 0, &log, &ok, &err));
        if (!ok)
            printf("%s\n", tern_str_text(&log)), exit(1);
        *bytes = strlen(path) + 1;
        return strdup(path);
    }
    check(tern_file_home_path("templates/include", include, sizeof include, &err));
    check(tern_cuda_include_dir(cuda, sizeof cuda, &err));
    const char *const folders[] = {include, cuda};
    check(tern_nvrtc_compile(tern_str_text(&source), "unit.cu", "sm_90a", folders, 2, "base3_unit", &c, &err));
    if (!c.ok)
        printf("%s: %s\n", text, tern_str_text(&c.log)), exit(1);
    check(tern_file_write(path, c.image, c.image_bytes, &err));
    printf("%s: registers %lld spill %lld shared %lld\n", text, (long long)c.registers, (long long)c.spill_bytes,
           (long long)shared_bytes(l));
    return NULL;
}

/* Worst share of the bound that an element's error takes; the count of those beyond it. */
static double judge(const struct problem *w, const uint16_t *y, long long *wrong) {
    double worst = 0;
    *wrong = 0;
    for (long long n = 0; n < w->n; n++) {
        const double want = fabs(w->want[n]), error = fabs(tern_half_to_float(y[n]) - w->want[n]);
        const double bound =
            want * 0x1p-11 + 0x1p-25 + 0x1p-23 * ((double)(w->k / 16) * want + sqrt((double)w->k) * w->magnitude[n]);
        *wrong += !(error <= bound);
        if (!(error / bound <= worst))
            worst = error / bound;
    }
    return worst;
}

static double time_graph(const struct bench *b, const struct tern_launch *launches, size_t count) {
    struct tern_graph *graph = NULL, *graphs[SAMPLES];
    double samples[SAMPLES];
    struct tern_stats stats;
    check(tern_graph_capture(b->context, launches, count, &graph, &err));
    for (int i = 0; i < SAMPLES; i++)
        graphs[i] = graph;
    check(tern_graph_times(b->context, graphs, SAMPLES, samples, &err));
    tern_stats_compute(samples, SAMPLES, &stats);
    tern_graph_free(b->context, graph);
    return stats.median;
}

static void run_line(struct bench *b, const struct line *l, void *image, size_t image_bytes, const char *text) {
    const struct tern_backend *be = b->backend;
    void *weights, *x, *y, *module, *function;
    struct tern_launch launches[MAX_COPIES];
    const size_t bytes = pack(l, &b->p), stride = (bytes + 255) / 256 * 256;
    size_t copies = b->gpu ? (size_t)(COLD_BYTES / (double)bytes) + 2 : 1, count;
    long long wrong;
    copies = copies < MAX_COPIES ? copies : MAX_COPIES;
    for (count = copies; count < 20;)
        count += copies;
    count = count < MAX_COPIES ? count : MAX_COPIES;
    check(be->alloc(b->context, stride * copies, &weights, &err));
    check(be->alloc(b->context, (size_t)l->k * 2, &x, &err));
    check(be->alloc(b->context, (size_t)l->n * 2, &y, &err));
    check(be->upload(b->context, x, b->p.x, (size_t)l->k * 2, &err));
    check(be->upload(b->context, weights, b->p.packed, bytes, &err));
    for (size_t i = 1; i < copies; i++)
        check(be->copy(b->context, (char *)weights + i * stride, weights, bytes, &err));
    check(be->module_load(b->context, image, image_bytes, "base3_unit", shared_bytes(l), &module, &function, &err));
    for (size_t i = 0; i < count; i++)
        launches[i] = (struct tern_launch){
            .function = function,
            .grid = {l->blocks, 1, 1},
            .block = 32 * l->warps,
            .cluster = 1,
            .smem_bytes = shared_bytes(l),
            .dependent = l->dependent,
            .args = {.x = x, .codes = (char *)weights + i % copies * stride, .y = y, .m = 1, .n = l->n, .k = l->k}};
    check(be->fill(b->context, y, 0xFFFFFFFFu, (size_t)l->n * 2 / 4 * 4, &err));
    check(be->launch(b->context, &launches[count - 1], &err));
    check(be->synchronize(b->context, &err));
    uint16_t *got = malloc((size_t)l->n * 2);
    check(be->download(b->context, got, y, (size_t)l->n * 2, &err));
    const double worst = judge(&b->p, got, &wrong);
    if (wrong)
        printf("WRONG %lld of %lld | %s\n", wrong, l->n, text);
    else if (!b->gpu)
        printf("ok worst %.3f of the bound | %s\n", worst, text);
    else {
        const double us = time_graph(b, launches, count);
        printf("%8.2f us %6.0f GB/s %.4f bits a weight, worst %.2f of the bound, shared %lld | %s\n", us,
               (double)bytes / us * 1e-3, 8.0 * (double)bytes / (double)(l->n * l->k), worst, (long long)shared_bytes(l),
               text);
    }
    fflush(stdout);
    free(got);
    be->module_unload(b->context, module);
    void *const buffers[] = {weights, x, y};
    for (size_t i = 0; i < 3; i++)
        be->release(b->context, buffers[i]);
}

int main(int argc, char **argv) {
    struct bench b = {0};
    struct line l;
    char text[256];
    FILE *list = argc == 3 ? fopen(argv[2], "r") : NULL;
    if (!list)
        return 2;
    b.gpu = strcmp(argv[1], "gpu") == 0;
    b.backend = b.gpu ? &tern_backend_cuda : &tern_backend_emu;
    check(b.backend->open(0, &b.context, &err));
    if (b.gpu)
        check(tern_cuda_settle(b.context, 2.0, &err));
    while (fgets(text, sizeof text, list)) {
        size_t bytes = 0;
        if (sscanf(text, "%d %d %d %d %d %d %d %lld %lld %lld", &l.form, &l.r, &l.warps, &l.tiles, &l.stages, &l.bulk,
                   &l.dependent, &l.n, &l.k, &l.blocks) < 10)
            continue;
        text[strcspn(text, "\n")] = 0;
        void *image = image_of(&b, argv[1], &l, text, &bytes);
        if (image && (l.n != b.p.n || l.k != b.p.k))
            make_problem(&b.p, l.n, l.k);
        if (image)
            run_line(&b, &l, image, bytes, text);
        free(image);
    }
    fclose(list);
    return 0;
}
