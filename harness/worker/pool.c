/* The worker pool: hand out, poll, collect, respawn. See pool.h. */
#include "worker/pool.h"

#include "core/clock.h"
#include "core/str.h"
#include "worker/interrupt.h"

#include <poll.h>
#include <stdlib.h>

struct slot {
    struct tern_process process;
    size_t index; /* request in work */
    bool busy;
    size_t answered; /* by this process, for recycling */
    int64_t deadline_ns;
};

static bool may_start(const struct tern_pool_work *work, size_t next) {
    return next < work->count && !tern_interrupted() && (work->stop_ns == 0 || tern_clock_now_ns() < work->stop_ns);
}

static enum tern_status hand_out(const struct tern_pool_work *work, struct slot *s, size_t index, struct tern_error *err) {
    if (s->process.pid != 0 && work->recycle > 0 && s->answered >= work->recycle)
        tern_process_kill(&s->process);
    if (s->process.pid == 0) {
        enum tern_status status = tern_process_start_under(work->prefix, work->kind, &s->process, err);
        if (status != TERN_OK)
            return status;
        s->answered = 0;
    }
    json_t *request = work->request(work->user, index);
    tern_message_send(s->process.fd, request);
    json_decref(request);
    s->index = index;
    s->busy = true;
    s->deadline_ns = tern_clock_now_ns() + (int64_t)(work->timeout_s * 1e9);
    return TERN_OK;
}

static void collect(const struct tern_pool_work *work, struct slot *s) {
    char why[1024] = "";
    json_t *reply = NULL;
    enum tern_call call = tern_process_answer(&s->process, s->deadline_ns, &reply, why, sizeof why);
    work->done(work->user, s->index, call, reply, why);
    json_decref(reply);
    s->busy = false;
    s->answered++;
    if (work->ended && call == TERN_CALL_OK) {
        struct tern_str output = {0};
        int exit_code;
        tern_process_finish(&s->process, work->timeout_s, &exit_code, &output);
        work->ended(work->user, s->index, exit_code, tern_str_text(&output));
        tern_str_free(&output);
    }
}

/* Waits until a busy slot can be read or is past its deadline, then collects it. */
static size_t collect_ready(const struct tern_pool_work *work, struct slot *slots, struct pollfd *fds) {
    int64_t nearest_ns = INT64_MAX, now_ns = tern_clock_now_ns();
    for (size_t i = 0; i < work->workers; i++) {
        fds[i] = (struct pollfd){.fd = slots[i].busy ? slots[i].process.fd : -1, .events = POLLIN, .revents = 0};
        if (slots[i].busy && slots[i].deadline_ns < nearest_ns)
            nearest_ns = slots[i].deadline_ns;
    }
    int64_t wait_ms = (nearest_ns - now_ns) / 1000000 + 1;
    poll(fds, (nfds_t)work->workers, wait_ms < 0 ? 0 : wait_ms > 1000 ? 1000 : (int)wait_ms);
    size_t collected = 0;
    now_ns = tern_clock_now_ns();
    for (size_t i = 0; i < work->workers; i++)
        if (slots[i].busy && (fds[i].revents != 0 || slots[i].deadline_ns <= now_ns)) {
            collect(work, &slots[i]);
            collected++;
        }
    return collected;
}

enum tern_status tern_pool_run(const struct tern_pool_work *work, size_t *answered, struct tern_error *err) {
    enum tern_status status = TERN_OK;
    struct slot *slots = tern_alloc_zero(work->workers, sizeof *slots);
    struct pollfd *fds = tern_alloc_zero(work->workers, sizeof *fds);
    size_t next = 0, busy = 0;
    *answered = 0;
    for (;;) {
        for (size_t i = 0; i < work->workers && status == TERN_OK; i++)
            if (!slots[i].busy && may_start(work, next)) {
                status = hand_out(work, &slots[i], next++, err);
                busy += status == TERN_OK;
            }
        if (busy == 0 || tern_interrupted() || status != TERN_OK)
            break;
        size_t collected = collect_ready(work, slots, fds);
        *answered += collected;
        busy -= collected;
    }
    for (size_t i = 0; i < work->workers; i++)
        tern_process_kill(&slots[i].process);
    free(slots);
    free(fds);
    return status;
}
