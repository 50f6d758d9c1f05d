/* Candidates of each problem and the builds they need. One build serves every shape of its format, so builds are found by
 * key. */
#include "commands/run_internal.h"

#include "core/file.h"
#include "core/log.h"
#include "core/str.h"
#include "device/compiler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BUILD_FLAGS "-std=c++17 -default-device v1" /* part of the key; change it when the compiler's flags change */

/* Per template: kernel.cu with the text of every include, hashed; the key of a build adds its preamble, compiler and target.
 */
struct source_identity {
    char hash[TERN_HASH_CHARS];
};

struct tern_problem_shape tern_run_shape(const struct run *run, const struct run_problem *p) {
    const struct tern_layer *layer = &run->shapes.layers[p->layer];
    return (struct tern_problem_shape){.format = &run->shapes.formats[p->format],
                                       .m = run->shapes.m[p->m],
                                       .n = layer->n,
                                       .k = layer->k,
                                       .type = run->type,
                                       .dependent = run->dependent};
}

static enum tern_status read_kernel(const struct tern_template *t, char **text, size_t *length, struct tern_error *err) {
    char path[600];
    tern_str_format(path, sizeof path, "%s/kernel.cu", t->dir);
    return tern_file_read(path, text, length, err);
}

enum tern_status tern_run_source(const struct run *run, const struct run_build *build, struct tern_str *out,
                                 struct tern_error *err) {
    char *kernel = NULL;
    size_t length = 0;
    enum tern_status status = read_kernel(build->candidate.tmpl, &kernel, &length, err);
    if (status == TERN_OK) {
        tern_candidate_preamble(&build->candidate, &run->shapes.formats[build->format], run->type, out);
        tern_str_append_bytes(out, kernel, length);
    }
    free(kernel);
    return status;
}

static enum tern_status identify(const struct tern_template *t, struct source_identity *id, struct tern_error *err) {
    char include[512], *kernel = NULL;
    size_t length = 0;
    struct tern_str closure = {0};
    enum tern_status status = tern_file_home_path("templates/include", include, sizeof include, err);
    if (status == TERN_OK)
        status = read_kernel(t, &kernel, &length, err);
    if (status == TERN_OK)
        status = tern_source_closure(kernel, include, &closure, err);
    if (status == TERN_OK) {
        struct tern_hash_state *state = tern_hash_new();
        tern_hash_add(state, kernel, length);
        tern_hash_add_text(state, tern_str_text(&closure));
        tern_hash_end(state, id->hash);
    }
    free(kernel);
    tern_str_free(&closure);
    return status;
}

static void build_key(const struct run *run, const struct source_identity *id, const struct tern_candidate *c,
                      const struct tern_format *format, char key[TERN_HASH_CHARS]) {
    struct tern_str preamble = {0};
    tern_candidate_preamble(c, format, run->type, &preamble);
    struct tern_hash_state *state = tern_hash_new();
    tern_hash_add_text(state, id->hash);
    tern_hash_add_text(state, tern_str_text(&preamble));
    tern_hash_add_text(state, run->gpu.arch);
    tern_hash_add_text(state, run->nvrtc);
    tern_hash_add_text(state, BUILD_FLAGS);
    tern_hash_end(state, key);
    tern_str_free(&preamble);
}

/* Slot of a key in the open-addressing index. Keys are hashes already: their first digits spread well. */
static size_t index_slot(const struct run *run, const char *key) {
    char head[9];
    tern_str_copy(head, sizeof head, key);
    size_t at = (size_t)strtoul(head, NULL, 16) & (run->build_index_size - 1);
    while (run->build_index[at] != 0 && strcmp(run->builds[run->build_index[at] - 1].row.key, key) != 0)
        at = (at + 1) & (run->build_index_size - 1);
    return at;
}

static void index_grow(struct run *run) {
    run->build_index_size = run->build_index_size ? run->build_index_size * 2 : 4096;
    free(run->build_index);
    run->build_index = tern_alloc_zero(run->build_index_size, sizeof *run->build_index);
    for (size_t i = 0; i < run->build_count; i++)
        run->build_index[index_slot(run, run->builds[i].row.key)] = (uint32_t)(i + 1);
}

