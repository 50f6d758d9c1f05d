/* Statistics of samples: medians, order-statistics intervals, and bootstrap answers to who is fastest.
 * Pure functions of numbers: no clocks, no devices, and the same answer for the same seed on every machine.
 * A sample that is not finite makes every result NaN, so that no comparison built on it passes. */
#include "measure/stats.h"

#include "core/random.h"
#include "core/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool all_finite(const double *samples, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(samples[i]))
            return false;
    return true;
}

/* Quantile of sorted samples by linear interpolation between order statistics (type 7 of Hyndman and Fan 1996). */
static double quantile(const double *sorted, size_t n, double q) {
    double position = q * (double)(n - 1);
    size_t below = (size_t)position;
    if (below + 1 >= n)
        return sorted[n - 1];
    return sorted[below] + (position - (double)below) * (sorted[below + 1] - sorted[below]);
}

size_t tern_stats_median_rank(size_t n) {
    if (n < 6)
        return n > 0; /* no pair of ranks reaches 95 %: the range is all there is */
    /* B ~ Binomial(n, 1/2). Start in the middle, where P(B <= r) is known by symmetry, and step down. */
    size_t r = (n - 1) / 2;
    double pmf = exp(lgamma((double)n + 1) - lgamma((double)r + 1) - lgamma((double)(n - r) + 1) - (double)n * log(2.0));
    double cumulative = 0.5; /* P(B <= r): exactly 1/2 for odd n */
    if (n % 2 == 0)          /* P(B <= n/2 - 1) = (1 - P(B = n/2)) / 2, P(B = n/2) = pmf * (n - r) / (r + 1) */
        cumulative = 0.5 * (1.0 - pmf * (double)(n - r) / (double)(r + 1));
    while (r > 0 && cumulative > 0.025) {
        cumulative -= pmf;
        pmf *= (double)r / (double)(n - r + 1);
        r--;
    }
    return r + 1;
}

