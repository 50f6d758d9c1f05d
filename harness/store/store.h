/* Store: results in SQLite. The only place that knows SQLite. One writer; readers at any time (WAL).
 * Opening checks that the file is a Tern database of this schema version, migrates older ones, refuses newer ones.
 * Every call outside of a batch commits before it returns, so that kill -9 loses at most the running trial. */
#ifndef TERN_STORE_STORE_H
#define TERN_STORE_STORE_H

#include "core/ceiling.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/outcome.h"
#include "core/result.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_STORE_SCHEMA_VERSION 5

struct tern_store;

enum tern_store_mode { TERN_STORE_READ, TERN_STORE_WRITE /* created if missing; takes the writer's lock for the process */ };

/* TERN_INTERNAL: not SQLite, newer schema, read-only, disk full; TERN_INTERNAL with a hint naming the holder's pid when
 * another run holds the writer's lock; TERN_USAGE when a database to be read does not exist. */
enum tern_status tern_store_open(const char *path, enum tern_store_mode mode, struct tern_store **store,
                                 struct tern_error *err);
void tern_store_close(struct tern_store *store);
/* "3.40.1", of the SQLite that is linked. */
const char *tern_store_sqlite_version(void);

/* Identities; upserts that return row ids. */
struct tern_store_device {
    char gpu[32], name[128], uuid[48], arch[16], driver[64]; /* planned runs: name of the description, driver "" */
    int64_t sms, l2_bytes, memory_bytes;
    bool real; /* false: a description only */
};
enum tern_status tern_store_device(struct tern_store *s, const struct tern_store_device *d, int64_t *id,
                                   struct tern_error *err);

/* The row of an id. */
enum tern_status tern_store_device_get(struct tern_store *s, int64_t id, struct tern_store_device *out,
                                       struct tern_error *err);

struct tern_store_problem {
    char format[40], op[16];
    int64_t m, n, k;
};
enum tern_status tern_store_problem(struct tern_store *s, const struct tern_store_problem *p, int64_t *id,
                                    struct tern_error *err);

/* One invocation of the program. */
enum tern_status tern_store_run_begin(struct tern_store *s, int64_t device, const char *command_line,
                                      const char *tern_version, uint64_t seed, int64_t *run, struct tern_error *err);
enum tern_status tern_store_run_end(struct tern_store *s, int64_t run, int exit_code, struct tern_error *err);

/* A build: candidate compiled for one architecture, keyed by content (design: preprocessed source, parameters, flags, NVRTC,
 * arch). */
struct tern_store_build {
    int64_t id;
    char key[TERN_HASH_CHARS], template_name[40], template_hash[TERN_HASH_CHARS], format[40], op[16], params[256], arch[16],
        nvrtc[32];
    enum tern_outcome outcome; /* OK or COMPILE, TIMEOUT, CRASH */
    char cubin_hash[TERN_HASH_CHARS];
    int64_t cubin_bytes, registers, static_smem_bytes, spill_bytes;
    double seconds;
    char *log; /* compiler log; not owned on insert; NULL on lookup */
};
enum tern_status tern_store_build_find(struct tern_store *s, const char *key, struct tern_store_build *out, bool *found,
                                       struct tern_error *err);
enum tern_status tern_store_build_put(struct tern_store *s, struct tern_store_build *build,
                                      struct tern_error *err); /* fills id */

/* A trial, journalled: begin commits `running`, finish replaces it. */
struct tern_store_trial {
    int64_t id, run, device, problem, build;
    char policy[64]; /* "graph/cold" ... part of the identity of a measurement */
    char stage[16];  /* "verify", "screen", "final" */
    enum tern_outcome outcome;
    char detail[512];                      /* why, first mismatch, last output of a dead worker */
    double predicted_us, us, us_lo, us_hi; /* NAN when not measured */
    int64_t sample_count;
    int sm_mhz;
    double gpu_seconds; /* device work of the trial, checks and warm-up included; 0 or NAN when not known, NAN when read */
};
enum tern_status tern_store_trial_begin(struct tern_store *s, struct tern_store_trial *t,
                                        struct tern_error *err); /* fills id */
/* Takes back a begun trial that never reached the device. */
enum tern_status tern_store_trial_withdraw(struct tern_store *s, const struct tern_store_trial *t, struct tern_error *err);
enum tern_status tern_store_trial_finish(struct tern_store *s, const struct tern_store_trial *t, const double *samples_us,
                                         size_t sample_count, struct tern_error *err);
