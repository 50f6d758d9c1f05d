/* Tensor parallelism: which weights of a layer each rank holds, and the rank's own tensors cut from the file.
 * Columns: N is split, each rank has some of the outputs. Rows: K is split, the ranks' outputs are summed.
 * A cut never goes through a packed word, an attention head or a group of scales: it is moved to the next border, which may make the
 * shares uneven, or refused. Groups keep their size: none is made anew. */
#ifndef TERN_FORMATS_SHARD_H
#define TERN_FORMATS_SHARD_H

#include "formats/fusion.h"

enum tern_shard_axis { TERN_SHARD_COLUMNS, TERN_SHARD_ROWS, TERN_SHARD_AXES };

struct tern_range {
    int64_t begin, end;
};

struct tern_shard {                            /* what one rank holds */
    struct tern_range rows[TERN_FUSION_PARTS]; /* of W, one range for each part, one behind the other in the shard */
    int parts;
    struct tern_range k;
    bool uneven;     /* not every rank holds as much */
    bool replicated; /* other ranks hold the same rows: fewer heads of k and v than ranks */
};

/* TERN_FAILED, with the numbers, if the layer cannot be split so. */
enum tern_status tern_shard_plan(const struct tern_linear *layer, const struct tern_fusion *fusion,
                                 enum tern_shard_axis axis, int64_t ranks, int64_t rank, struct tern_shard *shard,
                                 struct tern_error *err);

/* Rows that one packed word or tile of the layer's tensors holds: rows of a cut come in multiples of it. */
int64_t tern_shard_row_unit(const struct tern_linear *layer);

/* A layer in tensors of its own. */
struct tern_cut {
    struct tern_linear layer;
    struct tern_tensor tensors[TERN_LINEAR_PARTS + 1]; /* the last one is g_idx */
    struct tern_mapping memory[TERN_LINEAR_PARTS + 1];
};
/* Cuts these rows, one range behind the other, and these columns out of the layer's tensors, in the format that they have. Each range
 * must begin and end at the units that tern_shard_plan keeps to. Scales and zero points are cut with their groups, or copied in full
 * where the order of the groups is free (act-order: the index keeps the numbers of the whole layer) or there is one group. The caller
 * frees; the layer must outlive the cut. */
void tern_shard_cut(const struct tern_linear *layer, const struct tern_range *rows, int parts, struct tern_range k,
                    struct tern_cut *cut);
void tern_cut_free(struct tern_cut *cut);

#endif
