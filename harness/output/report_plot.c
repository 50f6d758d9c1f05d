/* Pictures of a report: which of them there are, and what they say. */
#include "core/file.h"
#include "output/gnuplot.h"
#include "output/report_parts.h"

#include <stdlib.h>
#include <string.h>

struct plot {                /* one picture to draw */
    const char *script;      /* in scripts/ */
    const char *data_suffix; /* data/MODEL + this + .tsv */
    char file[160], title[120], about[400];
    char extra[3][1024]; /* ARG6, ARG7, ARG8 of the script */
};

/* Words with blanks between, as gnuplot's word() takes them; the names hold no blanks. */
static void join(const struct tern_strs *words, char *out, size_t size) {
    struct tern_str text = {0};
    for (size_t i = 0; i < words->count; i++)
        tern_str_printf(&text, "%s%s", i ? " " : "", words->items[i]);
    tern_str_copy(out, size, tern_str_text(&text));
    tern_str_free(&text);
}

/* Draws one picture in both forms and notes it. */
static enum tern_status draw(struct report *report, size_t index, const char *gnuplot, const struct plot *plot,
                             struct tern_error *err) {
    const struct report_model *model = &report->models[index];
    struct tern_str caption = {0}, data = {0}, file = {0};
    tern_str_printf(&caption, "%s%s, %s%s", model->planned ? "PREDICTED by a cost model, not measured: " : "",
                    report->gpu->title, model->rows[0].shapes, model->planned ? "" : ", measured");
    tern_str_printf(&data, "%s/data/%s%s.tsv", report->dir, model->name, plot->data_suffix);
    tern_str_printf(&file, "%s/%s", report->dir, plot->file);
    const struct tern_gnuplot_picture drawing = {
        plot->script, file.data, data.data, plot->title, caption.data, {plot->extra[0], plot->extra[1], plot->extra[2]}};
    enum tern_status status = tern_gnuplot_draw(gnuplot, &drawing, err);
    if (!status) {
        struct report_picture *picture = &report->pictures[report->picture_count++];
        tern_str_copy(picture->file, sizeof picture->file, plot->file);
        tern_str_copy(picture->title, sizeof picture->title, plot->title);
        tern_str_copy(picture->about, sizeof picture->about, plot->about);
        picture->model = index;
    }
    tern_str_free(&caption);
    tern_str_free(&data);
    tern_str_free(&file);
    return status;
}

/* A picture of the whole model: MODEL-SCRIPT.svg, with its series and layers as arguments. */
static struct plot plan(const struct report_model *model, const char *script, const char *data_suffix, const char *title,
                        const char *about) {
    struct plot plot = {.script = script, .data_suffix = data_suffix};
    tern_str_format(plot.file, sizeof plot.file, "%s-%.*s", model->name, (int)strcspn(script, "."), script);
    tern_str_copy(plot.title, sizeof plot.title, title);
    tern_str_copy(plot.about, sizeof plot.about, about);
    join(&model->series, plot.extra[0], sizeof plot.extra[0]);
    join(&model->layers, plot.extra[1], sizeof plot.extra[1]);
    return plot;
}

/* Layers that the series has rows of: a panel of none cannot be drawn. Row names are compared as files and gnuplot have them. */
static void join_layers_of(const struct report_model *model, const char *series, char *out, size_t size) {
    struct tern_strs layers = {0};
    for (size_t i = 0; i < model->count; i++) {
        char own[64], layer[64];
        report_series(&model->rows[i], own, sizeof own);
        report_safe_name(model->rows[i].layer, layer, sizeof layer);
        if (!strcmp(own, series))
            report_add_once(&layers, layer);
    }
    join(&layers, out, size);
    tern_strs_free(&layers);
}

