/* tern_rt: packing of a layer's weights on the device, and back, by the kernels of kernels/pack.cu. Enqueues; waits for nothing. */
#include "runtime/driver.h"

#include "formats/layout.h"

/* The layer's layout and the caller's arrays as the kernels take them. */
static enum tern_rt_status make_args(const struct tern_rt *rt, const struct tern_rt_layer *layer,
                                     const struct tern_rt_weights *w, const struct tern_rt_packed *packed,
                                     struct tern_pack_args *args, struct tern_rt_error *err) {
    struct tern_format format;
    struct tern_error why;
    enum tern_rt_status status = tern_rt_check_weights(layer, w, err);
    if (status)
        return status;
    if (!tern_rt_packing(rt)->pack)
        return tern_rt_fail(err, TERN_RT_NO_KERNEL,
                            "the packed kernels lack those that pack weights on %s: export again with NVRTC",
                            tern_rt_table(rt, NULL)->arch);
    if (!packed->codes || !packed->scales || (layer->zero_bytes && !packed->zeros) || (uintptr_t)packed->codes % 4 ||
        (uintptr_t)packed->scales % 2)
        return tern_rt_fail(err, TERN_RT_ARGUMENT, "packed codes at %p, scales at %p, zeros at %p: missing or misaligned",
                            packed->codes, packed->scales, packed->zeros);
    if (tern_format_parse(layer->format, &format, &why))
        return tern_rt_fail(err, TERN_RT_ARGUMENT, "%s", why.text);
    if (!tern_layout_wire(tern_layout_find(layer->layout), &format, layer->n, layer->k, args))
        return tern_rt_fail(err, TERN_RT_ARGUMENT, "layout %s does not hold %s", layer->layout, layer->format);
    args->codes = w->codes;
    args->scales = w->scales;
    args->zeros = layer->zero_bytes ? w->zeros : NULL;
    args->packed_codes = packed->codes;
    args->packed_scales = packed->scales;
    args->packed_zeros = layer->zero_bytes ? packed->zeros : NULL;
    args->wrong = packed->wrong;
    return TERN_RT_OK;
}

static enum tern_rt_status run(struct tern_rt *rt, void *function, struct tern_pack_args *args, void *stream,
                               struct tern_rt_error *err) {
    const struct tern_rt_run work = {.function = function,
                                     .grid = (args->row_tiles * args->k_tiles + TERN_PACK_WARPS - 1) / TERN_PACK_WARPS,
                                     .block = 32 * TERN_PACK_WARPS,
                                     .args = args,
                                     .arg_bytes = sizeof *args,
                                     .stream = stream};
    return tern_rt_run(rt, &work, err);
}

enum tern_rt_status tern_rt_pack_on(struct tern_rt *rt, const struct tern_rt_layer *layer,
                                    const struct tern_rt_weights *weights, const struct tern_rt_packed *packed, void *stream,
                                    struct tern_rt_error *err) {
    struct tern_pack_args args;
    enum tern_rt_status status = make_args(rt, layer, weights, packed, &args, err);
    return status ? status : run(rt, tern_rt_packing(rt)->pack, &args, stream, err);
}

enum tern_rt_status tern_rt_unpack_on(struct tern_rt *rt, const struct tern_rt_layer *layer,
                                      const struct tern_rt_packed *packed, const struct tern_rt_weights *weights,
                                      void *stream, struct tern_rt_error *err) {
    struct tern_pack_args args;
    enum tern_rt_status status = make_args(rt, layer, weights, packed, &args, err);
    if (!status) /* zero points first: padding is judged by them */
        status = run(rt, tern_rt_packing(rt)->unpack_scales, &args, stream, err);
    return status ? status : run(rt, tern_rt_packing(rt)->unpack, &args, stream, err);
}
