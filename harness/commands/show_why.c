/* `tune show --why`: gathers what is known of one problem, from the database and from today's templates. */
#include "commands/show_trials.h"

#include "commands/dispatch.h"
#include "config/gpu.h"
#include "config/template.h"
#include "core/str.h"
#include "space/grid.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BASELINES 8
#define MAX_RULES     160

struct gathered {
    struct tern_trials trials;
    struct tern_why_baseline baselines[MAX_BASELINES];
    struct tern_why_rule rules[MAX_RULES];
    struct tern_why why;
    char *log;
    struct tern_str compiler;
};

static void add_baseline(void *user, const struct tern_store_baseline *b) {
    struct gathered *g = user;
    if (g->why.baseline_count == MAX_BASELINES)
        return;
    struct tern_why_baseline *row = &g->baselines[g->why.baseline_count++];
    *row = (struct tern_why_baseline){.us = b->us, .us_lo = b->us_lo, .us_hi = b->us_hi};
    tern_str_copy(row->kind, sizeof row->kind, b->kind);
}

static void add_refused(void *user, const struct tern_store_build *b) {
    struct gathered *g = user;
    struct tern_trial trial = {.outcome = b->outcome, .registers = b->registers, .spill_bytes = b->spill_bytes};
    tern_str_copy(trial.stage, sizeof trial.stage, "build");
    tern_str_copy(trial.template_name, sizeof trial.template_name, b->template_name);
    tern_str_copy(trial.params, sizeof trial.params, b->params);
    tern_str_format(trial.detail, sizeof trial.detail, "%.*s", (int)strcspn(b->log, "\n"), b->log);
    tern_trials_add(&g->trials, &trial);
}

static void add_rule(struct gathered *g, const char *name, int64_t count, const char *reason) {
    if (g->why.rule_count == MAX_RULES)
        return;
    struct tern_why_rule *rule = &g->rules[g->why.rule_count++];
    rule->count = count;
    tern_str_copy(rule->template_name, sizeof rule->template_name, name);
    tern_str_copy(rule->reason, sizeof rule->reason, reason);
}

/* Why a template has no grid for the problem at all; false if it has one. */
static bool left_out(struct gathered *g, const struct tern_template *t, const struct tern_problem_shape *p,
                     const struct tern_gpu *gpu) {
    char reason[120] = "";
    if (!tern_template_serves(t, p->format, p->type))
        tern_str_format(reason, sizeof reason, "does not take %s with %s activations", p->format->name,
                        tern_activation_name(p->type));
    else if (p->m < t->m_min || p->m > t->m_max)
        tern_str_format(reason, sizeof reason, "is for M = %lld to %lld", (long long)t->m_min, (long long)t->m_max);
    else if (gpu->cc < t->min_cc)
        tern_str_format(reason, sizeof reason, "needs compute capability %d.%d", t->min_cc / 10, t->min_cc % 10);
    if (reason[0])
        add_rule(g, t->name, 0, reason);
    return reason[0] != 0;
}

/* The description behind a row's GPU name: of a replay, that of the GPU that was recorded. */
static enum tern_status load_gpu(const char *row_gpu, struct tern_gpu *gpu, struct tern_error *err) {
    char name[64];
    tern_str_copy(name, sizeof name, row_gpu);
    if (tern_is_replay_name(name))
        name[strlen(name) - strlen(TERN_REPLAY_SUFFIX)] = 0;
    return tern_gpu_load(name, gpu, err);
}

/* Counts of the grid, by reason, of the templates as they are now: the database keeps only what was tried. */
static enum tern_status read_rules(struct gathered *g, struct tern_error *err) {
    const struct tern_result *w = g->why.winner;
    struct tern_template *templates = NULL;
    struct tern_gpu gpu = {0};
    struct tern_format format;
    size_t count = 0;
    enum tern_status status = load_gpu(w->gpu, &gpu, err);
    if (!status)
        status = tern_format_parse(w->format, &format, err);
    if (!status)
        status = tern_templates_load_all(&templates, &count, err);
    struct tern_problem_shape problem = {.format = &format, .m = w->m, .n = w->n, .k = w->k, .type = TERN_F16};
    (void)tern_activation_of_op(w->op, &problem.type); /* rows hold no other op */
    for (size_t t = 0; t < count && !status; t++) {
        struct tern_candidates list = {0};
        struct tern_exclusions why = {0};
        if (left_out(g, &templates[t], &problem, &gpu))
            continue;
        status = tern_grid_enumerate(&templates[t], &problem, &gpu, &list, &why, err);
        g->why.grid += (int64_t)list.count;
        for (size_t i = 0; i < why.count && !status; i++)
            add_rule(g, templates[t].name, why.items[i].count, why.items[i].reason);
        tern_candidates_free(&list);
    }
    tern_templates_free(templates, count);
    tern_gpu_free(&gpu);
    return status;
}

