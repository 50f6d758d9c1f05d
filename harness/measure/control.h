/* Control times: whether devices of one model are alike enough that one table may hold what was measured on each of them.
 * Pure functions of numbers. */
#ifndef TERN_MEASURE_CONTROL_H
#define TERN_MEASURE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

/* Winners' medians repeat within 2 % on one device; a device that differs by more would show in the table. */
#define TERN_CONTROL_TOLERANCE 0.02

/* Medians of one device, in microseconds (device/ceilings.h). */
struct tern_control {
    double read_us;  /* cold read: memory */
    double burst_us; /* matrix burst: clock of the multiprocessors; 0: none before compute capability 8.0 */
};

/* Chooses the largest group of devices in which no figure differs from that of one of them by more than `tolerance`; of
 * groups of one size the one around the faster device (product of both times). keep[i]: device i is in it. Figures that
 * are no times agree with nothing. Returns the size of the group, 0 if no device has times. */
size_t tern_control_choose(const struct tern_control *devices, size_t count, double tolerance, bool *keep);

#endif
