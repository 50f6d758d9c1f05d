/* Times of all candidates on the tuned problems. See export_times.h. Only times of one stage and policy are compared: a screen
 * is not a final, and a cool device is not a loaded one. */
#include "commands/export_times.h"

#include "config/template.h"
#include "core/log.h"
#include "core/str.h"
#include "store/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE 1.04 /* what a runner-up's time in a final is at most, over the winner's */

struct time { /* of a candidate: template, version of it, parameters, and what became of them */
    char template_name[40], template_hash[TERN_HASH_CHARS], params[256], policy[64];
    char build_key[TERN_HASH_CHARS], cubin_hash[TERN_HASH_CHARS];
    int64_t registers, static_smem_bytes, spill_bytes;
    bool final; /* else of a screen */
    double us;
};

struct list {
    struct time *items;
    size_t count, capacity;
};

struct tern_times {
    struct list *rows; /* one a row */
    size_t count;
    struct tern_template *templates; /* today's */
    size_t template_count;
    const struct tern_gpu *gpu;
};

static struct time *append(struct list *list) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 64;
        list->items = tern_realloc(list->items, list->capacity * sizeof *list->items);
    }
    return &list->items[list->count++];
}

/* Keeps what ran right; of repeated trials the newest, which comes last. */
static int keep(void *user, const struct tern_store_trial *t, const struct tern_store_build *b) {
    struct list *list = user;
    bool final = !strcmp(t->stage, "final");
    if (t->outcome != TERN_OUTCOME_OK || !(t->us > 0) || (!final && strcmp(t->stage, "screen")))
        return 0;
    struct time *time = append(list);
    *time = (struct time){.registers = b->registers,
                          .static_smem_bytes = b->static_smem_bytes,
                          .spill_bytes = b->spill_bytes,
                          .final = final,
                          .us = t->us};
    tern_str_copy(time->build_key, sizeof time->build_key, b->key);
    tern_str_copy(time->cubin_hash, sizeof time->cubin_hash, b->cubin_hash);
    tern_str_copy(time->template_name, sizeof time->template_name, b->template_name);
    tern_str_copy(time->template_hash, sizeof time->template_hash, b->template_hash);
    tern_str_copy(time->params, sizeof time->params, b->params);
    tern_str_copy(time->policy, sizeof time->policy, t->policy);
    return 0;
}

enum tern_status tern_times_load(const char *db, const struct tern_gpu *gpu, const struct tern_results *rows,
                                 struct tern_times **times, struct tern_error *err) {
    struct tern_store *store = NULL;
    enum tern_status status = tern_store_open(db, TERN_STORE_READ, &store, err);
    if (status)
        return status;
    *times = tern_alloc_zero(1, sizeof **times);
    (*times)->count = rows->count;
    (*times)->gpu = gpu;
    (*times)->rows = tern_alloc_zero(rows->count, sizeof *(*times)->rows);
    for (size_t i = 0; i < rows->count && !status; i++) {
        struct tern_store_problem problem = {.m = rows->rows[i].m, .n = rows->rows[i].n, .k = rows->rows[i].k};
        tern_str_copy(problem.format, sizeof problem.format, rows->rows[i].format);
        tern_str_copy(problem.op, sizeof problem.op, rows->rows[i].op);
        status = tern_store_trials_each(store, gpu->name, &problem, keep, &(*times)->rows[i], err);
    }
    tern_store_close(store);
    if (!status && tern_templates_load_all(&(*times)->templates, &(*times)->template_count, NULL))
        tern_log_debug("no templates are here: times at other N are foretold by rounds alone");
    return status;
}

struct tern_times *tern_times_of_rows(const struct tern_results *rows) {
    struct tern_times *times = tern_alloc_zero(1, sizeof *times);
    times->count = rows->count;
    times->rows = tern_alloc_zero(rows->count, sizeof *times->rows);
    for (size_t i = 0; i < rows->count; i++) {
        const struct tern_result *row = &rows->rows[i];
        if (!row->template_name[0] || !(row->us > 0))
            continue;
        struct time *time = append(&times->rows[i]);
        *time = (struct time){.final = true, .us = row->us};
        tern_str_copy(time->template_name, sizeof time->template_name, row->template_name);
        tern_str_copy(time->template_hash, sizeof time->template_hash, row->template_hash);
        tern_str_copy(time->params, sizeof time->params, row->params);
        tern_str_copy(time->policy, sizeof time->policy, row->policy);
    }
    return times;
}

