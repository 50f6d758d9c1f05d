/* Times of all candidates on the tuned problems, from the database's trials: for minimal kernel sets (`tune export
 * --max-slowdown`) and for the held-out evaluation of the selection. */
#ifndef TERN_COMMANDS_EXPORT_TIMES_H
#define TERN_COMMANDS_EXPORT_TIMES_H

#include "commands/dispatch.h"
#include "commands/export_rules.h"

struct tern_times; /* one list of (candidate, stage, policy, us) a row */

/* Reads the trials of every row's problem on devices of that gpu name; gpu must outlive them. The caller frees with tern_times_free. */
enum tern_status tern_times_load(const char *db, const struct tern_gpu *gpu, const struct tern_results *rows,
                                 struct tern_times **times, struct tern_error *err);
/* The times of the winners alone, each on its own problem: all that a release's text has. */
struct tern_times *tern_times_of_rows(const struct tern_results *rows);
void tern_times_free(struct tern_times *times);

/* Appends a row for each kernel that lost the final of a row's problem by 4 % at most, if it reads the same packed weights and its template is
 * today's: kernels for shapes that nobody tuned. To be called once. */
void tern_times_runners_up(const struct tern_times *times, struct tern_results *rows);

/* What the kernel's template says of its busiest block (docs/adding-a-kernel.md): "" where it says nothing, or where today's template is
 * not the one that was measured. */
const char *tern_times_busiest(const struct tern_times *times, const struct tern_result *kernel);
/* What its template says of sizes; NULL where today's template is not the one that was measured. The caller frees with tern_rules_free. */
struct tern_rules *tern_times_rules(const struct tern_times *times, const struct tern_result *kernel);

/* The newest time of a row's kernel on the problem of rows[problem], on weights and by launches like that row's, from finals, else from
 * screens; NAN if it was not tried. */
double tern_times_us(const struct tern_times *times, const struct tern_results *rows, size_t problem,
                     const struct tern_result *kernel);
/* Its time over the fastest candidate's that ran right there, less 1, both from the final if it was in that, else from screens. A kernel that was never tried there
 * (its template calls it senseless for so few rows) is judged by its time at `tuned`, a problem of the same (N, K) with more
 * rows: *bounded, the regret is no larger than that. NAN if that is not known either. */
double tern_times_regret(const struct tern_times *times, const struct tern_results *rows, size_t problem, size_t tuned,
                         bool *bounded);

/* The fewest kernels (greedy: most problems first) such that every row has one within max_slowdown of its winner, among the
 * winners of its op, format and layout. Fills stand_ins[rows->count]. */
void tern_times_cover(const struct tern_times *times, const struct tern_results *rows, double max_slowdown,
                      struct tern_export_stand_in *stand_ins);

/* export_steps.c: what the kernels of a table are expected to take on one (op, format, N, K) of it, at any M. */
struct tern_outlook;
/* stand_ins may be NULL. All that is given must outlive it; the caller frees with tern_outlook_free. */
struct tern_outlook *tern_outlook_open(const struct tern_times *times, const struct tern_selection_table *table,
                                       const struct tern_selection_group *group,
                                       const struct tern_export_stand_in *stand_ins,
                                       const struct tern_dispatch_limits *limits);
void tern_outlook_free(struct tern_outlook *o);
/* The kernel that is expected to be the fastest at m of those that read this layout; NULL, and INFINITY, where nothing is known. */
const struct tern_result *tern_outlook_best(const struct tern_outlook *o, const char *layout, int64_t m, double *us);

/* Of each row the steps by M from the row below it in its group, and those by N for near shapes: the caller sets them in the table and frees
 * them. stand_ins may be NULL. */
struct tern_selection_stairs *tern_times_stairs(const struct tern_times *times, const struct tern_selection_table *table,
                                                const struct tern_export_stand_in *stand_ins,
                                                const struct tern_dispatch_limits *limits);
void tern_times_stairs_free(struct tern_selection_stairs *stairs, size_t count);

/* Leaves out the batch sizes of a comma-separated list together ("all": each tuned one in turn), then each (N, K) in turn, and
 * asks the selection for what was left out. Fills regrets: by M, and by shape where the nearest was near, or far. TERN_USAGE: a bad list, or one that leaves out nothing. */
enum tern_status tern_times_held_out(const struct tern_times *times, const struct tern_results *rows, const char *list,
                                     struct tern_dispatch_limits *limits,
                                     struct tern_export_regret regrets[TERN_EXPORT_REGRETS], struct tern_error *err);

#endif
