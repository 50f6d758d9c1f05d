/* The C++ compiler as a kernel compiler: a candidate's source becomes a shared object for the emulator.
 * The source is kept beside the object, for a debugger. Both appear under their final names only when complete. */
#include "core/clock.h"
#include "core/file.h"
#include "core/hash.h"
#include "device/compiler.h"
#include "device/compiler_emu.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

#define EMU_COMPILE_DEADLINE_NS (180 * (int64_t)1000000000)
#define EMU_MAX_ARGUMENTS       40

extern char **environ;

enum tern_status tern_emu_compiler(char *out, size_t size, struct tern_error *err) {
    const char *named = getenv("CXX");
    if (named != NULL && named[0] != '\0' && strchr(named, ' ') == NULL && tern_file_find_program(named, out, size)) {
        return TERN_OK;
    }
    if (tern_file_find_program("g++", out, size) || tern_file_find_program("clang++", out, size) ||
        tern_file_find_program("c++", out, size)) {
        return TERN_OK;
    }
    tern_error_set(err, TERN_MISSING, "no C++ compiler found: the emulator compiles kernels with g++");
    tern_error_hint(err, "install g++ (Debian: apt install g++) or set CXX");
    return TERN_MISSING;
}

/* -fwrapv and no aliasing rules: device code relies on both. No contraction: a fused multiply-add only where written. */
static const char *const emu_flags[] = {"-std=c++17",
                                        "-O1",
                                        "-g1",
                                        "-shared",
                                        "-fPIC",
                                        "-fvisibility=hidden",
                                        "-w",
                                        "-fno-strict-aliasing",
                                        "-ffp-contract=off",
                                        "-fwrapv",
                                        "-fno-exceptions",
                                        "-fno-rtti",
                                        "-DTERN_EMULATOR=1"};
#define EMU_FLAG_COUNT (sizeof emu_flags / sizeof emu_flags[0])

/* One command line; the strings that had to be put together live here. */
struct emu_arguments {
    char *list[EMU_MAX_ARGUMENTS + 1];
    size_t count;
    char include[4][1100], compiler[1024];
};

static void add(struct emu_arguments *a, const char *argument) {
    a->list[a->count++] = (char *)argument;
}

static enum tern_status build_arguments(struct emu_arguments *a, const char *input, const char *output, int sanitize,
                                        struct tern_error *err) {
    static const char *const folders[] = {"harness/emulator/include", "harness", "templates/include", "kernels"};
    enum tern_status status = tern_emu_compiler(a->compiler, sizeof a->compiler, err);
    if (status != TERN_OK) {
        return status;
    }
    add(a, a->compiler);
    for (size_t i = 0; i < EMU_FLAG_COUNT; i++) {
        add(a, emu_flags[i]);
    }
    if (sanitize) {
        add(a, "-fsanitize=address,undefined");
        add(a, "-fno-sanitize-recover=all");
        add(a, "-fno-omit-frame-pointer");
    }
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[1024];
        status = tern_file_home_path(folders[i], path, sizeof path, err);
        if (status != TERN_OK) {
            return status;
        }
        tern_str_format(a->include[i], sizeof a->include[i], "-I%s", path);
        add(a, a->include[i]);
    }
    const char *const rest[] = {"-include", "shim.h", "-x", "c++", input, "-o", output, "-lm"};
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++) {
        add(a, rest[i]);
    }
    a->list[a->count] = NULL;
    return TERN_OK;
}

/* Reads the compiler's output until it closes; false if the deadline passed. */
static bool drain(int fd, struct tern_str *log) {
    int64_t deadline_ns = tern_clock_now_ns() + EMU_COMPILE_DEADLINE_NS;
    char buffer[4096];
    for (;;) {
        int64_t left_ms = (deadline_ns - tern_clock_now_ns()) / 1000000;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (left_ms <= 0 || poll(&ready, 1, (int)left_ms) == 0) {
            tern_str_append(log, "\nthe C++ compiler did not end in time and was stopped\n");
            return false;
        }
        ssize_t got = read(fd, buffer, sizeof buffer);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return true;
        }
        if (got > 0) {
            tern_str_append_bytes(log, buffer, (size_t)got);
        }
    }
}

