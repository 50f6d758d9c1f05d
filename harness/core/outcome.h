/* Outcomes: what became of a candidate on a problem. Data, never an error.
 * Owns the one list of outcomes; store, tables and JSON take their names from it. */
#ifndef TERN_CORE_OUTCOME_H
#define TERN_CORE_OUTCOME_H

#include <stdbool.h>

/* X(identifier, name, letter for progress lines, meaning) */
#define TERN_OUTCOMES(X)                                                                                                    \
    X(RUNNING, "running", '?', "journalled before launch; left behind only by a killed run")                                \
    X(OK, "ok", '.', "verified and timed")                                                                                  \
    X(PLANNED, "planned", 'p', "compiled and ranked without a GPU; never timed")                                            \
    X(INVALID, "invalid", 'i', "excluded by the template for this problem or architecture")                                 \
    X(COMPILE, "compile", 'c', "the compiler refused it")                                                                   \
    X(RESOURCES, "resources", 'r', "needs more registers, shared or device memory than exists")                             \
    X(FAULT, "fault", 'f', "the device reported an error")                                                                  \
    X(CRASH, "crash", 'x', "the worker process died")                                                                       \
    X(TIMEOUT, "timeout", 't', "did not end before its deadline")                                                           \
    X(WRONG, "wrong", 'w', "result differs from the FP64 reference, or touched memory outside")                             \
    X(NONDET, "nondet", 'd', "two runs on the same input differ")                                                           \
    X(NOISY, "noisy", 'n', "right, but its time could not be measured")

enum tern_outcome {
#define X(id, name, letter, meaning) TERN_OUTCOME_##id,
    TERN_OUTCOMES(X)
#undef X
        TERN_OUTCOME_COUNT
};

const char *tern_outcome_name(enum tern_outcome outcome);
char tern_outcome_letter(enum tern_outcome outcome);
const char *tern_outcome_meaning(enum tern_outcome outcome);
/* Finds an outcome by name; returns false if there is none. */
bool tern_outcome_parse(const char *name, enum tern_outcome *outcome);

#endif
