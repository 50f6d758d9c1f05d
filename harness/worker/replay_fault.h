/* Faults on purpose in a replay worker: each failure that a GPU worker can show, at a chosen request. For tests of the run.
 * A specification is KIND@[dN:]WHEN[,...]; WHEN counts the trial requests of a device in the whole run from 1, fN is
 * its Nth final, 0 the hello of every worker, * every trial; dN: on device N only. */
#ifndef TERN_WORKER_REPLAY_FAULT_H
#define TERN_WORKER_REPLAY_FAULT_H

#include "core/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define TERN_MAX_FAULTS 16
#define TERN_FAULT_EACH (-1) /* WHEN of *, and any device */

struct tern_faults {
    struct {
        int kind; /* index in the table of kinds */
        int64_t device, when;
        bool final; /* `when` counts finals */
    } items[TERN_MAX_FAULTS];
    size_t count;
    int64_t device;        /* this worker's */
    int64_t asked, finals; /* trials and finals so far; those of earlier workers of the device included */
};

/* TERN_USAGE with the offending part; spec NULL or "": no faults. */
enum tern_status tern_faults_parse(const char *spec, struct tern_faults *f, struct tern_error *err);

/* Before a request is answered: counts it, and acts if its turn has come. Some kinds do not return; NULL: answer as
 * recorded; else the answer to give instead (new reference). */
json_t *tern_faults_act(struct tern_faults *f, const json_t *request);

/* True if this device's control times are to differ from those of the others. */
bool tern_faults_unlike(const struct tern_faults *f);

#endif
