/* Finals of one problem: the best screened candidates, the defaults and the baselines in interleaved rounds, then the result
 * rows. Reported numbers come from here only: the best of many noisy screening times is a biased pick. */
#include "commands/run_internal.h"

#include "core/log.h"
#include "core/str.h"
#include "measure/stats.h"
#include "worker/reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FINALISTS          8   /* best screened candidates */
#define FINALISTS_COOL     5   /* on a cool device screens differ from finals by a few tenths of a percent */
#define FINALISTS_MAX      12  /* with the defaults and the best of each layout */
#define FINAL_SECONDS      0.4 /* aim for all rounds of a problem; at least 20 rounds are run */
#define FINAL_TIMEOUT_S    180.0
#define ATTEMPTS           2 /* the finalists have run right before: a second worker gets a second chance */
#define RESAMPLES          1000
#define SUSTAINED_BASELINE "cublaslt-best16/sustained"
/* 95 % of ratios of two finalists differ by less between runs, which the rounds of one run cannot know: where memory lies, and what
 * is left of heat (docs/measuring.md). */
#define RUN_TO_RUN  0.005
#define IMPLAUSIBLE 0.97 /* below this share of the limit a time is an error to be explained, never a record */

struct finalist {
    struct run_entry *entry;
    struct tern_store_trial trial;
    double *samples;
    size_t count;
    struct tern_stats stats;
    double p_best, regret;
    struct tern_store_trial sustained; /* under load; its run stays 0 when it was not timed there */
    double *loaded;
    size_t loaded_count;
};

struct final {
    struct run *run;
    struct run_problem *p;
    struct finalist list[FINALISTS_MAX];
    size_t count;
    json_t *reply;
};

static bool listed(const struct final *f, const struct run_entry *e) {
    for (size_t i = 0; i < f->count; i++)
        if (f->list[i].entry == e)
            return true;
    return false;
}

/* Best screened entry that is not listed; layout NULL: of any layout. */
static struct run_entry *best_entry(const struct final *f, const char *layout) {
    struct run_entry *best = NULL;
    for (size_t i = 0; i < f->p->entry_count; i++) {
        struct run_entry *e = &f->p->entries[i];
        if (e->outcome != TERN_OUTCOME_OK || !(e->screen_us > 0) || listed(f, e))
            continue;
        if (layout && strcmp(f->run->builds[e->build].candidate.tmpl->layout, layout) != 0)
            continue;
        if (!best || e->screen_us < best->screen_us)
            best = e;
    }
    return best;
}

static void add(struct final *f, struct run_entry *e) {
    if (e && f->count < FINALISTS_MAX && !listed(f, e))
        f->list[f->count++].entry = e;
}

/* The best few, the best of every layout (for the choice under one copy of the weights), every template's default, and the last
 * winner. */
static void pick_finalists(struct final *f) {
    for (int i = 0; i < (f->p->compute_bound ? FINALISTS_COOL : FINALISTS); i++)
        add(f, best_entry(f, NULL));
    for (size_t t = 0; t < f->run->template_count; t++) {
        const char *layout = f->run->templates[t].layout;
        bool present = false;
        for (size_t i = 0; i < f->count; i++)
            present = present || strcmp(f->run->builds[f->list[i].entry->build].candidate.tmpl->layout, layout) == 0;
        if (!present)
            add(f, best_entry(f, layout));
    }
    for (size_t i = 0; i < f->p->entry_count; i++) {
        struct run_entry *e = &f->p->entries[i];
        if (e->outcome == TERN_OUTCOME_OK &&
            (tern_candidate_is_default(&f->run->builds[e->build].candidate) || e->build + 1 == f->p->incumbent))
            add(f, e);
    }
}

