/* Trials of problems, and why each winner is one: tables, JSON and CSV. Pure functions of rows. */
#ifndef TERN_OUTPUT_TRIALS_H
#define TERN_OUTPUT_TRIALS_H

#include "core/outcome.h"
#include "core/result.h"
#include "core/str.h"

#include <stdio.h>

struct tern_trial {
    const struct tern_result *problem; /* the winner's row of its problem; NULL: a build that the compiler refused */
    char stage[16], policy[64], detail[512], template_name[40], params[256];
    enum tern_outcome outcome;
    double us, us_lo, us_hi, predicted_us, gpu_seconds; /* NAN: not known */
    int64_t id;                                         /* ascending in the order in which they ran */
    int64_t samples, registers, static_smem_bytes, spill_bytes;
    int sm_mhz;
};

struct tern_trials {
    struct tern_trial *rows;
    size_t count, capacity;
};
void tern_trials_add(struct tern_trials *list, const struct tern_trial *trial); /* copies */
void tern_trials_free(struct tern_trials *list);
/* By problem (in the order of the results), finals first, then right ones by time, then the others by outcome. */
void tern_trials_sort(struct tern_trials *list);

/* A line a trial, at most 80 columns: parameters are cut. */
void tern_trials_table(FILE *out, const struct tern_trials *list);
/* Everything: layer, format, op, m, n, k, stage, policy, outcome, us, us_lo, us_hi, samples, sm_mhz, gpu_seconds, predicted_us,
 * registers, static_smem_bytes, spill_bytes, template, params, detail. */
void tern_trials_csv(FILE *out, const struct tern_trials *list);
/* {gpu, db, trials: [the same keys]}; unknown numbers are null. */
void tern_trials_json(FILE *out, const char *gpu, const char *db, const struct tern_trials *list);

/* Outcomes by template, and the reasons behind those that are not ok, the most frequent first; at most 80 columns. */
void tern_trials_outcomes(FILE *out, const struct tern_trials *list);
/* {gpu, db, outcomes: [{template, outcome, count, reasons: [{detail, count}]}]}. */
void tern_trials_outcomes_json(FILE *out, const char *gpu, const char *db, const struct tern_trials *list);

/* What keeps a candidate of one template from a problem. */
struct tern_why_rule {
    char template_name[40], reason[120];
    int64_t count; /* points of the grid; 0: the whole template, which has no grid here */
};

struct tern_why_baseline {
    char kind[40];
    double us, us_lo, us_hi;
};

/* All that is known of one problem. Lists belong to the caller. */
struct tern_why {
    const struct tern_result *winner;
    const struct tern_trial *trials; /* of this problem, sorted; refused builds of its format behind them */
    size_t trial_count;
    const struct tern_why_baseline *baselines;
    size_t baseline_count;
    const struct tern_why_rule *rules; /* of today's templates */
    size_t rule_count;
    int64_t grid;                              /* candidates that today's templates have for it */
    int64_t launch_grid[3], block, smem_bytes; /* of the winner; block 0: not known */
    const char *compiler;                      /* lines of its log, "" if there are none */
};
/* At most 80 columns. */
void tern_why_print(FILE *out, const struct tern_why *why);
/* {gpu, db, problems: [{layer, format, op, m, n, k, winner, finalists, baselines, rules, outcomes, candidates, compiler}]}. */
void tern_why_json(FILE *out, const char *gpu, const char *db, const struct tern_why *list, size_t count);

#endif
