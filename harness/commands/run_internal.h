/* The run in progress: what the files run_*.c of this folder share. Nothing outside `tune run` includes this.
 *
 *   run.c             options, order of the steps, what is printed
 *   run_setup.c       configs, selection, database
 *   run_weights.c     --weights: shapes, format and identity from a checkpoint
 *   run_policy.c      names of policies and shapes, by which rows of different conditions are told apart
 *   run_devices.c     the devices of --device: opened, and compared by control times
 *   run_ceilings.c    limits from ceilings measured on the first device
 *   run_candidates.c  the candidates of each problem and the builds they need
 *   run_compile.c     missing builds through the pool of compile workers
 *   run_resume.c      winners of earlier runs that still hold
 *   run_answers.c     what they answer for the problems that are left, and which of them are tried there
 *   run_gpu.c         calls to the GPU worker of a device, its death and restart
 *   run_share.c       one thread a device, which takes problems from the work that all share
 *   run_replay.c      --replay: a recorded run in the place of the GPU
 *   run_measure.c     a GPU: resume, compile, then screening and finals of each problem
 *   run_between.c     a GPU: the sizes between those asked for that are tuned as well (--between)
 *   run_table.c       a GPU: trials of all kernels of the table at all sizes, behind those
 *   run_screen.c      a GPU: check, verify and time candidates as the search asks for them
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
#include "measure/control.h"
#include "space/cost.h"
#include "space/grid.h"
#include "space/search.h"
#include "store/cache.h"
#include "store/store.h"
#include "worker/gpu.h"
#include "worker/process.h"

#include <pthread.h>

/* Captured graph, weight copies rotated over more than twice the L2, activations hot; memory-bound problems. */
#define RUN_POLICY "graph/cold"
/* The same on a device that rested before each replay, and under the kernel's own load; compute-bound problems, which would run
 * into the power cap: at it a time says more about the minute than about the kernel. */
#define RUN_POLICY_COOL      "graph/cold/cool"
#define RUN_POLICY_SUSTAINED "graph/cold/sustained"
#define RUN_POLICY_CHECK     "small"  /* small odd shapes, not timed */
#define RUN_POLICY_REPLAY    "replay" /* all of them, answered from a recording */
#define RUN_POLICY_EMU       "emu"    /* on the emulator: small odd shapes, and rows of real weights */
#define RUN_POLICY_PLAN      "planned"
#define RUN_POLICIES         5 /* that depend on the weights and on --launch */

/* Deadlines without --timeout. ptxas can run for half an hour on a bad candidate; none of ours needs more than seconds. The
 * first trial of a layer packs its weights, which takes seconds for the largest; every other one takes milliseconds. */
#define RUN_COMPILE_TIMEOUT_S 120.0
#define RUN_TRIAL_TIMEOUT_S   30.0

#define RUN_MAX_DEVICES 64

struct run_options {
    char command_line[512]; /* as typed, for the database */
    const char *weights;    /* checkpoint whose weights are used; NULL: random ones */
    const char *gpu, *shapes, *formats, *layers, *m, *templates, *db, *cache;
    const char *activations; /* f16, bf16, int8 or e4m3 */
    const char *strategy;
    const char *launch; /* "plain" or "dependent" */
    const char *device; /* ordinals, or "all" */
    const char *between;
    double between_ratio; /* of `between`; 0: none is added to the sizes asked for */
    bool elsewhere;
    double budget_s;  /* 0: the mode's default */
    double timeout_s; /* deadline of one compile, check or trial; 0: RUN_COMPILE_TIMEOUT_S, RUN_TRIAL_TIMEOUT_S */
    int64_t jobs, seed, copies;
    bool require_gpu, short_groups, json;
    bool no_device;                  /* none is looked for */
    const struct tern_results *only; /* just these candidates, each on its own problem; NULL: all */
    const char *replay, *fault;      /* file to answer from, and faults on purpose; NULL: none */
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
    bool offered; /* a winner elsewhere, or what the stored winners answer: tried in any case */
};

