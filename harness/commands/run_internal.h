/* The run in progress: what the files run_*.c of this folder share. Nothing outside `tune run` includes this.
 *
 *   run.c             options, order of the steps, what is printed
 *   run_setup.c       configs, selection, device, database
 *   run_ceilings.c    limits from ceilings measured on this device
 *   run_candidates.c  the candidates of each problem and the builds they need
 *   run_compile.c     missing builds through the pool of compile workers
 *   run_resume.c      winners of earlier runs that still hold
 *   run_gpu.c         calls to the GPU worker, its death and restart
 *   run_replay.c      --replay: a recorded run in the place of the GPU
 *   run_measure.c     a GPU: verify and screen the candidates of each problem
 *   run_final.c       a GPU: finals with baselines, from samples to result rows
 *   run_plan.c        no GPU: rank by cost model, check on the emulator
 *   run_finish.c      one copy of the weights, promotion, result rows
 */
#ifndef TERN_COMMANDS_RUN_INTERNAL_H
#define TERN_COMMANDS_RUN_INTERNAL_H

#include "config/gpu.h"
#include "config/shapes.h"
#include "config/template.h"
#include "core/outcome.h"
#include "core/result.h"
#include "device/backend.h"
#include "space/cost.h"
#include "space/grid.h"
#include "store/cache.h"
#include "store/store.h"
#include "worker/process.h"

#define RUN_POLICY        "graph/cold" /* captured graph, weight copies rotated over more than twice the L2, activations hot */
#define RUN_POLICY_CHECK  "small"      /* small odd shapes, not timed */
#define RUN_POLICY_REPLAY "replay"     /* both, answered from a recording */

/* Deadlines without --timeout. ptxas can run for half an hour on a bad candidate; none of ours needs more than seconds. The
 * first trial of a layer packs its weights, which takes seconds for the largest; every other one takes milliseconds. */
#define RUN_COMPILE_TIMEOUT_S 120.0
#define RUN_TRIAL_TIMEOUT_S   30.0

struct run_options {
    char command_line[512]; /* as typed, for the database */
    const char *gpu, *shapes, *formats, *layers, *m, *templates, *db, *cache;
    double budget_s;  /* 0: the mode's default */
    double timeout_s; /* deadline of one compile, check or trial; 0: RUN_COMPILE_TIMEOUT_S, RUN_TRIAL_TIMEOUT_S */
    int64_t jobs, device, seed, copies;
    bool require_gpu, short_groups, json;
    const char *replay, *fault; /* file to answer from, and faults on purpose; NULL: none */
};

/* A candidate compiled for a format: serves every shape. */
struct run_build {
    struct tern_candidate candidate;
    size_t format;               /* index in run.shapes.formats */
    struct tern_store_build row; /* row.key always; the rest once built */
    bool built;                  /* row is complete, whatever the outcome */
    bool checked;                /* small odd shapes were checked in this run or before */
    enum tern_outcome check;     /* OK, or why it must not run */
    char check_detail[256];
};

/* What is known of one candidate on one problem. */
struct run_entry {
    size_t build; /* index in run.builds */
    double predicted_us;
    enum tern_outcome outcome; /* RUNNING: not tried yet */
    double screen_us;
    int64_t trial_id;
};

struct run_problem {
    size_t format, layer, m;   /* indices in run.shapes */
    int64_t id;                /* in the store */
    struct run_entry *entries; /* in the order in which they are tried */
    size_t entry_count;
    double limit_us;
    bool done;                      /* a result exists, from this run or resumed */
    struct tern_result result;      /* of the best layout so far */
    struct tern_result *per_layout; /* best result of each layout that was in the finals; one row a layout */
    size_t per_layout_count;
};

struct run {
    struct run_options options;
    struct tern_gpu gpu;         /* description; device facts and measured ceilings override it */
    double described_f16_tflops; /* of the description, when ceilings override it */
    struct tern_shapes shapes;   /* after selection */
    struct tern_template *templates;
    size_t template_count;
    char include_dir[512], nvrtc[32];
    bool measured;
    char why_planned[512]; /* why nothing can be measured */
    struct tern_device_info info;
    struct tern_process worker;        /* GPU worker, measured runs; or replay worker */
    int64_t asked, finals;             /* checks and trials, and finals, that workers were asked for */
    const char *policy, *check_policy; /* of timed trials and of checks: RUN_POLICY... */
    bool suspect;                      /* a worker died or hung since the device was last probed */
    size_t prepared; /* 1 + index of the first problem of the (format, layer) that the worker holds; 0: none */
    struct tern_store *store;
    struct tern_cache *cache;
    int64_t device_id, run_id;
    struct run_build *builds;
    size_t build_count, build_capacity;
    uint32_t *build_index; /* open addressing over row.key; 0: empty, else index + 1 */
    size_t build_index_size;
    struct run_problem *problems; /* format-major, then layer, then M ascending */
    size_t problem_count;
    struct tern_exclusions exclusions;
    int64_t outcomes[TERN_OUTCOME_COUNT]; /* of this run's trials */
    int64_t start_ns;
    int64_t finals_judged, finals_unsettled; /* finals, and those whose medians stayed noisier than wanted */
    double gpu_s,
        busy_s; /* time that the run had the GPU for trials, and the part of it that measured and warm-up launches took */
};

