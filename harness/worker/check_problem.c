/* Check problems: weights, activations, FP64 references and guarded device buffers of one format, layout and shape. */
#include "worker/check_internal.h"

#include "core/random.h"
#include "core/str.h"
#include "verify/guard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const check_input_names[CHECK_INPUTS] = {"codes", "scales", "zeros", "x", "bias"};

/* ---- guarded buffers
 * ----------------------------------------------------------------------------------------------------------- */
void *check_buffer_data(const struct check_buffer *buffer) {
    return buffer->base == NULL ? NULL : buffer->base + buffer->guard;
}

void check_buffer_release(struct tern_check_problem *p, struct check_buffer *buffer) {
    if (buffer->base != NULL) {
        p->backend->release(p->context, buffer->base);
    }
    *buffer = (struct check_buffer){0};
}

enum tern_status check_buffer_reserve(struct tern_check_problem *p, struct check_buffer *buffer, int64_t bytes,
                                      uint64_t seed, struct tern_error *err) {
    if (buffer->base != NULL && buffer->bytes == bytes) {
        return TERN_OK;
    }
    check_buffer_release(p, buffer);
    int64_t guard = p->backend->fenced ? 0 : TERN_GUARD_BYTES;
    void *base = NULL;
    enum tern_status status = p->backend->alloc(p->context, (size_t)(bytes + 2 * guard), &base, err);
    if (status == TERN_OK) {
        *buffer = (struct check_buffer){.base = base, .bytes = bytes, .guard = guard, .seed = seed};
    }
    return status;
}

/* The guard in front (0) or behind (1). */
static void *guard_at(const struct check_buffer *buffer, int end) {
    return (char *)buffer->base + (end == 0 ? 0 : buffer->guard + buffer->bytes);
}

/* Poison that is no whole number of words: the last one is cut. */
static enum tern_status poison_tail(struct tern_check_problem *p, const struct check_buffer *buffer, uint32_t poison,
                                    struct tern_error *err) {
    size_t tail = (size_t)buffer->bytes % sizeof poison;
    return tail == 0 ? TERN_OK
                     : p->backend->upload(p->context, (char *)buffer->base + buffer->guard + buffer->bytes - tail, &poison,
                                          tail, err);
}

/* Poison is written by the device: a workspace may be large, and it is poisoned before each launch. */
enum tern_status check_buffer_write(struct tern_check_problem *p, const struct check_buffer *buffer, const void *data,
                                    uint32_t poison, struct tern_error *err) {
    if (buffer->base == NULL) {
        return TERN_OK;
    }
    uint8_t guard[TERN_GUARD_BYTES];
    char *at = (char *)buffer->base + buffer->guard;
    size_t bytes = (size_t)buffer->bytes;
    enum tern_status status = TERN_OK;
    for (int end = 0; end < 2 && status == TERN_OK; end++) {
        tern_guard_fill(guard, (size_t)buffer->guard, buffer->seed + (uint64_t)end);
        status = p->backend->upload(p->context, guard_at(buffer, end), guard, (size_t)buffer->guard, err);
    }
    if (status == TERN_OK && data != NULL) {
        return p->backend->upload(p->context, at, data, bytes, err);
    }
    if (status == TERN_OK) {
        status = p->backend->fill(p->context, at, poison, bytes / sizeof poison * sizeof poison, err);
    }
    return status == TERN_OK ? poison_tail(p, buffer, poison, err) : status;
}

enum tern_status check_buffer_read(struct tern_check_problem *p, const struct check_buffer *buffer, void *data, bool *intact,
                                   int64_t *offset, struct tern_error *err) {
    *intact = true;
    if (buffer->base == NULL || (buffer->guard == 0 && data == NULL)) {
        return TERN_OK;
    }
    uint8_t guard[TERN_GUARD_BYTES];
    size_t wrong = 0;
    enum tern_status status = TERN_OK;
    for (int end = 0; end < 2 && status == TERN_OK && *intact; end++) {
        status = p->backend->download(p->context, guard, guard_at(buffer, end), (size_t)buffer->guard, err);
        *intact = status == TERN_OK && tern_guard_check(guard, (size_t)buffer->guard, buffer->seed + (uint64_t)end, &wrong);
        *offset = (int64_t)wrong + (end == 0 ? -buffer->guard : buffer->bytes);
    }
    if (status == TERN_OK && data != NULL) {
        status = p->backend->download(p->context, data, (char *)buffer->base + buffer->guard, (size_t)buffer->bytes, err);
    }
    return status;
}

/* ---- one set
 * ------------------------------------------------------------------------------------------------------------------- */