void tern_times_free(struct tern_times *times) {
    if (!times)
        return;
    for (size_t i = 0; i < times->count; i++)
        free(times->rows[i].items);
    free(times->rows);
    tern_templates_free(times->templates, times->template_count);
    free(times);
}

/* Today's template if it is the one that was measured; NULL. */
static const struct tern_template *find_template(const struct tern_times *times, const char *name, const char *hash) {
    for (size_t i = 0; i < times->template_count; i++)
        if (!strcmp(times->templates[i].name, name) && !strcmp(times->templates[i].hash, hash))
            return &times->templates[i];
    return NULL;
}

const char *tern_times_busiest(const struct tern_times *times, const struct tern_result *kernel) {
    const struct tern_template *t = find_template(times, kernel->template_name, kernel->template_hash);
    return t ? t->busiest : "";
}

struct tern_rules *tern_times_rules(const struct tern_times *times, const struct tern_result *kernel) {
    return tern_rules_open(find_template(times, kernel->template_name, kernel->template_hash), times->gpu, kernel);
}

static bool is_of(const struct time *time, const struct tern_result *row) {
    return !strcmp(time->template_name, row->template_name) && !strcmp(time->params, row->params) &&
           !strcmp(time->template_hash, row->template_hash);
}

/* The newest time of a kernel at this stage; NULL if there is none. policy NULL: any. */
static const struct time *find(const struct list *list, const struct tern_result *row, bool final, const char *policy) {
    for (size_t i = list->count; i-- > 0;)
        if (list->items[i].final == final && is_of(&list->items[i], row) &&
            (!policy || !strcmp(policy, list->items[i].policy)))
            return &list->items[i];
    return NULL;
}

/* Policy and model name weights and launches alike, but for the first sign of the launches. */
static bool same_conditions(const char *policy, const char *shapes) {
    const char *a = tern_conditions(policy), *b = tern_conditions(shapes);
    return *a && *b ? !strcmp(a + 1, b + 1) : !*a && !*b;
}

double tern_times_us(const struct tern_times *times, const struct tern_results *rows, size_t problem,
                     const struct tern_result *kernel) {
    const struct list *list = &times->rows[problem];
    for (int final = 1; final >= 0; final--)
        for (size_t i = list->count; i-- > 0;)
            if (list->items[i].final == final && is_of(&list->items[i], kernel) &&
                same_conditions(list->items[i].policy, rows->rows[problem].shapes))
                return list->items[i].us;
    return NAN;
}

/* ---- runners-up ---- */

/* The row of a kernel of template t that was in the final of winner's problem. */
static struct tern_result runner_up(const struct tern_result *winner, const struct time *time,
                                    const struct tern_template *t) {
    struct tern_result row = *winner;
    row.runner_up = true;
    row.us = row.us_lo = row.us_hi = time->us;
    tern_template_fill(t, &row);
    tern_str_copy(row.params, sizeof row.params, time->params);
    tern_str_copy(row.build_key, sizeof row.build_key, time->build_key);
    tern_str_copy(row.cubin_hash, sizeof row.cubin_hash, time->cubin_hash);
    row.registers = time->registers;
    row.static_smem_bytes = time->static_smem_bytes;
    row.spill_bytes = time->spill_bytes;
    return row;
}

void tern_times_runners_up(const struct tern_times *times, struct tern_results *rows) {
    for (size_t i = 0; i < times->count; i++) {
        const struct tern_result winner = rows->rows[i]; /* adding moves the rows */
        const struct list *list = &times->rows[i];
        for (size_t j = 0; j < list->count && winner.template_name[0]; j++) {
            const struct time *time = &list->items[j];
            const struct tern_template *t = find_template(times, time->template_name, time->template_hash);
            if (!time->final || !(time->us <= CLOSE * winner.us) || !same_conditions(time->policy, winner.shapes) || !t ||
                strcmp(t->layout, winner.layout) || is_of(time, &winner))
                continue;
            const struct tern_result row = runner_up(&winner, time, t);
            if (find(list, &row, true, NULL) == time) /* the newest time counts */
                tern_results_add(rows, &row);
        }
    }
}

