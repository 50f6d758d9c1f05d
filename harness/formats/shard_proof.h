/* TP_SHARD of `tune reconcile`: every layer cut for every number of ranks along both axes, and every weight met again. */
#ifndef TERN_FORMATS_SHARD_PROOF_H
#define TERN_FORMATS_SHARD_PROOF_H

#include "formats/difference.h"
#include "formats/shard.h"

enum tern_split_state { TERN_SPLIT_PROVEN, TERN_SPLIT_REFUSED, TERN_SPLIT_FAILED };

struct tern_split_proof { /* of one layer, one number of ranks, one axis */
    enum tern_split_state state;
    bool uneven, replicated;
    int64_t weights; /* met in the shards */
    int64_t rank;    /* of the first difference */
    struct tern_difference difference;
    char refusal[300]; /* with the numbers */
};

/* proofs[(layer * count + i) * TERN_SHARD_AXES + axis] is of layers->items[layer] among ranks[i]. A layer with an error is refused with
 * it. Proves, with the decoder in use on tensors cut out of the file:
 *   each (n, k) has the code, the zero point and the scale bits that it has in the whole layer;
 *   the ranks hold every row and column, and none twice but where heads are replicated;
 *   with integers x: columns, the ranks' sums of x * (q - z) by row and group are those of the whole layer; rows, they add up to it. */
void tern_shards_prove(const struct tern_checkpoint *checkpoint, const struct tern_linears *layers, const int64_t *ranks,
                       size_t count, struct tern_split_proof *proofs);

const char *tern_shard_axis_name(enum tern_shard_axis axis); /* "columns", "rows" */

#endif
