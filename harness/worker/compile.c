/* Compile worker: NVRTC compiles and emulator checks, one request after the other. See compile.h. */
#include "worker/compile.h"

#include "core/error.h"
#include "core/str.h"
#include "device/compiler.h"
#include "store/cache.h"
#include "worker/emulate.h"
#include "worker/process.h"
#include "worker/reply.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MAX_INCLUDES 8
#define MEMORY_LIMIT ((rlim_t)4 << 30) /* bytes; NVRTC takes a few hundred MiB for the largest of our kernels */

static json_t *compiled_reply(const struct tern_compiled *c, const char *hash) {
    return json_pack("{s:b, s:s, s:I, s:I, s:I, s:I, s:s, s:f}", "ok", c->ok, "cubin", hash, "bytes",
                     (json_int_t)c->image_bytes, "registers", (json_int_t)c->registers, "static_smem",
                     (json_int_t)c->static_smem_bytes, "spill", (json_int_t)c->spill_bytes, "log", tern_str_text(&c->log),
                     "seconds", c->seconds);
}

static json_t *compile(const json_t *request) {
    const char *includes[MAX_INCLUDES];
    size_t count = 0;
    struct tern_compiled compiled;
    struct tern_cache *cache = NULL;
    struct tern_error err = {.status = TERN_OK};
    char hash[TERN_HASH_CHARS] = "";
    const json_t *list = json_object_get(request, "include");
    memset(&compiled, 0, sizeof compiled);
    for (; count < json_array_size(list) && count < MAX_INCLUDES; count++)
        includes[count] = json_string_value(json_array_get(list, count));
    enum tern_status status = tern_nvrtc_compile(tern_message_text(request, "source"), tern_message_text(request, "name"),
                                                 tern_message_text(request, "arch"), includes, count,
                                                 tern_message_text(request, "entry"), &compiled, &err);
    if (status == TERN_OK && compiled.ok)
        status = tern_cache_open(tern_message_text(request, "cache"), &cache, &err);
    if (status == TERN_OK && compiled.ok)
        status = tern_cache_put(cache, compiled.image, compiled.image_bytes, hash, &err);
    json_t *reply = status == TERN_OK ? compiled_reply(&compiled, hash) : tern_reply_error(&err);
    if (!reply) { /* a log that is not UTF-8 */
        tern_str_free(&compiled.log);
        reply = compiled_reply(&compiled, hash);
    }
    tern_cache_close(cache);
    tern_compiled_free(&compiled);
    return reply;
}

/* A candidate that the compiler cannot swallow costs its worker, not the machine. Not under ASan, whose shadow is larger. */
static void limit_memory(void) {
#ifndef __SANITIZE_ADDRESS__
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur > MEMORY_LIMIT) {
        limit.rlim_cur = MEMORY_LIMIT;
        setrlimit(RLIMIT_DATA, &limit);
    }
#endif
}

int tern_compile_worker(void) {
    limit_memory();
    for (;;) {
        json_t *request = NULL, *reply;
        if (tern_message_receive(TERN_WORKER_FD, 0, &request) != TERN_MESSAGE_OK)
            return 0; /* the parent is done, or gone */
        const char *what = tern_message_text(request, "do");
        if (strcmp(what, "compile") == 0) {
            reply = compile(request);
        } else if (strcmp(what, "emulate") == 0) {
            reply = tern_emulate(request);
        } else {
            struct tern_error err;
            tern_error_set(&err, TERN_INTERNAL, "a compile worker cannot '%s'", what);
            reply = tern_reply_error(&err);
        }
        enum tern_message_status sent = tern_message_send(TERN_WORKER_FD, reply);
        json_decref(request);
        json_decref(reply);
        if (sent != TERN_MESSAGE_OK)
            return 0;
    }
}
