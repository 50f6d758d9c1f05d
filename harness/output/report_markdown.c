/* report.md: what the page says, for a release note. */
#include "core/file.h"
#include "output/report_parts.h"

#include <math.h>

/* A cell as on the page; "-" where nothing is known. */
static void add_number(struct tern_str *out, const char *mark, double value, const char *unit) {
    if (isfinite(value))
        tern_str_printf(out, " %s%.*f%s |", mark, value < 9.995 ? 2 : value < 999.5 ? 1 : 0, value, unit);
    else
        tern_str_append(out, " - |");
}

static void add_means(struct tern_str *out, const struct report_model *model) {
    tern_str_append(out, "| format |");
    for (size_t r = 0; r < REPORT_RANGES; r++)
        tern_str_printf(out, " %s |", report_ranges[r].name);
    tern_str_append(out, " weights |\n|---|---:|---:|---:|---:|\n");
    for (size_t s = 0; s < model->series.count; s++) {
        const char *series = model->series.items[s];
        tern_str_printf(out, "| %s |", series);
        for (size_t r = 0; r < REPORT_RANGES; r++)
            add_number(out, "", report_mean_speedup(model, series, report_ranges[r].low, report_ranges[r].high), "x");
        add_number(out, "", report_model_bytes(model, series) * 1e-9, " GB");
        tern_str_append(out, "\n");
    }
    tern_str_append(
        out, "\nGeometric means over the layers of the speed-up against the fastest FP16 cuBLASLt answer; FP16 weights:");
    double bytes = report_model_bytes(model, NULL) * 1e-9;
    if (isfinite(bytes))
        tern_str_printf(out, " %.2f GB.\n", bytes);
    else
        tern_str_append(out, " not known.\n");
}

static void add_rows(struct tern_str *out, const struct report_model *model) {
    tern_str_append(
        out, "\n| format | layer | M | us | 95 % interval | speed-up | sustained | limit, us | of limit | template |\n"
             "|---|---|---:|---:|---:|---:|---:|---:|---:|---|\n");
    for (size_t i = 0; i < model->count; i++) {
        const struct tern_result *row = &model->rows[i];
        const char *mark = row->planned ? "~" : "";
        char series[64];
        report_series(row, series, sizeof series);
        tern_str_printf(out, "| %s | %s | %lld |", series, row->layer, (long long)row->m);
        add_number(out, mark, report_time_us(row), "");
        if (isfinite(row->us_lo) && isfinite(row->us_hi))
            tern_str_printf(out, " %.2f to %.2f |", row->us_lo, row->us_hi);
        else
            tern_str_append(out, " - |");
        add_number(out, "", row->speedup, "x");
        add_number(out, "", row->sustained_speedup, "x");
        add_number(out, "", row->limit_us, "");
        add_number(out, mark, report_percent(row), " %");
        tern_str_printf(out, " %s |\n", row->template_name[0] ? row->template_name : "none");
    }
}

enum tern_status report_write_markdown(const struct report *report, struct tern_error *err) {
    struct tern_str out = {0}, path = {0};
    tern_str_printf(&out, "# Quantised linear layers on %s\n", report->gpu->title);
    if (report->planned)
        tern_str_append(&out, "\n**Predicted, not measured**: compiled and ranked by a cost model without the GPU.\n");
    for (size_t i = 0; i < report->model_count; i++) {
        const struct report_model *model = &report->models[i];
        tern_str_printf(&out, "\n## %s\n\n", model->rows[0].shapes[0] ? model->rows[0].shapes : "Model not stated");
        add_means(&out, model);
        for (size_t p = 0; p < report->picture_count; p++)
            if (report->pictures[p].model == i)
                tern_str_printf(&out, "\n![%s](%s.png)\n", report->pictures[p].title, report->pictures[p].file);
        add_rows(&out, model);
    }
    tern_str_printf(&path, "%s/report.md", report->dir);
    enum tern_status status = tern_file_write(path.data, out.data, out.length, err);
    tern_str_free(&out);
    tern_str_free(&path);
    return status;
}
