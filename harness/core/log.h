/* Diagnostics on stderr: warnings with a remedy, notes, and progress. Data goes to stdout, never through here. */
#ifndef TERN_CORE_LOG_H
#define TERN_CORE_LOG_H

#include <stdbool.h>

enum tern_log_level { TERN_LOG_QUIET, TERN_LOG_NORMAL, TERN_LOG_VERBOSE };

/* Set once by main() before any worker starts; workers get it on their command line. */
void tern_log_set_level(enum tern_log_level level);

void tern_log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tern_log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A warning always carries a remedy; pass NULL only when there is none. Prints "warning: TEXT" and "  remedy: ...". */
void tern_log_warn(const char *remedy, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Progress: one status line, rewritten in place on a terminal, else printed at most every 10 s. "" ends it. */
void tern_log_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
