/* What `tune verify` checks: templates x formats, and of each the default candidate plus a sample of the others; or the winners
 * of a database. */
#include "commands/dispatch.h"
#include "commands/verify_internal.h"

#include "core/log.h"
#include "core/random.h"
#include "worker/check.h"

#include <stdlib.h>
#include <string.h>

/* Every family, width, group kind and zero-point kind, without listing all combinations. */
static const char *const verify_formats[] = {
    "ternary-g128",   "ternary-channel", "ternary-tensor",     "ternary-g64",     "gptq2-g64", "gptq2-channel-asym",
    "gptq3-g128",     "gptq3-g32-asym",  "gptq4-g128",         "gptq4-g128-asym", "gptq4-g32", "gptq4-channel",
    "gptq4-g96-asym", "gptq8-channel",   "gptq8-channel-asym", "gptq8-g64-asym",
};

static bool is_dependent(const struct verify *v) {
    return strcmp(v->options.launch, "dependent") == 0;
}

/* Formats of the winners, each once. */
static void winners_formats(const struct verify *v, struct tern_strs *names) {
    for (size_t i = 0; i < v->winners.count; i++) {
        bool known = false;
        for (size_t j = 0; j < names->count; j++) {
            known = known || strcmp(names->items[j], v->winners.rows[i].format) == 0;
        }
        if (!known) {
            tern_strs_add(names, v->winners.rows[i].format);
        }
    }
}

static enum tern_status select_formats(struct verify *v, struct tern_error *err) {
    struct tern_strs names = {0};
    if (v->options.formats != NULL) {
        tern_strs_split(&names, v->options.formats, ',');
    } else if (v->options.db != NULL) {
        winners_formats(v, &names);
    } else {
        for (size_t i = 0; i < sizeof verify_formats / sizeof verify_formats[0]; i++) {
            tern_strs_add(&names, verify_formats[i]);
        }
    }
    enum tern_status status = TERN_OK;
    v->formats = tern_alloc_zero(names.count + 1, sizeof *v->formats);
    for (size_t i = 0; i < names.count && status == TERN_OK; i++) {
        status = tern_format_parse(names.items[i], &v->formats[v->format_count++], err);
    }
    tern_strs_free(&names);
    return status;
}

static enum tern_status select_templates(struct verify *v, struct tern_error *err) {
    enum tern_status status = tern_templates_load_all(&v->templates, &v->template_count, err);
    v->selected = tern_alloc_zero(v->template_count + 1, sizeof *v->selected);
    v->kernels = tern_alloc_zero(v->template_count + 1, sizeof *v->kernels);
    v->closures = tern_alloc_zero(v->template_count + 1, sizeof *v->closures);
    if (status == TERN_OK) {
        status = tern_templates_select(v->templates, v->template_count, v->options.templates, v->selected, err);
    }
    return status;
}

/* ---- candidates
 * ---------------------------------------------------------------------------------------------------------------- */
static void add_item(struct verify *v, size_t first, const struct tern_candidate *candidate, size_t format) {
    for (size_t i = first; i < v->item_count; i++) {
        if (tern_candidate_equal(&v->items[i].candidate, candidate)) {
            return;
        }
    }
    if (v->item_count == v->item_capacity) {
        v->item_capacity = v->item_capacity == 0 ? 256 : 2 * v->item_capacity;
        v->items = tern_realloc(v->items, v->item_capacity * sizeof *v->items);
    }
    v->items[v->item_count++] = (struct verify_item){.candidate = *candidate, .format = format};
}

/* Adds `count` of the list beyond the first at random, or all. */
static void add_sample(struct verify *v, size_t first, const struct tern_candidates *list, size_t format, int64_t count,
                       struct tern_random *random) {
    for (size_t i = 0; v->options.all && i < list->count; i++) {
        add_item(v, first, &list->items[i], format);
    }
    for (int64_t i = 0; !v->options.all && i < count && list->count > 1; i++) {
        add_item(v, first, &list->items[1 + tern_random_below(random, list->count - 1)], format);
    }
}

/* Shapes on which grids are enumerated, since what is valid depends on the problem: smallest, middle and largest M, and the
 * two longest K. Returns how many; the table has its shapes with the smallest M first only by habit, so they are searched.
 */
#define SELECT_SHAPES 5
static size_t select_shapes(const struct tern_template *t, const struct tern_format *format, size_t out[SELECT_SHAPES]) {
    size_t count = 0;
    bool taken[64] = {false};
    static const int64_t target_m[SELECT_SHAPES] = {1, 16, INT32_MAX, 0, 0}; /* 0: the longest K that is left */
    for (size_t part = 0; part < SELECT_SHAPES; part++) {
        size_t best = SIZE_MAX;
        int64_t best_score = INT64_MAX;
        for (size_t i = 0; i < tern_check_shape_count && i < 64; i++) {
            const struct tern_check_shape *s = &tern_check_shapes[i];
            int64_t score = target_m[part] > 0 ? llabs(s->m - target_m[part]) : -s->k;
            if (!taken[i] && score < best_score && tern_check_shape_fits(s, format, t)) {
                best = i;
                best_score = score;
            }
        }
        if (best != SIZE_MAX) {
            taken[best] = true;
            out[count++] = best;
        }
    }
    return count;
}

