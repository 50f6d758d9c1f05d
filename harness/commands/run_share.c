/* The work of a run, shared by its devices: one thread each, which takes the next problem when it is done with one.
 * Dynamic, so that no device waits for a slower layer of another; only at the end one may find nothing to do. */
#include "commands/run_internal.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/str.h"
#include "worker/interrupt.h"

#include <stdlib.h>

#define SETTLE_S         3.0 /* load before the first time is taken (tuning.md: about 3 s) */
#define SETTLE_TIMEOUT_S 60.0

/* ---- which problem next ---- */

static bool is_open(const struct run_problem *p) {
    return !p->done && !p->gpu && !p->left_out;
}

static size_t open_count(const struct run *run) {
    size_t count = 0;
    for (size_t i = 0; i < run->problem_count; i++)
        count += is_open(&run->problems[i]);
    return count;
}

/* First open problem of the layer at problem index `first`. */
static struct run_problem *first_open(const struct run *run, size_t first) {
    for (size_t i = first; i < first + run->shapes.m_count; i++)
        if (is_open(&run->problems[i]))
            return &run->problems[i];
    return NULL;
}

/* True if a device other than `gpu` is at work on the layer. */
static bool others_are_on(const struct run_gpu *gpu, size_t first) {
    const struct run *run = gpu->run;
    for (size_t i = 0; i < run->gpu_count; i++) {
        const struct run_problem *p = run->gpus[i].problem;
        if (&run->gpus[i] != gpu && p && p >= &run->problems[first] && p < &run->problems[first + run->shapes.m_count])
            return true;
    }
    return false;
}

/* Where to help: in the middle of the longest row of open problems of one layer. Who is on that layer comes from below, and
 * finds its own half done by then. */
static struct run_problem *middle_of_longest(const struct run *run) {
    size_t best = 0, best_length = 0, length = 0;
    for (size_t i = 0; i < run->problem_count; i++) {
        if (i % run->shapes.m_count == 0)
            length = 0;
        length = is_open(&run->problems[i]) ? length + 1 : 0;
        if (length > best_length) {
            best = i + 1 - length;
            best_length = length;
        }
    }
    return best_length > 0 ? &run->problems[best + best_length / 2] : NULL;
}

struct run_problem *tern_run_next_problem(const struct run_gpu *gpu) {
    const struct run *run = gpu->run;
    const size_t ms = run->shapes.m_count;
    struct run_problem *p = gpu->previous;
    if (p && p->m + 1 < ms && is_open(p + 1))
        return p + 1; /* the neighbour, which profits most from what was just found */
    size_t held = gpu->prepared > 0 ? gpu->prepared - 1 : 0;
    p = gpu->prepared > 0 && !others_are_on(gpu, held) ? first_open(run, held) : NULL;
    for (size_t first = 0; first < run->problem_count && !p; first += ms)
        if (!others_are_on(gpu, first))
            p = first_open(run, first);
    return p ? p : middle_of_longest(run);
}

/* ---- a device's thread ---- */

struct sharing {
    struct run *run;
    tern_run_tune *tune;
    int64_t end_ns;  /* of the budget */
    double replay_s; /* share of every problem in a replay, which has no clock */
};

struct thread {
    struct sharing *sharing;
    struct run_gpu *gpu;
};

static size_t working_count(const struct run *run) {
    size_t count = 0;
    for (size_t i = 0; i < run->gpu_count; i++)
        count += !run->gpus[i].lost;
    return count;
}

/* Seconds for one problem: the time that is left, times the devices that use it, over the problems that are left. */
static double share_of(const struct sharing *s) {
    if (s->run->options.replay)
        return s->replay_s;
    size_t left = open_count(s->run), devices = working_count(s->run);
    double left_s = (double)(s->end_ns - tern_clock_now_ns()) * 1e-9;
    return left_s * (double)(devices < left ? devices : left) / (double)left;
}

/* Waits while another device is at work: its problem may come back. NULL: there is no more to do. */
static struct run_problem *take(struct run_gpu *gpu) {
    struct run *run = gpu->run;
    for (;;) {
        bool busy = false;
        struct run_problem *p = tern_run_next_problem(gpu);
        if (tern_interrupted() || run->failed != TERN_OK)
            return NULL;
        if (p)
            return p;
        for (size_t i = 0; i < run->gpu_count; i++)
            busy = busy || run->gpus[i].problem;
        if (!busy)
            return NULL;
        pthread_cond_wait(&run->changed, &run->lock);
    }
}

static enum tern_status tune_one(const struct sharing *s, struct run_gpu *gpu, struct run_problem *p) {
    double share_s = share_of(s);
    gpu->problem = p;
    p->gpu = gpu;
    enum tern_status status = s->tune(s->run, p, share_s, &gpu->err);
    gpu->problem = NULL;
    gpu->previous = p;
    if (status != TERN_OK && !p->done)
        p->gpu = NULL; /* back to the others */
    else
        gpu->tuned += p->done;
    pthread_cond_broadcast(&s->run->changed);
    return status;
}

