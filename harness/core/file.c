/* Files and folders: whole reads, atomic writes, listings, and where the program's data lies. */
#include "core/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool tern_file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

bool tern_file_is_dir(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static enum tern_status file_fail(struct tern_error *err, const char *what, const char *path) {
    int code = errno;
    enum tern_status status = code == ENOENT ? TERN_USAGE : TERN_INTERNAL;
    tern_error_set(err, status, "cannot %s %s: %s", what, path, strerror(code));
    if (code == ENOSPC || code == EDQUOT)
        tern_error_hint(err, "free some space on that file system and run the same command again");
    else if (code == EACCES || code == EROFS || code == EPERM)
        tern_error_hint(err, "choose a place that you may write to, or change its permissions");
    return status;
}

/* ---- reading ---- */

static enum tern_status file_read_all(int fd, const char *path, struct tern_str *text, struct tern_error *err) {
    char block[65536];
    for (;;) {
        ssize_t got = read(fd, block, sizeof(block));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return file_fail(err, "read", path);
        tern_str_append_bytes(text, block, (size_t)got); /* also with 0 bytes: an empty file gives a NUL-terminated buffer */
        if (got == 0)
            return TERN_OK;
    }
}

enum tern_status tern_file_read(const char *path, char **data, size_t *length, struct tern_error *err) {
    *data = NULL;
    *length = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return file_fail(err, "read", path);
    struct tern_str text = {0};
    enum tern_status status = file_read_all(fd, path, &text, err);
    close(fd);
    if (status != TERN_OK) {
        tern_str_free(&text);
        return status;
    }
    *data = text.data;
    *length = text.length;
    return TERN_OK;
}

/* ---- writing ---- */

static bool file_write_all(int fd, const char *data, size_t length) {
    while (length > 0) {
        ssize_t put = write(fd, data, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        data += put;
        length -= (size_t)put;
    }
    return true;
}

/* The folder that holds `path`, for the sync that makes a rename durable. */
static void file_parent(const char *path, char *out, size_t size) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        tern_str_copy(out, size, ".");
    else if (slash == path)
        tern_str_copy(out, size, "/");
    else
        tern_str_format(out, size, "%.*s", (int)(slash - path), path);
}

static void file_sync_dir(const char *path) {
    char parent[PATH_MAX];
    file_parent(path, parent, sizeof(parent));
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd); /* best effort: some file systems refuse to sync folders */
    close(fd);
}

enum tern_status tern_file_write(const char *path, const void *data, size_t length, struct tern_error *err) {
    char temp[PATH_MAX];
    int written = snprintf(temp, sizeof(temp), "%s.XXXXXX", path);
    if (written < 0 || (size_t)written >= sizeof(temp))
        return tern_error_set(err, TERN_USAGE, "path is too long: %.200s...", path);
    int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0)
        return file_fail(err, "write", path);
    mode_t mask = umask(0); /* mkstemp makes 0600; a result file is as readable as any other new file */
    umask(mask);
    enum tern_status status = TERN_OK;
    if (!file_write_all(fd, data, length) || fchmod(fd, 0666 & ~mask) != 0 || fsync(fd) != 0)
        status = file_fail(err, "write", path);
    if (close(fd) != 0 && status == TERN_OK)
        status = file_fail(err, "write", path);
    if (status == TERN_OK && rename(temp, path) != 0)
        status = file_fail(err, "replace", path);
    if (status != TERN_OK)
        unlink(temp);
    else
        file_sync_dir(path);
    return status;
}

enum tern_status tern_file_make_dirs(const char *path, struct tern_error *err) {
    char partial[PATH_MAX];
    if (strlen(path) >= sizeof(partial))
        return tern_error_set(err, TERN_USAGE, "path is too long: %.200s...", path);
    tern_str_copy(partial, sizeof(partial), path);
    for (char *c = partial + 1; partial[0] != '\0'; c++) {
        if (*c != '/' && *c != '\0')
            continue;
        char end = *c;
        *c = '\0';
        if (mkdir(partial, 0777) != 0 && !tern_file_is_dir(partial)) {
            if (errno == EEXIST)
                errno = ENOTDIR;
            file_fail(err, "make folder", partial);
            if (err != NULL)
                err->status = TERN_INTERNAL;
            return TERN_INTERNAL;
        }
        *c = end;
        if (end == '\0')
            break;
    }
    return TERN_OK;
}

enum tern_status tern_file_make_scratch(const char *name, char *out, size_t size, struct tern_error *err) {
    const char *parent = getenv("TMPDIR");
    int length = snprintf(out, size, "%s/%s.XXXXXX", parent && parent[0] ? parent : "/tmp", name);
    if (length < 0 || (size_t)length >= size)
        return tern_error_set(err, TERN_USAGE, "path is too long: %.200s...", out);
    return mkdtemp(out) ? TERN_OK : file_fail(err, "make a folder", out);
}

