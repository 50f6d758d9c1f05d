/* Ceilings: what a device can do at best, measured by us. Plain rows that device code fills, the store keeps and output
 * prints; what follows from them for limits is in config/ceilings.h.
 *
 * kind                argument                    value
 * read                bytes                       us of a cold read inside a graph
 * copy                bytes                       GB/s (1e9) of a copy on the device, bytes read and written both counted
 * launch              blocks                      us of an empty kernel as a node of a graph
 * sample              0                           us that a sample holds beside its nodes: events and start of the graph
 * INST-TYPE/cool      seconds of a burst          TFLOPS or TOPS; INST: mma, wgmma; TYPE: f16, bf16, s8, e4m3
 * INST-TYPE/sustained seconds of load before      the same after that load
 */
#ifndef TERN_CORE_CEILING_H
#define TERN_CORE_CEILING_H

#include <stddef.h>

#define TERN_MAX_CEILINGS        48
#define TERN_MAX_CEILING_SAMPLES 32

struct tern_ceiling {
    char kind[24], unit[12]; /* "us", "GB/s", "TFLOPS", "TOPS" */
    double argument, value;
    int sm_mhz; /* right after, 0 if unknown */
    size_t sample_count;
    double samples_us[TERN_MAX_CEILING_SAMPLES]; /* of one node, copy or burst; value is their median or follows from it */
};

struct tern_ceilings {
    struct tern_ceiling rows[TERN_MAX_CEILINGS];
    size_t count;
};

/* A new row to be filled, zeroed but for kind, argument and unit; NULL when all are taken. */
struct tern_ceiling *tern_ceilings_add(struct tern_ceilings *c, const char *kind, double argument, const char *unit);
/* The first row of a kind, or NULL. */
const struct tern_ceiling *tern_ceilings_find(const struct tern_ceilings *c, const char *kind);

#endif
