/* The packed layout on the device: rows packed by the host as an engine loads them, decoded by kernels/unpack.cu. */
#include "worker/load_internal.h"

#include "core/half.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAYOUT "frag16x128"

/* The name in docs/formats.md of the weights that kernels would read. */
static void format_name(const struct tern_linear *layer, char *out, size_t size) {
    char group[32] = "channel";
    if (layer->groups > 1)
        tern_str_format(group, sizeof group, "g%" PRId64, layer->group);
    if (layer->ternary)
        tern_str_format(out, size, "ternary-%s", group);
    else
        tern_str_format(out, size, "gptq%d-%s%s", layer->bits, group, layer->sym ? "" : "-asym");
}

enum tern_status load_packed_open(struct load_session *s, struct load *l, struct tern_error *err) {
    char name[64];
    struct tern_format *format = &l->packed.format;
    int64_t codes, scales, zeros;
    format_name(l->layer, name, sizeof name);
    if (l->layer->act_order || tern_format_parse(name, format, NULL) != TERN_OK ||
        tern_format_check_shape(format, l->layer->n, l->layer->k, true, NULL) != TERN_OK ||
        (format->sym && format->zero != l->layer->zero))
        return TERN_OK;
    const struct tern_layout *layout = tern_layout_find(LAYOUT);
    tern_layout_sizes(layout, format, l->window, l->layer->k, &codes, &scales, &zeros);
    enum tern_status status = load_allocate(s, codes, &l->packed.codes, err);
    if (!status)
        status = load_allocate(s, scales, &l->packed.scales, err);
    if (!status && zeros)
        status = load_allocate(s, zeros, &l->packed.zeros, err);
    l->packed.layout = layout;
    return status;
}

/* Canonical weights of the window: codes stay where they are, scales and zero points by group. False if a scale has no binary16. */
static bool make_weights(const struct load *l, struct tern_weights *w) {
    const int64_t rows = l->rows.count, groups = l->layer->groups;
    *w = (struct tern_weights){
        .format = l->packed.format, .n = rows, .k = l->layer->k, .groups = groups, .codes = l->rows.codes};
    w->scales = tern_alloc((size_t)(rows * groups) * sizeof *w->scales);
    w->zeros = w->format.sym ? NULL : tern_alloc((size_t)(rows * groups));
    bool exact = true;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t g = 0; g < groups; g++) {
            const float scale = l->rows.scales[i * groups + g];
            w->scales[g * rows + i] = tern_half_from_double((double)scale);
            exact = exact && tern_half_to_float(w->scales[g * rows + i]) == scale; /* NaN is not */
            if (w->zeros)
                w->zeros[g * rows + i] = l->rows.zeros[i * groups + g];
        }
    return exact;
}

static enum tern_status run_packed(struct load_session *s, struct load *l, const struct tern_packed *packed,
                                   struct tern_error *err) {
    static const char *const words[3] = {"packed code", "packed zero point", "packed scale"};
    const struct tern_literal layer = {.codes = l->packed.codes,
                                       .zeros = l->packed.zeros,
                                       .scales = l->packed.scales,
                                       .n = l->rows.count,
                                       .k = l->layer->k,
                                       .group = l->layer->group,
                                       .groups = l->layer->groups,
                                       .bits = l->layer->bits};
    enum tern_status status =
        s->backend->upload(s->context, l->packed.codes, packed->codes, (size_t)packed->code_bytes, err);
    if (!status)
        status = s->backend->upload(s->context, l->packed.scales, packed->scales, (size_t)packed->scale_bytes, err);
    if (!status && packed->zero_bytes)
        status = s->backend->upload(s->context, l->packed.zeros, packed->zeros, (size_t)packed->zero_bytes, err);
    if (!status)
        status = load_launch(s, l, s->packed.function, &layer, 0, l->rows.count, err);
    if (status)
        return status;
    if (!l->packed.zeros) /* the format has one zero point, which no memory holds */
        memcpy(l->got.zeros, l->rows.zeros, (size_t)(l->rows.count * l->layer->groups));
    memcpy(l->got_index, l->want_index, (size_t)l->layer->k * sizeof *l->got_index);
    load_compare(l, words);
    l->packed.weights += l->rows.count * l->layer->k;
    return TERN_OK;
}

enum tern_status load_packed_rows(struct load_session *s, struct load *l, struct tern_error *err) {
    struct tern_weights weights;
    struct tern_packed packed = {0};
    enum tern_status status = TERN_OK;
    if (!l->packed.layout)
        return TERN_OK;
    if (make_weights(l, &weights)) {
        status = tern_layout_pack(l->packed.layout, &weights, &packed, err);
        if (!status)
            status = run_packed(s, l, &packed, err);
        tern_packed_free(&packed);
    } else {
        l->packed.layout = NULL;
        l->packed.weights = 0;
    }
    free(weights.scales);
    free(weights.zeros);
    return status;
}

void load_packed_close(struct load_session *s, struct load *l) {
    void *const buffers[] = {l->packed.codes, l->packed.scales, l->packed.zeros};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i])
            s->backend->release(s->context, buffers[i]);
}
