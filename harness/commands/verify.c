/* `tune verify`: templates x formats x odd shapes against the FP64 reference, on the emulator or a GPU. Never prints a time.
 * Compiles and checks run in worker processes (worker/verify.h): a candidate that crashes or hangs is a failure in the
 * table. */
#include "commands/commands.h"
#include "commands/verify_internal.h"

#include "core/file.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/options.h"
#include "device/compiler.h"
#include "device/compiler_emu.h"
#include "device/emu.h"
#include "device/sanitizer.h"
#include "emulator/machine.h"
#include "worker/interrupt.h"
#include "worker/pool.h"
#include "worker/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERIFY_TIMEOUT_S  240.0
#define DEFAULT_SAMPLE    3
#define SANITIZED_RECYCLE 32 /* candidates of one worker */
#define VERIFY_OPTIONS    16

static void list_options(struct verify_options *o, struct tern_option list[VERIFY_OPTIONS]) {
    const struct tern_option options[VERIFY_OPTIONS] = {
        {"backend", 0, TERN_OPTION_TEXT, &o->backend, "NAME", "emu (CPU, needs g++) or cuda; default emu", 0, 0},
        {"gpu", 0, TERN_OPTION_TEXT, &o->gpu, "NAME", "GPU whose limits hold; for cuda the one in the machine; default h200",
         0, 0},
        {"templates", 0, TERN_OPTION_TEXT, &o->templates, "LIST", "templates, comma separated; default all", 0, 0},
        {"formats", 0, TERN_OPTION_TEXT, &o->formats, "LIST", "weight formats, comma separated; default a set of every kind",
         0, 0},
        {"activations", 'a', TERN_OPTION_TEXT, &o->activations, "TYPE",
         "f16 (default) or bf16: type of x and y; int8, e4m3: x rounded", 0, 0},
        {"all", 0, TERN_OPTION_FLAG, &o->all, NULL, "every candidate of the grid instead of a sample", 0, 0},
        {"per-template", 0, TERN_OPTION_INT, &o->per_template, "N",
         "candidates besides the default for each template and format; default 3", 0, 100000},
        {"db", 0, TERN_OPTION_TEXT, &o->db, "FILE",
         "the winners of this database for --gpu, instead of candidates of the grids", 0, 0},
        {"shapes", 0, TERN_OPTION_INT, &o->shapes, "N", "most shapes for a candidate, 0 for all; default 0", 0, 1000},
        {"order", 0, TERN_OPTION_TEXT, &o->order, "NAME",
         "order of emulated threads: forward, reverse, shuffled, starved (one warp runs last), all; default all", 0, 0},
        {"launch", 0, TERN_OPTION_TEXT, &o->launch, "NAME",
         "plain (default), or dependent: the templates that can, behind a launch that brings x late", 0, 0},
        {"sanitize", 0, TERN_OPTION_FLAG, &o->sanitize, NULL,
         "emu: compile with ASan and UBSan; cuda: run under compute-sanitizer: memcheck, racecheck, synccheck", 0, 0},
        {"jobs", 'j', TERN_OPTION_INT, &o->jobs, "N", "worker processes; default 2, one for cuda", 1, 256},
        {"seed", 0, TERN_OPTION_INT, &o->seed, "N", "seed of samples, weights and activations; default 1", 0, INT32_MAX},
        {"cache", 0, TERN_OPTION_TEXT, &o->cache, "DIR", "folder of compiled objects; default results/cache/emu", 0, 0},
        {"json", 0, TERN_OPTION_FLAG, &o->json, NULL, "print JSON", 0, 0},
    };
    memcpy(list, options, sizeof options);
}

static void verify_help(void) {
    struct verify_options o = {0};
    struct tern_option options[VERIFY_OPTIONS];
    list_options(&o, options);
    printf("usage: tune verify [options]\n\n"
           "Checks kernels against an FP64 reference on odd shapes: every element, guard\n"
           "bytes, poison, a repeat, second weights, and single weights read back exactly.\n"
           "Exit 0: all right. 1: a check failed. 2: nothing selected. 3: no C++ compiler,\n"
           "no GPU or no compute-sanitizer.\n\n");
    tern_options_help(options, VERIFY_OPTIONS);
    printf("\nexamples: tune verify --formats ternary-g128 --per-template 10\n"
           "          tune verify --templates mma-decode --activations bf16\n"
           "          tune verify --backend cuda --gpu h200 --db results/tern.db --sanitize\n");
}

