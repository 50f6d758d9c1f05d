/* Outcomes: names, letters and meanings from the one list in outcome.h. */
#include "core/outcome.h"

#include <string.h>

struct outcome_row {
    const char *name;
    const char *meaning;
    char letter;
};

static const struct outcome_row outcome_rows[TERN_OUTCOME_COUNT] = {
#define X(id, name, letter, meaning) {name, meaning, letter},
    TERN_OUTCOMES(X)
#undef X
};

static bool outcome_known(enum tern_outcome outcome) {
    return (unsigned)outcome < TERN_OUTCOME_COUNT;
}

const char *tern_outcome_name(enum tern_outcome outcome) {
    return outcome_known(outcome) ? outcome_rows[outcome].name : "unknown";
}

char tern_outcome_letter(enum tern_outcome outcome) {
    return outcome_known(outcome) ? outcome_rows[outcome].letter : '!';
}

const char *tern_outcome_meaning(enum tern_outcome outcome) {
    return outcome_known(outcome) ? outcome_rows[outcome].meaning : "not an outcome";
}

bool tern_outcome_parse(const char *name, enum tern_outcome *outcome) {
    for (int i = 0; i < TERN_OUTCOME_COUNT; i++)
        if (strcmp(outcome_rows[i].name, name) == 0) {
            *outcome = (enum tern_outcome)i;
            return true;
        }
    return false;
}
