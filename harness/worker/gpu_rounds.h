/* Interleaved rounds A B C, B C A, ...: one graph replay of every entrant a round, in a random order, on a busy device submitted
 * together. Whatever drifts (clocks, heat) drifts for all; ratios are paired by round. Part of a GPU worker. */
#ifndef TERN_WORKER_GPU_ROUNDS_H
#define TERN_WORKER_GPU_ROUNDS_H

#include "worker/gpu_session.h"

#define GPU_ROUNDS_MAX   200
#define GPU_ENTRANTS_MAX 24

struct gpu_entrant {
    struct tern_graph *graph; /* owned by whoever captured it */
    bool stays;               /* a baseline: takes part to the end */
    bool out;                 /* surely slower than the leader: no more rounds */
    size_t count;             /* rounds it took part in, from the first */
    double samples[GPU_ROUNDS_MAX];
};

struct gpu_rounds {
    struct gpu_entrant entrants[GPU_ENTRANTS_MAX];
    size_t entrant_count;
    size_t rounds;    /* of those that stayed */
    bool settled;     /* the median of all that are left is known within 0.5 % */
    size_t left_out;  /* rounds that were throttled or disturbed, and are not among the samples */
    size_t disturbed; /* the same, but kept: there were too few others */
    bool marked[GPU_ROUNDS_MAX];
    struct tern_clocks clocks; /* over all rounds: lowest SM clock, highest temperature and power, all reasons */
};

/* Runs rounds, in the regime of the request, for about `seconds`: at least 20 undisturbed ones, as far as 200 allow. Samples of disturbed rounds are taken out
 * unless fewer than 20 others are left. */
enum tern_status gpu_rounds_run(struct gpu_session *s, struct gpu_rounds *r, double seconds, struct tern_error *err);

#endif
