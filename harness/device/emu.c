/* The emulator as a backend: fenced host memory, kernels from shared objects made by tern_emu_compile, one launch at a time.
 * Guard bytes of every buffer are compared after each launch. A fault ends the launch, not the process, and is not sticky.
 */
#include "device/emu.h"

#include "core/str.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define EMU_MAX_REGIONS 256
#define EMU_SMEM_BYTES  (227 * 1024) /* as compute capability 9.0 */

struct emu_context {
    struct tern_emu_machine machine;
    struct tern_emu_region regions[EMU_MAX_REGIONS];
};

/* A loaded kernel: its object, the coordinates that it reads, its entry. */
struct emu_module {
    void *handle;
    struct tern_emu_state *state;
    void (*entry)(struct tern_args);
    struct emu_module *more; /* other entries of the same object */
};

static enum tern_status emu_open(int ordinal, void **context, struct tern_error *err) {
    if (ordinal != 0) {
        return tern_error_set(err, TERN_MISSING, "the emulator is device 0 only, not %d", ordinal);
    }
    struct emu_context *c = tern_alloc_zero(1, sizeof *c);
    size_t stack_bytes = dlsym(RTLD_DEFAULT, "__asan_init") != NULL ? 512 * 1024 : 128 * 1024; /* ASan's frames are larger */
    tern_emu_machine_create(&c->machine, stack_bytes);
    *context = c;
    return TERN_OK;
}

static void emu_close(void *context) {
    struct emu_context *c = context;
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < EMU_MAX_REGIONS; i++) {
        tern_emu_region_free(&c->regions[i]);
    }
    tern_emu_machine_free(&c->machine);
    free(c);
}

/* The limits of compute capability 9.0; a handful of multiprocessors, so that persistent grids loop. */
static enum tern_status emu_info(void *context, struct tern_device_info *out, struct tern_error *err) {
    (void)context, (void)err;
    *out = (struct tern_device_info){.name = "emulator", .uuid = "emulator", .cc = 90, .sms = 4, .l2_bytes = 50 << 20};
    out->memory_bytes = (int64_t)1 << 31;
    out->smem_block_bytes = EMU_SMEM_BYTES;
    out->smem_sm_bytes = 228 * 1024;
    out->regs_sm = 65536;
    out->threads_sm = 2048;
    out->blocks_sm = 32;
    return TERN_OK;
}

static enum tern_status emu_alloc(void *context, size_t bytes, void **pointer, struct tern_error *err) {
    struct emu_context *c = context;
    for (size_t i = 0; i < EMU_MAX_REGIONS; i++) {
        if (c->regions[i].map == NULL) {
            enum tern_status status = tern_emu_region_create(&c->regions[i], bytes, 256, err);
            *pointer = c->regions[i].data;
            return status;
        }
    }
    return tern_error_set(err, TERN_MISSING, "more than %d buffers on the emulated device", EMU_MAX_REGIONS);
}

static void emu_release(void *context, void *pointer) {
    struct emu_context *c = context;
    for (size_t i = 0; i < EMU_MAX_REGIONS; i++) {
        if (c->regions[i].map != NULL && c->regions[i].data == pointer) {
            tern_emu_region_free(&c->regions[i]);
            return;
        }
    }
}

/* A copy of the host must lie within one buffer. */
static enum tern_status check_range(const struct emu_context *c, const void *at, size_t bytes, struct tern_error *err) {
    const uint8_t *from = at;
    for (size_t i = 0; i < EMU_MAX_REGIONS; i++) {
        const struct tern_emu_region *r = &c->regions[i];
        if (r->map != NULL && from >= r->data && bytes <= r->bytes && (size_t)(from - r->data) <= r->bytes - bytes) {
            return TERN_OK;
        }
    }
    return tern_error_set(err, TERN_INTERNAL, "host copy of %zu bytes is not within one emulated buffer", bytes);
}

static enum tern_status emu_upload(void *context, void *to, const void *from, size_t bytes, struct tern_error *err) {
    enum tern_status status = check_range(context, to, bytes, err);
    if (status == TERN_OK && bytes != 0) {
        memcpy(to, from, bytes);
    }
    return status;
}

static enum tern_status emu_download(void *context, void *to, const void *from, size_t bytes, struct tern_error *err) {
    enum tern_status status = check_range(context, from, bytes, err);
    if (status == TERN_OK && bytes != 0) {
        memcpy(to, from, bytes);
    }
    return status;
}

