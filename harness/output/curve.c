/* Curves of the best so far; table and JSON of them. See curve.h. */
#include "output/curve.h"
#include "output/report_parts.h"

#include "core/str.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAME_WIDTH 10

/* Columns of the table and keys of the JSON: GPU seconds until within so much of the best. */
static const struct {
    double share;
    const char *heading, *key;
} levels[] = {{0.10, "10 %", "within_10"}, {0.05, "5 %", "within_5"}, {0.02, "2 %", "within_2"}, {0.0, "best", "best"}};
#define LEVEL_COUNT (sizeof levels / sizeof levels[0])

void tern_curve_add(struct tern_curve *s, const struct tern_curve_trial *trial) {
    if (s->trial_count == s->trial_capacity) {
        s->trial_capacity = s->trial_capacity ? s->trial_capacity * 2 : 64;
        s->trials = tern_realloc(s->trials, s->trial_capacity * sizeof *s->trials);
    }
    s->trials[s->trial_count++] = *trial;
}

static bool timed(const struct tern_curve_trial *t) {
    return t->ok && t->us > 0;
}

/* Newest final of trial i's candidate; NAN if there is none. */
static double final_us(const struct tern_curve *s, size_t i) {
    for (size_t j = s->trial_count; j-- > 0;)
        if (s->trials[j].build == s->trials[i].build && s->trials[j].final && timed(&s->trials[j]))
            return s->trials[j].us;
    return (double)NAN;
}

static double best_final(const struct tern_curve *s) {
    double best = (double)NAN;
    for (size_t i = 0; i < s->trial_count; i++) {
        double us = s->trials[i].final ? final_us(s, i) : (double)NAN;
        if (us > 0 && !(us >= best))
            best = us;
    }
    return best;
}

/* Counts candidates: a trial counts for its candidate if it is the first of them that `counts`. */
static size_t candidates(const struct tern_curve *s, bool right) {
    size_t count = 0;
    for (size_t i = 0; i < s->trial_count; i++) {
        bool first = !right || timed(&s->trials[i]);
        for (size_t j = 0; j < i && first; j++)
            first = s->trials[j].build != s->trials[i].build || (right && !timed(&s->trials[j]));
        count += first;
    }
    return count;
}

void tern_curve_finish(struct tern_curve *s) {
    double best = (double)INFINITY, at_s = 0, bound = best_final(s);
    s->points = tern_alloc((s->trial_count + 1) * sizeof *s->points);
    for (size_t i = 0; i < s->trial_count; i++) {
        const struct tern_curve_trial *t = &s->trials[i];
        double us = timed(t) ? final_us(s, i) : (double)NAN;
        if (timed(t) && isnan(us))
            us = t->us < bound ? bound : t->us;
        if (t->gpu_seconds > 0)
            at_s += t->gpu_seconds;
        else
            s->unknown++;
        if (us < best) {
            best = us;
            s->points[s->point_count++] = (struct tern_curve_point){i + 1, at_s, us, t->template_name, t->params};
        }
    }
    s->tried = candidates(s, false);
    s->right = candidates(s, true);
    s->gpu_seconds = s->unknown < s->trial_count ? at_s : (double)NAN;
}

double tern_curve_until(const struct tern_curve *s, double share) {
    if (s->point_count == 0 || isnan(s->gpu_seconds))
        return (double)NAN;
    double enough = s->points[s->point_count - 1].us * (1 + share);
    for (size_t i = 0; i < s->point_count; i++)
        if (s->points[i].us <= enough)
            return s->points[i].gpu_seconds;
    return (double)NAN;
}

void tern_curves_free(struct tern_curves *all) {
    for (size_t i = 0; i < all->count; i++) {
        free(all->list[i].trials);
        free(all->list[i].points);
    }
    free(all->list);
    memset(all, 0, sizeof *all);
}

/* ---- table ---- */

static const char *show(char *out, size_t size, double value, bool micro) {
    if (!(value >= 0))
        tern_str_copy(out, size, "-");
    else if (micro)
        tern_str_format(out, size, "%.*f", value < 10 ? 2 : value < 1000 ? 1 : 0, value);
    else
        tern_str_format(out, size, "%.*f", value < 10 ? 3 : value < 100 ? 2 : value < 1000 ? 1 : 0, value);
    return out;
}

static bool same_block(const struct tern_curve *a, const struct tern_curve *b) {
    return !strcmp(a->problem.gpu, b->problem.gpu) && !strcmp(a->problem.shapes, b->problem.shapes) &&
           !strcmp(a->problem.format, b->problem.format) && !strcmp(a->problem.op, b->problem.op);
}

