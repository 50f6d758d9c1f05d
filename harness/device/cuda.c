/* CUDA backend: memory, modules and launches through the driver API, all on one work stream of the device's primary context.
 * Used by GPU worker processes only. Timing is in cuda_graph.c, GEMM in cuda_gemm.c, NVML in cuda_clocks.c. */
#include "device/cuda_context.h"

#include "core/clock.h"
#include "core/str.h"
#include "device/cubin.h"
#include "device/fixed_kernels.h"

#include <inttypes.h>
#include <stdlib.h>

/* Failures that mean "there is nothing here to run on", as opposed to a fault of what ran. */
static bool is_missing(CUresult result) {
    static const CUresult missing[] = {CUDA_ERROR_OUT_OF_MEMORY,           CUDA_ERROR_NO_DEVICE,
                                       CUDA_ERROR_INVALID_DEVICE,          CUDA_ERROR_STUB_LIBRARY,
                                       CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,  CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
                                       CUDA_ERROR_DEVICE_UNAVAILABLE,      CUDA_ERROR_SYSTEM_NOT_READY,
                                       CUDA_ERROR_NO_BINARY_FOR_GPU,       CUDA_ERROR_INVALID_IMAGE,
                                       CUDA_ERROR_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_NOT_INITIALIZED};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (missing[i] == result)
            return true;
    return false;
}

enum tern_status tern_cuda_check(const struct tern_cuda *cuda, CUresult result, const char *doing, struct tern_error *err) {
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS)
        return TERN_OK;
    if (cuda->api.error_name(result, &name) != CUDA_SUCCESS || !name)
        name = "unknown CUDA error";
    if (cuda->api.error_string(result, &text) != CUDA_SUCCESS || !text)
        text = "no description";
    enum tern_status status = is_missing(result) ? TERN_MISSING : TERN_FAILED;
    return tern_error_set(err, status, "%s: %s (%d): %s", doing, name, (int)result, text);
}

/* A property of the device; 0 where this driver does not know it. */
static int attribute(const struct tern_cuda *cuda, CUdevice_attribute which) {
    int value = 0;
    return cuda->api.device_attribute(&value, which, cuda->device) == CUDA_SUCCESS ? value : 0;
}

