/* `tune release --verify`: does a release still hold on this GPU? A sample of its rows goes through the steps of a run, each
 * problem with its released candidate alone, in a database that is thrown away. */
#include "commands/compare_source.h"
#include "commands/release_parts.h"
#include "commands/release_runs.h"

#include "core/file.h"
#include "core/log.h"
#include "core/random.h"
#include "worker/interrupt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Keeps `count` rows, drawn without replacement; those that were never measured cannot be measured again, nor those of a checkpoint's own
 * weights, which a release does not hold. Rows of dependent launches are left out, too: one run has one way to launch. */
static void draw(struct tern_results *rows, int64_t count, int64_t seed) {
    struct tern_random random;
    size_t kept = 0;
    tern_random_init(&random, (uint64_t)seed, "release sample");
    for (size_t i = 0; i < rows->count; i++) {
        enum tern_activation type;
        if (!rows->rows[i].planned && !*tern_conditions(rows->rows[i].shapes) &&
            tern_activation_of_op(rows->rows[i].op, &type))
            rows->rows[kept++] = rows->rows[i];
    }
    rows->count = kept;
    size_t wanted = (size_t)count < kept ? (size_t)count : kept;
    for (size_t i = 0; i < wanted; i++) {
        size_t other = i + (size_t)tern_random_below(&random, kept - i);
        struct tern_result row = rows->rows[i];
        rows->rows[i] = rows->rows[other];
        rows->rows[other] = row;
    }
    rows->count = wanted;
    tern_results_sort(rows);
}

/* Every final that there was: no row gives way to the layout of another, as winners of a run do. */
static enum tern_status measure(struct run *run, const struct tern_results *part, struct tern_results *out,
                                struct tern_error *err) {
    (void)part;
    enum tern_status status = tern_run_measure(run, err);
    if (status == TERN_OK && tern_interrupted())
        status = tern_error_set(err, TERN_FAILED, "interrupted before all rows were measured");
    for (size_t i = 0; i < run->problem_count && status == TERN_OK; i++)
        if (run->problems[i].per_layout_count > 0)
            tern_results_add(out, &run->problems[i].per_layout[0]);
    return status;
}

static enum tern_status measure_again(const struct tern_release_verify *v, const struct tern_results *sample,
                                      struct tern_results *out, struct tern_error *err) {
    struct tern_release_runs runs = {.dir = v->dir,
                                     .options = {.gpu = v->gpu,
                                                 .shapes = v->shapes,
                                                 .cache = v->cache,
                                                 .device = v->device,
                                                 .require_gpu = !v->replay,
                                                 .replay = v->replay},
                                     .work = measure};
    tern_str_format(runs.options.command_line, sizeof runs.options.command_line, "tune release %s --verify", v->name);
    tern_interrupt_install();
    return tern_release_run(&runs, sample, out, err);
}

/* A replay answers under names of its own; here it stands for the device and the regimes of the release. */
static void pose_as_measured(const struct tern_results *sample, struct tern_results *rows) {
    for (size_t i = 0; i < rows->count; i++) {
        struct tern_result *row = &rows->rows[i];
        tern_str_copy(row->gpu, sizeof row->gpu, sample->rows[0].gpu);
        row->policy[0] = row->device[0] = row->driver[0] = 0;
    }
}

/* Why a row may be missing now: the comparison knows times only. */
static void note_missing(const struct tern_results *sample, const struct tern_results *rows, struct tern_compare *compared) {
    if (rows->count < sample->count)
        tern_strs_add(&compared->notes,
                      "Missing rows: today's templates do not have their candidate, it did not run right, or "
                      "its time was refused.");
}

/* A template that changed since may compile to another kernel under the same parameters: worth knowing when times differ. */
static void note_changed(const struct tern_release_verify *v, struct tern_compare *compared) {
    struct tern_str path = {0}, changed = {0};
    struct tern_template *templates = NULL;
    size_t count = 0;
    tern_str_printf(&path, "%s/environment.json", v->dir);
    json_t *environment = json_load_file(path.data, 0, NULL);
    if (tern_templates_load_all(&templates, &count, NULL) == TERN_OK)
        for (size_t i = 0; i < count; i++) {
            const char *then =
                json_string_value(json_object_get(json_object_get(environment, "templates"), templates[i].name));
            if (then && !strstr(then, templates[i].hash))
                tern_str_printf(&changed, "%s %s", changed.length ? "," : "", templates[i].name);
        }
    if (changed.length) {
        tern_str_free(&path);
        tern_str_printf(&path, "Templates that have changed since the release:%s.", changed.data);
        tern_strs_add(&compared->notes, path.data);
    }
    tern_templates_free(templates, count);
    json_decref(environment);
    tern_str_free(&path);
    tern_str_free(&changed);
}

/* Finding no GPU is what this command fails with on any other machine; it says so in its own words. */
static enum tern_status explain_missing(const struct tern_release_verify *v, struct tern_error *err) {
    char why[sizeof err->text];
    const char *reason = strstr(err->text, "--require-gpu: ");
    tern_str_copy(why, sizeof why, reason ? reason + strlen("--require-gpu: ") : err->text);
    tern_error_set(err, TERN_MISSING, "release %s was not measured again: %s", v->name, why);
    tern_error_hint(err, "run this on a machine with the GPU (`make portable` makes a folder that runs there); "
                         "`tune doctor` shows what was found here");
    return TERN_MISSING;
}

enum tern_status tern_release_verify(const struct tern_release_verify *v, struct tern_error *err) {
    struct tern_results sample = {0}, again = {0};
    struct tern_compare compared = {0};
    const struct tern_compare_how how = {.threshold = v->threshold, .json = v->json};
    struct tern_error why = {0}; /* never NULL, unlike err */
    enum tern_status status = tern_compare_source(v->dir, NULL, v->shapes, &sample, &compared.notes, &why);
    if (!status) {
        draw(&sample, v->sample, v->seed);
        if (!sample.count)
            status =
                tern_error_set(&why, TERN_USAGE, "%s/winners.csv holds no row that was measured on random weights", v->dir);
    }
    if (!status)
        tern_log_note("measuring %zu rows of %s again", sample.count, v->name);
    if (!status)
        status = measure_again(v, &sample, &again, &why);
    if (status == TERN_MISSING && !v->replay)
        explain_missing(v, &why);
    if (!status) {
        if (v->replay)
            pose_as_measured(&sample, &again);
        note_missing(&sample, &again, &compared);
        note_changed(v, &compared);
        tern_str_copy(compared.a, sizeof compared.a, v->name);
        tern_str_copy(compared.b, sizeof compared.b, "measured now");
        status = tern_command_compare_results(&how, &sample, &again, &compared, &why);
    }
    if (status == TERN_FAILED)
        tern_error_prefix(&why, "release %s does not hold", v->name);
    if (err)
        *err = why;
    tern_compare_free(&compared);
    tern_results_free(&sample);
    tern_results_free(&again);
    return status;
}
