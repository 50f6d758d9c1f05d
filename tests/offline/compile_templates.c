/* Compiles candidates of every template, and kernels/unpack.cu, by NVRTC for the architecture of each GPU named on the command line.
 * Prints "ok" or "not ok" for each build, with registers and spills. Exit 1 if one was refused or nothing was compiled. */
#include "core/file.h"
#include "core/str.h"
#include "device/compiler.h"
#include "space/grid.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A spilling candidate is legal but was meant to fit; this much is what valid() may miss. */
#define SPILL_LIMIT_BYTES 256

static const char *const formats[] = {"ternary-g128", "gptq4-g128-asym", "gptq3-channel", "ternary-tensor", "gptq8-g32"};
static const int64_t sizes[] = {1, 8, 16, 512}; /* M: decode (two), small batch, prefill */

struct totals {
    int passed, failed;
};

static void compile_one(const struct tern_candidate *c, const struct tern_format *format, enum tern_activation type,
                        const struct tern_gpu *gpu, struct totals *totals) {
    struct tern_error err = {0};
    struct tern_compiled compiled = {0};
    struct tern_str source = {0};
    char path[PATH_MAX], include[PATH_MAX], params[256], *kernel = NULL;
    size_t length = 0;
    tern_candidate_text(c, params, sizeof(params));
    tern_str_format(path, sizeof(path), "%s/kernel.cu", c->tmpl->dir);
    enum tern_status status = tern_file_home_path("templates/include", include, sizeof(include), &err);
    if (status == TERN_OK)
        status = tern_file_read(path, &kernel, &length, &err);
    if (status == TERN_OK) {
        const char *const dirs[] = {include};
        tern_candidate_preamble(c, format, type, &source);
        tern_str_append_bytes(&source, kernel, length);
        status = tern_nvrtc_compile(tern_str_text(&source), path, gpu->arch, dirs, 1, c->tmpl->entry, &compiled, &err);
    }
    bool good = status == TERN_OK && compiled.ok && compiled.image_bytes > 0 && compiled.spill_bytes <= SPILL_LIMIT_BYTES;
    printf("%s offline: %s %s %s %s %s: %" PRId64 " registers, %" PRId64 " bytes spilled\n", good ? "ok" : "not ok",
           gpu->arch, c->tmpl->name, format->name, tern_activation_name(type), params, compiled.registers,
           compiled.spill_bytes);
    if (!good)
        printf("    %s\n%.2000s\n", err.text, tern_str_text(&compiled.log));
    totals->passed += good;
    totals->failed += !good;
    tern_compiled_free(&compiled);
    tern_str_free(&source);
    free(kernel);
}

/* The first valid candidate (the default, where valid), that launched dependently where it can be, and the last one of one problem. */
static void compile_problem(const struct tern_template *t, const struct tern_format *format, enum tern_activation type,
                            int64_t m, const struct tern_gpu *gpu, struct totals *totals) {
    struct tern_problem_shape problem = {.format = format, .m = m, .n = 4096, .k = 4096, .type = type};
    struct tern_candidates list = {0};
    struct tern_exclusions why = {0};
    struct tern_error err = {0};
    if (tern_grid_enumerate(t, &problem, gpu, &list, &why, &err) != TERN_OK) {
        printf("not ok offline: %s %s: %s\n", t->name, format->name, err.text);
        totals->failed++;
    } else if (list.count > 0) {
        compile_one(&list.items[0], format, type, gpu, totals);
        if (list.count > 1)
            compile_one(&list.items[list.count - 1], format, type, gpu, totals);
        list.items[0].dependent = t->dependent && gpu->cc >= 90;
        if (list.items[0].dependent)
            compile_one(&list.items[0], format, type, gpu, totals);
    }
    tern_candidates_free(&list);
}

/* One problem for each M that the template takes, a different format each time, so that all of them have their turn. */
static void compile_template(const struct tern_template *t, enum tern_activation type, const struct tern_gpu *gpu,
                             size_t turn, struct totals *totals) {
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (size_t tries = 0; tries < sizeof(formats) / sizeof(*formats); tries++) {
            struct tern_format format;
            int before = totals->passed + totals->failed;
            const char *name = formats[(turn + i + tries) % (sizeof(formats) / sizeof(*formats))];
            if (tern_format_parse(name, &format, NULL) != TERN_OK || sizes[i] < t->m_min || sizes[i] > t->m_max)
                continue;
            compile_problem(t, &format, type, sizes[i], gpu, totals);
            if (totals->passed + totals->failed > before)
                break;
        }
}

/* The device decode of `tune reconcile`, for the architecture without its suffix, as the load worker does. */
static void compile_unpack(const struct tern_gpu *gpu, struct totals *totals) {
    char kernels[PATH_MAX], templates[PATH_MAX], path[PATH_MAX], arch[24], *source = NULL;
    const char *const dirs[] = {kernels, templates};
    struct tern_compiled compiled = {0};
    struct tern_error err = {0};
    size_t length = 0;
    tern_str_format(arch, sizeof arch, "%.*s", (int)strcspn(gpu->arch, "a"), gpu->arch);
    enum tern_status status = tern_file_home_path("kernels", kernels, sizeof kernels, &err);
    if (status == TERN_OK)
        status = tern_file_home_path("templates/include", templates, sizeof templates, &err);
    if (status == TERN_OK)
        status = tern_file_home_path("kernels/unpack.cu", path, sizeof path, &err);
    if (status == TERN_OK)
        status = tern_file_read(path, &source, &length, &err);
    if (status == TERN_OK)
        status = tern_nvrtc_compile(source, "unpack.cu", arch, dirs, 2, "tern_unpack", &compiled, &err);
    bool good = status == TERN_OK && compiled.ok && compiled.image_bytes > 0;
    printf("%s offline: %s unpack.cu: %" PRId64 " registers\n", good ? "ok" : "not ok", arch, compiled.registers);
    if (!good)
        printf("    %s\n%.2000s\n", err.text, tern_str_text(&compiled.log));
    totals->passed += good;
    totals->failed += !good;
    tern_compiled_free(&compiled);
    free(source);
}

int main(int argc, char **argv) {
    struct totals totals = {0};
    struct tern_template *templates = NULL;
    size_t count = 0;
    struct tern_error err = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (tern_templates_load_all(&templates, &count, &err) != TERN_OK) {
        printf("not ok offline: %s\n", err.text);
        return 1;
    }
    for (int i = 1; i < argc; i++) {
        struct tern_gpu gpu;
        if (tern_gpu_load(argv[i], &gpu, &err) != TERN_OK) {
            printf("not ok offline: %s\n", err.text);
            totals.failed++;
            continue;
        }
        for (size_t t = 0; t < count; t++)
            for (int type = 0; type < TERN_ACTIVATION_COUNT; type++)
                compile_template(&templates[t], (enum tern_activation)type, &gpu, (size_t)i + t + 2 * (size_t)type, &totals);
        compile_unpack(&gpu, &totals);
        tern_gpu_free(&gpu);
    }
    tern_templates_free(templates, count);
    return totals.failed > 0 || totals.passed == 0;
}