static enum tern_status emu_copy(void *context, void *to, const void *from, size_t bytes, struct tern_error *err) {
    enum tern_status status = check_range(context, from, bytes, err);
    return status == TERN_OK ? emu_upload(context, to, from, bytes, err) : status;
}

/* Word by word, at any alignment. */
static enum tern_status emu_fill(void *context, void *to, uint32_t word, size_t bytes, struct tern_error *err) {
    if (bytes % 4 != 0) {
        return tern_error_set(err, TERN_INTERNAL, "fill of %zu bytes is not a multiple of 4", bytes);
    }
    enum tern_status status = check_range(context, to, bytes, err);
    for (size_t i = 0; status == TERN_OK && i < bytes / 4; i++) {
        memcpy((uint8_t *)to + 4 * i, &word, 4);
    }
    return status;
}

/* ---- kernels
 * ------------------------------------------------------------------------------------------------------------------- */
/* dlclose: static variables of the kernel's object go with it once nobody else holds the same path. An object made with
 * ASan stays: ASan's list of globals keeps pointers into it, and its next report would fault on them with its lock held. */
static void emu_module_unload(void *context, void *module) {
    (void)context;
    struct emu_module *m = module;
    if (m != NULL) {
        if (m->state == NULL || !m->state->asan) {
            dlclose(m->handle);
        }
        for (struct emu_module *more = m->more, *next; more != NULL; more = next) {
            next = more->more;
            free(more);
        }
        free(m);
    }
}

static enum tern_status emu_module_function(void *context, void *module, const char *entry, void **function,
                                            struct tern_error *err) {
    (void)context;
    struct emu_module *first = module, *m = tern_alloc_zero(1, sizeof *m);
    *m = (struct emu_module){.handle = first->handle, .state = first->state, .more = first->more};
    first->more = m;
    *(void **)&m->entry = dlsym(m->handle, entry);
    *function = m;
    return m->entry != NULL ? TERN_OK : tern_error_set(err, TERN_FAILED, "no entry \"%s\" in the emulator object", entry);
}

static enum tern_status emu_module_load(void *context, const void *image, size_t bytes, const char *entry,
                                        int64_t smem_bytes, void **module, void **function, struct tern_error *err) {
    (void)context;
    char path[4096];
    tern_str_format(path, sizeof path, "%.*s", (int)(bytes < sizeof path ? bytes : sizeof path - 1), (const char *)image);
    if (smem_bytes > EMU_SMEM_BYTES) {
        return tern_error_set(err, TERN_FAILED, "%s: OUT_OF_RESOURCES: %lld bytes of dynamic shared memory", entry,
                              (long long)smem_bytes);
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        return tern_error_set(err, TERN_FAILED, "cannot load emulator object: %s", dlerror());
    }
    struct emu_module *m = tern_alloc_zero(1, sizeof *m);
    m->handle = handle;
    m->state = dlsym(handle, "tern_emu_state");
    *(void **)&m->entry = dlsym(handle, entry);
    if (m->state == NULL || m->entry == NULL || m->state->version != TERN_EMU_VERSION) {
        emu_module_unload(context, m);
        return tern_error_set(err, TERN_FAILED, "%s: no entry \"%s\", or made for another version of the emulator", path,
                              entry);
    }
    m->state->services = &tern_emu_service_table;
    *module = *function = m;
    return TERN_OK;
}

/* Replaces an anonymous "invalid address" by the buffer that it is near to. */
static void name_buffer(const struct emu_context *c, struct tern_error *err) {
    char where[256];
    for (size_t i = 0; i < EMU_MAX_REGIONS && c->machine.signal != 0; i++) {
        if (c->regions[i].map != NULL &&
            tern_emu_region_describe(&c->regions[i], "a buffer", c->machine.fault_address, where, sizeof where)) {
            tern_error_prefix(err, "out of bounds, %s", where);
            return;
        }
    }
}

