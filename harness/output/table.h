/* Result tables and JSON on stdout. Pure functions of result rows. */
#ifndef TERN_OUTPUT_TABLE_H
#define TERN_OUTPUT_TABLE_H

#include "core/error.h"
#include "core/outcome.h"
#include "core/result.h"

#include <stdio.h>

/* Human table, at most 80 columns: layer, M, winner, us, best cuBLASLt us, speed-up, % of limit; grouped by gpu, model and
 * format. Planned rows stand under their own heading, their predicted us marked "~", with no speed-up. */
void tern_output_table(FILE *out, const struct tern_results *results);
/* The documented --json of `run` (design 8), with a newline at its end. Unknown numbers are null. outcomes NULL: no counts
 * ({}). Problems without a winner (empty template_name) have status "none" and a null winner. */
void tern_output_run_json(FILE *out, const char *gpu, bool planned, const char *db, const struct tern_results *results,
                          const int64_t outcomes[TERN_OUTCOME_COUNT]);

#endif
