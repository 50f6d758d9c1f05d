/* Load worker: see load.h. Owns the device, one checkpoint and the built kernel; keeps one layer on the device at a time. */
#include "worker/load.h"

#include "core/file.h"
#include "core/hash.h"
#include "device/compiler.h"
#include "device/compiler_emu.h"
#include "worker/load_internal.h"
#include "worker/message.h"
#include "worker/process.h"
#include "worker/reply.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_BYTES ((int64_t)8 << 20) /* of codes that one launch decodes */
#define CHUNK_BYTES  ((int64_t)8 << 20) /* of a comparison of bytes */
#define POISON       0xA5A5A5A5U

// ---- the kernel -----------------------------------------------------------------------------------------------------------

static enum tern_status build_emu(const struct load_session *s, const char *source, const char *closure, const char *cache,
                                  char path[PATH_MAX], struct tern_error *err) {
    char identity[TERN_HASH_CHARS], key[TERN_HASH_CHARS];
    struct tern_str log = {0};
    int ok = 1;
    (void)s;
    enum tern_status status = tern_emu_identity(0, identity, err);
    if (!status)
        status = tern_file_make_dirs(cache, err);
    if (status)
        return status;
    struct tern_hash_state *hash = tern_hash_new();
    tern_hash_add_text(hash, identity);
    tern_hash_add_text(hash, source);
    tern_hash_add_text(hash, closure);
    tern_hash_end(hash, key);
    tern_str_format(path, PATH_MAX, "%s/%s.so", cache, key);
    if (!tern_file_exists(path))
        status = tern_emu_compile(source, "unpack.cu", path, 0, &log, &ok, err);
    if (!status && !ok)
        status = tern_error_set(err, TERN_INTERNAL, "unpack.cu does not compile: %.700s", tern_str_text(&log));
    tern_str_free(&log);
    return status;
}

static enum tern_status build_cuda(struct load_session *s, const char *source, const char *kernels,
                                   struct tern_compiled *compiled, struct tern_error *err) {
    char templates[PATH_MAX], arch[24];
    const char *const dirs[] = {kernels, templates};
    tern_str_format(arch, sizeof arch, "sm_%d", s->info.cc);
    enum tern_status status = tern_file_home_path("templates/include", templates, sizeof templates, err);
    if (!status)
        status = tern_nvrtc_compile(source, "unpack.cu", arch, dirs, 2, "tern_unpack", compiled, err);
    if (!status && !compiled->ok)
        status = tern_error_set(err, TERN_INTERNAL, "unpack.cu does not compile for %s: %.700s", arch,
                                tern_str_text(&compiled->log));
    return status;
}

/* Both entries of one image: a cubin, or the path of an object. */
static enum tern_status load_entries(struct load_session *s, const void *image, size_t bytes, struct tern_error *err) {
    enum tern_status status =
        s->backend->module_load(s->context, image, bytes, "tern_unpack", 0, &s->raw.module, &s->raw.function, err);
    return status ? status
                  : s->backend->module_load(s->context, image, bytes, "tern_unpack_packed", 0, &s->packed.module,
                                            &s->packed.function, err);
}

static enum tern_status build(struct load_session *s, const char *cache, struct tern_error *err) {
    char kernels[PATH_MAX], file[PATH_MAX], object[PATH_MAX], *source = NULL;
    size_t length;
    struct tern_str closure = {0};
    struct tern_compiled compiled = {0};
    enum tern_status status = tern_file_home_path("kernels", kernels, sizeof kernels, err);
    if (!status)
        status = tern_file_home_path("kernels/unpack.cu", file, sizeof file, err);
    if (!status)
        status = tern_file_read(file, &source, &length, err);
    if (!status)
        status = tern_source_closure(source, kernels, &closure, err);
    if (!status && s->backend == &tern_backend_emu) {
        status = build_emu(s, source, tern_str_text(&closure), cache, object, err);
        if (!status)
            status = load_entries(s, object, strlen(object) + 1, err);
    } else if (!status) {
        status = build_cuda(s, source, kernels, &compiled, err);
        if (!status)
            status = load_entries(s, compiled.image, compiled.image_bytes, err);
        tern_compiled_free(&compiled);
    }
    tern_str_free(&closure);
    free(source);
    return status;
}

