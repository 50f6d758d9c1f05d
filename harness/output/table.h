/* Result tables, JSON and CSV on stdout. Pure functions of result rows. */
#ifndef TERN_OUTPUT_TABLE_H
#define TERN_OUTPUT_TABLE_H

#include "core/error.h"
#include "core/outcome.h"
#include "core/result.h"

#include <stdio.h>

/* Human table, at most 80 columns: layer, M, winner, us, speed-up, % of limit; grouped by format; planned rows say so. */
void tern_output_table(FILE *out, const struct tern_results *results);
/* winners.csv: format, op, layer, n, k, m, template, params, us, us_lo, us_hi, baseline, baseline_us, speedup, limit_us,
 * pct_of_limit, p_best. Sorted; no timestamps. */
enum tern_status tern_output_csv(const char *path, const struct tern_results *results, struct tern_error *err);
/* The documented --json of `run` (design 8). */
void tern_output_run_json(FILE *out, const char *gpu, bool planned, const char *db, const struct tern_results *results,
                          const int64_t outcomes[TERN_OUTCOME_COUNT]);

#endif
