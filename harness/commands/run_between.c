/* --between: sizes between those asked for that a layer is tuned at as well, because the answer of an exported table would be poor
 * there. Chosen from the times of the winners, layer by layer; a second round of tune problems then takes them as any other. */
#include "commands/run_internal.h"

#include "core/log.h"
#include "core/str.h"
#include "space/between.h"

#include <stdlib.h>
#include <string.h>

struct addition {
    int64_t sizes[TERN_MAX_M];
    size_t count;
};

/* Rows of x that a kernel takes at a time, where it takes more of them one after the other; 0: all at once. */
static int64_t tile_rows(const char *params) {
    static const char *const names[] = {"BLOCK_M=", "M_TILE="};
    struct tern_strs words = {0};
    int64_t rows = 0;
    tern_strs_split(&words, params, ' ');
    for (size_t w = 0; w < words.count; w++)
        for (size_t i = 0; i < sizeof names / sizeof names[0] && !rows; i++)
            if (!strncmp(words.items[w], names[i], strlen(names[i])) &&
                !tern_str_parse_int(words.items[w] + strlen(names[i]), 1, INT32_MAX, &rows))
                rows = 0;
    tern_strs_free(&words);
    return rows;
}

static void choose_sizes(const struct run *run, size_t first, struct addition *add) {
    struct tern_between_point points[TERN_MAX_M];
    size_t count = 0;
    for (size_t m = 0; m < run->shapes.m_count; m++) {
        const struct run_problem *p = &run->problems[first + m];
        if (!p->done)
            continue;
        const int64_t rows = tile_rows(p->result.params);
        points[count++] = (struct tern_between_point){.m = p->result.m,
                                                      .tile = rows ? rows : p->result.m,
                                                      .most = rows ? p->result.max_m : p->result.m,
                                                      .us = p->result.us};
    }
    add->count = tern_between_choose(points, count, run->options.between_ratio, add->sizes, TERN_MAX_M);
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
                p->left_out = !has(adds[l].sizes, adds[l].count, run->shapes.m[m]);
                added += !p->left_out;
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
    for (size_t l = 0; l < layers; l++)
        choose_sizes(run, l * asked.m_count, &adds[l]);
    merge(&run->shapes, adds, layers);
    *added = extend(run, &asked, adds);
    renumber(run, asked.m_count);
    free(adds);
    if (*added == 0)
        return TERN_OK;
    tern_log_note("%zu sizes between them, where an answer may take more than %.2f times as long as need be", *added,
                  run->options.between_ratio);
    return tern_run_fill_problems(run, err);
}