/* Device, kernel and checkpoint stay from the first request on. */
static enum tern_status open_session(struct load_session *s, const json_t *request, struct tern_error *err) {
    const char *path = tern_message_text(request, "path");
    enum tern_status status = TERN_OK;
    if (!s->context) {
        s->backend = strcmp(tern_message_text(request, "backend"), "emu") == 0 ? &tern_backend_emu : &tern_backend_cuda;
        status = s->backend->open(0, &s->context, err);
        if (!status)
            status = s->backend->info(s->context, &s->info, err);
    }
    if (!status && !s->packed.function)
        status = build(s, tern_message_text(request, "cache"), err);
    if (!status && !s->path) {
        s->path = tern_strdup(path);
        status = tern_checkpoint_open(path, &s->checkpoint, err);
        if (!status)
            tern_linears_find(&s->checkpoint, &s->layers);
    }
    return status;
}

// ---- bytes ----------------------------------------------------------------------------------------------------------------

enum tern_status load_allocate(struct load_session *s, int64_t bytes, void **to, struct tern_error *err) {
    return s->backend->alloc(s->context, (size_t)((bytes + 7) / 4 * 4), to, err);
}

/* Brings a tensor to the device and back, and compares it with the file. */
static enum tern_status load_tensor(struct load_session *s, struct load *l, int slot, struct tern_error *err) {
    const struct tern_tensor *tensor = l->tensors[slot];
    const uint8_t *file = tern_tensor_data(tensor);
    uint8_t *back = tern_alloc((size_t)CHUNK_BYTES);
    enum tern_status status = load_allocate(s, tensor->bytes, &l->on_device[slot], err);
    if (!status)
        status = s->backend->upload(s->context, l->on_device[slot], file, (size_t)tensor->bytes, err);
    for (int64_t at = 0; !status && at < tensor->bytes; at += CHUNK_BYTES) {
        const int64_t count = tensor->bytes - at < CHUNK_BYTES ? tensor->bytes - at : CHUNK_BYTES;
        status = s->backend->download(s->context, back, (const uint8_t *)l->on_device[slot] + at, (size_t)count, err);
        for (int64_t i = 0; !status && memcmp(back, file + at, (size_t)count) != 0 && i < count; i++)
            if (back[i] != file[at + i])
                tern_difference_note(&l->difference, tensor, "byte", 0, at + i, file[at + i], back[i]);
    }
    l->bytes += tensor->bytes;
    free(back);
    return status;
}

// ---- weights --------------------------------------------------------------------------------------------------------------

static enum tern_status allocate_outputs(struct load_session *s, struct load *l, struct tern_error *err) {
    const int64_t groups = l->window * l->layer->groups;
    enum tern_status status = load_allocate(s, (int64_t)sizeof(struct tern_unpack_args), &l->args, err);
    if (!status)
        status = load_allocate(s, l->window * l->layer->k, &l->codes, err);
    if (!status)
        status = load_allocate(s, groups, &l->zeros, err);
    if (!status)
        status = load_allocate(s, 4 * groups, &l->scales, err);
    if (!status)
        status = load_allocate(s, 4 * l->layer->k, &l->index, err);
    return status;
}

/* Nothing that an earlier launch left may look like a result. */
static enum tern_status poison(struct load_session *s, const struct load *l, struct tern_error *err) {
    const int64_t groups = l->window * l->layer->groups;
    enum tern_status status =
        s->backend->fill(s->context, l->codes, POISON, (size_t)(l->window * l->layer->k + 3) / 4 * 4, err);
    if (!status)
        status = s->backend->fill(s->context, l->zeros, POISON, (size_t)(groups + 3) / 4 * 4, err);
    if (!status)
        status = s->backend->fill(s->context, l->scales, POISON, (size_t)(4 * groups), err);
    return status;
}