/* In one commit: each waits for the disk, and the device for it. */
static enum tern_status begin_trials(struct final *f, struct tern_error *err) {
    enum tern_status status = tern_store_batch_begin(f->run->store, err);
    for (size_t i = 0; i < f->count && status == TERN_OK; i++) {
        struct finalist *x = &f->list[i];
        x->trial = (struct tern_store_trial){.run = f->run->run_id,
                                             .device = f->p->gpu->id,
                                             .problem = f->p->id,
                                             .build = f->run->builds[x->entry->build].row.id,
                                             .stage = "final",
                                             .predicted_us = x->entry->predicted_us,
                                             .us = (double)NAN,
                                             .us_lo = (double)NAN,
                                             .us_hi = (double)NAN};
        tern_str_copy(x->trial.policy, sizeof x->trial.policy, tern_run_policy(f->run, f->p));
        status = tern_store_trial_begin(f->run->store, &x->trial, err);
    }
    return tern_store_batch_end(f->run->store, status, err);
}

static json_t *final_request(const struct final *f) {
    json_t *entries = json_array();
    for (size_t i = 0; i < f->count; i++) {
        const struct run_build *b = &f->run->builds[f->list[i].entry->build];
        json_array_append_new(entries,
                              json_pack("{s:s, s:s, s:s, s:f}", "template", b->row.template_name, "params", b->row.params,
                                        "cubin", b->row.cubin_hash, "screen_us", f->list[i].entry->screen_us));
    }
    return json_pack("{s:s, s:I, s:f, s:b, s:o}", "do", "final", "m", (json_int_t)f->run->shapes.m[f->p->m], "seconds",
                     FINAL_SECONDS, "cool", f->p->compute_bound, "entries", entries);
}

static const char *sustained_policy(const struct run *run) {
    return run->options.replay ? RUN_POLICY_REPLAY : tern_run_policy_name(run, RUN_POLICY_SUSTAINED);
}

/* A finalist that was timed under load too: a trial of its own, done when it begins. */
static void read_loaded(const struct final *f, struct finalist *x, const json_t *answer) {
    struct tern_stats stats;
    x->loaded = tern_message_samples(answer, "loaded", &x->loaded_count);
    if (x->loaded_count == 0 || x->trial.outcome != TERN_OUTCOME_OK)
        return;
    tern_stats_compute(x->loaded, x->loaded_count, &stats);
    x->sustained = x->trial;
    tern_str_copy(x->sustained.stage, sizeof x->sustained.stage, "sustained");
    tern_str_copy(x->sustained.policy, sizeof x->sustained.policy, sustained_policy(f->run));
    x->sustained.sm_mhz = (int)tern_message_int(f->reply, "loaded_mhz", 0);
    x->sustained.us = stats.median;
    x->sustained.us_lo = stats.lo;
    x->sustained.us_hi = stats.hi;
    x->sustained.gpu_seconds = (double)NAN; /* counted with the rounds */
}

/* Outcome, samples and statistics of each finalist out of the worker's reply; `fallback` when there is none. */
static void read_finalists(struct final *f, enum tern_outcome fallback, const char *why) {
    const json_t *entries = json_object_get(f->reply, "entries");
    for (size_t i = 0; i < f->count; i++) {
        struct finalist *x = &f->list[i];
        const json_t *answer = json_array_get(entries, i);
        x->trial.outcome = answer ? tern_reply_outcome_of(answer) : fallback;
        tern_str_copy(x->trial.detail, sizeof x->trial.detail, answer ? tern_message_text(answer, "detail") : why);
        if (tern_message_int(f->reply, "left_out", 0) > 0 && !x->trial.detail[0])
            tern_str_format(x->trial.detail, sizeof x->trial.detail, "%lld disturbed rounds left out",
                            (long long)tern_message_int(f->reply, "left_out", 0));
        x->samples = tern_message_samples(answer, "samples", &x->count);
        tern_stats_compute(x->samples, x->count, &x->stats);
        if (x->trial.outcome == TERN_OUTCOME_OK && !(x->stats.median >= IMPLAUSIBLE * f->p->limit_us)) {
            x->trial.outcome = TERN_OUTCOME_NOISY;
            tern_str_format(x->trial.detail, sizeof x->trial.detail, "implausible: %.3f us is under the limit of %.3f us",
                            x->stats.median, f->p->limit_us);
        }
        x->trial.us = x->stats.median;
        x->trial.us_lo = x->stats.lo;
        x->trial.us_hi = x->stats.hi;
        x->trial.sm_mhz = (int)tern_message_int(f->reply, "sm_mhz", 0);
        /* Rounds are shared by all: of a recording each has its own share, of a GPU an equal part. */
        x->trial.gpu_seconds = tern_message_real(answer, "gpu_seconds",
                                                 tern_message_real(f->reply, "gpu_seconds", (double)NAN) / (double)f->count);
        read_loaded(f, x, answer);
    }
}

