/* CPU_UNPACK of `tune reconcile`: every layer decoded twice, by code that shares nothing, and compared with a reference checkpoint. */
#ifndef TERN_FORMATS_UNPACK_PROOF_H
#define TERN_FORMATS_UNPACK_PROOF_H

#include "core/hash.h"
#include "formats/difference.h"

/* Another checkpoint of the same weights. Layers are matched by name; where it has no quantised layer of a name, its tensor
 * NAME.weight (or NAME) of F16, BF16 or F32, [N, K]. */
struct tern_reference {
    const struct tern_checkpoint *checkpoint;
    const struct tern_linears *layers;
};

struct tern_unpack_proof {
    char digest[TERN_HASH_CHARS]; /* of the canonical form; "" if the layer cannot be decoded */
    int64_t weights;              /* that were compared */
    struct tern_difference difference;
    const char *against; /* what the first difference is against: "the second decode", "the reference" */
    char fault[600];     /* what is wrong with the layer, or missing in the reference; empty: nothing */
};

/* Proves all layers, on all cores. proofs[i] belongs to layers->items[i]. reference NULL: there is none.
 * Digest: XXH3-128 over rows, of each its K codes, its zero points and its scales as binary32, then the index of groups if the
 * layer is act-order; each run behind its length in 8 bytes. The same weights have the same digest however a file packs them.
 * Memory: a few MiB a core; pages of the file are given back behind. */
void tern_unpack_prove(const struct tern_checkpoint *checkpoint, const struct tern_linears *layers,
                       const struct tern_reference *reference, struct tern_unpack_proof *proofs);

/* True if nothing differs and nothing is wrong. */
bool tern_unpack_proven(const struct tern_unpack_proof *proof);

/* The digest alone, of one layer that was found without error. */
void tern_linear_digest(const struct tern_linear *layer, char digest[TERN_HASH_CHARS]);

#endif
