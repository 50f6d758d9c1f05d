/* A run without a matching GPU: compile within the budget in the cost model's order, rank with the compiler's resources,
 * check the ranked best on the emulator. Nothing here has a measured time; the database refuses one. */
#include "commands/run_internal.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/str.h"
#include "output/progress.h"
#include "space/one_copy.h"
#include "worker/interrupt.h"
#include "worker/pool.h"
#include "worker/reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BUDGET_S 180.0
#define COMPILE_SHARE    0.55 /* of the budget; the emulator gets the rest */

/* Builds in the order in which planning wants them: the best of every problem, then every second best, and so on. */
static size_t ranked_builds(const struct run *run, size_t *list) {
    bool *seen = tern_alloc_zero(run->build_count + 1, sizeof *seen);
    size_t count = 0, longest = 0;
    for (size_t i = 0; i < run->problem_count; i++)
        if (run->problems[i].entry_count > longest)
            longest = run->problems[i].entry_count;
    for (size_t rank = 0; rank < longest; rank++)
        for (size_t i = 0; i < run->problem_count; i++) {
            const struct run_problem *p = &run->problems[i];
            if (rank < p->entry_count && !seen[p->entries[rank].build]) {
                seen[p->entries[rank].build] = true;
                list[count++] = p->entries[rank].build;
            }
        }
    free(seen);
    return count;
}

/* Predictions again, now with registers, shared memory and spills of what was built. */
static enum tern_status predict_built(struct run *run, struct tern_error *err) {
    for (size_t i = 0; i < run->problem_count; i++) {
        struct run_problem *p = &run->problems[i];
        struct tern_problem_shape shape = tern_run_shape(run, p);
        for (size_t e = 0; e < p->entry_count; e++) {
            const struct run_build *b = &run->builds[p->entries[e].build];
            struct tern_geometry geometry;
            if (!b->built || b->row.outcome != TERN_OUTCOME_OK)
                continue;
            const struct tern_resources r = {b->row.registers, b->row.static_smem_bytes, b->row.spill_bytes};
            enum tern_status status = tern_candidate_geometry(&b->candidate, &shape, run->gpu.sms, &geometry, err);
            if (status != TERN_OK)
                return status;
            p->entries[e].predicted_us = tern_cost_predict_us(&run->gpu, &b->candidate, &shape, &geometry, &r);
        }
    }
    return TERN_OK;
}

/* Best predicted entry of a problem that is built, can launch and has not failed on the emulator. */
static struct run_entry *best_planned(const struct run *run, struct run_problem *p) {
    struct run_entry *best = NULL;
    for (size_t e = 0; e < p->entry_count; e++) {
        const struct run_build *b = &run->builds[p->entries[e].build];
        bool usable = b->built && b->row.outcome == TERN_OUTCOME_OK &&
                      (b->check == TERN_OUTCOME_OK || b->check == TERN_OUTCOME_RUNNING) &&
                      isfinite(p->entries[e].predicted_us);
        if (usable && (!best || p->entries[e].predicted_us < best->predicted_us))
            best = &p->entries[e];
    }
    return best;
}

struct emulation {
    struct run *run;
    size_t *builds, *problems; /* build and a problem that wants it */
    size_t count, done;
    int64_t start_ns, outcomes[TERN_OUTCOME_COUNT];
    enum tern_status status;
    struct tern_error *err;
};

static json_t *emulate_request(void *user, size_t index) {
    const struct emulation *em = user;
    const struct run_build *b = &em->run->builds[em->builds[index]];
    struct tern_str source = {0};
    struct tern_error err;
    if (tern_run_source(em->run, b, &source, &err) != TERN_OK)
        tern_str_printf(&source, "\n#error \"%s\"\n", err.text); /* becomes this build's compiler log */
    struct tern_problem_shape shape = tern_run_shape(em->run, &em->run->problems[em->problems[index]]);
    json_t *message =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s}", "do", "emulate", "gpu",
                  em->run->options.gpu, "activations", em->run->options.activations, "template", b->row.template_name,
                  "params", b->row.params, "format", b->row.format, "key", b->row.key, "source", tern_str_text(&source), "m",
                  (json_int_t)shape.m, "k", (json_int_t)shape.k, "n", (json_int_t)shape.n, "seed",
                  (json_int_t)em->run->options.seed, "cache", em->run->options.cache);
    tern_run_weights_request(em->run, &em->run->problems[em->problems[index]], message);
    tern_str_free(&source);
    return message;
}

