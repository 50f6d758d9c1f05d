/* `tune show --search`: the trials behind stored winners, as searches. */
#ifndef TERN_COMMANDS_SHOW_SEARCH_H
#define TERN_COMMANDS_SHOW_SEARCH_H

#include "output/curve.h"

/* One search for each row, in their order, planned rows left out; the caller frees. TERN_USAGE: nothing was measured. */
enum tern_status tern_show_search(const char *db, const struct tern_results *rows, struct tern_curves *all,
                                  struct tern_error *err);

#endif
