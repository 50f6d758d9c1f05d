/* Verify worker: one candidate after the other, compiled and checked. See verify.h. */
#include "worker/verify.h"

#include "config/template.h"
#include "core/file.h"
#include "core/str.h"
#include "device/compiler.h"
#include "device/emu.h"
#include "worker/check.h"
#include "worker/message.h"
#include "worker/process.h"
#include "worker/reply.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What stays between requests: the open device, and the bench of the last format, type of activations and layout. */
struct verify_session {
    const struct tern_backend *backend;
    struct tern_backend cuda; /* fenced under compute-sanitizer */
    void *context;
    struct tern_device_info info;
    struct tern_check_bench *bench;
    char bench_key[160];
    struct tern_template tmpl;
    struct tern_gpu gpu;
    char gpu_name[32];
};

struct verify_job {
    struct tern_format format;
    enum tern_activation type; /* of x and y */
    struct tern_candidate candidate;
    struct tern_compiled compiled; /* image: the cubin, or the path of the object */
    struct tern_check_result result;
    int64_t shapes, launches;
    struct tern_mismatch sum;
};

static enum tern_status open_backend(struct verify_session *s, const json_t *request, struct tern_error *err) {
    if (s->context != NULL) {
        return TERN_OK;
    }
    s->cuda = tern_backend_cuda;
    s->cuda.fenced = json_is_true(json_object_get(request, "sanitize"));
    s->backend = strcmp(tern_message_text(request, "backend"), "cuda") == 0 ? &s->cuda : &tern_backend_emu;
    enum tern_status status = s->backend->open(0, &s->context, err);
    return status == TERN_OK ? s->backend->info(s->context, &s->info, err) : status;
}

/* Template and GPU of the request, kept while they stay the same. The multiprocessors are those of the device that runs. */
static enum tern_status load_configs(struct verify_session *s, const json_t *request, struct tern_error *err) {
    char dir[1024], relative[96];
    const char *template_name = tern_message_text(request, "template"), *gpu = tern_message_text(request, "gpu");
    enum tern_status status = TERN_OK;
    if (strcmp(s->tmpl.name, template_name) != 0) {
        tern_template_free(&s->tmpl);
        s->tmpl = (struct tern_template){0};
        tern_str_format(relative, sizeof relative, "templates/%s", template_name);
        status = tern_file_home_path(relative, dir, sizeof dir, err);
        if (status == TERN_OK) {
            status = tern_template_load(dir, &s->tmpl, err);
        }
    }
    if (status == TERN_OK && strcmp(s->gpu_name, gpu) != 0) {
        tern_gpu_free(&s->gpu);
        status = tern_gpu_load(gpu, &s->gpu, err);
        tern_str_copy(s->gpu_name, sizeof s->gpu_name, status == TERN_OK ? gpu : "");
        s->gpu.sms = s->info.sms;
    }
    return status;
}

static enum tern_status choose_bench(struct verify_session *s, const struct verify_job *job, const json_t *request,
                                     struct tern_error *err) {
    char key[sizeof s->bench_key];
    int64_t seed = tern_message_int(request, "seed", 1);
    tern_str_format(key, sizeof key, "%s %s %s %lld", job->format.name, tern_activation_name(job->type), s->tmpl.layout,
                    (long long)seed);
    if (s->bench != NULL && strcmp(key, s->bench_key) == 0) {
        return TERN_OK;
    }
    const struct tern_layout *layout = tern_layout_find(s->tmpl.layout);
    if (layout == NULL) {
        return tern_error_set(err, TERN_USAGE, "template %s: unknown layout '%s'", s->tmpl.name, s->tmpl.layout);
    }
    tern_check_bench_free(s->bench);
    s->bench = tern_check_bench_create(s->backend, s->context, &job->format, job->type, layout, (uint64_t)seed);
    tern_str_copy(s->bench_key, sizeof s->bench_key, key);
    return TERN_OK;
}

