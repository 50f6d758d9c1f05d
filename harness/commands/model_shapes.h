/* Shapes of a model, made from its checkpoint: for `tune shapes` and `tune run --weights`. */
#ifndef TERN_COMMANDS_MODEL_SHAPES_H
#define TERN_COMMANDS_MODEL_SHAPES_H

#include "config/shapes.h"
#include "formats/model.h"

/* Fills `shapes` with the layers that kernels can have (N a multiple of 8, K of 32), their formats, and the batch sizes that the
 * shapes files of configs/ have. What is left out is named in `notes`. TERN_FAILED if nothing is left. */
enum tern_status tern_model_shapes(const struct tern_model_file *file, struct tern_shapes *shapes, struct tern_strs *notes,
                                   struct tern_error *err);

/* The shapes file, Lua. */
void tern_shapes_text(const struct tern_shapes *shapes, struct tern_str *out);

#endif