/* As nvidia-smi prints it. A MIG slice has one of its own, printed with another prefix there (cuda_clocks.c). */
static void read_uuid(struct tern_cuda *cuda) {
    CUuuid uuid;
    if (cuda->api.device_uuid(&uuid, cuda->device) != CUDA_SUCCESS)
        return;
    const unsigned char *b = (const unsigned char *)uuid.bytes;
    tern_str_format(cuda->uuid, sizeof cuda->uuid,
                    "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4],
                    b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static enum tern_status start_driver(struct tern_cuda *cuda, int *count, struct tern_error *err) {
    enum tern_status status = tern_cuda_check(cuda, cuda->api.init(0), "starting the NVIDIA driver", err);
    if (status != TERN_OK) {
        tern_error_hint(err, "`tune doctor` shows what is missing; nvidia-smi must list the GPU");
        return TERN_MISSING;
    }
    (void)cuda->api.driver_version(&cuda->driver_version);
    return tern_cuda_check(cuda, cuda->api.device_count(count), "counting GPUs", err);
}

enum tern_status tern_cuda_count(int *count, struct tern_error *err) {
    struct tern_cuda *cuda = tern_alloc_zero(1, sizeof *cuda);
    enum tern_status status = tern_cuda_api_load(&cuda->api, NULL, 0, err);
    if (status == TERN_OK)
        status = start_driver(cuda, count, err);
    free(cuda);
    return status;
}

/* Starts the driver and picks the device; no context yet. */
static enum tern_status find_device(struct tern_cuda *cuda, int ordinal, struct tern_error *err) {
    int count = 0;
    enum tern_status status = start_driver(cuda, &count, err);
    if (status != TERN_OK)
        return status;
    if (ordinal < 0 || ordinal >= count) {
        tern_error_set(err, TERN_MISSING, "GPU %d does not exist: the driver shows %d", ordinal, count);
        tern_error_hint(err, "check CUDA_VISIBLE_DEVICES and the device number");
        return TERN_MISSING;
    }
    return tern_cuda_check(cuda, cuda->api.device_get(&cuda->device, ordinal), "opening the GPU", err);
}

/* Also of a half-open context, and after a sticky fault, when every call fails: nothing is checked here. */
static void cuda_close(void *context) {
    struct tern_cuda *cuda = context;
    if (!cuda)
        return;
    tern_cuda_cublas_close(cuda);
    tern_cuda_nvml_close(cuda);
    tern_fixed_close(cuda->late);
    for (size_t i = 0; i < sizeof cuda->events / sizeof *cuda->events; i++)
        if (cuda->events[i])
            cuda->api.event_destroy(cuda->events[i]);
    if (cuda->stream)
        cuda->api.stream_destroy(cuda->stream);
    if (cuda->primary)
        cuda->api.context_release(cuda->device);
    free(cuda);
}

/* The stream does not wait for the null stream: nothing in this process may add hidden work to a sample. */
static enum tern_status open_context(struct tern_cuda *cuda, struct tern_error *err) {
    const struct tern_cuda_api *api = &cuda->api;
    enum tern_status status =
        tern_cuda_check(cuda, api->context_retain(&cuda->primary, cuda->device), "making a context", err);
    if (status == TERN_OK)
        status = tern_cuda_check(cuda, api->context_set(cuda->primary), "entering the context", err);
    if (status == TERN_OK)
        status =
            tern_cuda_check(cuda, api->stream_create(&cuda->stream, CU_STREAM_NON_BLOCKING), "making the work stream", err);
    for (size_t i = 0; i < sizeof cuda->events / sizeof *cuda->events && status == TERN_OK; i++)
        status = tern_cuda_check(cuda, api->event_create(&cuda->events[i], CU_EVENT_DEFAULT), "making an event", err);
    return status;
}

enum tern_status tern_cuda_enter(void *context, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    return tern_cuda_check(cuda, cuda->api.context_set(cuda->primary), "entering the context", err);
}

/* A fresh context for the worker; *context is owned by the caller, who ends it with close. */
static enum tern_status cuda_open(int ordinal, void **context, struct tern_error *err) {
    struct tern_cuda *cuda = tern_alloc_zero(1, sizeof *cuda);
    *context = NULL;
    enum tern_status status = tern_cuda_api_load(&cuda->api, NULL, 0, err);
    if (status == TERN_OK)
        status = find_device(cuda, ordinal, err);
    if (status == TERN_OK)
        status = open_context(cuda, err);
    if (status != TERN_OK) {
        cuda_close(cuda);
        return status;
    }
    cuda->cc = 10 * attribute(cuda, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
               attribute(cuda, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    cuda->smem_optin_bytes = attribute(cuda, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    read_uuid(cuda);
    tern_cuda_nvml_open(cuda);
    *context = cuda;
    return TERN_OK;
}

static enum tern_status cuda_info(void *context, struct tern_device_info *out, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    size_t memory = 0;
    *out =
        (struct tern_device_info){.cc = cuda->cc, .driver_version = cuda->driver_version, .runtime_version = CUDA_VERSION};
    enum tern_status status = tern_cuda_check(cuda, cuda->api.device_name(out->name, (int)sizeof out->name, cuda->device),
                                              "asking the GPU's name", err);
    if (status == TERN_OK)
        status = tern_cuda_check(cuda, cuda->api.device_memory(&memory, cuda->device), "asking the GPU's memory", err);
    if (status != TERN_OK)
        return status;
    tern_str_copy(out->uuid, sizeof out->uuid, cuda->uuid);
    out->memory_bytes = (int64_t)memory;
    out->sms = attribute(cuda, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    out->l2_bytes = attribute(cuda, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    out->smem_block_bytes = cuda->smem_optin_bytes;
    out->smem_sm_bytes = attribute(cuda, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    out->regs_sm = attribute(cuda, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    out->threads_sm = attribute(cuda, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    out->blocks_sm = attribute(cuda, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    tern_cuda_nvml_info(cuda, out);
    return TERN_OK;
}

/* Zero bytes give a valid pointer too, so that callers need no special case. */
static enum tern_status cuda_alloc(void *context, size_t bytes, void **pointer, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    CUdeviceptr address = 0;
    char doing[64];
    tern_str_format(doing, sizeof doing, "allocating %zu bytes on the GPU", bytes);
    *pointer = NULL;
    enum tern_status status = tern_cuda_check(cuda, cuda->api.memory_alloc(&address, bytes ? bytes : 1), doing, err);
    if (status == TERN_OK)
        *pointer = (void *)(uintptr_t)address; /* the driver aligns to 256 bytes or more */
    return status;
}

static void cuda_release(void *context, void *pointer) {
    struct tern_cuda *cuda = context;
    if (pointer)
        (void)cuda->api.memory_free((CUdeviceptr)(uintptr_t)pointer); /* waits for work that may use it */
}

static enum tern_status cuda_synchronize(void *context, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    CUresult result = cuda->api.stream_synchronize(cuda->stream);
    cuda->idle_since_ns = tern_clock_now_ns();
    return tern_cuda_check(cuda, result, "waiting for the GPU", err);
}

/* Copies go through the work stream, so that they keep their order with launches, and wait: host memory is free afterwards.
 */
static enum tern_status cuda_upload(void *context, void *to, const void *from, size_t bytes, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    if (bytes == 0)
        return TERN_OK;
    CUresult result = cuda->api.copy_to_device((CUdeviceptr)(uintptr_t)to, from, bytes, cuda->stream);
    enum tern_status status = tern_cuda_check(cuda, result, "copying to the GPU", err);
    return status == TERN_OK ? cuda_synchronize(context, err) : status;
}

static enum tern_status cuda_download(void *context, void *to, const void *from, size_t bytes, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    if (bytes == 0)
        return TERN_OK;
    CUresult result = cuda->api.copy_to_host(to, (CUdeviceptr)(uintptr_t)from, bytes, cuda->stream);
    enum tern_status status = tern_cuda_check(cuda, result, "copying from the GPU", err);
    return status == TERN_OK ? cuda_synchronize(context, err) : status;
}

/* Enqueued only, as fill is: what follows on the stream sees it done. */
static enum tern_status cuda_copy(void *context, void *to, const void *from, size_t bytes, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    if (bytes == 0)
        return TERN_OK;
    cuda->idle_since_ns = 0;
    CUresult result =
        cuda->api.copy_on_device((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes, cuda->stream);
    return tern_cuda_check(cuda, result, "copying on the GPU", err);
}

static enum tern_status cuda_fill(void *context, void *to, uint32_t word, size_t bytes, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    if (bytes % 4 != 0)
        return tern_error_set(err, TERN_INTERNAL, "a fill of %zu bytes is not a multiple of 4", bytes);
    if (bytes == 0)
        return TERN_OK;
    cuda->idle_since_ns = 0;
    return tern_cuda_check(cuda, cuda->api.set_words((CUdeviceptr)(uintptr_t)to, word, bytes / 4, cuda->stream),
                           "filling GPU memory", err);
}

/* A cubin that the driver refuses: says what it was made for, what made it, and what the driver is. */
static enum tern_status refuse_image(const struct tern_cuda *cuda, CUresult result, const void *image, size_t bytes,
                                     struct tern_error *err) {
    struct tern_cubin cubin;
    enum tern_status status = tern_cuda_check(cuda, result, "loading a compiled kernel", err);
    bool known = tern_cubin_read(image, bytes, "", &cubin);
    bool versions = result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE ||
                    result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || result == CUDA_ERROR_INVALID_PTX;
    if (!versions || !known)
        return status;
    int driver = cuda->driver_version;
    tern_error_prefix(err, "the kernel is for sm_%d, made by CUDA %s; the GPU is sm_%d with a driver for CUDA %d.%d",
                      cubin.sm, *cubin.toolkit ? cubin.toolkit : "(unknown)", cuda->cc, driver / 1000, driver % 1000 / 10);
    if (cubin.sm != cuda->cc)
        tern_error_hint(err, "compile for this GPU: name it with --gpu");
    else
        tern_error_hint(err, "update the NVIDIA driver, or compile with an NVRTC no newer than CUDA %d.%d (set CUDA_HOME)",
                        driver / 1000, driver % 1000 / 10);
    return status;
}

/* More than 48 KiB of dynamic shared memory must be asked for, once a function. */
static enum tern_status raise_shared_memory(const struct tern_cuda *cuda, CUfunction function, const char *entry,
                                            int64_t smem_bytes, struct tern_error *err) {
    /* Clusters of more than 8 blocks need this; devices without clusters refuse it, which does no harm. */
    if (cuda->cc >= 90)
        (void)cuda->api.function_set(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    if (smem_bytes <= 0)
        return TERN_OK;
    CUresult result = cuda->api.function_set(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)smem_bytes);
    if (result == CUDA_ERROR_INVALID_VALUE)
        return tern_error_set(err, TERN_FAILED,
                              "%s needs %" PRId64 " bytes of dynamic shared memory; a block of this GPU has %d", entry,
                              smem_bytes, cuda->smem_optin_bytes);
    return tern_cuda_check(cuda, result, "raising the shared memory limit", err);
}

static enum tern_status cuda_module_function(void *context, void *module, const char *entry, void **function,
                                             struct tern_error *err) {
    struct tern_cuda *cuda = context;
    CUfunction found = NULL;
    char doing[160];
    tern_str_format(doing, sizeof doing, "finding the kernel %s", entry);
    enum tern_status status = tern_cuda_check(cuda, cuda->api.module_function(&found, module, entry), doing, err);
    *function = found;
    return status;
}

/* Loads a cubin: nothing is compiled here, so that a time never depends on the driver's own compiler. */
static enum tern_status cuda_module_load(void *context, const void *image, size_t bytes, const char *entry,
                                         int64_t smem_bytes, void **module, void **function, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    CUmodule loaded = NULL;
    void *found = NULL;
    *module = *function = NULL;
    CUresult result = cuda->api.module_load(&loaded, image);
    if (result != CUDA_SUCCESS)
        return refuse_image(cuda, result, image, bytes, err);
    enum tern_status status = cuda_module_function(context, loaded, entry, &found, err);
    if (status == TERN_OK)
        status = raise_shared_memory(cuda, found, entry, smem_bytes, err);
    if (status != TERN_OK) {
        (void)cuda->api.module_unload(loaded);
        return status;
    }
    *module = loaded;
    *function = found;
    return TERN_OK;
}

static void cuda_module_unload(void *context, void *module) {
    struct tern_cuda *cuda = context;
    if (module)
        (void)cuda->api.module_unload(module);
}

/* The driver's own limits; checked here because the message of the driver names no number. */
static enum tern_status check_launch(const struct tern_launch *l, struct tern_error *err) {
    bool grid = l->grid[0] >= 1 && l->grid[0] <= INT32_MAX && l->grid[1] >= 1 && l->grid[1] <= 65535 && l->grid[2] >= 1 &&
                l->grid[2] <= 65535;
    if (!grid || l->block < 1 || l->block > 1024 || l->smem_bytes < 0 || l->smem_bytes > INT32_MAX)
        return tern_error_set(err, TERN_FAILED,
                              "impossible launch: grid %" PRId64 "x%" PRId64 "x%" PRId64 ", block %" PRId64 ", %" PRId64
                              " bytes of shared memory",
                              l->grid[0], l->grid[1], l->grid[2], l->block, l->smem_bytes);
    if (l->cluster > 1 && l->grid[0] % l->cluster != 0)
        return tern_error_set(err, TERN_FAILED, "impossible launch: grid of %" PRId64 " blocks in clusters of %" PRId64,
                              l->grid[0], l->cluster);
    return TERN_OK;
}

/* Fills the attributes; returns how many. */
static unsigned int launch_attributes(const struct tern_launch *launch, CUlaunchAttribute attributes[2]) {
    unsigned int count = 0;
    if (launch->cluster > 1) {
        CUlaunchAttribute *cluster = &attributes[count++];
        *cluster = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
        cluster->value.clusterDim.x = (unsigned int)launch->cluster;
        cluster->value.clusterDim.y = cluster->value.clusterDim.z = 1;
    }
    if (launch->dependent) {
        attributes[count] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
        attributes[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    return count;
}

/* The launch's own return code is checked: a kernel for another architecture would otherwise "run" in no time. */
enum tern_status tern_cuda_launch_raw(struct tern_cuda *cuda, const struct tern_launch *launch, void *arguments,
                                      struct tern_error *err) {
    enum tern_status status = check_launch(launch, err);
    if (status != TERN_OK)
        return status;
    CUlaunchAttribute attributes[2];
    CUlaunchConfig config = {
        .gridDimX = (unsigned int)launch->grid[0],
        .gridDimY = (unsigned int)launch->grid[1],
        .gridDimZ = (unsigned int)launch->grid[2],
        .blockDimX = (unsigned int)launch->block,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = (unsigned int)launch->smem_bytes,
        .hStream = cuda->stream,
        .attrs = attributes,
        .numAttrs = launch_attributes(launch, attributes),
    };
    void *parameters[] = {arguments};
    cuda->idle_since_ns = 0;
    return tern_cuda_check(cuda, cuda->api.launch(&config, launch->function, parameters, NULL), "launching a kernel", err);
}

enum tern_status tern_cuda_launch(void *context, const struct tern_launch *launch, struct tern_error *err) {
    struct tern_args args = launch->args; /* copied by the driver before the call returns */
    const struct tern_launch prologue = {
        .function = launch->prologue, .grid = {launch->prologue_grid, 1, 1}, .block = launch->prologue_block};
    enum tern_status status = launch->prologue ? tern_cuda_launch_raw(context, &prologue, &args, err) : TERN_OK;
    return status == TERN_OK ? tern_cuda_launch_raw(context, launch, &args, err) : status;
}

const struct tern_backend tern_backend_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .info = cuda_info,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .module_load = cuda_module_load,
    .module_function = cuda_module_function,
    .module_unload = cuda_module_unload,
    .launch = tern_cuda_launch,
    .launch_behind = tern_cuda_launch_behind,
    .synchronize = cuda_synchronize,
};
