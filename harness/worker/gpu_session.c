/* Opening the device and preparing a layer in a GPU worker. See gpu_session.h. */
#include "worker/gpu_session.h"

#include "core/clock.h"
#include "core/str.h"
#include "verify/guard.h"
#include "worker/real_weights.h"
#include "worker/reply.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN(bytes) (((bytes) + 255) / 256 * 256)
#define COLD_FACTOR  2.5 /* all copies together are this many times the L2: a copy is evicted before its turn comes again */
#define GUARD_SEED   0x7465726eull

void gpu_spent(struct gpu_session *s, enum tern_gpu_time account, int64_t start_ns) {
    s->seconds[account] += (double)(tern_clock_now_ns() - start_ns) * 1e-9;
}

static void describe_gpu(struct gpu_session *s) {
    const struct tern_device_info *i = &s->info;
    tern_str_copy(s->gpu.name, sizeof s->gpu.name, i->name);
    s->gpu.cc = i->cc;
    s->gpu.sms = i->sms;
    s->gpu.l2_bytes = i->l2_bytes;
    s->gpu.memory_bytes = i->memory_bytes;
    s->gpu.smem_block_bytes = i->smem_block_bytes;
    s->gpu.smem_sm_bytes = i->smem_sm_bytes;
    s->gpu.regs_sm = i->regs_sm;
    s->gpu.threads_sm = i->threads_sm;
    s->gpu.blocks_sm = i->blocks_sm;
}

/* A worker before this one died or hung: does the device still compute right, in a context that it never saw? */
static enum tern_status probe(struct gpu_session *s, struct tern_error *err) {
    if (tern_fixed_control(s->fixed, err) == TERN_OK)
        return TERN_OK;
    tern_error_prefix(err, "the device does not compute right since a worker died");
    err->status = TERN_MISSING;
    return TERN_MISSING;
}

enum tern_status gpu_session_hello(struct gpu_session *s, const json_t *request, struct tern_error *err) {
    s->backend = &tern_backend_cuda;
    (void)pthread_mutex_init(&s->modules.lock, NULL);
    enum tern_status status = s->backend->open((int)tern_message_int(request, "device", 0), &s->context, err);
    if (status == TERN_OK)
        status = s->backend->info(s->context, &s->info, err);
    if (status == TERN_OK)
        describe_gpu(s);
    if (status == TERN_OK)
        status = tern_fixed_open(s->context, NULL, &s->fixed, err);
    if (status == TERN_OK && json_is_true(json_object_get(request, "probe")))
        status = probe(s, err);
    if (status == TERN_OK)
        status = tern_cache_open(tern_message_text(request, "cache"), &s->cache, err);
    if (status == TERN_OK)
        status = tern_templates_load_all(&s->templates, &s->template_count, err);
    return status;
}

static void layer_free(struct gpu_session *s) {
    struct gpu_layer *l = &s->layer;
    for (size_t i = 0; i < GPU_INPUTS; i++) {
        if (l->inputs[i].x)
            s->backend->release(s->context, l->inputs[i].x);
        for (int a = 0; a < TERN_ARITHMETICS; a++)
            gpu_reference_free(s, &l->inputs[i], (enum tern_arithmetic)a);
    }
    if (l->dense)
        s->backend->release(s->context, l->dense);
    if (l->scratch)
        s->backend->release(s->context, l->scratch);
    if (l->e4m3_x)
        s->backend->release(s->context, l->e4m3_x);
    if (l->late_x)
        s->backend->release(s->context, l->late_x);
    for (size_t i = 0; i < l->pack_count; i++)
        if (l->packs[i].weights)
            s->backend->release(s->context, l->packs[i].weights);
    tern_weights_free(&l->weights);
    gpu_guarded_free(s, &l->y);
    gpu_guarded_free(s, &l->workspace);
    memset(l, 0, sizeof *l);
}

void gpu_session_close(struct gpu_session *s) {
    if (!s->context)
        return;
    if (!s->sticky) { /* after a sticky fault nothing can be freed; the process ends */
        layer_free(s);
        gpu_modules_close(s);
        for (size_t i = 0; i < s->bench_count; i++)
            tern_check_bench_free(s->benches[i].bench);
        tern_flush_close(s->context, &s->flush);
    }
    tern_fixed_close(s->fixed);
    tern_templates_free(s->templates, s->template_count);
    tern_cache_close(s->cache);
    s->backend->close(s->context);
}