/* The same, and with it the check that the worker made before the trial: a finished row of its own, never `running`. */
enum tern_status tern_store_trial_finish_checked(struct tern_store *s, const struct tern_store_trial *check,
                                                 const struct tern_store_trial *t, const double *samples_us,
                                                 size_t sample_count, struct tern_error *err);
/* What is written from here on comes from a recording and can be had again: no commit is forced to the disk. */
void tern_store_of_replay(struct tern_store *s);
#define TERN_STORE_ANY_PROBLEM 0
/* Finished trial of the same identity (device class, problem or any, machine code, policy, stage), newest; for resume. Without one,
 * the newest of another driver whose outcome is OK: the same machine code on the same kind of device. A failure may have been
 * the driver's and is tried again. */
enum tern_status tern_store_trial_find(struct tern_store *s, int64_t device, int64_t problem, int64_t build,
                                       const char *policy, const char *stage, struct tern_store_trial *out, bool *found,
                                       struct tern_error *err);
/* *outdated: other versions of a template were tried on the problem on such a device, and the one of this hash was not. */
enum tern_status tern_store_template_outdated(struct tern_store *s, int64_t device, int64_t problem, const char *name,
                                              const char *hash, bool *outdated, struct tern_error *err);
/* Turns trials left `running` by a dead run into `crash` ("interrupted"), and quarantines a build interrupted or crashed
 * twice on the same problem and device class. Returns how many were found. Called once after opening for a run. */
enum tern_status tern_store_recover(struct tern_store *s, int64_t *recovered, struct tern_error *err);
/* The same for the trials of one device, which this run has lost. */
enum tern_status tern_store_recover_device(struct tern_store *s, int64_t device, int64_t *recovered, struct tern_error *err);
enum tern_status tern_store_quarantined(struct tern_store *s, int64_t device, int64_t problem, int64_t build,
                                        bool *quarantined, struct tern_error *err);

struct tern_store_baseline {
    char
        kind[40]; /* cublaslt-default, cublaslt-best16, dequant-cublaslt, dequant-e4m3-cublaslt, cublaslt-best16/sustained */
    char policy[64], detail[128];
    double us, us_lo, us_hi;
    int sm_mhz;
};
enum tern_status tern_store_baseline_put(struct tern_store *s, int64_t run, int64_t device, int64_t problem,
                                         const struct tern_store_baseline *b, const double *samples_us, size_t sample_count,
                                         struct tern_error *err);
enum tern_status tern_store_baseline_find(struct tern_store *s, int64_t device, int64_t problem, const char *kind,
                                          const char *policy, struct tern_store_baseline *out, bool *found,
                                          struct tern_error *err);

/* Ceilings (store_ceilings.c). Put: all rows of one calibration in one transaction; one calibration a run. */
enum tern_status tern_store_ceilings_put(struct tern_store *s, int64_t run, int64_t device, const struct tern_ceilings *c,
                                         struct tern_error *err);
/* The newest calibration of the device's class (same name, architecture, driver); count 0 if there is none. */
enum tern_status tern_store_ceilings_find(struct tern_store *s, int64_t device, struct tern_ceilings *out,
                                          struct tern_error *err);
/* The newest of any device with this description name: for planning and reports, which have no device. */
enum tern_status tern_store_ceilings_of_gpu(struct tern_store *s, const char *gpu, struct tern_ceilings *out,
                                            struct tern_error *err);
/* Highest rate of a stored FP16 baseline of this GPU (cuBLASLt alone, 2MNK over time), TFLOPS; 0 if there is none. */
enum tern_status tern_store_fastest_gemm(struct tern_store *s, const char *gpu, double *tflops, struct tern_error *err);

/* Control times of a device in a run (device/ceilings.h), and whether it took part: they tell whether what was measured on
 * several devices may be mixed. burst_us 0: none. */
enum tern_status tern_store_control_put(struct tern_store *s, int64_t run, int64_t device, double read_us, double burst_us,
                                        bool kept, struct tern_error *err);

/* Replaces the winners of one (device, shapes, format, layer) for all its M in one transaction. A planned row never replaces
 * a measured one of the same build keys; rows with times need a real device (CHECK). rows[i].m etc. say which problem. build
 * ids by build_key. */
enum tern_status tern_store_promote(struct tern_store *s, int64_t run, int64_t device, const struct tern_result *rows,
                                    size_t count, struct tern_error *err);
