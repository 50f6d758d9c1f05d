/* compute-sanitizer: search, arguments, and reading of its report. See sanitizer.h. */
#include "device/sanitizer.h"

#include "device/library.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM       "compute-sanitizer"
#define MARK          "========= " /* in front of each line that is the tool's */
#define EXCERPT_LINES 5

const char *const tern_sanitizer_tools[] = {"memcheck", "racecheck", "synccheck", NULL};

static bool usable(const char *path) {
    return access(path, X_OK) == 0;
}

static bool on_path(char *path, size_t size) {
    struct tern_strs folders = {0};
    bool found = false;
    const char *list = getenv("PATH");
    tern_strs_split(&folders, list ? list : "", ':');
    for (size_t i = 0; i < folders.count && !found; i++) {
        tern_str_format(path, size, "%s/%s", folders.items[i], PROGRAM);
        found = usable(path);
    }
    tern_strs_free(&folders);
    return found;
}

enum tern_status tern_sanitizer_find(char *path, size_t size, struct tern_error *err) {
    static const char *const folders[] = {"bin", "compute-sanitizer"};
    char root[PATH_MAX];
    if (on_path(path, size))
        return TERN_OK;
    for (int index = 0; tern_cuda_root(index, root, sizeof root); index++)
        for (size_t f = 0; *root && f < sizeof folders / sizeof *folders; f++) {
            tern_str_format(path, size, "%s/%s/%s", root, folders[f], PROGRAM);
            if (usable(path))
                return TERN_OK;
        }
    tern_error_set(err, TERN_MISSING, "--sanitize: %s is not on PATH and in no CUDA toolkit", PROGRAM);
    tern_error_hint(err, "it comes with the CUDA toolkit (package cuda-sanitizer); set CUDA_HOME to one that has it");
    return TERN_MISSING;
}

void tern_sanitizer_prefix(const char *path, const char *tool, const char *prefix[TERN_SANITIZER_ARGUMENTS]) {
    const char *const arguments[TERN_SANITIZER_ARGUMENTS] = {
        path, "--tool",
        tool, "--show-backtrace",    /* the host's frames are all ours */
        "no", "--report-api-errors", /* every call is checked; a refused launch is an outcome */
        "no", "--error-exitcode",    /* 1 is an exit code of the worker itself */
        "86", NULL,
    };
    memcpy(prefix, arguments, sizeof arguments);
}

/* Findings that a line such as "ERROR SUMMARY: 2 errors" or "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"
 * counts; -1 if it is none. */
static long findings(const char *line) {
    static const char summary[] = "SUMMARY: ";
    size_t length = strcspn(line, "\n");
    const char *at = strstr(line, summary);
    if (!at || at >= line + length)
        return -1;
    char *end;
    at += sizeof summary - 1;
    long count = strtol(at, &end, 10);
    return end == at ? -1 : count;
}

enum tern_sanitizer_verdict tern_sanitizer_judge(const char *output, int exit_code, struct tern_str *excerpt) {
    long found = -1;
    size_t lines = 0;
    for (const char *line = strstr(output, MARK); line; line = strstr(line + 1, MARK)) {
        const char *text = line + sizeof MARK - 1;
        size_t length = strcspn(text, "\n");
        long count = findings(text);
        if (count >= 0)
            found = count > found ? count : found;
        else if (lines < EXCERPT_LINES && length > strspn(text, " ") && strncmp(text, "COMPUTE-SANITIZER", 17) != 0)
            tern_str_printf(excerpt, "%s%.*s", lines++ > 0 ? "\n  " : "", (int)length, text);
    }
    bool supported = !strstr(output, "Device not supported");
    if (found > 0 && supported)
        return TERN_SANITIZER_ERRORS;
    if (found == 0 && exit_code == 0)
        return TERN_SANITIZER_CLEAN;
    if (lines == 0)
        tern_str_printf(excerpt, "no report, exit code %d: %.300s", exit_code, output);
    return TERN_SANITIZER_UNUSABLE;
}
