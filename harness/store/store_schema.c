/* Schema of the database and its migrations. Described for people in docs/schema.md: change both together. */
#include "store/store_sql.h"

#include "core/str.h"

#include <string.h>

#define X(id, name, letter, meaning) ",'" name "'"
#define OUTCOME_NAMES                "'ok'" TERN_OUTCOMES(X) /* the list of core/outcome.h, in SQL */

/* Rows with times carry `real` of their device under a composite foreign key, so that a CHECK can see it:
 * no time without a device that could produce it. */
#define DEVICE_REFERENCE "device INTEGER NOT NULL, real INTEGER NOT NULL, "

static const char SCHEMA_1[] =
    "CREATE TABLE device ("
    "  id INTEGER PRIMARY KEY, gpu TEXT NOT NULL, name TEXT NOT NULL, uuid TEXT NOT NULL, arch TEXT NOT NULL,"
    "  driver TEXT NOT NULL, sms INTEGER NOT NULL, l2_bytes INTEGER NOT NULL, memory_bytes INTEGER NOT NULL,"
    "  real INTEGER NOT NULL CHECK (real IN (0, 1)),"
    "  UNIQUE (gpu, name, uuid, arch, driver, real), UNIQUE (id, real)) STRICT;"
    /* Devices of one class: what was measured on one holds for its peers. */
    "CREATE VIEW device_peer AS SELECT a.id AS device, b.id AS peer FROM device a JOIN device b"
    "  ON a.name = b.name AND a.arch = b.arch AND a.driver = b.driver AND a.real = b.real;"

    "CREATE TABLE toolchain (id INTEGER PRIMARY KEY, nvrtc TEXT NOT NULL UNIQUE) STRICT;"

    "CREATE TABLE run ("
    "  id INTEGER PRIMARY KEY, device INTEGER NOT NULL REFERENCES device(id), command_line TEXT NOT NULL,"
    "  tern_version TEXT NOT NULL, seed INTEGER NOT NULL, started TEXT NOT NULL, ended TEXT, exit_code INTEGER,"
    "  CHECK ((ended IS NULL) = (exit_code IS NULL))) STRICT;"

    "CREATE TABLE problem ("
    "  id INTEGER PRIMARY KEY, format TEXT NOT NULL, op TEXT NOT NULL, m INTEGER NOT NULL CHECK (m >= 0),"
    "  n INTEGER NOT NULL CHECK (n > 0), k INTEGER NOT NULL CHECK (k > 0), UNIQUE (format, op, m, n, k)) STRICT;"

    "CREATE TABLE candidate ("
    "  id INTEGER PRIMARY KEY, template TEXT NOT NULL, template_hash TEXT NOT NULL, params TEXT NOT NULL,"
    "  UNIQUE (template, template_hash, params)) STRICT;"

    "CREATE TABLE build ("
    "  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE CHECK (length(key) = 32),"
    "  candidate INTEGER NOT NULL REFERENCES candidate(id), toolchain INTEGER NOT NULL REFERENCES toolchain(id),"
    "  format TEXT NOT NULL, arch TEXT NOT NULL,"
    "  outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'compile', 'resources', 'timeout', 'crash')),"
    "  cubin_hash TEXT NOT NULL, cubin_bytes INTEGER NOT NULL, registers INTEGER NOT NULL,"
    "  static_smem_bytes INTEGER NOT NULL, spill_bytes INTEGER NOT NULL, seconds REAL, log TEXT,"
    "  CHECK (outcome != 'ok' OR length(cubin_hash) = 32)) STRICT;"
    "CREATE INDEX build_cubin ON build(cubin_hash);"
    /* Builds of one candidate whose machine code is the same bit for bit, as after a compiler update that changed nothing.
     */
    "CREATE VIEW build_peer AS SELECT a.id AS build, b.id AS peer FROM build a JOIN build b"
    "  ON a.id = b.id OR (a.cubin_hash != '' AND a.cubin_hash = b.cubin_hash AND a.candidate = b.candidate"
    "  AND a.format = b.format AND a.arch = b.arch);"

    "CREATE TABLE trial ("
    "  id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run(id)," DEVICE_REFERENCE
    "  problem INTEGER NOT NULL REFERENCES problem(id), build INTEGER NOT NULL REFERENCES build(id),"
    "  policy TEXT NOT NULL, stage TEXT NOT NULL, outcome TEXT NOT NULL CHECK (outcome IN (" OUTCOME_NAMES ")),"
    "  interrupted INTEGER NOT NULL DEFAULT 0 CHECK (interrupted IN (0, 1)), detail TEXT NOT NULL,"
    "  predicted_us REAL, us REAL CHECK (us > 0), us_lo REAL, us_hi REAL CHECK (us_lo <= us_hi),"
    "  sample_count INTEGER NOT NULL DEFAULT 0, samples BLOB, sm_mhz INTEGER NOT NULL DEFAULT 0,"
    "  started TEXT NOT NULL, finished TEXT,"
    "  FOREIGN KEY (device, real) REFERENCES device(id, real),"
    "  CHECK (coalesce(length(samples), 0) = 8 * sample_count),"
    "  CHECK ((outcome = 'running') = (finished IS NULL)),"
    "  CHECK ((real = 1 AND outcome NOT IN ('running', 'planned', 'invalid', 'compile', 'resources'))"
    "         OR (us IS NULL AND us_lo IS NULL AND us_hi IS NULL AND samples IS NULL))) STRICT;"
    "CREATE INDEX trial_identity ON trial(problem, build, policy, stage);"
    "CREATE INDEX trial_run ON trial(run);"
    "CREATE INDEX trial_running ON trial(id) WHERE outcome = 'running';"
    "CREATE INDEX trial_crash ON trial(problem, build) WHERE outcome = 'crash';"

    "CREATE TABLE quarantine ("
    "  device INTEGER NOT NULL REFERENCES device(id), problem INTEGER NOT NULL REFERENCES problem(id),"
    "  build INTEGER NOT NULL REFERENCES build(id), reason TEXT NOT NULL, since TEXT NOT NULL,"
    "  PRIMARY KEY (device, problem, build)) STRICT, WITHOUT ROWID;"

    "CREATE TABLE baseline ("
    "  id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run(id)," DEVICE_REFERENCE
    "  problem INTEGER NOT NULL REFERENCES problem(id), kind TEXT NOT NULL, policy TEXT NOT NULL, detail TEXT NOT NULL,"
    "  us REAL NOT NULL CHECK (us > 0), us_lo REAL, us_hi REAL CHECK (us_lo <= us_hi),"
    "  sample_count INTEGER NOT NULL, samples BLOB, sm_mhz INTEGER NOT NULL, finished TEXT NOT NULL,"
    "  FOREIGN KEY (device, real) REFERENCES device(id, real), CHECK (real = 1),"
    "  CHECK (coalesce(length(samples), 0) = 8 * sample_count)) STRICT;"
    "CREATE INDEX baseline_identity ON baseline(problem, kind, policy);"

    "CREATE TABLE ceiling ("
    "  id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run(id)," DEVICE_REFERENCE
    "  kind TEXT NOT NULL, argument REAL NOT NULL, value REAL NOT NULL CHECK (value > 0), unit TEXT NOT NULL,"
    "  sample_count INTEGER NOT NULL, samples BLOB, sm_mhz INTEGER NOT NULL, finished TEXT NOT NULL,"
    "  FOREIGN KEY (device, real) REFERENCES device(id, real), CHECK (real = 1),"
    "  CHECK (coalesce(length(samples), 0) = 8 * sample_count)) STRICT;"

    "CREATE TABLE winner ("
    "  id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run(id)," DEVICE_REFERENCE
    "  problem INTEGER NOT NULL REFERENCES problem(id), build INTEGER NOT NULL REFERENCES build(id),"
    "  shapes TEXT NOT NULL, layer TEXT NOT NULL, layer_count INTEGER NOT NULL,"
    "  planned INTEGER NOT NULL CHECK (planned IN (0, 1)), layout TEXT NOT NULL,"
    "  us REAL CHECK (us > 0), us_lo REAL, us_hi REAL CHECK (us_lo <= us_hi), p_best REAL,"
    "  baseline TEXT NOT NULL, baseline_us REAL CHECK (baseline_us > 0), dequant_us REAL CHECK (dequant_us > 0),"
    "  speedup REAL, speedup_lo REAL, speedup_hi REAL, limit_us REAL, pct_of_limit REAL, predicted_us REAL,"
    "  entry TEXT NOT NULL, grid_x TEXT NOT NULL, grid_y TEXT NOT NULL, grid_z TEXT NOT NULL, block TEXT NOT NULL,"
    "  smem TEXT NOT NULL, workspace TEXT NOT NULL, cluster TEXT NOT NULL,"
    "  min_m INTEGER NOT NULL, max_m INTEGER NOT NULL,"
    "  FOREIGN KEY (device, real) REFERENCES device(id, real), UNIQUE (device, shapes, layer, problem, planned),"
    "  CHECK ((planned = 0) = (us IS NOT NULL)),"
    "  CHECK ((planned = 0 AND real = 1) OR (us IS NULL AND us_lo IS NULL AND us_hi IS NULL AND p_best IS NULL"
    "         AND baseline_us IS NULL AND dequant_us IS NULL AND speedup IS NULL AND speedup_lo IS NULL"
    "         AND speedup_hi IS NULL AND pct_of_limit IS NULL))) STRICT;"

    "CREATE TABLE release ("
    "  id INTEGER PRIMARY KEY, name TEXT NOT NULL, gpu TEXT NOT NULL, tern_version TEXT NOT NULL, created TEXT NOT NULL,"
    "  header_hash TEXT NOT NULL, UNIQUE (name, gpu)) STRICT;";

