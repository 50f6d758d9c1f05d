/* Real weights for a worker: what a request says of a checkpoint's layer, decoded. */
#ifndef TERN_WORKER_REAL_WEIGHTS_H
#define TERN_WORKER_REAL_WEIGHTS_H

#include "formats/weights.h"

#include <jansson.h>

/* True if the request names a checkpoint: "weights" (path), "layer" and "digest" of its bits. */
bool tern_real_weights_asked(const json_t *request);
/* Rows [first, first + rows) of the layer, rows 0: all, first -1: the last ones; the caller frees them. TERN_FAILED if the layer's bits are no longer those that
 * the run began with, or as tern_model_weights. */
enum tern_status tern_real_weights(const json_t *request, const struct tern_format *format, int64_t first, int64_t rows,
                                   struct tern_weights *weights, struct tern_error *err);

#endif
