/* Splits a loop over as many threads as there are cores. Owns its threads for the length of one call and nothing else. */
#include "formats/parallel.h"

#include "core/log.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { TERN_PARALLEL_MAX = 64, TERN_PARALLEL_QUEUE_MAX = 32 };

struct tern_parallel_part {
    void (*body)(void *context, int64_t begin, int64_t end);
    void *context;
    int64_t begin, end;
    pthread_t thread;
    bool started;
};

static void *part_run(void *argument) {
    struct tern_parallel_part *part = argument;
    part->body(part->context, part->begin, part->end);
    return NULL;
}

/* Cores this process may use; a container's CPU mask counts, the machine's size does not. */
static int64_t usable_cores(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int cores = CPU_COUNT(&set);
    return cores < 1 ? 1 : cores > TERN_PARALLEL_MAX ? TERN_PARALLEL_MAX : cores;
}

void tern_parallel_for(int64_t count, int64_t min_per_thread, void (*body)(void *context, int64_t begin, int64_t end),
                       void *context) {
    struct tern_parallel_part parts[TERN_PARALLEL_MAX];
    int64_t threads = usable_cores();
    if (count <= 0)
        return;
    if (min_per_thread > 0 && threads > count / min_per_thread)
        threads = count / min_per_thread;
    if (threads < 1)
        threads = 1;
    for (int64_t i = 0; i < threads; i++) {
        struct tern_parallel_part *part = &parts[i];
        part->body = body;
        part->context = context;
        part->begin = count / threads * i + (i < count % threads ? i : count % threads);
        part->end = part->begin + count / threads + (i < count % threads);
        /* part 0 stays on the calling thread */
        part->started = i > 0 && pthread_create(&part->thread, NULL, part_run, part) == 0;
    }
    for (int64_t i = 0; i < threads; i++)
        if (!parts[i].started)
            part_run(&parts[i]);
    for (int64_t i = 0; i < threads; i++)
        if (parts[i].started)
            pthread_join(parts[i].thread, NULL);
}

struct tern_parallel_queue {
    void (*body)(void *context, int64_t i);
    void *context;
    const char *what;
    int64_t count;
    _Atomic int64_t next;
};

/* The range only says which thread this is: the calling one has the first, and shows progress. */
static void queue_run(void *context, int64_t begin, int64_t end) {
    struct tern_parallel_queue *queue = context;
    (void)end;
    for (int64_t i = atomic_fetch_add(&queue->next, 1); i < queue->count; i = atomic_fetch_add(&queue->next, 1)) {
        if (begin == 0 && queue->what)
            tern_log_progress("%s %lld/%lld", queue->what, (long long)i, (long long)queue->count);
        queue->body(queue->context, i);
    }
}

void tern_parallel_each(int64_t count, const char *what, void (*body)(void *context, int64_t i), void *context) {
    struct tern_parallel_queue queue = {body, context, what, count, 0};
    tern_parallel_for(count, (count + TERN_PARALLEL_QUEUE_MAX - 1) / TERN_PARALLEL_QUEUE_MAX, queue_run, &queue);
    if (what)
        tern_log_progress("%s", "");
}
