/* CPU_UNPACK: blocks of rows from the decoder in use, element by element from kernels/literal.h, and from a reference.
 * Keeps one block of each a thread, never a layer. */
#include "formats/unpack_proof.h"

#include "formats/census.h"
#include "formats/linear_parts.h"
#include "formats/literal.h"
#include "formats/parallel.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct job {
    const struct tern_checkpoint *checkpoint;
    const struct tern_linears *layers;
    const struct tern_reference *reference;
    struct tern_unpack_proof *proofs;
};

// ---- digest ---------------------------------------------------------------------------------------------------------------

static void digest_rows(struct tern_hash_state *hash, const struct tern_linear *layer, const struct tern_linear_rows *rows) {
    const size_t k = (size_t)layer->k, groups = (size_t)layer->groups;
    for (size_t i = 0; i < (size_t)rows->count; i++) {
        tern_hash_add(hash, rows->codes + i * k, k);
        tern_hash_add(hash, rows->zeros + i * groups, groups);
        tern_hash_add(hash, rows->scales + i * groups, groups * sizeof *rows->scales);
    }
}

static void digest_end(struct tern_hash_state *hash, const struct tern_linear *layer, const int32_t *index,
                       char digest[TERN_HASH_CHARS]) {
    if (layer->act_order)
        tern_hash_add(hash, index, (size_t)layer->k * sizeof *index);
    tern_hash_end(hash, digest);
}

void tern_linear_digest(const struct tern_linear *layer, char digest[TERN_HASH_CHARS]) {
    struct tern_hash_state *hash = tern_hash_new();
    struct tern_linear_rows rows;
    const int64_t block = tern_linear_block_rows(layer);
    int32_t *index = tern_alloc((size_t)layer->k * sizeof *index);
    tern_linear_group_index(layer, index);
    tern_linear_rows_alloc(layer, block, &rows);
    for (int64_t n = 0; n < layer->n; n += block) {
        tern_linear_decode(layer, n, n + block < layer->n ? n + block : layer->n, &rows);
        digest_rows(hash, layer, &rows);
    }
    digest_end(hash, layer, index, digest);
    tern_linear_rows_free(&rows);
    free(index);
}

// ---- the second decode ----------------------------------------------------------------------------------------------------

struct second {
    struct tern_literal literal;
    struct tern_literal_tensors tensors;
};

static void compare_groups(const struct second *s, const struct tern_linear *layer, const struct tern_linear_rows *rows,
                           int64_t i, struct tern_difference *d) {
    const struct tern_tensor *zeros = s->tensors.zeros ? s->tensors.zeros : s->tensors.codes;
    const struct tern_tensor *scales = s->tensors.scales ? s->tensors.scales : s->tensors.codes;
    for (int64_t g = 0; g < layer->groups; g++) {
        const int64_t at = i * layer->groups + g, n = rows->first + i;
        const int zero = tern_literal_zero(&s->literal, n, g);
        const unsigned bits = tern_literal_scale(&s->literal, n, g);
        float scale;
        memcpy(&scale, &bits, sizeof scale);
        if (zero != rows->zeros[at])
            tern_difference_note(d, zeros, "zero point", n, g * layer->group, zero, rows->zeros[at]);
        if (!tern_scales_equal(scale, rows->scales[at]))
            tern_difference_note(d, scales, "scale", n, g * layer->group, (double)scale, (double)rows->scales[at]);
    }
}

/* Row n with the format as a constant, so that one formula is left of the many. */
static inline __attribute__((always_inline)) void compare_codes(struct tern_literal l, enum tern_literal_format format,
                                                                const struct tern_tensor *tensor, int64_t n,
                                                                const uint8_t *codes, struct tern_difference *d) {
    l.format = format;
    for (int64_t k = 0; k < l.k; k++) {
        const int code = tern_literal_code(&l, n, k);
        if (code != codes[k])
            tern_difference_note(d, tensor, "code", n, k, code, codes[k]);
    }
}

#define COMPARE(format)                                                                                                     \
    case format:                                                                                                            \
        compare_codes(s->literal, format, s->tensors.codes, n, codes, d);                                                   \
        break
