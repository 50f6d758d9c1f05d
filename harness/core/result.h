/* Result rows: what is known of one problem at the end, as the store keeps it and tables, JSON, CSV and exports show it.
 * Plain data shared by store and output, which may not include each other. */
#ifndef TERN_CORE_RESULT_H
#define TERN_CORE_RESULT_H

#include "core/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Times are microseconds of one launch: median and the ends of its 95 % interval. A planned row has none: NAN. */
struct tern_result {
    char gpu[32];                /* configs/gpus name, e.g. "h200" */
    char arch[16];               /* "sm_90a" */
    char device[64], driver[32]; /* as the driver names the card and itself; "" where not known, as in a planned row */
    char policy[64];             /* how it was timed: "graph/cold", ... (docs/measuring.md, Regimes); "" where not known */
    bool planned;                /* compiled and ranked only; every time below is NAN except predicted_us */
    bool runner_up; /* not this problem's winner but close to it: answers nothing here, other shapes may want it */
    char format[40], op[16], shapes[32], layer[32];
    int64_t m, n, k;
    int64_t layer_count; /* how often the layer occurs in the model */
    char template_name[40], layout[32];
    char params[256]; /* "BLOCK_M=16 STAGES=4 ...": declared order */
    double us, us_lo, us_hi;
    double p_best;     /* probability that no other finalist is faster */
    double regret;     /* share of its time that a better candidate may save: bound over finalists and over the untried */
    char baseline[40]; /* the fastest FP16 cuBLASLt answer: "cublaslt-default" or "cublaslt-best16" */
    double baseline_us;
    double default_us;      /* cublaslt-default, which may be the baseline itself; NAN if not known */
    double dequant_us;      /* dequantise + cuBLASLt FP16, workspace in device memory; NAN if not measured */
    double dequant_e4m3_us; /* op linear-e4m3: x quantised, dequantise to e4m3 + cuBLASLt FP8; NAN as above */
    double speedup, speedup_lo, speedup_hi; /* baseline / winner */
    double sustained_us, sustained_speedup; /* under the kernel's own load, cuBLASLt under its own; NAN if memory-bound */
    double limit_us, pct_of_limit;          /* 100 * limit / us */
    double predicted_us;                    /* cost model */
    /* what a launch needs; expressions in the arithmetic of config/expr.h */
    char entry[64];
    char grid[3][192], block[192], smem[384], workspace[320], cluster[64];
    char prologue[64], prologue_grid[192], prologue_block[192]; /* kernel launched first, and its launch; "" for none */
    char build_key[TERN_HASH_CHARS], cubin_hash[TERN_HASH_CHARS], template_hash[TERN_HASH_CHARS];
    int64_t registers, static_smem_bytes, spill_bytes;
    int64_t min_m, max_m; /* M for which the template is valid */
};

struct tern_results {
    struct tern_result *rows;
    size_t count, capacity;
};

/* Appends a copy. */
void tern_results_add(struct tern_results *list, const struct tern_result *row);
/* Sorts by gpu, shapes, format, op, then layer in order of first appearance (qkv, o, gate_up, down), then m. */
void tern_results_sort(struct tern_results *list);
void tern_results_free(struct tern_results *list);

/* Candidates that are launched dependently have these words behind their parameters. */
#define TERN_DEPENDENT_WORD "DEPENDENT=1"
bool tern_is_dependent(const char *params);
/* True of a candidate that computes with other weights than the format's: group scales rounded to 7 bits of their row's largest. */
bool tern_rounds_scales(const char *params);

/* Rows of other conditions than plain launches and random weights say so behind the names of their policy and model:
 * TERN_DEPENDENT_POLICY or TERN_DEPENDENT_SHAPES, then "@" and the identity of real weights. */
#define TERN_DEPENDENT_POLICY "/dependent"
#define TERN_DEPENDENT_SHAPES "+dependent"
/* Where that begins in a policy's or a model's name: its end where there is nothing of the kind. */
const char *tern_conditions(const char *name);

/* Rows of a replay go by the name of the recorded GPU with this suffix, so that no selection of measured rows meets them. */
#define TERN_REPLAY_SUFFIX "-replay"
bool tern_is_replay_name(const char *gpu);

#endif