struct run_problem {
    size_t format, layer, m;   /* indices in run.shapes */
    int64_t id;                /* in the store */
    struct run_gpu *gpu;       /* the device that works on it, or has; NULL: none yet. Its final runs there alone */
    int64_t device_id;         /* of the device whose final gave the result, in the store */
    struct run_entry *entries; /* in the order in which they are tried */
    size_t entry_count;
    double limit_us;
    bool compute_bound;        /* by the GPU's description, so that no measurement changes the policy of its rows */
    size_t incumbent;          /* 1 + index in run.builds of the last winner's candidate as of today, or of what the stored
                                     * winners answer for a problem that has none; 0: none */
    double search_gap;         /* see tern_search_gap */
    bool left_out;             /* no size of this layer: other layers are tuned at it (--between) */
    bool between;              /* a size that --between added */
    bool done;                 /* a result exists, from this run or resumed */
    struct tern_result result; /* of the best layout so far */
    struct tern_result *per_layout; /* best result of each layout that was in the finals; one row a layout */
    size_t per_layout_count;
};

/* A layer of the checkpoint that --weights names. */
struct run_real_layer {
    char name[32], digest[TERN_HASH_CHARS];
};

/* One device of the run: its worker and what that holds, and the thread that uses it. */
struct run_gpu {
    struct run *run;
    int64_t ordinal; /* CUDA's; of a replay, the number of the worker */
    struct tern_device_info info;
    int64_t id; /* in the store */
    struct tern_control control;
    struct tern_process worker;   /* GPU worker or replay worker */
    int64_t deadline_ns;          /* of the request that the worker is at */
    bool suspect;                 /* a worker died or hung since the device was last probed */
    int64_t asked, finals;        /* trials and finals that its workers were asked for */
    size_t prepared;              /* 1 + index of the first problem of the (format, layer) that the worker holds; 0: none */
    int64_t prepared_m;           /* for batches up to this */
    pthread_t thread;             /* while the work is shared */
    struct run_problem *problem;  /* at work on it; NULL: idle */
    struct run_problem *previous; /* the one before, finished */
    size_t tuned;                 /* problems that it finished */
    bool lost;                    /* gets no more work */
    enum tern_status status;      /* why it is of no use: the error that err holds */
    struct tern_error err;
};

/* What several threads share is touched by the one that holds `lock` only: the main thread, and in run_share.c the threads of
 * the devices. It is let go while a thread waits: for a worker's answer (run_gpu.c), or for `changed`. */
struct run {
    struct run_options options;
    enum tern_strategy strategy;
    enum tern_activation type; /* of x and y */
    pthread_mutex_t lock;
    pthread_cond_t changed;      /* a problem or a check is finished or given back, or the run has failed */
    struct tern_gpu gpu;         /* description; device facts and measured ceilings override it */
    double described_f16_tflops; /* of the description, when ceilings override it */
    double described_balance;    /* the same: f16 operations a byte of memory traffic */
    struct tern_shapes shapes;   /* after selection */
    struct tern_template *templates;
    size_t template_count;
    char include_dir[512], nvrtc[32];
    bool measured;
    char why_planned[512]; /* why nothing can be measured */
    struct run_gpu
        gpus[RUN_MAX_DEVICES]; /* measured runs: devices of one model and driver; the first stands for their class */
    size_t gpu_count;
    enum tern_status failed; /* ends the work of every device: the error that failure holds */
    struct tern_error failure;
    struct run_real_layer real[TERN_MAX_LAYERS]; /* --weights */
    size_t real_count;
    char policies[RUN_POLICIES][48]; /* full names: tern_run_policy_name */
    bool dependent;                  /* --launch dependent */
    struct tern_store *store;
    struct tern_cache *cache;
    int64_t device_id, run_id; /* device: the first one, or the description that is planned for */
    struct run_build *builds;
    size_t build_count, build_capacity;
    uint32_t *build_index; /* open addressing over row.key; 0: empty, else index + 1 */
    size_t build_index_size;
    struct run_problem *problems; /* format-major, then layer, then M ascending */
    size_t problem_count;
    struct tern_exclusions exclusions;
    int64_t outcomes[TERN_OUTCOME_COUNT];    /* of this run's trials */
    int64_t start_ns, tune_ns;               /* since when it runs, and tunes problems */
    int64_t end_ns;                          /* of the budget; 0: no problem was tuned yet */
    size_t resumed;                          /* problems that were done before that */
    int64_t finals_judged, finals_unsettled; /* finals, and those whose medians stayed noisier than wanted */
    /* Time that the run had its devices for trials, all of them together, and what workers say it went into. */
    double gpu_s, seconds[TERN_GPU_TIMES];
};

