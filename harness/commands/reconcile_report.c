/* Lines, table and JSON of `tune reconcile`. Judges by what was proved: a check that proved nothing is not OK. */
#include "commands/reconcile.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *tern_check_state_name(enum tern_check_state state) {
    static const char *const names[] = {"OK", "FAIL", "SKIPPED"};
    return names[state];
}

static const char *plural(int64_t count) {
    return count == 1 ? "" : "s";
}

// ---- CPU_UNPACK -----------------------------------------------------------------------------------------------------------

enum tern_check_state tern_reconcile_unpack_text(const struct reconcile *r, struct tern_str *text) {
    int64_t weights = 0, values = 0, wrong = 0;
    const struct tern_unpack_proof *first = NULL;
    const char *name = NULL;
    for (size_t i = 0; i < r->layers.count; i++) {
        const struct tern_unpack_proof *p = &r->unpacked[i];
        weights += p->weights;
        values += p->difference.count;
        if (tern_unpack_proven(p))
            continue;
        wrong++;
        if (!first) {
            first = p;
            name = r->layers.items[i].name;
        }
    }
    if (!first) {
        tern_str_printf(text, "%zu layer%s, %" PRId64 " weights equal the second decode", r->layers.count,
                        plural((int64_t)r->layers.count), weights);
        if (r->options.reference)
            tern_str_printf(text, " and %s", r->options.reference);
        return TERN_CHECK_OK;
    }
    tern_str_printf(text, "%" PRId64 " of %zu layer%s, %" PRId64 " value%s differ; the first: ", wrong, r->layers.count,
                    plural((int64_t)r->layers.count), values, plural(values));
    if (first->difference.count) {
        tern_difference_text(&first->difference, text);
        tern_str_printf(text, " (against %s)", first->against);
    } else
        tern_str_printf(text, "%s: %s", name, first->fault[0] ? first->fault : "nothing was compared");
    return TERN_CHECK_FAIL;
}

// ---- GPU_LOAD -------------------------------------------------------------------------------------------------------------

enum tern_check_state tern_reconcile_load_text(const struct reconcile *r, struct tern_str *text) {
    const struct tern_load_proof *p = &r->load;
    if (p->difference.count) {
        tern_str_printf(text, "%" PRId64 " value%s differ on %s; the first: ", p->difference.count,
                        plural(p->difference.count), p->device);
        tern_difference_text(&p->difference, text);
    } else if (p->state != TERN_CHECK_OK)
        tern_str_append(text, p->reason);
    else {
        tern_str_printf(text,
                        "%" PRId64 " layer%s, %" PRId64 " bytes on %s equal the file's, %" PRId64
                        " weights decoded there equal the host's",
                        p->layers, plural(p->layers), p->bytes, p->device, p->weights);
        if (p->packed)
            tern_str_printf(text, ", %" PRId64 " of them packed for kernels too", p->packed);
    }
    return p->state;
}

// ---- TP_SHARD -------------------------------------------------------------------------------------------------------------

struct split_counts {
    int64_t proven, uneven, replicated, refused, failed, weights, layers;
    const struct tern_split_proof *first_uneven, *first_refused, *first_failed;
};

/* "NAME, rows at 4 ranks". */
static void split_name(const struct reconcile *r, const struct tern_split_proof *proof, struct tern_str *text) {
    const size_t at = (size_t)(proof - r->splits), each = r->rank_count * TERN_SHARD_AXES;
    tern_str_printf(text, "%s, %s at %" PRId64 " rank%s", r->layers.items[at / each].name,
                    tern_shard_axis_name((enum tern_shard_axis)(at % TERN_SHARD_AXES)),
                    r->ranks[at % each / TERN_SHARD_AXES], plural(r->ranks[at % each / TERN_SHARD_AXES]));
}

/* Layers that cannot be decoded have failed in CPU_UNPACK and count nowhere here. */
static void count_splits(const struct reconcile *r, struct split_counts *c) {
    const size_t each = r->rank_count * TERN_SHARD_AXES;
    *c = (struct split_counts){0};
    for (size_t i = 0; i < r->layers.count * each; i++) {
        const struct tern_split_proof *p = &r->splits[i];
        if (r->layers.items[i / each].error[0])
            continue;
        c->layers += i % each == 0;
        c->weights += p->weights;
        c->proven += p->state == TERN_SPLIT_PROVEN;
        c->refused += p->state == TERN_SPLIT_REFUSED;
        c->failed += p->state == TERN_SPLIT_FAILED;
        c->replicated += p->state == TERN_SPLIT_PROVEN && p->replicated;
        c->uneven += p->state == TERN_SPLIT_PROVEN && p->uneven;
        if (p->state == TERN_SPLIT_PROVEN && p->uneven && !c->first_uneven)
            c->first_uneven = p;
        if (p->state == TERN_SPLIT_REFUSED && !c->first_refused)
            c->first_refused = p;
        if (p->state == TERN_SPLIT_FAILED && !c->first_failed)
            c->first_failed = p;
    }
}

static void add_counts(const struct reconcile *r, const struct split_counts *c, struct tern_str *text) {
    if (c->replicated)
        tern_str_printf(text, "; %" PRId64 " with heads on several ranks", c->replicated);
    if (c->first_uneven) {
        tern_str_printf(text, "; %" PRId64 " uneven (", c->uneven);
        split_name(r, c->first_uneven, text);
        tern_str_append(text, ")");
    }
    if (c->first_refused) {
        tern_str_printf(text, "; %" PRId64 " refused (", c->refused);
        split_name(r, c->first_refused, text);
        tern_str_printf(text, ": %s)", c->first_refused->refusal);
    }
}

