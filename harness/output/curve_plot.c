/* Data file and pictures of curves. See curve.h. */
#include "output/curve.h"

#include "core/file.h"
#include "output/gnuplot.h"
#include "output/report_parts.h"

#include <math.h>
#include <string.h>

/* One line a step; column numbers are known to scripts/search.gp. A last line of each problem ends the curve where its search
 * ended. */
static void add_rows(const struct tern_curve *s, struct tern_str *out) {
    char series[64], layer[40];
    if (s->point_count == 0 || isnan(s->gpu_seconds))
        return;
    double best = s->points[s->point_count - 1].us;
    report_series(&s->problem, series, sizeof series);
    report_safe_name(s->problem.layer, layer, sizeof layer);
    for (size_t i = 0; i <= s->point_count; i++) {
        const struct tern_curve_point *p = &s->points[i < s->point_count ? i : i - 1];
        bool end = i == s->point_count;
        tern_str_printf(out, "%s\t%s\t%lld\t%lld\t%lld\t%zu\t%.6g\t%.6g\t%.6g\t%s\t%s\n", series, layer,
                        (long long)s->problem.n, (long long)s->problem.k, (long long)s->problem.m,
                        end ? s->trial_count : p->trial, end ? s->gpu_seconds : p->gpu_seconds, p->us, p->us / best,
                        p->template_name, p->params);
    }
}

/* The searches of one model, a slice. */
struct model {
    const struct tern_curve *list;
    size_t count;
    char name[40];
    struct tern_str data; /* path */
};

static enum tern_status write_data(struct model *model, const char *dir, struct tern_error *err) {
    struct tern_str text = {0};
    report_safe_name(model->list->problem.shapes, model->name, sizeof model->name);
    tern_str_printf(&model->data, "%s/data/%s-search.tsv", dir, model->name);
    tern_str_append(&text, "series\tlayer\tn\tk\tm\ttrial\tgpu_seconds\tus\tover_best\ttemplate\tparams\n");
    for (size_t i = 0; i < model->count; i++)
        add_rows(&model->list[i], &text);
    enum tern_status status = tern_file_write(model->data.data, text.data, text.length, err);
    tern_str_free(&text);
    return status;
}

/* Appends a word once; gnuplot's word() takes them apart again. */
static void add_word(struct tern_str *words, const char *word) {
    struct tern_str padded = {0}, wanted = {0};
    tern_str_printf(&padded, " %s ", tern_str_text(words));
    tern_str_printf(&wanted, " %s ", word);
    if (!strstr(padded.data, wanted.data))
        tern_str_printf(words, "%s%s", words->length ? " " : "", word);
    tern_str_free(&padded);
    tern_str_free(&wanted);
}

/* One picture of the problems of `series` in a model: a panel a layer, a line a batch size. */
static enum tern_status draw_series(const struct model *model, const char *dir, const char *gnuplot, const char *series,
                                    struct tern_error *err) {
    struct tern_str layers = {0}, sizes = {0}, file = {0}, title = {0}, caption = {0};
    double seconds = 0;
    char safe[64];
    for (size_t i = 0; i < model->count; i++) {
        char own[64], layer[40], m[24];
        report_series(&model->list[i].problem, own, sizeof own);
        if (strcmp(own, series) != 0 || isnan(model->list[i].gpu_seconds))
            continue;
        seconds += model->list[i].gpu_seconds;
        report_safe_name(model->list[i].problem.layer, layer, sizeof layer);
        tern_str_format(m, sizeof m, "%lld", (long long)model->list[i].problem.m);
        add_word(&layers, layer);
        add_word(&sizes, m);
    }
    report_safe_name(series, safe, sizeof safe);
    tern_str_printf(&file, "%s/%s-search-%s", dir, model->name, safe);
    tern_str_printf(&title, "Best so far over GPU seconds, %s", series);
    tern_str_printf(&caption, "%s, %s, %.1f GPU seconds in all", model->list->problem.gpu, model->list->problem.shapes,
                    seconds);
    const struct tern_gnuplot_picture picture = {"search.gp",      file.data,
                                                 model->data.data, title.data,
                                                 caption.data,     {series, tern_str_text(&layers), tern_str_text(&sizes)}};
    enum tern_status status = layers.length ? tern_gnuplot_draw(gnuplot, &picture, err) : TERN_OK;
    tern_str_free(&layers);
    tern_str_free(&sizes);
    tern_str_free(&file);
    tern_str_free(&title);
    tern_str_free(&caption);
    return status;
}

static enum tern_status draw_model(const struct model *model, const char *dir, const char *gnuplot, struct tern_error *err) {
    char series[64], last[64] = "";
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < model->count && !status; i++) {
        report_series(&model->list[i].problem, series, sizeof series);
        if (strcmp(series, last) != 0)
            status = draw_series(model, dir, gnuplot, series, err);
        tern_str_copy(last, sizeof last, series);
    }
    return status;
}

enum tern_status tern_curve_write(const char *dir, const struct tern_curves *all, struct tern_error *err) {
    struct tern_str path = {0}, left = {0};
    char gnuplot[4096];
    enum tern_status drawn = TERN_OK;
    tern_str_printf(&path, "%s/data", dir);
    tern_str_printf(&left, "%s holds the data", path.data);
    enum tern_status status = tern_file_check_writable_dir(path.data, err);
    if (!status)
        drawn = tern_gnuplot_find(left.data, gnuplot, sizeof gnuplot, err);
    for (size_t at = 0, count; at < all->count && !status; at += count) {
        struct model model = {.list = &all->list[at]};
        for (count = 1; at + count < all->count; count++)
            if (strcmp(all->list[at + count].problem.shapes, all->list[at].problem.shapes) != 0)
                break;
        model.count = count;
        status = write_data(&model, dir, drawn ? NULL : err);
        if (!status && !drawn)
            status = draw_model(&model, dir, gnuplot, err);
        tern_str_free(&model.data);
    }
    tern_str_free(&path);
    tern_str_free(&left);
    return status ? status : drawn;
}