static void compare_row(const struct second *s, int64_t n, const uint8_t *codes, struct tern_difference *d) {
    switch ((enum tern_literal_format)s->literal.format) {
        COMPARE(TERN_LITERAL_GPTQ);
        COMPARE(TERN_LITERAL_GPTQ_PLANAR);
        COMPARE(TERN_LITERAL_AWQ);
        COMPARE(TERN_LITERAL_PACKED);
        COMPARE(TERN_LITERAL_PACKED_DENSE);
        COMPARE(TERN_LITERAL_TERNARY_I);
        COMPARE(TERN_LITERAL_TERNARY_II);
        COMPARE(TERN_LITERAL_TERNARY_III);
        COMPARE(TERN_LITERAL_BITNET);
        COMPARE(TERN_LITERAL_BITNET_DIVIDE);
        COMPARE(TERN_LITERAL_BITNET_GPU);
        COMPARE(TERN_LITERAL_TQ1_0);
        COMPARE(TERN_LITERAL_TQ2_0);
        COMPARE(TERN_LITERAL_Q2_0);
    }
}
#undef COMPARE

static void compare_second(const struct second *s, const struct tern_linear *layer, const struct tern_linear_rows *rows,
                           struct tern_difference *d) {
    for (int64_t i = 0; i < rows->count; i++) {
        compare_row(s, rows->first + i, rows->codes + i * layer->k, d);
        compare_groups(s, layer, rows, i, d);
    }
}

/* The group of each k. */
static void compare_index(const struct second *s, const struct tern_linear *layer, const int32_t *index,
                          struct tern_difference *d) {
    for (int64_t k = 0; k < layer->k; k++) {
        const int64_t group = tern_literal_group(&s->literal, k);
        if (group != index[k])
            tern_difference_note(d, s->tensors.g_idx ? s->tensors.g_idx : s->tensors.codes, "group", 0, k, (double)group,
                                 index[k]);
    }
}

// ---- the reference --------------------------------------------------------------------------------------------------------

/* A layer of the reference: quantised, or a plain tensor. */
struct other {
    const struct tern_linear *layer;
    const struct tern_tensor *plain;
    struct tern_linear_rows rows;
    int32_t *index;
};

static const struct tern_tensor *find_plain(const struct tern_checkpoint *checkpoint, const char *module) {
    const struct tern_tensor *tensor = tern_linear_sibling(checkpoint, module, ".weight");
    return tensor ? tensor : tern_checkpoint_find(checkpoint, module);
}

/* Finds the layer of the same name, and says in `fault` why it cannot be compared. */
static bool other_open(const struct tern_reference *reference, const struct tern_linear *layer, int64_t block,
                       struct other *other, char *fault, size_t size) {
    char shape[200];
    *other = (struct other){0};
    for (size_t i = 0; i < reference->layers->count && !other->layer; i++)
        if (strcmp(reference->layers->items[i].name, layer->name) == 0)
            other->layer = &reference->layers->items[i];
    if (other->layer && other->layer->error[0])
        tern_str_format(fault, size, "the reference's layer is broken: %s", other->layer->error);
    else if (other->layer && (other->layer->n != layer->n || other->layer->k != layer->k))
        tern_str_format(fault, size, "the reference has N = %" PRId64 ", K = %" PRId64 ", not %" PRId64 ", %" PRId64,
                        other->layer->n, other->layer->k, layer->n, layer->k);
    if (fault[0])
        return false;
    if (other->layer) {
        tern_linear_rows_alloc(other->layer, block, &other->rows);
        other->index = tern_alloc((size_t)layer->k * sizeof *other->index);
        tern_linear_group_index(other->layer, other->index);
        return true;
    }
    other->plain = find_plain(reference->checkpoint, layer->name);
    if (!other->plain || !tern_tensor_holds_scales(other->plain))
        tern_str_format(fault, size, "the reference has no layer of this name");
    else if (other->plain->dims != 2 || other->plain->shape[0] != layer->n || other->plain->shape[1] != layer->k)
        tern_str_format(fault, size, "the reference has shape %s, not [%" PRId64 ", %" PRId64 "]",
                        tern_tensor_shape_text(other->plain, shape, sizeof shape), layer->n, layer->k);
    return !fault[0];
}

static void other_close(struct other *other) {
    if (other->layer)
        tern_linear_forget(other->layer);
    if (other->plain)
        tern_tensor_forget(other->plain);
    tern_linear_rows_free(&other->rows);
    free(other->index);
}

/* Value of weight (i, k) of the block: (q - z) * scale has at most 9 + 24 bits, so a double holds it exactly. */
static inline double value_of(const struct tern_linear *layer, const struct tern_linear_rows *rows, const int32_t *index,
                              int64_t i, int64_t k) {
    const int64_t at = i * layer->groups + index[k];
    return (double)(rows->codes[i * layer->k + k] - rows->zeros[at]) * (double)rows->scales[at];
}