/* Before the finalists are judged: cuBLASLt faster than the limit refutes the limit, not cuBLASLt. */
static void check_limit(struct final *f) {
    static const char *const kinds[] = {"cublaslt-default", "cublaslt-best16"};
    const json_t *baselines = json_object_get(f->reply, "baselines");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct tern_stats stats;
        size_t count = 0;
        double *samples = tern_message_samples(baselines, kinds[i], &count);
        tern_stats_compute(samples, count, &stats);
        if (count > 0 && stats.median > 0)
            tern_run_refute_limit(f->run, stats.median, f->p);
        free(samples);
    }
}

static enum tern_status finish_trials(struct final *f, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < f->count; i++) {
        struct finalist *x = &f->list[i];
        f->run->outcomes[x->trial.outcome]++;
        if (status == TERN_OK)
            status = tern_store_trial_finish(f->run->store, &x->trial, x->samples, x->count, err);
        if (status == TERN_OK && x->sustained.run != 0)
            status = tern_store_trial_begin(f->run->store, &x->sustained, err);
        if (status == TERN_OK && x->sustained.run != 0)
            status = tern_store_trial_finish(f->run->store, &x->sustained, x->loaded, x->loaded_count, err);
    }
    return status;
}

static enum tern_status put_baselines(struct final *f, struct tern_error *err) {
    const char *kind;
    json_t *value;
    enum tern_status status = TERN_OK;
    json_t *baselines = json_object_get(f->reply, "baselines");
    json_object_foreach(baselines, kind, value) {
        struct tern_stats stats;
        struct tern_store_baseline row = {.sm_mhz = (int)tern_message_int(f->reply, "sm_mhz", 0)};
        size_t count = 0;
        double *samples = tern_message_samples(baselines, kind, &count);
        tern_stats_compute(samples, count, &stats);
        bool sustained = strcmp(kind, SUSTAINED_BASELINE) == 0;
        if (sustained)
            row.sm_mhz = (int)tern_message_int(f->reply, "loaded_mhz", 0);
        tern_str_copy(row.policy, sizeof row.policy, sustained ? sustained_policy(f->run) : tern_run_policy(f->run, f->p));
        tern_str_copy(row.kind, sizeof row.kind, kind);
        tern_str_copy(row.detail, sizeof row.detail, tern_message_text(json_object_get(f->reply, "details"), kind));
        row.us = stats.median;
        row.us_lo = stats.lo;
        row.us_hi = stats.hi;
        if (status == TERN_OK && count > 0)
            status =
                tern_store_baseline_put(f->run->store, f->run->run_id, f->p->gpu->id, f->p->id, &row, samples, count, err);
        free(samples);
    }
    return status;
}

/* P(best) and regret over the finalists that ran right as many rounds as the fastest of them; who left earlier was surely
 * slower. */
