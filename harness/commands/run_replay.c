/* A recorded run in the place of the GPU: tune run --replay FILE. Everything else of a measured run is the same code. */
#include "commands/run_internal.h"

#include "core/str.h"
#include "worker/replay_fault.h"

#include <string.h>

#define REPLAY_COMPILER "replay" /* in the place of NVRTC's version: keys of replayed builds never meet compiled ones */

enum tern_status tern_run_replay_options(const struct run_options *o, struct tern_error *err) {
    struct tern_faults faults;
    if (!o->replay)
        return o->fault ? tern_error_set(err, TERN_USAGE, "--fault needs --replay FILE") : TERN_OK;
    if (o->weights)
        return tern_error_set(err, TERN_USAGE, "--replay and --weights exclude each other: a recording has no weights");
    if (strcmp(o->launch, "plain") != 0)
        return tern_error_set(err, TERN_USAGE, "--replay and --launch exclude each other: a recording is of one policy");
    if (o->require_gpu)
        return tern_error_set(err, TERN_USAGE, "--replay and --require-gpu exclude each other");
    return tern_faults_parse(o->fault, &faults, err);
}

/* Gives the rows of this run device classes and a GPU name of their own. */
static enum tern_status rename_devices(struct run *run, struct tern_error *err) {
    static const char device_suffix[] = " (replay)";
    if (strlen(run->gpu.name) + sizeof TERN_REPLAY_SUFFIX > sizeof run->gpu.name ||
        strlen(run->gpus[0].info.name) + sizeof device_suffix > sizeof run->gpus[0].info.name)
        return tern_error_set(err, TERN_USAGE, "%s: the name is too long for a replay", run->gpu.name);
    strncat(run->gpu.name, TERN_REPLAY_SUFFIX, sizeof run->gpu.name - strlen(run->gpu.name) - 1);
    for (size_t i = 0; i < run->gpu_count; i++) {
        char *name = run->gpus[i].info.name;
        strncat(name, device_suffix, sizeof run->gpus[i].info.name - strlen(name) - 1);
    }
    tern_str_copy(run->nvrtc, sizeof run->nvrtc, REPLAY_COMPILER);
    return TERN_OK;
}

enum tern_status tern_run_replay_open(struct run *run, struct tern_error *err) {
    if (run->measured)
        return rename_devices(run, err);
    tern_error_set(err, TERN_USAGE, "%s was recorded on %s, not on %s", run->options.replay, run->gpus[0].info.name,
                   run->gpu.title);
    tern_error_hint(err, "name the GPU of the recording with --gpu");
    return TERN_USAGE;
}

/* The image's hash is the key: there is no image, and no two replayed builds may pass for the same machine code. */
static enum tern_status enter_build(struct run *run, struct run_build *build, struct tern_error *err) {
    bool found = false;
    struct tern_store_build known = {0};
    enum tern_status status = tern_store_build_find(run->store, build->row.key, &known, &found, err);
    if (status != TERN_OK)
        return status;
    if (found) {
        build->row = known;
    } else {
        build->row.outcome = TERN_OUTCOME_OK;
        tern_str_copy(build->row.cubin_hash, sizeof build->row.cubin_hash, build->row.key);
        status = tern_store_build_put(run->store, &build->row, err);
    }
    build->built = status == TERN_OK;
    return status;
}

enum tern_status tern_run_replay_builds(struct run *run, const size_t *builds, size_t count, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < count && status == TERN_OK; i++)
        if (!run->builds[builds[i]].built)
            status = enter_build(run, &run->builds[builds[i]], err);
    return status;
}
