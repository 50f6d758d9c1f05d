/* tern_rt on CUDA: libcuda.so.1 by dlopen, with the few prototypes that are needed spelled out, so that it builds without a
 * toolkit. Works in the device's primary context and leaves the calling thread's current context as it was. */
#include "runtime/driver.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ATTRIBUTE_SMS         16 /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, and so on: cuda.h */
#define ATTRIBUTE_CC_MAJOR    75
#define ATTRIBUTE_CC_MINOR    76
#define ATTRIBUTE_SMEM_OPTIN  97
#define FUNCTION_MAX_DYNAMIC  8
#define FUNCTION_NON_PORTABLE 14
#define LAUNCH_CLUSTER        4
#define LAUNCH_DEPENDENT      6 /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
#define ERROR_INVALID_CONTEXT 201
#define ERROR_INVALID_HANDLE  400

struct cuda_attribute { /* CUlaunchAttribute: an id, and a value of 64 bytes aligned to 8 */
    int id;
    char pad[4];
    union {
        unsigned int cluster[3];
        int dependent;
        char bytes[64];
    } value;
};

struct cuda_config { /* CUlaunchConfig */
    unsigned int grid[3], block[3], smem_bytes;
    void *stream;
    struct cuda_attribute *attributes;
    unsigned int attribute_count;
};

/* Name of the field, exported name with its version suffix, arguments; all return a CUresult. */
#define CUDA_SYMBOLS(X)                                                                                                     \
    X(init, "cuInit", (unsigned int))                                                                                       \
    X(error_name, "cuGetErrorName", (int, const char **))                                                                   \
    X(device_get, "cuDeviceGet", (int *, int))                                                                              \
    X(device_name, "cuDeviceGetName", (char *, int, int))                                                                   \
    X(device_attribute, "cuDeviceGetAttribute", (int *, int, int))                                                          \
    X(context_retain, "cuDevicePrimaryCtxRetain", (void **, int))                                                           \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (int))                                                               \
    X(context_get, "cuCtxGetCurrent", (void **))                                                                            \
    X(context_push, "cuCtxPushCurrent_v2", (void *))                                                                        \
    X(context_pop, "cuCtxPopCurrent_v2", (void **))                                                                         \
    X(memory_alloc, "cuMemAlloc_v2", (uint64_t *, size_t))                                                                  \
    X(memory_free, "cuMemFree_v2", (uint64_t))                                                                              \
    X(module_load, "cuModuleLoadData", (void **, const void *))                                                             \
    X(module_unload, "cuModuleUnload", (void *))                                                                            \
    X(module_function, "cuModuleGetFunction", (void **, void *, const char *))                                              \
    X(function_set, "cuFuncSetAttribute", (void *, int, int))                                                               \
    X(launch, "cuLaunchKernelEx", (const struct cuda_config *, void *, void **, void **))

#define MEMBER(field, name, arguments) int(*field) arguments;
struct cuda_api {
    CUDA_SYMBOLS(MEMBER)
};
#undef MEMBER

#define ROW(field, name, arguments) {name, offsetof(struct cuda_api, field)},
static const struct {
    const char *name;
    size_t offset;
} symbols[] = {CUDA_SYMBOLS(ROW)};
#undef ROW

struct cuda {
    struct cuda_api api;
    int device, cc;
    void *primary;
};

static enum tern_rt_status load_api(struct cuda_api *api, struct tern_rt_error *err) {
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* of the driver; stays open */
    if (!handle)
        return tern_rt_fail(err, TERN_RT_NO_DRIVER, "the NVIDIA driver is missing: %s", dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address)
            return tern_rt_fail(err, TERN_RT_NO_DRIVER, "the NVIDIA driver is too old: no %s", symbols[i].name);
        memcpy((char *)api + symbols[i].offset, &address, sizeof address);
    }
    return TERN_RT_OK;
}

