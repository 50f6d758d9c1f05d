/* Splits a loop over as many threads as there are cores; threads end before the call returns, so forks stay safe. */
#ifndef TERN_FORMATS_PARALLEL_H
#define TERN_FORMATS_PARALLEL_H

#include <stdint.h>

/* Calls body(context, begin, end) on disjoint ranges that cover [0, count), in any order and at the same time.
 * `min_per_thread` keeps small loops on the calling thread. Never fails: work of a thread that cannot start runs here. */
void tern_parallel_for(int64_t count, int64_t min_per_thread, void (*body)(void *context, int64_t begin, int64_t end),
                       void *context);

/* Calls body(context, i) once for each i of [0, count), each thread with the next one when it is done, for work of unequal size that
 * needs a few MiB a thread: at most 32 threads. `what`, if not NULL, shows progress under that name. */
void tern_parallel_each(int64_t count, const char *what, void (*body)(void *context, int64_t i), void *context);

#endif
