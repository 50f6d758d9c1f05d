/* Parts of `tune reconcile`: what it proves (reconcile.c, reconcile_load.c) and how it says so (reconcile_report.c). */
#ifndef TERN_COMMANDS_RECONCILE_H
#define TERN_COMMANDS_RECONCILE_H

#include "formats/shard_proof.h"
#include "formats/unpack_proof.h"

#include <stdbool.h>

enum tern_check_state { TERN_CHECK_OK, TERN_CHECK_FAIL, TERN_CHECK_SKIPPED };

/* GPU_LOAD of all layers. */
struct tern_load_proof {
    enum tern_check_state state;
    char device[128], reason[600];          /* reason: why skipped or failed */
    int64_t layers, bytes, weights, packed; /* packed: weights that were decoded from the layout of the kernels too */
    struct tern_difference difference;      /* of all layers; its texts point into `tensor` and `what` */
    char tensor[256], what[32];
};

struct reconcile {
    struct {
        const char *reference, *tp, *backend, *cache;
        bool json, digests;
    } options;
    struct tern_checkpoint checkpoint, other;
    struct tern_linears layers, other_layers;
    int64_t *ranks;
    size_t rank_count;
    struct tern_unpack_proof *unpacked; /* by layer */
    struct tern_split_proof *splits;    /* shard_proof.h */
    struct tern_load_proof load;
};

/* Loads every layer on the device of options.backend, in a worker process. */
void tern_reconcile_load(struct reconcile *r);

/* State and text of each check. The text holds counts and the first difference. */
enum tern_check_state tern_reconcile_unpack_text(const struct reconcile *r, struct tern_str *text);
enum tern_check_state tern_reconcile_load_text(const struct reconcile *r, struct tern_str *text);
enum tern_check_state tern_reconcile_shard_text(const struct reconcile *r, struct tern_str *text);
const char *tern_check_state_name(enum tern_check_state state); /* "OK", "FAIL", "SKIPPED" */

void tern_reconcile_print_digests(const struct reconcile *r);
void tern_reconcile_print_json(const struct reconcile *r);

#endif
