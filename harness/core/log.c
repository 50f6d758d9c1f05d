/* Diagnostics on stderr. The level and the state of the progress line are process-wide on purpose: they mirror stderr
 * itself. */
#include "core/log.h"

#include "core/clock.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOG_PROGRESS_PERIOD_NS INT64_C(10000000000)

static struct {
    enum tern_log_level level;
    bool line_open;          /* a progress line stands unfinished on the terminal */
    int64_t last_printed_ns; /* of a progress line on something that is not a terminal */
} log_state = {.level = TERN_LOG_NORMAL};

void tern_log_set_level(enum tern_log_level level) {
    log_state.level = level;
}

/* Erases the progress line, so that other text starts on a clean one. What stdout holds so far goes out first: where both end
 * in one place, lines stand in the order in which they were printed. */
static void log_clear_line(void) {
    fflush(stdout);
    if (log_state.line_open)
        fputs("\r\033[K", stderr);
    log_state.line_open = false;
}

void tern_log_note(const char *format, ...) {
    if (log_state.level < TERN_LOG_NORMAL)
        return;
    log_clear_line();
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

void tern_log_debug(const char *format, ...) {
    if (log_state.level < TERN_LOG_VERBOSE)
        return;
    log_clear_line();
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* Warnings show at every level: quiet silences notes and progress only. */
void tern_log_warn(const char *remedy, const char *format, ...) {
    log_clear_line();
    fputs("warning: ", stderr);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    if (remedy != NULL)
        fprintf(stderr, "  remedy: %s\n", remedy);
}

void tern_log_progress(const char *format, ...) {
    if (log_state.level < TERN_LOG_NORMAL)
        return;
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);

    if (isatty(STDERR_FILENO)) {
        log_clear_line();
        if (line[0] == '\0')
            return;
        fprintf(stderr, "%.100s", line);
        fflush(stderr);
        log_state.line_open = true;
        return;
    }
    int64_t now = tern_clock_now_ns();
    if (line[0] == '\0' || (log_state.last_printed_ns != 0 && now - log_state.last_printed_ns < LOG_PROGRESS_PERIOD_NS))
        return;
    log_state.last_printed_ns = now;
    fprintf(stderr, "%s\n", line);
}
