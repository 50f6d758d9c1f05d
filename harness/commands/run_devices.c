/* The devices of a run: which ones --device names, opened side by side, and left out again where they differ from the rest:
 * in model or driver, or by their control times. */
#include "commands/run_internal.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/str.h"
#include "worker/reply.h"

#include <string.h>

#define HELLO_TIMEOUT_S   60.0 /* first contact with a driver creates a context; seconds on machines with many GPUs */
#define CONTROL_TIMEOUT_S 60.0 /* a second; compiling its kernels on a slow host takes longer */
#define CONTROL_ATTEMPTS  2    /* the first may have met another process that was just leaving */

/* ---- the list ---- */

static enum tern_status add_device(struct run *run, int64_t ordinal, struct tern_error *err) {
    for (size_t i = 0; i < run->gpu_count; i++)
        if (run->gpus[i].ordinal == ordinal)
            return tern_error_set(err, TERN_USAGE, "--device names device %lld twice", (long long)ordinal);
    run->gpus[run->gpu_count++] = (struct run_gpu){.run = run, .ordinal = ordinal};
    return TERN_OK;
}

static enum tern_status list_devices(struct run *run, struct tern_error *err) {
    struct tern_strs names = {0};
    enum tern_status status = TERN_OK;
    tern_strs_split(&names, run->options.device, ',');
    if (names.count == 0)
        status = tern_error_set(err, TERN_USAGE, "--device '%s' names no device", run->options.device);
    for (size_t i = 0; i < names.count && status == TERN_OK; i++) {
        int64_t ordinal;
        if (tern_str_parse_int(names.items[i], 0, RUN_MAX_DEVICES - 1, &ordinal)) {
            status = add_device(run, ordinal, err);
        } else {
            status = tern_error_set(err, TERN_USAGE, "--device: '%s' is no device number from 0 to %d", names.items[i],
                                    RUN_MAX_DEVICES - 1);
            tern_error_hint(err, "for example --device 0, --device 0,1 or --device all");
        }
    }
    tern_strs_free(&names);
    return status;
}

/* All that the driver shows; at least device 0, whose hello then says what is wrong. */
static enum tern_status list_all(struct run *run, struct tern_error *err) {
    char why[512] = "";
    json_t *reply = NULL, *request = json_pack("{s:s}", "do", "count");
    enum tern_status status = add_device(run, 0, err);
    if (status == TERN_OK)
        status = tern_process_start("gpu", &run->gpus[0].worker, err);
    if (status == TERN_OK &&
        tern_process_call(&run->gpus[0].worker, request, HELLO_TIMEOUT_S, &reply, why, sizeof why) == TERN_CALL_OK)
        for (int64_t i = 1; i < tern_message_int(reply, "devices", 0) && i < RUN_MAX_DEVICES && status == TERN_OK; i++)
            status = add_device(run, i, err);
    tern_process_kill(&run->gpus[0].worker);
    json_decref(request);
    json_decref(reply);
    return status;
}

/* Ends the worker of a device and takes it off the list. */
static void leave_out(struct run *run, size_t index) {
    tern_run_gpu_kill(&run->gpus[index]);
    run->gpu_count--;
    memmove(&run->gpus[index], &run->gpus[index + 1], (run->gpu_count - index) * sizeof run->gpus[0]);
}

/* ---- asked side by side ---- */

/* Sends every device its request, then waits for the answers in turn. What goes wrong stands in each device's err. */
static void ask_all(struct run *run, json_t *(*request)(const struct run_gpu *gpu), double timeout_s,
                    void (*take)(struct run_gpu *gpu, const json_t *reply)) {
    int64_t deadline_ns = tern_clock_now_ns() + (int64_t)(timeout_s * 1e9);
    for (size_t i = 0; i < run->gpu_count; i++) {
        json_t *message = request(&run->gpus[i]);
        if (run->gpus[i].status == TERN_OK)
            tern_message_send(run->gpus[i].worker.fd, message); /* a closed socket is found by the receive below */
        json_decref(message);
    }
    for (size_t i = 0; i < run->gpu_count; i++) {
        struct run_gpu *gpu = &run->gpus[i];
        char why[512] = "";
        json_t *reply = NULL;
        if (gpu->status != TERN_OK)
            continue;
        if (tern_process_answer(&gpu->worker, deadline_ns, &reply, why, sizeof why) != TERN_CALL_OK)
            gpu->status = tern_error_set(&gpu->err, TERN_MISSING, "%s", why);
        else if (tern_reply_is_error(reply, &gpu->err))
            gpu->status = gpu->err.status;
        else
            take(gpu, reply);
        json_decref(reply);
    }
}

