/* Runs one quantised linear layer by an exported table and compares every element with an FP64 reference on the CPU.
 *     layer FOLDER FORMAT M N K [OP]      e.g. layer dispatch ternary-g128 4 3584 3584 (the o projection of Qwen2.5-7B)
 * OP: linear-a16 (default), or linear-a8 or linear-e4m3, which round x to int8 or e4m3 in the launch, one scale a row.
 * FOLDER is what `tune export` wrote; its header is compiled into this program. Exit 1: an element is wrong. */
#include "device.h"

#include <tern_rt.h>
#define TERN_DISPATCH_IMPLEMENTATION
#include "tern_dispatch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef TERN_EXAMPLE_MATCH
#define TERN_EXAMPLE_MATCH TERN_MATCH_DEFAULT /* take whatever can run here */
#endif

struct problem {
    int64_t m, n, k;
    struct tern_rt_layer layer;
    struct tern_rt_weights weights; /* canonical, on the host */
    int zero;                       /* zero point of symmetric formats */
    int rounds_scales;              /* the kernel rounds group scales of W as well */
    uint16_t *x, *bias, *y;         /* binary16, on the host */
};

static void require(enum tern_rt_status status, const struct tern_rt_error *err) {
    if (status == TERN_RT_OK)
        return;
    fprintf(stderr, "tern_rt: %s: %s\n", tern_rt_status_name(status), err->text);
    exit(status == TERN_RT_NO_DRIVER || status == TERN_RT_OTHER_GPU ? 3 : 1);
}

/* Values that binary16 holds exactly make rounding of the inputs no question: multiples of 1/64 in [-1, 1). */
static uint32_t state = 1;
static uint32_t draw(void) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static uint16_t half_of(int sixty_fourths) {
    int magnitude = abs(sixty_fourths), exponent = 15 - 6;
    uint16_t sign = sixty_fourths < 0 ? 0x8000 : 0;
    if (!magnitude)
        return sign;
    while (magnitude >= 2 << 10)
        magnitude >>= 1, exponent++;
    while (magnitude < 1 << 10)
        magnitude <<= 1, exponent--;
    return (uint16_t)(sign | (exponent + 10) << 10 | (magnitude & 0x3FF));
}

static double value_of(uint16_t half) {
    int exponent = half >> 10 & 31, fraction = half & 0x3FF;
    double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                  : ldexp(fraction, -24);
    return half & 0x8000 ? -value : value;
}

/* Codes are the legal ones of the format: three of ternary, 2^bits of gptq ("gptq4-g128"). */
static int code_count(const char *format, int *zero) {
    int bits = strncmp(format, "gptq", 4) == 0 ? format[4] - '0' : 0;
    *zero = bits ? 1 << (bits - 1) : 1;
    return bits ? 1 << bits : 3;
}

static void fill(struct problem *p) {
    const int codes = code_count(p->layer.format, &p->zero);
    const int64_t entries = p->layer.groups * p->n;
    p->weights.code_bytes = p->n * p->k;
    p->weights.scale_bytes = 2 * entries;
    p->weights.zero_bytes = p->layer.zero_bytes ? entries : 0;
    p->weights.codes = malloc((size_t)p->weights.code_bytes);
    p->weights.scales = malloc((size_t)p->weights.scale_bytes);
    p->weights.zeros = p->layer.zero_bytes ? malloc((size_t)entries) : NULL;
    p->x = malloc((size_t)(2 * p->m * p->k));
    p->y = malloc((size_t)(2 * p->m * p->n));
    p->bias = malloc((size_t)(2 * p->n));
    for (int64_t i = 0; i < p->n * p->k; i++)
        p->weights.codes[i] = (uint8_t)(draw() % (uint32_t)codes);
    for (int64_t i = 0; i < entries; i++)
        p->weights.scales[i] = half_of((int)(draw() % 3) + 1);
    for (int64_t i = 0; i < entries && p->weights.zeros; i++)
        p->weights.zeros[i] = (uint8_t)(draw() % (uint32_t)codes);
    for (int64_t i = 0; i < p->m * p->k; i++)
        p->x[i] = half_of((int)(draw() % 128) - 64);
    for (int64_t i = 0; i < p->n; i++)
        p->bias[i] = half_of((int)(draw() % 128) - 64);
}

static void *upload(const void *from, int64_t bytes) {
    void *to = bytes ? device_alloc((size_t)bytes) : NULL;
    device_upload(to, from, (size_t)bytes);
    return to;
}

/* Packs on the host, unpacks again to see that nothing is lost, uploads. */
static void pack(struct problem *p) {
    struct tern_rt_error err;
    struct tern_rt_weights back = p->weights;
    void *codes = malloc((size_t)p->layer.code_bytes), *scales = malloc((size_t)p->layer.scale_bytes),
         *zeros = malloc((size_t)p->layer.zero_bytes + 1);
    back.codes = malloc((size_t)back.code_bytes);
    require(tern_rt_pack(&p->layer, &p->weights, codes, scales, zeros, &err), &err);
    require(tern_rt_unpack(&p->layer, codes, scales, zeros, &back, &err), &err);
    if (memcmp(back.codes, p->weights.codes, (size_t)back.code_bytes) != 0) {
        fprintf(stderr, "packing is not exact\n");
        exit(1);
    }
    p->layer.codes = upload(codes, p->layer.code_bytes);
    p->layer.scales = upload(scales, p->layer.scale_bytes);
    p->layer.zeros = upload(zeros, p->layer.zero_bytes);
    p->layer.bias = upload(p->bias, 2 * p->n);
    free(codes);
    free(scales);
    free(zeros);
    free(back.codes);
}

