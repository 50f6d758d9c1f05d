/* winners.csv: result rows as text that people diff and programs read, written and read by one table of columns. */
#ifndef TERN_OUTPUT_CSV_H
#define TERN_OUTPUT_CSV_H

#include "core/error.h"
#include "core/result.h"
#include "core/str.h"

/* Columns: format, op, layer, n, k, m, template, params, us, us_lo, us_hi, baseline, baseline_us, speedup, limit_us,
 * pct_of_limit, p_best, regret, sustained_us, sustained_speedup, shapes, layer_count, policy. New ones go to the end. Unknown
 * numbers are empty fields. Sorted as the results are; no timestamps. Appends to `out`. */
void tern_output_csv_text(struct tern_str *out, const struct tern_results *results);
enum tern_status tern_output_csv(const char *path, const struct tern_results *results, struct tern_error *err);

/* Reads such a file, of this version or another: columns are found by name in any order, and fields without a column are NAN,
 * 0 or "". missing (may be NULL): names of this version's columns that the file lacks. What identifies a problem (format, op,
 * layer, n, k, m) and us must be there; else, and for a damaged row, TERN_INTERNAL with the line. */
enum tern_status tern_csv_read(const char *path, struct tern_results *rows, struct tern_strs *missing,
                               struct tern_error *err);

#endif
