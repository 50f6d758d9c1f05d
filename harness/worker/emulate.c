/* Emulator check of one candidate: the same source as on the GPU, compiled for the CPU, against the FP64 reference. See
 * emulate.h. */
#include "worker/emulate.h"

#include "config/template.h"
#include "core/file.h"
#include "core/str.h"
#include "device/compiler.h"
#include "worker/check.h"
#include "worker/message.h"
#include "worker/reply.h"

#include <stdlib.h>
#include <string.h>

#define EMULATED_SHAPES 4 /* cheapest of the odd shapes that the candidate serves */

struct emulation {
    struct tern_template tmpl;
    struct tern_gpu
        gpu; /* the planned GPU; its number of multiprocessors is the emulator's, so that persistent grids loop */
    struct tern_format format;
    struct tern_candidate candidate;
    char object[1100];
};

static enum tern_status describe(const json_t *request, struct emulation *e, struct tern_error *err) {
    char dir[1024], name[96];
    tern_str_format(name, sizeof name, "templates/%s", tern_message_text(request, "template"));
    enum tern_status status = tern_file_home_path(name, dir, sizeof dir, err);
    if (status == TERN_OK)
        status = tern_template_load(dir, &e->tmpl, err);
    if (status == TERN_OK)
        status = tern_gpu_load(tern_message_text(request, "gpu"), &e->gpu, err);
    if (status == TERN_OK)
        status = tern_format_parse(tern_message_text(request, "format"), &e->format, err);
    if (status == TERN_OK)
        status = tern_candidate_parse(&e->tmpl, tern_message_text(request, "params"), &e->candidate, err);
    tern_str_format(dir, sizeof dir, "%s/emu", tern_message_text(request, "cache"));
    tern_str_format(e->object, sizeof e->object, "%s/%s.so", dir, tern_message_text(request, "key"));
    return status == TERN_OK ? tern_file_make_dirs(dir, err) : status;
}

/* Compiles unless an earlier run did. *ok 0: the C++ compiler refused it, see log. */
static enum tern_status compile(const json_t *request, const struct emulation *e, struct tern_str *log, int *ok,
                                struct tern_error *err) {
    *ok = 1;
    if (tern_file_exists(e->object))
        return TERN_OK;
    return tern_emu_compile(tern_message_text(request, "source"), tern_message_text(request, "template"), e->object, 0, log,
                            ok, err);
}

static enum tern_status check(const json_t *request, struct emulation *e, struct tern_check_result *result,
                              struct tern_error *err) {
    void *context = NULL;
    struct tern_device_info info;
    const struct tern_backend *backend = &tern_backend_emu;
    enum tern_status status = backend->open(0, &context, err);
    if (status != TERN_OK)
        return status;
    status = backend->info(context, &info, err);
    e->gpu.sms = info.sms;
    struct tern_check_bench *bench = tern_check_bench_create(backend, context, &e->format, tern_layout_find(e->tmpl.layout),
                                                             (uint64_t)tern_message_int(request, "seed", 1));
    int64_t shapes = 0;
    struct tern_check_shape own =
        tern_check_own_shape(tern_message_int(request, "m", 1), tern_message_int(request, "k", 128));
    if (status == TERN_OK)
        status = tern_check_candidate(bench, &e->candidate, e->object, strlen(e->object) + 1, info.sms, &e->gpu,
                                      EMULATED_SHAPES, &own, result, &shapes, err);
    tern_check_bench_free(bench);
    backend->close(context);
    return status;
}

json_t *tern_emulate(const json_t *request) {
    struct tern_error err;
    struct tern_str log = {0};
    struct tern_check_result result;
    struct emulation *e = tern_alloc_zero(1, sizeof *e);
    int ok = 0;
    memset(&result, 0, sizeof result);
    enum tern_status status = describe(request, e, &err);
    if (status == TERN_OK)
        status = compile(request, e, &log, &ok, &err);
    if (status == TERN_OK && ok)
        status = check(request, e, &result, &err);
    json_t *reply = status != TERN_OK ? tern_reply_error(&err)
                    : ok              ? tern_reply_outcome(result.outcome, result.detail)
                                      : tern_reply_outcome(TERN_OUTCOME_COMPILE, tern_str_text(&log));
    tern_template_free(&e->tmpl);
    tern_gpu_free(&e->gpu);
    tern_str_free(&log);
    free(e);
    return reply;
}