/* OK, or what was being done with the driver's name for the failure. */
static enum tern_rt_status check(const struct cuda *cuda, int result, const char *doing, struct tern_rt_error *err) {
    const char *name = NULL;
    if (result == 0)
        return TERN_RT_OK;
    if (cuda->api.error_name(result, &name) || !name)
        name = "unknown error";
    const bool stream = result == ERROR_INVALID_HANDLE || result == ERROR_INVALID_CONTEXT;
    return tern_rt_fail(err, stream ? TERN_RT_STREAM : TERN_RT_DEVICE, "%s: %s (%d)%s", doing, name, result,
                        stream ? ": is the stream one of this device?" : "");
}

/* Makes the primary context current; *entered tells leave() whether to take it back. */
static enum tern_rt_status enter(const struct cuda *cuda, bool *entered, struct tern_rt_error *err) {
    void *current = NULL;
    *entered = false;
    if (cuda->api.context_get(&current) == 0 && current == cuda->primary)
        return TERN_RT_OK;
    enum tern_rt_status status = check(cuda, cuda->api.context_push(cuda->primary), "entering the context", err);
    *entered = status == TERN_RT_OK;
    return status;
}

static void leave(const struct cuda *cuda, bool entered) {
    void *popped;
    if (entered)
        (void)cuda->api.context_pop(&popped);
}

static void cuda_close(void *context) {
    struct cuda *cuda = context;
    if (cuda->primary)
        (void)cuda->api.context_release(cuda->device);
    free(cuda);
}

static enum tern_rt_status find_device(struct cuda *cuda, int ordinal, struct tern_rt_device *info,
                                       struct tern_rt_error *err) {
    int major = 0, minor = 0, sms = 0, smem = 0;
    const struct cuda_api *api = &cuda->api;
    if (api->init(0) || api->device_get(&cuda->device, ordinal) ||
        api->device_name(info->name, (int)sizeof info->name, cuda->device))
        return tern_rt_fail(err, TERN_RT_NO_DRIVER, "the NVIDIA driver has no device %d", ordinal);
    if (api->device_attribute(&major, ATTRIBUTE_CC_MAJOR, cuda->device) ||
        api->device_attribute(&minor, ATTRIBUTE_CC_MINOR, cuda->device) ||
        api->device_attribute(&sms, ATTRIBUTE_SMS, cuda->device) ||
        api->device_attribute(&smem, ATTRIBUTE_SMEM_OPTIN, cuda->device))
        return tern_rt_fail(err, TERN_RT_DEVICE, "the driver does not describe device %d", ordinal);
    info->cc = cuda->cc = 10 * major + minor;
    info->sms = sms;
    info->smem_bytes = smem;
    return check(cuda, api->context_retain(&cuda->primary, cuda->device), "making a context", err);
}

static enum tern_rt_status cuda_load(void *context, const void *image, size_t bytes, const char *entry, int64_t smem_bytes,
                                     void **module, void **function, struct tern_rt_error *err) {
    struct cuda *cuda = context;
    bool entered;
    char doing[160] = "loading ";
    (void)bytes;
    strncat(doing, entry, sizeof doing - sizeof "loading ");
    enum tern_rt_status status = enter(cuda, &entered, err);
    if (status)
        return status;
    status = check(cuda, cuda->api.module_load(module, image), doing, err);
    if (!status) /* also loads the function now, under lazy loading: a launch must not allocate */
        status = check(cuda, cuda->api.module_function(function, *module, entry), doing, err);
    if (!status && cuda->cc >= 90) /* clusters of more than 8 blocks; a device that refuses it has none */
        (void)cuda->api.function_set(*function, FUNCTION_NON_PORTABLE, 1);
    if (!status && smem_bytes > 0)
        status = check(cuda, cuda->api.function_set(*function, FUNCTION_MAX_DYNAMIC, (int)smem_bytes), doing, err);
    leave(cuda, entered);
    return status;
}

static enum tern_rt_status cuda_find(void *context, void *module, const char *entry, void **function,
                                     struct tern_rt_error *err) {
    struct cuda *cuda = context;
    bool entered;
    enum tern_rt_status status = enter(cuda, &entered, err);
    if (status)
        return status;
    status = check(cuda, cuda->api.module_function(function, module, entry), entry, err);
    leave(cuda, entered);
    return status;
}

