/* tern_rt: opening, selection and launch. After tern_rt_open nothing of a struct tern_rt changes but the list of pooled
 * workspaces, which only grows and publishes its length last: launches read it without a lock. */
#include "runtime/driver.h"

#include "core/archive.h"
#include "core/file.h"
#include "tern/dispatch_select.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MAX_STREAMS 64
#define ALIGNMENT   256

struct pool {
    void *stream, *memory;
    int64_t bytes;
};

/* A kernel of the table. Those of one image share a module, which the first of them owns; NULL in the others. */
struct loaded {
    void *module, *function, *prologue; /* prologue NULL: none */
};

struct tern_rt {
    const struct tern_rt_driver *driver;
    void *context;
    struct tern_table table; /* a copy: its shared memory is no more than this device's */
    enum tern_match match;
    struct loaded *kernels; /* one a kernel of the table */
    struct tern_rt_packing packing;
    pthread_mutex_t growing; /* held while a pool is added */
    struct pool pools[MAX_STREAMS];
    atomic_int pool_count;
};

/* ---- opening ---- */

/* Dynamic shared memory that this kernel may ever ask for: what its static part leaves of a block's. */
static int64_t smem_limit(const struct tern_rt *rt, const struct tern_kernel *kernel) {
    return rt->table.smem_bytes - kernel->static_smem_bytes;
}

static enum tern_rt_status load_kernel(struct tern_rt *rt, const struct tern_rt_options *o, int index,
                                       struct tern_rt_error *err) {
    const struct tern_kernel *kernel = &rt->table.kernels[index].kernel;
    struct tern_error why;
    void *image = NULL;
    size_t bytes = 0;
    bool found = false;
    for (int i = 0; i < index; i++) {
        const struct tern_kernel *other = &rt->table.kernels[i].kernel;
        if (strcmp(other->cubin_hash, kernel->cubin_hash) == 0 && strcmp(other->entry, kernel->entry) == 0) {
            rt->kernels[index] = (struct loaded){NULL, rt->kernels[i].function, rt->kernels[i].prologue};
            return TERN_RT_OK;
        }
    }
    if (tern_archive_read(o->kernels, o->kernels_bytes, kernel->cubin_hash, &image, &bytes, &found, &why))
        return tern_rt_fail(err, TERN_RT_DAMAGED, "%s", why.text);
    if (!found)
        return tern_rt_fail(err, TERN_RT_NO_KERNEL, "the packed kernels lack %s %s (%s)", kernel->template_name,
                            kernel->params, kernel->cubin_hash);
    struct loaded *loaded = &rt->kernels[index];
    enum tern_rt_status status = rt->driver->load(rt->context, image, bytes, kernel->entry, smem_limit(rt, kernel),
                                                  &loaded->module, &loaded->function, err);
    if (!status && kernel->prologue)
        status = rt->driver->find(rt->context, loaded->module, kernel->prologue, &loaded->prologue, err);
    free(image);
    return status;
}

/* The packing kernels, which stand in the archive under the architecture's name. An export made without NVRTC has none. */
static enum tern_rt_status load_packing(struct tern_rt *rt, const struct tern_rt_options *o, struct tern_rt_error *err) {
    struct tern_rt_packing *p = &rt->packing;
    struct tern_error why;
    char name[TERN_HASH_CHARS];
    void *image = NULL;
    size_t bytes = 0;
    bool found = false;
    tern_str_format(name, sizeof name, TERN_PACKING_IMAGE "%s", rt->table.arch);
    if (tern_archive_read(o->kernels, o->kernels_bytes, name, &image, &bytes, &found, &why))
        return tern_rt_fail(err, TERN_RT_DAMAGED, "%s", why.text);
    if (!found)
        return TERN_RT_OK;
    enum tern_rt_status status = rt->driver->load(rt->context, image, bytes, "tern_pack", 0, &p->module, &p->pack, err);
    if (!status)
        status = rt->driver->find(rt->context, p->module, "tern_unpack_scales", &p->unpack_scales, err);
    if (!status)
        status = rt->driver->find(rt->context, p->module, "tern_unpack", &p->unpack, err);
    free(image);
    return status;
}

