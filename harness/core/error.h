/* Errors: one status per exit code, filled once at the place where something went wrong.
 * Owns nothing. A fallible function takes `struct tern_error *` last, returns enum tern_status, and fills the
 * error exactly once, at the origin, with the offending value and a hint. Only main() prints and exits.
 * A bad candidate (does not compile, computes wrong, crashes) is an outcome (outcome.h), never an error. */
#ifndef TERN_CORE_ERROR_H
#define TERN_CORE_ERROR_H

#include <stdarg.h>

/* The values are the documented exit codes of the program. */
enum tern_status {
    TERN_OK = 0,       /* all that was asked for is done */
    TERN_FAILED = 1,   /* it ran, but something asked for failed */
    TERN_USAGE = 2,    /* usage or configuration error, or a selection that matches nothing */
    TERN_MISSING = 3,  /* a device, library or tool is missing or wedged */
    TERN_INTERNAL = 4, /* file, database or internal error */
};

#define TERN_EXIT_INTERRUPTED 130

struct tern_error {
    enum tern_status status;
    char text[1024]; /* what happened, with the offending value; no trailing newline */
    char hint[512];  /* what to do about it; may be empty */
};

/* Fills *err (if not NULL) and returns `status`, so that `return tern_error_set(...)` reads well. Clears the hint. */
enum tern_status tern_error_set(struct tern_error *err, enum tern_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets the hint of an error that is already filled. */
void tern_error_hint(struct tern_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " in front of the text, for context such as a file name; keeps status and hint. */
void tern_error_prefix(struct tern_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
