/* `tune verify --backend cuda --sanitize`: every candidate in a worker of its own under each tool of compute-sanitizer, so that a
 * report belongs to one candidate. Owns no results: it adds what the tools found. */
#include "commands/verify_internal.h"

#include "core/log.h"
#include "device/sanitizer.h"
#include "worker/interrupt.h"

#include <stdlib.h>
#include <string.h>

/* The tool's report says more than the error that the candidate's launch ended with. */
static void note_errors(struct verify *v, struct verify_item *item, const char *excerpt) {
    struct tern_str detail = {0};
    tern_str_printf(&detail, "%s: %s", v->tool, excerpt);
    if (item->outcome == TERN_OUTCOME_FAULT && strncmp(item->detail, "memcheck: ", 10) != 0) {
        free(item->detail);
        item->detail = tern_strdup(tern_str_text(&detail));
    }
    tern_verify_fail(v, item, TERN_OUTCOME_FAULT, tern_str_text(&detail));
    tern_str_free(&detail);
}

static void ended(void *user, size_t index, int exit_code, const char *output) {
    struct verify *v = user;
    struct tern_str excerpt = {0};
    if (v->status != TERN_OK) /* no device, say: the report is about nothing */
        return;
    enum tern_sanitizer_verdict verdict = tern_sanitizer_judge(output, exit_code, &excerpt);
    if (verdict == TERN_SANITIZER_ERRORS) {
        note_errors(v, &v->items[index], tern_str_text(&excerpt));
    } else if (verdict == TERN_SANITIZER_UNUSABLE) {
        v->status = tern_error_set(v->err, TERN_MISSING, "%s --tool %s judged nothing: %s", v->sanitizer, v->tool,
                                   tern_str_text(&excerpt));
        tern_error_hint(v->err, "try it by hand on another program; without --sanitize the same candidates are checked too");
    }
    tern_str_free(&excerpt);
}

enum tern_status tern_verify_sanitized(struct verify *v, struct tern_pool_work *work, struct tern_error *err) {
    const char *prefix[TERN_SANITIZER_ARGUMENTS];
    enum tern_status status = TERN_OK;
    size_t answered = 0;
    work->prefix = prefix;
    work->ended = ended;
    for (size_t t = 0; tern_sanitizer_tools[t] && status == TERN_OK && v->status == TERN_OK && !tern_interrupted(); t++) {
        v->tool = tern_sanitizer_tools[t];
        v->done = 0;
        tern_sanitizer_prefix(v->sanitizer, v->tool, prefix);
        status = tern_pool_run(work, &answered, err);
        if (status == TERN_OK && v->status == TERN_OK)
            tern_log_note("compute-sanitizer %s: %zu of %zu candidates run", v->tool, answered, v->item_count);
    }
    return status;
}