/* ---- compile
 * ------------------------------------------------------------------------------------------------------------------- */
static enum tern_status compile_emu(const json_t *request, struct verify_job *job, struct tern_error *err) {
    char path[1200];
    const char *cache = tern_message_text(request, "cache");
    enum tern_status status = tern_file_make_dirs(cache, err);
    tern_str_format(path, sizeof path, "%s/%s.so", cache, tern_message_text(request, "key"));
    job->compiled.ok = 1;
    if (status == TERN_OK && !tern_file_exists(path)) {
        status =
            tern_emu_compile(tern_message_text(request, "source"), tern_message_text(request, "template"), path,
                             json_is_true(json_object_get(request, "sanitize")), &job->compiled.log, &job->compiled.ok, err);
    }
    job->compiled.image = tern_strdup(path);
    job->compiled.image_bytes = strlen(path) + 1;
    return status;
}

static enum tern_status compile_cuda(const struct verify_session *s, const json_t *request, struct verify_job *job,
                                     struct tern_error *err) {
    char cuda[1024], own[1024];
    enum tern_status status = tern_cuda_include_dir(cuda, sizeof cuda, err);
    if (status == TERN_OK) {
        status = tern_file_home_path("templates/include", own, sizeof own, err);
    }
    const char *const folders[] = {own, cuda};
    if (status == TERN_OK) {
        status = tern_nvrtc_compile(tern_message_text(request, "source"), s->tmpl.name, s->gpu.arch, folders, 2,
                                    s->tmpl.entry, &job->compiled, err);
    }
    return status;
}

/* ---- check
 * --------------------------------------------------------------------------------------------------------------------- */
static void add_result(struct verify_job *job, const struct tern_check_result *one, int64_t shapes) {
    job->shapes = shapes > job->shapes ? shapes : job->shapes;
    job->launches += one->launches;
    job->sum.checked += one->mismatch.checked;
    if (!(one->mismatch.worst <= job->sum.worst)) {
        job->sum.worst = one->mismatch.worst;
    }
    job->result = *one;
}

static enum tern_status check_once(struct verify_session *s, struct verify_job *job, const json_t *request,
                                   const char *order, struct tern_error *err) {
    struct tern_check_result one;
    int64_t shapes = 0;
    struct tern_check_shape own = tern_check_own_shape(tern_message_int(request, "m", 0), tern_message_int(request, "k", 0));
    enum tern_status status =
        tern_check_candidate(s->bench, &job->candidate, job->compiled.image, job->compiled.image_bytes, s->info.sms, &s->gpu,
                             (size_t)tern_message_int(request, "shapes", 0), own.m > 0 ? &own : NULL, &one, &shapes, err);
    if (status != TERN_OK) {
        return status;
    }
    if (one.outcome != TERN_OUTCOME_OK && order != NULL) {
        char text[sizeof one.detail];
        tern_str_format(text, sizeof text, "%.600s (order %s)", one.detail, order);
        tern_str_copy(one.detail, sizeof one.detail, text);
    }
    add_result(job, &one, shapes);
    return TERN_OK;
}

static enum tern_status check_orders(struct verify_session *s, struct verify_job *job, const json_t *request,
                                     struct tern_error *err) {
    const json_t *orders = json_object_get(request, "orders");
    if (s->backend != &tern_backend_emu) {
        return check_once(s, job, request, NULL, err);
    }
    enum tern_status status = TERN_OK;
    job->result.outcome = TERN_OUTCOME_OK;
    for (size_t i = 0; i < json_array_size(orders) && status == TERN_OK && job->result.outcome == TERN_OUTCOME_OK; i++) {
        const char *name = json_string_value(json_array_get(orders, i));
        enum tern_emu_order order;
        if (name == NULL || !tern_emu_order_parse(name, &order)) {
            return tern_error_set(err, TERN_INTERNAL, "unknown order '%s'", name != NULL ? name : "");
        }
        tern_emu_backend_set_order(s->context, order, (uint64_t)tern_message_int(request, "seed", 1));
        status = check_once(s, job, request, name, err);
    }
    return status;
}

