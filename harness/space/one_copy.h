/* One copy of the weights: an engine keeps one packed copy of a layer, so all its kernels must read the same layout.
 * Chooses the layouts of one (format, N, K) from the best time of each layout at each M. Pure arithmetic. */
#ifndef TERN_SPACE_ONE_COPY_H
#define TERN_SPACE_ONE_COPY_H

#include <stdbool.h>
#include <stddef.h>

#define TERN_MAX_LAYOUTS 16

/* us[l*ms + m]: best time of layout l at M number m, NAN or INFINITY where it has none. weight[m]: share of that M in the
 * model's time. Sets chosen[l] for at most `copies` (1 or 2) layouts so that sum of weight * (best chosen / best of all) is
 * least; an M that the chosen cannot serve counts as a slow-down of 1000. Returns that sum / sum of weights (1 = nothing
 * lost), INFINITY if nothing is timed. */
double tern_one_copy_choose(const double *us, size_t layouts, size_t ms, const double *weight, int copies, bool *chosen);

#endif
