/* The steps of a conversion: read and judge the input, plan the output, write it into a folder beside its place, prove it, rename. */
#include "formats/convert_plan.h"

#include "core/file.h"
#include "formats/census.h"
#include "formats/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COPY_BYTES ((int64_t)8 << 20)

/* Bits that have no meaning but one reading (ternary-i) may go: they are written in their plain form. */
static bool only_reserved(const struct tern_linear *layer, const struct tern_census *c) {
    return strcmp(layer->checkpoint_format, "ternary-i") == 0 && layer->warnings.count == 0 && c->illegal.count == 0 &&
           c->scales.nan == 0 && c->scales.inf == 0;
}

static enum tern_status judge_layer(const struct tern_convert_plan *plan, size_t i, const struct tern_census *c,
                                    struct tern_strs *notes, struct tern_error *err) {
    const struct tern_linear *layer = &plan->found.items[i];
    struct tern_str detail = {0};
    enum tern_status status = TERN_OK;
    const enum tern_layer_status verdict = tern_census_judge(layer, c, &detail);
    const bool may = verdict == TERN_LAYER_SUSPECT && (plan->request->accept_suspect || only_reserved(layer, c));
    if (may) {
        struct tern_str note = {0};
        tern_str_printf(&note, "layer '%s': %s", layer->name, detail.data);
        tern_strs_add(notes, note.data);
        tern_str_free(&note);
    } else if (verdict == TERN_LAYER_ERROR && layer->error[0]) {
        status = tern_error_set(err, TERN_FAILED, "%s", layer->error);
    } else if (verdict != TERN_LAYER_OK) {
        status = tern_target_refuse(layer, err, "%s", detail.data);
        if (verdict == TERN_LAYER_SUSPECT)
            tern_error_hint(err, "--accept-suspect converts what its bits say; `tune inspect` shows the layer");
    }
    tern_str_free(&detail);
    return status;
}

/* Every layer must be right, and none may be broken: a folder of which a part is converted helps nobody. */
static enum tern_status judge(const struct tern_convert_plan *plan, struct tern_convert_summary *s, struct tern_error *err) {
    struct tern_census *census = tern_alloc(plan->found.count * sizeof *census);
    enum tern_status status = TERN_OK;
    tern_census_take(&plan->found, census);
    for (size_t i = 0; i < plan->found.count && !status; i++) {
        const struct tern_linear *layer = &plan->found.items[i];
        status = judge_layer(plan, i, &census[i], &s->notes, err);
        s->weights += layer->n * layer->k;
        if (!strstr(s->from, layer->checkpoint_format))
            tern_str_format(s->from + strlen(s->from), sizeof s->from - strlen(s->from), "%s%s", s->from[0] ? ", " : "",
                            layer->checkpoint_format);
    }
    free(census);
    return status;
}

static size_t file_index(const struct tern_convert_plan *plan, const struct tern_mapping *file) {
    size_t i = 0;
    while (i + 1 < plan->in.file_count && plan->in.files[i] != file)
        i++;
    return i;
}

/* The tensors that a layer is made of, and the index of groups that was never set. */
static void mark_parts(struct tern_convert_plan *plan, const struct tern_linear *layer) {
    struct tern_str name = {0};
    tern_str_printf(&name, "%s.weight_g_idx", layer->name);
    const struct tern_tensor *unset = tern_checkpoint_find(&plan->in, name.data);
    tern_str_free(&name);
    for (int p = 0; p < TERN_LINEAR_PARTS; p++)
        if (layer->parts[p])
            plan->belongs[layer->parts[p] - plan->in.tensors] = true;
    if (layer->g_idx)
        plan->belongs[layer->g_idx - plan->in.tensors] = true;
    if (unset && strcmp(layer->checkpoint_format, "pack-quantized") == 0)
        plan->belongs[unset - plan->in.tensors] = true;
}

static enum tern_status plan_layers(struct tern_convert_plan *plan, struct tern_error *err) {
    for (size_t i = 0; i < plan->found.count; i++) {
        struct tern_target_layer *layer = &plan->layers[i];
        const struct tern_linear *from = &plan->found.items[i];
        *layer = (struct tern_target_layer){
            .from = from, .target = plan->target, .file = &plan->files[file_index(plan, from->parts[0]->file)]};
        enum tern_status status = tern_target_check(layer, err);
        if (status)
            return status;
        mark_parts(plan, from);
        plan->target->plan(layer);
    }
    return TERN_OK;
}

