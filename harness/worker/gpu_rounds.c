/* Rounds of a final. See gpu_rounds.h. */
#include "worker/gpu_rounds.h"

#include "core/clock.h"
#include "core/random.h"
#include "measure/stats.h"

#include <math.h>
#include <string.h>

#define ROUNDS_MIN  20
#define NOISE       0.005
#define RACE_ROUNDS 10   /* before a finalist may be out, */
#define RACE_MARGIN 0.01 /* which is surely slower than the leader by this */
#define PATIENCE    4.0  /* times the seconds, where rounds are disturbed */
#define SEED        1    /* of the order in each round */

static bool settled(const struct gpu_rounds *r) {
    for (size_t i = 0; i < r->entrant_count; i++) {
        const struct gpu_entrant *e = &r->entrants[i];
        struct tern_stats stats;
        tern_stats_compute(e->samples, e->count, &stats);
        if (!e->out && !tern_stats_settled(&stats, ROUNDS_MIN, NOISE))
            return false;
    }
    return true;
}

/* Who is in, in an order of its own each round: at the power cap a kernel is slower behind a hungrier one, and must not always
 * be behind the same. */
static size_t draw_order(struct gpu_rounds *r, struct tern_random *random, struct gpu_entrant **in) {
    size_t n = 0;
    for (size_t i = 0; i < r->entrant_count; i++)
        if (!r->entrants[i].out)
            in[n++] = &r->entrants[i];
    for (size_t i = n; i > 1; i--) {
        size_t other = tern_random_below(random, i);
        struct gpu_entrant *last = in[i - 1];
        in[i - 1] = in[other];
        in[other] = last;
    }
    return n;
}

static enum tern_status one_round(struct gpu_session *s, struct gpu_rounds *r, struct tern_random *random, size_t round,
                                  struct tern_error *err) {
    struct gpu_entrant *in[GPU_ENTRANTS_MAX];
    struct tern_graph *graphs[GPU_ENTRANTS_MAX] = {NULL};
    double us[GPU_ENTRANTS_MAX];
    size_t n = draw_order(r, random, in);
    for (size_t i = 0; i < n; i++)
        graphs[i] = in[i]->graph;
    enum tern_status status = gpu_times(s, graphs, n, us, err);
    for (size_t i = 0; i < n && status == TERN_OK; i++) {
        in[i]->samples[round] = us[i];
        in[i]->count = round + 1;
    }
    return status;
}

/* Marks a round by what the clocks' thread has seen since the last one. */
static void mark(void *context, struct gpu_rounds *r, size_t round) {
    struct tern_clocks now;
    tern_cuda_watch(context, &now);
    r->marked[round] = tern_clocks_disturbed(&now);
    r->disturbed += r->marked[round];
    if (round == 0)
        r->clocks = now;
    else
        tern_clocks_merge(&r->clocks, &now);
}

/* Who is surely slower than the leader is out: the rounds go to those between whom it is not decided. */
static void eliminate(struct gpu_rounds *r) {
    const struct gpu_entrant *leader = NULL;
    double best = (double)INFINITY;
    for (size_t i = 0; i < r->entrant_count; i++) {
        const struct gpu_entrant *e = &r->entrants[i];
        struct tern_stats stats;
        tern_stats_compute(e->samples, e->count, &stats);
        if (!e->out && !e->stays && stats.median < best) {
            leader = e;
            best = stats.median;
        }
    }
    for (size_t i = 0; i < r->entrant_count && leader; i++) {
        struct gpu_entrant *e = &r->entrants[i];
        e->out = e->out || (!e->stays && tern_stats_slower(e->samples, leader->samples, r->rounds, RACE_MARGIN));
    }
}

/* Takes the disturbed rounds out of everybody's samples, if enough others are left. */
static void leave_out(struct gpu_rounds *r) {
    if (r->disturbed == 0 || r->rounds - r->disturbed < ROUNDS_MIN)
        return;
    for (size_t i = 0; i < r->entrant_count; i++) {
        struct gpu_entrant *e = &r->entrants[i];
        size_t kept = 0;
        for (size_t k = 0; k < e->count; k++)
            if (!r->marked[k])
                e->samples[kept++] = e->samples[k];
        e->count = kept;
    }
    r->rounds -= r->disturbed;
    r->left_out = r->disturbed;
    r->disturbed = 0;
}

/* True when there is nothing to wait for. */
static bool enough(const struct gpu_rounds *r, int64_t elapsed_ns, double seconds) {
    double elapsed_s = (double)elapsed_ns * 1e-9;
    if (r->rounds < ROUNDS_MIN)
        return false;
    if (r->rounds - r->disturbed < ROUNDS_MIN)
        return elapsed_s > PATIENCE * seconds;
    return elapsed_s > seconds || settled(r);
}

enum tern_status gpu_rounds_run(struct gpu_session *s, struct gpu_rounds *r, double seconds, struct tern_error *err) {
    struct tern_random random;
    struct tern_clocks before;
    tern_random_init(&random, SEED, "rounds");
    enum tern_status status = one_round(s, r, &random, 0, err); /* warm-up; its samples are written over */
    int64_t start_ns = tern_clock_now_ns();
    tern_cuda_watch(s->context, &before); /* what was seen before the rounds is not theirs */
    while (r->rounds < GPU_ROUNDS_MAX && status == TERN_OK && !enough(r, tern_clock_now_ns() - start_ns, seconds)) {
        status = one_round(s, r, &random, r->rounds, err);
        mark(s->context, r, r->rounds);
        r->rounds += status == TERN_OK;
        if (r->rounds >= RACE_ROUNDS)
            eliminate(r);
    }
    leave_out(r);
    r->settled = settled(r);
    return status;
}
