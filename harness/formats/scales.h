/* Scales as files hold them, F16, BF16 or F32 at any alignment, read as the float of exactly the same value. */
#ifndef TERN_FORMATS_SCALES_H
#define TERN_FORMATS_SCALES_H

#include "formats/checkpoint.h"

/* True for the types above. */
bool tern_scales_readable(const struct tern_tensor *tensor);
/* Elements [first, first + count) of a readable tensor in memory order; they must exist. */
void tern_scales_read(const struct tern_tensor *tensor, int64_t first, int64_t count, float *out);

#endif