void tern_stats_compute(const double *samples, size_t n, struct tern_stats *stats) {
    *stats = (struct tern_stats){n, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    if (n == 0 || !all_finite(samples, n))
        return;
    double *sorted = tern_alloc(n * sizeof *sorted);
    memcpy(sorted, samples, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_doubles);
    size_t rank = tern_stats_median_rank(n); /* from 1 */
    stats->median = quantile(sorted, n, 0.5);
    stats->q1 = quantile(sorted, n, 0.25);
    stats->q3 = quantile(sorted, n, 0.75);
    stats->lo = sorted[rank - 1];
    stats->hi = sorted[n - rank];
    stats->rel_noise = (stats->hi - stats->lo) / (2.0 * stats->median);
    for (size_t i = 0; i < n; i++)
        sorted[i] = fabs(samples[i] - stats->median);
    qsort(sorted, n, sizeof *sorted, compare_doubles);
    stats->mad = quantile(sorted, n, 0.5);
    free(sorted);
}

bool tern_stats_settled(const struct tern_stats *stats, size_t min_samples, double target) {
    return stats->n > 0 && stats->n >= min_samples && stats->rel_noise >= 0 && stats->rel_noise < target;
}

/* One candidate's samples sorted once; a resample is then a walk over its rounds in order, not another sort. */
struct tern_ranked {
    double value;
    size_t round;
};

static int compare_ranked(const void *a, const void *b) {
    const struct tern_ranked *x = a, *y = b;
    if (x->value != y->value)
        return (x->value > y->value) - (x->value < y->value);
    return (x->round > y->round) - (x->round < y->round);
}

/* Samples that are not finite rank last, as infinite: such a candidate cannot be best. */
static struct tern_ranked *rank_samples(const double *samples, size_t rounds) {
    struct tern_ranked *ranked = tern_alloc((rounds ? rounds : 1) * sizeof *ranked);
    for (size_t i = 0; i < rounds; i++)
        ranked[i] = (struct tern_ranked){isfinite(samples[i]) ? samples[i] : INFINITY, i};
    qsort(ranked, rounds, sizeof *ranked, compare_ranked);
    return ranked;
}

/* Median of the resample in which round r occurs counts[r] times; the counts add up to `rounds`. */
static double resampled_median(const struct tern_ranked *ranked, const size_t *counts, size_t rounds) {
    size_t seen = 0, low_at = (rounds - 1) / 2, high_at = rounds / 2, i = 0;
    for (; i < rounds; i++) {
        seen += counts[ranked[i].round];
        if (seen > low_at)
            break;
    }
    double low = ranked[i].value;
    while (seen <= high_at)
        seen += counts[ranked[++i].round];
    return low == ranked[i].value ? low : 0.5 * (low + ranked[i].value);
}

/* One bootstrap resample: how often each round was drawn. Rounds, not samples, so that pairs stay together. */
static void draw_rounds(struct tern_random *random, size_t *counts, size_t rounds) {
    memset(counts, 0, rounds * sizeof *counts);
    for (size_t i = 0; i < rounds; i++)
        counts[tern_random_below(random, rounds)]++;
}

/* Gives one resample's point to the candidates with the smallest finite median. */
static void share_win(const double *medians, size_t candidates, double *wins) {
    double best = INFINITY;
    size_t tied = 0;
    for (size_t c = 0; c < candidates; c++)
        best = medians[c] < best ? medians[c] : best;
    for (size_t c = 0; c < candidates; c++)
        tied += isfinite(medians[c]) && medians[c] == best;
    for (size_t c = 0; c < candidates; c++)
        if (isfinite(medians[c]) && medians[c] == best)
            wins[c] += 1.0 / (double)tied;
}

/* Each candidate's share above the smallest median of one resample; infinite where it has none. */
static void note_regrets(const double *medians, size_t candidates, double *regrets, size_t stride) {
    double best = INFINITY;
    for (size_t c = 0; c < candidates; c++)
        best = medians[c] < best ? medians[c] : best;
    for (size_t c = 0; c < candidates; c++)
        regrets[c * stride] = isfinite(medians[c]) ? medians[c] / best - 1 : INFINITY;
}

bool tern_stats_slower(const double *a, const double *b, size_t rounds, double margin) {
    size_t slower = 0;
    double tail = 0;
    for (size_t r = 0; r < rounds; r++)
        slower += a[r] > (1 + margin) * b[r];
    for (size_t k = slower; k <= rounds; k++)
        tail += exp(lgamma((double)rounds + 1) - lgamma((double)k + 1) - lgamma((double)(rounds - k) + 1) -
                    (double)rounds * log(2.0));
    return tail < 1e-3;
}

void tern_stats_p_best(const double *const *samples, size_t candidates, size_t rounds, size_t resamples, uint64_t seed,
                       double *p_best, double *regret) {
    for (size_t c = 0; c < candidates; c++) {
        p_best[c] = rounds && resamples ? 0.0 : NAN;
        regret[c] = NAN;
    }
    if (candidates == 0 || rounds == 0 || resamples == 0)
        return;
    struct tern_random random;
    struct tern_ranked **ranked = tern_alloc(candidates * sizeof *ranked);
    size_t *counts = tern_alloc(rounds * sizeof *counts);
    double *medians = tern_alloc(candidates * sizeof *medians);
    double *regrets = tern_alloc(candidates * resamples * sizeof *regrets); /* by candidate */
    tern_random_init(&random, seed, "stats-p-best");
    for (size_t c = 0; c < candidates; c++)
        ranked[c] = rank_samples(samples[c], rounds);
    for (size_t s = 0; s < resamples; s++) {
        draw_rounds(&random, counts, rounds);
        for (size_t c = 0; c < candidates; c++)
            medians[c] = resampled_median(ranked[c], counts, rounds);
        share_win(medians, candidates, p_best);
        note_regrets(medians, candidates, regrets + s, resamples);
    }
    for (size_t c = 0; c < candidates; c++) {
        p_best[c] /= (double)resamples;
        qsort(regrets + c * resamples, resamples, sizeof *regrets, compare_doubles);
        regret[c] = quantile(regrets + c * resamples, resamples, 0.95);
        free(ranked[c]);
    }
    free(ranked);
    free(counts);
    free(medians);
    free(regrets);
}

void tern_stats_ratio_interval(const double *a, const double *b, size_t rounds, size_t resamples, uint64_t seed,
                               double *ratio, double *lo, double *hi) {
    *ratio = *lo = *hi = NAN;
    if (rounds == 0 || resamples == 0 || !all_finite(a, rounds) || !all_finite(b, rounds))
        return;
    struct tern_random random;
    struct tern_ranked *ranked_a = rank_samples(a, rounds), *ranked_b = rank_samples(b, rounds);
    size_t *counts = tern_alloc(rounds * sizeof *counts);
    double *ratios = tern_alloc(resamples * sizeof *ratios);
    tern_random_init(&random, seed, "stats-ratio");
    for (size_t r = 0; r < rounds; r++)
        counts[r] = 1;
    *ratio = resampled_median(ranked_a, counts, rounds) / resampled_median(ranked_b, counts, rounds);
    for (size_t s = 0; s < resamples; s++) {
        draw_rounds(&random, counts, rounds);
        ratios[s] = resampled_median(ranked_a, counts, rounds) / resampled_median(ranked_b, counts, rounds);
    }
    if (all_finite(ratios, resamples)) { /* a median of 0 in b gives no interval */
        qsort(ratios, resamples, sizeof *ratios, compare_doubles);
        *lo = quantile(ratios, resamples, 0.025);
        *hi = quantile(ratios, resamples, 0.975);
    }
    free(ranked_a);
    free(ranked_b);
    free(counts);
    free(ratios);
}