/* All winners, joined with problem, build, device and baselines; filter by gpu and shapes when not NULL. */
enum tern_status tern_store_winners(struct tern_store *s, const char *gpu, const char *shapes, struct tern_results *out,
                                    struct tern_error *err);

/* Calls between begin and end are committed together, by end, if `status` is TERN_OK; else none of them is. Nothing slow
 * belongs in between. end returns the first failure; without a begin that worked it returns `status`. */
enum tern_status tern_store_batch_begin(struct tern_store *s, struct tern_error *err);
enum tern_status tern_store_batch_end(struct tern_store *s, enum tern_status status, struct tern_error *err);

/* Outcome counts of a run: counts[TERN_OUTCOME_COUNT]. */
enum tern_status tern_store_outcomes(struct tern_store *s, int64_t run, int64_t *counts, struct tern_error *err);

/* What measured the winners of a gpu name, for the record of a release (store_facts.c). */
struct tern_store_fact {
    const char *section;              /* "run", "nvrtc", "policy", "outcome", "build", "template" */
    char name[512];                   /* command line; version; policy; "STAGE OUTCOME"; outcome of builds; template */
    char text[64];                    /* of a run its tern version, of a template its hash */
    int64_t count;                    /* of outcomes and builds */
    int64_t exit_code, seconds, seed; /* of a run; -1 where it died */
};
/* In an order that depends on their content only, but for runs, which stand in theirs. Runs: those of devices of this name;
 * templates: those of its winners. Stops when `each` returns something other than TERN_OK, and returns that. */
enum tern_status tern_store_facts_each(struct tern_store *s, const char *gpu,
                                       enum tern_status (*each)(void *user, const struct tern_store_fact *fact,
                                                                struct tern_error *err),
                                       void *user, struct tern_error *err);
/* The device of the newest measured winner of this gpu name. */
enum tern_status tern_store_winner_device(struct tern_store *s, const char *gpu, struct tern_store_device *out, bool *found,
                                          struct tern_error *err);

/* Every trial of a problem on devices of a gpu name, oldest first, those that ran on no device left out: calls `each` per row; stops on non-zero. */
enum tern_status tern_store_trials_each(struct tern_store *s, const char *gpu, const struct tern_store_problem *p,
                                        int (*each)(void *user, const struct tern_store_trial *t,
                                                    const struct tern_store_build *b),
                                        void *user, struct tern_error *err);

/* For `tune show` (store_why.c). Builds of a format that the compiler refused for this gpu name, with their logs; newest baselines
 * of a problem, one of each kind; the compiler's log of a build, "" if there is none (the caller frees). */
enum tern_status tern_store_refused_each(struct tern_store *s, const char *gpu, const char *format, const char *op,
                                         void (*each)(void *user, const struct tern_store_build *b), void *user,
                                         struct tern_error *err);
enum tern_status tern_store_baselines_each(struct tern_store *s, const char *gpu, const struct tern_store_problem *p,
                                           void (*each)(void *user, const struct tern_store_baseline *b), void *user,
                                           struct tern_error *err);
enum tern_status tern_store_build_log(struct tern_store *s, const char *key, char **log, struct tern_error *err);

/* What was measured on one class of device, for recordings. A baseline's stage is "baseline", its template_name its kind. A
 * build that the compiler refused for such devices has the stage "build" and no problem but its format. */
struct tern_store_measured {
    struct tern_store_problem problem;
    char stage[16], policy[64], template_name[40], params[256], detail[512];
    enum tern_outcome outcome;
    int sm_mhz;
    double gpu_seconds, compile_seconds, predicted_us; /* NAN: not known */
    char finished[24];                                 /* UTC; "" for a build */
    double *samples;                                   /* microseconds; valid during the call only */
    size_t sample_count;
};
/* The device of this gpu name that was measured last. */
enum tern_status tern_store_measured_device(struct tern_store *s, const char *gpu, struct tern_store_device *out,
                                            int64_t *id, bool *found, struct tern_error *err);
/* The newest finished row of each (problem, stage, policy, candidate) of the device's class, then refused builds of the formats
 * that were measured, then the newest baselines, in an order that depends on their content only. Stops when `each` returns something other than TERN_OK, and returns that. */
enum tern_status tern_store_measured_each(struct tern_store *s, int64_t device,
                                          enum tern_status (*each)(void *user, const struct tern_store_measured *row,
                                                                   struct tern_error *err),
                                          void *user, struct tern_error *err);

#endif
