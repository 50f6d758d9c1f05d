/* The least of normal variables that are correlated. */
#ifndef TERN_SPACE_JOINT_H
#define TERN_SPACE_JOINT_H

#include <stddef.h>
#include <stdint.h>

/* What the least of `n` variables falls below at chance `chance`, by sampling; the same for the same seed. covariance: n x n, row by
 * row, symmetric; where it is not quite positive definite the rest counts as independent of what went before. n > 0. */
double tern_joint_least(const double *mean, const double *covariance, size_t n, double chance, uint64_t seed);

#endif