enum tern_status gpu_guarded_alloc(struct gpu_session *s, int64_t bytes, struct gpu_guarded *g, struct tern_error *err) {
    enum tern_status status = s->backend->alloc(s->context, (size_t)(ALIGN(bytes) + 2 * TERN_GUARD_BYTES), &g->base, err);
    if (status != TERN_OK)
        return status;
    g->at = (char *)g->base + TERN_GUARD_BYTES;
    g->bytes = ALIGN(bytes);
    g->used = -1;
    return TERN_OK;
}

void gpu_guarded_free(struct gpu_session *s, struct gpu_guarded *g) {
    if (g->base)
        s->backend->release(s->context, g->base);
    memset(g, 0, sizeof *g);
}

enum tern_status gpu_guarded_poison(struct gpu_session *s, struct gpu_guarded *g, int64_t used, struct tern_error *err) {
    uint8_t guard[TERN_GUARD_BYTES];
    enum tern_status status = TERN_OK;
    used = (used + 15) / 16 * 16;
    if (!g->base)
        return TERN_OK;
    if (g->used != used) {
        tern_guard_fill(guard, sizeof guard, GUARD_SEED);
        status = s->backend->upload(s->context, g->base, guard, sizeof guard, err);
        if (status == TERN_OK)
            status = s->backend->upload(s->context, (char *)g->at + used, guard, sizeof guard, err);
        g->used = status == TERN_OK ? used : -1;
    }
    return status == TERN_OK && used > 0 ? s->backend->fill(s->context, g->at, TERN_POISON_WORD, (size_t)used, err) : status;
}

enum tern_status gpu_guarded_check(struct gpu_session *s, struct gpu_guarded *g, bool *intact, struct tern_error *err) {
    uint8_t guard[TERN_GUARD_BYTES];
    size_t offset;
    *intact = true;
    if (!g->base || g->used < 0)
        return TERN_OK;
    const void *const ends[] = {g->base, (char *)g->at + g->used};
    for (size_t i = 0; i < 2; i++) {
        enum tern_status status = s->backend->download(s->context, guard, ends[i], sizeof guard, err);
        if (status != TERN_OK)
            return status;
        *intact = *intact && tern_guard_check(guard, sizeof guard, GUARD_SEED, &offset);
    }
    if (!*intact)
        g->used = -1;
    return TERN_OK;
}

static size_t cold_copies(const struct gpu_session *s, int64_t bytes) {
    double copies = COLD_FACTOR * (double)s->info.l2_bytes / (double)bytes + 1;
    return copies < 2 ? 2 : copies > TERN_MAX_COPIES ? TERN_MAX_COPIES : (size_t)copies;
}

/* One upload, then copies on the device. */
static enum tern_status upload_pack(struct gpu_session *s, struct gpu_pack *pack, const struct tern_packed *p,
                                    struct tern_error *err) {
    pack->scale_at = ALIGN(p->code_bytes);
    pack->zero_at = pack->scale_at + ALIGN(p->scale_bytes);
    pack->stride = pack->zero_at + ALIGN(p->zero_bytes);
    pack->copies = cold_copies(s, p->code_bytes + p->scale_bytes + p->zero_bytes);
    enum tern_status status = s->backend->alloc(s->context, (size_t)pack->stride * pack->copies, &pack->weights, err);
    char *at = pack->weights;
    if (status == TERN_OK)
        status = s->backend->upload(s->context, at, p->codes, (size_t)p->code_bytes, err);
    if (status == TERN_OK)
        status = s->backend->upload(s->context, at + pack->scale_at, p->scales, (size_t)p->scale_bytes, err);
    if (status == TERN_OK && p->zero_bytes > 0)
        status = s->backend->upload(s->context, at + pack->zero_at, p->zeros, (size_t)p->zero_bytes, err);
    for (size_t i = 1; i < pack->copies && status == TERN_OK; i++)
        status = s->backend->copy(s->context, at + (size_t)pack->stride * i, at, (size_t)pack->stride, err);
    return status;
}

enum tern_status gpu_pack(struct gpu_session *s, const char *layout, const struct gpu_pack **pack, struct tern_error *err) {
    struct gpu_layer *l = &s->layer;
    struct tern_packed packed = {0};
    for (size_t i = 0; i < l->pack_count; i++)
        if (strcmp(tern_layout_name(l->packs[i].layout), layout) == 0) {
            *pack = &l->packs[i];
            return TERN_OK;
        }
    struct gpu_pack *made = &l->packs[l->pack_count];
    if (l->pack_count == GPU_MAX_PACKS || !(made->layout = tern_layout_find(layout)))
        return tern_error_set(err, TERN_INTERNAL, "no room for, or no layout called '%s'", layout);
    enum tern_status status = tern_layout_pack(made->layout, &l->weights, &packed, err);
    if (status == TERN_OK)
        status = upload_pack(s, made, &packed, err);
    tern_packed_free(&packed);
    l->pack_count++; /* also after a failure, so that what was allocated is freed with the layer */
    *pack = made;
    return status;
}