static void tell_progress(struct emulation *em, enum tern_outcome outcome) {
    char line[TERN_PROGRESS_SIZE];
    em->outcomes[outcome]++;
    const struct tern_progress progress = {.what = "on the emulator",
                                           .done = em->done,
                                           .total = em->count,
                                           .elapsed_s = (double)(tern_clock_now_ns() - em->start_ns) * 1e-9,
                                           .outcomes = em->outcomes,
                                           .best_us = (double)NAN};
    tern_progress_line(&progress, line);
    tern_log_progress("%s", line);
}

static void emulate_done(void *user, size_t index, enum tern_call call, const json_t *reply, const char *why) {
    struct emulation *em = user;
    struct run *run = em->run;
    struct run_build *b = &run->builds[em->builds[index]];
    struct tern_error err;
    em->done++;
    if (call == TERN_CALL_OK && tern_reply_is_error(reply, &err)) {
        if (em->status == TERN_OK)
            *em->err = err;
        em->status = err.status;
        return;
    }
    struct tern_store_trial trial = {.run = run->run_id,
                                     .device = run->device_id,
                                     .problem = run->problems[em->problems[index]].id,
                                     .build = b->row.id,
                                     .stage = "verify",
                                     .predicted_us = (double)NAN,
                                     .us = (double)NAN,
                                     .us_lo = (double)NAN,
                                     .us_hi = (double)NAN};
    tern_str_copy(trial.policy, sizeof trial.policy, tern_run_policy_name(run, RUN_POLICY_EMU));
    enum tern_status status = tern_store_trial_begin(run->store, &trial, &err);
    trial.outcome = call == TERN_CALL_OK        ? tern_reply_outcome_of(reply)
                    : call == TERN_CALL_TIMEOUT ? TERN_OUTCOME_TIMEOUT
                                                : TERN_OUTCOME_CRASH;
    tern_str_copy(trial.detail, sizeof trial.detail, call == TERN_CALL_OK ? tern_message_text(reply, "detail") : why);
    b->check = trial.outcome;
    b->checked = true;
    tern_str_copy(b->check_detail, sizeof b->check_detail, trial.detail);
    if (trial.outcome != TERN_OUTCOME_OK)
        tern_log_warn("see docs/adding-a-kernel.md for how to debug on the emulator", "%s %s %s is %s on the emulator: %s",
                      b->row.template_name, b->row.params, b->row.format, tern_outcome_name(trial.outcome), trial.detail);
    run->outcomes[trial.outcome]++;
    tell_progress(em, trial.outcome);
    if (status == TERN_OK)
        status = tern_store_trial_finish(run->store, &trial, NULL, 0, &err);
    if (status != TERN_OK && em->status == TERN_OK) {
        em->status = status;
        *em->err = err;
    }
}

/* Collects the builds that are best somewhere and not checked yet; takes over checks of earlier runs. */
static enum tern_status unchecked_best(struct run *run, struct emulation *em, struct tern_error *err) {
    em->count = 0;
    for (size_t i = 0; i < run->problem_count; i++) {
        struct run_entry *e = best_planned(run, &run->problems[i]);
        if (!e || run->builds[e->build].checked)
            continue;
        struct run_build *b = &run->builds[e->build];
        struct tern_store_trial earlier;
        bool found = false, queued = false;
        enum tern_status status =
            tern_store_trial_find(run->store, run->device_id, run->problems[i].id, b->row.id,
                                  tern_run_policy_name(run, RUN_POLICY_EMU), "verify", &earlier, &found, err);
        if (status != TERN_OK)
            return status;
        if (found) {
            b->checked = true;
            b->check = earlier.outcome;
            continue;
        }
        for (size_t j = 0; j < em->count; j++)
            queued = queued || em->builds[j] == e->build;
        if (!queued) {
            em->builds[em->count] = e->build;
            em->problems[em->count++] = i;
        }
    }
    return TERN_OK;
}

