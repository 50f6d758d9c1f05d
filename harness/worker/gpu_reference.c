/* FP64 references on the device, of the prepared layer's inputs by one arithmetic (verify/quantise.h), from canonical weights: they
 * share nothing with packing, decoders or the kernels that quantise. Owns device memory only while it works; results go to
 * the layer. */
#include "worker/gpu_session.h"

#include "core/str.h"

#include <stdlib.h>
#include <string.h>

/* Device memory that lives as long as the work. */
enum { CODES, SCALES, ZEROS, X, X_UNITS, W_UNITS, TEMPORARIES };
struct references {
    struct gpu_session *s;
    enum tern_arithmetic arithmetic;
    void *device[TEMPORARIES]; /* NULL: not needed */
};

void gpu_reference_free(struct gpu_session *s, struct gpu_input *input, enum tern_arithmetic arithmetic) {
    void **const buffers[] = {&input->y_ref[arithmetic], &input->bound_scale[arithmetic]};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        if (*buffers[i])
            s->backend->release(s->context, *buffers[i]);
        *buffers[i] = NULL;
    }
}

/* Replaces temporary `which`. */
static enum tern_status upload(struct references *r, int which, const void *from, size_t bytes, struct tern_error *err) {
    const struct tern_backend *b = r->s->backend;
    if (r->device[which])
        b->release(r->s->context, r->device[which]);
    r->device[which] = NULL;
    enum tern_status status = b->alloc(r->s->context, bytes, &r->device[which], err);
    return status == TERN_OK ? b->upload(r->s->context, r->device[which], from, bytes, err) : status;
}

static enum tern_status upload_weights(struct references *r, struct tern_error *err) {
    const struct tern_weights *w = &r->s->layer.weights;
    const size_t entries = (size_t)w->groups * (size_t)w->n;
    uint16_t *scales = tern_alloc(entries * sizeof *scales);
    float *units = tern_alloc((size_t)w->n * sizeof *units);
    bool rounded = r->arithmetic == TERN_ARITHMETIC_A8_ROUNDED;
    if (rounded)
        tern_quantise_scales(w, scales, units);
    enum tern_status status = upload(r, CODES, w->codes, (size_t)w->n * (size_t)w->k, err);
    if (status == TERN_OK)
        status = upload(r, SCALES, rounded ? scales : w->scales, entries * sizeof *scales, err);
    if (status == TERN_OK && rounded)
        status = upload(r, W_UNITS, units, (size_t)w->n * sizeof *units, err);
    if (status == TERN_OK && w->zeros)
        status = upload(r, ZEROS, w->zeros, entries, err);
    free(scales);
    free(units);
    return status;
}

/* The integers that stand for one input's x. */
static enum tern_status upload_x(struct references *r, const struct gpu_input *input, struct tern_error *err) {
    const struct gpu_layer *l = &r->s->layer;
    const size_t count = (size_t)l->m_max * (size_t)l->weights.k;
    if (r->arithmetic == TERN_ARITHMETIC_A16)
        return TERN_OK;
    uint16_t *x = tern_alloc(count * sizeof *x);
    float *units = tern_alloc((size_t)l->m_max * sizeof *units);
    enum tern_status status = r->s->backend->download(r->s->context, x, input->x, count * sizeof *x, err);
    if (status == TERN_OK) {
        tern_quantise_activations(r->arithmetic, x, l->m_max, l->weights.k, x, units);
        status = upload(r, X, x, count * sizeof *x, err);
    }
    if (status == TERN_OK)
        status = upload(r, X_UNITS, units, (size_t)l->m_max * sizeof *units, err);
    free(x);
    free(units);
    return status;
}

static enum tern_status reference_of(struct references *r, struct gpu_input *input, struct tern_error *err) {
    const struct tern_backend *b = r->s->backend;
    const struct gpu_layer *l = &r->s->layer;
    const struct tern_weights *w = &l->weights;
    const size_t elements = (size_t)l->m_max * (size_t)w->n;
    void **y_ref = &input->y_ref[r->arithmetic], **bound_scale = &input->bound_scale[r->arithmetic];
    enum tern_status status = upload_x(r, input, err);
    if (status == TERN_OK)
        status = b->alloc(r->s->context, elements * sizeof(double), y_ref, err);
    if (status == TERN_OK)
        status = b->alloc(r->s->context, elements * sizeof(float), bound_scale, err);
    const struct tern_reference_args args = {.x = r->device[X] ? r->device[X] : input->x,
                                             .codes = r->device[CODES],
                                             .scales = r->device[SCALES],
                                             .zeros = r->device[ZEROS],
                                             .x_units = r->device[X_UNITS],
                                             .w_units = r->device[W_UNITS],
                                             .y_ref = *y_ref,
                                             .bound_scale = *bound_scale,
                                             .m = l->m_max,
                                             .n = w->n,
                                             .k = w->k,
                                             .group_size = tern_format_group_size(&w->format, w->k),
                                             .zero = w->format.zero,
                                             .bf16 = l->type == TERN_BF16};
    if (status == TERN_OK)
        status = tern_fixed_reference(r->s->fixed, &args, err);
    return status == TERN_OK ? b->synchronize(r->s->context, err) : status;
}

enum tern_status gpu_references(struct gpu_session *s, enum tern_arithmetic arithmetic, struct tern_error *err) {
    struct references r = {.s = s, .arithmetic = arithmetic};
    if (s->layer.inputs[GPU_INPUTS - 1].bound_scale[arithmetic])
        return TERN_OK;
    enum tern_status status = upload_weights(&r, err);
    for (size_t i = 0; i < GPU_INPUTS && status == TERN_OK; i++)
        status = reference_of(&r, &s->layer.inputs[i], err);
    for (int i = 0; i < TEMPORARIES; i++)
        if (r.device[i])
            s->backend->release(s->context, r.device[i]);
    for (size_t i = 0; i < GPU_INPUTS && status != TERN_OK; i++) /* none or all, so that nobody compares with half of them */
        gpu_reference_free(s, &s->layer.inputs[i], arithmetic);
    return status;
}