static enum tern_status add_candidates(struct verify *v, const struct tern_template *t, size_t format,
                                       struct tern_error *err) {
    size_t shapes[SELECT_SHAPES], first = v->item_count;
    size_t parts = select_shapes(t, &v->formats[format], shapes);
    char stream[96];
    struct tern_random random;
    tern_str_format(stream, sizeof stream, "verify %s %s", t->name, v->formats[format].name);
    tern_random_init(&random, (uint64_t)v->options.seed, stream);
    /* The sample is dealt to the shapes in turn, starting anywhere, so that small samples over many formats meet them all.
     */
    size_t start = parts > 0 ? (size_t)tern_random_below(&random, parts) : 0;
    enum tern_status status = TERN_OK;
    for (size_t part = 0; part < parts && status == TERN_OK; part++) {
        const struct tern_check_shape *s = &tern_check_shapes[shapes[part]];
        struct tern_problem_shape problem = {
            .format = &v->formats[format], .m = s->m, .n = s->n, .k = s->k, .type = v->type, .dependent = is_dependent(v)};
        struct tern_candidates list = {0};
        struct tern_exclusions why = {0};
        int64_t share = (v->options.per_template + (int64_t)((part + start) % parts)) / (int64_t)parts;
        if (share == 0 && !v->options.all && v->item_count > first) {
            continue;
        }
        status = tern_grid_enumerate(t, &problem, &v->gpu, &list, &why, err);
        if (status == TERN_OK && list.count > 0) {
            if (v->item_count == first) {
                add_item(v, first, &list.items[0], format); /* the default, where it is valid */
            }
            add_sample(v, first, &list, format, share, &random);
        }
        tern_candidates_free(&list);
    }
    return status;
}

/* The winners of one template and format; one that won at several M counts once. */
static void add_winners(struct verify *v, const struct tern_template *t, size_t format) {
    size_t first = v->item_count;
    for (size_t i = 0; i < v->winners.count; i++) {
        const struct tern_result *row = &v->winners.rows[i];
        struct tern_candidate candidate;
        struct tern_error err;
        if (strcmp(row->template_name, t->name) != 0 || strcmp(row->op, tern_activation_op(v->type)) != 0 ||
            strcmp(row->format, v->formats[format].name) != 0) {
            continue;
        }
        if (tern_candidate_parse(t, row->params, &candidate, &err) != TERN_OK) {
            tern_log_warn("tune again", "a winner is left out: %s %s is no candidate any more: %s", t->name, row->params,
                          err.text);
            continue;
        }
        size_t before = v->item_count;
        add_item(v, first, &candidate, format);
        if (v->item_count > before) {
            v->items[before].m = row->m;
            v->items[before].k = row->k;
        }
    }
}

enum tern_status tern_verify_select(struct verify *v, struct tern_error *err) {
    enum tern_status status = tern_gpu_load(v->options.gpu, &v->gpu, err);
    if (status == TERN_OK) {
        status = tern_activation_parse(v->options.activations, &v->type, err);
    }
    if (status == TERN_OK && v->options.db != NULL) {
        status = tern_dispatch_rows(v->options.db, v->gpu.name, NULL, &v->winners, err);
    }
    if (status == TERN_OK) {
        status = select_formats(v, err);
    }
    if (status == TERN_OK) {
        status = select_templates(v, err);
    }
    if (strcmp(v->options.backend, "emu") == 0) {
        v->gpu.sms = 4; /* as the emulator has: persistent grids loop over small shapes too */
    }
    for (size_t t = 0; t < v->template_count && status == TERN_OK; t++) {
        for (size_t f = 0; f < v->format_count && v->selected[t] && status == TERN_OK; f++) {
            if (v->options.db != NULL) {
                add_winners(v, &v->templates[t], f);
            } else if (tern_template_serves(&v->templates[t], &v->formats[f], v->type) &&
                       (v->templates[t].dependent || !is_dependent(v))) {
                status = add_candidates(v, &v->templates[t], f, err);
            }
        }
    }
    if (status == TERN_OK && v->item_count == 0) {
        status = tern_error_set(err, TERN_USAGE, "nothing to verify: no %s of %s serves %s with %s activations on %s",
                                v->options.db != NULL ? "winner" : "candidate",
                                v->options.templates != NULL ? v->options.templates : "any template",
                                v->options.formats != NULL ? v->options.formats
                                : v->options.db != NULL    ? "any format"
                                                           : "the standard formats",
                                v->options.activations, v->options.gpu);
        tern_error_hint(err, "templates/NAME/space.lua says what a template serves");
    }
    return status;
}

void tern_verify_free(struct verify *v) {
    for (size_t i = 0; i < v->item_count; i++) {
        free(v->items[i].detail);
    }
    for (size_t i = 0; i < v->template_count; i++) {
        free(v->kernels[i]);
        free(v->closures[i]);
    }
    free(v->items);
    free(v->kernels);
    free(v->closures);
    free(v->selected);
    free(v->formats);
    tern_results_free(&v->winners);
    tern_templates_free(v->templates, v->template_count);
    tern_gpu_free(&v->gpu);
}
