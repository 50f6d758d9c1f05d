/* Faults on purpose: the table of kinds and what each does. See replay_fault.h. */
#include "worker/replay_fault.h"

#include "core/str.h"
#include "worker/message.h"
#include "worker/process.h"
#include "worker/reply.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SLOW_S 3 /* longer than anything the run does meanwhile, far shorter than a deadline */

static void crash(void) {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void leave(void) {
    _exit(7);
}

static void hang(void) {
    signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}

/* What a library that prints on the wrong descriptor would do. */
static void garbage(void) {
    static const char text[] = "this is no message\n";
    if (send(TERN_WORKER_FD, text, sizeof text - 1, MSG_NOSIGNAL) > 0)
        hang();
}

static void slow(void) {
    sleep(SLOW_S);
}

/* A kind acts, or answers with an outcome. */
static const struct kind {
    const char *name;
    void (*act)(void);
    enum tern_outcome outcome;
    const char *detail;
} kinds[] = {
    {"crash", crash, TERN_OUTCOME_CRASH, ""},
    {"abort", abort, TERN_OUTCOME_CRASH, ""},
    {"exit", leave, TERN_OUTCOME_CRASH, ""},
    {"wedge", crash, TERN_OUTCOME_CRASH, ""}, /* and at every hello from then on */
    {"garbage", garbage, TERN_OUTCOME_CRASH, ""},
    {"hang", hang, TERN_OUTCOME_TIMEOUT, ""},
    {"slow", slow, TERN_OUTCOME_OK, ""},
    {"wrong", NULL, TERN_OUTCOME_WRONG, "fault on purpose: 1 of 1 differ"},
    {"nan", NULL, TERN_OUTCOME_WRONG, "fault on purpose: got nan"},
    {"unwritten", NULL, TERN_OUTCOME_WRONG, "fault on purpose: 1 unwritten"},
    {"outside", NULL, TERN_OUTCOME_WRONG, "fault on purpose: wrote outside y"},
    {"nondet", NULL, TERN_OUTCOME_NONDET, "fault on purpose: two runs differ"},
    {"fault", NULL, TERN_OUTCOME_FAULT, "fault on purpose: illegal address"},
    {"oom", NULL, TERN_OUTCOME_RESOURCES, "fault on purpose: out of device memory"},
    {"unlike", NULL, TERN_OUTCOME_OK, ""}, /* in its control times */
    {"noisy", NULL, TERN_OUTCOME_NOISY, "fault on purpose: no stable time"},
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static enum tern_status unknown_kind(const char *item, const char *name, struct tern_error *err) {
    struct tern_strs names = {0};
    for (size_t i = 0; i < KIND_COUNT; i++)
        tern_strs_add(&names, kinds[i].name);
    const char *near = tern_str_suggest(name, &names);
    tern_error_set(err, TERN_USAGE, "--fault: '%s' is no KIND@WHEN", item);
    if (near)
        tern_error_hint(err, "did you mean '%s'?", near);
    else
        tern_error_hint(err, "for example crash@3; docs/replay.md lists the kinds");
    tern_strs_free(&names);
    return TERN_USAGE;
}

static bool is_unlike(int kind) {
    return strcmp(kinds[kind].name, "unlike") == 0;
}

/* Reads dN: where it stands; returns what is behind it, NULL if N is no number. */
static const char *parse_device(const char *text, int64_t *device) {
    char number[8];
    const char *colon = strchr(text, ':');
    if (text[0] != 'd')
        return text;
    if (!colon || (size_t)(colon - text) > sizeof number)
        return NULL;
    tern_str_copy(number, (size_t)(colon - text), text + 1);
    return tern_str_parse_int(number, 0, INT32_MAX, device) ? colon + 1 : NULL;
}

static enum tern_status parse_one(struct tern_faults *f, const char *item, struct tern_error *err) {
    char name[32];
    const char *at = strchr(item, '@');
    tern_str_copy(name, sizeof name, item);
    if (at && (size_t)(at - item) < sizeof name)
        name[at - item] = '\0';
    int kind = 0;
    while (kind < KIND_COUNT && strcmp(kinds[kind].name, name) != 0)
        kind++;
    if (!at || kind == KIND_COUNT)
        return unknown_kind(item, name, err);
    int64_t device = TERN_FAULT_EACH, when = TERN_FAULT_EACH;
    const char *moment = parse_device(at + 1, &device);
    bool final = moment && moment[0] == 'f';
    if (!moment || (strcmp(moment, "*") != 0 && !tern_str_parse_int(moment + final, final ? 1 : 0, INT64_MAX, &when)))
        return tern_error_set(err, TERN_USAGE,
                              "--fault: '%s': a number from 0, fN or * stands behind @, or behind @dN:", item);
    if (is_unlike(kind) && when != 0)
        return tern_error_set(err, TERN_USAGE, "--fault: '%s': a device is unlike from its hello on, @0", item);
    if (final && !kinds[kind].act && kinds[kind].outcome != TERN_OUTCOME_FAULT)
        return tern_error_set(err, TERN_USAGE, "--fault: '%s': a final as a whole has no such outcome", item);
    if (when == 0 && !kinds[kind].act && !is_unlike(kind))
        return tern_error_set(err, TERN_USAGE, "--fault: '%s': a hello has no outcome", item);
    if (f->count == TERN_MAX_FAULTS)
        return tern_error_set(err, TERN_USAGE, "--fault: more than %d faults", TERN_MAX_FAULTS);
    f->items[f->count].kind = kind;
    f->items[f->count].device = device;
    f->items[f->count].final = final;
    f->items[f->count++].when = when;
    return TERN_OK;
}

enum tern_status tern_faults_parse(const char *spec, struct tern_faults *f, struct tern_error *err) {
    struct tern_strs items = {0};
    enum tern_status status = TERN_OK;
    memset(f, 0, sizeof *f);
    if (spec && spec[0]) {
        tern_strs_split(&items, spec, ',');
        if (items.count == 0)
            status = tern_error_set(err, TERN_USAGE, "--fault: '%s' names no fault", spec);
    }
    for (size_t i = 0; i < items.count && status == TERN_OK; i++)
        status = parse_one(f, items.items[i], err);
    tern_strs_free(&items);
    return status;
}

static bool of_this_device(const struct tern_faults *f, size_t i) {
    return f->items[i].device == TERN_FAULT_EACH || f->items[i].device == f->device;
}

bool tern_faults_unlike(const struct tern_faults *f) {
    for (size_t i = 0; i < f->count; i++)
        if (is_unlike(f->items[i].kind) && of_this_device(f, i))
            return true;
    return false;
}

/* True if a fault is due: `counted` tells a trial, `final` a final, neither a hello. */
static bool due(const struct tern_faults *f, size_t i, bool counted, bool final) {
    int64_t when = f->items[i].when;
    if (!of_this_device(f, i) || is_unlike(f->items[i].kind))
        return false;
    int64_t at = f->items[i].final ? f->finals : f->asked;
    if (counted || final)
        return f->items[i].final == final && (when == TERN_FAULT_EACH || when == at);
    return when == 0 || (strcmp(kinds[f->items[i].kind].name, "wedge") == 0 && when > 0 && at >= when);
}

json_t *tern_faults_act(struct tern_faults *f, const json_t *request) {
    const char *what = tern_message_text(request, "do");
    bool counted = strcmp(what, "trial") == 0;
    bool final = strcmp(what, "final") == 0;
    if (!counted && !final && strcmp(what, "hello") != 0)
        return NULL;
    f->asked += counted;
    f->finals += final;
    for (size_t i = 0; i < f->count; i++) {
        const struct kind *kind = &kinds[f->items[i].kind];
        if (!due(f, i, counted, final))
            continue;
        if (kind->act) {
            kind->act();
            continue;
        }
        if (final) { /* as gpu_final.c reports a kernel fault */
            struct tern_error err;
            tern_error_set(&err, TERN_FAILED, "%s", kind->detail);
            return tern_reply_error(&err);
        }
        json_t *reply = tern_reply_outcome(kind->outcome, kind->detail);
        if (kind->outcome == TERN_OUTCOME_FAULT)
            json_object_set_new(reply, "sticky", json_true());
        return reply;
    }
    return NULL;
}
