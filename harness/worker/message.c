/* Framing of worker messages: 8 bytes ("TERN" and a little-endian length), then JSON text. See message.h. */
#include "worker/message.h"

#include "core/clock.h"
#include "core/str.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FRAME_MAGIC 0x4E524554u /* "TERN", so that stray prints of a library on the socket are noticed */
#define FRAME_LIMIT (64u << 20)

static enum tern_message_status send_all(int fd, const void *data, size_t length) {
    const char *at = data;
    while (length > 0) {
        ssize_t sent = send(fd, at, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return TERN_MESSAGE_CLOSED;
        at += sent;
        length -= (size_t)sent;
    }
    return TERN_MESSAGE_OK;
}

enum tern_message_status tern_message_send(int fd, const json_t *object) {
    char *text = json_dumps(object, JSON_COMPACT);
    if (!text)
        return TERN_MESSAGE_GARBAGE;
    uint32_t frame[2] = {FRAME_MAGIC, (uint32_t)strlen(text)};
    enum tern_message_status status = send_all(fd, frame, sizeof frame);
    if (status == TERN_MESSAGE_OK)
        status = send_all(fd, text, frame[1]);
    free(text);
    return status;
}

/* Waits until fd is readable; the deadline is absolute, so that signals and partial reads do not extend it. */
static enum tern_message_status wait_readable(int fd, int64_t deadline_ns) {
    for (;;) {
        int timeout_ms = -1;
        if (deadline_ns > 0) {
            int64_t left_ns = deadline_ns - tern_clock_now_ns();
            if (left_ns <= 0)
                return TERN_MESSAGE_TIMEOUT;
            timeout_ms = (int)((left_ns + 999999) / 1000000);
        }
        struct pollfd p = {.fd = fd, .events = POLLIN, .revents = 0};
        int ready = poll(&p, 1, timeout_ms);
        if (ready > 0)
            return TERN_MESSAGE_OK;
        if (ready < 0 && errno != EINTR)
            return TERN_MESSAGE_CLOSED;
    }
}

static enum tern_message_status receive_all(int fd, void *data, size_t length, int64_t deadline_ns) {
    char *at = data;
    while (length > 0) {
        enum tern_message_status status = wait_readable(fd, deadline_ns);
        if (status != TERN_MESSAGE_OK)
            return status;
        ssize_t got = recv(fd, at, length, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return TERN_MESSAGE_CLOSED;
        at += got;
        length -= (size_t)got;
    }
    return TERN_MESSAGE_OK;
}

enum tern_message_status tern_message_receive(int fd, int64_t deadline_ns, json_t **object) {
    uint32_t frame[2];
    *object = NULL;
    enum tern_message_status status = receive_all(fd, frame, sizeof frame, deadline_ns);
    if (status != TERN_MESSAGE_OK)
        return status;
    if (frame[0] != FRAME_MAGIC || frame[1] > FRAME_LIMIT)
        return TERN_MESSAGE_GARBAGE;
    char *text = tern_alloc((size_t)frame[1] + 1);
    status = receive_all(fd, text, frame[1], deadline_ns);
    if (status == TERN_MESSAGE_OK) {
        *object = json_loadb(text, frame[1], JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_object(*object)) {
            json_decref(*object);
            *object = NULL;
            status = TERN_MESSAGE_GARBAGE;
        }
    }
    free(text);
    return status;
}

const char *tern_message_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

int64_t tern_message_int(const json_t *object, const char *key, int64_t fallback) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : fallback;
}

double tern_message_real(const json_t *object, const char *key, double fallback) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

double *tern_message_samples(const json_t *object, const char *key, size_t *count) {
    const json_t *array = json_object_get(object, key);
    *count = json_array_size(array);
    if (*count == 0)
        return NULL;
    double *samples = tern_alloc(*count * sizeof *samples);
    for (size_t i = 0; i < *count; i++) {
        const json_t *item = json_array_get(array, i);
        samples[i] = json_is_number(item) ? json_number_value(item) : (double)NAN;
    }
    return samples;
}

json_t *tern_message_from_samples(const double *samples, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, json_real(samples[i]));
    return array;
}
