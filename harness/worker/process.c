/* Starting, calling and ending worker processes. See process.h. */
#include "worker/process.h"

#include "core/clock.h"
#include "core/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_TAIL_BYTES 8192
#define OUTPUT_MAX_BYTES  (1 << 20)
#define MAX_ARGUMENTS     20

/* In the child, between fork and exec: only async-signal-safe calls. */
static void become_worker(int socket_fd, int output_fd, const char *program, char *const *arguments) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a parent that is killed leaves no worker on the GPU */
    int null_fd = open("/dev/null", O_RDONLY);
    if (null_fd >= 0)
        dup2(null_fd, STDIN_FILENO);
    dup2(output_fd, STDOUT_FILENO);
    dup2(output_fd, STDERR_FILENO);
    if (socket_fd != TERN_WORKER_FD)
        dup2(socket_fd, TERN_WORKER_FD);
    else
        fcntl(socket_fd, F_SETFD, 0);
    execv(program, arguments);
    _exit(127);
}

/* "tune worker KIND", with a prefix in front of it. The other program must be told where this one is. */
static void list_arguments(const char *const *prefix, const char *kind, char self[static PATH_MAX],
                           const char *arguments[MAX_ARGUMENTS]) {
    size_t count = 0;
    ssize_t length = prefix ? readlink("/proc/self/exe", self, PATH_MAX - 1) : 0;
    self[length > 0 ? length : 0] = '\0';
    while (prefix && prefix[count] && count + 4 < MAX_ARGUMENTS) {
        arguments[count] = prefix[count];
        count++;
    }
    arguments[count++] = prefix ? self : "tune";
    arguments[count++] = "worker";
    arguments[count++] = kind;
    arguments[count] = NULL;
}

enum tern_status tern_process_start(const char *kind, struct tern_process *p, struct tern_error *err) {
    return tern_process_start_under(NULL, kind, p, err);
}

enum tern_status tern_process_start_under(const char *const *prefix, const char *kind, struct tern_process *p,
                                          struct tern_error *err) {
    int pair[2];
    char self[PATH_MAX];
    const char *arguments[MAX_ARGUMENTS];
    list_arguments(prefix, kind, self, arguments);
    memset(p, 0, sizeof *p);
    tern_str_copy(p->kind, sizeof p->kind, kind);
    p->fd = p->output_fd = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return tern_error_set(err, TERN_INTERNAL, "cannot create a socket pair: %s", strerror(errno));
    int output_fd = memfd_create("worker-output", MFD_CLOEXEC);
    if (output_fd < 0) {
        close(pair[0]);
        close(pair[1]);
        return tern_error_set(err, TERN_INTERNAL, "cannot create a memory file: %s", strerror(errno));
    }
    fcntl(output_fd, F_SETFL, O_APPEND);
    pid_t pid = fork();
    if (pid == 0)
        become_worker(pair[1], output_fd, prefix ? prefix[0] : "/proc/self/exe", (char *const *)arguments);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        close(output_fd);
        return tern_error_set(err, TERN_INTERNAL, "cannot start a %s worker: %s", kind, strerror(errno));
    }
    setpgid(pid, pid); /* also here, so that a kill right now reaches the group */
    p->pid = pid;
    p->fd = pair[0];
    p->output_fd = output_fd;
    return TERN_OK;
}

static void describe_end(int status, char *out, size_t size) {
    if (WIFSIGNALED(status))
        tern_str_format(out, size, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        tern_str_format(out, size, "exited with code %d", WEXITSTATUS(status));
}

/* Appends the tail of what the worker printed, newlines folded to " | ". */
static void append_output(int fd, char *out, size_t size) {
    char tail[OUTPUT_TAIL_BYTES + 1];
    off_t end = lseek(fd, 0, SEEK_END);
    off_t from = end > OUTPUT_TAIL_BYTES ? end - OUTPUT_TAIL_BYTES : 0;
    ssize_t got = end > 0 ? pread(fd, tail, OUTPUT_TAIL_BYTES, from) : 0;
    size_t used = strlen(out);
    if (got <= 0 || used + 12 >= size)
        return;
    tail[got] = '\0';
    tern_str_format(out + used, size - used, "; output: ");
    used = strlen(out);
    /* The row keeps the end of the output: that is where the reason stands. */
    size_t room = size - used - 1, length = strlen(tail);
    const char *at = length > room ? tail + (length - room) : tail;
    for (; *at && used + 1 < size; at++)
        out[used++] = *at == '\n' ? ' ' : *at;
    out[used] = '\0';
}

static void release(struct tern_process *p) {
    if (p->fd >= 0)
        close(p->fd);
    if (p->output_fd >= 0)
        close(p->output_fd);
    p->fd = p->output_fd = -1;
    p->pid = 0;
}

/* Waits a moment for a process whose socket closed; kills it if it lingers. Returns its wait status. */
static int reap(struct tern_process *p, double patience_s) {
    int status = 0;
    int64_t deadline_ns = tern_clock_now_ns() + (int64_t)(patience_s * 1e9);
    while (waitpid(p->pid, &status, WNOHANG) == 0) {
        if (tern_clock_now_ns() >= deadline_ns) {
            kill(-p->pid, SIGKILL);
            kill(p->pid, SIGKILL);
            waitpid(p->pid, &status, 0);
            break;
        }
        usleep(1000);
    }
    kill(-p->pid, SIGKILL); /* grandchildren, if any */
    return status;
}

void tern_process_finish(struct tern_process *p, double patience_s, int *exit_code, struct tern_str *output) {
    close(p->fd);
    p->fd = -1;
    int status = reap(p, patience_s);
    *exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    off_t end = lseek(p->output_fd, 0, SEEK_END);
    size_t bytes = end > OUTPUT_MAX_BYTES ? OUTPUT_MAX_BYTES : end > 0 ? (size_t)end : 0;
    char *text = tern_alloc(bytes + 1);
    ssize_t got = pread(p->output_fd, text, bytes, 0);
    text[got > 0 ? got : 0] = '\0';
    tern_str_append(output, text);
    free(text);
    release(p);
}

void tern_process_kill(struct tern_process *p) {
    if (p->pid == 0)
        return;
    reap(p, 0);
    release(p);
}

enum tern_call tern_process_answer(struct tern_process *p, int64_t deadline_ns, json_t **reply, char *why, size_t why_size) {
    enum tern_message_status status = tern_message_receive(p->fd, deadline_ns, reply);
    if (status == TERN_MESSAGE_OK)
        return TERN_CALL_OK;
    char end[128];
    int wait_status = reap(p, status == TERN_MESSAGE_CLOSED ? 2.0 : 0.0);
    if (status == TERN_MESSAGE_TIMEOUT) {
        tern_str_format(why, why_size, "%s worker did not answer before its deadline and was killed", p->kind);
    } else {
        describe_end(wait_status, end, sizeof end);
        tern_str_format(why, why_size, "%s worker %s%s", p->kind, end,
                        status == TERN_MESSAGE_GARBAGE ? " after it sent something that is no message" : "");
    }
    append_output(p->output_fd, why, why_size);
    release(p);
    return status == TERN_MESSAGE_TIMEOUT ? TERN_CALL_TIMEOUT : TERN_CALL_DIED;
}

enum tern_call tern_process_call(struct tern_process *p, const json_t *request, double timeout_s, json_t **reply, char *why,
                                 size_t why_size) {
    *reply = NULL;
    tern_message_send(p->fd, request); /* a closed socket is found by the receive below */
    return tern_process_answer(p, tern_clock_now_ns() + (int64_t)(timeout_s * 1e9), reply, why, why_size);
}
