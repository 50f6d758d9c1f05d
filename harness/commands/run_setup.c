/* Set-up of a run: configs, selection, device, database. Everything that can be wrong is found here, before long work. */
#include "commands/run_internal.h"
#include "commands/narrow.h"

#include "core/file.h"
#include "core/log.h"
#include "core/str.h"
#include "core/version.h"
#include "device/compiler.h"
#include "worker/gpu.h"
#include "worker/reply.h"

#include <stdlib.h>
#include <string.h>

#define HELLO_TIMEOUT_S 60.0 /* first contact with a driver creates a context; seconds on machines with many GPUs */

/* Keeps the templates that --templates names, all without it. */
static enum tern_status select_templates(struct run *run, struct tern_error *err) {
    enum tern_status status = tern_templates_load_all(&run->templates, &run->template_count, err);
    if (status != TERN_OK)
        return status;
    bool *selected = tern_alloc_zero(run->template_count + 1, sizeof *selected);
    status = tern_templates_select(run->templates, run->template_count, run->options.templates, selected, err);
    size_t kept = 0;
    for (size_t i = 0; i < run->template_count && status == TERN_OK; i++)
        if (selected[i])
            run->templates[kept++] = run->templates[i];
        else
            tern_template_free(&run->templates[i]);
    if (status == TERN_OK)
        run->template_count = kept;
    free(selected);
    return status;
}

/* Every selected format must fit every selected layer: a group that does not divide K is refused with both numbers. */
static enum tern_status check_shapes(const struct run *run, struct tern_error *err) {
    for (size_t f = 0; f < run->shapes.format_count; f++)
        for (size_t l = 0; l < run->shapes.layer_count; l++) {
            const struct tern_layer *layer = &run->shapes.layers[l];
            enum tern_status status =
                tern_format_check_shape(&run->shapes.formats[f], layer->n, layer->k, run->options.short_groups, err);
            if (status != TERN_OK) {
                tern_error_prefix(err, "%s layer %s", run->shapes.name, layer->name);
                if (tern_format_check_shape(&run->shapes.formats[f], layer->n, layer->k, true, NULL) == TERN_OK)
                    tern_error_hint(err,
                                    "another group size, or --short-groups: the last group of each row is then shorter");
                return status;
            }
        }
    return TERN_OK;
}

void tern_run_device_facts(struct run *run, const json_t *reply) {
    struct tern_device_info *info = &run->info;
    tern_str_copy(info->name, sizeof info->name, tern_message_text(reply, "name"));
    tern_str_copy(info->uuid, sizeof info->uuid, tern_message_text(reply, "uuid"));
    tern_str_copy(info->driver_name, sizeof info->driver_name, tern_message_text(reply, "driver"));
    info->cc = (int)tern_message_int(reply, "cc", 0);
    info->sms = tern_message_int(reply, "sms", 0);
    info->l2_bytes = tern_message_int(reply, "l2_bytes", 0);
    info->memory_bytes = tern_message_int(reply, "memory_bytes", 0);
    info->smem_block_bytes = tern_message_int(reply, "smem_block_bytes", 0);
    info->driver_version = (int)tern_message_int(reply, "driver_version", 0);
    run->measured = tern_gpu_matches(&run->gpu, info->name, info->cc, info->memory_bytes);
    if (!run->measured)
        return;
    run->gpu.sms = info->sms;
    run->gpu.l2_bytes = info->l2_bytes;
    if (info->smem_block_bytes > 0) /* recordings leave it out */
        run->gpu.smem_block_bytes = info->smem_block_bytes;
}

/* Asks a GPU worker what device it has. Not finding the named GPU is no error here: the run is then planned. */
static enum tern_status find_device(struct run *run, struct tern_error *err) {
    char why[512] = "";
    enum tern_status status = tern_process_start("gpu", &run->worker, err);
    if (status != TERN_OK)
        return status;
    json_t *request =
        json_pack("{s:s, s:I, s:s}", "do", "hello", "device", (json_int_t)run->options.device, "cache", run->options.cache);
    json_t *reply = NULL;
    struct tern_error missing;
    if (tern_process_call(&run->worker, request, HELLO_TIMEOUT_S, &reply, why, sizeof why) != TERN_CALL_OK) {
        tern_str_copy(run->why_planned, sizeof run->why_planned, why);
    } else if (tern_reply_is_error(reply, &missing)) {
        tern_str_copy(run->why_planned, sizeof run->why_planned, missing.text);
    } else {
        tern_run_device_facts(run, reply);
        if (!run->measured)
            tern_str_format(run->why_planned, sizeof run->why_planned, "device %lld is %s, not %s",
                            (long long)run->options.device, run->info.name, run->gpu.title);
    }
    json_decref(request);
    json_decref(reply);
    if (run->measured)
        return TERN_OK;
    tern_process_kill(&run->worker);
    if (!run->options.require_gpu)
        return TERN_OK;
    tern_error_set(err, TERN_MISSING, "--require-gpu: %s", run->why_planned);
    tern_error_hint(err, "`tune doctor` shows what was found; without --require-gpu the run is planned");
    return TERN_MISSING;
}

