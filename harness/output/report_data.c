/* Data files of a report: tab-separated tables that the gnuplot scripts read and people can reuse. Unknown numbers are NaN.
 */
#include "core/file.h"
#include "output/report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BAR_PANELS 4

static void add_number(struct tern_str *out, double value) {
    if (isfinite(value))
        tern_str_printf(out, "\t%.6g", value);
    else
        tern_str_append(out, "\tNaN");
}

/* data/MODEL + suffix + .tsv, replaced atomically. */
static enum tern_status write_file(const char *dir, const struct report_model *model, const char *suffix,
                                   const struct tern_str *text, struct tern_error *err) {
    struct tern_str path = {0};
    tern_str_printf(&path, "%s/data/%s%s.tsv", dir, model->name, suffix);
    enum tern_status status = tern_file_write(path.data, tern_str_text(text), text->length, err);
    tern_str_free(&path);
    return status;
}

/* One line a problem. Column numbers are known to scripts/{roofline,latency,limit}.gp. */
static void add_rows(const struct report_model *model, struct tern_str *out) {
    /* time_us is the median, or the prediction where planned is 1; tflops are 2MNK over it. */
    tern_str_append(out, "series\tlayer\tn\tk\tcount\tm\ttime_us\tus_lo\tus_hi\tplanned\tbaseline_us\tdequant_us\tlimit_us\t"
                         "speedup\tpct_of_limit\tflop_per_byte\ttflops\tsustained_us\tsustained_speedup\tdefault_"
                         "us\tdequant_e4m3_us\tpolicy\n");
    for (size_t i = 0; i < model->count; i++) {
        const struct tern_result *row = &model->rows[i];
        char series[64], layer[40];
        double us = report_time_us(row), flop = 2.0 * (double)row->m * (double)row->n * (double)row->k;
        const double numbers[] = {row->baseline_us,       row->dequant_us,        row->limit_us,       row->speedup,
                                  report_percent(row),    flop / model->bytes[i], flop / (us * 1e6),   row->sustained_us,
                                  row->sustained_speedup, row->default_us,        row->dequant_e4m3_us};
        report_series(row, series, sizeof series);
        report_safe_name(row->layer, layer, sizeof layer);
        tern_str_printf(out, "%s\t%s\t%lld\t%lld\t%lld\t%lld", series, layer, (long long)row->n, (long long)row->k,
                        (long long)row->layer_count, (long long)row->m);
        add_number(out, us);
        add_number(out, row->us_lo);
        add_number(out, row->us_hi);
        tern_str_printf(out, "\t%d", row->planned);
        for (size_t c = 0; c < sizeof numbers / sizeof numbers[0]; c++)
            add_number(out, numbers[c]);
        tern_str_printf(out, "\t%s\n", row->policy);
    }
}