static void rank_finalists(struct final *f) {
    const double *samples[FINALISTS_MAX];
    double p_best[FINALISTS_MAX], regret[FINALISTS_MAX];
    size_t index[FINALISTS_MAX], n = 0;
    const struct finalist *leader = NULL;
    for (size_t i = 0; i < f->count; i++)
        if (f->list[i].trial.outcome == TERN_OUTCOME_OK && (!leader || f->list[i].stats.median < leader->stats.median))
            leader = &f->list[i];
    for (size_t i = 0; i < f->count; i++)
        if (f->list[i].trial.outcome == TERN_OUTCOME_OK && f->list[i].count >= leader->count) {
            samples[n] = f->list[i].samples;
            index[n++] = i;
        }
    if (n == 0)
        return;
    tern_stats_p_best(samples, n, leader->count, RESAMPLES, (uint64_t)f->run->options.seed, p_best, regret);
    for (size_t i = 0; i < n; i++) {
        f->list[index[i]].p_best = p_best[i];
        f->list[index[i]].regret = regret[i];
    }
}

/* Median of a baseline, NAN if it was not timed. */
static double baseline_us(const struct final *f, const char *kind) {
    struct tern_stats stats;
    size_t count = 0;
    double *samples = tern_message_samples(json_object_get(f->reply, "baselines"), kind, &count);
    tern_stats_compute(samples, count, &stats);
    free(samples);
    return stats.median;
}

/* Adds the comparison with cuBLASLt FP16: the faster of its default and its best of 16, paired by round. */
static void compare_baselines(const struct final *f, const struct finalist *x, struct tern_result *row) {
    static const char *const kinds[] = {"cublaslt-default", "cublaslt-best16"};
    const json_t *baselines = json_object_get(f->reply, "baselines");
    struct tern_stats stats;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t count = 0;
        double *samples = tern_message_samples(baselines, kinds[i], &count);
        tern_stats_compute(samples, count, &stats);
        if (count > 0 && !(stats.median >= row->baseline_us)) {
            size_t rounds = count < x->count ? count : x->count;
            row->baseline_us = stats.median;
            tern_str_copy(row->baseline, sizeof row->baseline, kinds[i]);
            tern_stats_ratio_interval(samples, x->samples, rounds, RESAMPLES, (uint64_t)f->run->options.seed, &row->speedup,
                                      &row->speedup_lo, &row->speedup_hi);
        }
        free(samples);
    }
    row->default_us = baseline_us(f, "cublaslt-default");
    row->dequant_us = baseline_us(f, "dequant-cublaslt");
    row->dequant_e4m3_us = baseline_us(f, "dequant-e4m3-cublaslt");
    if (x->sustained.run == 0)
        return;
    row->sustained_us = x->sustained.us;
    row->sustained_speedup = baseline_us(f, SUSTAINED_BASELINE) / x->sustained.us;
}

/* One result row a layout: its fastest finalist. */
static void fill_results(struct final *f) {
    struct run_problem *p = f->p;
    free(p->per_layout);
    p->per_layout = tern_alloc_zero(f->count + 1, sizeof *p->per_layout);
    p->per_layout_count = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct finalist *x = &f->list[i];
        const struct run_build *build = &f->run->builds[x->entry->build];
        size_t at = 0;
        while (at < p->per_layout_count && strcmp(p->per_layout[at].layout, build->candidate.tmpl->layout) != 0)
            at++;
        if (x->trial.outcome != TERN_OUTCOME_OK || (at < p->per_layout_count && !(x->stats.median < p->per_layout[at].us)))
            continue;
        struct tern_result *row = &p->per_layout[at];
        tern_run_result(f->run, p, build, row);
        row->us = x->stats.median;
        row->us_lo = x->stats.lo;
        row->us_hi = x->stats.hi;
        row->p_best = x->p_best;
        row->regret = (x->regret > p->search_gap ? x->regret : p->search_gap) + RUN_TO_RUN;
        row->predicted_us = x->entry->predicted_us;
        tern_str_copy(row->policy, sizeof row->policy, x->trial.policy);
        row->pct_of_limit = 100 * p->limit_us / row->us;
        compare_baselines(f, x, row);
        p->per_layout_count += at == p->per_layout_count;
    }
    p->done = p->per_layout_count > 0;
    p->device_id = p->gpu->id;
}

