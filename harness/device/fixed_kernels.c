/* Fixed device code on a CUDA context: compiles kernels/ with NVRTC when first needed and launches them.
 * Owns the modules; decides nothing about right or wrong beyond the bound that verify/reference.h gives. */
#include "device/fixed_kernels.h"

#include "core/file.h"
#include "core/str.h"
#include "device/compiler.h"
#include "device/cuda_context.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define TILE           64 /* of reference.cu */
#define THREADS        256
#define COMPARE_BLOCKS 2048 /* of compare.cu and checksum.cu */
#define CONTROL_COUNT  4096
#define CONTROL_STEPS  1000

/* One built kernel: reference, compare, checksum, control, late, pack, quantise, the probes, then dequantise for each kind of weights. */
struct kernel_row {
    const char *file, *entry;
    int bits, asym, zero;    /* dequantise only; bits 0 elsewhere */
    enum tern_activation to; /* its weights' type: TERN_F16, TERN_BF16, TERN_E4M3 */
    const char *macros;      /* probes only: what is built */
    const char *arch;        /* the only target that has its instruction; NULL: any */
};
enum { REFERENCE, COMPARE, CHECKSUM, CONTROL, LATE, PACK, QUANTISE, PROBES, DEQUANTISE = PROBES + TERN_PROBE_COUNT };
#define PROBE(probe, type, unroll, arch)                                                                                    \
    {                                                                                                                       \
        "kernels/ceiling.cu", "tern_probe", 0, 0, 0, 0,                                                                     \
            "#define TERN_PROBE " #probe "\n#define TERN_PROBE_TYPE " #type "\n#define TERN_PROBE_UNROLL " #unroll "\n",    \
            arch                                                                                                            \
    }
#define PROBE_TYPES(first, probe, arch)                                                                                     \
    [PROBES + (first)] = PROBE(probe, TERN_PROBE_F16, 1, arch), PROBE(probe, TERN_PROBE_BF16, 1, arch),                     \
              PROBE(probe, TERN_PROBE_S8, 1, arch), PROBE(probe, TERN_PROBE_E4M3, 1, arch)
#define DEQUANTISE_TO(bits, asym, zero, type)                                                                               \
    { "kernels/dequantise.cu", "tern_dequantise", bits, asym, zero, type, NULL, NULL }
#define DEQUANTISE_16(bits, asym, zero)  DEQUANTISE_TO(bits, asym, zero, TERN_F16), DEQUANTISE_TO(bits, asym, zero, TERN_BF16)
#define DEQUANTISE_ANY(bits, asym, zero) DEQUANTISE_16(bits, asym, zero), DEQUANTISE_TO(bits, asym, zero, TERN_E4M3)
static const struct kernel_row rows[] = {
    [REFERENCE] = {"kernels/reference.cu", "tern_reference", 0, 0, 0, 0, NULL, NULL},
    [COMPARE] = {"kernels/compare.cu", "tern_compare", 0, 0, 0, 0, NULL, NULL},
    [CHECKSUM] = {"kernels/checksum.cu", "tern_checksum", 0, 0, 0, 0, NULL, NULL},
    [CONTROL] = {"kernels/control.cu", "tern_control", 0, 0, 0, 0, NULL, NULL},
    [LATE] = {"kernels/late.cu", "tern_late", 0, 0, 0, 0, NULL, NULL},
    [PACK] = {"kernels/pack.cu", "tern_pack", 0, 0, 0, 0, NULL, NULL}, /* of exports; here only to be compiled by tests */
    [QUANTISE] = {"kernels/quantise.cu", "tern_quantise", 0, 0, 0, 0, NULL, "sm_90a"},
    [PROBES + TERN_FIXED_EMPTY] = PROBE(TERN_PROBE_EMPTY, TERN_PROBE_F16, 1, NULL),
    [PROBES + TERN_FIXED_READ_4] = PROBE(TERN_PROBE_READ, TERN_PROBE_F16, 4, NULL),
    [PROBES + TERN_FIXED_READ_8] = PROBE(TERN_PROBE_READ, TERN_PROBE_F16, 8, NULL),
    [PROBES + TERN_FIXED_BULK] = PROBE(TERN_PROBE_BULK, TERN_PROBE_F16, 1, NULL),
    [PROBES + TERN_FIXED_COPY] = PROBE(TERN_PROBE_COPY, TERN_PROBE_F16, 4, NULL),
    PROBE_TYPES(TERN_FIXED_MMA, TERN_PROBE_MMA, NULL),
    PROBE_TYPES(TERN_FIXED_WGMMA, TERN_PROBE_WGMMA, "sm_90a"),
    PROBE_TYPES(TERN_FIXED_WGMMA_SHARED, TERN_PROBE_WGMMA_SHARED, "sm_90a"),
    [DEQUANTISE] = DEQUANTISE_ANY(2, 0, 1), /* ternary */
    DEQUANTISE_ANY(2, 0, 2),                /* gptq, sym: zero point 2^(bits-1) */
    DEQUANTISE_ANY(3, 0, 4),
    DEQUANTISE_ANY(4, 0, 8),
    DEQUANTISE_16(8, 0, 128),
    DEQUANTISE_ANY(2, 1, 0), /* gptq, asym: zero points from memory */
    DEQUANTISE_ANY(3, 1, 0),
    DEQUANTISE_ANY(4, 1, 0),
    DEQUANTISE_16(8, 1, 0),
};
#define ROW_COUNT ((int)(sizeof rows / sizeof *rows))

