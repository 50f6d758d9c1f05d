/* Time: CLOCK_MONOTONIC in nanoseconds for durations and deadlines. */
#ifndef TERN_CORE_CLOCK_H
#define TERN_CORE_CLOCK_H

#include <stdint.h>

int64_t tern_clock_now_ns(void);
/* UTC "2026-01-31T12:00:00Z", for the database only; never in committed output. */
void tern_clock_utc(char out[24]);

#endif
