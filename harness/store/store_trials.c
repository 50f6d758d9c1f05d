/* Trials, journalled: begin commits `running` before the launch, finish replaces it, recover finds what a dead run left
 * behind. A `running` row must outlive a crash of the whole machine; a result, of this process. Lookups go by device class and by identical machine code, not by row. */
#include "store/store_sql.h"

#include "core/clock.h"
#include "core/str.h"

#include <math.h>
#include <stdlib.h>

/* `real` comes from the device row itself, never from the caller: no row, no trial. */
enum tern_status tern_store_trial_begin(struct tern_store *s, struct tern_store_trial *t, struct tern_error *err) {
    static const char sql[] =
        "INSERT INTO trial (run, device, real, problem, build, policy, stage, outcome, detail,"
        " predicted_us, started)"
        " SELECT ?1, id, real, ?3, ?4, ?5, ?6, 'running', '', ?7, ?8 FROM device WHERE id = ?2 RETURNING id";
    char now[24];
    tern_clock_utc(now);
    sqlite3_stmt *statement;
    enum tern_status status = s->in_batch ? TERN_OK : tern_store_outlive(s, TERN_OUTLIVE_MACHINE, err);
    if (!status)
        status = tern_store_prepare(s, &statement, err, sql, "iiiittdt", t->run, t->device, t->problem, t->build, t->policy,
                                    t->stage, t->predicted_us, now);
    if (!status)
        status = tern_store_finish(s, statement, &t->id, err);
    if (!s->in_batch) {
        enum tern_status back = tern_store_outlive(s, TERN_OUTLIVE_PROCESS, status ? NULL : err);
        status = status ? status : back;
    }
    return status;
}

enum tern_status tern_store_trial_withdraw(struct tern_store *s, const struct tern_store_trial *t, struct tern_error *err) {
    sqlite3_stmt *statement;
    enum tern_status status =
        tern_store_prepare(s, &statement, err, "DELETE FROM trial WHERE id = ? AND outcome = 'running'", "i", t->id);
    return status ? status : tern_store_finish(s, statement, NULL, err);
}

/* Only a running row can be finished, and once: a second answer for the same launch would be a mistake of the caller. */
enum tern_status tern_store_trial_finish(struct tern_store *s, const struct tern_store_trial *t, const double *samples_us,
                                         size_t sample_count, struct tern_error *err) {
    static const char sql[] = "UPDATE trial SET outcome = ?, detail = ?, predicted_us = ?, us = ?, us_lo = ?, us_hi = ?,"
                              " sample_count = ?, samples = ?, sm_mhz = ?, gpu_seconds = ?, finished = ?"
                              " WHERE id = ? AND outcome = 'running' RETURNING id";
    char now[24];
    int64_t id = 0;
    sqlite3_stmt *statement;
    void *blob = tern_store_pack_samples(samples_us, sample_count);
    tern_clock_utc(now);
    enum tern_status status = tern_store_prepare(
        s, &statement, err, sql, "ttddddibidti", tern_outcome_name(t->outcome), t->detail, t->predicted_us, t->us, t->us_lo,
        t->us_hi, (int64_t)sample_count, blob, sample_count * sizeof(double), (int64_t)t->sm_mhz,
        t->gpu_seconds > 0 ? t->gpu_seconds : (double)NAN, now, t->id);
    if (!status)
        status = tern_store_finish(s, statement, &id, err);
    free(blob);
    return status;
}

/* Columns in the order of read_trial. */
#define TRIAL_COLUMNS                                                                                                       \
    "t.id, t.run, t.device, t.problem, t.build, t.policy, t.stage, t.outcome, t.detail, t.predicted_us, t.us, t.us_lo,"     \
    " t.us_hi, t.sample_count, t.sm_mhz, t.gpu_seconds"

static void read_trial(sqlite3_stmt *row, struct tern_store_trial *t) {
    *t = (struct tern_store_trial){
        .id = sqlite3_column_int64(row, 0),
        .run = sqlite3_column_int64(row, 1),
        .device = sqlite3_column_int64(row, 2),
        .problem = sqlite3_column_int64(row, 3),
        .build = sqlite3_column_int64(row, 4),
        .outcome = tern_store_outcome_column(row, 7),
        .predicted_us = tern_store_double(row, 9),
        .us = tern_store_double(row, 10),
        .us_lo = tern_store_double(row, 11),
        .us_hi = tern_store_double(row, 12),
        .sample_count = sqlite3_column_int64(row, 13),
        .sm_mhz = sqlite3_column_int(row, 14),
        .gpu_seconds = tern_store_double(row, 15),
    };
    tern_store_text(row, 5, t->policy, sizeof t->policy);
    tern_store_text(row, 6, t->stage, sizeof t->stage);
    tern_store_text(row, 8, t->detail, sizeof t->detail);
}

/* Devices on which the same machine code may be expected to run alike: the class without the driver. Recordings have their
 * identity in the driver's place and stay apart. */
