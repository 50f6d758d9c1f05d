/* Unit tests of a store that cannot be opened or written: foreign, newer, read-only, missing, locked, full, killed. */
#include "store_fixture.h"

#include "core/random.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* Opening fails with `status` and a message or hint that contains `part`. */
static void check_open(const char *path, enum tern_store_mode mode, enum tern_status status, const char *part) {
    struct tern_store *s = (struct tern_store *)&status;
    struct tern_error err = {0};
    assert_int_equal(tern_store_open(path, mode, &s, &err), status);
    assert_null(s);
    if (!strstr(err.text, part) && !strstr(err.hint, part))
        fail_msg("\"%s\" (%s) lacks \"%s\"", err.text, err.hint, part);
    assert_true(err.hint[0] != '\0');
}

static void run_sql(const char *path, const char *sql) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void make_database(const struct fixture *f) {
    struct tern_store *s;
    CHECK_OK(tern_store_open(f->db, TERN_STORE_WRITE, &s, failure));
    sample_rows(s, true);
    tern_store_close(s);
}

static void test_files_that_are_not_ours(void **state) {
    (void)state;
    static const char text[] =
        "This is not a database, but a letter of some length, longer than the header that SQLite reads "
        "before it decides whether a file is one of its own or not.";
    struct fixture f;
    char *before, *after;
    size_t length, same;
    fixture_open(&f);
    check_open(f.db, TERN_STORE_READ, TERN_USAGE, "no such database");
    CHECK_OK(tern_file_write(f.db, text, sizeof text, failure));
    check_open(f.db, TERN_STORE_READ, TERN_INTERNAL, "not a database");
    check_open(f.db, TERN_STORE_WRITE, TERN_INTERNAL, "not a database");
    unlink(f.db);
    run_sql(f.db, "CREATE TABLE recipes (name TEXT)"); /* somebody else's: not a byte may change */
    CHECK_OK(tern_file_read(f.db, &before, &length, failure));
    check_open(f.db, TERN_STORE_READ, TERN_INTERNAL, "not one of Tern's");
    check_open(f.db, TERN_STORE_WRITE, TERN_INTERNAL, "not one of Tern's");
    CHECK_OK(tern_file_read(f.db, &after, &same, failure));
    assert_int_equal(length, same);
    assert_memory_equal(before, after, length);
    free(before);
    free(after);
    run_sql(f.db, "PRAGMA application_id = 12345");
    check_open(f.db, TERN_STORE_WRITE, TERN_INTERNAL, "not one of Tern's");
    unlink(f.db);
    check_open(f.dir, TERN_STORE_READ, TERN_INTERNAL, "cannot open"); /* a folder */
    fixture_close(&f);
}

static void test_schema_versions(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    make_database(&f);
    run_sql(f.db, "PRAGMA user_version = 99");
    check_open(f.db, TERN_STORE_READ, TERN_INTERNAL, "version 99 is newer");
    check_open(f.db, TERN_STORE_WRITE, TERN_INTERNAL, "version 99 is newer");
    run_sql(f.db, "PRAGMA user_version = 0");
    check_open(f.db, TERN_STORE_READ, TERN_INTERNAL, "older");
    fixture_close(&f);
}

/* A file of version 1 lacks what was added since; opening it for writing adds that and keeps the rest. Its trials do not know how
 * long the device worked. */
