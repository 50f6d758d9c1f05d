/* `tune show --trials`, `--outcomes` and `--why`: what stands behind stored winners. */
#ifndef TERN_COMMANDS_SHOW_TRIALS_H
#define TERN_COMMANDS_SHOW_TRIALS_H

#include "output/trials.h"
#include "store/store.h"

enum show_what { SHOW_WINNERS, SHOW_SEARCH, SHOW_TRIALS, SHOW_OUTCOMES, SHOW_WHY };
enum show_form { SHOW_TABLE, SHOW_JSON, SHOW_CSV };

/* Appends the trials of each row's problem, sorted; the rows must outlive them. */
enum tern_status tern_show_read_trials(struct tern_store *store, const struct tern_results *rows, struct tern_trials *out,
                                       struct tern_error *err);
/* Prints trials or outcomes of the rows' problems. TERN_USAGE: nothing was tried. */
enum tern_status tern_show_trials(const char *db, const struct tern_results *rows, enum show_what what, enum show_form form,
                                  struct tern_error *err);
/* show_why.c: prints why each of the rows won. */
enum tern_status tern_show_why(const char *db, const struct tern_results *rows, enum show_form form, struct tern_error *err);

#endif
