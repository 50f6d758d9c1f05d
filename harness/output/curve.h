/* Curves of searches: how fast each problem's best candidate was found, over the seconds that the GPU worked for it. Pure functions of
 * trials; table, JSON, data file and pictures. */
#ifndef TERN_OUTPUT_CURVE_H
#define TERN_OUTPUT_CURVE_H

#include "core/error.h"
#include "core/result.h"

#include <stdbool.h>
#include <stdio.h>

/* One trial, in the order in which they ran. */
struct tern_curve_trial {
    int64_t build;      /* candidates are told apart by it */
    bool ok, final;     /* right and timed; in a final */
    double us;          /* NAN: none */
    double gpu_seconds; /* NAN: not known */
    char template_name[40], params[256];
};

/* The best so far gets better here. */
struct tern_curve_point {
    size_t trial;       /* how many had run, this one included */
    double gpu_seconds; /* since the search began, at the end of the trial; trials that do not know count nothing */
    double us;
    const char *template_name, *params; /* of the trial */
};

struct tern_curve {
    struct tern_result problem; /* gpu, shapes, layer, format, op, m, n, k */
    struct tern_curve_trial *trials;
    size_t trial_count, trial_capacity;
    struct tern_curve_point *points;
    size_t point_count;
    size_t tried, right; /* candidates */
    size_t unknown;      /* trials that do not know their GPU seconds */
    double gpu_seconds;  /* of all trials; NAN if none knows */
};

struct tern_curves {
    struct tern_curve *list; /* in the order of sorted results */
    size_t count;
};

void tern_curve_add(struct tern_curve *s, const struct tern_curve_trial *trial); /* copies */
/* Fills points and sums from the trials. A candidate is worth the time of its newest final; one that was in no final is worth
 * its screening time, but not more than the best final: the fastest of many noisy screens is a biased pick. */
void tern_curve_finish(struct tern_curve *s);
/* GPU seconds until the best so far was within `share` (0.05: 5 %) of the best; NAN if unknown. */
double tern_curve_until(const struct tern_curve *s, double share);
void tern_curves_free(struct tern_curves *all);

/* At most 80 columns, blocks as in tern_output_table. */
void tern_curve_table(FILE *out, const struct tern_curves *all);
/* docs/measuring.md has the keys. */
void tern_curve_json(FILE *out, const char *db, const struct tern_curves *all);
/* Writes DIR/data/MODEL-search.tsv and a picture of each model and format, DIR/MODEL-search-FORMAT.{svg,png}. Without gnuplot
 * the data is still written and TERN_MISSING is returned. The searches are of one GPU. */
enum tern_status tern_curve_write(const char *dir, const struct tern_curves *all, struct tern_error *err);

#endif
