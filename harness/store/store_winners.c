/* Baselines and winners: what the finals measured, and the answer of each problem, promoted in one transaction. */
#include "store/store_sql.h"

#include "core/clock.h"
#include "core/str.h"

#include <stdlib.h>

/* ---- baselines ---- */

enum tern_status tern_store_baseline_put(struct tern_store *s, int64_t run, int64_t device, int64_t problem,
                                         const struct tern_store_baseline *b, const double *samples_us, size_t sample_count,
                                         struct tern_error *err) {
    static const char sql[] =
        "INSERT INTO baseline (run, device, real, problem, kind, policy, detail, us, us_lo, us_hi,"
        " sample_count, samples, sm_mhz, finished)"
        " SELECT ?1, id, real, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13 FROM device WHERE id = ?2"
        " RETURNING id";
    char now[24];
    int64_t id = 0;
    sqlite3_stmt *statement;
    void *blob = tern_store_pack_samples(samples_us, sample_count);
    tern_clock_utc(now);
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "iiitttdddibit", run, device, problem, b->kind,
                                                 b->policy, b->detail, b->us, b->us_lo, b->us_hi, (int64_t)sample_count,
                                                 blob, sample_count * sizeof(double), (int64_t)b->sm_mhz, now);
    if (!status)
        status = tern_store_finish(s, statement, &id, err);
    free(blob);
    return status;
}

/* The newest of the class counts. */
enum tern_status tern_store_baseline_find(struct tern_store *s, int64_t device, int64_t problem, const char *kind,
                                          const char *policy, struct tern_store_baseline *out, bool *found,
                                          struct tern_error *err) {
    static const char sql[] = "SELECT kind, policy, detail, us, us_lo, us_hi, sm_mhz FROM baseline b"
                              " WHERE b.problem = ?2 AND b.kind = ?3 AND b.policy = ?4"
                              " AND b.device IN (SELECT peer FROM device_peer WHERE device_peer.device = ?1)"
                              " ORDER BY b.id DESC LIMIT 1";
    sqlite3_stmt *row;
    *found = false;
    enum tern_status status = tern_store_prepare(s, &row, err, sql, "iitt", device, problem, kind, policy);
    if (status)
        return status;
    status = tern_store_step(s, row, found, err);
    if (!status && *found) {
        tern_store_text(row, 0, out->kind, sizeof out->kind);
        tern_store_text(row, 1, out->policy, sizeof out->policy);
        tern_store_text(row, 2, out->detail, sizeof out->detail);
        out->us = tern_store_double(row, 3);
        out->us_lo = tern_store_double(row, 4);
        out->us_hi = tern_store_double(row, 5);
        out->sm_mhz = sqlite3_column_int(row, 6);
    }
    sqlite3_finalize(row);
    return status;
}

/* ---- promotion ---- */

/* A winner answers for its (device class, shapes, format, op, layer, M).
 * ?7 planned: only planned rows give way to a planned one. */
static enum tern_status remove_predecessor(struct tern_store *s, int64_t device, const struct tern_result *r,
                                           struct tern_error *err) {
    static const char sql[] = "DELETE FROM winner WHERE shapes = ?2 AND layer = ?3 AND planned >= ?7"
                              " AND device IN (SELECT peer FROM device_peer WHERE device_peer.device = ?1)"
                              " AND problem IN (SELECT id FROM problem WHERE format = ?4 AND op = ?5 AND m = ?6)";
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "ittttii", device, r->shapes, r->layer, r->format,
                                                 r->op, r->m, (int64_t)r->planned);
    return status ? status : tern_store_finish(s, statement, NULL, err);
}

/* A shapes file that changed a layer's N or K leaves winners of another problem under its name, on every device: drop them.
 */
static enum tern_status remove_stale(struct tern_store *s, const struct tern_result *r, struct tern_error *err) {
    static const char sql[] = "DELETE FROM winner WHERE shapes = ? AND layer = ?"
                              " AND problem IN (SELECT id FROM problem WHERE format = ? AND op = ? AND (n != ? OR k != ?))";
    sqlite3_stmt *statement;
    enum tern_status status =
        tern_store_prepare(s, &statement, err, sql, "ttttii", r->shapes, r->layer, r->format, r->op, r->n, r->k);
    return status ? status : tern_store_finish(s, statement, NULL, err);
}

/* True if a device of this class has a measured winner for the same question. */
static enum tern_status has_measured(struct tern_store *s, int64_t device, const struct tern_result *r, bool *has,
                                     struct tern_error *err) {
    static const char sql[] = "SELECT count(*) FROM winner WHERE shapes = ?2 AND layer = ?3 AND planned = 0"
                              " AND device IN (SELECT peer FROM device_peer WHERE device_peer.device = ?1)"
                              " AND problem IN (SELECT id FROM problem WHERE format = ?4 AND op = ?5 AND m = ?6)";
    int64_t count = 0;
    sqlite3_stmt *statement;
    enum tern_status status =
        tern_store_prepare(s, &statement, err, sql, "itttti", device, r->shapes, r->layer, r->format, r->op, r->m);
    if (!status)
        status = tern_store_finish(s, statement, &count, err);
    *has = count > 0;
    return status;
}

