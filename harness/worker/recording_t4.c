/* Recordings as T4 auto-tuning results, written and read. See recording_t4.h; the keys are described in docs/t4.md. */
#include "worker/recording_t4.h"

#include "core/file.h"
#include "core/version.h"
#include "measure/stats.h"
#include "worker/message.h"
#include "worker/recording.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA_VERSION "1.1.0" /* has the metadata block; what is written satisfies 1.0.0 as well */
#define DIGITS         7       /* as in recordings: the same samples come back */

/* The first row of a class is what a result of another tuner becomes. NOISY ran right, only its time is not to be believed. */
static const struct {
    enum tern_outcome outcome;
    const char *invalidity;
    bool right;
} classes[] = {
    {TERN_OUTCOME_OK, "correct", true},           {TERN_OUTCOME_WRONG, "correctness", false},
    {TERN_OUTCOME_NONDET, "correctness", false},  {TERN_OUTCOME_FAULT, "runtime", false},
    {TERN_OUTCOME_CRASH, "runtime", false},       {TERN_OUTCOME_NOISY, "runtime", true},
    {TERN_OUTCOME_TIMEOUT, "timeout", false},     {TERN_OUTCOME_COMPILE, "compile", false},
    {TERN_OUTCOME_INVALID, "constraints", false}, {TERN_OUTCOME_RESOURCES, "constraints", false},
};
#define CLASS_COUNT (sizeof classes / sizeof classes[0])

static size_t class_of(enum tern_outcome outcome) {
    size_t i = 0;
    while (i < CLASS_COUNT && classes[i].outcome != outcome)
        i++;
    return i;
}

const char *tern_t4_invalidity(enum tern_outcome outcome) {
    size_t i = class_of(outcome);
    return i < CLASS_COUNT ? classes[i].invalidity : NULL;
}

/* Keys of a configuration that say which problem and template; all others are parameters. */
static const struct {
    const char *t4, *line;
    bool number, of_check; /* a check on small shapes is not of one problem */
} problem_keys[] = {{"op", "op", false, false}, {"format", "format", false, true}, {"M", "m", true, false},
                    {"N", "n", true, false},    {"K", "k", true, false},           {"template", "template", false, true}};
#define PROBLEM_KEY_COUNT (sizeof problem_keys / sizeof problem_keys[0])

/* Keys of a line that T4 has no word for; texts. */
static const char *const kept[] = {"policy", "outcome", "detail"};
#define KEPT_COUNT (sizeof kept / sizeof kept[0])

/* ---- writing ---- */

/* "BLOCK_M=16 STAGES=4" as keys. */
static void add_parameters(json_t *configuration, const char *params) {
    struct tern_strs words = {0};
    tern_strs_split(&words, params, ' ');
    for (size_t i = 0; i < words.count; i++) {
        char *equals = strchr(words.items[i], '=');
        if (equals) {
            *equals = '\0';
            json_object_set_new(configuration, words.items[i], json_integer(strtoll(equals + 1, NULL, 10)));
        }
    }
    tern_strs_free(&words);
}

static json_t *configuration_of(const json_t *line) {
    json_t *configuration = json_object();
    for (size_t i = 0; i < PROBLEM_KEY_COUNT; i++) {
        json_t *value = json_object_get(line, problem_keys[i].line);
        if (value)
            json_object_set(configuration, problem_keys[i].t4, value);
    }
    add_parameters(configuration, tern_message_text(line, "params"));
    return configuration;
}

static void add_measurement(json_t *list, const char *name, double value, const char *unit) {
    if (isfinite(value))
        json_array_append_new(list, json_pack("{s:s, s:f, s:s}", "name", name, "value", value, "unit", unit));
}

/* Milliseconds, as T4's readers expect them. A check is validation and nothing else. */
static void add_times(json_t *result, const json_t *line, bool check, bool ok, double compile_seconds) {
    size_t count = 0;
    struct tern_stats stats;
    double *samples = tern_message_samples(line, "samples", &count);
    double gpu_ms = 1e3 * tern_message_real(line, "gpu_seconds", (double)NAN);
    json_t *times = json_object(), *measurements = json_array();
    tern_stats_compute(samples, count, &stats);
    if (compile_seconds > 0)
        json_object_set_new(times, "compilation_time", json_real(1e3 * compile_seconds));
    if (check && isfinite(gpu_ms))
        json_object_set_new(times, "validation", json_real(gpu_ms));
    for (size_t i = 0; i < count; i++)
        samples[i] *= 1e-3;
    json_object_set_new(times, "runtimes", tern_message_from_samples(samples, count));
    add_measurement(measurements, "time", ok && count > 0 ? 1e-3 * stats.median : (double)NAN, "ms");
    add_measurement(measurements, "gpu_time", gpu_ms, "ms");
    if (!check)
        add_measurement(measurements, "sm_clock", (double)tern_message_int(line, "sm_mhz", 0), "MHz");
    json_object_set_new(result, "times", times);
    json_object_set_new(result, "measurements", measurements);
    free(samples);
}

