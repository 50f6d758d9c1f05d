/* The CPU emulator as a machine for tern_rt. Images are shared objects, written to a file because dlopen takes only that. The
 * emulator itself is not instrumented: the lock around it is the test's, as a stream's order is the device's. */
#include "emulated.h"

#include "device/emu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;
static void *device;
const char tern_emulated_foreign_stream[] = "of another device";

void tern_emulated_start(void) {
    struct tern_error err;
    pthread_mutex_lock(&running);
    if (!device && tern_backend_emu.open(0, &device, &err) != TERN_OK)
        abort();
    pthread_mutex_unlock(&running);
}

void *tern_emulated_alloc(size_t bytes) {
    struct tern_error err;
    void *pointer = NULL;
    tern_emulated_start();
    pthread_mutex_lock(&running);
    if (tern_backend_emu.alloc(device, bytes ? bytes : 1, &pointer, &err) != TERN_OK)
        abort();
    pthread_mutex_unlock(&running);
    return pointer;
}

static enum tern_rt_status emulated_open(int ordinal, void **context, struct tern_rt_device *info,
                                         struct tern_rt_error *err) {
    struct tern_device_info emulated;
    struct tern_error why;
    (void)ordinal;
    tern_emulated_start();
    if (tern_backend_emu.info(device, &emulated, &why) != TERN_OK)
        return tern_rt_fail(err, TERN_RT_DEVICE, "%s", why.text);
    snprintf(info->name, sizeof info->name, "%s", emulated.name);
    info->cc = emulated.cc;
    info->sms = emulated.sms;
    info->smem_bytes = emulated.smem_block_bytes;
    *context = &device;
    return TERN_RT_OK;
}

static void emulated_close(void *context) {
    (void)context; /* shared by all runtimes of the process */
}

static enum tern_rt_status emulated_load(void *context, const void *image, size_t bytes, const char *entry,
                                         int64_t smem_bytes, void **module, void **function, struct tern_rt_error *err) {
    char path[] = "/tmp/tern-emulated-XXXXXX";
    struct tern_error why;
    (void)context;
    int file = mkstemp(path);
    if (file < 0 || write(file, image, bytes) != (ssize_t)bytes || close(file))
        return tern_rt_fail(err, TERN_RT_DEVICE, "cannot write %s", path);
    pthread_mutex_lock(&running);
    enum tern_status status =
        tern_backend_emu.module_load(device, path, sizeof path, entry, smem_bytes, module, function, &why);
    pthread_mutex_unlock(&running);
    (void)unlink(path);
    return status ? tern_rt_fail(err, TERN_RT_DEVICE, "%s", why.text) : TERN_RT_OK;
}

static enum tern_rt_status emulated_find(void *context, void *module, const char *entry, void **function,
                                         struct tern_rt_error *err) {
    struct tern_error why;
    (void)context;
    enum tern_status status = tern_backend_emu.module_function(device, module, entry, function, &why);
    return status ? tern_rt_fail(err, TERN_RT_DEVICE, "%s", why.text) : TERN_RT_OK;
}

static void emulated_unload(void *context, void *module) {
    (void)context;
    tern_backend_emu.module_unload(device, module);
}

static enum tern_rt_status emulated_launch(void *context, const struct tern_rt_work *work, struct tern_rt_error *err) {
    const struct tern_choice *c = work->choice;
    struct tern_launch launch = {.function = work->function,
                                 .grid = {c->grid[0], c->grid[1], c->grid[2]},
                                 .block = c->block,
                                 .cluster = c->cluster,
                                 .smem_bytes = c->smem_bytes,
                                 .dependent = work->dependent,
                                 .prologue = work->prologue,
                                 .prologue_grid = c->prologue_grid,
                                 .prologue_block = c->prologue_block,
                                 .args = *work->args};
    struct tern_error why;
    (void)context;
    if (work->stream == tern_emulated_foreign_stream)
        return tern_rt_fail(err, TERN_RT_STREAM, "the stream is of another device");
    pthread_mutex_lock(&running);
    enum tern_status status = tern_backend_emu.launch(device, &launch, &why);
    pthread_mutex_unlock(&running);
    return status ? tern_rt_fail(err, TERN_RT_DEVICE, "%s", why.text) : TERN_RT_OK;
}

/* The emulator passes struct tern_args only: the entry finds its own in the workspace (emulate_kernels.c). */
static enum tern_rt_status emulated_run(void *context, const struct tern_rt_run *run, struct tern_rt_error *err) {
    struct tern_launch launch = {
        .function = run->function, .grid = {run->grid, 1, 1}, .block = run->block, .cluster = 1, .args = {0}};
    struct tern_error why;
    (void)context;
    launch.args.workspace = tern_emulated_alloc(run->arg_bytes);
    memcpy(launch.args.workspace, run->args, run->arg_bytes);
    pthread_mutex_lock(&running);
    enum tern_status status = tern_backend_emu.launch(device, &launch, &why);
    tern_backend_emu.release(device, launch.args.workspace);
    pthread_mutex_unlock(&running);
    return status ? tern_rt_fail(err, TERN_RT_DEVICE, "%s", why.text) : TERN_RT_OK;
}

static enum tern_rt_status emulated_alloc(void *context, int64_t bytes, void **pointer, struct tern_rt_error *err) {
    (void)context, (void)err;
    *pointer = tern_emulated_alloc((size_t)bytes);
    return TERN_RT_OK;
}

static void emulated_release(void *context, void *pointer) {
    (void)context;
    pthread_mutex_lock(&running);
    tern_backend_emu.release(device, pointer);
    pthread_mutex_unlock(&running);
}

const struct tern_rt_driver tern_rt_driver_emulated = {emulated_open, emulated_close,  emulated_load,
                                                       emulated_find, emulated_unload, emulated_launch,
                                                       emulated_run,  emulated_alloc,  emulated_release};

enum tern_rt_status tern_rt_open_emulated(const char *folder, int device_ordinal, enum tern_match worst, struct tern_rt **rt,
                                          struct tern_rt_error *err) {
    char library[4096], kernels[4096];
    const struct tern_table *(*tables)(int *count) = NULL;
    struct tern_rt_options o = {
        .kernels_path = kernels, .device = device_ordinal, .worst = worst, .driver = &tern_rt_driver_emulated};
    snprintf(library, sizeof library, "%s/libtern_dispatch.so", folder);
    snprintf(kernels, sizeof kernels, "%s/tern_kernels.bin", folder);
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle)
        *(void **)&tables = dlsym(handle, "tern_tables");
    if (!tables)
        return tern_rt_fail(err, TERN_RT_ARGUMENT, "no table in %s", library);
    o.tables = tables(&o.table_count);
    return tern_rt_open(&o, rt, err);
}
