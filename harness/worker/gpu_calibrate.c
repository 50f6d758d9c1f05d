/* Requests of the GPU worker about the open device itself: its ceilings, and its control times. */
#include "worker/gpu_session.h"

#include "core/str.h"
#include "device/ceilings.h"
#include "worker/reply.h"

#include <stdlib.h>

#define SUSTAINED_S 1.0 /* of load a matrix type, unless the request says otherwise */

json_t *gpu_calibrate(struct gpu_session *s, const json_t *request) {
    struct tern_error err;
    struct tern_ceilings *c = tern_alloc_zero(1, sizeof *c);
    enum tern_status status =
        tern_ceilings_measure(s->context, s->fixed, tern_message_real(request, "seconds", SUSTAINED_S), c, &err);
    json_t *rows = json_array();
    for (size_t i = 0; i < c->count && status == TERN_OK; i++) {
        const struct tern_ceiling *row = &c->rows[i];
        json_array_append_new(rows, json_pack("{s:s, s:f, s:f, s:s, s:i, s:o}", "kind", row->kind, "argument", row->argument,
                                              "value", row->value, "unit", row->unit, "sm_mhz", row->sm_mhz, "samples",
                                              tern_message_from_samples(row->samples_us, row->sample_count)));
    }
    free(c);
    if (status == TERN_OK)
        return json_pack("{s:o}", "ceilings", rows);
    json_decref(rows);
    if (status == TERN_FAILED) /* a kernel fault may be behind it: the context is not used again */
        s->sticky = true;
    return tern_reply_error(&err);
}

json_t *gpu_control(struct gpu_session *s) {
    struct tern_error err;
    struct tern_control control;
    enum tern_status status = tern_fixed_control(s->fixed, &err);
    if (status == TERN_OK)
        status = tern_control_measure(s->context, s->fixed, &control, &err);
    if (status == TERN_OK)
        return json_pack("{s:f, s:f}", "read_us", control.read_us, "burst_us", control.burst_us);
    if (status == TERN_FAILED)
        s->sticky = true;
    return tern_reply_error(&err);
}