static enum tern_outcome outcome_of(const json_t *line) {
    enum tern_outcome outcome = TERN_OUTCOME_RUNNING;
    tern_outcome_parse(tern_message_text(line, "outcome"), &outcome);
    return outcome;
}

static json_t *result_of(const json_t *line, const char *timestamp, double compile_seconds) {
    enum tern_outcome outcome = outcome_of(line);
    const char *stage = tern_message_text(line, "what");
    size_t class = class_of(outcome);
    if (class == CLASS_COUNT)
        return NULL;
    json_t *result = json_object(), *ours = json_object();
    if (timestamp[0])
        json_object_set_new(result, "timestamp", json_string(timestamp));
    json_object_set_new(result, "configuration", configuration_of(line));
    json_object_set_new(result, "objectives", json_pack("[s]", "time"));
    add_times(result, line, strcmp(stage, "check") == 0, outcome == TERN_OUTCOME_OK, compile_seconds);
    json_object_set_new(result, "invalidity", json_string(classes[class].invalidity));
    json_object_set_new(result, "correctness", json_integer(classes[class].right));
    json_object_set_new(ours, "stage", json_string(stage));
    for (size_t i = 0; i < KEPT_COUNT; i++)
        if (json_object_get(line, kept[i]))
            json_object_set(ours, kept[i], json_object_get(line, kept[i]));
    json_object_set_new(result, "tern", ours);
    return result;
}

static void append(struct tern_str *out, const json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    tern_str_append(out, text ? text : "{}");
    free(text);
}

void tern_t4_add(struct tern_t4_writer *w, json_t *line, const char *timestamp, double compile_seconds) {
    const char *what = tern_message_text(line, "what");
    if (strcmp(what, "device") == 0) {
        w->device = json_incref(line);
        w->rest = json_array();
    } else if (strcmp(what, "baseline") == 0 || strcmp(what, "sustained") == 0 ||
               (strcmp(what, "check") == 0 && outcome_of(line) == TERN_OUTCOME_OK)) {
        json_array_append(w->rest, line);
    } else {
        json_t *result = result_of(line, timestamp, compile_seconds);
        if (result) {
            tern_str_append(&w->results, w->results.length ? ",\n" : "\n");
            append(&w->results, result);
        }
        json_decref(result);
    }
    json_decref(line);
}

/* The device line under the keys of the metadata schema; "device_query" is free in form. */
static json_t *metadata(const json_t *device) {
    json_t *query = json_deep_copy(device);
    json_object_del(query, "what");
    json_object_del(query, "version");
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:{s:o}}", "compute_api", "CUDA", "platform", "NVIDIA", "device",
                     tern_message_text(device, "name"), "autotuner", "Tern", "autotuner_version", TERN_VERSION, "timeunit",
                     "milliseconds", "environment", "device_query", query);
}

enum tern_status tern_t4_write(const struct tern_t4_writer *w, const char *path, struct tern_error *err) {
    struct tern_str text = {0};
    json_t *about = metadata(w->device);
    tern_str_append(&text, "{\"schema_version\":\"" SCHEMA_VERSION "\",\n\"metadata\":");
    append(&text, about);
    tern_str_append(&text, ",\n\"results\":[");
    tern_str_append(&text, tern_str_text(&w->results));
    tern_str_append(&text, "\n],\n\"tern\":{\"lines\":");
    append(&text, w->rest);
    tern_str_append(&text, "}}\n");
    enum tern_status status = tern_file_write(path, text.data, text.length, err);
    json_decref(about);
    tern_str_free(&text);
    return status;
}

void tern_t4_writer_free(struct tern_t4_writer *w) {
    json_decref(w->device);
    json_decref(w->rest);
    tern_str_free(&w->results);
}

/* ---- reading ---- */

bool tern_t4_is(const json_t *document) {
    return json_is_object(document) && json_is_array(json_object_get(document, "results"));
}

struct reader {
    const char *path, *tuner;
    double unit_us;     /* of the file's times */
    size_t at, unknown; /* result being read, from 1; how many name no candidate of ours */
    size_t first_unknown;
    struct tern_str missing; /* what the first of them lacks */
    json_t *lines;
    struct tern_error *err;
};

static enum tern_status refuse(struct reader *r, const char *why, const char *what) {
    tern_error_set(r->err, TERN_INTERNAL, "%s: T4 results of %s: result %zu %s%s", r->path, r->tuner, r->at, why, what);
    tern_error_hint(r->err, "docs/t4.md says what a result must hold");
    return TERN_INTERNAL;
}