enum tern_status tern_file_check_writable_dir(const char *dir, struct tern_error *err) {
    enum tern_status status = tern_file_make_dirs(dir, err);
    if (status != TERN_OK)
        return status;
    char probe[PATH_MAX];
    int written = snprintf(probe, sizeof(probe), "%s/.tern-probe.XXXXXX", dir);
    if (written < 0 || (size_t)written >= sizeof(probe))
        return tern_error_set(err, TERN_USAGE, "path is too long: %.200s...", dir);
    int fd = mkostemp(probe, O_CLOEXEC);
    if (fd < 0) {
        file_fail(err, "write into folder", dir);
        if (err != NULL)
            err->status = TERN_INTERNAL;
        return TERN_INTERNAL;
    }
    close(fd);
    unlink(probe);
    return TERN_OK;
}

/* ---- listing ---- */

static bool file_ends_with(const char *name, const char *suffix) {
    size_t n = strlen(name), m = strlen(suffix);
    return n >= m && strcmp(name + n - m, suffix) == 0;
}

enum tern_status tern_file_list(const char *dir, const char *suffix, struct tern_strs *names, struct tern_error *err) {
    DIR *handle = opendir(dir);
    if (handle == NULL)
        return file_fail(err, "list", dir);
    for (struct dirent *entry; (entry = readdir(handle)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && file_ends_with(entry->d_name, suffix))
            tern_strs_add(names, entry->d_name);
    closedir(handle);
    tern_strs_sort(names);
    return TERN_OK;
}

/* ---- finding ---- */

bool tern_file_find_program(const char *name, char *out, size_t size) {
    const char *path = getenv("PATH");
    struct tern_strs dirs = {0};
    tern_strs_split(&dirs, path ? path : "/usr/local/bin:/usr/bin:/bin", ':');
    bool found = false;
    for (size_t i = 0; i < dirs.count && !found; i++) {
        char candidate[PATH_MAX];
        tern_str_format(candidate, sizeof(candidate), "%s/%s", dirs.items[i], name);
        struct stat info;
        if (access(candidate, X_OK) != 0 || stat(candidate, &info) != 0 || !S_ISREG(info.st_mode))
            continue;
        tern_str_copy(out, size, candidate);
        found = true;
    }
    tern_strs_free(&dirs);
    return found;
}

static bool file_is_home(const char *dir) {
    char probe[PATH_MAX];
    tern_str_format(probe, sizeof(probe), "%s/templates/include/tern/abi.h", dir);
    return tern_file_exists(probe);
}

enum tern_status tern_file_home(char *out, size_t size, struct tern_error *err) {
    const char *chosen = getenv("TERN_HOME");
    if (chosen != NULL && chosen[0] != '\0') {
        if (!file_is_home(chosen)) {
            tern_error_set(err, TERN_USAGE, "TERN_HOME is %s, which holds no templates/include/tern/abi.h", chosen);
            tern_error_hint(err, "unset TERN_HOME, or set it to the folder that holds templates/ and configs/");
            return TERN_USAGE;
        }
        tern_str_copy(out, size, chosen);
        return TERN_OK;
    }
    char dir[PATH_MAX], share[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
    dir[length > 0 ? length : 0] = '\0';
    for (char *slash; (slash = strrchr(dir, '/')) != NULL;) {
        *slash = '\0';
        if (file_is_home(dir)) {
            tern_str_copy(out, size, dir);
            return TERN_OK;
        }
        tern_str_format(share, sizeof(share), "%s/share/tern", dir); /* bin/tune beside share/tern */
        if (file_is_home(share)) {
            tern_str_copy(out, size, share);
            return TERN_OK;
        }
    }
    tern_error_set(err, TERN_MISSING, "cannot find Tern's data (templates/, configs/) beside the program");
    tern_error_hint(err, "set TERN_HOME to the folder that holds templates/ and configs/");
    return TERN_MISSING;
}

enum tern_status tern_file_home_path(const char *relative, char *out, size_t size, struct tern_error *err) {
    char home[PATH_MAX];
    enum tern_status status = tern_file_home(home, sizeof(home), err);
    if (status != TERN_OK)
        return status;
    int written = snprintf(out, size, "%s/%s", home, relative);
    if (written < 0 || (size_t)written >= size)
        return tern_error_set(err, TERN_INTERNAL, "path is too long: %.200s/%.200s", home, relative);
    return TERN_OK;
}
