/* Ceilings between worker, database and GPU description. See ceilings.h. */
#include "commands/ceilings.h"

#include "core/str.h"
#include "worker/reply.h"

#include <stdlib.h>

#define TIMEOUT_S 120.0 /* 15 s on an H200; compiling the probes on a slow host takes longer */

/* Rows of a reply; one that no device can give is an error, not a ceiling. */
static enum tern_status read_reply(const json_t *reply, struct tern_ceilings *out, struct tern_error *err) {
    size_t i;
    json_t *entry;
    const json_t *rows = json_object_get(reply, "ceilings");
    out->count = 0;
    json_array_foreach(rows, i, entry) {
        size_t count = 0;
        struct tern_ceiling *row =
            tern_ceilings_add(out, tern_message_text(entry, "kind"), tern_message_real(entry, "argument", 0),
                              tern_message_text(entry, "unit"));
        if (!row)
            return tern_error_set(err, TERN_INTERNAL, "the GPU worker sent more than %d ceilings", TERN_MAX_CEILINGS);
        double *samples = tern_message_samples(entry, "samples", &count);
        row->value = tern_message_real(entry, "value", 0);
        row->sm_mhz = (int)tern_message_int(entry, "sm_mhz", 0);
        for (; row->sample_count < count && row->sample_count < TERN_MAX_CEILING_SAMPLES; row->sample_count++)
            row->samples_us[row->sample_count] = samples[row->sample_count];
        free(samples);
        if (!(row->value > 0))
            return tern_error_set(err, TERN_FAILED, "ceiling %s was measured as %g %s", row->kind, row->value, row->unit);
    }
    return out->count > 0 ? TERN_OK : tern_error_set(err, TERN_INTERNAL, "the GPU worker sent no ceilings");
}

enum tern_status tern_command_ceilings_measure(struct tern_process *worker, struct tern_ceilings *out,
                                               struct tern_error *err) {
    char why[512] = "";
    json_t *reply = NULL, *request = json_pack("{s:s}", "do", "calibrate");
    enum tern_status status = TERN_OK;
    if (tern_process_call(worker, request, TIMEOUT_S, &reply, why, sizeof why) != TERN_CALL_OK)
        status = tern_error_set(err, TERN_MISSING, "the GPU worker did not survive the calibration: %s", why);
    else if (tern_reply_is_error(reply, err))
        status = err->status;
    else
        status = read_reply(reply, out, err);
    if (status != TERN_OK)
        tern_process_kill(worker); /* its context may be lost */
    json_decref(request);
    json_decref(reply);
    return status;
}

enum tern_status tern_command_ceilings_apply(struct tern_store *store, int64_t device, struct tern_gpu *gpu, bool *found,
                                             struct tern_error *err) {
    double seen_tflops = 0;
    struct tern_ceilings *c = tern_alloc_zero(1, sizeof *c);
    enum tern_status status =
        device > 0 ? tern_store_ceilings_find(store, device, c, err) : tern_store_ceilings_of_gpu(store, gpu->name, c, err);
    if (status == TERN_OK)
        status = tern_store_fastest_gemm(store, gpu->name, &seen_tflops, err);
    *found = status == TERN_OK && c->count > 0;
    if (*found)
        tern_gpu_apply_ceilings(gpu, c, seen_tflops);
    free(c);
    return status;
}
