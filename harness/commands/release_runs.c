/* Runs over the rows of a release: one a model and op, each in a database that is thrown away. See release_runs.h. */
#include "commands/release_runs.h"

#include "core/clock.h"
#include "core/file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "a,b" of what the rows name, each once; the caller frees. */
static void join_once(struct tern_str *list, const char *word) {
    struct tern_str all = {0}, wanted = {0};
    tern_str_printf(&all, ",%s,", tern_str_text(list));
    tern_str_printf(&wanted, ",%s,", word);
    if (!strstr(all.data, wanted.data))
        tern_str_printf(list, "%s%s", list->length ? "," : "", word);
    tern_str_free(&all);
    tern_str_free(&wanted);
}

/* The run of one model's rows of one op. What was there before stays as it is: the database is new and lies in `scratch`. */
static enum tern_status run_part(const struct tern_release_runs *runs, const char *shapes, enum tern_activation type,
                                 const struct tern_results *part, const char *scratch, struct tern_results *out,
                                 struct tern_error *err) {
    struct tern_str formats = {0}, layers = {0}, sizes = {0}, db = {0};
    struct run *run = tern_alloc_zero(1, sizeof *run);
    for (size_t i = 0; i < part->count; i++) {
        char m[24];
        tern_str_format(m, sizeof m, "%lld", (long long)part->rows[i].m);
        join_once(&formats, part->rows[i].format);
        join_once(&layers, part->rows[i].layer);
        join_once(&sizes, m);
    }
    tern_str_printf(&db, "%s/release.db", scratch);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    run->start_ns = tern_clock_now_ns();
    run->strategy = TERN_STRATEGY_EXHAUSTIVE; /* of the one candidate that each problem has */
    run->options = runs->options;
    run->options.shapes = shapes;
    run->options.formats = formats.data;
    run->options.layers = layers.data;
    run->options.m = sizes.data;
    run->options.activations = tern_activation_name(type);
    run->options.db = db.data;
    run->options.strategy = tern_strategy_name(TERN_STRATEGY_EXHAUSTIVE);
    run->options.launch = "plain";
    run->options.jobs = cores > 0 ? cores : 1;
    run->options.seed = run->options.copies = 1;
    run->options.only = part;
    enum tern_status status = tern_run_setup(run, err);
    if (status == TERN_OK)
        status = tern_run_candidates(run, err);
    if (status == TERN_OK)
        status = runs->work(run, part, out, err);
    tern_run_release(run);
    free(run);
    tern_str_free(&formats);
    tern_str_free(&layers);
    tern_str_free(&sizes);
    tern_str_free(&db);
    return status;
}

/* The folder held a database and what SQLite lays beside it. */
static void remove_scratch(const char *scratch) {
    struct tern_strs names = {0};
    if (tern_file_list(scratch, "", &names, NULL) == TERN_OK)
        for (size_t i = 0; i < names.count; i++) {
            struct tern_str path = {0};
            tern_str_printf(&path, "%s/%s", scratch, names.items[i]);
            unlink(path.data);
            tern_str_free(&path);
        }
    rmdir(scratch);
    tern_strs_free(&names);
}

/* The rows of one model and op, in a scratch folder of their own. */
static enum tern_status run_op(const struct tern_release_runs *runs, const char *shapes, enum tern_activation type,
                               const struct tern_results *rows, struct tern_results *out, struct tern_error *err) {
    struct tern_results part = {0};
    char scratch[PATH_MAX];
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < rows->count; i++)
        if (!strcmp(rows->rows[i].op, tern_activation_op(type)))
            tern_results_add(&part, &rows->rows[i]);
    if (part.count > 0)
        status = tern_file_make_scratch("tern-release", scratch, sizeof scratch, err);
    if (part.count > 0 && !status) {
        status = run_part(runs, shapes, type, &part, scratch, out, err);
        remove_scratch(scratch);
    }
    tern_results_free(&part);
    return status;
}

enum tern_status tern_release_run(const struct tern_release_runs *runs, const struct tern_results *rows,
                                  struct tern_results *out, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    for (size_t at = 0, count; at < rows->count && !status; at += count) {
        const char *shapes = rows->rows[at].shapes[0] ? rows->rows[at].shapes : runs->options.shapes;
        for (count = 1; at + count < rows->count && !strcmp(rows->rows[at].shapes, rows->rows[at + count].shapes);)
            count++;
        const struct tern_results part = {.rows = rows->rows + at, .count = count};
        if (!shapes) {
            status = tern_error_set(err, TERN_USAGE, "%s/winners.csv does not name its model", runs->dir);
            tern_error_hint(err, "name it with --shapes");
        }
        for (int type = 0; type < TERN_ACTIVATION_COUNT && !status; type++)
            status = run_op(runs, shapes, (enum tern_activation)type, &part, out, err);
    }
    return status;
}