static enum tern_status fetch(struct load_session *s, struct load *l, int64_t rows, struct tern_error *err) {
    const size_t groups = (size_t)(rows * l->layer->groups), k = (size_t)l->layer->k;
    enum tern_status status = s->backend->download(s->context, l->got.codes, l->codes, (size_t)rows * k, err);
    if (!status)
        status = s->backend->download(s->context, l->got.zeros, l->zeros, groups, err);
    if (!status)
        status = s->backend->download(s->context, l->got.scales, l->scales, 4 * groups, err);
    if (!status)
        status = s->backend->download(s->context, l->got_index, l->index, 4 * k, err);
    return status;
}

enum tern_status load_launch(struct load_session *s, struct load *l, void *function, const struct tern_literal *layer,
                             int64_t first, int64_t rows, struct tern_error *err) {
    const struct tern_unpack_args args = {.layer = *layer,
                                          .first = first,
                                          .rows = rows,
                                          .codes = l->codes,
                                          .zeros = l->zeros,
                                          .scales = l->scales,
                                          .index = l->index};
    const bool emu = s->backend == &tern_backend_emu; /* a fiber a thread: few do as well */
    const struct tern_launch launch = {.function = function,
                                       .grid = {emu ? 2 : 16 * s->info.sms, 1, 1},
                                       .block = emu ? 32 : 256,
                                       .cluster = 1,
                                       .args = {.workspace = l->args}};
    enum tern_status status = poison(s, l, err);
    if (!status)
        status = s->backend->upload(s->context, l->args, &args, sizeof args, err);
    if (!status)
        status = s->backend->launch(s->context, &launch, err);
    if (!status)
        status = s->backend->synchronize(s->context, err);
    return status ? status : fetch(s, l, rows, err);
}

void load_compare(struct load *l, const char *const words[3]) {
    const int64_t k = l->layer->k, groups = l->layer->groups;
    const struct tern_tensor *tensor = l->tensors[0];
    for (int64_t i = 0; i < l->rows.count; i++) {
        const int64_t n = l->rows.first + i;
        const uint8_t *want = l->rows.codes + i * k, *got = l->got.codes + i * k;
        for (int64_t j = 0; memcmp(want, got, (size_t)k) != 0 && j < k; j++)
            if (want[j] != got[j])
                tern_difference_note(&l->difference, tensor, words[0], n, j, want[j], got[j]);
        for (int64_t at = i * groups; at < (i + 1) * groups; at++) {
            const int64_t first = at % groups * l->layer->group;
            if (l->rows.zeros[at] != l->got.zeros[at])
                tern_difference_note(&l->difference, tensor, words[1], n, first, l->rows.zeros[at], l->got.zeros[at]);
            if (!tern_scales_equal(l->rows.scales[at], l->got.scales[at]))
                tern_difference_note(&l->difference, tensor, words[2], n, first, (double)l->rows.scales[at],
                                     (double)l->got.scales[at]);
        }
    }
    for (int64_t j = 0; j < k; j++)
        if (l->want_index[j] != l->got_index[j])
            tern_difference_note(&l->difference, tensor, "group", l->rows.first, j, l->want_index[j], l->got_index[j]);
}

/* Rows [first, first + count), from the file's bytes and from the packed layout. */
static enum tern_status decode_window(struct load_session *s, struct load *l, int64_t first, int64_t count,
                                      struct tern_error *err) {
    static const char *const words[3] = {"code", "zero point", "scale"};
    struct tern_literal layer = l->literal;
    layer.codes = l->on_device[0];
    layer.zeros = l->on_device[1];
    layer.scales = l->on_device[2];
    layer.g_idx = l->on_device[3];
    enum tern_status status = load_launch(s, l, s->raw.function, &layer, first, count, err);
    if (status)
        return status;
    tern_linear_decode(l->layer, first, first + count, &l->rows);
    load_compare(l, words);
    l->weights += count * l->layer->k;
    return load_packed_rows(s, l, err);
}

