/* A run on a GPU: what earlier runs answered, the builds that the search may ask for, then screening and finals of each problem. */
#include "commands/run_internal.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/str.h"
#include "worker/interrupt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BUDGET_S 300.0
#define SCREEN_SHARE     0.6 /* of a problem's share of the budget; the rest is for finals, baselines, preparation */
#define COMPILED_MAX     48  /* candidates a problem has compiled, unless all are wanted; others' may serve it as well */

/* Defaults first: they take part in every final. */
static void defaults_first(const struct run *run, struct run_problem *p) {
    size_t at = 0;
    for (size_t i = 0; i < p->entry_count; i++)
        if (tern_candidate_is_default(&run->builds[p->entries[i].build].candidate)) {
            struct run_entry e = p->entries[i];
            memmove(&p->entries[at + 1], &p->entries[at], (i - at) * sizeof e);
            p->entries[at++] = e;
        }
}

/* Every template's best prediction, then every second best, and so on: the cost model is good at ranking the candidates of
 * one template and poor at comparing templates. Stable in the order of predictions. */
static void templates_in_turn(const struct run *run, struct run_problem *p) {
    struct run_entry *sorted = tern_alloc((p->entry_count + 1) * sizeof *sorted);
    bool *taken = tern_alloc_zero(p->entry_count + 1, sizeof *taken);
    size_t count = 0;
    while (count < p->entry_count) {
        size_t round = count;
        for (size_t i = 0; i < p->entry_count; i++) {
            const struct tern_template *t = run->builds[p->entries[i].build].candidate.tmpl;
            bool seen = taken[i];
            for (size_t j = round; j < count; j++)
                seen = seen || run->builds[sorted[j].build].candidate.tmpl == t;
            if (!seen) {
                taken[i] = true;
                sorted[count++] = p->entries[i];
            }
        }
    }
    memcpy(p->entries, sorted, p->entry_count * sizeof *sorted);
    free(sorted);
    free(taken);
}

static enum tern_status compile_needed(struct run *run, struct tern_error *err) {
    bool *wanted = tern_alloc_zero(run->build_count + 1, sizeof *wanted);
    size_t *list = tern_alloc((run->build_count + 1) * sizeof *list);
    const bool all = run->strategy == TERN_STRATEGY_EXHAUSTIVE || run->options.replay; /* a replay compiles nothing */
    const size_t most = all ? SIZE_MAX : COMPILED_MAX;
    size_t count = 0;
    for (size_t i = 0; i < run->problem_count; i++)
        for (size_t e = 0; !run->problems[i].done && e < run->problems[i].entry_count; e++)
            if (e < most || run->problems[i].entries[e].build + 1 == run->problems[i].incumbent)
                wanted[run->problems[i].entries[e].build] = true;
    for (size_t b = 0; b < run->build_count; b++)
        if (wanted[b])
            list[count++] = b;
    enum tern_status status = tern_run_compile(run, list, count, 0, err);
    free(wanted);
    free(list);
    return status;
}

static enum tern_status tune_problem(struct run *run, struct run_problem *p, double share_s, struct tern_error *err) {
    enum tern_status status = p->between ? tern_run_offer_winners(run, p, err) : TERN_OK;
    if (status == TERN_OK)
        status = tern_run_screen(run, p, SCREEN_SHARE * share_s, false, err);
    return status == TERN_OK && !tern_interrupted() ? tern_run_final(run, p, err) : status;
}

/* Seconds that are left of the budget, which begins with the first problem. A replay has no clock. */
static double budget_left_s(struct run *run) {
    const double budget_s = run->options.budget_s > 0 ? run->options.budget_s : DEFAULT_BUDGET_S;
    if (run->options.replay)
        return run->options.budget_s > 0 ? budget_s : (double)INFINITY;
    if (run->end_ns == 0)
        run->end_ns = run->tune_ns + (int64_t)(budget_s * 1e9);
    return fmax((double)(run->end_ns - run->tune_ns) * 1e-9, 0);
}

enum tern_status tern_run_measure(struct run *run, struct tern_error *err) {
    size_t left = 0;
    enum tern_status status = tern_run_resume(run, &run->resumed, err);
    for (size_t i = 0; i < run->problem_count; i++) {
        struct run_problem *p = &run->problems[i];
        if (p->done || p->left_out)
            continue;
        templates_in_turn(run, p);
        defaults_first(run, p);
        left++;
    }
    if (run->resumed > 0 && run->tune_ns == 0)
        tern_log_note("%zu of %zu problems are done already", run->resumed, run->resumed + left);
    if (status == TERN_OK)
        status = compile_needed(run, err);
    if (run->tune_ns == 0)
        memset(run->seconds, 0, sizeof run->seconds); /* of calibrating */
    run->tune_ns = tern_clock_now_ns();
    const double budget_s = budget_left_s(run);
    return status == TERN_OK && left > 0 ? tern_run_share(run, tune_problem, budget_s, err) : status;
}
