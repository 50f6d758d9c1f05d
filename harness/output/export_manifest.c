/* Export: manifest.json, the evidence behind every entry for machines. Keys are documented in docs/dispatch.md. */
#include "output/export.h"

#include "core/version.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* JSON has no NaN: what is unknown is null, never 0. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* Text that is not UTF-8 is not kept: names of Tern are ASCII. */
static json_t *text(const char *value) {
    json_t *string = json_string(value);
    return string ? string : json_null();
}

static void set_all(json_t *object, const char *const *names, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        json_object_set_new(object, names[i], number(values[i]));
}

static json_t *entry(const struct tern_export_gpu *gpu, const struct tern_result *row) {
    static const char *const names[] = {"us",           "us_lo",        "us_hi",      "p_best",          "regret",
                                        "predicted_us", "baseline_us",  "dequant_us", "dequant_e4m3_us", "speedup",
                                        "limit_us",     "pct_of_limit", "slowdown"};
    double slowdown;
    const struct tern_result *kernel = tern_export_kernel(gpu, row, &slowdown);
    const double values[] = {row->us,           row->us_lo,        row->us_hi,      row->p_best,          row->regret,
                             row->predicted_us, row->baseline_us,  row->dequant_us, row->dequant_e4m3_us, row->speedup,
                             row->limit_us,     row->pct_of_limit, slowdown};
    struct tern_result served = *row;
    served.us *= slowdown;
    json_t *object =
        json_pack("{s:s,s:s,s:I,s:I,s:I,s:o,s:b,s:s,s:s,s:s,s:s}", "format", row->format, "op", row->op, "m",
                  (json_int_t)row->m, "n", (json_int_t)row->n, "k", (json_int_t)row->k, "layer", text(row->layer), "planned",
                  row->planned, "template", kernel->template_name, "params", kernel->params, "cubin", kernel->cubin_hash,
                  "answer", tern_selection_use_cublas(&served) ? "cublas" : "kernel");
    json_object_set_new(object, "dequant_faster", json_boolean(tern_selection_use_dequant(&served) != 0));
    json_object_set_new(object, "rounds_scales", json_boolean(tern_rounds_scales(kernel->params)));
    json_object_set_new(object, "baseline", row->baseline[0] ? text(row->baseline) : json_null());
    set_all(object, names, values, sizeof values / sizeof values[0]);
    return object;
}

static json_t *entries(const struct tern_export_gpu *gpu, double *worst) {
    json_t *list = json_array();
    struct tern_selection_table table = tern_selection_build(gpu->results);
    for (size_t g = 0; g < table.count; g++)
        for (size_t i = 0; i < table.groups[g].count; i++) {
            double slowdown;
            (void)tern_export_kernel(gpu, table.groups[g].rows[i], &slowdown);
            *worst = slowdown > *worst ? slowdown : *worst;
            json_array_append_new(list, entry(gpu, table.groups[g].rows[i]));
        }
    tern_selection_free(&table);
    return list;
}

static json_t *gpu_object(const struct tern_export_gpu *gpu, double *worst) {
    const struct tern_result *row = &gpu->results->rows[0];
    json_t *toolchain = json_pack("{s:o}", "nvrtc", gpu->nvrtc[0] ? text(gpu->nvrtc) : json_null());
    json_t *device = json_pack("{s:o,s:o}", "name", gpu->device_name[0] ? text(gpu->device_name) : json_null(), "driver",
                               gpu->driver[0] ? text(gpu->driver) : json_null());
    return json_pack("{s:s,s:o,s:s,s:i,s:I,s:I,s:s,s:o,s:o,s:o}", "gpu", row->gpu, "title", text(gpu->title), "arch",
                     row->arch, "cc", gpu->cc, "sms", (json_int_t)gpu->sms, "smem_bytes", (json_int_t)gpu->smem_bytes,
                     "status", tern_export_planned(gpu) ? "planned" : "measured", "device", device, "toolchain", toolchain,
                     "entries", entries(gpu, worst));
}

/* Null where nobody asked for the evaluation: no claim. */
static json_t *held_out(const struct tern_export *input) {
    json_t *list = input->regret_count ? json_array() : json_null();
    for (size_t i = 0; i < input->regret_count; i++) {
        const struct tern_export_regret *r = &input->regrets[i];
        static const char *const names[] = {"regret_geomean", "regret_worst", "measured_geomean", "measured_worst"};
        const double values[] = {r->geomean, r->worst, r->measured_geomean, r->measured_worst};
        json_t *object = json_pack("{s:s,s:s,s:I,s:I,s:I,s:s}", "kind", r->kind, "left_out", r->left_out, "problems",
                                   (json_int_t)r->count, "bounded", (json_int_t)r->bounded, "unknown",
                                   (json_int_t)r->unknown, "worst_problem", r->worst_problem);
        set_all(object, names, values, sizeof values / sizeof values[0]);
        json_array_append_new(list, object);
    }
    return list;
}

void tern_export_manifest(const struct tern_export *input, size_t kernel_bytes, size_t missing, struct tern_str *out) {
    json_t *tables = json_array(), *files = json_array();
    struct tern_strs hashes = {0};
    double worst = 1.0;
    for (size_t g = 0; g < input->gpu_count; g++)
        json_array_append_new(tables, gpu_object(&input->gpus[g], &worst));
    tern_export_cubins(input, &hashes);
    for (size_t i = 0; i < hashes.count; i++)
        json_array_append_new(files, text(hashes.items[i]));
    json_t *kernels = json_pack("{s:o,s:I,s:I,s:o}", "file", kernel_bytes ? text("tern_kernels.bin") : json_null(), "bytes",
                                (json_int_t)kernel_bytes, "missing", (json_int_t)missing, "cubins", files);
    json_t *root = json_pack("{s:s,s:s,s:f,s:f,s:o,s:o,s:o}", "tern", TERN_VERSION, "header", "tern_dispatch.h",
                             "max_slowdown", input->max_slowdown, "worst_slowdown", worst, "kernels", kernels, "held_out",
                             held_out(input), "tables", tables);
    char *dump = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    tern_str_append(out, dump);
    tern_str_append(out, "\n");
    free(dump);
    json_decref(root);
    tern_strs_free(&hashes);
}
