/* `tune worker KIND`: the hidden command that a worker process runs; started by worker/process.c only. */
#include "commands/commands.h"

#include "worker/compile.h"
#include "worker/gpu.h"
#include "worker/load.h"
#include "worker/process.h"
#include "worker/replay.h"
#include "worker/verify.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

static void help(void) {
    puts("usage: tune worker KIND\n\nInternal: serves requests of a parent `tune` on a socket. Not for people.");
}

static enum tern_status worker(int argc, char **argv, struct tern_error *err) {
    static const struct {
        const char *kind;
        int (*serve)(void);
    } kinds[] = {{"compile", tern_compile_worker},
                 {"gpu", tern_gpu_worker},
                 {"load", tern_load_worker},
                 {"replay", tern_replay_worker},
                 {"verify", tern_verify_worker}};
    if (argc != 2 || fcntl(TERN_WORKER_FD, F_GETFD) < 0)
        return tern_error_set(err, TERN_USAGE, "worker is started by tune itself");
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* again: under compute-sanitizer this process is another program's child */
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].kind, argv[1]) == 0)
            return kinds[i].serve() == 0 ? TERN_OK : tern_error_set(err, TERN_INTERNAL, "%s worker failed", argv[1]);
    return tern_error_set(err, TERN_USAGE, "no worker is called '%s'", argv[1]);
}

const struct tern_command tern_command_worker = {.name = "worker", .summary = NULL, .run = worker, .help = help};