#define DEVICE_CLASS "(SELECT peer FROM device_peer WHERE device_peer.device = ?1)"
#define DEVICES_ALIKE                                                                                                       \
    "(SELECT b.id FROM device a JOIN device b ON a.name = b.name AND a.arch = b.arch AND a.real = b.real"                   \
    " AND (a.driver = b.driver OR b.gpu NOT LIKE '%" TERN_REPLAY_SUFFIX "') WHERE a.id = ?1)"

#define TRIAL_OF(problem)                                                                                                   \
    "SELECT " TRIAL_COLUMNS " FROM trial t WHERE " problem " AND t.policy = ?4 AND t.stage = ?5"                            \
    " AND t.outcome != 'running' AND t.interrupted = 0"                                                                     \
    " AND t.build IN (SELECT peer FROM build_peer WHERE build_peer.build = ?3)"                                             \
    " AND (t.device IN " DEVICE_CLASS " OR (t.outcome = 'ok' AND t.device IN " DEVICES_ALIKE "))"                           \
    " ORDER BY t.device IN " DEVICE_CLASS " DESC, t.id DESC LIMIT 1"

/* An interrupted trial says nothing of the candidate: it is tried again, until quarantine takes it. */
enum tern_status tern_store_trial_find(struct tern_store *s, int64_t device, int64_t problem, int64_t build,
                                       const char *policy, const char *stage, struct tern_store_trial *out, bool *found,
                                       struct tern_error *err) {
    static const char of_any[] = TRIAL_OF("?2 = ?2"), of_one[] = TRIAL_OF("t.problem = ?2"); /* two, for the indices */
    sqlite3_stmt *statement;
    *found = false;
    enum tern_status status = tern_store_prepare(s, &statement, err, problem == TERN_STORE_ANY_PROBLEM ? of_any : of_one,
                                                 "iiitt", device, problem, build, policy, stage);
    if (status)
        return status;
    status = tern_store_step(s, statement, found, err);
    if (!status && *found)
        read_trial(statement, out);
    sqlite3_finalize(statement);
    return status;
}

enum tern_status tern_store_template_outdated(struct tern_store *s, int64_t device, int64_t problem, const char *name,
                                              const char *hash, bool *outdated, struct tern_error *err) {
    static const char sql[] = "SELECT count(*) > 0 AND total(c.template_hash = ?4) = 0 FROM trial t"
                              " JOIN build b ON b.id = t.build JOIN candidate c ON c.id = b.candidate"
                              " WHERE t.problem = ?2 AND c.template = ?3 AND t.device IN " DEVICES_ALIKE;
    int64_t value = 0;
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "iitt", device, problem, name, hash);
    if (!status)
        status = tern_store_finish(s, statement, &value, err);
    *outdated = value != 0;
    return status;
}

/* Untimed work that came back with another trial's answer: never `running`. */
static enum tern_status record(struct tern_store *s, const struct tern_store_trial *t, struct tern_error *err) {
    static const char sql[] =
        "INSERT INTO trial (run, device, real, problem, build, policy, stage, outcome, detail, predicted_us, gpu_seconds,"
        " started, finished)"
        " SELECT ?1, id, real, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11 FROM device WHERE id = ?2 RETURNING id";
    char now[24];
    int64_t id = 0;
    sqlite3_stmt *statement;
    tern_clock_utc(now);
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "iiiittttddt", t->run, t->device, t->problem,
                                                 t->build, t->policy, t->stage, tern_outcome_name(t->outcome), t->detail,
                                                 t->predicted_us, t->gpu_seconds > 0 ? t->gpu_seconds : (double)NAN, now);
    return status ? status : tern_store_finish(s, statement, &id, err);
}

enum tern_status tern_store_trial_finish_checked(struct tern_store *s, const struct tern_store_trial *check,
                                                 const struct tern_store_trial *t, const double *samples_us,
                                                 size_t sample_count, struct tern_error *err) {
    enum tern_status status = tern_store_begin(s, err);
    if (status)
        return status;
    status = record(s, check, err);
    if (!status)
        status = tern_store_trial_finish(s, t, samples_us, sample_count, err);
    return tern_store_end(s, status, err);
}

/* ---- after a dead run ---- */

#define ANY_DEVICE 0

/* Nobody else can own a running row: the caller holds the writer's lock. */
static enum tern_status mark_interrupted(struct tern_store *s, int64_t device, const char *now, int64_t *count,
                                         struct tern_error *err) {
    static const char sql[] = "UPDATE trial SET outcome = 'crash', interrupted = 1, finished = ?1,"
                              " detail = 'interrupted: the run ended, or lost the device, while this trial was on it'"
                              " WHERE outcome = 'running' AND ?2 IN (0, device)";
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "ti", now, device);
    if (!status)
        status = tern_store_finish(s, statement, NULL, err);
    if (!status)
        *count = sqlite3_changes64(s->db);
    return status;
}

