/* Calls to the GPU worker that survive its death: start, prepare the layer, ask, and start again next time. */
#include "commands/run_internal.h"

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
        if (!run->problems[first + m].done && run->shapes.m[m] > largest)
            largest = run->shapes.m[m];
    return largest;
}

/* One plain exchange; an error reply becomes *status. */
static enum tern_call exchange(struct run *run, const json_t *request, double timeout_s, json_t **reply, char *why,
                               size_t why_size, enum tern_status *status, struct tern_error *err) {
    enum tern_call call = tern_process_call(&run->worker, request, timeout_s, reply, why, why_size);
    if (call != TERN_CALL_OK) {
        run->prepared = 0;
        run->suspect = true;
        return call;
    }
    if (tern_reply_is_error(*reply, err)) {
        *status = err->status;
        json_decref(*reply);
        *reply = NULL;
        return call;
    }
    run->busy_s += tern_message_real(*reply, "busy_seconds", 0);
    if (json_is_true(json_object_get(*reply, "sticky"))) { /* the context is lost; the worker is ending */
        tern_process_kill(&run->worker);
        run->prepared = 0;
        run->suspect = true;
    }
    return call;
}

static json_t *hello_request(const struct run *run) {
    const struct run_options *o = &run->options;
    if (o->replay)
        return json_pack("{s:s, s:s, s:s, s:I, s:I}", "do", "hello", "recording", o->replay, "fault",
                         o->fault ? o->fault : "", "asked", (json_int_t)run->asked, "finals", (json_int_t)run->finals);
    return json_pack("{s:s, s:I, s:s, s:b}", "do", "hello", "device", (json_int_t)o->device, "cache", o->cache, "probe",
                     run->suspect);
}

/* A device needs a moment after a worker was killed on it, and may refuse the first context: a few attempts, then it counts as
 * wedged. Each worker after one that died first proves with the control kernel that the device still computes. */
enum tern_status tern_run_gpu_hello(struct run *run, json_t **reply, struct tern_error *err) {
    char why[512] = "";
    const char *kind = run->options.replay ? "replay" : "gpu";
    json_t *request = hello_request(run);
    enum tern_call call = TERN_CALL_DIED;
    enum tern_status status = TERN_OK;
    bool again = true;
    *reply = NULL;
    for (int attempt = 0; attempt < HELLO_ATTEMPTS && again; attempt++) {
        if (attempt > 0) {
            tern_process_kill(&run->worker);
            usleep(HELLO_PAUSE_US);
        }
        status = tern_process_start(kind, &run->worker, err);
        if (status != TERN_OK)
            break;
        bool suspect = run->suspect;
        call = exchange(run, request, HELLO_TIMEOUT_S, reply, why, sizeof why, &status, err);
        again = call != TERN_CALL_OK || (status != TERN_OK && suspect);
    }
    json_decref(request);
    if (status == TERN_OK && call != TERN_CALL_OK)
        status = tern_error_set(err, TERN_MISSING, "the %s worker cannot be started (%d attempts): %s", kind, HELLO_ATTEMPTS,
                                why);
    if (status == TERN_OK)
        run->suspect = false;
    else if (status == TERN_MISSING && run->suspect)
        tern_error_hint(err, "the device may be wedged: see nvidia-smi and dmesg; finished trials are kept");
    return status;
}

static enum tern_status say_hello(struct run *run, struct tern_error *err) {
    json_t *reply = NULL;
    enum tern_status status = tern_run_gpu_hello(run, &reply, err);
    json_decref(reply);
    return status;
}

static enum tern_status prepare(struct run *run, const struct run_problem *p, struct tern_error *err) {
    char why[512];
    size_t first = first_of(run, p);
    struct tern_problem_shape shape = tern_run_shape(run, p);
    json_t *reply = NULL;
    json_t *request = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "do", "prepare", "format", shape.format->name, "n",
                                (json_int_t)shape.n, "k", (json_int_t)shape.k, "m_max", (json_int_t)largest_m(run, first),
                                "seed", (json_int_t)run->options.seed);
    enum tern_status status = TERN_OK;
    tern_log_progress("%s %s: weights, copies and reference", shape.format->name, run->shapes.layers[p->layer].name);
    if (exchange(run, request, PREPARE_TIMEOUT_S, &reply, why, sizeof why, &status, err) != TERN_CALL_OK)
        status = tern_error_set(err, TERN_MISSING, "the GPU worker died while preparing %s %s: %s", shape.format->name,
                                run->shapes.layers[p->layer].name, why);
    if (status == TERN_OK)
        run->prepared = first + 1;
    json_decref(request);
    json_decref(reply);
    return status;
}

enum tern_status tern_run_gpu_ready(struct run *run, const struct run_problem *p, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    if (run->worker.pid == 0)
        status = say_hello(run, err);
    if (status == TERN_OK && p && run->prepared != first_of(run, p) + 1)
        status = prepare(run, p, err);
    return status;
}

enum tern_call tern_run_gpu_call(struct run *run, const struct run_problem *p, const json_t *request, double timeout_s,
                                 json_t **reply, char *why, size_t why_size, enum tern_status *status,
                                 struct tern_error *err) {
    *reply = NULL;
    *status = tern_run_gpu_ready(run, p, err);
    if (*status != TERN_OK)
        return TERN_CALL_DIED;
    const char *what = tern_message_text(request, "do");
    run->asked += strcmp(what, "check") == 0 || strcmp(what, "trial") == 0;
    run->finals += strcmp(what, "final") == 0;
    return exchange(run, request, timeout_s, reply, why, why_size, status, err);
}
