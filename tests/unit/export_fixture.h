/* A folder in which commands of the program run, and what they wrote is read, compiled and run. */
#ifndef TERN_TESTS_EXPORT_FIXTURE_H
#define TERN_TESTS_EXPORT_FIXTURE_H

#include "output_fixture_db.h"

#include "commands/commands.h"
#include "commands/dispatch.h"
#include "commands/export_times.h"
#include "core/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define H200_SMS  132
#define H200_SMEM 232448 /* as in configs/gpus/h200.lua */

struct fixture {
    char dir[64];
    struct tern_results rows;
};

static inline char *path_in(const struct fixture *f, const char *name) {
    struct tern_str path = {0};
    tern_str_printf(&path, "%s/%s", f->dir, name);
    return path.data;
}

static inline void write_text(const struct fixture *f, const char *name, const char *text, size_t length) {
    char *path = path_in(f, name);
    struct tern_error err = {0};
    assert_int_equal(tern_file_write(path, text, length, &err), TERN_OK);
    free(path);
}

static inline char *read_text(const struct fixture *f, const char *name) {
    char *path = path_in(f, name), *text = NULL;
    size_t length = 0;
    struct tern_error err = {0};
    assert_int_equal(tern_file_read(path, &text, &length, &err), TERN_OK);
    free(path);
    return text;
}

/* Runs a program in the fixture's folder; stdin and stdout are files there, or untouched. Returns its exit code. */
static inline int run_program(const struct fixture *f, const char *in, const char *out, char *const argv[]) {
    int status = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (chdir(f->dir))
            _exit(126);
        if (in && dup2(open(in, O_RDONLY), 0) < 0)
            _exit(126);
        if (out && dup2(open(out, O_WRONLY | O_CREAT | O_TRUNC, 0644), 1) < 0)
            _exit(126);
        alarm(60);
        execvp(argv[0], argv);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* Runs a command of the program in this process, its stdout into the folder's file "stdout". */
static inline enum tern_status run_command(const struct fixture *f, const struct tern_command *command, const char *words,
                                           struct tern_error *err) {
    struct tern_strs list = {0};
    char *out = path_in(f, "stdout");
    tern_strs_split(&list, words, ' ');
    fflush(stdout);
    int saved = dup(1), file = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(file, 1);
    enum tern_status status = command->run((int)list.count, list.items, err);
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    close(file);
    tern_strs_free(&list);
    free(out);
    return status;
}

static inline enum tern_status export_to(const struct fixture *f, const char *db, const char *dir, const char *more,
                                         struct tern_error *err) {
    char words[512];
    tern_str_format(words, sizeof words, "export --gpu h200 --db %s/%s -o %s/%s %s", f->dir, db, f->dir, dir, more);
    return run_command(f, &tern_command_export, words, err);
}

static const struct {
    const char *program, *standard, *file;
} compilers[] = {{"gcc", "-std=c99", "caller.c"},
                 {"g++", "-std=c++11", "caller.cpp"},
                 {"clang", "-std=c99", "caller.c"},
                 {"clang++", "-std=c++11", "caller.cpp"}};
#define COMPILER_COUNT (sizeof compilers / sizeof compilers[0])

/* Builds caller.c or caller.cpp; false where the machine lacks the compiler. */
static inline bool compile_caller(const struct fixture *f, size_t index) {
    char program[16], standard[16], file[16], found[256];
    if (!tern_file_find_program(compilers[index].program, found, sizeof found))
        return false;
    tern_str_copy(program, sizeof program, compilers[index].program);
    tern_str_copy(standard, sizeof standard, compilers[index].standard);
    tern_str_copy(file, sizeof file, compilers[index].file);
    char *const compile[] = {program,
                             standard,
                             (char[]){"-Wall"},
                             (char[]){"-Wextra"},
                             (char[]){"-Wpedantic"},
                             (char[]){"-Werror"},
                             (char[]){"-Iout"},
                             file,
                             (char[]){"-o"},
                             (char[]){"caller"},
                             NULL};
    assert_int_equal(run_program(f, NULL, NULL, compile), 0);
    return true;
}

/* Every kernel of a shape on every M of it, so that other kernels than the neighbours' serve sizes in between. */
static inline enum tern_status add_trials(const char *db, const struct tern_results *rows, struct tern_error *err) {
    struct tern_store *store = NULL;
    const struct tern_store_device device = FIXTURE_DEVICE;
    int64_t device_id = 0, run = 0;
    bool found = false;
    enum tern_status status = tern_store_open(db, TERN_STORE_WRITE, &store, err);
    if (!status)
        status = tern_store_device(store, &device, &device_id, err);
    if (!status)
        status = tern_store_run_begin(store, device_id, "trials", "test", 1, &run, err);
    if (!status)
        status = tern_store_batch_begin(store, err); /* a trial alone waits for the disk */
    for (size_t i = 0; i < rows->count * rows->count && !status; i++) {
        const struct tern_result *row = &rows->rows[i / rows->count], *kernel = &rows->rows[i % rows->count];
        struct tern_store_problem problem = {.m = row->m, .n = row->n, .k = row->k};
        struct tern_store_trial trial = {.run = run, .device = device_id, .outcome = TERN_OUTCOME_OK, .predicted_us = NAN};
        struct tern_store_build build;
        tern_str_copy(problem.format, sizeof problem.format, row->format);
        tern_str_copy(problem.op, sizeof problem.op, row->op);
        tern_str_copy(trial.stage, sizeof trial.stage, "final");
        tern_str_copy(trial.policy, sizeof trial.policy, "graph/cold");
        trial.us = trial.us_lo = trial.us_hi = row->us * (1.0 + 0.07 * (double)((5 * row->m + kernel->build_key[0]) % 11));
        if (strcmp(row->format, kernel->format) || strcmp(row->layer, kernel->layer))
            continue;
        status = tern_store_problem(store, &problem, &trial.problem, err);
        if (!status)
            status = tern_store_build_find(store, kernel->build_key, &build, &found, err);
        trial.build = build.id;
        if (!status)
            status = tern_store_trial_begin(store, &trial, err);
        trial.outcome = TERN_OUTCOME_OK;
        if (!status)
            status = tern_store_trial_finish(store, &trial, NULL, 0, err);
    }
    status = tern_store_batch_end(store, status, err);
    tern_store_close(store);
    return status;
}

/* The table of a database, as `tune select` has it. */
struct answers {
    struct tern_gpu gpu;
    struct tern_selection_table table;
    struct tern_times *times;
    struct tern_selection_stairs *stairs;
};

static inline void open_answers(const struct fixture *f, const char *name, const struct tern_results *rows,
                                struct answers *a) {
    struct tern_error err = {0};
    char *db = path_in(f, name);
    a->table = tern_selection_build(rows);
    assert_int_equal(tern_gpu_load("h200", &a->gpu, &err), TERN_OK);
    assert_int_equal(tern_times_load(db, &a->gpu, rows, &a->times, &err), TERN_OK);
    const struct tern_dispatch_limits limits = {H200_SMS, H200_SMEM};
    a->stairs = tern_times_stairs(a->times, &a->table, NULL, &limits);
    a->table.stairs = a->stairs;
    free(db);
}

static inline void close_answers(struct answers *a) {
    tern_times_stairs_free(a->stairs, a->table.results->count);
    tern_times_free(a->times);
    tern_selection_free(&a->table);
    tern_gpu_free(&a->gpu);
}

#endif
