/* The line that long work shows while it goes on: how much is done, what came out, how long it will take. */
#ifndef TERN_OUTPUT_PROGRESS_H
#define TERN_OUTPUT_PROGRESS_H

#include "core/outcome.h"

#include <stddef.h>
#include <stdint.h>

#define TERN_PROGRESS_SIZE 80 /* 79 columns and NUL: a terminal of 80 does not wrap */

struct tern_progress {
    const char *what;        /* "compile", "ternary-g128 qkv M=16" */
    size_t done, total;      /* of the whole work */
    size_t before;           /* of done: what was so before it began, and took none of elapsed_s */
    double elapsed_s;        /* since it began */
    const int64_t *outcomes; /* counts by enum tern_outcome, NULL: none */
    double best_us;          /* of what it is at; NAN or infinite: none */
    int sm_mhz;              /* clock of the GPU; 0: none */
};

/* "[####......] 34/112 ternary-g128 qkv M=16  6.93 us  2m10s left  412. 3w  1980 MHz": what does not fit is left out, from the
 * end. Outcomes go by their letters (core/outcome.h), '.' is ok. */
void tern_progress_line(const struct tern_progress *p, char out[TERN_PROGRESS_SIZE]);

#endif
