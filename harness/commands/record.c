/* `tune record`: writes what a database holds of one GPU as a recording or as T4 results; `tune run --replay` answers from
 * either. */
#include "commands/commands.h"

#include "commands/dispatch.h"
#include "commands/narrow.h"
#include "config/gpu.h"
#include "core/file.h"
#include "core/log.h"
#include "core/options.h"
#include "core/result.h"
#include "core/str.h"
#include "store/store.h"
#include "worker/message.h"
#include "worker/recording.h"
#include "worker/recording_t4.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct record_options {
    const char *gpu, *shapes, *db, *output;
    struct tern_narrow_lists lists;
    bool t4;
};

#define RECORD_OPTION_COUNT 8

/* One table for parsing and help; the values point into o. */
static void list_options(struct record_options *o, struct tern_option list[RECORD_OPTION_COUNT]) {
    const struct tern_option options[RECORD_OPTION_COUNT] = {
        {"gpu", 'g', TERN_OPTION_TEXT, &o->gpu, "NAME", "GPU whose measurements are written (required)", 0, 0},
        {"shapes", 's', TERN_OPTION_TEXT, &o->shapes, "NAME", "only the layers of this model (default: all)", 0, 0},
        {"formats", 'f', TERN_OPTION_TEXT, &o->lists.formats, "LIST", "with --shapes: only these weight formats", 0, 0},
        {"layers", 'l', TERN_OPTION_TEXT, &o->lists.layers, "LIST", "with --shapes: only these layers", 0, 0},
        {"m", 'm', TERN_OPTION_TEXT, &o->lists.m, "LIST", "with --shapes: only these batch sizes", 0, 0},
        {"db", 0, TERN_OPTION_TEXT, &o->db, "PATH", "database to read (default: " TERN_DEFAULT_DB ")", 0, 0},
        {"output", 'o', TERN_OPTION_TEXT, &o->output, "FILE", "file to write, such as h200.jsonl.zst (required)", 0, 0},
        {"t4", 0, TERN_OPTION_FLAG, &o->t4, NULL, "as T4 auto-tuning results, JSON for other tools (docs/t4.md)", 0, 0},
    };
    memcpy(list, options, sizeof options);
}

static void record_help(void) {
    struct record_options o = {0};
    struct tern_option options[RECORD_OPTION_COUNT];
    list_options(&o, options);
    printf("usage: tune record --gpu NAME -o FILE [options]\n\n"
           "Writes every trial and baseline that was measured on a GPU, with raw samples, as\n"
           "compressed JSON lines, or with --t4 as the JSON that auto-tuners exchange. `tune\n"
           "run --replay FILE` answers from either on any machine. Same rows, same bytes.\n\n");
    tern_options_help(options, RECORD_OPTION_COUNT);
    printf("\nexamples: tune record --gpu h200 --shapes qwen7b -o h200.jsonl.zst\n"
           "          tune record --gpu h200 --layers qkv --m 1 --t4 -o qkv-1.json\n");
}

static enum tern_status parse(int argc, char **argv, struct record_options *o, struct tern_error *err) {
    struct tern_option options[RECORD_OPTION_COUNT];
    const char *unused[1];
    size_t count = 0;
    list_options(o, options);
    enum tern_status status = tern_options_parse(options, RECORD_OPTION_COUNT, argc, argv, unused, 0, &count, err);
    if (status)
        return status;
    if (!o->gpu || !o->output) {
        tern_error_set(err, TERN_USAGE, "record needs %s", o->gpu ? "-o FILE" : "--gpu NAME");
        tern_error_hint(err, "for example: tune record --gpu h200 -o h200.jsonl.zst");
        return TERN_USAGE;
    }
    status = tern_narrow_check(&o->lists, o->shapes, err);
    if (status)
        return status;
    if (tern_is_replay_name(o->gpu)) {
        tern_error_set(err, TERN_USAGE, "%s: a replay is not recorded again", o->gpu);
        tern_error_hint(err, "name the GPU that was measured");
        return TERN_USAGE;
    }
    return TERN_OK;
}

struct recorder {
    struct tern_recording_writer writer;
    struct tern_t4_writer t4;
    const struct record_options *options;
    const struct tern_shapes *shapes; /* NULL: all */
    size_t trials, baselines, refused;
};

/* A refused build is of no problem: it belongs to every selection that has its format. */
static bool selected(const struct recorder *r, const struct tern_store_problem *p, bool build) {
    if (!r->shapes)
        return true;
    const struct tern_layer *any = &r->shapes->layers[0];
    return build ? tern_narrow_holds(&r->options->lists, r->shapes, p->format, r->shapes->m[0], any->n, any->k)
                 : tern_narrow_holds(&r->options->lists, r->shapes, p->format, p->m, p->n, p->k);
}

static json_t *problem_line(const char *what, const struct tern_store_problem *p) {
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "what", what, "format", p->format, "op", p->op, "n", (json_int_t)p->n,
                     "k", (json_int_t)p->k, "m", (json_int_t)p->m);
}

static void set_text(json_t *line, const char *key, const char *text) {
    json_t *value = json_string(text);
    json_object_set_new(line, key, value ? value : json_string("(not UTF-8)")); /* output of a dead worker may be anything */
}

static void add_line(struct recorder *r, json_t *line, const char *finished, double compile_seconds) {
    if (r->options->t4)
        tern_t4_add(&r->t4, line, finished, compile_seconds);
    else
        tern_recording_add(&r->writer, line);
}

