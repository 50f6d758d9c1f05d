/* Calls to the GPU worker of a device that survive its death: start, prepare the layer, ask, and start again next time. */
#include "commands/run_internal.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/str.h"
#include "worker/reply.h"

#include <string.h>
#include <unistd.h>

#define HELLO_TIMEOUT_S 60.0
#define HELLO_ATTEMPTS  3
#define HELLO_PAUSE_US  500000

/* A 70B layer is packed and copied in seconds; the reference at M = 8192 takes some more. */
#define PREPARE_TIMEOUT_S 180.0

/* Index of the first problem of p's (format, layer). */
static size_t first_of(const struct run *run, const struct run_problem *p) {
    return (size_t)(p - run->problems) / run->shapes.m_count * run->shapes.m_count;
}

/* Largest M of the layer that is still to be done: how much reference and output the worker needs. */
static int64_t largest_m(const struct run *run, size_t first) {
    int64_t largest = 1;
    for (size_t m = 0; m < run->shapes.m_count; m++)
        if (!run->problems[first + m].done && !run->problems[first + m].left_out && run->shapes.m[m] > largest)
            largest = run->shapes.m[m];
    return largest;
}

void tern_run_gpu_kill(struct run_gpu *gpu) {
    tern_process_kill(&gpu->worker);
    gpu->prepared = 0;
}

const char *tern_run_gpu_name(const struct run_gpu *gpu, char *out, size_t size) {
    tern_str_format(out, size, gpu->info.uuid[0] ? "device %lld (%s)" : "device %lld", (long long)gpu->ordinal,
                    gpu->info.uuid);
    return out;
}

/* The answer to what was sent last. Others may have the lock meanwhile; an error reply becomes *status. */
static enum tern_call receive(struct run_gpu *gpu, json_t **reply, char *why, size_t why_size, enum tern_status *status,
                              struct tern_error *err) {
    pthread_mutex_unlock(&gpu->run->lock);
    enum tern_call call = tern_process_answer(&gpu->worker, gpu->deadline_ns, reply, why, why_size);
    pthread_mutex_lock(&gpu->run->lock);
    if (call != TERN_CALL_OK) {
        gpu->prepared = 0;
        gpu->suspect = true;
        return call;
    }
    if (tern_reply_is_error(*reply, err)) {
        *status = err->status;
        json_decref(*reply);
        *reply = NULL;
        return call;
    }
    const json_t *seconds = json_object_get(*reply, "seconds");
    for (int i = 0; i < TERN_GPU_TIMES; i++)
        gpu->run->seconds[i] += tern_message_real(seconds, tern_gpu_time_name((enum tern_gpu_time)i), 0);
    if (json_is_true(json_object_get(*reply, "sticky"))) { /* the context is lost; the worker is ending */
        tern_run_gpu_kill(gpu);
        gpu->suspect = true;
    }
    return call;
}

static void send(struct run_gpu *gpu, const json_t *request, double timeout_s) {
    gpu->deadline_ns = tern_clock_now_ns() + (int64_t)(timeout_s * 1e9);
    tern_message_send(gpu->worker.fd, request); /* that it did not arrive is found when the answer is awaited */
}

static enum tern_call exchange(struct run_gpu *gpu, const json_t *request, double timeout_s, json_t **reply, char *why,
                               size_t why_size, enum tern_status *status, struct tern_error *err) {
    send(gpu, request, timeout_s);
    return receive(gpu, reply, why, why_size, status, err);
}

json_t *tern_run_gpu_hello_request(const struct run_gpu *gpu) {
    const struct run_options *o = &gpu->run->options;
    if (o->replay)
        return json_pack("{s:s, s:I, s:s, s:s, s:I, s:I}", "do", "hello", "device", (json_int_t)gpu->ordinal, "recording",
                         o->replay, "fault", o->fault ? o->fault : "", "asked", (json_int_t)gpu->asked, "finals",
                         (json_int_t)gpu->finals);
    return json_pack("{s:s, s:I, s:s, s:b}", "do", "hello", "device", (json_int_t)gpu->ordinal, "cache", o->cache, "probe",
                     gpu->suspect);
}

static void pause_unlocked(struct run *run) {
    pthread_mutex_unlock(&run->lock);
    usleep(HELLO_PAUSE_US);
    pthread_mutex_lock(&run->lock);
}

/* A device needs a moment after a worker was killed on it, and may refuse the first context: a few attempts, then it counts as
 * wedged. Each worker after one that died first proves with the control kernel that the device still computes. */
