/* Ceilings of a device class: written together by one calibration, and read back as the newest one. Control times. */
#include "store/store_sql.h"

#include "core/clock.h"
#include "core/str.h"

#include <stdlib.h>
#include <string.h>

static enum tern_status insert(struct tern_store *s, int64_t run, int64_t device, const struct tern_ceiling *c,
                               struct tern_error *err) {
    static const char sql[] = "INSERT INTO ceiling (run, device, real, kind, argument, value, unit, sample_count, samples,"
                              " sm_mhz, finished)"
                              " SELECT ?1, id, real, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 FROM device WHERE id = ?2 RETURNING id";
    char now[24];
    int64_t id = 0;
    sqlite3_stmt *statement;
    void *blob = tern_store_pack_samples(c->samples_us, c->sample_count);
    tern_clock_utc(now);
    enum tern_status status =
        tern_store_prepare(s, &statement, err, sql, "iitddtibit", run, device, c->kind, c->argument, c->value, c->unit,
                           (int64_t)c->sample_count, blob, c->sample_count * sizeof(double), (int64_t)c->sm_mhz, now);
    if (!status)
        status = tern_store_finish(s, statement, &id, err);
    free(blob);
    return status;
}

enum tern_status tern_store_ceilings_put(struct tern_store *s, int64_t run, int64_t device, const struct tern_ceilings *c,
                                         struct tern_error *err) {
    if (c->count == 0)
        return tern_error_set(err, TERN_INTERNAL, "%s: a calibration without ceilings", s->path);
    enum tern_status status = tern_store_begin(s, err);
    if (status)
        return status;
    for (size_t i = 0; i < c->count && !status; i++)
        status = insert(s, run, device, &c->rows[i], err);
    return tern_store_end(s, status, err);
}

/* `real` comes from the device row itself, as for trials. */
enum tern_status tern_store_control_put(struct tern_store *s, int64_t run, int64_t device, double read_us, double burst_us,
                                        bool kept, struct tern_error *err) {
    static const char sql[] = "INSERT INTO control (run, device, real, read_us, burst_us, kept, finished)"
                              " SELECT ?1, id, real, ?3, ?4, ?5, ?6 FROM device WHERE id = ?2 RETURNING device";
    char now[24];
    int64_t id = 0;
    sqlite3_stmt *statement;
    tern_clock_utc(now);
    enum tern_status status =
        tern_store_prepare(s, &statement, err, sql, "iiddit", run, device, read_us, burst_us, (int64_t)kept, now);
    return status ? status : tern_store_finish(s, statement, &id, err);
}

/* Reads rows of a SELECT of kind, argument, value, unit, sm_mhz, samples into *out. */
static enum tern_status read_rows(struct tern_store *s, sqlite3_stmt *statement, struct tern_ceilings *out,
                                  struct tern_error *err) {
    bool row = false;
    enum tern_status status;
    out->count = 0;
    while (!(status = tern_store_step(s, statement, &row, err)) && row) {
        char kind[24], unit[12];
        tern_store_text(statement, 0, kind, sizeof kind);
        tern_store_text(statement, 3, unit, sizeof unit);
        struct tern_ceiling *c = tern_ceilings_add(out, kind, tern_store_double(statement, 1), unit);
        if (!c)
            break; /* more than a calibration of this program writes */
        c->value = tern_store_double(statement, 2);
        c->sm_mhz = sqlite3_column_int(statement, 4);
        size_t bytes = (size_t)sqlite3_column_bytes(statement, 5);
        bytes = bytes < sizeof c->samples_us ? bytes : sizeof c->samples_us;
        if (bytes > 0) /* little-endian doubles, as packed */
            memcpy(c->samples_us, sqlite3_column_blob(statement, 5), bytes);
        c->sample_count = bytes / sizeof(double);
    }
    sqlite3_finalize(statement);
    return status;
}

#define CEILING_COLUMNS "SELECT kind, argument, value, unit, sm_mhz, samples FROM ceiling"

/* A run calibrates once, so its rows are one calibration. */
enum tern_status tern_store_ceilings_find(struct tern_store *s, int64_t device, struct tern_ceilings *out,
                                          struct tern_error *err) {
    static const char sql[] =
        CEILING_COLUMNS " WHERE run = (SELECT max(run) FROM ceiling WHERE device IN"
                        " (SELECT peer FROM device_peer WHERE device_peer.device = ?1))"
                        " AND device IN (SELECT peer FROM device_peer WHERE device_peer.device = ?1) ORDER BY id";
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "i", device);
    return status ? status : read_rows(s, statement, out, err);
}

enum tern_status tern_store_ceilings_of_gpu(struct tern_store *s, const char *gpu, struct tern_ceilings *out,
                                            struct tern_error *err) {
    static const char sql[] = CEILING_COLUMNS
        " WHERE run = (SELECT max(run) FROM ceiling JOIN device ON device.id = ceiling.device WHERE gpu = ?1)"
        " AND device IN (SELECT id FROM device WHERE gpu = ?1) ORDER BY id";
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "t", gpu);
    return status ? status : read_rows(s, statement, out, err);
}

enum tern_status tern_store_fastest_gemm(struct tern_store *s, const char *gpu, double *tflops, struct tern_error *err) {
    static const char sql[] =
        "SELECT max(2.0 * m * n * k / us * 1e-6) FROM baseline b JOIN problem p ON p.id = b.problem"
        " JOIN device d ON d.id = b.device"
        " WHERE d.gpu = ?1 AND b.policy != 'replay' AND b.kind IN ('cublaslt-default', 'cublaslt-best16')";
    sqlite3_stmt *statement;
    bool row = false;
    *tflops = 0;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "t", gpu);
    if (status)
        return status;
    status = tern_store_step(s, statement, &row, err);
    if (!status && row && sqlite3_column_type(statement, 0) != SQLITE_NULL)
        *tflops = tern_store_double(statement, 0);
    sqlite3_finalize(statement);
    return status;
}