const void *check_input_data(const struct check_set *set, int input) {
    const void *const data[CHECK_INPUTS] = {set->packed.codes, set->packed.scales, set->packed.zeros, set->x, set->bias};
    return data[input];
}

double check_weight(const struct check_set *set, int64_t row, int64_t col) {
    double value = tern_weights_value(&set->weights, row, col);
    return set->units ? value * (double)set->units[row] : value;
}

/* Reference for every element, of what the arithmetic makes of weights and x. Rounded scales take the place of the weights' own,
 * which are packed by now. */
static void create_reference(const struct tern_check_problem *p, struct check_set *set) {
    int64_t m = p->shape.m, n = p->shape.n, k = p->shape.k;
    uint16_t *codes = NULL;
    float *scales = NULL;
    if (p->arithmetic != TERN_ARITHMETIC_A16) {
        codes = tern_alloc((size_t)(m * k) * sizeof *codes);
        scales = tern_alloc((size_t)m * sizeof *scales);
        tern_quantise_activations(p->arithmetic, set->x, m, k, codes, scales);
    }
    if (p->arithmetic == TERN_ARITHMETIC_A8_ROUNDED) {
        set->units = tern_alloc((size_t)n * sizeof *set->units);
        tern_quantise_scales(&set->weights, set->weights.scales, set->units);
    }
    tern_reference_compute(&set->weights, p->type, codes != NULL ? codes : set->x, p->rows, m, p->cols, n, set->ref,
                           set->bound_scale);
    tern_reference_scale(m, n, scales, set->units, set->ref, set->bound_scale);
    free(codes);
    free(scales);
}

/* A bias for the set, and what it does to the reference: one more fp32 term. */
static void add_bias(const struct tern_check_problem *p, struct check_set *set, uint64_t seed) {
    const int64_t m = p->shape.m, n = p->shape.n;
    set->bias = tern_alloc((size_t)n * sizeof *set->bias);
    tern_activations_random(p->type, 1, n, seed + 99, set->bias);
    for (int64_t i = 0; i < m * n; i++) {
        const double bias = tern_activation_to_double(p->type, set->bias[i % n]);
        set->ref[i] += bias;
        set->bound_scale[i] += fabs(bias);
    }
}

/* Weights (given ones change their owner) and activations of one seed with their reference for every element, and device buffers of the right sizes (not yet
 * written). */
static enum tern_status create_set(struct tern_check_problem *p, struct check_set *set, const struct tern_layout *layout,
                                   uint64_t seed, struct tern_weights *given, struct tern_error *err) {
    int64_t m = p->shape.m, n = p->shape.n, k = p->shape.k;
    enum tern_status status = TERN_OK;
    if (given != NULL) {
        set->weights = *given;
        *given = (struct tern_weights){0};
    } else {
        status = tern_weights_random(&p->format, n, k, seed, &set->weights, err);
    }
    if (status == TERN_OK) {
        status = tern_layout_pack(layout, &set->weights, &set->packed, err);
    }
    if (status != TERN_OK) {
        return status;
    }
    set->x = tern_alloc((size_t)(m * k) * sizeof *set->x);
    set->ref = tern_alloc((size_t)(m * n) * sizeof *set->ref);
    set->bound_scale = tern_alloc((size_t)(m * n) * sizeof *set->bound_scale);
    tern_activations_random(p->type, m, k, seed, set->x);
    create_reference(p, set);
    if (set == &p->sets[1])
        add_bias(p, set, seed);
    const int64_t bytes[CHECK_INPUTS] = {set->packed.code_bytes, set->packed.scale_bytes, set->packed.zero_bytes,
                                         m * k * (int64_t)sizeof *set->x, set->bias ? n * (int64_t)sizeof *set->bias : 0};
    for (int i = 0; i < CHECK_INPUTS && status == TERN_OK; i++) {
        if (bytes[i] > 0) {
            status = check_buffer_reserve(p, &set->inputs[i], bytes[i], seed + 16 * (uint64_t)(i + 1), err);
        }
    }
    return status;
}

static void free_set(struct tern_check_problem *p, struct check_set *set) {
    for (int i = 0; i < CHECK_INPUTS; i++) {
        check_buffer_release(p, &set->inputs[i]);
    }
    tern_weights_free(&set->weights);
    tern_packed_free(&set->packed);
    free(set->units);
    free(set->x);
    free(set->bias);
    free(set->ref);
    free(set->bound_scale);
}

/* ---- one-hot activations
 * --------------------------------------------------------------------------------------------------------- */