static int compare_m(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Distinct M of the model, ascending; the caller frees. */
static int64_t *distinct_m(const struct report_model *model, size_t *count) {
    int64_t *m = tern_alloc(model->count * sizeof *m);
    size_t kept = 0;
    for (size_t i = 0; i < model->count; i++)
        m[i] = model->rows[i].m;
    qsort(m, model->count, sizeof *m, compare_m);
    for (size_t i = 0; i < model->count; i++)
        if (!i || m[i] != m[i - 1])
            m[kept++] = m[i];
    *count = kept;
    return m;
}

/* One line a cell: x (index of M), y (index of layer within series, downwards), log2 of the speed-up, its text, labels. */
static void add_cells(struct report_model *model, const int64_t *m, size_t m_count, struct tern_str *out) {
    double y = 0.0;
    tern_str_append(out, "x\ty\tlog2_speedup\ttext\tm\trow\n");
    for (size_t i = 0; i < model->count; i++) {
        const struct tern_result *row = &model->rows[i];
        char series[64], last[64], layer[40];
        size_t x = 0;
        report_series(row, series, sizeof series);
        report_series(row - (i > 0), last, sizeof last);
        if (i && strcmp(series, last))
            y -= 1.5; /* a gap between formats */
        else if (i && strcmp(row->layer, row[-1].layer))
            y -= 1.0;
        if (!(row->speedup > 0.0))
            continue;
        while (x + 1 < m_count && m[x] != row->m)
            x++;
        report_safe_name(row->layer, layer, sizeof layer);
        tern_str_printf(out, "%zu\t%.1f\t%.4f\t%.*f\t%lld\t%s  %s\n", x, y, log2(row->speedup), row->speedup < 9.95 ? 1 : 0,
                        row->speedup, (long long)row->m, series, layer);
        model->has_speedup = true;
    }
}

/* Fastest FP16 cuBLASLt time of a row's (N, K, M) in the model: a baseline does not depend on the format. */
static double best_baseline(const struct report_model *model, const struct tern_result *like) {
    double best = NAN;
    for (size_t i = 0; i < model->count; i++) {
        const struct tern_result *row = &model->rows[i];
        if (row->n == like->n && row->k == like->k && row->m == like->m && !(row->baseline_us >= best) &&
            isfinite(row->baseline_us))
            best = row->baseline_us;
    }
    return best;
}

struct total { /* all linear layers of the model at one M, milliseconds */
    double ms, baseline_ms, limit_ms;
    size_t layers;
};

/* Sums one series at one M over its layers, each times its number in the model; NAN as soon as one part is unknown. */
static struct total total_of(const struct report_model *model, const char *series, int64_t m) {
    struct total total = {0};
    for (size_t i = 0; i < model->count; i++) {
        const struct tern_result *row = &model->rows[i];
        char name[64];
        report_series(row, name, sizeof name);
        if (row->m != m || strcmp(name, series))
            continue;
        double count = (double)row->layer_count / 1000.0;
        total.ms += count * report_time_us(row);
        total.baseline_ms += count * best_baseline(model, row);
        total.limit_ms += count * row->limit_us;
        total.layers++;
    }
    return total;
}

/* Bars of one M: FP16 first, then each format that was tuned for every layer. False if there is none. */
static bool add_bars(struct report_model *model, int64_t m, struct tern_str *out) {
    struct tern_str bars = {0};
    double baseline = NAN;
    size_t y = 1;
    for (size_t s = 0; s < model->series.count; s++) {
        struct total total = total_of(model, model->series.items[s], m);
        /* A format that lacks a layer would look fast. */
        if (total.layers != model->layers.count || !(total.ms > 0.0))
            continue;
        if (isfinite(total.baseline_ms))
            baseline = total.baseline_ms;
        report_add_once(&model->barred, model->series.items[s]);
        tern_str_printf(&bars, "%lld\t%zu\t%zu\t%s", (long long)m, y++, s + 1, model->series.items[s]);
        add_number(&bars, total.ms);
        add_number(&bars, total.limit_ms);
        add_number(&bars, total.baseline_ms / total.ms);
        tern_str_append(&bars, "\n");
    }
    if (y > 1) {
        if (isfinite(baseline))
            tern_str_printf(out, "%lld\t0\t0\tFP16 cuBLASLt\t%.6g\tNaN\t1\n", (long long)m, baseline);
        tern_str_append(out, tern_str_text(&bars));
    }
    tern_str_free(&bars);
    return y > 1;
}

/* Up to four panels: one token, the largest decode batch, a usual prefill, the largest M. */
static void add_totals(struct report_model *model, const int64_t *m, size_t m_count, struct tern_str *out) {
    int64_t decode = m[0], prefill = m[0];
    for (size_t i = 0; i < m_count; i++) {
        decode = m[i] <= 64 ? m[i] : decode;
        prefill = m[i] <= 1024 ? m[i] : prefill;
    }
    const int64_t wanted[MAX_BAR_PANELS] = {m[0], decode, prefill, m[m_count - 1]};
    tern_str_append(out, "m\ty\tcolour\tseries\tms\tlimit_ms\tspeedup\n");
    for (size_t i = 0; i < MAX_BAR_PANELS; i++) {
        char text[32];
        if ((i && wanted[i] <= wanted[i - 1]) || !add_bars(model, wanted[i], out))
            continue;
        tern_str_format(text, sizeof text, "%lld", (long long)wanted[i]);
        tern_strs_add(&model->model_m, text);
        model->has_totals = true;
    }
}

enum tern_status report_write_data(const char *dir, struct report_model *model, struct tern_error *err) {
    struct tern_str rows = {0}, cells = {0}, totals = {0};
    size_t m_count = 0;
    int64_t *m = distinct_m(model, &m_count);
    add_rows(model, &rows);
    add_cells(model, m, m_count, &cells);
    add_totals(model, m, m_count, &totals);
    enum tern_status status = write_file(dir, model, "", &rows, err);
    if (!status)
        status = write_file(dir, model, "-heatmap", &cells, err);
    if (!status)
        status = write_file(dir, model, "-model", &totals, err);
    free(m);
    tern_str_free(&rows);
    tern_str_free(&cells);
    tern_str_free(&totals);
    return status;
}
