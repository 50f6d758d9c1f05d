/* tern_rt on a table of linear-a8 or linear-e4m3, on the emulator: two launches an answer, and y of both against the host's own quantisation.
 * usage: test_a8 FOLDER rounded|exact|e4m3: linear-a8, and what its kernels are to do with group scales, or linear-e4m3. The header is
 * compiled in. */
#define TERN_DISPATCH_IMPLEMENTATION
#include "tern_dispatch.h"

#include "emulated.h"

#include "verify/quantise.h"
#include "verify/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What the kernels compute. */
struct kind {
    const char *name, *op;
    enum tern_activation type;
    enum tern_arithmetic arithmetic;
    enum tern_exactness exactness;
};
static const struct kind kinds[] = {
    {"exact", "linear-a8", TERN_INT8, TERN_ARITHMETIC_A8, TERN_EXACT_SUMS},
    {"rounded", "linear-a8", TERN_INT8, TERN_ARITHMETIC_A8_ROUNDED, TERN_EXACT_SUMS},
    {"e4m3", "linear-e4m3", TERN_E4M3, TERN_ARITHMETIC_E4M3, TERN_E4M3_SUMS},
};

static int failures;

static void expect(int ok, const char *what, const struct tern_rt_error *err) {
    printf("%s %s%s%s\n", ok ? "ok" : "not ok", what, err && err->text[0] ? ": " : "", err ? err->text : "");
    failures += !ok;
}

struct problem {
    int64_t m, n, k;
    struct tern_weights w; /* canonical */
    uint16_t *x, *bias;    /* device memory, which the host can read */
    struct tern_rt_layer layer;
    struct tern_rt_call call;
};

static int make_problem(const struct tern_rt *rt, const char *name, const struct kind *kind, struct problem *p,
                        struct tern_rt_error *err) {
    struct tern_format format;
    struct tern_error why;
    if (tern_format_parse(name, &format, &why) || tern_weights_random(&format, p->n, p->k, 7, &p->w, &why) ||
        tern_rt_layer(rt, name, kind->op, p->n, p->k, &p->layer, err))
        return 0;
    const int64_t entries = p->w.groups * p->n;
    const struct tern_rt_weights canonical = {p->w.codes,  p->w.scales, p->w.zeros,
                                              p->n * p->k, 2 * entries, p->w.zeros ? entries : 0};
    void *codes = tern_emulated_alloc((size_t)p->layer.code_bytes),
         *scales = tern_emulated_alloc((size_t)p->layer.scale_bytes),
         *zeros = tern_emulated_alloc((size_t)p->layer.zero_bytes);
    p->x = tern_emulated_alloc((size_t)(2 * p->m * p->k));
    p->bias = tern_emulated_alloc((size_t)(2 * p->n));
    tern_activations_random(kind->type, p->m, p->k, 8, p->x);
    tern_activations_random(kind->type, 1, p->n, 9, p->bias);
    p->layer.codes = codes, p->layer.scales = scales, p->layer.zeros = p->layer.zero_bytes ? zeros : NULL;
    p->layer.bias = p->bias;
    p->call = (struct tern_rt_call){.x = p->x, .y = tern_emulated_alloc((size_t)(2 * p->m * p->n)), .m = p->m};
    memset(p->call.y, 0xFF, (size_t)(2 * p->m * p->n)); /* NaN */
    return tern_rt_pack(&p->layer, &canonical, codes, scales, zeros, err) == TERN_RT_OK;
}