/* Columns worth reading: both ends, both sides of group and tile edges, then random ones. A shape of few rows starts at a
 * place of the list that depends on the seed, so that the shapes together visit it all. */
static int64_t interesting_column(int64_t index, int64_t k, int64_t group, struct tern_random *random) {
    const int64_t edges[] = {k - 1, 0, group, group - 1, 128, 127, k - group, k - group - 1, 64, 63, 32, 31};
    const int64_t count = (int64_t)(sizeof edges / sizeof edges[0]);
    int64_t column = index < count ? edges[index] : -1;
    return column >= 0 && column < k ? column : (int64_t)tern_random_below(random, (uint64_t)k);
}

static enum tern_status create_one_hot(struct tern_check_problem *p, uint64_t seed, struct tern_error *err) {
    int64_t m = p->shape.m, k = p->shape.k, group = tern_format_group_size(&p->format, k);
    struct tern_random random;
    tern_random_init(&random, seed, "one-hot columns");
    int64_t start = m >= 12 ? 0 : (int64_t)tern_random_below(&random, 12);
    p->one_hot = tern_alloc_zero((size_t)(m * k), sizeof *p->one_hot);
    p->hot = tern_alloc((size_t)m * sizeof *p->hot);
    for (int64_t i = 0; i < m; i++) {
        p->hot[i] = interesting_column(m >= 12 ? i : (start + i) % 12, k, group, &random);
        p->one_hot[i * k + p->hot[i]] = tern_activation_from_double(p->type, 1.0);
    }
    return check_buffer_reserve(p, &p->one_hot_buffer, m * k * (int64_t)sizeof *p->one_hot, seed + 5, err);
}

/* ---- the problem
 * --------------------------------------------------------------------------------------------------------------- */
enum tern_status check_problem_upload(struct tern_check_problem *p, struct tern_error *err) {
    enum tern_status status = check_buffer_write(p, &p->one_hot_buffer, p->one_hot, 0, err);
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < CHECK_INPUTS && status == TERN_OK; i++) {
            status = check_buffer_write(p, &p->sets[s].inputs[i], check_input_data(&p->sets[s], i), 0, err);
        }
    }
    return status;
}

/* 0, 1, ... count-1: small problems compare every row and column. */
static int64_t *count_up(int64_t count) {
    int64_t *list = tern_alloc((size_t)count * sizeof *list);
    for (int64_t i = 0; i < count; i++) {
        list[i] = i;
    }
    return list;
}

enum tern_status tern_check_problem_create(const struct tern_backend *backend, void *context,
                                           const struct tern_format *format, enum tern_activation type,
                                           enum tern_arithmetic arithmetic, const struct tern_layout *layout,
                                           const struct tern_check_shape *shape, uint64_t seed, struct tern_weights *given,
                                           struct tern_check_problem **problem, struct tern_error *err) {
    struct tern_check_problem *p = tern_alloc_zero(1, sizeof *p);
    p->backend = backend;
    p->context = context;
    p->format = *format;
    p->type = type;
    p->arithmetic = arithmetic;
    p->shape = *shape;
    p->rows = count_up(shape->m);
    p->cols = count_up(shape->n);
    int64_t y_bytes = shape->m * shape->n * (int64_t)sizeof *p->got;
    p->got = tern_alloc((size_t)y_bytes);
    p->first = tern_alloc((size_t)y_bytes);
    enum tern_status status = create_set(p, &p->sets[0], layout, seed, given, err);
    if (status == TERN_OK) {
        status = create_set(p, &p->sets[1], layout, seed + 1000003, given != NULL ? given + 1 : NULL, err);
    }
    if (status == TERN_OK) {
        status = create_one_hot(p, seed + (uint64_t)(shape->m * 31 + shape->n * 7 + shape->k), err);
    }
    if (status == TERN_OK) {
        status = check_buffer_reserve(p, &p->y, y_bytes, seed + 3, err);
    }
    if (status == TERN_OK) {
        status = check_problem_upload(p, err);
    }
    if (status != TERN_OK) {
        tern_check_problem_free(p);
        return status;
    }
    *problem = p;
    return TERN_OK;
}

void tern_check_problem_free(struct tern_check_problem *p) {
    if (p == NULL) {
        return;
    }
    free_set(p, &p->sets[0]);
    free_set(p, &p->sets[1]);
    check_buffer_release(p, &p->one_hot_buffer);
    check_buffer_release(p, &p->y);
    check_buffer_release(p, &p->workspace);
    check_buffer_release(p, &p->late_x);
    free(p->rows);
    free(p->cols);
    free(p->one_hot);
    free(p->hot);
    free(p->got);
    free(p->first);
    free(p);
}
