/* A database of the invented rows of output_fixture.h, for tests of commands that read one. */
#ifndef TERN_TESTS_OUTPUT_FIXTURE_DB_H
#define TERN_TESTS_OUTPUT_FIXTURE_DB_H

#include "output_fixture.h"
#include "store/store.h"

static inline enum tern_status fixture_put_build(struct tern_store *store, const struct tern_result *row,
                                                 struct tern_error *err) {
    struct tern_store_build build = {.outcome = TERN_OUTCOME_OK, .cubin_bytes = 1, .registers = row->registers}, old;
    bool found = false;
    tern_str_copy(build.key, sizeof build.key, row->build_key);
    tern_str_copy(build.template_name, sizeof build.template_name, row->template_name);
    tern_str_copy(build.template_hash, sizeof build.template_hash, row->template_hash);
    tern_str_copy(build.format, sizeof build.format, row->format);
    tern_str_copy(build.op, sizeof build.op, row->op);
    tern_str_copy(build.params, sizeof build.params, row->params);
    tern_str_copy(build.arch, sizeof build.arch, row->arch);
    tern_str_copy(build.nvrtc, sizeof build.nvrtc, "fake");
    tern_str_copy(build.cubin_hash, sizeof build.cubin_hash, row->cubin_hash);
    enum tern_status status = tern_store_build_find(store, row->build_key, &old, &found, err);
    return status || found ? status : tern_store_build_put(store, &build, err);
}

/* The one that measured. */
#define FIXTURE_DEVICE                                                                                                      \
    { .gpu = "h200", .name = "fake device", .arch = "sm_90a", .driver = "fake", .sms = 132, .real = true }

/* The one time of a winner that lies with the baselines. */
static inline enum tern_status fixture_put_composite(struct tern_store *store, int64_t run, int64_t device,
                                                     const struct tern_result *row, struct tern_error *err) {
    const double us = row->dequant_e4m3_us;
    const struct tern_store_baseline composite = {"dequant-e4m3-cublaslt", "graph/cold", "", us, us, us, 0};
    struct tern_store_problem p = {.m = row->m, .n = row->n, .k = row->k};
    int64_t problem = 0;
    tern_str_copy(p.format, sizeof p.format, row->format);
    tern_str_copy(p.op, sizeof p.op, row->op);
    enum tern_status status = tern_store_problem(store, &p, &problem, err);
    return status ? status : tern_store_baseline_put(store, run, device, problem, &composite, &us, 1, err);
}

/* Writes rows (of h200) as winners. */
static inline enum tern_status fixture_database(const char *path, const struct tern_results *rows, bool planned,
                                                struct tern_error *err) {
    struct tern_store_device device = FIXTURE_DEVICE;
    struct tern_store *store = NULL;
    int64_t device_id = 0, run = 0;
    if (planned) {
        device.real = false;
        device.driver[0] = 0;
    }
    enum tern_status status = tern_store_open(path, TERN_STORE_WRITE, &store, err);
    if (!status)
        status = tern_store_device(store, &device, &device_id, err);
    if (!status)
        status = tern_store_run_begin(store, device_id, "fixture", "test", 1, &run, err);
    for (size_t i = 0; i < rows->count && !status; i++)
        status = fixture_put_build(store, &rows->rows[i], err);
    for (size_t i = 0; i < rows->count && !status; i++)
        if (isfinite(rows->rows[i].dequant_e4m3_us))
            status = fixture_put_composite(store, run, device_id, &rows->rows[i], err);
    if (!status)
        status = tern_store_promote(store, run, device_id, rows->rows, rows->count, err);
    tern_store_close(store);
    return status;
}

#endif
