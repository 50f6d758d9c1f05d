/* Statement helpers of the store: prepare, bind, step, errors. Every value goes in by binding, never by pasting into SQL. */
#include "store/store_sql.h"

#include "core/str.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Messages of our own where SQLite's says too little. */
static const char *reason_of(sqlite3 *db, int code) {
    if (code == SQLITE_FULL)
        return "the disk is full";
    if (sqlite3_extended_errcode(db) == SQLITE_IOERR_WRITE) /* a file-size limit or quota looks like this */
        return "a write failed: the disk is full, a quota or file-size limit is reached, or the disk fails";
    return sqlite3_errmsg(db);
}

enum tern_status tern_store_fail(struct tern_store *s, const char *what, struct tern_error *err) {
    static const struct {
        int code;
        const char *hint;
    } hints[] = {
        {SQLITE_IOERR, "free some space on that file system, or check the disk; what was committed is kept"},
        {SQLITE_FULL, "free some space on that file system, then run the same command again; what was committed is kept"},
        {SQLITE_BUSY, "another program holds the database; wait for it to end"},
        {SQLITE_LOCKED, "another program holds the database; wait for it to end"},
        {SQLITE_NOTADB, "name another file with --db, or move this one away"},
        {SQLITE_CORRUPT, "move the file away (keep it), and merge what can be read of it into a new one"},
        {SQLITE_READONLY, "make the file and its folder writable, or name another one with --db"},
        {SQLITE_CANTOPEN, "check the path and the permissions of its folder"},
    };
    int code = sqlite3_errcode(s->db) & 0xff;
    tern_error_set(err, TERN_INTERNAL, "%s: %s: %s", s->path, what, reason_of(s->db, code));
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++)
        if (hints[i].code == code)
            tern_error_hint(err, "%s", hints[i].hint);
    return TERN_INTERNAL;
}

/* Binds one argument of type `type`; the SQLite code. */
static int bind_one(sqlite3_stmt *statement, int index, char type, va_list *arguments) {
    if (type == 'i')
        return sqlite3_bind_int64(statement, index, va_arg(*arguments, int64_t));
    if (type == 'd') {
        double value = va_arg(*arguments, double);
        return isnan(value) ? sqlite3_bind_null(statement, index) : sqlite3_bind_double(statement, index, value);
    }
    if (type == 't')
        return sqlite3_bind_text(statement, index, va_arg(*arguments, const char *), -1, SQLITE_STATIC);
    const void *blob = va_arg(*arguments, const void *);
    size_t bytes = va_arg(*arguments, size_t);
    return type == 'b' ? sqlite3_bind_blob64(statement, index, blob, bytes, SQLITE_STATIC) : SQLITE_MISUSE;
}

enum tern_status tern_store_prepare(struct tern_store *s, sqlite3_stmt **statement, struct tern_error *err, const char *sql,
                                    const char *types, ...) {
    va_list arguments;
    *statement = NULL;
    int code = sqlite3_prepare_v2(s->db, sql, -1, statement, NULL);
    va_start(arguments, types);
    for (int i = 0; types[i] && code == SQLITE_OK; i++)
        code = bind_one(*statement, i + 1, types[i], &arguments);
    va_end(arguments);
    if (code == SQLITE_OK)
        return TERN_OK;
    enum tern_status status = tern_store_fail(s, "cannot prepare a statement", err);
    sqlite3_finalize(*statement);
    *statement = NULL;
    return status;
}

enum tern_status tern_store_step(struct tern_store *s, sqlite3_stmt *statement, bool *row, struct tern_error *err) {
    int code = sqlite3_step(statement);
    *row = code == SQLITE_ROW;
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return TERN_OK;
    return tern_store_fail(s, s->mode == TERN_STORE_WRITE ? "cannot write" : "cannot read", err);
}

enum tern_status tern_store_finish(struct tern_store *s, sqlite3_stmt *statement, int64_t *value, struct tern_error *err) {
    bool row = false;
    enum tern_status status = tern_store_step(s, statement, &row, err);
    if (!status && value) {
        if (row)
            *value = sqlite3_column_int64(statement, 0);
        else
            status =
                tern_error_set(err, TERN_INTERNAL, "%s: no row where one is expected: %s", s->path, sqlite3_sql(statement));
    }
    while (!status && row) /* RETURNING commits only when stepped to its end */
        status = tern_store_step(s, statement, &row, err);
    sqlite3_finalize(statement);
    return status;
}

enum tern_status tern_store_exec(struct tern_store *s, const char *sql, struct tern_error *err) {
    if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return TERN_OK;
    return tern_store_fail(s, s->mode == TERN_STORE_WRITE ? "cannot write" : "cannot read", err);
}

enum tern_status tern_store_begin(struct tern_store *s, struct tern_error *err) {
    if (s->in_batch)
        return TERN_OK;
    return tern_store_exec(s, "BEGIN IMMEDIATE", err);
}

enum tern_status tern_store_end(struct tern_store *s, enum tern_status status, struct tern_error *err) {
    if (s->in_batch)
        return status; /* the batch's end commits, or takes back all */
    if (!status)
        status = tern_store_exec(s, "COMMIT", err);
    if (status && !sqlite3_get_autocommit(s->db)) /* a full disk may have rolled back already */
        (void)tern_store_exec(s, "ROLLBACK", NULL);
    return status;
}

enum tern_status tern_store_outlive(struct tern_store *s, enum tern_store_outlive what, struct tern_error *err) {
    return tern_store_exec(
        s, what == TERN_OUTLIVE_MACHINE && !s->of_replay ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", err);
}

enum tern_status tern_store_batch_begin(struct tern_store *s, struct tern_error *err) {
    enum tern_status status = tern_store_outlive(s, TERN_OUTLIVE_MACHINE, err);
    if (!status)
        status = tern_store_begin(s, err);
    s->in_batch = status == TERN_OK;
    return status;
}

enum tern_status tern_store_batch_end(struct tern_store *s, enum tern_status status, struct tern_error *err) {
    if (!s->in_batch)
        return status;
    s->in_batch = false;
    status = tern_store_end(s, status, err);
    enum tern_status back = tern_store_outlive(s, TERN_OUTLIVE_PROCESS, status ? NULL : err);
    return status ? status : back;
}

void tern_store_text(sqlite3_stmt *statement, int column, char *out, size_t size) {
    const char *text = (const char *)sqlite3_column_text(statement, column);
    tern_str_copy(out, size, text ? text : "");
}

double tern_store_double(sqlite3_stmt *statement, int column) {
    return sqlite3_column_type(statement, column) == SQLITE_NULL ? NAN : sqlite3_column_double(statement, column);
}

enum tern_outcome tern_store_outcome_column(sqlite3_stmt *statement, int column) {
    enum tern_outcome outcome = TERN_OUTCOME_COUNT;
    const char *text = (const char *)sqlite3_column_text(statement, column);
    if (!text || !tern_outcome_parse(text, &outcome)) /* the CHECK constraints let no other name in */
        return TERN_OUTCOME_COUNT;
    return outcome;
}

void *tern_store_pack_samples(const double *samples, size_t count) {
    if (!count)
        return NULL;
    unsigned char *blob = tern_alloc(count * sizeof *samples);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &samples[i], sizeof bits);
        for (size_t b = 0; b < 8; b++)
            blob[8 * i + b] = (unsigned char)(bits >> (8 * b));
    }
    return blob;
}