/* Times of device work: none without a device, none for a row that only plans. */
static const char SCHEMA_2[] = "ALTER TABLE trial ADD COLUMN gpu_seconds REAL CHECK (gpu_seconds IS NULL"
                               " OR (gpu_seconds > 0 AND real = 1 AND outcome NOT IN ('running', 'planned')));"
                               "CREATE TABLE control ("
                               "  run INTEGER NOT NULL REFERENCES run(id)," DEVICE_REFERENCE
                               "  read_us REAL NOT NULL CHECK (read_us > 0), burst_us REAL NOT NULL CHECK (burst_us >= 0),"
                               "  kept INTEGER NOT NULL CHECK (kept IN (0, 1)), finished TEXT NOT NULL,"
                               "  FOREIGN KEY (device, real) REFERENCES device(id, real), CHECK (real = 1),"
                               "  PRIMARY KEY (run, device)) STRICT, WITHOUT ROWID;"
                               "ALTER TABLE winner ADD COLUMN regret REAL CHECK (regret IS NULL"
                               " OR (regret >= 0 AND planned = 0));"
                               "CREATE INDEX trial_build ON trial(build, policy, stage);";

/* Times under load beside those on a cool device. */
static const char SCHEMA_3[] = "ALTER TABLE winner ADD COLUMN sustained_us REAL CHECK (sustained_us IS NULL"
                               " OR (sustained_us > 0 AND planned = 0));"
                               "ALTER TABLE winner ADD COLUMN sustained_speedup REAL CHECK (sustained_speedup IS NULL"
                               " OR (sustained_speedup > 0 AND sustained_us IS NOT NULL));";

