/* Modules of a GPU worker, loaded once: a candidate comes back at other M, in the final, on other layers. Part of a GPU worker. */
#ifndef TERN_WORKER_GPU_MODULES_H
#define TERN_WORKER_GPU_MODULES_H

#include "core/error.h"
#include "core/hash.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_MODULES_MAX 1024 /* beyond, the one asked for longest ago is unloaded; a final asks for 16 */

struct gpu_session;

struct gpu_modules {
    pthread_mutex_t lock; /* held while one is loaded, so that who asks for the same one waits for it */
    struct gpu_module {
        char cubin[TERN_HASH_CHARS];
        int64_t smem_bytes; /* dynamic shared memory that its function is set up for */
        void *module, *function;
        uint64_t asked; /* when last, counted in questions */
    } list[GPU_MODULES_MAX];
    size_t count;
    uint64_t asked;
};

/* The module of a cubin of the cache and its function `entry`, loaded if it is not; both stay the table's. From any thread that has
 * entered the context. A refusal of the driver is TERN_FAILED or TERN_MISSING, a cubin that is not there TERN_INTERNAL. */
enum tern_status gpu_module(struct gpu_session *s, const char *cubin, const char *entry, int64_t smem_bytes, void **module,
                            void **function, struct tern_error *err);
/* Unloads all. */
void gpu_modules_close(struct gpu_session *s);

#endif