static enum tern_status parse(int argc, char **argv, struct verify_options *o, struct tern_error *err) {
    struct tern_option options[VERIFY_OPTIONS];
    size_t positional;
    *o = (struct verify_options){.backend = "emu",
                                 .gpu = "h200",
                                 .activations = "f16",
                                 .order = "all",
                                 .launch = "plain",
                                 .cache = "results/cache/emu",
                                 .per_template = -1,
                                 .jobs = 2,
                                 .seed = 1};
    list_options(o, options);
    enum tern_status status = tern_options_parse(options, VERIFY_OPTIONS, argc, argv, NULL, 0, &positional, err);
    if (status != TERN_OK) {
        return status;
    }
    bool cuda = strcmp(o->backend, "cuda") == 0;
    if (!cuda && strcmp(o->backend, "emu") != 0) {
        return tern_error_set(err, TERN_USAGE, "unknown backend '%s': emu or cuda", o->backend);
    }
    enum tern_emu_order order;
    if (strcmp(o->order, "all") != 0 && !tern_emu_order_parse(o->order, &order)) {
        return tern_error_set(err, TERN_USAGE, "unknown order '%s': forward, reverse, shuffled, starved or all", o->order);
    }
    if (strcmp(o->launch, "plain") != 0 && strcmp(o->launch, "dependent") != 0) {
        return tern_error_set(err, TERN_USAGE, "--launch: plain or dependent, not '%s'", o->launch);
    }
    if (o->db != NULL && (o->all || o->per_template >= 0)) {
        return tern_error_set(err, TERN_USAGE, "--db takes winners; --all and --per-template choose from the grids");
    }
    o->per_template = o->per_template < 0 ? DEFAULT_SAMPLE : o->per_template;
    return TERN_OK;
}

/* ---- requests
 * ------------------------------------------------------------------------------------------------------------------ */
/* Text of kernel.cu and of its includes, read once for each template. */
static enum tern_status load_kernel(struct verify *v, size_t t, struct tern_error *err) {
    char path[640], include[1024];
    size_t length;
    struct tern_str closure = {0};
    if (v->kernels[t] != NULL) {
        return TERN_OK;
    }
    tern_str_format(path, sizeof path, "%s/kernel.cu", v->templates[t].dir);
    enum tern_status status = tern_file_read(path, &v->kernels[t], &length, err);
    if (status == TERN_OK) {
        status = tern_file_home_path("templates/include", include, sizeof include, err);
    }
    if (status == TERN_OK) {
        status = tern_source_closure(v->kernels[t], include, &closure, err);
    }
    if (status == TERN_OK) {
        v->closures[t] = tern_strdup(tern_str_text(&closure));
    }
    tern_str_free(&closure);
    return status;
}

static json_t *order_list(const struct verify *v) {
    if (strcmp(v->options.order, "all") != 0) {
        return json_pack("[s]", v->options.order);
    }
    json_t *list = json_array();
    for (int order = 0; order < TERN_EMU_ORDERS; order++) {
        json_array_append_new(list, json_string(tern_emu_order_name((enum tern_emu_order)order)));
    }
    return list;
}

static json_t *make_request(void *user, size_t index) {
    struct verify *v = user;
    const struct verify_item *item = &v->items[index];
    const struct tern_template *tmpl = item->candidate.tmpl;
    size_t t = (size_t)(tmpl - v->templates);
    char params[512], key[TERN_HASH_CHARS];
    struct tern_str source = {0};
    tern_candidate_text(&item->candidate, params, sizeof params);
    if (v->options.sanitize)
        tern_str_append(&source, "#define TERN_SANITIZE 1\n");
    tern_candidate_preamble(&item->candidate, &v->formats[item->format], v->type, &source);
    tern_str_append(&source, v->kernels[t]);
    struct tern_hash_state *hash = tern_hash_new();
    tern_hash_add_text(hash, v->compiler_identity);
    tern_hash_add_text(hash, tern_str_text(&source));
    tern_hash_add_text(hash, v->closures[t]);
    tern_hash_end(hash, key);
    json_t *request = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:b, s:o}", "do", "verify", "backend",
        v->options.backend, "gpu", v->options.gpu, "activations", v->options.activations, "template", tmpl->name, "params",
        params, "format", v->formats[item->format].name, "source", tern_str_text(&source), "key", key, "cache",
        v->options.cache, "seed", (json_int_t)v->options.seed, "shapes", (json_int_t)v->options.shapes, "m",
        (json_int_t)item->m, "k", (json_int_t)item->k, "sanitize", v->options.sanitize, "orders", order_list(v));
    tern_str_free(&source);
    return request;
}

void tern_verify_fail(struct verify *v, struct verify_item *item, enum tern_outcome outcome, const char *detail) {
    if (tern_verify_is_bad(item)) {
        return;
    }
    free(item->detail);
    item->detail = tern_strdup(detail);
    item->outcome = outcome;
    v->bad += tern_verify_is_bad(item);
}