static enum tern_status find_compiler(struct run *run, struct tern_error *err) {
    int major, minor;
    char path[512];
    enum tern_status status = tern_nvrtc_version(&major, &minor, path, sizeof path, err);
    if (status == TERN_OK)
        status = tern_cuda_include_dir(run->include_dir, sizeof run->include_dir, err);
    if (status == TERN_OK)
        tern_str_format(run->nvrtc, sizeof run->nvrtc, "%d.%d", major, minor);
    return status;
}

static enum tern_status open_store(struct run *run, struct tern_error *err) {
    const struct run_options *o = &run->options;
    enum tern_status status = tern_store_open(o->db, TERN_STORE_WRITE, &run->store, err);
    if (status == TERN_OK)
        status = tern_cache_open(o->cache, &run->cache, err);
    struct tern_store_device device = {.real = run->measured};
    tern_str_copy(device.gpu, sizeof device.gpu, run->gpu.name);
    tern_str_copy(device.name, sizeof device.name, run->measured ? run->info.name : run->gpu.title);
    tern_str_copy(device.uuid, sizeof device.uuid, run->measured ? run->info.uuid : "");
    tern_str_copy(device.arch, sizeof device.arch, run->gpu.arch);
    tern_str_copy(device.driver, sizeof device.driver, run->measured ? run->info.driver_name : "");
    device.sms = run->gpu.sms;
    device.l2_bytes = run->gpu.l2_bytes;
    device.memory_bytes = run->measured ? run->info.memory_bytes : run->gpu.memory_bytes;
    if (status == TERN_OK)
        status = tern_store_device(run->store, &device, &run->device_id, err);
    int64_t recovered = 0;
    if (status == TERN_OK)
        status = tern_store_recover(run->store, &recovered, err);
    if (recovered > 0)
        tern_log_note("an earlier run was killed; %lld of its trials are marked and run again", (long long)recovered);
    if (status == TERN_OK)
        status = tern_store_run_begin(run->store, run->device_id, o->command_line, TERN_VERSION, (uint64_t)o->seed,
                                      &run->run_id, err);
    return status;
}

enum tern_status tern_run_setup(struct run *run, struct tern_error *err) {
    run->policy = RUN_POLICY;
    run->check_policy = RUN_POLICY_CHECK;
    enum tern_status status = tern_gpu_load(run->options.gpu, &run->gpu, err);
    if (status == TERN_OK)
        status = tern_shapes_load(run->options.shapes, &run->shapes, err);
    const struct tern_narrow_lists lists = {run->options.formats, run->options.layers, run->options.m};
    if (status == TERN_OK)
        status = tern_narrow_shapes(&lists, &run->shapes, err);
    if (status == TERN_OK)
        status = select_templates(run, err);
    if (status == TERN_OK)
        status = check_shapes(run, err);
    if (status == TERN_OK && run->options.replay) {
        status = tern_run_replay_open(run, err);
    } else if (status == TERN_OK) {
        status = find_compiler(run, err);
        if (status == TERN_OK)
            status = find_device(run, err);
    }
    if (status == TERN_OK)
        status = open_store(run, err);
    return status == TERN_OK ? tern_run_ceilings(run, err) : status;
}

void tern_run_release(struct run *run) {
    tern_process_kill(&run->worker);
    for (size_t i = 0; i < run->problem_count; i++) {
        free(run->problems[i].entries);
        free(run->problems[i].per_layout);
    }
    free(run->problems);
    free(run->builds);
    free(run->build_index);
    tern_templates_free(run->templates, run->template_count);
    tern_gpu_free(&run->gpu);
    tern_cache_close(run->cache);
    tern_store_close(run->store);
}
