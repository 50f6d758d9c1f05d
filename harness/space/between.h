/* Sizes between tuned M: the steps that are worth telling apart, and which of them are worth tuning too. Pure logic. */
#ifndef TERN_SPACE_BETWEEN_H
#define TERN_SPACE_BETWEEN_H

#include <stddef.h>
#include <stdint.h>

/* The next size above m at which a kernel made for it may differ from the one made for m: a sixteenth of an octave, but no less than what
 * tiles of tensor cores can follow, 16 rows. */
int64_t tern_between_step(int64_t m);

/* A tuned M of one layer and the time of its winner. */
struct tern_between_point {
    int64_t m;
    double us;
};

/* What the table is expected to take at m, which is not tuned, in microseconds; INFINITY where it knows nothing. */
typedef double tern_between_answer(void *user, int64_t m);

/* The fewest steps to tune between the points (ascending in M), so that no answer in between is expected to take more than `ratio` (> 1)
 * times as long as a kernel made for that size would: the line between its neighbours' times. Fills sizes, ascending, at most `most`
 * of them; returns how many. */
size_t tern_between_choose(const struct tern_between_point *points, size_t count, double ratio, tern_between_answer *answer,
                           void *user, int64_t *sizes, size_t most);

#endif