/* Builds of another type of activations. Their machine code differs, so that build_peer needs no look at it. */
static const char SCHEMA_4[] = "ALTER TABLE build ADD COLUMN op TEXT NOT NULL DEFAULT 'linear-a16';";

/* Kernels launched ahead of winners. One template had such before they were kept here, and had it always. */
static const char SCHEMA_5[] = "ALTER TABLE winner ADD COLUMN prologue TEXT NOT NULL DEFAULT '';"
                               "ALTER TABLE winner ADD COLUMN prologue_grid TEXT NOT NULL DEFAULT '';"
                               "ALTER TABLE winner ADD COLUMN prologue_block TEXT NOT NULL DEFAULT '';"
                               "UPDATE winner SET prologue = 'tern_wgmma_a8_quantise',"
                               " prologue_grid = 'M+ROUND_SCALES*ceil_div(N,128)', prologue_block = '256'"
                               " WHERE entry = 'tern_wgmma_a8';";

/* MIGRATIONS[v] takes a database of version v to v + 1. */
static const char *const MIGRATIONS[TERN_STORE_SCHEMA_VERSION] = {SCHEMA_1, SCHEMA_2, SCHEMA_3, SCHEMA_4, SCHEMA_5};

static enum tern_status read_number(struct tern_store *s, const char *sql, int64_t *value, struct tern_error *err) {
    sqlite3_stmt *statement;
    enum tern_status status = tern_store_prepare(s, &statement, err, sql, "");
    return status ? status : tern_store_finish(s, statement, value, err);
}

