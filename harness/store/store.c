/* Opening and closing the database: the writer's lock, checks before anything is changed, connection settings. */
#include "store/store_sql.h"

#include "core/file.h"
#include "core/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUSY_TIMEOUT_MS 10000

/* ---- the writer's lock: PATH.lock, held by flock for the life of the store; the file stays, its content is the pid ---- */

/* The lock is taken already; a reader of the pid may see the one before for a moment. */
static void write_holder(int fd) {
    char pid[24];
    tern_str_format(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) || pwrite(fd, pid, strlen(pid), 0) < 0)
        return; /* the pid is a courtesy to the next in line; the lock itself is flock's */
}

static enum tern_status lock_is_held(int fd, const char *path, struct tern_error *err) {
    char pid[24] = "";
    ssize_t length = pread(fd, pid, sizeof pid - 1, 0);
    pid[length > 0 ? length : 0] = '\0';
    pid[strcspn(pid, "\n")] = '\0';
    tern_error_set(err, TERN_INTERNAL, "%s: another run is writing to this database", path);
    if (pid[0])
        tern_error_hint(err, "wait for process %s to end, or name another file with --db", pid);
    else
        tern_error_hint(err, "wait for it to end, or name another file with --db");
    return TERN_INTERNAL;
}

/* Never waits: a run may take hours, and the user should know at once. O_CLOEXEC keeps workers from inheriting the lock. */
static enum tern_status take_lock(struct tern_store *s, struct tern_error *err) {
    struct tern_str name = {0};
    tern_str_printf(&name, "%s.lock", s->path);
    int fd = open(name.data, O_RDWR | O_CREAT | O_CLOEXEC, 0666), reason = errno;
    tern_str_free(&name);
    if (fd < 0) {
        tern_error_set(err, TERN_INTERNAL, "%s: cannot create its lock file: %s", s->path, strerror(reason));
        tern_error_hint(err, "make the folder writable, or name another file with --db");
        return TERN_INTERNAL;
    }
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        enum tern_status status = lock_is_held(fd, s->path, err);
        close(fd);
        return status;
    }
    write_holder(fd);
    s->lock_fd = fd;
    return TERN_OK;
}

/* ---- opening ---- */

/* results/ does not exist in a fresh clone. */
static enum tern_status make_folder_of(const char *path, struct tern_error *err) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return TERN_OK;
    char *folder = tern_strdup(path);
    folder[slash - path] = '\0';
    enum tern_status status = tern_file_make_dirs(folder, err);
    free(folder);
    return status;
}

/* True if nothing of the database lies in a write-ahead log, so that the main file alone is the whole truth. */
static bool has_no_wal(const char *path) {
    struct tern_str name = {0};
    struct stat st;
    tern_str_printf(&name, "%s-wal", path);
    bool none = stat(name.data, &st) != 0 ? errno == ENOENT : st.st_size == 0;
    tern_str_free(&name);
    return none;
}

/* A WAL database in a folder we may not write to: SQLite cannot make its index file, and must be told that nobody writes. */
static int open_immutable(struct tern_store *s) {
    struct tern_str uri = {0};
    tern_str_append(&uri, "file:");
    for (const char *c = s->path; *c; c++)
        tern_str_printf(&uri, strchr("%?#", *c) ? "%%%02x" : "%c", (unsigned char)*c);
    tern_str_append(&uri, "?immutable=1");
    sqlite3_close(s->db);
    s->db = NULL;
    int code = sqlite3_open_v2(uri.data, &s->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    tern_str_free(&uri);
    return code;
}

/* Opens and reads the header once, so that "not SQLite" and "cannot open" show here. */
static enum tern_status connect_database(struct tern_store *s, struct tern_error *err) {
    static const char probe[] = "SELECT count(*) FROM sqlite_schema";
    int flags = s->mode == TERN_STORE_WRITE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    int code = sqlite3_open_v2(s->path, &s->db, flags, NULL);
    if (code == SQLITE_OK) {
        sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MS);
        code = sqlite3_exec(s->db, probe, NULL, NULL, NULL);
    }
    if ((code == SQLITE_CANTOPEN || code == SQLITE_READONLY) && s->mode == TERN_STORE_READ && has_no_wal(s->path)) {
        code = open_immutable(s);
        if (code == SQLITE_OK)
            code = sqlite3_exec(s->db, probe, NULL, NULL, NULL);
    }
    if (code != SQLITE_OK)
        return tern_store_fail(s, "cannot open the database", err);
    if (s->mode == TERN_STORE_WRITE && sqlite3_db_readonly(s->db, "main") == 1) {
        tern_error_set(err, TERN_INTERNAL, "%s: the database is read-only", s->path);
        tern_error_hint(err, "make the file and its folder writable, or name another one with --db");
        return TERN_INTERNAL;
    }
    return TERN_OK;
}

enum tern_status tern_store_open(const char *path, enum tern_store_mode mode, struct tern_store **store,
                                 struct tern_error *err) {
    enum tern_status status = TERN_OK;
    *store = NULL;
    if (mode == TERN_STORE_READ && !tern_file_exists(path)) {
        tern_error_set(err, TERN_USAGE, "%s: no such database", path);
        tern_error_hint(err, "`tune run` makes one; name another file with --db");
        return TERN_USAGE;
    }
    if (tern_file_is_dir(path)) {
        tern_error_set(err, TERN_INTERNAL, "%s: cannot open the database: it is a folder", path);
        tern_error_hint(err, "name a file with --db");
        return TERN_INTERNAL;
    }
    struct tern_store *s = tern_alloc_zero(1, sizeof *s);
    s->path = tern_strdup(path);
    s->mode = mode;
    s->lock_fd = -1;
    if (mode == TERN_STORE_WRITE) {
        status = make_folder_of(path, err);
        if (!status)
            status = take_lock(s, err);
    }
    if (!status)
        status = connect_database(s, err);
    if (!status)
        status = tern_store_exec(s, "PRAGMA foreign_keys = ON", err);
    if (!status)
        status = tern_store_check_schema(s, err);
    if (!status && mode == TERN_STORE_WRITE)
        status = tern_store_exec(s, "PRAGMA journal_mode = WAL", err);
    if (!status && mode == TERN_STORE_WRITE)
        status = tern_store_outlive(s, TERN_OUTLIVE_PROCESS, err);
    if (status)
        tern_store_close(s);
    else
        *store = s;
    return status;
}

void tern_store_of_replay(struct tern_store *s) {
    s->of_replay = true;
}

void tern_store_close(struct tern_store *store) {
    if (!store)
        return;
    sqlite3_close(store->db);
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    free(store->path);
    free(store);
}