static void test_migration(void **state) {
    (void)state;
    struct fixture f;
    struct tern_store *s;
    bool found = false;
    fixture_open(&f);
    CHECK_OK(tern_store_open(f.db, TERN_STORE_WRITE, &s, failure));
    struct rows r = sample_rows(s, true);
    struct tern_store_trial t = sample_trial(&r), back;
    CHECK_OK(tern_store_trial_begin(s, &t, failure));
    t.outcome = TERN_OUTCOME_OK;
    t.us = t.us_lo = t.us_hi = 5;
    t.gpu_seconds = 0.25;
    CHECK_OK(tern_store_trial_finish(s, &t, NULL, 0, failure));
    tern_store_close(s);
    run_sql(f.db,
            "ALTER TABLE trial DROP COLUMN gpu_seconds; ALTER TABLE winner DROP COLUMN sustained_speedup; "
            "ALTER TABLE winner DROP COLUMN sustained_us; ALTER TABLE winner DROP COLUMN regret; DROP TABLE control; "
            "DROP INDEX trial_build; ALTER TABLE build DROP COLUMN op; ALTER TABLE winner DROP COLUMN prologue; "
            "ALTER TABLE winner DROP COLUMN prologue_grid; ALTER TABLE winner DROP COLUMN prologue_block; PRAGMA "
            "user_version = 1;"
            "INSERT INTO winner (run, device, real, problem, build, shapes, layer, layer_count, planned, layout, baseline,"
            " entry, grid_x, grid_y, grid_z, block, smem, workspace, cluster, min_m, max_m) SELECT run.id, run.device, 1,"
            " problem.id, build.id, 'qwen7b', 'wide', 1, 1, 'frag16x128', '', 'tern_wgmma_a8', '1', '1', '1', '384', '',"
            " '', '', 65, 128 FROM run, problem, build");
    check_open(f.db, TERN_STORE_READ, TERN_INTERNAL, "version 1 is older");
    CHECK_OK(tern_store_open(f.db, TERN_STORE_WRITE, &s, failure));
    CHECK_OK(tern_store_trial_find(s, r.device, r.problem, r.build, t.policy, t.stage, &back, &found, failure));
    assert_true(found && back.us == 5 && isnan(back.gpu_seconds));
    struct tern_store_build build = sample_build(1);
    CHECK_OK(tern_store_build_find(s, build.key, &build, &found, failure));
    assert_true(found && !strcmp(build.op, "linear-a16")); /* what builds were for before there was another op */
    struct tern_results winners = {0};
    CHECK_OK(tern_store_winners(s, NULL, NULL, &winners, failure));
    assert_int_equal(winners.count, 1);
    assert_string_equal(winners.rows[0].prologue, "tern_wgmma_a8_quantise"); /* it always had one */
    assert_string_equal(winners.rows[0].prologue_grid, "M+ROUND_SCALES*ceil_div(N,128)");
    assert_string_equal(winners.rows[0].prologue_block, "256");
    tern_results_free(&winners);
    CHECK_OK(tern_store_trial_begin(s, &t, failure));
    CHECK_OK(tern_store_trial_finish(s, &t, NULL, 0, failure));
    CHECK_OK(tern_store_trial_find(s, r.device, r.problem, r.build, t.policy, t.stage, &back, &found, failure));
    assert_true(found && back.gpu_seconds == 0.25);
    CHECK_OK(tern_store_control_put(s, r.run, r.device, 9.5, 400, true, failure));
    tern_store_close(s);
    CHECK_OK(tern_store_open(f.db, TERN_STORE_READ, &s, failure));
    tern_store_close(s);
    fixture_close(&f);
}

static void test_damage(void **state) {
    (void)state;
    struct fixture f;
    char *data;
    size_t length;
    fixture_open(&f);
    make_database(&f);
    CHECK_OK(tern_file_read(f.db, &data, &length, failure));
    memset(data + 100, 0x5a, 2000); /* the header survives, the schema does not */
    CHECK_OK(tern_file_write(f.db, data, length, failure));
    free(data);
    check_open(f.db, TERN_STORE_WRITE, TERN_INTERNAL, "malformed");
    fixture_close(&f);
}

static void test_second_writer(void **state) {
    (void)state;
    struct fixture f;
    struct tern_store *first, *reader, *second;
    char pid[32];
    fixture_open(&f);
    CHECK_OK(tern_store_open(f.db, TERN_STORE_WRITE, &first, failure));
    tern_str_format(pid, sizeof pid, "process %ld", (long)getpid());
    check_open(f.db, TERN_STORE_WRITE, TERN_INTERNAL, pid);
    check_open(f.db, TERN_STORE_WRITE, TERN_INTERNAL, "another run");
    CHECK_OK(tern_store_open(f.db, TERN_STORE_READ, &reader, failure)); /* readers at any time */
    struct rows r = sample_rows(first, true);
    struct tern_store_build b;
    bool found = false;
    CHECK_OK(tern_store_build_find(reader, sample_build(1).key, &b, &found, failure));
    assert_true(found && b.id == r.build);
    struct tern_store_problem p = sample_problem(5);
    int64_t id;
    assert_int_equal(tern_store_problem(reader, &p, &id, NULL), TERN_INTERNAL); /* and they only read */
    tern_store_close(reader);
    tern_store_close(first);
    CHECK_OK(tern_store_open(f.db, TERN_STORE_WRITE, &second, failure));
    tern_store_close(second);
    fixture_close(&f);
}

