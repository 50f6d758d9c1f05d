/* Messages between the parent and its worker processes: length-prefixed JSON objects over a socket pair.
 * Owns framing only; who says what stands in gpu.h and compile.h. */
#ifndef TERN_WORKER_MESSAGE_H
#define TERN_WORKER_MESSAGE_H

#include "core/error.h"

#include <jansson.h>
#include <stdint.h>

enum tern_message_status {
    TERN_MESSAGE_OK,
    TERN_MESSAGE_CLOSED,  /* the other side is gone */
    TERN_MESSAGE_TIMEOUT, /* nothing complete came before the deadline */
    TERN_MESSAGE_GARBAGE  /* not a frame, not JSON, not an object, or longer than 64 MiB */
};

/* Sends one object; takes no reference. */
enum tern_message_status tern_message_send(int fd, const json_t *object);
/* Receives one object before `deadline_ns` (CLOCK_MONOTONIC; 0: wait for ever). Caller decrefs *object. */
enum tern_message_status tern_message_receive(int fd, int64_t deadline_ns, json_t **object);

/* Typed access to a received object; missing or wrongly typed keys give the fallback. */
const char *tern_message_text(const json_t *object, const char *key);
int64_t tern_message_int(const json_t *object, const char *key, int64_t fallback);
double tern_message_real(const json_t *object, const char *key, double fallback);

/* Array of numbers to doubles (malloc'ed, caller frees; NULL and 0 when absent), and back. */
double *tern_message_samples(const json_t *object, const char *key, size_t *count);
json_t *tern_message_from_samples(const double *samples, size_t count);

#endif
