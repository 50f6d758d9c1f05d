/* Replay worker: one request after the other, answered from a recording. See replay.h. */
#include "worker/replay.h"

#include "core/activation.h"
#include "core/str.h"
#include "worker/process.h"
#include "worker/recording.h"
#include "worker/replay_fault.h"
#include "worker/reply.h"

#include <string.h>

struct replay {
    struct tern_recording recording;
    struct tern_faults faults;
    bool open;
    char format[40]; /* of the prepared layer; "" before */
    enum tern_activation type;
    int64_t n, k;
};

static json_t *hello(struct replay *r, const json_t *request) {
    struct tern_error err;
    char driver[64], uuid[24];
    json_t *reply;
    enum tern_status status = tern_faults_parse(tern_message_text(request, "fault"), &r->faults, &err);
    r->faults.device = tern_message_int(request, "device", 0);
    r->faults.asked = tern_message_int(request, "asked", 0);
    r->faults.finals = tern_message_int(request, "finals", 0);
    if (status == TERN_OK && (reply = tern_faults_act(&r->faults, request)))
        return reply;
    if (status == TERN_OK)
        status = tern_recording_read(tern_message_text(request, "recording"), &r->recording, &err);
    if (status != TERN_OK)
        return tern_reply_error(&err);
    r->open = true;
    const json_t *d = r->recording.device;
    /* Another recording is another class of device: what one answered never resumes a replay of the other. */
    tern_str_format(driver, sizeof driver, "%.24s recording %.16s", tern_message_text(d, "driver"), r->recording.hash);
    tern_str_format(uuid, sizeof uuid, "replay-%lld", (long long)r->faults.device);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "name", tern_message_text(d, "name"), "uuid", uuid, "driver",
                     driver, "cc", (json_int_t)tern_message_int(d, "cc", 0), "sms",
                     (json_int_t)tern_message_int(d, "sms", 0), "l2_bytes", (json_int_t)tern_message_int(d, "l2_bytes", 0),
                     "memory_bytes", (json_int_t)tern_message_int(d, "memory_bytes", 0));
}

static json_t *prepare(struct replay *r, const json_t *request) {
    struct tern_error err;
    if (tern_activation_parse(tern_message_text(request, "activations"), &r->type, &err) != TERN_OK)
        return tern_reply_error(&err);
    tern_str_copy(r->format, sizeof r->format, tern_message_text(request, "format"));
    r->n = tern_message_int(request, "n", 0);
    r->k = tern_message_int(request, "k", 0);
    return json_pack("{s:i, s:i}", "copies", 1, "bytes", 0);
}

/* Outcome, detail, samples, clock and device time of a recorded line. */
static json_t *recorded(const json_t *line) {
    if (!line)
        return tern_reply_outcome(TERN_OUTCOME_INVALID, "not recorded");
    json_t *reply = tern_reply_outcome(tern_reply_outcome_of(line), tern_message_text(line, "detail"));
    json_object_set_new(reply, "sm_mhz", json_integer(tern_message_int(line, "sm_mhz", 0)));
    static const char *const numbers[] = {"samples", "gpu_seconds"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_t *value = json_object_get(line, numbers[i]);
        if (value)
            json_object_set(reply, numbers[i], value);
    }
    return reply;
}

static struct tern_recorded_problem problem_of(const struct replay *r, const json_t *request) {
    return (struct tern_recorded_problem){r->format, r->n, r->k, tern_message_int(request, "m", 0),
                                          tern_activation_op(r->type)};
}

/* As a GPU worker answers: the check ahead, if it is asked for, and its outcome for both when it failed. */
static json_t *trial(const struct replay *r, const json_t *request) {
    struct tern_recorded_problem p = problem_of(r, request);
    const char *tmpl = tern_message_text(request, "template"), *params = tern_message_text(request, "params");
    json_t *check = NULL;
    if (json_is_true(json_object_get(request, "check")))
        check = recorded(tern_recording_check(&r->recording, r->format, p.op, tmpl, params));
    bool fails = check && tern_reply_outcome_of(check) != TERN_OUTCOME_OK;
    json_t *reply = fails ? tern_reply_outcome(tern_reply_outcome_of(check), tern_message_text(check, "detail"))
                          : recorded(tern_recording_trial(&r->recording, "screen", &p, tmpl, params));
    if (check)
        tern_reply_check(check);
    return reply;
}

