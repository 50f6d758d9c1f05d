/* Identities: devices, problems, runs and builds. Upserts that return row ids; the same thing never gets two rows. */
#include "store/store_sql.h"

#include "core/clock.h"
#include "core/str.h"

#include <math.h>
#include <stdlib.h>

/* A card seen again keeps its row; facts the driver reports differently now are brought up to date. */
enum tern_status tern_store_device(struct tern_store *s, const struct tern_store_device *d, int64_t *id,
                                   struct tern_error *err) {
    static const char sql[] =
        "INSERT INTO device (gpu, name, uuid, arch, driver, sms, l2_bytes, memory_bytes, real)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (gpu, name, uuid, arch, driver, real) DO UPDATE"
        " SET sms = excluded.sms, l2_bytes = excluded.l2_bytes, memory_bytes = excluded.memory_bytes"
        " RETURNING id";
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "tttttiiii", d->gpu, d->name, d->uuid, d->arch,
                                                 d->driver, d->sms, d->l2_bytes, d->memory_bytes, (int64_t)d->real);
    return status ? status : tern_store_finish(s, statement, id, err);
}

enum tern_status tern_store_device_get(struct tern_store *s, int64_t id, struct tern_store_device *out,
                                       struct tern_error *err) {
    static const char sql[] =
        "SELECT gpu, name, uuid, arch, driver, sms, l2_bytes, memory_bytes, real FROM device WHERE id = ?";
    sqlite3_stmt *row;
    bool found = false;
    enum tern_status status = tern_store_prepare(s, &row, err, sql, "i", id);
    if (status)
        return status;
    status = tern_store_step(s, row, &found, err);
    if (!status && !found)
        status = tern_error_set(err, TERN_INTERNAL, "%s: no device %lld", s->path, (long long)id);
    if (!status) {
        *out = (struct tern_store_device){.sms = sqlite3_column_int64(row, 5),
                                          .l2_bytes = sqlite3_column_int64(row, 6),
                                          .memory_bytes = sqlite3_column_int64(row, 7),
                                          .real = sqlite3_column_int(row, 8) != 0};
        tern_store_text(row, 0, out->gpu, sizeof out->gpu);
        tern_store_text(row, 1, out->name, sizeof out->name);
        tern_store_text(row, 2, out->uuid, sizeof out->uuid);
        tern_store_text(row, 3, out->arch, sizeof out->arch);
        tern_store_text(row, 4, out->driver, sizeof out->driver);
    }
    sqlite3_finalize(row);
    return status;
}

/* DO UPDATE with no change, as DO NOTHING would return no id. */
enum tern_status tern_store_problem(struct tern_store *s, const struct tern_store_problem *p, int64_t *id,
                                    struct tern_error *err) {
    static const char sql[] = "INSERT INTO problem (format, op, m, n, k) VALUES (?, ?, ?, ?, ?)"
                              " ON CONFLICT (format, op, m, n, k) DO UPDATE SET op = op RETURNING id";
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "ttiii", p->format, p->op, p->m, p->n, p->k);
    return status ? status : tern_store_finish(s, statement, id, err);
}

/* The seed keeps its 64 bits in a signed column. */
enum tern_status tern_store_run_begin(struct tern_store *s, int64_t device, const char *command_line,
                                      const char *tern_version, uint64_t seed, int64_t *run, struct tern_error *err) {
    static const char sql[] = "INSERT INTO run (device, command_line, tern_version, seed, started) VALUES (?, ?, ?, ?, ?)"
                              " RETURNING id";
    char now[24];
    tern_clock_utc(now);
    sqlite3_stmt *statement;
    enum tern_status status =
        tern_store_prepare(s, &statement, err, sql, "ittit", device, command_line, tern_version, (int64_t)seed, now);
    return status ? status : tern_store_finish(s, statement, run, err);
}

/* RETURNING makes an unknown run an error instead of an update of nothing. */
enum tern_status tern_store_run_end(struct tern_store *s, int64_t run, int exit_code, struct tern_error *err) {
    char now[24];
    int64_t id;
    tern_clock_utc(now);
    sqlite3_stmt *statement;
    enum tern_status status =
        tern_store_prepare(s, &statement, err, "UPDATE run SET ended = ?, exit_code = ? WHERE id = ? RETURNING id", "tii",
                           now, (int64_t)exit_code, run);
    return status ? status : tern_store_finish(s, statement, &id, err);
}

/* ---- builds ---- */

/* Columns in the order of read_build. */
#define BUILD_COLUMNS                                                                                                       \
    "build.id, key, template, template_hash, format, params, arch, nvrtc, outcome, cubin_hash, cubin_bytes, registers,"     \
    " static_smem_bytes, spill_bytes, seconds, op"

