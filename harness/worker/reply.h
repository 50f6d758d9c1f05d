/* Replies of worker processes that more than one kind of worker gives. */
#ifndef TERN_WORKER_REPLY_H
#define TERN_WORKER_REPLY_H

#include "core/error.h"
#include "core/outcome.h"
#include "worker/message.h"

/* {"status", "error", "hint"}: something other than a candidate failed. */
json_t *tern_reply_error(const struct tern_error *err);
/* {"outcome", "detail"}: what became of a candidate. */
json_t *tern_reply_outcome(enum tern_outcome outcome, const char *detail);
/* Sends {"check": check} ahead of the reply to a trial, and frees it: should the trial not come back, it was not the check. */
void tern_reply_check(json_t *check);
/* True, and *err filled, if a reply is of the first kind. */
bool tern_reply_is_error(const json_t *reply, struct tern_error *err);
/* Outcome of a reply of the second kind; CRASH if it names none. */
enum tern_outcome tern_reply_outcome_of(const json_t *reply);

#endif