static void launch(struct tern_rt *rt, struct problem *p) {
    struct tern_rt_error err;
    const struct tern_choice choice = tern_rt_choice(rt, &p->layer, p->m);
    p->rounds_scales = choice.kernel && choice.kernel->rounds_scales;
    void *y = device_alloc((size_t)(2 * p->m * p->n));
    struct tern_rt_call call = {.x = upload(p->x, 2 * p->m * p->k), .y = y, .m = p->m};
    call.workspace_bytes = tern_rt_workspace_bytes(rt, &p->layer, p->m);
    call.workspace = call.workspace_bytes ? device_alloc((size_t)call.workspace_bytes) : NULL;
    require(tern_rt_launch(rt, &p->layer, &call, &err), &err);
    device_download(p->y, y, (size_t)(2 * p->m * p->n));
    printf("%s match: %s %s%s\n", tern_match_name(choice.match), choice.kernel->entry, choice.kernel->params,
           choice.use_cublas ? " (FP16 cuBLAS was faster here)" : "");
}

/* How far x may be off where its row's largest is `largest`: half a 127th of that in linear-a8; in linear-e4m3 a 16th of itself, or half
 * the smallest step, which is 2^-9 of a 448th. */
static double x_error(const struct problem *p, double x, double largest) {
    return strcmp(p->layer.op, "linear-e4m3") == 0 ? fmax(fabs(x) / 16, largest / 448 * 0x1p-10) : largest / 254;
}

/* What ops that round x may add to the error: that times the weights; half a 127th of the largest group scale of a row of W where those are
 * rounded, too; a 2^10th of all products for tensor cores that keep 14 bits of e4m3 sums. */
static double rounding_bound(const struct problem *p, int64_t row, int64_t col) {
    const double kept = strcmp(p->layer.op, "linear-e4m3") == 0 ? 0x1p-10 : 0;
    double largest = 0, scale = 0, sum = 0;
    if (strcmp(p->layer.op, "linear-a16") == 0)
        return 0;
    for (int64_t i = 0; i < p->k; i++)
        largest = fmax(largest, fabs(value_of(p->x[row * p->k + i])));
    for (int64_t group = 0; group < p->layer.groups; group++)
        scale = fmax(scale, value_of(p->weights.scales[group * p->n + col]));
    for (int64_t i = 0; i < p->k; i++) {
        int64_t entry = i / p->layer.group_size * p->n + col;
        double x = fabs(value_of(p->x[row * p->k + i])), error = x_error(p, x, largest);
        double code =
            fabs(p->weights.codes[col * p->k + i] - (double)(p->weights.zeros ? p->weights.zeros[entry] : p->zero));
        sum += (error + kept * (x + error)) * value_of(p->weights.scales[entry]) * code;
        if (p->rounds_scales)
            sum += scale / 254 * (x + error) * code;
    }
    return sum;
}

/* Sum in FP64 and the bound: rounding to binary16 twice, and accumulation in FP32 or of binary16 products. */
static int64_t count_wrong(const struct problem *p, double *worst) {
    int64_t wrong = 0;
    *worst = 0;
    for (int64_t row = 0; row < p->m; row++) {
        for (int64_t col = 0; col < p->n; col++) {
            double sum = 0, size = 0;
            for (int64_t i = 0; i < p->k; i++) {
                int64_t entry = i / p->layer.group_size * p->n + col;
                int zero = p->weights.zeros ? p->weights.zeros[entry] : p->zero;
                double term = value_of(p->weights.scales[entry]) * (p->weights.codes[col * p->k + i] - zero) *
                              value_of(p->x[row * p->k + i]);
                sum += term;
                size += fabs(term);
            }
            double want = sum + value_of(p->bias[col]), error = fabs(value_of(p->y[row * p->n + col]) - want);
            double bound = 0x1p-10 * (fabs(sum) + fabs(want)) + 0x1p-9 * size / sqrt((double)p->k) + 0x1p-20 * size;
            bound += rounding_bound(p, row, col);
            *worst = error / bound > *worst ? error / bound : *worst;
            wrong += !(error <= bound); /* NaN is wrong */
        }
    }
    return wrong;
}

int main(int argc, char **argv) {
    struct tern_rt *rt = NULL;
    struct tern_rt_error err;
    struct problem p = {0};
    char kernels[4096];
    double worst;
    if (argc != 6 && argc != 7) {
        fprintf(stderr, "usage: layer FOLDER FORMAT M N K [OP]\n");
        return 2;
    }
    p.m = atoll(argv[3]), p.n = atoll(argv[4]), p.k = atoll(argv[5]);
    snprintf(kernels, sizeof kernels, "%s/tern_kernels.bin", argv[1]);
    device_open(0);
    struct tern_rt_options options = {.kernels_path = kernels, .worst = TERN_EXAMPLE_MATCH, .driver = device_driver()};
    options.tables = tern_tables(&options.table_count);
    require(tern_rt_open(&options, &rt, &err), &err);
    require(tern_rt_layer(rt, argv[2], argc == 7 ? argv[6] : NULL, p.n, p.k, &p.layer, &err), &err);
    fill(&p);
    pack(&p);
    launch(rt, &p);
    int64_t wrong = count_wrong(&p, &worst);
    printf("%s M=%ld N=%ld K=%ld: %ld of %ld elements wrong, worst error %.3f of the bound\n", argv[2], (long)p.m, (long)p.n,
           (long)p.k, (long)wrong, (long)(p.m * p.n), worst);
    tern_rt_close(rt);
    return wrong || !(worst <= 1.0);
}
