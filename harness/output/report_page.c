/* The page of a report: one static HTML file that works from file://, with no network and no framework. */
#include "core/file.h"
#include "output/report_parts.h"

#include <math.h>
#include <string.h>

static const char page_head[] = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";

/* Scrolling boxes instead of breakpoints: the page is one column at any width. */
static const char page_style[] =
    "<style>\n"
    ":root { color-scheme: light; }\n"
    "* { box-sizing: border-box; }\n"
    "body { margin: 0 auto; max-width: 68rem; padding: 1.5rem 1rem 4rem; background: #fff; color: #1b1f24;\n"
    "       font: 16px/1.5 system-ui, \"Segoe UI\", \"DejaVu Sans\", sans-serif; }\n"
    "h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .25rem; }\n"
    "h2 { font-size: 1.3rem; margin: 2.5rem 0 .75rem; border-bottom: 1px solid #d5dae0; padding-bottom: .25rem; }\n"
    "h3 { font-size: 1.05rem; margin: 2rem 0 .25rem; }\n"
    "p { margin: .25rem 0 .75rem; max-width: 46rem; }\n"
    ".quiet { color: #57606a; }\n"
    ".planned { border-left: .4rem solid #d55e00; background: #fff4ec; padding: .75rem 1rem; margin: 1rem 0; max-width: "
    "none; }\n"
    ".facts { font-size: 1rem; }\n"
    ".facts td { font-weight: 600; }\n"
    ".wide { overflow-x: auto; -webkit-overflow-scrolling: touch; }\n"
    "img { display: block; width: 100%; min-width: 44rem; height: auto; }\n"
    "table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; white-space: nowrap; }\n"
    "th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #e6e9ed; }\n"
    "th { position: sticky; top: 0; background: #f3f5f7; }\n"
    "th button { all: unset; cursor: pointer; font-weight: 600; }\n"
    "th button:focus-visible { outline: 2px solid #0072b2; }\n"
    "th[aria-sort=ascending] button::after { content: \" \\2191\"; }\n"
    "th[aria-sort=descending] button::after { content: \" \\2193\"; }\n"
    ".t { text-align: left; }\n"
    ".table { max-height: 34rem; overflow: auto; border: 1px solid #d5dae0; }\n"
    "</style>\n</head>\n<body>\n";

/* Numbers sort as numbers, unknown ones last; text sorts as text. */
static const char page_script[] =
    "<script>\n"
    "for (const table of document.querySelectorAll('.table table')) {\n"
    "  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];\n"
    "  heads.forEach((head, column) => head.querySelector('button').addEventListener('click', () => {\n"
    "    const down = head.getAttribute('aria-sort') === 'ascending';\n"
    "    heads.forEach(h => h.removeAttribute('aria-sort'));\n"
    "    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');\n"
    "    const text = head.classList.contains('t');\n"
    "    const value = row => text ? row.cells[column].textContent : parseFloat(row.cells[column].textContent.replace('~', "
    "''));\n"
    "    const order = (a, b) => text ? a.localeCompare(b)\n"
    "      : Number.isNaN(a) - Number.isNaN(b) || a - b || 0;\n"
    "    const rows = [...body.rows].map(row => [value(row), row]);\n"
    "    rows.sort((a, b) => !text && (Number.isNaN(a[0]) || Number.isNaN(b[0])) ? order(a[0], b[0])\n"
    "      : down ? order(b[0], a[0]) : order(a[0], b[0]));\n"
    "    rows.forEach(pair => body.append(pair[1]));\n"
    "  }));\n"
    "}\n"
    "</script>\n</body>\n</html>\n";

/* Names come from configs and may hold anything. */
static void add_escaped(struct tern_str *out, const char *text) {
    for (; *text; text++) {
        const char *entity = *text == '&'   ? "&amp;"
                             : *text == '<' ? "&lt;"
                             : *text == '>' ? "&gt;"
                             : *text == '"' ? "&quot;"
                                            : NULL;
        if (entity)
            tern_str_append(out, entity);
        else
            tern_str_append_bytes(out, text, 1);
    }
}

/* open + escaped text + close; open and close are ours and may hold markup. */
static void add_element(struct tern_str *out, const char *open, const char *text, const char *close) {
    tern_str_append(out, open);
    add_escaped(out, text);
    tern_str_append(out, close);
}