/* The lines of ptxas that speak of resources; the rest of a log is names. */
static void read_compiler(struct gathered *g) {
    static const char *const words[] = {"registers", "spill", "smem", "stack frame", "warning"};
    for (const char *line = g->log; line && *line;) {
        size_t length = strcspn(line, "\n");
        bool wanted = false;
        for (size_t w = 0; w < sizeof words / sizeof words[0] && !wanted; w++)
            wanted = memmem(line, length, words[w], strlen(words[w])) != NULL;
        if (wanted)
            tern_str_printf(&g->compiler, "%.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
    g->why.compiler = tern_str_text(&g->compiler);
}

static enum tern_status read_geometry(struct gathered *g, struct tern_error *err) {
    const struct tern_result *w = g->why.winner;
    struct tern_dispatch_geometry geometry = {0};
    struct tern_gpu gpu = {0};
    enum tern_status status = load_gpu(w->gpu, &gpu, err);
    if (!status && w->template_name[0])
        status = tern_dispatch_geometry(w, w->m, w->n, w->k, gpu.sms, &geometry, err);
    if (!status && w->template_name[0]) {
        memcpy(g->why.launch_grid, geometry.grid, sizeof geometry.grid);
        g->why.block = geometry.block;
        g->why.smem_bytes = geometry.smem_bytes;
    }
    tern_gpu_free(&gpu);
    return status;
}

static enum tern_status gather(struct tern_store *store, const struct tern_result *row, struct gathered *g,
                               struct tern_error *err) {
    const struct tern_results one = {.rows = (struct tern_result *)(uintptr_t)row, .count = 1}; /* read only */
    struct tern_store_problem p = {.m = row->m, .n = row->n, .k = row->k};
    tern_str_copy(p.format, sizeof p.format, row->format);
    tern_str_copy(p.op, sizeof p.op, row->op);
    g->why.winner = row;
    enum tern_status status = tern_show_read_trials(store, &one, &g->trials, err);
    if (!status)
        status = tern_store_refused_each(store, row->gpu, row->format, row->op, add_refused, g, err);
    if (!status)
        status = tern_store_baselines_each(store, row->gpu, &p, add_baseline, g, err);
    if (!status)
        status = tern_store_build_log(store, row->build_key, &g->log, err);
    if (!status)
        status = read_rules(g, err);
    if (!status)
        status = read_geometry(g, err);
    read_compiler(g);
    g->why.trials = g->trials.rows;
    g->why.trial_count = g->trials.count;
    g->why.baselines = g->baselines;
    g->why.rules = g->rules;
    return status;
}

enum tern_status tern_show_why(const char *db, const struct tern_results *rows, enum show_form form,
                               struct tern_error *err) {
    struct tern_store *store = NULL;
    struct gathered *all = tern_alloc_zero(rows->count + 1, sizeof *all);
    struct tern_why *list = tern_alloc_zero(rows->count + 1, sizeof *list);
    enum tern_status status = tern_store_open(db, TERN_STORE_READ, &store, err);
    for (size_t i = 0; i < rows->count && !status; i++) {
        status = gather(store, &rows->rows[i], &all[i], err);
        list[i] = all[i].why;
    }
    if (!status && form == SHOW_JSON)
        tern_why_json(stdout, rows->rows[0].gpu, db, list, rows->count);
    for (size_t i = 0; i < rows->count && !status && form != SHOW_JSON; i++) {
        fputs(i ? "\n\n" : "", stdout);
        tern_why_print(stdout, &list[i]);
    }
    for (size_t i = 0; i < rows->count; i++) {
        tern_trials_free(&all[i].trials);
        tern_str_free(&all[i].compiler);
        free(all[i].log);
    }
    tern_store_close(store);
    free(all);
    free(list);
    return status;
}