/* The table for this device, or why there is none. */
static enum tern_rt_status choose_table(struct tern_rt *rt, const struct tern_rt_options *o,
                                        const struct tern_rt_device *device, struct tern_rt_error *err) {
    const enum tern_match worst = o->worst == TERN_MATCH_NONE ? TERN_MATCH_DEFAULT : o->worst;
    const struct tern_table *table =
        tern_choose_table_(o->tables, o->table_count, device->name, device->cc, device->sms, &rt->match);
    if (!table)
        return tern_rt_fail(err, TERN_RT_OTHER_GPU, "no table is for %s (compute capability %d.%d); the first is for %s, %s",
                            device->name, device->cc / 10, device->cc % 10, o->tables[0].gpu, o->tables[0].arch);
    if ((int)rt->match > (int)worst)
        return tern_rt_fail(err, TERN_RT_OTHER_GPU, "the table of %s is a %s match for %s, but %s was asked for", table->gpu,
                            tern_match_text_(rt->match), device->name, tern_match_text_(worst));
    rt->table = *table;
    if (device->smem_bytes < rt->table.smem_bytes)
        rt->table.smem_bytes = device->smem_bytes;
    return TERN_RT_OK;
}

static enum tern_rt_status open_runtime(struct tern_rt *rt, const struct tern_rt_options *o, struct tern_rt_error *err) {
    struct tern_rt_device device = {0};
    enum tern_rt_status status = rt->driver->open(o->device, &rt->context, &device, err);
    if (!status)
        status = choose_table(rt, o, &device, err);
    if (status)
        return status;
    rt->kernels = calloc((size_t)rt->table.kernel_count, sizeof *rt->kernels);
    if (!rt->kernels)
        return tern_rt_fail(err, TERN_RT_DEVICE, "out of memory for %d kernels", rt->table.kernel_count);
    for (int i = 0; i < rt->table.kernel_count && !status; i++)
        status = load_kernel(rt, o, i, err);
    return status ? status : load_packing(rt, o, err);
}

enum tern_rt_status tern_rt_open(const struct tern_rt_options *options, struct tern_rt **rt, struct tern_rt_error *err) {
    struct tern_rt_options o = *options;
    char *file = NULL;
    struct tern_error why;
    *rt = NULL;
    if (!o.tables || o.table_count < 1 || (!o.kernels && !o.kernels_path))
        return tern_rt_fail(err, TERN_RT_ARGUMENT, "tern_rt_open needs tables and packed kernels");
    if (!o.kernels) {
        if (tern_file_read(o.kernels_path, &file, &o.kernels_bytes, &why))
            return tern_rt_fail(err, TERN_RT_ARGUMENT, "%s", why.text);
        o.kernels = file;
    }
    struct tern_rt *opened = calloc(1, sizeof *opened);
    enum tern_rt_status status = TERN_RT_DEVICE;
    if (opened) {
        opened->driver = o.driver ? o.driver : &tern_rt_driver_cuda;
        (void)pthread_mutex_init(&opened->growing, NULL);
        status = open_runtime(opened, &o, err);
    }
    free(file);
    if (status) {
        tern_rt_close(opened);
        return status;
    }
    *rt = opened;
    return TERN_RT_OK;
}

enum tern_rt_status tern_rt_open_folder(const char *folder, int device, enum tern_match worst, struct tern_rt **rt,
                                        struct tern_rt_error *err) {
    struct tern_str library = {0}, kernels = {0};
    const struct tern_table *(*tables)(int *count) = NULL;
    int (*version)(void) = NULL;
    enum tern_rt_status status = TERN_RT_ARGUMENT;
    *rt = NULL;
    tern_str_printf(&library, "%s/libtern_dispatch.so", folder);
    tern_str_printf(&kernels, "%s/tern_kernels.bin", folder);
    /* Stays open: the tables in it are used until the process ends. */
    void *handle = dlopen(library.data, RTLD_NOW | RTLD_LOCAL);
    if (handle) {
        *(void **)&tables = dlsym(handle, "tern_tables");
        *(void **)&version = dlsym(handle, "tern_abi_version");
    }
    if (tables && (!version || version() != TERN_ABI_VERSION)) {
        tern_rt_fail(err, status, "%s was exported by another version of Tern: export again", library.data);
    } else if (tables) {
        struct tern_rt_options o = {.kernels_path = kernels.data, .device = device, .worst = worst};
        o.tables = tables(&o.table_count);
        status = tern_rt_open(&o, rt, err);
    } else {
        tern_rt_fail(err, status, "%s: %s", library.data, handle ? "holds no tern_tables" : dlerror());
    }
    tern_str_free(&library);
    tern_str_free(&kernels);
    return status;
}