/* A cell: two decimals below 10, one below 1000, none above; a dash where nothing is known. */
static void add_number(struct tern_str *out, const char *mark, double value, const char *unit) {
    if (!isfinite(value))
        tern_str_append(out, "<td>–</td>");
    else
        tern_str_printf(out, "<td>%s%.*f%s</td>", mark, value < 9.995 ? 2 : value < 999.5 ? 1 : 0, value, unit);
}

/* One problem. Times in microseconds. The columns are those of add_table. */
static void add_row(struct tern_str *out, const struct tern_result *row) {
    char series[64];
    report_series(row, series, sizeof series);
    add_element(out, "<tr><td class=\"t\">", series, "</td>");
    add_element(out, "<td class=\"t\">", row->layer, "</td>");
    tern_str_printf(out, "<td>%lld</td><td>%lld</td><td>%lld</td>", (long long)row->m, (long long)row->n, (long long)row->k);
    add_number(out, row->planned ? "~" : "", report_time_us(row), "");
    if (isfinite(row->us_lo) && isfinite(row->us_hi))
        tern_str_printf(out, "<td>%.2f – %.2f</td>", row->us_lo, row->us_hi);
    else
        tern_str_append(out, "<td>–</td>");
    add_number(out, "", row->baseline_us, "");
    add_number(out, "", row->speedup, "×");
    add_number(out, "", row->sustained_us, "");
    add_number(out, "", row->sustained_speedup, "×");
    add_number(out, "", row->limit_us, "");
    add_number(out, row->planned ? "~" : "", report_percent(row), " %");
    add_number(out, "", row->p_best, "");
    add_number(out, "", 100 * row->regret, " %");
    add_element(out, "<td class=\"t\">", row->policy, "</td>");
    if (row->build_key[0])
        tern_str_printf(out, "<td>%lld</td><td>%lld</td>", (long long)row->registers, (long long)row->spill_bytes);
    else /* rows of a release: text does not tell */
        tern_str_append(out, "<td>–</td><td>–</td>");
    add_element(out, "<td class=\"t\">", row->template_name[0] ? row->template_name : "none", "</td>");
    add_element(out, "<td class=\"t\">", row->params, "</td></tr>\n");
}