/* Milliseconds where the file does not say, as Kernel Tuner writes. */
static enum tern_status read_unit(struct reader *r, const json_t *document) {
    static const struct {
        const char *name;
        double us;
    } units[] = {{"", 1e3}, {"milliseconds", 1e3}, {"microseconds", 1}, {"nanoseconds", 1e-3}, {"seconds", 1e6}};
    const char *name = tern_message_text(json_object_get(document, "metadata"), "timeunit");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(units[i].name, name) == 0)
            r->unit_us = units[i].us;
    if (r->unit_us > 0)
        return TERN_OK;
    tern_error_set(r->err, TERN_INTERNAL, "%s: T4 results in the unknown time unit '%s'", r->path, name);
    tern_error_hint(r->err, "nanoseconds, microseconds, milliseconds and seconds are T4's");
    return TERN_INTERNAL;
}

static enum tern_status check_version(struct reader *r, const json_t *document) {
    const char *version = tern_message_text(document, "schema_version");
    if (!version[0] || strncmp(version, "1.", 2) == 0)
        return TERN_OK;
    tern_error_set(r->err, TERN_INTERNAL, "%s: T4 results of schema %s; this program reads 1.x", r->path, version);
    tern_error_hint(r->err, "use the newer tune that wrote it, or record again");
    return TERN_INTERNAL;
}

/* The same number that a recording holds: its digits, without the rounding of the change of unit. */
static double round_digits(double value) {
    char text[40];
    double rounded = value;
    tern_str_format(text, sizeof text, "%.*g", DIGITS, value);
    tern_str_parse_double(text, &rounded);
    return rounded;
}

static void lacks(struct reader *r, const char *what) {
    if (r->unknown == 0)
        tern_str_printf(&r->missing, "%s%s", r->missing.length ? ", " : "", what);
}

/* Problem and candidate out of a configuration; false if it does not name ours. */
static bool read_configuration(struct reader *r, const json_t *result, bool check, json_t *line) {
    json_t *configuration = json_object_get(result, "configuration"), *value;
    struct tern_str params = {0};
    const char *key;
    bool whole = true;
    for (size_t i = 0; i < PROBLEM_KEY_COUNT; i++) {
        value = json_object_get(configuration, problem_keys[i].t4);
        bool good = problem_keys[i].number ? json_integer_value(value) > 0 : json_is_string(value);
        if (good)
            json_object_set(line, problem_keys[i].line, value);
        else if (value || !check || problem_keys[i].of_check) {
            lacks(r, problem_keys[i].t4);
            whole = false;
        }
    }
    json_object_foreach(configuration, key, value) {
        bool known = false;
        for (size_t i = 0; i < PROBLEM_KEY_COUNT; i++)
            known = known || strcmp(problem_keys[i].t4, key) == 0;
        if (known)
            continue;
        if (!json_is_integer(value)) {
            lacks(r, key);
            whole = false;
        }
        tern_str_printf(&params, "%s%s=%lld", params.length ? " " : "", key, (long long)json_integer_value(value));
    }
    json_object_set_new(line, "params", json_string(tern_str_text(&params)));
    tern_str_free(&params);
    return whole;
}

/* Outcome: ours if the file tells it and it is of the class, else the first of the class. */
static enum tern_status read_outcome(struct reader *r, const json_t *result, json_t *line, enum tern_outcome *outcome) {
    const char *invalidity = tern_message_text(result, "invalidity");
    const char *name = tern_message_text(json_object_get(result, "tern"), "outcome");
    size_t class = 0;
    while (class < CLASS_COUNT && strcmp(classes[class].invalidity, invalidity) != 0)
        class ++;
    if (class == CLASS_COUNT)
        return refuse(r, "is of no class of T4: invalidity ", invalidity[0] ? invalidity : "is missing");
    *outcome = classes[class].outcome;
    if (name[0] && !tern_outcome_parse(name, outcome))
        return refuse(r, "has an unknown outcome: ", name);
    const char *own = tern_t4_invalidity(*outcome);
    if (!own || strcmp(own, invalidity) != 0)
        return refuse(r, "contradicts itself: its outcome is not ", invalidity);
    json_object_set_new(line, "outcome", json_string(tern_outcome_name(*outcome)));
    return TERN_OK;
}