struct tern_fixed {
    struct tern_cuda *cuda;
    char arch[24];
    struct {
        void *module, *function;
    } built[sizeof rows / sizeof *rows];
    struct tern_compare_result *result; /* device memory */
};

/* The text of a row's file with its macros in front. */
static enum tern_status read_source(const struct kernel_row *row, struct tern_str *source, struct tern_error *err) {
    char path[PATH_MAX], *text = NULL;
    size_t length = 0;
    enum tern_status status = tern_file_home_path(row->file, path, sizeof path, err);
    if (status == TERN_OK)
        status = tern_file_read(path, &text, &length, err);
    if (status != TERN_OK)
        return status;
    if (row->macros)
        tern_str_append(source, row->macros);
    if (row->bits)
        tern_str_printf(source,
                        "#define TERN_BITS %d\n#define TERN_ASYM %d\n#define TERN_ZERO %d\n#define TERN_BF16 %d\n"
                        "#define TERN_E4M3 %d\n",
                        row->bits, row->asym, row->zero, row->to == TERN_BF16, row->to == TERN_E4M3);
    tern_str_append_bytes(source, text, length);
    free(text);
    return TERN_OK;
}

bool tern_fixed_source(int index, struct tern_str *source, const char **entry, struct tern_error *err) {
    if (index < 0 || index >= ROW_COUNT)
        return false;
    *entry = rows[index].entry;
    return read_source(&rows[index], source, err) == TERN_OK;
}

/* Our own source must compile: a failure is an internal error, with the log. */
static enum tern_status compile(const struct kernel_row *row, const char *arch, struct tern_compiled *compiled,
                                struct tern_error *err) {
    char kernels[PATH_MAX], templates[PATH_MAX];
    const char *const dirs[] = {kernels, templates};
    struct tern_str source = {0};
    enum tern_status status = tern_file_home_path("kernels", kernels, sizeof kernels, err);
    if (status == TERN_OK)
        status = tern_file_home_path("templates/include", templates, sizeof templates, err);
    if (status == TERN_OK)
        status = read_source(row, &source, err);
    if (status == TERN_OK)
        status = tern_nvrtc_compile(tern_str_text(&source), row->file, arch, dirs, 2, row->entry, compiled, err);
    if (status == TERN_OK && !compiled->ok) {
        status = tern_error_set(err, TERN_INTERNAL, "%s does not compile for %s: %.700s", row->file, arch,
                                tern_str_text(&compiled->log));
        tern_compiled_free(compiled);
    }
    tern_str_free(&source);
    return status;
}

/* The function of row `index`, built on first use. */
static enum tern_status get(struct tern_fixed *fixed, int index, void **function, struct tern_error *err) {
    if (!fixed->built[index].function) {
        struct tern_compiled compiled;
        const char *arch = rows[index].arch ? rows[index].arch : fixed->arch;
        enum tern_status status = compile(&rows[index], arch, &compiled, err);
        if (status != TERN_OK)
            return status;
        status = tern_backend_cuda.module_load(fixed->cuda, compiled.image, compiled.image_bytes, rows[index].entry, 0,
                                               &fixed->built[index].module, &fixed->built[index].function, err);
        tern_compiled_free(&compiled);
        if (status != TERN_OK)
            return status;
    }
    *function = fixed->built[index].function;
    return TERN_OK;
}