/* One picture a format: four lines a panel are as many as can be told apart. */
static enum tern_status draw_latency(struct report *report, size_t index, const char *gnuplot, struct tern_error *err) {
    const struct report_model *model = &report->models[index];
    enum tern_status status = TERN_OK;
    for (size_t s = 0; s < model->series.count && !status; s++) {
        char safe[64];
        struct plot plot =
            plan(model, "latency.gp", "", "",
                 "One panel a layer, both axes logarithmic: time of one launch against the batch size M. "
                 "The limit is the time in which this GPU could at best move the bytes and do the arithmetic.");
        report_safe_name(model->series.items[s], safe, sizeof safe);
        tern_str_format(plot.file, sizeof plot.file, "%s-latency-%s", model->name, safe);
        tern_str_format(plot.title, sizeof plot.title, "Latency of %s layers over batch size", model->series.items[s]);
        tern_str_copy(plot.extra[0], sizeof plot.extra[0], model->series.items[s]);
        join_layers_of(model, model->series.items[s], plot.extra[1], sizeof plot.extra[1]);
        status = draw(report, index, gnuplot, &plot, err);
    }
    return status;
}

static enum tern_status draw_totals(struct report *report, size_t index, const char *gnuplot, struct tern_error *err) {
    const struct report_model *model = &report->models[index];
    struct plot plot = plan(model, "model.gp", "-model", "Time of all tuned linear layers of the model",
                            "Sum over the layers, each times its number in the model. The mark in a bar is the limit: what "
                            "the GPU could do at best.");
    join(&model->barred, plot.extra[0], sizeof plot.extra[0]);
    join(&model->model_m, plot.extra[1], sizeof plot.extra[1]);
    return model->has_totals ? draw(report, index, gnuplot, &plot, err) : TERN_OK;
}

static enum tern_status draw_roofline(struct report *report, size_t index, const char *gnuplot, struct tern_error *err) {
    struct plot plot =
        plan(&report->models[index], "roofline.gp", "", "Roofline: arithmetic rate over operations for each byte",
             "Arithmetic rate against operations for each byte moved. A line joins the batch sizes of one "
             "layer, small M at the left. The bent line is the memory and matrix rate, measured or of the data "
             "sheet, as its legend says.");
    tern_str_format(plot.extra[2], sizeof plot.extra[2], "%.6g %.6g %s", report->gpu->memory_gbs, report->gpu->f16_tflops,
                    report->gpu->measured ? "measured" : "sheet");
    return draw(report, index, gnuplot, &plot, err);
}

static enum tern_status draw_heatmap(struct report *report, size_t index, const char *gnuplot, struct tern_error *err) {
    const struct report_model *model = &report->models[index];
    struct plot plot = plan(model, "heatmap.gp", "-heatmap", "Speed-up over the best FP16 cuBLASLt",
                            "Above 1 (blue) the quantised kernel is faster, below 1 (orange) cuBLASLt is.");
    return model->has_speedup ? draw(report, index, gnuplot, &plot, err) : TERN_OK;
}

static enum tern_status draw_limit(struct report *report, size_t index, const char *gnuplot, struct tern_error *err) {
    struct plot plot = plan(&report->models[index], "limit.gp", "", "Share of the limit that is reached",
                            "One panel a layer: 100 % means that the kernel runs at what memory or arithmetic allow.");
    return draw(report, index, gnuplot, &plot, err);
}

static enum tern_status draw_sustained(struct report *report, size_t index, const char *gnuplot, struct tern_error *err) {
    const struct report_model *model = &report->models[index];
    struct plot plot =
        plan(model, "sustained.gp", "", "Speed-up on a rested card and under load",
             "Large products only: filled marks on a card that rested, open marks with each side under its own "
             "load, where the power cap holds the clock down. Above 1 the quantised kernel is faster.");
    return model->has_sustained ? draw(report, index, gnuplot, &plot, err) : TERN_OK;
}

/* The templates and the outcomes other than ok among the trials of a problem, as words. */
static void space_words(const struct tern_trials *trials, const struct tern_result *problem, struct plot *plot) {
    struct tern_strs templates = {0}, outcomes = {0};
    for (size_t i = 0; i < trials->count; i++) {
        const struct tern_trial *t = &trials->rows[i];
        if (t->problem != problem || strcmp(t->stage, "screen") != 0)
            continue;
        report_add_once(&templates, t->template_name);
        if (t->outcome != TERN_OUTCOME_OK)
            report_add_once(&outcomes, tern_outcome_name(t->outcome));
    }
    join(&templates, plot->extra[1], sizeof plot->extra[1]);
    join(&outcomes, plot->extra[2], sizeof plot->extra[2]);
    tern_strs_free(&templates);
    tern_strs_free(&outcomes);
}

