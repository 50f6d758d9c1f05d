/* Recorded runs: what a GPU worker once answered, kept as JSON lines in one zstd frame (plain lines are read too, and T4 results:
 * recording_t4.h).
 * `tune record` writes them, the replay worker reads them. The lines are described in docs/replay.md. */
#ifndef TERN_WORKER_RECORDING_H
#define TERN_WORKER_RECORDING_H

#include "core/error.h"
#include "core/hash.h"
#include "core/str.h"

#include <jansson.h>
#include <stdint.h>

#define TERN_RECORDING_VERSION 1

/* A recording in memory. Returned lines are borrowed: they live as long as it does. */
struct tern_recording {
    json_t *device;             /* first line: facts of the GPU */
    json_t *lines;              /* every other line under its key */
    char hash[TERN_HASH_CHARS]; /* of the lines, whatever the compression: two recordings are never one device class */
};

/* The layer and batch size that a line is about. */
struct tern_recorded_problem {
    const char *format;
    int64_t n, k, m;
    const char *op; /* lines without one are of linear-a16 */
};

/* TERN_USAGE when there is no such file; TERN_INTERNAL for one that is empty, truncated, damaged, foreign or of another
 * version, with the path and the line. On success the caller frees. */
enum tern_status tern_recording_read(const char *path, struct tern_recording *r, struct tern_error *err);
void tern_recording_free(struct tern_recording *r);

/* NULL when nothing was recorded. what: "screen", "final" or "sustained". */
const json_t *tern_recording_trial(const struct tern_recording *r, const char *what, const struct tern_recorded_problem *p,
                                   const char *tmpl, const char *params);
/* Check on small shapes: one line serves every problem of the format and op. */
const json_t *tern_recording_check(const struct tern_recording *r, const char *format, const char *op, const char *tmpl,
                                   const char *params);
/* kind: a baseline's name, such as "cublaslt-default". */
const json_t *tern_recording_baseline(const struct tern_recording *r, const struct tern_recorded_problem *p,
                                      const char *kind);

/* A recording being written: the device line goes first. */
struct tern_recording_writer {
    struct tern_str text;
    size_t lines;
};

/* Appends a line; takes the reference. */
void tern_recording_add(struct tern_recording_writer *w, json_t *line);
/* Adds the end line and replaces `path` atomically. The same lines give the same bytes. */
enum tern_status tern_recording_write(struct tern_recording_writer *w, const char *path, struct tern_error *err);
void tern_recording_writer_free(struct tern_recording_writer *w);

#endif
