/* What measuring a release again and exporting it share: the steps of `tune run` on its rows, each problem with its released candidate
 * alone. */
#ifndef TERN_COMMANDS_RELEASE_RUNS_H
#define TERN_COMMANDS_RELEASE_RUNS_H

#include "commands/run_internal.h"

struct tern_release_runs {
    const char *dir; /* of the release, for errors */
    struct run_options
        options; /* gpu, cache, device, ...; shapes: of rows that do not name their model. What the rows say is filled in */
    /* Behind tern_run_candidates: does the work and adds rows to *out. part: the rows of this run. */
    enum tern_status (*work)(struct run *run, const struct tern_results *part, struct tern_results *out,
                             struct tern_error *err);
};
/* Rows of one model and op after the other, as `rows` (sorted) has them: a run has one of each. */
enum tern_status tern_release_run(const struct tern_release_runs *runs, const struct tern_results *rows,
                                  struct tern_results *out, struct tern_error *err);

#endif