/* Runs the whole grid before it returns, then compares the guard bytes of every buffer. */
static enum tern_status launch_one(void *context, const struct tern_launch *launch, struct tern_error *err) {
    struct emu_context *c = context;
    struct emu_module *m = launch->function;
    struct tern_emu_geometry geometry = {.block = launch->block,
                                         .cluster = launch->cluster > 0 ? launch->cluster : 1,
                                         .shared_bytes = launch->smem_bytes > 0 ? (size_t)launch->smem_bytes : 0};
    memcpy(geometry.grid, launch->grid, sizeof geometry.grid);
    size_t static_bytes = (size_t)(m->state->shared_end - m->state->shared_begin);
    if (geometry.shared_bytes + static_bytes > EMU_SMEM_BYTES) {
        return tern_error_set(err, TERN_FAILED, "OUT_OF_RESOURCES: %zu bytes of shared memory a block",
                              geometry.shared_bytes + static_bytes);
    }
    c->machine.state = m->state;
    c->machine.entry = m->entry;
    c->machine.args = &launch->args;
    struct tern_emu_signals *signals; /* caught during launches only */
    enum tern_status status = tern_emu_signals_install(&signals, err);
    if (status != TERN_OK) {
        return status;
    }
    status = tern_emu_machine_launch(&c->machine, &geometry, err);
    tern_emu_signals_restore(signals);
    if (status != TERN_OK) {
        name_buffer(c, err);
        return status;
    }
    char what[256];
    for (size_t i = 0; i < EMU_MAX_REGIONS; i++) {
        if (c->regions[i].map != NULL && !tern_emu_region_check(&c->regions[i], "a buffer", what, sizeof what)) {
            tern_emu_region_repair(&c->regions[i]);
            status = tern_error_set(err, TERN_FAILED, "%s", what);
        }
    }
    return status;
}

static enum tern_status emu_launch(void *context, const struct tern_launch *launch, struct tern_error *err) {
    const struct tern_launch prologue = {.function = launch->prologue,
                                         .grid = {launch->prologue_grid, 1, 1},
                                         .block = launch->prologue_block,
                                         .args = launch->args};
    enum tern_status status = launch->prologue != NULL ? launch_one(context, &prologue, err) : TERN_OK;
    return status == TERN_OK ? launch_one(context, launch, err) : status;
}

/* The machine holds back what is late, cluster by cluster. */
static enum tern_status emu_launch_behind(void *context, const struct tern_launch *launch, const struct tern_late *late,
                                          size_t count, struct tern_error *err) {
    struct emu_context *c = context;
    struct tern_emu_late *held = c->machine.late;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < count && status == TERN_OK; i++) {
        status = check_range(c, late[i].to, late[i].bytes, err);
        if (status == TERN_OK && late[i].from != NULL) {
            status = check_range(c, late[i].from, late[i].bytes, err);
        }
        held[i] = (struct tern_emu_late){late[i].to, late[i].from, late[i].bytes,
                                         late[i].from == NULL ? tern_alloc(late[i].bytes) : NULL};
        c->machine.late_count = i + 1;
    }
    if (status == TERN_OK) {
        status = emu_launch(context, launch, err);
    }
    for (size_t i = 0; i < c->machine.late_count; i++) {
        free(held[i].found);
    }
    c->machine.late_count = 0;
    return status;
}

static enum tern_status emu_synchronize(void *context, struct tern_error *err) {
    (void)context, (void)err;
    return TERN_OK; /* launches end before they return */
}

const struct tern_backend tern_backend_emu = {
    .name = "emu",
    .fenced = true,
    .open = emu_open,
    .close = emu_close,
    .info = emu_info,
    .alloc = emu_alloc,
    .release = emu_release,
    .upload = emu_upload,
    .download = emu_download,
    .copy = emu_copy,
    .fill = emu_fill,
    .module_load = emu_module_load,
    .module_function = emu_module_function,
    .module_unload = emu_module_unload,
    .launch = emu_launch,
    .launch_behind = emu_launch_behind,
    .synchronize = emu_synchronize,
};

/* ---- order ---- */

static const char *const order_names[] = {[TERN_EMU_FORWARD] = "forward",
                                          [TERN_EMU_REVERSE] = "reverse",
                                          [TERN_EMU_SHUFFLED] = "shuffled",
                                          [TERN_EMU_STARVED] = "starved"};

void tern_emu_backend_set_order(void *context, enum tern_emu_order order, uint64_t seed) {
    struct emu_context *c = context;
    c->machine.order = order;
    c->machine.seed = seed;
}

const char *tern_emu_order_name(enum tern_emu_order order) {
    return order_names[order];
}

bool tern_emu_order_parse(const char *name, enum tern_emu_order *order) {
    for (int i = 0; i < TERN_EMU_ORDERS; i++) {
        if (strcmp(name, order_names[i]) == 0) {
            *order = (enum tern_emu_order)i;
            return true;
        }
    }
    return false;
}
