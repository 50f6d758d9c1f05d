/* Device memory of the example through the CUDA driver, by dlopen: see device.h. */
#include "device.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int (*memory_alloc)(uint64_t *, size_t);
static int (*to_device)(uint64_t, const void *, size_t);
static int (*to_host)(void *, uint64_t, size_t);

static void require(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "CUDA driver: %s failed\n", what);
        exit(3);
    }
}

static void *find(void *library, const char *name) {
    void *address = library ? dlsym(library, name) : NULL;
    require(address != NULL, name);
    return address;
}

void device_open(int ordinal) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    int device = 0;
    int (*init)(unsigned), (*get)(int *, int), (*retain)(void **, int), (*set)(void *);
    require(library != NULL, "loading libcuda.so.1");
    *(void **)&init = find(library, "cuInit");
    *(void **)&get = find(library, "cuDeviceGet");
    *(void **)&retain = find(library, "cuDevicePrimaryCtxRetain");
    *(void **)&set = find(library, "cuCtxSetCurrent");
    *(void **)&memory_alloc = find(library, "cuMemAlloc_v2");
    *(void **)&to_device = find(library, "cuMemcpyHtoD_v2");
    *(void **)&to_host = find(library, "cuMemcpyDtoH_v2");
    require(init(0) == 0, "cuInit");
    require(get(&device, ordinal) == 0, "cuDeviceGet");
    require(retain(&context, device) == 0 && set(context) == 0, "making a context");
}

const struct tern_rt_driver *device_driver(void) {
    return NULL;
}

void *device_alloc(size_t bytes) {
    uint64_t address = 0;
    require(memory_alloc(&address, bytes ? bytes : 1) == 0, "cuMemAlloc");
    return (void *)(uintptr_t)address;
}

void device_upload(void *to, const void *from, size_t bytes) {
    require(bytes == 0 || to_device((uint64_t)(uintptr_t)to, from, bytes) == 0, "cuMemcpyHtoD");
}

void device_download(void *to, const void *from, size_t bytes) {
    require(to_host(to, (uint64_t)(uintptr_t)from, bytes) == 0, "cuMemcpyDtoH");
}