void tern_rt_close(struct tern_rt *rt) {
    if (!rt)
        return;
    for (int i = 0; i < atomic_load(&rt->pool_count); i++)
        rt->driver->release(rt->context, rt->pools[i].memory);
    for (int i = 0; i < rt->table.kernel_count && rt->kernels; i++)
        if (rt->kernels[i].module)
            rt->driver->unload(rt->context, rt->kernels[i].module);
    if (rt->packing.module)
        rt->driver->unload(rt->context, rt->packing.module);
    if (rt->context)
        rt->driver->close(rt->context);
    (void)pthread_mutex_destroy(&rt->growing);
    free(rt->kernels);
    free(rt);
}

const struct tern_table *tern_rt_table(const struct tern_rt *rt, enum tern_match *match) {
    if (match)
        *match = rt->match;
    return &rt->table;
}

const struct tern_rt_packing *tern_rt_packing(const struct tern_rt *rt) {
    return &rt->packing;
}

enum tern_rt_status tern_rt_run(struct tern_rt *rt, const struct tern_rt_run *run, struct tern_rt_error *err) {
    return rt->driver->run(rt->context, run, err);
}

/* ---- launching ---- */

struct tern_choice tern_rt_choice(const struct tern_rt *rt, const struct tern_rt_layer *layer, int64_t m) {
    return tern_choose_(&rt->table, layer->format, layer->op, m, layer->n, layer->k);
}

int64_t tern_rt_workspace_bytes(const struct tern_rt *rt, const struct tern_rt_layer *layer, int64_t max_m) {
    int64_t most = 0;
    for (int64_t m = 1; m <= max_m; m++)
        most = tern_max_(most, tern_rt_choice(rt, layer, m).workspace_bytes);
    return most;
}

/* The stream's own workspace; NULL if it has none. */
static const struct pool *find_pool(struct tern_rt *rt, const void *stream) {
    int count = atomic_load_explicit(&rt->pool_count, memory_order_acquire);
    for (int i = 0; i < count; i++)
        if (rt->pools[i].stream == stream)
            return &rt->pools[i];
    return NULL;
}

enum tern_rt_status tern_rt_pool_add(struct tern_rt *rt, void *stream, int64_t bytes, struct tern_rt_error *err) {
    enum tern_rt_status status = TERN_RT_OK;
    if (bytes <= 0)
        return tern_rt_fail(err, TERN_RT_ARGUMENT, "a workspace of %lld bytes", (long long)bytes);
    (void)pthread_mutex_lock(&rt->growing);
    int count = atomic_load(&rt->pool_count);
    struct pool *pool = &rt->pools[count < MAX_STREAMS ? count : 0];
    if (count == MAX_STREAMS)
        status = tern_rt_fail(err, TERN_RT_ARGUMENT, "%d streams have a workspace; no more fit", MAX_STREAMS);
    else if (find_pool(rt, stream))
        status = tern_rt_fail(err, TERN_RT_ARGUMENT, "the stream has a workspace already");
    else
        status = rt->driver->alloc(rt->context, bytes, &pool->memory, err);
    if (!status) {
        pool->stream = stream;
        pool->bytes = bytes;
        atomic_store_explicit(&rt->pool_count, count + 1, memory_order_release);
    }
    (void)pthread_mutex_unlock(&rt->growing);
    return status;
}

static bool aligned(const void *pointer, uintptr_t bytes) {
    return pointer && (uintptr_t)pointer % bytes == 0;
}

