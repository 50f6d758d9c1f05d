/* GPU worker: one request after the other on one device. See gpu.h for the messages. */
#include "worker/gpu.h"

#include "core/clock.h"
#include "worker/gpu_inbox.h"
#include "worker/gpu_session.h"
#include "worker/process.h"
#include "worker/reply.h"

#include <pthread.h>
#include <string.h>

static json_t *count_devices(void) {
    struct tern_error err;
    int count = 0;
    if (tern_cuda_count(&count, &err) != TERN_OK)
        return tern_reply_error(&err);
    return json_pack("{s:i}", "devices", count);
}

static json_t *hello(struct gpu_session *s, const json_t *request) {
    struct tern_error err;
    if (gpu_session_hello(s, request, &err) != TERN_OK)
        return tern_reply_error(&err);
    const struct tern_device_info *i = &s->info;
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:i}", "name", i->name, "uuid", i->uuid, "driver",
                     i->driver_name, "cc", i->cc, "sms", (json_int_t)i->sms, "l2_bytes", (json_int_t)i->l2_bytes,
                     "memory_bytes", (json_int_t)i->memory_bytes, "smem_block_bytes", (json_int_t)i->smem_block_bytes,
                     "driver_version", i->driver_version);
}

static json_t *prepare(struct gpu_session *s, const json_t *request) {
    struct tern_error err;
    if (gpu_session_prepare(s, request, &err) != TERN_OK)
        return tern_reply_error(&err);
    return json_pack("{s:I, s:I}", "copies", (json_int_t)s->layer.packs[0].copies, "bytes",
                     (json_int_t)s->layer.packs[0].stride);
}

/* What the compiler must make for the formats of a run, and its type of activations. A failure shows when it is needed. */
struct ahead {
    struct gpu_session *session;
    const json_t *formats;
    enum tern_activation type;
};

static void *build_ahead(void *user) {
    const struct ahead *a = user;
    struct tern_error err;
    struct tern_format format;
    json_t *name;
    size_t i;
    if (tern_cuda_enter(a->session->context, &err) != TERN_OK)
        return NULL;
    json_array_foreach(a->formats, i, name) {
        if (tern_format_parse(json_string_value(name), &format, &err) == TERN_OK)
            (void)tern_fixed_build(a->session->fixed, &format, a->type, &err);
    }
    return NULL;
}

/* While the device is under load, the host compiles: later the device would wait for it. */
static json_t *settle(struct gpu_session *s, const json_t *request) {
    struct tern_error err;
    struct tern_clocks clocks;
    struct ahead a = {.session = s, .formats = json_object_get(request, "formats")};
    pthread_t thread;
    if (tern_activation_parse(tern_message_text(request, "activations"), &a.type, &err) != TERN_OK)
        return tern_reply_error(&err);
    bool beside = pthread_create(&thread, NULL, build_ahead, &a) == 0;
    enum tern_status status = tern_cuda_settle(s->context, tern_message_real(request, "seconds", 3.0), &err);
    if (beside)
        (void)pthread_join(thread, NULL);
    if (status != TERN_OK)
        return tern_reply_error(&err);
    tern_cuda_clocks(s->context, &clocks);
    return json_pack("{s:i}", "sm_mhz", clocks.sm_mhz);
}

static json_t *answer(struct gpu_session *s, const json_t *request) {
    struct tern_error err;
    const char *what = tern_message_text(request, "do");
    if (strcmp(what, "count") == 0)
        return count_devices();
    if (strcmp(what, "hello") == 0)
        return hello(s, request);
    if (!s->context)
        tern_error_set(&err, TERN_INTERNAL, "a GPU worker was asked to '%s' before hello", what);
    else if (strcmp(what, "prepare") == 0)
        return prepare(s, request);
    else if (strcmp(what, "control") == 0)
        return gpu_control(s);
    else if (strcmp(what, "settle") == 0)
        return settle(s, request);
    else if (strcmp(what, "calibrate") == 0)
        return gpu_calibrate(s, request);
    else if (!s->layer.ready)
        tern_error_set(&err, TERN_INTERNAL, "a GPU worker was asked to '%s' before prepare", what);
    else if (strcmp(what, "trial") == 0)
        return gpu_trial(s, request);
    else if (strcmp(what, "final") == 0)
        return gpu_final(s, request);
    else
        tern_error_set(&err, TERN_INTERNAL, "a GPU worker cannot '%s'", what);
    return tern_reply_error(&err);
}