enum tern_status tern_fixed_open(void *context, const char *arch, struct tern_fixed **fixed, struct tern_error *err) {
    struct tern_fixed *made = tern_alloc_zero(1, sizeof *made);
    void *result = NULL;
    made->cuda = context;
    if (arch)
        tern_str_copy(made->arch, sizeof made->arch, arch);
    else
        tern_str_format(made->arch, sizeof made->arch, "sm_%d", made->cuda->cc);
    *fixed = NULL;
    enum tern_status status = tern_backend_cuda.alloc(context, sizeof *made->result, &result, err);
    if (status != TERN_OK) {
        free(made);
        return status;
    }
    made->result = result;
    *fixed = made;
    return TERN_OK;
}

void tern_fixed_close(struct tern_fixed *fixed) {
    if (!fixed)
        return;
    for (int i = 0; i < ROW_COUNT; i++)
        tern_backend_cuda.module_unload(fixed->cuda, fixed->built[i].module);
    tern_backend_cuda.release(fixed->cuda, fixed->result);
    free(fixed);
}

/* The kernel loads 16 columns of one group at a time. */
enum tern_status tern_fixed_reference(struct tern_fixed *fixed, const struct tern_reference_args *args,
                                      struct tern_error *err) {
    struct tern_launch launch = {.grid = {(args->n + TILE - 1) / TILE, (args->m + TILE - 1) / TILE, 1}, .block = THREADS};
    struct tern_reference_args copy = *args;
    if (args->group_size < 16 || args->group_size % 16 != 0)
        return tern_error_set(err, TERN_INTERNAL, "reference kernel: group size %lld is not a multiple of 16",
                              args->group_size);
    enum tern_status status = get(fixed, REFERENCE, &launch.function, err);
    return status == TERN_OK ? tern_cuda_launch_raw(fixed->cuda, &launch, &copy, err) : status;
}

/* Value, reference and tolerance of the first wrong element. */
static enum tern_status describe_first(struct tern_fixed *fixed, const struct tern_compare_args *args,
                                       unsigned long long first, int64_t n, const struct tern_precision *precision,
                                       struct tern_mismatch *mismatch, struct tern_error *err) {
    uint16_t got = 0;
    float scale = 0;
    mismatch->row = (int64_t)first / n;
    mismatch->col = (int64_t)first % n;
    enum tern_status status = tern_backend_cuda.download(fixed->cuda, &got, args->y + first, sizeof got, err);
    if (status == TERN_OK)
        status = tern_backend_cuda.download(fixed->cuda, &mismatch->expected, args->y_ref + first, sizeof mismatch->expected,
                                            err);
    if (status == TERN_OK)
        status = tern_backend_cuda.download(fixed->cuda, &scale, args->bound_scale + first, sizeof scale, err);
    mismatch->got = tern_activation_to_double(precision->type, got);
    mismatch->tolerance = tern_reference_tolerance(mismatch->expected, (double)scale, precision);
    return status;
}

/* Counts start at zero on the device, `first` at the largest number; the launch and both copies keep their order. */
static enum tern_status run_compare(struct tern_fixed *fixed, struct tern_compare_args *args,
                                    struct tern_compare_result *result, struct tern_error *err) {
    struct tern_launch launch = {.grid = {COMPARE_BLOCKS, 1, 1}, .block = THREADS};
    *result = (struct tern_compare_result){.first = ~0ull};
    enum tern_status status = get(fixed, COMPARE, &launch.function, err);
    if (status == TERN_OK)
        status = tern_backend_cuda.upload(fixed->cuda, fixed->result, result, sizeof *result, err);
    if (status == TERN_OK)
        status = tern_cuda_launch_raw(fixed->cuda, &launch, args, err);
    if (status == TERN_OK)
        status = tern_backend_cuda.download(fixed->cuda, result, fixed->result, sizeof *result, err);
    return status;
}

