/* Ceilings of a device as a table for people and as JSON. Pure functions of rows. */
#ifndef TERN_OUTPUT_CEILINGS_H
#define TERN_OUTPUT_CEILINGS_H

#include "core/ceiling.h"

#include <stdio.h>

/* Whose ceilings they are. */
struct tern_output_device {
    const char *gpu, *name, *driver, *db;
};

/* At most 80 columns: cold reads with their bandwidth, copy and launches, rates cool and sustained. MiB are 2^20 bytes. */
void tern_output_ceilings(FILE *out, const struct tern_output_device *device, const struct tern_ceilings *ceilings);
/* {"gpu", "device", "driver", "db", "ceilings": [{"kind", "argument", "value", "unit", "sm_mhz", "samples_us"}]}. */
void tern_output_ceilings_json(FILE *out, const struct tern_output_device *device, const struct tern_ceilings *ceilings);

#endif