static void cuda_unload(void *context, void *module) {
    struct cuda *cuda = context;
    bool entered;
    if (enter(cuda, &entered, NULL) == TERN_RT_OK) {
        (void)cuda->api.module_unload(module);
        leave(cuda, entered);
    }
}

static enum tern_rt_status cuda_open(int device, void **context, struct tern_rt_device *info, struct tern_rt_error *err) {
    struct cuda *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return tern_rt_fail(err, TERN_RT_DEVICE, "out of memory");
    enum tern_rt_status status = load_api(&cuda->api, err);
    if (!status)
        status = find_device(cuda, device, info, err);
    if (status) {
        cuda_close(cuda);
        return status;
    }
    *context = cuda;
    return TERN_RT_OK;
}

static enum tern_rt_status start(struct cuda *cuda, const struct cuda_config *config, void *function, void **parameters,
                                 struct tern_rt_error *err) {
    bool entered;
    enum tern_rt_status status = enter(cuda, &entered, err);
    if (status)
        return status;
    status = check(cuda, cuda->api.launch(config, function, parameters, NULL), "launching a kernel", err);
    leave(cuda, entered);
    return status;
}

static enum tern_rt_status cuda_launch(void *context, const struct tern_rt_work *work, struct tern_rt_error *err) {
    const struct tern_choice *c = work->choice;
    struct tern_args args = *work->args; /* the driver copies them before the call returns */
    struct cuda_attribute attributes[2];
    unsigned int count = 0;
    if (c->cluster > 1)
        attributes[count++] =
            (struct cuda_attribute){.id = LAUNCH_CLUSTER, .value.cluster = {(unsigned int)c->cluster, 1, 1}};
    if (work->dependent)
        attributes[count++] = (struct cuda_attribute){.id = LAUNCH_DEPENDENT, .value.dependent = 1};
    const struct cuda_config config = {
        .grid = {(unsigned int)c->grid[0], (unsigned int)c->grid[1], (unsigned int)c->grid[2]},
        .block = {(unsigned int)c->block, 1, 1},
        .smem_bytes = (unsigned int)c->smem_bytes,
        .stream = work->stream,
        .attributes = attributes,
        .attribute_count = count};
    const struct cuda_config prologue = {.grid = {(unsigned int)c->prologue_grid, 1, 1},
                                         .block = {(unsigned int)c->prologue_block, 1, 1},
                                         .stream = work->stream};
    void *parameters[] = {&args};
    enum tern_rt_status status = TERN_RT_OK;
    if (work->prologue)
        status = start(context, &prologue, work->prologue, parameters, err);
    return status ? status : start(context, &config, work->function, parameters, err);
}

static enum tern_rt_status cuda_run(void *context, const struct tern_rt_run *run, struct tern_rt_error *err) {
    const struct cuda_config config = {
        .grid = {(unsigned int)run->grid, 1, 1}, .block = {(unsigned int)run->block, 1, 1}, .stream = run->stream};
    void *parameters[] = {run->args};
    return start(context, &config, run->function, parameters, err);
}

static enum tern_rt_status cuda_alloc(void *context, int64_t bytes, void **pointer, struct tern_rt_error *err) {
    struct cuda *cuda = context;
    uint64_t address = 0;
    bool entered;
    enum tern_rt_status status = enter(cuda, &entered, err);
    if (status)
        return status;
    status = check(cuda, cuda->api.memory_alloc(&address, (size_t)bytes), "allocating a workspace", err);
    leave(cuda, entered);
    *pointer = (void *)(uintptr_t)address;
    return status;
}

static void cuda_release(void *context, void *pointer) {
    struct cuda *cuda = context;
    bool entered;
    if (enter(cuda, &entered, NULL) == TERN_RT_OK) {
        (void)cuda->api.memory_free((uint64_t)(uintptr_t)pointer);
        leave(cuda, entered);
    }
}

const struct tern_rt_driver tern_rt_driver_cuda = {cuda_open,   cuda_close, cuda_load,  cuda_find,   cuda_unload,
                                                   cuda_launch, cuda_run,   cuda_alloc, cuda_release};