static enum tern_status read_times(struct reader *r, const json_t *result, bool needed, json_t *line) {
    json_t *runtimes = json_object_get(json_object_get(result, "times"), "runtimes"), *value;
    json_t *samples = json_array();
    size_t i;
    enum tern_status status = TERN_OK;
    json_array_foreach(runtimes, i, value) {
        double us = json_number_value(value) * r->unit_us;
        if (isfinite(us) && us > 0)
            json_array_append_new(samples, json_real(round_digits(us)));
        else if (status == TERN_OK)
            status = refuse(r, "has a runtime that is no positive number", "");
    }
    if (status == TERN_OK && needed && json_array_size(samples) == 0)
        status = refuse(r, "is correct and has no runtimes", "");
    json_object_set_new(line, "samples", samples);
    return status;
}

static void read_measurements(const json_t *result, json_t *line) {
    json_t *measurement;
    size_t i;
    json_array_foreach(json_object_get(result, "measurements"), i, measurement) {
        const char *name = tern_message_text(measurement, "name");
        double value = tern_message_real(measurement, "value", (double)NAN);
        if (strcmp(name, "gpu_time") == 0 && strcmp(tern_message_text(measurement, "unit"), "ms") == 0 && value > 0)
            json_object_set_new(line, "gpu_seconds", json_real(round_digits(1e-3 * value)));
        else if (strcmp(name, "sm_clock") == 0 && value >= 0 && value < 1e6)
            json_object_set_new(line, "sm_mhz", json_integer((json_int_t)value));
    }
}

static enum tern_status read_result(struct reader *r, const json_t *result) {
    const json_t *ours = json_object_get(result, "tern");
    const char *stage = tern_message_text(ours, "stage");
    enum tern_outcome outcome = TERN_OUTCOME_CRASH;
    bool check = strcmp(stage, "check") == 0;
    json_t *line = json_pack("{s:s}", "what", stage[0] ? stage : "screen");
    for (size_t i = 0; i < KEPT_COUNT; i++)
        if (json_is_string(json_object_get(ours, kept[i])))
            json_object_set(line, kept[i], json_object_get(ours, kept[i]));
    if (!read_configuration(r, result, check, line)) {
        r->first_unknown = r->unknown++ ? r->first_unknown : r->at;
        json_decref(line);
        return TERN_OK; /* counted: one message for all of them */
    }
    enum tern_status status = read_outcome(r, result, line, &outcome);
    if (status == TERN_OK && !check)
        status = read_times(r, result, outcome == TERN_OUTCOME_OK, line);
    read_measurements(result, line);
    json_array_append_new(r->lines, line);
    return status;
}

static enum tern_status read_results(struct reader *r, const json_t *results) {
    json_t *result;
    size_t i;
    enum tern_status status = TERN_OK;
    json_array_foreach(results, i, result) {
        r->at = i + 1;
        status = read_result(r, result);
        if (status != TERN_OK)
            return status;
    }
    if (r->unknown == 0)
        return TERN_OK;
    tern_error_set(r->err, TERN_INTERNAL,
                   "%s: T4 results of %s: %zu of %zu name no candidate of Tern; the configuration of result %zu has no "
                   "usable %s",
                   r->path, r->tuner, r->unknown, json_array_size(results), r->first_unknown, tern_str_text(&r->missing));
    tern_error_hint(r->err, "only results of Tern's own templates can be replayed: docs/t4.md");
    return TERN_INTERNAL;
}

static void read_rest(struct reader *r, const json_t *document) {
    const json_t *about = json_object_get(document, "metadata");
    json_t *device = json_deep_copy(json_object_get(json_object_get(about, "environment"), "device_query")), *line;
    size_t i;
    if (!json_is_object(device)) {
        json_decref(device);
        device = json_object();
    }
    json_object_set_new(device, "what", json_string("device"));
    json_object_set_new(device, "version", json_integer(TERN_RECORDING_VERSION));
    if (tern_message_text(about, "device")[0])
        json_object_set(device, "name", json_object_get(about, "device"));
    json_array_append_new(r->lines, device);
    json_array_foreach(json_object_get(json_object_get(document, "tern"), "lines"), i, line) {
        json_array_append(r->lines, line);
    }
}

enum tern_status tern_t4_lines(const char *path, const json_t *document, json_t **lines, struct tern_error *err) {
    const char *tuner = tern_message_text(json_object_get(document, "metadata"), "autotuner");
    struct reader r = {.path = path, .tuner = tuner[0] ? tuner : "an unnamed tuner", .lines = json_array(), .err = err};
    enum tern_status status = check_version(&r, document);
    if (status == TERN_OK)
        status = read_unit(&r, document);
    if (status == TERN_OK) {
        read_rest(&r, document);
        status = read_results(&r, json_object_get(document, "results"));
    }
    tern_str_free(&r.missing);
    if (status != TERN_OK)
        json_decref(r.lines);
    *lines = status == TERN_OK ? r.lines : NULL;
    return status;
}
