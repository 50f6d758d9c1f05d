/* Weights of a request from a checkpoint. See real_weights.h. */
#include "worker/real_weights.h"

#include "core/hash.h"
#include "formats/model.h"
#include "worker/message.h"

#include <string.h>

bool tern_real_weights_asked(const json_t *request) {
    return tern_message_text(request, "weights")[0] != '\0';
}

enum tern_status tern_real_weights(const json_t *request, const struct tern_format *format, int64_t first, int64_t rows,
                                   struct tern_weights *weights, struct tern_error *err) {
    const char *path = tern_message_text(request, "weights"), *name = tern_message_text(request, "layer");
    char digest[TERN_HASH_CHARS];
    struct tern_model_file file;
    enum tern_status status = tern_model_open(path, true, &file, err);
    const struct tern_model_layer *layer = status ? NULL : tern_model_layer(&file.model, name);
    if (!status && !layer)
        status = tern_error_set(err, TERN_FAILED, "%s: there is no layer %s any more", path, name);
    if (layer) {
        tern_model_layer_digest(layer, digest);
        if (strcmp(digest, tern_message_text(request, "digest")) != 0)
            status = tern_error_set(err, TERN_FAILED, "%s: layer %s has changed since the run began", path, name);
    }
    if (!status)
        status =
            tern_model_weights(layer, format, first < 0 ? layer->n - rows : first, rows ? rows : layer->n, weights, err);
    tern_model_close(&file);
    return status;
}
