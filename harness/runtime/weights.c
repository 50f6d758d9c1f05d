/* tern_rt: layers, and packing of their weights on the host. The layout is that of the table's kernels for the layer; one
 * packed copy serves all m. */
#include "runtime/driver.h"

#include "core/str.h"
#include "formats/layout.h"
#include "tern/dispatch_select.h"

#include <stdlib.h>

enum tern_rt_status tern_rt_layer(const struct tern_rt *rt, const char *format, const char *op, int64_t n, int64_t k,
                                  struct tern_rt_layer *layer, struct tern_rt_error *err) {
    const struct tern_table *table = tern_rt_table(rt, NULL);
    struct tern_format parsed;
    struct tern_error why;
    int64_t over = 1, under = 1;
    memset(layer, 0, sizeof *layer);
    if (tern_format_parse(format, &parsed, &why) || tern_format_check_shape(&parsed, n, k, true, &why))
        return tern_rt_fail(err, TERN_RT_ARGUMENT, "%s", why.text);
    const struct tern_family_ *family = tern_family_of_(table, op ? op : tern_activation_op(TERN_F16), format);
    if (!family)
        return tern_rt_fail(err, TERN_RT_NO_KERNEL, "the table of %s holds no %s of %s", table->gpu,
                            op ? op : tern_activation_op(TERN_F16), format);
    const struct tern_group_ *group = tern_nearest_(table, family, n, k, &over, &under);
    const struct tern_kernel *kernel = &table->kernels[table->entries[group->first].kernel].kernel;
    const struct tern_layout *layout = tern_layout_find(kernel->layout);
    if (!layout)
        return tern_rt_fail(err, TERN_RT_NO_KERNEL, "this tern_rt does not know the layout %s: it is older than the table",
                            kernel->layout);
    tern_str_copy(layer->format, sizeof layer->format, format);
    tern_str_copy(layer->op, sizeof layer->op, family->op);
    tern_str_copy(layer->layout, sizeof layer->layout, kernel->layout);
    layer->n = n;
    layer->k = k;
    layer->groups = tern_format_groups(&parsed, k);
    layer->group_size = tern_format_group_size(&parsed, k);
    tern_layout_sizes(layout, &parsed, n, k, &layer->code_bytes, &layer->scale_bytes, &layer->zero_bytes);
    return TERN_RT_OK;
}

enum tern_rt_status tern_rt_check_weights(const struct tern_rt_layer *layer, const struct tern_rt_weights *w,
                                          struct tern_rt_error *err) {
    const int64_t entries = layer->groups * layer->n;
    const struct {
        const char *name;
        const void *pointer;
        int64_t have, need;
    } parts[] = {{"codes", w->codes, w->code_bytes, layer->n * layer->k},
                 {"scales", w->scales, w->scale_bytes, 2 * entries},
                 {"zeros", w->zeros, w->zero_bytes, layer->zero_bytes ? entries : 0}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].have != parts[i].need || (parts[i].need && !parts[i].pointer))
            return tern_rt_fail(err, TERN_RT_ARGUMENT, "%s %lldx%lld: %lld bytes of %s, expected %lld", layer->format,
                                (long long)layer->n, (long long)layer->k, (long long)parts[i].have, parts[i].name,
                                (long long)parts[i].need);
    if ((uintptr_t)w->scales % sizeof(uint16_t))
        return tern_rt_fail(err, TERN_RT_ARGUMENT, "scales at %p are misaligned", (void *)w->scales);
    return TERN_RT_OK;
}

static void copy(void *to, const void *from, int64_t bytes) {
    if (bytes > 0)
        memcpy(to, from, (size_t)bytes);
}

enum tern_rt_status tern_rt_pack(const struct tern_rt_layer *layer, const struct tern_rt_weights *weights, void *codes,
                                 void *scales, void *zeros, struct tern_rt_error *err) {
    struct tern_weights canonical = {.n = layer->n,
                                     .k = layer->k,
                                     .groups = layer->groups,
                                     .codes = weights->codes,
                                     .scales = weights->scales,
                                     .zeros = weights->zeros};
    struct tern_packed packed = {0};
    struct tern_error why;
    enum tern_rt_status status = tern_rt_check_weights(layer, weights, err);
    if (status)
        return status;
    if (tern_format_parse(layer->format, &canonical.format, &why) ||
        tern_layout_pack(tern_layout_find(layer->layout), &canonical, &packed, &why))
        return tern_rt_fail(err, TERN_RT_ARGUMENT, "%s", why.text);
    copy(codes, packed.codes, packed.code_bytes);
    copy(scales, packed.scales, packed.scale_bytes);
    copy(zeros, packed.zeros, packed.zero_bytes);
    tern_packed_free(&packed);
    return TERN_RT_OK;
}

enum tern_rt_status tern_rt_unpack(const struct tern_rt_layer *layer, const void *codes, const void *scales,
                                   const void *zeros, struct tern_rt_weights *weights, struct tern_rt_error *err) {
    const struct tern_packed packed = {layer->code_bytes, layer->scale_bytes, layer->zero_bytes,
                                       (void *)codes,     (void *)scales,     (void *)zeros};
    struct tern_format format;
    struct tern_weights canonical;
    struct tern_error why;
    enum tern_rt_status status = tern_rt_check_weights(layer, weights, err);
    if (status)
        return status;
    if (tern_format_parse(layer->format, &format, &why))
        return tern_rt_fail(err, TERN_RT_ARGUMENT, "%s", why.text);
    if (tern_layout_unpack(tern_layout_find(layer->layout), &format, layer->n, layer->k, &packed, &canonical, &why))
        return tern_rt_fail(err, TERN_RT_DAMAGED, "%s", why.text);
    copy(weights->codes, canonical.codes, weights->code_bytes);
    copy(weights->scales, canonical.scales, weights->scale_bytes);
    copy(weights->zeros, canonical.zeros, weights->zero_bytes);
    tern_weights_free(&canonical);
    return TERN_RT_OK;
}
