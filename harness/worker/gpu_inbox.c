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
    struct gpu_session *session; /* of it the thread uses what does not change: context, templates, cache */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    json_t *request; /* not taken yet; the parent sends the next one only after the answer */
    bool closed;
    struct loaded {
        char cubin[TERN_HASH_CHARS];
        int64_t smem_bytes;
        void *module, *function; /* NULL: nothing is loaded */
    } ahead;
};

/* A module that nobody took, or that is not wanted any more. */
static void unload(struct gpu_inbox *inbox, struct loaded *old) {
    if (old->module)
        inbox->session->backend->module_unload(inbox->session->context, old->module);
    *old = (struct loaded){0};
}

/* What goes wrong here goes wrong again, and is reported, when the candidate's turn comes. */
static void load_ahead(struct gpu_inbox *inbox, const json_t *message) {
    struct gpu_session *s = inbox->session;
    struct tern_error err;
    struct tern_format format;
    struct tern_candidate candidate;
    struct tern_geometry geometry;
    struct loaded made = {0}, old;
    void *image = NULL;
    size_t bytes = 0;
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
        status = gpu_cubin(s, tern_message_text(message, "cubin"), &image, &bytes, &err);
    if (status == TERN_OK)
        status = s->backend->module_load(s->context, image, bytes, candidate.tmpl->entry, geometry.smem_bytes, &made.module,
                                         &made.function, &err);
    free(image);
    if (status != TERN_OK)
        return;
    tern_str_copy(made.cubin, sizeof made.cubin, tern_message_text(message, "cubin"));
    made.smem_bytes = geometry.smem_bytes;
    pthread_mutex_lock(&inbox->lock);
    old = inbox->ahead;
    inbox->ahead = made;
    pthread_mutex_unlock(&inbox->lock);
    unload(inbox, &old);
}

static void *read_messages(void *user) {
    struct gpu_inbox *inbox = user;
    struct tern_error err;
    json_t *message = NULL;
    bool usable = tern_cuda_enter(inbox->session->context, &err) == TERN_OK;
    while (tern_message_receive(TERN_WORKER_FD, 0, &message) == TERN_MESSAGE_OK) {
        if (strcmp(tern_message_text(message, "do"), "ahead") == 0) {
            if (usable)
                load_ahead(inbox, message);
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

bool gpu_inbox_module(struct gpu_inbox *inbox, const char *cubin, int64_t smem_bytes, void **module, void **function) {
    if (!inbox)
        return false;
    pthread_mutex_lock(&inbox->lock);
    struct loaded *ahead = &inbox->ahead;
    bool right = ahead->module && ahead->smem_bytes == smem_bytes && strcmp(ahead->cubin, cubin) == 0;
    if (right) {
        *module = ahead->module;
        *function = ahead->function;
        *ahead = (struct loaded){0};
    }
    pthread_mutex_unlock(&inbox->lock);
    return right;
}

void gpu_inbox_close(struct gpu_inbox *inbox) {
    if (!inbox)
        return;
    (void)pthread_join(inbox->thread, NULL);
    unload(inbox, &inbox->ahead);
    json_decref(inbox->request);
    (void)pthread_cond_destroy(&inbox->changed);
    (void)pthread_mutex_destroy(&inbox->lock);
    free(inbox);
}
