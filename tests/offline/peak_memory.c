/* Runs a command and prints, on standard error, its wall and processor time and the most memory that it and its children held at once:
 * resident in all, and beyond the page cache (anonymous pages, every 20 ms from /proc). usage: peak_memory COMMAND [ARGUMENT...] */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Value of a line of /proc/PID/status in KiB; 0 if the process is gone. */
static long status_kib(pid_t pid, const char *key) {
    char path[64], line[256];
    long value = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtol(line + strlen(key), NULL, 10);
    if (file)
        fclose(file);
    return value;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    const double start = now();
    long anonymous = 0, all = 0;
    int status = 0;
    struct rusage usage;
    pid_t child = argc > 1 ? fork() : -1;
    if (child == 0) {
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    if (child < 0)
        return 2;
    while (waitpid(child, &status, WNOHANG) == 0) {
        const long a = status_kib(child, "RssAnon:"), r = status_kib(child, "VmHWM:");
        anonymous = a > anonymous ? a : anonymous;
        all = r > all ? r : all;
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    getrusage(RUSAGE_CHILDREN, &usage);
    fprintf(stderr, "%.1f s wall, %.1f s processor, %.0f MB beyond the page cache, %.0f MB resident in all, exit %d\n",
            now() - start,
            (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
                1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec),
            (double)anonymous * 1024e-6, (double)all * 1024e-6,
            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