static json_t *make_reply(const struct verify_job *job) {
    if (!job->compiled.ok) {
        json_t *refused = tern_reply_outcome(TERN_OUTCOME_COMPILE, tern_str_text(&job->compiled.log));
        return refused != NULL ? refused : tern_reply_outcome(TERN_OUTCOME_COMPILE, "(the compiler's log is not UTF-8)");
    }
    json_t *reply = tern_reply_outcome(job->result.outcome, job->result.detail);
    json_object_set_new(reply, "shapes", json_integer((json_int_t)job->shapes));
    json_object_set_new(reply, "launches", json_integer((json_int_t)job->launches));
    json_object_set_new(reply, "checked", json_integer((json_int_t)job->sum.checked));
    /* JSON has no infinity: a NaN result is far outside anyway */
    json_object_set_new(reply, "worst", json_real(isfinite(job->sum.worst) ? job->sum.worst : 1e300));
    return reply;
}

static json_t *verify(struct verify_session *s, const json_t *request, bool *lost) {
    struct tern_error err = {0};
    struct verify_job job;
    memset(&job, 0, sizeof job);
    enum tern_status status = open_backend(s, request, &err);
    if (status == TERN_OK) {
        status = load_configs(s, request, &err);
    }
    if (status == TERN_OK) {
        status = tern_format_parse(tern_message_text(request, "format"), &job.format, &err);
    }
    if (status == TERN_OK) {
        status = tern_activation_parse(tern_message_text(request, "activations"), &job.type, &err);
    }
    if (status == TERN_OK) {
        status = tern_candidate_parse(&s->tmpl, tern_message_text(request, "params"), &job.candidate, &err);
    }
    if (status == TERN_OK) {
        status = choose_bench(s, &job, request, &err);
    }
    if (status == TERN_OK) {
        status = s->backend == &tern_backend_emu ? compile_emu(request, &job, &err) : compile_cuda(s, request, &job, &err);
    }
    if (status == TERN_OK && job.compiled.ok) {
        status = check_orders(s, &job, request, &err);
    }
    *lost = job.result.sticky;
    json_t *reply = status == TERN_OK ? make_reply(&job) : tern_reply_error(&err);
    tern_compiled_free(&job.compiled);
    return reply;
}

/* ASan's report is long; its summary goes last, where the parent's tail of our output keeps it. */
static void repeat_summary(const char *report) {
    const char *summary = strstr(report, "SUMMARY: ");
    if (summary != NULL) {
        fprintf(stderr, "%.*s\n", (int)strcspn(summary, "\n"), summary);
        fflush(stderr);
    }
}

static void watch_sanitizer(void) {
    void (*set)(void (*)(const char *));
    *(void **)&set = dlsym(RTLD_DEFAULT, "__asan_set_error_report_callback");
    if (set != NULL) {
        set(repeat_summary);
    }
}

int tern_verify_worker(void) {
    watch_sanitizer();
    struct verify_session *session = tern_alloc_zero(1, sizeof *session);
    bool lost = false;
    json_t *request = NULL;
    while (!lost && tern_message_receive(TERN_WORKER_FD, 0, &request) == TERN_MESSAGE_OK) {
        json_t *reply = verify(session, request, &lost);
        json_decref(request);
        enum tern_message_status sent = tern_message_send(TERN_WORKER_FD, reply);
        json_decref(reply);
        if (sent != TERN_MESSAGE_OK) {
            break;
        }
    }
    if (!lost) { /* nothing of a lost context can be freed */
        tern_check_bench_free(session->bench);
        if (session->context != NULL) {
            session->backend->close(session->context);
        }
    }
    tern_template_free(&session->tmpl);
    tern_gpu_free(&session->gpu);
    free(session);
    return 0;
}