static enum tern_status settle(struct run_gpu *gpu, struct tern_error *err) {
    char why[512];
    enum tern_status status = TERN_OK;
    json_t *reply = NULL, *formats = json_array();
    for (size_t i = 0; i < gpu->run->shapes.format_count; i++)
        json_array_append_new(formats, json_string(gpu->run->shapes.formats[i].name));
    json_t *request = json_pack("{s:s, s:f, s:o, s:s}", "do", "settle", "seconds", SETTLE_S, "formats", formats,
                                "activations", gpu->run->options.activations);
    if (tern_run_gpu_call(gpu, NULL, request, SETTLE_TIMEOUT_S, &reply, why, sizeof why, &status, err) != TERN_CALL_OK &&
        status == TERN_OK)
        status = tern_error_set(err, TERN_MISSING, "the GPU worker died under a plain load: %s", why);
    json_decref(request);
    json_decref(reply);
    return status;
}

/* What ended the thread: a device that is of no more use, or a failure that ends the whole run. */
static void give_up(struct run_gpu *gpu, enum tern_status status) {
    struct run *run = gpu->run;
    struct tern_error err;
    char name[80];
    int64_t interrupted = 0;
    bool of_device = status == TERN_MISSING || status == TERN_FAILED;
    gpu->status = status;
    gpu->lost = true;
    tern_run_gpu_kill(gpu);
    if (of_device) /* what it left running is to be tried again, elsewhere */
        status = tern_store_recover_device(run->store, gpu->id, &interrupted, &err);
    if (!of_device)
        err = gpu->err;
    if (status != TERN_OK && run->failed == TERN_OK) {
        run->failed = status;
        run->failure = err;
    }
    if (of_device && working_count(run) > 0)
        tern_log_warn("see nvidia-smi and dmesg; finished trials are kept", "%s is lost, its work goes to the others: %s",
                      tern_run_gpu_name(gpu, name, sizeof name), gpu->err.text);
}

static void *thread_main(void *user) {
    const struct thread *thread = user;
    struct run_gpu *gpu = thread->gpu;
    struct run_problem *p;
    int64_t start_ns = tern_clock_now_ns();
    pthread_mutex_lock(&gpu->run->lock);
    enum tern_status status = settle(gpu, &gpu->err);
    while (status == TERN_OK && (p = take(gpu)))
        status = tune_one(thread->sharing, gpu, p);
    if (status != TERN_OK)
        give_up(gpu, status);
    gpu->run->gpu_s += (double)(tern_clock_now_ns() - start_ns) * 1e-9;
    pthread_cond_broadcast(&gpu->run->changed);
    pthread_mutex_unlock(&gpu->run->lock);
    return NULL;
}

/* Starts the threads and waits for them without the lock. */
static void run_threads(struct sharing *s) {
    struct run *run = s->run;
    struct thread threads[RUN_MAX_DEVICES];
    size_t started = 0;
    for (; started < run->gpu_count && run->failed == TERN_OK; started++) {
        threads[started] = (struct thread){.sharing = s, .gpu = &run->gpus[started]};
        if (pthread_create(&run->gpus[started].thread, NULL, thread_main, &threads[started]) != 0) {
            run->failed = tern_error_set(&run->failure, TERN_INTERNAL, "cannot start a thread for device %lld",
                                         (long long)run->gpus[started].ordinal);
            break;
        }
    }
    pthread_mutex_unlock(&run->lock);
    for (size_t i = 0; i < started; i++)
        pthread_join(run->gpus[i].thread, NULL);
    pthread_mutex_lock(&run->lock);
}

static void tell_shares(const struct run *run) {
    char name[80];
    for (size_t i = 0; i < run->gpu_count && run->gpu_count > 1; i++)
        tern_log_note("%s: %zu problems", tern_run_gpu_name(&run->gpus[i], name, sizeof name), run->gpus[i].tuned);
}

enum tern_status tern_run_share(struct run *run, tern_run_tune *tune, double budget_s, struct tern_error *err) {
    struct sharing s = {.run = run,
                        .tune = tune,
                        .end_ns = run->options.replay ? 0 : tern_clock_now_ns() + (int64_t)(budget_s * 1e9),
                        .replay_s = budget_s / (double)run->problem_count};
    run_threads(&s);
    tern_log_progress("%s", "");
    tell_shares(run);
    if (run->failed != TERN_OK) {
        *err = run->failure;
        return err->status;
    }
    if (working_count(run) > 0)
        return TERN_OK;
    for (size_t i = 0; i < run->gpu_count; i++) /* all are lost; the others' errors were warnings */
        if (run->gpus[i].status != TERN_OK)
            *err = run->gpus[i].err;
    return err->status;
}
