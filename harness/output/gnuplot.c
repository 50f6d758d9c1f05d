/* Runs gnuplot over data files. See gnuplot.h. */
#include "output/gnuplot.h"

#include "core/file.h"
#include "core/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GNUPLOT_SECONDS 60 /* a picture takes well under one */

/* Child side: quiet stdin and stdout, stderr into the pipe, an alarm as the deadline (it outlives exec). */
static void start_gnuplot(const char *program, char *const argv[], int error_fd) {
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(error_fd, 2) < 0)
        _exit(127);
    alarm(GNUPLOT_SECONDS);
    execv(program, argv);
    _exit(127);
}

/* Reads all that comes and keeps the beginning, on one line. */
static void drain(int fd, char *text, size_t size) {
    char chunk[512];
    size_t length = 0;
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        size_t room = size - 1 - length, take = (size_t)got < room ? (size_t)got : room;
        memcpy(text + length, chunk, take);
        length += take;
    }
    text[length] = 0;
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
}

/* Runs gnuplot to its end. Its words go into the error; argv[5] is the picture that it was to write. */
static enum tern_status run_gnuplot(const char *program, char *const argv[], struct tern_error *err) {
    int fds[2], wait_status = 0;
    char text[600];
    if (pipe2(fds, O_CLOEXEC))
        return tern_error_set(err, TERN_INTERNAL, "pipe for gnuplot: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0) {
        close(fds[0]);
        close(fds[1]);
        return tern_error_set(err, TERN_INTERNAL, "fork for gnuplot: %s", strerror(errno));
    }
    if (child == 0)
        start_gnuplot(program, argv, fds[1]);
    close(fds[1]);
    drain(fds[0], text, sizeof text);
    close(fds[0]);
    while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
        return TERN_OK;
    if (WIFSIGNALED(wait_status))
        tern_error_set(err, TERN_MISSING, "gnuplot was ended by signal %d while drawing %s", WTERMSIG(wait_status), argv[5]);
    else
        tern_error_set(err, TERN_MISSING, "gnuplot could not draw %s: %s", argv[5], text);
    tern_error_hint(err, "install gnuplot 5.2 or newer with cairo (Debian: gnuplot-nox) and run the command again");
    return TERN_MISSING;
}

enum tern_status tern_gnuplot_find(const char *left, char *program, size_t size, struct tern_error *err) {
    if (tern_file_find_program("gnuplot", program, size))
        return TERN_OK;
    tern_error_set(err, TERN_MISSING, "gnuplot is not on PATH; %s", left);
    tern_error_hint(err, "install it (Debian: apt-get install gnuplot-nox) and run the command again");
    return TERN_MISSING;
}

/* Arguments: script, terminal, output, data, title, caption, extras. */
enum tern_status tern_gnuplot_draw(const char *program, const struct tern_gnuplot_picture *picture, struct tern_error *err) {
    static const char *const terminals[] = {"svg", "png"};
    char script[4096];
    enum tern_status status = tern_file_home_path("scripts", script, sizeof script, err);
    size_t used = strlen(script);
    tern_str_format(script + used, sizeof script - used, "/%s", picture->script);
    for (size_t t = 0; t < 2 && !status; t++) {
        struct tern_str output = {0};
        tern_str_printf(&output, "%s.%s", picture->file, terminals[t]);
        const char *const arguments[] = {"gnuplot",
                                         "-d",
                                         "-c",
                                         script,
                                         terminals[t],
                                         output.data,
                                         picture->data,
                                         picture->title,
                                         picture->caption,
                                         picture->extra[0],
                                         picture->extra[1],
                                         picture->extra[2],
                                         NULL};
        /* execv takes its strings without const, but does not write to them */
        status = run_gnuplot(program, (char *const *)(uintptr_t)arguments, err);
        tern_str_free(&output);
    }
    return status;
}
