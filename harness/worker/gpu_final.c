/* Finals on the prepared layer: finalists and cuBLASLt baselines in interleaved rounds (gpu_rounds.h), and a verification of
 * every finalist behind them. Large products are then timed under load as well. */
#include "worker/gpu_baselines.h"
#include "worker/gpu_rounds.h"

#include "core/clock.h"
#include "core/str.h"
#include "measure/stats.h"
#include "worker/reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ENTRIES      16
#define LOADED_VISITS    2 /* to each entrant that is timed under load, in opposite orders */
#define LOADED_FINALISTS 2
#define LOADED_ENTRANTS  (LOADED_FINALISTS + 1) /* and the best heuristic */

struct final {
    struct gpu_session *s;
    int64_t m;
    struct gpu_kernel kernels[MAX_ENTRIES];
    struct gpu_verdict verdicts[MAX_ENTRIES];
    size_t count;             /* finalists */
    struct gpu_rounds rounds; /* its entrants: the finalists, then the baselines that are there */
    struct gpu_baselines baselines;
    double gpu_seconds; /* rounds, load and the verification behind them */
    double loaded[MAX_ENTRIES + GPU_BASELINES][LOADED_VISITS * GPU_LOADED_SAMPLES]; /* by entrant */
    size_t loaded_count[MAX_ENTRIES + GPU_BASELINES];
    struct tern_clocks loaded_clocks;
};

static enum tern_status capture_entry(struct final *f, size_t i, double screen_us, struct tern_error *err) {
    struct tern_launch launches[TERN_MAX_COPIES];
    const struct gpu_pack *pack = f->kernels[i].pack;
    size_t copies = pack->copies, count = gpu_graph_launches(f->s, pack->stride, copies, f->m, screen_us);
    for (size_t j = 0; j < count; j++)
        launches[j] = gpu_kernel_launch(f->s, &f->kernels[i], f->m, j % copies);
    return tern_graph_capture(f->s->context, launches, count, &f->rounds.entrants[i].graph, err);
}

static enum tern_status load_entries(struct final *f, const json_t *list, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    f->count = json_array_size(list) < MAX_ENTRIES ? json_array_size(list) : MAX_ENTRIES;
    /* All are loaded before any is captured: a later one may enlarge the workspace that the launches point to. */
    for (size_t i = 0; i < f->count && status == TERN_OK; i++)
        status = gpu_kernel_load(f->s, json_array_get(list, i), f->m, &f->kernels[i], err);
    for (size_t i = 0; i < f->count && status == TERN_OK; i++)
        status = capture_entry(f, i, tern_message_real(json_array_get(list, i), "screen_us", 10.0), err);
    return status;
}

/* The one that may not be there is the last. */
static enum tern_status load_baselines(struct final *f, struct tern_error *err) {
    enum tern_status status = gpu_baselines_open(f->s, f->m, &f->baselines, err);
    f->rounds.entrant_count = f->count;
    for (int b = 0; b < GPU_BASELINES && f->baselines.graphs[b]; b++)
        f->rounds.entrants[f->rounds.entrant_count++] = (struct gpu_entrant){.graph = f->baselines.graphs[b], .stays = true};
    return status;
}

static double median_us(const struct gpu_entrant *e) {
    struct tern_stats stats;
    tern_stats_compute(e->samples, e->count, &stats);
    return e->out ? (double)INFINITY : stats.median;
}

/* Who is timed under load: the fastest finalists and the best heuristic. Returns how many. */
static size_t pick_loaded(struct final *f, size_t *list) {
    size_t count = 0;
    while (count < LOADED_FINALISTS && count < f->count) {
        size_t best = f->count;
        for (size_t i = 0; i < f->count; i++) {
            bool taken = count > 0 && list[0] == i;
            if (!taken && (best == f->count || median_us(&f->rounds.entrants[i]) < median_us(&f->rounds.entrants[best])))
                best = i;
        }
        if (f->rounds.entrants[best].out)
            break;
        list[count++] = best;
    }
    list[count++] = f->count + GPU_BASELINE_BEST;
    return count;
}

