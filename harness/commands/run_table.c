/* --between and --elsewhere: what is missing when all sizes are tuned. Every kernel of the table is screened at every size of a layer that it
 * can serve, with --elsewhere what came close to winning at every layer too, so that an export foretells from times which of them serves the
 * sizes between, and other layers (export_steps.c). Winners stay as they are. */
#include "commands/run_internal.h"

#include "core/log.h"
#include "core/str.h"

#include <stdlib.h>

struct gaps {
    bool *open;     /* of each problem: kernels were offered to it that it has not tried */
    size_t *builds; /* of those kernels, each once */
    size_t build_count, trials;
};

static enum tern_status offer_all(struct run *run, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < run->problem_count && status == TERN_OK; i++)
        if (run->problems[i].done)
            status = tern_run_offer_winners(run, &run->problems[i], err);
    return status;
}

static void find_gaps(const struct run *run, struct gaps *gaps) {
    bool *listed = tern_alloc_zero(run->build_count + 1, sizeof *listed);
    gaps->open = tern_alloc_zero(run->problem_count + 1, sizeof *gaps->open);
    gaps->builds = tern_alloc((run->build_count + 1) * sizeof *gaps->builds);
    for (size_t i = 0; i < run->problem_count; i++)
        for (size_t e = 0; run->problems[i].done && e < run->problems[i].entry_count; e++) {
            const struct run_entry *entry = &run->problems[i].entries[e];
            if (!entry->offered || entry->outcome != TERN_OUTCOME_RUNNING)
                continue;
            gaps->open[i] = true;
            gaps->trials++;
            if (!listed[entry->build])
                gaps->builds[gaps->build_count++] = entry->build;
            listed[entry->build] = true;
        }
    free(listed);
}

static enum tern_status screen_offered(struct run *run, struct run_problem *p, double share_s, struct tern_error *err) {
    enum tern_status status = tern_run_screen(run, p, share_s, true, err);
    p->done = status == TERN_OK;
    return status;
}

/* The devices take problems that are not done. */
static enum tern_status fill_gaps(struct run *run, const struct gaps *gaps, struct tern_error *err) {
    tern_log_note("%zu trials of the table's kernels where they did not take part", gaps->trials);
    enum tern_status status = tern_run_compile(run, gaps->builds, gaps->build_count, 0, err);
    if (status != TERN_OK)
        return status;
    for (size_t i = 0; i < run->problem_count; i++)
        if (gaps->open[i]) {
            run->problems[i].done = false;
            run->problems[i].gpu = NULL;
        }
    status = tern_run_share(run, screen_offered, 1, err);
    for (size_t i = 0; i < run->problem_count; i++)
        run->problems[i].done = run->problems[i].done || gaps->open[i];
    return status;
}

enum tern_status tern_run_table(struct run *run, struct tern_error *err) {
    struct gaps gaps = {0};
    enum tern_status status = offer_all(run, err);
    if (status == TERN_OK && run->options.elsewhere)
        status = tern_run_offer_elsewhere(run, err);
    if (status != TERN_OK)
        return status;
    find_gaps(run, &gaps);
    if (gaps.trials > 0)
        status = fill_gaps(run, &gaps, err);
    free(gaps.open);
    free(gaps.builds);
    return status;
}