/* Every pointer that a kernel follows. */
static enum tern_rt_status check_pointers(const struct tern_rt_layer *layer, const struct tern_rt_call *call,
                                          struct tern_rt_error *err) {
    const struct {
        const char *name;
        const void *pointer;
        uintptr_t alignment;
        bool needed;
    } pointers[] = {{"x", call->x, ALIGNMENT, true},
                    {"y", call->y, 16, true},
                    {"codes", layer->codes, ALIGNMENT, true},
                    {"scales", layer->scales, ALIGNMENT, true},
                    {"zeros", layer->zeros, ALIGNMENT, layer->zero_bytes > 0},
                    {"bias", layer->bias, 2, layer->bias != NULL}};
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++)
        if (pointers[i].needed && !aligned(pointers[i].pointer, pointers[i].alignment))
            return tern_rt_fail(err, TERN_RT_ARGUMENT, "%s is %p, must be a multiple of %d", pointers[i].name,
                                pointers[i].pointer, (int)pointers[i].alignment);
    return TERN_RT_OK;
}

/* The caller's workspace or the stream's; NULL where the launch needs none. */
static enum tern_rt_status find_workspace(struct tern_rt *rt, const struct tern_rt_call *call, int64_t need,
                                          void **workspace, struct tern_rt_error *err) {
    int64_t have = call->workspace_bytes;
    *workspace = call->workspace;
    if (need == 0)
        return TERN_RT_OK;
    if (!*workspace) {
        const struct pool *pool = find_pool(rt, call->stream);
        if (!pool)
            return tern_rt_fail(err, TERN_RT_WORKSPACE, "the launch needs %lld bytes of workspace; the stream has none",
                                (long long)need);
        *workspace = pool->memory;
        have = pool->bytes;
    }
    if (have < need)
        return tern_rt_fail(err, TERN_RT_WORKSPACE, "a workspace of %lld bytes, the launch needs %lld", (long long)have,
                            (long long)need);
    if (!aligned(*workspace, ALIGNMENT))
        return tern_rt_fail(err, TERN_RT_ARGUMENT, "the workspace is %p, must be a multiple of %d", *workspace, ALIGNMENT);
    return TERN_RT_OK;
}

enum tern_rt_status tern_rt_launch(struct tern_rt *rt, const struct tern_rt_layer *layer, const struct tern_rt_call *call,
                                   struct tern_rt_error *err) {
    void *workspace;
    if (call->m == 0)
        return TERN_RT_OK;
    if (call->m < 0)
        return tern_rt_fail(err, TERN_RT_ARGUMENT, "m is %lld", (long long)call->m);
    enum tern_rt_status status = check_pointers(layer, call, err);
    if (status)
        return status;
    const struct tern_choice choice = tern_rt_choice(rt, layer, call->m);
    if (!choice.kernel)
        return tern_rt_fail(err, TERN_RT_NO_KERNEL, "nothing in the table of %s serves %s m=%lld n=%lld k=%lld",
                            rt->table.gpu, layer->format, (long long)call->m, (long long)layer->n, (long long)layer->k);
    status = find_workspace(rt, call, choice.workspace_bytes, &workspace, err);
    if (status)
        return status;
    const struct tern_args args = {.x = call->x,
                                   .codes = layer->codes,
                                   .scales = layer->scales,
                                   .zeros = layer->zeros,
                                   .bias = layer->bias,
                                   .y = call->y,
                                   .workspace = workspace,
                                   .m = call->m,
                                   .n = layer->n,
                                   .k = layer->k,
                                   .groups = layer->groups,
                                   .group_size = layer->group_size,
                                   .multiprocessors = rt->table.sms};
    /* `kernel` is the first member of its row. */
    const struct tern_kernel_ *row = (const struct tern_kernel_ *)(const void *)choice.kernel;
    const struct loaded *loaded = &rt->kernels[row - rt->table.kernels];
    const struct tern_rt_work work = {
        loaded->function, loaded->prologue, &choice, &args, call->stream, call->dependent && choice.kernel->dependent};
    return rt->driver->launch(rt->context, &work, err);
}