#define CHILD(condition)                                                                                                    \
    do {                                                                                                                    \
        if (!(condition)) {                                                                                                 \
            fprintf(stderr, "child: line %d: %s\n", __LINE__, #condition);                                                  \
            _exit(1);                                                                                                       \
        }                                                                                                                   \
    } while (0)

static void read_only_body(const struct fixture *f) {
    struct tern_store *s = NULL;
    struct tern_error err = {0};
    struct tern_results all = {0};
    CHILD(tern_store_open(f->db, TERN_STORE_WRITE, &s, &err) == TERN_INTERNAL);
    CHILD(strstr(err.hint, "writable") && !s);
    CHILD(tern_store_open(f->db, TERN_STORE_READ, &s, &err) == TERN_OK); /* reading needs no rights to write */
    CHILD(tern_store_winners(s, NULL, NULL, &all, &err) == TERN_OK);
    tern_store_close(s);
}

/* In a child without root's rights, which would see through file modes. */
static void check_read_only(const struct fixture *f) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        CHILD(geteuid() != 0 || (setgid(65534) == 0 && setuid(65534) == 0));
        read_only_body(f);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_read_only_folder(void **state) {
    (void)state;
    struct fixture f;
    char lock[128];
    fixture_open(&f);
    make_database(&f);
    chmod(f.db, 0444);
    chmod(f.dir, 0555);
    check_read_only(&f); /* the lock file cannot be opened for writing */
    chmod(f.dir, 0755);
    tern_str_format(lock, sizeof lock, "%s.lock", f.db);
    chmod(lock, 0666);
    chmod(f.dir, 0555);
    check_read_only(&f); /* the lock can be had, the database still not */
    chmod(f.dir, 0755);
    fixture_close(&f);
}

/* Writes until a limit on file size or a tiny file system stops it: that must be said, and what was committed must be there.
 */
static void full_disk_body(const struct fixture *f, bool limit_file) {
    struct tern_store *s = NULL;
    struct tern_error err = {0};
    struct rlimit limit = {400000, 400000};
    CHILD(tern_store_open(f->db, TERN_STORE_WRITE, &s, &err) == TERN_OK);
    CHILD(!limit_file || (signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &limit) == 0));
    enum tern_status status = TERN_OK;
    int written = 1;
    while (!status && written < 100000) {
        struct tern_store_build b = sample_build(++written);
        status = tern_store_build_put(s, &b, &err);
    }
    CHILD(status == TERN_INTERNAL);
    CHILD(written > 2);
    CHILD(strstr(err.text, "disk is full") && strstr(err.hint, "free some space"));
    for (int i = 2; i < written; i++) { /* the connection is still good for reading */
        struct tern_store_build back;
        bool found = false;
        CHILD(tern_store_build_find(s, sample_build(i).key, &back, &found, &err) == TERN_OK && found);
    }
    tern_store_close(s);
}

static void check_intact(const struct fixture *f) {
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(f->db, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA foreign_key_check", -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static int exit_code_of(pid_t child) {
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_file_size_limit(void **state) {
    (void)state;
    struct fixture f;
    struct tern_store *s;
    fixture_open(&f);
    make_database(&f);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        full_disk_body(&f, true);
        _exit(0);
    }
    assert_int_equal(exit_code_of(child), 0);
    check_intact(&f);
    CHECK_OK(tern_store_open(f.db, TERN_STORE_WRITE, &s, failure)); /* with space again, it goes on */
    sample_rows(s, true);
    tern_store_close(s);
    fixture_close(&f);
}

/* A file system of 600 KB in a mount namespace of the child; 77 where that is not allowed. */
static void tiny_disk_body(const struct fixture *f) {
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", f->dir, "tmpfs", 0, "size=600k"))
        _exit(77);
    full_disk_body(f, false);
    check_intact(f);
}

static void test_full_disk(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        tiny_disk_body(&f);
        _exit(0);
    }
    int code = exit_code_of(child);
    fixture_close(&f);
    if (code == 77)
        skip(); /* the limit on file size above is then the only full disk */
    assert_int_equal(code, 0);
}

