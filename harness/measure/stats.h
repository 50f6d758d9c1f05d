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

/* Paired rounds: samples[c][r] of candidate c in round r. Over `resamples` bootstrap resamples of the rounds, p_best[c] = share
 * in which candidate c has the smallest median (ties split), and regret[c] = the 95th percentile of how much larger its median
 * is than the smallest, as a share of that. Deterministic for a seed. */
void tern_stats_p_best(const double *const *samples, size_t candidates, size_t rounds, size_t resamples, uint64_t seed,
                       double *p_best, double *regret);

/* Sign test over paired rounds: true if a took more than (1 + margin) times b's time in so many of them that chance alone gives
 * that in less than one case in a thousand (10 of 10, 13 of 14, 18 of 20). */
bool tern_stats_slower(const double *a, const double *b, size_t rounds, double margin);

/* Bootstrap 95 % interval of median(a)/median(b) over paired rounds. */
void tern_stats_ratio_interval(const double *a, const double *b, size_t rounds, size_t resamples, uint64_t seed,
                               double *ratio, double *lo, double *hi);

#endif
