/* Worker processes: this program started again as `tune worker KIND`, in a process group of its own.
 * The parent holds every deadline: a worker that dies or hangs costs its caller one answer, never the run. */
#ifndef TERN_WORKER_PROCESS_H
#define TERN_WORKER_PROCESS_H

#include "core/error.h"
#include "core/str.h"
#include "worker/message.h"

#include <stdbool.h>
#include <sys/types.h>

#define TERN_WORKER_FD 3 /* the worker's end of the socket pair */

struct tern_process {
    pid_t pid;     /* 0: not running */
    int fd;        /* our end of the socket pair */
    int output_fd; /* what the worker printed (unlinked memory file) */
    char kind[16]; /* "gpu", "compile", ... */
};

enum tern_call {
    TERN_CALL_OK,      /* *reply is set */
    TERN_CALL_DIED,    /* exited or was killed before it answered, or sent garbage */
    TERN_CALL_TIMEOUT, /* did not answer before the deadline; it was killed */
};

enum tern_status tern_process_start(const char *kind, struct tern_process *p, struct tern_error *err);
/* The same under another program: `prefix` are its path and arguments, NULL at the end; NULL: none. */
enum tern_status tern_process_start_under(const char *const *prefix, const char *kind, struct tern_process *p,
                                          struct tern_error *err);
/* Sends a request and waits for its answer. On DIED and TIMEOUT the process is reaped and p->pid is 0; `why` then tells how
 * it ended (signal and exit code apart) with the last of its output. */
enum tern_call tern_process_call(struct tern_process *p, const json_t *request, double timeout_s, json_t **reply, char *why,
                                 size_t why_size);
/* Receives what an earlier tern_message_send on p->fd asked for; same results as tern_process_call. */
enum tern_call tern_process_answer(struct tern_process *p, int64_t deadline_ns, json_t **reply, char *why, size_t why_size);
/* Closes the socket, so that an idle worker ends by itself, and waits so long before it kills the group. *exit_code: 128 and
 * the number for a signal. Appends all that was printed (at most 1 MiB) to `output`. */
void tern_process_finish(struct tern_process *p, double patience_s, int *exit_code, struct tern_str *output);
/* Kills the whole group and reaps. */
void tern_process_kill(struct tern_process *p);

#endif
