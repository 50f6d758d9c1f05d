/* Device memory of examples/c on the emulator, in the place of device_cuda.c. */
#include "../../examples/c/device.h"
#include "emulated.h"

#include <string.h>

void device_open(int ordinal) {
    (void)ordinal;
    tern_emulated_start();
}

const struct tern_rt_driver *device_driver(void) {
    return &tern_rt_driver_emulated;
}

void *device_alloc(size_t bytes) {
    return tern_emulated_alloc(bytes);
}

void device_upload(void *to, const void *from, size_t bytes) {
    if (bytes)
        memcpy(to, from, bytes);
}

void device_download(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}
