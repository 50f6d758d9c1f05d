/* Times of all candidates on the tuned problems, from the database's trials: for minimal kernel sets (`tune export
 * --max-slowdown`) and for the held-out evaluation of the selection. */
#ifndef TERN_COMMANDS_EXPORT_TIMES_H
#define TERN_COMMANDS_EXPORT_TIMES_H

#include "output/export.h"

struct tern_times; /* one list of (candidate, stage, policy, us) a row */

/* Reads the trials of every row's problem on devices of that gpu name. The caller frees with tern_times_free. */
enum tern_status tern_times_load(const char *db, const char *gpu, const struct tern_results *rows, struct tern_times **times,
                                 struct tern_error *err);
void tern_times_free(struct tern_times *times);

/* On the problem of rows[problem]: time of the kernel of row a over that of row b, both from finals, else both from
 * screens; NAN if no stage has both. */
double tern_times_ratio(const struct tern_times *times, size_t problem, const struct tern_result *a,
                        const struct tern_result *b);
/* Its time over the fastest candidate's that ran right there, less 1, both from screens. A kernel that was never tried there
 * (its template calls it senseless for so few rows) is judged by its time at `tuned`, a problem of the same (N, K) with more
 * rows: *bounded, the regret is no larger than that. NAN if that is not known either. */
double tern_times_regret(const struct tern_times *times, const struct tern_results *rows, size_t problem, size_t tuned,
                         bool *bounded);

/* The fewest kernels (greedy: most problems first) such that every row has one within max_slowdown of its winner, among the
 * winners of its op, format and layout. Fills stand_ins[rows->count]. */
void tern_times_cover(const struct tern_times *times, const struct tern_results *rows, double max_slowdown,
                      struct tern_export_stand_in *stand_ins);

/* For each row that has a next smaller M in its group: the kernel with the smallest product of times at both, among those that
 * serve some row and that ran at both; NULL where there is none, or where the row's own winner, never tried at the smaller M,
 * takes no longer than that by its time at the larger. Fills below[rows->count]; stand_ins may be NULL. */
void tern_times_between(const struct tern_times *times, const struct tern_selection_table *table,
                        const struct tern_export_stand_in *stand_ins, const struct tern_result **below);

/* Leaves out the batch sizes of a comma-separated list together ("all": each tuned one in turn), then each (N, K) in turn, and
 * asks the selection for what was left out. Fills regrets: by M, and by shape where the nearest was near, or far. TERN_USAGE: a bad list, or one that leaves out nothing. */
enum tern_status tern_times_held_out(const struct tern_times *times, const struct tern_results *rows, const char *list,
                                     tern_selection_fits *fits, void *user,
                                     struct tern_export_regret regrets[TERN_EXPORT_REGRETS], struct tern_error *err);

#endif
