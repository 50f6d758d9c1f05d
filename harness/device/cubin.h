/* Reads what a cubin says about itself: target, the toolkit that made it, registers and shared memory of an entry. */
#ifndef TERN_DEVICE_CUBIN_H
#define TERN_DEVICE_CUBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_cubin {
    int sm;                                            /* 90 for sm_90 and sm_90a; 0 if unknown */
    char toolkit[16];                                  /* "13.0" of the ptxas that made it; "" if unknown */
    int64_t registers, frame_bytes, static_smem_bytes; /* of the entry; -1 if it is not there */
};

/* False if the bytes are not a 64-bit cubin. Every offset is checked against `bytes`. static_smem_bytes is what the section
 * holds: from sm_90 on some toolkits count 1 KiB that the system reserves, so it may exceed what ptxas -v prints. */
bool tern_cubin_read(const void *image, size_t bytes, const char *entry, struct tern_cubin *out);

#endif