/* run_setup.c */
enum tern_status tern_run_setup(struct run *run, struct tern_error *err);
void tern_run_release(struct run *run);

/* run_weights.c */
/* With --weights: the shapes are those of the checkpoint, narrowed to the layers in one format, or --shapes checked against it.
 * `identity` ("@" and digits) is that of the weights. */
enum tern_status tern_run_weights(struct run *run, char *identity, size_t size, struct tern_error *err);
/* Adds to a request for a worker where the weights of p's layer are; nothing without --weights. */
void tern_run_weights_request(const struct run *run, const struct run_problem *p, json_t *request);

/* run_policy.c */
/* Names of the policies, and of the shapes in the database, for launches as --launch says and weights of this identity ("": random
 * ones): no row is taken for one that was timed otherwise. */
void tern_run_name_policies(struct run *run, const char *identity);
/* The name of a RUN_POLICY... for rows of this run. */
const char *tern_run_policy_name(const struct run *run, const char *policy);

/* run_devices.c */
/* Opens the devices of --device. What is not the named GPU, or differs from the first in model or driver, is left out and
 * named. run->measured: at least one is left; else run->why_planned says why not. */
enum tern_status tern_run_devices_open(struct run *run, struct tern_error *err);
/* Takes the control times of all devices, side by side, and stores them. Devices whose times differ beyond noise
 * (measure/control.h) are left out and named. TERN_MISSING or TERN_FAILED when none is left. */
enum tern_status tern_run_devices_control(struct run *run, struct tern_error *err);

/* run_ceilings.c */
/* Puts stored ceilings into run->gpu; where there are none, measures them on the first device and stores them. */
enum tern_status tern_run_ceilings(struct run *run, struct tern_error *err);
/* A baseline of p that beats the matrix rate behind the limits: raises the rate, and lowers the limits of what is not done.
 */
void tern_run_refute_limit(struct run *run, double baseline_us, const struct run_problem *p);

/* run.c: --timeout, or the default of a request about a candidate. */
double tern_run_timeout_s(const struct run *run, double default_s);

/* run_candidates.c */
enum tern_status tern_run_candidates(struct run *run, struct tern_error *err);
/* Its second half: the candidates of the problems that have none yet. */
enum tern_status tern_run_fill_problems(struct run *run, struct tern_error *err);
/* Policy of the trials, finals and baselines of a problem, and of checks. */
const char *tern_run_policy(const struct run *run, const struct run_problem *p);
const char *tern_run_check_policy(const struct run *run);
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

/* run_candidates.c: the same for one candidate, given as text, whatever its template's valid() says; *build: 1 + index in run.builds, 0
 * where the template does not serve the problem. */
enum tern_status tern_run_add_candidate(struct run *run, struct run_problem *p, const struct tern_template *t,
                                        const char *params, size_t *build, struct tern_error *err);

/* run_answers.c: makes incumbents of what the stored winners answer for problems that have none. */
enum tern_status tern_run_answers(struct run *run, struct tern_error *err);
/* Offers the problems that are done the winners of all models at their M, and what came close to these. */
enum tern_status tern_run_offer_elsewhere(struct run *run, struct tern_error *err);
/* Has all winners so far that can serve the problem tried there. */
enum tern_status tern_run_offer_winners(struct run *run, struct run_problem *p, struct tern_error *err);

/* run_measure.c, run_plan.c */
enum tern_status tern_run_measure(struct run *run, struct tern_error *err);
enum tern_status tern_run_plan(struct run *run, struct tern_error *err);

/* run_between.c: behind tern_run_measure, adds the sizes that --between asks for to the problems. *added: how many problems. Nothing
 * points into the problems from before. */
enum tern_status tern_run_between(struct run *run, size_t *added, struct tern_error *err);

/* run_table.c: behind that, screens the table's kernels at the sizes and layers where they did not take part. */
enum tern_status tern_run_table(struct run *run, struct tern_error *err);

/* run_gpu.c: calls to the GPU worker of a device that survive its death. */
json_t *tern_run_gpu_hello_request(const struct run_gpu *gpu);
/* Starts a worker and has it open its device; *reply (the caller's) tells its facts. TERN_MISSING when workers keep dying.
 */