/* Runs the compiler; *ok says whether it exited with 0. */
static enum tern_status run_compiler(const char *program, char *const *arguments, struct tern_str *log, int *ok,
                                     struct tern_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return tern_error_set(err, TERN_INTERNAL, "pipe: %s", strerror(errno));
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    pid_t pid;
    int failed = posix_spawn(&pid, program, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed != 0) {
        close(ends[0]);
        return tern_error_set(err, TERN_MISSING, "cannot start %s: %s", program, strerror(failed));
    }
    if (!drain(ends[0], log)) {
        kill(pid, SIGKILL);
    }
    close(ends[0]);
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    *ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return TERN_OK;
}

enum tern_status tern_emu_compile(const char *source, const char *name, const char *path, int sanitize, struct tern_str *log,
                                  int *ok, struct tern_error *err) {
    char input[4200], output[4200];
    tern_str_format(input, sizeof input, "%s.cu", path);
    tern_str_format(output, sizeof output, "%s.%ld.tmp", path, (long)getpid());
    *ok = 0;
    enum tern_status status = tern_file_write(input, source, strlen(source), err);
    if (status != TERN_OK) {
        return status;
    }
    struct emu_arguments arguments = {.count = 0};
    status = build_arguments(&arguments, input, output, sanitize, err);
    if (status == TERN_OK) {
        status = run_compiler(arguments.compiler, arguments.list, log, ok, err);
    }
    if (status == TERN_OK && *ok && rename(output, path) != 0) {
        status = tern_error_set(err, TERN_INTERNAL, "%s: %s", path, strerror(errno));
    }
    if (status != TERN_OK || !*ok) {
        unlink(output);
    }
    if (status != TERN_OK) {
        tern_error_prefix(err, "%s", name);
    }
    return status;
}

enum tern_status tern_emu_sanitizer_library(char *out, size_t size, struct tern_error *err) {
    char compiler[1024];
    struct tern_str answer = {0};
    int ok = 0;
    out[0] = '\0';
    if (dlsym(RTLD_DEFAULT, "__asan_init") != NULL) {
        return TERN_OK;
    }
    enum tern_status status = tern_emu_compiler(compiler, sizeof compiler, err);
    char *const arguments[] = {compiler, (char *)"-print-file-name=libasan.so", NULL};
    if (status == TERN_OK) {
        status = run_compiler(compiler, arguments, &answer, &ok, err);
    }
    if (status == TERN_OK) {
        tern_str_copy(out, size, tern_str_text(&answer));
        out[strcspn(out, "\n")] = '\0';
        if (!ok || out[0] != '/') { /* a bare name: the compiler does not know it */
            status = tern_error_set(err, TERN_MISSING, "%s has no libasan.so: kernels cannot be checked with --sanitize",
                                    compiler);
        }
    }
    tern_str_free(&answer);
    return status;
}

enum tern_status tern_emu_identity(int sanitize, char *hash, struct tern_error *err) {
    static const char *const folders[] = {"harness/emulator/include", "harness/emulator"};
    char compiler[1024], dir[1024], path[2100];
    enum tern_status status = tern_emu_compiler(compiler, sizeof compiler, err);
    struct tern_hash_state *state = tern_hash_new();
    tern_hash_add_text(state, compiler);
    tern_hash_add_text(state, sanitize ? "sanitize" : "plain");
    for (size_t i = 0; i < EMU_FLAG_COUNT; i++) {
        tern_hash_add_text(state, emu_flags[i]);
    }
    for (size_t f = 0; f < 2 && status == TERN_OK; f++) {
        struct tern_strs names = {0};
        status = tern_file_home_path(folders[f], dir, sizeof dir, err);
        if (status == TERN_OK) {
            status = tern_file_list(dir, ".h", &names, err);
        }
        for (size_t i = 0; i < names.count && status == TERN_OK; i++) {
            char *text;
            size_t length;
            tern_str_format(path, sizeof path, "%s/%s", dir, names.items[i]);
            status = tern_file_read(path, &text, &length, err);
            if (status == TERN_OK) {
                tern_hash_add(state, text, length);
                free(text);
            }
        }
        tern_strs_free(&names);
    }
    tern_hash_end(state, hash);
    return status;
}
