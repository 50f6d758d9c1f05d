/* Pictures of a report: which of them there are, and what they say. */
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
        status = draw(report, index, gnuplot, &plot, err);
    }
    return status;
}

/* The pictures of one model, in the order of the page: the sum first, then what it is made of. */
static enum tern_status draw_model(struct report *report, size_t index, const char *gnuplot, struct tern_error *err) {
    const struct report_model *model = &report->models[index];
    enum tern_status status = TERN_OK;
    if (model->has_totals) {
        struct plot plot =
            plan(model, "model.gp", "-model", "Time of all linear layers of the model",
                 "Sum over the layers, each times its number in the model. The mark in a bar is the limit: what "
                 "the GPU could do at best.");
        join(&model->model_m, plot.extra[1], sizeof plot.extra[1]);
        status = draw(report, index, gnuplot, &plot, err);
    }
    if (!status && model->has_speedup) {
        struct plot plot = plan(model, "heatmap.gp", "-heatmap", "Speed-up over the best FP16 cuBLASLt",
                                "Above 1 (blue) the quantised kernel is faster, below 1 (orange) cuBLASLt is.");
        status = draw(report, index, gnuplot, &plot, err);
    }
    if (!status)
        status = draw_latency(report, index, gnuplot, err);
    if (!status) {
        struct plot plot = plan(model, "limit.gp", "", "Share of the limit that is reached",
                                "One panel a layer: 100 % means that the kernel runs at what memory or arithmetic allow.");
        status = draw(report, index, gnuplot, &plot, err);
    }
    if (!status) {
        struct plot plot =
            plan(model, "roofline.gp", "", "Roofline: arithmetic rate over operations for each byte",
                 "Arithmetic rate against operations for each byte moved. A line joins the batch sizes of one "
                 "layer, small M at the left. The bent line is the memory and matrix rate, measured or of the data "
                 "sheet, as its legend says.");
        tern_str_format(plot.extra[2], sizeof plot.extra[2], "%.6g %.6g %s", report->gpu->memory_gbs,
                        report->gpu->f16_tflops, report->gpu->measured ? "measured" : "sheet");
        status = draw(report, index, gnuplot, &plot, err);
    }
    return status;
}

enum tern_status report_draw(struct report *report, struct tern_error *err) {
    char gnuplot[4096];
    size_t most = 0; /* pictures: four of a model and one of each format */
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < report->model_count; i++)
        most += 4 + report->models[i].series.count;
    report->pictures = tern_alloc_zero(most, sizeof *report->pictures);
    struct tern_str left = {0};
    tern_str_printf(&left, "%s holds the data and a page without pictures", report->dir);
    status = tern_gnuplot_find(left.data, gnuplot, sizeof gnuplot, err);
    tern_str_free(&left);
    for (size_t i = 0; i < report->model_count && !status; i++)
        status = draw_model(report, i, gnuplot, err);
    return status;
}
