/* Pictures of a report: runs gnuplot (found on PATH) over the data files with the scripts of scripts/, twice each: SVG and
 * PNG. */
#include "core/file.h"
#include "output/report_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GNUPLOT_SECONDS 60 /* a picture takes well under one */

/* Child side: quiet stdin and stdout, stderr into the pipe, an alarm as the deadline (it outlives exec). */
static void start_gnuplot(const char *program, char *const argv[], int error_fd) {
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(error_fd, 2) < 0)
        _exit(127);
    alarm(GNUPLOT_SECONDS);
    execv(program, argv);
    _exit(127);
}

/* Reads all that comes and keeps the beginning, on one line. */
static void drain(int fd, char *text, size_t size) {
    char chunk[512];
    size_t length = 0;
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        size_t room = size - 1 - length, take = (size_t)got < room ? (size_t)got : room;
        memcpy(text + length, chunk, take);
        length += take;
    }
    text[length] = 0;
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
}

/* Runs gnuplot to its end. Its words go into the error; argv[5] is the picture that it was to write. */
static enum tern_status run_gnuplot(const char *program, char *const argv[], struct tern_error *err) {
    int fds[2], wait_status = 0;
    char text[600];
    if (pipe2(fds, O_CLOEXEC))
        return tern_error_set(err, TERN_INTERNAL, "pipe for gnuplot: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0) {
        close(fds[0]);
        close(fds[1]);
        return tern_error_set(err, TERN_INTERNAL, "fork for gnuplot: %s", strerror(errno));
    }
    if (child == 0)
        start_gnuplot(program, argv, fds[1]);
    close(fds[1]);
    drain(fds[0], text, sizeof text);
    close(fds[0]);
    while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
        return TERN_OK;
    if (WIFSIGNALED(wait_status))
        tern_error_set(err, TERN_MISSING, "gnuplot was ended by signal %d while drawing %s", WTERMSIG(wait_status), argv[5]);
    else
        tern_error_set(err, TERN_MISSING, "gnuplot could not draw %s: %s", argv[5], text);
    tern_error_hint(err, "install gnuplot 5.2 or newer with cairo (Debian: gnuplot-nox) and run `tune report` again");
    return TERN_MISSING;
}

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

/* Draws one picture in both forms and notes it. Arguments: script, terminal, output, data, title, caption, extras. */
static enum tern_status draw(struct report *report, size_t index, const char *gnuplot, const struct plot *plot,
                             struct tern_error *err) {
    const struct report_model *model = &report->models[index];
    static const char *const terminals[] = {"svg", "png"};
    char script[4096], extra[3][1024];
    struct tern_str caption = {0}, data = {0};
    enum tern_status status = tern_file_home_path("scripts", script, sizeof script, err);
    size_t used = strlen(script);
    tern_str_format(script + used, sizeof script - used, "/%s", plot->script);
    tern_str_printf(&caption, "%s%s, %s%s", model->planned ? "PREDICTED by a cost model, not measured: " : "",
                    report->gpu->title, model->rows[0].shapes, model->planned ? "" : ", measured");
    tern_str_printf(&data, "%s/data/%s%s.tsv", report->dir, model->name, plot->data_suffix);
    memcpy(extra, plot->extra, sizeof extra);
    for (size_t t = 0; t < 2 && !status; t++) {
        struct tern_str output = {0};
        char terminal[8], title[120];
        tern_str_copy(terminal, sizeof terminal, terminals[t]);
        tern_str_copy(title, sizeof title, plot->title);
        tern_str_printf(&output, "%s/%s.%s", report->dir, plot->file, terminals[t]);
        char name[] = "gnuplot", defaults[] = "-d", call[] = "-c";
        char *argv[] = {name,  defaults,     call,     script,   terminal, output.data, data.data,
                        title, caption.data, extra[0], extra[1], extra[2], NULL};
        status = run_gnuplot(gnuplot, argv, err);
        tern_str_free(&output);
    }
    if (!status) {
        struct report_picture *picture = &report->pictures[report->picture_count++];
        tern_str_copy(picture->file, sizeof picture->file, plot->file);
        tern_str_copy(picture->title, sizeof picture->title, plot->title);
        tern_str_copy(picture->about, sizeof picture->about, plot->about);
        picture->model = index;
    }
    tern_str_free(&caption);
    tern_str_free(&data);
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
    if (!tern_file_find_program("gnuplot", gnuplot, sizeof gnuplot)) {
        tern_error_set(err, TERN_MISSING, "gnuplot is not on PATH; %s holds the data and a page without pictures",
                       report->dir);
        tern_error_hint(err, "install it (Debian: apt-get install gnuplot-nox) and run `tune report` again");
        return TERN_MISSING;
    }
    for (size_t i = 0; i < report->model_count && !status; i++)
        status = draw_model(report, i, gnuplot, err);
    return status;
}
