/* Statistics of samples: medians, intervals, stopping, and who is fastest. Pure functions of numbers; no clocks, no devices.
 */
#ifndef TERN_MEASURE_STATS_H
#define TERN_MEASURE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_stats {
    size_t n;
    double median, q1, q3, mad;
    double lo, hi;    /* 95 % order-statistics interval of the median (binomial; exact for any distribution) */
    double rel_noise; /* (hi - lo) / (2 * median) */
};

/* Rank r of the interval [x_(r), x_(n+1-r)]: the largest r with P(Binomial(n, 1/2) <= r - 1) <= 2.5 %; 1 for n < 6. */
size_t tern_stats_median_rank(size_t n);

/* Sorts a copy; n = 0 or a sample that is not finite gives NANs, n < 6 gives the range as interval. Quartiles interpolate
 * linearly; mad is the plain median of |x - median|. */
void tern_stats_compute(const double *samples, size_t n, struct tern_stats *stats);

/* True when sampling may stop: n >= min_samples and rel_noise < target (0.005 and 20 by default of callers). */
bool tern_stats_settled(const struct tern_stats *stats, size_t min_samples, double target);

/* Paired rounds: samples[c][r] of candidate c in round r. p_best[c] = share of `resamples` bootstrap resamples of the rounds
 * in which candidate c has the smallest median (ties split). Deterministic for a seed. */
void tern_stats_p_best(const double *const *samples, size_t candidates, size_t rounds, size_t resamples, uint64_t seed,
                       double *p_best);

/* Bootstrap 95 % interval of median(a)/median(b) over paired rounds. */
void tern_stats_ratio_interval(const double *a, const double *b, size_t rounds, size_t resamples, uint64_t seed,
                               double *ratio, double *lo, double *hi);

#endif
