/* Building and reading of common replies. See reply.h. */
#include "worker/reply.h"

#include "worker/process.h"

json_t *tern_reply_error(const struct tern_error *err) {
    return json_pack("{s:i, s:s, s:s}", "status", (int)err->status, "error", err->text, "hint", err->hint);
}

json_t *tern_reply_outcome(enum tern_outcome outcome, const char *detail) {
    return json_pack("{s:s, s:s}", "outcome", tern_outcome_name(outcome), "detail", detail);
}

void tern_reply_check(json_t *check) {
    json_t *message = json_pack("{s:o}", "check", check);
    tern_message_send(TERN_WORKER_FD, message); /* a closed socket is found when the reply is sent */
    json_decref(message);
}

bool tern_reply_is_error(const json_t *reply, struct tern_error *err) {
    if (!json_object_get(reply, "error"))
        return false;
    int64_t status = tern_message_int(reply, "status", TERN_INTERNAL);
    if (status <= TERN_OK || status > TERN_INTERNAL)
        status = TERN_INTERNAL;
    tern_error_set(err, (enum tern_status)status, "%s", tern_message_text(reply, "error"));
    tern_error_hint(err, "%s", tern_message_text(reply, "hint"));
    return true;
}

enum tern_outcome tern_reply_outcome_of(const json_t *reply) {
    enum tern_outcome outcome;
    if (!tern_outcome_parse(tern_message_text(reply, "outcome"), &outcome))
        return TERN_OUTCOME_CRASH;
    return outcome;
}