/* What the worker saw of the device while the rounds ran. */
static void judge_rounds(const struct final *f) {
    long long m = (long long)f->run->shapes.m[f->p->m], others = (long long)tern_message_int(f->reply, "others", 0);
    if (others > 0)
        tern_log_warn("rerun when the GPU is idle", "%lld other processes used the GPU during the finals of M=%lld", others,
                      m);
    else if (tern_message_int(f->reply, "disturbed", 0) > 0)
        tern_log_warn("rerun when the GPU is cool: nvidia-smi -q -d PERFORMANCE",
                      "the GPU was throttled during the finals of M=%lld: %lld C, %lld W, %lld MHz", m,
                      (long long)tern_message_int(f->reply, "temperature_c", -1),
                      (long long)tern_message_int(f->reply, "power_w", -1),
                      (long long)tern_message_int(f->reply, "sm_mhz", -1));
    const char *why_not = tern_message_text(f->reply, "why_not_e4m3");
    if (why_not[0])
        tern_log_debug("M=%lld is not compared with dequantising to e4m3 and cuBLASLt FP8: %s", m, why_not);
    f->run->finals_unsettled += json_is_false(json_object_get(f->reply, "settled"));
    f->run->finals_judged++;
}

/* The rounds of a final belong together: its trials, its baselines and the winner are committed as one, so that a kill
 * leaves either a finished problem or one whose final is run again. */
static enum tern_status keep(struct final *f, struct tern_error *err) {
    enum tern_status status = tern_store_batch_begin(f->run->store, err);
    if (status == TERN_OK)
        status = finish_trials(f, err);
    if (status == TERN_OK && f->reply)
        status = put_baselines(f, err);
    if (status == TERN_OK && f->reply) {
        fill_results(f);
        size_t m_count = f->run->shapes.m_count, index = (size_t)(f->p - f->run->problems);
        status = tern_run_promote_layer(f->run, index / m_count * m_count, err);
    }
    return tern_store_batch_end(f->run->store, status, err);
}

/* One final in a worker of whatever age. *failed: the worker died, hung or reported a fault; every finalist then has that
 * outcome, as nobody knows whose doing it was. */
static enum tern_status attempt(struct final *f, bool *failed, struct tern_error *err) {
    char why[512] = "";
    enum tern_outcome fallback = TERN_OUTCOME_CRASH;
    enum tern_status status = tern_run_gpu_ready(f->p->gpu, f->p, err);
    if (status == TERN_OK)
        status = begin_trials(f, err);
    if (status != TERN_OK)
        return status;
    json_t *request = final_request(f);
    enum tern_call call =
        tern_run_gpu_call(f->p->gpu, f->p, request, FINAL_TIMEOUT_S, &f->reply, why, sizeof why, &status, err);
    json_decref(request);
    if (status == TERN_FAILED) { /* a kernel fault: the context is lost, and with it the worker */
        fallback = TERN_OUTCOME_FAULT;
        tern_str_copy(why, sizeof why, err->text);
        tern_run_gpu_kill(f->p->gpu);
        status = TERN_OK;
    } else if (call == TERN_CALL_TIMEOUT) {
        fallback = TERN_OUTCOME_TIMEOUT;
    }
    if (status != TERN_OK)
        return status;
    *failed = f->reply == NULL;
    check_limit(f);
    read_finalists(f, fallback, why);
    rank_finalists(f);
    return keep(f, err);
}

enum tern_status tern_run_final(struct run *run, struct run_problem *p, struct tern_error *err) {
    struct final f = {.run = run, .p = p};
    bool failed = true;
    enum tern_status status = TERN_OK;
    pick_finalists(&f); /* none: no right candidate, judged at the end of the run */
    for (int i = 0; i < ATTEMPTS && f.count > 0 && failed && status == TERN_OK; i++)
        status = attempt(&f, &failed, err);
    if (status == TERN_OK && f.reply)
        judge_rounds(&f);
    for (size_t i = 0; i < f.count; i++) {
        free(f.list[i].samples);
        free(f.list[i].loaded);
    }
    json_decref(f.reply);
    return status;
}