static enum tern_status upload_new(struct gpu_session *s, const void *from, size_t bytes, void **to,
                                   struct tern_error *err) {
    enum tern_status status = s->backend->alloc(s->context, bytes, to, err);
    return status == TERN_OK ? s->backend->upload(s->context, *to, from, bytes, err) : status;
}

struct tern_args gpu_layer_args(const struct gpu_session *s, const struct gpu_pack *pack, int64_t m, size_t copy) {
    const struct gpu_layer *l = &s->layer;
    char *at = (char *)pack->weights + (size_t)pack->stride * copy;
    return (struct tern_args){.x = l->inputs[0].x,
                              .codes = at,
                              .scales = at + pack->scale_at,
                              .zeros = l->weights.format.sym ? NULL : at + pack->zero_at,
                              .y = l->y.at,
                              .workspace = l->workspace.at,
                              .m = m,
                              .n = l->weights.n,
                              .k = l->weights.k,
                              .groups = l->weights.groups,
                              .group_size = tern_format_group_size(&l->weights.format, l->weights.k),
                              .multiprocessors = s->info.sms};
}

/* Dense weights for the baselines: the values of the packed weights, rounded once, in enough copies to be cold. */
static enum tern_status make_dense(struct gpu_session *s, struct tern_error *err) {
    struct gpu_layer *l = &s->layer;
    size_t bytes = (size_t)l->weights.n * (size_t)l->weights.k * 2;
    struct tern_launch launch;
    const struct gpu_pack *pack;
    enum tern_status status = gpu_pack(s, TERN_DEQUANTISE_LAYOUT, &pack, err);
    l->dense_copies = cold_copies(s, (int64_t)bytes);
    if (status == TERN_OK)
        status = s->backend->alloc(s->context, bytes * l->dense_copies, &l->dense, err);
    if (status == TERN_OK) {
        struct tern_args args = gpu_layer_args(s, pack, 1, 0);
        args.y = l->dense;
        status = tern_fixed_dequantise(s->fixed, &l->weights.format, l->type, &args, &launch, err);
    }
    if (status == TERN_OK)
        status = s->backend->launch(s->context, &launch, err);
    for (size_t i = 1; i < l->dense_copies && status == TERN_OK; i++)
        status = s->backend->copy(s->context, (char *)l->dense + bytes * i, l->dense, bytes, err);
    return status == TERN_OK ? s->backend->synchronize(s->context, err) : status;
}

/* The second input is the first one backwards: as random, each weight meets another activation, and it costs nothing. */
static enum tern_status make_activations(struct gpu_session *s, struct tern_error *err) {
    struct gpu_layer *l = &s->layer;
    size_t count = (size_t)l->m_max * (size_t)l->weights.k;
    uint16_t *x = tern_alloc(count * 2);
    tern_activations_random(l->type, l->m_max, l->weights.k, (uint64_t)s->seed, x);
    enum tern_status status = upload_new(s, x, count * 2, &l->inputs[0].x, err);
    for (size_t i = 0; i < count / 2; i++) {
        uint16_t swapped = x[i];
        x[i] = x[count - 1 - i];
        x[count - 1 - i] = swapped;
    }
    if (status == TERN_OK)
        status = upload_new(s, x, count * 2, &l->inputs[1].x, err);
    free(x);
    return status;
}

enum tern_status gpu_session_prepare(struct gpu_session *s, const json_t *request, struct tern_error *err) {
    struct gpu_layer *l = &s->layer;
    struct tern_format format;
    layer_free(s);
    s->seed = tern_message_int(request, "seed", 1);
    l->m_max = tern_message_int(request, "m_max", 1);
    enum tern_status status = tern_format_parse(tern_message_text(request, "format"), &format, err);
    if (status == TERN_OK)
        status = tern_activation_parse(tern_message_text(request, "activations"), &l->type, err);
    if (status == TERN_OK && tern_real_weights_asked(request))
        status = tern_real_weights(request, &format, 0, 0, &l->weights, err);
    else if (status == TERN_OK)
        status = tern_weights_random(&format, tern_message_int(request, "n", 0), tern_message_int(request, "k", 0),
                                     (uint64_t)s->seed, &l->weights, err);
    if (status == TERN_OK)
        status = make_activations(s, err);
    if (status == TERN_OK)
        status = gpu_guarded_alloc(s, l->m_max * l->weights.n * 2, &l->y, err);
    if (status == TERN_OK)
        status = make_dense(s, err);
    l->ready = status == TERN_OK;
    return status;
}