static void take_facts(struct run_gpu *gpu, const json_t *reply) {
    struct tern_device_info *info = &gpu->info;
    tern_str_copy(info->name, sizeof info->name, tern_message_text(reply, "name"));
    tern_str_copy(info->uuid, sizeof info->uuid, tern_message_text(reply, "uuid"));
    tern_str_copy(info->driver_name, sizeof info->driver_name, tern_message_text(reply, "driver"));
    info->cc = (int)tern_message_int(reply, "cc", 0);
    info->sms = tern_message_int(reply, "sms", 0);
    info->l2_bytes = tern_message_int(reply, "l2_bytes", 0);
    info->memory_bytes = tern_message_int(reply, "memory_bytes", 0);
    info->smem_block_bytes = tern_message_int(reply, "smem_block_bytes", 0);
    info->driver_version = (int)tern_message_int(reply, "driver_version", 0);
}

/* A worker that dies at its hello gets the attempts of any other; one that does not answer has had its time. */
static void greet_all(struct run *run) {
    for (size_t i = 0; i < run->gpu_count; i++)
        run->gpus[i].status =
            tern_process_start(run->options.replay ? "replay" : "gpu", &run->gpus[i].worker, &run->gpus[i].err);
    int64_t start_ns = tern_clock_now_ns();
    ask_all(run, tern_run_gpu_hello_request, HELLO_TIMEOUT_S, take_facts);
    bool in_time = (double)(tern_clock_now_ns() - start_ns) * 1e-9 < HELLO_TIMEOUT_S;
    for (size_t i = 0; i < run->gpu_count; i++) {
        struct run_gpu *gpu = &run->gpus[i];
        json_t *reply = NULL;
        if (gpu->status != TERN_MISSING || gpu->worker.pid != 0 || !in_time)
            continue;
        gpu->status = tern_run_gpu_hello(gpu, &reply, &gpu->err);
        if (gpu->status == TERN_OK)
            take_facts(gpu, reply);
        json_decref(reply);
    }
}

/* ---- one model, one driver ---- */

/* Why a device is not the one that was asked for; "" if it is. */
static void mismatch(const struct run *run, const struct run_gpu *gpu, char *out, size_t size) {
    out[0] = '\0';
    if (gpu->status != TERN_OK)
        tern_str_copy(out, size, gpu->err.text);
    else if (!tern_gpu_matches(&run->gpu, gpu->info.name, gpu->info.cc, gpu->info.memory_bytes))
        tern_str_format(out, size, "device %lld is %s, not %s", (long long)gpu->ordinal, gpu->info.name, run->gpu.title);
}

static bool same_class(const struct tern_device_info *a, const struct tern_device_info *b) {
    return strcmp(a->name, b->name) == 0 && strcmp(a->driver_name, b->driver_name) == 0 && a->cc == b->cc &&
           a->sms == b->sms && a->l2_bytes == b->l2_bytes;
}

/* Keeps the devices that are what --gpu names and of the first one's class. The first reason of all stays for the run. */
static void keep_matching(struct run *run) {
    char why[512];
    mismatch(run, &run->gpus[0], run->why_planned, sizeof run->why_planned);
    for (size_t i = 0; i < run->gpu_count; i++) {
        mismatch(run, &run->gpus[i], why, sizeof why);
        run->measured = run->measured || !why[0];
    }
    for (size_t i = 0; run->measured && i < run->gpu_count;) {
        struct tern_device_info *info = &run->gpus[i].info;
        mismatch(run, &run->gpus[i], why, sizeof why);
        if (!why[0] && !same_class(info, &run->gpus[0].info))
            tern_str_format(why, sizeof why,
                            "%s with %lld multiprocessors and driver %s is not the same as %s with %lld and %s", info->name,
                            (long long)info->sms, info->driver_name, run->gpus[0].info.name,
                            (long long)run->gpus[0].info.sms, run->gpus[0].info.driver_name);
        if (!why[0]) {
            i++;
            continue;
        }
        tern_log_warn("name the devices that should take part with --device", "device %lld is left out: %s",
                      (long long)run->gpus[i].ordinal, why);
        leave_out(run, i);
    }
}

static void describe(struct run *run) {
    const struct tern_device_info *info = &run->gpus[0].info;
    run->gpu.sms = info->sms;
    run->gpu.l2_bytes = info->l2_bytes;
    if (info->smem_block_bytes > 0) /* recordings leave it out */
        run->gpu.smem_block_bytes = info->smem_block_bytes;
}