/* ---- what answers cost ---- */

/* On that problem: time of the kernel of row a over that of row b, both from finals, else both from screens; NAN if no stage has
 * both. */
static double ratio(const struct tern_times *times, size_t problem, const struct tern_result *a,
                    const struct tern_result *b) {
    for (int final = 1; final >= 0; final--) {
        const struct time *left = find(&times->rows[problem], a, final, NULL);
        const struct time *right = left ? find(&times->rows[problem], b, final, left->policy) : NULL;
        if (right)
            return left->us / right->us;
    }
    return NAN;
}

double tern_times_regret(const struct tern_times *times, const struct tern_results *rows, size_t problem, size_t tuned,
                         bool *bounded) {
    const struct tern_result *kernel = &rows->rows[tuned], *row = &rows->rows[problem];
    const struct list *list = &times->rows[problem];
    const struct time *own = find(list, kernel, true, NULL);
    double best = INFINITY;
    if (!own)
        own = find(list, kernel, false, NULL);
    *bounded = !own && kernel->n == row->n && kernel->k == row->k && kernel->m > row->m;
    if (*bounded)
        own = find(&times->rows[tuned], kernel, false, NULL);
    for (size_t i = 0; i < list->count && own; i++)
        if (list->items[i].final == own->final && !strcmp(list->items[i].policy, own->policy) && list->items[i].us < best)
            best = list->items[i].us;
    return own && best < INFINITY ? own->us / best - 1.0 : NAN;
}

/* ---- minimal sets ---- */

struct cover {
    const struct tern_results *rows;
    double *slowdown; /* [kernel row][problem row]; NAN: cannot serve */
    bool *served;
};

static bool may_serve(const struct tern_result *kernel, const struct tern_result *problem) {
    return kernel->template_name[0] && problem->template_name[0] && !strcmp(kernel->op, problem->op) &&
           !strcmp(kernel->format, problem->format) && !strcmp(kernel->layout, problem->layout) &&
           kernel->min_m <= problem->m && problem->m <= kernel->max_m;
}

/* How many problems that have no kernel yet this one serves within the bound. */
static size_t gain(const struct cover *c, size_t kernel, double bound) {
    size_t count = 0;
    for (size_t p = 0; p < c->rows->count; p++)
        count += !c->served[p] && c->slowdown[kernel * c->rows->count + p] <= bound;
    return count;
}

static void take(struct cover *c, size_t kernel, double bound, struct tern_export_stand_in *stand_ins) {
    for (size_t p = 0; p < c->rows->count; p++) {
        double slowdown = c->slowdown[kernel * c->rows->count + p];
        if (!(slowdown <= bound) || (c->served[p] && !(slowdown < stand_ins[p].slowdown)))
            continue;
        c->served[p] = true;
        stand_ins[p] = (struct tern_export_stand_in){&c->rows->rows[kernel], slowdown};
    }
}

void tern_times_cover(const struct tern_times *times, const struct tern_results *rows, double max_slowdown,
                      struct tern_export_stand_in *stand_ins) {
    const size_t count = rows->count;
    struct cover c = {rows, tern_alloc(count * count * sizeof(double)), tern_alloc_zero(count, sizeof(bool))};
    for (size_t kernel = 0; kernel < count; kernel++)
        for (size_t p = 0; p < count; p++) {
            const struct tern_result *a = &rows->rows[kernel], *b = &rows->rows[p];
            bool own = !strcmp(a->build_key, b->build_key);
            c.slowdown[kernel * count + p] = !may_serve(a, b) ? NAN : own ? 1.0 : ratio(times, p, a, b);
        }
    for (size_t p = 0; p < count; p++)
        stand_ins[p] = (struct tern_export_stand_in){NULL, 1.0};
    for (;;) {
        size_t best = 0, most = 0;
        for (size_t kernel = 0; kernel < count; kernel++) {
            size_t more = gain(&c, kernel, max_slowdown);
            if (more > most) { /* the first of equals: rows are sorted */
                most = more;
                best = kernel;
            }
        }
        if (!most)
            break;
        take(&c, best, max_slowdown, stand_ins);
    }
    free(c.slowdown);
    free(c.served);
}