static size_t find_or_add_build(struct run *run, const struct source_identity *id, const struct tern_candidate *c,
                                size_t format) {
    char key[TERN_HASH_CHARS];
    if (run->build_count * 2 >= run->build_index_size)
        index_grow(run);
    build_key(run, id, c, &run->shapes.formats[format], key);
    size_t slot = index_slot(run, key);
    if (run->build_index[slot] != 0)
        return run->build_index[slot] - 1;
    if (run->build_count == run->build_capacity) {
        run->build_capacity = run->build_capacity ? run->build_capacity * 2 : 512;
        run->builds = tern_realloc(run->builds, run->build_capacity * sizeof *run->builds);
    }
    struct run_build *build = &run->builds[run->build_count];
    memset(build, 0, sizeof *build);
    build->candidate = *c;
    build->format = format;
    build->check = TERN_OUTCOME_RUNNING;
    memcpy(build->row.key, key, sizeof key);
    tern_str_copy(build->row.template_name, sizeof build->row.template_name, c->tmpl->name);
    tern_str_copy(build->row.template_hash, sizeof build->row.template_hash, c->tmpl->hash);
    tern_str_copy(build->row.format, sizeof build->row.format, run->shapes.formats[format].name);
    tern_str_copy(build->row.op, sizeof build->row.op, tern_activation_op(run->type));
    tern_candidate_text(c, build->row.params, sizeof build->row.params);
    tern_str_copy(build->row.arch, sizeof build->row.arch, run->gpu.arch);
    tern_str_copy(build->row.nvrtc, sizeof build->row.nvrtc, run->nvrtc);
    run->build_index[slot] = (uint32_t)++run->build_count;
    return run->build_count - 1;
}

static int by_prediction(const void *a, const void *b) {
    const struct run_entry *x = a, *y = b;
    if (x->predicted_us != y->predicted_us)
        return x->predicted_us < y->predicted_us ? -1 : 1;
    return (x->build > y->build) - (x->build < y->build);
}

static bool serves(const struct tern_template *t, const struct tern_problem_shape *shape) {
    return tern_template_serves(t, shape->format, shape->type) && shape->m >= t->m_min && shape->m <= t->m_max;
}

/* False for what a run that measures known rows again has no use for. */
static bool wanted(const struct run *run, const struct run_problem *p, const struct tern_candidate *c) {
    const struct tern_results *only = run->options.only;
    char params[sizeof only->rows->params];
    if (!only)
        return true;
    tern_candidate_text(c, params, sizeof params);
    for (size_t i = 0; i < only->count; i++) {
        const struct tern_result *row = &only->rows[i];
        if (row->m == run->shapes.m[p->m] && !strcmp(row->op, tern_activation_op(run->type)) &&
            !strcmp(row->template_name, c->tmpl->name) && !strcmp(row->params, params) &&
            !strcmp(row->layer, run->shapes.layers[p->layer].name) &&
            !strcmp(row->format, run->shapes.formats[p->format].name))
            return true;
    }
    return false;
}

/* The last entry of the problem is this candidate. */
static void add_entry(struct run *run, struct run_problem *p, const struct source_identity *id,
                      const struct tern_candidate *c, const struct tern_geometry *geometry) {
    const struct tern_problem_shape shape = tern_run_shape(run, p);
    const struct tern_resources unknown = {0};
    size_t build = find_or_add_build(run, id, c, p->format);
    p->entries[p->entry_count++] =
        (struct run_entry){.build = build,
                           .predicted_us = tern_cost_predict_us(&run->gpu, c, &shape, geometry, &unknown),
                           .outcome = TERN_OUTCOME_RUNNING,
                           .screen_us = (double)NAN};
}

/* Adds the candidates of one template to a problem; the grid puts the default candidate first, which then gets the best
 * place. */
static enum tern_status add_template(struct run *run, struct run_problem *p, const struct tern_template *t,
                                     const struct source_identity *id, struct tern_error *err) {
    struct tern_problem_shape shape = tern_run_shape(run, p);
    struct tern_candidates list = {0};
    if (!serves(t, &shape) || run->gpu.cc < t->min_cc)
        return TERN_OK;
    enum tern_status status = tern_grid_enumerate(t, &shape, &run->gpu, &list, &run->exclusions, err);
    if (status == TERN_OK && list.count > 0)
        p->entries = tern_realloc(p->entries, (p->entry_count + list.count) * sizeof *p->entries);
    for (size_t i = 0; i < list.count && status == TERN_OK; i++) {
        struct tern_geometry geometry;
        if (!wanted(run, p, &list.items[i]))
            continue;
        status = tern_candidate_geometry(&list.items[i], &shape, run->gpu.sms, &geometry, err);
        if (status != TERN_OK)
            break;
        add_entry(run, p, id, &list.items[i], &geometry);
    }
    tern_candidates_free(&list);
    return status;
}