static void compare_other(struct other *other, const struct tern_linear *layer, const struct tern_linear_rows *rows,
                          const int32_t *index, struct tern_difference *d) {
    if (other->layer)
        tern_linear_decode(other->layer, rows->first, rows->first + rows->count, &other->rows);
    for (int64_t i = 0; i < rows->count; i++)
        for (int64_t k = 0; k < layer->k; k++) {
            const double got = value_of(layer, rows, index, i, k);
            const double expected = other->layer ? value_of(other->layer, &other->rows, other->index, i, k)
                                                 : (double)tern_tensor_scale(other->plain, (rows->first + i) * layer->k + k);
            if (!(got == expected))
                tern_difference_note(d, layer->parts[0], "value", rows->first + i, k, expected, got);
        }
}

// ---- a layer --------------------------------------------------------------------------------------------------------------

/* What `tune inspect` finds wrong is wrong here too, also where both decodes agree about it. */
static void judge(const struct tern_linear *layer, const struct tern_census *census, struct tern_unpack_proof *proof) {
    struct tern_str detail = {0};
    if (tern_census_judge(layer, census, &detail) != TERN_LAYER_OK && !proof->fault[0])
        tern_str_copy(proof->fault, sizeof proof->fault, tern_str_text(&detail));
    tern_str_free(&detail);
}

static void prove_rows(const struct second *second, struct other *other, const struct tern_linear *layer,
                       struct tern_linear_rows *rows, const int32_t *index, struct tern_unpack_proof *proof) {
    const int64_t before = proof->difference.count;
    compare_second(second, layer, rows, &proof->difference);
    if (!proof->against && proof->difference.count > before)
        proof->against = "the second decode";
    if (other)
        compare_other(other, layer, rows, index, &proof->difference);
    if (!proof->against && proof->difference.count > before)
        proof->against = "the reference";
    proof->weights += rows->count * layer->k;
}

static void prove_layer(const struct job *job, const struct tern_linear *layer, struct tern_unpack_proof *proof) {
    struct second second;
    struct other other = {0};
    struct tern_linear_rows rows;
    struct tern_census census;
    struct tern_error err = {0};
    if (layer->error[0] || tern_literal_find(job->checkpoint, layer, &second.literal, &second.tensors, &err)) {
        tern_str_copy(proof->fault, sizeof proof->fault, layer->error[0] ? layer->error : err.text);
        return;
    }
    const int64_t block = tern_linear_block_rows(layer);
    const bool compared =
        job->reference && other_open(job->reference, layer, block, &other, proof->fault, sizeof proof->fault);
    struct tern_hash_state *hash = tern_hash_new();
    int32_t *index = tern_alloc((size_t)layer->k * sizeof *index);
    tern_linear_group_index(layer, index);
    compare_index(&second, layer, index, &proof->difference);
    proof->against = proof->difference.count ? "the second decode" : NULL;
    tern_linear_rows_alloc(layer, block, &rows);
    tern_census_begin(&census);
    for (int64_t n = 0; n < layer->n; n += block) {
        tern_linear_decode(layer, n, n + block < layer->n ? n + block : layer->n, &rows);
        digest_rows(hash, layer, &rows);
        tern_census_rows(layer, &rows, index, &census);
        prove_rows(&second, compared ? &other : NULL, layer, &rows, index, proof);
        tern_linear_forget_behind(layer, n, block);
    }
    digest_end(hash, layer, index, proof->digest);
    judge(layer, &census, proof);
    other_close(&other);
    tern_linear_forget(layer);
    tern_linear_rows_free(&rows);
    free(index);
}

static void prove_one(void *context, int64_t i) {
    const struct job *job = context;
    prove_layer(job, &job->layers->items[i], &job->proofs[i]);
}

void tern_unpack_prove(const struct tern_checkpoint *checkpoint, const struct tern_linears *layers,
                       const struct tern_reference *reference, struct tern_unpack_proof *proofs) {
    struct job job = {checkpoint, layers, reference, proofs};
    memset(proofs, 0, layers->count * sizeof *proofs);
    tern_parallel_each((int64_t)layers->count, "unpack", prove_one, &job);
}

bool tern_unpack_proven(const struct tern_unpack_proof *proof) {
    return proof->weights > 0 && proof->difference.count == 0 && !proof->fault[0];
}