/* One step, in one transaction with the version number. Another writer cannot be in between: the caller holds the lock. */
static enum tern_status migrate(struct tern_store *s, int64_t from, struct tern_error *err) {
    char versions[96]; /* pragmas take no bound parameters */
    tern_str_format(versions, sizeof versions, "PRAGMA application_id = %d; PRAGMA user_version = %d;",
                    TERN_STORE_APPLICATION_ID, (int)from + 1);
    enum tern_status status = tern_store_begin(s, err);
    if (status)
        return status;
    status = tern_store_exec(s, MIGRATIONS[from], err);
    if (!status)
        status = tern_store_exec(s, versions, err);
    return tern_store_end(s, status, err);
}

enum tern_status tern_store_check_schema(struct tern_store *s, struct tern_error *err) {
    int64_t application = 0, version = 0, objects = 0;
    enum tern_status status = read_number(s, "PRAGMA application_id", &application, err);
    if (!status)
        status = read_number(s, "PRAGMA user_version", &version, err);
    if (!status)
        status = read_number(s, "SELECT count(*) FROM sqlite_schema", &objects, err);
    if (status)
        return status;
    bool fresh = application == 0 && version == 0 && objects == 0;
    if (application != TERN_STORE_APPLICATION_ID && !(fresh && s->mode == TERN_STORE_WRITE)) {
        tern_error_set(err, TERN_INTERNAL, "%s: a SQLite database, but not one of Tern's", s->path);
        tern_error_hint(err, "name another file with --db");
        return TERN_INTERNAL;
    }
    if (version > TERN_STORE_SCHEMA_VERSION || version < 0) {
        tern_error_set(err, TERN_INTERNAL, "%s: schema version %lld is newer than this program's, %d", s->path,
                       (long long)version, TERN_STORE_SCHEMA_VERSION);
        tern_error_hint(err, "use the newer tune that wrote it, or name another file with --db");
        return TERN_INTERNAL;
    }
    if (version < TERN_STORE_SCHEMA_VERSION && s->mode == TERN_STORE_READ) {
        tern_error_set(err, TERN_INTERNAL, "%s: schema version %lld is older than this program's, %d", s->path,
                       (long long)version, TERN_STORE_SCHEMA_VERSION);
        tern_error_hint(err, "any command that writes to it migrates it");
        return TERN_INTERNAL;
    }
    for (; version < TERN_STORE_SCHEMA_VERSION && !status; version++)
        status = migrate(s, version, err);
    return status;
}