enum tern_status gpu_candidate(struct gpu_session *s, const json_t *request, struct tern_candidate *c,
                               struct tern_error *err) {
    const char *name = tern_message_text(request, "template");
    for (size_t i = 0; i < s->template_count; i++)
        if (strcmp(s->templates[i].name, name) == 0)
            return tern_candidate_parse(&s->templates[i], tern_message_text(request, "params"), c, err);
    return tern_error_set(err, TERN_INTERNAL, "no template is called '%s'", name);
}

/* Workspace as large as any candidate so far wanted it. */
static enum tern_status ensure_workspace(struct gpu_session *s, int64_t bytes, struct tern_error *err) {
    if (bytes <= s->layer.workspace.bytes)
        return TERN_OK;
    gpu_guarded_free(s, &s->layer.workspace);
    return gpu_guarded_alloc(s, bytes, &s->layer.workspace, err);
}

enum tern_status gpu_cubin(struct gpu_session *s, const char *hash, void **image, size_t *bytes, struct tern_error *err) {
    bool found = false;
    enum tern_status status = tern_cache_get(s->cache, hash, image, bytes, &found, err);
    if (status == TERN_OK && !found)
        status = tern_error_set(err, TERN_INTERNAL, "cubin %s is not in the cache", hash);
    return status;
}

enum tern_status gpu_kernel_load(struct gpu_session *s, const json_t *request, int64_t m, struct gpu_kernel *kernel,
                                 struct tern_error *err) {
    const struct gpu_layer *l = &s->layer;
    memset(kernel, 0, sizeof *kernel);
    const struct tern_problem_shape shape = {
        .format = &l->weights.format, .m = m, .n = l->weights.n, .k = l->weights.k, .type = l->type};
    enum tern_status status = gpu_candidate(s, request, &kernel->candidate, err);
    if (status == TERN_OK)
        status = tern_candidate_geometry(&kernel->candidate, &shape, s->info.sms, &kernel->geometry, err);
    if (status == TERN_OK)
        status = gpu_pack(s, kernel->candidate.tmpl->layout, &kernel->pack, err);
    if (status == TERN_OK)
        status = ensure_workspace(s, kernel->geometry.workspace_bytes, err);
    if (status == TERN_OK)
        status = gpu_module(s, tern_message_text(request, "cubin"), kernel->candidate.tmpl->entry,
                            kernel->geometry.smem_bytes, &kernel->module, &kernel->function, err);
    if (status == TERN_OK && kernel->candidate.tmpl->prologue[0])
        status = s->backend->module_function(s->context, kernel->module, kernel->candidate.tmpl->prologue, &kernel->prologue,
                                             err);
    kernel->arithmetic = tern_check_arithmetic(&kernel->candidate, s->layer.type);
    kernel->exactness = tern_check_exactness(&kernel->candidate, s->layer.type);
    int64_t start_ns = tern_clock_now_ns();
    if (status == TERN_OK)
        status = gpu_references(s, kernel->arithmetic, err);
    gpu_spent(s, TERN_GPU_PREPARATION, start_ns);
    return status;
}

struct tern_launch gpu_kernel_launch(const struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, size_t copy) {
    const struct tern_geometry *g = &kernel->geometry;
    return (struct tern_launch){.function = kernel->function,
                                .grid = {g->grid[0], g->grid[1], g->grid[2]},
                                .block = g->block,
                                .cluster = g->cluster,
                                .smem_bytes = g->smem_bytes,
                                .dependent = kernel->candidate.dependent,
                                .prologue = kernel->prologue,
                                .prologue_grid = g->prologue_grid,
                                .prologue_block = g->prologue_block,
                                .args = gpu_layer_args(s, kernel->pack, m, copy)};
}

/* A sample of 40 us or more hides the event's half microsecond; kernels under 10 us get at least 20 nodes (tuning.md). Where
 * x and y alone push everything else out of the L2, one launch follows the other on the same copy. */
size_t gpu_graph_launches(const struct gpu_session *s, int64_t weight_bytes, size_t copies, int64_t m, double expected_us) {
    double touched = (double)weight_bytes + 2.0 * (double)m * (double)(s->layer.weights.n + s->layer.weights.k);
    double cold = COLD_FACTOR * (double)s->info.l2_bytes / touched + 1;
    size_t rotation = cold < (double)copies ? (size_t)cold : copies, launches = rotation;
    while (launches < 20 && expected_us < 50.0)
        launches += rotation;
    return launches > TERN_MAX_COPIES ? TERN_MAX_COPIES : launches;
}