static json_t *final_entry(const struct replay *r, const struct tern_recorded_problem *p, const json_t *entry) {
    const char *tmpl = tern_message_text(entry, "template"), *params = tern_message_text(entry, "params");
    const json_t *line = tern_recording_trial(&r->recording, "final", p, tmpl, params);
    if (line) {
        json_t *known = recorded(line);
        json_t *loaded = json_object_get(tern_recording_trial(&r->recording, "sustained", p, tmpl, params), "samples");
        if (loaded)
            json_object_set(known, "loaded", loaded);
        return known;
    }
    json_t *reply = recorded(tern_recording_trial(&r->recording, "screen", p, tmpl, params));
    json_object_del(reply, "gpu_seconds"); /* those of the screen, and counted there */
    if (tern_reply_outcome_of(reply) == TERN_OUTCOME_OK)
        json_object_set_new(reply, "detail", json_string("screening samples: it was in no recorded final"));
    return reply;
}

static json_t * final(const struct replay *r, const json_t *request) {
    static const char *const kinds[] = {"cublaslt-default", "cublaslt-best16", "dequant-cublaslt", "dequant-e4m3-cublaslt",
                                        "cublaslt-best16/sustained"};
    struct tern_recorded_problem p = problem_of(r, request);
    json_t *entries = json_array(), *baselines = json_object(), *details = json_object(), *entry;
    const json_t *any = NULL;
    size_t i;
    json_array_foreach(json_object_get(request, "entries"), i, entry) {
        json_array_append_new(entries, final_entry(r, &p, entry));
    }
    for (size_t b = 0; b < sizeof kinds / sizeof kinds[0]; b++) {
        const json_t *line = tern_recording_baseline(&r->recording, &p, kinds[b]);
        json_t *samples = json_object_get(line, "samples");
        if (samples) {
            json_object_set(baselines, kinds[b], samples);
            json_object_set_new(details, kinds[b],
                                json_sprintf("algorithm %lld of %lld",
                                             (long long)tern_message_int(line, "best_algorithm", -1),
                                             (long long)tern_message_int(line, "algorithms", -1)));
        }
        any = line ? line : any;
    }
    return json_pack("{s:o, s:o, s:o, s:I, s:i, s:i}", "entries", entries, "baselines", baselines, "details", details,
                     "sm_mhz", (json_int_t)tern_message_int(any, "sm_mhz", 0), "throttle", 0, "others", 0);
}

/* Of no GPU: all replay workers are alike, unless a fault makes one slow. */
static json_t *control(const struct replay *r) {
    double us = tern_faults_unlike(&r->faults) ? 1.1 : 1.0;
    return json_pack("{s:f, s:f}", "read_us", us, "burst_us", us);
}

static json_t *answer(struct replay *r, const json_t *request) {
    struct tern_error err;
    const char *what = tern_message_text(request, "do");
    if (strcmp(what, "hello") == 0)
        return hello(r, request);
    json_t *fault = tern_faults_act(&r->faults, request);
    if (fault)
        return fault;
    if (!r->open)
        tern_error_set(&err, TERN_INTERNAL, "a replay worker was asked to '%s' before hello", what);
    else if (strcmp(what, "prepare") == 0)
        return prepare(r, request);
    else if (strcmp(what, "control") == 0)
        return control(r);
    else if (strcmp(what, "settle") == 0)
        return json_pack("{s:i}", "sm_mhz", 0); /* no clock to settle */
    else if (!r->format[0])
        tern_error_set(&err, TERN_INTERNAL, "a replay worker was asked to '%s' before prepare", what);
    else if (strcmp(what, "trial") == 0)
        return trial(r, request);
    else if (strcmp(what, "final") == 0)
        return final(r, request);
    else
        tern_error_set(&err, TERN_INTERNAL, "a replay worker cannot '%s'", what);
    return tern_reply_error(&err);
}

int tern_replay_worker(void) {
    struct replay r;
    memset(&r, 0, sizeof r);
    for (bool last = false; !last;) {
        json_t *request = NULL;
        if (tern_message_receive(TERN_WORKER_FD, 0, &request) != TERN_MESSAGE_OK)
            break;                                                    /* the parent is done, or gone */
        if (strcmp(tern_message_text(request, "do"), "ahead") == 0) { /* nothing to load, and no answer */
            json_decref(request);
            continue;
        }
        json_t *reply = answer(&r, request);
        last = tern_message_send(TERN_WORKER_FD, reply) != TERN_MESSAGE_OK ||
               json_is_true(json_object_get(reply, "sticky")); /* as after a fault of a device: the context is lost */
        json_decref(request);
        json_decref(reply);
    }
    if (r.open)
        tern_recording_free(&r.recording);
    return 0;
}
