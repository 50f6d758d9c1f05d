/* Check benches: the problems of every standard shape for one format, type of activations and layout, and the check of a candidate on them. */
#include "worker/check.h"

#include "core/str.h"

#include <stdlib.h>

struct tern_check_bench {
    const struct tern_backend *backend;
    void *context;
    struct tern_format format;
    enum tern_activation type;
    const struct tern_layout *layout;
    uint64_t seed;
    struct tern_check_problem **problems[TERN_ARITHMETICS]; /* by shape; NULL until needed; the last is that of `own` */
    struct tern_check_shape own;                            /* shape of the last problem, see tern_check_candidate */
};

struct tern_check_bench *tern_check_bench_create(const struct tern_backend *backend, void *context,
                                                 const struct tern_format *format, enum tern_activation type,
                                                 const struct tern_layout *layout, uint64_t seed) {
    struct tern_check_bench *bench = tern_alloc_zero(1, sizeof *bench);
    *bench = (struct tern_check_bench){
        .backend = backend, .context = context, .format = *format, .type = type, .layout = layout, .seed = seed};
    for (int a = 0; a < TERN_ARITHMETICS; a++) {
        bench->problems[a] = tern_alloc_zero(tern_check_shape_count + 1, sizeof(struct tern_check_problem *));
    }
    return bench;
}

void tern_check_bench_free(struct tern_check_bench *bench) {
    if (bench == NULL) {
        return;
    }
    for (int a = 0; a < TERN_ARITHMETICS; a++) {
        for (size_t i = 0; i <= tern_check_shape_count; i++) {
            tern_check_problem_free(bench->problems[a][i]);
        }
        free(bench->problems[a]);
    }
    free(bench);
}

/* Standard shape number i, or the bench's own shape behind them. */
static const struct tern_check_shape *shape_at(const struct tern_check_bench *bench, size_t i) {
    return i < tern_check_shape_count ? &tern_check_shapes[i] : &bench->own;
}

static enum tern_status get_problem(struct tern_check_bench *bench, const struct tern_candidate *candidate, size_t shape,
                                    struct tern_check_problem **problem, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    enum tern_arithmetic arithmetic = tern_check_arithmetic(candidate, bench->type);
    struct tern_check_problem **place = &bench->problems[arithmetic][shape];
    if (*place == NULL) {
        status = tern_check_problem_create(bench->backend, bench->context, &bench->format, bench->type, arithmetic,
                                           bench->layout, shape_at(bench, shape), bench->seed, NULL, place, err);
    }
    *problem = *place;
    return status;
}

struct choice {
    size_t *shapes, count; /* shapes that the candidate serves */
    int64_t smem_bytes;    /* most shared memory that it asks for on them */
    char reason[640];      /* why it serves none */
};

/* Adds shape number i if the candidate serves it. */
static enum tern_status consider(const struct tern_check_bench *bench, const struct tern_candidate *candidate, int64_t sms,
                                 const struct tern_gpu *gpu, size_t i, struct choice *c, struct tern_error *err) {
    const struct tern_check_shape *s = shape_at(bench, i);
    const struct tern_problem_shape shape = {.format = &bench->format, .m = s->m, .n = s->n, .k = s->k, .type = bench->type};
    struct tern_geometry geometry;
    struct tern_error local;
    bool valid = true;
    if (!tern_check_shape_fits(s, &bench->format, candidate->tmpl)) {
        return TERN_OK;
    }
    if (gpu != NULL) {
        enum tern_status status = tern_template_valid(candidate->tmpl, candidate->values, &shape, gpu, &valid, NULL,
                                                      c->reason, sizeof c->reason, err);
        if (status != TERN_OK) {
            return status;
        }
    }
    if (valid && tern_candidate_geometry(candidate, &shape, sms, &geometry, &local) == TERN_OK) {
        c->shapes[c->count++] = i;
        c->smem_bytes = geometry.smem_bytes > c->smem_bytes ? geometry.smem_bytes : c->smem_bytes;
    } else if (valid) {
        tern_str_copy(c->reason, sizeof c->reason, local.text);
    }
    return TERN_OK;
}

