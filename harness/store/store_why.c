/* What stands behind a winner besides its trials: refused builds, baselines, the compiler's words. */
#include "store/store_sql.h"

#include "core/str.h"

#include <stdlib.h>

enum tern_status tern_store_refused_each(struct tern_store *s, const char *gpu, const char *format, const char *op,
                                         void (*each)(void *user, const struct tern_store_build *b), void *user,
                                         struct tern_error *err) {
    static const char sql[] =
        "SELECT c.template, c.params, b.outcome, b.registers, b.static_smem_bytes, b.spill_bytes, b.log"
        " FROM build b JOIN candidate c ON c.id = b.candidate"
        " WHERE b.format = ?2 AND b.op = ?3 AND b.outcome != 'ok' AND b.arch IN (SELECT arch FROM device WHERE gpu = ?1)"
        " ORDER BY c.template, c.params";
    sqlite3_stmt *row;
    bool there = false;
    enum tern_status status = tern_store_prepare(s, &row, err, sql, "ttt", gpu, format, op);
    if (status)
        return status;
    while (!(status = tern_store_step(s, row, &there, err)) && there) {
        struct tern_store_build b = {.outcome = tern_store_outcome_column(row, 2),
                                     .registers = sqlite3_column_int64(row, 3),
                                     .static_smem_bytes = sqlite3_column_int64(row, 4),
                                     .spill_bytes = sqlite3_column_int64(row, 5)};
        const char *log = (const char *)sqlite3_column_text(row, 6);
        tern_store_text(row, 0, b.template_name, sizeof b.template_name);
        tern_store_text(row, 1, b.params, sizeof b.params);
        b.log = tern_strdup(log ? log : "");
        each(user, &b);
        free(b.log);
    }
    sqlite3_finalize(row);
    return status;
}

/* With max(id), SQLite takes the bare columns from that row. */
enum tern_status tern_store_baselines_each(struct tern_store *s, const char *gpu, const struct tern_store_problem *p,
                                           void (*each)(void *user, const struct tern_store_baseline *b), void *user,
                                           struct tern_error *err) {
    static const char sql[] =
        "SELECT b.kind, b.policy, b.detail, b.us, b.us_lo, b.us_hi, b.sm_mhz, max(b.id) FROM baseline b"
        " JOIN device d ON d.id = b.device JOIN problem p ON p.id = b.problem"
        " WHERE d.gpu = ? AND p.format = ? AND p.op = ? AND p.m = ? AND p.n = ? AND p.k = ? GROUP BY b.kind ORDER BY b.kind";
    sqlite3_stmt *row;
    bool there = false;
    enum tern_status status = tern_store_prepare(s, &row, err, sql, "tttiii", gpu, p->format, p->op, p->m, p->n, p->k);
    if (status)
        return status;
    while (!(status = tern_store_step(s, row, &there, err)) && there) {
        struct tern_store_baseline b = {.us = tern_store_double(row, 3),
                                        .us_lo = tern_store_double(row, 4),
                                        .us_hi = tern_store_double(row, 5),
                                        .sm_mhz = sqlite3_column_int(row, 6)};
        tern_store_text(row, 0, b.kind, sizeof b.kind);
        tern_store_text(row, 1, b.policy, sizeof b.policy);
        tern_store_text(row, 2, b.detail, sizeof b.detail);
        each(user, &b);
    }
    sqlite3_finalize(row);
    return status;
}

enum tern_status tern_store_build_log(struct tern_store *s, const char *key, char **log, struct tern_error *err) {
    sqlite3_stmt *row;
    bool there = false;
    *log = NULL;
    enum tern_status status = tern_store_prepare(s, &row, err, "SELECT log FROM build WHERE key = ?", "t", key);
    if (status)
        return status;
    status = tern_store_step(s, row, &there, err);
    const char *text = there ? (const char *)sqlite3_column_text(row, 0) : NULL;
    if (!status)
        *log = tern_strdup(text ? text : "");
    sqlite3_finalize(row);
    return status;
}