enum tern_status tern_run_gpu_hello(struct run_gpu *gpu, json_t **reply, struct tern_error *err);
/* Starts a worker and prepares the layer of p (NULL: none) if that is not done. Called before a trial is journalled, so that
 * a device that cannot be opened leaves no trial `running`. Fails as well once the run has failed on another device. */
enum tern_status tern_run_gpu_ready(struct run_gpu *gpu, const struct run_problem *p, struct tern_error *err);
/* One request about problem p (or about none, p NULL): starts and prepares a worker if needed. Others get the run's lock while
 * the worker is at it. On TERN_CALL_OK *reply is the caller's. A reply that is an error of the machine, not of the candidate,
 * fills err and returns through *status. */
enum tern_call tern_run_gpu_call(struct run_gpu *gpu, const struct run_problem *p, const json_t *request, double timeout_s,
                                 json_t **reply, char *why, size_t why_size, enum tern_status *status,
                                 struct tern_error *err);
/* The same in two steps, so that the caller can work while the GPU does. */
enum tern_status tern_run_gpu_send(struct run_gpu *gpu, const struct run_problem *p, const json_t *request, double timeout_s,
                                   struct tern_error *err);
enum tern_call tern_run_gpu_receive(struct run_gpu *gpu, json_t **reply, char *why, size_t why_size,
                                    enum tern_status *status, struct tern_error *err);
/* A message that has no answer: what the worker may make ready while it is at something else. */
void tern_run_gpu_hint(struct run_gpu *gpu, const json_t *message);
/* Ends the worker; the next call starts another. */
void tern_run_gpu_kill(struct run_gpu *gpu);
/* Name of the device in messages: "device 1 (GPU-...)". */
const char *tern_run_gpu_name(const struct run_gpu *gpu, char *out, size_t size);

/* run_share.c */
/* Tunes a problem on p->gpu within share_s seconds. TERN_MISSING and TERN_FAILED: the device is of no more use. */
typedef enum tern_status tern_run_tune(struct run *run, struct run_problem *p, double share_s, struct tern_error *err);
/* Has every device tune problems until none is left to be tuned, the run is interrupted or it fails. A device that fails is
 * left out and its problem goes to the others; its error becomes that of the run when none is left. */
enum tern_status tern_run_share(struct run *run, tern_run_tune *tune, double budget_s, struct tern_error *err);
/* The problem that a device does best next, NULL if none is open. A layer is prepared for it in about a second, so it stays
 * on its layer, then takes one that nobody is on, and at the end helps with the longest row of problems that are left. */
struct run_problem *tern_run_next_problem(const struct run_gpu *gpu);

/* run_replay.c */
/* What --replay and --fault exclude. */
enum tern_status tern_run_replay_options(const struct run_options *o, struct tern_error *err);
/* Behind tern_run_devices_open: checks that the recording is of the named GPU, and gives the rows names of their own. */
enum tern_status tern_run_replay_open(struct run *run, struct tern_error *err);
/* In the place of compiling: enters the builds under names of their own, without images. */
enum tern_status tern_run_replay_builds(struct run *run, const size_t *builds, size_t count, struct tern_error *err);

/* run_screen.c: screening for share_s seconds, or for as long as the search asks. offered_only: of all candidates that were offered, which
 * tells nothing of the others. */
enum tern_status tern_run_screen(struct run *run, struct run_problem *p, double share_s, bool offered_only,
                                 struct tern_error *err);

/* run_final.c: finalists and baselines in interleaved rounds; fills p->result and p->per_layout, and promotes. */
enum tern_status tern_run_final(struct run *run, struct run_problem *p, struct tern_error *err);

/* run_finish.c */
/* Promotes what is known of the (format, layer) that starts at problem index `first`; each winner for the device of its final.
 * Within a batch of the store: its rows belong together. */
enum tern_status tern_run_promote_layer(struct run *run, size_t first, struct tern_error *err);
/* Fills the parts of a result row that do not depend on times. */
void tern_run_result(const struct run *run, const struct run_problem *p, const struct run_build *build,
                     struct tern_result *row);
/* Chooses one layout for each (format, layer) and promotes its winners; see --copies. */
enum tern_status tern_run_promote(struct run *run, struct tern_error *err);
/* All results of the run, sorted. */
void tern_run_results(const struct run *run, struct tern_results *out);

#endif