enum tern_status tern_fixed_compare(struct tern_fixed *fixed, const void *y, const double *y_ref, const float *bound_scale,
                                    int64_t m, int64_t n, const struct tern_precision *precision,
                                    struct tern_mismatch *mismatch, int64_t *poisoned, struct tern_error *err) {
    struct tern_bound bound;
    struct tern_compare_result result;
    *mismatch = (struct tern_mismatch){0};
    if (m < 1 || n < 1)
        return tern_error_set(err, TERN_INTERNAL, "nothing to compare: %lld x %lld", (long long)m, (long long)n);
    tern_reference_bound(precision, &bound);
    struct tern_compare_args args = {.y = y,
                                     .y_ref = y_ref,
                                     .bound_scale = bound_scale,
                                     .result = fixed->result,
                                     .count = m * n,
                                     .rounding = bound.rounding,
                                     .subnormal = bound.subnormal,
                                     .of_ref = bound.of_ref,
                                     .of_scale = bound.of_scale,
                                     .overflow = bound.overflow,
                                     .bf16 = precision->type == TERN_BF16};
    enum tern_status status = run_compare(fixed, &args, &result, err);
    if (status != TERN_OK)
        return status;
    /* A comparison that did not run must not look like one that found nothing. */
    if (result.checked != (unsigned long long)args.count)
        return tern_error_set(err, TERN_FAILED, "the comparison saw %llu of %lld elements", result.checked, args.count);
    float worst = 0;
    memcpy(&worst, &result.worst_bits, sizeof worst);
    mismatch->count = (int64_t)result.mismatches;
    mismatch->checked = (int64_t)result.checked;
    mismatch->worst = (double)worst;
    if (poisoned)
        *poisoned = (int64_t)result.poisoned;
    if (result.mismatches > 0)
        status = describe_first(fixed, &args, result.first, n, precision, mismatch, err);
    return status;
}

enum tern_status tern_fixed_checksum(struct tern_fixed *fixed, const struct tern_memory_range *ranges, size_t count,
                                     uint64_t *sum, struct tern_error *err) {
    struct tern_launch launch = {.grid = {COMPARE_BLOCKS, 1, 1}, .block = THREADS};
    unsigned long long total = 0, *device = (unsigned long long *)fixed->result; /* shares the memory of comparisons */
    enum tern_status status = get(fixed, CHECKSUM, &launch.function, err);
    if (status == TERN_OK)
        status = tern_backend_cuda.upload(fixed->cuda, device, &total, sizeof total, err);
    for (size_t i = 0; i < count && status == TERN_OK; i++) {
        struct tern_checksum_args args = {.data = ranges[i].at, .sum = device, .count = ranges[i].bytes / 8};
        if (ranges[i].bytes % 8 != 0)
            return tern_error_set(err, TERN_INTERNAL, "checksum of %lld bytes, no multiple of 8",
                                  (long long)ranges[i].bytes);
        status = tern_cuda_launch_raw(fixed->cuda, &launch, &args, err);
    }
    if (status == TERN_OK)
        status = tern_backend_cuda.download(fixed->cuda, &total, device, sizeof total, err);
    *sum = total;
    return status;
}

static enum tern_status get_dequantise(struct tern_fixed *fixed, const struct tern_format *format, enum tern_activation to,
                                       void **function, struct tern_error *err) {
    for (int i = DEQUANTISE; i < ROW_COUNT; i++)
        if (rows[i].bits == format->bits && rows[i].asym == !format->sym && (rows[i].asym || rows[i].zero == format->zero) &&
            rows[i].to == to)
            return get(fixed, i, function, err);
    return tern_error_set(err, TERN_INTERNAL, "no dequantisation of %s", format->name);
}

/* Layers whose x is rounded to bytes have baselines in binary16. */
static enum tern_activation dense_type(enum tern_activation type) {
    return type == TERN_BF16 ? TERN_BF16 : TERN_F16;
}

/* q - z of 8 bits is no e4m3 number; cuBLASLt takes a scale for 128 k, or one a row, and that on Hopper only. */
static bool serves_e4m3(const struct tern_fixed *fixed, const struct tern_format *format) {
    return fixed->cuda->cc == 90 && format->bits <= 4 && (format->group <= 0 || format->group % 128 == 0);
}

