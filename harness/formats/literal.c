/* Finds the tensors of a layer for the second decode, by name. Knows names and types; kernels/literal.h knows the bits. */
#include "formats/literal.h"

#include <string.h>

/* Suffixes of the tensors of a format; NULL: it has no such tensor. */
static const struct names {
    const char *format;
    int literal, dense; /* what it is, and what it is if its codes are dense */
    const char *codes, *zeros, *scales, *g_idx;
} formats[] = {
    {"gptq", TERN_LITERAL_GPTQ, -1, ".qweight", ".qzeros", ".scales", ".g_idx"},
    {"gptq_v2", TERN_LITERAL_GPTQ, -1, ".qweight", ".qzeros", ".scales", ".g_idx"},
    {"gptq_p", TERN_LITERAL_GPTQ_PLANAR, -1, ".qweight", ".qzeros", ".scales", ".g_idx"},
    {"awq", TERN_LITERAL_AWQ, -1, ".qweight", ".qzeros", ".scales", NULL},
    {"pack-quantized", TERN_LITERAL_PACKED, TERN_LITERAL_PACKED_DENSE, ".weight_packed", ".weight_zero_point",
     ".weight_scale", ".weight_g_idx"},
    {"ternary-i", TERN_LITERAL_TERNARY_I, -1, ".packed_ternary_weight", NULL, ".scales", NULL},
    {"ternary-ii", TERN_LITERAL_TERNARY_II, -1, ".packed_ternary_weight", NULL, ".scales", NULL},
    {"ternary-iii", TERN_LITERAL_TERNARY_III, -1, ".ternary_weight", NULL, ".scales", NULL},
    {"bitnet-multiply", TERN_LITERAL_BITNET, -1, ".weight", NULL, ".weight_scale", NULL},
    {"bitnet-divide", TERN_LITERAL_BITNET_DIVIDE, -1, ".weight", NULL, ".weight_scale", NULL},
    {"bitnet-gpu", TERN_LITERAL_BITNET_GPU, -1, ".weight", NULL, ".weight_scale", NULL},
    {"gguf-tq1_0", TERN_LITERAL_TQ1_0, -1, ".weight", NULL, NULL, NULL},
    {"gguf-tq2_0", TERN_LITERAL_TQ2_0, -1, ".weight", NULL, NULL, NULL},
    {"gguf-q2_0", TERN_LITERAL_Q2_0, -1, ".weight", NULL, NULL, NULL},
};

static const struct tern_tensor *find(const struct tern_checkpoint *checkpoint, const char *module, const char *suffix) {
    struct tern_str name = {0};
    if (!suffix)
        return NULL;
    tern_str_printf(&name, "%s%s", module, suffix);
    const struct tern_tensor *tensor = tern_checkpoint_find(checkpoint, name.data);
    tern_str_free(&name);
    return tensor;
}

static const unsigned char *bytes_of(const struct tern_tensor *tensor) {
    return tensor ? tern_tensor_data(tensor) : NULL;
}

static int fused_parts(const char *module) {
    const char *dot = strrchr(module, '.'), *last = dot ? dot + 1 : module;
    return strcmp(last, "wqkv") == 0 ? 3 : strcmp(last, "w13") == 0 ? 2 : 1;
}

static int scale_type(const struct tern_tensor *scales) {
    if (!scales || strcmp(scales->dtype, "F16") == 0)
        return TERN_LITERAL_F16;
    return strcmp(scales->dtype, "BF16") == 0 ? TERN_LITERAL_BF16 : TERN_LITERAL_F32;
}

/* A tensor of compressed-tensors that holds an index of nothing but -1 is as good as none: the layer then has no g_idx. */
static void find_tensors(const struct tern_checkpoint *checkpoint, const struct tern_linear *layer,
                         const struct names *names, struct tern_literal_tensors *t) {
    t->codes = find(checkpoint, layer->name, names->codes);
    t->zeros = find(checkpoint, layer->name, names->zeros);
    t->scales = find(checkpoint, layer->name, names->scales);
    t->g_idx = layer->g_idx ? find(checkpoint, layer->name, names->g_idx) : NULL;
    if (!t->codes) /* a tensor of GGUF whose name does not end in .weight */
        t->codes = tern_checkpoint_find(checkpoint, layer->name);
}

enum tern_status tern_literal_find(const struct tern_checkpoint *checkpoint, const struct tern_linear *layer,
                                   struct tern_literal *literal, struct tern_literal_tensors *t, struct tern_error *err) {
    const struct names *names = NULL;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].format, layer->checkpoint_format) == 0)
            names = &formats[i];
    if (!names)
        return tern_error_set(err, TERN_INTERNAL, "no second decode of %s", layer->checkpoint_format);
    find_tensors(checkpoint, layer, names, t);
    if (!t->codes || (names->scales && !t->scales))
        return tern_error_set(err, TERN_INTERNAL, "%s: the second decode does not find its tensors", layer->name);
    *literal = (struct tern_literal){.codes = bytes_of(t->codes),
                                     .zeros = bytes_of(t->zeros),
                                     .scales = bytes_of(t->scales),
                                     .g_idx = bytes_of(t->g_idx),
                                     .n = layer->n,
                                     .k = layer->k,
                                     .group = layer->group,
                                     .groups = layer->groups,
                                     .code_words = t->codes->dims == 2 ? t->codes->shape[1] : 0,
                                     .zero_words = t->zeros && t->zeros->dims == 2 ? t->zeros->shape[1] : 0,
                                     .format = layer->dense ? names->dense : names->literal,
                                     .scale_type = scale_type(t->scales),
                                     .bits = layer->bits,
                                     .zero_offset = layer->zero_offset,
                                     .fused = fused_parts(layer->name)};
    return TERN_OK;
}
