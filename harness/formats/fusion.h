/* Logical parts of a layer's rows: q, k and v of a fused layer, gate and up, and how many attention heads a part has. */
#ifndef TERN_FORMATS_FUSION_H
#define TERN_FORMATS_FUSION_H

#include "formats/linear.h"

#define TERN_FUSION_PARTS 3

/* What config.json beside the weights says of attention; 0: nothing. */
struct tern_heads {
    int64_t heads, kv_heads, head_rows;
};
void tern_heads_read(const struct tern_checkpoint *checkpoint, struct tern_heads *heads);

struct tern_fusion {
    int count;
    struct {
        int64_t rows, heads; /* heads 0: not known, or no attention */
    } parts[TERN_FUSION_PARTS];
    char unknown[200]; /* why the sizes of the parts are not known; empty: they are */
};
/* Parts by the last word of the layer's name: qkv_proj, wqkv, gate_up_proj, w13, ...; others are one part. Sizes are never guessed. */
void tern_fusion_find(const struct tern_linear *layer, const struct tern_heads *heads, struct tern_fusion *fusion);

#endif
