/* Internals of the store: the open database and the few helpers through which every statement goes. For harness/store/ only.
 */
#ifndef TERN_STORE_STORE_SQL_H
#define TERN_STORE_STORE_SQL_H

#include "store/store.h"

#include <sqlite3.h>

#define TERN_STORE_APPLICATION_ID 0x5445524e /* "TERN" in the file header tells our databases from others' */

struct tern_store {
    sqlite3 *db;
    char *path;
    int lock_fd; /* of PATH.lock, flocked; -1 for readers */
    enum tern_store_mode mode;
    bool of_replay; /* see tern_store_of_replay */
    bool in_batch;  /* between tern_store_batch_begin and _end: inner transactions are part of it */
};

/* Turns the last SQLite failure into TERN_INTERNAL: "DATABASE: WHAT: reason", with a hint for full disks, locks and damage.
 */
enum tern_status tern_store_fail(struct tern_store *s, const char *what, struct tern_error *err);

/* Prepares `sql` and binds by `types`, one letter an argument: i int64_t, t const char * (NULL is SQL NULL), d double (NAN
 * is SQL NULL), b const void * and size_t (NULL pointer is SQL NULL). Texts and blobs must outlive the statement. */
enum tern_status tern_store_prepare(struct tern_store *s, sqlite3_stmt **statement, struct tern_error *err, const char *sql,
                                    const char *types, ...);
/* Steps: *row true with a row, false at the end. */
enum tern_status tern_store_step(struct tern_store *s, sqlite3_stmt *statement, bool *row, struct tern_error *err);
/* Runs a prepared statement to its end and finalises it in every case. `value`, if not NULL, gets column 0 of its one row;
 * no row is then an error. */
enum tern_status tern_store_finish(struct tern_store *s, sqlite3_stmt *statement, int64_t *value, struct tern_error *err);
/* Statements without parameters: transactions, pragmas, schema. */
enum tern_status tern_store_exec(struct tern_store *s, const char *sql, struct tern_error *err);
enum tern_status tern_store_begin(struct tern_store *s, struct tern_error *err);
/* Commits if `status` is TERN_OK, else rolls back; returns the first failure. */
enum tern_status tern_store_end(struct tern_store *s, enum tern_status status, struct tern_error *err);

/* What commits from here on outlive: the end of this process (a write to the journal), or a crash of the whole machine as well
 * (the write forced to the disk, which takes milliseconds). Not within a transaction. */
enum tern_store_outlive { TERN_OUTLIVE_PROCESS, TERN_OUTLIVE_MACHINE };
enum tern_status tern_store_outlive(struct tern_store *s, enum tern_store_outlive what, struct tern_error *err);

/* Columns of the current row. */
void tern_store_text(sqlite3_stmt *statement, int column, char *out, size_t size); /* "" for NULL */
double tern_store_double(sqlite3_stmt *statement, int column);                     /* NAN for NULL */
enum tern_outcome tern_store_outcome_column(sqlite3_stmt *statement, int column);

/* Checks application id and schema version; creates the schema in a new file and migrates an older one when writing. */
enum tern_status tern_store_check_schema(struct tern_store *s, struct tern_error *err);

/* One build by row id; its log is left out. */
enum tern_status tern_store_build_get(struct tern_store *s, int64_t id, struct tern_store_build *out,
                                      struct tern_error *err);

/* Samples as stored: little-endian doubles. Caller frees; NULL when count is 0. */
void *tern_store_pack_samples(const double *samples, size_t count);

#endif