static void print_heading(FILE *out, const struct tern_curve *s) {
    char series[64];
    report_series(&s->problem, series, sizeof series);
    fprintf(out, "%s  %s  on %s (%s)\n", s->problem.shapes, series, s->problem.gpu, s->problem.arch);
    fprintf(out, "%80s\n", "GPU s until within ... of the best");
    fprintf(out, "  %-10s %5s  %6s %6s %8s %8s ", "layer", "M", "tried", "right", "GPU s", "best us");
    for (size_t l = 0; l < LEVEL_COUNT; l++)
        fprintf(out, " %6s", levels[l].heading);
    fputc('\n', out);
}

static void print_curve(FILE *out, const struct tern_curve *s) {
    char name[16], seconds[24], best[24], until[24];
    tern_str_copy(name, NAME_WIDTH + 1, s->problem.layer);
    fprintf(out, "  %-10s %5lld  %6zu %6zu %8s %8s ", name, (long long)s->problem.m, s->tried, s->right,
            show(seconds, sizeof seconds, s->gpu_seconds, false),
            show(best, sizeof best, s->point_count ? s->points[s->point_count - 1].us : (double)NAN, true));
    for (size_t l = 0; l < LEVEL_COUNT; l++)
        fprintf(out, " %6s", show(until, sizeof until, tern_curve_until(s, levels[l].share), false));
    fputc('\n', out);
}

/* What a block adds up to: the seconds of all its problems until every one of them was so near. */
static void print_sum(FILE *out, const struct tern_curve *first, size_t count) {
    char text[24];
    double sums[LEVEL_COUNT] = {0}, seconds = 0;
    size_t tried = 0, right = 0;
    for (size_t i = 0; i < count; i++) {
        tried += first[i].tried;
        right += first[i].right;
        seconds += first[i].gpu_seconds;
        for (size_t l = 0; l < LEVEL_COUNT; l++)
            sums[l] += tern_curve_until(&first[i], levels[l].share);
    }
    if (count < 2)
        return;
    fprintf(out, "  %-10s %5s  %6zu %6zu %8s %8s ", "sum", "", tried, right, show(text, sizeof text, seconds, false), "");
    for (size_t l = 0; l < LEVEL_COUNT; l++)
        fprintf(out, " %6s", show(text, sizeof text, sums[l], false));
    fputc('\n', out);
}

void tern_curve_table(FILE *out, const struct tern_curves *all) {
    size_t first = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct tern_curve *s = &all->list[i];
        if (i == first)
            print_heading(out, s);
        else if (strcmp(s->problem.layer, s[-1].problem.layer))
            fputc('\n', out);
        print_curve(out, s);
        if (i + 1 < all->count && same_block(s, s + 1))
            continue;
        print_sum(out, &all->list[first], i + 1 - first);
        first = i + 1;
        if (first < all->count)
            fputc('\n', out);
    }
}

/* ---- JSON ---- */

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *points(const struct tern_curve *s) {
    json_t *list = json_array();
    for (size_t i = 0; i < s->point_count; i++) {
        const struct tern_curve_point *p = &s->points[i];
        json_array_append_new(list, json_pack("{s:I, s:o, s:f, s:s, s:s}", "trial", (json_int_t)p->trial, "gpu_seconds",
                                              number(isnan(s->gpu_seconds) ? s->gpu_seconds : p->gpu_seconds), "us", p->us,
                                              "template", p->template_name, "params", p->params));
    }
    return list;
}

static json_t *curve(const struct tern_curve *s) {
    const struct tern_result *p = &s->problem;
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "shapes", p->shapes, "layer",
                               p->layer, "format", p->format, "op", p->op, "m", (json_int_t)p->m, "n", (json_int_t)p->n, "k",
                               (json_int_t)p->k, "trials", (json_int_t)s->trial_count, "tried", (json_int_t)s->tried,
                               "right", (json_int_t)s->right, "trials_without_gpu_seconds", (json_int_t)s->unknown);
    json_object_set_new(object, "gpu_seconds", number(s->gpu_seconds));
    json_object_set_new(object, "best_us", number(s->point_count ? s->points[s->point_count - 1].us : (double)NAN));
    json_t *until = json_object();
    for (size_t l = 0; l < LEVEL_COUNT; l++)
        json_object_set_new(until, levels[l].key, number(tern_curve_until(s, levels[l].share)));
    json_object_set_new(object, "gpu_seconds_until", until);
    json_object_set_new(object, "best_so_far", points(s));
    return object;
}

void tern_curve_json(FILE *out, const char *db, const struct tern_curves *all) {
    json_t *list = json_array();
    for (size_t i = 0; i < all->count; i++)
        json_array_append_new(list, curve(&all->list[i]));
    json_t *root = json_pack("{s:s, s:s, s:o}", "gpu", all->list[0].problem.gpu, "db", db, "searches", list);
    json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(root);
}
