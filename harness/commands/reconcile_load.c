/* GPU_LOAD: asks a load worker about one layer after the other. This process never loads libcuda. */
#include "commands/reconcile.h"

#include "core/log.h"
#include "worker/process.h"
#include "worker/reply.h"

#include <string.h>

#define LOAD_TIMEOUT_S 900.0

static void fail(struct tern_load_proof *p, enum tern_check_state state, const char *layer, const char *reason) {
    p->state = state;
    if (state == TERN_CHECK_SKIPPED || !layer)
        tern_str_copy(p->reason, sizeof p->reason, reason);
    else
        tern_str_format(p->reason, sizeof p->reason, "%s: %s", layer, reason);
}

/* Adds what the worker says of one layer; false if there is no use in asking on. */
static bool take(struct tern_load_proof *p, const char *layer, const json_t *reply) {
    struct tern_error err = {0};
    if (tern_reply_is_error(reply, &err)) {
        fail(p, err.status == TERN_MISSING && p->layers == 0 ? TERN_CHECK_SKIPPED : TERN_CHECK_FAIL, layer, err.text);
        return false;
    }
    const int64_t differences = tern_message_int(reply, "differences", 1), weights = tern_message_int(reply, "weights", 0);
    tern_str_copy(p->device, sizeof p->device, tern_message_text(reply, "device"));
    p->layers++;
    p->bytes += tern_message_int(reply, "bytes", 0);
    p->weights += weights;
    p->packed += tern_message_int(reply, "packed", 0);
    if (differences && !p->difference.count) {
        tern_str_copy(p->tensor, sizeof p->tensor, tern_message_text(reply, "tensor"));
        tern_str_copy(p->what, sizeof p->what, tern_message_text(reply, "what"));
        p->difference = (struct tern_difference){.tensor = p->tensor,
                                                 .what = p->what,
                                                 .row = tern_message_int(reply, "row", -1),
                                                 .k = tern_message_int(reply, "k", -1),
                                                 .expected = tern_message_real(reply, "expected", -1),
                                                 .got = tern_message_real(reply, "got", -1)};
    }
    p->difference.count += differences;
    if (weights <= 0)
        fail(p, TERN_CHECK_FAIL, layer, "nothing was decoded");
    return weights > 0;
}

/* Layers that cannot be decoded have failed already. */
void tern_reconcile_load(struct reconcile *r) {
    struct tern_load_proof *p = &r->load;
    struct tern_process process = {0};
    struct tern_error err = {0};
    bool go_on = true;
    if (tern_process_start("load", &process, &err)) {
        fail(p, TERN_CHECK_FAIL, NULL, err.text);
        return;
    }
    for (size_t i = 0; i < r->layers.count && go_on; i++) {
        char why[512] = "";
        json_t *reply = NULL;
        if (r->layers.items[i].error[0])
            continue;
        json_t *request = json_pack("{s:s,s:s,s:s,s:I,s:s}", "do", "load", "backend", r->options.backend, "path",
                                    r->checkpoint.path, "layer", (json_int_t)i, "cache", r->options.cache);
        tern_log_progress("load %zu/%zu", i + 1, r->layers.count);
        enum tern_call call = tern_process_call(&process, request, LOAD_TIMEOUT_S, &reply, why, sizeof why);
        json_decref(request);
        if (call == TERN_CALL_OK)
            go_on = take(p, r->layers.items[i].name, reply);
        else
            fail(p, TERN_CHECK_FAIL, r->layers.items[i].name, why);
        go_on = go_on && call == TERN_CALL_OK;
        json_decref(reply);
    }
    tern_log_progress("%s", "");
    if (process.pid)
        tern_process_kill(&process);
    if (p->difference.count)
        p->state = TERN_CHECK_FAIL;
    if (p->state == TERN_CHECK_OK && p->layers == 0)
        fail(p, TERN_CHECK_SKIPPED, NULL, "no layer can be decoded");
}