/* What large products take back to back, at the power cap: each alone. */
static enum tern_status time_loaded(struct final *f, struct tern_error *err) {
    size_t list[LOADED_ENTRANTS], count = pick_loaded(f, list);
    enum tern_status status = TERN_OK;
    tern_cuda_watch(f->s->context, &f->loaded_clocks); /* what was seen before is not of the load */
    for (size_t i = 0; i < LOADED_VISITS * count && status == TERN_OK; i++) {
        size_t e = list[i < count ? i : 2 * count - 1 - i];
        status = gpu_times_loaded(f->s, f->rounds.entrants[e].graph, f->loaded[e] + f->loaded_count[e], err);
        f->loaded_count[e] += GPU_LOADED_SAMPLES;
    }
    tern_cuda_watch(f->s->context, &f->loaded_clocks);
    return status;
}

/* Results again, behind the timing. Entrants with more workspace than others have overwritten guards, and rightly. */
static enum tern_status verify_entries(struct final *f, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    f->s->layer.workspace.used = -1;
    for (size_t i = 0; i < f->count && status == TERN_OK; i++)
        status = gpu_verify_after(f->s, &f->kernels[i], f->m, false, &f->verdicts[i], err);
    return status;
}

static json_t *final_reply(struct final *f) {
    const struct gpu_rounds *r = &f->rounds;
    json_t *entries = json_array(), *baselines = json_object(), *details = json_object();
    for (size_t i = 0; i < f->count; i++) {
        json_t *entry = tern_reply_outcome(f->verdicts[i].outcome, f->verdicts[i].detail);
        json_object_set_new(entry, "samples", tern_message_from_samples(r->entrants[i].samples, r->entrants[i].count));
        json_object_set_new(entry, "loaded", tern_message_from_samples(f->loaded[i], f->loaded_count[i]));
        json_array_append_new(entries, entry);
    }
    for (int b = 0; f->count + (size_t)b < r->entrant_count; b++) {
        const struct gpu_entrant *e = &r->entrants[f->count + (size_t)b];
        char detail[80];
        gpu_baseline_detail(&f->baselines, (enum gpu_baseline)b, detail, sizeof detail);
        json_object_set_new(baselines, gpu_baseline_name((enum gpu_baseline)b),
                            tern_message_from_samples(e->samples, e->count));
        json_object_set_new(details, gpu_baseline_name((enum gpu_baseline)b), json_string(detail));
    }
    json_object_set_new(
        baselines, "cublaslt-best16/sustained",
        tern_message_from_samples(f->loaded[f->count + GPU_BASELINE_BEST], f->loaded_count[f->count + GPU_BASELINE_BEST]));
    return json_pack("{s:o, s:o, s:o, s:s, s:i, s:i, s:i, s:i, s:I, s:i, s:b, s:i, s:i, s:f}", "entries", entries,
                     "baselines", baselines, "details", details, "why_not_e4m3", f->baselines.why_not, "loaded_mhz",
                     f->loaded_clocks.sm_mhz, "sm_mhz", r->clocks.sm_mhz, "temperature_c", r->clocks.temperature_c,
                     "power_w", r->clocks.power_w, "throttle", (json_int_t)r->clocks.throttle_reasons, "others",
                     r->clocks.other_processes, "settled", r->settled, "left_out", (int)r->left_out, "disturbed",
                     (int)r->disturbed, "gpu_seconds", f->gpu_seconds);
}

static void final_free(struct final *f) {
    void *context = f->s->context;
    for (size_t i = 0; i < f->count; i++)
        tern_graph_free(context, f->rounds.entrants[i].graph);
    gpu_baselines_close(&f->baselines);
}

json_t *gpu_final(struct gpu_session *s, const json_t *request) {
    struct tern_error err;
    struct final *f = tern_alloc_zero(1, sizeof *f);
    f->s = s;
    f->m = tern_message_int(request, "m", 0);
    enum tern_status status = gpu_regime_enter(s, request, &err);
    if (status == TERN_OK)
        status = load_entries(f, json_object_get(request, "entries"), &err);
    if (status == TERN_OK && f->count == 0)
        status = tern_error_set(&err, TERN_INTERNAL, "finals without finalists");
    if (status == TERN_OK)
        status = load_baselines(f, &err);
    int64_t start_ns = tern_clock_now_ns();
    if (status == TERN_OK)
        status = gpu_rounds_run(s, &f->rounds, tern_message_real(request, "seconds", 0.4), &err);
    if (status == TERN_OK && s->cool)
        status = time_loaded(f, &err);
    if (status == TERN_OK)
        status = verify_entries(f, &err);
    f->gpu_seconds = (double)(tern_clock_now_ns() - start_ns) * 1e-9;
    json_t *reply = status == TERN_OK ? final_reply(f) : tern_reply_error(&err);
    if (!s->sticky)
        final_free(f);
    free(f);
    return reply;
}