/* The bench's own shape, its problem made anew when the shape changes. */
static void set_own(struct tern_check_bench *bench, const struct tern_check_shape *own) {
    if (own->m != bench->own.m || own->n != bench->own.n || own->k != bench->own.k) {
        for (int a = 0; a < TERN_ARITHMETICS; a++) {
            tern_check_problem_free(bench->problems[a][tern_check_shape_count]);
            bench->problems[a][tern_check_shape_count] = NULL;
        }
        bench->own = *own;
    }
}

static enum tern_status choose_shapes(struct tern_check_bench *bench, const struct tern_candidate *candidate, int64_t sms,
                                      const struct tern_gpu *gpu, const struct tern_check_shape *own, struct choice *c,
                                      struct tern_error *err) {
    enum tern_status status = TERN_OK;
    tern_str_copy(c->reason, sizeof c->reason, "no standard shape has an M that it serves");
    for (size_t i = 0; i < tern_check_shape_count && status == TERN_OK; i++) {
        status = consider(bench, candidate, sms, gpu, i, c, err);
    }
    if (status == TERN_OK && c->count == 0 && own != NULL) {
        set_own(bench, own);
        status = consider(bench, candidate, sms, gpu, tern_check_shape_count, c, err);
    }
    return status;
}

/* Adds one shape's result to the sum. */
static void collect(struct tern_check_result *total, const struct tern_check_result *one,
                    const struct tern_check_shape *shape) {
    total->outcome = one->outcome;
    total->sticky = one->sticky;
    total->launches += one->launches;
    total->device_seconds += one->device_seconds;
    total->mismatch.count += one->mismatch.count;
    total->mismatch.checked += one->mismatch.checked;
    if (!(one->mismatch.worst <= total->mismatch.worst)) {
        total->mismatch.worst = one->mismatch.worst;
    }
    if (one->outcome != TERN_OUTCOME_OK) {
        total->mismatch.row = one->mismatch.row;
        total->mismatch.col = one->mismatch.col;
        total->mismatch.got = one->mismatch.got;
        total->mismatch.expected = one->mismatch.expected;
        total->mismatch.tolerance = one->mismatch.tolerance;
        tern_str_format(total->detail, sizeof total->detail, "M=%lld N=%lld K=%lld: %s", (long long)shape->m,
                        (long long)shape->n, (long long)shape->k, one->detail);
    }
}

/* A candidate's module and the kernels in it; prologue NULL: none. */
struct loaded {
    void *module, *function, *prologue;
};

/* A refusal is the candidate's outcome: OK in *result tells that it is loaded. */
static void load(const struct tern_check_bench *bench, const struct tern_candidate *candidate, const void *image,
                 size_t image_bytes, int64_t smem_bytes, struct loaded *out, struct tern_check_result *result) {
    const struct tern_backend *b = bench->backend;
    struct tern_error err = {0};
    *out = (struct loaded){0};
    enum tern_status status = b->module_load(bench->context, image, image_bytes, candidate->tmpl->entry, smem_bytes,
                                             &out->module, &out->function, &err);
    if (status == TERN_OK && candidate->tmpl->prologue[0] != '\0') {
        status = b->module_function(bench->context, out->module, candidate->tmpl->prologue, &out->prologue, &err);
    }
    if (status != TERN_OK) {
        b->module_unload(bench->context, out->module);
        result->outcome = TERN_OUTCOME_RESOURCES;
        tern_str_copy(result->detail, sizeof result->detail, err.text);
    }
}

static enum tern_status check_shapes(struct tern_check_bench *bench, const struct tern_candidate *candidate,
                                     const struct loaded *loaded, int64_t sms, const size_t *chosen, size_t count,
                                     size_t take, struct tern_check_result *result, int64_t *shapes,
                                     struct tern_error *err) {
    for (size_t i = 0; i < take && result->outcome == TERN_OUTCOME_OK; i++) {
        /* evenly over the list, the last one included, so that few shapes still cover small and large M */
        size_t shape = chosen[take == 1 ? count - 1 : i * (count - 1) / (take - 1)];
        struct tern_check_problem *problem;
        struct tern_check_result one;
        enum tern_status status = get_problem(bench, candidate, shape, &problem, err);
        if (status == TERN_OK) {
            status = tern_check_run(problem, candidate, loaded->function, loaded->prologue, sms, &one, err);
        }
        if (status != TERN_OK) {
            return status;
        }
        collect(result, &one, shape_at(bench, shape));
        *shapes += 1;
    }
    return TERN_OK;
}