const char *tern_gpu_time_name(enum tern_gpu_time which) {
    static const char *const names[TERN_GPU_TIMES] = {"launches", "rests",  "verification", "preparation",
                                                      "trials",   "finals", "others",       "requests"};
    return names[which];
}

/* Of the accounts on which the device does not wait for the host; takes over those of the context. */
static double device_seconds(struct gpu_session *s) {
    s->seconds[TERN_GPU_LAUNCHES] = s->context ? tern_cuda_busy_s(s->context) : 0;
    s->seconds[TERN_GPU_RESTS] = s->context ? tern_cuda_rest_s(s->context) : 0;
    return s->seconds[TERN_GPU_LAUNCHES] + s->seconds[TERN_GPU_RESTS] + s->seconds[TERN_GPU_VERIFICATION] +
           s->seconds[TERN_GPU_PREPARATION];
}

/* The answer, and on which account its time goes. */
static json_t *answer_timed(struct gpu_session *s, const json_t *request) {
    const char *what = tern_message_text(request, "do");
    enum tern_gpu_time account = strcmp(what, "prepare") == 0 ? TERN_GPU_PREPARATION
                                 : strcmp(what, "trial") == 0 ? TERN_GPU_TRIALS
                                 : strcmp(what, "final") == 0 ? TERN_GPU_FINALS
                                                              : TERN_GPU_OTHERS;
    int64_t start_ns = tern_clock_now_ns();
    double before_s = device_seconds(s);
    json_t *reply = answer(s, request);
    double of_others_s = device_seconds(s) - before_s;
    gpu_spent(s, account, start_ns);
    s->seconds[account] -= of_others_s;
    return reply;
}

/* What has been added since `told`, which the parent knows. */
static void add_seconds(json_t *reply, const struct gpu_session *s, double *told) {
    json_t *seconds = json_object();
    for (int i = 0; i < TERN_GPU_TIMES; i++) {
        json_object_set_new(seconds, tern_gpu_time_name((enum tern_gpu_time)i), json_real(s->seconds[i] - told[i]));
        told[i] = s->seconds[i];
    }
    json_object_set_new(reply, "seconds", seconds);
}

/* NULL: the parent is done, or gone. Before it asks to settle it compiles, and nobody waits for it. */
static json_t *next_request(struct gpu_session *s) {
    int64_t start_ns = tern_clock_now_ns();
    json_t *request = NULL;
    if (s->inbox)
        request = gpu_inbox_take(s->inbox);
    else if (tern_message_receive(TERN_WORKER_FD, 0, &request) != TERN_MESSAGE_OK)
        request = NULL;
    if (request && strcmp(tern_message_text(request, "do"), "settle") != 0)
        gpu_spent(s, TERN_GPU_REQUESTS, start_ns);
    return request;
}

int tern_gpu_worker(void) {
    struct gpu_session session;
    memset(&session, 0, sizeof session);
    double told[TERN_GPU_TIMES] = {0};
    while (!session.sticky) {
        json_t *request = next_request(&session);
        if (!request)
            break;
        json_t *reply = answer_timed(&session, request);
        if (session.sticky)
            json_object_set_new(reply, "sticky", json_true());
        add_seconds(reply, &session, told);
        if (session.context && !session.inbox && !session.sticky) /* before the answer: the next message is for the thread */
            session.inbox = gpu_inbox_open(&session);
        enum tern_message_status sent = tern_message_send(TERN_WORKER_FD, reply);
        json_decref(request);
        json_decref(reply);
        if (sent != TERN_MESSAGE_OK)
            break;
    }
    if (!session.sticky)
        gpu_inbox_close(session.inbox);
    gpu_session_close(&session);
    return 0;
}