/* Checks the ranked best on the emulator; one that fails gives its place to the next, which is checked in turn. */
static enum tern_status emulate_best(struct run *run, int64_t stop_ns, struct tern_error *err) {
    struct emulation em = {.run = run, .start_ns = tern_clock_now_ns(), .status = TERN_OK, .err = err};
    em.builds = tern_alloc((run->problem_count + 1) * sizeof *em.builds);
    em.problems = tern_alloc((run->problem_count + 1) * sizeof *em.problems);
    enum tern_status status = TERN_OK;
    size_t answered = 1;
    while (status == TERN_OK && answered > 0 && !tern_interrupted()) {
        status = unchecked_best(run, &em, err);
        if (status != TERN_OK || em.count == 0)
            break;
        const struct tern_pool_work work = {.kind = "compile",
                                            .workers = (size_t)run->options.jobs,
                                            .count = em.count,
                                            .timeout_s = tern_run_timeout_s(run, RUN_COMPILE_TIMEOUT_S),
                                            .stop_ns = stop_ns,
                                            .user = &em,
                                            .request = emulate_request,
                                            .done = emulate_done};
        em.done = 0;
        status = tern_pool_run(&work, &answered, err);
        if (status == TERN_OK)
            status = em.status;
    }
    free(em.builds);
    free(em.problems);
    return status;
}

/* Best planned candidate of each layout becomes a result row; the winner's trial is journalled as planned. */
static enum tern_status plan_problem(struct run *run, struct run_problem *p, struct tern_error *err) {
    struct run_entry *e = best_planned(run, p);
    if (!e)
        return TERN_OK;
    p->per_layout = tern_alloc_zero(TERN_MAX_LAYOUTS, sizeof *p->per_layout);
    for (size_t i = 0; i < p->entry_count; i++) {
        const struct run_build *b = &run->builds[p->entries[i].build];
        size_t at = 0;
        if (!b->built || b->row.outcome != TERN_OUTCOME_OK || !isfinite(p->entries[i].predicted_us) ||
            (b->check != TERN_OUTCOME_OK && b->check != TERN_OUTCOME_RUNNING))
            continue;
        while (at < p->per_layout_count && strcmp(p->per_layout[at].layout, b->candidate.tmpl->layout) != 0)
            at++;
        if (at == TERN_MAX_LAYOUTS ||
            (at < p->per_layout_count && p->per_layout[at].predicted_us <= p->entries[i].predicted_us))
            continue;
        tern_run_result(run, p, b, &p->per_layout[at]);
        p->per_layout[at].predicted_us = p->entries[i].predicted_us;
        p->per_layout_count += at == p->per_layout_count;
    }
    p->done = true;
    p->device_id = run->device_id;
    struct tern_store_trial trial = {.run = run->run_id,
                                     .device = run->device_id,
                                     .problem = p->id,
                                     .build = run->builds[e->build].row.id,
                                     .stage = "plan",
                                     .predicted_us = e->predicted_us,
                                     .us = (double)NAN,
                                     .us_lo = (double)NAN,
                                     .us_hi = (double)NAN};
    tern_str_copy(trial.policy, sizeof trial.policy, tern_run_policy_name(run, RUN_POLICY_PLAN));
    enum tern_status status = tern_store_trial_begin(run->store, &trial, err);
    trial.outcome = TERN_OUTCOME_PLANNED;
    run->outcomes[TERN_OUTCOME_PLANNED]++;
    return status == TERN_OK ? tern_store_trial_finish(run->store, &trial, NULL, 0, err) : status;
}

static void summarise(const struct run *run, size_t wanted) {
    size_t built = 0, failed = 0, checked = 0;
    for (size_t b = 0; b < run->build_count; b++) {
        built += run->builds[b].built;
        failed += run->builds[b].built && run->builds[b].row.outcome != TERN_OUTCOME_OK;
        checked += run->builds[b].checked && run->builds[b].check == TERN_OUTCOME_OK;
    }
    tern_log_note("compiled %zu of %zu candidates (%zu refused by the compiler, %zu left out by the budget); %zu right on "
                  "the emulator",
                  built, wanted, failed, wanted - built, checked);
}

enum tern_status tern_run_plan(struct run *run, struct tern_error *err) {
    double budget_s = run->options.budget_s > 0 ? run->options.budget_s : DEFAULT_BUDGET_S;
    int64_t now_ns = tern_clock_now_ns();
    size_t *list = tern_alloc((run->build_count + 1) * sizeof *list);
    size_t count = ranked_builds(run, list);
    enum tern_status status = tern_run_compile(run, list, count, now_ns + (int64_t)(COMPILE_SHARE * budget_s * 1e9), err);
    free(list);
    if (status == TERN_OK)
        status = predict_built(run, err);
    if (status == TERN_OK)
        status = emulate_best(run, now_ns + (int64_t)(budget_s * 1e9), err);
    for (size_t i = 0; i < run->problem_count && status == TERN_OK; i++)
        status = plan_problem(run, &run->problems[i], err);
    tern_log_progress("%s", "");
    if (status == TERN_OK)
        summarise(run, count);
    return status;
}