enum tern_status tern_run_gpu_hello(struct run_gpu *gpu, json_t **reply, struct tern_error *err) {
    char why[512] = "";
    const char *kind = gpu->run->options.replay ? "replay" : "gpu";
    json_t *request = tern_run_gpu_hello_request(gpu);
    enum tern_call call = TERN_CALL_DIED;
    enum tern_status status = TERN_OK;
    bool again = true;
    *reply = NULL;
    for (int attempt = 0; attempt < HELLO_ATTEMPTS && again; attempt++) {
        if (attempt > 0) {
            tern_run_gpu_kill(gpu);
            pause_unlocked(gpu->run);
        }
        status = tern_process_start(kind, &gpu->worker, err);
        if (status != TERN_OK)
            break;
        bool suspect = gpu->suspect;
        call = exchange(gpu, request, HELLO_TIMEOUT_S, reply, why, sizeof why, &status, err);
        again = call != TERN_CALL_OK || (status != TERN_OK && suspect);
    }
    json_decref(request);
    if (status == TERN_OK && call != TERN_CALL_OK)
        status = tern_error_set(err, TERN_MISSING, "the %s worker cannot be started (%d attempts): %s", kind, HELLO_ATTEMPTS,
                                why);
    if (status == TERN_OK)
        gpu->suspect = false;
    else if (status == TERN_MISSING && gpu->suspect)
        tern_error_hint(err, "the device may be wedged: see nvidia-smi and dmesg; finished trials are kept");
    return status;
}

static enum tern_status say_hello(struct run_gpu *gpu, struct tern_error *err) {
    json_t *reply = NULL;
    enum tern_status status = tern_run_gpu_hello(gpu, &reply, err);
    json_decref(reply);
    return status;
}

static enum tern_status prepare(struct run_gpu *gpu, const struct run_problem *p, struct tern_error *err) {
    char why[512];
    const struct run *run = gpu->run;
    size_t first = first_of(run, p);
    int64_t m = largest_m(run, first);
    struct tern_problem_shape shape = tern_run_shape(run, p);
    json_t *reply = NULL;
    json_t *request = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "do", "prepare", "format", shape.format->name,
                                "activations", run->options.activations, "n", (json_int_t)shape.n, "k", (json_int_t)shape.k,
                                "m_max", (json_int_t)m, "seed", (json_int_t)run->options.seed);
    tern_run_weights_request(run, p, request);
    enum tern_status status = TERN_OK;
    tern_log_progress("%s %s: weights, copies and reference", shape.format->name, run->shapes.layers[p->layer].name);
    enum tern_call call = exchange(gpu, request, PREPARE_TIMEOUT_S, &reply, why, sizeof why, &status, err);
    if (call != TERN_CALL_OK)
        status = tern_error_set(err, TERN_MISSING, "the GPU worker died while preparing %s %s: %s", shape.format->name,
                                run->shapes.layers[p->layer].name, why);
    if (status == TERN_OK) {
        gpu->prepared = first + 1;
        gpu->prepared_m = m;
    }
    json_decref(request);
    json_decref(reply);
    return status;
}

enum tern_status tern_run_gpu_ready(struct run_gpu *gpu, const struct run_problem *p, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    if (gpu->run->failed != TERN_OK)
        return tern_error_set(err, gpu->run->failed, "the run has failed on another device");
    if (gpu->worker.pid == 0)
        status = say_hello(gpu, err);
    bool prepared = !p || (gpu->prepared == first_of(gpu->run, p) + 1 && gpu->run->shapes.m[p->m] <= gpu->prepared_m);
    if (status == TERN_OK && !prepared)
        status = prepare(gpu, p, err);
    return status;
}

enum tern_status tern_run_gpu_send(struct run_gpu *gpu, const struct run_problem *p, const json_t *request, double timeout_s,
                                   struct tern_error *err) {
    enum tern_status status = tern_run_gpu_ready(gpu, p, err);
    if (status != TERN_OK)
        return status;
    const char *what = tern_message_text(request, "do");
    gpu->asked += strcmp(what, "trial") == 0;
    gpu->finals += strcmp(what, "final") == 0;
    send(gpu, request, timeout_s);
    return TERN_OK;
}

enum tern_call tern_run_gpu_receive(struct run_gpu *gpu, json_t **reply, char *why, size_t why_size,
                                    enum tern_status *status, struct tern_error *err) {
    *reply = NULL;
    *status = TERN_OK;
    return receive(gpu, reply, why, why_size, status, err);
}

enum tern_call tern_run_gpu_call(struct run_gpu *gpu, const struct run_problem *p, const json_t *request, double timeout_s,
                                 json_t **reply, char *why, size_t why_size, enum tern_status *status,
                                 struct tern_error *err) {
    *reply = NULL;
    *status = tern_run_gpu_send(gpu, p, request, timeout_s, err);
    return *status == TERN_OK ? tern_run_gpu_receive(gpu, reply, why, why_size, status, err) : TERN_CALL_DIED;
}

void tern_run_gpu_hint(struct run_gpu *gpu, const json_t *message) {
    if (gpu->worker.pid != 0)
        tern_message_send(gpu->worker.fd, message);
}
