/* --between: sizes between those asked for that a layer is tuned at as well, because the answer of an exported table would be poor
 * there. Chosen from the times of the winners, layer by layer; a second round of tune problems then takes them as any other. */
#include "commands/run_internal.h"

#include "commands/export_times.h"
#include "core/log.h"
#include "core/str.h"
#include "space/between.h"

#include <stdlib.h>
#include <string.h>

struct addition {
    int64_t sizes[TERN_MAX_M];
    size_t count;
};

/* What the table of the rows that there are answers for a layer. */
struct answers {
    const struct tern_outlook *outlook;
    const struct tern_selection_group *group;
};

static double answer_us(void *user, int64_t m) {
    const struct answers *a = user;
    double us;
    size_t above = 0;
    while (above + 1 < a->group->count && a->group->rows[above]->m < m)
        above++;
    (void)tern_outlook_best(a->outlook, a->group->rows[above]->layout, m, &us);
    return us;
}

/* The rows of p's layer in the table; NULL: it has none. */
static const struct tern_selection_group *group_of(const struct run *run, const struct run_problem *p,
                                                   const struct tern_selection_table *table) {
    const struct tern_problem_shape shape = tern_run_shape(run, p);
    for (size_t g = 0; g < table->count; g++)
        if (table->groups[g].n == shape.n && table->groups[g].k == shape.k &&
            strcmp(table->groups[g].format, shape.format->name) == 0)
            return &table->groups[g];
    return NULL;
}

static void choose_sizes(const struct run *run, const struct tern_times *times, const struct tern_selection_table *table,
                         size_t first, struct addition *add) {
    const struct tern_selection_group *group = group_of(run, &run->problems[first], table);
    struct tern_between_point points[TERN_MAX_M];
    if (!group)
        return;
    const struct tern_dispatch_limits limits = {run->gpu.sms, run->gpu.smem_block_bytes};
    struct tern_outlook *outlook = tern_outlook_open(times, table, group, NULL, &limits);
    struct answers answers = {outlook, group};
    for (size_t i = 0; i < group->count; i++)
        points[i] = (struct tern_between_point){group->rows[i]->m, group->rows[i]->us};
    add->count =
        tern_between_choose(points, group->count, run->options.between_ratio, answer_us, &answers, add->sizes, TERN_MAX_M);
    tern_outlook_free(outlook);
}

/* For every layer, by the winners of this run and what was tried besides. */
static enum tern_status choose_all(const struct run *run, struct addition *adds, struct tern_error *err) {
    struct tern_results rows = {0};
    struct tern_times *times = NULL;
    tern_run_results(run, &rows);
    enum tern_status status = rows.count ? tern_times_load(run->options.db, &run->gpu, &rows, &times, err) : TERN_OK;
    if (status == TERN_OK && rows.count) {
        struct tern_selection_table table = tern_selection_build(&rows);
        for (size_t l = 0; l < run->problem_count / run->shapes.m_count; l++)
            choose_sizes(run, times, &table, l * run->shapes.m_count, &adds[l]);
        tern_selection_free(&table);
    }
    tern_times_free(times);
    tern_results_free(&rows);
    return status;
}

static bool has(const int64_t *sizes, size_t count, int64_t m) {
    for (size_t i = 0; i < count; i++)
        if (sizes[i] == m)
            return true;
    return false;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The sizes of all layers in one list. An added one counts nothing in the choice of a layer's layout. */
static void merge(struct tern_shapes *shapes, const struct addition *adds, size_t layers) {
    const struct tern_shapes asked = *shapes;
    for (size_t l = 0; l < layers; l++)
        for (size_t i = 0; i < adds[l].count; i++) {
            if (has(shapes->m, shapes->m_count, adds[l].sizes[i]))
                continue;
            if (shapes->m_count == TERN_MAX_M) {
                tern_log_warn("ask for fewer layers at once", "--between: more than %d sizes; M=%lld is left out",
                              TERN_MAX_M, (long long)adds[l].sizes[i]);
                continue;
            }
            shapes->m[shapes->m_count++] = adds[l].sizes[i];
        }
    qsort(shapes->m, shapes->m_count, sizeof *shapes->m, by_size);
    for (size_t m = 0; m < shapes->m_count; m++) {
        shapes->weight[m] = 0;
        for (size_t i = 0; i < asked.m_count; i++)
            if (asked.m[i] == shapes->m[m])
                shapes->weight[m] = asked.weight[i];
    }
}

/* The problems for the longer list of sizes: those that were there keep what is known of them. Returns how many are new. */
static size_t extend(struct run *run, const struct tern_shapes *asked, const struct addition *adds) {
    const size_t ms = run->shapes.m_count, layers = run->problem_count / asked->m_count;
    struct run_problem *problems = tern_alloc_zero(layers * ms, sizeof *problems);
    size_t added = 0;
    for (size_t l = 0; l < layers; l++) {
        const struct run_problem *old = &run->problems[l * asked->m_count];
        for (size_t m = 0, next = 0; m < ms; m++) {
            struct run_problem *p = &problems[l * ms + m];
            if (next < asked->m_count && asked->m[next] == run->shapes.m[m]) {
                *p = old[next++];
            } else {
                *p = (struct run_problem){.format = old->format, .layer = old->layer};
                p->between = has(adds[l].sizes, adds[l].count, run->shapes.m[m]);
                p->left_out = !p->between;
                added += p->between;
            }
            p->m = m;
        }
    }
    free(run->problems);
    run->problems = problems;
    run->problem_count = layers * ms;
    return added;
}

/* Devices keep the layer that they hold. */
static void renumber(struct run *run, size_t asked_count) {
    for (size_t i = 0; i < run->gpu_count; i++) {
        struct run_gpu *gpu = &run->gpus[i];
        gpu->previous = NULL;
        if (gpu->prepared > 0)
            gpu->prepared = (gpu->prepared - 1) / asked_count * run->shapes.m_count + 1;
    }
}

enum tern_status tern_run_between(struct run *run, size_t *added, struct tern_error *err) {
    const struct tern_shapes asked = run->shapes;
    const size_t layers = run->problem_count / asked.m_count;
    struct addition *adds = tern_alloc_zero(layers, sizeof *adds);
    enum tern_status status = choose_all(run, adds, err);
    merge(&run->shapes, adds, layers);
    *added = extend(run, &asked, adds);
    renumber(run, asked.m_count);
    free(adds);
    if (status != TERN_OK || *added == 0)
        return status;
    tern_log_note("%zu sizes between them, where an answer may take more than %.2f times as long as need be", *added,
                  run->options.between_ratio);
    return tern_run_fill_problems(run, err);
}
