/* The project's three ternary layouts in safetensors, as layers:
 *   (i)   PREFIX.packed_ternary_weight U8 [N, K/4], PREFIX.scales [N, ceil(K/128)]; field 3 is reserved and reads as weight 0
 *   (ii)  PREFIX.packed_ternary_weight I8 [N, K/4], PREFIX.scales [N] or [N, 1]; field 3 is illegal
 *   (iii) PREFIX.ternary_weight I8 [N, K], PREFIX.scales as in (i) or (ii)
 * Scales are F16, BF16 or F32. */
#ifndef TERN_FORMATS_TERNARY_LAYOUTS_H
#define TERN_FORMATS_TERNARY_LAYOUTS_H

#include "formats/linear.h"

extern const struct tern_checkpoint_format tern_checkpoint_format_ternary;

#endif
