/* The seam between a kernel's shared object and the emulator in the host program: a table of functions one way, the running
 * thread's coordinates the other. Plain C, read by both sides; a mismatch of TERN_EMU_VERSION is refused at load. */
#ifndef TERN_EMULATOR_SERVICES_H
#define TERN_EMULATOR_SERVICES_H

#include <stddef.h>
#include <stdint.h>

#define TERN_EMU_VERSION        4
#define TERN_EMU_EXCHANGE_BYTES 512 /* largest value of one lane in a collective */

struct tern_emu_services {
    /* Collective of the lanes in `mask`; lanes outside it read zeros. site: file and line of the call. */
    void (*collective)(uint32_t mask, const void *value, size_t bytes, void *all, const char *file, int line);
    /* __syncthreads and relatives: returns how many threads of the block came with a nonzero predicate. */
    int (*block_sync)(int predicate, const char *file, int line);
    void (*named_sync)(int id, int threads, int wait, const char *file, int line);
    void (*cluster_arrive)(void);
    void (*cluster_wait)(const char *file, int line);
    uint32_t (*active_mask)(void); /* lanes of the warp that have not exited */
    void *(*dynamic_shared)(size_t *bytes);
    void (*fault)(const char *what);
    void (*yield)(void);
    void (*async_copy)(void *to, const void *from, size_t bytes, size_t valid_bytes);
    void (*async_commit)(void);
    void (*async_wait)(int pending);
    void (*mbarrier_init)(void *barrier, int count);
    void (*mbarrier_arrive)(void *barrier, int count, int64_t expect_bytes);
    int (*mbarrier_test)(void *barrier, int parity);
    void (*mbarrier_wait)(void *barrier, int parity);
    void (*bulk_copy)(void *to, const void *from, size_t bytes, void *barrier);
    void (*store_async)(void *to, const void *value, size_t bytes, void *barrier);
    void (*dependency_wait)(void);
    int (*cluster_rank)(void);
    int (*cluster_size)(void);
    void *(*cluster_map)(void *shared, int rank);
};

/* Written by the host before it resumes a fiber, read by device code as threadIdx and so on; exported as tern_emu_state. */
struct tern_emu_state {
    int version;
    int asan; /* 1: compiled with AddressSanitizer */
    unsigned thread[3], block[3], block_dim[3], grid_dim[3];
    const struct tern_emu_services *services;
    uint8_t *shared_begin, *shared_end; /* static __shared__ variables of the object; equal if there are none */
};

#endif