/* Begins and finishes trials for ever; reports each finished one through `fd` after the commit. */
static void writer_body(const struct fixture *f, int fd) {
    struct tern_store *s = NULL;
    static const double samples[64] = {1};
    CHILD(tern_store_open(f->db, TERN_STORE_WRITE, &s, NULL) == TERN_OK);
    int64_t recovered;
    CHILD(tern_store_recover(s, &recovered, NULL) == TERN_OK);
    struct rows r = sample_rows(s, true);
    for (;;) {
        struct tern_store_trial t = sample_trial(&r);
        CHILD(tern_store_trial_begin(s, &t, NULL) == TERN_OK);
        t.outcome = TERN_OUTCOME_OK;
        t.us = 5;
        CHILD(tern_store_trial_finish(s, &t, samples, 64, NULL) == TERN_OK);
        CHILD(write(fd, &t.id, sizeof t.id) == sizeof t.id);
    }
}

/* Starts a writer and kills it `delay_ns` after its start, or after its first finished trial if `wait`, which does not
 * depend on how fast the machine is. Returns how many trials it reported as finished; `last` gets the last id. */
static int kill_writer(const struct fixture *f, bool wait, long delay_ns, int64_t *last) {
    int pipe_fds[2], reported = 0;
    int64_t id;
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        writer_body(f, pipe_fds[1]);
        _exit(0);
    }
    close(pipe_fds[1]);
    struct timespec delay = {0, delay_ns};
    if (wait && read(pipe_fds[0], &id, sizeof id) == sizeof id) {
        *last = id;
        reported++;
    }
    nanosleep(&delay, NULL);
    kill(child, SIGKILL);
    while (read(pipe_fds[0], &id, sizeof id) == sizeof id) {
        *last = id;
        reported++;
    }
    close(pipe_fds[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status)); /* it was alive, not failed */
    return reported;
}

static int64_t query(const struct fixture *f, const char *sql) {
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(f->db, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
}

static void test_kill_at_any_moment(void **state) {
    (void)state;
    struct fixture f;
    struct tern_random r;
    int64_t last = 0, reported = 0;
    fixture_open(&f);
    make_database(&f);
    tern_random_init(&r, 1, "kill");
    for (int round = 0; round < 25; round++) {
        reported += kill_writer(&f, round % 5 != 0, (long)tern_random_below(&r, 20000000), &last);
        check_intact(&f);
        int64_t running = query(&f, "SELECT count(*) FROM trial WHERE outcome = 'running'");
        assert_in_range(running, 0, 1); /* no more than the one in flight */
        assert_true(query(&f, "SELECT count(*) FROM trial WHERE outcome = 'ok'") >= reported);
        assert_true(!last || query(&f, "SELECT coalesce(max(id), 0) FROM trial WHERE outcome = 'ok'") >= last);
    }
    assert_true(reported >= 20);
    struct tern_store *s;
    int64_t recovered;
    CHECK_OK(tern_store_open(f.db, TERN_STORE_WRITE, &s, failure)); /* the dead writer's lock is gone with it */
    CHECK_OK(tern_store_recover(s, &recovered, failure));
    struct rows rows = sample_rows(s, true);
    bool quarantined = false;
    CHECK_OK(tern_store_quarantined(s, rows.device, rows.problem, rows.build, &quarantined, failure));
    tern_store_close(s);
    int64_t interrupted = query(&f, "SELECT count(*) FROM trial WHERE interrupted = 1");
    assert_int_equal(quarantined, interrupted >= 2);
    assert_int_equal(query(&f, "SELECT count(*) FROM trial WHERE outcome NOT IN ('ok', 'crash')"), 0);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_that_are_not_ours),
        cmocka_unit_test(test_schema_versions),
        cmocka_unit_test(test_migration),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_second_writer),
        cmocka_unit_test(test_read_only_folder),
        cmocka_unit_test(test_file_size_limit),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_kill_at_any_moment),
    };
    return cmocka_run_group_tests_name("store errors", tests, NULL, NULL);
}