/* NAN becomes NULL; the constraints then judge whether this row may have times. */
static enum tern_status insert_winner(struct tern_store *s, int64_t run, int64_t device, int64_t problem, int64_t build,
                                      const struct tern_result *r, struct tern_error *err) {
    static const char sql[] =
        "INSERT INTO winner (run, device, real, problem, build, shapes, layer, layer_count, planned, layout, us, us_lo, "
        "us_hi,"
        " p_best, baseline, baseline_us, dequant_us, speedup, speedup_lo, speedup_hi, limit_us, pct_of_limit, predicted_us,"
        " entry, grid_x, grid_y, grid_z, block, smem, workspace, cluster, min_m, max_m, regret, sustained_us, "
        "sustained_speedup, prologue, prologue_grid, prologue_block)"
        " SELECT ?1, id, real, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, "
        "?23,"
        " ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38 FROM device WHERE id = ?2 RETURNING id";
    int64_t id = 0;
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_prepare(
        s, &statement, err, sql, "iiiittiitddddtddddddddttttttttiidddttt", run, device, problem, build, r->shapes, r->layer,
        r->layer_count, (int64_t)r->planned, r->layout, r->us, r->us_lo, r->us_hi, r->p_best, r->baseline, r->baseline_us,
        r->dequant_us, r->speedup, r->speedup_lo, r->speedup_hi, r->limit_us, r->pct_of_limit, r->predicted_us, r->entry,
        r->grid[0], r->grid[1], r->grid[2], r->block, r->smem, r->workspace, r->cluster, r->min_m, r->max_m, r->regret,
        r->sustained_us, r->sustained_speedup, r->prologue, r->prologue_grid, r->prologue_block);
    return status ? status : tern_store_finish(s, statement, &id, err);
}

/* One row inside the transaction of the call. */
static enum tern_status promote_one(struct tern_store *s, int64_t run, int64_t device, const struct tern_result *r,
                                    struct tern_error *err) {
    struct tern_store_problem p = {.m = r->m, .n = r->n, .k = r->k};
    struct tern_store_build build;
    int64_t problem = 0;
    bool found = false, measured = false;
    tern_str_copy(p.format, sizeof p.format, r->format);
    tern_str_copy(p.op, sizeof p.op, r->op);
    enum tern_status status = tern_store_build_find(s, r->build_key, &build, &found, err);
    if (!status && !found)
        status =
            tern_error_set(err, TERN_INTERNAL, "%s: the winner of %s M=%lld names a build that is not in the database: %s",
                           s->path, r->layer, (long long)r->m, r->build_key);
    if (!status)
        status = tern_store_problem(s, &p, &problem, err);
    if (!status)
        status = remove_stale(s, r, err);
    if (!status && r->planned)
        status = has_measured(s, device, r, &measured, err);
    if (status || measured)
        return status;
    status = remove_predecessor(s, device, r, err);
    return status ? status : insert_winner(s, run, device, problem, build.id, r, err);
}

enum tern_status tern_store_promote(struct tern_store *s, int64_t run, int64_t device, const struct tern_result *rows,
                                    size_t count, struct tern_error *err) {
    enum tern_status status = tern_store_begin(s, err);
    if (status)
        return status;
    for (size_t i = 0; i < count && !status; i++)
        status = promote_one(s, run, device, &rows[i], err);
    return tern_store_end(s, status, err);
}

/* ---- the answer ---- */

/* Text columns first, each with its field; then doubles; then integers: the order of the SELECT below. */
#define FIELD(field)                                                                                                        \
    { offsetof(struct tern_result, field), sizeof((struct tern_result *)0)->field }
static const struct {
    size_t offset, size;
} TEXTS[] = {
    FIELD(gpu),           FIELD(arch),          FIELD(format),         FIELD(op),       FIELD(shapes),    FIELD(layer),
    FIELD(template_name), FIELD(layout),        FIELD(params),         FIELD(baseline), FIELD(entry),     FIELD(grid[0]),
    FIELD(grid[1]),       FIELD(grid[2]),       FIELD(block),          FIELD(smem),     FIELD(workspace), FIELD(cluster),
    FIELD(build_key),     FIELD(cubin_hash),    FIELD(template_hash),  FIELD(device),   FIELD(driver),    FIELD(policy),
    FIELD(prologue),      FIELD(prologue_grid), FIELD(prologue_block),
};
static const size_t DOUBLES[] = {
    offsetof(struct tern_result, us),
    offsetof(struct tern_result, us_lo),
    offsetof(struct tern_result, us_hi),
    offsetof(struct tern_result, p_best),
    offsetof(struct tern_result, regret),
    offsetof(struct tern_result, baseline_us),
    offsetof(struct tern_result, dequant_us),
    offsetof(struct tern_result, speedup),
    offsetof(struct tern_result, speedup_lo),
    offsetof(struct tern_result, speedup_hi),
    offsetof(struct tern_result, limit_us),
    offsetof(struct tern_result, pct_of_limit),
    offsetof(struct tern_result, predicted_us),
    offsetof(struct tern_result, sustained_us),
    offsetof(struct tern_result, sustained_speedup),
    offsetof(struct tern_result, default_us),
    offsetof(struct tern_result, dequant_e4m3_us),
};
static const size_t INTEGERS[] = {
    offsetof(struct tern_result, m),           offsetof(struct tern_result, n),
    offsetof(struct tern_result, k),           offsetof(struct tern_result, layer_count),
    offsetof(struct tern_result, registers),   offsetof(struct tern_result, static_smem_bytes),
    offsetof(struct tern_result, spill_bytes), offsetof(struct tern_result, min_m),
    offsetof(struct tern_result, max_m),
};
#define LENGTH(table) (sizeof(table) / sizeof(table)[0])

