/* Set-up of a run: configs, selection, database. Everything that can be wrong is found here, before long work. */
#include "commands/run_internal.h"
#include "commands/narrow.h"

#include "core/file.h"
#include "core/log.h"
#include "core/str.h"
#include "core/version.h"
#include "device/compiler.h"

#include <stdlib.h>
#include <string.h>

/* Keeps the templates for --activations that --templates names, all of them without it. */
static enum tern_status select_templates(struct run *run, struct tern_error *err) {
    enum tern_status status = tern_templates_load_all(&run->templates, &run->template_count, err);
    if (status != TERN_OK)
        return status;
    bool *selected = tern_alloc_zero(run->template_count + 1, sizeof *selected);
    status = tern_templates_select(run->templates, run->template_count, run->options.templates, selected, err);
    size_t kept = 0;
    for (size_t i = 0; i < run->template_count && status == TERN_OK; i++)
        if (selected[i] && run->templates[i].types[run->type])
            run->templates[kept++] = run->templates[i];
        else
            tern_template_free(&run->templates[i]);
    if (status == TERN_OK)
        run->template_count = kept;
    free(selected);
    if (status == TERN_OK && kept == 0) {
        tern_error_set(err, TERN_USAGE, "--templates %s: none of them has the operation %s", run->options.templates,
                       tern_activation_op(run->type));
        tern_error_hint(err, "other --activations, or other templates: templates/NAME/space.lua says what it computes");
        status = TERN_USAGE;
    }
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

static enum tern_status choose_launch(struct run *run, struct tern_error *err) {
    run->dependent = strcmp(run->options.launch, "dependent") == 0;
    if (!run->dependent || run->gpu.cc >= 90)
        return TERN_OK;
    return tern_error_set(err, TERN_USAGE, "--launch dependent needs compute capability 9.0; %s has %d.%d", run->gpu.title,
                          run->gpu.cc / 10, run->gpu.cc % 10);
}

/* Not finding the named GPU is no error, unless asked for: the run is then planned. */
static enum tern_status find_devices(struct run *run, struct tern_error *err) {
    enum tern_status status = run->options.no_device ? TERN_OK : tern_run_devices_open(run, err);
    if (status != TERN_OK || run->measured || !run->options.require_gpu)
        return status;
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

/* A device of the run, or the description that is planned for (info NULL), becomes a row. */
static enum tern_status enter_device(struct run *run, const struct tern_device_info *info, int64_t *id,
                                     struct tern_error *err) {
    struct tern_store_device device = {.real = info != NULL};
    tern_str_copy(device.gpu, sizeof device.gpu, run->gpu.name);
    tern_str_copy(device.name, sizeof device.name, info ? info->name : run->gpu.title);
    tern_str_copy(device.uuid, sizeof device.uuid, info ? info->uuid : "");
    tern_str_copy(device.arch, sizeof device.arch, run->gpu.arch);
    tern_str_copy(device.driver, sizeof device.driver, info ? info->driver_name : "");
    device.sms = run->gpu.sms;
    device.l2_bytes = run->gpu.l2_bytes;
    device.memory_bytes = info ? info->memory_bytes : run->gpu.memory_bytes;
    return tern_store_device(run->store, &device, id, err);
}

static enum tern_status enter_devices(struct run *run, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    if (!run->measured)
        return enter_device(run, NULL, &run->device_id, err);
    for (size_t i = 0; i < run->gpu_count && status == TERN_OK; i++)
        status = enter_device(run, &run->gpus[i].info, &run->gpus[i].id, err);
    run->device_id = run->gpus[0].id;
    return status;
}

static enum tern_status open_store(struct run *run, struct tern_error *err) {
    const struct run_options *o = &run->options;
    enum tern_status status = tern_store_open(o->db, TERN_STORE_WRITE, &run->store, err);
    if (status == TERN_OK && o->replay)
        tern_store_of_replay(run->store);
    if (status == TERN_OK)
        status = tern_cache_open(o->cache, &run->cache, err);
    if (status == TERN_OK)
        status = enter_devices(run, err);
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

/* The main thread has the lock from here to the end; run_share.c lends it to the threads of the devices. */
static void init(struct run *run) {
    pthread_mutex_init(&run->lock, NULL);
    pthread_cond_init(&run->changed, NULL);
    pthread_mutex_lock(&run->lock);
}

enum tern_status tern_run_setup(struct run *run, struct tern_error *err) {
    char identity[16] = "";
    init(run);
    enum tern_status status = tern_gpu_load(run->options.gpu, &run->gpu, err);
    if (status == TERN_OK)
        status = tern_activation_parse(run->options.activations, &run->type, err);
    if (status == TERN_OK && run->options.shapes)
        status = tern_shapes_load(run->options.shapes, &run->shapes, err);
    if (status == TERN_OK && run->options.weights)
        status = tern_run_weights(run, identity, sizeof identity, err);
    const struct tern_narrow_lists lists = {run->options.formats, run->options.layers, run->options.m};
    if (status == TERN_OK)
        status = tern_narrow_shapes(&lists, &run->shapes, err);
    if (status == TERN_OK)
        status = select_templates(run, err);
    if (status == TERN_OK)
        status = check_shapes(run, err);
    if (status == TERN_OK)
        status = choose_launch(run, err);
    if (status == TERN_OK)
        tern_run_name_policies(run, identity);
    if (status == TERN_OK && !run->options.replay)
        status = find_compiler(run, err);
    if (status == TERN_OK)
        status = find_devices(run, err);
    if (status == TERN_OK && run->options.replay)
        status = tern_run_replay_open(run, err);
    if (status == TERN_OK)
        status = open_store(run, err);
    if (status == TERN_OK && run->measured)
        status = tern_run_devices_control(run, err);
    return status == TERN_OK ? tern_run_ceilings(run, err) : status;
}

void tern_run_release(struct run *run) {
    for (size_t i = 0; i < run->gpu_count; i++)
        tern_run_gpu_kill(&run->gpus[i]);
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
    pthread_mutex_unlock(&run->lock);
    pthread_cond_destroy(&run->changed);
    pthread_mutex_destroy(&run->lock);
}
