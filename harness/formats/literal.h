/* The second decode: the tensors of a layer found by their names, for the element by element formulas of kernels/literal.h. */
#ifndef TERN_FORMATS_LITERAL_H
#define TERN_FORMATS_LITERAL_H

#define TERN_LITERAL static inline __attribute__((unused))
#include "../kernels/literal.h"
#include "formats/linear.h"

/* The tensors that one literal layer reads, in the order codes, zeros, scales, g_idx. NULL: it has none. */
struct tern_literal_tensors {
    const struct tern_tensor *codes, *zeros, *scales, *g_idx;
};

/* Fills both for a layer that was found without error; `literal` points into the mapped file. Takes from the layer what was decided
 * about it (its name, format, sizes, version), and nothing of how it is decoded. TERN_INTERNAL if it does not know the format. */
enum tern_status tern_literal_find(const struct tern_checkpoint *checkpoint, const struct tern_linear *layer,
                                   struct tern_literal *literal, struct tern_literal_tensors *tensors,
                                   struct tern_error *err);

#endif