/* Of several rows of one problem (other driver, planned beside measured) the measured one and then the newest answers. */
static const char WINNERS_SQL[] =
    "SELECT gpu, arch, format, op, shapes, layer, template, layout, params, baseline, entry, grid_x, grid_y, grid_z, block, "
    "smem,"
    " workspace, cluster, key, cubin_hash, template_hash, device_name, CASE planned WHEN 1 THEN '' ELSE driver END, policy, "
    "prologue, "
    "prologue_grid, prologue_block,"
    " us, us_lo, us_hi, p_best, regret, baseline_us, dequant_us, speedup, speedup_lo, speedup_hi, limit_us, pct_of_limit, "
    "predicted_us, sustained_us, sustained_speedup, default_us, dequant_e4m3_us,"
    " m, n, k, layer_count, registers, static_smem_bytes, spill_bytes, min_m, max_m, planned FROM ("
    "  SELECT w.*, d.gpu, d.arch, d.name AS device_name, d.driver, p.format, p.op, p.m, p.n, p.k, c.template, c.params, "
    "c.template_hash, b.key, b.cubin_hash,"
    "   b.registers, b.static_smem_bytes, b.spill_bytes,"
    /* The final that the winner came from: its median is the winner's, bit for bit, whatever build owns it by now. */
    "   (SELECT t.policy FROM trial t WHERE t.problem = w.problem AND t.stage = 'final' AND t.us = w.us"
    "    ORDER BY t.id DESC LIMIT 1) AS policy,"
    "   (SELECT x.us FROM baseline x WHERE x.problem = w.problem AND x.kind = 'cublaslt-default' AND x.device = w.device"
    "    ORDER BY x.id DESC LIMIT 1) AS default_us,"
    "   (SELECT x.us FROM baseline x WHERE x.problem = w.problem AND x.kind = 'dequant-e4m3-cublaslt' AND x.device = "
    "w.device"
    "    ORDER BY x.id DESC LIMIT 1) AS dequant_e4m3_us,"
    "   row_number() OVER (PARTITION BY d.gpu, w.shapes, p.format, p.op, w.layer, p.m ORDER BY w.planned, w.id DESC) AS "
    "place"
    "  FROM winner w JOIN device d ON d.id = w.device JOIN problem p ON p.id = w.problem JOIN build b ON b.id = w.build"
    "   JOIN candidate c ON c.id = b.candidate"
    "  WHERE (?1 IS NULL OR d.gpu = ?1) AND (?2 IS NULL OR w.shapes = ?2)) WHERE place = 1 ORDER BY id";

static void read_winner(sqlite3_stmt *row, struct tern_result *r) {
    int column = 0;
    char *base = (char *)r;
    *r = (struct tern_result){0};
    for (size_t i = 0; i < LENGTH(TEXTS); i++)
        tern_store_text(row, column++, base + TEXTS[i].offset, TEXTS[i].size);
    for (size_t i = 0; i < LENGTH(DOUBLES); i++)
        *(double *)(void *)(base + DOUBLES[i]) = tern_store_double(row, column++);
    for (size_t i = 0; i < LENGTH(INTEGERS); i++)
        *(int64_t *)(void *)(base + INTEGERS[i]) = sqlite3_column_int64(row, column++);
    r->planned = sqlite3_column_int(row, column) != 0;
}

enum tern_status tern_store_winners(struct tern_store *s, const char *gpu, const char *shapes, struct tern_results *out,
                                    struct tern_error *err) {
    sqlite3_stmt *statement;
    bool row = false;
    enum tern_status status = tern_store_prepare(s, &statement, err, WINNERS_SQL, "tt", gpu, shapes);
    if (status)
        return status;
    while (!(status = tern_store_step(s, statement, &row, err)) && row) {
        struct tern_result result;
        read_winner(statement, &result);
        tern_results_add(out, &result);
    }
    sqlite3_finalize(statement);
    tern_results_sort(out);
    return status;
}
