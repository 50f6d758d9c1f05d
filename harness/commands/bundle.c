/* `tune bundle`: one tar file with the program, its data, the compiled kernels and the database, for a bare GPU machine.
 * GPU time is then spent on measuring only. Unpacks with tar; needs nothing installed but the driver, NVRTC and cuBLAS. */
#include "commands/commands.h"

#include "core/file.h"
#include "core/log.h"
#include "core/options.h"
#include "core/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct bundle_options {
    const char *output, *db, *cache;
};

#define OPTION_ROWS(o)                                                                                                      \
    {                                                                                                                       \
        {"output", 'o', TERN_OPTION_TEXT, &(o)->output, "FILE", "tar file to write (default tern-bundle.tar)", 0, 0},       \
            {"db", 0, TERN_OPTION_TEXT, &(o)->db, "FILE", "database to take along (default results/tern.db)", 0, 0},        \
            {"cache", 0, TERN_OPTION_TEXT, &(o)->cache, "DIR", "compiled kernels to take along (default results/cache)",    \
             0,       0},                                                                                                   \
    }

/* What a machine needs to run, below the program's home. */
static const char *const data_folders[] = {"templates", "kernels", "configs", "scripts", "harness/emulator"};

static void help(void) {
    struct bundle_options o = {0};
    const struct tern_option rows[] = OPTION_ROWS(&o);
    puts("usage: tune bundle [-o FILE]\n\n"
         "Packs this program (build it with `make portable`), its templates and configs,\n"
         "the compiled kernels and the database into one tar file. On the GPU machine:\n"
         "  mkdir tern && tar -xf tern-bundle.tar -C tern && cd tern\n"
         "  ./tune --gpu h200 --shapes qwen7b\n");
    tern_options_help(rows, sizeof rows / sizeof rows[0]);
    puts("\nexample: tune bundle -o /tmp/tern-bundle.tar");
}

/* Symbolic link so that the archive shows `name` where the real thing lies elsewhere; tar follows it (-h). */
static enum tern_status link_into(const char *folder, const char *name, const char *target, struct tern_error *err) {
    char path[1200], real[4096], parent[1200];
    if (!realpath(target, real))
        return tern_error_set(err, TERN_USAGE, "%s: %s", target, strerror(errno));
    tern_str_format(path, sizeof path, "%s/%s", folder, name);
    tern_str_copy(parent, sizeof parent, path);
    *strrchr(parent, '/') = '\0';
    enum tern_status status = tern_file_make_dirs(parent, err);
    if (status == TERN_OK && symlink(real, path) != 0)
        status = tern_error_set(err, TERN_INTERNAL, "cannot link %s: %s", path, strerror(errno));
    return status;
}

static enum tern_status stage(const struct bundle_options *o, const char *folder, struct tern_error *err) {
    char home_path[1024];
    enum tern_status status = link_into(folder, "tune", "/proc/self/exe", err);
    for (size_t i = 0; i < sizeof data_folders / sizeof data_folders[0] && status == TERN_OK; i++) {
        status = tern_file_home_path(data_folders[i], home_path, sizeof home_path, err);
        if (status == TERN_OK)
            status = link_into(folder, data_folders[i], home_path, err);
    }
    if (status == TERN_OK && tern_file_is_dir(o->cache))
        status = link_into(folder, "results/cache", o->cache, err);
    if (status == TERN_OK && tern_file_exists(o->db))
        status = link_into(folder, "results/tern.db", o->db, err);
    return status;
}

/* Runs a program and waits; its own message is on stderr already when it fails. */
static enum tern_status execute(const char *program, char *const arguments[], struct tern_error *err) {
    char path[1024];
    int wait_status = 0;
    if (!tern_file_find_program(program, path, sizeof path)) {
        tern_error_set(err, TERN_MISSING, "%s is not on PATH", program);
        tern_error_hint(err, "install %s (Debian, Ubuntu: apt-get install %s)", program, program);
        return TERN_MISSING;
    }
    pid_t pid = fork();
    if (pid == 0) {
        execv(path, arguments);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &wait_status, 0) != pid || wait_status != 0)
        return tern_error_set(err, TERN_INTERNAL, "%s failed", program);
    return TERN_OK;
}

static enum tern_status bundle(int argc, char **argv, struct tern_error *err) {
    struct bundle_options o = {"tern-bundle.tar", "results/tern.db", "results/cache"};
    const struct tern_option rows[] = OPTION_ROWS(&o);
    size_t positional = 0;
    char folder[1024], part[1024];
    enum tern_status status = tern_options_parse(rows, sizeof rows / sizeof rows[0], argc, argv, NULL, 0, &positional, err);
    if (status != TERN_OK)
        return status;
    tern_str_format(part, sizeof part, "%s.part", o.output);
    FILE *probe = fopen(part, "wb"); /* an output that cannot be written is found before the work */
    if (!probe)
        return tern_error_set(err, TERN_INTERNAL, "cannot write %s: %s", o.output, strerror(errno));
    fclose(probe);
    if (!tern_file_is_dir(o.cache))
        tern_log_warn("plan first: tune --gpu NAME --shapes NAME", "%s does not exist: the bundle has no compiled kernels",
                      o.cache);
    status = tern_file_make_scratch("tern-bundle", folder, sizeof folder, err);
    if (status != TERN_OK) {
        unlink(part);
        return status;
    }
    status = stage(&o, folder, err);
    char *const tar[] = {"tar", "--sort=name", "--exclude=emu", "-chf", part, "-C", folder, ".", NULL};
    if (status == TERN_OK)
        status = execute("tar", tar, err);
    if (status == TERN_OK && rename(part, o.output) != 0)
        status = tern_error_set(err, TERN_INTERNAL, "cannot rename %s: %s", part, strerror(errno));
    unlink(part);
    struct tern_error ignored;
    char *const rm[] = {"rm", "-rf", folder, NULL};
    execute("rm", rm, &ignored);
    if (status == TERN_OK)
        printf("%s\n", o.output);
    return status;
}

const struct tern_command tern_command_bundle = {
    .name = "bundle", .summary = "pack program, kernels and database for a GPU machine", .run = bundle, .help = help};
