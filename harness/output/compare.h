/* Comparison of two sets of results: problems paired, each pair judged by its intervals. Pure functions of result rows;
 * table, Markdown, JSON, data file and picture. */
#ifndef TERN_OUTPUT_COMPARE_H
#define TERN_OUTPUT_COMPARE_H

#include "core/error.h"
#include "core/result.h"
#include "core/str.h"

#include <stdio.h>

/* X(identifier, name, meaning): the first four are judged by time, MISSING and NEW by presence, the rest is not compared. */
#define TERN_COMPARE_VERDICTS(X)                                                                                            \
    X(SAME, "same", "the whole interval of the ratio lies within the noise")                                                \
    X(FASTER, "faster", "B is faster beyond the noise")                                                                     \
    X(SLOWER, "slower", "B is slower beyond the noise")                                                                     \
    X(AMBIGUOUS, "ambiguous", "the interval reaches over the noise, or is not known")                                       \
    X(MISSING, "missing", "measured in A, no measured winner in B")                                                         \
    X(NEW, "new", "no measured winner in A")                                                                                \
    X(OTHER_POLICY, "other policy", "timed under different policies")                                                       \
    X(OTHER_DEVICE, "other device", "timed on different devices")

enum tern_compare_verdict {
#define X(id, name, meaning) TERN_COMPARE_##id,
    TERN_COMPARE_VERDICTS(X)
#undef X
        TERN_COMPARE_VERDICT_COUNT
};
const char *tern_compare_verdict_name(enum tern_compare_verdict verdict);

struct tern_compare_row {
    const struct tern_result *a, *b; /* point into the results; either may be NULL, never both */
    enum tern_compare_verdict verdict;
    double ratio, lo, hi; /* time of B over A and the ends of its 95 % interval; NAN where not compared */
    double noise;         /* a share: ratios from 1/(1 + noise) to 1 + noise count as no difference */
};

struct tern_compare {
    char a[160], b[160]; /* what the sides are called */
    struct tern_compare_row *rows;
    size_t count, counts[TERN_COMPARE_VERDICT_COUNT];
    double mean_ratio;      /* geometric mean of what was compared; NAN if nothing was */
    struct tern_strs notes; /* whole sentences: what holds for all rows, what could not be compared and why */
};

/* The noise of a problem, from its two rows: what two runs of the same kernel may differ by. */
typedef double tern_compare_noise(void *user, const struct tern_result *a, const struct tern_result *b);

/* Pairs by op, format, layer, N, K, M, by model where both sides name it, and by GPU before anything else. The two medians
 * are independent: the half widths of their intervals are added in quadrature, on a logarithmic scale. The results must
 * outlive `out`, whose names and notes are kept; adds the notes that the rows themselves call for. */
void tern_compare(const struct tern_results *a, const struct tern_results *b, tern_compare_noise *noise, void *user,
                  struct tern_compare *out);
void tern_compare_free(struct tern_compare *c);

/* Rows that were judged by time. */
size_t tern_compare_judged(const struct tern_compare *c);
/* Rows that must fail a gate: slower or missing. */
size_t tern_compare_failed(const struct tern_compare *c);

/* At most 80 columns. changed_only leaves out what is the same or new. */
void tern_compare_table(FILE *out, const struct tern_compare *c, bool changed_only);
/* docs/measuring.md has the keys. */
void tern_compare_json(FILE *out, const struct tern_compare *c);
/* Writes DIR/data/compare.tsv, DIR/compare.md and a picture of each model, DIR/compare-MODEL.{svg,png}. Without gnuplot the
 * text is still written and TERN_MISSING is returned. */
enum tern_status tern_compare_write(const char *dir, const struct tern_compare *c, struct tern_error *err);

#endif