enum tern_status tern_check_candidate(struct tern_check_bench *bench, const struct tern_candidate *candidate,
                                      const void *image, size_t image_bytes, int64_t sms, const struct tern_gpu *gpu,
                                      size_t max_shapes, const struct tern_check_shape *own,
                                      struct tern_check_result *result, int64_t *shapes, struct tern_error *err) {
    struct choice chosen = {.shapes = tern_alloc_zero(tern_check_shape_count + 1, sizeof(size_t))};
    int64_t ignored = 0, *checked = shapes != NULL ? shapes : &ignored;
    *result = (struct tern_check_result){.outcome = TERN_OUTCOME_OK};
    *checked = 0;
    enum tern_status status = choose_shapes(bench, candidate, sms, gpu, own, &chosen, err);
    if (status == TERN_OK && chosen.count == 0) {
        result->outcome = TERN_OUTCOME_INVALID;
        tern_str_copy(result->detail, sizeof result->detail, chosen.reason);
    } else if (status == TERN_OK) {
        struct loaded loaded;
        size_t take = max_shapes == 0 || max_shapes > chosen.count ? chosen.count : max_shapes;
        load(bench, candidate, image, image_bytes, chosen.smem_bytes, &loaded, result);
        if (result->outcome == TERN_OUTCOME_OK) {
            status = check_shapes(bench, candidate, &loaded, sms, chosen.shapes, chosen.count, take, result, checked, err);
            bench->backend->module_unload(bench->context, loaded.module);
        }
    }
    free(chosen.shapes);
    return status;
}

/* Loads the image and checks it on a problem made for this one call. */
static enum tern_status check_once(struct tern_check_bench *bench, const struct tern_candidate *candidate, const void *image,
                                   size_t image_bytes, int64_t sms, struct tern_check_problem *problem, int64_t smem_bytes,
                                   struct tern_check_result *result, struct tern_error *err) {
    struct loaded loaded;
    load(bench, candidate, image, image_bytes, smem_bytes, &loaded, result);
    if (result->outcome != TERN_OUTCOME_OK) {
        return TERN_OK;
    }
    enum tern_status status = tern_check_run(problem, candidate, loaded.function, loaded.prologue, sms, result, err);
    bench->backend->module_unload(bench->context, loaded.module);
    return status;
}

enum tern_status tern_check_real(struct tern_check_bench *bench, const struct tern_candidate *candidate, const void *image,
                                 size_t image_bytes, int64_t sms, const struct tern_gpu *gpu, int64_t m,
                                 struct tern_weights weights[2], struct tern_check_result *result, bool *checked,
                                 struct tern_error *err) {
    const struct tern_check_shape own = {m, weights[0].n, weights[0].k};
    const struct tern_problem_shape shape = {
        .format = &bench->format, .m = own.m, .n = own.n, .k = own.k, .type = bench->type};
    struct tern_check_problem *problem = NULL;
    struct tern_geometry geometry;
    struct tern_error local;
    char reason[256];
    bool valid = true;
    *result = (struct tern_check_result){.outcome = TERN_OUTCOME_OK};
    *checked = false;
    enum tern_status status =
        tern_template_valid(candidate->tmpl, candidate->values, &shape, gpu, &valid, NULL, reason, sizeof reason, err);
    if (status != TERN_OK || !valid || tern_candidate_geometry(candidate, &shape, sms, &geometry, &local) != TERN_OK) {
        return status;
    }
    status = tern_check_problem_create(bench->backend, bench->context, &bench->format, bench->type,
                                       tern_check_arithmetic(candidate, bench->type), bench->layout, &own, bench->seed,
                                       weights, &problem, err);
    if (status == TERN_OK) {
        status = check_once(bench, candidate, image, image_bytes, sms, problem, geometry.smem_bytes, result, err);
        *checked = true;
    }
    tern_check_problem_free(problem);
    return status;
}
