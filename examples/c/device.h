/* The device memory that the example needs, and nothing more: an engine has its own. device_cuda.c uses libcuda; the tests link
 * another file that runs on the CPU emulator. All calls end the program with a message where they fail. */
#ifndef TERN_EXAMPLE_DEVICE_H
#define TERN_EXAMPLE_DEVICE_H

#include <stddef.h>

struct tern_rt_driver;

void device_open(int ordinal);
/* What tern_rt_options.driver takes: NULL for CUDA. */
const struct tern_rt_driver *device_driver(void);
void *device_alloc(size_t bytes);
void device_upload(void *to, const void *from, size_t bytes);
/* Waits for all work before. */
void device_download(void *to, const void *from, size_t bytes);

#endif