/* The tuning space of the problem of each format that was tried most. */
static enum tern_status draw_space(struct report *report, size_t index, const char *gnuplot, struct tern_error *err) {
    const struct report_model *model = &report->models[index];
    enum tern_status status = TERN_OK;
    for (size_t s = 0; s < model->space.count && !status; s++) {
        const char *series = model->space.items[s];
        const struct tern_result *problem = report_space_problem(model, series, report->evidence->trials);
        char safe[64];
        struct plot plot =
            plan(model, "space.gp", "-space", "",
                 "Every candidate that was tried on the problem with the most trials, in the order of the search, and "
                 "what the cost model had predicted. Those that failed stand at the upper edge.");
        report_safe_name(series, safe, sizeof safe);
        tern_str_format(plot.file, sizeof plot.file, "%s-space-%s", model->name, safe);
        tern_str_format(plot.title, sizeof plot.title, "Tuning space of %s %s, M = %lld", series, problem->layer,
                        (long long)problem->m);
        tern_str_copy(plot.extra[0], sizeof plot.extra[0], series);
        space_words(report->evidence->trials, problem, &plot);
        status = draw(report, index, gnuplot, &plot, err);
    }
    return status;
}

/* Pictures of tern_curve_write are notes here: it draws all models at once. */
static void note_search(struct report *report, size_t index) {
    const struct report_model *model = &report->models[index];
    for (size_t s = 0; s < model->series.count; s++) {
        struct report_picture *picture = &report->pictures[report->picture_count];
        struct tern_str file = {0};
        char safe[64];
        report_safe_name(model->series.items[s], safe, sizeof safe);
        tern_str_format(picture->file, sizeof picture->file, "%s-search-%s", model->name, safe);
        tern_str_printf(&file, "%s/%s.svg", report->dir, picture->file);
        if (tern_file_exists(file.data)) {
            tern_str_format(picture->title, sizeof picture->title, "Best so far over GPU seconds, %s",
                            model->series.items[s]);
            tern_str_copy(picture->about, sizeof picture->about,
                          "How far the best candidate so far was from the best of all, while the search went on.");
            picture->model = index;
            report->picture_count++;
        }
        tern_str_free(&file);
    }
}

/* The pictures of one model, in the order of the page: the sum first, then what it is made of, then how it was found. */
static enum tern_status draw_model(struct report *report, size_t index, const char *gnuplot, struct tern_error *err) {
    static enum tern_status (*const drawers[])(struct report *, size_t, const char *, struct tern_error *) = {
        draw_totals, draw_heatmap, draw_latency, draw_sustained, draw_limit, draw_roofline, draw_space};
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < sizeof drawers / sizeof drawers[0] && !status; i++)
        status = drawers[i](report, index, gnuplot, err);
    if (!status && report->evidence->curves && report->evidence->curves->count)
        note_search(report, index);
    return status;
}

enum tern_status report_draw(struct report *report, struct tern_error *err) {
    const struct tern_curves *curves = report->evidence->curves;
    char gnuplot[4096];
    size_t most = 0; /* pictures: five of a model and three of each format */
    for (size_t i = 0; i < report->model_count; i++)
        most += 5 + 3 * report->models[i].series.count;
    report->pictures = tern_alloc_zero(most, sizeof *report->pictures);
    struct tern_str left = {0};
    tern_str_printf(&left, "%s holds the data and a page without pictures", report->dir);
    enum tern_status status = tern_gnuplot_find(left.data, gnuplot, sizeof gnuplot, err);
    tern_str_free(&left);
    if (curves && curves->count) { /* its data file is written without gnuplot too */
        enum tern_status written = tern_curve_write(report->dir, curves, status ? NULL : err);
        status = status ? status : written;
    }
    for (size_t i = 0; i < report->model_count && !status; i++)
        status = draw_model(report, i, gnuplot, err);
    return status;
}
