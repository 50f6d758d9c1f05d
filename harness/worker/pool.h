/* A pool of worker processes that answers many independent requests: compiles and emulator checks.
 * The parent polls all of them, holds a deadline for each request, and starts a new worker for one that died. */
#ifndef TERN_WORKER_POOL_H
#define TERN_WORKER_POOL_H

#include "worker/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_pool_work {
    const char *kind;          /* worker kind */
    const char *const *prefix; /* program that the workers run under (process.h); NULL: none */
    size_t workers;            /* processes, >= 1 */
    size_t count;              /* requests, numbered 0..count-1 */
    double timeout_s;          /* deadline of one request */
    int64_t stop_ns;           /* no request starts after this time (CLOCK_MONOTONIC); 0: none */
    size_t recycle;            /* requests after which a worker is replaced (compilers grow); 0: never */
    void *user;
    json_t *(*request)(void *user, size_t index); /* new reference */
    void (*done)(void *user, size_t index, enum tern_call call, const json_t *reply,
                 const char *why); /* reply NULL unless OK */
    /* NULL, or called behind each `done` that is OK: the worker has then ended by itself, and this is all it printed. */
    void (*ended)(void *user, size_t index, int exit_code, const char *output);
};

/* Runs until all are answered, the stop time is reached or the program is interrupted; *answered counts calls of done. */
enum tern_status tern_pool_run(const struct tern_pool_work *work, size_t *answered, struct tern_error *err);

#endif
