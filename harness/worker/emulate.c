/* Emulator check of one candidate: the same source as on the GPU, compiled for the CPU, against the FP64 reference. See
 * emulate.h. */
#include "worker/emulate.h"

#include "config/template.h"
#include "core/file.h"
#include "core/str.h"
#include "device/compiler.h"
#include "worker/check.h"
#include "worker/message.h"
#include "worker/real_weights.h"
#include "worker/reply.h"

#include <stdlib.h>
#include <string.h>

#define REAL_ROWS       24 /* of a checkpoint's layer, from both ends */
#define REAL_M          4
#define EMULATED_SHAPES 4 /* cheapest of the odd shapes that the candidate serves */

struct emulation {
    struct tern_template tmpl;
    struct tern_gpu
        gpu; /* the planned GPU; its number of multiprocessors is the emulator's, so that persistent grids loop */
    struct tern_format format;
    enum tern_activation type; /* of x and y */
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
        status = tern_activation_parse(tern_message_text(request, "activations"), &e->type, err);
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

/* The first and the last rows of the checkpoint's layer, at a small batch size that the template serves. */
static enum tern_status check_real(const json_t *request, struct emulation *e, struct tern_check_bench *bench, int64_t sms,
                                   struct tern_check_result *result, struct tern_error *err) {
    const int64_t rows = tern_message_int(request, "n", 8) < REAL_ROWS ? 8 : REAL_ROWS;
    const int64_t few = e->tmpl.m_min > REAL_M ? e->tmpl.m_min : REAL_M, m = few < e->tmpl.m_max ? few : e->tmpl.m_max;
    struct tern_weights weights[2] = {0};
    bool checked = false;
    enum tern_status status = tern_real_weights(request, &e->format, 0, rows, &weights[0], err);
    if (status == TERN_OK)
        status = tern_real_weights(request, &e->format, -1, rows, &weights[1], err);
    if (status == TERN_OK)
        status = tern_check_real(bench, &e->candidate, e->object, strlen(e->object) + 1, sms, &e->gpu, m, weights, result,
                                 &checked, err);
    if (status == TERN_OK && result->outcome != TERN_OUTCOME_OK) {
        char detail[sizeof result->detail];
        tern_str_copy(detail, sizeof detail, result->detail);
        tern_str_format(result->detail, sizeof result->detail, "on real weights: %s", detail);
    }
    tern_weights_free(&weights[0]);
    tern_weights_free(&weights[1]);
    return status;
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
    struct tern_check_bench *bench =
        tern_check_bench_create(backend, context, &e->format, e->type, tern_layout_find(e->tmpl.layout),
                                (uint64_t)tern_message_int(request, "seed", 1));
    int64_t shapes = 0;
    struct tern_check_shape own =
        tern_check_own_shape(tern_message_int(request, "m", 1), tern_message_int(request, "k", 128));
    if (status == TERN_OK)
        status = tern_check_candidate(bench, &e->candidate, e->object, strlen(e->object) + 1, info.sms, &e->gpu,
                                      EMULATED_SHAPES, &own, result, &shapes, err);
    if (status == TERN_OK && result->outcome == TERN_OUTCOME_OK && tern_real_weights_asked(request))
        status = check_real(request, e, bench, info.sms, result, err);
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