/* Windows of whole row tiles of the packed layout. */
static enum tern_status decode(struct load_session *s, struct load *l, struct tern_error *err) {
    const int64_t rows = WINDOW_BYTES / l->layer->k / 16 * 16, n = l->layer->n;
    l->window = rows < 16 ? 16 : rows;
    l->window = l->window < n ? l->window : n;
    tern_linear_rows_alloc(l->layer, l->window, &l->rows);
    tern_linear_rows_alloc(l->layer, l->window, &l->got);
    l->want_index = tern_alloc((size_t)l->layer->k * sizeof *l->want_index);
    l->got_index = tern_alloc((size_t)l->layer->k * sizeof *l->got_index);
    tern_linear_group_index(l->layer, l->want_index);
    enum tern_status status = allocate_outputs(s, l, err);
    if (!status)
        status = load_packed_open(s, l, err);
    for (int64_t first = 0; !status && first < n; first += l->window)
        status = decode_window(s, l, first, n - first < l->window ? n - first : l->window, err);
    return status;
}

static enum tern_status run(struct load_session *s, struct load *l, struct tern_error *err) {
    struct tern_literal_tensors t;
    enum tern_status status = tern_literal_find(&s->checkpoint, l->layer, &l->literal, &t, err);
    const struct tern_tensor *const tensors[TERN_LOAD_TENSORS] = {t.codes, t.zeros, t.scales, t.g_idx};
    memcpy(l->tensors, tensors, sizeof tensors);
    for (int i = 0; i < TERN_LOAD_TENSORS && !status; i++)
        if (l->tensors[i])
            status = load_tensor(s, l, i, err);
    return status ? status : decode(s, l, err);
}

static void release(struct load_session *s, struct load *l) {
    void *const buffers[] = {l->on_device[0], l->on_device[1], l->on_device[2], l->on_device[3], l->args,
                             l->codes,        l->zeros,        l->scales,       l->index};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i])
            s->backend->release(s->context, buffers[i]);
    load_packed_close(s, l);
    tern_linear_forget(l->layer);
    tern_linear_rows_free(&l->rows);
    tern_linear_rows_free(&l->got);
    free(l->want_index);
    free(l->got_index);
}

static json_t *make_reply(const struct load_session *s, const struct load *l) {
    json_t *reply = json_pack("{s:s,s:I,s:I,s:I,s:I}", "device", s->info.name, "bytes", (json_int_t)l->bytes, "weights",
                              (json_int_t)l->weights, "packed", (json_int_t)l->packed.weights, "differences",
                              (json_int_t)l->difference.count);
    if (l->difference.count)
        json_object_update_new(reply, json_pack("{s:s,s:s,s:I,s:I,s:f,s:f}", "tensor", l->difference.tensor, "what",
                                                l->difference.what, "row", (json_int_t)l->difference.row, "k",
                                                (json_int_t)l->difference.k, "expected", l->difference.expected, "got",
                                                l->difference.got));
    return reply;
}

static json_t *serve(struct load_session *s, const json_t *request) {
    struct tern_error err = {0};
    struct load l = {0};
    enum tern_status status = open_session(s, request, &err);
    const int64_t index = tern_message_int(request, "layer", -1);
    if (status)
        return tern_reply_error(&err);
    if (index < 0 || index >= (int64_t)s->layers.count || s->layers.items[index].error[0]) {
        tern_error_set(&err, TERN_INTERNAL, "no layer %lld that can be loaded", (long long)index);
        return tern_reply_error(&err);
    }
    l.layer = &s->layers.items[index];
    status = run(s, &l, &err);
    json_t *reply = status ? tern_reply_error(&err) : make_reply(s, &l);
    release(s, &l);
    return reply;
}

int tern_load_worker(void) {
    struct load_session *s = tern_alloc_zero(1, sizeof *s);
    json_t *request = NULL;
    while (tern_message_receive(TERN_WORKER_FD, 0, &request) == TERN_MESSAGE_OK) {
        json_t *reply = serve(s, request);
        json_decref(request);
        enum tern_message_status sent = tern_message_send(TERN_WORKER_FD, reply);
        json_decref(reply);
        if (sent != TERN_MESSAGE_OK)
            break;
    }
    if (s->raw.module)
        s->backend->module_unload(s->context, s->raw.module);
    if (s->packed.module)
        s->backend->module_unload(s->context, s->packed.module);
    if (s->context)
        s->backend->close(s->context);
    if (s->path) {
        tern_linears_free(&s->layers);
        tern_checkpoint_close(&s->checkpoint);
    }
    free(s->path);
    free(s);
    return 0;
}
