/* Check of a candidate on small odd shapes against the host's FP64 reference, before it meets a real problem. */
#include "worker/gpu_session.h"

#include "core/str.h"
#include "worker/message.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_SHAPES 5 /* cheapest of the odd shapes that the candidate serves */

/* Of the type of the prepared layer's activations. */
static struct tern_check_bench *find_bench(struct gpu_session *s, const struct tern_format *format, const char *layout) {
    const enum tern_activation type = s->layer.type;
    for (size_t i = 0; i < s->bench_count; i++)
        if (strcmp(s->benches[i].format, format->name) == 0 && s->benches[i].type == type &&
            strcmp(tern_layout_name(s->benches[i].layout), layout) == 0)
            return s->benches[i].bench;
    const struct tern_layout *found = tern_layout_find(layout);
    if (s->bench_count == GPU_MAX_BENCHES || !found)
        return NULL;
    struct gpu_bench *made = &s->benches[s->bench_count++];
    tern_str_copy(made->format, sizeof made->format, format->name);
    made->type = type;
    made->layout = found;
    made->bench = tern_check_bench_create(s->backend, s->context, format, type, found, (uint64_t)s->seed);
    return made->bench;
}

enum tern_status gpu_check(struct gpu_session *s, const json_t *request, struct tern_check_result *result,
                           struct tern_error *err) {
    struct tern_format format;
    struct tern_candidate candidate;
    struct tern_check_bench *bench = NULL;
    void *image = NULL;
    size_t bytes = 0;
    int64_t shapes = 0;
    struct tern_check_shape own =
        tern_check_own_shape(tern_message_int(request, "m", 1), tern_message_int(request, "k", 128));
    enum tern_status status = gpu_candidate(s, request, &candidate, err);
    if (status == TERN_OK)
        status = tern_format_parse(tern_message_text(request, "format"), &format, err);
    if (status == TERN_OK)
        status = gpu_cubin(s, tern_message_text(request, "cubin"), &image, &bytes, err);
    if (status == TERN_OK && !(bench = find_bench(s, &format, candidate.tmpl->layout)))
        status = tern_error_set(err, TERN_INTERNAL, "no check problems for layout '%s'", candidate.tmpl->layout);
    if (status == TERN_OK)
        status = tern_check_candidate(bench, &candidate, image, bytes, s->info.sms, &s->gpu, CHECK_SHAPES, &own, result,
                                      &shapes, err);
    free(image);
    if (status == TERN_OK)
        s->sticky = result->sticky;
    return status;
}