enum tern_status tern_run_devices_open(struct run *run, struct tern_error *err) {
    bool all = strcmp(run->options.device, "all") == 0 && !run->options.replay; /* a recording is of one device */
    enum tern_status status = all ? list_all(run, err) : list_devices(run, err);
    if (status != TERN_OK)
        return status;
    greet_all(run);
    size_t opened = 0;
    for (size_t i = 0; i < run->gpu_count; i++)
        opened += run->gpus[i].status == TERN_OK;
    if (run->options.replay && opened == 0) { /* nothing to be planned for: the recording is bad */
        *err = run->gpus[0].err;
        return err->status;
    }
    keep_matching(run);
    if (run->measured)
        describe(run);
    else
        for (size_t i = 0; i < run->gpu_count; i++)
            tern_run_gpu_kill(&run->gpus[i]);
    return TERN_OK;
}

/* ---- control times ---- */

static json_t *control_request(const struct run_gpu *gpu) {
    (void)gpu;
    return json_pack("{s:s}", "do", "control");
}

static void take_control(struct run_gpu *gpu, const json_t *reply) {
    gpu->control.read_us = tern_message_real(reply, "read_us", 0);
    gpu->control.burst_us = tern_message_real(reply, "burst_us", 0);
    if (!(gpu->control.read_us > 0))
        gpu->status = tern_error_set(&gpu->err, TERN_INTERNAL, "the worker sent no control times");
}

/* A replay has times of its own making only: they are compared, not stored. */
static enum tern_status store_controls(struct run *run, const bool *keep, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < run->gpu_count && status == TERN_OK; i++)
        if (run->gpus[i].status == TERN_OK && !run->options.replay)
            status = tern_store_control_put(run->store, run->run_id, run->gpus[i].id, run->gpus[i].control.read_us,
                                            run->gpus[i].control.burst_us, keep[i], err);
    return status;
}

/* The figures of all, and why some of them do not take part. Those of a replay tell nothing unless they differ. */
static void tell(const struct run *run, const bool *keep, size_t kept) {
    char name[80];
    bool figures = run->gpu_count > 1 && (kept < run->gpu_count || !run->options.replay);
    for (size_t i = 0; i < run->gpu_count && figures; i++) {
        const struct run_gpu *gpu = &run->gpus[i];
        tern_run_gpu_name(gpu, name, sizeof name);
        if (gpu->status != TERN_OK)
            tern_log_warn("see nvidia-smi and dmesg", "%s is left out: %s", name, gpu->err.text);
        else
            tern_log_note("%s: control read %.2f us, matrix burst %.1f us", name, gpu->control.read_us,
                          gpu->control.burst_us);
        if (gpu->status == TERN_OK && !keep[i])
            tern_log_warn("see whether it is throttled, in use, or set to other clocks: nvidia-smi -q",
                          "%s is left out: its control times differ from the others' by more than %.0f %%", name,
                          100 * TERN_CONTROL_TOLERANCE);
    }
}

/* How many are kept. */
static size_t measure_control(struct run *run, bool *keep) {
    struct tern_control times[RUN_MAX_DEVICES];
    for (size_t i = 0; i < run->gpu_count; i++) {
        run->gpus[i].control = (struct tern_control){0}; /* agrees with nothing, where it fails */
        run->gpus[i].status = tern_run_gpu_ready(&run->gpus[i], NULL, &run->gpus[i].err);
    }
    ask_all(run, control_request, CONTROL_TIMEOUT_S, take_control);
    for (size_t i = 0; i < run->gpu_count; i++)
        times[i] = run->gpus[i].control;
    return tern_control_choose(times, run->gpu_count, TERN_CONTROL_TOLERANCE, keep);
}

enum tern_status tern_run_devices_control(struct run *run, struct tern_error *err) {
    bool keep[RUN_MAX_DEVICES];
    size_t kept = 0;
    for (int i = 0; i < CONTROL_ATTEMPTS && (i == 0 || kept < run->gpu_count); i++)
        kept = measure_control(run, keep);
    tell(run, keep, kept);
    enum tern_status status = store_controls(run, keep, err);
    if (status == TERN_OK && kept == 0) {
        *err = run->gpus[0].err;
        status = err->status;
    }
    for (size_t i = run->gpu_count; i > 0 && kept > 0; i--)
        if (!keep[i - 1])
            leave_out(run, i - 1);
    return status;
}
