/* Messages of a GPU worker, read by a thread of their own, which also loads ahead what the next trial will need: reading the
 * cubin and loading the module then cost the device nothing. See gpu_inbox.h. */
#include "worker/gpu_inbox.h"

#include "core/str.h"
#include "worker/gpu_session.h"
#include "worker/process.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct gpu_inbox {
    struct gpu_session *session; /* of it the thread uses what does not change, and modules */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    json_t *request; /* not taken yet; the parent sends the next one only after the answer */
    bool closed;
};

/* What goes wrong here goes wrong again, and is reported, when the candidate's turn comes. */
static void load_ahead(struct gpu_session *s, const json_t *message) {
    struct tern_error err;
    struct tern_format format;
    struct tern_candidate candidate;
    struct tern_geometry geometry;
    void *module, *function;
    enum tern_status status = tern_format_parse(tern_message_text(message, "format"), &format, &err);
    const struct tern_problem_shape shape = {.format = &format,
                                             .m = tern_message_int(message, "m", 1),
                                             .n = tern_message_int(message, "n", 0),
                                             .k = tern_message_int(message, "k", 0)};
    if (status == TERN_OK)
        status = gpu_candidate(s, message, &candidate, &err);
    if (status == TERN_OK)
        status = tern_candidate_geometry(&candidate, &shape, s->info.sms, &geometry, &err);
    if (status == TERN_OK)
        (void)gpu_module(s, tern_message_text(message, "cubin"), candidate.tmpl->entry, geometry.smem_bytes, &module,
                         &function, &err);
}

static void *read_messages(void *user) {
    struct gpu_inbox *inbox = user;
    struct tern_error err;
    json_t *message = NULL;
    bool usable = tern_cuda_enter(inbox->session->context, &err) == TERN_OK;
    while (tern_message_receive(TERN_WORKER_FD, 0, &message) == TERN_MESSAGE_OK) {
        if (strcmp(tern_message_text(message, "do"), "ahead") == 0) {
            if (usable)
                load_ahead(inbox->session, message);
            json_decref(message);
            continue;
        }
        pthread_mutex_lock(&inbox->lock);
        json_decref(inbox->request);
        inbox->request = message;
        pthread_cond_signal(&inbox->changed);
        pthread_mutex_unlock(&inbox->lock);
    }
    pthread_mutex_lock(&inbox->lock);
    inbox->closed = true;
    pthread_cond_signal(&inbox->changed);
    pthread_mutex_unlock(&inbox->lock);
    return NULL;
}

struct gpu_inbox *gpu_inbox_open(struct gpu_session *session) {
    struct gpu_inbox *inbox = tern_alloc_zero(1, sizeof *inbox);
    inbox->session = session;
    (void)pthread_mutex_init(&inbox->lock, NULL);
    (void)pthread_cond_init(&inbox->changed, NULL);
    if (pthread_create(&inbox->thread, NULL, read_messages, inbox) == 0)
        return inbox;
    free(inbox);
    return NULL;
}

json_t *gpu_inbox_take(struct gpu_inbox *inbox) {
    pthread_mutex_lock(&inbox->lock);
    while (!inbox->request && !inbox->closed)
        pthread_cond_wait(&inbox->changed, &inbox->lock);
    json_t *request = inbox->request;
    inbox->request = NULL;
    pthread_mutex_unlock(&inbox->lock);
    return request;
}

void gpu_inbox_close(struct gpu_inbox *inbox) {
    if (!inbox)
        return;
    (void)pthread_join(inbox->thread, NULL);
    json_decref(inbox->request);
    (void)pthread_cond_destroy(&inbox->changed);
    (void)pthread_mutex_destroy(&inbox->lock);
    free(inbox);
}
