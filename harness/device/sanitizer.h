/* compute-sanitizer of the CUDA toolkit: where it is, how a program is started under it, and what its report says.
 * Starts nothing. */
#ifndef TERN_DEVICE_SANITIZER_H
#define TERN_DEVICE_SANITIZER_H

#include "core/error.h"
#include "core/str.h"

/* Its tools that every kernel must pass, in order; NULL ends the list. */
extern const char *const tern_sanitizer_tools[];

/* Looks on PATH, then in the CUDA toolkits (library.h). TERN_MISSING with a remedy. */
enum tern_status tern_sanitizer_find(char *path, size_t size, struct tern_error *err);

/* The arguments that stand in front of a program to run it under `tool`, NULL at the end; they point into path and tool. */
#define TERN_SANITIZER_ARGUMENTS 12
void tern_sanitizer_prefix(const char *path, const char *tool, const char *prefix[TERN_SANITIZER_ARGUMENTS]);

enum tern_sanitizer_verdict {
    TERN_SANITIZER_CLEAN,
    TERN_SANITIZER_ERRORS,
    TERN_SANITIZER_UNUSABLE, /* it did not run, or does not know the device: nothing was judged */
};
/* Judges what it printed and its exit code. *excerpt gets the first lines of its report, without its marks. */
enum tern_sanitizer_verdict tern_sanitizer_judge(const char *output, int exit_code, struct tern_str *excerpt);

#endif