enum tern_status tern_fixed_build(struct tern_fixed *fixed, const struct tern_format *format, enum tern_activation type,
                                  struct tern_error *err) {
    static const int wanted[] = {REFERENCE, COMPARE, CHECKSUM, PROBES + TERN_FIXED_READ_8};
    enum tern_status status = TERN_OK;
    void *function;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && status == TERN_OK; i++)
        status = get(fixed, wanted[i], &function, err);
    if (status == TERN_OK)
        status = get_dequantise(fixed, format, dense_type(type), &function, err);
    if (status == TERN_OK && type == TERN_E4M3 && serves_e4m3(fixed, format))
        status = get_dequantise(fixed, format, TERN_E4M3, &function, err);
    return status == TERN_OK && type == TERN_E4M3 && serves_e4m3(fixed, format) ? get(fixed, QUANTISE, &function, err)
                                                                                : status;
}

/* Without its function. */
static struct tern_launch dequantise_launch(const struct tern_args *args) {
    int64_t tiles = (args->n + 15) / 16 * ((args->k + 127) / 128);
    return (struct tern_launch){.grid = {(tiles + TERN_DEQUANTISE_WARPS - 1) / TERN_DEQUANTISE_WARPS, 1, 1},
                                .block = 32 * TERN_DEQUANTISE_WARPS,
                                .args = *args};
}

enum tern_status tern_fixed_dequantise(struct tern_fixed *fixed, const struct tern_format *format, enum tern_activation type,
                                       const struct tern_args *args, struct tern_launch *launch, struct tern_error *err) {
    *launch = dequantise_launch(args);
    return get_dequantise(fixed, format, dense_type(type), &launch->function, err);
}

enum tern_status tern_fixed_to_e4m3(struct tern_fixed *fixed, const struct tern_format *format, const struct tern_args *args,
                                    struct tern_launch *launch, struct tern_error *err) {
    if (!serves_e4m3(fixed, format))
        return tern_error_set(err, TERN_USAGE,
                              "cuBLASLt FP8 has no form of %s on compute capability %d: it takes up to 4 bits, scales for "
                              "128 k or a row, and Hopper",
                              format->name, fixed->cuda->cc);
    *launch = dequantise_launch(args);
    launch->prologue_grid = args->m;
    launch->prologue_block = TERN_QUANTISE_THREADS;
    enum tern_status status = get_dequantise(fixed, format, TERN_E4M3, &launch->function, err);
    return status == TERN_OK ? get(fixed, QUANTISE, &launch->prologue, err) : status;
}

enum tern_status tern_fixed_late(struct tern_fixed *fixed, void **function, struct tern_error *err) {
    return get(fixed, LATE, function, err);
}

enum tern_status tern_fixed_probe(struct tern_fixed *fixed, int probe, void **function, struct tern_error *err) {
    if (probe < 0 || probe >= TERN_PROBE_COUNT)
        return tern_error_set(err, TERN_INTERNAL, "there is no ceiling probe %d", probe);
    return get(fixed, PROBES + probe, function, err);
}

enum tern_status tern_fixed_control(struct tern_fixed *fixed, struct tern_error *err) {
    void *device = NULL;
    unsigned int *out = tern_alloc_zero(CONTROL_COUNT, sizeof *out);
    struct tern_launch launch = {.grid = {CONTROL_COUNT / THREADS, 1, 1}, .block = THREADS};
    const size_t bytes = CONTROL_COUNT * sizeof *out;
    enum tern_status status = get(fixed, CONTROL, &launch.function, err);
    if (status == TERN_OK)
        status = tern_backend_cuda.alloc(fixed->cuda, bytes, &device, err);
    struct tern_control_args args = {.out = device, .count = CONTROL_COUNT, .steps = CONTROL_STEPS};
    if (status == TERN_OK)
        status = tern_cuda_launch_raw(fixed->cuda, &launch, &args, err);
    if (status == TERN_OK)
        status = tern_backend_cuda.download(fixed->cuda, out, device, bytes, err);
    for (unsigned int i = 0; status == TERN_OK && i < CONTROL_COUNT; i++) {
        unsigned int state = i; /* the same steps on the host */
        for (int step = 0; step < CONTROL_STEPS; step++)
            state = state * TERN_CONTROL_MULTIPLIER + TERN_CONTROL_INCREMENT;
        if (out[i] != state)
            status =
                tern_error_set(err, TERN_FAILED, "the control kernel is wrong at %u: %u instead of %u", i, out[i], state);
    }
    tern_backend_cuda.release(fixed->cuda, device);
    free(out);
    return status;
}