/* While one candidate is screened the next one is journalled already. Its row says nothing: the device was never at it, since
 * the result of the one before is committed first. */
static enum tern_status drop_waiting(struct tern_store *s, int64_t device, struct tern_error *err) {
    static const char sql[] = "DELETE FROM trial WHERE outcome = 'running' AND stage = 'screen' AND ? IN (0, device)"
                              " AND id > (SELECT min(id) FROM trial earlier WHERE earlier.outcome = 'running'"
                              "  AND earlier.stage = 'screen' AND earlier.device = trial.device)";
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "i", device);
    return status ? status : tern_store_finish(s, statement, NULL, err);
}

/* Counts real crashes and interruptions alike: both took the run with them. Devices of one class count as one: after the
 * first crash the next device may have tried. */
static enum tern_status quarantine_repeaters(struct tern_store *s, const char *now, struct tern_error *err) {
    /* With max(id), SQLite takes the bare column `detail` from that row. */
    static const char sql[] = "INSERT OR IGNORE INTO quarantine (device, problem, build, reason, since)"
                              " SELECT device, problem, build, crashes || ' crashes, last: ' || detail, ?"
                              " FROM (SELECT device, problem, build, detail, count(*) AS crashes, max(id) FROM trial"
                              "  WHERE outcome = 'crash' GROUP BY (SELECT min(peer) FROM device_peer"
                              "   WHERE device_peer.device = trial.device), problem, build) WHERE crashes >= 2";
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "t", now);
    return status ? status : tern_store_finish(s, statement, NULL, err);
}

enum tern_status tern_store_recover_device(struct tern_store *s, int64_t device, int64_t *recovered,
                                           struct tern_error *err) {
    char now[24];
    *recovered = 0;
    tern_clock_utc(now);
    enum tern_status status = tern_store_begin(s, err);
    if (status)
        return status;
    status = drop_waiting(s, device, err);
    if (!status)
        status = mark_interrupted(s, device, now, recovered, err);
    if (!status)
        status = quarantine_repeaters(s, now, err);
    return tern_store_end(s, status, err);
}

enum tern_status tern_store_recover(struct tern_store *s, int64_t *recovered, struct tern_error *err) {
    return tern_store_recover_device(s, ANY_DEVICE, recovered, err);
}

enum tern_status tern_store_quarantined(struct tern_store *s, int64_t device, int64_t problem, int64_t build,
                                        bool *quarantined, struct tern_error *err) {
    static const char sql[] = "SELECT count(*) FROM quarantine q WHERE q.problem = ?2"
                              " AND q.build IN (SELECT peer FROM build_peer WHERE build_peer.build = ?3)"
                              " AND q.device IN " DEVICE_CLASS;
    int64_t count = 0;
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "iii", device, problem, build);
    if (!status)
        status = tern_store_finish(s, statement, &count, err);
    *quarantined = count > 0;
    return status;
}

/* ---- for summaries and reports ---- */

enum tern_status tern_store_outcomes(struct tern_store *s, int64_t run, int64_t *counts, struct tern_error *err) {
    sqlite3_stmt *statement;
    bool row = false;
    for (int i = 0; i < TERN_OUTCOME_COUNT; i++)
        counts[i] = 0;
    enum tern_status status = tern_store_prepare(
        s, &statement, err, "SELECT outcome, count(*) FROM trial WHERE run = ? GROUP BY outcome", "i", run);
    if (status)
        return status;
    while (!(status = tern_store_step(s, statement, &row, err)) && row) {
        enum tern_outcome outcome = tern_store_outcome_column(statement, 0);
        if (outcome < TERN_OUTCOME_COUNT)
            counts[outcome] = sqlite3_column_int64(statement, 1);
    }
    sqlite3_finalize(statement);
    return status;
}

enum tern_status tern_store_trials_each(struct tern_store *s, const char *gpu, const struct tern_store_problem *p,
                                        int (*each)(void *user, const struct tern_store_trial *t,
                                                    const struct tern_store_build *b),
                                        void *user, struct tern_error *err) {
    static const char sql[] =
        "SELECT " TRIAL_COLUMNS " FROM trial t JOIN device d ON d.id = t.device"
        " JOIN problem p ON p.id = t.problem"
        " WHERE d.gpu = ? AND d.real = 1 AND p.format = ? AND p.op = ? AND p.m = ? AND p.n = ? AND p.k = ? ORDER BY t.id";
    sqlite3_stmt *statement;
    bool row = false;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "tttiii", gpu, p->format, p->op, p->m, p->n, p->k);
    if (status)
        return status;
    while (!(status = tern_store_step(s, statement, &row, err)) && row) {
        struct tern_store_trial trial;
        struct tern_store_build build;
        read_trial(statement, &trial);
        status = tern_store_build_get(s, trial.build, &build, err);
        if (status || each(user, &trial, &build))
            break;
    }
    sqlite3_finalize(statement);
    return status;
}
