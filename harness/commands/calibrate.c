/* `tune calibrate`: measures the ceilings of a device and stores them; limits of later runs come from them. */
#include "commands/commands.h"

#include "commands/ceilings.h"
#include "commands/dispatch.h"
#include "core/log.h"
#include "core/options.h"
#include "core/str.h"
#include "core/version.h"
#include "output/ceilings.h"
#include "worker/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELLO_TIMEOUT_S 60.0

struct calibrate_options {
    const char *gpu, *db, *cache;
    int64_t device;
    bool json;
};

#define CALIBRATE_OPTION_COUNT 5

/* One table for parsing and help; the values point into o. */
static void list_options(struct calibrate_options *o, struct tern_option list[CALIBRATE_OPTION_COUNT]) {
    const struct tern_option options[CALIBRATE_OPTION_COUNT] = {
        {"gpu", 'g', TERN_OPTION_TEXT, &o->gpu, "NAME", "GPU that the device is: a name in configs/gpus (required)", 0, 0},
        {"db", 0, TERN_OPTION_TEXT, &o->db, "PATH", "database to write (default: " TERN_DEFAULT_DB ")", 0, 0},
        {"cache", 0, TERN_OPTION_TEXT, &o->cache, "DIR", "compiled kernels (default results/cache)", 0, 0},
        {"device", 'd', TERN_OPTION_INT, &o->device, "N", "CUDA device ordinal (default 0)", 0, 63},
        {"json", 0, TERN_OPTION_FLAG, &o->json, NULL, "print JSON, with all samples", 0, 0},
    };
    memcpy(list, options, sizeof options);
}

static void calibrate_help(void) {
    struct calibrate_options o = {0};
    struct tern_option options[CALIBRATE_OPTION_COUNT];
    list_options(&o, options);
    printf("usage: tune calibrate --gpu NAME [options]\n\n"
           "Measures what the device can do at best (cold reads, copies, launches, matrix\n"
           "rates; about 15 s), prints it and stores it. Later runs on a device of this kind\n"
           "take their limits from it. `tune run` calibrates by itself when nothing is\n"
           "stored. How: docs/measuring.md.\n\n");
    tern_options_help(options, CALIBRATE_OPTION_COUNT);
    printf("\nexample: tune calibrate --gpu h200\n\nexit: 3 when the device is missing or is another GPU\n");
}

/* Starts a worker on the device and checks that it is the GPU that was named. Fills the row of the device. */
static enum tern_status open_device(const struct calibrate_options *o, const struct tern_gpu *gpu,
                                    struct tern_process *worker, struct tern_store_device *device, struct tern_error *err) {
    char why[512] = "";
    enum tern_status status = tern_process_start("gpu", worker, err);
    if (status != TERN_OK)
        return status;
    json_t *reply = NULL,
           *request = json_pack("{s:s, s:I, s:s}", "do", "hello", "device", (json_int_t)o->device, "cache", o->cache);
    if (tern_process_call(worker, request, HELLO_TIMEOUT_S, &reply, why, sizeof why) != TERN_CALL_OK) {
        status = tern_error_set(err, TERN_MISSING, "no GPU could be opened: %s", why);
    } else if (tern_reply_is_error(reply, err)) {
        status = err->status;
    } else {
        device->real = true;
        device->sms = tern_message_int(reply, "sms", 0);
        device->l2_bytes = tern_message_int(reply, "l2_bytes", 0);
        device->memory_bytes = tern_message_int(reply, "memory_bytes", 0);
        tern_str_copy(device->gpu, sizeof device->gpu, gpu->name);
        tern_str_copy(device->arch, sizeof device->arch, gpu->arch);
        tern_str_copy(device->name, sizeof device->name, tern_message_text(reply, "name"));
        tern_str_copy(device->uuid, sizeof device->uuid, tern_message_text(reply, "uuid"));
        tern_str_copy(device->driver, sizeof device->driver, tern_message_text(reply, "driver"));
        if (!tern_gpu_matches(gpu, device->name, (int)tern_message_int(reply, "cc", 0), device->memory_bytes))
            status = tern_error_set(err, TERN_MISSING, "device %lld is %s, not %s", (long long)o->device, device->name,
                                    gpu->title);
    }
    if (status == TERN_MISSING)
        tern_error_hint(err, "`tune doctor` shows what was found");
    json_decref(request);
    json_decref(reply);
    return status;
}

static enum tern_status store(struct tern_store *s, const struct calibrate_options *o,
                              const struct tern_store_device *device, const struct tern_ceilings *c,
                              struct tern_error *err) {
    int64_t id = 0, run = 0;
    struct tern_str line = {0};
    tern_str_printf(&line, "tune calibrate --gpu %s", o->gpu);
    enum tern_status status = tern_store_device(s, device, &id, err);
    if (status == TERN_OK)
        status = tern_store_run_begin(s, id, tern_str_text(&line), TERN_VERSION, 0, &run, err);
    if (status == TERN_OK)
        status = tern_store_ceilings_put(s, run, id, c, err);
    if (status == TERN_OK)
        status = tern_store_run_end(s, run, 0, err);
    tern_str_free(&line);
    return status;
}

static enum tern_status calibrate(const struct calibrate_options *o, const struct tern_gpu *gpu, struct tern_error *err) {
    struct tern_store *s = NULL;
    struct tern_process worker = {0};
    struct tern_store_device device = {0};
    struct tern_ceilings *c = tern_alloc_zero(1, sizeof *c);
    /* The database first: nothing is measured that cannot be kept. */
    enum tern_status status = tern_store_open(o->db, TERN_STORE_WRITE, &s, err);
    if (status == TERN_OK)
        status = open_device(o, gpu, &worker, &device, err);
    if (status == TERN_OK) {
        tern_log_progress("measuring the ceilings of %s: about 15 s", device.name);
        status = tern_command_ceilings_measure(&worker, c, err);
    }
    if (status == TERN_OK)
        status = store(s, o, &device, c, err);
    tern_log_progress("%s", "");
    if (status == TERN_OK) {
        const struct tern_output_device shown = {gpu->name, device.name, device.driver, o->db};
        if (o->json)
            tern_output_ceilings_json(stdout, &shown, c);
        else
            tern_output_ceilings(stdout, &shown, c);
    }
    tern_process_kill(&worker);
    tern_store_close(s);
    free(c);
    return status;
}

static enum tern_status calibrate_run(int argc, char **argv, struct tern_error *err) {
    struct calibrate_options o = {.db = TERN_DEFAULT_DB, .cache = "results/cache"};
    struct tern_option options[CALIBRATE_OPTION_COUNT];
    struct tern_gpu gpu = {0};
    const char *unused[1];
    size_t count = 0;
    list_options(&o, options);
    enum tern_status status = tern_options_parse(options, CALIBRATE_OPTION_COUNT, argc, argv, unused, 0, &count, err);
    if (status)
        return status;
    if (!o.gpu) {
        tern_error_set(err, TERN_USAGE, "calibrate needs --gpu");
        tern_error_hint(err, "for example: tune calibrate --gpu h200");
        return TERN_USAGE;
    }
    status = tern_gpu_load(o.gpu, &gpu, err);
    if (status == TERN_OK)
        status = calibrate(&o, &gpu, err);
    tern_gpu_free(&gpu);
    return status;
}

const struct tern_command tern_command_calibrate = {"calibrate", "measure and store what a GPU can do at best",
                                                    calibrate_run, calibrate_help};