enum tern_check_state tern_reconcile_shard_text(const struct reconcile *r, struct tern_str *text) {
    struct split_counts c;
    count_splits(r, &c);
    if (c.layers == 0) {
        tern_str_append(text, "no layer can be decoded");
        return TERN_CHECK_SKIPPED;
    }
    if (c.first_failed) {
        tern_str_printf(text, "%" PRId64 " of %" PRId64 " splits differ; the first: ", c.failed, c.failed + c.proven);
        split_name(r, c.first_failed, text);
        tern_str_printf(text, ", rank %" PRId64 ": ", c.first_failed->rank);
        tern_difference_text(&c.first_failed->difference, text);
        return TERN_CHECK_FAIL;
    }
    tern_str_printf(text, "%" PRId64 " split%s of %" PRId64 " layer%s proven, %" PRId64 " weights met", c.proven,
                    plural(c.proven), c.layers, plural(c.layers), c.weights);
    add_counts(r, &c, text);
    /* A number of ranks that was asked for must be possible; of those that nobody named, what is possible is proved. */
    return c.proven == 0 || (c.refused && r->options.tp) ? TERN_CHECK_FAIL : TERN_CHECK_OK;
}

// ---- digests and JSON -----------------------------------------------------------------------------------------------------

void tern_reconcile_print_digests(const struct reconcile *r) {
    for (size_t i = 0; i < r->layers.count; i++)
        printf("%-32s  %s\n", r->unpacked[i].digest[0] ? r->unpacked[i].digest : "-", r->layers.items[i].name);
}

static json_t *text_or_null(const char *text) {
    json_t *string = text ? json_string(text) : NULL; /* a path need not be UTF-8 */
    return string ? string : json_null();
}

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *difference_json(const struct tern_difference *d) {
    if (!d->count)
        return json_null();
    return json_pack("{s:o,s:s,s:I,s:I,s:o,s:o}", "tensor", text_or_null(d->tensor), "what", d->what, "row",
                     (json_int_t)d->row, "k", (json_int_t)d->k, "expected", number(d->expected), "got", number(d->got));
}

static json_t *splits_json(const struct reconcile *r, size_t layer) {
    static const char *const states[] = {"proven", "refused", "failed"};
    json_t *list = json_array();
    for (size_t i = 0; i < r->rank_count * TERN_SHARD_AXES; i++) {
        const struct tern_split_proof *p = &r->splits[layer * r->rank_count * TERN_SHARD_AXES + i];
        json_array_append_new(list,
                              json_pack("{s:I,s:s,s:s,s:b,s:b,s:o,s:o}", "ranks", (json_int_t)r->ranks[i / TERN_SHARD_AXES],
                                        "axis", tern_shard_axis_name((enum tern_shard_axis)(i % TERN_SHARD_AXES)), "state",
                                        states[p->state], "uneven", p->uneven, "replicated", p->replicated, "first",
                                        difference_json(&p->difference), "detail", text_or_null(p->refusal)));
    }
    return list;
}

static json_t *layer_json(const struct reconcile *r, size_t i) {
    const struct tern_linear *layer = &r->layers.items[i];
    const struct tern_unpack_proof *p = &r->unpacked[i];
    return json_pack("{s:s,s:s,s:I,s:I,s:s,s:I,s:I,s:o,s:o,s:o}", "name", layer->name, "checkpoint_format",
                     layer->checkpoint_format, "n", (json_int_t)layer->n, "k", (json_int_t)layer->k, "digest", p->digest,
                     "weights", (json_int_t)p->weights, "differences", (json_int_t)p->difference.count, "first",
                     difference_json(&p->difference), "fault", text_or_null(p->fault), "splits", splits_json(r, i));
}

static json_t *check_json(enum tern_check_state state, struct tern_str *text) {
    json_t *object =
        json_pack("{s:s,s:o}", "status", tern_check_state_name(state), "detail", text_or_null(tern_str_text(text)));
    tern_str_free(text);
    return object;
}

void tern_reconcile_print_json(const struct reconcile *r) {
    struct tern_str unpack = {0}, load = {0}, shard = {0};
    const enum tern_check_state states[] = {tern_reconcile_unpack_text(r, &unpack), tern_reconcile_load_text(r, &load),
                                            tern_reconcile_shard_text(r, &shard)};
    json_t *tensors = json_array(), *ranks = json_array();
    for (size_t i = 0; i < r->rank_count; i++)
        json_array_append_new(ranks, json_integer((json_int_t)r->ranks[i]));
    for (size_t i = 0; i < r->layers.count; i++)
        json_array_append_new(tensors, layer_json(r, i));
    json_t *root = json_pack("{s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o}", "path", text_or_null(r->checkpoint.path), "container",
                             r->checkpoint.container, "reference", text_or_null(r->options.reference), "ranks", ranks,
                             "CPU_UNPACK", check_json(states[0], &unpack), "GPU_LOAD", check_json(states[1], &load),
                             "TP_SHARD", check_json(states[2], &shard), "tensors", tensors);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    putchar('\n');
    json_decref(root);
}
