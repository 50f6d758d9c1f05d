/* Replays in the regime that a request asks for: on a busy device, on a cool one, or under load (docs/measuring.md). */
#include "worker/gpu_session.h"

#include "worker/message.h"

#define WARM_S 0.04 /* under load: before the first sample, and of all samples of a visit (tuning.md) */
#define LOAD_S 0.04

enum tern_status gpu_regime_enter(struct gpu_session *s, const json_t *request, struct tern_error *err) {
    s->cool = json_is_true(json_object_get(request, "cool"));
    return s->cool && !s->flush.graph ? tern_flush_open(s->context, s->fixed, &s->flush, err) : TERN_OK;
}

enum tern_status gpu_times(struct gpu_session *s, struct tern_graph *const *graphs, size_t count, double *us,
                           struct tern_error *err) {
    return s->cool ? tern_graph_times_cool(s->context, s->flush.graph, graphs, count, us, err)
                   : tern_graph_times(s->context, graphs, count, us, err);
}

enum tern_status gpu_times_loaded(struct gpu_session *s, struct tern_graph *graph, double *us, struct tern_error *err) {
    return tern_graph_times_loaded(s->context, graph, WARM_S, LOAD_S, GPU_LOADED_SAMPLES, us, err);
}
