/* The messages of a GPU worker after its hello: a thread reads them, and loads modules ahead while the device is at work. Part
 * of a GPU worker. */
#ifndef TERN_WORKER_GPU_INBOX_H
#define TERN_WORKER_GPU_INBOX_H

#include <jansson.h>

struct gpu_session;
struct gpu_inbox;

/* NULL when no thread can be started: the caller then reads its messages itself. The session must outlive it. */
struct gpu_inbox *gpu_inbox_open(struct gpu_session *session);
/* The next request, the caller's; NULL when the parent is done, or gone. */
json_t *gpu_inbox_take(struct gpu_inbox *inbox);
/* Waits for the end of the messages; before the context closes. */
void gpu_inbox_close(struct gpu_inbox *inbox);

#endif
