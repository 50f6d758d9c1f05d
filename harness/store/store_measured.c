/* Everything measured on one class of device, with raw samples: what `tune record` writes down. */
#include "store/store_sql.h"

#include "core/str.h"

#include <stdlib.h>
#include <string.h>

enum tern_status tern_store_measured_device(struct tern_store *s, const char *gpu, struct tern_store_device *out,
                                            int64_t *id, bool *found, struct tern_error *err) {
    static const char sql[] = "SELECT d.id FROM device d JOIN trial t ON t.device = d.id WHERE d.gpu = ? AND d.real = 1"
                              " ORDER BY t.id DESC LIMIT 1";
    sqlite3_stmt *row;
    *found = false;
    enum tern_status status = tern_store_prepare(s, &row, err, sql, "t", gpu);
    if (status)
        return status;
    status = tern_store_step(s, row, found, err);
    if (!status && *found)
        *id = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    return !status && *found ? tern_store_device_get(s, *id, out, err) : status;
}

/* Rows of other conditions (tern_conditions) stay out: a recording has no weights, and one way to launch. With max(id), SQLite takes the bare columns from that row. A candidate of two versions of its template counts once. */
static const char TRIALS_SQL[] =
    "SELECT p.format, p.op, p.m, p.n, p.k, t.stage, t.policy, c.template, c.params, t.detail, t.outcome, t.sm_mhz,"
    " t.samples, t.gpu_seconds, b.seconds, t.finished, t.predicted_us, max(t.id) FROM trial t JOIN problem p ON p.id = "
    "t.problem JOIN build "
    "b ON b.id = t.build"
    " JOIN candidate c ON c.id = b.candidate"
    " WHERE t.outcome != 'running' AND t.interrupted = 0 AND t.policy NOT LIKE '%@%' AND t.policy NOT LIKE "
    "'%" TERN_DEPENDENT_POLICY "%'"
    " AND t.device IN (SELECT peer FROM device_peer WHERE device_peer.device = ?)"
    " GROUP BY p.id, t.stage, t.policy, c.template, c.params"
    " ORDER BY p.format, p.op, p.n, p.k, p.m, t.stage, t.policy, c.template, c.params";

/* Only if the newest build of the candidate was refused. */
static const char REFUSED_SQL[] =
    "SELECT format, op, 0, 0, 0, 'build', '', template, params, detail, outcome, 0, NULL, NULL, seconds, '', NULL FROM"
    " (SELECT b.format, b.op, c.template, c.params, substr(coalesce(b.log, ''), 1, 500) AS detail, b.outcome, b.seconds, "
    "max(b.id)"
    "  FROM build b JOIN candidate c ON c.id = b.candidate WHERE b.arch = (SELECT arch FROM device WHERE id = ?1)"
    "  AND b.format IN (SELECT p.format FROM trial t JOIN problem p ON p.id = t.problem"
    "   WHERE t.device IN (SELECT peer FROM device_peer WHERE device_peer.device = ?1))"
    "  GROUP BY b.format, b.op, c.template, c.params)"
    " WHERE outcome != 'ok' ORDER BY format, op, template, params";

static const char BASELINES_SQL[] =
    "SELECT p.format, p.op, p.m, p.n, p.k, 'baseline', b.policy, b.kind, '', b.detail, 'ok', b.sm_mhz, b.samples, NULL, "
    "NULL, b.finished, NULL, max(b.id)"
    " FROM baseline b JOIN problem p ON p.id = b.problem"
    " WHERE b.policy NOT LIKE '%@%' AND b.policy NOT LIKE '%" TERN_DEPENDENT_POLICY
    "%' AND b.device IN (SELECT peer FROM device_peer WHERE device_peer.device = ?)"
    " GROUP BY p.id, b.policy, b.kind ORDER BY p.format, p.op, p.n, p.k, p.m, b.policy, b.kind";

/* Little-endian doubles of a blob; NULL when there are none. Caller frees. */
static double *read_samples(sqlite3_stmt *row, int column, size_t *count) {
    const unsigned char *at = sqlite3_column_blob(row, column);
    *count = at ? (size_t)sqlite3_column_bytes(row, column) / sizeof(double) : 0;
    double *samples = *count ? tern_alloc(*count * sizeof *samples) : NULL;
    for (size_t i = 0; i < *count; i++) {
        uint64_t bits = 0;
        for (int b = 7; b >= 0; b--)
            bits = bits << 8 | at[8 * i + (size_t)b];
        memcpy(&samples[i], &bits, sizeof bits);
    }
    return samples;
}

static void read_row(sqlite3_stmt *row, struct tern_store_measured *m) {
    *m = (struct tern_store_measured){
        .problem = {.m = sqlite3_column_int64(row, 2), .n = sqlite3_column_int64(row, 3), .k = sqlite3_column_int64(row, 4)},
        .outcome = tern_store_outcome_column(row, 10),
        .sm_mhz = sqlite3_column_int(row, 11),
        .gpu_seconds = tern_store_double(row, 13),
        .compile_seconds = tern_store_double(row, 14),
        .predicted_us = tern_store_double(row, 16)};
    tern_store_text(row, 0, m->problem.format, sizeof m->problem.format);
    tern_store_text(row, 1, m->problem.op, sizeof m->problem.op);
    tern_store_text(row, 5, m->stage, sizeof m->stage);
    tern_store_text(row, 6, m->policy, sizeof m->policy);
    tern_store_text(row, 7, m->template_name, sizeof m->template_name);
    tern_store_text(row, 8, m->params, sizeof m->params);
    tern_store_text(row, 9, m->detail, sizeof m->detail);
    tern_store_text(row, 15, m->finished, sizeof m->finished);
    m->samples = read_samples(row, 12, &m->sample_count);
}

enum tern_status tern_store_measured_each(struct tern_store *s, int64_t device,
                                          enum tern_status (*each)(void *user, const struct tern_store_measured *row,
                                                                   struct tern_error *err),
                                          void *user, struct tern_error *err) {
    const char *const queries[] = {TRIALS_SQL, REFUSED_SQL, BASELINES_SQL};
    enum tern_status status = TERN_OK;
    for (size_t q = 0; q < sizeof queries / sizeof queries[0] && !status; q++) {
        sqlite3_stmt *statement;
        bool row = false;
        status = tern_store_prepare(s, &statement, err, queries[q], "i", device);
        if (status)
            break;
        while (!(status = tern_store_step(s, statement, &row, err)) && row) {
            struct tern_store_measured m;
            read_row(statement, &m);
            status = each(user, &m, err);
            free(m.samples);
            if (status)
                break;
        }
        sqlite3_finalize(statement);
    }
    return status;
}