/* run_setup.c */
enum tern_status tern_run_setup(struct run *run, struct tern_error *err);
void tern_run_release(struct run *run);

/* run_ceilings.c */
/* Puts stored ceilings into run->gpu; on a GPU that has none, measures and stores them first. */
enum tern_status tern_run_ceilings(struct run *run, struct tern_error *err);
/* A baseline of p that beats the matrix rate behind the limits: raises the rate, and lowers the limits of what is not done.
 */
void tern_run_refute_limit(struct run *run, double baseline_us, const struct run_problem *p);

/* run.c: --timeout, or the default of a request about a candidate. */
double tern_run_timeout_s(const struct run *run, double default_s);

/* run_candidates.c */
enum tern_status tern_run_candidates(struct run *run, struct tern_error *err);
struct tern_problem_shape tern_run_shape(const struct run *run, const struct run_problem *p);
/* Source of a build: preamble and kernel.cu. */
enum tern_status tern_run_source(const struct run *run, const struct run_build *build, struct tern_str *out,
                                 struct tern_error *err);

/* run_compile.c: compiles the listed builds that are not built; stop_ns as in pool.h. */
enum tern_status tern_run_compile(struct run *run, const size_t *builds, size_t count, int64_t stop_ns,
                                  struct tern_error *err);

/* run_resume.c: marks the problems whose winner of an earlier run still holds, and says why where the compiler, the driver or a
 * template has changed. A winner with another build key is compiled first: the same machine code keeps its rows. */
enum tern_status tern_run_resume(struct run *run, size_t *resumed, struct tern_error *err);

/* run_measure.c, run_plan.c */
enum tern_status tern_run_measure(struct run *run, struct tern_error *err);
enum tern_status tern_run_plan(struct run *run, struct tern_error *err);

/* run_gpu.c: calls to the GPU worker that survive its death. */
/* Starts a worker and prepares the layer of p (NULL: none) if that is not done. Called before a trial is journalled, so that
 * a device that cannot be opened leaves no trial `running`. */
enum tern_status tern_run_gpu_ready(struct run *run, const struct run_problem *p, struct tern_error *err);
/* One request about problem p (or about none, p NULL): starts and prepares a worker if needed. On TERN_CALL_OK *reply is the
 * caller's. A reply that is an error of the machine, not of the candidate, fills err and returns through *status. */
enum tern_call tern_run_gpu_call(struct run *run, const struct run_problem *p, const json_t *request, double timeout_s,
                                 json_t **reply, char *why, size_t why_size, enum tern_status *status,
                                 struct tern_error *err);

/* Starts a worker and has it open its device; *reply (the caller's) tells its facts. TERN_MISSING when workers keep dying.
 */
enum tern_status tern_run_gpu_hello(struct run *run, json_t **reply, struct tern_error *err);

/* run_setup.c: takes over the facts of a hello. */
void tern_run_device_facts(struct run *run, const json_t *reply);

/* run_replay.c */
/* What --replay and --fault exclude. */
enum tern_status tern_run_replay_options(const struct run_options *o, struct tern_error *err);
/* In the place of finding a device: starts the replay worker, checks that the recording is of the named GPU. */
enum tern_status tern_run_replay_open(struct run *run, struct tern_error *err);
/* In the place of compiling: enters the builds under names of their own, without images. */
enum tern_status tern_run_replay_builds(struct run *run, const size_t *builds, size_t count, struct tern_error *err);

/* run_final.c: finalists and baselines in interleaved rounds; fills p->result and p->per_layout, and promotes. */
enum tern_status tern_run_final(struct run *run, struct run_problem *p, struct tern_error *err);

/* run_finish.c */
/* Promotes what is known of the (format, layer) that starts at problem index `first`. */
enum tern_status tern_run_promote_layer(struct run *run, size_t first, struct tern_error *err);
/* Fills the parts of a result row that do not depend on times. */
void tern_run_result(const struct run *run, const struct run_problem *p, const struct run_build *build,
                     struct tern_result *row);
/* Chooses one layout for each (format, layer) and promotes its winners; see --copies. */
enum tern_status tern_run_promote(struct run *run, struct tern_error *err);
/* All results of the run, sorted. */
void tern_run_results(const struct run *run, struct tern_results *out);

#endif
