/* The packing kernels of an export: kernels/pack.cu, compiled by a worker for the architecture of each table. */
#include "commands/export_parts.h"

#include "core/file.h"
#include "core/log.h"
#include "worker/process.h"
#include "worker/reply.h"

#include <stdlib.h>
#include <string.h>

#define COMPILE_TIMEOUT_S 60.0

/* What the worker answers about one architecture: "" in `hash`, with the reason in *err, where it cannot compile. */
static void compile(const char *cache, const char *arch, char hash[TERN_HASH_CHARS], struct tern_error *err) {
    struct tern_process worker = {0};
    char path[4096], include[4096], why[512] = "", *source = NULL;
    size_t bytes = 0;
    json_t *reply = NULL;
    hash[0] = '\0';
    enum tern_status status = tern_file_home_path("kernels", include, sizeof include, err);
    if (!status)
        status = tern_file_home_path("kernels/pack.cu", path, sizeof path, err);
    if (!status)
        status = tern_file_read(path, &source, &bytes, err);
    if (!status)
        status = tern_process_start("compile", &worker, err);
    if (!status) {
        json_t *request = json_pack("{s:s, s:s, s:s, s:s, s:s, s:[s], s:s}", "do", "compile", "source", source, "name",
                                    "pack.cu", "arch", arch, "entry", "tern_pack", "include", include, "cache", cache);
        if (tern_process_call(&worker, request, COMPILE_TIMEOUT_S, &reply, why, sizeof why) != TERN_CALL_OK)
            tern_error_set(err, TERN_FAILED, "the compile worker: %s", why);
        else if (!tern_reply_is_error(reply, err) && !json_is_true(json_object_get(reply, "ok")))
            tern_error_set(err, TERN_FAILED, "kernels/pack.cu does not compile: %.400s", tern_message_text(reply, "log"));
        else if (reply)
            tern_str_copy(hash, TERN_HASH_CHARS, tern_message_text(reply, "cubin"));
        json_decref(request);
        json_decref(reply);
        tern_process_kill(&worker);
    }
    free(source);
}

enum tern_status tern_export_packing(const char *cache, const struct tern_export *input, struct tern_archive_image *images,
                                     size_t *count, struct tern_error *err) {
    struct tern_cache *opened = NULL;
    enum tern_status status = tern_cache_open(cache, &opened, err);
    for (size_t g = 0; g < input->gpu_count && !status; g++) {
        const char *arch = input->gpus[g].results->rows[0].arch;
        struct tern_archive_image *image = &images[*count];
        char hash[TERN_HASH_CHARS];
        struct tern_error why = {0};
        void *data = NULL;
        bool known = false, found = false;
        for (size_t other = 0; other < g; other++)
            known = known || !strcmp(input->gpus[other].results->rows[0].arch, arch);
        if (known)
            continue;
        compile(cache, arch, hash, &why);
        if (hash[0])
            status = tern_cache_get(opened, hash, &data, &image->bytes, &found, err);
        if (status || !found) {
            tern_log_warn("with NVRTC at hand (`tune doctor` looks for it) the same command packs it; weights are packed on "
                          "the host without",
                          "no packing kernel for %s: %s", arch, why.text);
            continue;
        }
        tern_str_format(image->name, sizeof image->name, TERN_PACKING_IMAGE "%s", arch);
        image->data = data;
        ++*count;
    }
    tern_cache_close(opened);
    return status;
}