static enum tern_status plan_carried(struct tern_convert_plan *plan, struct tern_convert_summary *s,
                                     struct tern_error *err) {
    for (size_t i = 0; i < plan->in.tensor_count; i++) {
        const struct tern_tensor *t = &plan->in.tensors[i];
        if (plan->belongs[i])
            continue;
        if (!tern_safetensors_dtype_bits(t->dtype))
            return tern_tensor_error(t, err, "is %s, which safetensors cannot hold", t->dtype);
        plan->carried[i] = tern_new_file_add(&plan->files[file_index(plan, t->file)], t->name, t->dtype, t->dims, t->shape);
        s->carried++;
    }
    return TERN_OK;
}

static enum tern_status copy_tensor(const struct tern_convert_plan *plan, size_t i, struct tern_error *err) {
    const struct tern_tensor *t = &plan->in.tensors[i];
    const struct tern_new_file *file = &plan->files[file_index(plan, t->file)];
    enum tern_status status = TERN_OK;
    for (int64_t at = 0; at < t->bytes && !status; at += COPY_BYTES)
        status = tern_new_file_write(file, plan->carried[i], at, tern_tensor_data(t) + at,
                                     t->bytes - at < COPY_BYTES ? t->bytes - at : COPY_BYTES, err);
    return status;
}

static enum tern_status write_file(struct tern_convert_plan *plan, size_t f, struct tern_error *err) {
    char path[8192];
    struct tern_new_file *file = &plan->files[f];
    const bool like = strcmp(plan->in.container, "safetensors") == 0;
    tern_str_format(path, sizeof path, "%s/%s", plan->temp, tern_convert_file_name(plan, f));
    enum tern_status status = tern_new_file_create(file, path, like ? plan->in.files[f] : NULL, err);
    for (size_t i = 0; i < plan->found.count && !status; i++)
        if (plan->layers[i].file == file)
            status = tern_target_write(&plan->layers[i], plan->request->stopped, err);
    for (size_t i = 0; i < plan->in.tensor_count && !status; i++)
        if (!plan->belongs[i] && plan->in.tensors[i].file == plan->in.files[f])
            status = copy_tensor(plan, i, err);
    return status ? status : tern_new_file_close(file, err);
}

static enum tern_status prepare(struct tern_convert_plan *plan, struct tern_convert_summary *s, struct tern_error *err) {
    enum tern_status status = tern_target_find(plan->request->to, &plan->target, err);
    if (!status && tern_file_exists(plan->request->out)) {
        status = tern_error_set(err, TERN_USAGE, "%s exists: convert writes a new folder", plan->request->out);
        tern_error_hint(err, "name a folder that does not exist yet");
    }
    if (!status)
        status = tern_checkpoint_open(plan->request->in, &plan->in, err);
    if (status)
        return status;
    tern_linears_find(&plan->in, &plan->found);
    if (plan->found.count == 0)
        return tern_error_set(err, TERN_FAILED, "%s: none of its %zu tensors is a quantised layer that can be read",
                              plan->request->in, plan->in.tensor_count);
    plan->layers = tern_alloc_zero(plan->found.count, sizeof *plan->layers);
    plan->belongs = tern_alloc_zero(plan->in.tensor_count, sizeof *plan->belongs);
    plan->carried = tern_alloc_zero(plan->in.tensor_count, sizeof *plan->carried);
    plan->files = tern_alloc_zero(plan->in.file_count, sizeof *plan->files);
    status = judge(plan, s, err);
    if (!status)
        status = plan_layers(plan, err);
    return status ? status : plan_carried(plan, s, err);
}

static void release(struct tern_convert_plan *plan) {
    for (size_t i = 0; plan->files && i < plan->in.file_count; i++)
        tern_new_file_free(&plan->files[i]);
    free(plan->files);
    free(plan->carried);
    free(plan->belongs);
    free(plan->layers);
    tern_linears_free(&plan->found);
    tern_checkpoint_close(&plan->in);
    free(plan);
}

enum tern_status tern_convert(const struct tern_convert_request *request, struct tern_convert_summary *s,
                              struct tern_error *err) {
    struct tern_convert_plan *plan = tern_alloc_zero(1, sizeof *plan);
    *s = (struct tern_convert_summary){0};
    plan->request = request;
    enum tern_status status = prepare(plan, s, err);
    if (!status)
        status = tern_convert_folder_create(plan, err);
    for (size_t i = 0; i < plan->in.file_count && !status; i++)
        status = write_file(plan, i, err);
    if (!status)
        status = tern_convert_folder_fill(plan, &s->notes, err);
    if (!status)
        status = tern_convert_prove(plan, s, err);
    if (!status)
        status = tern_convert_folder_publish(plan, err);
    if (status)
        tern_convert_folder_remove(plan);
    s->layers = plan->found.count;
    s->files = plan->in.file_count;
    for (size_t i = 0; i < plan->in.file_count; i++)
        s->in_bytes += plan->in.files[i]->bytes;
    release(plan);
    return status;
}