/* The sortable table: headings are buttons, so that the keyboard reaches them; class t marks text columns for the script. */
static void add_table(struct tern_str *out, const struct report_model *model) {
    static const struct {
        const char *name, *kind;
    } columns[] = {{"format", " class=\"t\""},
                   {"layer", " class=\"t\""},
                   {"M", ""},
                   {"N", ""},
                   {"K", ""},
                   {"µs", ""},
                   {"95 % interval, µs", ""},
                   {"best cuBLASLt, µs", ""},
                   {"speed-up", ""},
                   {"sustained, µs", ""},
                   {"sustained speed-up", ""},
                   {"limit, µs", ""},
                   {"of limit", ""},
                   {"P(best)", ""},
                   {"regret", ""},
                   {"policy", " class=\"t\""},
                   {"registers", ""},
                   {"spilled, bytes", ""},
                   {"template", " class=\"t\""},
                   {"parameters", " class=\"t\""}};
    tern_str_append(out, "<h3>Every problem</h3>\n<p class=\"quiet\">Click a heading to sort. “~” marks a prediction.</p>\n"
                         "<div class=\"table\" tabindex=\"0\"><table>\n<thead><tr>");
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        tern_str_printf(out, "<th%s><button>%s</button></th>", columns[i].kind, columns[i].name);
    tern_str_append(out, "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < model->count; i++)
        add_row(out, &model->rows[i]);
    tern_str_append(out, "</tbody>\n</table></div>\n");
}

/* Mean speed-ups, a line a format; nothing where nothing was measured. */
static void add_facts(struct tern_str *out, const struct report_model *model) {
    tern_str_printf(out, "<p>%zu problem%s.", model->count, model->count == 1 ? "" : "s");
    if (model->has_speedup)
        tern_str_append(out,
                        " Geometric mean over the layers of the speed-up against the fastest FP16 cuBLASLt answer for the "
                        "same problem, and the size of all these weights:");
    tern_str_append(out, "</p>\n<div class=\"wide\"><table class=\"facts\">\n<tr><th class=\"t\">format</th>");
    for (size_t r = 0; r < REPORT_RANGES && model->has_speedup; r++)
        tern_str_printf(out, "<th>%s</th>", report_ranges[r].name);
    tern_str_append(out, "<th>weights</th></tr>\n");
    for (size_t s = 0; s < model->series.count; s++) {
        const char *series = model->series.items[s];
        add_element(out, "<tr><td class=\"t\">", series, "</td>");
        for (size_t r = 0; r < REPORT_RANGES && model->has_speedup; r++)
            add_number(out, "", report_mean_speedup(model, series, report_ranges[r].low, report_ranges[r].high), "×");
        add_number(out, "", report_model_bytes(model, series) * 1e-9, " GB");
        tern_str_append(out, "</tr>\n");
    }
    tern_str_append(out, "<tr><td class=\"t\">FP16</td>");
    for (size_t r = 0; r < REPORT_RANGES && model->has_speedup; r++)
        tern_str_append(out, "<td>1</td>");
    add_number(out, "", report_model_bytes(model, NULL) * 1e-9, " GB");
    tern_str_append(out, "</tr>\n</table></div>\n");
}

/* Each picture in a box that scrolls sideways: at phone width its text stays readable. */
static void add_pictures(struct tern_str *out, const struct report *report, size_t model) {
    for (size_t i = 0; i < report->picture_count; i++) {
        const struct report_picture *picture = &report->pictures[i];
        if (picture->model != model)
            continue;
        add_element(out, "<h3>", picture->title, "</h3>\n");
        add_element(out, "<p class=\"quiet\">", picture->about, "</p>\n");
        tern_str_printf(out, "<div class=\"wide\" tabindex=\"0\"><img src=\"%s.svg\" alt=\"%s\"></div>\n", picture->file,
                        picture->title);
        tern_str_printf(out, "<p class=\"quiet\"><a href=\"%s.svg\">SVG</a> · <a href=\"%s.png\">PNG</a></p>\n",
                        picture->file, picture->file);
    }
    if (!report->picture_count)
        tern_str_append(out, "<p class=\"planned\">No pictures: gnuplot did not run when this page was written. "
                             "The data files below are complete.</p>\n");
}

/* The section of one model: means, pictures, table, links to the data. */
static void add_model(struct tern_str *out, const struct report *report, size_t index) {
    const struct report_model *model = &report->models[index];
    add_element(out, "<h2>", model->rows[0].shapes[0] ? model->rows[0].shapes : "Model not stated", "</h2>\n");
    add_facts(out, model);
    add_pictures(out, report, index);
    add_table(out, model);
    tern_str_printf(out,
                    "<p class=\"quiet\">Data: <a href=\"data/%s.tsv\">problems</a>, <a href=\"data/%s-model.tsv\">model "
                    "totals</a>, <a href=\"data/%s-heatmap.tsv\">speed-ups</a>, <a href=\"winners.csv\">winners.csv</a>; as "
                    "Markdown: <a href=\"report.md\">report.md</a></p>\n",
                    model->name, model->name, model->name);
}

/* The banner comes before any number: nobody should take a prediction for a measurement. */
enum tern_status report_write_page(const struct report *report, struct tern_error *err) {
    struct tern_str out = {0}, path = {0};
    tern_str_append(&out, page_head);
    add_element(&out, "<title>Quantised linear layers on ", report->gpu->title, "</title>\n");
    tern_str_append(&out, page_style);
    add_element(&out, "<h1>Quantised linear layers on ", report->gpu->title, "</h1>\n");
    tern_str_append(&out, report->planned ? "<p class=\"quiet\">Planned by Tern</p>\n"
                                          : "<p class=\"quiet\">Measured by Tern</p>\n");
    if (report->planned) {
        tern_str_append(
            &out, "<p class=\"planned\"><strong>Predicted, not measured.</strong> These kernels were compiled and ranked "
                  "by a cost model without the GPU. Run the same <code>tune</code> command on a machine with ");
        add_element(&out, "", report->gpu->title, " to measure them.</p>\n");
    }
    for (size_t i = 0; i < report->model_count; i++)
        add_model(&out, report, i);
    tern_str_append(&out, page_script);
    tern_str_printf(&path, "%s/index.html", report->dir);
    enum tern_status status = tern_file_write(path.data, out.data, out.length, err);
    tern_str_free(&out);
    tern_str_free(&path);
    return status;
}
