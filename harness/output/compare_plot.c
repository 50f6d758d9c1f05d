/* Data file, Markdown and pictures of a comparison. See compare.h. */
#include "output/compare_parts.h"

#include "core/file.h"
#include "output/gnuplot.h"
#include "output/report_parts.h"

#include <math.h>
#include <string.h>

/* One GPU and model: a picture of its own. */
struct part {
    char name[96]; /* "h200-qwen7b", as far as the rows know; also column 1 of the data */
    struct tern_strs series, layers;
    size_t judged;
};

static void part_name(const struct tern_compare_row *row, char *out, size_t size) {
    const struct tern_result *problem = compare_either(row);
    char gpu[40], shapes[40];
    report_safe_name(problem->gpu, gpu, sizeof gpu);
    report_safe_name(problem->shapes, shapes, sizeof shapes);
    if (problem->gpu[0] && problem->shapes[0])
        tern_str_format(out, size, "%s-%s", gpu, shapes);
    else
        tern_str_copy(out, size, problem->gpu[0] ? gpu : problem->shapes[0] ? shapes : "all");
}

static void add_number(struct tern_str *out, double value) {
    if (isfinite(value))
        tern_str_printf(out, "\t%.6g", value);
    else
        tern_str_append(out, "\tNaN");
}

/* One line a problem; column numbers are known to scripts/compare.gp. */
static enum tern_status write_data(const char *path, const struct tern_compare *c, struct tern_error *err) {
    struct tern_str out = {0};
    tern_str_append(&out, "part\tseries\tlayer\tn\tk\tm\ta_us\tb_us\tchange_pct\tlo_pct\thi_pct\tnoise_pct\tverdict\n");
    for (size_t i = 0; i < c->count; i++) {
        const struct tern_compare_row *row = &c->rows[i];
        const struct tern_result *problem = compare_either(row);
        char name[96], series[64], layer[40];
        part_name(row, name, sizeof name);
        report_series(problem, series, sizeof series);
        report_safe_name(problem->layer, layer, sizeof layer);
        tern_str_printf(&out, "%s\t%s\t%s\t%lld\t%lld\t%lld", name, series, layer, (long long)problem->n,
                        (long long)problem->k, (long long)problem->m);
        const double numbers[] = {row->a ? row->a->us : (double)NAN,
                                  row->b ? row->b->us : (double)NAN,
                                  100 * (row->ratio - 1),
                                  100 * (row->lo - 1),
                                  100 * (row->hi - 1),
                                  100 * row->noise};
        for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
            add_number(&out, numbers[n]);
        tern_str_printf(&out, "\t%s\n", tern_compare_verdict_name(row->verdict));
    }
    enum tern_status status = tern_file_write(path, out.data, out.length, err);
    tern_str_free(&out);
    return status;
}

static void add_once(struct tern_strs *list, const char *text) {
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->items[i], text))
            return;
    tern_strs_add(list, text);
}

/* Series and layers of the part that starts at row `first`, in row order. */
static void collect(const struct tern_compare *c, size_t first, struct part *part) {
    part_name(&c->rows[first], part->name, sizeof part->name);
    for (size_t i = first; i < c->count; i++) {
        char name[96];
        part_name(&c->rows[i], name, sizeof name);
        if (strcmp(name, part->name) || !(c->rows[i].ratio > 0))
            continue;
        report_series(compare_either(&c->rows[i]), name, sizeof name);
        add_once(&part->series, name);
        report_safe_name(compare_either(&c->rows[i])->layer, name, sizeof name);
        add_once(&part->layers, name);
        part->judged++;
    }
}

static void join(const struct tern_strs *words, struct tern_str *out) {
    for (size_t i = 0; i < words->count; i++)
        tern_str_printf(out, "%s%s", i ? " " : "", words->items[i]);
}

static enum tern_status draw(const char *dir, const char *data, const char *gnuplot, const struct tern_compare *c,
                             const struct part *part, struct tern_error *err) {
    struct tern_str file = {0}, title = {0}, caption = {0}, series = {0}, layers = {0};
    tern_str_printf(&file, "%s/compare-%s", dir, part->name);
    tern_str_printf(&title, "Change of the winner's time, %s against %s", c->b, c->a);
    tern_str_printf(&caption,
                    "%s. Below 0: %s is faster. Grey: counts as no change. Bars: 95 %% intervals; open marks: ambiguous",
                    part->name, c->b);
    join(&part->series, &series);
    join(&part->layers, &layers);
    const struct tern_gnuplot_picture picture = {"compare.gp", file.data,    data,
                                                 title.data,   caption.data, {series.data, layers.data, part->name}};
    enum tern_status status = tern_gnuplot_draw(gnuplot, &picture, err);
    tern_str_free(&file);
    tern_str_free(&title);
    tern_str_free(&caption);
    tern_str_free(&series);
    tern_str_free(&layers);
    return status;
}

/* A picture of every part that has something to show. */
static enum tern_status draw_parts(const char *dir, const char *data, const char *gnuplot, const struct tern_compare *c,
                                   struct tern_error *err) {
    struct tern_strs done = {0};
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < c->count && !status; i++) {
        struct part part = {0};
        size_t before = done.count;
        part_name(&c->rows[i], part.name, sizeof part.name);
        add_once(&done, part.name);
        if (done.count == before)
            continue;
        collect(c, i, &part);
        if (part.judged)
            status = draw(dir, data, gnuplot, c, &part, err);
        tern_strs_free(&part.series);
        tern_strs_free(&part.layers);
    }
    tern_strs_free(&done);
    return status;
}

enum tern_status tern_compare_write(const char *dir, const struct tern_compare *c, struct tern_error *err) {
    struct tern_str data = {0}, page = {0}, text = {0}, left = {0};
    char gnuplot[4096];
    tern_str_printf(&data, "%s/data", dir);
    enum tern_status status = tern_file_check_writable_dir(data.data, err);
    tern_str_append(&data, "/compare.tsv");
    tern_str_printf(&page, "%s/compare.md", dir);
    compare_markdown(&text, c);
    if (!status)
        status = write_data(data.data, c, err);
    if (!status)
        status = tern_file_write(page.data, text.data, text.length, err);
    tern_str_printf(&left, "%s and %s are there", data.data, page.data);
    if (!status)
        status = tern_gnuplot_find(left.data, gnuplot, sizeof gnuplot, err);
    if (!status)
        status = draw_parts(dir, data.data, gnuplot, c, err);
    tern_str_free(&data);
    tern_str_free(&page);
    tern_str_free(&text);
    tern_str_free(&left);
    return status;
}