/* Of a candidate that is checked more than once the first failure stays. */
static void take_answer(void *user, size_t index, enum tern_call call, const json_t *reply, const char *why) {
    struct verify *v = user;
    struct verify_item *item = &v->items[index];
    struct tern_error err;
    v->done++;
    if (call == TERN_CALL_OK && tern_reply_is_error(reply, &err)) {
        if (v->status == TERN_OK) {
            *v->err = err;
            v->status = err.status;
        }
        item->answered = false;
        tern_verify_fail(v, item, TERN_OUTCOME_RUNNING, err.text);
    } else if (!tern_verify_is_bad(item)) {
        item->answered = true;
        item->outcome = TERN_OUTCOME_OK;
        item->shapes = tern_message_int(reply, "shapes", 0);
        item->launches += tern_message_int(reply, "launches", 0);
        item->checked += tern_message_int(reply, "checked", 0);
        item->worst = tern_message_real(reply, "worst", 0.0);
        enum tern_outcome outcome = call == TERN_CALL_OK        ? tern_reply_outcome_of(reply)
                                    : call == TERN_CALL_TIMEOUT ? TERN_OUTCOME_TIMEOUT
                                                                : TERN_OUTCOME_CRASH;
        tern_verify_fail(v, item, outcome, call == TERN_CALL_OK ? tern_message_text(reply, "detail") : why);
    }
    tern_log_progress("verify %s%s%zu/%zu, %zu failed", v->tool != NULL ? v->tool : "", v->tool != NULL ? " " : "", v->done,
                      v->item_count, v->bad);
}

/* ---- the command
 * --------------------------------------------------------------------------------------------------------------- */
/* What must be there before the first worker starts. */
static enum tern_status prepare(struct verify *v, struct tern_error *err) {
    char library[1024];
    enum tern_status status = TERN_OK;
    if (strcmp(v->options.backend, "emu") == 0) {
        status = tern_emu_identity(v->options.sanitize, v->compiler_identity, err);
        if (status == TERN_OK) {
            status = tern_file_check_writable_dir(v->options.cache, err);
        }
    }
    if (status == TERN_OK && v->options.sanitize && strcmp(v->options.backend, "cuda") == 0) {
        status = tern_sanitizer_find(v->sanitizer, sizeof v->sanitizer, err);
    } else if (status == TERN_OK && v->options.sanitize) {
        status = tern_emu_sanitizer_library(library, sizeof library, err);
        if (status == TERN_OK &&
            library[0] != '\0') { /* for the workers: ASan must be there before the objects that need it */
            setenv("LD_PRELOAD", library, 1);
            setenv("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0", 1);
        }
    }
    for (size_t t = 0; t < v->template_count && status == TERN_OK; t++) {
        if (v->selected[t]) {
            status = load_kernel(v, t, err);
        }
    }
    return status;
}

static enum tern_status run_pool(struct verify *v, struct tern_error *err) {
    bool cuda = strcmp(v->options.backend, "cuda") == 0;
    size_t answered = 0, recycle = v->options.sanitize ? SANITIZED_RECYCLE : 0; /* under ASan objects stay loaded */
    if (cuda) {
        recycle = 1; /* a fault loses the context for good */
    }
    struct tern_pool_work work = {.kind = "verify",
                                  .workers = cuda ? 1 : (size_t)v->options.jobs,
                                  .count = v->item_count,
                                  .timeout_s = VERIFY_TIMEOUT_S,
                                  .recycle = recycle,
                                  .user = v,
                                  .request = make_request,
                                  .done = take_answer};
    tern_interrupt_install();
    enum tern_status status =
        v->sanitizer[0] != '\0' ? tern_verify_sanitized(v, &work, err) : tern_pool_run(&work, &answered, err);
    tern_log_progress("%s", "");
    return status;
}

static enum tern_status judge(const struct verify *v, size_t empty, struct tern_error *err) {
    if (v->status != TERN_OK) {
        return v->status; /* v->err is err */
    }
    if (tern_interrupted()) {
        return tern_error_set(err, TERN_FAILED, "interrupted: %zu of %zu candidates checked", v->done, v->item_count);
    }
    if (v->bad > 0 || v->done < v->item_count) {
        return tern_error_set(err, TERN_FAILED, "%zu of %zu candidates failed", v->bad, v->item_count);
    }
    if (empty > 0) {
        return tern_error_set(err, TERN_FAILED,
                              "%zu pairs of template and format had no candidate that serves a small shape", empty);
    }
    return TERN_OK;
}

static enum tern_status verify(int argc, char **argv, struct tern_error *err) {
    struct verify *v = tern_alloc_zero(1, sizeof *v);
    v->err = err;
    enum tern_status status = parse(argc, argv, &v->options, err);
    if (status == TERN_OK) {
        status = tern_verify_select(v, err);
    }
    if (status == TERN_OK) {
        status = prepare(v, err);
    }
    if (status == TERN_OK) {
        status = run_pool(v, err);
    }
    if (status == TERN_OK) {
        size_t empty = tern_verify_print(v);
        status = judge(v, empty, err);
    }
    tern_verify_free(v);
    free(v);
    return status;
}

const struct tern_command tern_command_verify = {
    .name = "verify", .summary = "check kernels against an FP64 reference", .run = verify, .help = verify_help};