static void read_build(sqlite3_stmt *row, struct tern_store_build *b) {
    *b = (struct tern_store_build){.id = sqlite3_column_int64(row, 0)};
    tern_store_text(row, 1, b->key, sizeof b->key);
    tern_store_text(row, 2, b->template_name, sizeof b->template_name);
    tern_store_text(row, 3, b->template_hash, sizeof b->template_hash);
    tern_store_text(row, 4, b->format, sizeof b->format);
    tern_store_text(row, 5, b->params, sizeof b->params);
    tern_store_text(row, 6, b->arch, sizeof b->arch);
    tern_store_text(row, 7, b->nvrtc, sizeof b->nvrtc);
    b->outcome = tern_store_outcome_column(row, 8);
    tern_store_text(row, 9, b->cubin_hash, sizeof b->cubin_hash);
    b->cubin_bytes = sqlite3_column_int64(row, 10);
    b->registers = sqlite3_column_int64(row, 11);
    b->static_smem_bytes = sqlite3_column_int64(row, 12);
    b->spill_bytes = sqlite3_column_int64(row, 13);
    b->seconds = tern_store_double(row, 14);
    tern_store_text(row, 15, b->op, sizeof b->op);
}

/* At most one row, as key and id are unique; finalises the statement. */
static enum tern_status read_one_build(struct tern_store *s, sqlite3_stmt *statement, struct tern_store_build *out,
                                       bool *found, struct tern_error *err) {
    enum tern_status status = tern_store_step(s, statement, found, err);
    if (!status && *found)
        read_build(statement, out);
    sqlite3_finalize(statement);
    return status;
}

enum tern_status tern_store_build_find(struct tern_store *s, const char *key, struct tern_store_build *out, bool *found,
                                       struct tern_error *err) {
    static const char sql[] = "SELECT " BUILD_COLUMNS " FROM build JOIN candidate ON candidate.id = candidate"
                              " JOIN toolchain ON toolchain.id = toolchain WHERE key = ?";
    sqlite3_stmt *statement;
    *found = false;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "t", key);
    return status ? status : read_one_build(s, statement, out, found, err);
}

enum tern_status tern_store_build_get(struct tern_store *s, int64_t id, struct tern_store_build *out,
                                      struct tern_error *err) {
    static const char sql[] = "SELECT " BUILD_COLUMNS " FROM build JOIN candidate ON candidate.id = candidate"
                              " JOIN toolchain ON toolchain.id = toolchain WHERE build.id = ?";
    sqlite3_stmt *statement;
    bool found = false;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "i", id);
    if (!status)
        status = read_one_build(s, statement, out, &found, err);
    if (!status && !found)
        status = tern_error_set(err, TERN_INTERNAL, "%s: no build %lld", s->path, (long long)id);
    return status;
}

/* Candidates are shared by the builds for several formats and architectures. */
static enum tern_status put_candidate(struct tern_store *s, const struct tern_store_build *b, int64_t *id,
                                      struct tern_error *err) {
    static const char sql[] = "INSERT INTO candidate (template, template_hash, params) VALUES (?, ?, ?)"
                              " ON CONFLICT (template, template_hash, params) DO UPDATE SET params = params RETURNING id";
    sqlite3_stmt *statement;
    enum tern_status status =
        tern_store_prepare(s, &statement, err, sql, "ttt", b->template_name, b->template_hash, b->params);
    return status ? status : tern_store_finish(s, statement, id, err);
}

static enum tern_status put_toolchain(struct tern_store *s, const char *nvrtc, int64_t *id, struct tern_error *err) {
    static const char sql[] =
        "INSERT INTO toolchain (nvrtc) VALUES (?) ON CONFLICT (nvrtc) DO UPDATE SET nvrtc = nvrtc RETURNING id";
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "t", nvrtc);
    return status ? status : tern_store_finish(s, statement, id, err);
}

/* Candidate, toolchain and build in one transaction. A key built again (its image was lost) replaces the results of the
 * first build and keeps its id, so that trials stay attached. */
enum tern_status tern_store_build_put(struct tern_store *s, struct tern_store_build *b, struct tern_error *err) {
    static const char sql[] =
        "INSERT INTO build (key, candidate, toolchain, format, arch, outcome, cubin_hash, cubin_bytes, registers,"
        " static_smem_bytes, spill_bytes, seconds, log, op) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET outcome = excluded.outcome, cubin_hash = excluded.cubin_hash,"
        " cubin_bytes = excluded.cubin_bytes, registers = excluded.registers, static_smem_bytes = "
        "excluded.static_smem_bytes,"
        " spill_bytes = excluded.spill_bytes, seconds = excluded.seconds, log = excluded.log RETURNING id";
    int64_t candidate = 0, toolchain = 0;
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_begin(s, err);
    if (status)
        return status;
    status = put_candidate(s, b, &candidate, err);
    if (!status)
        status = put_toolchain(s, b->nvrtc, &toolchain, err);
    if (!status)
        status = tern_store_prepare(s, &statement, err, sql, "tiittttiiiidtt", b->key, candidate, toolchain, b->format,
                                    b->arch, tern_outcome_name(b->outcome), b->cubin_hash, b->cubin_bytes, b->registers,
                                    b->static_smem_bytes, b->spill_bytes, b->seconds, b->log, b->op);
    if (!status)
        status = tern_store_finish(s, statement, &b->id, err);
    return tern_store_end(s, status, err);
}
