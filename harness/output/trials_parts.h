/* What the printers of trials share. Private to output/trials.c, outcomes.c and why.c. */
#ifndef TERN_OUTPUT_TRIALS_PARTS_H
#define TERN_OUTPUT_TRIALS_PARTS_H

#include "output/trials.h"

#include <jansson.h>

const char *trials_us(char *out, size_t size, double us); /* three to four digits; "-" if unknown */
/* Cut to `width` characters, the last two dots where something is missing; on one line. */
const char *trials_fit(char *out, size_t size, const char *text, size_t width);
json_t *trials_number(double value);
json_t *trials_text(const char *value);
json_t *trials_one_json(const struct tern_trial *t);
void trials_add_problem(json_t *object, const struct tern_result *p);
/* {"gpu", "db", KEY: list} on `out`; takes the list. */
void trials_print_json(FILE *out, const char *gpu, const char *db, const char *key, json_t *list);

/* One (template, outcome) with its reasons. */
struct outcome_group {
    const char *template_name;
    enum tern_outcome outcome;
    size_t count, first; /* first: index of its first trial */
};
/* Groups of trials[0..count), by template name, then outcome; the caller frees. */
struct outcome_group *outcome_groups(const struct tern_trial *trials, size_t count, size_t *group_count);
/* Lines "template: N ok, N wrong" and a line a reason. */
void outcome_print(FILE *out, const struct tern_trial *trials, size_t count);
json_t *outcome_json(const struct tern_trial *trials, size_t count);

#endif