static json_t *baseline_line(const struct tern_store_measured *row) {
    json_t *line = problem_line("baseline", &row->problem);
    long long best = -1, algorithms = -1;
    set_text(line, "policy", row->policy);
    if (sscanf(row->detail, "algorithm %lld of %lld", &best, &algorithms) == 2) {
        json_object_set_new(line, "best_algorithm", json_integer(best));
        json_object_set_new(line, "algorithms", json_integer(algorithms));
    }
    set_text(line, "kind", row->template_name);
    return line;
}

/* What a refused build answers when it is asked for: the same as a check that failed. */
static json_t *refused_line(const struct tern_store_measured *row) {
    char detail[600];
    json_t *line = json_pack("{s:s, s:s, s:s}", "what", "check", "format", row->problem.format, "op", row->problem.op);
    bool refused = row->outcome == TERN_OUTCOME_COMPILE;
    tern_str_format(detail, sizeof detail, "%s%s%s", refused ? "" : tern_outcome_name(row->outcome),
                    refused ? "" : " while compiling: ", row->detail);
    set_text(line, "template", row->template_name);
    set_text(line, "params", row->params);
    set_text(line, "outcome", tern_outcome_name(TERN_OUTCOME_COMPILE));
    set_text(line, "detail", detail);
    return line;
}

static json_t *trial_line(const struct tern_store_measured *row, const char *what) {
    json_t *line = problem_line(what, &row->problem);
    set_text(line, "policy", row->policy);
    set_text(line, "template", row->template_name);
    set_text(line, "params", row->params);
    set_text(line, "outcome", tern_outcome_name(row->outcome));
    if (row->detail[0])
        set_text(line, "detail", row->detail);
    if (row->gpu_seconds > 0)
        json_object_set_new(line, "gpu_seconds", json_real(row->gpu_seconds));
    if (row->predicted_us > 0)
        json_object_set_new(line, "predicted_us", json_real(row->predicted_us));
    return line;
}

/* A database row becomes a line; finals, screens and baselines keep their samples, a check on small shapes has none. */
static enum tern_status add_row(void *user, const struct tern_store_measured *row, struct tern_error *err) {
    struct recorder *r = user;
    (void)err;
    bool build = strcmp(row->stage, "build") == 0, baseline = strcmp(row->stage, "baseline") == 0;
    bool check = strcmp(row->stage, "verify") == 0;
    if (!selected(r, &row->problem, build))
        return TERN_OK;
    json_t *line = build ? refused_line(row) : baseline ? baseline_line(row) : trial_line(row, check ? "check" : row->stage);
    if (!build && !check) {
        json_object_set_new(line, "sm_mhz", json_integer(row->sm_mhz));
        json_object_set_new(line, "samples", tern_message_from_samples(row->samples, row->sample_count));
    }
    add_line(r, line, row->finished, row->compile_seconds);
    r->trials += !build && !baseline;
    r->refused += build;
    r->baselines += baseline;
    return TERN_OK;
}

static json_t *device_line(const struct tern_store_device *d, int cc) {
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I}", "what", "device", "version",
                     TERN_RECORDING_VERSION, "gpu", d->gpu, "name", d->name, "driver", d->driver, "arch", d->arch, "cc", cc,
                     "sms", (json_int_t)d->sms, "l2_bytes", (json_int_t)d->l2_bytes, "memory_bytes",
                     (json_int_t)d->memory_bytes);
}

static enum tern_status record(const struct record_options *o, const struct tern_gpu *gpu, struct recorder *r,
                               struct tern_error *err) {
    struct tern_store *store = NULL;
    struct tern_store_device device;
    int64_t id = 0;
    bool found = false;
    enum tern_status status = tern_store_open(o->db, TERN_STORE_READ, &store, err);
    if (status)
        return status;
    status = tern_store_measured_device(store, gpu->name, &device, &id, &found, err);
    if (!status && found) {
        add_line(r, device_line(&device, gpu->cc), "", (double)NAN);
        status = tern_store_measured_each(store, id, add_row, r, err);
    }
    tern_store_close(store);
    if (!status && r->trials == 0) {
        tern_error_set(err, TERN_USAGE, "%s: nothing was measured on %s%s%s", o->db, gpu->name,
                       o->shapes ? " for the layers of " : "", o->shapes ? o->shapes : "");
        tern_error_hint(err, "`tune show` lists what a database holds");
        status = TERN_USAGE;
    }
    return status;
}

static enum tern_status record_run(int argc, char **argv, struct tern_error *err) {
    struct record_options o = {.db = TERN_DEFAULT_DB};
    struct recorder r = {.options = &o};
    struct tern_gpu gpu = {0};
    struct tern_shapes shapes;
    enum tern_status status = parse(argc, argv, &o, err);
    if (status)
        return status;
    status = tern_gpu_load(o.gpu, &gpu, err);
    if (!status && o.shapes) {
        status = tern_shapes_load(o.shapes, &shapes, err);
        if (!status)
            status = tern_narrow_shapes(&o.lists, &shapes, err);
        r.shapes = &shapes;
    }
    if (!status)
        status = record(&o, &gpu, &r, err);
    if (!status)
        status = o.t4 ? tern_t4_write(&r.t4, o.output, err) : tern_recording_write(&r.writer, o.output, err);
    if (!status)
        tern_log_note("%zu trials, %zu refused builds and %zu baselines of %s in %s", r.trials, r.refused, r.baselines,
                      gpu.name, o.output);
    tern_recording_writer_free(&r.writer);
    tern_t4_writer_free(&r.t4);
    tern_gpu_free(&gpu);
    return status;
}

const struct tern_command tern_command_record = {"record", "write a GPU's measurements as a file to replay", record_run,
                                                 record_help};
