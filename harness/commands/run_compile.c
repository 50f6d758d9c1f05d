/* Missing builds of a run, through the pool of compile workers, into cache and database. */
#include "commands/run_internal.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "core/str.h"
#include "output/progress.h"
#include "worker/pool.h"
#include "worker/reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMPILE_RECYCLE 64 /* NVRTC keeps memory from compile to compile */

struct batch {
    struct run *run;
    size_t *builds; /* indices in run->builds that are not built yet */
    size_t count, done;
    char include[512];
    int64_t start_ns, outcomes[TERN_OUTCOME_COUNT];
    enum tern_status status; /* first error that is no candidate's fault */
    struct tern_error *err;
};

/* A build of an earlier run counts only if its cubin is still whole in the cache. */
static enum tern_status find_known(struct run *run, struct run_build *build, struct tern_error *err) {
    struct tern_store_build known = {0};
    bool found = false, cached = false;
    enum tern_status status = tern_store_build_find(run->store, build->row.key, &known, &found, err);
    if (status != TERN_OK || !found)
        return status;
    if (known.outcome == TERN_OUTCOME_OK) {
        void *image = NULL;
        size_t bytes = 0;
        status = tern_cache_get(run->cache, known.cubin_hash, &image, &bytes, &cached, err);
        free(image);
        if (status != TERN_OK || !cached)
            return status;
    }
    build->row = known;
    build->built = true;
    return TERN_OK;
}

static json_t *request(void *user, size_t index) {
    struct batch *batch = user;
    struct run *run = batch->run;
    const struct run_build *build = &run->builds[batch->builds[index]];
    struct tern_str source = {0};
    struct tern_error err;
    char name[96];
    tern_str_format(name, sizeof name, "%s.cu", build->row.template_name);
    if (tern_run_source(run, build, &source, &err) != TERN_OK)
        tern_str_printf(&source, "\n#error \"%s\"\n", err.text); /* becomes this build's compiler log */
    json_t *message =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:[s, s], s:s}", "do", "compile", "source", tern_str_text(&source), "name",
                  name, "arch", run->gpu.arch, "entry", build->candidate.tmpl->entry, "include", batch->include,
                  run->include_dir, "cache", run->options.cache);
    tern_str_free(&source);
    return message;
}

static void fill_row(struct run_build *build, enum tern_call call, const json_t *reply, const char *why) {
    struct tern_store_build *row = &build->row;
    if (call != TERN_CALL_OK) {
        row->outcome = call == TERN_CALL_TIMEOUT ? TERN_OUTCOME_TIMEOUT : TERN_OUTCOME_CRASH;
        row->log = (char *)why;
        return;
    }
    row->outcome = json_is_true(json_object_get(reply, "ok")) ? TERN_OUTCOME_OK : TERN_OUTCOME_COMPILE;
    tern_str_copy(row->cubin_hash, sizeof row->cubin_hash, tern_message_text(reply, "cubin"));
    row->cubin_bytes = tern_message_int(reply, "bytes", 0);
    row->registers = tern_message_int(reply, "registers", 0);
    row->static_smem_bytes = tern_message_int(reply, "static_smem", 0);
    row->spill_bytes = tern_message_int(reply, "spill", 0);
    row->seconds = tern_message_real(reply, "seconds", 0);
    row->log = (char *)tern_message_text(reply, "log");
}

static void tell_progress(struct batch *batch, enum tern_outcome outcome) {
    char line[TERN_PROGRESS_SIZE];
    batch->outcomes[outcome]++;
    const struct tern_progress progress = {.what = "compiled",
                                           .done = batch->done,
                                           .total = batch->count,
                                           .elapsed_s = (double)(tern_clock_now_ns() - batch->start_ns) * 1e-9,
                                           .outcomes = batch->outcomes,
                                           .best_us = (double)NAN};
    tern_progress_line(&progress, line);
    tern_log_progress("%s", line);
}

static void done(void *user, size_t index, enum tern_call call, const json_t *reply, const char *why) {
    struct batch *batch = user;
    struct run *run = batch->run;
    struct run_build *build = &run->builds[batch->builds[index]];
    struct tern_error err;
    batch->done++;
    if (call == TERN_CALL_OK && tern_reply_is_error(reply, &err)) {
        if (batch->status == TERN_OK)
            *batch->err = err;
        batch->status = err.status;
        return;
    }
    fill_row(build, call, reply, why);
    tell_progress(batch, build->row.outcome);
    enum tern_status status = tern_store_build_put(run->store, &build->row, &err);
    build->row.log = NULL; /* belongs to the reply */
    build->built = status == TERN_OK;
    if (status != TERN_OK && batch->status == TERN_OK) {
        batch->status = status;
        *batch->err = err;
    }
}

enum tern_status tern_run_compile(struct run *run, const size_t *builds, size_t count, int64_t stop_ns,
                                  struct tern_error *err) {
    struct batch batch = {.run = run, .start_ns = tern_clock_now_ns(), .status = TERN_OK, .err = err};
    size_t answered = 0;
    if (run->options.replay)
        return tern_run_replay_builds(run, builds, count, err);
    enum tern_status status = tern_file_home_path("templates/include", batch.include, sizeof batch.include, err);
    batch.builds = tern_alloc((count + 1) * sizeof *batch.builds);
    for (size_t i = 0; i < count && status == TERN_OK; i++) {
        struct run_build *build = &run->builds[builds[i]];
        if (!build->built)
            status = find_known(run, build, err);
        if (!build->built)
            batch.builds[batch.count++] = builds[i];
    }
    if (status == TERN_OK && batch.count > 0) {
        const struct tern_pool_work work = {.kind = "compile",
                                            .workers = (size_t)run->options.jobs,
                                            .count = batch.count,
                                            .timeout_s = tern_run_timeout_s(run, RUN_COMPILE_TIMEOUT_S),
                                            .stop_ns = stop_ns,
                                            .recycle = COMPILE_RECYCLE,
                                            .user = &batch,
                                            .request = request,
                                            .done = done};
        status = tern_pool_run(&work, &answered, err);
        if (status == TERN_OK)
            status = batch.status;
    }
    free(batch.builds);
    return status;
}
