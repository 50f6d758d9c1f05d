/* Time: CLOCK_MONOTONIC for durations and deadlines, UTC text for the database. */
#include "core/clock.h"

#include <time.h>

int64_t tern_clock_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void tern_clock_utc(char out[24]) {
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(out, 24, "%Y-%m-%dT%H:%M:%SZ", &utc);
}