enum tern_status tern_run_add_candidate(struct run *run, struct run_problem *p, const struct tern_template *t,
                                        const char *params, size_t *build, struct tern_error *err) {
    const struct tern_problem_shape shape = tern_run_shape(run, p);
    struct source_identity id;
    struct tern_candidate c;
    struct tern_geometry geometry;
    *build = 0;
    if (!serves(t, &shape) || tern_candidate_parse(t, params, &c, NULL) != TERN_OK) /* of another version of the template */
        return TERN_OK;
    enum tern_status status = tern_candidate_geometry(&c, &shape, run->gpu.sms, &geometry, err);
    if (status == TERN_OK)
        status = identify(t, &id, err);
    if (status != TERN_OK)
        return status;
    p->entries = tern_realloc(p->entries, (p->entry_count + 1) * sizeof *p->entries);
    add_entry(run, p, &id, &c, &geometry);
    *build = p->entries[p->entry_count - 1].build + 1;
    return TERN_OK;
}

const char *tern_run_policy(const struct run *run, const struct run_problem *p) {
    return run->options.replay ? RUN_POLICY_REPLAY
                               : tern_run_policy_name(run, p->compute_bound ? RUN_POLICY_COOL : RUN_POLICY);
}

const char *tern_run_check_policy(const struct run *run) {
    return run->options.replay ? RUN_POLICY_REPLAY : RUN_POLICY_CHECK;
}

static enum tern_status fill_problem(struct run *run, struct run_problem *p, const struct source_identity *ids,
                                     struct tern_error *err) {
    struct tern_problem_shape shape = tern_run_shape(run, p);
    struct tern_store_problem row = {.m = shape.m, .n = shape.n, .k = shape.k};
    tern_str_copy(row.format, sizeof row.format, shape.format->name);
    tern_str_copy(row.op, sizeof row.op, tern_activation_op(run->type));
    enum tern_status status = tern_store_problem(run->store, &row, &p->id, err);
    for (size_t t = 0; t < run->template_count && status == TERN_OK; t++)
        status = add_template(run, p, &run->templates[t], &ids[t], err);
    p->compute_bound = tern_cost_compute_bound(run->described_balance, shape.format, shape.m, shape.n, shape.k);
    p->limit_us = tern_cost_limit_us(&run->gpu, run->type, shape.format, shape.m, shape.n, shape.k);
    if (p->entry_count > 0)
        qsort(p->entries, p->entry_count, sizeof *p->entries, by_prediction);
    return status;
}

enum tern_status tern_run_fill_problems(struct run *run, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    struct source_identity *ids = tern_alloc_zero(run->template_count, sizeof *ids);
    size_t problems = 0, entries = 0;
    for (size_t t = 0; t < run->template_count && status == TERN_OK; t++)
        status = identify(&run->templates[t], &ids[t], err);
    for (size_t i = 0; i < run->problem_count && status == TERN_OK; i++) {
        struct run_problem *p = &run->problems[i];
        if (p->id == 0 && !p->left_out)
            status = fill_problem(run, p, ids, err);
        problems += !p->left_out;
        entries += p->entry_count;
    }
    free(ids);
    if (status == TERN_OK)
        tern_log_note("%zu problems, %zu candidates of %zu templates, %zu trials possible", problems, run->build_count,
                      run->template_count, entries);
    return status;
}

enum tern_status tern_run_candidates(struct run *run, struct tern_error *err) {
    const struct tern_shapes *s = &run->shapes;
    run->problem_count = s->format_count * s->layer_count * s->m_count;
    run->problems = tern_alloc_zero(run->problem_count, sizeof *run->problems);
    for (size_t i = 0; i < run->problem_count; i++) {
        struct run_problem *p = &run->problems[i];
        p->format = i / s->m_count / s->layer_count;
        p->layer = i / s->m_count % s->layer_count;
        p->m = i % s->m_count;
    }
    return tern_run_fill_problems(run, err);
}