/* All of y against FP64 on what the host makes of x, and of the group scales if they are rounded. */
static int right(struct problem *p, const struct kind *kind) {
    const int rounded = kind->arithmetic == TERN_ARITHMETIC_A8_ROUNDED;
    const size_t count = (size_t)(p->m * p->n);
    uint16_t *codes = malloc((size_t)(2 * p->m * p->k));
    float *scales = malloc((size_t)p->m * sizeof *scales), *units = malloc((size_t)p->n * sizeof *units);
    int64_t *indices = malloc((size_t)(p->m + p->n) * sizeof *indices);
    double *ref = malloc(count * sizeof *ref), *size = malloc(count * sizeof *size);
    const struct tern_precision precision = {p->k, kind->type, kind->exactness};
    struct tern_mismatch mismatch = {0};
    for (int64_t i = 0; i < p->m + p->n; i++)
        indices[i] = i;
    tern_quantise_activations(kind->arithmetic, p->x, p->m, p->k, codes, scales);
    if (rounded)
        tern_quantise_scales(&p->w, p->w.scales, units);
    tern_reference_compute(&p->w, kind->type, codes, indices, p->m, indices, p->n, ref, size);
    tern_reference_scale(p->m, p->n, scales, rounded ? units : NULL, ref, size);
    for (size_t i = 0; i < count; i++) {
        const double bias = tern_activation_to_double(kind->type, p->bias[i % (size_t)p->n]);
        ref[i] += bias;
        size[i] += fabs(bias);
    }
    const int same = tern_reference_compare(p->call.y, p->n, indices, p->m, indices, p->n, ref, size, &precision, &mismatch);
    free(codes), free(scales), free(units), free(indices), free(ref), free(size);
    return same;
}

static void check_problem(struct tern_rt *rt, const char *format, struct problem p, const struct kind *kind) {
    struct tern_rt_error err = {0};
    char line[160];
    const int made = make_problem(rt, format, kind, &p, &err);
    expect(made, "a layer of rounded activations is packed", &err);
    if (!made)
        return;
    const struct tern_choice choice = tern_rt_choice(rt, &p.layer, p.m);
    expect(choice.kernel && choice.kernel->prologue && choice.prologue_grid >= p.m && choice.prologue_block > 0 &&
               choice.kernel->rounds_scales == (kind->arithmetic == TERN_ARITHMETIC_A8_ROUNDED),
           "the choice has a prologue", NULL);
    expect(tern_rt_launch(rt, &p.layer, &p.call, &err) == TERN_RT_WORKSPACE, "both need the workspace", &err);
    p.call.workspace_bytes = tern_rt_workspace_bytes(rt, &p.layer, p.m);
    p.call.workspace = tern_emulated_alloc((size_t)p.call.workspace_bytes);
    memset(p.call.workspace, 0xA5, (size_t)p.call.workspace_bytes);
    err.text[0] = 0;
    expect(tern_rt_launch(rt, &p.layer, &p.call, &err) == TERN_RT_OK, "one call launches both", &err);
    snprintf(line, sizeof line, "%s M=%ld N=%ld K=%ld, %s: y is the reference's", format, (long)p.m, (long)p.n, (long)p.k,
             kind->name);
    expect(right(&p, kind), line, NULL);
    p.call.m = 64;
    expect(tern_rt_launch(rt, &p.layer, &p.call, &err) == TERN_RT_NO_KERNEL, "fewer rows than the template takes", &err);
    tern_weights_free(&p.w);
}

int main(int argc, char **argv) {
    struct tern_rt *rt = NULL;
    struct tern_rt_error err = {0};
    struct tern_rt_layer layer;
    char kernels[4096];
    const struct kind *kind = NULL;
    for (size_t i = 0; argc == 3 && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(argv[2], kinds[i].name) == 0)
            kind = &kinds[i];
    if (!kind)
        return 2;
    snprintf(kernels, sizeof kernels, "%s/tern_kernels.bin", argv[1]);
    struct tern_rt_options o = {.kernels_path = kernels, .driver = &tern_rt_driver_emulated};
    o.tables = tern_tables(&o.table_count);
    expect(tern_rt_open(&o, &rt, &err) == TERN_RT_OK, "every kernel and its prologue are found", &err);
    if (!rt)
        return 1;
    for (int i = 0; i < o.tables->family_count; i++) {
        const char *format = o.tables->families[i].format;
        check_problem(rt, format, (struct problem){.m = 128, .n = 384, .k = 256}, kind);
        check_problem(rt, format, (struct problem){.m = 100, .n = 264, .k = 384}, kind);
        expect(tern_rt_layer(rt, format, NULL, 384, 256, &layer, &err) == TERN_RT_NO_KERNEL, "no answer for another op",
               &err);
    }
    tern_rt_close(rt);
    return failures != 0;
}
