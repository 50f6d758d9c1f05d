/* Figures that sum a model up, and the trials that its tuning space shows. Pure functions of rows. */
#include "core/file.h"
#include "output/report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct report_range report_ranges[REPORT_RANGES] = {
    {"M = 1", 1, 1}, {"M = 2 to 64", 2, 64}, {"M above 64", 65, INT64_MAX}};

double report_mean_speedup(const struct report_model *model, const char *series, int64_t low, int64_t high) {
    double sum = 0.0;
    size_t count = 0;
    for (size_t i = 0; i < model->count; i++) {
        const struct tern_result *row = &model->rows[i];
        char name[64];
        report_series(row, name, sizeof name);
        if (strcmp(name, series) || row->m < low || row->m > high || !(row->speedup > 0.0))
            continue;
        sum += log(row->speedup);
        count++;
    }
    return count ? exp(sum / (double)count) : (double)NAN;
}

/* The first row of a layer, of any series where `series` is NULL. */
static size_t first_of(const struct report_model *model, const char *layer, const char *series) {
    for (size_t i = 0; i < model->count; i++) {
        char name[64], own[64];
        report_series(&model->rows[i], name, sizeof name);
        report_safe_name(model->rows[i].layer, own, sizeof own);
        if (!strcmp(own, layer) && (!series || !strcmp(name, series)))
            return i;
    }
    return model->count;
}

double report_model_bytes(const struct report_model *model, const char *series) {
    double sum = 0;
    for (size_t l = 0; l < model->layers.count; l++) {
        size_t i = first_of(model, model->layers.items[l], series);
        if (i == model->count)
            return (double)NAN;
        const struct tern_result *row = &model->rows[i];
        sum += (double)row->layer_count * (series ? model->weight_bytes[i] : 2.0 * (double)row->n * (double)row->k);
    }
    return sum > 0 ? sum : (double)NAN;
}

/* ---- the tuning space ---- */

static bool in_space(const struct tern_trial *t, const struct tern_result *problem) {
    return t->problem == problem && !strcmp(t->stage, "screen");
}

const struct tern_result *report_space_problem(const struct report_model *model, const char *series,
                                               const struct tern_trials *trials) {
    const struct tern_result *best = NULL;
    size_t most = 1; /* a single trial is no space */
    for (size_t i = 0; i < model->count; i++) {
        char name[64];
        size_t count = 0;
        report_series(&model->rows[i], name, sizeof name);
        if (strcmp(name, series) != 0)
            continue;
        for (size_t t = 0; t < trials->count; t++)
            count += in_space(&trials->rows[t], &model->rows[i]);
        if (count > most) {
            most = count;
            best = &model->rows[i];
        }
    }
    return best;
}

static int compare_ids(const void *left, const void *right) {
    const struct tern_trial *const *a = left, *const *b = right;
    return ((*a)->id > (*b)->id) - ((*a)->id < (*b)->id);
}

/* One line a trial, in the order in which they ran. Column numbers are known to scripts/space.gp. */
static void add_trials(const struct tern_result *problem, const char *series, const struct tern_trials *trials,
                       struct tern_str *out) {
    const struct tern_trial **list = tern_alloc((trials->count + 1) * sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < trials->count; i++)
        if (in_space(&trials->rows[i], problem))
            list[count++] = &trials->rows[i];
    qsort(list, count, sizeof *list, compare_ids);
    for (size_t i = 0; i < count; i++) {
        const struct tern_trial *t = list[i];
        bool winner = !strcmp(t->template_name, problem->template_name) && !strcmp(t->params, problem->params);
        tern_str_printf(out, "%s\t%s\t%lld\t%s\t%s\t%d", series, problem->layer, (long long)problem->m, t->template_name,
                        tern_outcome_name(t->outcome), winner);
        const double numbers[] = {t->predicted_us, t->outcome == TERN_OUTCOME_OK ? t->us : (double)NAN, problem->limit_us,
                                  problem->baseline_us > 0 ? problem->baseline_us : (double)NAN};
        for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
            tern_str_printf(out, isfinite(numbers[n]) ? "\t%.6g" : "\tNaN", numbers[n]);
        tern_str_printf(out, "\t%zu\t%s\n", i + 1, t->params);
    }
    free(list);
}

enum tern_status report_write_space(const char *dir, struct report_model *model, const struct tern_trials *trials,
                                    struct tern_error *err) {
    struct tern_str out = {0}, path = {0};
    tern_str_append(&out,
                    "series\tlayer\tm\ttemplate\toutcome\twinner\tpredicted_us\tus\tlimit_us\tbaseline_us\ttrial\tparams\n");
    for (size_t s = 0; s < model->series.count; s++) {
        const struct tern_result *problem = report_space_problem(model, model->series.items[s], trials);
        if (!problem)
            continue;
        add_trials(problem, model->series.items[s], trials, &out);
        tern_strs_add(&model->space, model->series.items[s]);
    }
    tern_str_printf(&path, "%s/data/%s-space.tsv", dir, model->name);
    enum tern_status status = model->space.count ? tern_file_write(path.data, out.data, out.length, err) : TERN_OK;
    tern_str_free(&out);
    tern_str_free(&path);
    return status;
}
