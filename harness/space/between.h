/* Sizes between tuned M that are worth tuning too. Pure logic: times in, sizes out. */
#ifndef TERN_SPACE_BETWEEN_H
#define TERN_SPACE_BETWEEN_H

#include <stddef.h>
#include <stdint.h>

/* A tuned M of one layer and the kernel that won there. */
struct tern_between_point {
    int64_t m, tile; /* tile: rows of x that the kernel takes at a time; its time goes with their number */
    int64_t most;    /* largest M that it serves */
    double us;
};

/* The fewest sizes to tune between the points (ascending in M), so that no answer in between is expected to take more than `ratio`
 * (> 1) times as long as a kernel made for that size would. Fills sizes, ascending, at most `most` of them; returns how many.
 *
 * What an answer is expected to take at M: the time of the next larger point, or that of a smaller one times the tiles that M has
 * over those that it had, whichever is less. What a kernel made for M would take: the line between its neighbours' times, at M
 * rounded up to what tiles allow: eighths of an octave, 16 rows at least. */
size_t tern_between_choose(const struct tern_between_point *points, size_t count, double ratio, int64_t *sizes, size_t most);

#endif
