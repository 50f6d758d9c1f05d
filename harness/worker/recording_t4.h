/* Recordings as T4 auto-tuning results, the JSON that tuners exchange (docs/t4.md), and back. A result is a line of a recording:
 * a check, a screen or a final; what T4 has no word for stands under the key "tern", which its schema allows. */
#ifndef TERN_WORKER_RECORDING_T4_H
#define TERN_WORKER_RECORDING_T4_H

#include "core/error.h"
#include "core/outcome.h"
#include "core/str.h"

#include <jansson.h>
#include <stdbool.h>

/* T4's class of an outcome; NULL for running and planned, which are no results. */
const char *tern_t4_invalidity(enum tern_outcome outcome);

/* Results being written. */
struct tern_t4_writer {
    json_t *device;          /* line of a recording */
    struct tern_str results; /* one a line */
    json_t *rest;            /* lines that are no results: baselines, and checks that passed */
};

/* Adds a line of a recording, the device line first; takes the reference. timestamp "" and compile_seconds NAN: not known. */
void tern_t4_add(struct tern_t4_writer *w, json_t *line, const char *timestamp, double compile_seconds);
/* Replaces `path` atomically. The same lines give the same bytes. */
enum tern_status tern_t4_write(const struct tern_t4_writer *w, const char *path, struct tern_error *err);
void tern_t4_writer_free(struct tern_t4_writer *w);

/* True if a JSON document is T4 results. */
bool tern_t4_is(const json_t *document);
/* Lines of a recording, the device line first; the caller decrefs *lines. Results of other tuners are read if they name our
 * problem and candidate in their configuration; else TERN_INTERNAL says what cannot be mapped, naming `path`. */
enum tern_status tern_t4_lines(const char *path, const json_t *document, json_t **lines, struct tern_error *err);

#endif
